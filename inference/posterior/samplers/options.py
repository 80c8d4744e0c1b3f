"""What each way to a posterior can be told, with its own checks; nothing slow is imported."""

from __future__ import annotations

import dataclasses
from typing import Literal, TypeAlias

from ...data.checks import check_chains, check_count, check_positive

#: The ways by name; auto is quadrature for one or two hyperparameters, SMC beyond.
Method: TypeAlias = Literal["auto", "nuts", "quadrature", "smc"]


@dataclasses.dataclass(frozen=True)
class Nuts:
    """Chains of the no-U-turn sampler.

    Args:
        chains: how many, 1 to 1000.
        warmup: iterations of each before its draws, at least 20.
        draws: of each, at least 4.
    """

    chains: int = 8
    warmup: int = 200
    draws: int = 200

    def __post_init__(self) -> None:
        check_chains(self.chains)
        check_count(self.warmup, "warmup", 20)
        check_count(self.draws, "draws", 4)


@dataclasses.dataclass(frozen=True)
class Quadrature:
    """Adaptive quadrature of one or two hyperparameters.

    Args:
        tolerance: for the absolute error of the log normaliser.
        draws: in all, dealt out to the chains; at least as many for each as there are chains.
        chains: 1 to 1000.
    """

    tolerance: float = 1e-3
    draws: int = 4000
    chains: int = 8

    def __post_init__(self) -> None:
        check_chains(self.chains)
        # ArviZ takes fewer draws than chains for a mistake.
        check_count(self.draws, "particles", max(4, self.chains) * self.chains)
        check_positive(self.tolerance, "tolerance")


@dataclasses.dataclass(frozen=True)
class Smc:
    """Tempered sequential Monte Carlo of any number of hyperparameters.

    Args:
        particles: in all, dealt out to the repeats.
        repeats: independent ones, which give the standard errors, 1 to 1000.
    """

    particles: int = 4000
    repeats: int = 8

    def __post_init__(self) -> None:
        check_chains(self.repeats)
        check_count(self.particles, "particles", max(4, self.repeats) * self.repeats)
