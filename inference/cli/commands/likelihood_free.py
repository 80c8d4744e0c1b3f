"""``bke abc``: approximate Bayesian computation from a file with a simulator."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ...core.errors import InputError
from ...learning import SampleKernel
from ...likelihood_free import Estimator
from ..command import command
from ..interrupt import terminable
from ..options.data import FILE_KINDS, ColumnOptions
from ..options.model import StandardizeName, distance_standardize, standardize_argument
from ..options.output import optional_folder
from ..options.panels import LEARNED, SIMULATIONS
from ..options.sampler import SeedOptions
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr

    from ..steps import Pictures

RUN, TABLE, SUMMARY = "run.nc", "posterior.csv", "summary.json"
FILES = (RUN, TABLE, "posterior.png", "ess.png", "stages.png", SUMMARY)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """How many simulations, and how near they must be."""

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
    ] = None
    simulations: Annotated[
        int | None,
        typer.Option(
            "--simulations",
            rich_help_panel=SIMULATIONS,
            help="How many; with --sequential at most.",
            show_default="10000, with --sequential 50000",
        ),
    ] = None
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            rich_help_panel=SIMULATIONS,
            help="Rows of every simulated data set.",
            show_default="as many as are observed",
        ),
    ] = None
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            rich_help_panel=SIMULATIONS,
            help="Sequential Monte Carlo over falling epsilon: reaches smaller ones.",
        ),
    ] = False
    particles: Annotated[
        int,
        typer.Option("--particles", rich_help_panel=SIMULATIONS, help="Of --sequential."),
    ] = 1000
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            rich_help_panel=SIMULATIONS,
            help="Processes, for a plain function that simulates one data set at a time.",
        ),
    ] = 1
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            rich_help_panel=SIMULATIONS,
            help="Folder in which simulations are kept: after an interruption the same command "
            "goes on from there.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.sequential and len(self.bandwidths or ()) > 1:
            raise typer.BadParameter("--sequential goes to one epsilon.", param_hint="--epsilon")

    @property
    def bandwidths(self) -> list[float] | None:
        """One by one, if they are given.

        Raises:
            BadParameter: they are no numbers.
        """
        if self.epsilon is None:
            return None
        try:
            return [float(part) for part in self.epsilon.split(",")]
        except ValueError:
            raise typer.BadParameter(
                f"{self.epsilon!r} is not a list of numbers.", param_hint="--epsilon"
            ) from None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``k2_abc``, or of ``sequential_k2_abc`` if that is asked for."""
        bandwidths: Any = self.bandwidths
        if self.sequential:
            one = None if bandwidths is None else bandwidths[0]
            how = {"epsilon": one, "num_particles": self.particles}
        else:
            how = {"epsilon": bandwidths}
        if self.simulations is not None:
            how["num_simulations"] = self.simulations
        return {**how, "rows": self.rows, "folder": self.checkpoint, "workers": self.workers}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistanceOptions:
    """The MMD between simulated and observed rows."""

    kernel: Annotated[
        SampleKernel,
        typer.Option(
            "--kernel",
            rich_help_panel=LEARNED,
            help="Lengthscale of the MMD's kernel, from the observed data alone: median is the "
            "median distance, at once; bkl learns it by the marginal likelihood.",
        ),
    ] = "median"
    standardize: Annotated[StandardizeName, distance_standardize(LEARNED)] = "column"
    estimator: Annotated[
        Estimator,
        typer.Option(
            "--estimator",
            rich_help_panel=LEARNED,
            help="Of the squared MMD: features and linear take a time linear in the rows.",
        ),
    ] = "biased"
    features: Annotated[
        int,
        typer.Option("--features", rich_help_panel=LEARNED, help="Of --estimator features."),
    ] = 500

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``k2_abc``."""
        return {
            "kernel": self.kernel,
            "estimator": self.estimator,
            "num_features": self.features,
            "standardize": standardize_argument(self.standardize),
        }


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
        from ...likelihood_free.results import abc_summary, abc_text, run_notes

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
    from ...likelihood_free.results import weighted_draws
    from .. import steps

    return {"run": folder / RUN, **steps.write_table(folder, TABLE, *weighted_draws(run), terminal)}


def _pictures(run: xr.DataTree, sequential: bool) -> Pictures:
    from bke.inference import plot_abc, plot_ess, plot_stages

    name, draw = ("stages", plot_stages) if sequential else ("ess", plot_ess)
    return [("posterior", lambda: plot_abc(run)), (name, lambda: draw(run))]


def prints_apart() -> contextlib.redirect_stdout[Any]:
    """What the user's file prints goes to standard error: findings may be read by a program."""
    return contextlib.redirect_stdout(sys.stderr)


def check_model(path: Path) -> None:
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
def imported(path: Path) -> Iterator[tuple[Any, Any]]:
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
