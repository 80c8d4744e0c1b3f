"""Distances between simulated and observed data sets: the MMD and summary statistics."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.base import Covariance, Kernel
from bke.models.kernels.matern import Matern
from bke.models.likelihood.fourier import draw_frequencies, kernel_frequencies
from bke.models.linalg.rows import reduce_blocks
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.checks import as_sample, check_count
from ..learning.kernel_selection import format_kernel, select_kernel
from ..sampling.record import describe_kernel
from .simulators import fingerprint

#: Estimators of the squared MMD.
ESTIMATORS = ("biased", "unbiased", "linear", "features")
#: Most entries of the matrices in memory at once: 32 MiB in double precision. Not tuned.
BLOCK_ENTRIES = 2**22


class MMD:
    """Squared maximum mean discrepancy (MMD) between data sets and the observed one.

    Terms of the observed data alone are computed once; ``bke.models.squared_mmd`` would compute
    them for every data set. Rows are an unordered sample: the distance compares the marginal
    distributions of two time series. Where the order of time matters, pass delay vectors, rows
    (x_t, x_(t - lag)), both simulated and observed.

    The kernel is chosen from the observed data alone, not from pooled ones: a kernel that depended
    on the simulations would change with their number and with the prior, and with it the weights of
    all simulations.

    Args:
        observed: shape (m, D) or (m,).
        kernel: see :func:`~bke.inference.select_kernel`.
        estimator: ``"biased"``, the distance of the two empirical embeddings (Muandet et al. 2017,
            equation 3.31); ``"unbiased"`` (3.32), which may be negative; ``"linear"`` (section
            3.5.1), the mean over consecutive pairs of rows, which must be independent (permute
            those of a time series), at a cost linear in n and with a large variance, for data sets
            of as many rows as the observed one; ``"features"``, the biased one of the kernel that
            random Fourier features approximate (2.10), also linear in n; 500 of them are faster
            than ``"biased"`` from several hundred rows on.
        num_features: number of random Fourier features, a cosine and a sine for half as many
            frequencies.
        scale: scaling of columns to choose the kernel, see :func:`~bke.inference.select_kernel`.
        seed: random seed for the choice of the kernel and the frequencies.

    Attributes:
        observed: (m, D).
        kernel: in the units of the data.
        estimator: as passed.

    Raises:
        InputError: if the estimator is unknown, or not defined for the kernel or the data.
    """

    def __init__(
        self,
        observed: ArrayLike,
        kernel: str | Covariance = "median",
        estimator: str = "biased",
        *,
        num_features: int = 500,
        standardize: str | None = "column",
        seed: int = 0,
    ) -> None:
        check_choice(estimator, "estimator", ESTIMATORS)
        self._num_features = check_count(num_features, "num_features", 2)
        self._seed = check_count(seed, "seed", 0)
        self.observed = as_sample(observed, "observed", may_be_constant=True)
        self.kernel = select_kernel(
            observed, kernel, standardize=standardize, seed=seed, name="observed"
        )
        self.estimator = estimator
        with computing():
            self._statistic, self._arguments = self._prepare()

    def squared(self, batch: ArrayLike, max_batch: int = 256) -> np.ndarray:
        """Estimate the squared MMD (B,) of data sets (B, n, D) or (B, n).

        Args:
            batch: the data sets.
            max_batch: most data sets in one call of the compiled program; not tuned.

        Raises:
            InputError: if the number of columns differs from the observed data's, or there are too
                few rows.
        """
        values = np.asarray(batch, dtype=float)
        values = values[:, :, None] if values.ndim == 2 else values
        if values.ndim != 3 or values.shape[2] != self.observed.shape[1]:
            raise InputError(
                f"data sets must have shape (B, n, {self.observed.shape[1]}), got {values.shape}"
            )
        rows = values.shape[1]
        self.check_rows(rows)
        entries = rows * (rows + len(self.observed))  # entries of the matrices per data set
        if self.estimator in ("linear", "features"):
            entries = rows * (4 if self.estimator == "linear" else 2 * len(self._arguments[0]))
        size = int(np.clip(BLOCK_ENTRIES // entries, 1, max_batch))
        result = np.zeros(len(values))
        with computing():
            for start in range(0, len(values), size):
                block = values[start : start + size]
                # All blocks have one shape, so that the program is compiled once.
                padded = block[np.minimum(np.arange(size), len(block) - 1)]
                values_of_block = _evaluate_batch(self._statistic, self._arguments, padded)
                result[start : start + size] = np.asarray(values_of_block)[: len(block)]
        return result

    def check_rows(self, rows: int) -> None:
        """Raise ``InputError`` if the estimator is not defined for data sets of ``rows`` rows."""
        if self.estimator == "linear" and rows != len(self.observed):
            raise InputError(
                f"estimator='linear' needs data sets of as many rows as the observed one "
                f"({len(self.observed)}), not {rows}: take 'features', or another estimator"
            )
        if self.estimator in ("unbiased", "linear") and rows < 2:
            raise InputError(
                f"estimator={self.estimator!r} needs data sets of at least 2 rows: take 'biased'"
            )

    def describe(self) -> dict[str, Any]:
        """Describe the distance by plain data that identify it."""
        features = {"num_features": self._num_features, "seed": self._seed}
        return {
            "distance": "MMD",
            "kernel": describe_kernel(self.kernel),
            "kernel_in_words": format_kernel(self.kernel),
            "estimator": self.estimator,
            **(features if self.estimator == "features" else {}),
        }

    def _prepare(self) -> tuple[Callable[..., jax.Array], tuple[Any, ...]]:
        """Return the statistic of a data set, and its arguments before the data set."""
        Y, kernel = jnp.asarray(self.observed), self.kernel
        m, dimension = Y.shape
        if self.estimator == "features":
            if not isinstance(kernel, Kernel) or not (
                isinstance(kernel, Matern) or kernel.components(dimension) is not None
            ):
                raise InputError(
                    f"{type(kernel).__name__} has no spectral density to draw features from here: "
                    "take another kernel, or estimator='biased'"
                )
            draws, _ = draw_frequencies(
                kernel, max(1, self._num_features // 2), dimension, self._seed
            )
            omega, weight = kernel_frequencies(kernel, draws)
            return _feature_mmd, (omega, weight, _mean_features(Y, omega))
        if self.estimator == "linear":
            constant = jnp.mean(_pairwise(kernel, Y[: m - m % 2 : 2], Y[1::2]))
            return _linear_mmd, (kernel, Y, constant)
        unbiased = float(self.estimator == "unbiased")
        return _matrix_mmd, (kernel, Y, _mean_within(kernel, Y, unbiased), unbiased)


class Summaries:
    """Squared Euclidean distance between summary statistics of data sets and the observed ones.

    |(s(X) - s(Y)) / scale|^2 with the user's statistics s: unless they are sufficient, the
    target is the posterior given s(Y), not given Y.

    Args:
        observed: shape (m, D) or (m,).
        function: s, maps one data set, (n, D), or (n,) for one column, to a number or an array
            (k,).
        scale: divisor of each statistic, a number or (k,), such as their standard deviations over
            pilot simulations.

    Attributes:
        observed: (m, D).
        statistics: s(Y), (k,).

    Raises:
        InputError: if the statistics are not finite numbers or the scale is not positive.
    """

    def __init__(
        self, observed: ArrayLike, function: Callable[[np.ndarray], Any], scale: ArrayLike = 1.0
    ) -> None:
        if not callable(function):
            raise InputError(f"summaries must be a function of a data set, got {function!r}")
        self.observed = as_sample(observed, "observed", may_be_constant=True)
        self._function = function
        self.statistics = self._evaluate(self.observed)
        if not np.all(np.isfinite(self.statistics)):
            raise InputError(f"the summaries of the observed data are {self.statistics.tolist()}")
        try:
            self._scale = np.broadcast_to(np.asarray(scale, dtype=float), self.statistics.shape)
        except ValueError:
            raise InputError(
                f"scale must be a number or have shape {self.statistics.shape}, one for each "
                f"summary, got {np.shape(scale)}"
            ) from None
        if not np.all((self._scale > 0.0) & np.isfinite(self._scale)):
            raise InputError("scale must be positive and finite")

    def squared(self, batch: ArrayLike) -> np.ndarray:
        """Compute the squared distances (B,) of data sets (B, n, D) or (B, n)."""
        return np.sum(((self.compute(batch) - self.statistics) / self._scale) ** 2, axis=1)

    def compute(self, batch: ArrayLike) -> np.ndarray:
        """Compute the summaries (B, k) of data sets (B, n, D) or (B, n).

        Raises:
            InputError: if their number differs from that of the observed data.
        """
        values = np.asarray(batch, dtype=float)
        values = values[:, :, None] if values.ndim == 2 else values
        result = [self._evaluate(data_set) for data_set in values]
        for statistics in result:
            if statistics.shape != self.statistics.shape:
                raise InputError(
                    f"there are {len(self.statistics)} summaries of the observed data, and "
                    f"{len(statistics)} of a simulated data set"
                )
        return np.reshape(result, (len(values), len(self.statistics)))

    def describe(self) -> dict[str, Any]:
        """Describe the distance by plain data that identify it."""
        return {
            "distance": "Summaries",
            "function": fingerprint(self._function),
            "scale": self._scale.tolist(),
        }

    def _evaluate(self, rows: np.ndarray) -> np.ndarray:
        statistics = self._function(rows[:, 0] if rows.shape[1] == 1 else rows)
        result = np.atleast_1d(np.asarray(statistics, dtype=float))
        if result.ndim != 1 or not len(result):
            raise InputError(f"summaries must be a number or an array (k,), got {result.shape}")
        return result


def _kernel_sum(kernel: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    """Sum k(x_i, y_j) over all pairs, in blocks of rows."""

    def add(total: jax.Array, rows: jax.Array, _: jax.Array, mask: jax.Array) -> jax.Array:
        return total + mask @ jnp.sum(kernel.matrix(rows, Y), axis=1)

    return reduce_blocks(add, jnp.zeros(()), X, max(1, BLOCK_ENTRIES // len(Y)))


@functools.partial(jax.jit, static_argnums=0)
def _evaluate_batch(
    statistic: Callable[..., jax.Array], arguments: tuple[Any, ...], batch: jax.Array
) -> jax.Array:
    """Evaluate the statistic (B,) of data sets (B, n, D)."""
    return jax.vmap(lambda X: statistic(*arguments, X))(batch)


@jax.jit
def _mean_within(kernel: Covariance, X: jax.Array, unbiased: float) -> jax.Array:
    """Average k(x_i, x_j) over all pairs, without equal indices if ``unbiased`` is 1, not 0."""
    total, n = _kernel_sum(kernel, X, X), len(X)
    return (total - unbiased * jnp.sum(kernel.diagonal(X))) / (n * (n - unbiased))


def _matrix_mmd(
    kernel: Covariance, Y: jax.Array, within_y: jax.Array, unbiased: float, X: jax.Array
) -> jax.Array:
    between = _kernel_sum(kernel, X, Y) / (len(X) * len(Y))
    return _mean_within(kernel, X, unbiased) + within_y - 2.0 * between


@jax.jit
def mean_embedding(
    kernel: Covariance, X: jax.Array, weights: jax.Array, points: jax.Array
) -> jax.Array:
    """Compute sum_i w_i k(x_i, y_j), (n,), of points y, in blocks of rows of X."""

    def add(total: jax.Array, rows: jax.Array, index: jax.Array, mask: jax.Array) -> jax.Array:
        return total + (mask * weights[index]) @ kernel.matrix(rows, points)

    return reduce_blocks(add, jnp.zeros(len(points)), X, max(1, BLOCK_ENTRIES // len(points)))


@jax.jit
def expectations(
    kernel: Covariance, values: jax.Array, weights: jax.Array, points: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Estimate E k(X, X') without bias, from pairs of rows of one data set, and E k(X, y_j), (n,).

    The data sets (S, n, D) have weights (S,). Pairs of rows of all data sets would take S times as
    long, for a variance that differs by a term of order 1 / (S n^2).
    """
    within = weights @ jax.lax.map(lambda X: _mean_within(kernel, X, 1.0), values)
    X, of_row = values.reshape(-1, values.shape[2]), jnp.repeat(weights, values.shape[1])
    return within, mean_embedding(kernel, X, of_row / values.shape[1], points)


