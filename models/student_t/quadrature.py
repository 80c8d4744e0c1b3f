"""Integrals over a box in one or two columns, with panels where the rows are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

MOST_DIMENSIONS = 2
#: Quantiles of each column between which the first panels are, by the number of columns: a mode
#: with less of the rows than between two of them, far from all others, may be missed.
QUANTILES = {1: 33, 2: 9}
#: Nodes in each panel and column at first, likewise; each time twice as many, up to so many points.
FIRST_NODES, MOST_POINTS = {1: 8, 2: 4}, 6_000_000
#: Points at which the function is asked for at once.
BLOCK = 2**14
#: What is nothing beside 1 at the end of an endless axis.
LEAST = 1e-12


class Integral(NamedTuple):
    """What was found, and how far the last two rules are apart, relative to it."""

    estimate: Any  # a number or an array
    error: float


def integrate(
    function: Callable[[np.ndarray], np.ndarray],
    data: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    tolerance: float,
    finest: float = np.inf,
) -> Integral:
    """The integral of a positive function whose modes are about the rows of ``data``.

    By Gauss and Legendre's rule on panels, with twice as many nodes each until it no longer
    changes. Panels of each column lie between quantiles of the rows; where there is room beside
    one, they get smaller towards it by a factor of 4 each, down to ``finest`` or to where rows
    usually are. So narrow modes far from each other are seen.

    Args:
        function: of points (m, D), to (m, ...).
        data: (N, D).
        low: lower corner of the box, (D,); minus infinity where the axis has no end.
        high: upper corner; infinite in the same columns.
        tolerance: of the integral, relative.
        finest: a length over which the function may change, in all columns.

    Raises:
        ArithmeticError: it does not converge to a positive finite value.
    """
    endless = ~np.isfinite(low)
    middle = np.median(data, axis=0)
    width = np.ptp(data, axis=0)
    width = np.where(width > 0.0, width, np.maximum(1.0, np.abs(middle)))
    # An axis without ends is x = middle + width t / (1 - t^2), -1 < t < 1.
    away = (data - middle) / width
    inner = np.where(endless, 2.0 * away / (1.0 + np.sqrt(1.0 + 4.0 * away**2)), data)
    start, end = np.where(endless, -1.0, low), np.where(endless, 1.0, high)
    finest_inner = np.where(endless, finest / width, finest)
    count = QUANTILES[data.shape[1]]
    edges = [
        _edges(np.unique(column), left, right, short, count)
        for column, left, right, short in zip(inner.T, start, end, finest_inner, strict=True)
    ]

    def at(t: np.ndarray) -> np.ndarray:
        rest = np.where(endless, np.maximum(1.0 - t**2, LEAST), 1.0)
        values = function(np.where(endless, middle + width * t / rest, t))
        stretch = np.prod(np.where(endless, width * (1.0 + t**2) / rest**2, 1.0), axis=1)
        return (values.T * stretch).T

    size, last = FIRST_NODES[data.shape[1]], None
    while True:
        rules = [_on_panels(one, size) for one in edges]
        if np.prod([float(len(nodes)) for nodes, _ in rules]) > MOST_POINTS:
            break
        found = _summed(at, *tensor([nodes for nodes, _ in rules], [w for _, w in rules]))
        if not np.all((found > 0.0) & (found < np.inf)):
            break
        if last is not None:
            error = float(np.max(np.abs(found - last) / found))
            if error <= tolerance:
                return Integral(found, error)
        size, last = 2 * size, found
    raise ArithmeticError(
        f"the integral of the density did not converge with {MOST_POINTS:.0e} points: its modes "
        "are too narrow beside the bounds, or alpha is too small for it to be finite there"
    )


def gauss_legendre(low: np.ndarray, high: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (size^D, D) and logarithms of weights of the tensor rule on a box of 1 or 2 columns."""
    if len(low) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor rule is for up to {MOST_DIMENSIONS} columns, not {len(low)}")
    rules = [_on_panels(np.array(ends), size) for ends in zip(low, high, strict=True)]
    nodes, weights = tensor([node for node, _ in rules], [weight for _, weight in rules])
    return nodes, np.log(weights)


def tensor(axes: list[np.ndarray], weights: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All combinations (G, D) of the nodes of the axes, and the products (G,) of their weights."""
    nodes = np.stack([one.ravel() for one in np.meshgrid(*axes, indexing="ij")], axis=1)
    products = np.prod([one.ravel() for one in np.meshgrid(*weights, indexing="ij")], axis=0)
    return nodes, products


def _edges(data: np.ndarray, low: float, high: float, finest: float, count: int) -> np.ndarray:
    """Ends of the panels of one column, from its different values and ``count`` quantiles."""
    quantiles = np.quantile(data, np.linspace(0.0, 1.0, count), method="nearest")
    ends = np.unique(np.concatenate([[low], quantiles, [high]]))
    usual = min(float(np.median(np.diff(ends))), 2.0 * finest)
    if np.isfinite(finest):
        # Panels much shorter than what the function changes over help nothing.
        usual = max(usual, 0.5 * finest)
        inside = [ends[0]]
        for end in ends[1:-1]:
            if min(end - inside[-1], ends[-1] - end) > 0.25 * finest:
                inside.append(end)
        ends = np.array([*inside, ends[-1]])
    ladder = [
        end + side * gap * 4.0**-k
        for left, right in itertools.pairwise(ends)
        for gap in (right - left,)
        for end, side in ((left, 1.0), (right, -1.0))
        for k in range(1, 1 + max(0, int(np.ceil(np.log(gap / usual) / np.log(4.0)))))
    ]
    return np.unique(np.concatenate([ends, ladder]))


def _on_panels(edges: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the rule with ``size`` nodes on each panel."""
    node, weight = np.polynomial.legendre.leggauss(size)
    centre, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    return (centre[:, None] + half[:, None] * node).ravel(), (half[:, None] * weight).ravel()


def _summed(
    function: Callable[[np.ndarray], np.ndarray], nodes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    total: Any = 0.0
    for start in range(0, len(nodes), BLOCK):
        block = slice(start, start + BLOCK)
        total = total + weights[block] @ function(nodes[block])
    return np.asarray(total)
