"""``bke score``: several kernel families on one data set."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ..command import command
from ..options.data import ColumnOptions, SamplesArgument
from ..options.kernel import KERNELS, build_kernel, parse_kernels
from ..options.model import PriorOptions, UnitOptions
from ..options.panels import MODEL, SAMPLER
from ..options.sampler import ParticlesOption, SeedOption
from ..terminal import Terminal


@dataclasses.dataclass(frozen=True, kw_only=True)
class FamilyOptions:
    """The kernels that are compared."""

    kernels: Annotated[
        str,
        typer.Option(
            "--kernels",
            metavar="A,B,...",
            rich_help_panel=MODEL,
            help=f"Kernels to compare, of {', '.join(KERNELS)}, or MODULE:CLASS of your own.",
        ),
    ] = "se,matern32,laplace"

    def __post_init__(self) -> None:
        parse_kernels(self.kernels, "--kernels")

    @property
    def names(self) -> list[str]:
        """One by one."""
        return parse_kernels(self.kernels, "--kernels")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """How the scores are found."""

    folds: Annotated[
        int,
        typer.Option("--folds", rich_help_panel=SAMPLER, help="Folds of the held-out error."),
    ] = 5
    particles: ParticlesOption = 4000
    seed: SeedOption = 0


@command("Example: `bke score calm.csv --columns Ozone --kernels se,matern32,laplace`")
def score(
    terminal: Terminal,
    files: SamplesArgument,
    *,
    columns: ColumnOptions,
    families: FamilyOptions,
    prior: PriorOptions,
    units: UnitOptions,
    options: ScoreOptions,
) -> None:
    """Several kernel families on one data set: a score with its caveat, and a held-out error."""
    names = columns.names
    from .. import inputs

    prior.check()
    (sample,), headings, remarks = inputs.read_samples(files, names, "pooled")
    terminal.notes(remarks)
    shared = {**prior.arguments(len(headings)), **units.arguments()}
    with terminal.step("score", "score", spinner=False):
        from bke.inference import compare_kernels

        comparison = compare_kernels(
            sample,
            {name: build_kernel(name) for name in families.names},
            priors=dict.fromkeys(families.names, shared["prior"]),
            folds=options.folds,
            particles=options.particles,
            seed=options.seed,
            progress=terminal.progress,
            **{name: value for name, value in shared.items() if name != "prior"},
        )
    terminal.say(str(comparison))
    from ...report.learned import model_summary

    model = {**shared, "samples": "pooled", "likelihood": "auto"}  # as compare_kernels has them
    told = {
        "command": "score",
        "settings": {**model_summary(model, options.seed), "folds": options.folds},
        **comparison.to_dict(),
        "columns": list(headings),
        "notes": remarks,
    }
    terminal.finish({**told, "timings": terminal.all_timings()})
