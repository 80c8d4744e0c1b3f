"""HSIC and its relatives: loops, identities and limits."""

import itertools

import numpy as np
import pytest
from bke.models import (
    Distance,
    Laplace,
    SquaredExponential,
    alignment,
    constrained_covariance,
    hsic,
    normalized_hsic,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(8, 2))
Y = X[:, 0] ** 2 + 0.3 * RNG.gamma(2.0, size=8)
K, L = SquaredExponential([0.9, 2.0]), Laplace(1.7)


def grams(kernel_x=K, kernel_y=L):
    return np.asarray(kernel_x(X, X)), np.asarray(kernel_y(Y, Y))


def test_biased_is_a_sum_over_quadruples():
    """KME (3.38), all indices running over everything."""
    k, l = grams()  # noqa: E741
    n = len(X)
    first = sum(k[i, j] * l[i, j] for i, j in itertools.product(range(n), repeat=2)) / n**2
    second = sum(k[i, j] * l[i, p] for i, j, p in itertools.product(range(n), repeat=3)) / n**3
    third = k.mean() * l.mean()
    result = hsic(X, Y, K, L, estimator="biased")
    assert result == pytest.approx(first - 2 * second + third, rel=1e-10)


def test_unbiased_is_a_sum_over_distinct_indices():
    k, l = grams()  # noqa: E741
    n = len(X)
    two, three, four = [], [], []
    for i, j, p, q in itertools.permutations(range(n), 4):
        two.append(k[i, j] * l[i, j])
        three.append(k[i, j] * l[i, p])
        four.append(k[i, j] * l[p, q])
    expected = np.mean(two) - 2 * np.mean(three) + np.mean(four)
    assert hsic(X, Y, K, L) == pytest.approx(expected, rel=1e-10)


def test_the_distance_kernel_gives_distance_covariance():
    """Szekely et al. (2007): the mean product of doubly centered distances is 4 HSIC."""

    def doubly(distances):
        rows = distances.mean(axis=0)
        return distances - rows - rows[:, None] + rows.mean()

    a = doubly(np.linalg.norm(X[:, None] - X, axis=-1))
    b = doubly(np.abs(Y[:, None] - Y))
    result = hsic(X, Y, Distance(), Distance(center=3.0), estimator="biased")
    assert 4 * result == pytest.approx((a * b).mean(), rel=1e-9)


def test_normalized_variants():
    assert alignment(X, X, K, K) == pytest.approx(1.0)
    assert alignment(X, Y, 2.0 * K, L) == pytest.approx(float(alignment(X, Y, K, 5.0 * L)))
    k, l = grams()  # noqa: E741
    n = len(X)
    H = np.eye(n) - 1.0 / n
    kc, lc = H @ k @ H, H @ l @ H
    for e in (1e-2, 1.0):
        first, second = (g @ np.linalg.inv(g + n * e * np.eye(n)) for g in (kc, lc))
        result = normalized_hsic(X, Y, K, L, regularization=e)
        assert result == pytest.approx(np.trace(first @ second), rel=1e-8)
    # As e grows it becomes HSIC / e^2.
    large = normalized_hsic(X, Y, K, L, regularization=1e6)
    assert large * 1e12 == pytest.approx(float(hsic(X, Y, K, L, estimator="biased")), rel=1e-5)
    largest = np.max(np.linalg.eigvals(kc @ lc).real)
    assert constrained_covariance(X, Y, K, L) == pytest.approx(np.sqrt(largest) / n, rel=1e-8)


def test_bad_input():
    with pytest.raises(ValueError, match="X has 8 rows but Y has 5"):
        hsic(X, Y[:5], K, L)
    with pytest.raises(ValueError, match="at least 4 rows, got 3"):
        hsic(X[:3], Y[:3], K, L)
    with pytest.raises(ValueError, match="estimator must be one of"):
        hsic(X, Y, K, L, estimator="linear")
