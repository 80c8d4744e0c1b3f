"""Shrinkage against plain NumPy: explicit features, rows really left out, numerical integrals.

Nothing here is symmetric: row counts that occur once, columns of different spread, a lengthscale
for each, targets and weights that are no part of the data.
"""

import itertools

import numpy as np
import pytest
from bke.models import (
    Embedding,
    GaussianMixture,
    Matern,
    Polynomial,
    SpectralMixture,
    SquaredExponential,
    embedding_posterior,
    gaussian_mixture_embedding,
    leave_one_out_scores,
    mean_embedding,
    posterior_mean_embedding,
    shrinkage_amount,
    shrunk_embedding,
    spectral_embedding,
)
from bke.models.embeddings.embedding import SHRINKAGE_RULES
from scipy.optimize import minimize_scalar

RNG = np.random.default_rng(0)
X = RNG.gamma(2.0, size=(11, 2)) * [1.0, 3.0] + [0.3, -1.0]
POINTS = RNG.normal(size=(4, 2)) * [1.0, 3.0]
KERNELS = [SquaredExponential([0.8, 2.1]), Matern(1.5, [0.5, 2.0]), Polynomial(2, 0.7)]
by_type = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)


def features(points, degree, constant):
    """phi(x) with <phi(x), phi(y)> = (<x, y> + constant)^degree on the plane, degree 1 or 2."""
    a, b = np.asarray(points, dtype=float).T
    constant_column = np.ones_like(a)
    if degree == 1:
        return np.stack([a, b, constant**0.5 * constant_column], axis=1)
    middle = (2.0 * constant) ** 0.5
    columns = [a**2, b**2, 2.0**0.5 * a * b, middle * a, middle * b, constant * constant_column]
    return np.stack(columns, axis=1)


def leave_one_out_error(phi, target, lam):
    """Mean squared distance of phi_i to the others' ridge-regularized mean around the target."""
    n, total = len(phi), 0.0
    for i in range(n):
        mean_of_rest = np.delete(phi, i, axis=0).mean(axis=0)
        estimate = target + (mean_of_rest - target) / (1.0 + lam)
        total += np.sum((phi[i] - estimate) ** 2)
    return total / n


