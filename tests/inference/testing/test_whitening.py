"""Rows in order of time are whitened by a regression on their steps."""

import numpy as np
import pytest
from bke.inference import regress_out
from bke.inference.testing.residuals import whiten

WAYS = {
    "residuals": {"smoothness": np.inf, "innovations": False},
    "innovations": {"smoothness": 0.5, "innovations": True},
}


def autoregression(n, coefficient=0.9):
    noise = np.random.default_rng(0).normal(size=n)
    values = np.zeros(n)
    for step in range(1, n):
        values[step] = coefficient * values[step - 1] + noise[step]
    return values[:, None]


@pytest.mark.parametrize("how", WAYS)
def test_whitened_is_a_regression_on_time(how):
    pytest.importorskip("sklearn")
    values = autoregression(60)
    found = whiten(values, how, seed=1)
    np.testing.assert_allclose(found, regress_out(values, np.arange(60.0), seed=1, **WAYS[how]))


def test_innovations_do_not_depend_on_their_past():
    pytest.importorskip("sklearn")
    values = autoregression(200)

    def memory(series):
        return np.corrcoef(series[1:, 0], series[:-1, 0])[0, 1]

    assert memory(values) > 0.8
    assert abs(memory(whiten(values, "innovations"))) < 0.2


def test_nothing_is_done_unless_asked_for():
    values = autoregression(10)
    np.testing.assert_array_equal(whiten(values, "none"), values)
