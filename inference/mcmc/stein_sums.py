"""Sums of Stein's kernel over pairs of batches, in blocks of rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import Radial
from bke.models.kernels.base import per_column
from bke.models.statistics.stein import (
    squared_distances,
    stein_block,
    stein_column,
    stein_terms,
)

from .batches import Batches

#: Entries of a block.
ENTRIES = 2**22


def within(kernel: Radial, unit: np.ndarray) -> Radial:
    """The kernel of points over ``unit`` (D,), of which columns' scores can be added up."""
    return dataclasses.replace(kernel, lengthscale=kernel.lengthscale / unit)  # type: ignore[type-var]


def of_batches(
    points: np.ndarray, slopes: np.ndarray, kernel: Radial, cut: Batches
) -> tuple[np.ndarray, np.ndarray]:
    """Sum Stein's kernel over pairs of batches, and average it over all other rows.

    Args:
        points: (N, D), batch after batch.
        slopes: the scores there.
        kernel: k.
        cut: how long batches are.

    Returns:
        (q, q) and (N,).
    """
    x, s = jnp.asarray(points), jnp.asarray(slopes)
    sums = np.empty((cut.count, cut.count))
    means = np.empty(len(points))
    for some, rows in cut.blocks(ENTRIES):
        sums[some], means[rows] = _of_batches(x[rows], s[rows], x, s, kernel, cut.length)
    own = np.asarray(_own(s, kernel))
    return sums, (means - own) / (len(points) - 1)


def of_columns(points: np.ndarray, slopes: np.ndarray, kernel: Radial, cut: Batches) -> np.ndarray:
    """Sum every column's part of Stein's kernel over pairs of batches, (D, q, q)."""
    x, s = jnp.asarray(points), jnp.asarray(slopes)
    sums = np.empty((points.shape[1], cut.count, cut.count))
    for some, rows in cut.blocks(ENTRIES):
        sums[:, some] = _of_columns(x[rows], s[rows], x, s, kernel, cut.length)
    return sums


def of_moments(
    points: np.ndarray, slopes: np.ndarray, unit: np.ndarray, cut: Batches
) -> np.ndarray:
    """Sum Stein's kernel of the linear kernel over pairs of batches, (q, q).

    Its features are the entries of z u' + I, z the points from their mean over ``unit`` and u the
    scores times it: what Stein's identity says of second moments (Stein 1972).
    """
    z, u = (jnp.asarray(one) for one in _in_units(points, slopes, unit))
    sums = np.empty((cut.count, cut.count))
    for some, rows in cut.blocks(ENTRIES):
        sums[some] = _of_moments(z[rows], u[rows], z, u, cut.length)
    return sums


def of_each_moment(
    points: np.ndarray, slopes: np.ndarray, unit: np.ndarray, cut: Batches
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Features of every column's part of :func:`of_moments`, (q, D), and of its variance, (q, 1).

    By the column's score, with all columns' points, summed over batches; the parts add up.
    """
    z, u = _in_units(points, slopes, unit)
    for column in range(points.shape[1]):
        of_rows = u[:, [column]] * z
        of_rows[:, column] += 1.0
        features = of_rows.reshape(cut.count, cut.length, -1).sum(axis=1)
        yield features, features[:, [column]]


def of_variances(
    points: np.ndarray, slopes: np.ndarray, unit: np.ndarray, cut: Batches
) -> np.ndarray:
    """Features (q, D) of what every column's own variance tells, summed over batches."""
    z, u = _in_units(points, slopes, unit)
    features: np.ndarray = (1.0 + u * z).reshape(cut.count, cut.length, -1).sum(axis=1)
    return features


def _in_units(
    points: np.ndarray, slopes: np.ndarray, unit: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    return (points - points.mean(axis=0)) / unit, slopes * unit


@functools.partial(jax.jit, static_argnames="length")
def _of_batches(
    x: Any, s: Any, y: Any, t: Any, kernel: Radial, length: int
) -> tuple[jax.Array, jax.Array]:
    matrix = stein_block(x, s, y, t, kernel)
    return _by_batch(matrix, length), jnp.sum(matrix, axis=1)


@functools.partial(jax.jit, static_argnames="length")
def _of_moments(z: Any, u: Any, w: Any, v: Any, length: int) -> jax.Array:
    own, other = jnp.sum(z * u, axis=1), jnp.sum(w * v, axis=1)
    matrix = (u @ v.T) * (z @ w.T) + own[:, None] + other + z.shape[1]
    return _by_batch(matrix, length)


@functools.partial(jax.jit, static_argnames="length")
def _of_columns(x: Any, s: Any, y: Any, t: Any, kernel: Radial, length: int) -> jax.Array:
    lengthscale = per_column(kernel.lengthscale, x.shape[1], "lengthscale").reshape(-1)
    lengthscale = jnp.broadcast_to(lengthscale, (x.shape[1],))
    centre = jnp.mean(y, axis=0)
    terms = stein_terms(
        kernel, squared_distances((x - centre) / lengthscale, (y - centre) / lengthscale)
    )
    found: jax.Array = jax.lax.map(
        lambda column: _by_batch(stein_column(terms, *column), length),
        (x.T, s.T, y.T, t.T, lengthscale),
    )
    return found


def _by_batch(matrix: jax.Array, length: int) -> jax.Array:
    rows, columns = matrix.shape
    return matrix.reshape(rows // length, length, columns // length, length).sum((1, 3))


@jax.jit
def _own(slopes: jax.Array, kernel: Radial) -> jax.Array:
    """Stein's kernel (N,) of every point with itself."""
    value, decay, _ = stein_terms(kernel, jnp.zeros((1, 1)))
    lengthscale = per_column(kernel.lengthscale, slopes.shape[1], "lengthscale").reshape(-1)
    inverse = jnp.broadcast_to(1.0 / lengthscale, (slopes.shape[1],))
    return jnp.sum(slopes**2, axis=1) * value[0, 0] + decay[0, 0] * jnp.sum(inverse**2)