def best(score, low=-12.0, high=12.0):
    """The lambda at the lowest score: a grid of logarithms, then a search around the best."""
    grid = np.linspace(low, high, 241)
    middle = grid[np.argmin([score(np.exp(x)) for x in grid])]
    result = minimize_scalar(
        lambda x: score(np.exp(x)),
        bounds=(middle - 0.1, middle + 0.1),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return float(np.exp(result.x))


@by_type
def test_the_plug_in_and_positive_part_amounts_are_sums_over_pairs(kernel):
    """SHR-2 with its own estimate of the risk, by a loop; SHR-3 as max(1 - a, 0)."""
    K, n = np.asarray(kernel(X)), len(X)
    mean_square = sum(K[i, i] for i in range(n)) / n
    rho = sum(K[i, j] for i in range(n) for j in range(n)) / n**2
    off = sum(K[i, j] for i, j in itertools.permutations(range(n), 2)) / (n * (n - 1))
    risk = (mean_square - off) / n
    amounts = shrinkage_amount(X, kernel)
    assert amounts["plug-in"] == pytest.approx(risk / (risk + rho), rel=1e-10)
    retained = max(1.0 - risk / rho, 0.0)
    assert amounts["positive-part"] == pytest.approx(1.0 - retained, rel=1e-10)
    assert abs(amounts["plug-in"] - amounts["positive-part"]) > 1e-4


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("with_target", [False, True], ids=["zero", "target"])
def test_amounts_and_estimates_by_explicit_features(degree, with_target):
    """All three rules in R^3 and R^6; SHR-5 by minimizing the score of rows really left out."""
    kernel, phi = Polynomial(degree, 0.7), features(X, degree, 0.7)
    weights = np.array([0.2, -0.3, 0.4, 0.05])
    target = mean_embedding(POINTS, kernel, weights) if with_target else None
    f = weights @ features(POINTS, degree, 0.7) * with_target
    n, mean = len(X), phi.mean(axis=0)
    risk = np.trace(np.cov(phi.T)) / n
    rho = np.sum((mean - f) ** 2)
    lam = best(lambda lam: leave_one_out_error(phi, f, lam))
    expected = [risk / (risk + rho), min(risk / rho, 1.0), lam / (1.0 + lam)]
    amounts = shrinkage_amount(X, kernel, target)
    assert 0.02 < min(expected) < max(expected) < 0.98
    assert np.ptp(expected) > 1e-3
    assert amounts["plug-in"] == pytest.approx(expected[0], rel=1e-9)
    assert amounts["positive-part"] == pytest.approx(expected[1], rel=1e-9)
    assert amounts["leave-one-out"] == pytest.approx(expected[2], rel=1e-6)
    for rule, a in amounts.items():
        estimate = shrunk_embedding(X, kernel, amount=rule, target=target)
        vector = estimate.weights @ features(estimate.points, degree, 0.7)
        np.testing.assert_allclose(vector, float(a) * f + (1.0 - float(a)) * mean, rtol=1e-9)
    fixed = shrunk_embedding(X, kernel, amount=0.35, target=target)
    vector = fixed.weights @ features(fixed.points, degree, 0.7)
    np.testing.assert_allclose(vector, 0.35 * f + 0.65 * mean, rtol=1e-10)


def test_complete_shrinkage():
    """LowRankFeatures around their target: the score falls for ever, and all is shrunk away."""
    kernel = Polynomial(1, 0.0)
    rows = np.array([[1.0, 0.2], [-1.1, 0.0], [0.1, -2.0], [0.2, 1.7], [-0.1, 0.3]])
    scores = [leave_one_out_error(rows, np.zeros(2), lam) for lam in np.geomspace(1e-3, 1e6, 40)]
    assert np.all(np.diff(scores) < 0.0)
    amounts = shrinkage_amount(rows, kernel)
    risk, rho = np.trace(np.cov(rows.T)) / 5, np.sum(rows.mean(axis=0) ** 2)
    assert risk > rho
    assert amounts["leave-one-out"] == 1.0
    assert amounts["positive-part"] == 1.0
    assert amounts["plug-in"] == pytest.approx(risk / (risk + rho), rel=1e-10)
    assert not np.any(shrunk_embedding(rows, kernel, amount="positive-part").weights)
    # Equal rows do not profit from shrinkage, and one row suffices for a given amount.
    assert shrunk_embedding(X[:1], kernel, amount=0.25).weights == pytest.approx([0.75])
    assert np.all(np.array(list(shrinkage_amount(np.full((3, 2), 1.5), kernel).values())) == 0.0)


def refit(K, i, lam):
    """Weights (n,) of the spectral estimate of all rows but i, with lambda per row (SHR-6)."""
    retained = np.delete(np.arange(len(K)), i)
    small = K[np.ix_(retained, retained)]
    m = len(retained)
    weights = np.zeros(len(K))
    weights[retained] = np.linalg.solve(small + m * lam * np.eye(m), small @ np.full(m, 1.0 / m))
    return weights


@by_type
@pytest.mark.one_in(3)
def test_spectral_scores_by_refitting(kernel):
    """SHR-7, every row really left out; and the choice is the best of the 120."""
    K, n = np.asarray(kernel(X)), len(X)

    def score(lam):
        total = 0.0
        for i in range(n):
            w = refit(K, i, lam)
            total += w @ K @ w - 2.0 * w @ K[i] + K[i, i]
        return total / n

    unit = np.mean(np.diag(K)) / n
    tried = unit * np.geomspace(0.01, 10.0, 7)
    expected = np.array([score(lam) for lam in tried])
    np.testing.assert_allclose(leave_one_out_scores(X, kernel, tried), expected, rtol=1e-9)
    assert np.min(np.abs(np.diff(expected))) > 1e-5 * expected.mean()
    grid = unit * np.geomspace(1e-8, n, 120)
    index = int(np.argmin([score(lam) for lam in grid]))
    assert 0 < index < 119
    chosen = spectral_embedding(X, kernel).weights
    result = [np.linalg.solve(K + n * lam * np.eye(n), K.mean(axis=1)) for lam in grid]
    np.testing.assert_allclose(chosen, result[index], rtol=1e-6)
    neighbors = [np.max(np.abs(result[index + step] - chosen)) for step in (-1, 1)]
    assert min(neighbors) > 1e-4 * np.max(np.abs(chosen))


@pytest.mark.parametrize(
    "kernel",
    [
        *KERNELS[:2],
        GaussianMixture([0.4, 2.0], [0.3, 0.9]),
        SpectralMixture([0.7, 2.0], [0.3, 0.1]),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_the_posterior_mean_with_prior_k_is_spectral_shrinkage(kernel):
    """BKE section 4.2: sigma^2 = n lambda, weights and values."""
    n, noise = len(X), 0.37
    posterior = posterior_mean_embedding(X, kernel, noise=noise, measure=None)
    spectral = spectral_embedding(X, kernel, regularization=noise / n)
    np.testing.assert_allclose(posterior.weights, spectral.weights, rtol=1e-10)
    np.testing.assert_allclose(posterior(POINTS), spectral(POINTS), rtol=1e-10)
    other = spectral_embedding(X, kernel, regularization=noise)
    assert np.max(np.abs(other.weights / posterior.weights - 1.0)) > 0.05
    K = np.asarray(kernel(X))
    expected = np.linalg.solve(K + noise * np.eye(n), K.mean(axis=0))
    np.testing.assert_allclose(posterior.weights, expected, rtol=1e-9)


@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
@pytest.mark.parametrize("noise", ["clt", 0.1], ids=["clt", "0.1"])
def test_values_of_the_posterior_mean(measure, noise):
    """BKE (7) with lengthscales by column: the posterior mean of `embedding_posterior`."""
    kernel = SquaredExponential([0.8, 2.1])
    result = posterior_mean_embedding(X, kernel, noise=noise, measure=measure)
    posterior = embedding_posterior(X, kernel, POINTS, noise=noise, measure=measure)
    np.testing.assert_allclose(result(POINTS), posterior.mean, rtol=1e-6, atol=1e-9)


LINE = np.array([-1.3, -0.2, 0.15, 0.9, 2.4])
UNIVARIATE_KERNELS = [
    SquaredExponential(0.7),
    GaussianMixture([0.4, 1.1], [0.3, 0.9]),
    SpectralMixture([0.5, 1.2], [0.6, 0.25], [0.4, 0.8]),
]


def formula(kernel, delta):
    """k as its docstring has it, written again."""
    ell = np.atleast_1d(kernel.lengthscale)[:, None, None]
    weights = np.atleast_1d(getattr(kernel, "weights", None) or [1.0])[:, None, None]
    waves = 2.0 * np.pi * np.atleast_1d(getattr(kernel, "frequency", 0.0))[:, None, None]
    return np.sum(weights * np.exp(-0.5 * (delta / ell) ** 2) * np.cos(waves * delta), axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
@pytest.mark.parametrize("kernel", UNIVARIATE_KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_norms_of_smoothed_sections_are_double_integrals(kernel, measure):
    """<r_x, r_y> = int int k(x, u) k(u, v) k(v, y) du dv on a grid; analytic, so it converges.

    With *unit* over r(0)^2, and <r_x, k_y> = r(x, y).
    """
    u, step = np.linspace(-14.0, 15.0, 1161, retstep=True)
    A = formula(kernel, LINE[:, None] - u)
    B = formula(kernel, u[:, None] - u)
    at_zero = step * np.sum(formula(kernel, u[None]) ** 2) if measure == "unit" else 1.0
    sections = step**2 * A @ B @ A.T / at_zero**2
    mixed = step * A @ formula(kernel, u[:, None] - np.array([0.4, 1.7])) / at_zero
    # The posterior mean itself, from these integrals.
    K = formula(kernel, LINE[:, None] - LINE)
    R = step * A @ A.T / at_zero
    weights = np.linalg.solve(R + 0.1 * np.eye(5), K.mean(axis=1))
    result = posterior_mean_embedding(LINE, kernel, noise=0.1, measure=measure)
    np.testing.assert_allclose(result.weights, weights, rtol=1e-8)
    expected = weights @ sections @ weights
    assert result.squared_norm() == pytest.approx(expected, rel=1e-8)
    # Its values with sections of k, or with the space of r.
    assert abs(weights @ K @ weights / expected - 1.0) > 1e-3
    assert abs(weights @ R @ weights / expected - 1.0) > 1e-3
    other = mean_embedding(np.array([0.4, 1.7]), kernel, [0.6, -0.25])
    inner = weights @ mixed @ [0.6, -0.25]
    assert result.inner_product(other) == pytest.approx(inner, rel=1e-8)
    assert other.inner_product(result) == pytest.approx(inner, rel=1e-8)
    distance = expected - 2.0 * inner + other.squared_norm()
    assert result.squared_distance(other) == pytest.approx(float(distance), rel=1e-8)
    smoothed = Embedding(kernel, np.array([[0.1], [1.9]]), np.array([1.0, -0.4]), measure)
    C = formula(kernel, np.array([[0.1], [1.9]]) - u)
    cross = weights @ (step**2 * A @ B @ C.T / at_zero**2) @ [1.0, -0.4]
    assert result.inner_product(smoothed) == pytest.approx(cross, rel=1e-8)


@pytest.mark.parametrize("measure", ["unit", "lebesgue"])
def test_the_norm_with_a_lengthscale_for_every_column(measure):
    """Squared exponential: the third convolution power is a product over columns."""
    ell = np.array([0.8, 2.1])
    result = posterior_mean_embedding(X, SquaredExponential(ell), noise=0.05, measure=measure)
    delta = X[:, None] - X
    product = np.ones(delta.shape[:2])
    for d in range(2):
        u, step = np.linspace(X[:, d].min() - 14.0, X[:, d].max() + 14.0, 1401, retstep=True)
        k = lambda a, b, d=d: np.exp(-0.5 * ((a[:, None] - b) / ell[d]) ** 2)  # noqa: E731
        A = k(X[:, d], u)
        at_zero = ell[d] * np.pi**0.5 if measure == "unit" else 1.0
        product *= step**2 * A @ k(u, u) @ A.T / at_zero**2
    expected = result.weights @ product @ result.weights
    assert result.squared_norm() == pytest.approx(float(expected), rel=1e-7)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda k: shrunk_embedding(X, k, amount=1.2), "amount must be between 0 and 1"),
        (lambda k: shrunk_embedding(X, k, amount="loo"), "amount must be a number or one of"),
        (lambda k: shrunk_embedding(X[:1], k), "at least 2 rows"),
        (
            lambda k: shrunk_embedding(X, k, target=mean_embedding(POINTS, KERNELS[1])),
            "different kernels",
        ),
        (lambda k: spectral_embedding(X, k, regularization=0.0), "must be positive"),
        (lambda k: spectral_embedding(X, k, regularization="plug-in"), "or 'leave-one-out'"),
        (lambda k: leave_one_out_scores(X[:1], k, 0.1), "at least 2 rows"),
        (lambda k: leave_one_out_scores(X, k, [0.1, -0.1]), "must be positive"),
    ],
)
def test_invalid_arguments(act, message):
    with pytest.raises(ValueError, match=message):
        act(KERNELS[0])


@pytest.mark.slow
def test_shrinkage_lowers_the_risk():
    """A short version of ``benchmarks/shrinkage.py``: a Gaussian, 10 rows of 10 columns.

    Seed 1, 100 data sets. The mean of what is saved was 13 to 29 of its standard errors over 20
    other seeds.
    """
    D, n, lengthscale = 10, 10, 2.5
    kernel, rng = SquaredExponential(lengthscale), np.random.default_rng(1)
    norm = (1.0 + 2.0 / lengthscale**2) ** (-D / 2)
    lost = []
    for _ in range(100):
        sample = rng.normal(size=(n, D))
        exact = gaussian_mixture_embedding([1.0], np.zeros((1, D)), [1.0], lengthscale, sample)
        sides = [mean_embedding(sample, kernel), spectral_embedding(sample, kernel)]
        sides += [shrunk_embedding(sample, kernel, amount=name) for name in SHRINKAGE_RULES]
        lost.append(
            [estimate.squared_norm() - 2.0 * estimate.weights @ exact + norm for estimate in sides]
        )
    lost = np.array(lost)
    saved = lost[:, :1] - lost[:, 1:]
    z = saved.mean(axis=0) / (saved.std(axis=0, ddof=1) / 10.0)
    assert np.all(z > 6.0)
    # And the empirical embedding has the risk it should: (k(x, x) - |mu|^2) / n.
    empirical = lost[:, 0]
    error = empirical.std(ddof=1) / 10.0
    assert abs(empirical.mean() - (1.0 - norm) / n) < 4.0 * error
