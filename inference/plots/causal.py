"""A causal graph, its columns on a circle."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import Protocol

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import SMALL, panels

#: How an edge's marks are drawn.
ARROWS = {"-->": "-|>", "---": "-", "<->": "<|-|>"}
EDGE = "#333333"
HIGHLIGHT = "#D55E00"
NODE_SIZE = 2300
#: Characters of a line of a name.
NAME = 9


class Arrow(Protocol):
    """What is read of an :class:`~bke.inference.Edge`."""

    @property
    def first(self) -> str:
        """Name of a column."""

    @property
    def second(self) -> str:
        """Name of the other."""

    @property
    def kind(self) -> str:
        """Which marks the edge has."""


class Graph(Protocol):
    """What is read of a :class:`~bke.inference.CausalGraph`."""

    @property
    def columns(self) -> Sequence[str]:
        """Names."""

    @property
    def edges(self) -> Sequence[Arrow]:
        """Between columns."""

    @property
    def alpha(self) -> float:
        """The level."""


def plot_graph(
    graph: Graph, *, highlighted: Collection[Arrow] = (), ax: Axes | None = None
) -> Figure:
    """Draw a graph: an arrow from cause to effect, a line where either may be the cause.

    Args:
        graph: from :func:`~bke.inference.causal_graph`.
        highlighted: edges drawn in colour.
        ax: where to draw; by default a new figure.
    """
    figure, (place,) = panels(1, 1, ax, width=5.2, height=5.0)
    names = {name: _broken(name) for name in graph.columns}
    longest = max(len(line) for name in names.values() for line in name.split("\n"))
    size = NODE_SIZE * max(1.0, longest / NAME) ** 2
    network = nx.DiGraph()
    network.add_nodes_from(graph.columns)
    positions = nx.circular_layout(network)
    nx.draw_networkx_nodes(
        network, positions, ax=place, node_size=size, node_color="white", edgecolors=EDGE
    )
    nx.draw_networkx_labels(network, positions, names, ax=place, font_size=SMALL + 1)
    for edge in graph.edges:
        pair = (edge.first, edge.second)
        network.add_edge(*pair)
        nx.draw_networkx_edges(
            network,
            positions,
            edgelist=[pair],
            ax=place,
            node_size=size,
            arrows=True,
            arrowstyle=ARROWS[edge.kind],
            arrowsize=14,
            width=1.6,
            edge_color=HIGHLIGHT if edge in highlighted else EDGE,
        )
    if not graph.edges:
        place.set_title(f"no edge at level {graph.alpha:g}", fontsize="medium")
    place.set_axis_off()
    place.margins(0.15)
    return figure


def _broken(name: str) -> str:
    """A name in lines, broken after underscores; a dollar sign begins no formula."""
    lines = textwrap.wrap(name.replace("_", "_ "), NAME, break_long_words=False)
    return "\n".join(line.replace("_ ", "_") for line in lines).replace("$", r"\$")
