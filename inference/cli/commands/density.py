"""``bke density``: how likely are rows, by a kernel Student-t density?"""

from __future__ import annotations

import dataclasses
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ...learning import SampleKernel
from ..command import command
from ..options.data import ColumnOptions, RowsArgument, rows_option
from ..options.model import StandardizeName, distance_standardize, standardize_argument
from ..options.output import PRINTED, optional_folder
from ..options.panels import LEARNED, SAMPLER
from ..options.sampler import SeedOption
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr
    from bke.inference import LearnedStudentT

    from ...io.samples import Sample
    from ..steps import Pictures

TABLE, DRAWS, RUN = "density.csv", "draws.csv", "run.nc"
PICTURE, SUMMARY = "picture.png", "summary.json"
#: Typicality from which on rows are told, the least typical first, and how many one by one.
UNLIKE, MOST_TOLD = 0.05, 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class KernelOptions:
    """How the kernel is chosen."""

    kernel: Annotated[
        SampleKernel,
        typer.Option(
            "--kernel",
            rich_help_panel=LEARNED,
            help="Lengthscale of the kernel: bkl learns it by the marginal likelihood, which takes "
            "seconds to a minute; median is the median distance, at once.",
        ),
    ] = "median"
    standardize: Annotated[StandardizeName, distance_standardize(LEARNED)] = "column"
    seed: SeedOption = 0

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of what learns a density."""
        return {
            "kernel": self.kernel,
            "standardize": standardize_argument(self.standardize),
            "seed": self.seed,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class DensityOptions:
    """What is asked for besides the densities."""

    draws: Annotated[
        int,
        typer.Option("--draws", min=0, rich_help_panel=SAMPLER, help="New rows to draw, by NUTS."),
    ] = 0
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior",
            rich_help_panel=LEARNED,
            help="The posterior of the hyperparameters by NUTS instead of the best of a grid (one "
            "or two columns; minutes from some hundred rows on).",
        ),
    ] = False


@command("Example: `bke density usual.csv --at new.csv --out result`")
def density(
    terminal: Terminal,
    path: RowsArgument,
    *,
    columns: ColumnOptions,
    at: Annotated[
        Path | None,
        rows_option("Rows to give a density and a typicality to. Default: the rows of FILE."),
    ] = None,
    wanted: DensityOptions,
    options: KernelOptions,
    out: Annotated[
        Path | None,
        optional_folder(
            f"{TABLE}, a picture (of one or two columns), {SUMMARY}, {DRAWS} (--draws) and {RUN} "
            "(--posterior)",
            PRINTED,
        ),
    ] = None,
) -> None:
    """How likely are rows, and which are unlike the others? The kernel Student-t density.

    Typicality is the share of rows of FILE that are less likely given the others than a row of --at
    is: near 0 for what is unlike all of them, at least 1/(n + 1). Without --at it is that of the
    rows of FILE, each given the others; their log density is given all of them. In one or two
    columns the density is normalised on a box of twice the range of the rows and 0 outside, in more
    it is known up to a constant. Thousands of rows in three columns or more take minutes.
    """
    names = columns.names
    from .. import inputs, outputs, steps

    table = inputs.checked(inputs.read_sample(path, columns=names))
    places = table if at is None else inputs.read_sample(at, columns=list(table.columns))
    files = [TABLE, PICTURE, SUMMARY, *[DRAWS] * (wanted.draws > 0), *[RUN] * wanted.posterior]
    with outputs.output_folder(out, files, command="density", read=[path, at]) as folder:
        learned, run = _learned(table.values, wanted, options, terminal)
        log_density, typicality, notes = _densities(learned, run, places.values, among=at is None)
        terminal.say(_least_typical(typicality, places, (at or path).name))
        header = [*table.columns, "log_density", "typicality"]
        content = np.column_stack([places.values, log_density, typicality])
        written = steps.write_table(folder, TABLE, header, content, terminal)
        drawn = None
        if wanted.draws:
            drawn, remarks = _drawn(learned, wanted.draws, options.seed, terminal)
            notes += remarks
            made = steps.write_table(folder, DRAWS, list(table.columns), drawn, terminal)
            if made:
                written["draws"] = made["table"]
        if run is not None and folder is not None:
            written["run"] = _kept(run, folder / RUN)
        terminal.notes(notes)
        shown = learned if run is None else run
        pictured, missing = steps.draw_pictures(
            folder, lambda: _pictures(shown, drawn, table.columns), terminal
        )
        told = {
            "command": "density",
            "source": str(path),
            "rows": len(table.values),
            "columns": list(table.columns),
            **_summary(learned, run, log_density, typicality),
        }
        notes = [*notes, *missing]
        steps.finish(told, {**written, **pictured}, steps.summary_in(folder), notes, terminal)


def _learned(
    values: np.ndarray, wanted: DensityOptions, options: KernelOptions, terminal: Terminal
) -> tuple[LearnedStudentT, xr.DataTree | None]:
    """The density, and the posterior of its hyperparameters if that was asked for; both printed."""
    run = None
    with terminal.step("learn", "learning the density"):
        from bke.inference import learn_student_t, student_t_posterior

        from ...core.errors import PosteriorWarning

        how = {**options.arguments(), "progress": terminal.progress}
        learned = learn_student_t(values, **how)
        if wanted.posterior:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PosteriorWarning)  # printed as notes
                run = student_t_posterior(values, **how)
    terminal.say(str(learned))
    if run is not None:
        for name, one in run["posterior"].data_vars.items():
            terminal.say(f"  {name}: {float(one.mean()):.4g} ± {float(one.std()):.2g}")
    return learned, run


def _kept(run: xr.DataTree, path: Path) -> Path:
    from ...core.netcdf import write_tree

    write_tree(run, path)
    return path


def _least_typical(typicality: np.ndarray, places: Sample, source: str) -> str:
    """Which rows are unlike the others, the least typical first."""
    unlike = np.flatnonzero(typicality <= UNLIKE)
    lines = [
        f"{len(unlike)} of {len(typicality)} rows of {source} have a typicality of at most "
        f"{UNLIKE:g}{': the least typical are' if len(unlike) else '.'}"
    ]
    for row in unlike[np.argsort(typicality[unlike], kind="stable")][:MOST_TOLD]:
        cells = zip(places.columns, places.values[row], strict=True)
        told = ", ".join(f"{name} {value:.6g}" for name, value in cells)
        lines.append(f"  row {row + 1} ({told}): {typicality[row]:.2g}")
    return "\n".join(lines)


def _drawn(
    learned: LearnedStudentT, count: int, seed: int, terminal: Terminal
) -> tuple[np.ndarray, list[str]]:
    with terminal.step("draws", "drawing rows"):
        from ...student_t.sampling import draw_rows

        return draw_rows(learned, count, seed=seed, progress=terminal.progress)


def _pictures(
    shown: LearnedStudentT | xr.DataTree, drawn: np.ndarray | None, columns: tuple[str, ...]
) -> Pictures:
    """Of one or two columns."""
    if len(columns) > 2:
        return []
    from ...plots.density import plot_student_t

    return [("picture", lambda: plot_student_t(shown, draws=drawn, names=columns))]


def _densities(
    learned: LearnedStudentT, run: xr.DataTree | None, rows: np.ndarray, *, among: bool
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Log density and typicality of rows (m, D), (m,) each, and notes on them.

    Args:
        learned: the density.
        run: posterior of its hyperparameters, over which it is averaged then.
        rows: in the units of the data.
        among: they are the rows that it was learned from, each compared with the others.
    """
    log_density = learned.log_density(rows)
    notes = []
    if run is not None:
        from ...student_t.sampling import student_t_predictive

        notes = json.loads(run.attrs["notes"])
        with np.errstate(divide="ignore"):
            log_density = np.log(student_t_predictive(run, rows).mean(axis=0))
    typicality = learned.typicality(None if among else rows)
    return log_density, typicality, [*notes, *_outside(learned, rows)]


