"""Data with the landmarks that they are seen from, in parts that devices can share."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import cho_solve
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import ArrayLike
from scipy.cluster.vq import kmeans2
from scipy.spatial import cKDTree

from ..kernels.base import Kernel, as_points, check_columns, check_positive
from ..linalg.clustering import kmeans_plusplus
from ..linalg.precision import concrete, double_precision
from ..linalg.pytrees import register_dataclass
from ..linalg.rows import reduce_blocks, shared_size
from ..linalg.transforms import value_and_jacobian
from ..measures.measure import Measure, fixed_measure
from .derivative import closed_form
from .landmark_jacobian import feature_map, log_jacobian_at
from .noise import Noise, SamplingNoise, check_noise
from .view import LikelihoodView, LogLikelihoodTerms, Parameters
from .way import Likelihood

#: Entries of the gradients of one block of rows, as fit into a processor's cache, and enough to
#: keep a GPU busy.
BLOCK_ENTRIES, BLOCK_ENTRIES_OF_GPU = 2**17, 2**24
#: Parts at most. They do not depend on the devices, so that neither does rounding.
MOST_PARTS = 256
#: Sizes of a part in every factor of two: data of similar size share compiled programs.
SIZES_PER_OCTAVE = 8
#: Axis of a mesh of devices.
ROWS = "rows"


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LandmarkData:
    """Rows in parts, and landmarks, that sums over rows are taken of for any kernel."""

    parts: jax.Array  # (parts, k, D): the rows in order, then repeats of the last
    count: jax.Array  # (), rows
    landmarks: jax.Array  # (m, D)
    #: The devices that share the parts; ``None``: one has them all.
    mesh: Mesh | None = dataclasses.field(default=None, metadata={"static": True})

    @property
    def entries(self) -> int:
        """Kernel values that one likelihood takes."""
        parts, rows, _ = self.parts.shape
        return parts * rows * len(self.landmarks)

    @property
    def shared_entries(self) -> int:
        """Entries of the gradients, of rows that devices may share."""
        return self.entries * self.landmarks.shape[1]

    @property
    def shares_rows(self) -> bool:
        """Whether devices share the rows."""
        return self.mesh is not None

    def sharded(self, devices: Any) -> Self:
        """The view on several devices, of one process or, each giving all rows, of several."""
        mesh = Mesh(np.asarray(devices), (ROWS,))
        parts = np.asarray(self.parts)
        more = -len(parts) % len(devices)
        parts = np.concatenate([parts, parts[-1:].repeat(more, axis=0)])
        return dataclasses.replace(
            self,
            parts=_placed(parts, mesh, PartitionSpec(ROWS)),
            count=_placed(np.asarray(self.count), mesh, PartitionSpec()),
            landmarks=_placed(np.asarray(self.landmarks), mesh, PartitionSpec()),
            mesh=mesh,
        )


def _placed(array: np.ndarray, mesh: Mesh, spec: PartitionSpec) -> jax.Array:
    sharding = NamedSharding(mesh, spec)
    return jax.make_array_from_callback(array.shape, sharding, lambda part: array[part])


def partition_rows(points: ArrayLike, landmarks: ArrayLike, room: int = 0) -> LandmarkData:
    """Any points (n, D) with landmarks (m, D), in the shape that ``room`` points have."""
    xp: Any = jnp if isinstance(points, jax.core.Tracer) else np
    rows = xp.asarray(points)
    n, dimension = rows.shape
    room = max(room, n)
    blocks = -(-room * len(jnp.asarray(landmarks)) * dimension // BLOCK_ENTRIES)
    parts = 2 ** int(math.log2(min(blocks, MOST_PARTS)))
    size = shared_size(-(-room // parts), SIZES_PER_OCTAVE)
    rows = xp.pad(rows, ((0, parts * size - n), (0, 0)), mode="edge")
    return LandmarkData(
        jnp.asarray(rows.reshape(parts, size, dimension)),
        jnp.asarray(n, rows.dtype),
        jnp.asarray(landmarks),
    )


def check_landmarks(
    points: np.ndarray, landmarks: np.ndarray, *, first: int = 1, of: str = "X"
) -> None:
    """Refuse two landmarks in one, and one on an observation, which it gives no volume.

    Args:
        points: (n, D).
        landmarks: (m, D).
        first: number of the first row.
        of: what has the rows.

    Raises:
        ValueError: naming the landmark, and the row.
    """
    _, places, counts = np.unique(landmarks, axis=0, return_index=True, return_counts=True)
    if (counts > 1).any():
        at = int(places[counts > 1].min()) + 1
        raise ValueError(f"landmark {at} is there more than once: R is singular, take it once")
    near = np.flatnonzero(np.isin(points[:, 0], landmarks[:, 0]))
    for index, place in enumerate(landmarks):
        same = near[(points[near] == place).all(axis=1)]
        if same.size:
            raise ValueError(
                f"landmark {index + 1} is row {first + same[0]} of {of}: there the gradient of k "
                "is zero, so that this landmark gives the row no volume; choose landmarks off the "
                "data"
            )


T = TypeVar("T")

#: Entries of the gradients of a block where each costs an m x m matrix: up to m rows, if so many.
COVARIANCE_ENTRIES = 2**21


class LandmarkSums(NamedTuple):
    """Sums of phi(x) over observations; :meth:`merged` gives those of a union, exactly."""

    n: jax.Array  # ()
    mean: jax.Array  # (m,), phi bar
    #: (m, m), sum of (phi(x_i) - phi bar)(phi(x_i) - phi bar)'; or (), its trace.
    scatter: jax.Array
    log_volume: jax.Array  # (), sum of log gamma(x_i)

    @property
    def spread(self) -> jax.Array:
        """Sum of |phi(x_i) - phi bar|^2."""
        return self.scatter if self.scatter.ndim == 0 else self.scatter.trace()

    @double_precision
    def merged(self, other: LandmarkSums) -> LandmarkSums:
        """Those of both sets of observations, without cancellation (Chan, Golub, LeVeque 1983)."""
        n = self.n + other.n
        share = other.n / jnp.maximum(n, 1.0)
        apart = other.mean - self.mean
        between = apart @ apart if jnp.ndim(self.scatter) == 0 else jnp.outer(apart, apart)
        return LandmarkSums(
            n,
            self.mean + share * apart,
            self.scatter + other.scatter + self.n * share * between,
            self.log_volume + other.log_volume,
        )


#: :meth:`LandmarkSums.merged` of sums with a leading axis, compiled.
merged_each = jax.jit(jax.vmap(LandmarkSums.merged))


def feature_sums(
    view: LandmarkData, kernel: Kernel, *, volume: bool = True, covariance: bool = False
) -> LandmarkSums:
    """Sum over the data of a view; the ``volume`` is most of the work.

    With ``covariance`` the scatter is a matrix.
    """
    zero, m = jnp.zeros(()), len(view.landmarks)
    none = jnp.zeros((m, m)) if covariance else zero
    least = 1
    if covariance and view.mesh is None:
        # A matrix of every part would be more than the data: one part, and no fewer rows in a block
        # than make its matrix worth it.
        dimension = view.parts.shape[-1]
        view = dataclasses.replace(view, parts=view.parts.reshape(1, -1, dimension))
        least = min(m, COVARIANCE_ENTRIES // (m * dimension))
    nothing = LandmarkSums(zero, jnp.zeros(m), none, zero)

    def add(given: Any, sums: LandmarkSums, rows: jax.Array, known: jax.Array) -> LandmarkSums:
        kernel, landmarks = given
        phi = feature_map(rows, landmarks, kernel)
        count = jnp.sum(known)
        mean = known @ phi / jnp.maximum(count, 1.0)
        apart = (phi - mean) * known[:, None]
        scatter = apart.T @ apart if covariance else jnp.vdot(apart, apart)
        log_volume = zero
        if volume:
            log_gamma = log_jacobian_at(rows, landmarks, kernel)
            log_volume = jnp.sum(jnp.where(known > 0.0, log_gamma, 0.0))
        return sums.merged(LandmarkSums(count, mean, scatter, log_volume))

    of_parts = reduce_partitions(add, (kernel, view.landmarks), nothing, view, least)
    sums, _ = jax.lax.scan(lambda sums, part: (sums.merged(part), None), nothing, of_parts)
    return sums


#: :func:`feature_sums`, compiled.
sums_of_view = jax.jit(feature_sums, static_argnames=("volume", "covariance"))


def reduce_partitions(
    add: Callable[[Any, T, jax.Array, jax.Array], T],
    given: Any,
    start: T,
    view: LandmarkData,
    least: int = 1,
) -> T:
    """What the rows of every part of the view add to ``start``, block by block; leading axis parts.

    Args:
        add: of what is ``given``, a total, rows (b, D), and 1 for those to add, 0 for repeats.
        given: what it depends on; all devices have it.
        start: the total of no rows.
        view: every device goes through its own parts, and then has the totals of all.
        least: rows of a block at least, where a part has as many.
    """
    parts, rows, dimension = view.parts.shape
    entries = BLOCK_ENTRIES if jax.default_backend() == "cpu" else BLOCK_ENTRIES_OF_GPU
    most = max(1, least, entries // (len(view.landmarks) * dimension))

    def one(given: Any, count: jax.Array, part: jax.Array, which: jax.Array) -> T:
        def add_block(total: T, block: jax.Array, index: jax.Array, known: jax.Array) -> T:
            return add(given, total, block, known * (which * rows + index < count))

        return reduce_blocks(add_block, start, part, most)

    def own(given: Any, count: jax.Array, mine: jax.Array, which: jax.Array) -> T:
        return jax.lax.map(lambda both: one(given, count, *both), (mine, which))

    arguments = given, view.count, view.parts, jnp.arange(parts)
    if view.mesh is None:
        return own(*arguments)

    def shared(*arguments: Any) -> T:
        return jax.lax.all_gather(own(*arguments), ROWS, tiled=True)  # type: ignore[no-any-return]

    everywhere, split = PartitionSpec(), PartitionSpec(ROWS)
    specs = (everywhere, everywhere, split, split)
    spread = jax.shard_map(
        shared, mesh=view.mesh, in_specs=specs, out_specs=everywhere, check_vma=False
    )
    return spread(*arguments)  # type: ignore[no-any-return]


def landmark_gaussian(sums: LandmarkSums, R: jax.Array, noise_variance: jax.Array) -> jax.Array:
    """Log N( [phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R + noise_variance I ), a scalar.

    NaN where the noise is lost to rounding beside n R.
    """
    n, m = sums.n, len(R)
    nR = n * R
    cholesky = jnp.linalg.cholesky(nR + noise_variance * jnp.eye(m))
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    value = -0.5 * (
        sums.spread / noise_variance
        + n * sums.mean @ cho_solve((cholesky, True), sums.mean)
        + log_determinant
        + (n - 1.0) * m * jnp.log(noise_variance)
        + n * m * math.log(2.0 * math.pi)
    )
    seen = jnp.max(jnp.diagonal(nR)) * m * jnp.finfo(R.dtype).eps < noise_variance
    return jnp.where(seen, value, jnp.nan)


def _gaussian(sums: LandmarkSums, landmarks: jax.Array, parameters: Parameters) -> jax.Array:
    R = parameters.smoothed(landmarks.shape[1]).matrix(landmarks, landmarks)
    return landmark_gaussian(sums, R, parameters.noise_variance)


def terms(view: LandmarkData, parameters: Parameters) -> LogLikelihoodTerms:
    """The Gaussian term and sum_i log gamma(x_i)."""
    sums = feature_sums(view, parameters.kernel)
    return LogLikelihoodTerms(_gaussian(sums, view.landmarks, parameters), sums.log_volume)


def terms_and_slopes(
    view: LandmarkData, parameters: Parameters
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    """Both terms and their slopes (p,): the sums first, then every row against what they are worth.

    No row's slopes are kept, as backward through the sums would, and there is one pass for any
    number of parameters.
    """
    sums = feature_sums(view, parameters.kernel, volume=False)
    value, (of_sums, direct) = jax.value_and_grad(_gaussian, argnums=(0, 2))(
        sums, view.landmarks, parameters
    )
    theta, unravel = ravel_pytree(parameters.kernel)

    def add(given: Any, total: Any, rows: jax.Array, known: jax.Array) -> Any:
        theta, landmarks, mean, of_mean, of_scatter = given
        # Moving the mean does not change the scatter.
        apart = feature_map(rows, landmarks, unravel(theta)) - mean
        worth = (of_mean + 2.0 * of_scatter * apart) * known[:, None]

        def contracted(theta: jax.Array) -> jax.Array:
            phi = feature_map(rows, landmarks, unravel(theta))
            log_gamma = log_jacobian_at(rows, landmarks, unravel(theta))
            volume = jnp.sum(jnp.where(known > 0.0, log_gamma, 0.0))
            return jnp.stack([jnp.vdot(worth, phi), volume])

        return jax.tree.map(jnp.add, total, value_and_jacobian(contracted, theta))

    given = theta, view.landmarks, sums.mean, of_sums.mean / sums.n, of_sums.scatter
    start = jnp.zeros(2), jnp.zeros((2, theta.size))
    of_parts = reduce_partitions(add, given, start, view)
    (_, volume), slopes = jax.tree.map(lambda each: jnp.sum(each, axis=0), of_parts)
    of_direct = ravel_pytree(direct)[0]  # parameters begin with the kernel
    more = len(of_direct) - theta.size
    of_gaussian, of_volume = jnp.pad(slopes, ((0, 0), (0, more)))
    return LogLikelihoodTerms(value, volume), LogLikelihoodTerms(of_gaussian + of_direct, of_volume)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LandmarkLikelihood(LandmarkData, LikelihoodView):
    """What the landmark model is told: its likelihood takes these for any kernel."""

    called = "the landmark model"

    @property
    def rows_of_matrices(self) -> int:
        """Those of R between landmarks."""
        return len(self.landmarks)

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """The Gaussian term and sum_i log gamma(x_i)."""
        parameters = Parameters.of(kernel, noise_variance, measure, self.landmarks.dtype)
        terms: LogLikelihoodTerms = closed_form(self, parameters)
        return terms

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Both terms, from sums over rows."""
        return terms(self, parameters)

    def value_and_slopes(
        self, parameters: Parameters, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Both terms, and their slopes (p,) in the p numbers of ``parameters``."""
        return terms_and_slopes(self, parameters)


@dataclasses.dataclass(frozen=True)
class Landmark(Likelihood):
    """Another model of the same kernel, in which data are seen through m landmarks.

    See :func:`~bke.models.landmark_log_likelihood`; its ``noise_variance`` is that of one k(x, z).

    Args:
        landmarks: places, shape (m, D), in the units of the data and off them; or, for
            :func:`~bke.inference.fit`, how many, at the centres of clusters, or ``None``: 64, or
            one for four rows.
    """

    landmarks: Any = dataclasses.field(default=None, compare=False)

    name = "landmark"

    @property
    def places(self) -> np.ndarray | None:
        """(m, D), where they are given."""
        return np.asarray(self.landmarks) if np.ndim(self.landmarks) else None

    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LandmarkLikelihood:
        """(n, D) ``points`` with the landmarks, which must be places."""
        if isinstance(check_noise(noise_variance), SamplingNoise):
            raise ValueError("likelihood='landmark' has one noise variance, that of k(x, z)")
        if not np.ndim(self.landmarks):
            raise ValueError(
                "likelihood='landmark' needs landmarks: give Landmark(places), such as "
                "choose_landmarks gives"
            )
        return landmark_data(points, as_points(self.landmarks, "landmarks"))

    def record(self) -> dict[str, Any]:
        """Its name: places are data, and kept with them."""
        return {"likelihood": self.name}


def landmark_data(points: jax.Array, landmarks: jax.Array) -> LandmarkLikelihood:
    """The model of points (n, D) seen from landmarks (m, D), m >= D, apart from all others.

    Raises:
        ValueError: for landmarks of other columns, fewer than D, two at one place, or one that is
            an observation.
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
    rows = partition_rows(points, landmarks)
    return LandmarkLikelihood(rows.parts, rows.count, rows.landmarks)


@double_precision
def landmark_log_likelihood(
    X: ArrayLike,
    landmarks: ArrayLike,
    kernel: Kernel,
    *,
    noise_variance: Any,
    measure: Measure | str = "unit",
) -> jax.Array:
    """Log pseudo-likelihood of the data seen through m landmarks: the cost is linear in n.

    ``log N([phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R_zz + tau^2 I) + sum_i log gamma(x_i)`` with
    ``phi(x) = [k(x, z_1), .., k(x, z_m)]`` and ``gamma(x) = det[sum_l grad k(x, z_l) grad
    k(x, z_l)']^(1/2)``, the marginal pseudo-likelihood of the slides on Bayesian learning of kernel
    embeddings (Flaxman, Sejdinovic, Cunningham and Filippi, 2016). Rows are gone through a block
    at a time, so memory does not grow with n.

    Args:
        X: data, shape (n, D) or (n,).
        landmarks: shape (m, D) or (m,), m at least D and better many more; off the data, where
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
        ValueError: for an argument that makes no sense, naming it; a landmark that is a row of X.
        ArithmeticError: where the noise is lost to rounding beside n R; inside a transformation
            the value is NaN there.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    measure = fixed_measure(measure)
    check_positive(noise_variance, "noise_variance")
    view = landmark_data(as_points(X), as_points(landmarks, "landmarks"))
    kernel.smoothed(measure, view.landmarks.shape[1])  # refuses what compiled code could not name
    value = _compiled(view, kernel, noise_variance, measure)
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            "n R + noise_variance I is not positive definite in double precision: noise_variance "
            "is too small beside the diagonal of n R"
        )
    return value


@jax.jit
def _compiled(
    view: LandmarkLikelihood, kernel: Kernel, noise_variance: Any, measure: Measure
) -> jax.Array:
    terms = view.likelihood_terms(kernel, noise_variance, measure)
    return terms.gaussian + terms.volume


#: Rows, drawn at random, from which centres are found.
MOST_ROWS = 20_000
#: A landmark is kept this share of the way to its nearest neighbour off any observation.
OFF = 0.1


@double_precision
def choose_landmarks(X: ArrayLike, count: int, *, seed: int = 0) -> np.ndarray:
    """Find ``count`` centres (count, D) of clusters of (n, D) data, none of several on a row.

    k-means from k-means++ starts (Arthur and Vassilvitskii, 2007), on up to 20 000 rows with every
    column over its standard deviation. A centre on an observation, as of a cluster of one, has no
    gradient there: it is moved a little towards the next centre.

    Raises:
        ValueError: where ``count`` is no whole number, below D, or above the number of different
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
    different = len(np.unique(rows, axis=0))
    if not dimension <= count <= different:
        raise ValueError(
            f"count must be at least {dimension}, one for each column, and at most {different}, "
            f"the number of different rows among the {len(rows)} looked at, got {count}"
        )
    # Squares of 1e-200 would be zero. By powers of two, which change no digit.
    extent = 2.0 ** np.frexp(np.ptp(points, axis=0))[1]
    scale = extent * (points / extent).std(axis=0)
    scale[scale == 0.0] = 1.0
    starts = (rows / scale)[kmeans_plusplus(rows / scale, count, rng)]
    centres, _ = kmeans2(rows / scale, starts, minit="matrix")
    if count > 1:
        gap, nearest = (np.asarray(each) for each in cKDTree(centres).query(centres, k=[2]))
        off, _ = cKDTree(points / scale).query(centres)
        on_data = off < 1e-3 * gap[:, 0]
        centres[on_data] += OFF * (centres[nearest[on_data, 0]] - centres[on_data])
    return np.asarray(centres * scale)


def subsample_rows(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw the rows from which centres are found, all where they are few."""
    n = len(points)
    return points if n <= MOST_ROWS else points[rng.choice(n, MOST_ROWS, replace=False)]
