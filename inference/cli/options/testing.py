"""Options of hypothesis tests: statistic, kernel, null distribution and level."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import typer

from ...learning import SingleKernel
from ...testing import HsicMethod, LinearEstimator, MmdMethod, SeriesMethod, TwoSampleStatistic
from .model import StandardizeName, distance_standardize, standardize_argument
from .panels import TEST
from .sampler import SeedOption


def _with_hyphens(*names: str) -> tuple[str, ...]:
    """Replace spaces and underscores by hyphens, as on the command line."""
    return tuple(name.replace(" ", "-").replace("_", "-") for name in names)


if TYPE_CHECKING:
    StatisticName: TypeAlias = str
    TwoSampleMethodName: TypeAlias = str
    IndependenceMethodName: TypeAlias = str
else:
    StatisticName = Literal[_with_hyphens(*get_args(TwoSampleStatistic))]
    # The method "normal" is named by its estimator.
    TwoSampleMethodName = Literal[
        _with_hyphens(*(name for name in get_args(MmdMethod) if name != "normal"))
        + get_args(LinearEstimator)
    ]
    IndependenceMethodName = Literal[_with_hyphens(*get_args(HsicMethod))]

AlphaOption: TypeAlias = Annotated[
    float, typer.Option("--alpha", rich_help_panel=TEST, help="Level of the verdict.")
]
PermutationsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--permutations",
        min=1,
        rich_help_panel=TEST,
        help="Number of permutations, or of draws from another null distribution.",
    ),
]
SequentialOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--sequential/--no-sequential",
        rich_help_panel=TEST,
        help="Of more than 9998 permutations draw the first 999, and ten times as many only where "
        "p is not far above the level by these; or all at once.",
    ),
]
#: Exit status where a difference was found and ``--fail`` asked to be told.
DIFFERENT = 3
FailOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--fail",
        rich_help_panel=TEST,
        help=f"Exit with status {DIFFERENT} where a difference is found, for pipelines.",
    ),
]


def min_effect_option(metavar: str, least: float, what: str) -> Any:
    """``--min-effect``, in the command's measure, which is from ``least`` to 1."""

    def checked(value: float | None) -> float | None:
        if value is not None and not least <= value <= 1.0:
            raise typer.BadParameter(f"it is {what}, between {least:g} and 1, and {value:g} is not")
        return value

    return typer.Option(
        "--min-effect",
        metavar=metavar,
        callback=checked,
        rich_help_panel=TEST,
        help=f"With --fail: smaller differences pass. The least effect size that does not: {what}.",
    )


def kernel_option(text: str) -> Any:
    """Return the option ``--kernel`` with a help text that starts with the sentence ``text``."""
    return typer.Option(
        "--kernel",
        rich_help_panel=TEST,
        help=f"{text} multiscale combines many lengthscales; bkl maximizes the marginal "
        "likelihood; posterior is the average over the posterior of the lengthscale; median is "
        "the median heuristic.",
    )


def method_option(text: str) -> Any:
    """Return the option ``--method`` with a help text that ends with ``text``."""
    return typer.Option(
        "--method",
        rich_help_panel=TEST,
        help="Method for the null distribution. permutation is exact; the others are "
        f"approximations for the kernels bkl, posterior and median: {text}.",
    )


#: What a test writes, and in words.
TEST_FILES = ("comparison.png", "test.png", "witness.png", "test.json")
TEST_PICTURES = "comparison.png, or of one test test.png and witness.png, and test.json"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LevelOptions:
    """How a test is calibrated."""

    permutations: PermutationsOption = 999
    alpha: AlphaOption = 0.05
    standardize: Annotated[StandardizeName, distance_standardize(TEST)] = "column"
    seed: SeedOption = 0

    def of_comparison(self) -> dict[str, Any]:
        """Keyword arguments of a comparison, which scales every column."""
        return {"n_resamples": self.permutations, "alpha": self.alpha, "seed": self.seed}

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of a test."""
        return {
            "n_resamples": self.permutations,
            "alpha": self.alpha,
            "seed": self.seed,
            "standardize": standardize_argument(self.standardize),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class TestOptions:
    """Options of the two-sample test and of the independence test."""

    __test__ = False  # prevents collection by pytest

    biased: Annotated[
        bool,
        typer.Option(
            "--biased", rich_help_panel=TEST, help="Use the biased estimator of MMD or HSIC."
        ),
    ] = False
    dependence_length: Annotated[
        float | None,
        typer.Option(
            "--dependence-length",
            rich_help_panel=TEST,
            help="Number of steps beyond which series are independent, for the methods for "
            "series.  [default: 20]",
        ),
    ] = None
    sequential: SequentialOption = True
    level: LevelOptions

    @property
    def estimator(self) -> str | None:
        """Estimator of MMD or HSIC, or ``None`` for the default."""
        return "biased" if self.biased else None

    def check(self, method: str, kernel: str | None) -> None:
        """Check that options are compatible.

        Raises:
            BadParameter: if the method requires another kernel, or has no dependence length.
        """
        single = get_args(SingleKernel)
        if method != "permutation" and kernel not in single:
            raise typer.BadParameter(f"--method {method} requires --kernel {' or '.join(single)}")
        series = _with_hyphens(*get_args(SeriesMethod))
        if self.dependence_length is not None and method not in series:
            raise typer.BadParameter(
                "--dependence-length is for methods for series, such as wild-bootstrap"
            )

    def arguments(self) -> dict[str, Any]:
        """Return keyword arguments of both tests."""
        return {
            "dependence_length": self.dependence_length,
            "sequential": self.sequential,
            **self.level.arguments(),
        }

    def of_comparison(self) -> dict[str, Any]:
        """Return keyword arguments of a comparison, which scales every column."""
        return {"sequential": self.sequential, **self.level.of_comparison()}

    def settings(self) -> dict[str, Any]:
        """Return the options of both tests by their names on the command line."""
        return {
            "permutations": self.level.permutations,
            "sequential": self.sequential,
            "dependence_length": self.dependence_length,
            "standardize": self.level.standardize,
            "seed": self.level.seed,
        }
