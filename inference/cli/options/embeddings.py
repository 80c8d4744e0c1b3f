"""Embeddings whose kernels are learned, each from its own variable."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from ...learning import SampleKernel
from .data import FILE_KINDS
from .model import StandardizeName, distance_standardize, standardize_argument
from .panels import LEARNED
from .sampler import SeedOption

TrainingArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="TRAINING",
        help=f"Pairs, a row for each, in one file: {FILE_KINDS}.",
        show_default=False,
    ),
]
KernelOption: TypeAlias = Annotated[
    SampleKernel,
    typer.Option(
        "--kernel",
        rich_help_panel=LEARNED,
        help="Lengthscale of a kernel: bkl learns it from its own variable by the marginal "
        "likelihood, which takes seconds to a minute; median is the median distance, at once.",
    ),
]
RegularisationOption: TypeAlias = Annotated[
    Literal["leave-one-out", "marginal-likelihood"],
    typer.Option(
        "--regularisation",
        rich_help_panel=LEARNED,
        help="How the regularisation, and a multiple of the lengthscale of what is conditioned on, "
        "are chosen.",
    ),
]
LearnedStandardize: TypeAlias = Annotated[StandardizeName, distance_standardize(LEARNED)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedOptions:
    """How kernels are chosen."""

    kernel: KernelOption = "bkl"
    standardize: LearnedStandardize = "column"
    seed: SeedOption = 0

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of what learns one kernel."""
        return {
            "kernel": self.kernel,
            "standardize": standardize_argument(self.standardize),
            "seed": self.seed,
        }

    def of_both(self) -> dict[str, Any]:
        """Options of a kernel for each of two variables."""
        told = self.arguments()
        kernel = told.pop("kernel")
        return {"kernel_x": kernel, "kernel_y": kernel, **told}
