"""Kernels of a test: their selection, Gram matrices and low-rank factors of these."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from threading import Event
from typing import Any, NamedTuple, get_args

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.base import Covariance

from ..core.errors import InputError
from ..core.machine import available_memory, cores, side_by_side
from ..data.units import choose_scale, scale_from_deviations
from ..learning import SingleKernel
from ..learning.kernel_selection import check_kernel, format_kernel, select_kernels
from ..permutation.null_distribution import RESOLUTION

#: Names of the rules that select one kernel, whose statistic is not combined with others.
SINGLE_KERNELS: tuple[str, ...] = get_args(SingleKernel)
#: Seed of kernel selection and of landmarks. With the seed of the test a p-value would vary with
#: the selection much more than with the permutations.
SELECTION_SEED = 0
DEGENERATE_KERNEL = (
    "the kernel does not distinguish any rows: choose a lengthscale on the scale of the data"
)

#: Number of rows from which a factor is computed. For fewer rows the matrix is as fast.
MIN_FACTOR_ROWS = 2000
#: Largest rank, and smallest number of rows per rank. Beyond, a product with the matrix is faster.
MAX_RANK, MIN_ROWS_PER_RANK = 1000, 4
#: Proportion of the free memory that a factor may occupy.
MAX_MEMORY_PROPORTION = 0.25
#: Trace of the residual at which the factor is complete, relative to the Gram matrix.
TRACE_TOLERANCE = 1e-12
#: The factorization stops if more than this proportion of the trace remains at a third of the
#: largest rank, and the rows are few enough for the matrix itself.
MAX_REMAINING_TRACE, MAX_MATRIX_ROWS = 1e-3, 10_000
#: Rows of labels that are converted to floating point at once.
LABEL_BLOCK = 8192


@dataclasses.dataclass(frozen=True)
class KernelChoice:
    """The options of kernel selection.

    Attributes:
        kernel: a kernel, or the name of a selection rule.
        standardize: scale of the columns, see :func:`~bke.inference.fit`.
    """

    kernel: Any
    standardize: str | None

    def __post_init__(self) -> None:
        scale_from_deviations(np.ones(1), self.standardize)  # checks standardize

    @classmethod
    def checked(
        cls, kernel: Any, choices: tuple[str, ...], standardize: str | None
    ) -> KernelChoice:
        """Check the options, and convert kernels of scikit-learn.

        Raises:
            InputError: if ``kernel`` is neither a kernel nor one of ``choices``, or
                ``standardize`` is unknown.
        """
        return cls(check_kernel(kernel, choices), standardize)

    def kernels(self, sample: np.ndarray) -> list[Any]:
        """Select the kernels for a sample (N, D). The order of rows has no influence."""
        return list(select_kernels(self.kernel, sample, self.standardize, SELECTION_SEED))

    def scales(self, sample: np.ndarray) -> np.ndarray:
        """Compute the scales (D,) of the columns of a sample (N, D), 1 for constant columns."""
        scales = choose_scale(sample, self.standardize)
        return np.where(scales > 0.0, scales, 1.0)

    def __str__(self) -> str:
        return self.kernel if isinstance(self.kernel, str) else "given kernel"


def short_name(kernel: Any) -> str:
    """Format a squared exponential as its lengthscale, and other kernels in full."""
    return format_kernel(kernel).removeprefix("SquaredExponential with ")


def kernel_combinations(
    kernels: Sequence[Sequence[Any]], order: Sequence[int]
) -> list[tuple[str, tuple[Any, ...]]]:
    """Return all combinations of one kernel of each variable, with labels.

    Args:
        kernels: kernels of each variable.
        order: indices of the variables, of which the last one varies fastest. The kernels of a
            combination are in the order of ``kernels``.
    """
    combinations = itertools.product(*(kernels[index] for index in order))
    positions = [order.index(index) for index in range(len(order))]
    in_order = [tuple(chosen[position] for position in positions) for chosen in combinations]
    return [(" and ".join(map(short_name, chosen)), chosen) for chosen in in_order]


def gram(kernel: Any, points: np.ndarray) -> np.ndarray:
    """Compute the Gram matrix (N, N) of points (N, D).

    Raises:
        InputError: if the kernel does not fit the columns, or has values that are not finite.
    """
    try:
        matrix = np.asarray(kernel(points, points), dtype=float)
    except ValueError as error:
        raise InputError(f"the kernel does not fit the data: {error}") from None
    if not np.isfinite(matrix).all():
        raise InputError("the kernel has values that are not finite at these data")
    return matrix


def center(gram: np.ndarray) -> np.ndarray:
    """Center a Gram matrix (n, n): H K H with H = I - 11'/n."""
    columns = gram.mean(axis=0)
    centered = gram - columns
    # In place, because memory traffic takes most of the time.
    centered -= (columns - columns.mean())[:, None]
    return np.asarray(centered)


