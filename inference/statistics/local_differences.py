"""Local differences of two samples, simultaneously: the maximum of t over locations and scales.

At a location x and a scale l a row z has the weight ``k(x, z) = exp(-1/2 |z - x|^2 / l^2)``. The
difference of the mean weights of both samples, over its standard deviation under P = Q,

    t_l(x) = (mean_P k - mean_Q k) / sqrt(var_pooled k (1/m + 1/n)),

depends on the labels through the means only. For three or more columns locations are chosen in all
columns together and in each alone. The permutation distribution of the largest |t| gives each
location and scale a p-value that is adjusted for all of them; with the step-down method (Westfall
and Young 1993, algorithm 2.8) each competes only with those that are not more significant. If
P = Q the probability of any false finding is at most alpha, exactly; if the samples differ
elsewhere it is so up to the central limit theorem.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from threading import Event
from typing import ClassVar, NamedTuple, Self, TypeAlias

import numpy as np

from ..core.machine import side_by_side
from ..data.weighted import weighted_quantiles
from ..permutation.null_distribution import TIE, step_down, without_rounding
from ..permutation.pooled_sample import (
    POOLED,
    PSEUDO_ROWS,
    SAMPLES,
    SQUARED,
    UNIFORM,
    Features,
    FeatureSums,
    PooledSample,
    Request,
)
from .base import Evaluation, NullOptions, Statistic
from .kernels import GAUSSIAN, LARGE_SAMPLE, MIN_EXPONENT, exp_of_negative

#: Fields of :class:`LocalStatistics`, for some of the windows.
Fields: TypeAlias = tuple[np.ndarray, ...]
#: Smallest effective number of rows of a window, (sum k)^2 / sum k^2.
MIN_ROWS = 20.0
#: Number of locations in one column (quantiles), in several (rows), and for very many rows; and
#: number of scales.
LINE_LOCATIONS, LOCATIONS, LARGE_SAMPLE_LOCATIONS, N_SCALES = 100, 200, 64, 14
#: Number of columns up to which windows of one column alone are not used, because they extend to
#: distant rows in the other.
MAX_JOINT_ONLY = 2
#: Approximate number of windows of single columns, of which each has fewer if there are many; and
#: smallest numbers of locations and scales.
MAX_WINDOWS = 10_000
MIN_LOCATIONS, MIN_SCALES = 5, 4
#: Number of cells in which the values of one of several columns are counted.
GRID_SIZE = 512
#: Number of windows of single columns that are evaluated together if values are not counted.
WINDOWS_AT_ONCE = 1000
#: Scales in units of one scaled column; for D columns multiplied by sqrt(D). For very many rows
#: their ratio is sqrt(2), and the smallest is slightly smaller.
SHORTEST, LONGEST = 0.03, 2.0
SCALES = np.geomspace(SHORTEST, LONGEST, N_SCALES)


@dataclasses.dataclass(frozen=True)
class LocalStatistics:
    """Local differences at all windows (locations and scales) with sufficiently many rows.

    Attributes:
        centers: (J, D), in units of the scaled columns; the median in columns that are not used.
        scales: (J, D), in the same units; infinite in columns that are not used.
        t: (J, 1 + B).
        means: (J, 2), mean weights of P and of Q.
        errors: (J, 2), standard errors of ``means``, at least that of one row.
        covariance: (J,), of the two means: 0 except for pairs.
        competing: (1 + B,), largest |t| of other windows to adjust for, such as those of other
            columns of a table; ``None`` if there are none.
    """

    centers: np.ndarray
    scales: np.ndarray
    t: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray
    competing: np.ndarray | None = None

    @property
    def largest(self) -> np.ndarray:
        """Largest |t| for all labels, (1 + B,)."""
        # Several times faster than the maximum of absolute values.
        largest = np.maximum(self.t.max(axis=0, initial=0.0), -self.t.min(axis=0, initial=0.0))
        return largest if self.competing is None else np.maximum(largest, self.competing)

    def critical_value(self, alpha: float) -> float:
        """Return the value that the largest |t| exceeds for at most ``alpha`` of the labels."""
        ordered = np.sort(self.largest)
        return float(ordered[max(0, int(np.ceil((1.0 - alpha) * len(ordered))) - 1)])

    def pvalues(self) -> np.ndarray:
        """Return step-down p-values (J,), adjusted for all windows."""
        absolute = np.abs(self.t)
        if self.competing is not None:
            absolute = np.concatenate([absolute, self.competing[None]])
        return step_down(absolute)[: len(self.t)]


class WindowStatistics(NamedTuple):
    """Local differences at those windows of a request that have sufficiently many rows.

    Attributes:
        selected: (k,), indices of the windows.
        t: (k, 1 + B).
        means: (k, 2), mean weights of P and of Q.
        errors: (k, 2), standard errors of ``means``, at least that of one row.
        covariance: (k,), of the two means: 0 except for pairs.
    """

    selected: np.ndarray
    t: np.ndarray
    means: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray


def window_request(
    sample: PooledSample, weights: Features, count: int
) -> Request[WindowStatistics]:
    """Request the local differences at windows, in which rows have the weights of a feature.

    Args:
        sample: pooled rows.
        weights: weights of rows at ``count`` windows.
        count: number of windows.
    """

    def finish(result: FeatureSums) -> WindowStatistics:
        assert result.measures is not None
        sums, squares, totals = result.measures
        pooled = sums[:, POOLED]
        # Weights at the smallest exponent are zero.
        smallest = np.exp(MIN_EXPONENT / 2.0)
        means = np.where(sums[:, SAMPLES] > smallest, sums[:, SAMPLES], 0.0)
        variance = np.maximum(squares[:, POOLED] - pooled**2, 0.0)
        fractions = np.array([sample.first_fraction, 1.0 - sample.first_fraction])
        is_sufficient = pooled**2 * (1.0 + TIE) >= MIN_ROWS * squares[:, SQUARED] @ fractions**2
        # In still wider windows all rows have the same weight.
        selected = np.flatnonzero(is_sufficient & (variance > 1e-12 * pooled**2))
        differences, covariance = sample.partner_moments(weights, selected)
        noise = sample.difference_variance(result.measures, selected, differences)
        t = sample.mean_differences(result.first, pooled * sample.n_rows)[selected] / np.sqrt(noise)
        # The sums of squares of weighted deviations from each sample's mean, over its own rows and
        # over all different points.
        single = squares[:, SQUARED] - 2.0 * means * sums[:, SQUARED] + means**2 * totals[SQUARED]
        uniform = squares[:, [UNIFORM]] - 2.0 * means * sums[:, [UNIFORM]] + means**2
        errors = _standard_errors(
            sample, means[selected], single[selected], uniform[selected], covariance
        )
        return WindowStatistics(selected, t, means[selected], errors, covariance)

    return Request(weights, count, finish, measures=True)


def _standard_errors(
    sample: PooledSample,
    means: np.ndarray,
    single: np.ndarray,
    uniform: np.ndarray,
    covariance: np.ndarray,
) -> np.ndarray:
    """Return standard errors (k, 2) of the means of both samples, with pseudo-observations.

    A sample of equal rows has no standard error without them.

    Args:
        sample: pooled rows.
        means: (k, 2), mean weights.
        single: (k, 2), their variances by the rows of each sample.
        uniform: (k, 2), mean squares of deviations of all different points from ``means``.
        covariance: (k,), of the two means.
    """
    single = np.maximum(single, 0.0)
    both = np.sqrt(single.prod(axis=1))
    correlation = np.divide(covariance, both, out=np.zeros_like(both), where=both > 0.0)
    # The pseudo-observations of pairs are as correlated as the pairs.
    independent = 1.0 - np.clip(correlation, 0.0, 1.0)[:, None]
    # A sample with less than the weight of a row gets at least the standard error of one row.
    sizes = sample.effective_sizes
    floor = np.where(means * sizes < 1.0, sizes**-2.0, 0.0)
    return np.sqrt(np.maximum(single + PSEUDO_ROWS * independent * uniform / sizes**2, floor))


class ColumnWindows(NamedTuple):
    """Windows of single columns, as features.

    Attributes:
        columns: (k,).
        centers: (k,), in these columns.
        scales: (k,).
    """

    columns: np.ndarray
    centers: np.ndarray
    scales: np.ndarray

    @classmethod
    def choose(
        cls, values: np.ndarray, counts: np.ndarray, column: int, n_locations: int, n_scales: int
    ) -> ColumnWindows:
        """Choose the windows of a column by its values (C,) and their counts."""
        order = np.argsort(values, kind="stable")
        centers = values[order][_quantile_indices(counts[order], n_locations)]
        scales = np.geomspace(SHORTEST, LONGEST, n_scales)
        columns = np.full(len(centers) * n_scales, column)
        return cls(columns, np.tile(centers, n_scales), np.repeat(scales, len(centers)))

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate the weights (r, k) of rows (r, D)."""
        exponents = points[:, self.columns]
        exponents -= self.centers
        exponents /= self.scales
        np.square(exponents, out=exponents)
        exponents *= -0.5
        return exp_of_negative(exponents)

    def fields(self, result: WindowStatistics, median: np.ndarray) -> Fields:
        """Return the fields of the windows; they are at the median (D,) in the other columns."""
        selected, *remaining = result
        at = np.arange(len(selected)), self.columns[selected]
        centers = np.tile(median, (len(selected), 1))
        scales = np.full((len(selected), len(median)), np.inf)
        centers[at], scales[at] = self.centers[selected], self.scales[selected]
        return centers, scales, *remaining


