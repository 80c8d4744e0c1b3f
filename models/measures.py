"""The measure nu of the smoothed kernel r(x, y) = int k(x, u) k(u, y) nu(du), BKE (4).

Importing this module completes the import of NumPyro. ArviZ from 1.3 on defers it to its first
use. Where that is ``import numpyro.distributions``, Python runs the package twice, and the second
copy lacks the modules that are loaded already as attributes: NumPyro's own ``factor`` then does
not find ``distribution``. Functions that import modules of NumPyro import this module first.
"""

from __future__ import annotations

import abc
import dataclasses
import sys
from typing import Any, ClassVar

import numpy as np
import numpyro
import numpyro.distributions as dist

from .linalg.precision import check_positive, concrete, concrete_values
from .linalg.pytrees import register_dataclass

numpyro.__version__  # noqa: B018 -- completes a deferred import
for _name, _module in list(sys.modules.items()):
    _parent, _, _child = _name.rpartition(".")
    if _name.startswith("numpyro.") and not hasattr(sys.modules[_parent], _child):
        setattr(sys.modules[_parent], _child, _module)

#: Name of the scale of a Gaussian measure where it is a hyperparameter.
MEASURE_SCALE = "measure_scale"


def check_parameters(distribution: dist.Distribution, name: str) -> None:
    """Raise ``ValueError`` naming a concrete parameter outside its domain, such as a rate of -1."""
    if distribution.is_discrete:
        raise ValueError(f"{name} must be continuous, got {type(distribution).__name__}")
    for component in component_distributions(distribution):
        check_parameters(component, name)
    try:
        distribution.validate_args(strict=False)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    bounds = {}
    for parameter in distribution.arg_constraints:
        value = concrete(getattr(distribution, parameter, None))
        if not isinstance(value, (int, float, np.ndarray, np.number)):
            continue
        is_bound = parameter in ("low", "high")
        if np.any(np.isnan(value)) or (np.any(np.isinf(value)) and not is_bound):
            raise ValueError(f"{name}: {parameter} must be finite, got {value}")
        bounds[parameter] = value
    if "low" in bounds and "high" in bounds and not np.all(bounds["low"] < bounds["high"]):
        raise ValueError(f"{name}: low must be below high")


def component_distributions(distribution: dist.Distribution) -> list[dist.Distribution]:
    """Return the components of a mixture, or the base of a transformed distribution."""
    if isinstance(distribution, dist.MixtureGeneral):
        return list(distribution.component_distributions)
    if isinstance(distribution, dist.MixtureSameFamily):
        return [distribution.component_distribution]
    return [distribution.base_dist] if hasattr(distribution, "base_dist") else []


def lower_bound(distribution: dist.Distribution) -> float | None:
    """Return the lower end of the support, or ``None`` if NumPyro does not know it."""
    support: Any = distribution.support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    bound = getattr(support, "lower_bound", None)
    return None if bound is None else float(np.min(np.asarray(bound)))


def check_positive_prior(prior: dist.Distribution, site: str) -> None:
    """Refuse a prior that is not positive, or not over a number or a vector."""
    name = type(prior).__name__
    if len(prior.shape()) > 1:
        raise ValueError(
            f"prior of {site!r} must be over a number or a vector, got {name} of shape "
            f"{prior.shape()}"
        )
    bound = lower_bound(prior)
    if bound is None or bound < 0.0:
        raise ValueError(f"prior of {site!r} must have positive support, got {name}")


