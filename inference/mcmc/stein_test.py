"""Kernel Stein test: goodness of fit of rows or chains to a density with known gradient."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models import Radial, RationalQuadratic
from bke.models.kernels.base import per_column
from bke.models.statistics.stein import (
    check_stein_kernel,
    squared_distances,
    stein_block,
    stein_column,
    stein_terms,
)
from numpy.typing import ArrayLike

from ..core.errors import InputError, input_errors
from ..core.machine import computing
from ..core.names import join_names
from ..core.progress import progress_bar
from ..data.checks import check_count, check_same_rows
from ..data.new_rows import known_names, ordered_rows
from ..learning.kernel_selection import format_kernel
from ..permutation.null_distribution import (
    check_permutations,
    describe_p,
    in_batches,
    standardize,
    step_down,
)
from ..permutation.scheme import PermutationScheme
from ..testing.kernels import SINGLE_KERNELS, KernelChoice
from ..testing.result import COMBINED, CombinedComponents, TestResult, combine
from .batches import INDEPENDENT_TIME, Batches, is_autocorrelated, make_batches
from .draws import Chains, as_chains
from .score import Score

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MULTISCALE = "multiscale"
#: Names of choices of a single radial kernel. A mixture over a posterior is not radial.
RADIAL_CHOICES = tuple(name for name in SINGLE_KERNELS if name != "posterior")
#: Lengthscales of the inverse multiquadric, as multiples of the median distance of the rows.
SCALES = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Largest number of rows of the kernel matrix, and of entries of a block of it.
MAX_ROWS, BLOCK_ENTRIES = 6000, 2**22
#: Number of columns in a report.
MAX_LISTED = 6


class Contribution(NamedTuple):
    """Contribution of one column to the discrepancy between draws and density.

    Attributes:
        name: name of the column.
        part: part of the squared discrepancy at the kernel of the test; the parts of all columns
            add up to it.
        pvalue: p-value of the column, adjusted for all columns.
        differs: ``True`` if ``pvalue`` is at most the level of the test.
    """

    name: str
    part: float
    pvalue: float
    differs: bool


@dataclasses.dataclass(frozen=True, repr=False)
class SteinResult(TestResult):
    """Result of :func:`~bke.inference.stein_test`, a :class:`~bke.inference.TestResult`.

    Attributes:
        columns: one :class:`Contribution` per column if the test rejects, otherwise empty.
        names: names of all columns.
        points: (N, D) rows that were compared with each other.
        witness: (N,) mean of Stein's kernel of each row with all others. It is positive where there
            are too many draws, and negative where there are too few. Its mean is zero over the
            density, and the squared discrepancy over the draws.
        num_batches: number of batches whose signs were flipped.
        autocorrelation_time: longest autocorrelation time, in draws; 1 for independent rows.
    """

    columns: tuple[Contribution, ...] = ()
    names: tuple[str, ...] = ()
    points: np.ndarray = dataclasses.field(default_factory=lambda: np.empty((0, 0)))
    witness: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))
    num_batches: int = 0
    autocorrelation_time: float = 1.0

    @property
    def least_fitting(self) -> tuple[int, ...]:
        """Indices of the columns, smallest p-value first; ties are ordered by largest part."""
        keys = [(column.pvalue, -column.part) for column in self.columns]
        return tuple(sorted(range(len(keys)), key=keys.__getitem__))

    def __str__(self) -> str:
        report, *notes = super().__str__().split("\n  Note: ")
        lines = [report]
        columns = [self.columns[i] for i in self.least_fitting if self.columns[i].differs]
        if columns and len(self.names) > 1:
            listed = [
                f"{column.name} ({describe_p(column.pvalue, len(self.null_distribution))})"
                for column in columns
            ]
            lines.append(
                "  columns that do not fit, adjusted for all columns: "
                f"{join_names(listed, MAX_LISTED)}"
            )
        elif self.reject and len(self.names) > 1:
            lines.append("  no single column differs significantly")
        if not self.reject:
            lines.append(
                "  a Stein test cannot detect modes without draws, or wrong weights of distant "
                "modes: for these see compare_chains(score=)"
            )
        return "\n".join([*lines, *(f"  Note: {note}" for note in notes)])

    def to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with one row per column, which is empty if the test does not reject.

        Columns: ``name``, ``part``, ``pvalue`` and ``differs``, see :class:`Contribution`.
        """
        import pandas as pd

        return pd.DataFrame(self.columns, columns=Contribution._fields)

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Plot the witness along the columns with the smallest p-values.

        Args:
            axes: one per panel; by default those of a new figure.
        """
        from ..plots.chains import plot_stein

        return plot_stein(self, axes=axes)


class SteinStatistics(NamedTuple):
    """Squared Stein discrepancies of batches of draws, with a wild bootstrap of their signs.

    Sums of a kernel over pairs of batches are computed in blocks of rows.

    Attributes:
        points: (N, D) draws, batch after batch.
        scores: (N, D) gradients of the log density there.
        scale: (D,) scale of the columns, for which scores of different columns are comparable.
        batches: division of the rows into q batches.
        signs: (q, 1 + B) signs of the batches; those of the first column are 1.
    """

    points: np.ndarray
    scores: np.ndarray
    scale: np.ndarray
    batches: Batches
    signs: np.ndarray

    def kernel_sums(self, kernel: Radial) -> tuple[np.ndarray, np.ndarray]:
        """Sum Stein's kernel over pairs of batches, and average it over all other rows.

        Returns:
            (q, q) and (N,).
        """
        x, s, kernel = self._scaled(kernel)
        sums, means = np.empty((self.batches.count,) * 2), np.empty(len(x))
        for block, rows in self.batches.blocks(BLOCK_ENTRIES):
            sums[block], means[rows] = _kernel_block(
                x[rows], s[rows], x, s, kernel, self.batches.length
            )
        return sums, (means - np.asarray(_kernel_diagonal(s, kernel))) / (len(x) - 1)

    def column_sums(self, kernel: Radial) -> np.ndarray:
        """Sum the part of each column of Stein's kernel over pairs of batches, (D, q, q)."""
        x, s, kernel = self._scaled(kernel)
        sums = np.empty((x.shape[1], self.batches.count, self.batches.count))
        for block, rows in self.batches.blocks(BLOCK_ENTRIES):
            sums[:, block] = _column_blocks(x[rows], s[rows], x, s, kernel, self.batches.length)
        return sums

    def moment_sums(self) -> np.ndarray:
        """Sum Stein's kernel of the linear kernel over pairs of batches, (q, q).

        Its features are the entries of ``z u' + I`` for centered, scaled points z and scaled scores
        u. By Stein's identity for second moments their mean is zero (Stein 1972).
        """
        z, u = map(jnp.asarray, self._standardized())
        sums = np.empty((self.batches.count, self.batches.count))
        for block, rows in self.batches.blocks(BLOCK_ENTRIES):
            sums[block] = _moment_block(z[rows], u[rows], z, u, self.batches.length)
        return sums

    def column_moments(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield features of second moments (q, D) and of the variance (q, 1) for each column.

        The features of a column have its score and the points of all columns, summed over batches.
        The sums of their products over all columns are :meth:`moment_sums`.
        """
        z, u = self._standardized()
        for column in range(z.shape[1]):
            rows = u[:, [column]] * z
            rows[:, column] += 1.0
            features = rows.reshape(self.batches.count, self.batches.length, -1).sum(axis=1)
            yield features, features[:, [column]]

    def _scaled(self, kernel: Radial) -> tuple[jax.Array, jax.Array, Radial]:
        x, s = jnp.asarray(self.points / self.scale), jnp.asarray(self.scores * self.scale)
        return x, s, scaled_kernel(kernel, self.scale)

    def _standardized(self) -> tuple[np.ndarray, np.ndarray]:
        return (self.points - self.points.mean(axis=0)) / self.scale, self.scores * self.scale

    def from_sums(self, sums: np.ndarray) -> np.ndarray:
        """Compute statistics (1 + B,) from sums (q, q) of a kernel over pairs of batches.

        A statistic is the mean over pairs of rows in different batches, with their signs. For the
        observed signs it is an unbiased estimate of the squared discrepancy.
        """
        off_diagonal = sums - np.diag(np.diagonal(sums))

        def quadratic_forms(columns: slice) -> np.ndarray:
            signs = self.signs[:, columns]
            return np.asarray(np.einsum("ij,ij->j", signs, off_diagonal @ signs))

        forms = in_batches(quadratic_forms, self.signs.shape[1], 16 * len(self.signs))
        return forms / self._num_pairs

    def from_features(self, features: np.ndarray) -> np.ndarray:
        """Compute statistics (1 + B,) for sums ``features @ features.T`` of features (q, k).

        This takes a tenth of the time of :meth:`from_sums`. Its rounding error grows with the ratio
        of the largest feature to the others, so it is used for columns but not for the test.
        """
        projections = features.T @ self.signs
        squares = np.sum(projections**2, axis=0) - np.sum(features**2)
        return np.asarray(squares / self._num_pairs)

    @property
    def _num_pairs(self) -> int:
        """Number of ordered pairs of rows in different batches."""
        return len(self.points) ** 2 - self.batches.count * self.batches.length**2


def scaled_kernel(kernel: Radial, scale: np.ndarray) -> Radial:
    """Return the kernel of points that are divided by ``scale`` (D,)."""
    return dataclasses.replace(kernel, lengthscale=kernel.lengthscale / scale)  # type: ignore[type-var]


@functools.partial(jax.jit, static_argnames="length")
def _kernel_block(
    x: Any, s: Any, y: Any, t: Any, kernel: Radial, length: int
) -> tuple[jax.Array, jax.Array]:
    matrix = stein_block(x, s, y, t, kernel)
    return _sum_by_batch(matrix, length), jnp.sum(matrix, axis=1)


@functools.partial(jax.jit, static_argnames="length")
def _moment_block(z: Any, u: Any, w: Any, v: Any, length: int) -> jax.Array:
    first, second = jnp.sum(z * u, axis=1), jnp.sum(w * v, axis=1)
    matrix = (u @ v.T) * (z @ w.T) + first[:, None] + second + z.shape[1]
    return _sum_by_batch(matrix, length)


@functools.partial(jax.jit, static_argnames="length")
def _column_blocks(x: Any, s: Any, y: Any, t: Any, kernel: Radial, length: int) -> jax.Array:
    lengthscale = _lengthscales(kernel, x.shape[1])
    center = jnp.mean(y, axis=0)
    terms = stein_terms(
        kernel, squared_distances((x - center) / lengthscale, (y - center) / lengthscale)
    )
    blocks: jax.Array = jax.lax.map(
        lambda column: _sum_by_batch(stein_column(terms, *column), length),
        (x.T, s.T, y.T, t.T, lengthscale),
    )
    return blocks


def _sum_by_batch(matrix: jax.Array, length: int) -> jax.Array:
    rows, columns = matrix.shape
    return matrix.reshape(rows // length, length, columns // length, length).sum((1, 3))


@jax.jit
def _kernel_diagonal(scores: jax.Array, kernel: Radial) -> jax.Array:
    """Compute Stein's kernel (N,) of each point with itself."""
    value, decay, _ = stein_terms(kernel, jnp.zeros((1, 1)))
    inverse = 1.0 / _lengthscales(kernel, scores.shape[1])
    return jnp.sum(scores**2, axis=1) * value[0, 0] + decay[0, 0] * jnp.sum(inverse**2)


def _lengthscales(kernel: Radial, columns: int) -> jax.Array:
    lengthscale = per_column(kernel.lengthscale, columns, "lengthscale")
    return jnp.broadcast_to(lengthscale.reshape(-1), (columns,))


def stein_test(
    draws: ArrayLike | xr.DataTree | xr.Dataset,
    score: Score | Callable[[np.ndarray], ArrayLike] | ArrayLike,
    *,
    kernel: Any = "multiscale",
    bootstraps: int = 999,
    alpha: float = 0.05,
    standardize: str | None = "column",
    columns: Sequence[str] | None = None,
    seed: int = 0,
    progress: bool = True,
) -> SteinResult:
    """Test whether draws come from a density, given its score: the kernel Stein test (MMD-23).

    The test detects a biased sampler, which R-hat cannot, because R-hat only compares chains with
    each other. The statistic is the squared kernel Stein discrepancy (Liu, Lee and Jordan 2016;
    Chwialkowski, Strathmann and Gretton 2016). The discrepancies at several lengthscales are
    standardized by their bootstrap distributions and combined by log-sum-exp. The result is
    combined with tests of Stein's identity for second moments and variances, E[x s(x)'] = -I. The
    null distribution is a wild bootstrap: it flips the signs of independent rows, or of batches of
    ten autocorrelation times in chains. It is an approximation, whose level is measured in
    ``benchmarks/results/stein.md``. The test cannot detect a mode without draws. It cannot detect
    wrong weights of distant modes either, because the score does not depend on them.

    Args:
        draws: independent rows, shape (n, D) or (n,); chains (C, n, D), in order of time; or a tree
            in the format of ArviZ, see ``score``.
        score: d log p / dx of a density on all of R^D that vanishes at infinity; for a density on a
            smaller support, transform the draws to logarithms or logits, and include the Jacobian.
            It is an array of its values, of the shape of ``draws``; a function from rows (N, D) to
            gradients (N, D), such as ``jax.vmap(jax.grad(log_density))``; or the result of
            :func:`~bke.inference.score_of` for a NumPyro model, which transforms the draws of a
            tree to unconstrained values.
        kernel: ``"multiscale"``, inverse multiquadrics (1 + r^2 / l^2)^(-1/2), which are rational
            quadratics with alpha = 1/2, at five lengthscales around the median distance; ``"bkl"``
            or ``"median"``, a squared exponential with a learned lengthscale or the median
            distance; or a :class:`~bke.models.Radial`.
        bootstraps: number of sign flips B; the smallest p-value is 1 / (1 + B).
        alpha: level of the test.
        standardize: ``"column"``, ``"pooled"`` or ``None``, as for :func:`~bke.inference.fit`: the
            scale of columns, in which their scores are added and lengthscales are chosen.
        columns: names of the columns; by default those of the draws.
        seed: seed of the signs.
        progress: show a progress bar.

    Raises:
        InputError: if draws, scores or arguments are invalid.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    alpha = check_permutations(bootstraps, alpha, "bootstraps")
    choice = KernelChoice.checked(kernel, (MULTISCALE, *RADIAL_CHOICES), standardize)
    chains, scores = evaluate_score(draws, score, columns)
    # Batches must be nearly independent both in their draws and in the scores.
    batches = make_batches(np.concatenate([chains.values, scores], axis=2), ordered=chains.ordered)
    notes = _notes(chains, scores, batches)
    if isinstance(score, Score) and not isinstance(draws, (xr.DataTree, xr.Dataset)):
        notes += score.unconstrained_notes()
    selected, thinned = batches.thin(MAX_ROWS)
    if batches.count * batches.length > MAX_ROWS:
        notes.append(f"{len(selected)} equally spaced draws are compared with each other")
    rng = np.random.default_rng([seed, 11])
    flips = PermutationScheme("signs", batches.count).draw(bootstraps, rng)
    signs = np.column_stack([np.ones(batches.count), flips])
    points = batches.rows(chains.values)[selected]
    statistics = SteinStatistics(
        points, batches.rows(scores)[selected], choice.scales(points), thinned, signs
    )
    with computing():
        kernels, rows, witnesses = stein_kernels(points, choice), [], []
        with progress_bar("kernels", len(kernels), show=progress) as advance:
            for kernel in kernels:
                sums, witness = statistics.kernel_sums(kernel)
                rows.append(statistics.from_sums(sums))
                witnesses.append(witness)
                advance(1)
        parts: list[tuple[str, Any]] = [(format_kernel(kernel), kernel) for kernel in kernels]
        moments: list[tuple[str, np.ndarray]] = []
        if choice.kernel == MULTISCALE:
            moments.append(("second moments", statistics.moment_sums()))
            if len(chains.columns) > 1:
                features = np.hstack([variance for _, variance in statistics.column_moments()])
                moments.append(("variances", features @ features.T))
        rows += [statistics.from_sums(sums) for _, sums in moments]
        parts += [(name, None) for name, _ in moments]
        combined = combine(np.array(rows), parts, num_other=len(moments))
        best = combined.most_extreme
        statistic_label = COMBINED if combined.components else "squared kernel Stein discrepancy"
        if moments:
            statistic_label = (
                "log-sum-exp of standardized discrepancies at all scales, combined with second "
                "moments and variances"
            )
        unit = "rows" if thinned.length == 1 else f"batches of {thinned.length} rows"
        result = SteinResult.from_permutations(
            combined.values,
            test="Stein test",
            hypotheses=(
                "no evidence against the density",
                "the draws do not come from the density",
            ),
            kernel=kernels[best],
            kernel_label="most extreme at" if combined.components else "kernel",
            method=f"{bootstraps} sign flips of {batches.count} {unit}, {choice}",
            exact=False,
            alpha=alpha,
            components=combined.components,
            statistic_label=statistic_label,
            pvalue_error=combined.pvalue_error(),
            rows="series" if batches.autocorrelation_time > INDEPENDENT_TIME else "independent",
            notes=tuple(notes),
            names=chains.columns,
            points=points,
            witness=witnesses[best],
            num_batches=batches.count,
            autocorrelation_time=batches.autocorrelation_time,
        )
        if not result.reject:
            return result
        contributions = _contributions(statistics, chains.columns, kernels, combined, alpha)
        return dataclasses.replace(result, columns=contributions)


def evaluate_score(
    draws: Any, score: Any, columns: Sequence[str] | None
) -> tuple[Chains, np.ndarray]:
    """Convert draws to chains, and compute their scores (C, n, D).

    The draws of a tree are transformed to unconstrained values if the score is that of a model.

    Raises:
        InputError: if draws or scores are invalid.
    """
    if isinstance(draws, (xr.DataTree, xr.Dataset)) and isinstance(score, Score):
        draws = score.unconstrained(draws)
        columns = score.columns if columns is None else columns
    chains = as_chains(draws, columns=columns)
    shape = chains.values.shape
    if not isinstance(draws, (xr.DataTree, xr.Dataset)):
        check_same_rows(draws=draws, score=score)
    names = known_names(chains.columns) if shape[2] > 1 else None
    values = score
    if callable(score):
        try:
            values = score(chains.rows)
        except InputError:
            raise
        except Exception as error:  # the user's function may raise anything
            raise InputError(
                "the score must be a function of rows (N, D), such as score_of(model, data): it "
                f"raised {type(error).__name__}{f' ({error})' if str(error) else ''}"
            ) from error
    scores = ordered_rows(values, names, "the score")
    expected = chains.rows.shape if callable(score) or not chains.ordered else shape
    if scores.ndim == 1 and shape[2] == 1:
        scores = scores[:, None]
    if scores.shape != expected:
        raise InputError(
            f"the score must be real numbers of shape {expected}, got the shape {scores.shape}"
        )
    scores = scores.reshape(shape)
    largest = 1e60  # fourth powers of larger scores overflow
    invalid = ~(np.abs(scores) <= largest)
    if invalid.any():
        chain, draw, column = np.argwhere(invalid)[0]
        where = f"draw {draw}" if len(scores) == 1 else f"chain {chain}, draw {draw}"
        raise InputError(
            f"the score is not finite, or beyond {largest:g}, in {where} of "
            f"{chains.columns[column]} (counted from 0): the density may be zero there"
        )
    return chains, scores


def _notes(chains: Chains, scores: np.ndarray, batches: Batches) -> list[str]:
    """Return warnings if the null distribution is inaccurate."""
    notes = []
    if not chains.ordered and is_autocorrelated(np.concatenate([chains.rows, scores[0]], axis=1)):
        notes.append(
            "consecutive rows seem to be dependent, but this test assumes independent rows: pass "
            "chains as (chains, draws, columns)"
        )
    if chains.ordered and batches.short:
        notes.append(
            f"the chains are short: batches have {batches.times:.2g} autocorrelation times instead "
            f"of ten, so the level is approximate; {batches.count} batches in all"
        )
    if batches.count < 100:
        notes.append(
            f"the null distribution flips the signs of only {batches.count} rows or batches: the "
            "test rejects more often than its level if scores are skewed"
        )
    means = batches.rows(scores).reshape(batches.count, batches.length, -1).mean(axis=1)
    centered = means - means.mean(axis=0)
    deviation = centered.std(axis=0)
    skewness = np.mean((centered / np.where(deviation > 0.0, deviation, 1.0)) ** 3, axis=0)
    # At 0.18 sqrt(n), for the log of a gamma variable of shape 0.5 and n = 200 rows, the test
    # rejects with probability 0.07 at level 0.05; see benchmarks/results/stein.md for larger ones.
    skewed = np.abs(skewness) > 0.15 * np.sqrt(batches.count)
    if skewed.any():
        names = ", ".join(np.array(chains.columns)[skewed][:MAX_LISTED])
        notes.append(
            f"the scores of {names} are too skewed for {batches.count} rows or batches: the test "
            "rejects more often than its level"
        )
    return notes


def stein_kernels(
    points: np.ndarray, choice: KernelChoice, *, single: bool = False
) -> list[Radial]:
    """Choose kernels from rows (n, D).

    Args:
        points: the rows.
        choice: a kernel, or the name of a choice.
        single: return one inverse multiquadric for ``"median"``, instead of a squared exponential.
    """
    if choice.kernel != MULTISCALE and not (single and choice.kernel == "median"):
        kernels = choice.kernels(points)
        with input_errors():
            for kernel in kernels:
                check_stein_kernel(kernel)
        return kernels
    if not np.ptp(points, axis=0).any():
        raise InputError("all draws are equal")
    median = dataclasses.replace(choice, kernel="median").kernels(points)[0].lengthscale
    return [RationalQuadratic(0.5, median * factor) for factor in ((1.0,) if single else SCALES)]


def _contributions(
    statistics: SteinStatistics,
    columns: tuple[str, ...],
    kernels: list[Radial],
    combined: CombinedComponents,
    alpha: float,
) -> tuple[Contribution, ...]:
    """Compute the part of each column, with a p-value of its largest standardized statistic.

    P-values are adjusted for all columns with the same signs.
    """
    largest = np.full((len(columns), statistics.signs.shape[1]), -np.inf)
    parts = np.empty(len(columns))
    for index, kernel in enumerate(kernels):
        rows = np.array([statistics.from_sums(sums) for sums in statistics.column_sums(kernel)])
        largest = np.maximum(largest, standardize(rows))
        if index == combined.most_extreme:
            parts = rows[:, 0]
    for index, features in enumerate(statistics.column_moments() if combined.num_other else ()):
        rows = np.array([statistics.from_features(feature) for feature in features])
        largest[index] = np.maximum(largest[index], standardize(rows).max(axis=0))
    return tuple(
        Contribution(name, float(part), float(pvalue), bool(pvalue <= alpha))
        for name, part, pvalue in zip(columns, parts, step_down(largest), strict=True)
    )