def _pairwise(kernel: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    """Evaluate k(x_i, y_i), (n,)."""
    return jax.vmap(lambda x, y: kernel.matrix(x[None], y[None])[0, 0])(X, Y)


def _linear_mmd(kernel: Covariance, Y: jax.Array, within_y: jax.Array, X: jax.Array) -> jax.Array:
    even = len(Y) - len(Y) % 2
    first, second = X[:even:2], X[1:even:2]
    across = _pairwise(kernel, first, Y[1:even:2]) + _pairwise(kernel, second, Y[:even:2])
    return jnp.mean(_pairwise(kernel, first, second) - across) + within_y


def _mean_features(X: jax.Array, omega: jax.Array) -> jax.Array:
    """Average the cosines and sines of the frequencies over rows, (2, M)."""

    def add(total: jax.Array, rows: jax.Array, _: jax.Array, mask: jax.Array) -> jax.Array:
        phase = rows @ omega.T
        return total + jnp.stack([mask @ jnp.cos(phase), mask @ jnp.sin(phase)])

    start = jnp.zeros((2, len(omega)))
    return reduce_blocks(add, start, X, max(1, BLOCK_ENTRIES // len(omega))) / len(X)


def _feature_mmd(
    omega: jax.Array, weight: jax.Array, embedding: jax.Array, X: jax.Array
) -> jax.Array:
    return jnp.sum((_mean_features(X, omega) - embedding) ** 2 @ weight)
