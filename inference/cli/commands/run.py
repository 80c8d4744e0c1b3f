"""``bke run``: the whole job."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..command import command
from ..options.data import FILE_KINDS, ColumnOptions, NameOptions
from ..options.model import ModelOptions, StandardizeName
from ..options.output import HtmlOption, OutFolder, VerboseOption, check_html
from ..options.sampler import SamplerOptions
from ..options.witness import WitnessOptions
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Nuts

FirstIfAny: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="[P", help=f"First sample: {FILE_KINDS}.", show_default=False),
]
SecondIfAny: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="Q]", help="Second sample.", show_default=False)
]


@command("Example: `bke run calm.csv windy.csv --columns Temp,InvHt --ard --out ozone`")
def run(
    terminal: Terminal,
    path_p: FirstIfAny = None,
    path_q: SecondIfAny = None,
    *,
    columns: ColumnOptions,
    called: NameOptions,
    model: ModelOptions,
    sampler: SamplerOptions,
    witness: WitnessOptions,
    out: OutFolder = Path("bke-run"),
    html: HtmlOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Compare two samples; posterior of the lengthscale, its modes, witness functions, pictures.

    Without files: the experiment of the paper's Figures 3 to 5, a normal and a Laplace mixture of
    300 rows each, 8 chains of NUTS, data unscaled. Writes comparison.png, run.nc, witness.nc,
    summary.json, samples.png, trace.png and rank.png (NUTS only), profile.png (one hyperparameter
    only) and witness.png.
    """
    names = columns.names
    from .. import inputs, outputs, steps

    model.check()
    check_html(html)
    if (path_p is None) != (path_q is None):
        raise typer.BadParameter("give both samples, or none for the built-in data")
    if path_p is None or path_q is None:
        pair = inputs.built_in_pair()
        pair = pair if called.called is None else dataclasses.replace(pair, names=called.called)
        unit: StandardizeName = "none"
        default = _figure4_sampler()
    else:
        pair = inputs.read_pair(path_p, path_q, names, called)
        unit, default = "column", None
    built_in = path_p is None
    terminal.verbose = verbose
    points = inputs.read_points(witness.places.at, names, pair.columns)
    places = inputs.read_landmarks(model.landmarks, names, pair.columns)
    arguments = model.arguments(len(pair.columns), places, unit)
    how = {**arguments, **sampler.arguments(default)}
    seen = model.likelihood.likelihood == "landmark"
    fixed = {"kernel": how["kernel"], "measure": how["measure"]}
    inputs.check_witness(pair, points, witness.band, seen=seen, **fixed)
    read = (path_p, path_q, witness.places.at, model.landmarks)
    with outputs.output_folder(out, steps.RUN_FILES, command="run", read=read) as folder:
        notes = list(pair.notes)
        terminal.notes(notes)
        answer = steps.compared(pair, terminal, seed=sampler.seed)
        samples = (pair.P, pair.Q) if model.samples == "product" else (pair.pooled,)
        result = steps.fit_and_save(samples, pair.columns, how, folder / steps.RUN, terminal)
        result, unknown = steps.weigh_and_save(result, folder / steps.RUN, terminal)
        diagnosis, summary, rounded = steps.diagnose_and_print(
            result, terminal, as_figure5=built_in
        )
        found, files, missing = steps.witness_and_save(
            result,
            diagnosis,
            pair,
            points,
            witness,
            weighed=not unknown,
            seed=sampler.seed,
            folder=folder,
            terminal=terminal,
            more=[("comparison", answer.plot), *steps.run_pictures(result)],
            as_figure5=built_in,
        )
        told = {"command": "run", "answer": answer.to_dict(), **summary, **found}
        notes += [*unknown, *rounded, *missing]
        title = f"{pair.names[0]} and {pair.names[1]}"
        page = steps.write_page(
            html, told, diagnosis, files, terminal, title=title, answer=str(answer), notes=notes
        )
        files = {"run": folder / steps.RUN, **files, **page}
        steps.finish(told, files, folder / steps.SUMMARY, notes, terminal)


def _figure4_sampler() -> Nuts:
    """Return NUTS as for BKE Figure 4, but longer and with longer steps.

    Chains start as those of Stan, uniformly over [-2, 2] of the log lengthscale. Zeros of the
    density divide the short mode, and only long steps cross them.
    """
    from bke.inference import Nuts
    from numpyro.infer import init_to_uniform

    return Nuts(num_samples=500, target_accept_prob=0.5, init_strategy=init_to_uniform)
