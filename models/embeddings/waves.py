"""The embedding's posterior given a sample of one column, in the basis of waves.

With the basis Phi of :mod:`~bke.models.likelihood.spectral.gaussian`, R = Phi D^2 Phi', mu_hat =
Phi D c and
the sampling covariance C/n (KME-14) is Phi D T D Phi' with T = E Phi' H Phi E / (n (n - 1)), E the
spectral densities of k over the roots of those of r and H the centring matrix. With
M = I + T = L L' and G = L' D Phi'Phi D L, a nugget of variance s and the waves B = Phi* D at the
points asked about, BKE (7) and (8) become

    mean = B S c,  covariance = B (I - S) B',  S = L'^-1 (I - s (G + s I)^-1) L^-1,

where I - S = M^-1 T + s L'^-1 (G + s I)^-1 L^-1 loses no digits however little is left of the
prior. For noise of one variance T is nothing. The rows enter once, by sums over cells.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular

from ..kernels.base import Kernel, as_points
from ..kernels.squared_exponential import SquaredExponential
from ..likelihood.noise import NUGGET
from ..likelihood.spectral.cells import TERMS, Cells, cells_over, wave_sums, waves_over
from ..likelihood.spectral.gaussian import basis, on_waves, spectra
from ..likelihood.spectral.index import (
    LEAST_ROWS,
    LONGEST_GAP,
    SMOOTHED_REACH,
    WAVE_CELLS_PER_LENGTHSCALE,
    WAVES_RATIO,
)
from ..likelihood.spectral.prepared import MOST_DENSE
from ..linalg.pytrees import register_dataclass
from ..measures import Measure, as_measure
from .posterior import EmbeddingPosterior, embedding_posterior

#: Extent over the shortest lengthscale where the matrices cannot take over.
RATIO_WITHOUT_MATRICES = 4.0 * WAVES_RATIO
#: From this many times the shortest on, fewer waves do.
LONG = 1.5


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LineSample:
    """A sample of one column and the range that it is asked about; see :func:`line_sample`."""

    points: Any  # (n, 1), in ascending order
    origin: Any  # (), where the range begins
    extent: Any  # (), of the range
    shortest: Any  # (), the lengthscale from which on waves are taken
    cells: Cells
    waves: int = dataclasses.field(metadata={"static": True})
    fewer_waves: int = dataclasses.field(metadata={"static": True})  # for long lengthscales

    @property
    def entries(self) -> int:
        """Numbers that one posterior goes through, at a usual lengthscale."""
        return len(self.cells.moments) * TERMS + (2 * self.waves + 1) ** 2

    @property
    def least_lengthscale(self) -> float:
        """Below this there is no posterior."""
        return 0.0 if len(self.points) <= MOST_DENSE else float(self.shortest)


def takes_line(X: np.ndarray, kernel: Kernel, measure: Measure | str) -> bool:
    """Whether (n, D) data and such a kernel, of whatever lengthscale, can go by waves and pay."""
    return (
        X.shape[1] == 1
        and len(X) >= LEAST_ROWS
        and type(kernel) is SquaredExponential
        and as_measure(measure).translation_invariant
    )


def line_sample(X: np.ndarray, low: float, high: float) -> LineSample:
    """Prepare (n, 1) data for questions between ``low`` and ``high``, which lie around the data."""
    x = np.sort(np.asarray(X, dtype=float)[:, 0])
    ratio = WAVES_RATIO if len(x) <= MOST_DENSE else RATIO_WITHOUT_MATRICES
    extent, count = high - low, math.ceil(WAVE_CELLS_PER_LENGTHSCALE * ratio)
    waves, fewer = (
        math.ceil(SMOOTHED_REACH * (each + LONGEST_GAP) / (2.0 * math.pi))
        for each in (ratio, ratio / LONG)
    )
    return LineSample(
        x[:, None],
        np.float64(low),
        np.float64(extent),
        np.float64(extent / ratio),
        cells_over(x - low, extent / count, count),
        waves,
        fewer,
    )


def posterior_of_line(
    sample: LineSample, kernel: Kernel, at: Any, *, noise: Any, measure: Measure | str
) -> EmbeddingPosterior:
    """Posterior of the embedding at the points ``at`` (m, 1) within the range, BKE (7) and (8).

    As :func:`~bke.models.embedding_posterior`, at a cost that does not depend on n but at
    lengthscales below ``sample.shortest``: these take the matrices up to
    :data:`~bke.models.likelihood.spectral.MOST_DENSE` rows, and there is nothing beyond.

    Raises:
        ArithmeticError: where there is nothing, or the noise is lost to rounding beside R; inside a
            transformation the result is NaN there.
    """
    at = as_points(at, "at")
    lengthscale = jnp.reshape(jnp.asarray(cast(SquaredExponential, kernel).lengthscale), ())

    def by_waves(count: int) -> EmbeddingPosterior:
        return _by_waves(sample, lengthscale, at, noise, as_measure(measure), count)

    def by_matrices() -> EmbeddingPosterior:
        if len(sample.points) > MOST_DENSE:
            nothing = jnp.full(len(at), jnp.nan)
            return EmbeddingPosterior(nothing, nothing[:, None] * nothing)
        return embedding_posterior(sample.points, kernel, at, noise=noise, measure=measure)

    ways = (by_matrices, partial(by_waves, sample.waves), partial(by_waves, sample.fewer_waves))
    which = sum((lengthscale >= factor * sample.shortest).astype(int) for factor in (1.0, LONG))
    if isinstance(which, jax.core.Tracer):
        return cast(EmbeddingPosterior, jax.lax.switch(which, ways))
    found = ways[int(which)]()
    if np.isnan(np.asarray(found.mean)).any():
        raise ArithmeticError(
            f"the lengthscale is below {sample.least_lengthscale:.3g}, too short for all of "
            f"{len(sample.points)} rows, or the noise too small beside the diagonal of R"
        )
    return found


def _by_waves(
    sample: LineSample, lengthscale: jax.Array, at: jax.Array, noise: Any, measure: Measure, f: int
) -> EmbeddingPosterior:
    n = len(sample.points)
    kernel = SquaredExponential(lengthscale)
    spacing = 2.0 * math.pi / (sample.extent + LONGEST_GAP * lengthscale)
    frequencies = spacing * jnp.arange(2 * f + 1)
    cells = jax.tree.map(jnp.asarray, sample.cells)
    data = basis(
        *wave_sums(cells, waves_over(cells, spacing, 2 * f), frequencies), spacing=spacing, count=n
    )
    log_kernel, log_smoothed = (
        on_waves(log) for log in spectra(kernel, measure, frequencies[: f + 1])
    )
    root = jnp.sqrt(data.weights)
    D, E = root * jnp.exp(0.5 * log_smoothed), root * jnp.exp(log_kernel - 0.5 * log_smoothed)
    G, s = D[:, None] * data.products * D, noise
    turn = (at - sample.origin) * frequencies[: f + 1]
    B = jnp.concatenate([jnp.cos(turn), jnp.sin(turn)[:, 1:]], axis=1) * D
    scaled = jnp.column_stack([B.T, E * data.sums / n])
    one = jnp.eye(len(D), dtype=D.dtype)
    covariance = jnp.zeros((len(at), len(at)))
    if noise == "clt":
        centred = data.products - jnp.outer(data.sums, data.sums) / n
        T, s = E[:, None] * centred * E / (n * (n - 1)), NUGGET
        L = jnp.linalg.cholesky(one + T)
        covariance = B @ cho_solve((L, True), T) @ B.T
        G, scaled = L.T @ G @ L, solve_triangular(L, scaled, lower=True)
    # As in the likelihood: no number where the noise is lost to rounding.
    s = jnp.where(jnp.trace(G) * jnp.finfo(G.dtype).eps < s, s, jnp.nan)
    rest = solve_triangular(jnp.linalg.cholesky(G + s * one), scaled, lower=True)
    to_points, to_embedding = scaled[:, :-1], scaled[:, -1]
    return EmbeddingPosterior(
        to_points.T @ to_embedding - s * rest[:, :-1].T @ rest[:, -1],
        covariance + s * rest[:, :-1].T @ rest[:, :-1],
    )
