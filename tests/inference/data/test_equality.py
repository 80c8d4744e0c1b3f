"""Equality of numbers does not depend on their stored type or rounding."""

import itertools
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import (
    InputError,
    Monitor,
    compare,
    compare_tables,
    goodness_of_fit_test,
    independence_test,
    relative_similarity_test,
    two_sample_test,
)
from bke.inference.cli.inputs import read_pair
from bke.inference.data.equality import (
    equalize,
    merge_rounding,
    positive_distances,
    round_to,
    snap,
    stored_sizes,
)
from bke.inference.io.columns import column_array
from bke.inference.io.tables import as_table
from bke.inference.io.types import infer_type
from bke.inference.learning.bandwidths import bandwidth_grid

QUIET = {"n_resamples": 199, "progress": False}
RNG = np.random.default_rng(5)
TIED = RNG.choice([0.1, 0.2, 0.3], 400)
SHUFFLED = RNG.permutation(TIED)
#: The same values, by other ways of storing or computing them.
SAME = {
    "single precision": SHUFFLED.astype(np.float32),
    "half precision": SHUFFLED.astype(np.float16),
    "0.1 + 0.2": np.where(SHUFFLED == 0.3, 0.1 + 0.2, SHUFFLED),
    "a relative difference of 1e-15": SHUFFLED * (1.0 + 1e-15),
    "to Fahrenheit and back": ((SHUFFLED * 1.8 + 32.0) - 32.0) / 1.8,
}


def pvalues(P, Q):
    """The p-values of all tests of two samples."""
    yield two_sample_test(P, Q, **QUIET).pvalue
    yield compare(P, Q, **QUIET).pvalue
    yield compare_tables({"x": P}, {"x": Q}, **QUIET).pvalue


@pytest.mark.parametrize("how", SAME)
def test_a_sample_and_its_permutation_are_equal(how):
    """All permuted labels of equal rows have exactly the same statistic."""
    for P, Q in ((TIED, SAME[how]), (SAME[how], TIED)):
        assert list(pvalues(P, Q)) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("how", SAME)
@pytest.mark.parametrize("make", [np.asarray, lambda x: pd.DataFrame({"x": x})])
def test_monitors_take_equal_values_for_equal(how, make):
    rows = SAME[how]
    stream = np.tile(rows, 5)
    same = Monitor(make(TIED)).update(make(np.tile(SHUFFLED, 5)))
    assert Monitor(make(TIED)).update(make(stream)).max_wealth == same.max_wealth
    swapped = Monitor(make(rows)).update(make(np.tile(TIED, 5)))
    assert swapped.max_wealth < 5.0


def test_a_monitor_read_from_its_file_continues_with_the_same_values(tmp_path):
    original = Monitor(TIED)
    original.to_file(tmp_path / "monitor")
    other = Monitor.from_file(tmp_path / "monitor")
    rows = np.tile(SAME["single precision"], 5)
    assert original.update(rows).max_wealth == other.update(rows).max_wealth


def test_prices_are_equal_as_decimals_text_and_floating_point_numbers(tmp_path):
    """1000 different prices, of which Arrow's own conversion is off in the last place for 129."""
    cents = np.arange(100, 100_100, 100) + np.arange(1000) % 97
    values = np.array([float(f"{cent / 100:.2f}") for cent in cents])
    decimals = [Decimal(int(cent)).scaleb(-2) for cent in RNG.permutation(cents)]
    short = pa.table({"x": pa.array(decimals, pa.decimal128(12, 2))})
    long = pa.table({"x": pa.array(decimals, pa.decimal128(20, 6))})
    read = np.sort(column_array([as_table(long, "t")], "x", ())[0].cast(pa.string()).to_pylist())
    assert len(read) == 1000
    csv = tmp_path / "prices.csv"
    pd.DataFrame({"x": values}).to_csv(csv, index=False)
    for first, second in itertools.permutations([short, long, {"x": values}, csv], 2):
        entries = column_array([as_table(first, "p"), as_table(second, "q")], "x", ())[0]
        parsed = np.array([float(str(entry)) for entry in entries.to_pylist()]).reshape(2, -1)
        np.testing.assert_array_equal(np.sort(parsed[0]), values)
        np.testing.assert_array_equal(np.sort(parsed[1]), values)


