"""Conditional embeddings: ``bke condition``, ``bke bayes`` and ``bke filter``."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from . import options as opt, words
from .app import FILE_KINDS, app
from .terminal import Terminal, exit_codes

if TYPE_CHECKING:
    from bke.models import ConditionalEmbedding

    from ..data.read import Sample

LEARNED = "Kernels"
SUMMARY, PICTURE = "summary.json", "picture.png"


class KernelChoice(enum.StrEnum):
    """Where the kernels come from."""

    bkl = "bkl"
    median = "median"


class RegularisationChoice(enum.StrEnum):
    """How much to regularise."""

    leave_one_out = "leave-one-out"
    marginal_likelihood = "marginal-likelihood"


TrainingArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="TRAINING",
        help=f"Pairs, a row for each, in one file: {FILE_KINDS}.",
        show_default=False,
    ),
]
ChoiceOption: TypeAlias = Annotated[
    KernelChoice,
    typer.Option(
        "--kernel",
        rich_help_panel=LEARNED,
        help="Lengthscale of a kernel: bkl learns it from its own variable by the marginal "
        "likelihood, which takes seconds to a minute; median is the median distance, at once.",
    ),
]
ScaleOption: TypeAlias = Annotated[
    opt.ScaleName,
    typer.Option(
        "--scale",
        rich_help_panel=LEARNED,
        help="Divide each column by its standard deviation before distances are taken.",
    ),
]
RegularisationOption: TypeAlias = Annotated[
    RegularisationChoice,
    typer.Option(
        "--regularisation",
        rich_help_panel=LEARNED,
        help="How the regularisation, and a multiple of the lengthscale of what is conditioned on, "
        "are chosen.",
    ),
]


def out_option(text: str) -> Any:
    """``--out``, with what is written there."""
    return typer.Option(
        "--out",
        metavar="DIR",
        rich_help_panel=opt.OUTPUT,
        help=f"Folder for {text}. Default: no files, the first rows are printed.",
    )


#: Sums of weights outside are marked, and means blank where they are below the least.
USUAL_SUMS, LEAST_SUM = (0.8, 1.2), 0.1


def _columns_option(name: str, text: str) -> Any:
    return typer.Option(
        name, metavar="A,B,...", rich_help_panel=opt.DATA, help=text, show_default=False
    )


@app.command(epilog="Example: `bke condition ozone.csv --given Temp --of Ozone --out result`")
def condition(
    training: TrainingArgument,
    given: Annotated[str, _columns_option("--given", "Columns that are conditioned on.")],
    of: Annotated[str, _columns_option("--of", "Columns whose mean is asked for.")],
    at: Annotated[
        Path | None,
        typer.Option(
            "--at",
            metavar="FILE",
            rich_help_panel=opt.DATA,
            help="Where, a file with the columns of --given. Default: the rows of TRAINING.",
        ),
    ] = None,
    kernel: ChoiceOption = KernelChoice.bkl,
    regularisation: RegularisationOption = RegularisationChoice.leave_one_out,
    scale: ScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: Annotated[
        Path | None,
        out_option("conditional.csv, a picture (of one column given one) and summary.json"),
    ] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """What to expect of some columns given others: the conditional mean embedding.

    Mean and standard deviation at each row, by weights on the rows of TRAINING. Their sum is 1
    where these say enough, and falls to 0 far from all of them, where the cells stay empty; so do
    standard deviations where the variance comes out negative, as some weights are.
    """
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        x, y = (read_sample(training, columns=words.parse_columns(part)) for part in (given, of))
        _check_apart(x.columns, y.columns, "--given", "--of")
        places = x if at is None else read_sample(at, columns=list(x.columns))
        with inputs.output_folder(out, ["conditional.csv", PICTURE, SUMMARY], read=[training, at]):
            with terminal.step("learn", "learning the conditional embedding"):
                from bke.inference.learning.multiples import described

                learned = _learned(x, y, kernel, regularisation, scale, seed)
            weights, total = _trusted(learned.weights(places.values))
            mean = weights @ y.values
            variance = np.full_like(mean, np.nan)
            known = ~np.isnan(mean[:, 0])
            if known.any():
                variance[known] = learned.variance(places.values[known])
            deviation = np.sqrt(np.where(variance > 0.0, variance, np.nan))
            header = [
                *x.columns,
                *(f"{c}.mean" for c in y.columns),
                *(f"{c}.sd" for c in y.columns),
                "sum_of_weights",
            ]
            table = np.hstack([places.values, mean, deviation, total[:, None]])
            rows = len(x.values)
            terminal.say(
                f"{', '.join(y.columns)} given {', '.join(x.columns)}: {rows} pairs, n lambda "
                f"{rows * learned.regularisation:.3g}, {learned.features.rank} features; kernels "
                f"{described(learned.kernel_x)} and {described(learned.kernel_y)}"
            )
            notes = _remarks(total, "row", terminal)
            imaginary = np.flatnonzero(np.any(variance <= 0.0, axis=1)) + 1
            if len(imaginary):
                note = f"{_rows(imaginary, 'row')} without a standard deviation: see --help."
                terminal.notes([note])
                notes.append(note)
            files = write_table(out, "conditional.csv", header, table, terminal)

            def pictures() -> steps.Pictures:
                if (len(x.columns), len(y.columns)) != (1, 1):
                    return []
                from ..plots.operators import plot_conditional

                line = [part[:, 0] for part in (x.values, y.values, places.values, mean, deviation)]
                names = (x.columns[0], y.columns[0])
                return [("picture", lambda: plot_conditional(*line, names=names))]

            drawn, missing = steps.draw_pictures(out, pictures, terminal)
            told = {
                "command": "condition",
                "training": str(training),
                "rows": rows,
                "given": list(x.columns),
                "of": list(y.columns),
                "kernel": kernel.value,
                "kernel_x": described(learned.kernel_x),
                "kernel_y": described(learned.kernel_y),
                "choice": regularisation.value,
                "regularisation": learned.regularisation,
                "rank": learned.features.rank,
                "mean": listed(mean),
                "sd": listed(deviation),
                "sum_of_weights": total.tolist(),
            }
            summary = None if out is None else out / SUMMARY
            steps.finish(told, {**files, **drawn}, summary, [*notes, *missing], terminal)


@app.command(
    epilog="Example: `bke bayes simulated.csv prior.csv seen.csv --hidden theta --seen a,b --out "
    "result`"
)
def bayes(
    training: TrainingArgument,
    prior: Annotated[
        Path,
        typer.Argument(
            metavar="PRIOR", help="Draws of the prior of the hidden columns.", show_default=False
        ),
    ],
    at: Annotated[
        Path,
        typer.Argument(metavar="SEEN", help="Observations, a row for each.", show_default=False),
    ],
    hidden: Annotated[str, _columns_option("--hidden", "Columns that are asked for.")],
    seen: Annotated[str, _columns_option("--seen", "Columns that are observed.")],
    kernel: ChoiceOption = KernelChoice.bkl,
    regularisation: RegularisationOption = RegularisationChoice.leave_one_out,
    posterior_regularisation: Annotated[
        float | None,
        typer.Option(
            "--posterior-regularisation",
            min=0.0,
            rich_help_panel=LEARNED,
            help="Delta of kernel Bayes' rule. Default: twice the other.",
        ),
    ] = None,
    scale: ScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: Annotated[Path | None, out_option("posterior.csv and summary.json")] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Posterior of what is hidden, by kernel Bayes' rule: no likelihood is written down.

    TRAINING holds pairs of hidden and seen columns, simulated or measured, from any distribution of
    the hidden ones; PRIOR says how these are really distributed. Where SEEN is far from the pairs
    the weights sum to less than 1; below 0.1 the cells stay empty.
    """
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        x, y = (read_sample(training, columns=words.parse_columns(part)) for part in (hidden, seen))
        _check_apart(x.columns, y.columns, "--hidden", "--seen")
        believed = read_sample(prior, columns=list(x.columns))
        observed = read_sample(at, columns=list(y.columns))
        reads = [training, prior, at]
        with inputs.output_folder(out, ["posterior.csv", SUMMARY], read=reads):
            with terminal.step("learn", "learning the rule"):
                from bke.inference.learning.multiples import described
                from bke.models import bayes_rule, mean_embedding
                from bke.models.embeddings.pre_image import pre_images

                learned = _learned(x, y, kernel, regularisation, scale, seed)
                rule = bayes_rule(
                    learned,
                    mean_embedding(believed.values, learned.kernel_x),
                    regularisation=posterior_regularisation,
                )
            weights, total = _trusted(rule.weights(observed.values))
            mean = weights @ rule.points
            known = ~np.isnan(weights[:, 0])
            modes = np.full_like(mean, np.nan)
            if known.any():
                modes[known] = pre_images(rule.kernel_x, rule.points, weights[known]).point
            header = [
                *y.columns,
                *(f"{c}.mean" for c in x.columns),
                *(f"{c}.mode" for c in x.columns),
                "sum_of_weights",
            ]
            table = np.hstack([observed.values, mean, modes, total[:, None]])
            terminal.say(
                f"{', '.join(x.columns)} given {', '.join(y.columns)}: {len(x.values)} pairs, "
                f"{len(believed.values)} draws of the prior, epsilon {learned.regularisation:.3g}, "
                f"delta {rule.regularisation:.3g}; kernels {described(learned.kernel_x)} and "
                f"{described(learned.kernel_y)}"
            )
            notes = _remarks(total, "observation", terminal)
            files = write_table(out, "posterior.csv", header, table, terminal)
            told = {
                "command": "bayes",
                "training": str(training),
                "prior": str(prior),
                "hidden": list(x.columns),
                "seen": list(y.columns),
                "kernel": kernel.value,
                "kernel_x": described(learned.kernel_x),
                "kernel_y": described(learned.kernel_y),
                "regularisation": learned.regularisation,
                "posterior_regularisation": rule.regularisation,
                "mean": listed(mean),
                "mode": listed(modes),
                "sum_of_weights": total.tolist(),
            }
            steps.finish(told, files, None if out is None else out / SUMMARY, notes, terminal)


