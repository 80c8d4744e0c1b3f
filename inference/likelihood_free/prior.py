"""Priors of a simulator's parameters, and coordinates in which these are free."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models.measures import check_parameters
from numpyro.distributions import biject_to

from ..core.errors import InputError
from ..sampling.record import describe_prior
from .simulators import Parameters

#: Stands for infinity: coordinates from which the same parameters come back.
FARTHEST = 700.0
EXAMPLE = "such as {'rate': numpyro.distributions.LogNormal(0, 1)}"


@dataclasses.dataclass(frozen=True)
class Prior:
    """Independent parameters, each a number or a vector.

    Attributes:
        sites: the distribution of each by its name, in the order of the names.
    """

    sites: dict[str, dist.Distribution]

    @classmethod
    def checked(cls, prior: Any) -> Prior:
        """Check user input; a batch of distributions is a vector of independent components.

        Raises:
            InputError: naming what makes no sense.
        """
        if not isinstance(prior, Mapping) or not prior:
            raise InputError(f"prior must be a dict of distributions, {EXAMPLE}, got {prior!r}")
        sites = {}
        for name in sorted(prior, key=str):
            one = prior[name]
            if not isinstance(name, str) or not name:
                raise InputError(f"the names of parameters must be texts, got {name!r}")
            if not isinstance(one, dist.Distribution):
                raise InputError(
                    f"the prior of {name} must be a distribution of NumPyro, {EXAMPLE}, got {one!r}"
                )
            event = one.to_event(len(one.batch_shape))
            if len(event.event_shape) > 1:
                raise InputError(
                    f"the prior of {name} is of arrays of shape {event.event_shape}: a parameter "
                    "is a number or a vector"
                )
            if not one.is_discrete:
                try:
                    check_parameters(one, f"the prior of {name}")
                except ValueError as error:
                    raise InputError(str(error)) from None
            sites[name] = event
        return cls(sites)

    def check_continuous(self, method: str) -> None:
        """Refuse what has no coordinates to move in."""
        for name, site in self.sites.items():
            if site.is_discrete:
                raise InputError(
                    f"{method} moves parameters by small steps, and the prior of {name} is "
                    "discrete: take k2_abc or abc, or a continuous parameter that simulate rounds"
                )

    def describe(self) -> dict[str, Any]:
        """Describe the prior by plain data."""
        return {name: _described(site) for name, site in self.sites.items()}

    def draw(self, seed: np.random.SeedSequence, count: int) -> dict[str, np.ndarray]:
        """Draw values (count, ...) of every parameter.

        Raises:
            InputError: a prior cannot be drawn from, or gives what is not finite.
        """
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(int(seed.generate_state(1)[0])), len(self.sites))
            drawn = {}
            for key, (name, site) in zip(keys, self.sites.items(), strict=True):
                try:
                    drawn[name] = np.asarray(site.sample(key, (count,)), dtype=float)
                except NotImplementedError:
                    raise InputError(f"the prior of {name} cannot be drawn from") from None
                if not np.all(np.isfinite(drawn[name])):
                    raise InputError(f"the prior of {name} gives values that are not finite")
        return drawn

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter in the free coordinates."""
        return {
            name: biject_to(site.support).inverse_shape(site.shape())
            for name, site in self.sites.items()
        }

    @property
    def dimension(self) -> int:
        """The number p of free coordinates."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())

    def unconstrain(self, theta: Parameters) -> np.ndarray:
        """Map parameters (B, ...) to free coordinates (B, p)."""
        parts = []
        with jax.enable_x64(True):
            for name, site in self.sites.items():
                part = np.asarray(biject_to(site.support).inv(jnp.asarray(theta[name])))
                parts.append(part.reshape(len(part), -1))
        z = np.concatenate(parts, axis=1)
        # A draw that was rounded to the end of its range would be infinitely far.
        return np.where(np.isinf(z), np.copysign(FARTHEST, z), z)

    def constrain(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Map free coordinates (B, p) to parameters (B, ...)."""
        with jax.enable_x64(True):
            return {name: np.asarray(value) for name, value in self._constrain(z).items()}

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Evaluate the log density (B,) at free coordinates (B, p); -inf where it is no number."""
        with jax.enable_x64(True):
            value = np.asarray(self._log_density(z))
        return np.where(np.isnan(value), -np.inf, value)

    @cached_property
    def _constrain(self) -> Any:
        def constrain(z: jax.Array) -> dict[str, jax.Array]:
            return {
                name: biject_to(self.sites[name].support)(part)
                for name, part in self._split(z).items()
            }

        return jax.jit(constrain)

    @cached_property
    def _log_density(self) -> Any:
        def log_density(z: jax.Array) -> jax.Array:
            total = jnp.zeros(len(z))
            for name, part in self._split(z).items():
                site = self.sites[name]
                transform = biject_to(site.support)
                value = transform(part)
                total += site.log_prob(value) + transform.log_abs_det_jacobian(part, value)
            return total

        return jax.jit(log_density)

    def _split(self, z: jax.Array) -> dict[str, jax.Array]:
        parts, start = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            parts[name] = z[:, start : start + size].reshape(len(z), *shape)
            start += size
        return parts


def _described(site: dist.Distribution) -> dict[str, Any]:
    """Describe a distribution; one that records do not know, by its parts and numbers."""
    record = {} if site.is_discrete else describe_prior(site)
    if record and "unrecorded" not in str(record):
        return record
    numbers = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(site)]
    inner = site.base_dist if isinstance(site, dist.Independent) else site
    parts = [type(inner).__name__, type(getattr(inner, "base_dist", None)).__name__]
    transforms = [type(one).__name__ for one in getattr(inner, "transforms", ())]
    return {"distribution": " ".join([*parts, *transforms]), "numbers": numbers}
