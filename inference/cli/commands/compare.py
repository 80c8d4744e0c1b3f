"""``bke compare``: do two samples come from one distribution?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from ...core.names import printable
from ...learning import TestKernel
from ...testing import LinearEstimator
from ..command import command
from ..options.data import ColumnOptions, FirstSample, NameOptions, SecondSample
from ..options.output import optional_folder
from ..options.panels import TEST
from ..options.testing import (
    DIFFERENT,
    TEST_FILES,
    TEST_PICTURES,
    FailOption,
    StatisticName,
    TestOptions,
    TwoSampleMethodName,
    kernel_option,
    method_option,
    min_effect_option,
)
from ..terminal import Terminal

if TYPE_CHECKING:
    from bke.inference import Comparison
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoSampleOptions:
    """Options of the two-sample test only."""

    statistic: Annotated[
        StatisticName | None,
        typer.Option(
            "--statistic",
            rich_help_panel=TEST,
            help="Compute a single test instead of the comparison: combined is the test of the "
            "comparison, mmd the squared MMD of --kernel, bayes-factor the Bayes factor of a "
            "difference.  [default with --kernel, --method or --biased: mmd]",
        ),
    ] = None
    kernel: Annotated[
        TestKernel | None,
        kernel_option(
            "Kernel of --statistic mmd, by default multiscale, selected from the pooled sample."
        ),
    ] = None
    paired: Annotated[
        bool,
        typer.Option(
            "--paired",
            rich_help_panel=TEST,
            help="Rows i of P and Q are a pair, and permutations swap the two.",
        ),
    ] = False
    method: Annotated[
        TwoSampleMethodName,
        method_option(
            "gamma and spectrum; wild-bootstrap for series in order of time; linear and block for "
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

    def single_test(self, options: TestOptions) -> dict[str, Any] | None:
        """Return the arguments of a single test, or ``None`` for the comparison.

        Raises:
            BadParameter: if options exclude each other.
        """
        if self.min_effect is not None and not self.fail:
            raise typer.BadParameter("--min-effect is for --fail")
        options.check(self.method, self.kernel)
        is_default = self.statistic is None and self.kernel is None and self.method == "permutation"
        if is_default and not options.biased:
            if options.level.standardize != "column":
                raise typer.BadParameter(
                    "--standardize is for --statistic: a comparison scales every column"
                )
            return None
        if self.min_effect is not None:
            raise typer.BadParameter(
                "--min-effect is for the comparison: leave out --statistic, --kernel, --method and "
                "--biased"
            )
        statistic = self.statistic or "mmd"
        if statistic != "mmd" and (self.kernel is not None or options.biased):
            raise typer.BadParameter(
                f"--kernel and --biased are for --statistic mmd, not for {statistic}"
            )
        if self.paired and options.biased:
            raise typer.BadParameter("--paired is an unbiased estimator: leave --biased out")
        method, estimator = self.method.replace("-", " "), options.estimator
        if self.method in get_args(LinearEstimator):
            if estimator is not None or self.paired:
                raise typer.BadParameter(
                    f"--method {self.method} is an estimator: leave --paired and --biased out"
                )
            method, estimator = "normal", self.method
        return {
            "statistic": statistic.replace("-", "_"),
            "kernel": self.kernel or ("multiscale" if statistic == "mmd" else None),
            "method": method,
            "estimator": estimator,
            "paired": self.paired,
        }


@command("Example: `bke compare calm.csv windy.csv --columns Ozone`")
def compare(
    terminal: Terminal,
    path_p: FirstSample,
    path_q: SecondSample,
    *,
    columns: ColumnOptions,
    called: NameOptions,
    chosen: TwoSampleOptions,
    options: TestOptions,
    out: Annotated[Path | None, optional_folder(TEST_PICTURES)] = None,
) -> None:
    """Do two samples differ, where, at what scale and by how much? One answer, at an exact level.

    Of numbers: tables with text, dates or holes are for `bke drift`.

    With --statistic, --kernel, --method or --biased only a single test is computed. With --fail a
    difference is a failure, with --min-effect one whose AUC is at least so large.
    """
    single_test = chosen.single_test(options)
    names = columns.names
    from .. import inputs, outputs, steps

    pair = inputs.read_pair(path_p, path_q, names, called, tested=True)
    rows = {"P": len(pair.P), "Q": len(pair.Q)}
    told: dict[str, Any] = {
        "command": "compare",
        "sources": pair.sources,
        "rows": rows,
        "columns": list(pair.columns),
    }
    with outputs.output_folder(out, TEST_FILES, command="compare", read=(path_p, path_q)) as folder:
        terminal.notes(pair.notes)
        first, second = pair.names
        told_P, told_Q = (printable(str(path)) for path in (path_p, path_q))
        terminal.say(
            f"{first}: {told_P}, {rows['P']} rows; {second}: {told_Q}, {rows['Q']} rows; "
            f"{', '.join(pair.columns)}"
        )
        if single_test is None:
            level = options.of_comparison()
            answer = steps.compared(pair, terminal, paired=chosen.paired, **level)
            differ = answer.reject
            if chosen.min_effect is not None:
                large = answer.auc >= chosen.min_effect
                differ = differ and large
                terminal.say(
                    f"{'Failed' if differ else 'Passed'}: the AUC, {answer.auc:.3f}, is "
                    f"{'at least' if large else 'below'} {chosen.min_effect:g}"
                    f"{', but no difference was found' if large and not differ else ''}."
                )
            if chosen.fail:
                told |= {"failed": differ, "min_effect": chosen.min_effect}
            _finish(answer, told, list(pair.notes), folder, terminal)
        else:
            with terminal.step("test", "test", spinner=False):
                from bke.inference import plot_witness, sample_test_witness, two_sample_test

                result = two_sample_test(
                    pair.P,
                    pair.Q,
                    **single_test,
                    progress=terminal.progress,
                    **options.arguments(),
                )
                result = result.with_sample_names(pair.names)

            def witness() -> Figure:
                seed = options.level.seed
                drawn = sample_test_witness(result, pair.P, pair.Q, seed=seed, columns=pair.columns)
                return plot_witness(drawn, P=pair.P, Q=pair.Q, names=pair.names)

            differ = result.reject
            told["settings"] = {**single_test, **options.settings()}
            if chosen.fail:
                told["failed"] = differ
            steps.finish_test(result, witness, told, list(pair.notes), folder, terminal)
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
    steps.finish(told, files, steps.summary_in(out, TEST_FILES[-1]), [*notes, *missing], terminal)
