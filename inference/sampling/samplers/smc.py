"""Tempered sequential Monte Carlo: every mode by its mass, for any number of hyperparameters."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.progress import temperature_bars
from ...data.checks import check_count
from ...data.weighted import systematic
from ..chains import independent_draws
from .base import Found, Sampler, Task

if TYPE_CHECKING:
    import xarray as xr

    from ..algorithms.tempering import Population


@dataclasses.dataclass(frozen=True)
class Smc(Sampler):
    """Particles that go from the prior to the posterior, in independent repeats.

    The repeats, resampled by their normalisers, are the chains of the run; they give the standard
    errors of masses and of the log normaliser.

    Attributes:
        particles: in all, dealt out evenly, at least 4 and at least ``repeats`` for each repeat.
        repeats: how many, 1 to 1000.
    """

    name: ClassVar[str] = "smc"
    independent: ClassVar[bool] = True
    words: ClassVar[str] = "draws of tempered SMC"

    particles: int = 4000
    repeats: int = 8

    def __post_init__(self) -> None:
        check_count(self.repeats, "repeats", 1, 1000)
        # ArviZ takes fewer draws than chains for a mistake.
        check_count(self.particles, "particles", max(4, self.repeats) * self.repeats)

    def settings(self) -> dict[str, Any]:
        """Repeats count as chains, and particles of each as its draws."""
        draws = self.particles // self.repeats
        counts = {"chains": self.repeats, "warmup": 0, "draws": draws}
        return {**counts, "particles": self.particles}

    def sample(self, task: Task) -> Found:
        """Draws with the group ``smc``, and with the profile or the paths that tell modes apart.

        Raises:
            SamplingError: where all prior draws have density zero.
        """
        import jax

        from ..algorithms.tempering import tempered_smc
        from ..draw_graph import density_groups
        from ..target import flatten, unflatten

        target, repeats, each = task.target, self.repeats, self.particles // self.repeats
        count = repeats * each
        rng = task.rng()
        start = flatten(target.prior_draws(rng, count)).reshape(repeats, each, -1)
        with temperature_bars(repeats, shown=task.progress) as advance:
            key = jax.random.key(task.seed)
            found = tempered_smc(target).run(task.points, start, key, advance)
        flat = found.z.reshape(count, -1)
        log_prior = jax.vmap(target.log_prior)(unflatten(flat, target.shapes))
        lp = found.log_likelihood + np.asarray(log_prior).reshape(repeats, each)
        population = population_of(found, lp)
        # Systematic resampling between repeats: each counts by its own estimate of the normaliser.
        share = np.repeat(population["share"].values / each, each)
        chosen = systematic(share, count, rng).reshape(repeats, each)
        chains = independent_draws(unflatten(flat[chosen], target.shapes), lp.ravel()[chosen])
        return chains, {"smc": population, **density_groups(task, *chains.after_warmup())}


def population_of(found: Population, lp: np.ndarray) -> xr.Dataset:
    """The repeats as they ended; the log normaliser over all with its standard error."""
    import xarray as xr
    from scipy.special import logsumexp

    logs = found.log_normalizer
    log = float(logsumexp(logs) - np.log(len(logs)))
    ratio = np.exp(logs - log)
    error = np.std(ratio, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
    return xr.Dataset(
        {
            "unconstrained": (("repeat", "particle", "parameter"), found.z),
            "log_density": (("repeat", "particle"), lp),
            "log_normalizer": ("repeat", logs),
            "share": ("repeat", ratio / ratio.sum()),
            "temperatures": ("repeat", found.temperatures),
        },
        attrs={"log_normalizer": log, "log_normalizer_error": float(error)},
    )
