"""What an embedding is conditioned on: all rows, by matrices or by waves, or landmarks."""

from __future__ import annotations

from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import EmbeddingPosterior, embedding_posterior
from bke.models.embeddings.fourier_posterior import (
    FourierSample,
    fourier_posterior,
    fourier_sample,
    supports_fourier,
)
from bke.models.embeddings.posterior import landmark_posterior
from bke.models.kernels.base import Kernel
from bke.models.likelihood.landmark import LandmarkData
from bke.models.likelihood.spectral import MAX_DENSE
from bke.models.measures import Measure

from ..permutation.relabelled import MORE_ROWS

#: Different rows, at most, by which a sample could have had more rows.
MOST_MORE = 1000
#: (n, D) points, or these prepared for sums of waves, or with the landmarks they are seen from.
Sample: TypeAlias = jax.Array | FourierSample | LandmarkData


def rows_of_matrices(sample: np.ndarray, kernel: Kernel, measure: Measure | str) -> int:
    """Size of the matrices that a sample (n, D) may need where there are no landmarks, n or 0."""
    by_waves_alone = len(sample) > MAX_DENSE and supports_fourier(sample, kernel, measure)
    return 0 if by_waves_alone else len(sample)


def by_waves(
    samples: tuple[np.ndarray, ...], at: np.ndarray, kernel: Kernel, measure: Measure | str
) -> tuple[Sample, ...]:
    """Samples (n, D) for questions at the points ``at`` (m, D), prepared where that pays."""
    everything = np.concatenate([*samples, at])
    low, high = float(everything.min()), float(everything.max())
    return tuple(
        jax.tree.map(jnp.asarray, fourier_sample(sample, low, high))
        if supports_fourier(sample, kernel, measure)
        else jnp.asarray(sample)
        for sample in samples
    )


def posterior_of_sample(
    X: Sample, kernel: Kernel, at: jax.Array, *, noise: Any, measure: Measure | str = "unit"
) -> EmbeddingPosterior:
    """Given the empirical embedding at all rows, by matrices or waves, or at landmarks."""
    if isinstance(X, FourierSample):
        return fourier_posterior(X, kernel, at, noise=noise, measure=measure)
    if isinstance(X, LandmarkData):
        return landmark_posterior(X, kernel, at, noise=noise, measure=measure)
    return embedding_posterior(X, kernel, at, noise=noise, measure=measure)


def different_rows(samples: tuple[np.ndarray, ...]) -> np.ndarray:
    """The different rows (k, D) of all samples, or as many of them as are enough, evenly."""
    found = np.unique(np.concatenate(samples), axis=0)
    if len(found) <= MOST_MORE:
        return found
    return np.asarray(found[np.linspace(0, len(found) - 1, MOST_MORE).round().astype(int)])


def errors_of_more_rows(
    kernel: Kernel, different: jax.Array, at: jax.Array, mean: jax.Array, size: float | jax.Array
) -> jax.Array:
    """The covariance (m, m) of an embedding's error by a few more rows that could have been.

    A sample's own rows tell of no sampling error where all of them happen to be equal, as of a rare
    event: see :attr:`~bke.inference.permutation.relabelled.Relabelled.more`.

    Args:
        kernel: the kernel.
        different: rows (k, D) of both samples, each once.
        at: points of evaluation (m, D).
        mean: (m,), of the embedding there.
        size: how many rows the sample has.
    """
    apart = kernel.matrix(different, at) - mean
    return MORE_ROWS / (len(different) * size**2) * (apart.T @ apart)
