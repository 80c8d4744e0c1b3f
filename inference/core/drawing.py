"""Small plots of two distributions in SVG: outlines of histograms, and bars of proportions.

Colors are classes of the style of the page, which has a light and a dark theme. Every plot has a
title for screen readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 260, 92
#: Position of the axis, and height of the marks of regions below it.
AXIS, STRIP = 68, 5
#: Height of the two bars of one level and its name.
LEVEL = 26
#: Characters of a level's name.
LONGEST = 32


class Mark(NamedTuple):
    """Interval of the axis where one of two distributions has a higher density."""

    start: float
    end: float
    first: bool
    words: str


def outlines(
    edges: np.ndarray,
    proportions: np.ndarray,
    ticks: Sequence[tuple[float, str]],
    marks: Sequence[Mark],
    title: str,
) -> Markup:
    """Draw two histograms over each other, the first filled and the second outlined.

    Args:
        edges: (b + 1,), edges of the bins.
        proportions: (2, b), proportions of the rows of each distribution in the bins.
        ticks: positions on the axis and their labels.
        marks: intervals of the axis that are marked.
        title: description of the plot.
    """
    density = proportions / np.diff(edges)
    top = max(float(density.max()), 1e-300)

    def x(value: float) -> float:
        within = (value - edges[0]) / (edges[-1] - edges[0])
        return round(4 + (WIDTH - 8) * min(max(within, 0.0), 1.0), 1)

    drawn = [
        Markup(
            '<rect class="region-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
        ).format(
            "first" if mark.first else "second",
            x(mark.start),
            AXIS + 1,
            max(round(x(mark.end) - x(mark.start), 1), 2),
            STRIP,
            mark.words,
        )
        for mark in marks
    ]
    for row, name in zip(density, ("area", "outline"), strict=True):
        steps = "".join(
            f"L{x(left)} {round(AXIS - 62 * value / top, 1)}H{x(right)}"
            for left, right, value in zip(edges[:-1], edges[1:], row, strict=True)
        )
        path = f"M{x(edges[0])} {AXIS}{steps}V{AXIS}"
        drawn.append(Markup('<path class="{}" d="{}"/>').format(name, path))
    drawn.append(
        Markup('<line class="axis" x1="4" x2="{}" y1="{}" y2="{}"/>').format(WIDTH - 4, AXIS, AXIS)
    )
    for value, label in ticks:
        half_width = 3.2 * len(label)
        anchor = "middle"
        if x(value) < half_width:
            anchor = "start"
        elif x(value) > WIDTH - half_width:
            anchor = "end"
        drawn.append(
            Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
                x(value), HEIGHT - 5, anchor, label
            )
        )
    return _svg(HEIGHT, title, drawn)


def bars(levels: Sequence[tuple[str, float, float]], title: str) -> Markup:
    """Draw the proportions of levels, the first distribution's bar above the second's.

    Args:
        levels: names and proportions in both distributions.
        title: description of the plot.
    """
    top = max(max(before, after) for _, before, after in levels) or 1.0
    drawn = []
    for index, (name, before, after) in enumerate(levels):
        y = index * LEVEL
        short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
        drawn.append(
            Markup(
                '<text x="0" y="{}">{}</text>'
                '<text x="{}" y="{}" text-anchor="end">{:.1%} → {:.1%}</text>'
            ).format(y + 11, short, WIDTH, y + 11, before, after)
        )
        for offset, proportion, which in ((14, before, "first"), (19, after, "second")):
            drawn.append(
                Markup('<rect class="bar-{}" x="0" y="{}" width="{}" height="4"/>').format(
                    which, y + offset, round(WIDTH * proportion / top, 1)
                )
            )
    return _svg(LEVEL * len(levels), title, drawn)


def _svg(height: int, title: str, drawn: Sequence[Markup]) -> Markup:
    return Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        escape(title), WIDTH, height, Markup("").join(drawn)
    )
