"""What a sketch is made of: landmarks, lengthscales and kernel, or another sketch's."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from .kernel import KERNEL_METAVAR, build_kernel, check_kernel
from .model import ScaleOption, scale_argument
from .panels import SKETCH


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The plan of a sketch."""

    like: Annotated[
        Path | None,
        typer.Option(
            "--like",
            metavar="SKETCH",
            rich_help_panel=SKETCH,
            help="Take over the landmarks, units, lengthscales and kernel of another sketch: only "
            "such sketches can be merged and compared.",
        ),
    ] = None
    landmarks: Annotated[
        str | None,
        typer.Option(
            "--landmarks",
            metavar="COUNT|FILE",
            rich_help_panel=SKETCH,
            help="How many, at centres of clusters of these rows, or a file of places, such as a "
            "grid that was agreed upon. Default: 64, or one for 40 rows.",
        ),
    ] = None
    lengthscales: Annotated[
        str | None,
        typer.Option(
            "--lengthscales",
            metavar="LOW,HIGH,COUNT",
            rich_help_panel=SKETCH,
            help="The grid, over the unit of --scale, evenly in the log.  [default: 60 from 0.02, "
            "or a tenth of the way between landmarks, to 8]",
        ),
    ] = None
    kernel: Annotated[
        str | None,
        typer.Option(
            "--kernel",
            metavar=KERNEL_METAVAR,
            rich_help_panel=SKETCH,
            help="Kernel, as for `bke fit`.",
            show_default="se",
        ),
    ] = None
    scale: ScaleOption = None

    def __post_init__(self) -> None:
        self.grid()
        if self.kernel is not None:
            check_kernel(self.kernel, "--kernel")
        given = (self.landmarks, self.lengthscales, self.scale, self.kernel)
        if self.like is not None and any(each is not None for each in given):
            raise typer.BadParameter(
                "--like takes landmarks, lengthscales, kernel and scale from that sketch: leave "
                "out --landmarks, --lengthscales, --kernel and --scale"
            )

    def grid(self) -> list[float] | None:
        """``LOW,HIGH,COUNT`` as that many numbers.

        Raises:
            BadParameter: it is something else.
        """
        if self.lengthscales is None:
            return None
        import numpy as np

        try:
            low, high, count = self.lengthscales.split(",")
            grid: list[float] = np.geomspace(float(low), float(high), int(count)).tolist()
        except ValueError:
            raise typer.BadParameter(
                f"{self.lengthscales!r} is not LOW,HIGH,COUNT such as 0.02,8,60",
                param_hint="--lengthscales",
            ) from None
        return grid

    def arguments(self, places: Any) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.sketch``; ``places``: what --landmarks gave."""
        return {
            "kernel": build_kernel(self.kernel or "se"),
            "scale": scale_argument(self.scale),
            "landmarks": places,
            "lengthscales": self.grid(),
        }
