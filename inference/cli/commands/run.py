"""``bke run``: the whole job."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ..command import command
from ..comparison import compared
from ..options.data import FILE_KINDS, ColumnOptions, NameOptions
from ..options.model import ModelOptions, StandardizeName
from ..options.output import HtmlOption, OutFolder, check_html
from ..options.sampler import SamplerOptions
from ..options.witness import WitnessOptions
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Comparison

    from ..inputs import Pair

FirstIfAny: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="[P", help=f"First sample: {FILE_KINDS}.", show_default=False),
]
SecondIfAny: TypeAlias = Annotated[
    Path | None, typer.Argument(metavar="Q]", help="Second sample.", show_default=False)
]

Paper: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--paper",
        help="The 300 + 300 rows of the paper's Figure 3 instead, unscaled and sampled by NUTS as "
        "in its Figures 4 and 5.",
    ),
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
    paper: Paper = False,
    out: OutFolder = Path("bke-run"),
    html: HtmlOption = None,
) -> None:
    """The whole job: whether and where two samples differ; fit, diagnosis, witness, pictures.

    Writes comparison.png, run.nc, witness.nc, summary.json, samples.png, trace.png and rank.png
    (NUTS only), profile.png (one hyperparameter only) and witness.png. Without files it draws
    3000 + 3000 rows of the two mixtures of the paper's Figure 3, one normal and one Laplace.
    """
    names = columns.names
    from .. import inputs, outputs, steps

    model.check()
    check_html(html)
    pair = _pair(path_p, path_q, names, called, paper=paper)
    unit: StandardizeName = "none" if paper else "column"
    sampler, notes = sampler.as_in_the_paper() if paper else (sampler, [])
    points = inputs.read_points(witness.places.at, names, pair.columns)
    places = inputs.read_landmarks(model.landmarks, names, pair.columns)
    how = {**model.arguments(len(pair.columns), places, unit), **sampler.arguments()}
    seen = model.likelihood.likelihood == "landmark"
    fixed = {"kernel": how["kernel"], "measure": how["measure"]}
    inputs.check_witness(pair, points, witness.band, seen=seen, **fixed)
    read = (path_p, path_q, witness.places.at, model.landmarks)
    with outputs.output_folder(out, steps.RUN_FILES, command="run", read=read) as folder:
        notes = [*pair.notes, *notes]
        terminal.notes(notes)
        answer = compared(pair, terminal, seed=sampler.seed)
        terminal.say(_of_pooled(answer))
        samples = (pair.P, pair.Q) if model.samples == "product" else (pair.pooled,)
        result = steps.fit_and_save(samples, pair.columns, how, folder / steps.RUN, terminal)
        result, unknown = steps.weigh_and_save(result, folder / steps.RUN, terminal)
        diagnosis, summary, rounded = steps.diagnose_and_print(result, terminal)
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
        )
        told = {"command": "run", "answer": answer.to_dict(), **summary, **found}
        notes += [*unknown, *rounded, *missing]
        title = f"{pair.names[0]} and {pair.names[1]}"
        page = steps.write_page(
            html, told, diagnosis, files, terminal, title=title, answer=str(answer), notes=notes
        )
        files = {"run": folder / steps.RUN, **files, **page}
        steps.finish(told, files, folder / steps.SUMMARY, notes, terminal)


def _of_pooled(answer: Comparison) -> str:
    """What comes after the answer."""
    told = (
        "\nThe pooled sample: posterior of the lengthscale of its shape, and the witness under it, "
        "which is smooth at this scale."
    )
    return f"{told} A finer difference shows in comparison.png." if answer.differ else told


def _pair(
    first: Path | None,
    second: Path | None,
    names: list[str] | None,
    called: NameOptions,
    *,
    paper: bool,
) -> Pair:
    """The samples of two files, or built-in ones.

    Raises:
        BadParameter: for one file alone, or files beside ``--paper``.
    """
    if (first is None) != (second is None):
        raise typer.BadParameter("give both samples, or none for the built-in data")
    if paper and first is not None:
        raise typer.BadParameter("--paper has data of its own: give it no files")
    from .. import inputs

    if first is None or second is None:
        pair = inputs.built_in_pair(paper=paper)
        return pair if called.called is None else dataclasses.replace(pair, names=called.called)
    return inputs.read_pair(first, second, names, called)
