"""Monitors: false alarms, detection of changes, and equal results for any division of streams."""

import itertools

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, Monitor, Monitors, e_bh
from bke.inference.monitoring.monitor import calibrate_wealth
from bke.inference.monitoring.scores import MIN_SPACING
from scipy.stats import binom


def rows(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 3))
    values[:, 1] += 0.7 * values[:, 0]
    values[:, 2] += shift
    return values


def table(n, seed, *, zone=(0.7, 0.2, 0.1), missing=0.05, shift=0.0):
    rng = np.random.default_rng(seed)
    load = rng.normal(50.0, 5.0, n)
    return pd.DataFrame(
        {
            "id": seed * 10_000 + np.arange(n),
            "when": pd.Timestamp("2026-03-01") + pd.to_timedelta(np.arange(n), unit="min"),
            "load": np.where(rng.random(n) < missing, np.nan, load),
            "heat": 0.3 * load + rng.normal(shift, 1.0, n),
            "zone": rng.choice(["north", "south", "east"], n, p=zone),
            "on": rng.random(n) < 0.5,
        }
    )


def watched(**options):
    return Monitor(table(600, 1), exclude=["id", "when"], **options)


@pytest.mark.slow
def test_alarms_are_rare_without_a_change():
    """At alpha = .25, 80 streams of 600 rows with ties and missing values: the 99.9 % point."""
    alarms = 0
    for seed in range(80):
        rng = np.random.default_rng([1, seed])
        reference, stream = (
            np.where(rng.random((n, 2)) < 0.1, np.nan, rng.poisson(1.5, (n, 2)) ** 2.0)
            for n in (30, 600)
        )
        alarms += Monitor(reference, alpha=0.25, seed=seed).update(stream).alarm
    assert alarms <= binom.ppf(0.999, 80, 0.25)


@pytest.mark.slow
def test_levels_that_the_reference_lacks_are_no_change():
    """Levels that a reference of 40 rows lacks, at alpha = .25; 80 streams of 400 rows.

    New levels are those absent from the training rows of the reference: otherwise its other rows
    would have none, and streams would.
    """
    alarms = 0
    for seed in range(80):
        rng = np.random.default_rng([2, seed])
        level = np.char.add("v", rng.geometric(0.3, size=440).astype(str))
        frame = pd.DataFrame({"level": level, "x": rng.normal(size=440)})
        monitor = Monitor(frame[:40], alpha=0.25, column_types={"level": "category"}, seed=seed)
        alarms += monitor.update(frame[40:]).alarm
        test = monitor._test
        columns = test.scores.columns
        assert set(columns.indicator_levels[0]) <= set(test.training_rows[:, 0])
        is_new = ~np.isin(test.calibration_rows[:, 0], columns.indicator_levels[0])
        labels = [label for _, _, label in columns.indicators]
        index = labels.index("a rare or new level of level")
        indicators = columns.indicator_values(test.calibration_rows)
        np.testing.assert_array_equal(indicators[:, index], is_new)
    assert alarms <= binom.ppf(0.999, 80, 0.25)


@pytest.fixture(scope="module")
def alarmed():
    """A monitor with an alarm: c is larger from row 301 on."""
    monitor = Monitor(rows(400, 0), columns=["a", "b", "c"])
    monitor.update(np.concatenate([rows(300, 1), rows(300, 2, shift=1.0)]))
    return monitor


def test_shift_is_detected(alarmed):
    """An alarm after the change, an interval that holds it, and its column named."""
    state = alarmed.state
    assert state.alarm
    assert 300 < state.alarm_row < 400
    assert state.change_point.low <= 301 <= state.change_point.high
    assert str(state.changes[0]) == "c is larger"
    assert state.changes[0].columns == ("c",)
    assert state.pvalue <= 0.05
    assert state.max_wealth >= 20.0
    assert "CHANGE at row" in state.summary_line
    assert state.summary_line.endswith(f"(alarm since row {state.alarm_row})")
    assert f"Largest wealth of the bets so far: {state.max_wealth:.3g}." in str(state)
    assert f"c is larger (wealth {state.changes[0].wealth:.3g} at the alarm)" in str(state)
    assert "c is larger" in str(alarmed)


