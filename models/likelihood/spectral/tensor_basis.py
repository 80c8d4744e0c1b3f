"""The Gaussian term of BKE (13) in several columns: a basis of the points' own numerical rank.

At the nodes of a box, r = sum_a lambda_a phi_a phi_a over products of eigenvectors of one column
each, which interpolation makes functions. With
Phi the kept products at the points and D = diag(lambda), both at the shortest lengthscale of a
range, a pivoted Cholesky factor of D^1/2 Phi'Phi D^1/2 = L L' gives an orthonormal basis Q of what
R reaches at the points,

    Phi D^1/2 = Q L',  Q'Q = 1.

At every longer lengthscale R stays in it: R = Phi S Phi' = Q A Q', A = L' T L, T = D^-1/2 S D^-1/2,
where S, of the products' coefficients, is a product of small matrices, one of each column. So with
z = Q' mu_hat

    log |R + s I| = log |A + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = z' (A + s I)^-1 z + (mu_hat' mu_hat - z'z) / s,

and no value needs the points: they enter by their weights at nodes (:mod:`.nodes`), as do mu_hat at
the nodes, z and mu_hat' mu_hat.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ...linalg.pytrees import register_dataclass
from .nodes import Axis, along_axes, kernel_on
from .prepared import TooLargeError

#: Eigenvalues of one column over the largest, below which nothing is told from rounding.
LEAST_EIGENVALUE = 1e-17
#: A product is kept whose part of tr R is more than this, of the trace: those below are all
#: rounding error, which the pivots would take for more than it is.
LEAST_PART = 1e-14
#: What the pivots leave of any product's part, likewise.
LEAST_PIVOT = 5e-15
#: Nodes of one column, whose matrix has its eigenvalues found; and numbers in what its products of
#: pairs are at the nodes: one very long column is for the routes of one.
MOST_NODES, MOST_PAIR_ENTRIES = 1500, 50_000_000
#: Columns of L that are worked on at once.
COLUMNS = 128
#: Powers of two between sizes that data may share: others would compile anew.
STEPS = 4


@dataclasses.dataclass(frozen=True)
class _Products:
    """Eigenvectors of r at the nodes of each column, and which products are kept."""

    functions: list[np.ndarray]  # (N_d, q_d), times the root of the eigenvalue
    dual: list[np.ndarray]  # (N_d, q_d), whose inner products with r are T
    kept: np.ndarray  # (M, D), which function of each column


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TensorBasis:
    """What the Gaussian term knows of n points, at the lengthscales of a range."""

    axes: Any  # tuple of Axis
    weights: Any  # (N_1, ..., N_D), of the points at the nodes
    functions: Any  # tuple of (N_d, q_d), times the root of the eigenvalue
    dual: Any  # tuple of (N_d, q_d)
    kept: Any  # (M, D) functions of the columns in each product; the first m are the pivots
    factor: Any  # (M, m), L
    triangle: Any  # (m, m), its first rows, one on the diagonal where it is filled up
    used: Any  # (m,), 1 where it is not

    @property
    def size(self) -> int:
        """The number m of functions, with those it is filled up with."""
        return int(self.factor.shape[1])

    def terms(
        self, lengthscale: jax.Array, noise_variance: jax.Array, n: int
    ) -> tuple[jax.Array, jax.Array]:
        """mu_hat'(R + s I)^-1 mu_hat and log |R + s I| for the unit measure.

        ``n`` is how many points mu_hat is the mean over; those of the weights may be fewer.
        """
        mean = along_axes([kernel_on(axis, lengthscale) for axis in self.axes], self.weights) / n
        weighted = self.weights * mean
        square = jnp.sum(weighted * mean)
        on_products = along_axes([each.T for each in self.functions], weighted)
        m = self.size
        right = on_products[tuple(self.kept[:m].T)] * self.used
        z = solve_triangular(self.triangle, right, lower=True)
        A = self.covariance(lengthscale)
        form, log_determinant = form_and_log_determinant(A, z, noise_variance)
        rows = jnp.round(jnp.sum(self.weights))
        log_determinant = log_determinant + (rows - m) * jnp.log(noise_variance)
        return form + (square - z @ z) / noise_variance, log_determinant

    def covariance(self, lengthscale: jax.Array) -> jax.Array:
        """A (m, m), with zeros where it is filled up."""
        inner = [
            dual.T @ kernel_on(axis, math.sqrt(2.0) * lengthscale) @ dual
            for axis, dual in zip(self.axes, self.dual, strict=True)
        ]
        shape = tuple(matrix.shape[0] for matrix in inner)
        kept = tuple(self.kept.T)

        def block(columns: jax.Array) -> jax.Array:
            tensor = jnp.zeros((*shape, COLUMNS)).at[kept].add(columns.T)
            return along_axes(inner, tensor)[kept].T @ self.factor

        columns = self.factor.T.reshape(-1, COLUMNS, self.factor.shape[0])
        return jax.lax.map(block, columns).reshape(self.size, self.size)


@jax.custom_jvp
def form_and_log_determinant(
    A: jax.Array, z: jax.Array, noise_variance: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """z'(A + s I)^-1 z and log |A + s I|."""
    cholesky = jnp.linalg.cholesky(A + noise_variance * jnp.eye(len(A), dtype=A.dtype))
    scaled = solve_triangular(cholesky, z, lower=True)
    return scaled @ scaled, 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))


