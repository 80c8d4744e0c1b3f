import sys
import warnings
from decimal import Decimal

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from bke.inference.core.errors import InputError
from bke.inference.core.machine import available_memory
from bke.inference.data import checks
from bke.inference.data.checks import (
    as_pair,
    as_sample,
    check_count,
    check_memory,
    check_noise_variance,
    check_positive,
)


def refusal(function, *args, **options):
    with pytest.raises(InputError) as caught:
        function(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def numbers(**missing):
    """30 x 2 numbers with something else in row 17, column 2."""
    X = np.random.default_rng(0).normal(size=(30, 2)).astype(object)
    X[16, 1] = missing["at"]
    return X


def test_input_error_is_a_value_error():
    assert issubclass(InputError, ValueError)


@pytest.mark.parametrize(
    "X",
    [[1, 2, 4], (1.0, 2.0, 4.0), [[1], [2], [4]], np.array([1, 2, 4], np.int8),
     np.array([1, 2, 4], np.float32), np.array([[1], [2], [4]], object),
     [Decimal(1), Decimal(2), Decimal(4)], np.ma.array([1, 2, 4], mask=False),
     pd.Series([1, 2, 4]), pd.DataFrame({"a": [1, 2, 4]}), jnp.array([1, 2, 4]),
     pd.DataFrame({"a": pd.array([1, 2, 4], dtype="Int64")}), np.array([[1.0], [2.0], [4.0]])],
)  # fmt: skip
def test_accepted_forms(X):
    values = as_sample(X, "P")
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [[1.0], [2.0], [4.0]])
    values[0, 0] = 99.0  # values are a copy
    np.testing.assert_array_equal(as_sample(X, "P")[0], [1.0])
    assert np.isfinite(as_sample([1e150, -1e150], "P") ** 2).all()


@pytest.mark.parametrize(
    ("X", "facts"),
    [
        (np.zeros((2, 3, 4)), ["3 dimensions"]),
        (3.0, ["0 dimensions"]),
        ([], ["two rows", "0"]),
        ([1.0], ["two rows", "1"]),
        ([[1.0, 2.0, 3.0]], ["two rows"]),
        (np.zeros((5, 0)), ["no columns"]),
        ([1.0, "calm"], ["'calm'", "row 2", "column 1"]),
        (["a", "b"], ["'a'", "row 1", "column 1"]),
        ([True, False], ["'True'", "real number"]),
        ([1j, 2.0], ["row 1", "complex128"]),
        (np.array(["2020-01-01", "2020-01-02"], "datetime64[D]"), ["2020-01-01", "datetime64"]),
        ([[1.0, 2.0], [3.0, 4.0], [5.0]], ["1 values in row 3", "2 in row 1"]),
        (numbers(at=np.nan), ["NaN", "row 17", "column 2", "1 in all"]),
        (numbers(at=None), ["missing", "row 17", "column 2"]),
        (numbers(at=np.inf), ["infinite", "row 17", "column 2"]),
        (numbers(at=-np.inf), ["infinite", "row 17", "column 2"]),
        (numbers(at=-2e150), ["1e+150", "row 17", "column 2"]),
        (numbers(at="x"), ["'x'", "row 17", "column 2"]),
        ([np.nan, 1.0, np.nan], ["row 1", "2 in all"]),
        (np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), ["missing", "row 2"]),
        (np.full((4, 2), 7.0), ["4 rows", "all are equal"]),
        (np.column_stack([np.arange(4.0), np.full(4, 7.0)]), ["same value (7)", "column 2"]),
        ([1e-160, 2e-160, 3e-160], ["varies by only 2e-160 in column 1", "too little"]),
    ],
)
def test_refused_samples(X, facts):
    message = refusal(as_sample, X, "Q")
    assert "Q " in message
    for fact in facts:
        assert fact in message


