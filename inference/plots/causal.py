"""Plot of a causal graph with its columns on a circle."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from typing import Protocol

import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import SMALL, panels

#: Arrow styles of Matplotlib by the type of an edge.
ARROWS = {"-->": "-|>", "---": "-", "<->": "<|-|>"}
EDGE = "#333333"
HIGHLIGHT = "#D55E00"
NODE_SIZE = 2300
#: Characters of a line of a name.
NAME = 9


class Arrow(Protocol):
    """Attributes of an :class:`~bke.inference.Edge` that are plotted."""

    @property
    def first(self) -> str:
        """Name of the first column."""

    @property
    def second(self) -> str:
        """Name of the second column."""

    @property
    def kind(self) -> str:
        """Type of the edge, such as ``-->``."""


class Graph(Protocol):
    """Attributes of a :class:`~bke.inference.CausalGraph` that are plotted."""

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns."""

    @property
    def edges(self) -> Sequence[Arrow]:
        """Edges between columns."""

    @property
    def alpha(self) -> float:
        """Level of the tests."""


def plot_graph(
    graph: Graph, *, highlighted: Collection[Arrow] = (), ax: Axes | None = None
) -> Figure:
    """Draw a graph: an arrow from cause to effect, a line where either may be the cause.

    Args:
        graph: result of :func:`~bke.inference.causal_graph`.
        highlighted: edges drawn in color.
        ax: axes of the plot; by default those of a new figure.
    """
    figure, (panel,) = panels(1, 1, ax, width=5.2, height=5.0)
    names = {name: _broken(name) for name in graph.columns}
    longest = max(len(line) for name in names.values() for line in name.split("\n"))
    size = NODE_SIZE * max(1.0, longest / NAME) ** 2
    network = nx.DiGraph()
    network.add_nodes_from(graph.columns)
    positions = nx.circular_layout(network)
    nx.draw_networkx_nodes(
        network, positions, ax=panel, node_size=size, node_color="white", edgecolors=EDGE
    )
    nx.draw_networkx_labels(network, positions, names, ax=panel, font_size=SMALL + 1)
    for edge in graph.edges:
        pair = (edge.first, edge.second)
        network.add_edge(*pair)
        nx.draw_networkx_edges(
            network,
            positions,
            edgelist=[pair],
            ax=panel,
            node_size=size,
            arrows=True,
            arrowstyle=ARROWS[edge.kind],
            arrowsize=14,
            width=1.6,
            edge_color=HIGHLIGHT if edge in highlighted else EDGE,
        )
    if not graph.edges:
        panel.set_title(f"no edge at level {graph.alpha:g}", fontsize="medium")
    panel.set_axis_off()
    panel.margins(0.15)
    return figure


def _broken(name: str) -> str:
    """Break a name into lines after underscores; a dollar sign does not begin a formula."""
    lines = textwrap.wrap(name.replace("_", "_ "), NAME, break_long_words=False)
    return "\n".join(line.replace("_ ", "_") for line in lines).replace("$", r"\$")
