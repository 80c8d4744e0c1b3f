"""Pictures of two tables: what is drawn of a column is what was found of it."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, compare_tables, plot_tables
from bke.inference.plots.style import P_MORE, Q_MORE, STUCK
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch


def table(rng, rows, *, after):
    shares = [0.6, 0.3, 0.1] if after else [0.2, 0.3, 0.5]
    found = pd.DataFrame(
        {
            "x": rng.normal(1.5 * after, 1.0, rows),
            "count": rng.poisson(2.0 + 3.0 * after, rows),
            "city": rng.choice(["a", "b", "c"], rows, p=shares),
            "when": pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 30, rows), "D"),
            "alike": rng.normal(size=rows),
            "holes": rng.normal(size=rows),
        }
    )
    found.loc[rng.random(rows) < 0.05 + 0.5 * after, "holes"] = np.nan
    return found


@pytest.fixture(scope="module")
def found():
    """120 + 90 rows whose columns but two differ by far; seed 0, 99 permutations."""
    rng = np.random.default_rng(0)
    pair = table(rng, 120, after=False), table(rng, 90, after=True)
    return compare_tables(*pair, names=("may", "june"), n_resamples=99, progress=False)


def panels(figure):
    return {ax.get_title(loc="left").split(":")[0]: ax for ax in figure.axes if ax.axison}


def test_columns_that_have_changed_are_drawn(found):
    drawn = panels(found.plot())
    assert set(drawn) == {one.name for one in found.columns if one.reject}
    assert "alike" not in drawn
    assert "x" in drawn
    assert "p ≤ 0.01" in drawn["x"].get_title(loc="left")
    legend = [text.get_text() for text in found.plot().legends[0].get_texts()]
    assert legend[:2] == ["may (120 rows)", "june (90 rows)"]
    assert found.plot().get_suptitle() == str(found).splitlines()[0]


def test_histograms_are_those_of_the_page(found):
    (ax,) = panels(plot_tables(found, columns=["x"])).values()
    steps = [one.get_data() for one in ax.patches if isinstance(one, StepPatch)]
    expected = found["x"].histogram
    for data, shares in zip(steps, expected.proportions, strict=True):
        np.testing.assert_array_equal(data.values, shares)
        np.testing.assert_array_equal(data.edges, expected.edges)


@pytest.mark.parametrize(("name", "reach"), [("x", 0.0), ("count", 0.5)])
def test_what_is_shaded_is_where_places_are(found, name, reach):
    (ax,) = panels(plot_tables(found, columns=[name])).values()
    shaded = {to_hex(one.get_facecolor()[0]): one.get_paths() for one in ax.collections}
    assert {region.sign for region in found[name].regions} == {1, -1}
    step = np.ptp(found[name].histogram.edges) / 500
    for colour, sign in ((P_MORE, 1), (Q_MORE, -1)):
        ends = np.concatenate([path.vertices[:, 0] for path in shaded[to_hex(colour)]])
        regions = [region for region in found[name].regions if region.sign == sign]
        intervals = np.array([interval for region in regions for interval in region.intervals])
        if reach:
            intervals = np.stack([np.ceil(intervals[:, 0]), np.floor(intervals[:, 1])], axis=1)
        low, high = ax.get_xlim()
        assert ends.min() == pytest.approx(max(intervals.min() - reach, low), abs=step)
        assert ends.max() == pytest.approx(min(intervals.max() + reach, high), abs=step)


@pytest.mark.parametrize("name", ["city", "when"])
def test_bars_are_the_shares(found, name):
    """Of dates those of weekdays: when they are is not compared."""
    (ax,) = panels(plot_tables(found, columns=[name])).values()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    shares = found[name].effect.shares
    assert len(shares) == {"city": 3, "when": 7}[name]
    assert labels == [one.level for one in shares]
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [one.before for one in shares] + [one.after for one in shares]


def test_what_a_histogram_does_not_show_is_told_above_it(found):
    (ax,) = panels(plot_tables(found, columns=["holes"])).values()
    was, now = found["holes"].effect.missing
    assert ax.get_title(loc="left").splitlines()[1] == f"missing: {was:.1%} → {now:.1%}"
    for name in ("x", "alike"):  # shaded; nothing was found of its holes
        (ax,) = panels(plot_tables(found, columns=name)).values()
        assert "\n" not in ax.get_title(loc="left")


def test_axes_of_ones_own_and_what_there_is_not(found):
    axes = Figure().subplots(1, 2)
    assert plot_tables(found, columns=["x", "alike"], ax=axes) is axes[0].figure
    assert [ax.get_title(loc="left").split(":")[0] for ax in axes] == ["x", "alike"]
    with pytest.raises(InputError, match="2 matplotlib Axes"):
        plot_tables(found, columns=["x", "alike"], ax=axes[:1])
    with pytest.raises(InputError, match="without ax"):
        plot_tables(found, columns=["x", "alike"], ax=axes, figsize=(3.5, 3.0))
    narrow = plot_tables(found, columns=["x", "alike"], figsize=(3.5, 5.0), title="A", legend=False)
    first, second = (panel.get_position() for panel in narrow.axes)
    assert first.y0 > second.y1  # one above the other
    assert (narrow.get_suptitle(), narrow.legends) == ("A", [])
    with pytest.raises(InputError, match="no column 'cty' was compared"):
        plot_tables(found, columns=["cty"])
    with pytest.raises(InputError, match="columns names none"):
        plot_tables(found, columns=[])


def test_a_pair_is_named_where_no_column_has_changed():
    """Correlated the other way round: 150 + 150 rows, seed 0."""
    rng = np.random.default_rng(0)
    pair = []
    for sign in (1.0, -1.0):
        x = rng.normal(size=150)
        others = {"y": sign * x + 0.5 * rng.normal(size=150), "z": rng.normal(size=150)}
        pair.append(pd.DataFrame({"x": x, **others}))
    found = compare_tables(*pair, n_resamples=99, progress=False)
    assert [one.reject for one in found.columns] == [False] * 3
    figure = found.plot()
    assert sorted(panels(figure)) == ["correlation of changed pairs", "x", "y"]
    associations = panels(figure)["correlation of changed pairs"]
    before, after = (line.get_xdata() for line in associations.lines[:2])
    (changed,) = found.changed_pairs
    assert (before[0], after[0]) == changed.strengths
    assert [label.get_text() for label in associations.get_yticklabels()] == ["x and y"]
    assert "The association of x and y has changed" in figure.get_suptitle().replace("\n", " ")


def test_where_nothing_has_changed_those_nearest_to_it_are_drawn():
    rng = np.random.default_rng(2)
    pair = (table(rng, 60, after=False) for _ in range(2))
    found = compare_tables(*pair, n_resamples=99, progress=False)
    assert not found.reject
    figure = found.plot()
    drawn = panels(figure)
    outlines = [one for ax in drawn.values() for one in ax.patches if not one.get_alpha()]
    assert len(outlines) > len(found.columns)
    outlines.append(figure.legends[0].legend_handles[1])
    colours = {to_hex(one.get_edgecolor()) for one in outlines}
    assert colours == {to_hex(STUCK)}
    assert list(drawn) == [one.name for one in sorted(found.columns, key=lambda one: one.pvalue)]
