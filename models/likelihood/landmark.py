"""The landmark model: a pseudo-likelihood from the values of the kernel at a few fixed points.

    phi(x_i) | mu ~ N(mu, tau^2 I),  mu ~ N(0, R_zz),

with phi(x) = [k(x, z_1), .., k(x, z_m)] at m landmarks z. The n m numbers phi(x_i) have covariance
1 1' (x) R_zz + tau^2 I; their density needs sums over observations and one m x m factorization, and
the Jacobian of x -> phi(x) makes it one of the data.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from scipy.spatial import cKDTree

from ..kernels.base import Kernel, as_points, check_columns
from ..linalg.clustering import column_scale, kmeans_centers
from ..linalg.derivatives import value_and_jacobian
from ..linalg.precision import check_positive, concrete, double_precision
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import reduce_blocks, shared_size
from ..measures import Measure, fixed_measure
from .base import (
    Likelihood,
    LikelihoodSolver,
    LogLikelihoodTerms,
    Parameters,
    compiled_terms,
)
from .landmark_jacobian import log_jacobian_at
from .noise import Noise, SamplingNoise, check_noise

T = TypeVar("T")

#: Entries of the gradients of one block of rows that fit into a processor's cache, and that keep a
#: GPU busy.
BLOCK_ENTRIES, BLOCK_ENTRIES_OF_GPU = 2**17, 2**24
#: Axis of a mesh of devices.
ROWS = "rows"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LandmarkData(LikelihoodSolver):
    """Rows in partitions, and landmarks: data prepared for the landmark model with any kernel.

    Attributes:
        parts: shape (partitions, k, D), the rows in order, then copies of the last.
        count: number of rows, shape ().
        landmarks: shape (m, D).
        mesh: devices that share the partitions; ``None`` for a single one.
    """

    parts: jax.Array
    count: jax.Array
    landmarks: jax.Array
    mesh: Mesh | None = dataclasses.field(default=None, metadata={"static": True})

    description = "the landmark model"

    @property
    def entries(self) -> int:
        """Number of kernel values of one likelihood."""
        partitions, rows, _ = self.parts.shape
        return partitions * rows * len(self.landmarks)

    @property
    def matrix_size(self) -> int:
        """Size of R between landmarks."""
        return len(self.landmarks)

    @property
    def shardable_entries(self) -> int:
        """Number of entries of the gradients, of rows that devices may share."""
        return self.entries * self.landmarks.shape[1]

    @property
    def is_sharded(self) -> bool:
        """True where devices share the rows."""
        return self.mesh is not None

    def sharded(self, devices: Any) -> LandmarkData:
        """Distribute the data over devices of one process or, each with all rows, of several."""
        mesh = Mesh(np.asarray(devices), (ROWS,))

        def put(array: np.ndarray, spec: PartitionSpec) -> jax.Array:
            sharding = NamedSharding(mesh, spec)
            return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])

        parts = np.asarray(self.parts)
        missing = -len(parts) % len(devices)
        return LandmarkData(
            put(np.concatenate([parts, parts[-1:].repeat(missing, axis=0)]), PartitionSpec(ROWS)),
            put(np.asarray(self.count), PartitionSpec()),
            put(np.asarray(self.landmarks), PartitionSpec()),
            mesh,
        )

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Compute both terms from sums over rows."""
        sums = feature_sums(self, parameters.kernel)
        return LogLikelihoodTerms(
            landmark_gaussian(sums, self.landmarks, parameters), sums.log_jacobian
        )

    def value_and_grad(
        self, parameters: Parameters, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Compute both terms and their gradients (p,) in the p numbers of ``parameters``.

        First the sums, then the derivative of every row's features times the derivative of the
        terms in them: no row's gradient is stored, as reverse mode through the sums would, and one
        pass serves any number of parameters.
        """
        sums = feature_sums(self, parameters.kernel, jacobian=False)
        value, (in_sums, in_parameters) = jax.value_and_grad(landmark_gaussian, argnums=(0, 2))(
            sums, self.landmarks, parameters
        )
        theta, unravel = ravel_pytree(parameters.kernel)

        def add(arguments: Any, total: Any, rows: jax.Array, known: jax.Array) -> Any:
            theta, landmarks, mean, in_mean, in_scatter = arguments
            # A shift of the mean does not change the scatter.
            deviations = unravel(theta).matrix(rows, landmarks) - mean
            in_features = (in_mean + 2.0 * in_scatter * deviations) * known[:, None]

            def contracted(theta: jax.Array) -> jax.Array:
                kernel = unravel(theta)
                gaussian = jnp.vdot(in_features, kernel.matrix(rows, landmarks))
                log_gamma = log_jacobian_at(rows, landmarks, kernel)
                return jnp.stack([gaussian, jnp.sum(jnp.where(known > 0.0, log_gamma, 0.0))])

            return jax.tree.map(jnp.add, total, value_and_jacobian(contracted, theta))

        arguments = theta, self.landmarks, sums.mean, in_sums.mean / sums.n, in_sums.scatter
        start = jnp.zeros(2), jnp.zeros((2, theta.size))
        totals = reduce_partitions(add, arguments, start, self)
        (_, log_jacobian), gradients = jax.tree.map(lambda total: jnp.sum(total, axis=0), totals)
        direct = ravel_pytree(in_parameters)[0]  # parameters begin with the kernel
        in_gaussian, in_jacobian = jnp.pad(gradients, ((0, 0), (0, len(direct) - theta.size)))
        gradient = LogLikelihoodTerms(in_gaussian + direct, in_jacobian)
        return LogLikelihoodTerms(value, log_jacobian), gradient


@dataclasses.dataclass(frozen=True)
class Landmark(Likelihood):
    """The landmark model, another model of the same kernel.

    See :func:`~bke.models.landmark_log_likelihood`; its ``noise_variance`` is that of one k(x, z).

    Args:
        landmarks: points, shape (m, D), in the units of the data and not on them; or, for
            :func:`~bke.inference.fit`, their number, at the centers of clusters, or ``None``: 64,
            or one for four rows.
    """

    landmarks: Any = dataclasses.field(default=None, compare=False)

    name = "landmark"

    @property
    def points(self) -> np.ndarray | None:
        """Landmarks (m, D), where they are points."""
        return np.asarray(self.landmarks) if np.ndim(self.landmarks) else None

    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LandmarkData:
        """Prepare ``points`` (n, D) with the landmarks, which must be points.

        Raises:
            ValueError: for landmarks that are no points, or several noise variances.
        """
        if isinstance(check_noise(noise_variance), SamplingNoise):
            raise ValueError("likelihood='landmark' has one noise variance, that of k(x, z)")
        if not np.ndim(self.landmarks):
            raise ValueError(
                "likelihood='landmark' needs landmarks: give Landmark(points), with points such as "
                "choose_landmarks returns"
            )
        return landmark_data(points, as_points(self.landmarks, "landmarks"))

    def record(self) -> dict[str, Any]:
        """Return the name; landmarks are data, and stored with them."""
        return {"likelihood": self.name}


@double_precision
def landmark_log_likelihood(
    X: ArrayLike,
    landmarks: ArrayLike,
    kernel: Kernel,
    *,
    noise_variance: Any,
    measure: Measure | str = "unit",
) -> jax.Array:
    """Compute the log pseudo-likelihood of data through m landmarks, at a cost linear in n.

    ``log N([phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R_zz + tau^2 I) + sum_i log gamma(x_i)`` with
    ``phi(x) = [k(x, z_1), .., k(x, z_m)]`` and ``gamma(x) = det[sum_l grad k(x, z_l) grad
    k(x, z_l)']^(1/2)``, the marginal pseudo-likelihood of the slides on Bayesian learning of kernel
    embeddings (Flaxman, Sejdinovic, Cunningham and Filippi, 2016). Rows are processed in blocks, so
    memory does not grow with n.

    Args:
        X: data, shape (n, D) or (n,).
        landmarks: shape (m, D) or (m,), m at least D and better many more; not on the data, where
            the gradient of k is zero, see :func:`~bke.models.choose_landmarks`. Fixed: there is no
            derivative in them, nor in ``X``.
        kernel: a kernel; its parameters may be traced (jit, grad, vmap).
        noise_variance: tau^2, of one phi(x_i), not of their mean. A positive number that is fixed
            or bounded below: with m > D the value grows without bound as the lengthscale l goes to
            infinity and tau like l^-2 to zero, for phi then fills D of its m dimensions only. A
            small one prefers lengthscales beyond the data, where every k(x, z) is one.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.

    Returns:
        A scalar; ``-inf`` where a gamma(x_i) is exactly zero.

    Raises:
        ValueError: for an invalid argument, naming it; a landmark that is a row of X.
        ArithmeticError: where the noise is lost to rounding next to n R; inside a transformation
            the value is NaN there.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    measure = fixed_measure(measure)
    check_positive(noise_variance, "noise_variance")
    data = landmark_data(as_points(X), as_points(landmarks, "landmarks"))
    # Checked here: compiled code has no names for its errors.
    kernel.smoothed(measure, data.landmarks.shape[1])
    value = jnp.add(*compiled_terms(data, kernel, noise_variance, measure))
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            "n R + noise_variance I is not positive definite in double precision: noise_variance "
            "is too small compared with the diagonal of n R"
        )
    return value


@double_precision
def choose_landmarks(X: ArrayLike, count: int, *, seed: int = 0) -> np.ndarray:
    """Compute ``count`` centers (count, D) of clusters of (n, D) data, none of several on a row.

    k-means from k-means++ seeds (Arthur and Vassilvitskii, 2007), on up to 20 000 rows with every
    column over its standard deviation. A center on an observation, as of a cluster of one, has no
    gradient there: it is moved a tenth of the way to the nearest other center (not tuned).

    Raises:
        ValueError: where ``count`` is not an integer, below D, or above the number of distinct
            rows.
    """
    points = np.asarray(as_points(X))
    try:
        count = operator.index(count)
    except TypeError:
        raise ValueError(f"count must be a whole number, got {count!r}") from None
    dimension = points.shape[1]
    rng = np.random.default_rng(seed)
    rows = subsample_rows(points, rng)
    distinct = len(np.unique(rows, axis=0))
    if not dimension <= count <= distinct:
        raise ValueError(
            f"count must be at least {dimension}, one for each column, and at most {distinct}, "
            f"the number of different rows among the {len(rows)} looked at, got {count}"
        )
    scale = column_scale(points)
    centers = kmeans_centers(rows / scale, count, rng)
    if count > 1:
        gap, nearest = (np.asarray(column)[:, 0] for column in cKDTree(centers).query(centers, [2]))
        distance, _ = cKDTree(points / scale).query(centers)
        on_data = distance < 1e-3 * gap
        centers[on_data] += 0.1 * (centers[nearest[on_data]] - centers[on_data])
    return np.asarray(centers * scale)


def subsample_rows(
    points: np.ndarray, rng: np.random.Generator, max_rows: int = 20_000
) -> np.ndarray:
    """Draw at most ``max_rows`` rows, from which centers are computed (not tuned)."""
    n = len(points)
    return points if n <= max_rows else points[rng.choice(n, max_rows, replace=False)]


def landmark_data(points: jax.Array, landmarks: jax.Array) -> LandmarkData:
    """Prepare points (n, D) with checked landmarks (m, D), m >= D.

    Raises:
        ValueError: for other columns, fewer than D landmarks, equal landmarks, or a landmark on an
            observation.
    """
    dimension = points.shape[1]
    check_columns(points, landmarks, "landmarks")
    if len(landmarks) < dimension:
        raise ValueError(
            f"landmarks has {len(landmarks)} rows, but the volume in {dimension} columns needs at "
            f"least {dimension}"
        )
    if not isinstance(points, jax.core.Tracer) and not isinstance(landmarks, jax.core.Tracer):
        check_landmarks(np.asarray(points), np.asarray(landmarks))
    return partition_rows(points, landmarks)


def check_landmarks(
    points: np.ndarray, landmarks: np.ndarray, *, first: int = 1, name: str = "X"
) -> None:
    """Refuse equal landmarks, and one on an observation, where its gradient is zero.

    Args:
        points: shape (n, D).
        landmarks: shape (m, D).
        first: number of the first row.
        name: name of the data, for messages.

    Raises:
        ValueError: names the landmark, and the row.
    """
    _, indices, counts = np.unique(landmarks, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        number = int(indices[counts > 1].min()) + 1
        raise ValueError(f"landmark {number} is there more than once: R is singular, take it once")
    candidates = np.flatnonzero(np.isin(points[:, 0], landmarks[:, 0]))
    for number, landmark in enumerate(landmarks, 1):
        equal = candidates[(points[candidates] == landmark).all(axis=1)]
        if equal.size:
            raise ValueError(
                f"landmark {number} is row {first + equal[0]} of {name}: there the gradient of k "
                "is zero, so that this landmark gives the row no volume; choose landmarks off the "
                "data"
            )


def partition_rows(
    points: ArrayLike,
    landmarks: ArrayLike,
    capacity: int = 0,
    *,
    max_partitions: int = 256,
    sizes_per_octave: int = 8,
) -> LandmarkData:
    """Split points (n, D) into partitions, with landmarks (m, D) that are not checked.

    Args:
        points: the data.
        landmarks: the landmarks.
        capacity: number of rows, if more than n, for which the shape is chosen.
        max_partitions: number of partitions at most. It does not depend on the devices, so that
            rounding does not either.
        sizes_per_octave: sizes of a partition in every factor of two, so that data of similar size
            share compiled programs.
    """
    xp: Any = jnp if isinstance(points, jax.core.Tracer) else np
    rows = xp.asarray(points)
    n, dimension = rows.shape
    capacity = max(capacity, n)
    blocks = -(-capacity * len(jnp.asarray(landmarks)) * dimension // BLOCK_ENTRIES)
    partitions = 2 ** int(math.log2(min(blocks, max_partitions)))
    size = shared_size(-(-capacity // partitions), sizes_per_octave)
    rows = xp.pad(rows, ((0, partitions * size - n), (0, 0)), mode="edge")
    return LandmarkData(
        jnp.asarray(rows.reshape(partitions, size, dimension)),
        jnp.asarray(n, rows.dtype),
        jnp.asarray(landmarks),
    )


class LandmarkSums(NamedTuple):
    """Sums of phi(x) over observations.

    Args:
        n: number of observations, shape ().
        mean: phi bar, shape (m,).
        scatter: sum of (phi(x_i) - phi bar)(phi(x_i) - phi bar)', shape (m, m); or its trace, ().
        log_jacobian: sum of log gamma(x_i), shape ().
    """

    n: jax.Array
    mean: jax.Array
    scatter: jax.Array
    log_jacobian: jax.Array

    @double_precision
    def merge(self, other: LandmarkSums) -> LandmarkSums:
        """Combine with the sums of other observations (Chan, Golub and LeVeque, 1983)."""
        n = self.n + other.n
        fraction = other.n / jnp.maximum(n, 1.0)
        difference = other.mean - self.mean
        outer = jnp.vdot if jnp.ndim(self.scatter) == 0 else jnp.outer
        return LandmarkSums(
            n,
            self.mean + fraction * difference,
            self.scatter + other.scatter + self.n * fraction * outer(difference, difference),
            self.log_jacobian + other.log_jacobian,
        )


def feature_sums(
    data: LandmarkData,
    kernel: Kernel,
    *,
    jacobian: bool = True,
    covariance: bool = False,
    covariance_entries: int = 2**21,
) -> LandmarkSums:
    """Sum the features of all rows. Traceable.

    Args:
        data: the rows and landmarks.
        kernel: the kernel.
        jacobian: sum log gamma, which is most of the work; else that sum is zero.
        covariance: compute the scatter as a matrix.
        covariance_entries: entries of the gradients of a block where each block costs an m x m
            matrix: blocks then have up to m rows (not tuned).
    """
    zero, m = jnp.zeros(()), len(data.landmarks)
    min_rows = 1
    if covariance and data.mesh is None:
        # A matrix of every partition would be more than the data: one partition, and at least so
        # many rows in a block that they are worth its matrix.
        dimension = data.parts.shape[-1]
        data = dataclasses.replace(data, parts=data.parts.reshape(1, -1, dimension))
        min_rows = min(m, covariance_entries // (m * dimension))
    empty = LandmarkSums(zero, jnp.zeros(m), jnp.zeros((m, m)) if covariance else zero, zero)

    def add(arguments: Any, sums: LandmarkSums, rows: jax.Array, known: jax.Array) -> LandmarkSums:
        kernel, landmarks = arguments
        phi = kernel.matrix(rows, landmarks)
        count = jnp.sum(known)
        mean = known @ phi / jnp.maximum(count, 1.0)
        deviations = (phi - mean) * known[:, None]
        scatter = deviations.T @ deviations if covariance else jnp.vdot(deviations, deviations)
        log_jacobian = zero
        if jacobian:
            log_gamma = log_jacobian_at(rows, landmarks, kernel)
            log_jacobian = jnp.sum(jnp.where(known > 0.0, log_gamma, 0.0))
        return sums.merge(LandmarkSums(count, mean, scatter, log_jacobian))

    totals = reduce_partitions(add, (kernel, data.landmarks), empty, data, min_rows)
    sums, _ = jax.lax.scan(lambda sums, part: (sums.merge(part), None), empty, totals)
    return sums


def reduce_partitions(
    add: Callable[[Any, T, jax.Array, jax.Array], T],
    arguments: Any,
    start: T,
    data: LandmarkData,
    min_rows: int = 1,
) -> T:
    """Fold a function over the rows of every partition, block by block; leading axis partitions.

    Args:
        add: function of ``arguments``, a total, rows (b, D), and 1 for those to add, 0 for copies.
        arguments: what it depends on; every device has it.
        start: the total of no rows.
        data: every device reduces its own partitions, and then has the totals of all.
        min_rows: rows of a block at least, where a partition has as many.
    """
    partitions, rows, dimension = data.parts.shape
    entries = BLOCK_ENTRIES if jax.default_backend() == "cpu" else BLOCK_ENTRIES_OF_GPU
    max_rows = max(1, min_rows, entries // (len(data.landmarks) * dimension))

    def reduce(arguments: Any, count: jax.Array, parts: jax.Array, indices: jax.Array) -> T:
        def reduce_partition(part_and_index: tuple[jax.Array, jax.Array]) -> T:
            part, index = part_and_index

            def add_block(total: T, block: jax.Array, row: jax.Array, known: jax.Array) -> T:
                return add(arguments, total, block, known * (index * rows + row < count))

            return reduce_blocks(add_block, start, part, max_rows)

        return jax.lax.map(reduce_partition, (parts, indices))

    inputs = arguments, data.count, data.parts, jnp.arange(partitions)
    if data.mesh is None:
        return reduce(*inputs)

    def gather(*inputs: Any) -> T:
        return jax.lax.all_gather(reduce(*inputs), ROWS, tiled=True)  # type: ignore[no-any-return]

    replicated, split = PartitionSpec(), PartitionSpec(ROWS)
    sharded = jax.shard_map(
        gather,
        mesh=data.mesh,
        in_specs=(replicated, replicated, split, split),
        out_specs=replicated,
        check_vma=False,
    )
    return sharded(*inputs)  # type: ignore[no-any-return]


def landmark_gaussian(
    sums: LandmarkSums, landmarks: jax.Array, parameters: Parameters
) -> jax.Array:
    """Compute log N( [phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R + noise_variance I ), a scalar.

    NaN where the noise is lost to rounding next to n R.
    """
    n, m, noise_variance = sums.n, len(landmarks), parameters.noise_variance
    nR = n * parameters.smoothed(landmarks.shape[1]).matrix(landmarks, landmarks)
    cholesky = jnp.linalg.cholesky(nR + noise_variance * jnp.eye(m))
    scatter = sums.scatter if sums.scatter.ndim == 0 else sums.scatter.trace()
    value = -0.5 * (
        scatter / noise_variance
        + n * sums.mean @ cho_solve((cholesky, True), sums.mean)
        + 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
        + (n - 1.0) * m * jnp.log(noise_variance)
        + n * m * math.log(2.0 * math.pi)
    )
    resolved = jnp.max(jnp.diagonal(nR)) * m * jnp.finfo(nR.dtype).eps < noise_variance
    return jnp.where(resolved, value, jnp.nan)
