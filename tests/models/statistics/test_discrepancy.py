"""MMD and its relatives: loops over pairs, closed forms and identities."""

import itertools

import jax
import numpy as np
import pytest
from bke.models import (
    Distance,
    Matern,
    Polynomial,
    SquaredExponential,
    embedding_inner_product,
    gaussian_inner_product,
    mmd_terms,
    normalized_mmd,
    squared_mmd,
    squared_mmd_variance,
)
from scipy import stats

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(7, 2)), RNG.gamma(2.0, size=(5, 2))
KERNELS = [SquaredExponential(0.8), Matern(1.5, [0.5, 2.0]), Distance(), Polynomial(3, 0.5)]


def entry(kernel, x, y):
    return float(kernel(x[None], y[None])[0, 0])


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_biased_and_unbiased_are_sums_over_pairs(kernel):
    k = lambda x, y: entry(kernel, x, y)  # noqa: E731
    m, n = len(X), len(Y)
    across = sum(k(x, y) for x in X for y in Y) / (m * n)
    both = [
        (sum(k(a, b) for a in Z for b in Z), sum(k(a, b) for a, b in itertools.permutations(Z, 2)))
        for Z in (X, Y)
    ]
    biased = both[0][0] / m**2 + both[1][0] / n**2 - 2 * across
    unbiased = both[0][1] / (m * (m - 1)) + both[1][1] / (n * (n - 1)) - 2 * across
    assert squared_mmd(X, Y, kernel, estimator="biased") == pytest.approx(biased, rel=1e-10)
    assert squared_mmd(X, Y, kernel) == pytest.approx(unbiased, rel=1e-10)


def test_paired_leaves_out_the_pairs():
    """MMD-6, and E12: it differs from MMD-5 by 2 (mean off the diagonal - mean) of K_XY."""
    kernel, first = SquaredExponential(0.8), X[: len(Y)]
    n = len(Y)
    total = 0.0
    for i, j in itertools.permutations(range(n), 2):
        total += entry(kernel, first[i], first[j]) + entry(kernel, Y[i], Y[j])
        total -= entry(kernel, first[i], Y[j]) + entry(kernel, first[j], Y[i])
    paired = squared_mmd(first, Y, kernel, estimator="paired")
    assert paired == pytest.approx(total / (n * (n - 1)), rel=1e-12)
    K = np.asarray(kernel(first, Y))
    off = (K.sum() - np.trace(K)) / (n * (n - 1))
    difference = squared_mmd(first, Y, kernel) - paired
    assert difference == pytest.approx(2 * (off - K.mean()), rel=1e-9)
    assert abs(difference) > 1e-3


@pytest.mark.slow
def test_linear_and_block_terms():
    """Block of the full sample: MMD-6. Size 2: h of MMD-13 by hand."""
    kernel = SquaredExponential(1.3)
    first = np.concatenate([X, X + 0.3])[:9]
    second = RNG.normal(size=(9, 2))
    single_block = mmd_terms(first, second, kernel, block_size=9)
    assert single_block.shape == (1,)
    assert single_block[0] == pytest.approx(squared_mmd(first, second, kernel, estimator="paired"))
    pairs = mmd_terms(first, second, kernel, block_size=2)
    assert pairs.shape == (4,)
    x, y = first[2:4], second[2:4]
    h = entry(kernel, x[0], x[1]) + entry(kernel, y[0], y[1])
    h -= entry(kernel, x[0], y[1]) + entry(kernel, x[1], y[0])
    assert pairs[1] == pytest.approx(h, rel=1e-12)
    linear = squared_mmd(first, second, kernel, estimator="linear")
    assert linear == pytest.approx(float(pairs.mean()))
    block = squared_mmd(first, second, kernel, estimator="block")
    assert block == pytest.approx(float(mmd_terms(first, second, kernel, block_size=3).mean()))


def test_the_distance_kernel_gives_the_energy_distance():
    """SciPy's is the root of 2 E|X-Y| - E|X-X'| - E|Y-Y'|; the center drops out."""
    x, y = X[:, 0], Y[:, 1]
    expected = stats.energy_distance(x, y) ** 2
    for center in (0.0, 7.0):
        biased = squared_mmd(x, y, Distance(center=center), estimator="biased")
        assert 2 * biased == pytest.approx(expected, rel=1e-9)
    plane = squared_mmd(X, Y, Distance(1.5, [1.0, -1.0]), estimator="biased")
    norm = lambda A, B: np.linalg.norm(A[:, None] - B, axis=-1) ** 1.5  # noqa: E731
    energy = 2 * norm(X, Y).mean() - norm(X, X).mean() - norm(Y, Y).mean()
    assert 2 * plane == pytest.approx(energy, rel=1e-9)


