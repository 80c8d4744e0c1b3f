"""One column and a Matern kernel, at every lengthscale: a Kalman filter and sums over both sides.

A Gaussian process whose r is Matern of half-integer order is the first entry z_0 of a Markov
process: with the distance t in units of the rate, ``dz_i/dt = z_(i+1) - z_i`` and white noise after
the last of its m = order + 1/2 states. So log N(y; 0, R + sigma^2 I) is a sum over the sorted
points, each conditional on those before it: the Kalman filter (Hartikainen and Saerkkae, MLSP
2010). Its state is not the covariance P of the process given the past but S = P_inf - P, the part
that the past explains. Over a gap h it becomes A S A', A = exp(h dz/dt), so that the process noise
P_inf - A P_inf A', which at small gaps cancels to nothing, is never formed. This is the Cholesky
factorization of a semiseparable matrix (Foreman-Mackey et al., AJ 154:220, 2017), and as for that
of the n x n matrix its rounding errors are n eps r(0) compared with sigma^2.

k is a polynomial in t times exp(-t). So mu_hat and gamma consist of ``M_k = sum_j t_j^k exp(-t_j)``
over the points to the left, and over those to the right. Over a gap h, t_j becomes t_j + h and all
M_k follow from one another; every term is positive, and none cancels. At a point itself M_0 is at
least 1: nothing relevant underflows, and the slope at the next one is exp(-h) times a polynomial in
h, in log space.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...linalg.pytrees import register_dataclass
from ...linalg.rows import PaddedRows
from .base import SpectralIndex, Sums, column_rows, log_abs, matern_nu, pad_rows, sorted_column

#: Coefficients of k(t) exp(t) and of -k'(t) exp(t) in 1, t, t^2, by the order nu.
VALUE = {0.5: (1.0,), 1.5: (1.0, 1.0), 2.5: (1.0, 1.0, 1.0 / 3.0)}
SLOPE = {0.5: (1.0,), 1.5: (0.0, 1.0), 2.5: (0.0, 1.0 / 3.0, 1.0 / 3.0)}
#: In units of 1 / rate: both ends of such a gap are independent to the last digit.
LONGEST_GAP = 800.0

State = tuple[jax.Array, jax.Array]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class MarkovIndex(SpectralIndex):
    """The points of one column, ascending, prepared for Matern kernels.

    Attributes:
        rows: the points.
        gaps: before the first, between the points, and after the last, (N + 1,).
        neighbors: the nearest point to the left, and to the right, that is not equal, (2, N); any
            where there is none.
        distances: from these, (2, N); inf where there is none.
    """

    rows: PaddedRows
    gaps: Any
    neighbors: Any
    distances: Any

    @property
    def entries(self) -> int:
        """The number of array entries that take as long as one value: 50 for each row."""
        return 50 * len(self.rows)

    @property
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed: all."""
        return 0.0

    def supports(self, kernel: Kernel) -> bool:
        """Return whether the kernel is Matern, or Laplace."""
        return matern_nu(kernel) is not None

    def is_accurate(
        self, kernel: Any, noise_variance: jax.Array, min_noise: float = 2e-11
    ) -> jax.Array:
        """Return whether the noise is more than ``min_noise`` of the trace of R.

        Below, the filter's rounding error affects the sixth digit: 1e5 times double precision.
        """
        return noise_variance > min_noise * self.rows.number

    def sums(self, kernel: Any, noise_variance: jax.Array) -> Sums:
        """Compute the parts of BKE (13) by the filter."""
        rows, n = self.rows, self.rows.number
        rate = math.sqrt(2.0 * kernel.nu) / kernel.lengthscale
        embedding, log_jacobian = embedding_and_log_jacobian(
            self.gaps, self.neighbors, self.distances, rate, kernel.nu, n
        )
        quadratic, log_determinant = filtered(
            rows.mask(embedding),
            rate * self.gaps[:-1],
            noise_variance,
            round(2.0 * kernel.nu + 1.0),
        )
        # Padding is 0 and far from all other rows.
        log_determinant = log_determinant - (len(rows) - n) * jnp.log1p(noise_variance)
        return Sums(quadratic, log_determinant, log_jacobian)


