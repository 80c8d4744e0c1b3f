"""The measure nu of the smoothed kernel r(x, y) = int k(x, u) k(u, y) nu(du), BKE (4)."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias, get_args

import jax
import numpy as np
import numpyro.distributions as dist

from .distributions import check_parameters, lower_bound
from .names import MeasureName


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian:
    """nu(du) = exp(-|u - centre|^2 / (2 scale^2)) du, a finite measure (BKE appendix A.3).

    It is not normalised: a wide ``scale`` recovers the Lebesgue measure. With a finite measure,
    draws from GP(0, r) lie in the RKHS of k (BKE section 3.1).

    Args:
        scale: positive, a number or one per column, in the units of the data; or, for
            :func:`~bke.models.bke_model` and ``fit``, its prior: a NumPyro distribution, which
            makes the scale a hyperparameter (BKE A.3 names this as future work).
        centre: a number or one per column, in the units of the data.
    """

    scale: Any = 1.0
    centre: Any = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.scale, dist.Distribution):
            check_scale_prior(self.scale)
        if isinstance(self.centre, dist.Distribution):
            raise ValueError("Gaussian measure: the centre cannot be random, only the scale")
        scale, centre = _numbers(self.scale, "scale"), _numbers(self.centre, "centre")
        if scale is not None and not np.all(np.isfinite(scale) & (scale > 0)):
            raise ValueError(f"Gaussian measure: scale must be positive, got {self.scale}")
        if centre is not None and not np.all(np.isfinite(centre)):
            raise ValueError(f"Gaussian measure: centre must be finite, got {self.centre}")


def _numbers(value: Any, name: str) -> np.ndarray | None:
    """``value`` if it is known now: pytrees are also built from traced leaves and placeholders."""
    if isinstance(value, str):
        raise ValueError(f"Gaussian measure: {name} must be numbers, got {value!r}")
    if isinstance(value, dist.Distribution):
        return None
    leaves = jax.tree.leaves(value)
    if leaves and all(isinstance(leaf, (int, float, np.ndarray, np.number)) for leaf in leaves):
        return np.asarray(value, dtype=float)
    return None


def check_scale_prior(prior: dist.Distribution) -> None:
    """Refuse a prior on the scale that is not positive, or not over a number or a vector."""
    check_parameters(prior, "prior of 'measure_scale'")
    if len(prior.shape()) > 1:
        raise ValueError(
            "prior of 'measure_scale' must be over a number or a vector, got "
            f"{type(prior).__name__} of shape {prior.shape()}"
        )
    bound = lower_bound(prior)
    if bound is None or bound < 0.0:
        raise ValueError(
            f"prior of 'measure_scale' must have positive support, got {type(prior).__name__}"
        )


def scale_prior(measure: str | Gaussian) -> dist.Distribution | None:
    """The prior of a Gaussian measure's scale, if it is random."""
    if isinstance(measure, Gaussian) and isinstance(measure.scale, dist.Distribution):
        return measure.scale
    return None


def check_fixed(measure: str | Gaussian) -> None:
    """Refuse a measure whose scale is a prior."""
    if scale_prior(measure) is not None:
        raise ValueError(
            "a measure with a prior on its scale is for bke_model and fit: here its scale must be "
            "a number"
        )


def with_scale(measure: str | Gaussian, scale: Any) -> Gaussian:
    """A Gaussian measure with another scale."""
    if not isinstance(measure, Gaussian):
        raise ValueError(f"measure {measure!r} has no scale")
    return dataclasses.replace(measure, scale=scale)


Measure: TypeAlias = str | Gaussian


def check_measure(measure: Measure) -> Measure:
    """Return ``measure`` or raise ``ValueError`` naming the measures there are."""
    if isinstance(measure, Gaussian) or measure in get_args(MeasureName):
        return measure
    raise ValueError(
        f"measure must be 'unit', 'lebesgue' or Gaussian(scale, centre), got {measure!r}"
    )
