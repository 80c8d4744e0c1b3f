"""Draws of the witness at given hyperparameters, of two embeddings or of their difference."""

from __future__ import annotations

import functools
import numbers
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models import EmbeddingPosterior, embedding_posterior
from bke.models.embeddings import fourier_posterior as fourier
from bke.models.embeddings.posterior import landmark_posterior
from bke.models.kernels.base import Kernel
from bke.models.likelihood.landmark import LandmarkData, partition_rows
from bke.models.likelihood.spectral.base import MAX_DENSE
from bke.models.linalg.pivoted_cholesky import pivoted_cholesky
from bke.models.measures import Measure
from numpy.typing import ArrayLike

from ..comparison.difference_posterior import difference_posterior
from ..core.compilation import jit
from ..core.errors import InputError
from ..core.machine import cores
from ..data.new_rows import as_evaluation_points
from ..permutation.pool import pool_rows
from ..permutation.pooled_sample import PSEUDO_ROWS
from ..permutation.samples import TwoSamples
from ..sampling import densities
from ..sampling.open_run import OpenRun
from ..sampling.target import Target

#: Rows (n, D), or rows prepared for Fourier sums or for landmarks.
Sample: TypeAlias = jax.Array | fourier.FourierSample | LandmarkData
#: Two samples, their distinct rows (k, D) and their sizes.
Prepared: TypeAlias = tuple[Sequence[Sample], jax.Array, Sequence[Any]]


def check_noise(noise: Any) -> None:
    """Refuse a noise that is neither ``"clt"`` nor a positive number."""
    number = isinstance(noise, numbers.Real) and not isinstance(noise, bool)
    if noise != "clt" and not (number and np.isfinite(noise) and noise > 0):
        raise InputError(f"noise must be 'clt' or a positive number, got {noise!r}")


def matrix_size(sample: np.ndarray, kernel: Kernel, measure: Measure | str) -> int:
    """Return the size of the matrices that a sample (n, D) needs without landmarks, n or 0."""
    fourier_only = len(sample) > MAX_DENSE and fourier.supports_fourier(sample, kernel, measure)
    return 0 if fourier_only else len(sample)


def prepare_samples(
    samples: Sequence[np.ndarray],
    at: np.ndarray,
    kernel: Kernel,
    measure: Measure | str = "unit",
    landmarks: np.ndarray | None = None,
) -> Prepared:
    """Prepare two samples (n, D) for :func:`witness_posterior` at points (m, D).

    For landmarks (k, D) if there are any, else for Fourier sums if the kernel has them.
    """
    distinct, sizes = jnp.asarray(distinct_rows(samples)), [float(len(X)) for X in samples]
    if landmarks is not None:
        return [partition_rows(X, landmarks) for X in samples], distinct, sizes
    pooled = np.concatenate([*samples, at])
    low, high = float(pooled.min()), float(pooled.max())
    prepared = [
        fourier.fourier_sample(X, low, high) if fourier.supports_fourier(X, kernel, measure) else X
        for X in samples
    ]
    return jax.tree.map(jnp.asarray, prepared), distinct, sizes


def distinct_rows(samples: Sequence[np.ndarray], most: int = 1000) -> np.ndarray:
    """Return the distinct rows (k, D) of all samples, evenly spaced if there are more than most.

    The limit bounds the cost of :func:`pseudo_observation_covariance`; it is not tuned.
    """
    rows = np.unique(np.concatenate(samples), axis=0)
    if len(rows) <= most:
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, most).round().astype(int)])


def pseudo_observation_covariance(
    kernel: Kernel, distinct: jax.Array, at: jax.Array, mean: jax.Array, size: float | jax.Array
) -> jax.Array:
    """Compute the covariance (m, m) that two pseudo-observations add to the error of an embedding.

    The rows of a sample that are all equal, as of a rare event that did not occur, show no sampling
    error. Two pseudo-observations, each equally likely to be any of the distinct rows, have some:
    see :attr:`~bke.inference.permutation.pooled_sample.PooledSample.pseudo_squared_weights`.

    Args:
        kernel: the kernel.
        distinct: distinct rows (k, D) of both samples.
        at: points of evaluation (m, D).
        mean: the embedding there, (m,).
        size: number of rows of the sample.
    """
    deviations = kernel.matrix(distinct, at) - mean
    return PSEUDO_ROWS / (len(distinct) * size**2) * (deviations.T @ deviations)


