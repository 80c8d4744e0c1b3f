"""Sums in place of data: ``bke sketch``, ``bke merge`` and ``bke compare``."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Annotated, Any

import typer

from . import cluster, options as opt, words
from .app import FILE_KINDS, app
from .interrupt import terminable
from .terminal import Terminal, exit_codes
from .testing import AlphaOption, as_plain

SKETCH = "Sketch"
PICTURE, WITNESS, SUMMARY = "witness.png", "witness.nc", "compare.json"


@app.command(
    epilog="Example: `bke sketch calm.csv --columns Ozone --landmarks 10 --out calm.nc`, then "
    "`bke sketch windy.csv --columns Ozone --like calm.nc --out windy.nc`"
)
def sketch(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=f"Rows: {FILE_KINDS}, or zarr. All but text may be larger than memory.",
            show_default=False,
        ),
    ],
    columns: opt.ColumnsOption = None,
    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="SKETCH",
            rich_help_panel=SKETCH,
            help="Take over the landmarks, units, lengthscales and kernel of another sketch: only "
            "such sketches can be merged and compared.",
        ),
    ] = None,
    landmarks: Annotated[
        str | None,
        typer.Option(
            "--landmarks",
            metavar="COUNT|FILE",
            rich_help_panel=SKETCH,
            help="How many, at centres of clusters of these rows, or a file of places, such as a "
            "grid that was agreed upon. Default: 64, or one for 40 rows.",
        ),
    ] = None,
    lengthscales: Annotated[
        str | None,
        typer.Option(
            "--lengthscales",
            metavar="LOW,HIGH,COUNT",
            rich_help_panel=SKETCH,
            help="The grid, over the unit of --scale, evenly in the log.  [default: 60 from 0.02, "
            "or a tenth of the way between landmarks, to 8]",
        ),
    ] = None,
    kernel: Annotated[
        opt.KernelName | None,
        typer.Option(
            "--kernel", rich_help_panel=SKETCH, help="Kernel, as for `bke fit`.", show_default="se"
        ),
    ] = None,
    scale: opt.ScaleOption = None,
    seed: opt.SeedOption = 0,
    checkpoint: cluster.CheckpointOption = None,
    out: opt.OutFileOption = Path("sketch.nc"),
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Sum over the rows what the landmark model needs of them, at every lengthscale of a grid.

    The file is small, and sketches of one plan add up. It holds no row as it is, but it is not
    anonymous: a row far from all others can be found from its sums at the landmarks around it.
    """
    grid = _parse_grid(lengthscales)
    given = (landmarks, lengthscales, scale, kernel)
    if like is not None and any(each is not None for each in given):
        raise typer.BadParameter(
            "--like takes landmarks, lengthscales, kernel and scale from that sketch: leave out "
            "--landmarks, --lengthscales, --kernel and --scale"
        )
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug), terminable(checkpoint is not None):
        from ..data.checks import counted
        from ..errors import InputError
        from . import inputs, steps

        (sample,), _, _ = inputs.open_sample([path], names)
        places = inputs.read_landmarks(landmarks, names, sample.columns)
        read = (path, like, landmarks)
        with inputs.output_folder(out.parent, [out.name], read=read, checkpoint=checkpoint):
            with terminal.step("sketch", "summing", spinner=False):
                from bke.inference import load_sketch, save_sketch, sketch as make

                options: dict[str, Any] = {"seed": seed, "checkpoint": checkpoint}
                if like is None:
                    options["kernel"] = opt.build_kernel(kernel or opt.KernelName.se)
                    options["scale"] = (scale or opt.ScaleName.column).argument
                    found = make(
                        sample,
                        landmarks=places,
                        lengthscales=grid,
                        progress=terminal.progress,
                        **options,
                    )
                else:
                    first = load_sketch(like)
                    width, needed = len(sample.columns), len(first.plan.columns)
                    if width != needed:
                        raise InputError(
                            f"{path} has {counted(width, 'column')}, but the sketch {like} has "
                            f"{needed}: choose them with --columns"
                        )
                    found = make(sample, like=first, progress=terminal.progress, **options)
                save_sketch(found, out)
            terminal.say(str(found))
            told = {"command": "sketch", "source": str(path), **_about(found)}
            notes = []
            if sample.columns != found.plan.columns:
                notes.append(
                    f"The columns {', '.join(sample.columns)} are matched by position to "
                    f"{', '.join(found.plan.columns)} of {like}."
                )
                terminal.notes(notes)
            steps.finish(told, {"sketch": out}, None, notes, terminal)


