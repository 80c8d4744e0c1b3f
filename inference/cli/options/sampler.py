"""The way to the posterior, and its seed."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeAlias

import typer

from ...posterior.samplers.auto import Auto
from ...posterior.samplers.base import Sampler
from ...posterior.samplers.nuts import Nuts
from ...posterior.samplers.quadrature import Quadrature
from ...posterior.samplers.registry import SAMPLERS, MethodName
from ...posterior.samplers.smc import Smc
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed alone."""

    seed: SeedOption = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplerOptions:
    """Which way to the posterior, and how far."""

    method: Annotated[
        MethodName | None,
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

    def sampler(self) -> Sampler | Auto:
        """What was asked for.

        Raises:
            InputError: a number that makes no sense, of chains also where there are none.
        """
        nuts = Nuts(self.chains, self.warmup, self.draws)
        if self.method == "nuts":
            return nuts
        smc = Smc(self.particles, self.chains)
        quadrature = Quadrature(self.tolerance, self.particles, self.chains)
        auto = Auto(quadrature, smc)
        ways: dict[str, Sampler | Auto] = {"smc": smc, "quadrature": quadrature, "auto": auto}
        name = self.method or "auto"
        return ways[name] if name in ways else self._other(SAMPLERS[name])

    def _other(self, kind: type[Sampler]) -> Sampler:
        """Of a kind whose fields, where they are options here, go by the same names."""
        given = {field.name for field in dataclasses.fields(self)}
        names = [field.name for field in dataclasses.fields(kind) if field.name in given]
        return kind(**{name: getattr(self, name) for name in names})

    def for_built_in_data(self) -> tuple[SamplerOptions, list[str]]:
        """NUTS unless another way is asked for, and a note: what the paper shows is to be seen."""
        if self.method:
            return self, []
        note = "Sampled by NUTS as in the paper; of files of your own the default is --method auto."
        return dataclasses.replace(self, method="nuts"), [note]

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit``."""
        return {"method": self.sampler(), "seed": self.seed}