@pytest.mark.parametrize(
    ("change", "description"),
    [
        (lambda x: x * [1.0, 1.0, 1.4], "the dispersion of c is larger"),
        (lambda x: x * [1.0, 1.0, 0.3], "the dispersion of c is smaller"),
        (lambda x: x - [0.0, 0.0, 1.5], "c is smaller"),
        (lambda x: np.where([False, False, True], np.nan, x), "more missing values"),
        (lambda x: x[:, [0, 1, 1]] - [0, 0, 0.0], "the correlation of b and c is larger"),
    ],
)
def test_changes_are_named(change, description):
    """The strongest score describes the change, or one of the next."""
    monitor = Monitor(rows(500, 0), columns=["a", "b", "c"])
    monitor.update(rows(100, 1))
    state = monitor.update(change(rows(600, 2)))
    assert state.alarm
    assert description in [str(named_change) for named_change in state.changes]


def test_the_division_of_a_stream_does_not_matter():
    """Row by row, in uneven pieces, or at once, beyond a generation of learned witnesses."""
    stream = np.concatenate([rows(MIN_SPACING + 60, 1), rows(250, 2, shift=0.6)])
    reference = rows(200, 0)
    single_update, pieces = Monitor(reference), Monitor(reference)
    single_update.update(stream)
    ends = [0, 1, 2, 40, 333, MIN_SPACING + 1, MIN_SPACING + 100, len(stream)]
    for start, end in itertools.pairwise(ends):
        pieces.update(stream[start:end])
    assert single_update.alarm
    assert pieces.state.alarm_row == single_update.state.alarm_row
    assert pieces.state.change_point == single_update.state.change_point
    assert pieces.state.max_wealth == pytest.approx(single_update.state.max_wealth, rel=1e-9)
    for block_value, other in zip(pieces.history, single_update.history, strict=True):
        np.testing.assert_allclose(block_value, other, rtol=1e-9)


def test_columns_are_matched_by_name():
    middle, names = np.array([0.0, 10.0, 20.0]), ["a", "b", "c"]
    reference = middle + rows(200, 0)
    monitor = Monitor(reference, columns=names)
    frame = pd.DataFrame(middle + rows(100, 1), columns=names)
    assert not monitor.update(frame[["c", "a", "b"]]).alarm
    assert not monitor.update({"c": 20.0, "b": 10.0, "a": 0.0}).alarm
    assert monitor.state.rows == 101
    with pytest.raises(InputError, match="rows: column 'a' missing"):
        monitor.update(frame.rename(columns={"a": "z"}))
    with pytest.raises(InputError, match="0 dimensions"):
        Monitor(reference[:, 0]).update(3.0)
    with pytest.raises(InputError, match="where a real number is needed"):
        Monitor(reference + 0j)


def test_an_identifier_is_not_watched_as_drift_does_not_compare_it():
    monitor = Monitor(table(300, 1))
    assert "id" not in monitor.columns
    assert any("'id' is not watched: its cells are identifiers" in note for note in monitor.notes)
    assert not monitor.update(table(200, 2)).alarm


def test_rows_of_the_reference_are_noted():
    reference = rows(400, 0)
    monitor = Monitor(reference)
    monitor.update(reference[:300])
    assert any("are rows of the reference" in note for note in monitor.notes)
    other = Monitor(reference)
    other.update(rows(300, 1))
    assert not any("are rows of the reference" in note for note in other.notes)
    discrete = np.random.default_rng(0).integers(0, 3, size=(2, 300, 2)).astype(float)
    levels = Monitor(discrete[0])  # equal rows of discrete values are no copies
    levels.update(discrete[1])
    assert not any("are rows of the reference" in note for note in levels.notes)


def test_units_do_not_matter():
    """Columns in other units, by powers of two and shifts, give the same wealth."""
    scale, origin = np.array([1024.0, 0.125, 2.0**40]), np.array([0.0, 64.0, 0.0])
    stream = rows(400, 1, shift=0.4)
    plain = Monitor(rows(200, 0)).update(stream)
    scaled = Monitor(rows(200, 0) * scale + origin).update(stream * scale + origin)
    assert scaled.max_wealth == pytest.approx(plain.max_wealth, rel=0.02)
    assert scaled.alarm_row == plain.alarm_row


