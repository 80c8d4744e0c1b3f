"""The No-U-Turn sampler: chains from prior draws spread over the prior, which may not mix."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.progress import chain_progress
from ...data.checks import check_chain_count, check_count
from .base import Found, Program, Sampler, Task

if TYPE_CHECKING:
    from ..target import Target


@dataclasses.dataclass(frozen=True)
class Nuts(Sampler):
    """Several chains of the No-U-Turn sampler, which start spread over the prior.

    The posterior often has several modes that chains cannot cross: read
    :func:`~bke.inference.diagnose` before any summary.

    Attributes:
        chains: how many, 1 to 1000.
        warmup: iterations of each chain before its draws, at least 20.
        draws: of each chain after warmup, at least 4.
    """

    name: ClassVar[str] = "nuts"
    words: ClassVar[str] = "chains of NUTS"

    chains: int = 8
    warmup: int = 200
    draws: int = 200

    def __post_init__(self) -> None:
        check_chain_count(self.chains)
        check_count(self.warmup, "warmup", 20)
        check_count(self.draws, "draws", 4)

    def settings(self) -> dict[str, Any]:
        """Chains, warmup and draws as they are."""
        return dataclasses.asdict(self)

    def program(self, target: Target) -> Program:
        """NUTS for one length of warmup."""
        from ..algorithms.no_u_turn import nuts_program

        return nuts_program(target, self.warmup)

    def sample(self, task: Task) -> Found:
        """Chains, with the profile or the paths that tell modes apart.

        Raises:
            SamplingError: where prior draws with a finite density cannot be found.
        """
        import jax

        from ..algorithms.no_u_turn import dispersed_start
        from ..draw_graph import density_groups

        initial = dispersed_start(task.prior_draws, self.chains, task.seed, task.density)
        iterations = self.warmup + self.draws
        with chain_progress(self.chains, iterations, shown=task.progress) as bars:
            chains = task.program.run(
                task.points,
                initial=initial,
                draws=self.draws,
                key=jax.random.key(task.seed),
                progress=bars,
            )
        return chains, density_groups(task, *chains.after_warmup())
