"""Data with what is fixed of a low-rank likelihood: landmarks or frequencies, and some rows."""

from __future__ import annotations

import dataclasses
import operator
from typing import Any, get_args

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...measures.measure import Measure
from ..names import LowRank
from .choice import spread_rows
from .fourier import FourierBasis
from .frequencies import draw, fourier_obstacle
from .nystrom import NystromBasis

LOW_RANK: tuple[str, ...] = get_args(LowRank)
#: Fewest rows at which the likelihood is also worked out exactly, where there are so many.
FEWEST_EXACT = 256


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class LowRankView:
    """What a low-rank likelihood is told: it takes these for any kernel of the kind it is for."""

    points: jax.Array  # (n, D)
    exact: jax.Array  # (s,), numbers of the rows that correct the approximation
    basis: NystromBasis | FourierBasis

    @property
    def entries(self) -> int:
        """Kernel values that one likelihood takes, about."""
        return len(self.points) * (self.basis.size + len(self.exact))


def low_rank_view(
    points: Any,
    kernel: Kernel,
    measure: Measure,
    likelihood: str,
    rank: Any,
    *,
    exact: int | None = None,
    seed: int = 0,
) -> LowRankView:
    """Of points (n, D), whose order does not matter.

    Args:
        points: the data, with known entries.
        kernel: of the kind that the likelihood is for; its lengthscales do not matter.
        measure: of the smoothed kernel.
        likelihood: ``"nystrom"`` or ``"fourier"``.
        rank: m, the number of landmarks or of features.
        exact: how many rows correct the approximation; by default as many as the rank, or 256.
        seed: of the choice of both.

    Raises:
        ValueError: for an argument that makes no sense, naming it.
    """
    if isinstance(points, jax.core.Tracer):
        raise ValueError(
            f"likelihood={likelihood!r} cannot be used here: the data are traced, and it chooses "
            "among them: close over them instead"
        )
    if likelihood not in LOW_RANK:
        raise ValueError(f"likelihood must be one of {LOW_RANK}, got {likelihood!r}")
    data = np.asarray(points)
    n, dimension = data.shape
    rank = check_rank(rank, likelihood, n)
    rng = np.random.default_rng(seed)
    basis: NystromBasis | FourierBasis
    if likelihood == "nystrom":
        basis = NystromBasis(jnp.asarray(spread_rows(data, rank, rng)))
    else:
        if obstacle := fourier_obstacle(kernel, measure, dimension):
            raise ValueError(f"likelihood='fourier' cannot be used here: {obstacle}")
        of_kernel, of_smoothed = draw(kernel, max(1, rank // 2), dimension, seed)
        basis = jax.tree.map(jnp.asarray, FourierBasis(of_kernel, of_smoothed))
    count = min(n, max(rank, FEWEST_EXACT) if exact is None else exact)
    order = np.lexsort(data.T[::-1])
    chosen = np.sort(rng.choice(n, count, replace=False))
    return LowRankView(jnp.asarray(data), jnp.asarray(order[chosen]), basis)


def check_rank(rank: Any, likelihood: str, rows: int) -> int:
    """``rank`` as an int, or ``ValueError`` naming what it may be."""
    if rank is None:
        raise ValueError(f"likelihood={likelihood!r} needs a rank, the number of its features")
    try:
        found = operator.index(rank)
    except TypeError:
        raise ValueError(f"rank must be a whole number, got {rank!r}") from None
    if isinstance(rank, bool) or not 1 <= found <= rows:
        raise ValueError(f"rank must be from 1 to the number of rows, {rows}, got {rank!r}")
    return found
