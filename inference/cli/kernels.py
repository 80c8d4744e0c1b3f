"""The commands that give a kernel: ``bke learn`` and ``bke score``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from . import options as opt, words
from .app import FILE_KINDS, app
from .terminal import Terminal, exit_codes, number

if TYPE_CHECKING:
    from bke.inference import KernelComparison, LearnedKernel, Peak

FilesArgument: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILES...",
        help=f"One or more samples: {FILE_KINDS}.",
        show_default=False,
    ),
]


@app.command(epilog="Example: `bke learn calm.csv windy.csv --columns Ozone`")
def learn(
    files: FilesArgument,
    columns: opt.ColumnsOption = None,
    kernel: opt.KernelOption = opt.KernelName.se,
    ard: opt.ArdOption = False,
    objective: Annotated[
        opt.ObjectiveName,
        typer.Option(
            "--objective",
            rich_help_panel=opt.MODEL,
            help="Maximise the marginal likelihood, or the posterior density.",
        ),
    ] = opt.ObjectiveName.ml,
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
    seed: opt.SeedOption = 0,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """The kernel that maximises the marginal likelihood, and the best of every other mode.

    Prints the lengthscales in the units of the data, and scikit-learn's gamma where there is one.
    """
    chosen = opt.ModelOptions(
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
    )
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from . import inputs

        chosen.check()
        samples, headings, remarks = inputs.read_samples(files, names, share)
        places = inputs.read_landmarks(landmarks, names, headings)
        with terminal.step("learn", "learn", spinner=False):
            from bke.inference import learn_kernel

            learned = learn_kernel(
                samples if len(samples) > 1 else samples[0],
                objective=objective.value,
                columns=headings,
                landmarks=places,
                seed=seed,
                progress=terminal.progress,
                **chosen.arguments(len(headings)),
            )
        from ..report.words import notes_on_units

        notes = notes_on_units(learned.units)
        terminal.notes([*remarks, *notes])
        terminal.say(str(learned))
        summary = {**_learned(learned, headings), "notes": [*remarks, *notes]}
        if "gamma" in summary["peaks"][0]:
            terminal.say(f"scikit-learn: gamma = {number(summary['peaks'][0]['gamma'])}")
        timings = terminal.all_timings()
        settings = _settings(chosen, len(headings), seed)
        terminal.finish({"command": "learn", "settings": settings, **summary, "timings": timings})


def _learned(learned: LearnedKernel, columns: tuple[str, ...]) -> dict[str, Any]:
    """As plain data."""
    from bke.inference import InputError, gamma
    from bke.inference.posterior.record import describe_kernel

    def one(peak: Peak, height: float) -> dict[str, Any]:
        found = {
            "kernel": describe_kernel(peak.kernel),
            "hyperparameters": {k: np.asarray(v).tolist() for k, v in peak.values.items()},
            "log_marginal_likelihood": peak.log_marginal_likelihood,
            "log_prior": peak.log_prior,
            "below_the_highest_nats": abs(height),
            "curvature_nats": peak.curvature.tolist(),
            "basin": None if peak.basin is None else [np.asarray(e).tolist() for e in peak.basin],
            "at_bound": peak.at_bound,
        }
        with contextlib.suppress(InputError):  # not every kernel has one
            found["gamma"] = gamma(peak.kernel)
        return found

    peaks = [one(*both) for both in zip(learned.peaks, learned.heights().tolist(), strict=True)]
    units = learned.units
    return {
        "objective": learned.objective,
        "columns": list(columns),
        "scale": dict(zip(columns, units.scale.tolist(), strict=True)),
        "dither": dict(zip(columns, units.dither.tolist(), strict=True)),
        "dither_seed": units.dither_seed,
        "peaks": peaks,
    }


@app.command(epilog="Example: `bke score calm.csv --columns Ozone --kernels se,matern32,laplace`")
def score(
    files: FilesArgument,
    columns: opt.ColumnsOption = None,
    kernels: Annotated[
        str,
        typer.Option(
            "--kernels",
            metavar="A,B,...",
            rich_help_panel=opt.MODEL,
            help=f"Kernels to compare, of {', '.join(opt.KernelName)}.",
        ),
    ] = "se,matern32,laplace",
    ard: opt.ArdOption = False,
    prior_shape: opt.PriorShapeOption = 1.0,
    prior_rate: opt.PriorRateOption = 1.0,
    noise_variance: opt.NoiseVarianceOption = "0.1",
    measure: opt.MeasureOption = opt.MeasureName.unit,
    scale: opt.ScaleOption = None,
    dither: opt.DitherOption = "auto",
    folds: Annotated[
        int,
        typer.Option("--folds", rich_help_panel=opt.SAMPLER, help="Folds of the held-out error."),
    ] = 5,
    particles: opt.ParticlesOption = 4000,
    seed: opt.SeedOption = 0,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Several kernel families on one data set: a score with its caveat, and a held-out error."""
    families = words.parse_kernels(kernels, "--kernels")
    options = [
        opt.ModelOptions(
            family,
            ard,
            prior_shape,
            prior_rate,
            words.parse_noise_variance(noise_variance, "--noise-variance"),
            measure,
            opt.ShareName.pooled,
            scale or opt.ScaleName.column,
            words.parse_dither(dither, "--dither"),
            opt.LikelihoodName.auto,
            None,
        )
        for family in families
    ]
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from . import inputs

        options[0].check()
        (sample,), headings, remarks = inputs.read_samples(files, names, opt.ShareName.pooled)
        terminal.notes(remarks)
        with terminal.step("score", "score", spinner=False):
            from bke.inference import compare_kernels

            shared = options[0].arguments(len(headings))
            comparison = compare_kernels(
                sample,
                {one.kernel.value: one.build_kernel() for one in options},
                priors={one.kernel.value: one.build_prior(len(headings)) for one in options},
                folds=folds,
                particles=particles,
                seed=seed,
                progress=terminal.progress,
                **{k: shared[k] for k in ("noise_variance", "measure", "scale", "dither")},
            )
        terminal.say(str(comparison))
        timings = terminal.all_timings()
        settings = {**_settings(options[0], len(headings), seed), "folds": folds}
        del settings["kernel"]
        found = {**_scores(comparison), "columns": list(headings), "notes": remarks}
        terminal.finish({"command": "score", "settings": settings, **found, "timings": timings})


def _settings(options: opt.ModelOptions, dimension: int, seed: int) -> dict[str, Any]:
    """What a command was told, as plain data."""
    from bke.inference.posterior.record import describe_kernel, describe_prior

    told = options.arguments(dimension)
    return {
        **told,
        "kernel": describe_kernel(told["kernel"]),
        "prior": describe_prior(told["prior"]),
        "seed": seed,
    }


def _scores(comparison: KernelComparison) -> dict[str, Any]:
    """As plain data."""
    from bke.inference.posterior.record import describe_kernel

    scores = {
        name: {
            "score": one.score,
            "score_error": one.score_error,
            "held_out": one.held_out,
            "held_out_error": one.held_out_error,
            "kernel": describe_kernel(one.kernel),
        }
        for name, one in comparison.scores.items()
    }
    return {"scores": scores, "caveat": comparison.caveat}
