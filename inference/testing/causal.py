"""Causal discovery: the PC algorithm over kernel tests of conditional independence, BKE section 5.

The algorithm is causal-learn's; the test is this package's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError, nearest
from ..core.notebook import Shown
from ..core.progress import progress_bar
from ..data.checks import as_sample, check_count, check_memory, column_names, pluralize
from ..permutation.enough import check_permutations
from .cached import ConditionalIndependence, ConditionalTests
from .independence import CHOICES
from .kernel_choice import KernelChoice

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: n x n matrices alive at once, but for those that are kept for later tests.
MATRICES = 6
#: How an edge is written.
DIRECTED, UNDIRECTED, BIDIRECTED = "-->", "---", "<->"
MEANINGS = {
    DIRECTED: "the first causes the second",
    UNDIRECTED: "either may cause the other: tests do not tell",
    BIDIRECTED: "both have a hidden cause, or tests contradict each other",
}


@dataclasses.dataclass(frozen=True)
class Edge:
    """An edge of a causal graph, between two columns.

    Attributes:
        first: name of a column; of a directed edge the cause.
        second: name of the other.
        kind: ``"-->"``, ``"---"`` or ``"<->"``.
    """

    first: str
    second: str
    kind: str

    def __str__(self) -> str:
        return f"{self.first} {self.kind} {self.second}"


@dataclasses.dataclass(frozen=True, repr=False)
class CausalGraph(Shown):
    """What :func:`causal_graph` found: an equivalence class of directed acyclic graphs.

    Attributes:
        columns: names.
        edges: of the graph.
        tests: all that were asked for, in order.
        alpha: their level.
        most_given: the most columns that were conditioned on, if there was a limit.
        source: of the tests, which keeps them for :meth:`again`.
        progress: whether it was shown.
    """

    columns: tuple[str, ...]
    edges: tuple[Edge, ...]
    tests: tuple[ConditionalIndependence, ...]
    alpha: float
    most_given: int | None
    source: ConditionalTests = dataclasses.field(compare=False)
    progress: bool = dataclasses.field(default=True, compare=False)

    def again(
        self,
        *,
        alpha: float | None = None,
        columns: Sequence[str] | None = None,
        kernel: Any = None,
        progress: bool | None = None,
    ) -> CausalGraph:
        """Find the graph again with another level, order of columns or kernel.

        No test is made twice, and no regression. Edges that come and go are not to be relied on.

        Args:
            alpha: level; by default the same.
            columns: all names, in another order. Which edges there are does not depend on it; their
                directions may, where tests contradict each other.
            kernel: see :func:`causal_graph`; by default the same.
            progress: show how many new tests are done; by default as for this graph.

        Raises:
            InputError: for a level too low for the permutations, or other names.
        """
        level = self.alpha if alpha is None else alpha
        check_permutations(self.source.permutations, level)
        names = tuple(columns or self.columns)
        if sorted(names) != sorted(self.columns):
            raise InputError(f"columns must be {', '.join(self.columns)} in some order")
        source = self.source
        if kernel is not None:
            choice = KernelChoice.checked(kernel, CHOICES, source.choice.scale)
            source = source.with_choice(choice)
        shown = self.progress if progress is None else progress
        return _graph(source, names, level, self.most_given, shown)

    def between(self, first: str, second: str) -> Edge | None:
        """Find the edge between two columns, if there is one.

        Raises:
            InputError: for a name that is none of ``columns``.
        """
        pair = self._pair(first, second)
        return next((edge for edge in self.edges if {edge.first, edge.second} == pair), None)

    def separations(self, first: str, second: str) -> tuple[ConditionalIndependence, ...]:
        """Find the tests of two columns that found no dependence: why there is no edge.

        Raises:
            InputError: for a name that is none of ``columns``.
        """
        pair = self._pair(first, second)
        return tuple(
            test
            for test in self.tests
            if {test.first, test.second} == pair and test.pvalue > self.alpha
        )

    def _pair(self, *names: str) -> set[str]:
        for name in names:
            if name not in self.columns:
                raise InputError(
                    f"there is no column {name!r}, only {', '.join(self.columns)}"
                    f"{nearest(name, self.columns)}"
                )
        return set(names)

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each edge: ``first``, ``second`` and ``kind``, see :class:`Edge`."""
        import pandas as pd

        rows = [(edge.first, edge.second, edge.kind) for edge in self.edges]
        return pd.DataFrame(rows, columns=["first", "second", "kind"])

    def __str__(self) -> str:
        head = (
            f"Causal graph of {len(self.columns)} columns: {pluralize(len(self.edges), 'edge')} by "
            f"{len(self.tests)} tests at level {self.alpha:g}"
        )
        lines = [head, *(f"  {edge}" for edge in self.edges)]
        kinds = {edge.kind for edge in self.edges}
        lines += [f"  ({mark} {meaning})" for mark, meaning in MEANINGS.items() if mark in kinds]
        alone = set(self.columns) - {name for e in self.edges for name in (e.first, e.second)}
        if alone:
            lines.append(f"  without an edge: {', '.join(sorted(alone))}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<causal graph: {', '.join(map(str, self.edges))}>"

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw the graph, its columns on a circle."""
        from ..plots.causal import plot_graph

        return plot_graph(self, ax=ax)


def causal_graph(
    data: ArrayLike,
    *,
    columns: tuple[str, ...] | None = None,
    kernel: Any = "bkl",
    alpha: float = 0.05,
    permutations: int = 499,
    most_given: int | None = None,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> CausalGraph:
    """Find a causal graph by the PC algorithm (CAU-1).

    Its tests of conditional independence are HSIC of residuals (CI-3).

    Sound if causes are all among the columns, the true graph is acyclic and hides no dependence,
    rows are independent, and the tests make no mistake: with many tests some do. Rows in order of
    time want :func:`~bke.inference.regress_out` first.

    Args:
        data: shape (n, D), D >= 3.
        columns: names of an array's columns, by default c1, c2, ...; of a data frame those to use,
            by default all.
        kernel: ``"bkl"``, ``"multiscale"``, ``"posterior"``, ``"median"`` or a kernel, for each
            variable or its residuals.
        alpha: level of every test; a larger one gives more edges.
        permutations: of every test.
        most_given: condition on no more columns than that; ``None`` for no limit.
        standardize: see :func:`~bke.inference.independence_test`.
        seed: of all tests.
        progress: show how many tests are done.

    Raises:
        InputError: for data or arguments that make no sense, or without causal-learn.
    """
    choice = KernelChoice.checked(kernel, CHOICES, standardize)
    alpha = check_permutations(permutations, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    if most_given is not None:
        check_count(most_given, "most_given", 0)
    names = column_names(data)
    sample = as_sample(data, "data")
    if columns is not None and names is not None:
        if missing := [name for name in columns if name not in names]:
            told = nearest(missing[0], names)
            raise InputError(
                f"data have no column {', '.join(missing)}, only {', '.join(names)}{told}"
            )
        sample = sample[:, [names.index(name) for name in columns]]
    names = columns or names
    n, dimension = sample.shape
    if n < 4:
        raise InputError(f"a causal graph needs at least 4 rows, and there are {n}")
    if dimension < 3:
        raise InputError(f"a causal graph needs at least 3 columns, and there are {dimension}")
    names = tuple(names or (f"c{index + 1}" for index in range(dimension)))
    if len(names) != dimension or len(set(names)) != dimension:
        raise InputError(f"columns must be {dimension} different names, got {names}")
    check_memory(n, dimension, matrices=MATRICES)
    source = ConditionalTests(sample, names, choice, permutations, seed)
    return _graph(source, names, alpha, most_given, progress)


def _graph(
    source: ConditionalTests,
    names: tuple[str, ...],
    alpha: float,
    most_given: int | None,
    progress: bool,
) -> CausalGraph:
    """Run the algorithm on the columns in the order of ``names``."""
    asked: dict[ConditionalIndependence, None] = {}
    with progress_bar("tests", None, shown=progress) as advance:

        def pvalue(first: int, second: int, given: tuple[int, ...]) -> float:
            answer = source.test(names[first], names[second], tuple(names[k] for k in given))
            if answer not in asked:
                advance(1)
            asked[answer] = None
            return answer.pvalue

        marks = _run_pc(source.columns(names), alpha, most_given, pvalue)
    return CausalGraph(
        names, _edges(marks, names), tuple(asked), alpha, most_given, source, progress
    )


def _run_pc(
    sample: np.ndarray,
    alpha: float,
    most_given: int | None,
    pvalue: Callable[[int, int, tuple[int, ...]], float],
) -> np.ndarray:
    """Run causal-learn's stable PC; its matrix of edge marks."""
    try:
        from causallearn.search.ConstraintBased.PC import pc
        from causallearn.utils.cit import CIT_Base, register_ci_test
    except ImportError:
        raise InputError("causal-learn is not installed: pip install 'bke[causal]'") from None

    class ResidualHsic(CIT_Base):  # type: ignore[misc]
        """What causal-learn calls for every test."""

        def __init__(self, data: np.ndarray, ask: Callable[..., float], **_: Any) -> None:
            super().__init__(data)
            self._ask = ask
            self.check_cache_method_consistent("bke", "residual HSIC")

        def __call__(self, x: int, y: int, condition_set: Any = None) -> float:
            given = () if condition_set is None else condition_set
            return self._ask(int(x), int(y), tuple(int(k) for k in given))

    register_ci_test("bke", ResidualHsic)
    found = pc(sample, alpha, "bke", stable=True, show_progress=False, max_k=most_given, ask=pvalue)
    return np.asarray(found.G.graph)


def _edges(marks: np.ndarray, names: tuple[str, ...]) -> tuple[Edge, ...]:
    """Read the edges: [j, i] of causal-learn's matrix is the mark at j, -1 tail, 1 head."""
    edges = []
    for i in range(len(names)):
        for j in range(i + 1, len(names)):
            at_i, at_j = marks[i, j], marks[j, i]
            if at_i == 0 and at_j == 0:
                continue
            if at_i == at_j:
                kind = BIDIRECTED if at_i == 1 else UNDIRECTED
                edges.append(Edge(names[i], names[j], kind))
            else:
                first, second = (i, j) if at_j == 1 else (j, i)
                edges.append(Edge(names[first], names[second], DIRECTED))
    return tuple(edges)
