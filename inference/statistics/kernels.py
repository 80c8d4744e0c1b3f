"""Kernels of the statistics: squared exponentials, and Laplace kernels for several columns.

A squared exponential is sensitive to differences of neighborhoods in all columns together. It is
not if each of many columns differs a little in shape, for example by heavier tails: squared
distances are sums over columns, and nearly those of normal columns with the same variance. The
Laplace kernel, exp(-|x - z|_1 / l), is a product over columns with a kink in each, and is sensitive
to that.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.spatial.distance import cdist, pdist

from ..data.canonical import random_part
from ..data.equality import positive_distances
from ..learning.bandwidths import bandwidth_grid
from ..permutation.pooled_sample import PooledSample

if TYPE_CHECKING:
    from bke.models import Laplace, SquaredExponential

#: Distances by their names in SciPy.
Metric: TypeAlias = Literal["euclidean", "cityblock"]
#: A kernel between points (k, D) and (l, D) at a lengthscale: (k, l).
KernelFunction: TypeAlias = Callable[[np.ndarray, np.ndarray, Any], np.ndarray]
#: Number of points beyond which tests use fewer locations, nodes and products of features.
LARGE_SAMPLE = 2**14
#: Number of columns from which distances are computed by a matrix product, and largest sum of
#: squares for which that is accurate.
MIN_PRODUCT_COLUMNS, MAX_SQUARES = 8, 1e6
#: Smallest exponent of a kernel. Denormal numbers take a processor ten times as long, and the
#: square of exp(-345) is still a normal number.
MIN_EXPONENT = -345.0
#: Largest number of lengthscales that are evaluated together: the features of more do not fit into
#: the cache, and use fewer cores.
MAX_RUN = 4
#: Numbers this close to an integer are integers.
INTEGER_TOLERANCE = 1e-9
#: Number of rows whose distances determine the scales.
MAX_DISTANCE_ROWS = 1000
#: Lengthscales of a test: from this multiple of the :data:`SHORT_QUANTILE` of distances up to this
#: multiple of the median distance.
SHORT_QUANTILE, SHORTEST, LONGEST = 0.05, 1.0 / 16.0, 4.0
#: Numbers of lengthscales of both kernels.
N_GAUSSIAN, N_LAPLACE = 9, 5
#: Number of columns up to which Laplace kernels are left out.
MAX_GAUSSIAN_ONLY = 2
#: For very many rows the kernel of a lengthscale is that of the previous one, squared so often.
SQUARINGS = 2


def squared_exponential(
    first: np.ndarray, second: np.ndarray, lengthscale: float | np.ndarray
) -> np.ndarray:
    """Evaluate the squared exponential kernel between points (k, D) and (l, D).

    Args:
        first: (k, D).
        second: (l, D).
        lengthscale: a number, or (l,).
    """
    scale = -0.5 / np.square(np.broadcast_to(lengthscale, len(second)))
    if first.shape[1] >= MIN_PRODUCT_COLUMNS:
        a, b = (np.einsum("ij,ij->i", points, points) for points in (first, second))
        if a.max(initial=0.0) + b.max(initial=0.0) < MAX_SQUARES:
            # |x|^2 + |z|^2 - 2 x'z as one matrix product.
            left = np.column_stack([first, a, np.ones(len(a))])
            right = np.column_stack([-2.0 * second, np.ones(len(b)), b]) * scale[:, None]
            return exp_of_negative(left @ right.T)
    exponents = cdist(first, second, "sqeuclidean")
    exponents *= scale
    return exp_of_negative(exponents)


def exp_of_negative(exponents: np.ndarray) -> np.ndarray:
    """Evaluate exp of numbers that are at most zero, in place, without denormal numbers."""
    np.maximum(exponents, MIN_EXPONENT, out=exponents)
    return np.exp(exponents, out=exponents)


def _square_in_place(values: np.ndarray) -> np.ndarray:
    """Square values of a kernel, in place, without denormal numbers."""
    np.square(values, out=values)
    return np.maximum(values, math.exp(MIN_EXPONENT), out=values)


def _laplace(points: np.ndarray, other_points: np.ndarray, lengthscale: float) -> np.ndarray:
    exponents = cdist(points, other_points, "cityblock")
    exponents *= -1.0 / lengthscale
    return exp_of_negative(exponents)


class KernelFamily(NamedTuple):
    """Kernels that differ by their lengthscale.

    Attributes:
        metric: distance of which the kernels are functions.
        function: evaluates the kernel of a lengthscale.
        power: p; the kernel of lengthscale l is that of lengthscale 1 to the power l^-p.
        name: name of the kernel class in :mod:`bke.models`.
        node_fraction: fraction of the usual number of nodes, for very many rows.
    """

    metric: Metric
    function: KernelFunction
    power: int
    name: str
    node_fraction: float

    @property
    def model(self) -> type[SquaredExponential] | type[Laplace]:
        """The kernel class of :mod:`bke.models`, which imports JAX."""
        from bke import models

        return getattr(models, self.name)  # type: ignore[no-any-return]

    def squarings(self, longer: float, lengthscale: float) -> int:
        """Return the number of squarings that turn the kernel of a longer lengthscale into another.

        It is zero if no number of squarings does.
        """
        exact = self.power * math.log2(longer / lengthscale)
        rounded = round(exact)
        return max(rounded, 0) if abs(exact - rounded) < INTEGER_TOLERANCE else 0

    def runs(self, lengthscales: Iterable[float]) -> list[tuple[float, ...]]:
        """Group lengthscales that are evaluated together, each a square of the previous one."""
        runs: list[tuple[float, ...]] = []
        for lengthscale in map(float, lengthscales):
            last = runs[-1] if runs else ()
            if last and len(last) < MAX_RUN and self.squarings(last[-1], lengthscale) > 0:
                runs[-1] = (*last, lengthscale)
            else:
                runs.append((lengthscale,))
        return runs

    def squared_lengthscales(self, longest: float, shortest: float, squarings: int) -> np.ndarray:
        """Return lengthscales from the longest down to the shortest or just below.

        The kernel of each is that of the previous one, squared so often.
        """
        steps = self.power / squarings * math.log2(longest / shortest)
        count = 1 + math.ceil(steps - INTEGER_TOLERANCE)
        return longest * 2.0 ** (-squarings / self.power * np.arange(count))

    def at(self, nodes: np.ndarray, *lengthscales: float) -> KernelFeatures:
        """Return the kernels of some lengthscales and nodes (k, D), as features."""
        return KernelFeatures(self, nodes, lengthscales)


@dataclasses.dataclass(frozen=True)
class KernelFeatures:
    """Values of kernels of one family between rows and nodes.

    Squaring a kernel takes a tenth of the time of its evaluation.

    Attributes:
        family: family of the kernels.
        nodes: (k, D).
        lengthscales: lengthscale of each kernel.
    """

    family: KernelFamily
    nodes: np.ndarray
    lengthscales: tuple[float, ...]

    def iterate(self, points: np.ndarray) -> Iterator[np.ndarray]:
        """Iterate over the kernels (r, k) between rows (r, D) and nodes, in the same memory."""
        values: np.ndarray | None = None
        last = self.lengthscales[0]
        for lengthscale in self.lengthscales:
            squarings = self.family.squarings(last, lengthscale)
            if values is None or squarings == 0:
                values = self.family.function(points, self.nodes, lengthscale)
            for _ in range(squarings):
                _square_in_place(values)
            last = lengthscale
            yield values

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """Evaluate all kernels (r, L k) between rows (r, D) and nodes, side by side."""
        if len(self.lengthscales) == 1:
            return next(self.iterate(points))
        count = len(self.nodes)
        values = np.empty((len(points), count * len(self.lengthscales)))
        for index, kernel in enumerate(self.iterate(points)):
            values[:, index * count : (index + 1) * count] = kernel
        return values


GAUSSIAN = KernelFamily("euclidean", squared_exponential, 2, "SquaredExponential", 1.0)
# These distances are no matrix product, and take longer.
LAPLACE = KernelFamily("cityblock", _laplace, 1, "Laplace", 0.375)


class KernelScale(NamedTuple):
    """A kernel of a test; the lengthscale is in units of the scaled columns."""

    family: KernelFamily
    lengthscale: float


def choose_scales(sample: PooledSample) -> list[KernelScale]:
    """Return the kernels of a test, from well below the shortest distances upwards."""
    scales = []
    # In few columns both families are equally sensitive. The slower one comes first.
    families = [(LAPLACE, N_LAPLACE), (GAUSSIAN, N_GAUSSIAN)]
    for family, count in families[sample.points.shape[1] <= MAX_GAUSSIAN_ONLY :]:
        short, median = _distance_quantiles(sample, family.metric)
        shortest = SHORTEST * short if sample.permutation_type != "signs" else short
        if _uses_squares(sample):
            lengthscales = family.squared_lengthscales(LONGEST * median, shortest, SQUARINGS)
        else:
            lengthscales = np.geomspace(shortest, LONGEST * median, count)
        scales += [KernelScale(family, float(lengthscale)) for lengthscale in lengthscales]
    return scales


def landmark_lengthscales(sample: PooledSample) -> np.ndarray:
    """Return the lengthscales (L,) of Bayes factors at landmarks."""
    lengthscales = bandwidth_grid(sample.selection.points, 0)
    if _uses_squares(sample):
        lengthscales = GAUSSIAN.squared_lengthscales(lengthscales[-1], lengthscales[0], 1)
    if sample.permutation_type == "signs":
        lengthscales = lengthscales[lengthscales >= _distance_quantiles(sample)[0]]
    return lengthscales


def _uses_squares(sample: PooledSample) -> bool:
    """Return whether several kernels are evaluated together."""
    return len(sample.points) > LARGE_SAMPLE and sample.is_independent


def _distance_quantiles(sample: PooledSample, metric: Metric = "euclidean") -> tuple[float, float]:
    """Return a short distance between rows and the median distance.

    Below the short one few rows are near another, and a statistic depends on single rows. The
    signs of single weighted rows carry no information on a difference.
    """
    points = sample.selection.points
    distances = pdist(random_part(points, MAX_DISTANCE_ROWS, 0), metric)
    if not distances.any():  # rows in bins, nearly all of which are equal
        distances = pdist(random_part(np.unique(points, axis=0), MAX_DISTANCE_ROWS, 0), metric)
    quantiles = np.quantile(positive_distances(distances, points), [SHORT_QUANTILE, 0.5])
    return float(quantiles[0]), float(quantiles[1])


def choose_nodes(sample: PooledSample, max_nodes: int) -> np.ndarray:
    """Choose the nodes (k, D) of a kernel: quantiles of one column, or dispersed rows."""
    chosen = sample.selection
    points = chosen.points
    if len(points) <= max_nodes:
        return points
    if points.shape[1] == 1:
        levels = (np.cumsum(chosen.counts) - 0.5 * chosen.counts) / chosen.n_rows
        at = (np.arange(max_nodes) + 0.5) / max_nodes
        return np.unique(np.interp(at, levels, points[:, 0]))[:, None]
    rng = np.random.default_rng(0)
    drawn = np.sort(rng.choice(len(points), min(len(points), 8 * max_nodes), replace=False))
    dispersed = drawn[kmeans_plusplus(points[drawn], max_nodes // 2, rng)]
    other_points = rng.choice(drawn, max_nodes - max_nodes // 2, replace=False)
    return np.asarray(points[np.unique(np.concatenate([dispersed, other_points]))])