def witness_posterior(
    prepared: Prepared, kernel: Kernel, at: jax.Array, noise: Any, measure: Measure | str = "unit"
) -> EmbeddingPosterior:
    """Compute the posterior of mu_P - mu_Q at points (m, D), given two samples.

    Args:
        prepared: of :func:`prepare_samples`.
        kernel: the kernel.
        at: points of evaluation.
        noise: see :func:`~bke.inference.sample_witness`.
        measure: measure of the prior.
    """
    samples, distinct, sizes = prepared
    functions = {fourier.FourierSample: fourier.fourier_posterior, LandmarkData: landmark_posterior}
    P, Q = (
        functions.get(type(X), embedding_posterior)(X, kernel, at, noise=noise, measure=measure)  # type: ignore[operator]
        for X in samples
    )
    covariance = P.covariance + Q.covariance
    if noise == "clt":
        for posterior, size in zip((P, Q), sizes, strict=True):
            covariance += pseudo_observation_covariance(kernel, distinct, at, posterior.mean, size)
    return EmbeddingPosterior(P.mean - Q.mean, covariance)


@functools.partial(jax.vmap, in_axes=(0, None))
def gaussian_draws(key: jax.Array, covariance: jax.Array) -> jax.Array:
    """Draw from N(0, covariance) for each key, (k, m); call it in jit.

    The covariance of a smooth process is numerically singular: the pivoted factor stops before the
    negative variances that rounding leaves, and drops 1e-9 of the total variance at most.
    """
    diagonal = jnp.maximum(jnp.diagonal(covariance), 0.0)
    factor = pivoted_cholesky(
        lambda i: covariance[i], diagonal, len(covariance), 1e-9 * jnp.sum(diagonal)
    ).factor
    return jax.random.normal(key, (len(factor),), covariance.dtype) @ factor