def test_tied_decimals_are_the_same_floating_point_numbers():
    """Prices of which Arrow's own conversion is off in the last place for all but one."""
    cents = RNG.choice([113, 114, 115, 138, 200], 400)
    decimals = pa.array([Decimal(int(cent)).scaleb(-2) for cent in cents])
    values = RNG.permutation(cents) / 100.0
    assert compare_tables(pa.table({"x": decimals}), {"x": values}, **QUIET).pvalue == 1.0
    entries, *_ = column_array([as_table(pa.table({"x": decimals}), "t")], "x", [1.13])
    assert entries.null_count == (cents == 113).sum()
    column = infer_type("x", decimals, [as_table(pa.table({"x": decimals}), "t")]).column
    np.testing.assert_array_equal(column.values, cents / 100.0)


@pytest.mark.parametrize("ending", ["parquet", "npy"])
def test_files_in_single_precision_equal_files_of_text(ending, tmp_path):
    text, narrow = tmp_path / "a.csv", tmp_path / f"b.{ending}"
    pd.DataFrame({"x": TIED}).to_csv(text, index=False)
    rows = SHUFFLED.astype(np.float32)
    if ending == "npy":
        np.save(narrow, rows)
    else:
        pd.DataFrame({"x": rows}).to_parquet(narrow)
    pair = read_pair(text, narrow, None, None, tested=True)
    np.testing.assert_array_equal(np.unique(pair.P), np.unique(pair.Q))


def test_columns_have_separate_precisions():
    """Single precision of one column does not round another."""
    frame = pd.DataFrame({"a": TIED, "b": RNG.normal(size=400)})
    narrow = frame.astype({"a": np.float32})[["b", "a"]].sample(frac=1.0, random_state=1)
    assert compare(frame, narrow, **QUIET).pvalue == 1.0
    np.testing.assert_array_equal(stored_sizes(narrow, 2), [8, 4])
    shifted = frame.assign(b=frame["b"] * (1.0 + 1e-9))
    first, second = equalize([frame.to_numpy(), shifted.to_numpy()])
    np.testing.assert_array_equal(second[:, 1], shifted["b"])
    np.testing.assert_array_equal(first, frame)


@pytest.mark.parametrize(
    ("X", "size"),
    [
        (TIED, 8),
        (TIED.astype(np.float32), 4),
        (TIED.astype(">f2"), 2),
        ([1, 2, 3], 8),
        ([np.float32(1), np.float32(2)], 4),
        (pd.Series(TIED, dtype="Float32"), 4),
        (pd.Series(TIED, dtype="float[pyarrow]"), 4),
        (pd.Series(TIED, dtype="double[pyarrow]"), 8),
        (pd.DataFrame({"x": pd.array(TIED, "Float32")}), 4),
        (pa.table({"x": pa.array(TIED, pa.float32())}), 4),
        (pa.table({"x": pa.array(TIED, pa.float64())}), 8),
    ],
)
def test_stored_types(X, size):
    assert stored_sizes(X, 1) == [size]


def test_rounding_to_a_narrower_type():
    """Beyond the narrower type's range numbers stay what they are, and are no infinity."""
    values = np.array([0.1, 16_777_217.0, 1e300, -1e39, 1e-60, np.nan])
    expected = [float(np.float32(0.1)), 16_777_216.0, 1e300, -1e39, 0.0, np.nan]
    np.testing.assert_array_equal(round_to(values, 4), expected)
    np.testing.assert_array_equal(round_to(values, 8), values)
    P, Q = np.array([1e300 / 1e200, 2.0, 1e120]), np.array([1.0, 2.0, 3.0], dtype=np.float32)
    first, second = (
        column_array([as_table({"x": P}, "P"), as_table({"x": Q}, "Q")], "x", ())[0]
        .to_numpy(zero_copy_only=False)
        .reshape(2, 3)
    )
    np.testing.assert_array_equal(first, [1e100, 2.0, 1e120])
    np.testing.assert_array_equal(second, [1.0, 2.0, 3.0])


