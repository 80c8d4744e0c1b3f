"""Two or three columns by tensor products: weights at nodes, a basis of R, and Taylor polynomials.

A sum over n points of a smooth function is one over the nodes of a tensor grid of Chebyshev points:
with the weight ``sum_i L_a(x_i) L_b(y_i) ...`` at node (a, b, ...), for the cardinal functions L of
interpolation, the two agree for every polynomial below the number of nodes in each column. The
weights do not depend on the lengthscale, and only their computation needs the points.

At the nodes, r = sum_a lambda_a phi_a phi_a over products of eigenvectors of one column each, which
interpolation makes functions. With Phi the products that are used, at the points, and
D = diag(lambda), both at the shortest lengthscale of a range, a pivoted Cholesky factor of
D^1/2 Phi'Phi D^1/2 = L L' gives an orthonormal basis Q of the range of R at the points,

    Phi D^1/2 = Q L',  Q'Q = 1.

At every longer lengthscale R stays in it: R = Phi S Phi' = Q A Q', A = L' T L, T = D^-1/2 S D^-1/2,
where S, of the products' coefficients, is a product of small matrices, one of each column. So with
z = Q' mu_hat

    log |R + s I| = log |A + s I| + (n - m) log s,
    mu_hat' (R + s I)^-1 mu_hat = z' (A + s I)^-1 z + (mu_hat' mu_hat - z'z) / s.

mu_hat is a polynomial of low total degree on a cell of a quarter or a third of a lengthscale, to
double precision. A product of kernels of one column has the product of their Taylor coefficients,
so those of all cells with points follow from the weights by one small matrix for each column. The
slope at every point is that of its cell's polynomial.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf

from ...linalg.pytrees import register_dataclass
from ...linalg.rows import map_rows
from .base import TooLargeError, gaussian_taylor, quadratic_and_log_determinant

#: Columns of L that are computed at once; numbers of functions are multiples of this.
COLUMNS = 128
#: Cells to the shortest lengthscale of a range, and total degree of a cell's polynomial, by
#: columns. With half a cell's diagonal of h lengthscales, the slope of the next term, of degree
#: d + 1, is at most h^d sqrt((d + 1) / d!) = 4e-16 of a kernel's height over the lengthscale.
CELL_DENSITY, DEGREE = {2: 4.0, 3: 3.0}, {2: 14, 3: 16}
WIDE = "the data are too wide for so short a lengthscale"


def nodes_over(
    extent: float,
    lengthscale: float,
    per_lengthscale: float = 6.0,
    min_nodes: int = 24,
    multiple: int = 8,
) -> np.ndarray:
    """Return Chebyshev nodes (N,) from 0 to ``extent``, ascending, with the ends.

    For functions that vary as the product of two kernels of this lengthscale or longer: their
    Chebyshev coefficient of degree d is exp(-(d lengthscale / extent)^2), which is below 1e-15, and
    some more, as an interval of few lengthscales needs. N is a ``multiple``, so that similar data
    share compiled programs.
    """
    extent = max(extent, 1e-3 * lengthscale)
    count = per_lengthscale * extent / lengthscale + min_nodes
    angle = np.linspace(0.0, np.pi, multiple * math.ceil(count / multiple))
    return extent * np.sin(0.5 * angle) ** 2


def _cardinal(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the cardinal functions at ``x`` (n,): (n, N), by the barycentric formula.

    Berrut and Trefethen, SIAM Review 46 (2004), (4.2) and (5.4): their sum is 1 to rounding.
    """
    signs = (-1.0) ** np.arange(len(nodes))
    signs[[0, -1]] *= 0.5
    difference = x[:, None] - nodes
    exact = difference == 0.0
    terms = signs / np.where(exact, 1.0, difference)
    hits = exact.any(axis=1)
    terms[hits] = exact[hits]
    return terms / terms.sum(axis=1, keepdims=True)


