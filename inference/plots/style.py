"""Colors, panels, axes and names of all plots. Nothing here touches pyplot or rcParams."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from ..core.errors import InputError, check_choice
from ..diagnostics.modes import Mode, format_chains, format_location

#: One color per mode, from the palette of Okabe and Ito, which suits color-blind readers.
MODES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442")
#: Chains that stay far below the density of their mode.
STUCK = "#9A9A9A"
#: Proportions of black and white in the darkest and the lightest chain of a mode.
DARKEST, LIGHTEST = 0.4, 0.5
#: All chains together, whatever their mode.
OVERALL = "#5A4A78"
P_COLOR = "#1A1A1A"
Q_COLOR = "#E69F00"
TRUTH = "#0072B2"
#: Where one of two samples has more.
P_MORE, Q_MORE = "#0072B2", Q_COLOR
#: Colors of a map, centered on zero, which suit color-blind readers.
DIVERGING = LinearSegmentedColormap.from_list("more", [Q_MORE, "white", P_MORE])
#: Shading of a band, of the warmup, of where a band excludes zero.
BAND_ALPHA = 0.25
SHADE = "#EDEDED"
SMALL = 8.0
DOTS_PER_INCH = 130
#: Command in the formulas that Matplotlib writes, such as powers on an axis.
TICK_FORMULA = r"\mathdefault"
#: A mode's location is spelt out in a legend up to this many numbers.
LONGEST_LOCATION = 4
#: Most letters of a sample's name in a legend, and letters kept before the first that differs.
LONGEST_NAME, BEFORE = 12, 3


class Picture(Figure):
    """A figure that pyplot does not manage: it shows itself in notebooks and galleries.

    Use ``savefig`` elsewhere, or hand the plotting functions axes made with ``plt.subplots()``.
    """

    def draw(self, renderer: Any) -> None:
        """Draw all artists; a dollar sign in a name does not begin a formula."""
        for text in self.findobj(Text):
            if (
                isinstance(text, Text)
                and "$" in text.get_text()
                and TICK_FORMULA not in text.get_text()
            ):
                text.set_parse_math(False)
        super().draw(renderer)

    def _repr_html_(self) -> str:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DOTS_PER_INCH)
        encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
        return f'<img src="data:image/png;base64,{encoded}" alt="figure"/>'


def panels(
    rows: int,
    columns: int,
    axes: Axes | Sequence[Axes] | np.ndarray | None,
    *,
    width: float,
    height: float,
    **subplots: Any,
) -> tuple[Figure, list[Axes]]:
    """Return the axes passed, or those of a new figure of ``rows`` x ``columns`` panels.

    Args:
        rows: number of rows of panels.
        columns: number of columns of panels.
        axes: ``None``, or as many axes as there are panels, row by row.
        width: width of a new figure in inches.
        height: height of a new figure in inches.
        **subplots: passed to ``Figure.subplots``.

    Raises:
        InputError: if the number of ``axes`` is not that of the panels.
    """
    if axes is None:
        figure = Picture(figsize=(width, height), dpi=DOTS_PER_INCH, layout="constrained")
        grid = figure.subplots(rows, columns, squeeze=False, **subplots)
        return figure, list(grid.ravel())
    passed = [axes] if isinstance(axes, Axes) else list(np.ravel(np.asarray(axes, dtype=object)))
    if len(passed) != rows * columns or not all(isinstance(ax, Axes) for ax in passed):
        expected = (
            "one matplotlib Axes" if rows * columns == 1 else f"{rows * columns} matplotlib Axes"
        )
        raise InputError(f"this plot needs {expected}, and {len(passed)} were given")
    return figure_of(passed[0]), passed


def figure_of(ax: Axes) -> Figure:
    """Return the figure that contains ``ax``, possibly in a subfigure."""
    figure: Any = ax.figure
    while not isinstance(figure, Figure):  # a subfigure
        figure = figure.figure
    return figure


def mode_color(mode: int) -> str:
    """Return the color of a mode by its index; -1 is a stuck chain."""
    return STUCK if mode < 0 else MODES[mode % len(MODES)]


def shade(color: str, index: int, count: int) -> str:
    """Return one of ``count`` shades of a color, from dark to light; a single one is the color."""
    if count == 1:
        return color
    weight = (DARKEST + LIGHTEST) * index / (count - 1) - DARKEST
    red, green, blue = (
        channel + abs(weight) * (float(weight > 0.0) - channel) for channel in to_rgb(color)
    )
    return to_hex((red, green, blue))


def plain(ax: Axes) -> None:
    """Remove the frame at the top and on the right, and make tick labels small."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=SMALL)