def markov_index(X: np.ndarray) -> MarkovIndex:
    """Prepare (n, 1) data.

    Raises:
        ValueError: for fewer than 250 rows, or all equal ones.
    """
    x = sorted_column(X)
    rows = column_rows(x)
    # Padding is many times any lengthscale away, by a number that is finite.
    gaps = np.concatenate([[0.0], np.diff(x), [1e200] * (len(rows) - len(x)), [0.0]])
    left, right = np.searchsorted(x, x) - 1, np.searchsorted(x, x, side="right")
    bounded = np.concatenate([x, [np.inf, -np.inf]])  # ranks n and -1
    neighbors = np.stack([np.maximum(left, 0), np.minimum(right, len(x) - 1)], axis=1)
    distances = np.stack([x - bounded[left], bounded[right] - x], axis=1)
    size = len(rows)
    return MarkovIndex(rows, gaps, pad_rows(neighbors, size).T, pad_rows(distances, size).T)


def _shift(sums: Sequence[jax.Array], gap: jax.Array) -> list[jax.Array]:
    """Return M_0, M_1, ... over exp(-gap), seen from a point farther by ``gap``."""
    return [
        sum((math.comb(k, j) * gap ** (k - j) * sums[j] for j in range(k + 1)), jnp.zeros_like(gap))
        for k in range(len(sums))
    ]


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _one_sided_sums(
    gaps: jax.Array, rate: jax.Array, powers: int, reverse: bool
) -> tuple[jax.Array, ...]:
    """Compute M_k for k < ``powers`` at every point, (n,), including it and its equals.

    Over the points to the left, or with ``reverse`` to the right; ``gaps`` (n,) are on that side.
    """

    def step(before: Any, gap: jax.Array) -> tuple[Any, Any]:
        first, *rest = (jnp.exp(-gap) * moment for moment in _shift(before, gap))
        sums = (first + 1.0, *rest)
        return sums, sums

    zeros = (jnp.zeros((), gaps.dtype),) * powers
    scaled = jnp.minimum(rate * gaps, LONGEST_GAP)
    return jax.lax.scan(step, zeros, scaled, reverse=reverse)[1]


@_one_sided_sums.defjvp
def _one_sided_sums_jvp(powers: int, reverse: bool, primals: Any, tangents: Any) -> Any:
    """Differentiate in the rate, which times dM_k / drate is k M_k - M_(k+1)."""
    gaps, rate = primals
    sums = _one_sided_sums(gaps, rate, powers + 1, reverse)
    relative = tangents[1] / rate
    return sums[:-1], tuple(relative * (k * sums[k] - sums[k + 1]) for k in range(powers))


def embedding_and_log_jacobian(
    gaps: jax.Array,
    neighbors: jax.Array,
    distances: jax.Array,
    rate: jax.Array,
    nu: float,
    n: Any,
) -> tuple[jax.Array, jax.Array]:
    """Compute mu_hat, BKE (2), and log gamma, BKE (12), at every point, (N,).

    The first arguments are those of :class:`MarkovIndex`, with ``n`` points that are data. At equal
    points k' counts as 0. ``-inf`` where the two sides balance to rounding error.
    """
    total, derivatives, logs = -jnp.ones(()), [], []  # both sides include the point itself
    for side, side_gaps in enumerate((gaps[:-1], gaps[1:])):
        sums = _one_sided_sums(side_gaps, rate, len(VALUE[nu]), bool(side))
        total = total + sum(p * moment for p, moment in zip(VALUE[nu], sums, strict=True))
        # The sum of -k' as a factor and the log of another.
        exists = jnp.isfinite(distances[side])
        gap = rate * jnp.where(exists, distances[side], 0.0)
        shifted = _shift([moment[neighbors[side]] for moment in sums], gap)
        slope = sum(g * moment for g, moment in zip(SLOPE[nu], shifted, strict=True))
        derivatives.append(jnp.where(exists, slope, 0.0))
        logs.append(jnp.where(exists, -gap, -jnp.inf))
    # Any finite constant may be factored out; without a gradient it cancels exactly.
    largest = jax.lax.stop_gradient(jnp.maximum(*logs))
    left, right = (s * jnp.exp(log - largest) for s, log in zip(derivatives, logs, strict=True))
    return total / n, largest + log_abs(right - left, left + right) + jnp.log(rate / n)


