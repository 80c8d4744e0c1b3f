"""Approximate Bayesian computation from a file with a simulator, ``bke abc``."""

from __future__ import annotations

import contextlib
import enum
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import InputError
from . import options as opt, words
from .app import FILE_KINDS, app
from .interrupt import terminable
from .operators import LEARNED, KernelChoice
from .terminal import Terminal, exit_codes

if TYPE_CHECKING:
    import xarray as xr

SIMULATIONS = "Simulations"
RUN, SUMMARY, TABLE = "run.nc", "summary.json", "posterior.csv"
FILES = (RUN, TABLE, "posterior.png", "ess.png", "stages.png", SUMMARY)


class EstimatorChoice(enum.StrEnum):
    """Estimators of the squared MMD."""

    biased = "biased"
    unbiased = "unbiased"
    linear = "linear"
    features = "features"


@app.command(
    name="abc",
    epilog="Example: `bke abc model.py counts.csv --simulations 20000 --out result`",
)
def approximate(
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
    columns: opt.ColumnsOption = None,
    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="E,E,...",
            rich_help_panel=SIMULATIONS,
            help="Bandwidths, in units of the squared MMD; with --sequential one, where to stop. "
            "Default: chosen from the simulated distances.",
            show_default=False,
        ),
    ] = None,
    simulations: Annotated[
        int | None,
        typer.Option(
            "--simulations",
            rich_help_panel=SIMULATIONS,
            help="How many; with --sequential at most.",
            show_default="10000, with --sequential 50000",
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            rich_help_panel=SIMULATIONS,
            help="Rows of every simulated data set.",
            show_default="as many as are observed",
        ),
    ] = None,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            rich_help_panel=SIMULATIONS,
            help="Sequential Monte Carlo over falling epsilon: reaches smaller ones.",
        ),
    ] = False,
    particles: Annotated[
        int,
        typer.Option("--particles", rich_help_panel=SIMULATIONS, help="Of --sequential."),
    ] = 1000,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            rich_help_panel=SIMULATIONS,
            help="Processes, for a plain function that simulates one data set at a time.",
        ),
    ] = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            rich_help_panel=SIMULATIONS,
            help="Folder in which simulations are kept: after an interruption the same command "
            "goes on from there.",
        ),
    ] = None,
    kernel: Annotated[
        KernelChoice,
        typer.Option(
            "--kernel",
            rich_help_panel=LEARNED,
            help="Lengthscale of the MMD's kernel, from the observed data alone: median is the "
            "median distance, at once; bkl learns it by the marginal likelihood.",
        ),
    ] = KernelChoice.median,
    scale: Annotated[
        opt.ScaleName,
        typer.Option(
            "--scale",
            rich_help_panel=LEARNED,
            help="Divide each column by its standard deviation before distances are taken.",
        ),
    ] = opt.ScaleName.column,
    estimator: Annotated[
        EstimatorChoice,
        typer.Option(
            "--estimator",
            rich_help_panel=LEARNED,
            help="Of the squared MMD: features and linear take a time linear in the rows.",
        ),
    ] = EstimatorChoice.biased,
    features: Annotated[
        int,
        typer.Option("--features", rich_help_panel=LEARNED, help="Of --estimator features."),
    ] = 500,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            rich_help_panel=opt.OUTPUT,
            help="Folder for run.nc, posterior.csv (draws with their weights), pictures and "
            "summary.json. Default: no files.",
        ),
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Posterior of a simulator's parameters, without a likelihood or summary statistics: K2-ABC.

    Parameters are drawn from the prior, a data set is simulated for each, and weighted by how near
    its distribution is to that of the observed rows (MMD). MODEL is a Python file such as

        import numpyro.distributions as dist

        prior = {"rate": dist.LogNormal(0.0, 1.0), "size": dist.Gamma(2.0, 1.0)}

        def simulate(rng, theta):
            return rng.gamma(theta["size"], 1.0 / theta["rate"], size=100)

    It is run as it is. For speed, `@bke.inference.vectorised` before `simulate` says that it takes
    arrays (B,) of parameters to B data sets, and `@bke.inference.jax_simulator` that it is of a JAX
    key and can be compiled.
    """
    bandwidths = _numbers(epsilon)
    if sequential and bandwidths is not None and len(bandwidths) > 1:
        raise typer.BadParameter("--sequential goes to one epsilon.", param_hint="--epsilon")
    names = words.parse_columns(columns)
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        table = read_sample(observed, columns=names)
        _check_model(model)
        written = inputs.output_folder(out, FILES, read=[model, observed], checkpoint=checkpoint)
        with written, terminable(checkpoint is not None):
            with (
                terminal.step("simulate", "simulating", spinner=False),
                _prints_apart(),
                _imported(model) as (prior, simulate),
                warnings.catch_warnings(),
            ):
                from bke.inference import k2_abc, save_run, sequential_k2_abc
                from bke.inference.likelihood_free.run import PosteriorWarning, remarks

                warnings.simplefilter("ignore", PosteriorWarning)  # told as notes
                common: dict[str, Any] = {
                    "kernel": kernel.value,
                    "estimator": estimator.value,
                    "features": features,
                    "rows": rows,
                    "folder": checkpoint,
                    "workers": workers,
                    "scale": scale.argument,
                    "seed": seed,
                    "progress": terminal.progress,
                    **({} if simulations is None else {"simulations": simulations}),
                }
                if sequential:
                    wished = None if bandwidths is None else bandwidths[0]
                    run = sequential_k2_abc(
                        table.values,
                        simulate,
                        prior,
                        epsilon=wished,
                        particles=particles,
                        **common,
                    )
                else:
                    run = k2_abc(table.values, simulate, prior, epsilon=bandwidths, **common)
                if out is not None:
                    save_run(run, out / RUN)
            found, notes = _told(run, terminal), remarks(run)
            terminal.notes(notes)
            files = {}
            if out is not None:
                files = {"run": out / RUN, **_draws(run, out, terminal)}

            def pictures() -> steps.Pictures:
                import bke.inference as plots

                name, draw = (
                    ("stages", plots.plot_stages) if sequential else ("ess", plots.plot_ess)
                )
                return [("posterior", lambda: plots.plot_abc(run)), (name, lambda: draw(run))]

            drawn, missing = steps.draw_pictures(out, pictures, terminal)
            told = {
                "command": "abc",
                "model": str(model),
                "observed": str(observed),
                "rows": len(table.values),
                "columns": list(table.columns),
                **found,
            }
            summary = None if out is None else out / SUMMARY
            steps.finish(told, {**files, **drawn}, summary, [*notes, *missing], terminal)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of numbers.", param_hint="--epsilon"
        ) from None


def _prints_apart() -> contextlib.redirect_stdout[Any]:
    """What the user's file prints goes to standard error: findings may be read by a program."""
    return contextlib.redirect_stdout(sys.stderr)


