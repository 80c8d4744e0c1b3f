"""Regions in which two samples differ: significant windows, merged if adjacent and of equal sign.

A window is a center and a bandwidth of :mod:`bke.inference.statistics.local_differences`; rows have
Gaussian weights in it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import ndtri

from ..permutation.pooled_sample import BLOCK, PooledSample
from ..statistics.kernels import squared_exponential
from ..statistics.local_differences import LocalStatistics

#: Largest distance, in bandwidths, of a point with a sign from the nearest row.
MAX_ROW_DISTANCE = 0.3
#: Products of weights below this are zero.
TINY = 1e-200
#: Number of points at which intervals of constant sign are looked for.
GRID = 1000
#: Number of points, and of rows, at which an interval is tested locally.
INTERVAL_GRID = 200
#: A point has no sign if the difference at a smaller bandwidth, down to the bandwidth over
#: ``MAX_REFINEMENT``, has the opposite sign by ``OPPOSING_ERRORS`` standard errors.
OPPOSING_ERRORS, MAX_REFINEMENT = 2.0, 8.0


@dataclasses.dataclass(frozen=True)
class Region:
    """A region in which one sample has a larger density, smoothed with a bandwidth.

    A row z has the weight ``exp(-1/2 sum_d ((z_d - center_d) / bandwidth_d)^2)``.

    Attributes:
        center: (D,), where the difference is most significant, in the units of the data.
        bandwidth: (D,), in the units of the data; infinite in a column that is not used.
        sign: 1 if the density of P is larger, -1 if that of Q is.
        ratio: mean weight of the rows of P over that of the rows of Q.
        ratio_interval: confidence interval of ``ratio`` at 1 - alpha, simultaneous over all
            windows (CMP-8). It relies on the normal approximation, which is inaccurate for windows
            with few rows. An end beyond 1, as seen from ``ratio``, is cut to exactly 1: the region
            is significant by its permutation p-value, and the interval agrees with this decision.
            The upper end may be infinite.
        pvalue: step-down p-value, adjusted for all windows (CMP-7).
        intervals: for one column, intervals (low, high) in its units in which the ratio of mean
            weights at ``bandwidth`` differs from 1, simultaneously for all windows (CMP-15);
            empty for several columns.
    """

    center: np.ndarray
    bandwidth: np.ndarray
    sign: int
    ratio: float
    ratio_interval: tuple[float, float]
    pvalue: float
    intervals: tuple[tuple[float, float], ...] = ()

    @property
    def columns(self) -> np.ndarray:
        """Indices of the columns that are used."""
        return np.flatnonzero(np.isfinite(self.bandwidth))

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain data for JSON; infinite numbers are ``None``."""
        return {
            "center": self.center.tolist(),
            "bandwidth": [_finite(value) for value in self.bandwidth.tolist()],
            "sign": self.sign,
            "ratio": _finite(self.ratio),
            "ratio_interval": [_finite(end) for end in self.ratio_interval],
            "pvalue": self.pvalue,
            "intervals": [list(interval) for interval in self.intervals],
        }


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


