"""NumPyro as it should be where another package has put off its import.

ArviZ from 1.3 on has NumPyro loaded at its first use. Where that is ``import
numpyro.distributions``, Python runs this package twice, and the second copy has no attributes for
its modules, which are loaded already: NumPyro's own ``factor`` then finds none of the name
``distribution``.
"""

from __future__ import annotations

import abc
import dataclasses
import sys
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

from .linalg.precision import concrete
from .linalg.pytrees import register_dataclass

numpyro.__version__  # noqa: B018 -- loads it now, if it is put off until then


def restore_submodules(package: str) -> None:
    """Makes every loaded module of a package an attribute of the one that it is in."""
    for name, module in list(sys.modules.items()):
        parent, _, child = name.rpartition(".")
        if name.startswith(f"{package}.") and not hasattr(sys.modules[parent], child):
            setattr(sys.modules[parent], child, module)


restore_submodules("numpyro")


def check_parameters(distribution: dist.Distribution, name: str) -> None:
    """Raise ``ValueError`` naming a concrete parameter outside its domain, such as a rate of -1."""
    if distribution.is_discrete:
        raise ValueError(f"{name} must be continuous, got {type(distribution).__name__}")
    for part in parts(distribution):
        check_parameters(part, name)
    try:
        distribution.validate_args(strict=False)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    bounds = {}
    for parameter in distribution.arg_constraints:
        value = concrete(getattr(distribution, parameter, None))
        if not isinstance(value, (int, float, np.ndarray, np.number)):
            continue
        bound = parameter in ("low", "high")
        if np.any(np.isnan(value)) or (np.any(np.isinf(value)) and not bound):
            raise ValueError(f"{name}: {parameter} must be finite, got {value}")
        bounds[parameter] = value
    if "low" in bounds and "high" in bounds and not np.all(bounds["low"] < bounds["high"]):
        raise ValueError(f"{name}: low must be below high")


def parts(distribution: dist.Distribution) -> list[dist.Distribution]:
    """The distributions that this one is made of: its base, or the components of a mixture."""
    if isinstance(distribution, dist.MixtureGeneral):
        return list(distribution.component_distributions)
    if isinstance(distribution, dist.MixtureSameFamily):
        return [distribution.component_distribution]
    return [distribution.base_dist] if hasattr(distribution, "base_dist") else []


def lower_bound(distribution: dist.Distribution) -> float | None:
    """The lower end of the support; ``None`` where NumPyro does not know it."""
    support: Any = distribution.support
    while hasattr(support, "base_constraint"):
        support = support.base_constraint
    bound = getattr(support, "lower_bound", None)
    return None if bound is None else float(np.min(np.asarray(bound)))


#: Name of the scale of a Gaussian measure where it is a hyperparameter.
MEASURE_SCALE = "measure_scale"
Smoothed_co = TypeVar("Smoothed_co", covariant=True)


class Smoothable(Protocol, Generic[Smoothed_co]):
    """What has a smoothed kernel r of its own for each of the measures, on R^``dimension``."""

    def unit_smoothed(self, dimension: int) -> Smoothed_co:
        """The Lebesgue r over its value at zero."""

    def lebesgue_smoothed(self, dimension: int) -> Smoothed_co:
        """The integral over all of space."""

    def gaussian_smoothed(self, measure: Gaussian, dimension: int) -> Smoothed_co:
        """The integral against a Gaussian."""


