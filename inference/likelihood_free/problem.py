"""Inverse problems: the prior, the observed data, the settings of a run and its checkpoints."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from functools import cached_property
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from bke.models.measures import check_parameters
from jax.flatten_util import ravel_pytree
from numpy.typing import ArrayLike
from numpyro.distributions import biject_to
from numpyro.infer.util import potential_energy, transform_fn

from ..core.archive import Expected, read_arrays, write_arrays
from ..core.atomic import acquire_lock, check_output_folder, remove_temporary_files, write_text
from ..core.errors import InputError, input_errors
from ..data.checks import as_sample, check_count, check_file
from ..sampling.record import describe_prior
from ..sampling.run import digest_of
from .distances import MMD
from .simulators import DatasetDistance, Parameters, Simulate, fingerprint, start_simulator


class Prior:
    """Prior of independent numbers or vectors, and their unconstrained coordinates.

    Args:
        distributions: NumPyro distributions by the parameters' names; a batch of distributions is a
            vector of independent components.

    Attributes:
        sites: the distribution of every parameter, sorted by name.

    Raises:
        InputError: if ``distributions`` is not such a dict.
    """

    def __init__(self, distributions: Any) -> None:
        example = "such as {'rate': numpyro.distributions.LogNormal(0, 1)}"
        if not isinstance(distributions, Mapping) or not distributions:
            raise InputError(
                f"prior must be a dict of distributions, {example}, got {distributions!r}"
            )
        self.sites: dict[str, dist.Distribution] = {}
        for name in sorted(distributions, key=str):
            site = distributions[name]
            if not isinstance(name, str) or not name:
                raise InputError(f"the names of parameters must be texts, got {name!r}")
            if not isinstance(site, dist.Distribution):
                raise InputError(
                    f"the prior of {name} must be a distribution, {example}, got {site!r}"
                )
            event = site.to_event(len(site.batch_shape))
            if len(event.event_shape) > 1:
                raise InputError(
                    f"the prior of {name} has arrays of shape {event.event_shape}: a parameter "
                    "must be a number or a vector"
                )
            if not site.is_discrete:
                with input_errors():
                    check_parameters(site, f"the prior of {name}")
            self.sites[name] = event

    def check_continuous(self, method: str) -> None:
        """Raise ``InputError`` for a discrete parameter, which has no unconstrained coordinates."""
        for name, site in self.sites.items():
            if site.is_discrete:
                raise InputError(
                    f"{method} moves parameters by small steps, and the prior of {name} is "
                    "discrete: use k2_abc or abc, or a continuous parameter that simulate rounds"
                )

    def describe(self) -> dict[str, Any]:
        """Describe the prior by plain data."""
        return {name: _describe_distribution(site) for name, site in self.sites.items()}

    def draw(self, seed: np.random.SeedSequence, count: int) -> dict[str, np.ndarray]:
        """Draw values (count, ...) of every parameter.

        Raises:
            InputError: if a distribution cannot be sampled or its draws are not finite.
        """
        with jax.enable_x64(True):
            keys = jax.random.split(jax.random.key(int(seed.generate_state(1)[0])), len(self.sites))
            draws = {}
            for key, (name, site) in zip(keys, self.sites.items(), strict=True):
                try:
                    draws[name] = np.asarray(site.sample(key, (count,)), dtype=float)
                except NotImplementedError:
                    raise InputError(f"the prior of {name} cannot be drawn from") from None
                if not np.all(np.isfinite(draws[name])):
                    raise InputError(f"the prior of {name} gives values that are not finite")
        return draws

    def unconstrain(self, theta: Parameters, bound: float = 700.0) -> np.ndarray:
        """Map parameters (B, ...) to unconstrained coordinates (B, p).

        A draw that was rounded to the end of its range has an infinite coordinate. It becomes
        ``bound``, a value of which the exponential is still finite.
        """
        with jax.enable_x64(True):
            arrays = {name: jnp.asarray(theta[name]) for name in self.sites}
            z = np.asarray(jax.vmap(lambda t: ravel_pytree(self._transform(t, True))[0])(arrays))
        return np.where(np.isinf(z), np.copysign(bound, z), z)

    def constrain(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Map unconstrained coordinates (B, p) to parameters (B, ...)."""
        with jax.enable_x64(True):
            return {name: np.asarray(value) for name, value in self._constrain(z).items()}

    def jacobian(self, z: np.ndarray) -> np.ndarray:
        """Return the derivatives (q, p) of all components at unconstrained coordinates (p,)."""
        with jax.enable_x64(True):
            flat = jax.jacfwd(lambda z: ravel_pytree(self._constrain(z[None]))[0])
            return np.asarray(flat(jnp.asarray(z)))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Return the log-density (B,) at unconstrained coordinates (B, p), -inf where it is NaN."""
        with jax.enable_x64(True):
            value = np.asarray(self._log_density(z))
        return np.where(np.isnan(value), -np.inf, value)

    def _transform(self, values: Mapping[str, Any], invert: bool = False) -> dict[str, Any]:
        transforms = {name: biject_to(site.support) for name, site in self.sites.items()}
        return dict(transform_fn(transforms, values, invert=invert))

    @cached_property
    def _split(self) -> Any:
        """Function from unconstrained coordinates (p,) to those of every parameter."""
        shapes = {
            name: biject_to(site.support).inverse_shape(site.shape())
            for name, site in self.sites.items()
        }
        with jax.enable_x64(True):
            return ravel_pytree({name: jnp.zeros(shape) for name, shape in shapes.items()})[1]

    @cached_property
    def _constrain(self) -> Any:
        return jax.jit(jax.vmap(lambda z: self._transform(self._split(z))))

    @cached_property
    def _log_density(self) -> Any:
        def model() -> None:
            for name, site in self.sites.items():
                numpyro.sample(name, site)

        return jax.jit(jax.vmap(lambda z: -potential_energy(model, (), {}, self._split(z))))


def _describe_distribution(site: dist.Distribution) -> dict[str, Any]:
    """Describe a distribution; one without a record by its class names and numbers."""
    record = {} if site.is_discrete else describe_prior(site)
    if record and "unrecorded" not in str(record):
        return record
    numbers = [np.asarray(leaf).tolist() for leaf in jax.tree.leaves(site)]
    inner = site.base_dist if isinstance(site, dist.Independent) else site
    classes = [inner, getattr(inner, "base_dist", None), *getattr(inner, "transforms", ())]
    return {"distribution": " ".join(type(part).__name__ for part in classes), "numbers": numbers}


class CheckpointFolder:
    """Named arrays of one run in a folder, from which an interrupted run resumes.

    Args:
        folder: folder of the run; ``None`` stores nothing.
        settings: plain data that must be equal for the run to resume.

    Raises:
        InputError: if the folder cannot be written, belongs to a run with other settings, or is
            in use by another process.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, settings: Mapping[str, Any]) -> None:
        self._folder = None if folder is None else check_output_folder(folder)
        if self._folder is None:
            return
        self._lock = acquire_lock(self._folder / ".lock", f"the folder {self._folder}")
        remove_temporary_files(self._folder)
        settings = json.loads(json.dumps({**settings, "version of bke": version("bke")}))
        path = self._folder / "settings.json"
        if not path.exists():
            write_text(path, json.dumps(settings, indent=1) + "\n")
            return
        check_file(path)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            names = [k for k in {**settings, **stored} if settings.get(k) != stored.get(k)]
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{path} cannot be read as the settings of a run: {error}") from error
        if names:
            raise InputError(
                f"{self._folder} is the folder of another run, with a different "
                f"{' and '.join(names)}: name another folder, or delete it to start again"
            )

    def load(self, name: str, expected: Expected) -> dict[str, np.ndarray] | None:
        """Load arrays that were saved; ``None`` if there are none.

        Raises:
            InputError: if their file is damaged, or its arrays are others than expected.
        """
        if self._folder is None or not (path := self._folder / f"{name}.npz").exists():
            return None
        return read_arrays(path, "a part of a run", expected)[1]

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Write arrays to a file, completely or not at all."""
        if self._folder is not None:
            write_arrays(self._folder / f"{name}.npz", {}, arrays)


class InverseProblem:
    """Observed data, a simulator, a prior and a distance, checked.

    Args:
        method: name of the public function.
        observed: data, (m, D) or (m,).
        simulate: the user's simulator; checked when it is started.
        prior: see :class:`Prior`.
        distance: from ``observed``.
        rows: n of every simulated data set; ``None`` is m.
        workers: processes for a plain function; checked when they are started.
        seed: random seed.

    Attributes:
        data: the observed data, (m, D).
        rows: n of every simulated data set.

    Raises:
        InputError: if an argument is not valid.
    """

    def __init__(
        self,
        method: str,
        observed: ArrayLike,
        simulate: Any,
        prior: Any,
        distance: DatasetDistance,
        rows: int | None,
        workers: int | None,
        seed: int,
    ) -> None:
        self.method, self.distance = method, distance
        self.prior = prior if isinstance(prior, Prior) else Prior(prior)
        self.data = as_sample(observed, "observed", may_be_constant=True)
        if isinstance(distance, type) or not hasattr(distance, "squared"):
            raise InputError(
                "distance must be MMD(observed), Summaries(observed, function of a data set) or an "
                f"object with their methods, got {distance!r}"
            )
        if not np.array_equal(self.data, distance.observed):
            raise InputError("the distance was made for other observed data than these")
        self.rows = len(self.data) if rows is None else check_count(rows, "rows", 1)
        if isinstance(distance, MMD):
            distance.check_rows(self.rows)
        self._simulate, self._workers = simulate, workers
        self.seed = check_count(seed, "seed", 0)

    def start_simulator(self) -> contextlib.AbstractContextManager[Simulate]:
        """Start the simulator and its processes for the duration of the context."""
        return start_simulator(self._simulate, (self.rows, self.data.shape[1]), self._workers)

    def settings(self, **options: Any) -> dict[str, Any]:
        """Describe a run by plain data, including the ``options`` of its method."""
        return {
            "method": self.method,
            "prior": self.prior.describe(),
            "distance": self.distance.describe(),
            "simulator": fingerprint(self._simulate),
            "rows": self.rows,
            **options,
            "seed": self.seed,
        }

    def checkpoints(
        self, folder: str | os.PathLike[str] | None, settings: Mapping[str, Any]
    ) -> CheckpointFolder:
        """Open the folder of a run with these ``settings`` of this problem."""
        return CheckpointFolder(folder, {**settings, "observed data": digest_of(self.data)})
