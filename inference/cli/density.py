"""Kernel Student-t densities, ``bke density``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from . import options as opt, words
from .app import FILE_KINDS, app
from .operators import (
    LEARNED,
    PICTURE,
    SUMMARY,
    ChoiceOption,
    KernelChoice,
    ScaleOption,
    out_option,
    write_table,
)
from .terminal import Terminal, exit_codes

TABLE, DRAWS, RUN = "density.csv", "draws.csv", "run.nc"


@app.command(epilog="Example: `bke density usual.csv --at new.csv --out result`")
def density(
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"One row each: {FILE_KINDS}.", show_default=False),
    ],
    columns: opt.ColumnsOption = None,
    at: Annotated[
        Path | None,
        typer.Option(
            "--at",
            metavar="FILE",
            rich_help_panel=opt.DATA,
            help="Rows to give a density and a typicality to. Default: the rows of FILE.",
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            "--draws", min=0, rich_help_panel=opt.SAMPLER, help="New rows to draw, by NUTS."
        ),
    ] = 0,
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior",
            rich_help_panel=LEARNED,
            help="The posterior of the hyperparameters by NUTS instead of the best of a grid (one "
            "or two columns; minutes from some hundred rows on).",
        ),
    ] = False,
    kernel: ChoiceOption = KernelChoice.median,
    scale: ScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None,
        out_option(
            "density.csv, a picture (of one or two columns), summary.json, draws.csv (--draws) and "
            "run.nc (--posterior)"
        ),
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """How likely are rows, and which are unlike the others? The kernel Student-t density.

    Typicality is the share of rows of FILE that are less likely given the others than a row of --at
    is: near 0 for what is unlike all of them, at least 1/(n + 1). Without --at it is that of the
    rows of FILE, each given the others; their log density is given all of them. In one or two
    columns the density is normalised on a box of twice the range of the rows and 0 outside, in more
    it is known up to a constant. Thousands of rows in three columns or more take minutes.
    """
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        table = inputs.checked(read_sample(path, columns=names))
        places = table if at is None else read_sample(at, columns=list(table.columns))
        files = [TABLE, PICTURE, SUMMARY, *[DRAWS] * (draws > 0), *[RUN] * posterior]
        with inputs.output_folder(out, files, read=[path, at]):
            chosen: Any = {"kernel": kernel.value, "scale": scale.argument, "seed": seed}
            chosen["progress"] = terminal.progress
            run = None
            with terminal.step("learn", "learning the density"):
                from bke.inference import learn_student_t, sample_student_t, student_t_posterior
                from bke.inference.learning.multiples import described
                from bke.inference.student_t.posterior import student_t_predictive
                from bke.inference.student_t.run import notes_of
                from bke.inference.student_t.sampling import pooled

                learned = learn_student_t(table.values, **chosen)
                if posterior:
                    run = student_t_posterior(table.values, **chosen)
            terminal.say(str(learned))
            notes: list[str] = notes_of(run) if run is not None else []
            values = learned.log_density(places.values)
            if run is not None:
                for name, one in run["posterior"].data_vars.items():
                    terminal.say(f"  {name}: {float(one.mean()):.4g} ± {float(one.std()):.2g}")
                with np.errstate(divide="ignore"):
                    values = np.log(student_t_predictive(run, places.values).mean(axis=0))
            typicality = learned.typicality(None if at is None else places.values)
            found = learned.normaliser
            outside = 0 if found is None else int(np.sum(~found.contains(places.values)))
            if found is not None and outside:
                ends = zip(found.low, found.high, strict=True)
                box = " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in ends)
                notes.append(f"{outside} row(s) are outside the box {box}: their density is 0.")
            written: dict[str, Path] = write_table(
                out,
                TABLE,
                [*table.columns, "log_density", "typicality"],
                np.column_stack([places.values, values, typicality]),
                terminal,
            )
            drawn_rows = None
            if draws:
                with terminal.step("draws", "drawing rows"):
                    sampled = sample_student_t(
                        learned,
                        draws=max(250, -(-draws // 16)),
                        seed=seed,
                        progress=terminal.progress,
                    )
                drawn_rows = pooled(sampled, draws)
                notes += notes_of(sampled)
                made = write_table(out, DRAWS, list(table.columns), drawn_rows, terminal)
                if made:
                    written["draws"] = made["table"]
            if run is not None and out is not None:
                steps.save_witness(run, out / RUN)
                written["run"] = out / RUN
            terminal.notes(notes)

            def pictures() -> steps.Pictures:
                if len(table.columns) > 2:
                    return []
                from ..plots.student_t import plot_student_t

                shown = learned if run is None else run
                return [
                    (
                        "picture",
                        lambda: plot_student_t(shown, draws=drawn_rows, names=table.columns),
                    )
                ]

            pictured, missing = steps.draw_pictures(out, pictures, terminal)
            told = {
                "command": "density",
                "source": str(path),
                "rows": len(table.values),
                "columns": list(table.columns),
                "kernel": described(learned.density.kernel),
                **{
                    name: float(getattr(learned.density, name))
                    for name in ("noise_variance", "alpha", "beta")
                },
                "normalised": learned.normaliser is not None,
                "log_density": [None if np.isneginf(one) else float(one) for one in values],
                "typicality": typicality.tolist(),
            }
            if run is not None:
                told["posterior"] = {
                    str(name): {"mean": float(one.mean()), "sd": float(one.std())}
                    for name, one in run["posterior"].data_vars.items()
                }
            summary = None if out is None else out / SUMMARY
            steps.finish(told, {**written, **pictured}, summary, [*notes, *missing], terminal)