def test_state_survives_a_restart(tmp_path):
    """A monitor continues from its file as without interruption; the size does not grow."""
    path = tmp_path / "state.bke"
    options = {"exclude": [], "key": "id", "time": "when"}
    stream = pd.concat([table(700, 2), table(500, 3, zone=(0.4, 0.2, 0.4))])
    uninterrupted = Monitor(table(300, 1), **options)
    uninterrupted.update(stream)
    part = Monitor(table(300, 1), **options)
    for start in range(0, 1200, 150):
        part.to_file(path)
        part = Monitor.from_file(path)
        part.update(stream[start : start + 150])
    assert part.state == uninterrupted.state
    assert uninterrupted.alarm
    assert uninterrupted.state.change_point_time[0].startswith("2026-03-01")
    part.to_file(path)
    size = path.stat().st_size
    again = Monitor.from_file(path)
    again.update(table(9000, 4))
    again.to_file(path)
    bound = 2**20
    assert size < bound
    assert path.stat().st_size < 1.5 * bound
    (tmp_path / "other").write_text("nothing")
    with pytest.raises(InputError, match="not a monitor"):
        Monitor.from_file(tmp_path / "other")


def test_levels_new_levels_and_types():
    """Categories by their words, and a level that the reference does not have."""
    state = watched().update(table(800, 2, zone=(0.3, 0.6, 0.1)).drop(columns=["id", "when"]))
    assert state.alarm
    assert {"zone"} == {name for named_change in state.changes for name in named_change.columns}
    new = table(300, 3)
    new.loc[::4, "zone"] = "west"
    state = watched().update(new)
    assert state.alarm
    assert "a rare or new level of zone is more frequent" in [
        str(named_change) for named_change in state.changes
    ]
    # Text where there were numbers and truths, as a CSV has it, is read as these.
    text = table(200, 4).astype(str).replace("nan", "")
    assert watched().update(text).max_wealth == watched().update(table(200, 4)).max_wealth


def test_entries_that_are_no_numbers_are_noted_and_missing():
    """A stream continues; entries that cannot be read are missing, with a note."""
    odd = table(50, 2).astype(str)
    odd.loc[3, "heat"] = "n.a.?"
    monitor = watched()
    state = monitor.update(odd)
    assert state.rows == 50
    assert any("'heat' has 'n.a.?', no number" in note for note in state.notes)


def test_repeated_rows_are_dropped():
    """By their key, within an update and between updates; late rows are counted."""
    monitor = Monitor(table(300, 1), key="id", time="when")
    first = table(100, 2)
    state = monitor.update(first)
    state = monitor.update(pd.concat([first[50:], table(40, 3), table(40, 3)]))
    assert state.rows == 140
    assert state.repeated == 90
    assert state.late == 40  # the second table begins at the same time as the first
    assert "90 repeated rows dropped" in str(state)
    other = Monitor(table(300, 1), key="id", time="when")
    other.update(first)
    assert other.update(table(40, 3)).max_wealth == state.max_wealth


@pytest.mark.parametrize(
    ("cell", "message"),
    [(np.inf, "an infinite value in row 2 of rows"), (2**53 + 1, r"whole numbers beyond 2\^53")],
)
def test_numbers_of_a_table_that_are_infinite_or_inexact_are_refused(cell, message):
    """A repeated row before the row counts, and no stream has changed after the refusal."""
    reference = pd.DataFrame({"id": range(60), "v": np.arange(60) % 13, "s": ["a", "b"] * 30})
    rows = pd.DataFrame({"id": [60, 61], "v": [1, cell], "s": ["a", "b"]})
    monitor = Monitor(reference, key="id", exclude="s")
    monitor.update(rows[:1])
    with pytest.raises(InputError, match=f"column 'v' has {message}"):
        monitor.update(rows)
    assert monitor.state.rows == 1
    monitors = Monitors(reference, by="s", exclude="id")
    with pytest.raises(InputError, match=f"column 'v' has {message}"):
        monitors.update(rows)
    assert "0 rows of 2 streams" in monitors.summary_line


