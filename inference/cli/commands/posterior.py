"""``bke run``, ``fit``, ``diagnose`` and ``witness``: the posterior of the lengthscale."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ...core.atomic import write_text
from ...core.errors import InputError
from ..inputs import (
    Pair,
    built_in_pair,
    check_samples,
    check_witness_memory,
    read_landmarks,
    read_pair,
    read_points,
    read_pooled,
)
from ..interrupt import terminable
from ..model import Model
from ..options import (
    FILE_TYPES,
    Band,
    Columns,
    FirstSample,
    Html,
    Modules,
    Names,
    OutFile,
    OutFolder,
    Points,
    RunFile,
    SecondSample,
    Seed,
    Verbose,
    argument,
    option,
    optional_folder,
)
from ..outputs import PICTURE, SUMMARY, Output, Pictures, output_file, output_folder
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr
    from bke.inference import Comparison, Diagnosis, Nuts
    from matplotlib.figure import Figure

RUN, WITNESS, DIAGNOSIS = "run.nc", "witness.nc", "diagnosis.json"
RUN_PICTURES = ("trace.png", "rank.png", "profile.png")
WITNESS_FILES = (WITNESS, "samples.png", "witness.png", SUMMARY)
RUN_FILES = (RUN, "comparison.png", *RUN_PICTURES, *WITNESS_FILES)
#: Number of rows from which on a comparison shows a progress bar.
PROGRESS_ROWS = 20_000


def run(
    terminal: Terminal,
    *,
    path_p: Annotated[Path | None, argument("P", f"First sample: {FILE_TYPES}.")] = None,
    path_q: Annotated[Path | None, argument("Q", "Second sample.")] = None,
    columns: Columns,
    names: Names = None,
    model: Model,
    seed: Seed = 0,
    band: Band,
    at: Points = None,
    out: OutFolder = Path("bke-run"),
    html: Html = None,
    verbose: Verbose = False,
) -> None:
    """Compare two samples: test, posterior, witness functions.

    Writes draws, pictures and a summary to a folder. Without files: the experiment of BKE Figures 3
    to 5, 300 rows each, 8 chains of NUTS.
    """
    if (path_p is None) != (path_q is None):
        raise typer.BadParameter("give both samples, or none for the built-in data")
    defaults: dict[str, Any] = {}
    if built_in := path_p is None or path_q is None:
        pair = built_in_pair(names)
        defaults = {"sampler": _figure4_sampler(), "standardize": "none"}
    else:
        pair = read_pair(path_p, path_q, columns, names)
    points = read_points(at, columns, pair.columns)
    arguments = model.fit_arguments(pair.columns, columns, **defaults)
    by_landmarks = model.likelihood == "landmark"
    check_witness_memory(pair, points, arguments["kernel"], by_landmarks=by_landmarks)
    read = (path_p, path_q, at, model.landmarks)
    with output_folder(terminal, out, RUN_FILES, command="run", read=read) as output:
        output.note(pair.notes)
        comparison = compare_pair(pair, terminal, verbose=verbose, seed=seed)
        path = output.add("run", RUN)
        result = _fit(pair.pooled, pair.columns, path, terminal, seed=seed, **arguments)
        result, weights = _reweight(result, output, path)
        diagnosis, summary = _diagnose(result, output, verbose=verbose, as_figure5=built_in)
        summary |= _witness(
            result,
            diagnosis,
            pair,
            points,
            band,
            output,
            pictures=[("comparison", comparison.plot), *_run_pictures(result)],
            as_figure5=built_in,
            weights=weights,
            seed=seed,
        )
        summary = {"answer": comparison.to_dict(), **summary}
        title = f"{pair.names[0]} and {pair.names[1]}"
        _write_page(html, summary, diagnosis, output.files, title, output, str(comparison))
        output.finish(summary)


def _figure4_sampler() -> Nuts:
    """Return NUTS as for BKE Figure 4, but longer and with longer steps.

    Chains start as those of Stan, uniformly over [-2, 2] of the log lengthscale. Zeros of the
    density divide the short mode, and only long steps cross them.
    """
    from bke.inference import Nuts
    from numpyro.infer import init_to_uniform

    return Nuts(num_samples=500, target_accept_prob=0.5, init_strategy=init_to_uniform)


def fit(
    terminal: Terminal,
    *,
    files: Annotated[list[Path], argument("FILES...", f"Samples, pooled: {FILE_TYPES}.")],
    columns: Columns,
    model: Model,
    seed: Seed = 0,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Leave the rows of one NPY, Parquet or zarr file on disk."),
    ] = False,
    checkpoint: Annotated[
        Path | None, option("FILE", "With --stream: go on from here after an interruption.")
    ] = None,
    out: OutFile = Path("run.nc"),
    verbose: Verbose = False,
) -> None:
    """Posterior draws of the lengthscale, with their diagnosis.

    Writes one NetCDF file, which "bke diagnose", "bke witness" and ArviZ read. A checkpoint has
    some 20 000 of the rows.
    """
    if checkpoint is not None and not stream:
        raise typer.BadParameter("--checkpoint is for --stream")
    samples: Any
    notes: list[str] = []
    if stream:
        from ...streams.rows import open_rows

        if len(files) > 1:
            raise InputError(f"--stream is for one file, and there are {len(files)}")
        samples = open_rows(files[0], columns=columns)
        names = samples.columns
    else:
        samples, names, notes = read_pooled(files, columns)
    arguments = model.fit_arguments(names, columns)
    output = Output("fit", terminal)
    output.note(notes)
    with (
        output_file(out, read=[*files, model.landmarks], checkpoint=checkpoint),
        terminable(checkpoint is not None),
    ):
        arguments |= {"seed": seed, "checkpoint": checkpoint}
        result = _fit(samples, None if stream else names, out, terminal, **arguments)
        output.files["run"] = out
        result, _ = _reweight(result, output, out)
        _, summary = _diagnose(result, output, verbose=verbose)
        output.finish(summary)


def diagnose(
    terminal: Terminal,
    *,
    run_file: RunFile,
    module: Modules = None,
    out: Annotated[
        Path | None, optional_folder("trace.png, rank.png, profile.png and diagnosis.json")
    ] = None,
    html: Html = None,
    verbose: Verbose = False,
) -> None:
    """Diagnose a run: R-hat, effective sample sizes, modes."""
    files = (*RUN_PICTURES, DIAGNOSIS)
    with output_folder(terminal, out, files, command="diagnose", read=[run_file]) as output:
        result = _load(run_file, module, terminal)
        diagnosis, summary = _diagnose(result, output, verbose=verbose)
        with tempfile.TemporaryDirectory() as temporary:
            # The page has pictures even where no folder has.
            folder = Path(temporary) if out is None and html is not None else None
            pictures = output.draw(lambda: _run_pictures(result), folder)
            title = f"Diagnosis of {run_file.name}"
            _write_page(html, summary, diagnosis, pictures, title, output)
        output.finish(summary)


def witness(
    terminal: Terminal,
    *,
    run_file: RunFile,
    path_p: FirstSample,
    path_q: SecondSample,
    columns: Columns,
    names: Names = None,
    band: Band,
    at: Points = None,
    landmarks: Annotated[
        str | None, option("COUNT|FILE", "Condition there, not on all rows: for large data.")
    ] = None,
    seed: Seed = 0,
    module: Modules = None,
    out: OutFolder = Path("bke-run"),
    verbose: Verbose = False,
) -> None:
    """Draw the witness functions of a run between its two samples.

    Writes witness.nc, samples.png, witness.png and summary.json.
    """
    pair = read_pair(path_p, path_q, columns, names)
    points = read_points(at, columns, pair.columns)
    chosen = read_landmarks(landmarks, columns, pair.columns)
    read = (run_file, path_p, path_q, at, landmarks)
    with output_folder(terminal, out, WITNESS_FILES, command="witness", read=read) as output:
        result = _load(run_file, module, terminal)
        from ...sampling.run import target_of

        target, _ = target_of(result)
        by_landmarks = chosen is not None or target.landmarks is not None
        check_witness_memory(pair, points, target.kernel, target.measure, by_landmarks=by_landmarks)
        check_samples(result, pair)
        output.note(pair.notes)
        result, weights = _reweight(result, output)
        diagnosis, summary = _diagnose(result, output, verbose=verbose)
        summary |= _witness(
            result,
            diagnosis,
            pair,
            points,
            band,
            output,
            landmarks=pair.labeled(chosen) if isinstance(chosen, np.ndarray) else chosen,
            weights=weights,
            seed=seed,
        )
        output.finish(summary)


def compare_pair(pair: Pair, terminal: Terminal, *, verbose: bool, **options: Any) -> Comparison:
    """Compare two samples with options of :func:`~bke.inference.compare`, and print the result."""
    slow = len(pair.P) + len(pair.Q) > PROGRESS_ROWS
    with terminal.step("compare", "comparing the samples", spinner=not slow):
        from bke.inference import compare

        comparison = compare(
            pair.P,
            pair.Q,
            columns=pair.columns,
            names=pair.names,
            progress=terminal.progress and slow,
            **options,
        )
    terminal.say(str(comparison) if verbose else f"{comparison.headline}.")
    return comparison


def _fit(
    samples: Any, names: Sequence[str] | None, path: Path, terminal: Terminal, **options: Any
) -> xr.DataTree:
    """Sample the posterior with options of :func:`~bke.inference.fit`, and save the run at once."""
    with terminal.step("fit", "fit", spinner=False):
        from bke.inference import fit as fit_lengthscale, save_run

        columns = None if names is None else list(names)
        run = fit_lengthscale(samples, columns=columns, progress=terminal.progress, **options)
        save_run(run, path)
    return run


def _load(path: Path, modules: Sequence[str] | None, terminal: Terminal) -> xr.DataTree:
    with terminal.step("load", "reading the run"):
        from bke.inference import load_run

        return load_run(path, modules=modules or ())


def _reweight(
    run: xr.DataTree, output: Output, path: Path | None = None
) -> tuple[xr.DataTree, str]:
    """Weight draws by the posterior mass of their modes, and save the run; note if that fails.

    Returns:
        The run, and the weights of its draws: ``"posterior"``, or ``"chains"``.
    """
    with output.terminal.step("weigh", "weighing the modes", spinner=False):
        from bke.inference import SamplingError, find_modes, reweight, save_run

        from ...diagnostics.modes import draw_weights, unconstrained_draws
        from ...sampling.samplers import MOST_EVALUATIONS

        # One mode of several hyperparameters: bridge sampling would give it all the mass.
        dimension = unconstrained_draws(run).shape[-1]
        if dimension not in MOST_EVALUATIONS and len(find_modes(run).modes) == 1:
            return run, "posterior"
        weighted, weights = run, "posterior"
        try:
            weighted = reweight(run, progress=output.terminal.progress)
            draw_weights(weighted, find_modes(weighted))
        except (InputError, SamplingError) as error:
            output.note([f"Draws are not weighted by posterior mass: {error}."])
            weights = "chains"
        if path is not None and weighted is not run:
            save_run(weighted, path)
    return weighted, weights


def _diagnose(
    run: xr.DataTree, output: Output, *, verbose: bool, as_figure5: bool = False
) -> tuple[Diagnosis, dict[str, Any]]:
    """Diagnose a run and print the result.

    Args:
        run: a run of :func:`~bke.inference.fit`.
        output: the output of the command.
        verbose: print the whole diagnosis.
        as_figure5: name the modes as in BKE Figure 5.

    Returns:
        The diagnosis, and the summary of the run.
    """
    with output.terminal.step("diagnose", "looking for modes"):
        from bke.inference import diagnose as diagnose_run

        from ...diagnostics import summary as report

        diagnosis = diagnose_run(run)
        summary, notes = report.run_summary(run, diagnosis), report.rounding_notes(run)
        scalar_chains = "profile" in run.children and not diagnosis.independent
    output.note(notes)
    if verbose:
        lines = str(diagnosis).splitlines()
    else:
        zeros = report.zeros_of_density(run, diagnosis.modes) if scalar_chains else []
        names = report.mode_names(diagnosis.modes, as_figure5=as_figure5)
        lines = report.brief_diagnosis(diagnosis, summary, names, zeros)
    output.terminal.lines(lines, warning=diagnosis.multimodal)
    return diagnosis, summary


def _witness(
    run: xr.DataTree,
    diagnosis: Diagnosis,
    pair: Pair,
    points: np.ndarray | None,
    band: tuple[str | float, float],
    output: Output,
    *,
    pictures: Pictures = (),
    as_figure5: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Draw the witness, save it, print its extremes, and save the pictures.

    Args:
        run: a run of :func:`~bke.inference.fit`.
        diagnosis: its diagnosis.
        pair: the two samples.
        points: points of evaluation, (k, D); ``None``: the default.
        band: noise of the witness, and probability of its band.
        output: the output of the command.
        pictures: more pictures to save.
        as_figure5: name modes and panels as in BKE Figure 5, and draw the densities of its data.
        **options: options of :func:`~bke.inference.sample_witness`.

    Returns:
        The summary of the witness.
    """
    noise, level = band
    terminal = output.terminal
    P, Q = pair.labeled(pair.P), pair.labeled(pair.Q)
    with terminal.step("witness", "drawing the witness", spinner=False):
        import bke.inference as bke

        from ...core.netcdf import write_tree
        from ...diagnostics.summary import mode_names
        from ...witness.summary import brief_witness, witness_summary

        at = None if points is None else pair.labeled(points)
        draws = bke.sample_witness(
            run, P, Q, at, noise=noise, progress=terminal.progress, **options
        )
        write_tree(draws, output.add("witness", WITNESS))
        summary = witness_summary(draws, diagnosis.modes, level)
    names = mode_names(diagnosis.modes, as_figure5=as_figure5)
    terminal.lines(brief_witness(summary, names, pair.names))
    if "note" in draws.attrs:
        output.notes.append(draws.attrs["note"])  # printed as a warning

    def draw_samples() -> Figure:
        densities = bke.normal_laplace_density if as_figure5 else None
        labels: dict[str, Any] = {"columns": pair.columns, "names": pair.names}
        return bke.plot_samples(pair.P, pair.Q, densities=densities, **labels)

    def draw_witness() -> Figure:
        return bke.plot_witness(
            draws, level, P=P, Q=Q, names=pair.names, run=run, as_figure5=as_figure5
        )

    output.draw(lambda: [*pictures, ("samples", draw_samples), ("witness", draw_witness)])
    return {"witness": {"sources": pair.sources, **summary}}


def _run_pictures(run: xr.DataTree) -> Pictures:
    from bke.inference import plot_profile, plot_rank, plot_trace

    from ...sampling.samplers import is_independent

    pictures: list[tuple[str, Callable[[], Figure]]] = []
    if not is_independent(run.attrs):  # such draws are in no order
        pictures = [("trace", lambda: plot_trace(run)), ("rank", lambda: plot_rank(run))]
    if "profile" in run.children:  # with several hyperparameters there is none
        pictures.append(("profile", lambda: plot_profile(run)))
    return pictures


def _write_page(
    path: Path | None,
    summary: dict[str, Any],
    diagnosis: Diagnosis,
    files: dict[str, Path],
    title: str,
    output: Output,
    answer: str | None = None,
) -> None:
    """Write the report as a page, if there is a path for it."""
    if path is None:
        return
    with output.terminal.step("page", "writing the page"):
        from ...diagnostics.page import run_page

        pictures = {
            name.removesuffix(PICTURE): file
            for name, file in files.items()
            if name.endswith(PICTURE)
        }
        notes = output.notes
        page = run_page(summary, str(diagnosis), pictures, title=title, answer=answer, notes=notes)
        write_text(path, page)
    output.files["page"] = path