@app.command(
    name="filter",
    epilog="Example: `bke filter training.csv new.csv --states u,v --observations a,b --out here`",
)
def filter_states(
    training: TrainingArgument,
    series: Annotated[
        Path,
        typer.Argument(
            metavar="SERIES", help="New observations in order of time.", show_default=False
        ),
    ],
    states: Annotated[
        str, _columns_option("--states", "Columns of TRAINING that are hidden later.")
    ],
    observations: Annotated[
        str, _columns_option("--observations", "Columns that are observed, in both files.")
    ],
    ahead: Annotated[
        int,
        typer.Option(
            "--ahead",
            min=0,
            help="Predict so many steps ahead as well: the row of a step tells the state that much "
            "later.",
        ),
    ] = 0,
    kernel: ChoiceOption = KernelChoice.bkl,
    scale: ScaleOption = opt.ScaleName.column,
    seed: opt.SeedOption = 0,
    out: Annotated[Path | None, out_option("states.csv, a picture and summary.json")] = None,
    json: opt.JsonOption = False,
    quiet: opt.QuietOption = False,
    debug: opt.DebugOption = False,
) -> None:
    """Hidden states of a series by kernel Bayes' filter: no model is written down.

    TRAINING is one series in order of time with states and observations; multiples of the
    lengthscales and the regularisation are chosen by cross-validation in two halves. States are
    filtered (mean and mode of the posterior) and smoothed. Observations that are far from all of
    training are left out, with a note.
    """
    terminal = Terminal(json=json, quiet=quiet)
    with exit_codes(debug):
        from ..data.read import read_sample
        from . import inputs, steps

        x, y = (
            read_sample(training, columns=words.parse_columns(part))
            for part in (states, observations)
        )
        _check_apart(x.columns, y.columns, "--states", "--observations")
        new = read_sample(series, columns=list(y.columns))
        with inputs.output_folder(out, ["states.csv", PICTURE, SUMMARY], read=[training, series]):
            with terminal.step("learn", "learning the filter", spinner=False):
                from bke.inference import learn_filter

                learned = learn_filter(
                    x.values,
                    y.values,
                    kernel_x=kernel.value,
                    kernel_y=kernel.value,
                    scale=scale.argument,
                    seed=seed,
                    progress=terminal.progress,
                )
            terminal.say(str(learned))
            with terminal.step("filter", "filtering"):
                filtered = learned.filter.filter(new.values, outliers="skip")
                parts = {
                    "filtered": filtered.mean(),
                    "mode": filtered.mode(),
                    "smoothed": learned.filter.smooth(filtered).mean(),
                }
                if ahead:
                    parts["ahead"] = learned.filter.predict(filtered, ahead).mean()
            notes = []
            skipped = np.flatnonzero(~np.asarray(filtered.observed)) + 1
            if len(skipped):
                note = (
                    f"{_rows(skipped, 'observation')} far from all of training and left out: the "
                    "states there are predictions."
                )
                terminal.notes([note])
                notes.append(note)
            header = ["step", *(f"{column}.{name}" for name in parts for column in x.columns)]
            numbers = np.arange(1.0, len(new.values) + 1.0)[:, None]
            table = np.hstack([numbers, *parts.values()])
            files = write_table(out, "states.csv", header, table, terminal)

            def pictures() -> steps.Pictures:
                from ..plots.operators import plot_states

                shown = {name: parts[name] for name in ("filtered", "smoothed")}
                return [("picture", lambda: plot_states(shown, columns=x.columns))]

            drawn, missing = steps.draw_pictures(out, pictures, terminal)
            best = learned.trials[0]
            told = {
                "command": "filter",
                "training": str(training),
                "series": str(series),
                "rows": len(x.values),
                "states": list(x.columns),
                "observations": list(y.columns),
                "kernel": kernel.value,
                "factor": best.factor,
                "regularisation": best.regularisation / len(x.values),
                "validated_error": best.error**0.5,
                "validated_error_smoothed": learned.smoothed_error**0.5,
                "ahead": ahead,
                "left_out": [int(row) for row in skipped],
                **{name: values.tolist() for name, values in parts.items()},
            }
            summary = None if out is None else out / SUMMARY
            steps.finish(told, {**files, **drawn}, summary, [*notes, *missing], terminal)


