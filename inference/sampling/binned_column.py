"""One column of a file, reduced to weighted points on which its posterior density depends.

The spectral likelihood of one column is a function of sums over rows. Rows of a narrow bin are
replaced by a few nodes with the same moments. The density is then wrong by tens or hundreds of nats
(of millions) where a zero of mu_hat' lies in a bin, which is enough to find the lengthscales of
high density, with an estimate of the error. At these, few bins contain a zero, and another pass
stores their rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.likelihood.spectral.line import (
    MAX_UNBINNED,
    LineIndex,
    WeightedPoints,
    bin_moments,
    find_bins,
    weighted_line_index,
    weighted_points,
)
from scipy.ndimage import binary_dilation, label

from ..core.errors import InputError, input_errors
from ..core.progress import progress_bar
from ..data.units import Units
from ..streams.rows import Rows
from . import densities
from .densities import BATCH, log_densities
from .samplers import integral
from .target import Target, Task, flatten, unflatten

T = TypeVar("T")


class BinnedColumn:
    """Rows of one column in bins: the moments of each bin, or its rows.

    A pass reads the same chunks however the file is cut, so that sums have the same digits.

    Attributes:
        bins_per_deviation: bins in a standard deviation, up to twice as many; not tuned.
        max_rows: rows that are stored at most; not tuned.
        chunk_rows: rows that are read at a time; not tuned.
        width: width of a bin, in the model's units, a power of two.
        stored: (bins,), of the bins with moments those whose rows are stored.
    """

    bins_per_deviation: ClassVar[int] = 2**11
    max_rows: ClassVar[int] = 2**23
    chunk_rows: ClassVar[int] = 2**17

    def __init__(self, rows: Rows, units: Units, deviation: float, *, progress: bool) -> None:
        """Count the rows of all bins and sum their moments, in two passes.

        Args:
            rows: (n, 1).
            units: the model's units.
            deviation: standard deviation of the rows, in the model's units.
            progress: show progress bars.
        """
        self._rows, self._units, self._progress = rows, units, progress
        self.width = 2.0 ** math.floor(math.log2(deviation / self.bins_per_deviation))
        bins, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for x in self._read("rows, counted"):
            unique, of_chunk = np.unique(find_bins(x, self.width)[0], return_counts=True)
            bins, index = np.unique(np.concatenate([bins, unique]), return_inverse=True)
            counts = np.bincount(index, np.concatenate([counts, of_chunk])).astype(np.int64)
        self._bins = bins[counts > MAX_UNBINNED]
        moments, pieces = bin_moments(np.empty(0, int), np.empty(0), len(self._bins)), []
        for x in self._read("rows, summed"):
            index, binned = self._index(x)
            u = find_bins(x, self.width)[1]
            moments = moments + bin_moments(index[binned], u[binned], len(self._bins))
            pieces.append(x[~binned])
        self._moments, self._sparse_rows = moments, np.concatenate(pieces)
        self._stored_rows = self._sparse_rows[:0]
        self.stored = np.zeros(len(self._bins), dtype=bool)

    @property
    def size(self) -> int:
        """Number of points that represent the rows."""
        nodes = int(np.sum(~self.stored)) * self._moments.shape[1]
        return nodes + len(self._sparse_rows) + len(self._stored_rows)

    def points(self) -> WeightedPoints:
        """Return the points that represent the rows."""
        rows = np.concatenate([self._sparse_rows, self._stored_rows])
        return weighted_points(self._bins, self._moments, self.width, self.stored, rows)

    def store(self, bins: np.ndarray) -> None:
        """Store all rows of further ``bins`` (bins,), in a pass.

        Raises:
            InputError: for more than ``max_rows`` rows.
        """
        self.stored = self.stored | bins
        count = int(self._moments[self.stored, 0].sum())
        if count > self.max_rows:
            raise InputError(
                f"{self._rows.path}: the density depends on {count} single rows, and at most "
                f"{self.max_rows} are kept: read the rows into memory, or leave out outliers, "
                "compared with which the other rows are equal"
            )
        pieces = []
        for x in self._read("rows, some kept"):
            index, binned = self._index(x)
            pieces.append(x[binned & self.stored[index]])
        self._stored_rows = np.concatenate(pieces)

    def _index(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the index of each row's bin among those with moments, and whether it has them."""
        if not len(self._bins):
            return np.zeros(len(x), dtype=np.int64), np.zeros(len(x), dtype=bool)
        bins = find_bins(x, self.width)[0]
        index = np.minimum(np.searchsorted(self._bins, bins), len(self._bins) - 1)
        return index, self._bins[index] == bins

    def _read(self, label: str) -> Iterator[np.ndarray]:
        """Read chunks of the column, dithered, in the model's units."""
        units, rng = self._units, np.random.default_rng(self._units.dither_seed)
        with progress_bar(label, len(self._rows), show=self._progress) as advance:
            for _, block in self._rows.chunks(self.chunk_rows):
                if units.dither.any():  # equal to the dither of all rows at once
                    block = block + rng.uniform(-0.5, 0.5, size=block.shape) * units.dither
                yield units.to_model(block)[:, 0]
                advance(len(block))


