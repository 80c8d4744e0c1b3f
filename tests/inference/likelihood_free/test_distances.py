"""Distances against the statistics of bke.models, one data set at a time."""

from __future__ import annotations

import numpy as np
import pytest
from bke.inference import MMD, InputError, Summaries
from bke.inference.likelihood_free import distances
from bke.models import Laplace, Matern, Polynomial, SquaredExponential, squared_mmd

RNG = np.random.default_rng(3)
Y = RNG.normal(size=(13, 2)) * [1.0, 3.0]
KERNEL = SquaredExponential(np.array([0.8, 2.0]))


@pytest.mark.parametrize("estimator", ["biased", "unbiased", "linear"])
@pytest.mark.one_in(3)
def test_estimators_are_those_of_the_models(estimator):
    rows = 13 if estimator == "linear" else 9  # simulated data sets may have fewer rows
    batch = RNG.normal(size=(5, rows, 2)) + np.arange(5)[:, None, None]
    result = MMD(Y, KERNEL, estimator).squared(batch)
    expected = [float(squared_mmd(X, Y, KERNEL, estimator=estimator)) for X in batch]
    np.testing.assert_allclose(result, expected, rtol=1e-10)


def test_block_size_does_not_change_the_mmd(monkeypatch):
    batch = RNG.normal(size=(7, 11, 2))
    unblocked = [MMD(Y, KERNEL, estimator).squared(batch) for estimator in ("biased", "features")]
    monkeypatch.setattr(distances, "BLOCK_ENTRIES", 50)
    programs = (distances._evaluate_batch, distances._mean_within)
    # Programs are cached by shape: one more data set compiles them again.
    more = np.concatenate([batch, batch[:1]])
    for program in programs:
        program.clear_cache()
    blocked = [MMD(Y, KERNEL, estimator).squared(more) for estimator in ("biased", "features")]
    for program in programs:
        program.clear_cache()
    for expected, result in zip(unblocked, blocked, strict=True):
        np.testing.assert_allclose(result[:-1], expected, rtol=1e-10)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "kernel",
    [
        KERNEL,
        2.0 * SquaredExponential(1.0) + SquaredExponential(0.3),
        Matern(nu=1.5, lengthscale=1.0),
        Matern(nu=0.5, lengthscale=1.0),
    ],
)
def test_features_approximate_the_kernel(kernel):
    """With three draws of such data and five of the frequencies the largest error was 0.0043."""
    batch = RNG.normal(size=(6, 40, 2)) + np.linspace(0.0, 2.0, 6)[:, None, None]
    result = MMD(Y, kernel, "features", num_features=4000).squared(batch)
    exact = MMD(Y, kernel).squared(batch)
    np.testing.assert_allclose(result, exact, atol=0.01)
    assert np.ptp(exact) > 0.1


def test_kernel_is_chosen_from_the_observed_data():
    distance = MMD(Y)
    assert np.ndim(distance.kernel.lengthscale) == 1  # a scale for each column
    assert MMD(Y, standardize=None).kernel.lengthscale > distance.kernel.lengthscale[0]


def test_a_single_column_may_be_a_vector():
    flat = MMD(Y[:, 0], SquaredExponential(0.7))
    np.testing.assert_array_equal(flat.squared(np.ones((2, 5))), flat.squared(np.ones((2, 5, 1))))
    assert flat.squared(np.zeros((0, 5))).shape == (0,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MMD(Y, estimator="paired"), "estimator must be one of"),
        (lambda: MMD(Y, "best"), "kernel must be"),
        (lambda: MMD(Y, Polynomial(2), "features"), "no spectral density"),
        (lambda: MMD(Y, Laplace(1.0), "features"), "no spectral density"),
        (lambda: MMD(Y, num_features=1), "features must be"),
        (lambda: MMD(np.ones((4, 1))), "all are equal: at least two must differ"),
        (lambda: MMD([1.0, np.nan, 2.0]), "observed has a missing value"),
        (lambda: MMD(Y, estimator="linear").squared(np.zeros((2, 9, 2))), "as many rows"),
        (lambda: MMD(Y, estimator="unbiased").squared(np.zeros((2, 1, 2))), "at least 2 rows"),
        (lambda: MMD(Y).squared(np.zeros((2, 9, 3))), "must have shape"),
        (lambda: Summaries(Y, "mean"), "must be a function"),
        (lambda: Summaries(Y, lambda x: np.nan), "summaries of the observed data are"),
        (lambda: Summaries(Y, np.mean, scale=0.0), "scale must be positive"),
        (lambda: Summaries(Y, np.mean, scale=[1.0, 2.0]), "scale must be a number"),
        (lambda: Summaries(Y, np.atleast_2d), "must be a number or an array"),
        (
            lambda: Summaries(Y, lambda x: x[:, 0]).squared(np.zeros((1, 4, 2))),
            "13 summaries of the observed data, and 4",
        ),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_summaries():
    distance = Summaries(Y, lambda x: [x.mean(), x[0, 1]], scale=[2.0, 0.5])
    batch = RNG.normal(size=(3, 6, 2))
    expected = [
        ((X.mean() - Y.mean()) / 2.0) ** 2 + ((X[0, 1] - Y[0, 1]) / 0.5) ** 2 for X in batch
    ]
    np.testing.assert_allclose(distance.squared(batch), expected)
    vector = Summaries(Y[:, 0], lambda x: np.abs(np.diff(x)).mean())  # a single column
    assert vector.squared(Y[None, :, 0]) == 0.0
