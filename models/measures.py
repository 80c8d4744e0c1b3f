"""The measure nu of the smoothed kernel r(x, y) = int k(x, u) k(u, y) nu(du), BKE (4)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import jax
import numpy as np


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian:
    """nu(du) = exp(-|u - centre|^2 / (2 scale^2)) du, a finite measure (BKE appendix A.3).

    It is not normalised: a wide ``scale`` recovers the Lebesgue measure. With a finite measure,
    draws from GP(0, r) lie in the RKHS of k (BKE section 3.1).

    Args:
        scale: positive, a number or one per column, in the units of the data.
        centre: a number or one per column, in the units of the data.
    """

    scale: Any = 1.0
    centre: Any = 0.0

    def __post_init__(self) -> None:
        scale, centre = _numbers(self.scale, "scale"), _numbers(self.centre, "centre")
        if scale is not None and not np.all(np.isfinite(scale) & (scale > 0)):
            raise ValueError(f"Gaussian measure: scale must be positive, got {self.scale}")
        if centre is not None and not np.all(np.isfinite(centre)):
            raise ValueError(f"Gaussian measure: centre must be finite, got {self.centre}")


def _numbers(value: Any, name: str) -> np.ndarray | None:
    """``value`` if it is known now: pytrees are also built from traced leaves and placeholders."""
    if isinstance(value, str):
        raise ValueError(f"Gaussian measure: {name} must be numbers, got {value!r}")
    leaves = jax.tree.leaves(value)
    if leaves and all(isinstance(leaf, (int, float, np.ndarray, np.number)) for leaf in leaves):
        return np.asarray(value, dtype=float)
    return None


Measure: TypeAlias = str | Gaussian


def check_measure(measure: Measure) -> Measure:
    """Return ``measure`` or raise ``ValueError`` naming the measures there are."""
    if isinstance(measure, Gaussian) or measure in ("unit", "lebesgue"):
        return measure
    raise ValueError(
        f"measure must be 'unit', 'lebesgue' or Gaussian(scale, centre), got {measure!r}"
    )