def off_diagonal_mean(gram: np.ndarray) -> float:
    """Compute the mean of a Gram matrix (n, n) over pairs of different rows."""
    n = len(gram)
    return float((gram.sum() - np.trace(gram)) / (n * (n - 1)))


def biased_mmd(gram: np.ndarray, m: int) -> float:
    """Compute the biased squared MMD (MMD-4) of the first m rows and the remaining rows."""
    return float(gram[:m, :m].mean() + gram[m:, m:].mean() - 2.0 * gram[:m, m:].mean())


def check_not_degenerate(gram: np.ndarray) -> None:
    """Check that the kernel distinguishes rows.

    Raises:
        InputError: if all rows are equal to the kernel, or all pairs of rows equally different.
    """
    centered = center(gram)
    diagonal = np.diagonal(centered)
    off_diagonal = (centered - np.diag(diagonal))[~np.eye(len(gram), dtype=bool)]
    if np.ptp(diagonal) + np.ptp(off_diagonal) <= RESOLUTION * np.abs(gram).max():
        raise InputError(DEGENERATE_KERNEL)


class Factor(NamedTuple):
    """A Gram matrix (N, N) as the product F F'.

    Attributes:
        transposed: the transposed factor F', (r, N).
    """

    transposed: np.ndarray

    def centered(self) -> Factor:
        """Return the factor H F of the centered matrix, with H = I - 11'/N."""
        return Factor(self.transposed - self.transposed.mean(axis=1, keepdims=True))

    @property
    def diagonal(self) -> np.ndarray:
        """Diagonal of the Gram matrix, (N,)."""
        return np.einsum("rn,rn->n", self.transposed, self.transposed)

    def products(self, labels: np.ndarray) -> np.ndarray:
        """Compute F' Z, (r, k), for labels Z (N, k) of 0 and 1.

        The labels are converted in blocks, because all of them in floating point would not fit
        into memory.
        """
        edges = [*range(0, len(labels), LABEL_BLOCK), len(labels)]
        blocks = [slice(a, b) for a, b in itertools.pairwise(edges)]
        blocks_of_core = np.array_split(np.arange(len(blocks)), cores())

        def partial_product(core: int) -> np.ndarray:
            total = np.zeros((len(self.transposed), labels.shape[1]))
            for index in blocks_of_core[core]:
                rows = blocks[index]
                total += self.transposed[:, rows] @ labels[rows].astype(float)
            return total

        return np.sum(side_by_side(partial_product, len(blocks_of_core), Event()), axis=0)


def factorize(kernel: Covariance, points: np.ndarray) -> Factor | None:
    """Factorize the Gram matrix of points (N, D) by pivoted Cholesky, to its numerical rank.

    The pivots depend on the pooled sample only, so permutation tests with F F' are exact, whatever
    the residual. This is NumPy: the compiled :mod:`bke.models.linalg.pivoted_cholesky` updates
    an array of the largest rank at every pivot.

    Returns:
        The factor, or ``None`` for few points or if the rank is not small.
    """
    N = len(points)
    memory = available_memory()
    max_rank = min(MAX_RANK, N // MIN_ROWS_PER_RANK)
    if memory is not None:
        max_rank = min(max_rank, int(MAX_MEMORY_PROPORTION * memory / (8 * N)))
    if N < MIN_FACTOR_ROWS or max_rank < 1:
        return None
    residual = np.array(_diagonal(kernel, jnp.asarray(points)))
    trace = residual.sum()
    factor = np.empty((max_rank, N))  # memory is allocated only for the rows that are written
    for rank in range(max_rank):
        pivot = int(np.argmax(residual))
        row = np.array(kernel(points[pivot : pivot + 1], points), dtype=float)[0]
        row -= factor[:rank, pivot] @ factor[:rank]
        factor[rank] = row / np.sqrt(residual[pivot])
        residual -= factor[rank] ** 2
        residual[pivot] = 0.0  # its value in exact arithmetic
        np.maximum(residual, 0.0, out=residual)
        remaining = residual.sum()
        if remaining <= TRACE_TOLERANCE * trace:
            return Factor(factor[: rank + 1])
        slow = 3 * rank > max_rank and remaining > MAX_REMAINING_TRACE * trace
        if slow and N <= MAX_MATRIX_ROWS:
            return None
    return None


@jax.jit
def _diagonal(kernel: Covariance, points: jax.Array) -> jax.Array:
    return kernel.diagonal(points)
