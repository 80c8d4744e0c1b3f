"""``bke chains`` and ``thin``: draws of any sampler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.errors import InputError, nearest
from ..options import (
    DIFFERENT,
    Alpha,
    Fail,
    Parameters,
    Permutations,
    Seed,
    optional_folder,
    parse_columns,
)
from ..outputs import draw_pictures, finish, output_folder
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr
    from bke.inference import Thinned

CHAINS_FILES = ("chains.png", "chains.json")
THIN_FILES = ("thinned.nc", "thin.json")
FORMATS = "NetCDF or Zarr (.zarr) of ArviZ, of any model and sampler, or"
#: Dimension of the draws of all chains; a dimension of the user may have any shorter name.
STACKED = "bke_draw"


def chains(
    terminal: Terminal,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help=f"{FORMATS} CSV files of CmdStan, one a chain.",
            show_default=False,
        ),
    ],
    parameters: Parameters = None,
    permutations: Permutations = 999,
    alpha: Alpha = 0.05,
    seed: Seed = 0,
    fail: Fail = False,
    out: Annotated[Path | None, optional_folder("chains.png and chains.json")] = None,
) -> None:
    """Do Markov chains agree?

    If not: which of them, in which parameters, or in their correlations. Batches of ten
    autocorrelation times are permuted between chains, and between the halves of each chain. Chains
    that agree need not be correct. The warmup of CmdStan's chains is dropped.
    """
    with output_folder(out, CHAINS_FILES, command="chains", read=paths) as folder:
        with terminal.step("chains", "comparing chains"):
            from bke.inference import compare_chains

            from ...mcmc.draws import read_draws

            comparison = compare_chains(
                _select_parameters(read_draws(paths), parameters, paths[0]),
                alpha=alpha,
                n_resamples=permutations,
                seed=seed,
            )
        terminal.say(str(comparison))
        pictures = [("chains", comparison.plot)]
        files, missing = draw_pictures(folder, lambda: pictures, terminal)
        sources = [str(path) for path in paths]
        summary: dict[str, Any] = {"command": "chains", "sources": sources, "seed": seed}
        summary |= comparison.to_dict()
        notes = [*summary.pop("notes"), *missing]
        finish(summary, files, folder, notes, terminal, CHAINS_FILES[1])
    if fail and not comparison.agree:
        raise typer.Exit(DIFFERENT)


def thin(
    terminal: Terminal,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help=f"{FORMATS} a CSV file of CmdStan.", show_default=False
        ),
    ],
    to: Annotated[int, typer.Option(min=1, help="Number of draws to choose.", show_default=False)],
    parameters: Parameters = None,
    seed: Seed = 0,
    out: Annotated[Path | None, optional_folder("thinned.nc (for ArviZ) and thin.json")] = None,
) -> None:
    """Choose a few draws that stand for all of a posterior.

    Better than as many at random, by the embedding of the draws: means of smooth functions over
    those that are chosen are near the means over all.
    """
    with output_folder(out, THIN_FILES, command="thin", read=[path]) as folder:
        with terminal.step("thin", "choosing draws"):
            from bke.inference import thin as thinned

            from ...core.netcdf import write_tree
            from ...mcmc.draws import posterior_dataset, read_draws

            tree = read_draws([path])
            result = thinned(_select_parameters(tree, parameters, path), to, seed=seed)
        terminal.say(str(result))
        files = {}
        if folder is not None:
            files["draws"] = folder / THIN_FILES[0]
            write_tree(_chosen_draws(posterior_dataset(tree), result), files["draws"])
        summary = {"command": "thin", "source": str(path), "seed": seed, **result.to_dict()}
        notes = summary.pop("notes")
        finish(summary, files, folder, notes, terminal, THIN_FILES[1])


def _select_parameters(
    tree: xr.DataTree | xr.Dataset, parameters: str | None, path: Path
) -> xr.DataTree | xr.Dataset:
    """Return the posterior, or the chosen variables of it.

    Raises:
        InputError: it has none of that name; the message lists those that it has.
    """
    from ...mcmc.draws import posterior_dataset

    names = parse_columns(parameters)
    posterior = posterior_dataset(tree, str(path))
    if not names:
        return posterior
    variables = [str(name) for name in posterior.data_vars]
    if unknown := [name for name in names if name not in variables]:
        raise InputError(
            f"{path} has no parameter {unknown[0]!r}: there are {', '.join(variables)}"
            f"{nearest(unknown[0], variables)}"
        )
    return posterior[list(names)]


def _chosen_draws(posterior: xr.Dataset, result: Thinned) -> xr.DataTree:
    """Return the chosen draws as one chain, with weights and their original chain and draw."""
    import xarray as xr

    drawn = [
        name for name, variable in posterior.items() if {"chain", "draw"} <= set(variable.dims)
    ]
    rows = posterior[drawn].stack({STACKED: ("chain", "draw")}).isel({STACKED: result.indices})
    origins = {name: (("chain", "draw"), rows[name].values[None]) for name in ("chain", "draw")}
    rows = rows.drop_vars([STACKED, "chain", "draw"]).rename({STACKED: "draw"})
    rows = rows.expand_dims("chain")
    posterior = rows.transpose("chain", "draw", ...)
    origin = xr.Dataset({f"original_{name}": values for name, values in origins.items()})
    origin["weight"] = (("chain", "draw"), result.weights[None])
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": origin})
