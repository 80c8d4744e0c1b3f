"""Simulations of a model without a likelihood, and their distance from what was observed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from ...learning import SampleKernel
from ...likelihood_free import Estimator
from .model import StandardizeName, distance_standardize, standardize_argument
from .panels import LEARNED, SIMULATIONS


@dataclasses.dataclass(frozen=True, kw_only=True)
class SimulationOptions:
    """How many simulations, and how near they must be."""

    epsilon: Annotated[
        str | None,
        typer.Option(
            "--epsilon",
            metavar="E,E,...",
            rich_help_panel=SIMULATIONS,
            help="Bandwidths, in units of the squared MMD; with --sequential one, where to stop. "
            "Default: chosen from the simulated distances.",
            show_default=False,
        ),
    ] = None
    simulations: Annotated[
        int | None,
        typer.Option(
            "--simulations",
            rich_help_panel=SIMULATIONS,
            help="How many; with --sequential at most.",
            show_default="10000, with --sequential 50000",
        ),
    ] = None
    rows: Annotated[
        int | None,
        typer.Option(
            "--rows",
            rich_help_panel=SIMULATIONS,
            help="Rows of every simulated data set.",
            show_default="as many as are observed",
        ),
    ] = None
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            rich_help_panel=SIMULATIONS,
            help="Sequential Monte Carlo over falling epsilon: reaches smaller ones.",
        ),
    ] = False
    particles: Annotated[
        int,
        typer.Option("--particles", rich_help_panel=SIMULATIONS, help="Of --sequential."),
    ] = 1000
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            rich_help_panel=SIMULATIONS,
            help="Processes, for a plain function that simulates one data set at a time.",
        ),
    ] = 1
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="DIR",
            rich_help_panel=SIMULATIONS,
            help="Folder in which simulations are kept: after an interruption the same command "
            "goes on from there.",
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.sequential and len(self.bandwidths or ()) > 1:
            raise typer.BadParameter("--sequential goes to one epsilon.", param_hint="--epsilon")

    @property
    def bandwidths(self) -> list[float] | None:
        """One by one, if they are given.

        Raises:
            BadParameter: they are no numbers.
        """
        if self.epsilon is None:
            return None
        try:
            return [float(part) for part in self.epsilon.split(",")]
        except ValueError:
            raise typer.BadParameter(
                f"{self.epsilon!r} is not a list of numbers.", param_hint="--epsilon"
            ) from None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``k2_abc``, or of ``sequential_k2_abc`` if that is asked for."""
        bandwidths: Any = self.bandwidths
        if self.sequential:
            one = None if bandwidths is None else bandwidths[0]
            how = {"epsilon": one, "num_particles": self.particles}
        else:
            how = {"epsilon": bandwidths}
        if self.simulations is not None:
            how["num_simulations"] = self.simulations
        return {**how, "rows": self.rows, "folder": self.checkpoint, "workers": self.workers}


@dataclasses.dataclass(frozen=True, kw_only=True)
class DistanceOptions:
    """The MMD between simulated and observed rows."""

    kernel: Annotated[
        SampleKernel,
        typer.Option(
            "--kernel",
            rich_help_panel=LEARNED,
            help="Lengthscale of the MMD's kernel, from the observed data alone: median is the "
            "median distance, at once; bkl learns it by the marginal likelihood.",
        ),
    ] = "median"
    standardize: Annotated[StandardizeName, distance_standardize(LEARNED)] = "column"
    estimator: Annotated[
        Estimator,
        typer.Option(
            "--estimator",
            rich_help_panel=LEARNED,
            help="Of the squared MMD: features and linear take a time linear in the rows.",
        ),
    ] = "biased"
    features: Annotated[
        int,
        typer.Option("--features", rich_help_panel=LEARNED, help="Of --estimator features."),
    ] = 500

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``k2_abc``."""
        return {
            "kernel": self.kernel,
            "estimator": self.estimator,
            "num_features": self.features,
            "standardize": standardize_argument(self.standardize),
        }
