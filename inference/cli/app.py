"""The commands ``bke run`` and its parts ``fit``, ``diagnose`` and ``witness``."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from . import cluster, options as opt, words
from .interrupt import run_interruptible, terminable
from .terminal import Terminal, exit_codes

app = typer.Typer(
    name="bke",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)

FILE_KINDS = "CSV, TSV or TXT with or without a header, Parquet, or NPY"

RunArgument: TypeAlias = Annotated[
    Path, typer.Argument(metavar="RUN", help="A file that bke fit or bke run wrote.")
]


def main() -> None:
    """The console script."""
    run_interruptible(app)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"bke {importlib.metadata.version('bke')}")
        raise typer.Exit


@app.callback(epilog="Example: `bke run calm.csv windy.csv --columns Ozone --out ozone`")
def bke(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Where do two samples differ? Bayesian learning of kernel embeddings.

    Learns the lengthscale of a kernel from the pooled samples, says in words whether the chains of
    the sampler agree, and shows the witness function between the samples with its bands.

    Exit status: 0 finished, whatever the diagnosis; 1 bad input or failure, with one sentence on
    standard error; 2 wrong usage; 130 interrupted, 143 terminated.
    """


@app.command(epilog="Example: `bke run calm.csv windy.csv --columns Temp,InvHt --ard --out ozone`")
def run(
    path_p: Annotated[
        Path | None,
        typer.Argument(metavar="[P", help=f"First sample: {FILE_KINDS}.", show_default=False),
    ] = None,
    path_q: Annotated[
        Path | None, typer.Argument(metavar="Q]", help="Second sample.", show_default=False)
    ] = None,
    columns: opt.ColumnsOption = None,
    kernel: opt.KernelOption = opt.KernelName.se,
    ard: opt.ArdOption = False,
    prior_shape: opt.PriorShapeOption = 1.0,
    prior_rate: opt.PriorRateOption = 1.0,
    noise_variance: opt.NoiseVarianceOption = "0.1",
    measure: opt.MeasureOption = opt.MeasureName.unit,
    likelihood: opt.LikelihoodOption = opt.LikelihoodName.auto,
    rank: opt.RankOption = None,
    landmarks: opt.LandmarksOption = None,
    share: opt.ShareOption = opt.ShareName.pooled,
    scale: opt.ScaleOption = None,
    dither: opt.DitherOption = "auto",
    method: opt.MethodOption = opt.MethodName.nuts,
    chains: opt.ChainsOption = 8,
    warmup: opt.WarmupOption = 200,
    draws: opt.DrawsOption = 200,
    particles: opt.ParticlesOption = 4000,
    tolerance: opt.ToleranceOption = 1e-3,
    seed: opt.SeedOption = 0,
    noise: opt.NoiseOption = "clt",
    level: opt.LevelOption = 0.8,
    weights: opt.WeightsOption = opt.WeightsName.posterior,
    thin: opt.ThinOption = 1,
    at: opt.AtOption = None,
    out: opt.OutFolderOption = Path("bke-run"),
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """The whole job: fit, diagnosis, witness, pictures.

    Writes run.nc, witness.nc, summary.json, samples.png, trace.png, rank.png, profile.png (one
    hyperparameter only) and witness.png. Without files it uses the data built into the package,
    a normal and a Laplace mixture (BKE Figure 3), unscaled as in the paper.
    """
    if (path_p is None) != (path_q is None):
        raise typer.BadParameter("give both samples, or none for the built-in data")
    chosen = opt.FitOptions(
        kernel,
        ard,
        prior_shape,
        prior_rate,
        words.parse_noise_variance(noise_variance, "--noise-variance"),
        measure,
        share,
        scale or _default_scale(path_p),
        words.parse_dither(dither, "--dither"),
        likelihood,
        rank,
        method,
        chains,
        warmup,
        draws,
        particles,
        tolerance,
        seed,
    )
    noise_of_witness = words.parse_noise(noise, "--noise")
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from . import inputs, steps

        chosen.check()
        if path_p is None or path_q is None:
            pair = inputs.built_in_pair()
        else:
            pair = inputs.read_pair(path_p, path_q, names)
        points = inputs.read_points(at, names, pair.columns)
        places = inputs.read_landmarks(landmarks, names, pair.columns)
        inputs.check_witness(
            pair,
            points,
            noise_of_witness,
            level,
            seen=likelihood.value == "landmark",
            kernel=chosen.build_kernel(),
            measure=chosen.measure.value,
        )
        read = (path_p, path_q, at, landmarks)
        with inputs.output_folder(out, steps.RUN_FILES, read=read):
            terminal.notes(pair.notes)
            samples = (pair.P, pair.Q) if share is opt.ShareName.joint else (pair.pooled,)
            result = steps.fit_and_save(
                samples, pair.columns, chosen, places, out / steps.RUN, terminal
            )
            result, unknown = steps.weigh_and_save(result, out / steps.RUN, terminal)
            diagnosis, summary, rounded = steps.diagnose_and_print(result, terminal)
            witnesses, found = steps.witness_and_save(
                result,
                diagnosis,
                pair,
                points,
                noise=noise_of_witness,
                level=level,
                weights="chains" if unknown else weights.value,
                thin=thin,
                seed=seed,
                path=out / steps.WITNESS,
                terminal=terminal,
            )
            files, missing = steps.draw_pictures(
                out,
                lambda: (
                    steps.pair_pictures(result, witnesses, pair, level) + steps.run_pictures(result)
                ),
                terminal,
            )
            steps.finish(
                {"command": "run", **summary, **found},
                {"run": out / steps.RUN, "witness": out / steps.WITNESS, **files},
                out / steps.SUMMARY,
                [*pair.notes, *unknown, *rounded, *missing],
                terminal,
            )


def _default_scale(path: Path | None) -> opt.ScaleName:
    """The built-in data keep their units, as in the paper."""
    return opt.ScaleName.none if path is None else opt.ScaleName.column


@app.command(epilog="Example: `bke fit calm.csv windy.csv --columns Ozone --out run.nc`")
def fit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES...",
            help=f"One or more samples: {FILE_KINDS}.",
            show_default=False,
        ),
    ],
    columns: opt.ColumnsOption = None,
    kernel: opt.KernelOption = opt.KernelName.se,
    ard: opt.ArdOption = False,
    prior_shape: opt.PriorShapeOption = 1.0,
    prior_rate: opt.PriorRateOption = 1.0,
    noise_variance: opt.NoiseVarianceOption = "0.1",
    measure: opt.MeasureOption = opt.MeasureName.unit,
    likelihood: opt.LikelihoodOption = opt.LikelihoodName.auto,
    rank: opt.RankOption = None,
    landmarks: opt.LandmarksOption = None,
    share: opt.ShareOption = opt.ShareName.pooled,
    scale: opt.ScaleOption = None,
    dither: opt.DitherOption = "auto",
    method: opt.MethodOption = opt.MethodName.nuts,
    chains: opt.ChainsOption = 8,
    warmup: opt.WarmupOption = 200,
    draws: opt.DrawsOption = 200,
    particles: opt.ParticlesOption = 4000,
    tolerance: opt.ToleranceOption = 1e-3,
    seed: opt.SeedOption = 0,
    distributed: cluster.DistributedOption = False,
    coordinator: cluster.CoordinatorOption = None,
    processes: cluster.ProcessesOption = None,
    process: cluster.ProcessOption = None,
    shard: cluster.ShardOption = cluster.ShardName.auto,
    stream: cluster.StreamOption = False,
    checkpoint: cluster.CheckpointOption = None,
    out: opt.OutFileOption = Path("run.nc"),
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Posterior draws of the lengthscale, with their diagnosis.

    Writes one NetCDF file, which `bke diagnose`, `bke witness` and ArviZ read.
    """
    if checkpoint is not None and not stream:
        raise typer.BadParameter("--checkpoint is for --stream")
    landmark = likelihood is opt.LikelihoodName.landmark
    if stream and not (landmark and method is opt.MethodName.quadrature):
        raise typer.BadParameter(
            "--stream needs --likelihood landmark --method quadrature: each pass over the rows is "
            "for a batch of lengthscales"
        )
    chosen = opt.FitOptions(
        kernel,
        ard,
        prior_shape,
        prior_rate,
        words.parse_noise_variance(noise_variance, "--noise-variance"),
        measure,
        share,
        scale or opt.ScaleName.column,
        words.parse_dither(dither, "--dither"),
        likelihood,
        rank,
        method,
        chains,
        warmup,
        draws,
        particles,
        tolerance,
        seed,
    )
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with cluster.leaving(distributed), exit_codes(debug):
        first = cluster.join(distributed, coordinator, processes, process)
        path = out if first else None
        if not first:
            terminal = Terminal(json=True, quiet=True)  # says nothing
        from . import inputs, steps

        chosen.check()
        if stream:
            samples: Any
            samples, headings, remarks = inputs.open_sample(files, names)
        else:
            samples, headings, remarks = inputs.read_samples(files, names, chosen.share)
        places = inputs.read_landmarks(landmarks, names, headings)
        terminal.notes(remarks)
        written = inputs.output_folder(
            out.parent if first else None,
            [out.name],
            read=[*files, landmarks],
            checkpoint=checkpoint,
        )
        with written, terminable(checkpoint is not None):
            result = steps.fit_and_save(
                samples,
                headings,
                chosen,
                places,
                path,
                terminal,
                shard=shard.value,
                checkpoint=checkpoint,
            )
            result, unknown = steps.weigh_and_save(result, path, terminal)
            if not first:
                return
            _, summary, rounded = steps.diagnose_and_print(result, terminal)
            notes = [*remarks, *unknown, *rounded]
            steps.finish({"command": "fit", **summary}, {"run": out}, None, notes, terminal)


@app.command(epilog="Example: `bke diagnose run.nc --out pictures`")
def diagnose(
    run_file: RunArgument,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            rich_help_panel=opt.OUTPUT,
            help="Folder for trace.png, rank.png, profile.png and summary.json. Default: no files.",
        ),
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """What a run is worth: R-hat, effective sample sizes, modes and a verdict in words."""
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from . import inputs, steps

        with inputs.output_folder(out, steps.DIAGNOSE_FILES, read=[run_file]):
            result = steps.load(run_file, terminal)
            _, summary, rounded = steps.diagnose_and_print(result, terminal)
            files, missing = steps.draw_pictures(out, lambda: steps.run_pictures(result), terminal)
            steps.finish(
                {"command": "diagnose", **summary},
                files,
                None if out is None else out / steps.SUMMARY,
                [*rounded, *missing],
                terminal,
            )


@app.command(epilog="Example: `bke witness run.nc calm.csv windy.csv --columns Ozone --out ozone`")
def witness(
    run_file: RunArgument,
    path_p: Annotated[
        Path,
        typer.Argument(metavar="P", help=f"First sample: {FILE_KINDS}.", show_default=False),
    ],
    path_q: Annotated[Path, typer.Argument(metavar="Q", help="Second sample.", show_default=False)],
    columns: opt.ColumnsOption = None,
    noise: opt.NoiseOption = "clt",
    level: opt.LevelOption = 0.8,
    weights: opt.WeightsOption = opt.WeightsName.posterior,
    landmarks: opt.WitnessLandmarksOption = None,
    thin: opt.ThinOption = 1,
    at: opt.AtOption = None,
    seed: opt.SeedOption = 0,
    out: opt.OutFolderOption = Path("bke-run"),
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """The posterior witness between two samples, for a run that was fitted to both.

    Writes witness.nc, samples.png, witness.png and summary.json.
    """
    noise_of_witness = words.parse_noise(noise, "--noise")
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..posterior.run import target_of
        from . import inputs, steps

        pair = inputs.read_pair(path_p, path_q, names)
        points = inputs.read_points(at, names, pair.columns)
        places = inputs.read_landmarks(landmarks, names, pair.columns)
        read = (run_file, path_p, path_q, at, landmarks)
        with inputs.output_folder(out, steps.WITNESS_FILES, read=read):
            result = steps.load(run_file, terminal)
            target, _ = target_of(result)
            inputs.check_witness(
                pair,
                points,
                noise_of_witness,
                level,
                seen=places is not None or target.landmarks is not None,
                kernel=target.kernel,
                measure=target.measure,
            )
            inputs.check_columns(result, pair, run_file)
            notes = [*pair.notes, *inputs.notes_on(result, pair)]
            result, unknown = steps.weigh_and_save(result, None, terminal)
            terminal.notes(notes)
            diagnosis, summary, rounded = steps.diagnose_and_print(result, terminal)
            witnesses, found = steps.witness_and_save(
                result,
                diagnosis,
                pair,
                points,
                noise=noise_of_witness,
                level=level,
                weights="chains" if unknown else weights.value,
                landmarks=places,
                thin=thin,
                seed=seed,
                path=out / steps.WITNESS,
                terminal=terminal,
            )
            files, missing = steps.draw_pictures(
                out, lambda: steps.pair_pictures(result, witnesses, pair, level), terminal
            )
            steps.finish(
                {"command": "witness", **summary, **found},
                {"witness": out / steps.WITNESS, **files},
                out / steps.SUMMARY,
                [*notes, *unknown, *rounded, *missing],
                terminal,
            )
