"""``bke compare``: two sketches in place of two samples."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from ..command import command
from ..options.data import ModuleOption, NameOptions
from ..options.model import GammaOptions, MeasureOption
from ..options.output import optional_folder
from ..options.panels import MODEL
from ..options.sampler import SeedOption
from ..options.testing import AlphaOption
from ..options.witness import BandOptions, PlaceOptions
from ..terminal import Terminal

PICTURE, WITNESS, SUMMARY = "witness.png", "witness.nc", "compare.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """The landmark model, the witness and the test."""

    gamma: GammaOptions
    noise_variance: Annotated[
        float,
        typer.Option(
            "--noise-variance",
            rich_help_panel=MODEL,
            help="Noise variance tau^2 of one k(x, z), on which the lengthscale depends.",
        ),
    ] = 0.1
    measure: MeasureOption = "unit"
    band: BandOptions
    places: PlaceOptions
    alpha: AlphaOption = 0.05
    names: NameOptions
    seed: SeedOption = 0


@command("Example: `bke compare calm.nc windy.nc --out compared`")
def compare(
    terminal: Terminal,
    path_p: Annotated[
        Path, typer.Argument(metavar="P", help="Sketch of the first sample.", show_default=False)
    ],
    path_q: Annotated[
        Path, typer.Argument(metavar="Q", help="Of the second, made like it.", show_default=False)
    ],
    *,
    options: CompareOptions,
    module: ModuleOption = None,
    out: Annotated[Path | None, optional_folder(f"{PICTURE}, {WITNESS} and {SUMMARY}")] = None,
) -> None:
    """Two sketches (rows are for `bke test`): posterior of the lengthscale, test and witness."""
    from .. import inputs, outputs, steps

    options.gamma.check()
    inputs.check_level(options.band.level)
    read = (path_p, path_q, options.places.at)
    with outputs.output_folder(
        out, [PICTURE, WITNESS, SUMMARY], command="compare", read=read
    ) as folder:
        with terminal.step("compare", "comparing"):
            from bke.inference import compare_sketches, load_sketch

            first, second = (load_sketch(one, modules=module or ()) for one in (path_p, path_q))
            found = compare_sketches(
                first,
                second,
                noise_variance=options.noise_variance,
                prior=options.gamma.build(),
                measure=options.measure,
                at=inputs.read_points(options.places.at, None, first.plan.columns),
                noise=options.band.noise_argument,
                alpha=options.alpha,
                names=options.names.of(path_p, path_q),
                seed=options.seed,
            )
        terminal.say(str(found))
        files, missing = steps.draw_pictures(
            folder, lambda: [("witness", lambda: found.plot(options.band.level))], terminal
        )
        if folder is not None:
            from ...core.netcdf import write_tree

            write_tree(found.witness, folder / WITNESS)
            files["witness"] = folder / WITNESS
        from ...report.sketches import comparison_summary

        told = {
            "command": "compare",
            "sources": {"P": str(path_p), "Q": str(path_q)},
            "columns": list(first.plan.columns),
            **comparison_summary(found),
        }
        notes = [*found.notes, *missing]
        steps.finish(told, files, steps.summary_in(folder, SUMMARY), notes, terminal)
