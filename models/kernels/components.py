"""Gaussian components: everything that is a finite sum of w exp(-d'Ld/2) cos(2 pi f'd).

Sums and products of such kernels are again such sums. Components are stacked along a first axis Q
and summed one after the other, recomputed in the backward pass: compile time does not grow with
their number, and no (Q, n, m) array is kept. Precisions L are kept as diagonals where they are
diagonal.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.pytrees import register_dataclass
from ..measures import Gaussian, Measure
from .covariance import Covariance, differences, per_column


class Components(NamedTuple):
    """sum_q exp(log_weight_q - d' precision_q d / 2) cos(2 pi frequency_q' d)."""

    log_weight: jax.Array  # (Q,)
    precision: jax.Array  # (Q, D) or (Q, D, D)
    frequency: jax.Array | None  # (Q, D); None: no cosine


def apply(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """Matrix, full or a diagonal, times vectors (D, ...)."""
    if matrix.ndim == 1:
        return matrix.reshape(-1, *(1,) * (vectors.ndim - 1)) * vectors
    return jnp.tensordot(matrix, vectors, 1)


def alike(first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Stacked precisions, both as diagonals or both as full matrices."""
    if first.ndim == second.ndim:
        return first, second
    full = jax.vmap(jnp.diag)
    return (full(first) if first.ndim == 2 else first, full(second) if second.ndim == 2 else second)


def quadratic_form(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """V' matrix v for vectors (D, ...)."""
    return (vectors * apply(matrix, vectors)).sum(0)


def phase_of(frequency: jax.Array, vectors: jax.Array) -> jax.Array:
    """2 pi frequency' v for vectors (D, ...)."""
    return 2.0 * math.pi * jnp.tensordot(frequency, vectors, 1)


def frequencies(components: Components) -> jax.Array:
    """(Q, D), zero where there is no cosine."""
    if components.frequency is None:
        return jnp.zeros(components.precision.shape[:2])
    return components.frequency


def add(a: Components, b: Components) -> Components:
    """The sum: one stack after the other."""
    precision = jnp.concatenate(alike(a.precision, b.precision))
    frequency = None
    if a.frequency is not None or b.frequency is not None:
        frequency = jnp.concatenate([frequencies(a), frequencies(b)])
    return Components(jnp.concatenate([a.log_weight, b.log_weight]), precision, frequency)


def multiply(a: Components, b: Components) -> Components:
    """The product: precisions add, and cos u cos v = (cos(u + v) + cos(u - v)) / 2."""
    i, j = (index.ravel() for index in np.indices((len(a.log_weight), len(b.log_weight))))
    log_weight = a.log_weight[i] + b.log_weight[j]
    first, second = alike(a.precision, b.precision)
    precision = first[i] + second[j]
    if a.frequency is None:
        return Components(log_weight, precision, None if b.frequency is None else b.frequency[j])
    if b.frequency is None:
        return Components(log_weight, precision, a.frequency[i])
    f, g = a.frequency[i], b.frequency[j]
    half = jnp.tile(log_weight - math.log(2.0), 2)
    precision = jnp.concatenate([precision, precision])
    return Components(half, precision, jnp.concatenate([f + g, f - g]))


def accumulate(part: Callable[[Any], Any], parts: Any, start: Any) -> Any:
    """The sum of part(parts_q) and ``start``, each term recomputed in the backward pass."""

    @jax.checkpoint
    def step(total: Any, one: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, part(one)), None

    return jax.lax.scan(step, start, parts)[0]


def solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    """matrix^-1 right, for one matrix."""
    return right / matrix if matrix.ndim == 1 else jnp.linalg.solve(matrix, right)


def parallel(a: jax.Array, total: jax.Array, b: jax.Array) -> jax.Array:
    """(a^-1 + b^-1)^-1 as a total^-1 b with total = a + b, which does not cancel."""
    if a.ndim == 1:
        return a * (b / total)
    product: jax.Array = a @ jnp.linalg.solve(total, b)
    return 0.5 * (product + product.T)


def log_determinant(matrix: jax.Array) -> jax.Array:
    """The logarithm of its determinant."""
    if matrix.ndim == 1:
        return jnp.log(matrix).sum()
    return 2.0 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix))).sum()


