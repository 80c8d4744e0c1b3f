"""Distances between simulated and observed data: the maximum mean discrepancy, and of summaries."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Protocol, get_args

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.base import Covariance, Kernel
from bke.models.kernels.matern import Matern
from bke.models.likelihood.low_rank.frequencies import draw, kernel_frequencies
from bke.models.linalg.blocks import over_blocks
from numpy.typing import ArrayLike

from ..core.errors import InputError, nearest
from ..core.machine import computing
from ..data.checks import as_sample, check_count
from ..learning.kernel_selection import format_kernel, select_kernel
from ..sampling.record import describe_kernel
from .names import Estimator
from .store import code_of

ESTIMATORS: tuple[str, ...] = get_args(Estimator)
#: Entries of the matrices that are worked on at once.
BLOCK_ENTRIES = 2**22
#: Data sets whose distances are found at once, at most.
MOST_TOGETHER = 256


class Distance(Protocol):
    """What tells how far simulated data are from observed ones."""

    observed: np.ndarray  # (m, D)

    def squared(self, batch: ArrayLike) -> np.ndarray:
        """Evaluate the squared distances (B,) of data sets (B, n, D)."""

    def describe(self) -> dict[str, Any]:
        """Describe the distance by plain data that tell it from others."""


class MMD:
    """Squared maximum mean discrepancy between data sets and the observed one.

    What depends on the observed data alone is computed once. Rows are an unordered sample: of a
    time series the distance sees its distribution only. Where the order of time matters, hand over
    delay vectors, rows (x_t, x_(t - lag)), simulated and observed alike.

    The kernel is chosen from the observed data alone, not from pooled ones: a kernel that hung on
    the simulations would change with their number and with the prior, and the weights of all
    simulations with each of them.

    Args:
        observed: shape (m, D) or (m,).
        kernel: see :func:`~bke.inference.select_kernel`.
        estimator: ``"biased"`` (MMD-4), the distance of the two empirical embeddings;
            ``"unbiased"`` (MMD-5), which may be negative; ``"linear"`` (MMD-13), the mean over
            consecutive pairs of rows, which must not depend on each other (permute those of a
            time series), at a cost linear in n and with much noise, for data sets of as many rows
            as the observed one; ``"features"``, MMD-4 of the kernel that random
            Fourier features approximate (KER-14), linear in n too; 500 of them are faster than
            ``"biased"`` from several hundred rows on.
        features: how many, a cosine and a sine of half as many frequencies.
        scale: of the kernel's choice, see :func:`~bke.inference.select_kernel`.
        seed: of the kernel's choice and of the frequencies.

    Attributes:
        observed: (m, D).
        kernel: in the units of the data.
        estimator: as given.

    Raises:
        InputError: for an estimator that there is not, or a kernel or data that it is not for.
    """

    def __init__(
        self,
        observed: ArrayLike,
        kernel: str | Covariance = "median",
        estimator: str = "biased",
        *,
        features: int = 500,
        scale: str | None = "column",
        seed: int = 0,
    ) -> None:
        if estimator not in ESTIMATORS:
            raise InputError(
                f"estimator must be one of {ESTIMATORS}, got {estimator!r}"
                f"{nearest(estimator, ESTIMATORS)}"
            )
        check_count(features, "features", 2)
        check_count(seed, "seed", 0)
        self.observed = as_sample(observed, "observed", may_be_constant=True)
        self.kernel = select_kernel(observed, kernel, scale=scale, seed=seed, name="observed")
        self.estimator = estimator
        self._features = features if estimator == "features" else None
        self._seed = seed
        with computing():
            self._statistic, self._entries = self._prepared()

    def squared(self, batch: ArrayLike) -> np.ndarray:
        """Estimate the squared MMD (B,) of data sets (B, n, D) or (B, n).

        Raises:
            InputError: they have other columns than the observed data, or too few rows.
        """
        values = np.asarray(batch, dtype=float)
        values = values[:, :, None] if values.ndim == 2 else values
        if values.ndim != 3 or values.shape[2] != self.observed.shape[1]:
            raise InputError(
                f"data sets must have shape (B, n, {self.observed.shape[1]}), got {values.shape}"
            )
        self.check_rows(values.shape[1])
        rows = values.shape[1]
        together = int(np.clip(BLOCK_ENTRIES // (rows * self._entries(rows)), 1, MOST_TOGETHER))
        found = []
        with computing():
            for start in range(0, len(values), together):
                block = values[start : start + together]
                # Blocks of one size, so that one program does.
                filled = block[np.minimum(np.arange(together), len(block) - 1)]
                found.append(np.asarray(self._statistic(filled))[: len(block)])
        return np.concatenate(found) if found else np.zeros(0)

    def check_rows(self, rows: int) -> None:
        """Refuse data sets of so many rows where the estimator is not for them."""
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
        """Describe the distance by plain data that tell it from others."""
        return {
            "distance": "MMD",
            "kernel": describe_kernel(self.kernel),
            "kernel_in_words": format_kernel(self.kernel),
            "estimator": self.estimator,
            **({} if self._features is None else {"features": self._features, "seed": self._seed}),
        }

    def _prepared(self) -> tuple[Callable[[np.ndarray], jax.Array], Callable[[int], int]]:
        """Compile the statistic of a block; with it, the entries it needs per row of a data set."""
        Y, kernel = jnp.asarray(self.observed), self.kernel
        m = len(Y)
        if self.estimator == "features":
            omega, weight = self._frequencies(kernel)
            mean = _mean_waves(Y, omega)
            return functools.partial(_by_waves, omega, weight, mean), lambda n: 2 * len(omega)
        if self.estimator == "linear":
            within = jnp.mean(_of_pairs(kernel, *_halves(Y)))
            return functools.partial(_linear, kernel, Y, within), lambda n: 4
        unbiased = self.estimator == "unbiased"
        within = _within(kernel, Y, unbiased)
        return functools.partial(_by_matrices, kernel, Y, within, unbiased), lambda n: n + m

    def _frequencies(self, kernel: Covariance) -> tuple[jax.Array, jax.Array]:
        dimension = self.observed.shape[1]
        spectral = isinstance(kernel, Kernel) and (
            isinstance(kernel, Matern) or kernel.components(dimension) is not None
        )
        if not spectral:
            raise InputError(
                f"{type(kernel).__name__} has no spectral density to draw features from here: take "
                "another kernel, or estimator='biased'"
            )
        assert isinstance(kernel, Kernel)
        of_kernel, _ = draw(kernel, max(1, (self._features or 2) // 2), dimension, self._seed)
        return kernel_frequencies(kernel, of_kernel)


class Summaries:
    """Squared Euclidean distance between summary statistics of data sets and the observed one's.

    |(s(X) - s(Y)) / scale|^2 with the usual choice of a user's: unless s is sufficient it aims at
    the posterior given s(Y), not given Y.

    Args:
        observed: shape (m, D) or (m,).
        function: s, of one data set, (n, D), or (n,) where there is one column, to a number or an
            array (k,) of them.
        scale: what each statistic is divided by, a number or (k,), such as their standard
            deviations over some data sets that were simulated before.

    Attributes:
        observed: (m, D).
        statistics: s(Y), (k,).

    Raises:
        InputError: for statistics that are not finite numbers, or a scale that is not positive.
    """

    def __init__(
        self, observed: ArrayLike, function: Callable[[np.ndarray], Any], scale: ArrayLike = 1.0
    ) -> None:
        if not callable(function):
            raise InputError(f"summaries must be a function of a data set, got {function!r}")
        self.observed = as_sample(observed, "observed", may_be_constant=True)
        self._function = function
        self.statistics = self._of(self.observed)
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
        """Evaluate the squared distances (B,) of data sets (B, n, D) or (B, n)."""
        return np.sum(((self.of(batch) - self.statistics) / self._scale) ** 2, axis=1)

    def of(self, batch: ArrayLike) -> np.ndarray:
        """Summarise data sets (B, n, D) or (B, n): summaries (B, k).

        Raises:
            InputError: they are not as many as those of the observed data.
        """
        values = np.asarray(batch, dtype=float)
        values = values[:, :, None] if values.ndim == 2 else values
        found = [self._of(one) for one in values]
        for one in found:
            if one.shape != self.statistics.shape:
                raise InputError(
                    f"there are {len(self.statistics)} summaries of the observed data, and "
                    f"{len(one)} of a simulated data set"
                )
        return np.stack(found) if found else np.zeros((0, len(self.statistics)))

    def describe(self) -> dict[str, Any]:
        """Describe the distance by plain data that tell it from others."""
        return {
            "distance": "Summaries",
            "function": code_of(self._function),
            "scale": self._scale.tolist(),
        }

    def _of(self, one: np.ndarray) -> np.ndarray:
        found = np.atleast_1d(
            np.asarray(self._function(one[:, 0] if one.shape[1] == 1 else one), dtype=float)
        )
        if found.ndim != 1 or not len(found):
            raise InputError(f"summaries must be a number or an array (k,), got {found.shape}")
        return found


def _gram_sum(kernel: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    """Sum k(x_i, y_j) over all pairs, some rows at a time."""

    def add(total: jax.Array, rows: jax.Array, _: jax.Array, known: jax.Array) -> jax.Array:
        return total + known @ jnp.sum(kernel.matrix(rows, Y), axis=1)

    return over_blocks(add, jnp.zeros(()), X, max(1, BLOCK_ENTRIES // len(Y)))


def _within_one(kernel: Covariance, X: jax.Array, unbiased: bool) -> jax.Array:
    total, n = _gram_sum(kernel, X, X), len(X)
    if unbiased:
        return (total - jnp.sum(kernel.diagonal(X))) / (n * (n - 1))
    return total / n**2


_within = jax.jit(_within_one, static_argnums=2)


@functools.partial(jax.jit, static_argnums=3)
def _by_matrices(
    kernel: Covariance, Y: jax.Array, within_y: jax.Array, unbiased: bool, batch: jax.Array
) -> jax.Array:
    def one(X: jax.Array) -> jax.Array:
        between = _gram_sum(kernel, X, Y) / (len(X) * len(Y))
        return _within_one(kernel, X, unbiased) + within_y - 2.0 * between

    return jax.vmap(one)(batch)


def _halves(X: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The first and the second of each pair of consecutive rows."""
    pairs = X[: len(X) // 2 * 2].reshape(-1, 2, X.shape[1])
    return pairs[:, 0], pairs[:, 1]


def _of_pairs(kernel: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    """Evaluate k(x_i, y_i) for pairs of rows, (n,)."""
    return jax.vmap(lambda x, y: kernel.matrix(x[None], y[None])[0, 0])(X, Y)


@jax.jit
def _linear(kernel: Covariance, Y: jax.Array, within_y: jax.Array, batch: jax.Array) -> jax.Array:
    first_y, second_y = _halves(Y)

    def one(X: jax.Array) -> jax.Array:
        first, second = _halves(X)
        across = _of_pairs(kernel, first, second_y) + _of_pairs(kernel, second, first_y)
        return jnp.mean(_of_pairs(kernel, first, second) - across) + within_y

    return jax.vmap(one)(batch)


def _mean_waves(X: jax.Array, omega: jax.Array) -> jax.Array:
    """Means of the cosines and of the sines over rows, (2, M)."""

    def add(total: jax.Array, rows: jax.Array, _: jax.Array, known: jax.Array) -> jax.Array:
        phase = rows @ omega.T
        return total + jnp.stack([known @ jnp.cos(phase), known @ jnp.sin(phase)])

    start = jnp.zeros((2, len(omega)))
    return over_blocks(add, start, X, max(1, BLOCK_ENTRIES // len(omega))) / len(X)


@jax.jit
def _by_waves(omega: jax.Array, weight: jax.Array, mean: jax.Array, batch: jax.Array) -> jax.Array:
    def one(X: jax.Array) -> jax.Array:
        return jnp.sum((_mean_waves(X, omega) - mean) ** 2 @ weight)

    return jax.vmap(one)(batch)
