"""The picture of a comparison shades, outlines or lists exactly the reported regions."""

import functools

import numpy as np
import pytest
from bke.inference import InputError, compare
from bke.inference.comparison.summary import format_ratios
from bke.inference.plots.comparison import KEY, P_MORE, Q_MORE, REGION_ALPHA, plot_comparison
from bke.inference.plots.style import short_names
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import to_hex
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text

QUIET = {"n_resamples": 99, "progress": False}


@functools.cache
def compared(columns, shift):
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(2, 150, columns))
    Q[:, 0] += shift
    return compare(P, Q, names=("before", "after"), **QUIET)


def shaded(ax):
    return [collection for collection in ax.collections if collection.get_alpha() == REGION_ALPHA]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def ratios(comparison):
    return [
        format_ratios(region.ratio if region.sign > 0 else 1.0 / region.ratio)[0]
        for region in comparison.regions[:8]
    ]


def test_a_line_is_shaded_where_the_sign_says():
    different, equal = compared(1, 1.5), compared(1, 0.0)
    figure = different.plot()
    above, below = figure.axes
    left, right = sorted(
        shaded(above), key=lambda collection: collection.get_paths()[0].vertices[:, 0].min()
    )
    for area, color, sign in ((left, P_MORE, 1), (right, Q_MORE, -1)):
        assert to_hex(area.get_facecolor()[0]).upper() == color
        x = area.get_paths()[0].vertices[:, 0]
        inside = np.linspace(x.min(), x.max(), 20)[1:-1]
        assert (different.region_sign(inside) == sign).all()
    assert not shaded(below)  # at a bandwidth that is not that of a region
    assert figure.get_suptitle().replace("\n", " ") == str(different).splitlines()[0]
    assert legend(figure)[2:5] == ["higher density in before", "higher density in after", KEY]
    # The ratios are above the curves, over their bandwidths.
    heights = [patch.get_data().values.max() for patch in above.patches]
    assert [text.get_text() for text in above.texts] == ratios(different)
    assert all(text.xy[1] > max(heights) for text in above.texts)
    bars = [bar for bar in above.collections if isinstance(bar, LineCollection)]
    for bar, region in zip(bars, different.regions, strict=True):
        start, stop = bar.get_segments()[0][:, 0]
        assert start == pytest.approx(
            max(region.center[0] - region.bandwidth[0], above.get_xlim()[0])
        )
        assert stop == pytest.approx(
            min(region.center[0] + region.bandwidth[0], above.get_xlim()[1])
        )
    assert not any(shaded(ax) for ax in equal.plot().axes)
    assert len(legend(equal.plot())) == 5  # samples, witness and bands


@pytest.mark.slow
def test_a_map_has_contours_around_reported_regions():
    different, equal = compared(2, 1.5), compared(2, 0.0)
    figure = different.plot()
    left, right, bar = figure.axes
    assert any(isinstance(artist, ContourSet) for artist in left.collections)
    assert not any(isinstance(artist, ContourSet) for artist in right.collections)
    (mesh,) = (artist for artist in left.collections if isinstance(artist, QuadMesh))
    assert {-1, 1} <= set(np.unique(np.asarray(mesh.get_array())))
    assert "positive for a higher density in before" in bar.get_ylabel().replace("\n", " ")
    assert [text.get_text() for text in right.texts] == ratios(different)
    # Blue is above zero, as in regions with a higher density of the first sample.
    (image,) = (artist for artist in right.collections if isinstance(artist, QuadMesh))
    assert [to_hex(color).upper() for color in image.cmap([0.0, 1.0])] == [Q_MORE, P_MORE]
    assert legend(figure) == [
        "before (150 rows)", "after (150 rows)", "higher density in before",
        "higher density in after", KEY,
    ]  # fmt: skip
    colors = [to_hex(rows.get_facecolor()[0]).upper() for rows in left.collections[1:3]]
    assert colors == [P_MORE, Q_MORE]  # as where the sample has the higher density
    figure = equal.plot()
    left, right, bar = figure.axes
    assert len(legend(figure)) == 2
    assert not right.texts
    assert not any(isinstance(artist, ContourSet) for artist in right.collections)
    (mesh,) = (artist for artist in left.collections if isinstance(artist, QuadMesh))
    assert not np.asarray(mesh.get_array()).any()