@app.command(epilog="Example: `bke merge monday.nc tuesday.nc --out week.nc`")
def merge(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="SKETCHES...", help="Two or more, made like each other.", show_default=False
        ),
    ],
    out: opt.OutFileOption = Path("merged.nc"),
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """One sketch of the rows of several: exactly that of all rows together."""
    if len(files) < 2:
        raise typer.BadParameter("give two sketches or more")
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..errors import InputError
        from ..runtime.atomic import same_file
        from . import inputs, steps

        if any(same_file(*two) for two in itertools.combinations(files, 2)):
            raise typer.BadParameter("a sketch is given twice: its rows would count twice")
        with inputs.output_folder(out.parent, [out.name], read=files):
            with terminal.step("merge", "adding"):
                from bke.inference import load_sketch, save_sketch

                merged = load_sketch(files[0])
                for file in files[1:]:
                    other = load_sketch(file)  # its errors name the file
                    try:
                        merged = merged.merged(other)
                    except InputError as error:
                        raise InputError(f"{file}: {error}") from None
                save_sketch(merged, out)
            terminal.say(str(merged))
            told = {"command": "merge", "sources": list(map(str, files)), **_about(merged)}
            steps.finish(told, {"sketch": out}, None, [], terminal)


@app.command(epilog="Example: `bke compare calm.nc windy.nc --out compared`")
def compare(
    path_p: Annotated[
        Path, typer.Argument(metavar="P", help="Sketch of the first sample.", show_default=False)
    ],
    path_q: Annotated[
        Path, typer.Argument(metavar="Q", help="Of the second, made like it.", show_default=False)
    ],
    prior_shape: opt.PriorShapeOption = 1.0,
    prior_rate: opt.PriorRateOption = 1.0,
    noise_variance: Annotated[
        float,
        typer.Option(
            "--noise-variance",
            rich_help_panel=opt.MODEL,
            help="Noise variance tau^2 of one k(x, z), on which the lengthscale depends.",
        ),
    ] = 0.1,
    measure: opt.MeasureOption = opt.MeasureName.unit,
    noise: opt.NoiseOption = "clt",
    level: opt.LevelOption = 0.8,
    at: opt.AtOption = None,
    alpha: AlphaOption = 0.05,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            rich_help_panel=opt.OUTPUT,
            help=f"Folder for {PICTURE}, {WITNESS} and {SUMMARY}. Default: no files.",
        ),
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Two sketches: the posterior of the lengthscale, a two-sample test and the witness."""
    noise_of_witness = words.parse_noise(noise, "--noise")
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.checks import check_positive
        from . import inputs, steps

        check_positive(prior_shape, "--prior-shape")
        check_positive(prior_rate, "--prior-rate")
        inputs.check_level(level)
        read = (path_p, path_q, at)
        with inputs.output_folder(out, [PICTURE, WITNESS, SUMMARY], read=read):
            with terminal.step("compare", "comparing"):
                import numpyro.distributions as dist
                from bke.inference import compare_sketches, load_sketch

                first, second = load_sketch(path_p), load_sketch(path_q)
                points = inputs.read_points(at, None, first.plan.columns)
                found = compare_sketches(
                    first,
                    second,
                    noise_variance=noise_variance,
                    prior=dist.Gamma(prior_shape, prior_rate),
                    measure=measure.value,
                    at=points,
                    noise=noise_of_witness,
                    alpha=alpha,
                    seed=seed,
                )
            terminal.say(str(found))
            files, missing = steps.draw_pictures(
                out, lambda: [("witness", lambda: found.plot(level))], terminal
            )
            if out is not None:
                steps.save_witness(found.witness, out / WITNESS)
                files["witness"] = out / WITNESS
            posterior = found.posterior
            told = {
                "command": "compare",
                "sources": {"P": str(path_p), "Q": str(path_q)},
                "rows": dict(zip("PQ", found.sizes, strict=True)),
                "columns": list(first.plan.columns),
                "posterior": {
                    name: posterior[name].values.tolist()
                    for name in ("lengthscale", "log_likelihood", "log_prior", "mass")
                },
                **({} if found.test is None else as_plain(found.test)),
            }
            summary = None if out is None else out / SUMMARY
            steps.finish(told, files, summary, [*found.notes, *missing], terminal)


def _parse_grid(text: str | None) -> list[float] | None:
    """``LOW,HIGH,COUNT`` as that many numbers."""
    if text is None:
        return None
    import numpy as np

    try:
        low, high, count = text.split(",")
        grid: list[float] = np.geomspace(float(low), float(high), int(count)).tolist()
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not LOW,HIGH,COUNT such as 0.02,8,60", param_hint="--lengthscales"
        ) from None
    return grid


def _about(sketch: Any) -> dict[str, Any]:
    plan = sketch.plan
    return {
        "rows": sketch.rows,
        "columns": list(plan.columns),
        "landmarks": (plan.landmarks * plan.unit).tolist(),
        "lengthscales": plan.lengthscales.tolist(),
        "unit": dict(zip(plan.columns, plan.unit.tolist(), strict=True)),
    }