def log_scale(ax: Axes, which: str, values: np.ndarray, wider_than: float = 10.0) -> bool:
    """Make an axis (``"x"`` or ``"y"``) logarithmic if ``values`` span more than ``wider_than``.

    Returns:
        True if the axis is logarithmic.
    """
    finite = values[np.isfinite(values)]
    if not finite.size or finite.min() <= 0 or finite.max() <= wider_than * finite.min():
        return False
    factor = finite.max() / finite.min()
    subdivisions: tuple[float, ...] = (1.0,)
    if factor <= 1000:
        subdivisions = (1.0, 2.0, 5.0) if factor > 10 else (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
    if which == "x":
        ax.set_xscale("log")
    else:
        ax.set_yscale("log")
    axis: Axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(LogLocator(subs=subdivisions))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    return True


def rug(ax: Axes, values: np.ndarray, color: str, *, top: bool = False, label: str = "") -> None:
    """Draw a tick for every value on the lower (or upper) edge."""
    start, stop = (0.96, 1.0) if top else (0.0, 0.04)
    ax.vlines(
        values,
        start,
        stop,
        transform=ax.get_xaxis_transform(),
        colors=color,
        linewidths=0.6,
        alpha=0.6,
        label=label or "_rug",
    )


def central(
    points: np.ndarray, samples: Sequence[np.ndarray], proportion: float = 0.95
) -> np.ndarray:
    """Return a mask of the (m,) ``points`` in the central part of the pooled ``samples``.

    Bands are wide where there are no data, so axes are chosen from this part. Without samples it is
    the central part of the points.
    """
    pooled = np.concatenate([np.ravel(sample) for sample in samples]) if samples else points
    low, high = np.quantile(pooled, [(1 - proportion) / 2, (1 + proportion) / 2])
    inside = (points >= low) & (points <= high)
    return inside if inside.any() else np.ones(len(points), dtype=bool)


def short_names(names: tuple[str, str]) -> tuple[str, str]:
    """Return the names of two samples, shortened for a legend to a part that differs."""
    pairs = zip(*names, strict=False)
    first_difference = next((i for i, (a, b) in enumerate(pairs) if a != b), min(map(len, names)))

    def short(name: str) -> str:
        start = max(0, min(first_difference - BEFORE, len(name) - LONGEST_NAME))
        stop = start + LONGEST_NAME
        if len(name) <= LONGEST_NAME:
            return name
        return f"{'…' * (start > 0)}{name[start:stop]}{'…' * (stop < len(name))}"

    return short(names[0]), short(names[1])


def site_components(run: xr.DataTree, group: str, site: str | None) -> dict[str, np.ndarray]:
    """Return every scalar component of the hyperparameters, (chain, draw), by its axis label.

    Args:
        run: result of :func:`~bke.inference.fit`.
        group: ``"posterior"`` or ``"warmup_posterior"``.
        site: name of a site; ``None`` for all sites.

    Raises:
        InputError: if the run has no such site.
    """
    dataset = run[group].to_dataset()
    names = [str(name) for name in dataset.data_vars]
    if site is not None:
        check_choice(site, "site", names)
    components = {}
    for name in names if site is None else [site]:
        values = dataset[name]
        if values.ndim == 2:
            components[f"{name}{_of_only_column(run, name)}"] = values.values
            continue
        inner = values.stack(component=values.dims[2:])
        for index in range(inner.sizes["component"]):
            indices = inner["component"].values[index]
            label = (
                f"{name} of {indices[0]}"
                if values.dims[2:] == ("input",)
                else f"{name}[{', '.join(map(str, indices))}]"
            )
            components[label] = inner.isel(component=index).values
    return components


def _of_only_column(run: xr.DataTree, site: str) -> str:
    columns = [str(name) for name in run["observed_data"].to_dataset()["column"].values]
    is_named = len(columns) == 1 and columns != ["x"] and site.startswith("lengthscale")
    return f" of {columns[0]}" if is_named else ""


def short_location(mode: Mode) -> str:
    """Format the location of a mode; an empty string for too many numbers."""
    count = sum(np.size(value) for value in mode.location.values())
    return format_location(mode) if count <= LONGEST_LOCATION else ""


def mode_name(index: int, mode: Mode) -> str:
    """Format ``mode 1: lengthscale 0.52, chains 0-3``, numbered from 1 as in the report."""
    location = short_location(mode)
    return f"mode {index + 1}: {f'{location}, ' if location else ''}{format_chains(mode.chains)}"
