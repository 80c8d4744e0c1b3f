import numpy as np
import pytest
from bke.inference import InputError, normal_laplace_density, plot_densities, plot_samples
from bke.inference.plots.style import P_COLOR, Q_COLOR


def test_densities_are_those_of_the_argument():
    at = np.linspace(-5, 5, 20)
    p, q = normal_laplace_density(at)
    (ax,) = plot_densities(at[:, None], p, q, column="speed").axes
    first, second = ax.lines
    np.testing.assert_array_equal(first.get_ydata(), p)
    np.testing.assert_array_equal(second.get_ydata(), q)
    assert (first.get_color(), second.get_color()) == (P_COLOR, Q_COLOR)
    assert first.get_linestyle() != second.get_linestyle()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("speed", "density")


def test_histograms_have_common_bins_and_integrate_to_unity(data):
    (ax,) = plot_samples(data, 1.0 + 2.0 * data[:20], columns=["speed"]).axes
    first, second = (patch.get_data() for patch in ax.patches)
    np.testing.assert_array_equal(first.edges, second.edges)
    for steps in (first, second):
        assert steps.values @ np.diff(steps.edges) == pytest.approx(1.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "P (30 rows)",
        "Q (20 rows)",
    ]
    below, above = ax.collections
    assert len(below.get_segments()) == 30
    assert len(above.get_segments()) == 20
    assert ax.get_xlabel() == "speed"


def test_two_columns_are_scattered(plane):
    (ax,) = plot_samples(plane[:10], plane[10:], columns=["wind", "height"]).axes
    p, q = (points.get_offsets() for points in ax.collections)
    np.testing.assert_allclose(p, plane[:10])
    np.testing.assert_allclose(q, plane[10:])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("wind", "height")


def test_bad_input_is_named(plane):
    three = np.column_stack([plane, plane[:, 0] ** 2])
    with pytest.raises(InputError, match="one or two columns, and P has 3"):
        plot_samples(three, three)
    with pytest.raises(InputError, match="columns has 1 name, but the data have 2 columns"):
        plot_samples(plane, plane, columns=["wind"])
    with pytest.raises(InputError, match="at, p and q must have one length"):
        plot_densities([0.0, 1.0], [1.0, 1.0], [1.0])


def test_true_densities_are_lines_over_the_histograms(data):
    Q = 1.0 + data[:20]
    (ax,) = plot_samples(data, Q, densities=normal_laplace_density).axes
    p, q = ax.lines
    line = p.get_xdata()
    assert (line[0], line[-1]) == (min(data.min(), Q.min()), max(data.max(), Q.max()))
    for drawn, expected in zip((p, q), normal_laplace_density(line), strict=True):
        np.testing.assert_array_equal(drawn.get_ydata(), expected)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert sorted(labels) == ["P (30 rows)", "Q (20 rows)", "density of P", "density of Q"]
