"""Data with what is fixed of a low-rank likelihood: landmarks or frequencies, and some rows."""

from __future__ import annotations

import dataclasses

import jax

from ...linalg.pytrees import register_dataclass
from .fourier import FourierBasis
from .nystrom import NystromBasis


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Approximation:
    """What the sums over rows are taken of, for any kernel of the kind the basis is for."""

    points: jax.Array  # (n, D)
    exact: jax.Array  # (s,), numbers of the rows that correct the approximation
    basis: NystromBasis | FourierBasis
