"""``bke abc``: approximate Bayesian computation from a file with a simulator."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.errors import InputError
from ..inputs import read_sample
from ..interrupt import terminable
from ..options import FILE_KINDS, Columns, Seed, optional_folder, parse_columns
from ..outputs import SUMMARY, draw_pictures, finish, output_folder, write_table
from ..terminal import Terminal

FILES = ("run.nc", "posterior.csv", "posterior.png", "ess.png", "stages.png", SUMMARY)


def abc(
    terminal: Terminal,
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A file with prior and simulate.", show_default=False),
    ],
    observed: Annotated[
        Path,
        typer.Argument(
            metavar="OBSERVED", help=f"Observed rows: {FILE_KINDS}.", show_default=False
        ),
    ],
    columns: Columns = None,
    simulations: Annotated[
        int | None,
        typer.Option(
            help="Largest number of simulations.", show_default="10000, with --sequential 50000"
        ),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="Rows of a simulated data set. Default: as observed."),
    ] = None,
    epsilon: Annotated[
        str | None,
        typer.Option(metavar="E,E,...", help="Bandwidths of the squared MMD. Default: chosen."),
    ] = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Sequential Monte Carlo to a smaller epsilon.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes that simulate.")] = 1,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Simulations are kept here, to go on after an interruption."
        ),
    ] = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, optional_folder("run.nc, posterior.csv, pictures and summary.json")
    ] = None,
) -> None:
    """Posterior of a simulator's parameters, without a likelihood.

    K2-ABC: parameters are drawn from the prior, a data set is simulated for each, and weighted by
    how near its distribution is to that of the observed rows (MMD). MODEL is a Python file such as

    \b
        import numpyro.distributions as dist
        prior = {"rate": dist.LogNormal(0.0, 1.0), "size": dist.Gamma(2.0, 1.0)}
        def simulate(rng, theta):
            return rng.gamma(theta["size"], 1.0 / theta["rate"], size=100)

    MODEL is executed as Python code: use no file that you do not trust.
    """  # noqa: D301
    bandwidths = _numbers(epsilon)
    if sequential and bandwidths is not None and len(bandwidths) > 1:
        raise typer.BadParameter("--sequential goes to one --epsilon")
    table = read_sample(observed, columns=parse_columns(columns))
    check_model(model)
    output = output_folder(out, FILES, command="abc", read=[model, observed], checkpoint=checkpoint)
    with output as folder, terminable(checkpoint is not None):
        how: dict[str, Any] = {"rows": rows, "folder": checkpoint, "workers": workers, "seed": seed}
        if simulations is not None:
            how["num_simulations"] = simulations
        with (
            terminal.step("simulate", "simulating", spinner=False),
            prints_to_stderr(),
            imported(model) as (prior, simulate),
            warnings.catch_warnings(),
        ):
            from bke.inference import (
                k2_abc,
                plot_abc,
                plot_ess,
                plot_stages,
                save_run,
                sequential_k2_abc,
            )

            from ...core.errors import PosteriorWarning
            from ...likelihood_free.results import abc_summary, abc_text, run_notes, weighted_draws

            warnings.simplefilter("ignore", PosteriorWarning)  # printed as notes
            how["progress"] = terminal.progress
            if sequential:
                first = None if bandwidths is None else bandwidths[0]
                run = sequential_k2_abc(table.values, simulate, prior, epsilon=first, **how)
            else:
                run = k2_abc(table.values, simulate, prior, epsilon=bandwidths, **how)
        terminal.say(abc_text(run))
        notes = run_notes(run)
        terminal.notes(notes)
        files: dict[str, Path] = {}
        if folder is not None:
            save_run(run, folder / FILES[0])
            files = write_table(folder, FILES[1], *weighted_draws(run), terminal)
            files["run"] = folder / FILES[0]
        name, draw = ("stages", plot_stages) if sequential else ("ess", plot_ess)
        pictures = [("posterior", lambda: plot_abc(run)), (name, lambda: draw(run))]
        drawn, missing = draw_pictures(folder, lambda: pictures, terminal)
        summary = {
            "command": "abc",
            "model": str(model),
            "observed": str(observed),
            "rows": len(table.values),
            "columns": list(table.columns),
            **abc_summary(run),
        }
        finish(summary, {**files, **drawn}, folder, [*notes, *missing], terminal)


def _numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--epsilon {text!r} is not a list of numbers") from None


def prints_to_stderr() -> contextlib.redirect_stdout[Any]:
    """Send what the model prints to standard error: a program may read the results."""
    return contextlib.redirect_stdout(sys.stderr)


def check_model(path: Path) -> None:
    """Refuse a file that is no Python file or has the name of another module."""
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
            # An exception of simulate has a note with the parameters of the simulation.
            where = "; ".join(getattr(error, "__notes__", ()))
            if not where:
                raise
            raise InputError(
                f"simulate in {path} raised {type(error).__name__}: {error}, {where}"
            ) from error
    finally:
        del sys.modules[path.stem]
        sys.path.remove(folder)