def test_weights():
    """Weights 1/n are the default; a weight of 2 is the row twice; signed ones are allowed."""
    kernel = SquaredExponential(0.6)
    uneven = np.array([2.0, 1, 1, 1, 1, 1, 1]) / 8
    doubled = np.concatenate([X[:1], X])
    weighted = squared_mmd(X, Y, kernel, estimator="biased", weights=(uneven, None))
    assert weighted == pytest.approx(float(squared_mmd(doubled, Y, kernel, estimator="biased")))
    signed = np.array([1.5, -0.5, 0, 0, 0])
    inner = embedding_inner_product(X, Y, kernel, weights=(None, signed))
    expected = 1.5 * np.mean(kernel(X, Y[:1])) - 0.5 * np.mean(kernel(X, Y[1:2]))
    assert inner == pytest.approx(float(expected), rel=1e-12)
    with pytest.raises(ValueError, match="weights must have shape"):
        embedding_inner_product(X, Y, kernel, weights=(signed, None))
    with pytest.raises(ValueError, match="estimator='biased'"):
        squared_mmd(X, Y, kernel, weights=(uneven, None))


@pytest.mark.parametrize(
    "kernel",
    [SquaredExponential([0.7, 1.9]), Polynomial(1, 0.0), Polynomial(2, 0.5), Polynomial(3, 1.0)],
    ids=["squared exponential", "linear", "degree 2", "degree 3"],
)
def test_inner_products_of_gaussians_in_closed_form(kernel):
    """Against Gauss-Hermite quadrature, exact for polynomials; covariances that do not commute."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    grid = np.array(list(itertools.product(nodes, nodes)))
    mass = np.array([a * b for a, b in itertools.product(weights, weights)]) / (2 * np.pi)
    P = np.array([0.3, -0.7]), np.array([[0.5, 0.2], [0.2, 0.3]])
    Q = np.array([-0.2, 0.4]), np.array([[0.3, -0.25], [-0.25, 0.9]])
    points = [mean + grid @ np.linalg.cholesky(cov).T for mean, cov in (P, Q)]
    expected = float(embedding_inner_product(*points, kernel, weights=(mass, mass)))
    assert gaussian_inner_product(P, Q, kernel) == pytest.approx(expected, rel=1e-7)


def test_the_variance_is_that_of_the_estimate_over_samples():
    """2000 pairs of samples, seed 1: the ratio of standard deviations has a spread of 2 %."""
    rng, kernel = np.random.default_rng(1), SquaredExponential(1.0)
    compiled = jax.jit(lambda x, y: (squared_mmd(x, y, kernel), squared_mmd_variance(x, y, kernel)))
    with jax.enable_x64(True):
        result = np.array(
            [compiled(rng.normal(size=80), rng.normal(1.0, 1.5, size=40)) for _ in range(2000)]
        )
    ratio = np.sqrt(result[:, 1].mean()) / result[:, 0].std()
    assert ratio == pytest.approx(1.0, abs=0.1)


def test_normalized():
    kernel = SquaredExponential(0.5)
    assert normalized_mmd(X, X, kernel) == pytest.approx(0.0, abs=1e-12)
    assert normalized_mmd(X, Y + 100.0, kernel) == pytest.approx(1.0)
    plain, scaled = normalized_mmd(X, Y, kernel), normalized_mmd(X, Y, 3.0 * kernel)
    assert plain == pytest.approx(float(scaled), rel=1e-12)
    assert 0.0 < plain < 1.0


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda k: squared_mmd(X, Y, k, estimator="best"), "estimator must be one of"),
        (lambda k: squared_mmd(X, Y, k, estimator="paired"), "of one size, got 7 and 5"),
        (lambda k: squared_mmd(X[:1], Y, k), "at least 2 rows"),
        (lambda k: mmd_terms(Y, Y, k, block_size=9), "block_size is 9"),
        (lambda k: squared_mmd(Y, Y, k, block_size=2), "block_size is for"),
        (lambda k: Distance(2.5), "at most 2"),
        (lambda k: Polynomial(0), "degree must be"),
        (lambda k: gaussian_inner_product((0.0, 1.0), (0.0, 1.0), Matern(0.5)), "closed form"),
        (lambda k: gaussian_inner_product((0.0, -1.0), (0.0, 1.0), k), "no negative eigenvalues"),
    ],
)
def test_bad_input(act, message):
    with pytest.raises(ValueError, match=message):
        act(SquaredExponential())


def test_biased_mmd_has_its_derivatives_where_the_samples_are_equal():
    """Cut off at zero it would have half of its second derivative in a shift of one sample."""
    X, lengthscale = np.random.default_rng(0).normal(size=(30, 2)), 0.8

    @jax.jit
    def shifted(shift):
        kernel = SquaredExponential(lengthscale)
        return squared_mmd(X, X + shift, kernel, estimator="biased")

    delta = (X[:, None] - X).sum(axis=2)
    gram = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2) / lengthscale**2)
    expected = -2.0 * np.mean(gram * (delta**2 / lengthscale**4 - 2.0 / lengthscale**2))
    with jax.enable_x64(True):
        assert float(jax.hessian(shifted)(0.0)) == pytest.approx(expected, rel=1e-9)
        assert float(jax.grad(shifted)(0.0)) == pytest.approx(0.0, abs=1e-12)
