"""The witness between two samples: noise, band, weights and places."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from ..words import parse_noise
from .panels import WITNESS

#: ``weights`` of :func:`~bke.inference.sample_witness`.
Weighting: TypeAlias = Literal["posterior", "chains"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class BandOptions:
    """The noise of the witness, and its band."""

    noise: Annotated[
        str,
        typer.Option(
            "--noise",
            metavar="clt|VARIANCE",
            rich_help_panel=WITNESS,
            help="Noise of the embedding: its sampling covariance by the central limit theorem, or "
            "a variance (the paper's is 0.1; its bands never exclude zero).",
        ),
    ] = "clt"
    level: Annotated[
        float,
        typer.Option(
            "--level",
            rich_help_panel=WITNESS,
            help="Posterior probability inside the band at each point, between 0 and 1.",
        ),
    ] = 0.8

    def __post_init__(self) -> None:
        parse_noise(self.noise, "--noise")

    @property
    def noise_argument(self) -> str | float:
        """The name of the sampling covariance, or a variance."""
        return parse_noise(self.noise, "--noise")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Where the witness is evaluated."""

    at: Annotated[
        Path | None,
        typer.Option(
            "--at",
            metavar="FILE",
            rich_help_panel=WITNESS,
            help="Points of evaluation, a file like the samples. Default: a line (one column), a "
            "mesh (two), the data (more).",
        ),
    ] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WitnessOptions:
    """How a witness is drawn from a run."""

    band: BandOptions
    weights: Annotated[
        Weighting,
        typer.Option(
            "--weights",
            rich_help_panel=WITNESS,
            help="Weight of each mode in the overall band: its posterior mass, or how many chains "
            "are in it, as in the paper.",
        ),
    ] = "posterior"
    thin: Annotated[
        int | None,
        typer.Option(
            "--thin",
            min=1,
            rich_help_panel=WITNESS,
            help="Condition on the samples for every so many-th posterior draw only, and draw so "
            "many witnesses from each. Default: for as few as give the ends of the band a "
            "standard error of 5 % of its width.",
        ),
    ] = None
    places: PlaceOptions

    @property
    def thin_argument(self) -> int | Literal["auto"]:
        """What ``sample_witness`` takes."""
        return self.thin or "auto"


@dataclasses.dataclass(frozen=True, kw_only=True)
class LandmarkWitnessOptions(WitnessOptions):
    """Options of the witness of an earlier run, which may be seen from other landmarks."""

    landmarks: Annotated[
        str | None,
        typer.Option(
            "--landmarks",
            metavar="COUNT|FILE",
            rich_help_panel=WITNESS,
            help="Condition on the embeddings at so many centres of clusters, or at the places in "
            "a file, instead of at all rows: for samples too large for n x n matrices. Default: "
            "those of the run, or none.",
        ),
    ] = None
