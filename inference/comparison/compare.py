"""Compare two samples: do they differ, where, at what scale, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import computing, one_thread
from ..core.progress import progress_bar
from ..data.checks import (
    as_sample,
    check_count,
    check_flag,
    check_same_keys,
    check_same_rows,
    column_names,
    default_names,
    pluralize,
)
from ..data.new_rows import as_weights
from ..permutation.null_distribution import (
    check_permutations,
    few_rows_note,
    in_stages,
    monte_carlo_error,
    p_value,
)
from ..permutation.pool import pool_pairs, pool_rows, pool_weighted
from ..permutation.pooled_sample import PooledSample
from ..permutation.samples import TwoSamples
from ..statistics.combined import CombinedStatistic, choose_statistics
from ..statistics.kernels import KernelFunction
from ..statistics.label_bayes_factor import LabelBayesFactors
from ..statistics.local_differences import MAX_JOINT_ONLY
from .belief import Belief, belief
from .comparison import Comparison
from .detectable import detectable_shift
from .effect import effect
from .logit import MOST_POINTS, with_logit
from .named import named
from .values import kernel_values
from .weighing import Weighing

if TYPE_CHECKING:
    from bke.models.kernels.base import Covariance, Kernel

Labels: TypeAlias = Literal["auto", "gaussian", "logit"]
#: Of fewer rows, and a smaller share, labels are anything but normal.
FEW_ROWS, SMALL_SHARE = 30, 0.05


def compare(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    alpha: float = 0.05,
    permutations: int = 999,
    sequential: bool = True,
    paired: bool = False,
    weights: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    labels: Labels = "auto",
    kernel: Covariance | type[Kernel] | None = None,
    columns: Sequence[str] | None = None,
    names: tuple[str, str] = ("P", "Q"),
    seed: int = 0,
    progress: bool = True,
) -> Comparison:
    """Compare two samples: one answer whose parts cannot disagree.

    - Do they differ? One permutation test at an exact level, of evidence at all scales, in
      location, in covariances and at the most conspicuous place together.
    - Where? Places and scales named simultaneously, only if that test rejects.
    - At what scale, and how sure is that? The posterior of a difference, a Gaussian process over
      the labels of the pooled rows, with its probability.
    - How much? The probability that a row of P is told from one of Q (AUC), by a rule learned from
      other rows.

    Args:
        P: first sample, shape (m, D) or (m,).
        Q: second sample, shape (n, D) or (n,), of the same columns.
        alpha: level of the test and of the places together, and of intervals.
        permutations: B; the smallest p-value is 1 / (1 + B).
        sequential: of more than 9998 permutations draw the first 999, and ten times as many only
            where p is not above 4 ``alpha`` by these, at the same level
            (:mod:`bke.inference.permutation.null_distribution`); else all at once.
        paired: row i of P belongs to row i of Q, and they may depend on each other: relabellings
            swap the two, and the errors that the posterior reckons with are those of pairs.
        weights: of the rows of P and of Q, (m,) and (n,), positive or 0, in any unit; ``None`` in
            place of one counts its rows alike; a pandas Series needs the row labels of its sample,
            if that has any. Those of a survey or of importance sampling: a row
            that was seen k times is to be given k times. The test turns the signs of errors
            instead of relabelling, at a level that is approximate: 0.02 to 0.08 for 0.05, and 0.16
            with 100 rows of importance sampling beside 600 (``benchmarks/results/weights.md``).
        labels: what the posterior takes labels for: ``"gaussian"``, in closed form, or ``"logit"``,
            yes or no, whose ratio of densities is positive; ten times slower, for up to 20 000
            different rows. ``"auto"`` takes yes or no only where one sample is very small beside
            the other. The test and the places are the same.
        kernel: of the Gaussian process over labels, a kernel or a kernel class; by default the
            squared exponential. The lengths in it are multiples of the difference's
            ``lengthscale``, in standard deviations of the columns, and its k(x, x) multiplies the
            variance that is learned; one with a length per column weighs columns against each
            other. The test, the places and the kernel of a witness are the same.
        columns: names of the columns; by default those of data frames, or x, or x0, x1, ...; of one
            column whose name is not the same in both x, which a note tells of data frames.
        names: what the samples are called in words and pictures.
        seed: of the permutations.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    alpha = check_permutations(permutations, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_flag(paired, "paired")
    _check_labels(labels)
    names = sample_names(names)
    pair, columns, own_names, left_out, apart = _samples(P, Q, columns, paired)
    pair, given = _weighted(pair, weights, (P, Q))
    values = kernel_values(kernel, pair.first.shape[1])

    with one_thread() if kernel is None else computing():  # JAX is for kernels that are given
        test = in_stages(
            lambda count: _tested(pair, count, paired, given, seed, progress=progress),
            permutations,
            alpha,
            sequential=sequential,
        )
        rows, differ = test.rows, test.pvalue <= alpha
        believed = _believed(rows, values, labels)
        told = effect(believed, rows, alpha)
        shift = None if differ else detectable_shift(rows, alpha)
    return Comparison(
        pvalue=test.pvalue,
        pvalue_error=test.error(),
        alpha=alpha,
        permutations=test.permutations,
        named=named(
            test.combined.local,
            rows.scale,
            alpha,
            differ=differ,
            weighing=Weighing.of(rows)
            if len(columns) <= MAX_JOINT_ONLY
            else None,  # on all columns
        ),
        belief=believed,
        effect=told.auc,
        effect_interval=told.interval,
        detectable_shift=shift,
        rows=rows.observed(),
        components=test.combined.summaries(),
        columns=columns,
        names=names,
        seed=seed,
        left_out=left_out,
        own_names=own_names,
        notes=apart
        + _notes(pair, names, columns, alpha, paired=paired, weighted=given is not None),
    )


class _Tested(NamedTuple):
    """What some permutations say."""

    rows: PooledSample
    combined: CombinedStatistic
    pvalue: float
    permutations: int

    def error(self) -> float:
        """What the draw of the permutations leaves in the p-value."""
        return monte_carlo_error(
            lambda some: self.combined.select(some).values(), self.pvalue, 1 + self.permutations
        )


def _tested(
    pair: TwoSamples,
    count: int,
    paired: bool,
    weights: tuple[np.ndarray, np.ndarray] | None,
    seed: int,
    *,
    progress: bool,
) -> _Tested:
    """Evaluate the test with so many permutations."""
    rows = _pooled(pair, count, paired, weights, pair.generator(seed))
    statistics = choose_statistics(rows)
    scales = sum(len(one.scales) for one in statistics if isinstance(one, LabelBayesFactors))
    with progress_bar("scales", scales, shown=progress) as advance:
        combined = CombinedStatistic.evaluate(rows, statistics, advance)
    return _Tested(rows, combined, p_value(combined.values()), count)


def _notes(
    pair: TwoSamples,
    names: tuple[str, str],
    columns: Sequence[str],
    alpha: float,
    *,
    paired: bool,
    weighted: bool,
) -> tuple[str, ...]:
    """What looks odd about the rows; with weights equal rows are as they should be."""
    few = few_rows_note(pair.n_permutations(paired=paired, signs=weighted), alpha)
    return few if weighted else (*few, *pair.notes(names, columns, paired=paired))


def _samples(
    P: ArrayLike, Q: ArrayLike, columns: Sequence[str] | None, paired: bool
) -> tuple[TwoSamples, tuple[str, ...], tuple[str, ...] | None, tuple[str, ...], tuple[str, ...]]:
    """Return the samples' columns that vary and their names, also those of other columns.

    Returns:
        The samples; names of the columns; the names that these have in the samples, ``None``
        without; names of the columns that are one value in both; and a note on names.
    """
    _check_columns(P, columns)
    pair = TwoSamples.checked(P, Q)
    if paired:
        check_same_rows(P=P, Q=Q)
        if pair.first.shape == pair.second.shape:
            names = column_names(P) or default_names(pair.first.shape[1])
            check_same_keys(pair.first, pair.second, names)
    apart = _named_apart(P, Q) if columns is None else ()
    own = _common_names(P, Q) or columns
    called = _columns(columns or own, pair.first.shape[1])
    some, varying = pair.varying()
    kept = tuple(name for name, one in zip(called, varying, strict=True) if one)
    left_out = tuple(name for name, one in zip(called, varying, strict=True) if not one)
    if own is not None:
        own = tuple(str(name) for name, one in zip(own, varying, strict=True) if one)
    return some, kept, own, left_out, apart


def _check_columns(P: ArrayLike, columns: Sequence[str] | None) -> None:
    """Refuse names of columns that are those of a data frame in another order, or some of them."""
    known = column_names(P)
    if columns is None or known is None:
        return
    if isinstance(columns, str) or (
        set(map(str, columns)) & set(known) and tuple(columns) != known
    ):
        raise InputError(
            f"columns are new names by position, got {columns!r}, and P has the columns "
            f"{', '.join(known)}: choose columns of data frames by P[[...]] and Q[[...]]"
        )


def _named_apart(P: ArrayLike, Q: ArrayLike) -> tuple[str, ...]:
    """Note that one column, of a frame or a Series, has two names."""
    first, second = (column_names(X) or _series_name(X) for X in (P, Q))
    if first is None or second is None or sorted(first) == sorted(second):
        return ()
    return (
        f"the column is {first[0]!r} in one sample and {second[0]!r} in the other: one is taken",
    )


def _series_name(X: Any) -> tuple[str, ...] | None:
    name = getattr(X, "name", None)
    return (name,) if isinstance(name, str) and np.ndim(X) == 1 else None


def _weighted(
    pair: TwoSamples,
    weights: tuple[ArrayLike | None, ArrayLike | None] | None,
    samples: tuple[ArrayLike, ArrayLike],
) -> tuple[TwoSamples, tuple[np.ndarray, np.ndarray] | None]:
    """The rows that have any weight, and the weights; none where all rows count for one."""
    if weights is None:
        return pair, None
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise InputError("weights must be two, of the rows of P and of Q, as (w, None)")
    if all(one is None for one in weights):
        return pair, None
    both = (pair.first, pair.second)
    given = [
        np.ones(len(rows))
        if one is None
        else as_weights(one, len(rows), f"weights of {name}", sample=sample)
        for one, rows, name, sample in zip(weights, both, "PQ", samples, strict=True)
    ]
    rows = [rows[one > 0.0] for one, rows in zip(given, both, strict=True)]
    first, second = (one[one > 0.0] for one in given)
    as_sample(np.concatenate(rows), "the union of P and Q, as far as rows have weights,")
    return TwoSamples(*rows), (first, second)


def _pooled(
    pair: TwoSamples,
    permutations: int,
    paired: bool,
    weights: tuple[np.ndarray, np.ndarray] | None,
    rng: np.random.Generator,
) -> PooledSample:
    """The pooled rows, relabelled as their dependence and weights ask for."""
    if weights is not None:
        if paired:
            raise InputError("paired rows with weights are not supported: give one or the other")
        return pool_weighted(pair, weights, permutations, rng)
    return (pool_pairs if paired else pool_rows)(pair, permutations, rng)


def _check_labels(labels: str) -> None:
    if labels not in get_args(Labels):
        raise InputError(f"labels must be 'auto', 'gaussian' or 'logit', got {labels!r}")


def _believed(rows: PooledSample, values: KernelFunction, labels: str) -> Belief:
    """The posterior of a difference, by labels as they are asked for."""
    believed = belief(rows, values)
    return with_logit(believed, rows) if _takes_logit(labels, rows) else believed


def _takes_logit(labels: str, rows: PooledSample) -> bool:
    """Whether labels are yes or no: so few rows face so many that no other evidence is right."""
    if labels != "auto":
        return labels == "logit"
    least = min(rows.sizes)
    small = least < FEW_ROWS and least < SMALL_SHARE * rows.n_rows
    return small and len(rows.points) <= MOST_POINTS and rows.is_independent


def _common_names(P: ArrayLike, Q: ArrayLike) -> tuple[str, ...] | None:
    """The names of the columns of data frames, if both have the same where both have any."""
    first, second = (column_names(one) or _name_of_one(one) for one in (P, Q))
    if first is None or second is None:
        return first or second
    return first if sorted(first) == sorted(second) else None


def _name_of_one(column: ArrayLike) -> tuple[str, ...] | None:
    """The name of one column of a data frame."""
    name = getattr(column, "name", None)
    return (name,) if isinstance(name, str) and name and np.ndim(column) == 1 else None


def _columns(columns: Sequence[str] | None, dimension: int) -> tuple[str, ...]:
    """The names of the columns, refused where they are not as many."""
    given = default_names(dimension) if columns is None else [str(name) for name in columns]
    if len(given) != dimension:
        raise InputError(f"columns has {pluralize(len(given), 'name')} for {dimension} columns")
    for name in given:
        if given.count(name) > 1:
            raise InputError(f"columns has the name {name!r} twice")
    return tuple(given)


def sample_names(names: tuple[str, str]) -> tuple[str, str]:
    """The names of the samples, refused where they do not tell them apart."""
    if isinstance(names, str) or len(names) != 2 or not all(isinstance(one, str) for one in names):
        raise InputError(f"names must be two, of P and of Q, got {names!r}")
    first, second = names
    if any(not one.isprintable() for one in names):
        raise InputError(f"names must be one line of text each, got {names!r}")
    if not first.strip() or not second.strip() or first == second:
        raise InputError(f"names must tell the samples apart, got {names!r}")
    return first, second
