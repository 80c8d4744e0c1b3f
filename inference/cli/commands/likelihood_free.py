"""``bke abc``: approximate Bayesian computation from a file with a simulator."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from ..command import command
from ..interrupt import terminable
from ..model_file import check_model, imported, prints_apart
from ..options.data import FILE_KINDS, ColumnOptions
from ..options.output import optional_folder
from ..options.sampler import SeedOptions
from ..options.simulations import DistanceOptions, SimulationOptions
from ..tables import write_table
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr

    from ..steps import Pictures

RUN, TABLE, SUMMARY = "run.nc", "posterior.csv", "summary.json"
FILES = (RUN, TABLE, "posterior.png", "ess.png", "stages.png", SUMMARY)


@command("Example: `bke abc model.py counts.csv --simulations 20000 --out result`", name="abc")
def approximate(
    terminal: Terminal,
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A Python file with prior and simulate, as above.",
            show_default=False,
        ),
    ],
    observed: Annotated[
        Path,
        typer.Argument(
            metavar="OBSERVED",
            help=f"The observed data, one row each: {FILE_KINDS}.",
            show_default=False,
        ),
    ],
    *,
    columns: ColumnOptions,
    simulations: SimulationOptions,
    distance: DistanceOptions,
    seeds: SeedOptions,
    out: Annotated[
        Path | None,
        optional_folder(f"{RUN}, {TABLE} (draws with their weights), pictures and {SUMMARY}"),
    ] = None,
) -> None:
    """Posterior of a simulator's parameters, without a likelihood or summary statistics: K2-ABC.

    Parameters are drawn from the prior, a data set is simulated for each, and weighted by how near
    its distribution is to that of the observed rows (MMD). MODEL is a Python file such as

        import numpyro.distributions as dist

        prior = {"rate": dist.LogNormal(0.0, 1.0), "size": dist.Gamma(2.0, 1.0)}

        def simulate(rng, theta):
            return rng.gamma(theta["size"], 1.0 / theta["rate"], size=100)

    MODEL is run as it is, with all that it may do: run no file that you do not trust. For speed,
    `@bke.inference.vectorize` before `simulate` says that it takes arrays (B,) of parameters to B
    data sets, and `@bke.inference.jax_simulator` that it is of a JAX key and can be compiled.
    """
    names = columns.names
    from .. import inputs, outputs, steps

    table = inputs.read_sample(observed, columns=names)
    check_model(model)
    checkpoint = simulations.checkpoint
    written = outputs.output_folder(
        out, FILES, command="abc", read=[model, observed], checkpoint=checkpoint
    )
    with written as folder, terminable(checkpoint is not None):
        run = _simulated(model, table.values, simulations, distance, seeds.seed, terminal, folder)
        from ...likelihood_free.results import run_notes
        from ...report.likelihood_free import abc_summary, abc_text

        terminal.say(abc_text(run))
        notes = run_notes(run)
        terminal.notes(notes)
        files = _written(run, folder, terminal)
        drawn, missing = steps.draw_pictures(
            folder, lambda: _pictures(run, simulations.sequential), terminal
        )
        told = {
            "command": "abc",
            "model": str(model),
            "observed": str(observed),
            "rows": len(table.values),
            "columns": list(table.columns),
            **abc_summary(run),
        }
        notes = [*notes, *missing]
        steps.finish(told, {**files, **drawn}, steps.summary_in(folder), notes, terminal)


def _simulated(
    model: Path,
    values: np.ndarray,
    simulations: SimulationOptions,
    distance: DistanceOptions,
    seed: int,
    terminal: Terminal,
    out: Path | None,
) -> xr.DataTree:
    """The run, saved at once if there is a folder."""
    with (
        terminal.step("simulate", "simulating", spinner=False),
        prints_apart(),
        imported(model) as (prior, simulate),
        warnings.catch_warnings(),
    ):
        from bke.inference import k2_abc, save_run, sequential_k2_abc

        from ...core.errors import PosteriorWarning

        warnings.simplefilter("ignore", PosteriorWarning)  # told as notes
        method = sequential_k2_abc if simulations.sequential else k2_abc
        run = method(
            values,
            simulate,
            prior,
            seed=seed,
            progress=terminal.progress,
            **simulations.arguments(),
            **distance.arguments(),
        )
        if out is not None:
            save_run(run, out / RUN)
    return run


def _written(run: xr.DataTree, folder: Path | None, terminal: Terminal) -> dict[str, Path]:
    """The files of draws, if there is a folder: the run, saved before, and its table."""
    if folder is None:
        return {}
    from ...report.likelihood_free import weighted_draws

    return {"run": folder / RUN, **write_table(folder, TABLE, *weighted_draws(run), terminal)}


def _pictures(run: xr.DataTree, sequential: bool) -> Pictures:
    from bke.inference import plot_abc, plot_ess, plot_stages

    name, draw = ("stages", plot_stages) if sequential else ("ess", plot_ess)
    return [("posterior", lambda: plot_abc(run)), (name, lambda: draw(run))]