@dataclasses.dataclass(frozen=True)
class LocalDifferences(Statistic):
    """The largest |t| over locations and scales.

    Attributes:
        locations: (k, D), in all columns together.
        joint_scales: scales in all columns together.
        median: (D,), median of each column.
        n_locations: number of locations in a single column.
        n_scales: number of scales in a single column.
    """

    locations: np.ndarray
    joint_scales: np.ndarray
    median: np.ndarray
    n_locations: int
    n_scales: int
    component_weights: ClassVar = (("in one region", 1.0),)

    @classmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Choose the locations by the pooled rows."""
        dimension, chosen = sample.points.shape[1], sample.selection
        is_large = len(sample.points) > LARGE_SAMPLE
        count = LARGE_SAMPLE_LOCATIONS if is_large else LOCATIONS
        scales = GAUSSIAN.squared_lengthscales(LONGEST, SHORTEST, 1) if is_large else SCALES
        if dimension == 1:
            indices = _quantile_indices(chosen.counts, min(count, LINE_LOCATIONS))
            locations = chosen.points[indices]
        else:
            locations = _draw_points(chosen, count)
        n_locations = MAX_WINDOWS // (N_SCALES * dimension)
        n_locations = max(MIN_LOCATIONS, min(LINE_LOCATIONS, n_locations))
        n_scales = max(MIN_SCALES, min(N_SCALES, MAX_WINDOWS // (n_locations * dimension)))
        median = weighted_quantiles(chosen.points, chosen.counts, (0.5,))[0]
        return cls(locations, scales * np.sqrt(dimension), median, n_locations, n_scales)

    @property
    def single_columns(self) -> range:
        """Columns with separate windows."""
        return range(len(self.median) if len(self.median) > MAX_JOINT_ONLY else 0)

    @property
    def _runs(self) -> list[tuple[float, ...]]:
        """Joint scales that are evaluated together."""
        return GAUSSIAN.runs(self.joint_scales)

    def requests(self, sample: PooledSample) -> list[Request[WindowStatistics]]:  # type: ignore[override]
        """Request the local differences in all columns together, some scales at a time."""
        count = len(self.locations)
        return [
            window_request(sample, GAUSSIAN.at(self.locations, *run), count * len(run))
            for run in self._runs
        ]

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate all windows; the details are :class:`LocalStatistics`."""
        requests, groups = self.requests(sample), self._column_groups(sample)
        joint = side_by_side(lambda index: sample.answer(requests[index]), len(requests), Event())

        def single(index: int) -> Fields:
            column, *more = groups[index]
            if more:
                return self._columns_together(sample, groups[index])
            return self.column_fields(sample.select_columns((column,), GRID_SIZE), column)

        return self.join(joint, side_by_side(single, len(groups), Event()))

    def column_fields(self, single: PooledSample, column: int) -> Fields:
        """Return the fields of the windows of a column, of which ``single`` has the values."""
        windows = self._choose_windows(single.points[:, 0], single.counts, column)
        features = windows._replace(columns=np.zeros_like(windows.columns))
        request = window_request(single, features, len(windows.centers))
        return windows.fields(single.answer(request), self.median)

    def _choose_windows(self, values: np.ndarray, counts: np.ndarray, column: int) -> ColumnWindows:
        return ColumnWindows.choose(values, counts, column, self.n_locations, self.n_scales)

    def _columns_together(self, sample: PooledSample, columns: Sequence[int]) -> Fields:
        """Return the fields of the windows of single columns without ties."""
        per_column = [
            self._choose_windows(sample.points[:, column], sample.counts, column)
            for column in columns
        ]
        windows = ColumnWindows(*(np.concatenate(part) for part in zip(*per_column, strict=True)))
        request = window_request(sample, windows, len(windows.centers))
        return windows.fields(sample.answer(request), self.median)

    def _column_groups(self, sample: PooledSample) -> list[range]:
        """Return groups of columns that are evaluated together, which have no ties."""
        if len(sample.points) > GRID_SIZE or sample.bins is not None:
            return [range(column, column + 1) for column in self.single_columns]
        together = max(1, WINDOWS_AT_ONCE // (self.n_locations * self.n_scales))
        groups = []
        ordered = np.sort(sample.points, axis=0)
        distinct = np.all(np.diff(ordered, axis=0) > 0.0, axis=0)
        for without_ties, run in itertools.groupby(
            self.single_columns, lambda column: bool(distinct[column])
        ):
            columns = list(run)
            step = together if without_ties else 1
            groups += [
                range(start, min(start + step, columns[-1] + 1))
                for start in range(columns[0], columns[-1] + 1, step)
            ]
        return groups

    def join(self, joint: Sequence[WindowStatistics], single: Sequence[Fields]) -> Evaluation:
        """Join the windows of all columns together and of each alone."""
        fields = []
        for (selected, *remaining), run in zip(joint, self._runs, strict=True):
            scale, location = np.divmod(selected, len(self.locations))
            scales = np.repeat(np.array(run)[scale, None], len(self.median), axis=1)
            fields.append((self.locations[location], scales, *remaining))
        local = LocalStatistics(
            *(np.concatenate(per_column) for per_column in zip(*fields, *single, strict=True))
        )
        largest = local.largest
        # A difference may be a ten-millionth of the sums that it is computed from, as where a
        # single pair differs.
        magnitude = 1e7 * float(largest.max(initial=0.0))
        return Evaluation(without_rounding(largest, magnitude)[None], local)

    def summarize(self, values: np.ndarray, null: NullOptions) -> list[np.ndarray]:
        """Return the largest |t| itself."""
        return [values[0]]


def local_statistics(sample: PooledSample) -> LocalStatistics:
    """Evaluate the local differences of pooled rows."""
    details = LocalDifferences.choose(sample).evaluate(sample).details
    assert isinstance(details, LocalStatistics)
    return details


def _quantile_indices(counts: np.ndarray, count: int) -> np.ndarray:
    """Return indices (k,) of ordered points with counts at evenly spaced quantiles."""
    levels = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    at = np.searchsorted(levels, (np.arange(count) + 0.5) / count)
    return np.unique(at.clip(max=len(levels) - 1))


def _draw_points(sample: PooledSample, count: int) -> np.ndarray:
    """Draw points (k, D) with probabilities proportional to their rows."""
    if len(sample.points) <= count:
        return sample.points
    probabilities = sample.counts / sample.n_rows
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(probabilities), count, replace=False, p=probabilities)
    return np.asarray(sample.points[np.sort(chosen)])