@form_and_log_determinant.defjvp
def _form_and_log_determinant_jvp(primals: Any, tangents: Any) -> Any:
    A, z, noise_variance = primals
    A_dot, z_dot, noise_dot = tangents
    identity = jnp.eye(len(A), dtype=A.dtype)
    cholesky = jnp.linalg.cholesky(A + noise_variance * identity)
    root = solve_triangular(cholesky, identity, lower=True)
    inverse = root.T @ root
    scaled = solve_triangular(cholesky, z, lower=True)
    a = solve_triangular(cholesky, scaled, lower=True, trans=1)
    form_dot = a @ (2.0 * z_dot - A_dot @ a - noise_dot * a)
    log_dot = jnp.vdot(inverse, A_dot) + noise_dot * jnp.trace(inverse)
    log_determinant = 2.0 * jnp.sum(jnp.log(jnp.diagonal(cholesky)))
    return (scaled @ scaled, log_determinant), (form_dot, log_dot)


def tensor_basis(
    axes: tuple[Axis, ...], weights: np.ndarray, shortest: float, most_products: int, most: int
) -> TensorBasis:
    """The basis for lengthscales from the ``shortest`` on.

    Raises:
        TooLargeError: where more than ``most_products`` products or more than ``most`` functions
            would be needed.
    """
    products = _products(axes, weights, shortest, most_products)
    n = float(weights.sum())
    gram = _gram(products, weights)
    factor, pivots, rank, _ = dpstrf(gram, lower=1, tol=LEAST_PIVOT * n, overwrite_a=1)
    if rank > most:
        raise TooLargeError(f"R has a rank of {rank}")
    M, m = _size(len(products.kept)), _size(rank)
    L = np.zeros((M, m))
    L[: len(factor), :rank] = np.tril(factor[:, :rank])
    kept = np.zeros((M, len(axes)), dtype=np.int32)
    kept[: len(factor)] = products.kept[pivots - 1]
    used = (np.arange(m) < rank).astype(float)
    triangle = L[:m] * used[:, None] + np.diag(1.0 - used)
    return TensorBasis(
        axes, weights, tuple(products.functions), tuple(products.dual), kept, L, triangle, used
    )


def _size(length: int) -> int:
    """The next multiple of a block that data may share."""
    power = 2.0 ** (math.ceil(STEPS * math.log2(max(length, COLUMNS))) / STEPS)
    return COLUMNS * math.ceil(round(power) / COLUMNS)


def _products(axes: tuple[Axis, ...], weights: np.ndarray, shortest: float, most: int) -> _Products:
    functions, dual = [], []
    for axis in axes:
        if len(axis.nodes) > MOST_NODES:
            raise TooLargeError("the data are wide beside so short a lengthscale")
        apart = axis.nodes[:, None] - axis.nodes
        values, vectors = np.linalg.eigh(np.exp(-0.25 * (apart / shortest) ** 2))
        values, vectors = values[::-1], vectors[:, ::-1]
        count = int(np.sum(values > LEAST_EIGENVALUE * values[0]))
        count = min(len(values), 4 * math.ceil(count / 4))
        scale = np.sqrt(np.maximum(values[:count], LEAST_EIGENVALUE * values[0]))
        functions.append(vectors[:, :count] * scale)
        dual.append(vectors[:, :count] / scale)
    parts = np.asarray(_contracted([each**2 for each in functions], weights))
    kept = np.argwhere(parts > LEAST_PART * weights.sum())
    if len(kept) > most:
        raise TooLargeError(f"R on the box has a rank of some {len(kept)}")
    some = [4 * math.ceil((1 + most) / 4) for most in kept.max(axis=0)]
    entries = [len(each) * q * (q + 1) // 2 for each, q in zip(functions, some, strict=True)]
    if max(entries) > MOST_PAIR_ENTRIES:
        raise TooLargeError("the data are wide beside so short a lengthscale")
    return _Products(
        [each[:, :q] for each, q in zip(functions, some, strict=True)],
        [each[:, :q] for each, q in zip(dual, some, strict=True)],
        kept,
    )


def _contracted(matrices: list[np.ndarray], weights: np.ndarray) -> np.ndarray:
    for axis, matrix in enumerate(matrices):
        weights = np.moveaxis(np.tensordot(matrix, weights, (0, axis)), 0, axis)
    return weights


def _gram(products: _Products, weights: np.ndarray) -> np.ndarray:
    """D^1/2 Phi'Phi D^1/2 (M, M) of the kept products: sums of products of pairs."""
    first, second, *third = products.functions
    pairs, which = zip(*(_pairs(each) for each in (first, second)), strict=True)
    a, b = products.kept[:, 0], products.kept[:, 1]
    if not third:
        sums = _contracted(list(pairs), weights)
        return sums[which[0][np.ix_(a, a)], which[1][np.ix_(b, b)]]
    gram = np.empty((len(a), len(a)))
    c = products.kept[:, 2]
    rows = [np.flatnonzero(c == k) for k in range(third[0].shape[1])]
    for i, mine in enumerate(rows):
        for j, others in enumerate(rows[: i + 1]):
            if not (len(mine) and len(others)):
                continue
            sums = _contracted(list(pairs), weights @ (third[0][:, i] * third[0][:, j]))
            of_a = which[0][np.ix_(a[mine], a[others])]
            block = sums[of_a, which[1][np.ix_(b[mine], b[others])]]
            gram[np.ix_(mine, others)] = block
            gram[np.ix_(others, mine)] = block.T
    return gram


def _pairs(functions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Products (N, q (q + 1) / 2) of two functions of (N, q), and which is that of a and b."""
    i, j = np.tril_indices(functions.shape[1])
    which = np.empty((functions.shape[1],) * 2, dtype=int)
    which[i, j] = which[j, i] = np.arange(len(i))
    return functions[:, i] * functions[:, j], which