def test_refusals_do_not_change_the_state():
    """A refusal is a single sentence, and the state does not change."""
    monitor = Monitor(table(300, 1), key="id", time="when")
    monitor.update(table(20, 2))
    before = monitor.to_dict()
    with pytest.raises(InputError, match="no column 'zone'"):
        monitor.update(table(20, 3).drop(columns="zone"))
    assert monitor.to_dict() == before
    array = Monitor(rows(50, 0))
    with pytest.raises(InputError, match="2 columns, and the reference 3"):
        array.update(rows(5, 1)[:, :2])
    with pytest.raises(InputError, match="infinite value in row 2"):
        array.update([[0.0, 0.0, 0.0], [0.0, np.inf, 0.0]])
    with pytest.raises(InputError, match="infinite value in row 2, column 'b'"):
        array.update(pd.DataFrame([[0.0] * 3, [0.0, np.inf, 0.0]], columns=[*"abc"]))
    with pytest.raises(InputError, match="19 rows, and at least 20"):
        Monitor(rows(19, 0))
    with pytest.raises(InputError, match="exclude is an option of tables"):
        Monitor(rows(50, 0), exclude=["a"])
    with pytest.raises(InputError, match="alpha"):
        Monitor(rows(50, 0), alpha=1.5)
    with pytest.raises(InputError, match="no alarm"):
        array.difference()
    assert array.update(np.empty((0, 3))).rows == 0


def test_single_rows():
    """A row may be an array or a dictionary of its entries."""
    monitor = Monitor(rows(50, 0))
    assert monitor.update([0.1, 0.2, 0.3]).rows == 1
    mixed = watched()
    row = {"load": 51.0, "heat": 15.0, "zone": "north", "on": True}
    assert mixed.update(row).rows == 1
    single_column = Monitor(rows(50, 0)[:, 0])
    assert single_column.update([0.1, 0.2]).rows == 2


def test_autocorrelated_rows_are_noted():
    """Bets assume independent rows: a random walk of small steps gives a note."""
    rng = np.random.default_rng(0)
    walk = np.zeros(800)
    for at in range(1, 800):
        walk[at] = 0.9 * walk[at - 1] + rng.normal()
    monitor = Monitor(walk[::2][rng.permutation(400)], columns=["level"])
    state = monitor.update(walk[:400])
    assert any("of 'level'): false alarms" in note for note in state.notes)
    assert not Monitor(rows(200, 0)).update(rows(400, 1)).notes
    # A change of level is none of it.
    changed = np.concatenate([rows(300, 1), rows(300, 2, shift=2.0)])
    assert not Monitor(rows(200, 0)).update(changed).notes


def test_reference_rows_of_an_update():
    """Additional rows join the reference: they delay no alarm, and increase power."""
    without_more = Monitor(rows(20, 0))
    more = Monitor(rows(20, 0))
    for block in range(20):
        stream = rows(30, 100 + block, shift=0.0 if block < 10 else 0.7)
        without_more.update(stream)
        more.update(stream, reference_rows=rows(30, 200 + block))
    assert more.state.alarm
    assert more.state.max_wealth > without_more.state.max_wealth
    assert more.state.rows == 600


@pytest.mark.slow
def test_difference_after_an_alarm(alarmed):
    """The rows since the change are compared with the reference, of mixed columns too."""
    result = alarmed.difference(n_resamples=199, progress=False)
    assert result.reject
    assert result.names == ("reference", "stream")
    assert "after the estimated change point" in result.notes[-1]
    assert abs(result.sizes[1] - 300) < 40
    mixed = watched()
    mixed.update(table(800, 2, zone=(0.3, 0.6, 0.1)))
    differing = mixed.difference(n_resamples=199, progress=False)
    assert [column.name for column in differing.columns if column.reject] == ["zone"]


def test_weights_and_descriptions_of_all_scores():
    """The weights of fixed scores sum to 0.8; the rest is for witnesses."""
    monitor = watched()
    test, scores = monitor._test, monitor._test.scores
    values = test.training_rows
    assert len(scores.descriptions) == len(scores.weights) == scores.compute(values).shape[1]
    witnesses = test.witnesses.describe(scores.columns.names)
    assert len(scores.descriptions) + len(witnesses) == len(test.weights)
    assert scores.weights.sum() == pytest.approx(0.8)
    assert test.weights.sum() == pytest.approx(0.8)  # no witness is learned yet
    monitor.update(table(MIN_SPACING, 2))
    learned = test.weights[len(scores.weights) :]
    assert learned.sum() == pytest.approx(0.2 * 6.0 / np.pi**2)
    assert np.count_nonzero(learned) == 2


