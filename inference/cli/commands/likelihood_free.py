"""``bke abc``: approximate Bayesian computation from a file with a simulator."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.errors import InputError
from ..inputs import read_sample
from ..interrupt import terminable
from ..options import FILE_TYPES, Columns, Seed, argument, option, optional_folder
from ..outputs import SUMMARY, output_folder
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr

FILES = ("run.nc", "posterior.csv", "posterior.png", "ess.png", "stages.png", SUMMARY)


def abc(
    terminal: Terminal,
    *,
    model: Annotated[Path, argument("MODEL", "A file with prior and simulate.")],
    observed: Annotated[Path, argument("OBSERVED", f"Observed rows: {FILE_TYPES}.")],
    columns: Columns,
    simulations: Annotated[
        int | None,
        typer.Option(
            help="Largest number of simulations.", show_default="10000, with --sequential 50000"
        ),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows of a simulated data set. Default: as observed.")
    ] = None,
    epsilon: Annotated[
        str | None, option("E,E,...", "Bandwidths of the squared MMD. Default: chosen.")
    ] = None,
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Sequential Monte Carlo to a smaller epsilon.")
    ] = False,
    workers: Annotated[int, typer.Option(help="Processes that simulate.")] = 1,
    checkpoint: Annotated[
        Path | None, option("DIR", "Simulations are kept here, to go on after an interruption.")
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
    bandwidths = _parse_numbers(epsilon)
    if sequential and bandwidths is not None and len(bandwidths) > 1:
        raise typer.BadParameter("--sequential goes to one --epsilon")
    table = read_sample(observed, columns=columns)
    check_model(model)
    options: dict[str, Any] = {"rows": rows, "folder": checkpoint, "workers": workers, "seed": seed}
    if simulations is not None:
        options["num_simulations"] = simulations
    read = [model, observed]
    with (
        output_folder(
            terminal, out, FILES, command="abc", read=read, checkpoint=checkpoint
        ) as output,
        terminable(checkpoint is not None),
    ):
        with (
            terminal.step("simulate", "simulating", spinner=False),
            contextlib.redirect_stdout(sys.stderr),  # a program may read the results
            imported(model) as (prior, simulate),
            warnings.catch_warnings(),
        ):
            import bke.inference as bke

            from ...core.errors import PosteriorWarning
            from ...likelihood_free.results import abc_summary, abc_text, run_notes, weighted_draws

            warnings.simplefilter("ignore", PosteriorWarning)  # printed as notes
            fit: Callable[..., xr.DataTree] = bke.k2_abc
            if sequential:
                fit = bke.sequential_k2_abc
            run = fit(
                table.values,
                simulate,
                prior,
                epsilon=bandwidths[0] if sequential and bandwidths else bandwidths,
                progress=terminal.progress,
                **options,
            )
        terminal.say(abc_text(run))
        output.note(run_notes(run))
        if output.folder is not None:
            output.write_table(FILES[1], *weighted_draws(run))
            bke.save_run(run, output.add("run", FILES[0]))
        name, plot = ("stages", bke.plot_stages) if sequential else ("ess", bke.plot_ess)
        output.draw(lambda: [("posterior", lambda: bke.plot_abc(run)), (name, lambda: plot(run))])
        output.finish(
            {
                "model": str(model),
                "observed": str(observed),
                "rows": len(table.values),
                "columns": list(table.columns),
                **abc_summary(run),
            }
        )


def _parse_numbers(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"--epsilon {text!r} is not a list of numbers") from None


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
    """Yield ``prior`` and ``simulate`` of a Python file, which is a module within the block.

    Raises:
        InputError: it cannot be run, or lacks one of them.
    """
    specification = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # For its own imports, and for other processes, which import it by its name. At the end: a file
    # there must not hide a module of the same name.
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