def _learned(
    x: Sample,
    y: Sample,
    kernel: KernelChoice,
    regularisation: RegularisationChoice,
    scale: opt.ScaleName,
    seed: int,
) -> ConditionalEmbedding:
    """The conditional embedding of y given x."""
    from bke.inference import learn_conditional

    return learn_conditional(
        x.values,
        y.values,
        kernel_x=kernel.value,
        kernel_y=kernel.value,
        regularisation=regularisation.value,
        scale=scale.argument,
        seed=seed,
    )


def _trusted(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (m, n) that sum to one, NaN where they sum to too little; and their sums (m,)."""
    total: np.ndarray = weights.sum(axis=1)
    kept = np.where(total > LEAST_SUM, total, np.nan)
    return weights / kept[:, None], total


def _remarks(total: np.ndarray, what: str, terminal: Terminal) -> list[str]:
    """Say which sums of weights are unusual."""
    low, high = USUAL_SUMS
    far = np.flatnonzero((total < low) | (total > high)) + 1
    if len(far) == 0:
        return []
    note = (
        f"{_rows(far, what)} far from the training pairs, for the weights sum to less than {low:g} "
        f"or more than {high:g}: do not rely on what is told there. Below {LEAST_SUM:g} nothing is."
    )
    terminal.notes([note])
    return [note]


def _rows(rows: np.ndarray, what: str) -> str:
    """``Observations 3, 7 are``, the first ten of them."""
    shown = ", ".join(str(row) for row in rows[:10])
    more = f" and {len(rows) - 10} more" if len(rows) > 10 else ""
    several = len(rows) > 1
    return f"{what.capitalize()}{'s' * several} {shown}{more} {'are' if several else 'is'}"


def listed(table: np.ndarray) -> list[list[float | None]]:
    """Rows for JSON, ``None`` where a cell is empty."""
    return [[None if np.isnan(cell) else float(cell) for cell in row] for row in table]


def _check_apart(first: Sequence[str], second: Sequence[str], one: str, other: str) -> None:
    both = [column for column in first if column in second]
    if both:
        raise typer.BadParameter(f"{both[0]!r} is in both {one} and {other}.", param_hint=other)


#: Rows of a table that are printed where there is no folder.
MOST_PRINTED = 20


def write_table(
    folder: Path | None, name: str, header: list[str], table: np.ndarray, terminal: Terminal
) -> dict[str, Path]:
    """The table as CSV in ``folder``, or printed."""
    import pandas as pd

    from ..runtime.atomic import atomic_path

    frame = pd.DataFrame(table, columns=header)
    if folder is None:
        terminal.say(frame.head(MOST_PRINTED).to_string(index=False))
        if len(frame) > MOST_PRINTED:
            terminal.say(f"and {len(frame) - MOST_PRINTED} more rows, which --out writes")
        return {}
    path = folder / name
    with atomic_path(path) as temporary:
        frame.to_csv(temporary, index=False)
    return {"table": path}
