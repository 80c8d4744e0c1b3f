"""Pictures of two tables show the results of their columns."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, compare_tables, plot_tables
from bke.inference.plots.style import P_MORE, Q_MORE, STUCK
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch


def table(rng, rows, *, after):
    probabilities = [0.6, 0.3, 0.1] if after else [0.2, 0.3, 0.5]
    frame = pd.DataFrame(
        {
            "x": rng.normal(1.5 * after, 1.0, rows),
            "count": rng.poisson(2.0 + 3.0 * after, rows),
            "city": rng.choice(["a", "b", "c"], rows, p=probabilities),
            "when": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 30, rows), "D"),
            "unchanged": rng.normal(size=rows),
            "missing": rng.normal(size=rows),
        }
    )
    frame.loc[rng.random(rows) < 0.05 + 0.5 * after, "missing"] = np.nan
    return frame


@pytest.fixture(scope="module")
def result():
    """120 + 90 rows with large differences in all columns but two; seed 0, 99 permutations."""
    rng = np.random.default_rng(0)
    pair = table(rng, 120, after=False), table(rng, 90, after=True)
    return compare_tables(*pair, names=("may", "june"), n_resamples=99, progress=False)


def panels(figure):
    return {ax.get_title(loc="left").split(":")[0]: ax for ax in figure.axes if ax.axison}


def test_columns_that_have_changed_are_drawn(result):
    drawn = panels(result.plot())
    assert set(drawn) == {column.name for column in result.columns if column.reject}
    assert "unchanged" not in drawn
    assert "x" in drawn
    assert "p ≤ 0.01" in drawn["x"].get_title(loc="left")
    legend = [text.get_text() for text in result.plot().legends[0].get_texts()]
    assert legend[:2] == ["may (120 rows)", "june (90 rows)"]
    assert result.plot().get_suptitle() == str(result).splitlines()[0]


def test_histograms_are_those_of_the_page(result):
    (ax,) = panels(plot_tables(result, columns=["x"])).values()
    steps = [patch.get_data() for patch in ax.patches if isinstance(patch, StepPatch)]
    expected = result["x"].histogram
    for data, proportions in zip(steps, expected.proportions, strict=True):
        np.testing.assert_array_equal(data.values, proportions)
        np.testing.assert_array_equal(data.edges, expected.edges)


@pytest.mark.parametrize(("name", "reach"), [("x", 0.0), ("count", 0.5)])
def test_shaded_intervals_are_the_reported_regions(result, name, reach):
    (ax,) = panels(plot_tables(result, columns=[name])).values()
    shaded = {
        to_hex(collection.get_facecolor()[0]): collection.get_paths()
        for collection in ax.collections
    }
    assert {region.sign for region in result[name].regions} == {1, -1}
    step = np.ptp(result[name].histogram.edges) / 500
    for color, sign in ((P_MORE, 1), (Q_MORE, -1)):
        ends = np.concatenate([path.vertices[:, 0] for path in shaded[to_hex(color)]])
        regions = [region for region in result[name].regions if region.sign == sign]
        intervals = np.array([interval for region in regions for interval in region.intervals])
        if reach:
            intervals = np.stack([np.ceil(intervals[:, 0]), np.floor(intervals[:, 1])], axis=1)
        low, high = ax.get_xlim()
        assert ends.min() == pytest.approx(max(intervals.min() - reach, low), abs=step)
        assert ends.max() == pytest.approx(min(intervals.max() + reach, high), abs=step)


@pytest.mark.parametrize("name", ["city", "when"])
def test_bars_are_the_proportions(result, name):
    """Dates have proportions of weekdays: the dates themselves are not compared."""
    (ax,) = panels(plot_tables(result, columns=[name])).values()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    levels = result[name].effect.shares
    assert len(levels) == {"city": 3, "when": 7}[name]
    assert labels == [level.level for level in levels]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [level.before for level in levels] + [level.after for level in levels]


def test_missing_values_are_in_the_title_of_a_histogram(result):
    (ax,) = panels(plot_tables(result, columns=["missing"])).values()
    was, now = result["missing"].effect.missing
    assert ax.get_title(loc="left").splitlines()[1] == f"missing: {was:.1%} → {now:.1%}"
    for name in ("x", "unchanged"):  # shaded; without a change of missing values
        (ax,) = panels(plot_tables(result, columns=name)).values()
        assert "\n" not in ax.get_title(loc="left")


def test_axes_of_the_user_and_unknown_columns(result):
    axes = Figure().subplots(1, 2)
    assert plot_tables(result, columns=["x", "unchanged"], ax=axes) is axes[0].figure
    assert [ax.get_title(loc="left").split(":")[0] for ax in axes] == ["x", "unchanged"]
    with pytest.raises(InputError, match="2 matplotlib Axes"):
        plot_tables(result, columns=["x", "unchanged"], ax=axes[:1])
    with pytest.raises(InputError, match="without ax"):
        plot_tables(result, columns=["x", "unchanged"], ax=axes, figsize=(3.5, 3.0))
    narrow = plot_tables(
        result, columns=["x", "unchanged"], figsize=(3.5, 5.0), title="A", legend=False
    )
    first, second = (panel.get_position() for panel in narrow.axes)
    assert first.y0 > second.y1  # one above the other
    assert (narrow.get_suptitle(), narrow.legends) == ("A", [])
    with pytest.raises(InputError, match="no column 'cty' was compared"):
        plot_tables(result, columns=["cty"])
    with pytest.raises(InputError, match="columns names none"):
        plot_tables(result, columns=[])


def test_a_pair_is_named_where_no_column_has_changed():
    """Correlated the other way round: 150 + 150 rows, seed 0."""
    rng = np.random.default_rng(0)
    pair = []
    for sign in (1.0, -1.0):
        x = rng.normal(size=150)
        columns = {"y": sign * x + 0.5 * rng.normal(size=150), "z": rng.normal(size=150)}
        pair.append(pd.DataFrame({"x": x, **columns}))
    result = compare_tables(*pair, n_resamples=99, progress=False)
    assert [column.reject for column in result.columns] == [False] * 3
    figure = result.plot()
    assert sorted(panels(figure)) == ["correlation of changed pairs", "x", "y"]
    associations = panels(figure)["correlation of changed pairs"]
    before, after = (line.get_xdata() for line in associations.lines[:2])
    (changed,) = result.changed_pairs
    assert (before[0], after[0]) == changed.strengths
    assert [label.get_text() for label in associations.get_yticklabels()] == ["x and y"]
    assert "The association of x and y has changed" in figure.get_suptitle().replace("\n", " ")


def test_without_a_change_columns_are_drawn_in_the_order_of_p_values():
    rng = np.random.default_rng(2)
    pair = (table(rng, 60, after=False) for _ in range(2))
    result = compare_tables(*pair, n_resamples=99, progress=False)
    assert not result.reject
    figure = result.plot()
    drawn = panels(figure)
    outlines = [patch for ax in drawn.values() for patch in ax.patches if not patch.get_alpha()]
    assert len(outlines) > len(result.columns)
    outlines.append(figure.legends[0].legend_handles[1])
    colors = {to_hex(patch.get_edgecolor()) for patch in outlines}
    assert colors == {to_hex(STUCK)}
    assert list(drawn) == [
        column.name for column in sorted(result.columns, key=lambda column: column.pvalue)
    ]
