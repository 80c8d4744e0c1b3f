"""Compare two samples: do they differ, where, at what scale, by how much, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_flag
from ..core.machine import computing, single_threaded_blas
from ..core.progress import progress_bar
from ..data.checks import (
    as_sample,
    check_column_names,
    check_count,
    check_ordered,
    column_names,
    default_names,
    index_notes,
)
from ..data.new_rows import as_weights
from ..data.row_notes import decimals_note
from ..permutation.null_distribution import (
    check_permutations,
    in_stages,
    p_value,
    small_sample_note,
)
from ..permutation.pool import pool_pairs, pool_rows, pool_weighted
from ..permutation.pooled_sample import PooledSample
from ..permutation.samples import TwoSamples
from ..statistics.combined import CombinedStatistic, choose_statistics, n_scales
from ..statistics.kernels import KernelFunction
from ..statistics.local_differences import MAX_JOINT_ONLY
from .comparison import Comparison
from .difference_posterior import (
    MAX_BINARY_POINTS,
    DifferencePosterior,
    binary_label_posterior,
    difference_posterior,
    kernel_function,
)
from .effect_sizes import cross_validated_auc
from .power import minimum_detectable_shift
from .regions import LocalMeans, find_regions

if TYPE_CHECKING:
    from bke.models.kernels.base import Covariance, Kernel

Labels: TypeAlias = Literal["auto", "gaussian", "logit"]
#: A sample with fewer rows than this, and with a smaller fraction of all rows, has binary labels by
#: default: the normal approximation of its label sums is inaccurate.
MIN_GAUSSIAN_ROWS, MIN_GAUSSIAN_FRACTION = 30, 0.05


def compare(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    alpha: float = 0.05,
    n_resamples: int = 999,
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
    """Compare two samples; the parts of the result do not contradict each other.

    - Do they differ? One permutation test with an exact level, which combines statistics of all
      scales, at landmarks, of location, of covariances and of the largest local difference.
    - Where? Regions with simultaneous p-values and intervals, only if the test rejects.
    - At what scale, and with what probability? The posterior of a difference, a Gaussian process on
      the labels of the pooled rows.
    - By how much? The cross-validated AUC, differences of means and medians, and ratios of
      densities.

    Args:
        P: first sample, shape (m, D) or (m,).
        Q: second sample, shape (n, D) or (n,), with the same columns.
        alpha: level of the test and of all regions together; intervals have confidence 1 - alpha.
        n_resamples: number of permutations B; the smallest p-value is 1 / (1 + B).
        sequential: for 9999 or more permutations, draw 999 first (10 / ``alpha`` if that is more),
            and ten times as many only if their p-value is at most 4 ``alpha``, with the same level
            (:mod:`bke.inference.permutation.null_distribution`); otherwise draw all at once.
        paired: row i of P and row i of Q are a pair, and may be dependent. Permutations exchange
            the two, and standard errors are those of pairs. The null hypothesis is that both rows
            of a pair are exchangeable: (x, y) has the distribution of (y, x). This implies P = Q;
            the level is exact for it, and not for every dependence with P = Q.
        weights: weights of the rows of P and of Q, (m,) and (n,), nonnegative, of any scale;
            ``None`` instead of one of them for equal weights. A pandas Series must have the row
            labels of its sample, if that has any. They are meant for survey weights and importance
            sampling: a row that was observed k times should be passed k times. The test flips the
            signs of errors instead of permuting labels. Its level is approximate: 0.03 to 0.07 for
            0.05, and 0.12 with 100 rows of importance sampling against 600
            (``benchmarks/results/weights.md``).
        labels: likelihood of the labels: ``"gaussian"``, in closed form, or ``"logit"``, binary,
            with a positive density ratio; ten times slower, and for at most 20 000 different rows.
            ``"auto"`` is binary only if one sample is much smaller than the other. The test and the
            regions are the same.
        kernel: kernel, or kernel class, of the Gaussian process on the labels; by default the
            squared exponential. Its lengths are multiples of the ``lengthscale`` of the difference,
            in standard deviations of the columns, and its k(x, x) multiplies the variance, which is
            learned; one length per column weights the columns. The test, the regions and the kernel
            of a witness function are the same.
        columns: names of the columns; by default those of data frames, or x, or x0, x1, ...; for
            one column with different names in both samples x, with a note for data frames.
        names: names of the samples in the report and in plots.
        seed: seed of the permutations.
        progress: show a progress bar.

    Raises:
        InputError: for invalid data or arguments.
    """
    alpha = check_permutations(n_resamples, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_flag(paired, "paired")
    if labels not in get_args(Labels):
        raise InputError(f"labels must be 'auto', 'gaussian' or 'logit', got {labels!r}")
    names = check_sample_names(names)
    samples, varying = _varying_columns(P, Q, columns, paired=paired)
    two_samples, row_weights = _weighted_rows(samples, weights, (P, Q))
    function = kernel_function(kernel, two_samples.first.shape[1])
    if paired and row_weights is not None:
        raise InputError("paired rows with weights are not supported: pass one or the other")

    def evaluate(count: int) -> _Test:
        rng = two_samples.generator(seed)
        if row_weights is not None:
            pooled: PooledSample = pool_weighted(two_samples, row_weights, count, rng)
        else:
            pooled = (pool_pairs if paired else pool_rows)(two_samples, count, rng)
        return _Test.evaluate(pooled, count, progress=progress)

    # A kernel of the user is evaluated by JAX.
    with single_threaded_blas() if kernel is None else computing():
        test = in_stages(evaluate, n_resamples, alpha, sequential=sequential)
        pooled, reject = test.pooled, test.pvalue <= alpha
        posterior = _posterior(pooled, function, labels)
        auc = cross_validated_auc(posterior, pooled, alpha)
        shift = None if reject else minimum_detectable_shift(pooled, alpha)
    all_columns = len(varying.names) <= MAX_JOINT_ONLY
    notes = small_sample_note(
        two_samples.n_permutations(paired=paired, signs=row_weights is not None), alpha
    )
    if row_weights is None:  # weighted rows may be equal
        notes = (*notes, *two_samples.notes(names, varying.names, paired=paired))
        first_hash, second_hash = two_samples.fingerprints
        if first_hash == second_hash:
            notes = (*notes, f"{names[0]} and {names[1]} are the same rows")
    if reject:
        columns_of_both = zip(varying.names, two_samples.first.T, two_samples.second.T, strict=True)
        for name, first, second in columns_of_both:
            notes = (*notes, *decimals_note(first, second, repr(name), names))
    return Comparison(
        pvalue=test.pvalue,
        pvalue_error=test.combined.pvalue_error(),
        alpha=alpha,
        n_resamples=test.n_resamples,
        windows=find_regions(
            test.combined.local,
            pooled.scale,
            alpha,
            reject=reject,
            local_means=LocalMeans.from_sample(pooled) if all_columns else None,
        ),
        posterior=posterior,
        auc=auc.auc,
        auc_interval=auc.interval,
        minimum_detectable_shift=shift,
        pooled=pooled.observed(),
        samples=(two_samples.first, two_samples.second),
        weights=row_weights,
        components=test.combined.summaries(),
        columns=varying.names,
        names=names,
        seed=seed,
        left_out=varying.constant,
        input_columns=varying.input_names,
        notes=(*varying.notes, *(() if paired else index_notes((P, Q), names)), *notes),
    )


class _Test(NamedTuple):
    """The combined test with a number of permutations."""

    pooled: PooledSample
    combined: CombinedStatistic
    pvalue: float
    n_resamples: int

    @classmethod
    def evaluate(cls, pooled: PooledSample, count: int, *, progress: bool) -> _Test:
        """Evaluate the statistics of pooled rows with ``count`` permutations."""
        statistics = choose_statistics(pooled)
        with progress_bar("scales", n_scales(statistics), show=progress) as advance:
            combined = CombinedStatistic.evaluate(pooled, statistics, advance)
        return cls(pooled, combined, p_value(combined.values()), count)


class _Columns(NamedTuple):
    """Columns of two samples.

    Attributes:
        names: of those that vary.
        input_names: their names in the samples; ``None`` without names.
        constant: names of those that are constant in both samples.
        notes: on names.
    """

    names: tuple[str, ...]
    input_names: tuple[str, ...] | None
    constant: tuple[str, ...]
    notes: tuple[str, ...]


def _varying_columns(
    P: ArrayLike, Q: ArrayLike, columns: Sequence[str] | None, *, paired: bool
) -> tuple[TwoSamples, _Columns]:
    """Check both samples, and return those of their columns that vary."""
    first_names, second_names = (column_names(X) or _series_name(X) for X in (P, Q))
    if columns is not None and (known := column_names(P)) is not None:
        subset = not isinstance(columns, str) and set(map(str, columns)) & set(known)
        if isinstance(columns, str) or (subset and tuple(columns) != known):
            raise InputError(
                f"columns are new names by position, got {columns!r}, and P has the columns "
                f"{', '.join(known)}: choose columns of data frames by P[[...]] and Q[[...]]"
            )
    samples = TwoSamples.checked(P, Q, paired=paired, columns=columns)
    dimension = samples.first.shape[1]
    notes: tuple[str, ...] = ()
    if first_names is None or second_names is None:
        input_names: Sequence[str] | None = first_names or second_names
    elif sorted(first_names) == sorted(second_names):
        input_names = first_names
    else:
        input_names = None
        if columns is None:
            notes = (
                f"the column is {first_names[0]!r} in one sample and {second_names[0]!r} in the "
                "other: they are compared as one column",
            )
    names = input_names if columns is None else columns
    all_names = check_column_names(names, default_names(dimension))
    input_names = input_names or (None if columns is None else all_names)
    varying_samples, varying = samples.varying()

    def select(names: Sequence[str], mask: np.ndarray) -> tuple[str, ...]:
        return tuple(str(name) for name, used in zip(names, mask, strict=True) if used)

    return varying_samples, _Columns(
        select(all_names, varying),
        None if input_names is None else select(input_names, varying),
        select(all_names, ~varying),
        notes,
    )


def _series_name(X: Any) -> tuple[str, ...] | None:
    """Return the name of a pandas Series."""
    name = getattr(X, "name", None)
    return (name,) if isinstance(name, str) and name and np.ndim(X) == 1 else None


def _weighted_rows(
    samples: TwoSamples,
    weights: tuple[ArrayLike | None, ArrayLike | None] | None,
    inputs: tuple[ArrayLike, ArrayLike],
) -> tuple[TwoSamples, tuple[np.ndarray, np.ndarray] | None]:
    """Return the rows with positive weights, and these weights; ``None`` for equal weights."""
    if weights is None:
        return samples, None
    if not isinstance(weights, (tuple, list)) or len(weights) != 2:
        raise InputError("weights must be two, of the rows of P and of Q, as (w, None)")
    if all(weight is None for weight in weights):
        return samples, None
    rows = (samples.first, samples.second)
    checked = [
        np.ones(len(sample))
        if weight is None
        else as_weights(weight, len(sample), f"weights of {name}", sample=data)
        for weight, sample, name, data in zip(weights, rows, "PQ", inputs, strict=True)
    ]
    used = [sample[weight > 0.0] for weight, sample in zip(checked, rows, strict=True)]
    first, second = (weight[weight > 0.0] for weight in checked)
    as_sample(np.concatenate(used), "the union of P and Q, as far as rows have weights,")
    return TwoSamples(*used), (first, second)


def _posterior(pooled: PooledSample, kernel: KernelFunction, labels: str) -> DifferencePosterior:
    """Compute the posterior of the difference with Gaussian or binary labels."""
    gaussian = difference_posterior(pooled, kernel)
    binary = labels == "logit"
    if labels == "auto":
        size = min(pooled.sizes)
        small = size < MIN_GAUSSIAN_ROWS and size < MIN_GAUSSIAN_FRACTION * pooled.n_rows
        binary = small and len(pooled.points) <= MAX_BINARY_POINTS and pooled.is_independent
    return binary_label_posterior(gaussian, pooled) if binary else gaussian


def check_sample_names(names: tuple[str, str]) -> tuple[str, str]:
    """Check the names of the samples, which must be different.

    Raises:
        InputError: if they are not two different printable names.
    """
    check_ordered(names, "names")
    if isinstance(names, str) or len(names) != 2 or not all(isinstance(n, str) for n in names):
        raise InputError(f"names must be two, of P and of Q, got {names!r}")
    first, second = names
    if not (first.isprintable() and second.isprintable()):
        raise InputError(f"names must be one line of text each, got {names!r}")
    if not first.strip() or not second.strip() or first == second:
        raise InputError(f"names must be different and not empty, got {names!r}")
    return first, second