def test_merging_rounding():
    tiny = 2.0**-52
    low = 0.3 - (0.1 + 0.2)
    values = np.array([0.1 + 0.2, 0.3, 0.5, -0.2, np.nan, -0.2 - 4.0 * tiny, 0.0, low])
    expected = np.array([0.3, 0.3, 0.5, -0.2 - 4.0 * tiny, np.nan, -0.2 - 4.0 * tiny, low, low])
    assert merge_rounding(values) is values  # without ties
    values, expected = np.tile(values, 2), np.tile(expected, 2)
    np.testing.assert_array_equal(merge_rounding(values), expected)
    order = np.random.default_rng(0).permutation(len(values))
    np.testing.assert_array_equal(merge_rounding(values[order]), expected[order])
    np.testing.assert_array_equal(merge_rounding(values * 2.0**40), expected * 2.0**40)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(size=5000),
        np.random.default_rng(0).normal(size=5000).astype(np.float32).astype(float),
        np.exp(40.0 * np.random.default_rng(0).normal(size=5000)),
        1.0 + np.arange(500) * 2.0**-52,  # measured at the precision of the type
        1e15 + np.arange(100.0),
        2.0**53 - np.arange(100.0),
        np.array([2.0**52, 2.0**52 + 1.0]),
        np.repeat([1.7e18, 1.7e18 + 1024.0, 1.8e18], 50),  # ns since 1970, in steps of 256
        np.round(np.random.default_rng(0).normal(size=5000), 12),
        np.array([0.0, -0.0]),
        np.array([np.nan, np.nan]),
        np.array([]),
    ],
)
def test_other_values_are_not_merged(values):
    assert merge_rounding(values) is values


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (52.52, 52.52001, np.float32),
        (101_325.0, 101_325.125, np.float32),
        (1.0, 1.0 + 2.0**-22, np.float32),
        (0.98, 0.982, np.float16),
        (0.0, 0.001, np.float32),
    ],
)
def test_steps_of_a_narrow_type_are_differences(low, high, dtype):
    """90 % of one value against 90 % of the other: as in double precision, and found by tables."""
    rng = np.random.default_rng(0)
    P, Q = (rng.choice([low, high], 300, p=[p, 1.0 - p]).astype(dtype) for p in (0.9, 0.1))
    P[:50] = Q[:50] = 0.9 * high
    values = equalize(
        [P[:, None].astype(float), Q[:, None].astype(float)], [stored_sizes(P, 1)] * 2
    )
    np.testing.assert_array_equal(np.concatenate(values)[:, 0], np.concatenate([P, Q]))
    in_double = two_sample_test(P.astype(float), Q.astype(float), **QUIET).pvalue
    assert two_sample_test(P, Q, **QUIET).pvalue == in_double <= 0.01
    assert compare_tables(pd.DataFrame({"x": P}), pd.DataFrame({"x": Q}), **QUIET).pvalue <= 0.01


def test_snapping_to_known_values():
    known = np.array([0.0, 0.1, 0.3, 1e6])
    values = np.array([float(np.float32(0.1)), 0.1 + 0.2, 5e-17, 0.2, 1e6, np.nan, -3.0, 2e6])
    expected = [0.1, 0.3, 0.0, 0.2, 1e6, np.nan, -3.0, 2e6]
    np.testing.assert_array_equal(snap(values, known, 4), expected)
    np.testing.assert_array_equal(snap(values, known)[:2], [values[0], 0.3])
    np.testing.assert_array_equal(snap(values, np.empty(0)), values)


def test_bandwidths_stay_above_rounding():
    """Half of the small distances are rounding: the shortest bandwidth is that of the others."""
    points = np.concatenate([TIED, TIED * (1.0 + 3e-15)])[:, np.newaxis]
    assert bandwidth_grid(points, 0)[0] == pytest.approx(0.05)
    distances = np.array([0.0, 3e-17, 0.1])
    np.testing.assert_array_equal(positive_distances(distances, points), [0.1])
    np.testing.assert_array_equal(positive_distances(distances[:2], points), [3e-17])


def test_samples_that_differ_only_by_rounding_are_constant():
    with pytest.raises(InputError, match="all are equal"):
        two_sample_test(np.full(30, 0.3), np.full(30, 0.1 + 0.2), **QUIET)


def test_dependence_is_not_detected_in_rounding():
    """Only the rounding of x depends on y."""
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=200)
    x = rng.choice([0.1, 0.2, 0.3], 200)
    noisy = x * (1.0 + 1e-15 * y)
    plain, rounded = (independence_test(X, y, kernel="median", **QUIET) for X in (x, noisy))
    assert rounded.pvalue == plain.pvalue


def test_three_samples_of_several_types():
    first, second = RNG.permutation(TIED).astype(np.float32), TIED[::-1]
    result = relative_similarity_test(TIED, first, second, kernel="median")
    narrow = (Z.astype(np.float32) for Z in (TIED, first, second))
    twin = relative_similarity_test(*narrow, kernel="median")
    assert result.statistic == twin.statistic


def test_draws_are_compared_at_the_precision_of_the_data():
    result = goodness_of_fit_test(
        TIED.astype(np.float32), lambda rng, count: rng.permutation(TIED)[:count], **QUIET
    )
    assert result.pvalue == 1.0


def test_sentinels_of_single_precision():
    values = np.concatenate([[-999.9] * 5, RNG.normal(size=50)]).astype(np.float32)
    entries, *_ = column_array([as_table({"x": values}, "t")], "x", [-999.9])
    assert entries.null_count == 5
