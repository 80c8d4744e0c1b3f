"""The picture of a comparison: what is named, and nothing else, is shaded, outlined or listed."""

import functools

import numpy as np
import pytest
from bke.inference import InputError, compare
from bke.inference.comparison.summary import format_ratios
from bke.inference.plots.comparison import plot_comparison
from bke.inference.plots.names import short_names
from bke.inference.plots.regions import P_MORE, Q_MORE, REGION_ALPHA
from matplotlib.collections import QuadMesh
from matplotlib.colors import to_hex
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure

QUIET = {"n_resamples": 99, "progress": False}


@functools.cache
def compared(columns, shift):
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(2, 150, columns))
    Q[:, 0] += shift
    return compare(P, Q, names=("before", "after"), **QUIET)


def shaded(ax):
    return [one for one in ax.collections if one.get_alpha() == REGION_ALPHA]


def test_a_line_is_shaded_where_the_sign_says():
    apart, alike = compared(1, 1.5), compared(1, 0.0)
    above, below = apart.plot().axes
    left, right = sorted(shaded(above), key=lambda one: one.get_paths()[0].vertices[:, 0].min())
    for one, colour, sign in ((left, P_MORE, 1), (right, Q_MORE, -1)):
        assert to_hex(one.get_facecolor()[0]).upper() == colour
        x = one.get_paths()[0].vertices[:, 0]
        inside = np.linspace(x.min(), x.max(), 20)[1:-1]
        assert (apart.region_sign(inside) == sign).all()
    assert not shaded(below)  # of a scale that is not a place's own
    assert above.get_title(loc="left") == str(apart).splitlines()[0]
    labels = [text.get_text() for text in below.get_legend().get_texts()]
    assert labels[:3] == [
        "higher density in before",
        "higher density in after",
        "density ratio, larger over smaller, and bandwidth",
    ]
    assert not any(shaded(ax) for ax in alike.plot().axes)
    assert len(alike.plot().axes[1].get_legend().get_texts()) == 2  # the bands


@pytest.mark.slow
def test_a_map_has_lines_around_what_is_named():
    apart, alike = compared(2, 1.5), compared(2, 0.0)
    left, right, bar = apart.plot().axes
    assert any(isinstance(one, ContourSet) for one in left.collections)
    assert not any(isinstance(one, ContourSet) for one in right.collections)
    (mesh,) = (one for one in left.collections if isinstance(one, QuadMesh))
    assert {-1, 1} <= set(np.unique(np.asarray(mesh.get_array())))
    assert "positive for a higher density in before" in bar.get_ylabel().replace("\n", " ")
    marked = [text.get_text() for text in right.texts]
    assert marked == [
        format_ratios(region.ratio if region.sign > 0 else 1.0 / region.ratio)[0]
        for region in apart.regions[:8]
    ]
    (box,) = right.get_legend().get_texts()
    assert box.get_text() == "density ratio, larger over smaller, and bandwidth"
    # Blue is above zero, as it is where the first sample is named to have more.
    (image,) = (one for one in right.collections if isinstance(one, QuadMesh))
    assert [to_hex(colour).upper() for colour in image.cmap([0.0, 1.0])] == [Q_MORE, P_MORE]
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    assert labels == [
        "before (n = 150)", "after (n = 150)", "higher density in before", "higher density in after"
    ]  # fmt: skip
    left, right, bar = alike.plot().axes
    assert right.get_legend() is None
    assert not right.texts
    assert not any(isinstance(one, ContourSet) for one in right.collections)
    (mesh,) = (one for one in left.collections if isinstance(one, QuadMesh))
    assert not np.asarray(mesh.get_array()).any()


@pytest.mark.slow
def test_of_more_columns_every_place_is_a_line_with_its_columns():
    apart, alike = compared(3, 1.5), compared(3, 0.0)
    (ax,) = apart.plot().axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == len(apart.regions)
    assert labels[0].startswith("x0 ")
    intervals = [one.get_segments()[0][:, 0] for one in ax.collections[: len(labels)]]
    for (low, high), region in zip(intervals, apart.regions, strict=True):
        assert low == pytest.approx(region.ratio_interval[0])
        assert high == pytest.approx(min(region.ratio_interval[1], ax.get_xlim()[1]))
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["higher density in before", "higher density in after"]
    (ax,) = alike.plot().axes
    assert [text.get_text() for text in ax.texts] == ["no regions of difference"]


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.one_in(3)
def test_it_is_drawn_on_axes_that_are_given(dimension):
    apart = compared(dimension, 1.5)
    wanted = 1 if dimension > 2 else 2
    axes = np.atleast_1d(Figure().subplots(wanted))
    assert plot_comparison(apart, axes=list(axes)) is axes[0].figure
    with pytest.raises(InputError, match="matplotlib Axes"):
        plot_comparison(apart, axes=list(Figure().subplots(3)))


def test_bars_of_counts_stand_on_the_counts():
    rng = np.random.default_rng(0)
    found = compare(rng.poisson(2.0, 80), rng.poisson(3.0, 90), **QUIET)
    above, _ = found.plot().axes
    edges = above.patches[0].get_data().edges
    np.testing.assert_allclose(edges - np.floor(edges), 0.5, atol=1e-6)
    np.testing.assert_allclose(np.diff(edges), 1.0)


def test_long_names_keep_what_tells_them_apart():
    assert short_names(("before", "after")) == ("before", "after")
    long = ("patients_2024_first_quarter", "patients_2025_first_quarter")
    assert short_names(long) == ("…2024_first_q…", "…2025_first_q…")
    assert short_names(("a" * 30 + "x", "a" * 30)) == ("…" + 11 * "a" + "x", "…" + 12 * "a")