def test_plots_show_the_alarm(alarmed):
    """The wealth process ends where the stream does, and the interval is drawn."""
    state = alarmed.state
    (ax,) = alarmed.plot().axes
    assert ax.lines[0].get_xdata()[-1] == 600
    assert ax.get_title(loc="left").replace("\n", " ") == state.summary_line
    spans = [patch for patch in ax.patches if hasattr(patch, "get_width")]
    assert [span.get_width() for span in spans] == [
        state.change_point.high - state.change_point.low + 1.0
    ]


def test_e_bh_by_hand():
    """The k largest of K, for the largest k whose k-th is at least K / (alpha k)."""
    assert e_bh([100.0, 1.0, 30.0, 0.0], 0.1).tolist() == [True, False, True, False]
    assert e_bh([39.0, 1.0, 19.0, 0.0], 0.1).tolist() == [False] * 4
    assert e_bh([39.0, 20.0, 20.0, 0.0], 0.1).tolist() == [True, True, True, False]
    assert e_bh([], 0.1).shape == (0,)
    with pytest.raises(InputError, match="at least 0"):
        e_bh([-1.0])


def test_e_values_have_a_mean_of_at_most_1():
    """The calibrator integrates to 1 over a p-value that is uniform (by quadrature)."""
    from bke.inference import MonitorState
    from scipy.integrate import quad

    def calibrated(log_p):
        state = MonitorState(1, 0.05, float(np.exp(-log_p)), alarm=False)
        return state.e_value * np.exp(log_p)

    # The rest, below exp(-600), is about 1 / 600.
    total, _ = quad(calibrated, -600.0, 0.0, limit=500)
    assert total == pytest.approx(1.0 - 1.0 / 600.0, abs=2e-3)


def test_several_streams():
    """Those that change are named; others, and streams that the reference lacks, are not."""
    rng = np.random.default_rng(0)

    def frame(n, changed=()):
        parts = [
            pd.DataFrame({"site": f"s{i}", "x": rng.normal(i + 2.0 * (i in changed), 1.0, n)})
            for i in range(6)
        ]
        return pd.concat(parts).sample(frac=1.0, random_state=0)

    monitors = Monitors(frame(60), "site")
    monitors.update(frame(100))
    assert monitors.changed == ()
    assert not monitors.alarm
    monitors.update(frame(150, changed=(1, 4)))
    assert set(monitors.changed) == {"s1", "s4"}
    assert "CHANGE in 2 streams" in monitors.summary_line
    assert "x is larger" in str(monitors)
    assert set(monitors.to_dict()["changed"]) == {"s1", "s4"}
    monitors.update(frame(5).assign(site="s9"))
    assert any("s9 is not in the reference" in note for note in monitors.notes)
    *courses, limit = monitors.plot().axes[0].lines
    assert len(courses) == 7 - 1
    # The e-value of the limit is that which the second of two of six must have.
    e_value = monitors.e_value_threshold
    assert e_value == pytest.approx(6 / (0.05 * 2))
    assert calibrate_wealth(np.log(limit.get_ydata()[0])) == pytest.approx(e_value)
    assert monitors.to_dict()["e_values"]["s1"] >= e_value


def test_a_small_reference_is_noted():
    rng = np.random.default_rng(0)
    note = "The reference has 49 rows: a change of a column by less than a standard"
    assert Monitor(rng.normal(size=49)).notes[0].startswith(note)
    assert Monitor(rng.normal(size=50)).notes == ()
    table = pd.DataFrame({"of": ["a"] * 20 + ["b"] * 30 + ["c"] * 100, "x": rng.normal(size=150)})
    notes = Monitors(table, by="of").notes
    assert "The reference of 2 of 3 streams has 20 to 30 rows: a change of a column" in notes[-1]


@pytest.mark.slow
def test_a_small_reference_has_little_power():
    """20 streams each of 1000 rows whose mean has moved by half a standard deviation."""
    detected = []
    for rows in (49, 400):
        alarms = 0
        for seed in range(20):
            rng = np.random.default_rng([seed, rows])
            state = Monitor(rng.normal(size=rows), seed=seed).update(rng.normal(0.5, 1.0, 1000))
            alarms += state.alarm
        detected.append(alarms)
    assert detected[0] <= 4
    assert detected[1] >= 16
