"""Small pictures of two distributions in SVG: outlines of histograms, and bars of shares.

Colours are classes of the page's style, so that they suit the light and the dark. Every picture has
a title that tells what it shows to those who cannot see it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

WIDTH, HEIGHT = 260, 92
#: Where the axis is, and how high a strip under it marks regions.
AXIS, STRIP = 68, 5
#: Height of the two bars of one level and its name.
LEVEL = 26
#: Characters of a level's name.
LONGEST = 32


class Mark(NamedTuple):
    """A part of the axis where one of two distributions has more."""

    start: float
    end: float
    first: bool
    words: str


def outlines(
    edges: np.ndarray,
    shares: np.ndarray,
    ticks: Sequence[tuple[float, str]],
    marks: Sequence[Mark],
    title: str,
) -> Markup:
    """Draw two histograms over each other, the first filled and the second outlined.

    Args:
        edges: (b + 1,), of the bins.
        shares: (2, b), of each distribution's rows in each.
        ticks: positions on the axis and their labels.
        marks: parts of the axis that are marked.
        title: what it shows, in words.
    """
    density = shares / np.diff(edges)
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
        room = 3.2 * len(label)  # half the width of its text
        anchor = "start" if x(value) < room else "end" if x(value) > WIDTH - room else "middle"
        drawn.append(
            Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
                x(value), HEIGHT - 5, anchor, label
            )
        )
    return _svg(HEIGHT, title, drawn)


def bars(levels: Sequence[tuple[str, float, float]], title: str) -> Markup:
    """Draw the shares of levels, the first distribution's bar above the second's.

    Args:
        levels: names and shares in both.
        title: what it shows, in words.
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
        for offset, share, which in ((14, before, "first"), (19, after, "second")):
            drawn.append(
                Markup('<rect class="bar-{}" x="0" y="{}" width="{}" height="4"/>').format(
                    which, y + offset, round(WIDTH * share / top, 1)
                )
            )
    return _svg(LEVEL * len(levels), title, drawn)


def _svg(height: int, title: str, drawn: Sequence[Markup]) -> Markup:
    return Markup('<svg role="img" aria-label="{}" viewBox="0 0 {} {}">{}</svg>').format(
        escape(title), WIDTH, height, Markup("").join(drawn)
    )