def _check_model(path: Path) -> None:
    """Refuse what is no Python file that can be imported beside the modules that there are."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    if path.suffix != ".py":
        raise InputError(f"{path} is no Python file: its name must end in .py")
    if "." in path.stem:
        raise InputError(f"{path} has a name that no module can have: rename it")
    known = None if path.stem in sys.modules else importlib.util.find_spec(path.stem)
    if path.stem in sys.modules or (known is not None and known.origin != str(path.resolve())):
        raise InputError(f"{path} has the name of another module: rename it")


@contextlib.contextmanager
def _imported(path: Path) -> Iterator[tuple[Any, Any]]:
    """``prior`` and ``simulate`` of a Python file, which is a module within the block.

    Raises:
        InputError: it cannot be run, or lacks one of them.
    """
    specification = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Where it finds its neighbours, and where other processes find it by its name. At the end: a
    # file there that is called like a module of Python's would stand for that.
    folder = str(path.resolve().parent)
    sys.path.append(folder)
    sys.modules[path.stem] = module
    try:
        try:
            specification.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise InputError(f"{path} cannot be run: {reason}") from error
        for part in ("prior", "simulate"):
            if not hasattr(module, part):
                raise InputError(f"{path} has no {part}: see bke abc --help for an example")
        try:
            yield module.prior, module.simulate
        except InputError:
            raise
        except Exception as error:
            # What simulate raises has a note that says for which parameters.
            where = "; ".join(getattr(error, "__notes__", ()))
            if not where:
                raise
            raise InputError(
                f"simulate in {path} raised {type(error).__name__}: {error}, {where}"
            ) from error
    finally:
        del sys.modules[path.stem]
        sys.path.remove(folder)


def _told(run: xr.DataTree, terminal: Terminal) -> dict[str, Any]:
    """Print what was found, and return it as plain data."""
    import json

    from bke.inference import posterior_table

    distance = json.loads(run.attrs["distance"])
    done, failed = int(run.attrs["simulations"]), int(run.attrs["failed"])
    stopped = run.attrs.get("stopped")
    terminal.say(
        f"{done} simulations, {failed} of them failed; kernel {distance['kernel_in_words']}, "
        f"estimator {distance['estimator']}"
        + (f"; stopped because {stopped}" if stopped is not None else "")
    )
    table = posterior_table(run)
    terminal.say(table.to_string(index=False, float_format=lambda value: f"{value:.4g}"))
    lines = [
        {str(k): None if isinstance(v, float) and np.isnan(v) else v for k, v in line.items()}
        for line in table.to_dict("records")
    ]
    return {
        "method": run.attrs["method"],
        "kernel": distance["kernel_in_words"],
        "estimator": distance["estimator"],
        "simulations": done,
        "failed": failed,
        "failures": json.loads(run.attrs["failures"]),
        "seed": int(run.attrs["seed"]),
        **({} if stopped is None else {"stopped": stopped}),
        "posterior": lines,
    }


def _draws(run: xr.DataTree, folder: Path, terminal: Terminal) -> dict[str, Path]:
    """All draws with their distances and weights, as CSV."""
    from ..likelihood_free.run import components
    from .operators import write_table

    draws = components(run["posterior"].to_dataset())
    stats = run["sample_stats"].to_dataset()
    header = [
        *draws,
        "squared_distance",
        *(f"weight at {value:.6g}" for value in stats["epsilon"].values),
    ]
    parts = [
        *(values.ravel() for values in draws.values()),
        stats["squared_distance"].values[0],
        *stats["weight"].values[0].T,
    ]
    return write_table(folder, TABLE, header, np.column_stack(parts), terminal)