def _outside(learned: LearnedStudentT, rows: np.ndarray) -> list[str]:
    """How many rows have no density, in a sentence."""
    found = learned.normalizer
    outside = 0 if found is None else int(np.sum(~found.contains(rows)))
    if found is None or not outside:
        return []
    ends = zip(found.low, found.high, strict=True)
    box = " x ".join(f"[{low:.4g}, {high:.4g}]" for low, high in ends)
    return [f"{outside} row(s) are outside the box {box}: their density is 0."]


def _summary(
    learned: LearnedStudentT,
    run: xr.DataTree | None,
    log_density: np.ndarray,
    typicality: np.ndarray,
) -> dict[str, Any]:
    """Parameters of the density, and what it says of the rows."""
    from ...learning.kernel_selection import format_kernel

    density = learned.density
    told: dict[str, Any] = {"kernel": format_kernel(density.kernel)}
    told |= {name: float(getattr(density, name)) for name in ("noise_variance", "alpha", "beta")}
    told["normalised"] = learned.normalizer is not None
    told["log_density"] = [None if np.isneginf(one) else float(one) for one in log_density]
    told["typicality"] = typicality.tolist()
    if run is not None:
        told["posterior"] = {
            str(name): {"mean": float(one.mean()), "sd": float(one.std())}
            for name, one in run["posterior"].data_vars.items()
        }
    return told
