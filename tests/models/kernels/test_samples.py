"""Samples given as data frames: columns are matched by name, and pairs by position alone."""

import numpy as np
import pandas as pd
import pytest
from bke.models import SquaredExponential, embedding_posterior, hsic, squared_mmd

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
    one = OTHER[["a"]].rename(columns={"a": "other"})
    assert KERNEL(FRAME[["a"]], one).shape == (30, 20)


def test_pairs_whose_labels_are_in_another_order_are_refused():
    with pytest.raises(ValueError, match=r"same row labels in another order.* give Y.loc\[X.index"):
        hsic(FRAME["a"], FRAME["b"].iloc[::-1], KERNEL, KERNEL)
    reversed_pairs = hsic(FRAME["a"], FRAME["b"].iloc[::-1].to_numpy(), KERNEL, KERNEL)
    assert reversed_pairs != hsic(FRAME["a"], FRAME["b"], KERNEL, KERNEL)