def convolve(components: Components, other: Components | None = None) -> Components:
    """The integral of k(x - u) l(u - y) over u, as components of x - y; l is k by default.

    Components (A, f) and (B, g) with P = A + B give the weight ``sqrt((2 pi)^D / |P|)``, precision
    ``(A^-1 + B^-1)^-1`` and frequencies ``B P^-1 f + A P^-1 g`` and ``B P^-1 f - A P^-1 g``, damped
    by ``exp(-2 pi^2 h' P^-1 h) / 2`` with h = f - g and f + g.
    """
    first, second = components, components if other is None else other
    if other is None:
        # a * b and b * a are the same function of x - y.
        i, j = np.triu_indices(len(first.log_weight))
    else:
        sizes = len(first.log_weight), len(second.log_weight)
        i, j = (index.ravel() for index in np.indices(sizes))
    twice = np.where((other is not None) | (i == j), 0.0, math.log(2.0))
    A, B = (
        part[index]
        for part, index in zip(alike(first.precision, second.precision), (i, j), strict=True)
    )
    P = A + B
    log_weight = first.log_weight[i] + second.log_weight[j] + twice
    log_weight = log_weight - 0.5 * jax.vmap(log_determinant)(P)
    log_weight = log_weight + 0.5 * P.shape[1] * math.log(2.0 * math.pi)
    precision = jax.vmap(parallel)(A, P, B)
    if first.frequency is None and second.frequency is None:
        return Components(log_weight, precision, None)

    def turn(A: jax.Array, B: jax.Array, f: jax.Array, g: jax.Array) -> tuple[jax.Array, jax.Array]:
        P = A + B
        h = f - g
        damping = -2.0 * math.pi**2 * h @ solve(P, h) - math.log(2.0)
        return damping, apply(B, solve(P, f)) + apply(A, solve(P, g))

    f, g = (frequencies(part)[index] for part, index in ((first, i), (second, j)))
    plus, minus = jax.vmap(turn)(A, B, f, g), jax.vmap(turn)(A, B, f, -g)
    return Components(
        jnp.concatenate([log_weight + plus[0], log_weight + minus[0]]),
        jnp.concatenate([precision, precision]),
        jnp.concatenate([plus[1], minus[1]]),
    )


@jax.jit
def _component_matrix(components: Components, delta: jax.Array) -> jax.Array:
    def part(one: Components) -> jax.Array:
        envelope = jnp.exp(one.log_weight - 0.5 * quadratic_form(one.precision, delta))
        if one.frequency is None:
            return envelope
        return envelope * jnp.cos(phase_of(one.frequency, delta))

    total: jax.Array = accumulate(part, components, jnp.zeros(delta.shape[1:]))
    return total


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ComponentCovariance(Covariance):
    """A sum of Gaussian components of x - y."""

    components: Components

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        matrix: jax.Array = _component_matrix(self.components, differences(X, Y))
        return matrix


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ComponentSmoothed(Covariance):
    """r of a sum of Gaussian components for a Gaussian measure, BKE A.3 pair by pair.

    For components (A, f), (B, g) and nu with precision S and centre c, writing d = x - y,
    P = A + B, T = P + S, m = P^-1 (A x + B y) and u = T^-1 (P m + S c), a pair gives
    ``sqrt((2 pi)^D / |T|) exp(-d' A P^-1 B d / 2 - (m - c)' P T^-1 S (m - c) / 2)`` times the mean
    over +- of ``exp(-2 pi^2 (f -+ g)' T^-1 (f -+ g)) cos(2 pi (f'(x - u) +- g'(u - y)))``.
    """

    components: Components
    measure: Gaussian

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        dimension = X.shape[1]
        scale = per_column(self.measure.scale, dimension, "measure scale").reshape(-1)
        centre = per_column(self.measure.centre, dimension, "measure centre").reshape(-1)
        S = jnp.broadcast_to(1.0 / scale**2, (dimension,))
        x, y = (X - centre).T[:, :, None], (Y - centre).T[:, None, :]
        matrix: jax.Array = _gaussian_matrix(self.components, S, differences(X, Y), x, y)
        return matrix


