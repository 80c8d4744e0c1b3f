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
    check_witness,
    open_sample,
    read_landmarks,
    read_pair,
    read_points,
    read_pooled,
)
from ..interrupt import terminable
from ..model import build_sampler, model_arguments
from ..options import (
    FILE_KINDS,
    Ard,
    Chains,
    Columns,
    Draws,
    FirstSample,
    Html,
    KernelName,
    Landmarks,
    Level,
    Likelihood,
    Method,
    Modules,
    Names,
    Noise,
    NoiseVariance,
    OutFile,
    OutFolder,
    Points,
    PriorRate,
    PriorShape,
    RunFile,
    SecondSample,
    Seed,
    Unit,
    Verbose,
    Warmup,
    number_or_word,
    optional_folder,
    parse_columns,
)
from ..outputs import PICTURE, SUMMARY, Pictures, draw_pictures, finish, output_file, output_folder
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr
    from bke.inference import Comparison, Diagnosis, Nuts
    from matplotlib.figure import Figure

RUN, WITNESS, DIAGNOSIS = "run.nc", "witness.nc", "diagnosis.json"
RUN_PICTURES = ("trace.png", "rank.png", "profile.png")
WITNESS_FILES = (WITNESS, "samples.png", "witness.png", SUMMARY)
RUN_FILES = (RUN, "comparison.png", *RUN_PICTURES, *WITNESS_FILES)
#: Rows of which a comparison takes long enough for a bar.
MANY_ROWS = 20_000


