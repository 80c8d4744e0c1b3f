"""Conditional embeddings and filters whose settings are found from the data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, learn_conditional, learn_filter
from bke.inference.learning.kernel_selection import median_kernel, scale_lengthscales, select_kernel
from bke.models import Dirac, Matern, SquaredExponential
from scipy.spatial.distance import pdist

RNG = np.random.default_rng(0)
x = RNG.uniform(-3.0, 3.0, size=150)
y = np.sin(2.0 * x) + 0.2 * RNG.normal(size=150)
MEDIAN = {"kernel_x": "median", "kernel_y": "median"}


@pytest.mark.slow
def test_kernels_by_name():
    median = select_kernel(x, "median")
    assert median.lengthscale == pytest.approx(np.median(pdist(x[:, None])))
    assert select_kernel(x[::-1], "bkl") == select_kernel(x, "bkl")  # whatever the order of rows
    assert select_kernel(x, Dirac()) == Dirac()
    assert median_kernel(np.sort(x)[:, None], "column", 0) == median
    scaled = scale_lengthscales(Matern(1.5, np.array([1.0, 2.0])), 0.5)
    assert scaled.lengthscale.tolist() == [0.5, 1.0]
    with pytest.raises(InputError, match="one of"):
        select_kernel(x, "mean")
    with pytest.raises(InputError, match="no lengthscale"):
        scale_lengthscales(Dirac(), 2.0)
    with pytest.raises(InputError, match="all are equal"):
        select_kernel(np.ones(5), "median")


@pytest.mark.parametrize("regularization", ["leave-one-out", "marginal-likelihood"])
def test_a_regression_is_learned(regularization):
    learned = learn_conditional(x, y, regularization=regularization, **MEDIAN)
    at = np.linspace(-2.5, 2.5, 60)
    error = np.sqrt(np.mean((learned.expectation(at)[:, 0] - np.sin(2.0 * at)) ** 2))
    # 0.05 and 0.06 here; the median heuristic's lengthscale alone has 0.2 to 0.3.
    assert error < 0.1
    assert learned.kernel_x.lengthscale < select_kernel(x, "median").lengthscale


ANOTHER_ORDER = r"row labels in another order.* by Y.loc\[X.index\]"
LABELED = pd.Series(x)
SHORT = np.arange(20.0)


@pytest.mark.parametrize(
    ("learn", "arguments", "options", "message"),
    [
        (learn_conditional, (x, y[:9]), {}, "not pairs"),
        (learn_conditional, (LABELED, LABELED.iloc[::-1]), {}, ANOTHER_ORDER),
        (learn_filter, (LABELED, LABELED.iloc[::-1]), {}, ANOTHER_ORDER),
        (
            learn_conditional,
            (x, y),
            {"regularization": 0.1, "factors": (1.0, 2.0)},
            "give one factor",
        ),
        (learn_conditional, (x, y), {"regularization": -0.1}, "at least 0"),
        (learn_conditional, (x, y), {"regularization": "cv"}, "one of"),
        (learn_conditional, (np.r_[x[:2], np.nan, x[3:]], y), {}, "row 3"),
        (learn_filter, (x[:5], x[:5]), {}, "at least 8 rows"),
        (learn_filter, (SHORT, SHORT[:5]), {}, "not pairs"),
        (learn_filter, (SHORT, SHORT), {"regularizations": ()}, "regularizations"),
        (learn_filter, (SHORT, SHORT), {"factors": (-1.0,)}, "positive"),
    ],
)
def test_bad_input(learn, arguments, options, message):
    with pytest.raises(InputError, match=message):
        learn(*arguments, **options)


@pytest.mark.slow
def test_a_filter_is_learned():
    rng = np.random.default_rng(3)
    state = 0.0
    X = np.empty(160)
    for t in range(160):
        state = 0.9 * state + 0.5 * np.sin(3.0 * state) + 0.3 * rng.normal()
        X[t] = state
    Y = X + 0.5 * rng.normal(size=160)
    grid = {"factors": (0.5, 1.0), "regularizations": (1e-6, 1e-1, 1.0), "progress": False}
    learned = learn_filter(X[:120], Y[:120], **MEDIAN, **grid)
    assert len(learned.trials) == 6
    assert [t.error for t in learned.trials] == sorted(t.error for t in learned.trials)
    assert learned.trials[0].regularization > 1e-6  # overfits, which the score detects
    estimates = learned.filter.filter(Y[120:])
    assert np.mean((estimates.mean()[:, 0] - X[120:]) ** 2) < np.mean((Y[120:] - X[120:]) ** 2)
    assert f"{learned.trials[0].error ** 0.5:.4g}" in str(learned)
    assert learned.smoothed_error <= learned.trials[0].error
    importance = learn_filter(X[:120], Y[:120], method="importance", **MEDIAN, **grid)
    estimates = importance.filter.filter(Y[120:])
    assert np.mean((estimates.mean()[:, 0] - X[120:]) ** 2) < np.mean((Y[120:] - X[120:]) ** 2)
    assert importance.filter.method == "importance"
    assert (
        importance.filter.posterior_regularization == importance.filter.observation.regularization
    )
    # Settings do not depend on the units of a column.
    errors = [
        learn_filter(X[:120, None] * units, Y[:120], **MEDIAN, **grid).trials[0].error
        for units in ([1.0, 1e3], [1e3, 1.0])
    ]
    assert errors[0] == pytest.approx(errors[1], rel=1e-6)


def test_validation_data_are_not_trained_on():
    # Observations carry no information on states: the error of the mean state is 1, unless a
    # filter was trained on the states that it predicts (then the error is 0.2 to 0.6 here).
    rng = np.random.default_rng(4)
    grid = {"factors": (0.05, 0.5), "regularizations": (1e-3, 1e-1), "progress": False}
    learned = learn_filter(rng.normal(size=160), rng.normal(size=160), **MEDIAN, **grid)
    assert learned.trials[0].error > 0.9


def test_a_kernel_of_labels_has_a_single_factor():
    x = np.random.default_rng(0).integers(0, 3, 60)
    labels = {"kernel_x": Dirac(), "kernel_y": Dirac(), "progress": False}
    with pytest.raises(InputError, match="the only factor is 1"):
        learn_filter(x, x, factors=(1, 2), **labels)
    conditional = learn_conditional(x, x, kernel_x=Dirac(), kernel_y=Dirac())
    np.testing.assert_allclose(conditional.expectation([0, 1, 2])[:, 0], [0, 1, 2], atol=1e-6)
    learned = learn_filter(x, x, factors=(1,), **labels)
    assert learned.trials[0].error < 0.05


def test_median_kernel_scales_columns():
    both = np.column_stack([x, 1000.0 * y])
    kernel = select_kernel(both, "median")
    assert isinstance(kernel, SquaredExponential)
    ratio = kernel.lengthscale[1] / kernel.lengthscale[0]
    assert ratio == pytest.approx(1000.0 * y.std() / x.std(), rel=0.02)
