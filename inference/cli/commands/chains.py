"""``bke chains``: whether the chains of any sampler agree."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from ...core.errors import InputError, nearest
from ..command import command
from ..options.output import optional_folder
from ..options.panels import DATA
from ..options.sampler import SeedOption
from ..options.testing import DIFFERENT, AlphaOption, FailOption, PermutationsOption
from ..terminal import Terminal

if TYPE_CHECKING:
    import xarray as xr

PICTURE, SUMMARY = "chains.png", "chains.json"
KINDS = "NetCDF or Zarr (.zarr) as ArviZ writes it, of any model and sampler, a run of bke's, or"

ParametersOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--parameters",
        metavar="A,B,...",
        rich_help_panel=DATA,
        help="Variables of the posterior to look at. Default: all.",
    ),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChainsOptions:
    """Which parameters are looked at, and at what level."""

    parameters: ParametersOption = None
    permutations: PermutationsOption = 999
    alpha: AlphaOption = 0.05
    seed: SeedOption = 0
    fail: FailOption = False


@command("Example: `bke chains posterior.nc --parameters mu,tau --fail`")
def chains(
    terminal: Terminal,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help=f"{KINDS} CSV files of CmdStan, one for each chain.",
            show_default=False,
        ),
    ],
    *,
    options: ChainsOptions,
    out: Annotated[Path | None, optional_folder(f"{PICTURE} and {SUMMARY}")] = None,
) -> None:
    """Do Markov chains agree? If not, which of them, in which parameters, or in their correlations.

    Batches of ten autocorrelation times are permuted between chains, and between the halves of each
    chain. Chains that agree need not be correct. The warmup of CmdStan's chains is dropped.
    """
    from .. import outputs, steps

    with outputs.output_folder(out, [PICTURE, SUMMARY], command="chains", read=paths) as folder:
        with terminal.step("chains", "comparing chains"):
            from bke.inference import compare_chains

            from ...mcmc.draws import read_draws

            comparison = compare_chains(
                chosen(read_draws(paths), options.parameters, paths[0]),
                alpha=options.alpha,
                n_resamples=options.permutations,
                seed=options.seed,
            )
        terminal.say(str(comparison))
        pictures = [("chains", comparison.plot)]
        files, missing = steps.draw_pictures(folder, lambda: pictures, terminal)
        sources = [str(path) for path in paths]
        summary: dict[str, Any] = {"command": "chains", "sources": sources, "seed": options.seed}
        summary |= comparison.to_dict()
        notes = [*summary.pop("notes"), *missing]
        steps.finish(summary, files, steps.summary_in(folder, SUMMARY), notes, terminal)
    if options.fail and not comparison.agree:
        raise typer.Exit(DIFFERENT)


def chosen(
    tree: xr.DataTree | xr.Dataset, parameters: str | None, path: Path
) -> xr.DataTree | xr.Dataset:
    """The posterior, or the variables of it that are asked for.

    Raises:
        InputError: it has none of that name; tells those that it has.
    """
    from ...mcmc.draws import posterior_dataset
    from ..words import parse_columns

    names = parse_columns(parameters)
    posterior = posterior_dataset(tree, str(path))
    if not names:
        return posterior
    held = [str(name) for name in posterior.data_vars]
    if unknown := [name for name in names if name not in held]:
        raise InputError(
            f"{path} has no parameter {unknown[0]!r}: there are {', '.join(held)}"
            f"{nearest(unknown[0], held)}"
        )
    return posterior[list(names)]