@pytest.mark.slow
def test_regions_of_three_columns_are_lines_with_their_columns():
    different, equal = compared(3, 1.5), compared(3, 0.0)
    figure = different.plot()
    (ax,) = figure.axes
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert len(labels) == len(different.regions)
    assert labels[0].startswith("x0 = ")
    intervals = [collection.get_segments()[0][:, 0] for collection in ax.collections[: len(labels)]]
    for (low, high), region in zip(intervals, different.regions, strict=True):
        assert low == pytest.approx(region.ratio_interval[0])
        assert high == pytest.approx(min(region.ratio_interval[1], ax.get_xlim()[1]))
    assert [label.partition(",")[0] for label in legend(figure)] == [
        "higher density in before", "higher density in after"
    ]  # fmt: skip
    (ax,) = equal.plot().axes
    assert [text.get_text() for text in ax.texts] == ["no regions of difference"]


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.one_in(3)
def test_it_is_drawn_on_axes_of_the_user(dimension):
    different = compared(dimension, 1.5)
    wanted = 1 if dimension > 2 else 2
    axes = np.atleast_1d(Figure().subplots(wanted))
    assert plot_comparison(different, ax=list(axes)) is axes[0].figure
    assert axes[0].get_title(loc="left") == str(different).splitlines()[0]
    with pytest.raises(InputError, match="matplotlib Axes"):
        plot_comparison(different, ax=list(Figure().subplots(3)))
    axis = Figure().subplots()
    plot_comparison(different, ax=axis, title="A", xlabel="B", units="mm", legend=False)
    assert (axis.get_title(loc="left"), axis.get_legend()) == ("A", None)
    assert dimension > 2 or axis.get_xlabel() == "B (mm)"
    assert dimension != 2 or axis.get_ylabel() == "x1 (mm)"
    with pytest.raises(InputError, match="without ax"):
        plot_comparison(different, ax=axis, figsize=(3.5, 3.0))
    with pytest.raises(InputError, match="units must be one or"):
        plot_comparison(different, units=["mm"] * 7)


@functools.cache
def paired():
    rng = np.random.default_rng(3)
    before = rng.normal(50.0, 5.0, 80)
    after = before + rng.normal(1.0, 2.0, 80)
    return compare(before, after, names=("before", "after"), paired=True, **QUIET)


def test_differences_of_pairs_have_a_panel():
    result = paired()
    figure = result.plot()
    differences = figure.axes[2]
    assert differences.get_xlabel() == "after - before: x"
    (low,), (high,) = result.mean_difference_interval
    (span,) = (patch for patch in differences.patches if patch.get_label().startswith("mean diff"))
    assert span.get_x() == pytest.approx(low)
    assert span.get_x() + span.get_width() == pytest.approx(high)


@pytest.mark.parametrize(
    ("comparison", "height"),
    [
        (lambda: compared(1, 1.5), 4.0),
        (lambda: compared(1, 0.0), 4.0),
        (paired, 5.0),
        (lambda: compared(2, 1.5), 4.5),
        (lambda: compared(3, 1.5), 4.0),
    ],
    ids=["line", "no difference", "pairs", "map", "list"],
)
def test_texts_do_not_overlap_in_a_column_of_a_journal(comparison, height):
    """3.5 inches wide; a legend is one text for each of its entries."""
    figure = comparison().plot(figsize=(3.5, height), units="mmHg")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text.get_window_extent(renderer).width
    ]
    boxes = {text: text.get_window_extent(renderer) for text in texts}
    visible = [text for text in texts if not _beyond_axis(text)]
    for index, text in enumerate(visible):
        box = boxes[text]
        assert -1.0 <= box.x0 <= box.x1 <= figure.bbox.x1 + 1.0, text
        assert -1.0 <= box.y0 <= box.y1 <= figure.bbox.y1 + 1.0, text
        for other in visible[:index]:
            assert not box.overlaps(boxes[other]), (text, other)


def _beyond_axis(text):
    """Return whether a text is the label of a tick outside of the limits, which is not drawn."""
    for axis in (axis for ax in text.figure.axes for axis in (ax.xaxis, ax.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if text in (tick.label1, tick.label2):
                return not (text.get_visible() and low <= tick.get_loc() <= high)
    return False


def test_bars_of_counts_are_centered_at_the_counts():
    rng = np.random.default_rng(0)
    result = compare(rng.poisson(2.0, 80), rng.poisson(3.0, 90), **QUIET)
    above, _ = result.plot().axes
    edges = above.patches[0].get_data().edges
    np.testing.assert_allclose(edges - np.floor(edges), 0.5, atol=1e-6)
    np.testing.assert_allclose(np.diff(edges), 1.0)


def test_long_names_keep_the_part_that_differs():
    assert short_names(("before", "after")) == ("before", "after")
    long = ("patients_2024_first_quarter", "patients_2025_first_quarter")
    assert short_names(long) == ("…2024_first_q…", "…2025_first_q…")
    assert short_names(("a" * 30 + "x", "a" * 30)) == ("…" + 11 * "a" + "x", "…" + 12 * "a")


def test_bands_of_pairs_have_different_colors():
    rng = np.random.default_rng(0)
    before = rng.normal(size=30)
    result = compare(before, before + rng.normal(1.0, 1.0, 30), paired=True, **QUIET)
    (drawn,) = result.plot().legends
    patches = {
        text.get_text().split()[0]: handle.get_facecolor()[:3]
        for text, handle in zip(drawn.get_texts(), drawn.legend_handles, strict=True)
        if isinstance(handle, Patch)
    }
    assert patches["mean"] != patches["pointwise"]


def test_the_witness_says_its_sign_and_what_the_ticks_are():
    figure = compared(1, 1.5).plot()
    assert figure.axes[1].get_ylabel() == "witness\nbefore - after"
    samples = ["before (150 rows; ticks below)", "after (150 rows; ticks above)"]
    assert legend(figure)[:2] == samples
    bands = [artist for artist in figure.axes[1].collections if " band" in artist.get_label()]
    assert [float(band.get_linewidth()[0]) for band in bands] == [0.8, 0.0]
