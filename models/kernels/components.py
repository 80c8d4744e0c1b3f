"""Gaussian components: finite sums of w exp(-d'Ld/2) cos(2 pi f'd), and their smoothed kernel r.

Sums, products and convolutions of such kernels are again such sums. Components are stacked along a
first axis Q and summed one after the other, recomputed in the backward pass: compile time does not
grow with their number, and no (Q, n, m) array is kept. Diagonal precisions L are kept as diagonals.
r has a closed form for every measure: for the Lebesgue measure it is again a sum of Gaussian
components; for a Gaussian measure it has one term per pair.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..linalg.pytrees import register_dataclass
from ..measures import Gaussian
from .covariance import Covariance, differences, per_column


class Components(NamedTuple):
    """sum_q exp(log_weight_q - d' precision_q d / 2) cos(2 pi frequency_q' d).

    Attributes:
        log_weight: (Q,).
        precision: (Q, D), diagonals, or (Q, D, D).
        frequency: (Q, D), or None without cosines.
    """

    log_weight: jax.Array
    precision: jax.Array
    frequency: jax.Array | None

    def frequency_or_zero(self) -> jax.Array:
        """Return the frequencies (Q, D), zero without cosines."""
        if self.frequency is None:
            return jnp.zeros(self.precision.shape[:2])
        return self.frequency

    def scaled(self, log_factor: Any) -> Components:
        """Return the sum times exp(``log_factor``)."""
        return self._replace(log_weight=self.log_weight + log_factor)

    def plus(self, other: Components) -> Components:
        """Return the sum of both: one stack after the other."""
        frequency = None
        if self.frequency is not None or other.frequency is not None:
            frequency = jnp.concatenate([self.frequency_or_zero(), other.frequency_or_zero()])
        return Components(
            jnp.concatenate([self.log_weight, other.log_weight]),
            jnp.concatenate(_of_same_rank(self.precision, other.precision)),
            frequency,
        )

    def times(self, other: Components) -> Components:
        """Return the product: precisions add, cos u cos v = (cos(u + v) + cos(u - v)) / 2."""
        i, j = _all_pairs(len(self.log_weight), len(other.log_weight))
        log_weight = self.log_weight[i] + other.log_weight[j]
        first, second = _of_same_rank(self.precision, other.precision)
        precision = first[i] + second[j]
        f = None if self.frequency is None else self.frequency[i]
        g = None if other.frequency is None else other.frequency[j]
        if f is None or g is None:
            return Components(log_weight, precision, g if f is None else f)
        return Components(
            jnp.tile(log_weight - math.log(2.0), 2),
            jnp.concatenate([precision, precision]),
            jnp.concatenate([f + g, f - g]),
        )

    def convolve(self, other: Components | None = None) -> Components:
        """Return the integral of k(x - u) l(u - y) over u as components; l is k by default.

        Components (A, f) and (B, g) with P = A + B give the weight ``sqrt((2 pi)^D / |P|)``,
        precision ``(A^-1 + B^-1)^-1`` and frequencies ``B P^-1 f + A P^-1 g`` and ``B P^-1 f - A
        P^-1 g``, damped by ``exp(-2 pi^2 h' P^-1 h) / 2`` with h = f - g and f + g.
        """
        if other is None:
            # a * b and b * a are the same function of x - y.
            second, (i, j) = self, np.triu_indices(len(self.log_weight))
            multiplicity = np.where(i == j, 0.0, math.log(2.0))
        else:
            second, (i, j) = other, _all_pairs(len(self.log_weight), len(other.log_weight))
            multiplicity = np.zeros(len(i))
        A, B = _of_same_rank(self.precision, second.precision)
        A, B = A[i], B[j]
        P = A + B
        log_weight = self.log_weight[i] + second.log_weight[j] + multiplicity
        log_weight = log_weight - 0.5 * jax.vmap(_log_determinant)(P)
        log_weight = log_weight + 0.5 * P.shape[1] * math.log(2.0 * math.pi)
        precision = jax.vmap(_parallel)(A, P, B)
        if self.frequency is None and second.frequency is None:
            return Components(log_weight, precision, None)

        @jax.vmap
        def damping_and_frequency(
            A: jax.Array, B: jax.Array, f: jax.Array, g: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            P, h = A + B, f - g
            damping = -2.0 * math.pi**2 * h @ _solve(P, h) - math.log(2.0)
            return damping, matvec(B, _solve(P, f)) + matvec(A, _solve(P, g))

        f, g = self.frequency_or_zero()[i], second.frequency_or_zero()[j]
        plus, minus = damping_and_frequency(A, B, f, g), damping_and_frequency(A, B, f, -g)
        return Components(
            jnp.concatenate([log_weight + plus[0], log_weight + minus[0]]),
            jnp.concatenate([precision, precision]),
            jnp.concatenate([plus[1], minus[1]]),
        )

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> ComponentCovariance:
        """Return the Lebesgue r, again a sum of components; over its value at zero if relative."""
        smoothed = self.convolve()
        log_scale = jax.nn.logsumexp(smoothed.log_weight) if relative else 0.0
        return ComponentCovariance(smoothed.scaled(-log_scale))

    def gaussian_smoothed(self, measure: Gaussian, dimension: int) -> GaussianComponentCovariance:
        """Return r for a Gaussian measure."""
        return GaussianComponentCovariance(self, measure)


def _all_pairs(first: int, second: int) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.indices((first, second))
    return i.ravel(), j.ravel()


def _of_same_rank(first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return stacked precisions both as diagonals or both as full matrices."""
    if first.ndim == second.ndim:
        return first, second
    full = jax.vmap(jnp.diag)
    return (full(first) if first.ndim == 2 else first, full(second) if second.ndim == 2 else second)


def matvec(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """Multiply a matrix, full or a diagonal, by vectors (D, ...)."""
    if matrix.ndim == 1:
        return matrix.reshape(-1, *(1,) * (vectors.ndim - 1)) * vectors
    return jnp.tensordot(matrix, vectors, 1)


def quadratic_form(matrix: jax.Array, vectors: jax.Array) -> jax.Array:
    """Return v' matrix v for vectors (D, ...)."""
    return (vectors * matvec(matrix, vectors)).sum(0)


def phase(frequency: jax.Array, vectors: jax.Array) -> jax.Array:
    """Return 2 pi frequency' v for vectors (D, ...)."""
    return 2.0 * math.pi * jnp.tensordot(frequency, vectors, 1)


def _solve(matrix: jax.Array, right: jax.Array) -> jax.Array:
    return right / matrix if matrix.ndim == 1 else jnp.linalg.solve(matrix, right)


def _parallel(a: jax.Array, total: jax.Array, b: jax.Array) -> jax.Array:
    """Return (a^-1 + b^-1)^-1 as a total^-1 b with total = a + b, which does not cancel."""
    if a.ndim == 1:
        return a * (b / total)
    product: jax.Array = a @ jnp.linalg.solve(total, b)
    return 0.5 * (product + product.T)


def _log_determinant(matrix: jax.Array) -> jax.Array:
    if matrix.ndim == 1:
        return jnp.log(matrix).sum()
    return 2.0 * jnp.log(jnp.diagonal(jnp.linalg.cholesky(matrix))).sum()


def accumulate(function: Callable[[Any], Any], inputs: Any, start: Any) -> Any:
    """Return ``start`` plus the sum of function(inputs_q), recomputed in the backward pass."""

    @jax.checkpoint
    def step(total: Any, item: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, function(item)), None

    return jax.lax.scan(step, start, inputs)[0]


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ComponentCovariance(Covariance):
    """A sum of Gaussian components of x - y."""

    components: Components

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix r(x_i, y_j)."""
        return _component_matrix(self.components, differences(X, Y))


@jax.jit
def _component_matrix(components: Components, delta: jax.Array) -> jax.Array:
    def values(component: Components) -> jax.Array:
        envelope = jnp.exp(component.log_weight - 0.5 * quadratic_form(component.precision, delta))
        if component.frequency is None:
            return envelope
        return envelope * jnp.cos(phase(component.frequency, delta))

    return accumulate(values, components, jnp.zeros(delta.shape[1:]))


@register_dataclass
@dataclasses.dataclass(frozen=True)
class GaussianComponentCovariance(Covariance):
    """r of a sum of Gaussian components for a Gaussian measure, BKE A.3 pair by pair.

    For components (A, f), (B, g) and nu with precision S and center c, writing d = x - y,
    P = A + B, T = P + S, m = P^-1 (A x + B y) and u = T^-1 (P m + S c), a pair gives
    ``sqrt((2 pi)^D / |T|) exp(-d' A P^-1 B d / 2 - (m - c)' P T^-1 S (m - c) / 2)`` times the mean
    over +- of ``exp(-2 pi^2 (f -+ g)' T^-1 (f -+ g)) cos(2 pi (f'(x - u) +- g'(u - y)))``.
    """

    components: Components
    measure: Gaussian

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix r(x_i, y_j)."""
        dimension = X.shape[1]
        scale = per_column(self.measure.scale, dimension, "measure scale").reshape(-1)
        center = per_column(self.measure.center, dimension, "measure center").reshape(-1)
        S = jnp.broadcast_to(1.0 / scale**2, (dimension,))
        x, y = (X - center).T[:, :, None], (Y - center).T[:, None, :]
        return _gaussian_matrix(self.components, S, differences(X, Y), x, y)


@jax.jit
def _gaussian_matrix(
    components: Components, S: jax.Array, delta: jax.Array, x: jax.Array, y: jax.Array
) -> jax.Array:
    """Compute :class:`GaussianComponentCovariance`; x (D, n, 1) and y (D, 1, m) are centered."""
    if components.precision.ndim == 3:
        S = jnp.diag(S)

    def coefficients(first: Components, second: Components) -> dict[str, jax.Array]:
        A, B = first.precision, second.precision
        P = A + B
        T = P + S
        log_weight = first.log_weight + second.log_weight - 0.5 * _log_determinant(T)
        pair = {
            "log": log_weight + 0.5 * delta.shape[0] * math.log(2.0 * math.pi),
            "delta precision": _parallel(A, P, B),
            "mean precision": _parallel(P, T, S),
            "x": _solve(P, A),
            "y": _solve(P, B),
        }
        if first.frequency is None or second.frequency is None:
            return pair
        f, g = first.frequency, second.frequency
        Tf, Tg = _solve(T, f), _solve(T, g)
        pair |= {"f delta": matvec(B, Tf), "f x": matvec(S, Tf)}
        pair |= {"g delta": matvec(A, Tg), "g y": matvec(S, Tg)}
        pair["plus"] = jnp.exp(-2.0 * math.pi**2 * (f - g) @ (Tf - Tg))
        pair["minus"] = jnp.exp(-2.0 * math.pi**2 * (f + g) @ (Tf + Tg))
        return pair

    def values(pair: dict[str, jax.Array]) -> jax.Array:
        mean = matvec(pair["x"], x) + matvec(pair["y"], y)
        squares = quadratic_form(pair["delta precision"], delta)
        squares = squares + quadratic_form(pair["mean precision"], mean)
        log = pair["log"] - 0.5 * squares
        if "plus" not in pair:
            return jnp.exp(log)
        first = phase(pair["f delta"], delta) + phase(pair["f x"], x)
        second = phase(pair["g delta"], delta) - phase(pair["g y"], y)
        wave = pair["plus"] * jnp.cos(first + second) + pair["minus"] * jnp.cos(first - second)
        return 0.5 * jnp.exp(log) * wave

    count = len(components.log_weight)
    first, second = (
        jax.tree.map(lambda leaf, index=index: leaf[index], components)
        for index in _all_pairs(count, count)
    )
    pairs = jax.vmap(coefficients)(first, second)
    return accumulate(values, pairs, jnp.zeros(delta.shape[1:]))
