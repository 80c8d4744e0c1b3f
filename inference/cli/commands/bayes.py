"""``bke bayes``: the posterior of what is hidden, by kernel Bayes' rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
import typer

from ..command import command
from ..options.data import columns_option
from ..options.embeddings import LearnedOptions, RegularisationOption, TrainingArgument
from ..options.output import PRINTED, optional_folder
from ..options.panels import LEARNED
from ..tables import write_table
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.models import ConditionalEmbedding
    from bke.models.embeddings.rules import BayesRule

    from ...io.samples import Sample

TABLE, SUMMARY = "posterior.csv", "summary.json"

PriorArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="PRIOR", help="Draws of the prior of the hidden columns.", show_default=False
    ),
]
SeenArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="SEEN", help="Observations, a row for each.", show_default=False),
]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """How much to regularise, before and after Bayes' rule."""

    regularisation: RegularisationOption = "leave-one-out"
    posterior_regularisation: Annotated[
        float | None,
        typer.Option(
            "--posterior-regularisation",
            min=0.0,
            rich_help_panel=LEARNED,
            help="Delta of kernel Bayes' rule. Default: twice the other.",
        ),
    ] = None


@command(
    "Example: `bke bayes simulated.csv prior.csv seen.csv --hidden theta --seen a,b --out result`"
)
def bayes(
    terminal: Terminal,
    training: TrainingArgument,
    prior: PriorArgument,
    at: SeenArgument,
    *,
    hidden: Annotated[str, columns_option("--hidden", "Columns that are asked for.")],
    seen: Annotated[str, columns_option("--seen", "Columns that are observed.")],
    options: LearnedOptions,
    rules: RuleOptions,
    out: Annotated[Path | None, optional_folder(f"{TABLE} and {SUMMARY}", PRINTED)] = None,
) -> None:
    """Posterior of what is hidden, by kernel Bayes' rule: no likelihood is written down.

    TRAINING holds pairs of hidden and seen columns, simulated or measured, from any distribution of
    the hidden ones; PRIOR says how these are really distributed. Where SEEN is far from the pairs
    the weights sum to less than 1; below 0.1 the cells stay empty.
    """
    from .. import inputs, outputs, steps

    x, y = inputs.read_apart(training, {"--hidden": hidden, "--seen": seen})
    believed = inputs.read_sample(prior, columns=list(x.columns))
    observed = inputs.read_sample(at, columns=list(y.columns))
    with outputs.output_folder(
        out, [TABLE, SUMMARY], command="bayes", read=[training, prior, at]
    ) as folder:
        with terminal.step("learn", "learning the rule"):
            from bke.inference import learn_conditional
            from bke.models import bayes_rule, mean_embedding

            from ...filtering import posterior_points
            from ...report.embeddings import far_rows_notes, listed

            learned = learn_conditional(
                x.values, y.values, regularization=rules.regularisation, **options.of_both()
            )
            rule = bayes_rule(
                learned,
                mean_embedding(believed.values, learned.kernel_x),
                regularization=rules.posterior_regularisation,
            )
        mean, mode, total = posterior_points(rule, observed.values)
        terminal.say(
            f"{', '.join(x.columns)} given {', '.join(y.columns)}: {len(x.values)} pairs, "
            f"{len(believed.values)} draws of the prior, {_in_words(learned, rule)}"
        )
        notes = far_rows_notes(total, "observation")
        terminal.notes(notes)
        header = [*y.columns, *_each(x, "mean"), *_each(x, "mode"), "sum_of_weights"]
        table = np.hstack([observed.values, mean, mode, total[:, None]])
        files = write_table(folder, TABLE, header, table, terminal)
        told = {
            "command": "bayes",
            "training": str(training),
            "prior": str(prior),
            "kernel": options.kernel,
            **_summary(learned, rule, x, y),
            "mean": listed(mean),
            "mode": listed(mode),
            "sum_of_weights": total.tolist(),
        }
        steps.finish(told, files, steps.summary_in(folder), notes, terminal)


def _each(sample: Sample, what: str) -> list[str]:
    return [f"{column}.{what}" for column in sample.columns]


def _in_words(learned: ConditionalEmbedding, rule: BayesRule) -> str:
    from ...learning.kernel_selection import format_kernel

    return (
        f"epsilon {learned.regularization:.3g}, delta {rule.regularization:.3g}; kernels "
        f"{format_kernel(learned.kernel_x)} and {format_kernel(learned.kernel_y)}"
    )


def _summary(
    learned: ConditionalEmbedding, rule: BayesRule, x: Sample, y: Sample
) -> dict[str, Any]:
    from ...learning.kernel_selection import format_kernel

    return {
        "hidden": list(x.columns),
        "seen": list(y.columns),
        "kernel_x": format_kernel(learned.kernel_x),
        "kernel_y": format_kernel(learned.kernel_y),
        "regularisation": learned.regularization,
        "posterior_regularisation": rule.regularization,
    }