def test_columns_of_a_table_are_named():
    table = pd.DataFrame({"Temp": [40.0, np.nan], "day": ["Mo", "Tu"], "Wind": [3.0, 3.0]})
    assert "column 'Temp'" in refusal(as_sample, table[["Temp"]], "P")
    assert "column 'day'" in refusal(as_sample, table[["Wind", "day"]], "P")
    assert "column 'Wind'" in refusal(as_sample, table[["Wind"]].assign(a=[1, 2])[["a", "Wind"]])


def test_pair():
    p, q = as_pair([1, 2, 3], [[4.0], [5.0]])
    assert p.shape == (3, 1)
    assert q.shape == (2, 1)
    message = refusal(as_pair, [1, 2], [[1, 2, 3], [4, 5, 6]])
    assert "P has 1 column " in message
    assert "Q has 3 columns" in message
    assert refusal(as_pair, [1, 2], [1.0, np.nan]).startswith("Q ")
    assert refusal(as_pair, [1.0, np.nan], [1, 2]).startswith("P ")


def test_counts():
    assert check_count(0, "seed", 0) == 0
    assert type(check_count(np.uint8(7), "draws", 1)) is int
    assert refusal(check_count, 0, "draws", 1) == "draws must be at least 1, got 0"
    for value in (1, np.int64(1000)):
        assert check_count(value, "num_chains", 1, 1000) == value
    for bad in (0, -1, 1001, 8.0, "8", True, None):
        message = refusal(check_count, bad, "num_chains", 1, 1000)
        assert all(fact in message for fact in ("num_chains", "from 1 to 1000", str(bad)))


def test_positive_numbers():
    assert check_noise_variance(0.1) == 0.1
    assert check_noise_variance(np.float32(0.5)) == 0.5
    assert check_noise_variance(np.array(2)) == 2.0
    for bad in (0, -0.1, np.nan, np.inf, "0.1", True, None, [1.0, 2.0], 10**400):
        assert "noise_variance" in refusal(check_noise_variance, bad)
    assert "lengthscale" in refusal(check_positive, -2.0, "lengthscale")


def test_memory(monkeypatch):
    """Half of the free memory gives a warning; more than the free memory is refused."""
    monkeypatch.setattr(checks, "available_memory", lambda: 2**30)
    message = refusal(check_memory, 100_000, 2, matrices=3)
    assert all(fact in message for fact in ("223.5 GiB", "1.0 GiB", "100000"))
    needed = 8 * (3 * 1000**2 + 2000)
    monkeypatch.setattr(checks, "available_memory", lambda: 2 * needed - 2)
    with pytest.warns(UserWarning, match=r"need about 0\.0 GiB .* and 0\.0 GiB are free$"):
        check_memory(1000, 2, matrices=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for available in (2 * needed, None):
            monkeypatch.setattr(checks, "available_memory", lambda available=available: available)
            check_memory(1000, 2, matrices=3)
    check_memory(10**9, 2, matrices=3)
    monkeypatch.setattr(checks, "available_memory", lambda: 10**6)
    check_memory(100, 10, matrices=1)
    refusal(check_memory, 100, 2000, matrices=1)  # columns count


def test_memory_of_this_machine():
    available = available_memory()
    if sys.platform.startswith("linux"):
        assert 2**20 < available < 2**50
    refusal(check_memory, 10**9, 1, matrices=1)
    check_memory(10, 1, matrices=4)


@pytest.mark.parametrize(
    "values",
    [
        np.array([2**53, 2**53 + 1], dtype=object),
        [2**64, 2**64 + 1],
        [Decimal(2**53 + 1), Decimal(1)],
    ],
)
def test_whole_numbers_that_are_not_exact_in_double_precision_are_refused(values):
    with pytest.raises(InputError, match=r"whole numbers beyond 2\^53"):
        as_sample(values, "X")
    assert as_sample(np.array([2**53, 2**60, 1.5], dtype=object), "X").shape == (3, 1)
