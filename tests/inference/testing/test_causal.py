"""The PC algorithm over kernel tests: edges of known graphs, caching, bad input."""

import numpy as np
import pandas
import pytest
from bke.inference import InputError, causal_graph
from bke.inference.testing.causal import _edges, _run_pc
from bke.models import SquaredExponential

pytest.importorskip("causallearn")
nx = pytest.importorskip("networkx")
OPTIONS = {"kernel": "median", "n_resamples": 99, "progress": False}


OTHER = SquaredExponential(0.3)


@pytest.fixture(scope="module")
def collider():
    """a -> c <- b and c -> d, not linear."""
    rng = np.random.default_rng(7)
    a, b, e, f = rng.normal(size=(4, 150))
    c = a + np.abs(b) + 0.3 * e
    return np.column_stack([a, b, c, 0.7 * c + np.tanh(c) + 0.4 * f])


@pytest.fixture(scope="module")
def graph(collider):
    return causal_graph(collider, columns=tuple("abcd"), **OPTIONS)


@pytest.mark.parametrize("marks", ["a-->b", "a-->c b-->c", "a-->c b-->c c-->d", "a---b b---c"])
def test_edges_are_read_as_causal_learn_means_them(marks):
    """With d-separation in the true graph in place of tests, the result is its pattern."""
    names = tuple("abcd")
    truth = nx.DiGraph()
    truth.add_nodes_from(range(4))
    for edge in marks.replace("---", "-->").split():
        truth.add_edge(*(names.index(name) for name in edge.split("-->")))

    def pvalue(first, second, given):
        return float(nx.is_d_separator(truth, {first}, {second}, set(given)))

    sample = np.random.default_rng(0).normal(size=(20, 4))
    edges = {
        str(edge).replace(" ", "") for edge in _edges(_run_pc(sample, 0.05, None, pvalue), names)
    }
    expected = set(marks.split())
    if marks == "a-->b":
        expected = {"a---b"}  # no collider orients it
    assert edges == expected


@pytest.mark.slow
def test_a_collider_is_identified(graph):
    assert {str(edge) for edge in graph.edges} == {"a --> c", "b --> c", "c --> d"}
    assert graph.between("c", "a") == graph.between("a", "c")
    assert graph.between("a", "b") is None
    assert any(test.given == () for test in graph.separations("a", "b"))
    assert any("c" in test.given for test in graph.separations("a", "d"))
    assert "3 edges" in str(graph)
    figure = graph.plot()
    assert {text.get_text() for text in figure.axes[0].texts} == set("abcd")


@pytest.mark.slow
def test_a_second_search_repeats_no_test(collider, graph):
    before = dict(graph.source._results)
    again = graph.again(progress=False)
    assert again == graph
    reverse = graph.again(columns=("d", "c", "b", "a"), progress=False)
    assert {str(edge) for edge in reverse.edges} == {str(edge) for edge in graph.edges}
    plain = causal_graph(collider, columns=tuple("abcd"), most_given=0, **OPTIONS)
    assert plain.again(progress=False).tests == plain.tests
    assert {test.given for test in plain.tests} == {()}
    stricter = graph.again(alpha=0.02, progress=False)
    assert stricter.alpha == 0.02
    other = graph.again(kernel=OTHER, progress=False)
    assert other.source.residuals is graph.source.residuals
    direct = causal_graph(collider, columns=tuple("abcd"), **{**OPTIONS, "kernel": OTHER})
    assert [test.pvalue for test in other.tests] == [test.pvalue for test in direct.tests]
    assert [test.pvalue for test in other.tests] != [test.pvalue for test in graph.tests]
    for key, answer in before.items():
        assert graph.source._results[key] is answer
    with pytest.raises(InputError, match="cannot reject at level"):
        graph.again(alpha=0.001)
    with pytest.raises(InputError, match="in some order"):
        graph.again(columns=("a", "b"))


@pytest.mark.slow
def test_the_order_of_rows_does_not_matter(collider, graph):
    order = np.random.default_rng(1).permutation(len(collider))
    shuffled = causal_graph(collider[order], columns=tuple("abcd"), **OPTIONS)
    assert shuffled.edges == graph.edges
    assert [test.pvalue for test in shuffled.tests] == [test.pvalue for test in graph.tests]


def test_columns_without_names_are_numbered(collider):
    graph = causal_graph(collider, most_given=0, **OPTIONS)
    assert graph.columns == ("c1", "c2", "c3", "c4")


@pytest.mark.slow
def test_bad_input(collider, graph):
    with pytest.raises(InputError, match="at least 3 columns"):
        causal_graph(collider[:, :2], **OPTIONS)
    with pytest.raises(InputError, match="4 different names"):
        causal_graph(collider, columns=("a", "a", "b", "c"), **OPTIONS)
    with pytest.raises(InputError, match="kernel must be"):
        causal_graph(collider, **{**OPTIONS, "kernel": "combined"})
    with pytest.raises(InputError, match="at least 4 rows"):
        causal_graph(collider[:3], **OPTIONS)
    duplicated = np.column_stack([collider[:, :3], collider[:, 0]])
    with pytest.raises(InputError, match="nothing is left"):
        causal_graph(duplicated, **OPTIONS)
    for ask in (graph.between, graph.separations):
        with pytest.raises(InputError, match="no column 'x'"):
            ask("x", "a")


def test_columns_of_a_data_frame_are_chosen_by_name(collider):
    frame = pandas.DataFrame(collider, columns=list("abcd"))
    selection = causal_graph(frame, columns=("d", "a", "c"), **OPTIONS)
    same = causal_graph(collider[:, [3, 0, 2]], columns=("d", "a", "c"), **OPTIONS)
    assert selection == same
    with pytest.raises(InputError, match="no column e"):
        causal_graph(frame, columns=("a", "b", "e"), **OPTIONS)
