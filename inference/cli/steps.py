"""The steps that commands are made of: compare, fit, diagnose, witness, tables, summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core.atomic import atomic_path, write_text
from ..core.drafts import in_place
from ..core.errors import InputError
from .inputs import Pair
from .options.testing import TEST_FILES
from .options.witness import WitnessOptions
from .terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr
    from bke.inference import Comparison, Diagnosis, Rows, TestResult
    from matplotlib.figure import Figure

DPI = 150
RUN, WITNESS, SUMMARY = "run.nc", "witness.nc", "summary.json"
#: Not the run's summary, which says more and stays.
DIAGNOSIS = "diagnosis.json"
#: How the files of pictures are called among all.
PICTURE = "_picture"
#: What each command writes.
RUN_PICTURES = ("trace.png", "rank.png", "profile.png")
DIAGNOSE_FILES = (*RUN_PICTURES, DIAGNOSIS)
WITNESS_FILES = (WITNESS, "samples.png", "witness.png", SUMMARY)
RUN_FILES = (RUN, "comparison.png", *RUN_PICTURES, *WITNESS_FILES)

#: Rows of which a comparison takes long enough for a bar.
MANY_ROWS = 20_000
#: Rows of a table that are printed where there is no folder.
MOST_PRINTED = 20

Summary: TypeAlias = dict[str, Any]
Pictures: TypeAlias = "Sequence[tuple[str, Callable[[], Figure]]]"


def compared(pair: Pair, terminal: Terminal, **options: Any) -> Comparison:
    """Compare two samples with options of :func:`~bke.inference.compare`, and say what it found."""
    many = len(pair.P) + len(pair.Q) > MANY_ROWS
    with terminal.step("compare", "comparing the samples", spinner=not many):
        from bke.inference import compare

        bar = terminal.progress and many
        shown: dict[str, Any] = {"columns": pair.columns, "names": pair.names, "progress": bar}
        found = compare(pair.P, pair.Q, **shown, **options)
    terminal.say(str(found) if terminal.verbose else f"{found.headline}.")
    return found


def fit_and_save(
    samples: tuple[np.ndarray, ...] | tuple[Rows],
    columns: Sequence[str],
    options: Mapping[str, Any],
    path: Path | None,
    terminal: Terminal,
) -> xr.DataTree:
    """Sample the posterior, with progress, and save the run at once, if there is a ``path``.

    Args:
        samples: one, or several that have a likelihood each; or rows of a file.
        columns: their names.
        options: of :func:`~bke.inference.fit`.
        path: of the run.
        terminal: where progress is shown.
    """
    with terminal.step("fit", "fit", spinner=False):
        from bke.inference import fit, save_run

        run = fit(
            samples if len(samples) > 1 else samples[0],
            # Rows of a file have names of their own.
            columns=list(columns) if isinstance(samples[0], np.ndarray) else None,
            progress=terminal.progress,
            **options,
        )
        if path is not None:
            save_run(run, path)
    return run


def load(path: Path, modules: Sequence[str] | None, terminal: Terminal) -> xr.DataTree:
    """A run made earlier, with the modules that were asked for."""
    with terminal.step("load", "reading the run"):
        from bke.inference import load_run

        return load_run(path, modules=modules or ())


def weigh_and_save(
    run: xr.DataTree, path: Path | None, terminal: Terminal
) -> tuple[xr.DataTree, list[str]]:
    """The run with the posterior mass of its modes, or a note why they cannot be weighed."""
    with terminal.step("weigh", "weighing the modes", spinner=False):
        from bke.inference import SamplingError, find_modes, reweight, save_run

        from ..diagnostics.modes import draw_weights, unconstrained_draws
        from ..sampling.samplers import MOST_EVALUATIONS

        # One mode of many hyperparameters: bridge sampling would give it all the mass.
        many = unconstrained_draws(run).shape[-1] not in MOST_EVALUATIONS
        if many and len(find_modes(run).modes) == 1:
            return run, []
        weighed = run
        try:
            weighed = reweight(run, progress=terminal.progress)
            draw_weights(weighed, find_modes(weighed))
        except (InputError, SamplingError) as error:
            notes = [f"Draws are not weighted by posterior mass: {error}."]
            terminal.notes(notes)
        else:
            notes = []
        if path is not None and weighed is not run:
            save_run(weighed, path)
    return weighed, notes


def diagnose_and_print(
    run: xr.DataTree, terminal: Terminal, *, as_figure5: bool = False
) -> tuple[Diagnosis, Summary, list[str]]:
    """Diagnose a run and print the result.

    Returns the diagnosis, the summary of the run, and notes on what was done to the data.
    ``as_figure5``: name the modes as in BKE Figure 5.
    """
    with terminal.step("diagnose", "looking for modes"):
        from bke.inference import diagnose

        from ..diagnostics.summary import rounding_notes, run_summary

        diagnosis = diagnose(run)
        summary = run_summary(run, diagnosis)
        notes = rounding_notes(run)
    if not terminal.verbose:
        from ..diagnostics.summary import brief_diagnosis, mode_names, zeros_of_density

        names = mode_names(diagnosis.modes, as_figure5=as_figure5)
        scalar_chains = "profile" in run.children and not diagnosis.independent
        zeros = zeros_of_density(run, diagnosis.modes) if scalar_chains else []
        terminal.notes(notes)
        lines = brief_diagnosis(diagnosis, summary, names, zeros)
        terminal.lines(lines, warning=diagnosis.multimodal)
        return diagnosis, summary, notes
    terminal.settings(summary["settings"])
    terminal.notes(notes)
    terminal.diagnosis(str(diagnosis), summary["diagnosis"])
    by_mass = diagnosis.modes.has_masses and not diagnosis.independent
    terminal.posterior(summary["posterior"], by_mass=by_mass)
    return diagnosis, summary, notes


def witness_and_save(
    run: xr.DataTree,
    diagnosis: Diagnosis,
    pair: Pair,
    points: np.ndarray | None,
    options: WitnessOptions,
    *,
    weighed: bool,
    landmarks: int | np.ndarray | None = None,
    seed: int,
    folder: Path,
    terminal: Terminal,
    more: Pictures = (),
    as_figure5: bool = False,
) -> tuple[Summary, dict[str, Path], list[str]]:
    """Draw the witness, save it, say its extremes; then the pictures.

    Args:
        run: what was fitted.
        diagnosis: of the run.
        pair: the two samples.
        points: where, (k, D), if not by default.
        options: noise, band and weights.
        weighed: whether the masses of the modes are known; if not, chains count.
        landmarks: what the embeddings are conditioned on, if not on all rows.
        seed: of the draws.
        folder: of the files.
        terminal: where it is said.
        more: pictures beside those of the samples and the witness.
        as_figure5: name modes and panels as in BKE Figure 5, and draw the densities of its data.

    Returns:
        What was found, the files, and notes: on samples that are not those of the run, and on each
        picture that could not be drawn.
    """
    with terminal.step("witness", "drawing the witness", spinner=False):
        from bke.inference import sample_witness

        from ..core.netcdf import write_tree
        from ..witness.summary import witness_summary

        witness = sample_witness(
            run,
            pair.labelled(pair.P),
            pair.labelled(pair.Q),
            None if points is None else pair.labelled(points),
            noise=options.band.noise_argument,
            weights=options.weights if weighed else "chains",
            landmarks=pair.labelled(landmarks) if isinstance(landmarks, np.ndarray) else landmarks,
            thin=options.thin_argument,
            seed=seed,
            progress=terminal.progress,
        )
        write_tree(witness, folder / WITNESS)
        summary = witness_summary(witness, diagnosis.modes, options.band.level)
    if terminal.verbose:
        terminal.witness(summary, pair.names)
    else:
        from ..diagnostics.summary import mode_names
        from ..witness.summary import brief_witness

        names = mode_names(diagnosis.modes, as_figure5=as_figure5)
        terminal.lines(brief_witness(summary, names, pair.names))
    level = options.band.level
    files, missing = draw_pictures(
        folder,
        lambda: [*more, *pair_pictures(run, witness, pair, level, as_figure5=as_figure5)],
        terminal,
    )
    found = {"witness": {"sources": pair.sources, **summary}}
    notes = [witness.attrs["note"]] if "note" in witness.attrs else []
    return found, {"witness": folder / WITNESS, **files}, [*notes, *missing]


def draw_pictures(
    folder: Path | None,
    pictures: Callable[[], Pictures],
    terminal: Terminal,
) -> tuple[dict[str, Path], list[str]]:
    """Save pictures as PNG, if there is a folder for them.

    Returns the files and a note for each that cannot be drawn.
    """
    files: dict[str, Path] = {}
    notes: list[str] = []
    if folder is None:
        return files, notes
    with terminal.step("pictures", "drawing the pictures"):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as plt

        for name, draw in pictures():
            path = folder / f"{name}.png"
            try:
                figure = draw()
            except InputError as error:  # the function says for which data it is not meant
                notes.append(f"{path.name} was not drawn: {error}.")
                path.unlink(missing_ok=True)  # of an earlier run
                continue
            try:
                with atomic_path(path) as temporary:
                    figure.savefig(temporary, dpi=DPI)
            finally:
                plt.close(figure)
            files[f"{name}{PICTURE}"] = path
    terminal.notes(notes)
    return files, notes


def run_pictures(run: xr.DataTree) -> Pictures:
    """Pictures of the run itself."""
    from bke.inference import plot_profile, plot_rank, plot_trace

    from ..sampling.samplers import is_independent

    pictures: Pictures = []
    if not is_independent(run.attrs):  # such draws are in no order
        pictures = [
            ("trace", lambda: plot_trace(run)),
            ("rank", lambda: plot_rank(run)),
        ]
    if "profile" in run.children:  # with several hyperparameters there is none
        pictures = [*pictures, ("profile", lambda: plot_profile(run))]
    return pictures


def pair_pictures(
    run: xr.DataTree, witness: xr.DataTree, pair: Pair, level: float, *, as_figure5: bool = False
) -> Pictures:
    """Return pictures of the samples and of the witness; ``as_figure5``: of BKE Figures 3 and 5."""
    from bke.inference import normal_laplace_density, plot_samples, plot_witness

    P, Q = pair.labelled(pair.P), pair.labelled(pair.Q)
    shown: dict[str, Any] = {"P": P, "Q": Q, "names": pair.names, "run": run}
    densities = normal_laplace_density if as_figure5 else None
    named: dict[str, Any] = {"columns": pair.columns, "names": pair.names}
    return [
        ("samples", lambda: plot_samples(pair.P, pair.Q, densities=densities, **named)),
        ("witness", lambda: plot_witness(witness, level, as_figure5=as_figure5, **shown)),
    ]


def write_page(
    path: Path | None,
    summary: Summary,
    diagnosis: Diagnosis,
    files: Mapping[str, Path],
    terminal: Terminal,
    **told: Any,
) -> dict[str, Path]:
    """Write the report as a page, if there is a path for it.

    Args:
        path: of the page.
        summary: of the run.
        diagnosis: of the run.
        files: among which are the pictures.
        terminal: where progress is shown.
        **told: of :func:`~bke.inference.diagnostics.page.run_page`.

    Returns:
        the page's file, or none.
    """
    if path is None:
        return {}
    with terminal.step("page", "writing the page"):
        from ..diagnostics.page import run_page

        drawn = {
            name.removesuffix(PICTURE): file
            for name, file in files.items()
            if name.endswith(PICTURE)
        }
        write_text(path, run_page(summary, str(diagnosis), drawn, **told))
    return {"page": path}


def summary_in(folder: Path | None, name: str = SUMMARY) -> Path | None:
    """Where the summary goes, if anywhere."""
    return None if folder is None else folder / name


def finish(
    findings: Summary,
    files: Mapping[str, Path],
    path: Path | None,
    notes: Sequence[str],
    terminal: Terminal,
) -> None:
    """Write the summary to ``path``, if any, and print what was done."""
    written = {name: str(in_place(file)) for name, file in files.items()}
    if path is not None:
        written["summary"] = str(in_place(path))
    timings = terminal.all_timings()
    summary = {**findings, "notes": list(notes), "files": written, "timings": timings}
    if path is not None:
        from ..core.render import to_json

        write_text(path, to_json(summary) + "\n")
    terminal.files(written, timings)
    terminal.finish(summary)


def finish_test(
    result: TestResult,
    witness: Callable[[], Figure],
    told: dict[str, Any],
    notes: list[str],
    out: Path | None,
    terminal: Terminal,
) -> None:
    """Print, draw, write.

    Args:
        result: of the test.
        witness: draws the picture of where the samples differ, or the dependence is.
        told: of the command and its input, for the summary.
        notes: for the summary, printed before.
        out: folder of the files, if any.
        terminal: where it is printed.
    """
    terminal.say(str(result))
    files, missing = draw_pictures(
        out, lambda: [("test", result.plot), ("witness", witness)], terminal
    )
    finish(
        {**told, **result.to_dict()},
        files,
        summary_in(out, TEST_FILES[-1]),
        [*notes, *result.notes, *missing],
        terminal,
    )


def write_table(
    folder: Path | None, name: str, header: list[str], table: np.ndarray, terminal: Terminal
) -> dict[str, Path]:
    """The table as CSV in ``folder``, or printed."""
    import pandas as pd

    frame = pd.DataFrame(table, columns=header)
    if folder is None:
        terminal.say(frame.head(MOST_PRINTED).to_string(index=False))
        if len(frame) > MOST_PRINTED:
            terminal.say(f"and {len(frame) - MOST_PRINTED} more rows, which --out writes")
        return {}
    path = folder / name
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False)
    return {"table": path}
