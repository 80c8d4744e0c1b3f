"""The embedding's posterior given a sample of one column, in a basis of cosines and sines.

With the basis Phi of :mod:`~bke.models.likelihood.spectral.waves`, R = Phi D^2 Phi',
mu_hat = Phi D c and the sampling covariance C/n is Phi D T D Phi' with
T = E Phi' H Phi E / (n (n - 1)), E the spectral densities of k over the roots of those of r and H
the centering matrix. With M = I + T = L L' and G = L' D Phi'Phi D L, a nugget of variance s and the
basis B = Phi* D at the points of evaluation, BKE (7) and (8) become

    mean = B S c,  covariance = B (I - S) B',  S = L'^-1 (I - s (G + s I)^-1) L^-1,

where I - S = M^-1 T + s L'^-1 (G + s I)^-1 L^-1 loses no digits however small the posterior
variance is. For noise of one variance T is zero. The rows enter once, by sums over cells.
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
from ..likelihood.noise import SamplingNoise
from ..likelihood.spectral.base import MAX_DENSE
from ..likelihood.spectral.waves import (
    CELL_DENSITY,
    MAX_FREQUENCY,
    TERMS,
    WAVES_RATIO,
    CellMoments,
    basis,
    cell_moments,
    on_waves,
    spectra,
    wave_sums,
    waves_over,
)
from ..linalg.pytrees import register_dataclass
from ..measures import Measure, as_measure
from .posterior import EmbeddingPosterior, embedding_posterior

#: Fewer rows are as fast by matrices at every lengthscale.
MIN_ROWS = 250
#: Lengthscales between the range and its periodic copy: k is nothing beyond, and r 5e-22.
GAP = 14.0
#: From this many times the shortest lengthscale on, a smaller basis is used; not tuned.
LONG_LENGTHSCALE = 1.5


@register_dataclass
@dataclasses.dataclass(frozen=True)
class FourierSample:
    """A sample of one column, prepared for a range of evaluation points by :func:`fourier_sample`.

    Attributes:
        points: (n, 1), in ascending order.
        origin: start of the range, ().
        extent: length of the range, ().
        shortest: the lengthscale from which on the basis is used, ().
        cells: sums over the rows.
        n_frequencies: number of frequencies of the basis.
        n_frequencies_long: number of frequencies for long lengthscales.
    """

    points: Any
    origin: Any
    extent: Any
    shortest: Any
    cells: CellMoments
    n_frequencies: int = dataclasses.field(metadata={"static": True})
    n_frequencies_long: int = dataclasses.field(metadata={"static": True})

    @property
    def entries(self) -> int:
        """The number of array entries that one posterior takes, at a usual lengthscale."""
        return len(self.cells.moments) * TERMS + (2 * self.n_frequencies + 1) ** 2

    @property
    def min_lengthscale(self) -> float:
        """The lengthscale below which no posterior can be computed."""
        return 0.0 if len(self.points) <= MAX_DENSE else float(self.shortest)


def supports_fourier(X: np.ndarray, kernel: Kernel, measure: Measure | str) -> bool:
    """Return whether the basis is defined, and faster, for (n, D) data and the type of kernel."""
    return (
        X.shape[1] == 1
        and len(X) >= MIN_ROWS
        and type(kernel) is SquaredExponential
        and as_measure(measure).translation_invariant
    )


def fourier_sample(X: np.ndarray, low: float, high: float) -> FourierSample:
    """Prepare (n, 1) data for points between ``low`` and ``high``, a range that holds the data."""
    x, extent = np.sort(np.asarray(X, dtype=float)[:, 0]), high - low
    # Extent over the shortest lengthscale: larger where n x n matrices cannot take over.
    ratio = WAVES_RATIO if len(x) <= MAX_DENSE else 4.0 * WAVES_RATIO
    count = math.ceil(CELL_DENSITY * ratio)

    def n_frequencies(ratio: float) -> int:
        return math.ceil(MAX_FREQUENCY * (ratio + GAP) / (2.0 * math.pi))

    return FourierSample(
        x[:, None],
        np.float64(low),
        np.float64(extent),
        np.float64(extent / ratio),
        cell_moments(x - low, extent / count, count),
        n_frequencies(ratio),
        n_frequencies(ratio / LONG_LENGTHSCALE),
    )


def fourier_posterior(
    sample: FourierSample, kernel: Kernel, at: Any, *, noise: Any, measure: Measure | str
) -> EmbeddingPosterior:
    """Compute the posterior of the embedding at points ``at`` (m, 1) in the range, BKE (7), (8).

    As :func:`~bke.models.embedding_posterior`, at a cost that does not depend on n, except for
    lengthscales below ``sample.shortest``: these need n x n matrices, which are limited to
    :data:`~bke.models.likelihood.spectral.MAX_DENSE` rows.

    Raises:
        ArithmeticError: the lengthscale is too short for the number of rows, or the noise is lost
            to rounding compared with R; inside a transformation the result is NaN instead.
    """
    at = as_points(at, "at")
    lengthscale = jnp.reshape(jnp.asarray(cast(SquaredExponential, kernel).lengthscale), ())

    def in_basis(count: int) -> EmbeddingPosterior:
        return _posterior_in_basis(sample, lengthscale, at, noise, as_measure(measure), count)

    def dense() -> EmbeddingPosterior:
        if len(sample.points) > MAX_DENSE:
            return EmbeddingPosterior(jnp.full(len(at), jnp.nan), jnp.full((len(at),) * 2, jnp.nan))
        return embedding_posterior(sample.points, kernel, at, noise=noise, measure=measure)

    branches = (
        dense,
        partial(in_basis, sample.n_frequencies),
        partial(in_basis, sample.n_frequencies_long),
    )
    limits = sample.shortest * jnp.array([1.0, LONG_LENGTHSCALE])
    index = jnp.sum(lengthscale >= limits)
    if isinstance(index, jax.core.Tracer):
        return cast(EmbeddingPosterior, jax.lax.switch(index, branches))
    posterior = branches[int(index)]()
    if np.isnan(np.asarray(posterior.mean)).any():
        raise ArithmeticError(
            f"the lengthscale is below {sample.min_lengthscale:.3g}, too short for all of "
            f"{len(sample.points)} rows, or the noise too small for the diagonal of R: use "
            "landmarks, or raise noise"
        )
    return posterior


def _posterior_in_basis(
    sample: FourierSample,
    lengthscale: jax.Array,
    at: jax.Array,
    noise: Any,
    measure: Measure,
    count: int,
) -> EmbeddingPosterior:
    n = len(sample.points)
    spacing = 2.0 * math.pi / (sample.extent + GAP * lengthscale)
    frequencies = spacing * jnp.arange(2 * count + 1)
    cells = jax.tree.map(jnp.asarray, sample.cells)
    sums = wave_sums(cells, waves_over(cells, spacing, 2 * count), frequencies)
    products, totals, weights = basis(*sums, spacing=spacing)
    log_kernel, log_smoothed = (
        on_waves(log)
        for log in spectra(SquaredExponential(lengthscale), measure, frequencies[: count + 1])
    )
    root = jnp.sqrt(weights)
    D, E = root * jnp.exp(0.5 * log_smoothed), root * jnp.exp(log_kernel - 0.5 * log_smoothed)
    G, s = D[:, None] * products * D, noise
    angles = (at - sample.origin) * frequencies[: count + 1]
    B = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)[:, 1:]], axis=1) * D
    scaled = jnp.column_stack([B.T, E * totals / n])
    identity = jnp.eye(len(D), dtype=D.dtype)
    covariance = jnp.zeros((len(at), len(at)))
    if noise == "clt":
        centered = products - jnp.outer(totals, totals) / n
        T, s = E[:, None] * centered * E / (n * (n - 1)), SamplingNoise().nugget
        L = jnp.linalg.cholesky(identity + T)
        covariance = B @ cho_solve((L, True), T) @ B.T
        G, scaled = L.T @ G @ L, solve_triangular(L, scaled, lower=True)
    # As in the likelihood: NaN where the noise is lost to rounding.
    s = jnp.where(jnp.trace(G) * jnp.finfo(G.dtype).eps < s, s, jnp.nan)
    rest = solve_triangular(jnp.linalg.cholesky(G + s * identity), scaled, lower=True)
    to_points, to_embedding = scaled[:, :-1], scaled[:, -1]
    return EmbeddingPosterior(
        to_points.T @ to_embedding - s * rest[:, :-1].T @ rest[:, -1],
        covariance + s * rest[:, :-1].T @ rest[:, :-1],
    )