def witness_from_embeddings(
    run: OpenRun,
    samples: Sequence[np.ndarray],
    at: np.ndarray,
    z: Mapping[str, Any],
    repeats: int,
    seed: int,
    advance: Callable[[int], None],
    noise: str | float,
    landmarks: np.ndarray | None,
) -> np.ndarray:
    """Draw the witness given each sample, (k, repeats, m).

    In threads, whose number changes rounding only.

    Args:
        run: the run, with its model and units.
        samples: two, in the units of the data.
        at: points (m, D), in these units.
        z: k draws of the hyperparameters, unconstrained.
        repeats: draws of the witness for each of them.
        seed: random seed.
        advance: called with the number of hyperparameter draws that are done.
        noise: see :func:`~bke.inference.sample_witness`.
        landmarks: (l, D) in the units of the model, or ``None``.

    Raises:
        InputError: lengthscales are too short for Fourier sums.
    """
    target, total = run.target, len(next(iter(z.values())))
    points, *rows = (run.units.to_model(values) for values in (at, *samples))
    prepared = prepare_samples(rows, points, target.kernel, target.measure, landmarks)
    limits = [X.min_lengthscale for X in prepared[0] if isinstance(X, fourier.FourierSample)]
    if limits:
        lengthscales = np.asarray(target.constrain(dict(z))["lengthscale"])
        if short := int(np.sum(lengthscales < max(limits))):
            raise InputError(
                f"{short} of {lengthscales.size} draws have a lengthscale below "
                f"{max(limits) * float(run.units.scale[0]):.3g}, too short for all of "
                f"{MAX_DENSE + 1} rows or more: give landmarks (--landmarks)"
            )
    keys = jax.random.split(jax.random.key(seed), total * repeats).reshape(total, repeats)
    # Up to 25 hyperparameter draws for each compiled call, but at most 2 GiB of kernel values.
    entries = [len(X) ** 2 if isinstance(X, jax.Array) else X.entries for X in prepared[0]]
    batch = max(1, min(25, 2**28 // max(entries)))
    compiled = _compiled_draws(target, noise)

    def draw_batch(start: int) -> np.ndarray:
        with jax.enable_x64(True):
            # The last batch repeats its last draw: another shape would be compiled again.
            index = np.minimum(np.arange(start, start + batch), total - 1)
            part = {name: jnp.asarray(values[index]) for name, values in z.items()}
            result = np.asarray(compiled(keys[index], part, prepared, jnp.asarray(points)))
        advance(min(batch, total - start))
        return result

    first, *rest = range(0, total, batch)
    batches = [draw_batch(first)]  # compiles, before the threads would each do it
    with ThreadPoolExecutor(cores()) as pool:
        batches += pool.map(draw_batch, rest)
    return np.concatenate(batches)[:total]


@densities.cached
def _compiled_draws(target: Target, noise: Any) -> Callable[..., jax.Array]:
    """Compile draws of the witness for a batch of hyperparameters."""

    @jit
    def draws(keys: jax.Array, z: Any, prepared: Prepared, at: jax.Array) -> jax.Array:
        def draw(keys_and_z: Any) -> jax.Array:
            keys, values = keys_and_z[0], target.constrain(keys_and_z[1])
            kernel, measure = target.kernel_at(values), target.measure_at(values)
            mean, covariance = witness_posterior(prepared, kernel, at, noise, measure)
            return mean + gaussian_draws(keys, covariance)

        return jax.lax.map(draw, (keys, z))

    return draws


def witness_from_difference(
    run: OpenRun,
    samples: Sequence[np.ndarray],
    at: np.ndarray,
    z: Mapping[str, Any],
    repeats: int,
    seed: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """Draw the witness by the posterior of the difference itself, (k, repeats, m).

    Conditioned on each sample alone, two embeddings differ by their sampling errors even if P = Q.
    The difference h of the densities over the pooled rows z has a posterior with a scale parameter
    (:mod:`bke.inference.comparison.difference_posterior`), and gives the witness of any kernel as
    ``w(x) = 1/n sum_i k(x, z_i) h(z_i)``. Arguments are those of :func:`witness_from_embeddings`.
    """
    target, total, rng = run.target, len(next(iter(z.values()))), np.random.default_rng(seed)
    pooled = pool_rows(TwoSamples.checked(*samples), 0, rng)
    differences = difference_posterior(pooled).draw(total * repeats, rng)
    points = run.units.to_model(at)

    @jit
    def kernel(z: dict[str, jax.Array], X: jax.Array, Y: jax.Array) -> jax.Array:
        return target.kernel_at(target.constrain(z))(X, Y)

    result = np.zeros((total, repeats, len(at)))
    for block in pooled.blocks():
        rows = run.units.to_model(pooled.points[block] * pooled.scale)
        h = differences.evaluate(pooled.points[block]) * pooled.counts[block]
        for index, weights in enumerate(h.reshape(total, repeats, -1)):
            part = {name: values[index] for name, values in z.items()}
            result[index] += weights @ np.asarray(kernel(part, rows, points))
    advance(total)
    return result / pooled.n_rows


def evaluation_points(
    at: ArrayLike | None,
    P: np.ndarray,
    Q: np.ndarray,
    columns: Sequence[str] | None = None,
    landmarks: np.ndarray | None = None,
) -> np.ndarray:
    """Return the points of evaluation (k, D); by default within the range of the data.

    The default is a line of 200 points for one column, a mesh of 30 x 30 for two, and for more the
    landmarks, or the rows if there are none.
    """
    dimension = P.shape[1]
    if at is not None:
        return as_evaluation_points(at, dimension, columns=columns)
    pooled = np.concatenate([P, Q])
    if dimension > 2:
        return pooled if landmarks is None else landmarks
    count = 200 if dimension == 1 else 30
    axes = [np.linspace(column.min(), column.max(), count) for column in pooled.T]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def witness_tree(
    values: np.ndarray,
    mode: np.ndarray,
    weight: np.ndarray,
    at: np.ndarray,
    columns: Sequence[str],
    samples: Sequence[np.ndarray],
    attrs: Mapping[str, Any],
) -> xr.DataTree:
    """Return the group of :func:`~bke.inference.sample_witness` with draws (chain, draw, point)."""
    pooled = np.concatenate(samples)
    in_range = ((at >= pooled.min(axis=0)) & (at <= pooled.max(axis=0))).all(axis=1)
    dataset = xr.Dataset(
        {
            "witness": (("chain", "draw", "point"), values),
            "mode": (("chain", "draw"), mode),
            "weight": (("chain", "draw"), weight),
        },
        coords={
            "at": (("point", "column"), at),
            "column": list(columns),
            "in_range": ("point", in_range),
        },
        attrs={**attrs, "sizes": [len(X) for X in samples]},
    )
    return xr.DataTree(dataset, name="witness")