class ColumnDensity:
    """Log posterior density given a binned column, evaluated once at each unconstrained point.

    Args:
        target: the model, with one lengthscale.
        column: the rows.
        capacity: number of points for which programs are compiled, relative to those of bins
            without stored rows, so that stored rows need no other program; not tuned.

    Attributes:
        points: the rows as the likelihood needs them.
        max_rounds: integrals after each of which rows are stored; not tuned.
        first_evaluations: evaluations before any rows are stored; not tuned.
    """

    max_rounds: ClassVar[int] = 4
    first_evaluations: ClassVar[int] = 400

    def __init__(self, target: Target, column: BinnedColumn, capacity: int = 2) -> None:
        self._target, self._column = target, column
        self._capacity = capacity * column.size
        self._values: dict[bytes, float] = {}
        self._prepare()

    def __call__(self, z: Mapping[str, Any]) -> np.ndarray:
        """Return the log density (k,) of k points by site."""
        evaluate = densities.compile_log_density(self._target)

        def compute(new: np.ndarray) -> list[float]:
            points = unflatten(new, self._target.shapes)
            return log_densities(evaluate, points, self.points).tolist()

        points = flatten({name: z[name] for name in self._target.shapes})
        return np.array(evaluate_new(self._values, points, compute))

    def resolve(
        self, prior_draws: Mapping[str, np.ndarray], tolerance: float, *, progress: bool
    ) -> float:
        """Store the rows on which the density depends where it is not negligible.

        Args:
            prior_draws: unconstrained, by site; integrals start from their range.
            tolerance: tolerance of the integrals, see :class:`~bke.inference.Quadrature`.
            progress: show progress bars.

        Returns:
            The estimated largest error of a log density that is not negligible, in nats.

        Raises:
            InputError: where more rows would be stored than allowed, or rows are too near each
                other to prepare the likelihood.
        """
        task = Task(self._target, None, prior_draws, self, 0, progress)
        for rounds in range(1, self.max_rounds + 1):
            most = self.first_evaluations if rounds == 1 else None
            integrated = integral(task, tolerance, max_evaluations=most)
            z = integrated.nodes
            uncertain, error = self._uncertain(z, integrated.log_density)
            if not uncertain.any():
                return error
            if rounds < self.max_rounds:
                self._column.store(self._doubtful_bins(z, uncertain))
                # Other points than negligible ones are evaluated again.
                self._values = {at.tobytes(): self._values[at.tobytes()] for at in z[~uncertain]}
                self._prepare()
        warnings.warn(
            f"the log density of the rows may be wrong by {error:.2g} nats, however many are kept: "
            "with rows in memory it is not",
            stacklevel=2,
        )
        return error

    def _prepare(self) -> None:
        """Prepare the likelihood for the points that now represent the rows."""
        self._weighted = column = self._column.points()
        with input_errors():
            width, capacity = self._column.width, self._capacity
            index = weighted_line_index(column.x, column.weights, width, capacity)
        self.points: LineIndex = jax.tree.map(jnp.asarray, index)
        self._errors: dict[bytes, tuple[float, np.ndarray]] = {}

    def _jacobian_errors(
        self, z: np.ndarray, max_ignored: float = 1e-5
    ) -> list[tuple[float, np.ndarray]]:
        """Estimate the error of the log Jacobian at points (k, p), and the bins it comes from.

        Bins of the smallest errors, of ``max_ignored`` nats together, are not among these.
        """
        evaluate = densities.volume_errors(self._target)
        nodes, counts = jnp.asarray(self._weighted.nodes), jnp.asarray(self._weighted.counts)

        def compute(new: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
            points = unflatten(new, self._target.shapes)
            for errors in log_densities(
                lambda at, X: evaluate(at, X, nodes, counts), points, self.points
            ):
                order = np.argsort(errors)
                bins = np.zeros(len(errors), dtype=bool)
                bins[order[np.cumsum(errors[order]) > max_ignored]] = True
                yield float(errors.sum()), bins

        return evaluate_new(self._errors, z, compute)

    def _uncertain(
        self, z: np.ndarray, logs: np.ndarray, *, tolerance: float = 1e-4, margin: float = 50.0
    ) -> tuple[np.ndarray, float]:
        """Find points whose log density may be wrong where it is not negligible.

        Errors are estimated from the highest density down to where they cannot matter.

        Args:
            z: points (k, p).
            logs: their log density (k,).
            tolerance: error of a log density that is accepted, in nats.
            margin: nats below the highest density, errors aside, at which a density is negligible.

        Returns:
            Whether each point (k,) is uncertain, and the largest error of those not negligible.
        """
        errors = np.zeros(len(z))
        order = np.argsort(-logs)
        for start in range(0, len(order), BATCH):
            batch, done = order[start : start + BATCH], order[: start + BATCH]
            errors[batch] = [error for error, _ in self._jacobian_errors(z[batch])]
            best = np.max(logs[done] - errors[done])
            if logs[batch[-1]] + 3.0 * errors[done].max() + margin < best:
                break
        relevant = np.zeros(len(z), dtype=bool)
        relevant[done] = logs[done] + errors[done] > best - margin
        return relevant & (errors > tolerance), float(errors[relevant].max())

    def _doubtful_bins(
        self, z: np.ndarray, uncertain: np.ndarray, *, max_halvings: int = 12, border: int = 2
    ) -> np.ndarray:
        """Find bins (bins,) that may contain a zero of mu_hat' at or between uncertain points.

        Between neighboring lengthscales of which one is uncertain, zeros move. Where the bins of
        two have no neighbors in common, the point in the middle is looked at as well.

        Args:
            z: points (k, p).
            uncertain: (k,).
            max_halvings: halvings of the interval between two points; not tuned.
            border: bins that are added on both sides; not tuned.
        """
        # Lengthscales have the same neighbors in unconstrained coordinates.
        sites = unflatten(z, self._target.shapes)
        lengthscales = np.ravel(sites.get("lengthscale", np.zeros(len(z))))
        unique, first, index = np.unique(lengthscales, return_index=True, return_inverse=True)
        near = binary_dilation(np.bincount(index, uncertain, minlength=len(unique)) > 0)
        pairs = [(z[first[i]], z[first[i + 1]]) for i in np.flatnonzero(near[1:] & near[:-1])]
        doubtful = np.zeros(len(self._weighted.counts), dtype=bool)
        for _ in range(max_halvings):
            self._jacobian_errors(np.array(pairs).reshape(-1, z.shape[1]))  # in batches
            intervals, pairs = pairs, []
            for left, right in intervals:
                (_, bins), (_, other_bins) = self._jacobian_errors(np.stack([left, right]))
                doubtful |= bins | other_bins
                if not (_are_near(bins, other_bins) and _are_near(other_bins, bins)):
                    middle = 0.5 * (left + right)
                    pairs += [(left, middle), (middle, right)]
        return binary_dilation(doubtful, iterations=border)


def evaluate_new(
    cache: dict[bytes, T], z: np.ndarray, compute: Callable[[np.ndarray], Iterable[T]]
) -> list[T]:
    """Return the values at points (k, p), computed for those that are not in the cache."""
    z = np.ascontiguousarray(z)
    new = {point.tobytes(): point for point in z if point.tobytes() not in cache}
    if new:
        cache.update(zip(new, compute(np.stack(list(new.values()))), strict=True))
    return [cache[point.tobytes()] for point in z]


def _are_near(bins: np.ndarray, other_bins: np.ndarray) -> bool:
    """Return whether every run of ``bins`` contains or touches one of the ``other_bins``."""
    runs, count = label(bins)
    near = binary_dilation(other_bins) if other_bins.any() else other_bins
    return len(np.unique(runs[near & bins])) == count