class Measure(abc.ABC):
    """A measure on R^D. A subclass is a frozen dataclass registered as a pytree."""

    name: ClassVar[str]
    """What stands for it in a record."""

    translation_invariant: ClassVar[bool]
    """Whether r is a function of x - y where k is."""

    relative: ClassVar[bool]
    """Whether r is taken over its value at zero, so that a multiple of k has the same."""

    @property
    def prior(self) -> dist.Distribution | None:
        """The prior of its scale, where that is random."""
        return None

    @abc.abstractmethod
    def smooth(self, kernel: Smoothable[Smoothed_co], dimension: int) -> Smoothed_co:
        """The smoothed kernel r of ``kernel`` for this measure, on R^``dimension``."""

    def rescaled(self, scale: np.ndarray) -> Measure:
        """The measure for data divided by ``scale`` (D,); a prior of its scale stays as it is.

        Raises:
            ValueError: where the measure is for other columns.
        """
        return self

    def with_scale(self, scale: Any) -> Measure:
        """The measure with another scale.

        Raises:
            ValueError: where it has none.
        """
        raise ValueError(f"measure {self.name!r} has no scale")

    def record(self) -> str | dict[str, Any]:
        """Its name, or its parameters by theirs."""
        return self.name

    def __str__(self) -> str:
        return self.name


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Unit(Measure):
    """The Lebesgue measure over the value of its r at zero, the scale of BKE's figures."""

    name = "unit"
    translation_invariant = True
    relative = True

    def smooth(self, kernel: Smoothable[Smoothed_co], dimension: int) -> Smoothed_co:
        """The Lebesgue r over its value at zero."""
        return kernel.unit_smoothed(dimension)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Lebesgue(Measure):
    """nu(du) = du, in the units of the data as the model has them."""

    name = "lebesgue"
    translation_invariant = True
    relative = False

    def smooth(self, kernel: Smoothable[Smoothed_co], dimension: int) -> Smoothed_co:
        """The integral over all of space."""
        return kernel.lebesgue_smoothed(dimension)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Gaussian(Measure):
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

    name = "gaussian"
    translation_invariant = False
    relative = False

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

    @property
    def prior(self) -> dist.Distribution | None:
        """The prior of its scale, where that is random."""
        return self.scale if isinstance(self.scale, dist.Distribution) else None

    def smooth(self, kernel: Smoothable[Smoothed_co], dimension: int) -> Smoothed_co:
        """The integral against this Gaussian."""
        return kernel.gaussian_smoothed(self, dimension)

    def rescaled(self, scale: np.ndarray) -> Gaussian:
        """The measure for data divided by ``scale`` (D,); a prior of its scale stays as it is.

        Raises:
            ValueError: where its scale or centre are for other columns.
        """
        for name in ("scale", "centre"):
            value = getattr(self, name)
            shape = value.shape() if isinstance(value, dist.Distribution) else np.shape(value)
            if shape not in ((), (1,), scale.shape):
                raise ValueError(
                    f"Gaussian measure: {name} must be a number or one per column "
                    f"({len(scale)}), got shape {shape}"
                )
        own = self.scale if self.prior is not None else np.asarray(self.scale) / scale
        return Gaussian(own, np.asarray(self.centre) / scale)

    def with_scale(self, scale: Any) -> Gaussian:
        """The measure with another scale."""
        return dataclasses.replace(self, scale=scale)

    def record(self) -> dict[str, Any]:
        """Its parameters by their names."""
        return {"scale": self.scale, "centre": self.centre}


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
    check_parameters(prior, f"prior of {MEASURE_SCALE!r}")
    if len(prior.shape()) > 1:
        raise ValueError(
            f"prior of {MEASURE_SCALE!r} must be over a number or a vector, got "
            f"{type(prior).__name__} of shape {prior.shape()}"
        )
    bound = lower_bound(prior)
    if bound is None or bound < 0.0:
        raise ValueError(
            f"prior of {MEASURE_SCALE!r} must have positive support, got {type(prior).__name__}"
        )


#: Names that stand for measures.
MEASURES: dict[str, Measure] = {each.name: each for each in (Unit(), Lebesgue())}


def as_measure(measure: Measure | str) -> Measure:
    """The measure that a name stands for, or the measure given.

    Raises:
        ValueError: for anything else, naming the measures there are.
    """
    if isinstance(measure, Measure):
        return measure
    if isinstance(measure, str) and measure in MEASURES:
        return MEASURES[measure]
    raise ValueError(
        f"measure must be {', '.join(map(repr, MEASURES))} or Gaussian(scale, centre), "
        f"got {measure!r}"
    )


def fixed_measure(measure: Measure | str) -> Measure:
    """:func:`as_measure`, with nothing random in it.

    Raises:
        ValueError: also for a measure whose scale is a prior.
    """
    found = as_measure(measure)
    if found.prior is not None:
        raise ValueError(
            "a measure with a prior on its scale is for bke_model and fit: here its scale must be "
            "a number"
        )
    return found
