"""The way to the posterior, and its seed."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeAlias

import typer

from ...posterior.samplers.options import Method, Nuts, Quadrature, Smc
from .panels import SAMPLER

SeedOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--seed",
        rich_help_panel=SAMPLER,
        help="Seed of every random number (the built-in data stay the same).",
    ),
]
ParticlesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--particles",
        rich_help_panel=SAMPLER,
        help="Draws in all (quadrature, SMC), at least the square of --chains.",
    ),
]
#: Hyperparameters that quadrature can integrate over.
MOST_OF_QUADRATURE = 2


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed alone."""

    seed: SeedOption = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplerOptions:
    """Which way to the posterior, and how far."""

    method: Annotated[
        Method | None,
        typer.Option(
            "--method",
            rich_help_panel=SAMPLER,
            show_default="auto; nuts for the built-in data",
            help="NUTS, several chains; or every mode by its posterior mass: quadrature of one or "
            "two hyperparameters, tempered SMC of any number. auto takes quadrature where it can, "
            "SMC beyond.",
        ),
    ] = None
    chains: Annotated[
        int,
        typer.Option(
            "--chains",
            rich_help_panel=SAMPLER,
            help="Number of chains, 1 to 1000; of repeats with SMC.",
        ),
    ] = Nuts.chains
    warmup: Annotated[
        int,
        typer.Option(
            "--warmup",
            rich_help_panel=SAMPLER,
            help="Warmup iterations of a chain, at least 20 (NUTS).",
        ),
    ] = Nuts.warmup
    draws: Annotated[
        int,
        typer.Option(
            "--draws",
            rich_help_panel=SAMPLER,
            help="Draws of a chain after warmup, at least 4 (NUTS).",
        ),
    ] = Nuts.draws
    particles: ParticlesOption = Smc.particles
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            rich_help_panel=SAMPLER,
            help="Largest error of the log normaliser (quadrature).",
        ),
    ] = Quadrature.tolerance
    seed: SeedOption = 0

    def sampler(self, hyperparameters: int) -> Nuts | Quadrature | Smc:
        """What was asked for, checked; auto goes by the number of hyperparameters.

        Raises:
            InputError: a number that makes no sense, of chains also where there are none.
        """
        nuts = Nuts(self.chains, self.warmup, self.draws)
        method = self.method or "auto"
        if method == "nuts":
            return nuts
        if method == "quadrature" or (method == "auto" and hyperparameters <= MOST_OF_QUADRATURE):
            return Quadrature(self.tolerance, self.particles, self.chains)
        return Smc(self.particles, self.chains)

    def notes(self, hyperparameters: int) -> list[str]:
        """Which way auto takes, and why."""
        if (self.method or "auto") != "auto":
            return []
        count = f"{hyperparameters} hyperparameter{'s' * (hyperparameters != 1)}"
        if hyperparameters <= MOST_OF_QUADRATURE:
            return [f"Method quadrature, chosen by auto for {count}: every mode by its mass."]
        return [
            f"Method smc, chosen by auto for {count}: every mode by its mass, where quadrature is "
            f"for {MOST_OF_QUADRATURE} at most."
        ]

    def for_built_in_data(self) -> SamplerOptions:
        """With NUTS unless another way is asked for: these data are to show what the paper does."""
        return self if self.method else dataclasses.replace(self, method="nuts")

    def arguments(self, hyperparameters: int) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit``."""
        sampler = self.sampler(hyperparameters)
        return {**_arguments(sampler, self), "seed": self.seed}


def _arguments(sampler: Nuts | Quadrature | Smc, options: SamplerOptions) -> dict[str, Any]:
    """How ``fit`` is told of a sampler."""
    method = type(sampler).__name__.lower()
    names = ("chains", "warmup", "draws", "particles", "tolerance")
    return {"method": method, **{name: getattr(options, name) for name in names}}
