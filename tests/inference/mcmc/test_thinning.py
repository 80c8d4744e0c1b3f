"""Thinning: greedy choices by loops, weights by another solver, less discrepancy than chance."""

import importlib.util
import json

import numpy as np
import pytest
import xarray as xr
from bke.inference import InputError, thin
from bke.inference.mcmc import thinning as module
from bke.inference.mcmc.thinning import kernel_herding, simplex_weights, stein_thinning
from bke.models import RationalQuadratic, SquaredExponential, squared_mmd, stein_matrix
from scipy.optimize import minimize

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 2)) * [1.0, 3.0]
KERNEL = SquaredExponential([1.0, 3.0])
SMALL = np.asarray(KERNEL(X[:9]))


def test_herding_is_greedy():
    """The next draw is the one that leaves the least MMD, up to what is the same for all."""
    selected = kernel_herding(lambda index: SMALL[:, index], SMALL.mean(axis=0), 4)
    for size in range(4):
        before = list(selected[:size])
        heights = SMALL.mean(axis=1) - SMALL[:, before].sum(axis=1) / (size + 1)
        heights[before] = -np.inf
        assert selected[size] == np.argmax(heights)


def test_stein_thinning_is_greedy():
    """Each draw leaves the least Stein discrepancy of all that could be added, by loops."""
    points, scores = X[:12], -X[:12]
    gram = np.asarray(stein_matrix(points, scores, RationalQuadratic(0.5, 1.0)))
    selected = list(stein_thinning(lambda index: gram[:, index], np.diagonal(gram), 5))
    for size in range(5):
        tried = [
            gram[np.ix_([*selected[:size], candidate], [*selected[:size], candidate])].sum()
            for candidate in range(12)
        ]
        assert tried[selected[size]] == pytest.approx(min(tried))


def test_weights_on_the_simplex():
    means = np.asarray(KERNEL(X, X[:9])).mean(axis=0)
    weights = simplex_weights(SMALL, means)
    slow = minimize(
        lambda w: w @ SMALL @ w - 2.0 * w @ means,
        np.full(9, 1.0 / 9.0),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * 9,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
        options={"ftol": 1e-15, "maxiter": 500},
    )
    np.testing.assert_allclose(weights, slow.x, atol=1e-4)
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() >= 0.0


@pytest.mark.parametrize("method", ["herding", "kernel"])
@pytest.mark.parametrize("weighted", [False, True])
def test_discrepancy_is_mmd_and_less_than_by_chance(method, weighted):
    if method == "kernel":
        pytest.importorskip("goodpoints")
    result = thin(X, 20, method=method, weighted=weighted, kernel=KERNEL)
    assert len(set(result.indices)) == 20
    expected = squared_mmd(
        X[result.indices], X, KERNEL, estimator="biased", weights=(result.weights, None)
    )
    assert result.discrepancy == pytest.approx(float(expected) ** 0.5, rel=1e-4)
    assert result.discrepancy < 0.5 * min(result.random_discrepancy, result.systematic_discrepancy)
    np.testing.assert_array_equal(result.points, X[result.indices])
    json.dumps(result.to_dict(), allow_nan=False)
    assert ("weighted" in str(result)) == weighted
    if weighted:
        assert result.discrepancy < thin(X, 20, method=method, kernel=KERNEL).discrepancy


def test_a_score_leaves_the_warmup_out():
    """A hundred draws on the way from afar, and then those of the density (seed 1)."""
    rng = np.random.default_rng(1)
    approach = np.linspace(8.0, 0.0, 100)[:, None] + 0.1 * rng.normal(size=(100, 1))
    draws = np.concatenate([approach, rng.normal(size=(500, 1))])[None]
    result = thin(draws, 30, score=-draws)
    assert np.all(np.abs(result.points) < 4.0)
    assert result.discrepancy < 0.5 * result.random_discrepancy
    unit = draws.std()
    kernel = RationalQuadratic(0.5, result.kernel.lengthscale / unit)
    gram = np.asarray(stein_matrix(result.points / unit, -result.points * unit, kernel))
    assert result.discrepancy == pytest.approx(gram.mean() ** 0.5, rel=1e-6)
    # Without a score the draws on the way count as all others.
    assert np.abs(thin(draws, 30, method="herding").points).max() > 4.0


def test_large_samples_are_thinned_from_equally_spaced_draws(monkeypatch):
    monkeypatch.setattr(module, "MAX_GRAM_ROWS", 64)
    monkeypatch.setattr(module, "MAX_CANDIDATES", 256)
    monkeypatch.setattr(module, "MAX_REFERENCE_ROWS", 256)
    methods = ["herding"] + ["kernel"] * (importlib.util.find_spec("goodpoints") is not None)
    draws = np.random.default_rng(2).normal(size=(5000, 2))
    for method in methods:
        result = thin(draws, 16, method=method)
        assert len(set(result.indices)) == 16
        assert result.indices.max() > 4000
        assert "discrepancies are to 256 equally spaced draws of 5000" in result.notes[-1]
        assert result.discrepancy < result.random_discrepancy


def test_a_tree_and_its_order():
    draws = np.random.default_rng(3).normal(size=(2, 100, 2))
    posterior = xr.Dataset({"x": (("chain", "draw", "dim"), draws)})
    tree = xr.DataTree.from_dict({"posterior": posterior})
    result = thin(tree, 10, method="herding")
    assert result.columns == ("x[0]", "x[1]")
    np.testing.assert_array_equal(result.points, draws.reshape(-1, 2)[result.indices])
    again = thin(draws, 10, method="herding")
    np.testing.assert_array_equal(again.indices, result.indices)


@pytest.mark.parametrize("method", ["herding", "kernel"])
def test_any_count(method):
    if method == "kernel":
        pytest.importorskip("goodpoints")
    for count in (1, 199, 399):
        assert len(set(thin(X, count, method=method).indices)) == count


def test_automatic_method(monkeypatch):
    assert "herding" in thin(X, 5).method
    monkeypatch.setattr(module, "MAX_CANDIDATES", 256)
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert "herding" in thin(X, 5).method
    with pytest.raises(InputError, match="needs the package goodpoints"):
        thin(X, 5, method="kernel")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"draws": np.ones((50, 2)), "count": 5}, "all draws are equal"),
        ({"count": 400}, "count must be from 1 to 399"),
        ({"count": 0}, "count must be from 1"),
        ({"count": 5, "method": "loud"}, "method must be one of"),
        ({"count": 5, "method": "stein"}, "needs a score"),
        ({"count": 5, "method": "herding", "score": -X}, "a score is for no other method"),
        ({"count": 5, "kernel": "loud"}, "a kernel or one of"),
        ({"count": 5, "score": -X[:5]}, "score must be real numbers of shape"),
    ],
)
def test_invalid_arguments_are_refused(options, expected):
    with pytest.raises(InputError, match=expected):
        thin(**{"draws": X, **options})
