"""``bke test``: do two samples come from one distribution?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ...core.names import printable
from ...learning import TwoSampleKernel
from ...testing import LinearEstimator
from ..command import command
from ..comparison import compared
from ..options.data import ColumnOptions, FirstSample, NameOptions, SecondSample
from ..options.output import optional_folder
from ..options.panels import TEST
from ..options.testing import (
    DIFFERENT,
    FailOption,
    TestOptions,
    TwoSampleNull,
    kernel_option,
    min_effect_option,
    null_option,
)
from ..terminal import Terminal
from ..testing import FILES, PICTURES, finish_test

if TYPE_CHECKING:
    from bke.inference import Comparison
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoSampleOptions:
    """What only this test has."""

    kernel: Annotated[
        TwoSampleKernel | None,
        kernel_option(
            "A test alone: fused is that of the whole comparison; the others are of MMD, the "
            "kernel always chosen from the pooled sample: multiscale, the default of --biased, "
            "hears many lengthscales at once, evidence weighs the difference by its sampling "
            "error; bkl is the paper's one learned lengthscale, posterior its average over the "
            "posterior, median the median distance."
        ),
    ] = None
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            rich_help_panel=TEST,
            help="Row i of P belongs to row i of Q: permutations swap the two.",
        ),
    ] = False
    null: Annotated[
        TwoSampleNull,
        null_option(
            "gamma and spectrum, wild-bootstrap for series in order of time, linear and block for "
            "very many rows"
        ),
    ] = "permutation"
    fail: FailOption = False
    min_effect: Annotated[
        float | None,
        min_effect_option(
            "AUC", 0.5, "the cross-validated AUC, the probability with which a row is told"
        ),
    ] = None

    def compares(self, options: TestOptions) -> bool:
        """Whether the whole comparison is asked for, and nothing that a test of MMD alone has.

        Raises:
            BadParameter: for a scale or an effect size that it has no use for.
        """
        if self.min_effect is not None and not self.fail:
            raise typer.BadParameter("--min-effect is for --fail")
        alone = options.biased or options.memory is not None
        if self.kernel is not None or self.null != "permutation" or alone:
            if self.min_effect is not None:
                raise typer.BadParameter(
                    "--min-effect is of the whole comparison: leave out --kernel, --null, --biased "
                    "and --memory"
                )
            return False
        if options.level.standardize != "column":
            raise typer.BadParameter(
                "--standardize is for --kernel: a comparison scales every column"
            )
        return True

    def statistic(self, biased: bool) -> tuple[str, str | None]:
        """The null and the estimator as the library calls them.

        Raises:
            BadParameter: they do not go together.
        """
        if self.paired and biased:
            raise typer.BadParameter(
                "--paired has an unbiased estimate of its own: leave --biased out"
            )
        estimator = "paired" if self.paired else "biased" if biased else None
        if self.null not in get_args(LinearEstimator):
            return self.null.replace("-", " "), estimator
        if estimator is not None:
            raise typer.BadParameter(f"--null {self.null} has an estimate of its own")
        return "normal", self.null


@command("Example: `bke test calm.csv windy.csv --columns Ozone`", name="test")
def two_sample(
    terminal: Terminal,
    path_p: FirstSample,
    path_q: SecondSample,
    *,
    columns: ColumnOptions,
    called: NameOptions,
    chosen: TwoSampleOptions,
    options: TestOptions,
    out: Annotated[Path | None, optional_folder(PICTURES)] = None,
) -> None:
    """Do two samples differ, where, at what scale and by how much? One answer, at an exact level.

    Of numbers: tables with text, dates or holes are for `bke drift`.

    With --kernel, --null or --biased only the first is asked, by that kernel. With --fail a
    difference is a failure, with --min-effect one whose AUC is at least so large.
    """
    whole = chosen.compares(options)
    null, estimator = chosen.statistic(options.biased)
    kernel = chosen.kernel or ("multiscale" if options.biased else "fused")
    options.check(chosen.null, kernel)
    names = columns.names
    from .. import inputs, outputs

    pair = inputs.read_pair(path_p, path_q, names, called, tested=True)
    rows = {"P": len(pair.P), "Q": len(pair.Q)}
    told = {
        "command": "test",
        "sources": pair.sources,
        "rows": rows,
        "columns": list(pair.columns),
    }
    with outputs.output_folder(out, FILES, command="test", read=(path_p, path_q)) as folder:
        terminal.notes(pair.notes)
        first, second = pair.names
        told_P, told_Q = (printable(str(path)) for path in (path_p, path_q))
        terminal.say(
            f"{first}: {told_P}, {rows['P']} rows; {second}: {told_Q}, {rows['Q']} rows; "
            f"{', '.join(pair.columns)}"
        )
        if whole:
            level = options.of_comparison()
            answer = compared(pair, terminal, paired=chosen.paired, **level)
            differ = answer.reject
            if chosen.min_effect is not None:
                large = answer.auc >= chosen.min_effect
                differ = differ and large
                terminal.say(
                    f"{'Failed' if differ else 'Passed'}: the AUC, {answer.auc:.3f}, is "
                    f"{'at least' if large else 'below'} {chosen.min_effect:g}"
                    f"{', but no difference was found' if large and not differ else ''}."
                )
            _finish(answer, told, list(pair.notes), folder, terminal)
        else:
            with terminal.step("test", "test", spinner=False):
                from bke.inference import plot_witness, sample_test_witness, two_sample_test

                result = two_sample_test(
                    pair.P,
                    pair.Q,
                    kernel=kernel,
                    null=null,
                    estimator=estimator,
                    progress=terminal.progress,
                    **options.arguments(),
                )
                result = result.with_sample_names(pair.names)

            def witness() -> Figure:
                seed = options.level.seed
                drawn = sample_test_witness(result, pair.P, pair.Q, seed=seed, columns=pair.columns)
                return plot_witness(drawn, P=pair.P, Q=pair.Q, names=pair.names)

            told["settings"] = options.settings(kernel, chosen.null, estimator)
            finish_test(result, witness, told, list(pair.notes), folder, terminal)
            differ = result.reject
    if chosen.fail and differ:
        raise typer.Exit(DIFFERENT)


def _finish(
    answer: Comparison,
    told: dict[str, Any],
    notes: list[str],
    out: Path | None,
    terminal: Terminal,
) -> None:
    """Draw a comparison and write its summary."""
    from .. import steps

    files, missing = steps.draw_pictures(out, lambda: [("comparison", answer.plot)], terminal)
    told["answer"] = answer.to_dict()
    steps.finish(told, files, steps.summary_in(out, FILES[-1]), [*notes, *missing], terminal)