def run(
    terminal: Terminal,
    path_p: Annotated[
        Path | None,
        typer.Argument(metavar="[P", help=f"First sample: {FILE_KINDS}.", show_default=False),
    ] = None,
    path_q: Annotated[
        Path | None, typer.Argument(metavar="Q]", help="Second sample.", show_default=False)
    ] = None,
    columns: Columns = None,
    names: Names = None,
    kernel: KernelName = "se",
    ard: Ard = False,
    prior_shape: PriorShape = 1.0,
    prior_rate: PriorRate = 1.0,
    noise_variance: NoiseVariance = "0.1",
    likelihood: Likelihood = "auto",
    landmarks: Landmarks = None,
    standardize: Unit = None,
    method: Method = None,
    chains: Chains = None,
    warmup: Warmup = None,
    draws: Draws = None,
    seed: Seed = 0,
    noise: Noise = "clt",
    level: Level = 0.8,
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
    built_in = path_p is None or path_q is None
    chosen = parse_columns(columns)
    if path_p is None or path_q is None:
        pair, default = built_in_pair(names), _figure4_sampler()
        standardize = standardize or "none"
    else:
        pair, default = read_pair(path_p, path_q, chosen, names), None
    points = read_points(at, chosen, pair.columns)
    places = read_landmarks(landmarks, chosen, pair.columns)
    how = model_arguments(
        len(pair.columns),
        kernel=kernel,
        ard=ard,
        prior_shape=prior_shape,
        prior_rate=prior_rate,
        noise_variance=noise_variance,
        likelihood=likelihood,
        landmarks=places,
        standardize=standardize,
    )
    how["method"] = build_sampler(method, default, chains=chains, warmup=warmup, draws=draws)
    band = _band(noise, level)
    seen = likelihood == "landmark"
    check_witness(pair, points, *band, seen=seen, kernel=how["kernel"], measure="unit")
    read = (path_p, path_q, at, landmarks)
    with output_folder(out, RUN_FILES, command="run", read=read) as folder:
        notes = list(pair.notes)
        terminal.notes(notes)
        answer = compare_pair(pair, terminal, verbose=verbose, seed=seed)
        result = fit_and_save(pair.pooled, pair.columns, folder / RUN, terminal, seed=seed, **how)
        result, unknown = _weigh_and_save(result, folder / RUN, terminal)
        diagnosis, summary, rounded = _diagnose_and_print(
            result, terminal, verbose=verbose, as_figure5=built_in
        )
        found, files, missing = _witness_and_save(
            result,
            diagnosis,
            pair,
            points,
            band,
            weights="chains" if unknown else "posterior",
            seed=seed,
            folder=folder,
            terminal=terminal,
            more=[("comparison", answer.plot), *_run_pictures(result)],
            as_figure5=built_in,
        )
        output = {"command": "run", "answer": answer.to_dict(), **summary, **found}
        notes += [*unknown, *rounded, *missing]
        title = f"{pair.names[0]} and {pair.names[1]}"
        page = _write_page(html, output, diagnosis, files, title, notes, terminal, str(answer))
        files = {"run": folder / RUN, **files, **page}
        finish(output, files, folder, notes, terminal)


def _figure4_sampler() -> Nuts:
    """Return NUTS as for BKE Figure 4, but longer and with longer steps.

    Chains start as those of Stan, uniformly over [-2, 2] of the log lengthscale. Zeros of the
    density divide the short mode, and only long steps cross them.
    """
    from bke.inference import Nuts
    from numpyro.infer import init_to_uniform

    return Nuts(num_samples=500, target_accept_prob=0.5, init_strategy=init_to_uniform)


def _band(noise: str, level: float) -> tuple[str | float, float]:
    """The noise of the witness and the probability of its band."""
    return number_or_word(noise, ("clt",)), level


def fit(
    terminal: Terminal,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES...", help=f"Samples, pooled: {FILE_KINDS}.", show_default=False
        ),
    ],
    columns: Columns = None,
    kernel: KernelName = "se",
    ard: Ard = False,
    prior_shape: PriorShape = 1.0,
    prior_rate: PriorRate = 1.0,
    noise_variance: NoiseVariance = "0.1",
    likelihood: Likelihood = "auto",
    landmarks: Landmarks = None,
    standardize: Unit = None,
    method: Method = None,
    chains: Chains = None,
    warmup: Warmup = None,
    draws: Draws = None,
    seed: Seed = 0,
    stream: Annotated[
        bool,
        typer.Option("--stream", help="Leave the rows of one NPY, Parquet or zarr file on disk."),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --stream: go on from here after an interruption."),
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
    chosen = parse_columns(columns)
    samples, headings, remarks = (open_sample if stream else read_pooled)(files, chosen)
    how = model_arguments(
        len(headings),
        kernel=kernel,
        ard=ard,
        prior_shape=prior_shape,
        prior_rate=prior_rate,
        noise_variance=noise_variance,
        likelihood=likelihood,
        landmarks=read_landmarks(landmarks, chosen, headings),
        standardize=standardize,
    )
    how["method"] = build_sampler(method, chains=chains, warmup=warmup, draws=draws)
    how |= {"seed": seed, "checkpoint": checkpoint}
    terminal.notes(remarks)
    written = output_file(out, read=[*files, landmarks], checkpoint=checkpoint)
    with written, terminable(checkpoint is not None):
        result = fit_and_save(samples, None if stream else headings, out, terminal, **how)
        result, unknown = _weigh_and_save(result, out, terminal)
        _, summary, rounded = _diagnose_and_print(result, terminal, verbose=verbose)
        notes = [*remarks, *unknown, *rounded]
        finish({"command": "fit", **summary}, {"run": out}, None, notes, terminal)


def diagnose(
    terminal: Terminal,
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
    with output_folder(out, files, command="diagnose", read=[run_file]) as folder:
        result = _load(run_file, module, terminal)
        diagnosis, summary, rounded = _diagnose_and_print(result, terminal, verbose=verbose)
        with tempfile.TemporaryDirectory() as elsewhere:
            # The page needs pictures where no folder asks for them.
            drawn = Path(elsewhere) if folder is None and html is not None else folder
            pictures, missing = draw_pictures(drawn, lambda: _run_pictures(result), terminal)
            notes = [*rounded, *missing]
            title = f"Diagnosis of {run_file.name}"
            page = _write_page(html, summary, diagnosis, pictures, title, notes, terminal)
        written = page if folder is None else {**pictures, **page}
        finish({"command": "diagnose", **summary}, written, folder, notes, terminal, DIAGNOSIS)


def witness(
    terminal: Terminal,
    run_file: RunFile,
    path_p: FirstSample,
    path_q: SecondSample,
    columns: Columns = None,
    names: Names = None,
    noise: Noise = "clt",
    level: Level = 0.8,
    at: Points = None,
    landmarks: Annotated[
        str | None,
        typer.Option(
            metavar="COUNT|FILE", help="Condition there, not on all rows: for large data."
        ),
    ] = None,
    seed: Seed = 0,
    module: Modules = None,
    out: OutFolder = Path("bke-run"),
    verbose: Verbose = False,
) -> None:
    """Draw the witness functions of a run between its two samples.

    Writes witness.nc, samples.png, witness.png and summary.json.
    """
    chosen = parse_columns(columns)
    pair = read_pair(path_p, path_q, chosen, names)
    points = read_points(at, chosen, pair.columns)
    places = read_landmarks(landmarks, chosen, pair.columns)
    read = (run_file, path_p, path_q, at, landmarks)
    with output_folder(out, WITNESS_FILES, command="witness", read=read) as folder:
        result = _load(run_file, module, terminal)
        from ...sampling.run import target_of

        target, _ = target_of(result)
        check_witness(
            pair,
            points,
            *(band := _band(noise, level)),
            seen=places is not None or target.landmarks is not None,
            kernel=target.kernel,
            measure=target.measure,
        )
        check_samples(result, pair)
        notes = list(pair.notes)
        result, unknown = _weigh_and_save(result, None, terminal)
        terminal.notes(notes)
        diagnosis, summary, rounded = _diagnose_and_print(result, terminal, verbose=verbose)
        found, files, missing = _witness_and_save(
            result,
            diagnosis,
            pair,
            points,
            band,
            weights="chains" if unknown else "posterior",
            landmarks=places,
            seed=seed,
            folder=folder,
            terminal=terminal,
        )
        output = {"command": "witness", **summary, **found}
        finish(output, files, folder, [*notes, *unknown, *rounded, *missing], terminal)


def compare_pair(pair: Pair, terminal: Terminal, *, verbose: bool, **options: Any) -> Comparison:
    """Compare two samples with options of :func:`~bke.inference.compare`, and say what it found."""
    many = len(pair.P) + len(pair.Q) > MANY_ROWS
    with terminal.step("compare", "comparing the samples", spinner=not many):
        from bke.inference import compare

        bar = terminal.progress and many
        shown: dict[str, Any] = {"columns": pair.columns, "names": pair.names, "progress": bar}
        found = compare(pair.P, pair.Q, **shown, **options)
    terminal.say(str(found) if verbose else f"{found.headline}.")
    return found


def fit_and_save(
    samples: Any, columns: Sequence[str] | None, path: Path, terminal: Terminal, **options: Any
) -> xr.DataTree:
    """Sample the posterior with options of :func:`~bke.inference.fit`, and save the run at once."""
    with terminal.step("fit", "fit", spinner=False):
        from bke.inference import fit as fitted, save_run

        names = None if columns is None else list(columns)
        run = fitted(samples, columns=names, progress=terminal.progress, **options)
        save_run(run, path)
    return run


def _load(path: Path, modules: Sequence[str] | None, terminal: Terminal) -> xr.DataTree:
    with terminal.step("load", "reading the run"):
        from bke.inference import load_run

        return load_run(path, modules=modules or ())


def _weigh_and_save(
    run: xr.DataTree, path: Path | None, terminal: Terminal
) -> tuple[xr.DataTree, list[str]]:
    """The run with the posterior mass of its modes, or a note why they cannot be weighed."""
    with terminal.step("weigh", "weighing the modes", spinner=False):
        from bke.inference import SamplingError, find_modes, reweight, save_run

        from ...diagnostics.modes import draw_weights, unconstrained_draws
        from ...sampling.samplers import MOST_EVALUATIONS

        # One mode of many hyperparameters: bridge sampling would give it all the mass.
        many = unconstrained_draws(run).shape[-1] not in MOST_EVALUATIONS
        if many and len(find_modes(run).modes) == 1:
            return run, []
        weighed, notes = run, []
        try:
            weighed = reweight(run, progress=terminal.progress)
            draw_weights(weighed, find_modes(weighed))
        except (InputError, SamplingError) as error:
            notes = [f"Draws are not weighted by posterior mass: {error}."]
            terminal.notes(notes)
        if path is not None and weighed is not run:
            save_run(weighed, path)
    return weighed, notes


def _diagnose_and_print(
    run: xr.DataTree, terminal: Terminal, *, verbose: bool, as_figure5: bool = False
) -> tuple[Diagnosis, dict[str, Any], list[str]]:
    """Diagnose a run and print the result.

    Args:
        run: the run.
        terminal: where it is printed.
        verbose: whether to print the whole diagnosis.
        as_figure5: whether to name the modes as in BKE Figure 5.

    Returns:
        The diagnosis, the summary of the run, and notes on what was done to the data.
    """
    with terminal.step("diagnose", "looking for modes"):
        from bke.inference import diagnose as diagnosed

        from ...diagnostics.summary import (
            brief_diagnosis,
            mode_names,
            rounding_notes,
            run_summary,
            zeros_of_density,
        )

        diagnosis = diagnosed(run)
        summary, notes = run_summary(run, diagnosis), rounding_notes(run)
        scalar_chains = "profile" in run.children and not diagnosis.independent
        zeros = zeros_of_density(run, diagnosis.modes) if scalar_chains and not verbose else []
    terminal.notes(notes)
    if verbose:
        lines = str(diagnosis).splitlines()
    else:
        names = mode_names(diagnosis.modes, as_figure5=as_figure5)
        lines = brief_diagnosis(diagnosis, summary, names, zeros)
    terminal.lines(lines, warning=diagnosis.multimodal)
    return diagnosis, summary, notes


def _witness_and_save(
    run: xr.DataTree,
    diagnosis: Diagnosis,
    pair: Pair,
    points: np.ndarray | None,
    band: tuple[str | float, float],
    *,
    weights: str,
    landmarks: int | np.ndarray | None = None,
    seed: int,
    folder: Path,
    terminal: Terminal,
    more: Pictures = (),
    as_figure5: bool = False,
) -> tuple[dict[str, Any], dict[str, Path], list[str]]:
    """Draw the witness, save it, print its extremes, and draw the pictures.

    Args:
        run: what was fitted.
        diagnosis: of the run.
        pair: the two samples.
        points: where, (k, D), if not by default.
        band: its noise and probability.
        weights: ``"posterior"`` or ``"chains"``, if the masses of the modes are not known.
        landmarks: what the embeddings are conditioned on, if not on all rows.
        seed: of the draws.
        folder: of the files.
        terminal: where it is printed.
        more: pictures beside those of the samples and the witness.
        as_figure5: whether to name modes and panels as in BKE Figure 5, and to draw the densities
            of its data.

    Returns:
        What was found, the files, and notes.
    """
    noise, level = band
    with terminal.step("witness", "drawing the witness", spinner=False):
        from bke.inference import sample_witness

        from ...core.netcdf import write_tree
        from ...diagnostics.summary import mode_names
        from ...witness.summary import brief_witness, witness_summary

        drawn = sample_witness(
            run,
            pair.labelled(pair.P),
            pair.labelled(pair.Q),
            None if points is None else pair.labelled(points),
            noise=noise,
            weights=weights,
            landmarks=pair.labelled(landmarks) if isinstance(landmarks, np.ndarray) else landmarks,
            seed=seed,
            progress=terminal.progress,
        )
        write_tree(drawn, folder / WITNESS)
        summary = witness_summary(drawn, diagnosis.modes, level)
    names = mode_names(diagnosis.modes, as_figure5=as_figure5)
    terminal.lines(brief_witness(summary, names, pair.names))
    files, missing = draw_pictures(
        folder,
        lambda: [*more, *_pair_pictures(run, drawn, pair, level, as_figure5=as_figure5)],
        terminal,
    )
    found = {"witness": {"sources": pair.sources, **summary}}
    notes = [drawn.attrs["note"]] if "note" in drawn.attrs else []
    return found, {"witness": folder / WITNESS, **files}, [*notes, *missing]


def _run_pictures(run: xr.DataTree) -> Pictures:
    from bke.inference import plot_profile, plot_rank, plot_trace

    from ...sampling.samplers import is_independent

    pictures: list[tuple[str, Callable[[], Figure]]] = []
    if not is_independent(run.attrs):  # such draws are in no order
        pictures = [("trace", lambda: plot_trace(run)), ("rank", lambda: plot_rank(run))]
    if "profile" in run.children:  # with several hyperparameters there is none
        pictures.append(("profile", lambda: plot_profile(run)))
    return pictures


def _pair_pictures(
    run: xr.DataTree, witness: xr.DataTree, pair: Pair, level: float, *, as_figure5: bool
) -> Pictures:
    """Pictures of the samples and of the witness; ``as_figure5``: of BKE Figures 3 and 5."""
    from bke.inference import normal_laplace_density, plot_samples, plot_witness

    shown: dict[str, Any] = {
        "P": pair.labelled(pair.P),
        "Q": pair.labelled(pair.Q),
        "names": pair.names,
        "run": run,
    }
    densities = normal_laplace_density if as_figure5 else None
    named: dict[str, Any] = {"columns": pair.columns, "names": pair.names}
    return [
        ("samples", lambda: plot_samples(pair.P, pair.Q, densities=densities, **named)),
        ("witness", lambda: plot_witness(witness, level, as_figure5=as_figure5, **shown)),
    ]


def _write_page(
    path: Path | None,
    summary: dict[str, Any],
    diagnosis: Diagnosis,
    files: dict[str, Path],
    title: str,
    notes: Sequence[str],
    terminal: Terminal,
    answer: str | None = None,
) -> dict[str, Path]:
    """Write the report as a page if there is a path for it, and return its file by its name."""
    if path is None:
        return {}
    with terminal.step("page", "writing the page"):
        from ...diagnostics.page import run_page

        drawn = {
            name.removesuffix(PICTURE): file
            for name, file in files.items()
            if name.endswith(PICTURE)
        }
        page = run_page(summary, str(diagnosis), drawn, title=title, answer=answer, notes=notes)
        write_text(path, page)
    return {"page": path}