def stationary_covariance(states: int) -> np.ndarray:
    """Return P_inf (m, m) for r(0) = 1: integrals of t^a exp(-t) t^b exp(-t), a and b < m."""
    powers = range(states - 1, -1, -1)
    integrals = [[math.comb(a + b, a) / 2.0 ** (a + b) for a in powers] for b in powers]
    return np.array(integrals) / integrals[0][0]


@jax.custom_jvp
def predict(state: State, gap: jax.Array) -> State:
    """Return S (m, m) and mean (m,) farther by a ``gap``: A S A' and A mean.

    A has gap^k / k! exp(-gap) on the k-th diagonal above the main one.
    """
    explained, mean = state
    states = np.arange(len(mean))
    diagonal = states - states[:, None]
    inverse_factorial = [1.0 / math.factorial(k) for k in states]
    scale = np.where(diagonal < 0, 0.0, np.take(inverse_factorial, diagonal, mode="clip"))
    A = jnp.exp(-gap) * scale * gap ** np.maximum(diagonal, 0)
    # Sums and not products of matrices, which take longer to call than to compute at this size.
    half = jnp.sum(A[:, :, None] * explained, axis=1)
    return jnp.sum(half[:, None, :] * A, axis=2), jnp.sum(A * mean, axis=1)


@predict.defjvp
def _predict_jvp(primals: tuple[State, jax.Array], tangents: tuple[State, jax.Array]) -> Any:
    """Differentiate in closed form: dA/dh = F A with F z = dz/dt."""
    (state, gap), (state_dot, gap_dot) = primals, tangents
    (explained, mean), (explained_dot, mean_dot) = predict(state, gap), predict(state_dot, gap)

    def drift(z: jax.Array) -> jax.Array:
        return jnp.concatenate([z[1:] - z[:-1], -z[-1:]])

    half = drift(explained)
    tangent = explained_dot + gap_dot * (half + half.T), mean_dot + gap_dot * drift(mean)
    return (explained, mean), tangent


def filtered(
    y: jax.Array, gaps: jax.Array, noise_variance: jax.Array, states: int
) -> tuple[jax.Array, jax.Array]:
    """Compute y' (R + sigma^2 I)^-1 y and log |R + sigma^2 I| where r(0) = 1.

    Args:
        y: values at the points in ascending order, (n,).
        gaps: to the point before, in units of 1 / rate, (n,); the first is ignored.
        noise_variance: sigma^2.
        states: m, the order of r and a half.
    """
    P = jnp.asarray(stationary_covariance(states), y.dtype)

    def step(carried: Any, point: tuple[jax.Array, jax.Array]) -> tuple[Any, None]:
        state, quadratic, log_determinant = carried
        gap, value = point
        explained, mean = predict(state, gap)
        covariance = P[0] - explained[0]  # between the state and z_0, given the past
        variance = noise_variance + covariance[0]
        gain = covariance / variance
        residual = value - mean[0]
        state = explained + gain[:, None] * covariance, mean + gain * residual
        quadratic = quadratic + residual**2 / variance
        return (state, quadratic, log_determinant + jnp.log(variance)), None

    zero = jnp.zeros((), y.dtype)
    start = (jnp.zeros_like(P), jnp.zeros(states, y.dtype)), zero, zero
    (_, *terms), _ = jax.lax.scan(step, start, (jnp.minimum(gaps, LONGEST_GAP), y))
    return terms[0], terms[1]
