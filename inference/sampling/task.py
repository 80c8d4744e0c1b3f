"""A posterior to sample, and the chains that a sampler makes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:  # options are made before anything waits for JAX
    from .profile import LogDensity
    from .target import Points, Target

#: Prior draws tried per chain for a start with a finite density (not tuned).
CANDIDATES = 32
#: Prior draws that bound where a posterior can be, at least (not tuned).
PRIOR_DRAWS = 2000


class Chains(NamedTuple):
    """All iterations of a sampler, leading axes (chain, iteration), warmup first.

    Attributes:
        z: unconstrained draws by site.
        stats: numbers of every draw by ArviZ's names. ``lp``, the log density, must be among them.
        initial: where chains began, by site, (chain, ...); empty for independent draws.
        num_warmup: iterations before the draws that count.
    """

    z: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    initial: dict[str, np.ndarray]
    num_warmup: int

    def after_warmup(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the draws (chain, draw, ...) by site, and their log density (chain, draw)."""
        z = {name: np.asarray(values)[:, self.num_warmup :] for name, values in self.z.items()}
        return z, np.asarray(self.stats["lp"])[:, self.num_warmup :]


class Program(Protocol):
    """Program of a sampler, compiled once per shape of the data."""

    def compile(self, X: Points) -> None:
        """Compile for such data."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A target with data in the model's units.

    Attributes:
        target: the target.
        points: (n, D) or a tuple of such, model units, as the likelihood needs them; ``None`` for
            rows of a file.
        prior_draws: unconstrained, by site.
        density: log density of a batch of unconstrained points.
        seed: seed of every random number.
        progress: show progress bars.
        program: what :meth:`Sampler.program` made, compiled for ``points``.
    """

    target: Target
    points: Points
    prior_draws: Mapping[str, np.ndarray]
    density: LogDensity
    seed: int
    progress: bool
    program: Any = None

    def rng(self) -> np.random.Generator:
        """Return random numbers that are neither those of the dither nor of the prior draws."""
        return np.random.default_rng(self.seed).spawn(2)[1]
