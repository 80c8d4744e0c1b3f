"""Samples as data frames: columns are matched by name, and pairs only by position."""

import numpy as np
import pandas as pd
import pytest
from bke.models import (
    SquaredExponential,
    dependence_posterior,
    dependence_witness,
    embedding_posterior,
    hsic,
    squared_mmd,
)

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"a": RNG.normal(size=30), "b": RNG.normal(3.0, size=30)})
OTHER = pd.DataFrame({"a": RNG.normal(size=20), "b": RNG.normal(3.0, size=20)})
KERNEL = SquaredExponential(1.0)


@pytest.mark.parametrize("estimator", ["biased", "unbiased", "linear"])
def test_columns_of_frames_are_matched_by_name(estimator):
    other = OTHER if estimator != "linear" else OTHER.iloc[np.arange(30) % 20]
    expected = squared_mmd(FRAME.to_numpy(), other.to_numpy(), KERNEL, estimator=estimator)
    for second in (other, other[["b", "a"]]):
        assert squared_mmd(FRAME, second, KERNEL, estimator=estimator) == expected
    with pytest.raises(ValueError, match="X has the columns a, b, and Y has a, c"):
        squared_mmd(FRAME, other.rename(columns={"b": "c"}), KERNEL, estimator=estimator)


def test_matrices_and_points_of_evaluation():
    np.testing.assert_array_equal(KERNEL(FRAME, OTHER[["b", "a"]]), KERNEL(FRAME, OTHER))
    mean = embedding_posterior(FRAME, KERNEL, OTHER[["b", "a"]]).mean
    np.testing.assert_array_equal(mean, embedding_posterior(FRAME, KERNEL, OTHER).mean)
    renamed = OTHER[["a"]].rename(columns={"a": "other"})
    assert KERNEL(FRAME[["a"]], renamed).shape == (30, 20)


def test_pairs_with_labels_in_another_order_are_refused():
    with pytest.raises(ValueError, match=r"same row labels in another order.* give Y.loc\[X.index"):
        hsic(FRAME["a"], FRAME["b"].iloc[::-1], KERNEL, KERNEL)
    mixed = FRAME.set_axis([*range(29), "last"])
    with pytest.raises(ValueError, match=r"same row labels in another order"):
        hsic(mixed["a"], mixed["b"].iloc[::-1], KERNEL, KERNEL)
    repeated = FRAME.set_axis([0, 0, *range(28)])
    shifted = repeated.set_axis([0, 1, 1, *range(27)])  # other labels, though of the same values
    hsic(repeated["a"], shifted["b"], KERNEL, KERNEL)
    reversed_pairs = hsic(FRAME["a"], FRAME["b"].iloc[::-1].to_numpy(), KERNEL, KERNEL)
    assert reversed_pairs != hsic(FRAME["a"], FRAME["b"], KERNEL, KERNEL)


@pytest.mark.parametrize("function", [dependence_witness, dependence_posterior])
def test_points_of_pairs_are_matched_by_name_and_label(function):
    Y = FRAME.set_axis(["u", "v"], axis=1)
    at = OTHER.iloc[:5], OTHER.iloc[5:10].set_axis(["u", "v"], axis=1)
    arguments = FRAME, Y, KERNEL, KERNEL
    swapped = at[0][["b", "a"]], at[1][["v", "u"]]
    mean = {dependence_posterior: lambda posterior: posterior.mean}.get(function, np.asarray)
    expected = mean(function(*arguments, at))
    np.testing.assert_array_equal(mean(function(*arguments, swapped)), expected)
    with pytest.raises(
        ValueError, match=r"Y has the columns u, v, and at\[1\] has a, b: give .*names"
    ):
        function(*arguments, at[:1] * 2)
    with pytest.raises(ValueError, match="same row labels in another order"):
        function(*arguments, (at[0], at[1].set_index(at[0].index[::-1])))
    with pytest.raises(ValueError, match="same row labels in another order"):
        function(FRAME, Y.iloc[::-1], KERNEL, KERNEL, at)


def test_numbers_of_other_types_are_read_and_other_values_refused_by_row():
    expected = KERNEL(FRAME)
    for frame in (
        FRAME.convert_dtypes(),
        FRAME.convert_dtypes(dtype_backend="pyarrow"),
        FRAME.astype(object),
        np.ma.array(FRAME.to_numpy(), mask=False),
        np.ma.array(FRAME.to_numpy().astype(object)),
    ):
        np.testing.assert_array_equal(KERNEL(frame), expected)
    missing = FRAME.where(np.arange(60).reshape(30, 2) != 3)
    hidden = np.ma.array(FRAME.to_numpy(), mask=missing.isna().to_numpy())
    for rows in (missing, missing.convert_dtypes(), hidden, list(hidden), hidden.astype(object)):
        with pytest.raises(ValueError, match="a value that is not finite in row 2"):
            KERNEL(rows)
    words = FRAME.astype(object)
    for cell in ("1.5", True, np.timedelta64(1, "s"), pd.Timestamp(0), 1j):
        words.iloc[2, 1] = cell
        with pytest.raises(ValueError, match="in row 3, where a real number is needed"):
            KERNEL(words)
    with pytest.raises(ValueError, match="X must be an array or a data frame, got dict"):
        KERNEL({"a": [1.0]})


def test_dates_of_polars_are_refused():
    polars = pytest.importorskip("polars")
    dates = polars.DataFrame({"a": [1.0, 2.0], "b": pd.date_range("2020", periods=2)})
    with pytest.raises(ValueError, match="got a column of type Datetime"):
        KERNEL(dates)