@jax.jit
def _gaussian_matrix(
    components: Components, S: jax.Array, delta: jax.Array, x: jax.Array, y: jax.Array
) -> jax.Array:
    """The matrix of :class:`ComponentSmoothed`; x (D, n, 1) and y (D, 1, m) are centred."""
    if components.precision.ndim == 3:
        S = jnp.diag(S)

    def prepare(first: Components, second: Components) -> dict[str, jax.Array]:
        A, B = first.precision, second.precision
        P = A + B
        T = P + S
        log_weight = first.log_weight + second.log_weight - 0.5 * log_determinant(T)
        found = {
            "log": log_weight + 0.5 * delta.shape[0] * math.log(2.0 * math.pi),
            "apart": parallel(A, P, B),
            "away": parallel(P, T, S),
            "x": solve(P, A),
            "y": solve(P, B),
        }
        if first.frequency is None or second.frequency is None:
            return found
        f, g = first.frequency, second.frequency
        Tf, Tg = solve(T, f), solve(T, g)
        found |= {"f delta": apply(B, Tf), "f x": apply(S, Tf)}
        found |= {"g delta": apply(A, Tg), "g y": apply(S, Tg)}
        found["plus"] = jnp.exp(-2.0 * math.pi**2 * (f - g) @ (Tf - Tg))
        found["minus"] = jnp.exp(-2.0 * math.pi**2 * (f + g) @ (Tf + Tg))
        return found

    def part(pair: dict[str, jax.Array]) -> jax.Array:
        middle = apply(pair["x"], x) + apply(pair["y"], y)
        squares = quadratic_form(pair["apart"], delta) + quadratic_form(pair["away"], middle)
        log = pair["log"] - 0.5 * squares
        if "plus" not in pair:
            return jnp.exp(log)
        first = phase_of(pair["f delta"], delta) + phase_of(pair["f x"], x)
        second = phase_of(pair["g delta"], delta) - phase_of(pair["g y"], y)
        wave = pair["plus"] * jnp.cos(first + second) + pair["minus"] * jnp.cos(first - second)
        return 0.5 * jnp.exp(log) * wave

    count = len(components.log_weight)
    i, j = (index.ravel() for index in np.indices((count, count)))
    first, second = (jax.tree.map(operator.itemgetter(index), components) for index in (i, j))
    pairs = jax.vmap(prepare)(first, second)
    total: jax.Array = accumulate(part, pairs, jnp.zeros(delta.shape[1:]))
    return total


@dataclasses.dataclass(frozen=True)
class SmoothableComponents:
    """A sum of components with its smoothed kernel for every measure there is."""

    components: Components

    def unit_smoothed(self, dimension: int) -> Covariance:
        """The Lebesgue r over its value at zero."""
        found = convolve(self.components)
        at_zero = jax.nn.logsumexp(found.log_weight)
        return ComponentCovariance(found._replace(log_weight=found.log_weight - at_zero))

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """Again a sum of components."""
        return ComponentCovariance(convolve(self.components))

    def gaussian_smoothed(self, measure: Gaussian, dimension: int) -> Covariance:
        """Pair by pair of components."""
        return ComponentSmoothed(self.components, measure)


def smooth_components(components: Components, measure: Measure, dimension: int) -> Covariance:
    """The smoothed kernel of a sum of components, for every measure there is."""
    return measure.smooth(SmoothableComponents(components), dimension)
