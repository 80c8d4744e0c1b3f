"""Priors of a simulator's parameters, and coordinates in which these are free."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models.measures.distributions import check_parameters
from numpy.typing import ArrayLike
from numpyro.distributions import biject_to

from ..core.archive import read_arrays, write_arrays
from ..core.atomic import check_output_folder, write_text
from ..core.errors import InputError
from ..core.lock import hold
from ..data.checks import as_sample, check_count
from ..sampling.record import describe_prior
from .distances import MMD, Distance
from .simulators import Parameters, Simulate, code_of, simulating

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


SETTINGS, LOCK = "settings.json", ".lock"


class Store:
    """Named parts of one run, each written whole or not at all; nowhere without a folder."""

    def __init__(self, folder: str | os.PathLike[str] | None, settings: Mapping[str, Any]) -> None:
        """Open the folder of a run with ``settings``, plain data.

        Raises:
            InputError: the folder cannot be written, is that of a run with other settings, or
                another process writes to it.
        """
        self._folder = None if folder is None else check_output_folder(folder)
        if self._folder is None:
            return
        self._lock = hold(self._folder / LOCK, f"the folder {self._folder}")
        own = json.loads(json.dumps({**settings, "version of bke": version("bke")}))
        path = self._folder / SETTINGS
        if not path.exists():
            write_text(path, json.dumps(own, indent=1) + "\n")
            return
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            names = [name for name in {**own, **found} if own.get(name) != found.get(name)]
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path} cannot be read as the settings of a run: {error}") from error
        if names:
            raise InputError(
                f"{self._folder} is the folder of another run, with a different "
                f"{' and '.join(names)}: name another folder, or delete it to begin anew"
            )

    def load(self, name: str) -> dict[str, np.ndarray] | None:
        """Load a part that was saved; ``None`` where there is none.

        Raises:
            InputError: it is there and broken.
        """
        path = self._path(name)
        if path is None or not path.exists():
            return None
        return read_arrays(path, "a part of a run")[1]

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write a part, whole or not at all."""
        path = self._path(name)
        if path is not None:
            write_arrays(path, {}, arrays)

    def _path(self, name: str) -> Path | None:
        return None if self._folder is None else self._folder / f"{name}.npz"


@dataclasses.dataclass(frozen=True)
class InverseProblem:
    """Observed data, a simulator, a prior and a distance, checked.

    Attributes:
        method: name of the public function.
        data: observed, (m, D).
        shape: of every simulated data set, (n, D).
        simulate: as the user gave it.
        prior: of the parameters.
        distance: from the observed data.
        workers: processes for a plain function; ``None`` for this one alone.
        seed: of every random number.
    """

    method: str
    data: np.ndarray
    shape: tuple[int, int]
    simulate: Any
    prior: Prior
    distance: Distance
    workers: int | None
    seed: int

    @classmethod
    def checked(
        cls,
        method: str,
        observed: ArrayLike,
        simulate: Any,
        prior: Any,
        distance: Distance,
        *,
        rows: int | None,
        workers: int | None,
        seed: int,
    ) -> InverseProblem:
        """Check what a user gave; simulators and workers are checked when they are started.

        Raises:
            InputError: for arguments that make no sense, in one sentence.
        """
        believed = Prior.checked(prior)
        data, shape = check_data(observed, distance, rows)
        return cls(method, data, shape, simulate, believed, distance, workers, check_seed(seed))

    def simulating(self) -> contextlib.AbstractContextManager[Simulate]:
        """Start the simulator and its processes, for as long as the context lasts."""
        return simulating(self.simulate, self.shape, self.workers)

    def settings(self, **more: Any) -> dict[str, Any]:
        """Describe a run by plain data, with what ``more`` its way has."""
        return {
            "method": self.method,
            "prior": self.prior.describe(),
            "distance": self.distance.describe(),
            "simulator": code_of(self.simulate),
            "rows": self.shape[0],
            **more,
            "seed": self.seed,
        }


def check_seed(seed: Any) -> int:
    """Check that a seed is a whole number of at least 0, or raise ``InputError``."""
    return check_count(seed, "seed", 0)


def check_data(
    observed: ArrayLike, distance: Distance, rows: int | None
) -> tuple[np.ndarray, tuple[int, int]]:
    """Check the observed data, (m, D); with them comes the shape (n, D) of simulated data sets.

    Raises:
        InputError: for data that are no sample or not the distance's, or rows that it is not for.
    """
    data = as_sample(observed, "observed", may_be_constant=True)
    if isinstance(distance, type) or not hasattr(distance, "squared"):
        raise InputError(f"distance must be MMD(...) or Summaries(...), got {distance!r}")
    if not np.array_equal(data, distance.observed):
        raise InputError("the distance was made for other observed data than these")
    count = len(data) if rows is None else check_count(rows, "rows", 1)
    if isinstance(distance, MMD):
        distance.check_rows(count)
    return data, (count, data.shape[1])
