"""``bke sketch``: sums in place of data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..command import command
from ..interrupt import terminable
from ..options.data import FILE_KINDS, ColumnOptions, ModuleOption
from ..options.output import OutFile
from ..options.processes import CheckpointOption
from ..options.sampler import SeedOptions
from ..options.sketches import PlanOptions
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Rows, Sketch


@command(
    "Example: `bke sketch calm.csv --columns Ozone --landmarks 10 --out calm.nc`, then "
    "`bke sketch windy.csv --columns Ozone --like calm.nc --out windy.nc`"
)
def sketch(
    terminal: Terminal,
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help=f"Rows: {FILE_KINDS}, or zarr. All but text may be larger than memory.",
            show_default=False,
        ),
    ],
    *,
    columns: ColumnOptions,
    plan: PlanOptions,
    seeds: SeedOptions,
    checkpoint: CheckpointOption = None,
    module: ModuleOption = None,
    out: OutFile = Path("sketch.nc"),
) -> None:
    """Sum over the rows what the landmark model needs of them, at every lengthscale of a grid.

    The file is small, and sketches of one plan add up. It holds no row as it is, but it is not
    anonymous: a row far from all others can be found from its sums at the landmarks around it.
    """
    names = columns.names
    with terminable(checkpoint is not None):
        from .. import inputs, outputs, steps

        (sample,), _, _ = inputs.open_sample([path], names)
        places = inputs.read_landmarks(plan.landmarks, names, sample.columns)
        read = (path, plan.like, plan.landmarks)
        with outputs.output_file(out, read=read, checkpoint=checkpoint):
            how = {"seed": seeds.seed, "checkpoint": checkpoint, "progress": terminal.progress}
            with terminal.step("sketch", "summing", spinner=False):
                from bke.inference import save_sketch

                found = _summed(sample, path, plan, places, module or (), how)
                save_sketch(found, out)
            terminal.say(str(found))
            notes = _notes(sample, found, plan.like)
            terminal.notes(notes)
            from ...report.sketches import sketch_summary

            told = {"command": "sketch", "source": str(path), **sketch_summary(found)}
            steps.finish(told, {"sketch": out}, None, notes, terminal)


def _summed(
    sample: Rows,
    path: Path,
    plan: PlanOptions,
    places: Any,
    modules: Sequence[str],
    how: dict[str, Any],
) -> Sketch:
    """The sketch, by a plan of its own or that of another.

    Raises:
        InputError: the other has another number of columns.
    """
    from bke.inference import load_sketch, sketch as make

    from ...core.errors import InputError
    from ...data.checks import counted

    if plan.like is None:
        return make(sample, **plan.arguments(places), **how)
    first = load_sketch(plan.like, modules=modules)
    width, needed = len(sample.columns), len(first.plan.columns)
    if width != needed:
        raise InputError(
            f"{path} has {counted(width, 'column')}, but the sketch {plan.like} has {needed}: "
            "choose them with --columns"
        )
    return make(sample, like=first, **how)


def _notes(sample: Rows, found: Sketch, like: Path | None) -> list[str]:
    if sample.columns == found.plan.columns:
        return []
    return [
        f"The columns {', '.join(sample.columns)} are matched by position to "
        f"{', '.join(found.plan.columns)} of {like}."
    ]
