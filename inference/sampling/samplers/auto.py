"""The choice that ``method="auto"`` makes, and the sentence that a run keeps of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from .base import Sampler
from .quadrature import MOST_EVALUATIONS, Quadrature
from .smc import Smc

if TYPE_CHECKING:
    from ..target import Target


@dataclasses.dataclass(frozen=True)
class Auto:
    """Quadrature for one or two hyperparameters, SMC beyond.

    Both give every mode its mass. Chains of NUTS seldom cross from one to another: on 24 pairs of
    real samples they mixed in 2.

    Attributes:
        quadrature: with the options it has where it is chosen.
        smc: likewise.
    """

    quadrature: Quadrature = dataclasses.field(default_factory=Quadrature)
    smc: Smc = dataclasses.field(default_factory=Smc)

    def chosen_for(self, target: Target) -> tuple[Sampler, str]:
        """One of the two, and a sentence that says which and why."""
        count = target.hyperparameters
        sampler: Sampler = self.quadrature if count in MOST_EVALUATIONS else self.smc
        plural = "s" * (count > 1)
        return sampler, f"{sampler.name}, chosen automatically: {count} hyperparameter{plural}"