def weights_at_nodes(
    axes: Sequence[np.ndarray], x: np.ndarray, block_entries: int = 2**22
) -> np.ndarray:
    """Return weights (N_1, ..., N_D) of the points (n, D) at the nodes ``axes`` of each column."""
    shape = [len(nodes) for nodes in axes]
    total = np.zeros((shape[0], math.prod(shape[1:])))
    block = max(16, block_entries // total.shape[1])
    for start in range(0, len(x), block):
        rows = x[start : start + block]
        first, product, *rest = map(_cardinal, axes, rows.T)
        for more in rest:
            product = (product[:, :, None] * more[:, None, :]).reshape(len(rows), -1)
        total += first.T @ product
    return total.reshape(shape)


def _along_axes(matrices: Sequence[Any], tensor: Any, xp: Any = jnp) -> Any:
    """Apply a matrix (k_d, N_d) to each of the first axes of a tensor (N_1, ..., N_D, ...)."""
    for axis, matrix in enumerate(matrices):
        tensor = xp.moveaxis(xp.tensordot(matrix, tensor, (1, axis)), 0, axis)
    return tensor


def _kernel_on(nodes: Any, lengthscale: Any, xp: Any = jnp) -> Any:
    """Return the squared exponential of one column at the nodes, (N, N)."""
    nodes = xp.asarray(nodes)
    return xp.exp(-0.5 * ((nodes[:, None] - nodes) / lengthscale) ** 2)


def _shared_size(length: int, minimum: int, per_octave: int, multiple: int = 1) -> int:
    """Return a size that similar data share, at least ``length``: others are compiled anew."""
    power = 2.0 ** (math.ceil(per_octave * math.log2(max(length, minimum))) / per_octave)
    return multiple * math.ceil(round(power, 6) / multiple)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TensorBasis:
    """Tables of n points for the Gaussian term, at the lengthscales of a range.

    Attributes:
        axes: tuple of the nodes (N_d,) of each column.
        weights: weights of the points at the nodes, (N_1, ..., N_D).
        functions: tuple of eigenvectors (N_d, q_d), times the root of the eigenvalue.
        dual: tuple of eigenvectors (N_d, q_d), over the root of the eigenvalue.
        products: which function of each column is in a product, (M, D); the first m are the pivots.
        factor: L, (M, m).
        used: 1, or 0 where it is padded, (m,).
    """

    axes: Any
    weights: Any
    functions: Any
    dual: Any
    products: Any
    factor: Any
    used: Any

    @property
    def size(self) -> int:
        """The number m of functions, with padding."""
        return int(self.factor.shape[1])

    def terms(
        self, lengthscale: jax.Array, noise_variance: jax.Array, n: int
    ) -> tuple[jax.Array, jax.Array]:
        """Compute mu_hat'(R + s I)^-1 mu_hat and log |R + s I| for the unit measure.

        mu_hat is a mean over ``n`` points; the weights may be those of fewer.
        """
        m = self.size
        mean = _along_axes([_kernel_on(a, lengthscale) for a in self.axes], self.weights) / n
        weighted = self.weights * mean
        right = _along_axes([f.T for f in self.functions], weighted)[tuple(self.products[:m].T)]
        # The first rows of L, with ones on the diagonal where it is padded.
        triangle = self.factor[:m] * self.used[:, None] + jnp.diag(1.0 - self.used)
        z = solve_triangular(triangle, right * self.used, lower=True)
        quadratic, log_determinant = quadratic_and_log_determinant(
            self.covariance(lengthscale), z, noise_variance
        )
        rest = jnp.sum(weighted * mean) - z @ z
        count = jnp.round(jnp.sum(self.weights))
        log_determinant = log_determinant + (count - m) * jnp.log(noise_variance)
        return quadratic + rest / noise_variance, log_determinant

    def covariance(self, lengthscale: jax.Array) -> jax.Array:
        """Compute A (m, m), zero where it is padded."""
        inner = [
            dual.T @ _kernel_on(nodes, math.sqrt(2.0) * lengthscale) @ dual
            for nodes, dual in zip(self.axes, self.dual, strict=True)
        ]
        shape, index = tuple(len(matrix) for matrix in inner), tuple(self.products.T)

        def block(columns: jax.Array) -> jax.Array:
            tensor = jnp.zeros((*shape, COLUMNS)).at[index].add(columns.T)
            return _along_axes(inner, tensor)[index].T @ self.factor

        columns = self.factor.T.reshape(-1, COLUMNS, self.factor.shape[0])
        return jax.lax.map(block, columns).reshape(self.size, self.size)


def tensor_basis(
    axes: tuple[np.ndarray, ...],
    weights: np.ndarray,
    shortest: float,
    max_products: int,
    max_functions: int,
    min_part: float = 1e-14,
    min_pivot: float = 5e-15,
) -> TensorBasis:
    """Return the basis for lengthscales from the ``shortest`` on.

    Args:
        axes: nodes of each column.
        weights: weights of the points at the nodes.
        shortest: lengthscale.
        max_products: number of products.
        max_functions: number of functions of the basis.
        min_part: products are used whose part of tr R is above this, relative to the trace; smaller
            ones are rounding error, for which the pivots are not accurate.
        min_pivot: pivots end where they leave less than this of the trace.

    Raises:
        TooLargeError: for more products or functions than that.
    """
    n = float(weights.sum())
    eigenvectors, roots = zip(*(_eigenvectors(nodes, shortest) for nodes in axes), strict=True)
    functions, dual = (
        [v * root**sign for v, root in zip(eigenvectors, roots, strict=True)] for sign in (1, -1)
    )
    parts = _along_axes([f.T**2 for f in functions], weights, np)
    products = np.argwhere(parts > min_part * n)
    if len(products) > max_products:
        raise TooLargeError(f"R on the box has a rank of about {len(products)}")
    counts = [4 * math.ceil((1 + highest) / 4) for highest in products.max(axis=0)]
    functions = [f[:, :q] for f, q in zip(functions, counts, strict=True)]
    dual = [f[:, :q] for f, q in zip(dual, counts, strict=True)]
    gram = _gram(functions, products, weights)
    factor, pivots, rank, _ = dpstrf(gram, lower=1, tol=min_pivot * n, overwrite_a=1)
    if rank > max_functions:
        raise TooLargeError(f"R has a rank of {rank}")
    M, m = (_shared_size(size, COLUMNS, 4, COLUMNS) for size in (len(products), rank))
    L, ordered = np.zeros((M, m)), np.zeros((M, len(axes)), dtype=np.int32)
    L[: len(factor), :rank] = np.tril(factor[:, :rank])
    ordered[: len(factor)] = products[pivots - 1]
    used = (np.arange(m) < rank).astype(float)
    return TensorBasis(axes, weights, tuple(functions), tuple(dual), ordered, L, used)


def _eigenvectors(
    nodes: np.ndarray, shortest: float, max_nodes: int = 1500, min_eigenvalue: float = 1e-17
) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvectors (N, q) of r at the nodes of a column, and roots of their eigenvalues.

    Relative to the largest, those below ``min_eigenvalue`` are rounding error.
    """
    if len(nodes) > max_nodes:
        raise TooLargeError(WIDE)
    values, vectors = np.linalg.eigh(_kernel_on(nodes, math.sqrt(2.0) * shortest, np))
    values, least = values[::-1], min_eigenvalue * values[-1]
    count = min(len(values), 4 * math.ceil(np.sum(values > least) / 4))
    return vectors[:, : -count - 1 : -1], np.sqrt(np.maximum(values[:count], least))


def _gram(
    functions: list[np.ndarray],
    products: np.ndarray,
    weights: np.ndarray,
    max_entries: int = 50_000_000,
) -> np.ndarray:
    """Compute D^1/2 Phi'Phi D^1/2 (M, M) from products of pairs of functions of each column.

    One very long column has pairs of more than ``max_entries``: it is for the methods of one.
    """
    pairs, position = [], []
    for f in functions[:2]:
        i, j = np.tril_indices(f.shape[1])
        if len(f) * len(i) > max_entries:
            raise TooLargeError(WIDE)
        index = np.empty((f.shape[1],) * 2, dtype=int)
        index[i, j] = index[j, i] = np.arange(len(i))
        pairs.append((f[:, i] * f[:, j]).T)
        position.append(index)
    # The third column one pair after the other, as if there was one function without it.
    third = functions[2] if len(functions) == 3 else np.ones((1, 1))
    weights = weights.reshape(*weights.shape[:2], -1)
    c = products[:, 2] if len(functions) == 3 else np.zeros(len(products), dtype=int)
    rows = [np.flatnonzero(c == k) for k in range(third.shape[1])]
    gram = np.empty((len(products), len(products)))
    for s, t in itertools.product(range(len(rows)), repeat=2):
        if t > s or not len(rows[s]) or not len(rows[t]):
            continue
        sums = _along_axes(pairs, weights @ (third[:, s] * third[:, t]), np)
        a, b = (
            index[np.ix_(products[rows[s], d], products[rows[t], d])]
            for d, index in enumerate(position)
        )
        gram[np.ix_(rows[s], rows[t])] = sums[a, b]
        gram[np.ix_(rows[t], rows[s])] = sums[a, b].T
    return gram


@register_dataclass
@dataclasses.dataclass(frozen=True)
class TensorGrid:
    """The cells of a box that contain points, in slabs along its first column.

    Attributes:
        centers: tuple of the centers (C_d,) of the cells along each column.
        width: width of a cell, ().
        slabs: which cells of a slab contain points, (C_1, k); padded with any.
    """

    centers: Any
    width: Any
    slabs: Any

    @property
    def slots(self) -> int:
        """The number of cells with points, with padding."""
        return math.prod(self.slabs.shape)

    def polynomials(
        self, axes: tuple[Any, ...], weights: jax.Array, lengthscale: jax.Array, n: int
    ) -> jax.Array:
        """Compute Taylor coefficients (slots, terms) of mu_hat over a cell's width.

        mu_hat is the mean over ``n`` points with these ``weights`` at nodes.
        """
        dimension = len(axes)
        degrees, terms = multi_indices(dimension), DEGREE[dimension] + 1

        def taylor(centers: jax.Array, nodes: jax.Array) -> jax.Array:
            """Return coefficients (C, terms, N) of u^p in k(center + u width, node)."""
            scaled = (jnp.asarray(centers)[:, None] - nodes) / lengthscale
            return jnp.moveaxis(gaussian_taylor(scaled, self.width / lengthscale, terms), 0, 1)

        first, *rest = map(taylor, self.centers, axes)

        def of_slab(slab: tuple[jax.Array, jax.Array]) -> jax.Array:
            along_first, occupied = slab
            matrices = [along_first, *(m.reshape(-1, m.shape[2]) for m in rest)]
            tensor = _along_axes(matrices, weights / n)
            # (terms, C_2 terms, ...) to (C_2, ..., terms, terms, ...)
            tensor = tensor.reshape(terms, *itertools.chain(*(m.shape[:2] for m in rest)))
            order = (*range(1, 2 * dimension - 1, 2), *range(0, 2 * dimension - 1, 2))
            tensor = jnp.transpose(tensor, order).reshape(-1, *[terms] * dimension)
            return tensor[occupied][:, *degrees.T]

        coefficients = jax.lax.map(of_slab, (first, self.slabs))
        return coefficients.reshape(-1, len(degrees)) / self.width


class CellOffsets(NamedTuple):
    """Cell and offset of each of n points.

    Attributes:
        slot: position among the cells with points, (n,); the last of all for points in none.
        offset: from the center of the cell, in widths, (n, D).
    """

    slot: Any
    offset: Any

    def gradients(self, polynomials: jax.Array) -> jax.Array:
        """Evaluate the gradients (n, D) of the cells' polynomials (slots, terms)."""
        dimension = self.offset.shape[1]
        degrees, exponents = multi_indices(dimension), np.arange(1, DEGREE[dimension] + 1)

        def at_point(point: CellOffsets) -> jax.Array:
            slot, offset = point
            powers = jnp.cumprod(jnp.broadcast_to(offset[:, None], (dimension, len(exponents))), 1)
            powers = jnp.concatenate([jnp.ones((dimension, 1)), powers], axis=1)
            derivatives = jnp.concatenate(
                [jnp.zeros((dimension, 1)), exponents * powers[:, :-1]], 1
            )

            def along(column: int) -> jax.Array:
                product = polynomials[slot]
                for d in range(dimension):
                    product = product * (derivatives if d == column else powers)[d][degrees[:, d]]
                return jnp.sum(product)

            return jnp.stack([along(column) for column in range(dimension)])

        return map_rows(at_point, self, len(degrees))


def multi_indices(dimension: int) -> np.ndarray:
    """Return the exponents up to the total degree, (terms, D)."""
    degree = DEGREE[dimension]
    exponents = itertools.product(range(degree + 1), repeat=dimension)
    return np.array([e for e in exponents if sum(e) <= degree], dtype=np.int32)


def tensor_grid(
    x: np.ndarray, inside: np.ndarray, shortest: float
) -> tuple[TensorGrid, CellOffsets]:
    """Return cells, and the points in them, for lengthscales from the ``shortest`` on.

    Args:
        x: the points, (n, D).
        inside: mask (n,) of the points that are in a cell.
        shortest: lengthscale.
    """
    width = shortest / CELL_DENSITY[x.shape[1]]
    low = x[inside].min(axis=0)
    cell = np.floor((x[inside] - low) / width)
    center = low + (cell + 0.5) * width
    centers, along = [], []
    for column in center.T:
        values, index = np.unique(column, return_inverse=True)
        padding = _shared_size(len(values), 4, 2) - len(values)
        centers.append(np.pad(values, (0, padding), mode="edge"))
        along.append(index)
    shape = [len(c) for c in centers]
    flat = np.ravel_multi_index(along, shape)
    occupied, index = np.unique(flat, return_inverse=True)
    slab, remainder = np.divmod(occupied, math.prod(shape[1:]))
    counts = np.bincount(slab, minlength=shape[0])
    size = _shared_size(int(counts.max()), 4, 2)
    rank = np.arange(len(occupied)) - (np.cumsum(counts) - counts)[slab]
    slabs = np.zeros((shape[0], size), dtype=np.int32)
    slabs[slab, rank] = remainder
    slot, offset = np.full(len(x), slabs.size, dtype=np.int32), np.zeros_like(x)
    slot[inside] = (slab * size + rank)[index]
    offset[inside] = (x[inside] - center) / width
    return TensorGrid(tuple(centers), np.float64(width), slabs), CellOffsets(slot, offset)
