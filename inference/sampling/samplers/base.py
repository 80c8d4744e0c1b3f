"""What a sampler is: its options, and the way from a task to draws and what tells their modes."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np

from ..chains import CANDIDATES, Chains

if TYPE_CHECKING:  # options are made before anything waits for JAX
    import xarray as xr

    from ..profile import LogDensity
    from ..target import Points, Target

#: Prior draws that say where a posterior can be, at least.
PRIOR_DRAWS = 2000

#: Draws, and groups of the run by name: ``profile`` or ``paths``, which tell modes apart, and what
#: belongs to the one sampler.
Found: TypeAlias = "tuple[Chains, dict[str, xr.Dataset]]"


class Program(Protocol):
    """What a sampler compiles, once per shape of the data."""

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
        seed: of every random number.
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
        """Random numbers that are neither those of the dither nor those of the prior draws."""
        return np.random.default_rng(self.seed).spawn(2)[1]


@dataclasses.dataclass(frozen=True)
class Sampler(abc.ABC):
    """A way to a posterior. Fields are its options, checked when it is made.

    A new one is a subclass in a file of its own, and its class and its name in ``registry``. All
    others learn about it from its run: from what :meth:`record` says, and from the form of the
    groups it leaves.

    :meth:`sample` gives :class:`~bke.inference.sampling.chains.Chains` and groups. Chains may
    start from ``task.prior_draws``; ``task.density`` takes a dict of arrays (batch, ...) by site,
    which ``unflatten`` of ``posterior.target`` makes of points (batch, p).

    The groups are ``profile`` or ``paths``, as
    :func:`~bke.inference.sampling.draw_graph.density_groups` makes them, and, of a sampler that
    knows the normaliser of the density, one more of any name. This has the attributes
    ``log_normalizer`` and ``log_normalizer_error`` (NaN where that is not known), and ``tolerance``
    if the error is to be at most that. From its variables follow the masses of the modes:

    - ``unconstrained`` (node, parameter) and ``weight`` (node,), with sum one: nodes that hold the
      whole posterior, as quadrature leaves them;
    - ``unconstrained`` (repeat, particle, parameter) and ``share`` (repeat,), with sum one:
      independent repeats of particles of equal weight, as SMC leaves them.
    """

    #: How ``fit`` and the command line call it, and what a run records as its ``method``.
    name: ClassVar[str]
    #: Whether its draws are from the posterior itself, all modes in proportion and in no order.
    #: Then the verdict is on the normaliser, of which it leaves a group; else on chains.
    independent: ClassVar[bool] = False
    #: What its draws are, in a sentence: "draws by" its name where nothing is said.
    words: ClassVar[str] = ""

    @abc.abstractmethod
    def settings(self) -> dict[str, Any]:
        """Plain numbers and words for the run's attributes.

        ``chains``, ``warmup`` and ``draws`` (of each chain) must be among them; ``particles``
        (draws in all) and ``tolerance`` are printed as well.
        """

    @abc.abstractmethod
    def sample(self, task: Task) -> Found:
        """Draw from the posterior; raises ``SamplingError`` where that cannot be."""

    def check(self, target: Target) -> None:  # noqa: B027
        """Raise :class:`InputError` where it is not for such a target."""

    def program(self, target: Target) -> Program | None:
        """What can be compiled while data are prepared, if anything; comes back with the task."""
        return None

    def record(self) -> dict[str, Any]:
        """All that the run records of it, but for its name: what others need to know."""
        words = self.words or f"draws by {self.name}"
        about = {"independent": int(self.independent), "method_in_words": words}
        return {**about, **self.settings()}

    def prior_draws(self) -> int:
        """How many draws from the prior a task has."""
        return max(PRIOR_DRAWS, CANDIDATES * int(self.settings()["chains"]))