class Measure(abc.ABC):
    """A measure on R^D. A subclass is a frozen dataclass registered as a pytree.

    Attributes:
        name: its name in records and options.
        translation_invariant: True if r is a function of x - y for every kernel that is.
        relative: True if r is divided by its value at zero, so that multiples of k have the same r.
    """

    name: ClassVar[str]
    translation_invariant: ClassVar[bool]
    relative: ClassVar[bool]

    @property
    def prior(self) -> dist.Distribution | None:
        """The prior of the scale, or ``None`` if the scale is fixed."""
        return None

    @abc.abstractmethod
    def smooth(self, kernel: Any, dimension: int) -> Any:
        """Return the smoothed kernel r of ``kernel`` on R^``dimension``.

        Args:
            kernel: has ``lebesgue_smoothed`` and ``gaussian_smoothed``.
            dimension: D.
        """

    def rescaled(self, scale: np.ndarray) -> Measure:
        """Return the measure for data divided by ``scale`` (D,); a prior of its scale is unchanged.

        Raises:
            ValueError: if the measure has another number of columns.
        """
        return self

    def with_scale(self, scale: Any) -> Measure:
        """Return the measure with another scale, if it has one."""
        return dataclasses.replace(self, scale=scale)  # type: ignore[type-var]

    def record(self) -> str | dict[str, Any]:
        """Return its name, or its parameters by name."""
        return self.name

    def __str__(self) -> str:
        return self.name


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Lebesgue(Measure):
    """nu(du) = du, in the units of the data in the model."""

    name = "lebesgue"
    translation_invariant = True
    relative = False

    def smooth(self, kernel: Any, dimension: int) -> Any:
        """Return the integral over all of space, over its value at zero if ``relative``."""
        return kernel.lebesgue_smoothed(dimension, relative=self.relative)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Unit(Lebesgue):
    """The Lebesgue measure over the value of its r at zero, the scale of BKE's figures."""

    name = "unit"
    relative = True


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian(Measure):
    """nu(du) = exp(-|u - center|^2 / (2 scale^2)) du, a finite measure (BKE appendix A.3).

    It is not normalized: a wide ``scale`` recovers the Lebesgue measure. With a finite measure,
    draws from GP(0, r) lie in the RKHS of k (BKE section 3.1).

    Args:
        scale: positive, a number or one per column, in the units of the data; or, for
            :func:`~bke.models.bke_model` and ``fit``, its prior: a NumPyro distribution, which
            makes the scale a hyperparameter (BKE A.3 names this as future work).
        center: a number or one per column, in the units of the data.
    """

    scale: Any = 1.0
    center: Any = 0.0

    name = "gaussian"
    translation_invariant = False
    relative = False

    def __post_init__(self) -> None:
        if isinstance(self.scale, dist.Distribution):
            check_parameters(self.scale, f"prior of {MEASURE_SCALE!r}")
            check_positive_prior(self.scale, MEASURE_SCALE)
        else:
            check_positive(self.scale, "Gaussian measure: scale")
        if isinstance(self.center, (str, dist.Distribution)):
            raise ValueError(
                "Gaussian measure: center must be numbers (only the scale can be random), got "
                f"{self.center!r}"
            )
        if not np.all(np.isfinite(concrete_values(self.center))):
            raise ValueError(f"Gaussian measure: center must be finite, got {self.center}")

    @property
    def prior(self) -> dist.Distribution | None:
        """The prior of the scale, or ``None`` if the scale is fixed."""
        return self.scale if isinstance(self.scale, dist.Distribution) else None

    def smooth(self, kernel: Any, dimension: int) -> Any:
        """Return the integral against this Gaussian."""
        return kernel.gaussian_smoothed(self, dimension)

    def rescaled(self, scale: np.ndarray) -> Gaussian:
        """Return the measure for data divided by ``scale`` (D,); a prior of its scale is unchanged.

        Raises:
            ValueError: if its scale or center has another number of columns.
        """
        for name in ("scale", "center"):
            value = getattr(self, name)
            shape = value.shape() if isinstance(value, dist.Distribution) else np.shape(value)
            if shape not in ((), (1,), scale.shape):
                raise ValueError(
                    f"Gaussian measure: {name} must be a number or one per column "
                    f"({len(scale)}), got shape {shape}"
                )
        rescaled = self.scale if self.prior is not None else np.asarray(self.scale) / scale
        return Gaussian(rescaled, np.asarray(self.center) / scale)

    def record(self) -> dict[str, Any]:
        """Return its parameters by name."""
        return {"scale": self.scale, "center": self.center}


#: Measures by name.
MEASURES: dict[str, Measure] = {measure.name: measure for measure in (Unit(), Lebesgue())}


def as_measure(measure: Measure | str) -> Measure:
    """Return the measure of a name, or ``measure`` itself.

    Raises:
        ValueError: for anything else, naming the measures.
    """
    if isinstance(measure, Measure):
        return measure
    if isinstance(measure, str) and measure in MEASURES:
        return MEASURES[measure]
    names = ", ".join(map(repr, MEASURES))
    raise ValueError(f"measure must be {names} or Gaussian(scale, center), got {measure!r}")


def fixed_measure(measure: Measure | str) -> Measure:
    """Return :func:`as_measure`, if nothing in it is random.

    Raises:
        ValueError: also for a measure whose scale has a prior.
    """
    measure = as_measure(measure)
    if measure.prior is not None:
        raise ValueError(
            "a measure with a prior on its scale is for bke_model and fit: elsewhere its scale "
            "must be a number"
        )
    return measure
