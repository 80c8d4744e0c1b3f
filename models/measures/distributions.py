"""What a prior must be: continuous, with parameters in their domains, and where it is positive."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpyro.distributions as dist

from ..linalg.precision import concrete
from . import lazy_numpyro  # noqa: F401  whatever needs NumPyro imports this module


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
