"""Causal discovery by the PC algorithm with kernel tests of conditional independence.

The algorithm is that of causal-learn; the test is HSIC of residuals (BKE section 5), or KCI.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_choice, nearest
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..core.progress import progress_bar
from ..data.canonical import canonical_order, generator
from ..data.checks import (
    as_names,
    as_sample,
    check_count,
    check_memory,
    column_names,
    pluralize,
)
from ..learning.kernel_selection import KERNEL_NAMES
from ..permutation.null_distribution import check_permutations, p_value
from .independence import (
    Variable,
    conditional_independence_test,
    hsic_statistic,
    permuted_indices,
)
from .kernels import SINGLE_KERNELS, KernelChoice
from .residuals import regress_out
from .variables import variable_kernels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Symbols of edges.
DIRECTED, UNDIRECTED, BIDIRECTED = "-->", "---", "<->"
MEANINGS = {
    DIRECTED: "the first causes the second",
    UNDIRECTED: "the direction is not identified",
    BIDIRECTED: "a hidden common cause, or contradictory tests",
}
#: Names of the kernels of each test of conditional independence.
TESTS = {"residuals": KERNEL_NAMES, "kci": SINGLE_KERNELS}
#: Memory of cached Gram matrices in bytes, and number of n x n matrices of one variable.
CACHE_BYTES, MATRICES_PER_VARIABLE = 2**30, 8


@dataclasses.dataclass(frozen=True)
class Edge:
    """An edge of a causal graph, between two columns.

    Attributes:
        first: name of a column, the cause for a directed edge.
        second: name of the other column.
        kind: ``"-->"``, ``"---"`` or ``"<->"``.
    """

    first: str
    second: str
    kind: str

    def __str__(self) -> str:
        return f"{self.first} {self.kind} {self.second}"


@dataclasses.dataclass(frozen=True)
class ConditionalIndependence:
    """A test of conditional independence of two columns.

    Attributes:
        first: name of a column.
        second: name of the other column.
        given: names of the conditioning columns.
        pvalue: p-value of the test.
    """

    first: str
    second: str
    given: tuple[str, ...]
    pvalue: float

    def __str__(self) -> str:
        condition = f" given {', '.join(self.given)}" if self.given else ""
        return f"{self.first} and {self.second}{condition}: p = {self.pvalue:.3g}"


@dataclasses.dataclass(eq=False, repr=False)
class ConditionalTests:
    """Conditional independence tests of the columns of one sample, with cached results.

    Attributes:
        sample: sample, (n, D), in canonical order.
        names: names of the columns.
        choice: choice of kernels.
        n_resamples: number of permutations of each test.
        seed: random seed of the permutations and of the regressions.
        test_name: ``"residuals"`` or ``"kci"``, the test given other columns.
        residuals: values of columns, or their residuals given others, by the names of both.
    """

    sample: np.ndarray
    names: tuple[str, ...]
    choice: KernelChoice
    n_resamples: int
    seed: int
    test_name: str = "residuals"
    residuals: dict[tuple[str, tuple[str, ...]], np.ndarray] = dataclasses.field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        # Then the order of rows has no influence.
        self.sample = self.sample[canonical_order(self.sample)]
        n, dimension = self.sample.shape
        rng = generator(self.seed, *np.hsplit(self.sample, dimension))
        self._indices = permuted_indices(n, self.n_resamples, rng)
        self._results: dict[tuple[str, str, tuple[str, ...]], ConditionalIndependence] = {}
        self._kernels: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
        cache_size = max(2, CACHE_BYTES // (MATRICES_PER_VARIABLE * 8 * n**2))
        self._variable = functools.lru_cache(cache_size)(self._compute_variable)
        self._single_kernel = functools.cache(self._compute_single_kernel)

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """Return the values of columns, (n, D)."""
        return self.sample[:, [self.names.index(name) for name in names]]

    def test(
        self, first: str, second: str, conditioning: tuple[str, ...]
    ) -> ConditionalIndependence:
        """Test whether two columns are independent given others, or return the cached result."""
        key = (min(first, second), max(first, second), tuple(sorted(conditioning)))
        if key not in self._results:
            kci = conditioning and self.test_name == "kci"
            pvalue = self._kci_pvalue(*key) if kci else self._hsic_pvalue(*key)
            self._results[key] = ConditionalIndependence(*key, pvalue)
        return self._results[key]

    def _hsic_pvalue(self, first: str, second: str, conditioning: tuple[str, ...]) -> float:
        """Compute the p-value of HSIC of two columns, or of their residuals given others."""
        x, y = (self._variable(name, conditioning) for name in (first, second))
        with computing():
            combined, _ = hsic_statistic(x, y, self._indices, "unbiased", progress=False)
        return p_value(combined.values)

    def _kci_pvalue(self, first: str, second: str, conditioning: tuple[str, ...]) -> float:
        """Compute the p-value of KCI of two columns given others."""
        variables = (first,), (second,), conditioning
        try:
            result = conditional_independence_test(
                *map(self.columns, variables),
                statistic="kci",
                kernel=tuple(map(self._single_kernel, variables)),
                n_resamples=self.n_resamples,
                sequential=False,
                # The p-value does not depend on the level; this one suits any n_resamples.
                alpha=1.0 / (1 + self.n_resamples),
                seed=self.seed,
                progress=False,
            )
        except InputError as error:
            given = ", ".join(conditioning)
            raise InputError(f"{first} (X) and {second} (Y) given {given} (Z): {error}") from None
        return result.pvalue

    def _compute_single_kernel(self, names: tuple[str, ...]) -> Any:
        """Select a single kernel of columns."""
        with computing():
            return self.choice.kernels(self.columns(names))[0]

    def _compute_variable(self, name: str, conditioning: tuple[str, ...]) -> Variable:
        """Compute the kernels and Gram matrices of a column, or of its residuals."""
        key = name, conditioning
        if key not in self.residuals:
            values = self.columns([name])
            if conditioning:
                try:
                    values = regress_out(values, self.columns(conditioning), seed=self.seed)
                except InputError as error:
                    raise InputError(f"{name} given {', '.join(conditioning)}: {error}") from None
            self.residuals[key] = values
        values = self.residuals[key]
        with computing():
            if key not in self._kernels:
                self._kernels[key] = variable_kernels(values, self.choice)
            return Variable.from_sample(values, self._kernels[key], self.choice)


@dataclasses.dataclass(frozen=True, repr=False)
class CausalGraph(ReprMixin):
    """Result of :func:`causal_graph`, an equivalence class of directed acyclic graphs.

    Attributes:
        columns: names of the columns.
        edges: edges of the graph.
        tests: conditional independence tests of the algorithm, in order.
        alpha: level of the tests.
        most_given: largest number of conditioning columns, or ``None``.
        source: cached tests, which :meth:`again` reuses.
        progress: the argument ``progress``.
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
        """Find the graph for another level, order of columns or kernel.

        Tests and regressions are reused. Edges that change are unreliable.

        Args:
            alpha: level; by default that of this graph.
            columns: all names in another order. The set of edges does not depend on it, but their
                directions may, if tests contradict each other.
            kernel: see :func:`causal_graph`; by default that of this graph.
            progress: show the number of new tests; by default as for this graph.

        Raises:
            InputError: for a level too low for the number of permutations, or other names.
        """
        alpha = self.alpha if alpha is None else alpha
        check_permutations(self.source.n_resamples, alpha)
        names = as_names(self.columns if columns is None else columns, "columns")
        if sorted(names) != sorted(self.columns):
            raise InputError(f"columns must be {', '.join(self.columns)} in some order")
        source = self.source
        if kernel is not None:
            names_of_test = TESTS[source.test_name]
            choice = KernelChoice.checked(kernel, names_of_test, source.choice.standardize)
            source = dataclasses.replace(source, choice=choice)
        progress = self.progress if progress is None else progress
        return _find_graph(source, names, alpha, self.most_given, progress)

    def between(self, first: str, second: str) -> Edge | None:
        """Return the edge between two columns, or ``None``.

        Raises:
            InputError: for a name that is not in ``columns``.
        """
        pair = self._check_names(first, second)
        return next((edge for edge in self.edges if {edge.first, edge.second} == pair), None)

    def separations(self, first: str, second: str) -> tuple[ConditionalIndependence, ...]:
        """Return the tests of two columns that did not reject independence and removed the edge.

        Raises:
            InputError: for a name that is not in ``columns``.
        """
        pair = self._check_names(first, second)
        return tuple(
            test
            for test in self.tests
            if {test.first, test.second} == pair and test.pvalue > self.alpha
        )

    def _check_names(self, *names: str) -> set[str]:
        for name in names:
            if name not in self.columns:
                raise InputError(
                    f"there is no column {name!r}, only {', '.join(self.columns)}"
                    f"{nearest(name, self.columns)}"
                )
        return set(names)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the edges as rows, with ``first``, ``second`` and ``kind``, see :class:`Edge`."""
        import pandas as pd

        rows = [(edge.first, edge.second, edge.kind) for edge in self.edges]
        return pd.DataFrame(rows, columns=["first", "second", "kind"])

    def __str__(self) -> str:
        lines = [
            f"Causal graph of {len(self.columns)} columns: {pluralize(len(self.edges), 'edge')} by "
            f"{len(self.tests)} tests at level {self.alpha:g}"
        ]
        lines += [f"  {edge}" for edge in self.edges]
        symbols = {edge.kind for edge in self.edges}
        lines += [f"  ({key} {meaning})" for key, meaning in MEANINGS.items() if key in symbols]
        connected = {name for edge in self.edges for name in (edge.first, edge.second)}
        if isolated := sorted(set(self.columns) - connected):
            lines.append(f"  without an edge: {', '.join(isolated)}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<causal graph: {', '.join(map(str, self.edges))}>"

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw the graph, with its columns on a circle."""
        from ..plots.causal import plot_graph

        return plot_graph(self, ax=ax)


