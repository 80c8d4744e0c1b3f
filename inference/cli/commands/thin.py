"""``bke thin``: a few draws that stand for all of a posterior's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from ..command import command
from ..options.output import optional_folder
from ..options.panels import DATA
from ..options.sampler import SeedOption
from ..terminal import Terminal
from .chains import KINDS, ParametersOption, chosen

if TYPE_CHECKING:
    import xarray as xr
    from bke.inference import Thinned

DRAWS, SUMMARY = "thinned.nc", "thin.json"
#: The dimension of draws of all chains: one of the user's may be called as any shorter word.
STACKED = "bke_draw"
#: Those that need no score.
Method: TypeAlias = Literal["auto", "kernel", "herding"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ThinOptions:
    """How many draws are chosen, by what, and how."""

    to: Annotated[
        int, typer.Option("--to", min=1, rich_help_panel=DATA, help="How many draws to choose.")
    ]
    parameters: ParametersOption = None
    method: Annotated[
        Method,
        typer.Option(
            "--method",
            rich_help_panel=DATA,
            help="Herding, or kernel thinning (needs goodpoints); auto: herding of up to 16384 "
            "draws.",
        ),
    ] = "auto"
    weighted: Annotated[
        bool,
        typer.Option(
            "--weighted", rich_help_panel=DATA, help="Give the draws weights, the best there are."
        ),
    ] = False
    seed: SeedOption = 0


@command("Example: `bke thin run.nc --to 200 --out thinned`")
def thin(
    terminal: Terminal,
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help=f"{KINDS} a CSV file of CmdStan.", show_default=False),
    ],
    *,
    options: ThinOptions,
    out: Annotated[Path | None, optional_folder(f"{DRAWS} (for ArviZ) and {SUMMARY}")] = None,
) -> None:
    """Choose a few draws of a posterior that stand for all of them better than any at random.

    By the embedding of the draws: means of smooth functions over those that are chosen are near the
    means over all.
    """
    from ...core.netcdf import write_tree
    from ...mcmc.draws import posterior_dataset, read_draws
    from .. import outputs, steps

    with outputs.output_folder(out, [DRAWS, SUMMARY], command="thin", read=[path]) as folder:
        with terminal.step("thin", "choosing draws"):
            from bke.inference import thin as thinned

            tree = read_draws([path])
            found = thinned(
                chosen(tree, options.parameters, path),
                options.to,
                method=options.method,
                weighted=options.weighted,
                seed=options.seed,
            )
        terminal.say(str(found))
        files = {}
        if folder is not None:
            files["draws"] = folder / DRAWS
            write_tree(_kept(posterior_dataset(tree), found), files["draws"])
        told = {"command": "thin", "source": str(path), "seed": options.seed, **found.to_dict()}
        notes = told.pop("notes")
        steps.finish(told, files, steps.summary_in(folder, SUMMARY), notes, terminal)


def _kept(posterior: xr.Dataset, found: Thinned) -> xr.DataTree:
    """The chosen draws as one chain, with their weights and where they were."""
    import xarray as xr

    drawn = [name for name, one in posterior.items() if {"chain", "draw"} <= set(one.dims)]
    rows = posterior[drawn].stack({STACKED: ("chain", "draw")}).isel({STACKED: found.indices})
    places = {name: (("chain", "draw"), rows[name].values[None]) for name in ("chain", "draw")}
    rows = rows.drop_vars([STACKED, "chain", "draw"]).rename({STACKED: "draw"})
    rows = rows.expand_dims("chain")
    kept = rows.transpose("chain", "draw", ...)
    origin = xr.Dataset({f"original_{name}": values for name, values in places.items()})
    origin["weight"] = (("chain", "draw"), found.weights[None])
    return xr.DataTree.from_dict({"posterior": kept, "sample_stats": origin})