@dataclasses.dataclass(frozen=True)
class LocalMeans:
    """Kernel-weighted means of two samples around points.

    Attributes:
        points: (C, D), in the units of the data.
        weights: (C, 2), weight of each sample at each point; each column adds up to 1.
        effective_sizes: (2,), effective number of rows of each sample.
        independent: true if rows are independent, as the standard errors assume.
    """

    points: np.ndarray
    weights: np.ndarray
    effective_sizes: np.ndarray
    independent: bool = True

    @classmethod
    def from_sample(cls, sample: PooledSample) -> Self:
        """Return the local means of pooled rows for the observed labels."""
        return cls(
            sample.points * sample.scale,
            sample.weights,
            sample.effective_sizes,
            sample.permutation_type != "samples",
        )

    @property
    def range(self) -> np.ndarray:
        """Smallest and largest value of each column, (2, D)."""
        return np.stack([self.points.min(axis=0), self.points.max(axis=0)])

    def evaluate(self, points: np.ndarray, bandwidth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the mean weights of both samples around points (m, D) at a bandwidth (D,).

        Returns:
            Mean weights (m, 2), and their difference over its standard error (m,) as if rows were
            independent; 0 if no row is near.
        """
        means, squares = np.zeros((2, len(points), 2))
        for start in range(0, len(self.points), BLOCK):
            block = slice(start, start + BLOCK)
            kernel = squared_exponential(points / bandwidth, self.points[block] / bandwidth, 1.0)
            means += kernel @ self.weights[block]
            squares += np.square(kernel) @ self.weights[block]
        errors = np.sqrt(np.maximum(squares - means**2, 0.0) @ (1.0 / self.effective_sizes))
        difference = means[:, 0] - means[:, 1]
        t = np.divide(difference, errors, out=np.zeros_like(difference), where=errors > 0.0)
        return means, t


@dataclasses.dataclass(frozen=True)
class SignificantWindows:
    """All significant windows, the most significant first, and the regions that they form.

    Attributes:
        centers: (k, D), in the units of the data.
        bandwidths: (k, D), in the units of the data.
        signs: (k,), 1 if the density of P is larger, -1 if that of Q is.
        widest_first: (k,), their indices by bandwidth, the least significant first if equal.
        regions: adjacent windows of one sign are a region, described by its most significant
            window at whose center :meth:`window_sign` is its sign.
        local_means: local means in all columns; ``None`` if windows use some of the columns only.
        all_bandwidths: (s, D), bandwidths at which the samples were compared, in the units of the
            data; none without local means.
    """

    centers: np.ndarray
    bandwidths: np.ndarray
    signs: np.ndarray
    widest_first: np.ndarray
    regions: tuple[Region, ...]
    local_means: LocalMeans | None
    all_bandwidths: np.ndarray

    def region_sign(self, points: np.ndarray) -> np.ndarray:
        """Return :meth:`window_sign` (m,); for one column 0 outside of the intervals of regions."""
        signs = self.window_sign(points)
        if self.centers.shape[1] > 1:
            return signs
        inside = np.zeros(len(points), dtype=bool)
        for region in self.regions:
            for low, high in region.intervals:
                inside |= (low <= points[:, 0]) & (points[:, 0] <= high) & (signs == region.sign)
        return np.where(inside, signs, 0)

    def window_sign(self, points: np.ndarray) -> np.ndarray:
        """Return the sign (m,) of the narrowest significant window around each point, or 0.

        The point is at most one bandwidth from the center. At that bandwidth the samples differ
        around the point as they do at the center, rows are near, and at no smaller bandwidth, down
        to an eighth of it, is the difference the opposite by two standard errors. So rows on one
        side of a wide window do not determine the sign on the other side. Of equally wide windows
        the most significant one is used.
        """
        signs = np.zeros(len(points), dtype=int)
        if not len(points):
            return signs
        agrees = None if self.local_means is None else functools.cache(self._agreement(points))
        for window in self.widest_first:
            bandwidth, sign = self.bandwidths[window], self.signs[window]
            inside = np.sum(((points - self.centers[window]) / bandwidth) ** 2, axis=1) <= 1.0
            if agrees is not None and inside.any():
                inside &= agrees(tuple(bandwidth), sign)
            signs[inside] = sign
        return signs

    def _agreement(self, points: np.ndarray) -> Callable[[tuple[float, ...], int], np.ndarray]:
        """Return a function that checks the sign of a bandwidth around ``points``."""
        assert self.local_means is not None
        local_means = self.local_means
        low, high = local_means.range
        in_range = ((points >= low) & (points <= high)).all(axis=1)
        evaluate = functools.cache(
            lambda bandwidth: local_means.evaluate(points, np.array(bandwidth))
        )

        def agrees(bandwidth: tuple[float, ...], sign: int) -> np.ndarray:
            mean_p, mean_q = evaluate(bandwidth)[0].T
            scaled_rows = local_means.points / np.array(bandwidth)
            distances = cKDTree(scaled_rows).query(points / np.array(bandwidth))[0]
            agreement = in_range & (distances <= MAX_ROW_DISTANCE)
            agreement &= np.sign(mean_p - mean_q) == sign
            finer = self.all_bandwidths < bandwidth
            finer &= self.all_bandwidths * MAX_REFINEMENT >= bandwidth
            for smaller in self.all_bandwidths[finer.all(axis=1)]:
                agreement &= sign * evaluate(tuple(smaller))[1] > -OPPOSING_ERRORS
            return np.asarray(agreement)

        return agrees

    def constant_sign_intervals(self) -> np.ndarray:
        """Return the interval around the center of each window with one sign, (k, 2), D = 1."""
        low, high = self.centers - self.bandwidths, self.centers + self.bandwidths
        between = np.linspace(low.min(), high.max(), GRID)
        rows = np.empty(0) if self.local_means is None else self.local_means.range.ravel()
        centers = self.centers[:, 0]
        grid = np.unique(np.concatenate([low[:, 0], high[:, 0], centers, between, rows]))
        starts = np.flatnonzero(np.diff(self.window_sign(grid[:, None]), prepend=np.nan) != 0)
        stops = np.append(starts[1:], len(grid)) - 1
        index = np.searchsorted(grid[starts], centers, side="right") - 1
        return np.stack([grid[starts][index], grid[stops][index]], axis=1)

    def differing_intervals(
        self, interval: np.ndarray, window: int, critical: float
    ) -> tuple[tuple[float, float], ...]:
        """Return where in an interval of one column the local difference exceeds its error.

        For pairs, whose errors are not those of independent rows, that is the whole interval.

        Args:
            interval: (2,), ends of the interval of constant sign.
            window: index of the window, whose center is in the interval.
            critical: critical value of a difference over its standard error.
        """
        low, high = map(float, interval)
        if self.local_means is None or not self.local_means.independent:
            return ((low, high),)
        center, bandwidth = self.centers[window, 0], self.bandwidths[window, 0]
        rows = self.local_means.points[:, 0]
        rows = np.unique(rows[(low <= rows) & (rows <= high)])
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, INTERVAL_GRID).astype(int))]
        grid = np.unique(np.concatenate([np.linspace(low, high, INTERVAL_GRID), rows, [center]]))
        t = self.local_means.evaluate(grid[:, None], np.array([bandwidth]))[1]
        # The test found a difference at the center, whose normal error may be a little larger.
        differs = (self.signs[window] * t > critical) | (grid == center)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], differs, [0]])))
        return tuple(
            (float(grid[start]), float(grid[stop])) for start, stop in edges.reshape(-1, 2) - [0, 1]
        )


def find_regions(
    local: LocalStatistics,
    scale: np.ndarray,
    alpha: float,
    *,
    reject: bool,
    local_means: LocalMeans | None = None,
) -> SignificantWindows:
    """Find the windows with a step-down p-value of at most ``alpha``, and their regions.

    Args:
        local: statistics of all windows.
        scale: (D,), divisors of the columns.
        alpha: level.
        reject: whether the overall test rejects; otherwise there are no regions.
        local_means: as for :class:`SignificantWindows`.
    """
    pvalues = local.pvalues() if reject else np.ones(len(local.t))
    significant = np.flatnonzero(pvalues <= alpha)
    size = np.abs(local.t[significant, 0])
    # The narrowest first of windows that are equally significant, as for a column of two values.
    order = significant[np.argsort(-np.round(size, 9), kind="stable")]
    signs = np.sign(local.t[order, 0]).astype(int)
    lower, upper = ratio_intervals(local, alpha)
    # The interval is on that side of 1 on which the test puts the ratio.
    lower = np.where(local.t[:, 0] > 0.0, np.maximum(lower, 1.0), lower)
    upper = np.where(local.t[:, 0] < 0.0, np.minimum(upper, 1.0), upper)
    mean_p, mean_q = local.means.T
    with np.errstate(over="ignore"):  # infinite if the weight of Q is tiny
        infinite = np.full(len(mean_p), np.inf)
        ratios = np.divide(mean_p, mean_q, out=infinite, where=mean_q > 0.0)
    width = np.round(local.scales[order].min(axis=1, initial=np.inf), 9)
    windows = SignificantWindows(
        centers=local.centers[order] * scale,
        bandwidths=local.scales[order] * scale,
        signs=signs,
        widest_first=np.lexsort((-np.arange(len(order)), -width)),
        regions=(),
        local_means=local_means,
        all_bandwidths=np.empty((0, len(scale)))
        if local_means is None
        else np.unique(local.scales * scale, axis=0),
    )
    agree = windows.window_sign(windows.centers) == signs
    in_line = windows.centers.shape[1] == 1 and len(order) > 0
    intervals = windows.constant_sign_intervals() if in_line else None
    critical = _critical_value(local, alpha)
    peaks = _peaks(local, order, signs, agree, intervals)
    regions = tuple(
        Region(
            center=windows.centers[i],
            bandwidth=windows.bandwidths[i],
            sign=int(signs[i]),
            ratio=float(ratios[order[i]]),
            ratio_interval=(float(lower[order[i]]), float(upper[order[i]])),
            pvalue=float(pvalues[order[i]]),
            intervals=()
            if intervals is None
            else windows.differing_intervals(intervals[i], i, critical),
        )
        for i in peaks
    )
    return dataclasses.replace(windows, regions=regions)


def _peaks(
    local: LocalStatistics,
    order: np.ndarray,
    signs: np.ndarray,
    agree: np.ndarray,
    intervals: np.ndarray | None,
) -> list[int]:
    """Return the most significant window, at whose center its sign holds, of each region.

    A group of adjacent windows without such a window is the center of a region at another
    bandwidth. For one column, a region is the windows in one interval of constant sign: a group
    that a wide window connects is one region for each of its intervals.

    Args:
        local: statistics of all windows.
        order: (k,), indices of the significant windows, the most significant first.
        signs: (k,), their signs.
        agree: (k,), whether the sign at the center of a window is its own.
        intervals: (k, 2), of constant sign, for one column.
    """
    if intervals is not None:
        keys = np.column_stack([signs, intervals])[agree]
        first = np.unique(keys, axis=0, return_index=True)[1]
        return sorted(np.flatnonzero(agree)[first].tolist())
    used = np.isfinite(local.scales)
    group = np.full(len(order), -1)
    count = 0
    for i, window in enumerate(order):
        # Windows of different columns are in different regions.
        scale = np.maximum(local.scales[order[:i]], local.scales[window])
        distance = (local.centers[order[:i]] - local.centers[window]) / scale
        adjacent = np.sum(distance**2, axis=1) <= 1.0
        adjacent &= signs[:i] == signs[i]
        adjacent &= (used[order[:i]] == used[window]).all(axis=1)
        if adjacent.any():
            group[i] = group[np.flatnonzero(adjacent)[0]]
        else:
            group[i], count = count, count + 1
    peaks = np.flatnonzero(agree)[np.unique(group[agree], return_index=True)[1]].tolist()
    peaks.sort()
    return [i for i in peaks if not _is_explained(local, order, signs, i, peaks)]


def _is_explained(
    local: LocalStatistics, order: np.ndarray, signs: np.ndarray, peak: int, peaks: list[int]
) -> bool:
    """Return whether a region of fewer columns, of the same sign, is at the same location."""
    columns = np.isfinite(local.scales[order[peak]])
    for other in peaks:
        fewer = np.isfinite(local.scales[order[other]])
        if signs[other] != signs[peak] or fewer.sum() >= columns.sum():
            continue
        windows = order[[peak, other]]
        distance = np.ptp(local.centers[windows][:, fewer], axis=0)
        if (distance <= local.scales[windows][:, fewer].max(axis=0)).all():
            return True
    return False


def _critical_value(local: LocalStatistics, alpha: float) -> float:
    """Return the critical value of |t| over all windows, at least that of a single interval."""
    return max(local.critical_value(alpha), float(ndtri(1.0 - 0.5 * alpha)))


def ratio_intervals(local: LocalStatistics, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Compute simultaneous confidence intervals of the ratio of mean weights in each window.

    An interval consists of the ratios rho for which mean_P - rho mean_Q is within the critical
    value of |t| times its standard error of 0 (Fieller 1954; CMP-8).

    Returns:
        Lower and upper ends, (J,) each. The upper end may be infinite.
    """
    critical = _critical_value(local, alpha)
    (p, q), (error_p, error_q) = local.means.T, local.errors.T
    a, c = q**2 - (critical * error_q) ** 2, p**2 - (critical * error_p) ** 2
    b = p * q - critical**2 * local.covariance
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    bounded = a > 0.0
    divisor = np.where(bounded, a, 1.0)
    total = b + root
    lower = np.where(
        bounded,
        (b - root) / divisor,
        np.divide(c, total, out=np.zeros_like(c), where=total > TINY),
    )
    upper = np.where(bounded, (b + root) / divisor, np.inf)
    return np.maximum(lower, 0.0), upper