def causal_graph(
    data: ArrayLike,
    *,
    columns: tuple[str, ...] | None = None,
    test: str = "residuals",
    kernel: Any = "bkl",
    alpha: float = 0.05,
    n_resamples: int = 499,
    most_given: int | None = None,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> CausalGraph:
    """Find a causal graph by the PC algorithm (CAU-1).

    Its tests of independence are HSIC, and those of conditional independence HSIC of residuals
    (CI-3) or KCI with local permutations (CI-2).

    The result is correct if all common causes are among the columns, the true graph is acyclic and
    faithful, rows are independent, and no test errs; with many tests some do. Rows in order of time
    require :func:`~bke.inference.regress_out` first.

    Args:
        data: data, shape (n, D), D >= 3.
        columns: names of the columns of an array, by default c1, c2, ...; for a data frame those
            to use, by default all.
        test: ``"residuals"`` or ``"kci"``, the ``statistic`` of
            :func:`~bke.inference.conditional_independence_test`. Of two columns in KCI the one
            whose name is first in the alphabet is X.
        kernel: ``"bkl"``, ``"posterior"``, ``"median"``, a kernel, or without KCI ``"multiscale"``,
            for each variable or its residuals.
        alpha: level of every test; a higher level gives more edges.
        n_resamples: number of permutations of every test.
        most_given: largest number of conditioning columns; ``None`` for no limit.
        standardize: see :func:`~bke.inference.independence_test`.
        seed: random seed of all tests.
        progress: show the number of completed tests.

    Raises:
        InputError: for invalid data or arguments, or without causal-learn.
    """
    check_choice(test, "test", tuple(TESTS))
    choice = KernelChoice.checked(kernel, TESTS[test], standardize)
    alpha = check_permutations(n_resamples, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    if most_given is not None:
        check_count(most_given, "most_given", 0)
    names = column_names(data)
    columns = None if columns is None else as_names(columns, "columns")
    sample = as_sample(data, "data")
    if columns is not None and names is not None:
        if missing := [name for name in columns if name not in names]:
            raise InputError(
                f"data have no column {', '.join(missing)}, only {', '.join(names)}"
                f"{nearest(missing[0], names)}"
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
    # Matrices that are alive at once, in addition to the cached ones.
    check_memory(n, dimension, matrices=6)
    source = ConditionalTests(sample, names, choice, n_resamples, seed, test)
    return _find_graph(source, names, alpha, most_given, progress)


def _find_graph(
    source: ConditionalTests,
    names: tuple[str, ...],
    alpha: float,
    most_given: int | None,
    progress: bool,
) -> CausalGraph:
    """Run the algorithm on the columns in the order of ``names``."""
    tests: dict[ConditionalIndependence, None] = {}  # an ordered set
    with progress_bar("tests", None, show=progress) as advance:

        def pvalue(first: int, second: int, conditioning: tuple[int, ...]) -> float:
            conditioning_names = tuple(names[index] for index in conditioning)
            test = source.test(names[first], names[second], conditioning_names)
            if test not in tests:
                advance(1)
            tests[test] = None
            return test.pvalue

        marks = _run_pc(source.columns(names), alpha, most_given, pvalue)
    edges = _edges(marks, names)
    return CausalGraph(names, edges, tuple(tests), alpha, most_given, source, progress)


def _run_pc(
    sample: np.ndarray,
    alpha: float,
    max_conditioning: int | None,
    pvalue: Callable[[int, int, tuple[int, ...]], float],
) -> np.ndarray:
    """Run the stable PC algorithm of causal-learn.

    Args:
        sample: sample, (n, D).
        alpha: level of the tests.
        max_conditioning: largest number of conditioning columns.
        pvalue: p-value for the indices of two columns and of the conditioning columns.

    Returns:
        Matrix of edge marks, (D, D).
    """
    try:
        from causallearn.search.ConstraintBased.PC import pc
        from causallearn.utils.cit import CIT_Base, register_ci_test
    except ImportError:
        raise InputError("causal-learn is not installed: pip install 'bke[causal]'") from None

    class KernelTest(CIT_Base):  # type: ignore[misc]
        """Adapter of ``pvalue`` to the interface of causal-learn."""

        def __init__(self, data: np.ndarray, **_: Any) -> None:
            super().__init__(data)
            self.check_cache_method_consistent("bke", "kernel test")

        def __call__(self, x: int, y: int, condition_set: Any = None) -> float:
            conditioning = () if condition_set is None else tuple(map(int, condition_set))
            return pvalue(int(x), int(y), conditioning)

    register_ci_test("bke", KernelTest)
    graph = pc(sample, alpha, "bke", stable=True, show_progress=False, max_k=max_conditioning)
    return np.asarray(graph.G.graph)


def _edges(marks: np.ndarray, names: tuple[str, ...]) -> tuple[Edge, ...]:
    """Read edges from the matrix of causal-learn: [j, i] is the mark at j, -1 tail and 1 head."""
    edges = []
    for i, j in itertools.combinations(range(len(names)), 2):
        at_i, at_j = marks[i, j], marks[j, i]
        if at_i == at_j != 0:
            edges.append(Edge(names[i], names[j], BIDIRECTED if at_i == 1 else UNDIRECTED))
        elif at_i != at_j:
            first, second = (i, j) if at_j == 1 else (j, i)
            edges.append(Edge(names[first], names[second], DIRECTED))
    return tuple(edges)
