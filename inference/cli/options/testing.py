"""Hypothesis tests: kernels, null distributions, permutations and the level."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args

import typer

from ...learning import SingleKernel
from ...testing import HsicNull, LinearEstimator, MmdNull, SeriesNull
from .model import StandardizeName, distance_standardize, standardize_argument
from .panels import TEST
from .sampler import SeedOption


def _spelt(*nulls: str) -> tuple[str, ...]:
    """As on the command line, without spaces."""
    return tuple(null.replace(" ", "-") for null in nulls)


if TYPE_CHECKING:
    TwoSampleNull: TypeAlias = str
    PairNull: TypeAlias = str
else:  # the normal null goes by the estimator that it is for
    TwoSampleNull = Literal[
        _spelt(*(null for null in get_args(MmdNull) if null != "normal"))
        + get_args(LinearEstimator)
    ]
    PairNull = Literal[_spelt(*get_args(HsicNull))]

AlphaOption: TypeAlias = Annotated[
    float, typer.Option("--alpha", rich_help_panel=TEST, help="Level of the verdict.")
]
PermutationsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--permutations",
        min=1,
        rich_help_panel=TEST,
        help="Random permutations, or draws of another null.",
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
    """``--kernel``, how a test chooses its own."""
    return typer.Option("--kernel", rich_help_panel=TEST, help=text)


def null_option(text: str) -> Any:
    """``--null``, where the null distribution comes from."""
    return typer.Option(
        "--null",
        rich_help_panel=TEST,
        help="Where the null distribution comes from. Permutations are exact; the others are "
        f"approximations, for the kernels bkl, posterior and median: {text}.",
    )


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
    """What both tests have."""

    __test__ = False  # for pytest, not one of its classes

    biased: Annotated[
        bool,
        typer.Option("--biased", rich_help_panel=TEST, help="The biased estimate of MMD or HSIC."),
    ] = False
    memory: Annotated[
        float | None,
        typer.Option(
            "--memory",
            rich_help_panel=TEST,
            help="Steps over which series forget, for the nulls that are for series.  "
            "[default: 20]",
        ),
    ] = None
    sequential: SequentialOption = True
    level: LevelOptions

    def check(self, null: str, kernel: str) -> None:
        """Refuse what does not go together, by the names that it has here."""
        single = get_args(SingleKernel)
        if null != "permutation" and kernel not in single:
            raise typer.BadParameter(f"--null {null} is for --kernel {', '.join(single)}")
        if self.memory is not None and null not in _spelt(*get_args(SeriesNull)):
            raise typer.BadParameter("--memory is for the nulls of series, such as wild-bootstrap")

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of a test, but those that it chooses itself."""
        return {
            "memory": self.memory,
            "sequential": self.sequential,
            **self.level.arguments(),
        }

    def of_comparison(self) -> dict[str, Any]:
        """Keyword arguments of a comparison, which scales every column."""
        return {"sequential": self.sequential, **self.level.of_comparison()}

    def settings(self, kernel: str, null: str, estimator: str | None) -> dict[str, Any]:
        """What a test was asked for, by the names that it has on the command line."""
        return {
            "kernel": kernel,
            "null": null,
            "estimator": estimator,
            "permutations": self.level.permutations,
            "sequential": self.sequential,
            "memory": self.memory,
            "standardize": self.level.standardize,
            "seed": self.level.seed,
        }
