"""``bke chains`` and ``thin``: draws of any sampler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError, nearest
from ..options import (
    Fail,
    Parameters,
    PermutationOptions,
    Seed,
    argument,
    optional_folder,
    parse_columns,
)
from ..outputs import output_folder
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
    *,
    paths: Annotated[
        list[Path], argument("FILE...", f"{FORMATS} CSV files of CmdStan, one a chain.")
    ],
    parameters: Parameters = None,
    permutations: PermutationOptions,
    fail: Fail = False,
    out: Annotated[Path | None, optional_folder("chains.png and chains.json")] = None,
) -> bool:
    """Do Markov chains agree?

    If not: which of them, in which parameters, or in their correlations. Batches of ten
    autocorrelation times are permuted between chains, and between the halves of each chain. Chains
    that agree need not be correct. The warmup of CmdStan's chains is dropped.
    """
    with output_folder(terminal, out, CHAINS_FILES, command="chains", read=paths) as output:
        with terminal.step("chains", "comparing chains"):
            from bke.inference import compare_chains

            from ...mcmc.draws import read_draws

            draws = _select_parameters(read_draws(paths), parameters, paths[0])
            comparison = compare_chains(draws, **permutations)
        terminal.say(str(comparison))
        output.draw(lambda: [("chains", comparison.plot)])
        sources = [str(path) for path in paths]
        output.finish({"sources": sources, "seed": permutations["seed"], **comparison.to_dict()})
    return fail and not comparison.agree


def thin(
    terminal: Terminal,
    *,
    path: Annotated[Path, argument("FILE", f"{FORMATS} a CSV file of CmdStan.")],
    to: Annotated[int, typer.Option(min=1, help="Number of draws to choose.", show_default=False)],
    parameters: Parameters = None,
    seed: Seed = 0,
    out: Annotated[Path | None, optional_folder("thinned.nc (for ArviZ) and thin.json")] = None,
) -> None:
    """Choose a few draws that stand for all of a posterior.

    Better than as many at random, by the embedding of the draws: means of smooth functions over
    those that are chosen are near the means over all.
    """
    with output_folder(terminal, out, THIN_FILES, command="thin", read=[path]) as output:
        with terminal.step("thin", "choosing draws"):
            from bke.inference import thin as choose_draws

            from ...core.netcdf import write_tree
            from ...mcmc.draws import posterior_dataset, read_draws

            tree = read_draws([path])
            result = choose_draws(_select_parameters(tree, parameters, path), to, seed=seed)
        terminal.say(str(result))
        if output.folder is not None:
            chosen = _chosen_draws(posterior_dataset(tree), result)
            write_tree(chosen, output.add("draws", THIN_FILES[0]))
        output.finish({"source": str(path), "seed": seed, **result.to_dict()})


def _select_parameters(
    tree: xr.DataTree | xr.Dataset, parameters: str | None, path: Path
) -> xr.DataTree | xr.Dataset:
    """Return the posterior, or the chosen variables of it.

    Raises:
        InputError: it has none of that name; the message lists those that it has.
    """
    from ...mcmc.draws import posterior_dataset

    posterior = posterior_dataset(tree, str(path))
    names = parse_columns(parameters) or []
    variables = [str(name) for name in posterior.data_vars]
    if unknown := [name for name in names if name not in variables]:
        raise InputError(
            f"{path} has no parameter {unknown[0]!r}: there are {', '.join(variables)}"
            f"{nearest(unknown[0], variables)}"
        )
    return posterior[names] if names else posterior


def _chosen_draws(posterior: xr.Dataset, result: Thinned) -> xr.DataTree:
    """Return the chosen draws as one chain, with weights and their original chain and draw."""
    import xarray as xr

    dims = ("chain", "draw")
    drawn = [name for name, variable in posterior.items() if {*dims} <= {*variable.dims}]
    chosen = posterior[drawn].stack({STACKED: dims}).isel({STACKED: result.indices})
    origin = {f"original_{name}": (dims, chosen[name].values[None]) for name in dims}
    chosen = chosen.drop_vars([STACKED, *dims]).rename({STACKED: "draw"}).expand_dims("chain")
    origin["weight"] = (dims, result.weights[None])
    groups = {"posterior": chosen.transpose(*dims, ...), "sample_stats": xr.Dataset(origin)}
    return xr.DataTree.from_dict(groups)
