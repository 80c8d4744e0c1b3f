"""BKE (13) compared with an independent twin, its derivatives, and its behavior under JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Fourier,
    Gaussian,
    Landmark,
    Matern,
    Nystrom,
    SquaredExponential,
    log_jacobian,
    log_marginal_likelihood,
)
from bke.models.likelihood.dense import DenseSolver, dense_term, dense_terms
from bke.models.likelihood.marginal import as_likelihood, restore_likelihood

LENGTHSCALES = [1e-3, 1e-2, 0.3, 1.0, 30.0, 1e3]
RATIOS = np.array([1.0, 0.4, 2.5, 1.3, 0.7])  # ratios of the lengthscales, ARD
FINITE = (1.3, 0.4)  # eta and center of the Gaussian measure
MEASURES = {"unit": "unit", "lebesgue": "lebesgue", "gaussian": Gaussian(*FINITE)}
SMALL, LARGE = 40, DenseSolver.min_low_rank_size + 4


def sample(n, D, seed=0):
    """Asymmetric data; three rows are tied."""
    rng = np.random.default_rng(seed)
    X = rng.gamma(2.0, size=(n, D)) * np.array([1.0, 0.5, 2.0, 1.5, 0.8])[:D]
    X[[5, 9]] = X[7]
    return X


def with_outlier(n, D, seed=0):
    X = sample(n, D, seed)
    X[3, 0] = 1e4
    return X


def twin_measure(name):
    return FINITE if name == "gaussian" else name


def agrees(value, expected):
    return value == pytest.approx(expected, rel=1e-8, abs=1e-8)


# Comparison with the twin


CASES = [
    *((SMALL, D, measure, "isotropic") for D in (1, 2, 5) for measure in MEASURES),
    *((SMALL, D, measure, "ARD") for D in (2, 5) for measure in MEASURES),
    (LARGE, 1, "lebesgue", "isotropic"),
    (LARGE, 2, "unit", "isotropic"),
    (LARGE, 5, "gaussian", "isotropic"),
]


@pytest.mark.one_in(20)
@pytest.mark.parametrize(("n", "D", "measure", "shape"), CASES)
def test_both_terms_agree_with_the_twin(twin, x64, n, D, measure, shape):
    ratios = RATIOS[:D] if shape == "ARD" else 1.0
    routes = ["auto", "dense"] if n == LARGE else ["auto"]

    @jax.jit
    def ours(X, ell):
        kernel = SquaredExponential(ell)
        return [
            dense_terms(X, kernel, 0.1, MEASURES[measure], low_rank=route == "auto")
            for route in routes
        ]

    for X in (sample(n, D), with_outlier(n, D)):
        for ell in LENGTHSCALES:
            if measure == "lebesgue" and ell == 1e3 and D > 1:
                continue  # below
            gaussian, log_gamma = twin(X, ell * ratios, 0.1, twin_measure(measure))
            for terms in ours(jnp.asarray(X), jnp.asarray(ell * ratios)):
                assert agrees(float(terms.gaussian), gaussian), ell
                assert agrees(float(terms.jacobian), log_gamma.sum()), ell


@pytest.mark.one_in(3)
@pytest.mark.parametrize("route", ["auto", "dense"])
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_the_longest_lengthscale_under_the_lebesgue_measure(twin, n, route):
    X = sample(n, 2)
    gaussian, log_gamma = twin(X, 1e3, 0.1, "lebesgue")
    value = log_marginal_likelihood(
        X, SquaredExponential(1e3), measure="lebesgue", likelihood=route
    )
    assert value == pytest.approx(gaussian + log_gamma.sum(), rel=1e-8)


@pytest.mark.parametrize("route", ["auto", "dense"])
@pytest.mark.parametrize("n", [SMALL, LARGE])
def test_noise_that_rounding_hides_is_an_error(n, route):
    """r(x, x) = pi^(5/2) 1e15 there: adding 0.1 is below double precision."""
    X = sample(n, 5)
    with pytest.raises(ArithmeticError, match="measure='unit'"):
        log_marginal_likelihood(X, SquaredExponential(1e3), measure="lebesgue", likelihood=route)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("double", [False, True])
def test_eager_calls_are_double_and_do_not_change_the_setting(twin, double, dtype):
    X, ell, noise_variance = sample(60, 2, seed=1).astype(dtype), dtype(0.7), dtype(0.02)
    with jax.enable_x64(double):
        value = log_marginal_likelihood(
            jnp.asarray(X) if dtype is np.float32 else X,
            SquaredExponential(ell),
            noise_variance=noise_variance,
        )
        assert jax.config.jax_enable_x64 is double
    assert isinstance(value, (np.ndarray, np.float64))
    assert value.dtype == np.float64
    assert value.shape == ()
    gaussian, log_gamma = twin(X, ell, np.longdouble(noise_variance))
    assert value == pytest.approx(gaussian + log_gamma.sum(), rel=1e-10)


def test_noise_that_rounding_hides_has_no_value_in_a_program(x64):
    value = jax.jit(lambda noise: dense_term(jnp.ones(9), 1e12 * jnp.eye(9), noise)[0])
    assert np.isfinite(value(1e-2))
    assert np.isnan(value(1e-4))


@pytest.mark.one_in(5)
@pytest.mark.parametrize("ell", LENGTHSCALES)
@pytest.mark.parametrize("D", [1, 2, 5])
def test_log_jacobian_agrees_with_the_twin_row_by_row(twin, D, ell):
    for X in (sample(30, D), with_outlier(30, D)):
        expected = twin(X, ell * RATIOS[:D])[1]
        actual = log_jacobian(X, SquaredExponential(ell * RATIOS[:D]))
        np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("ell", [0.01, 1e-60, 1e-78, 1e-140])
def test_an_isolated_point_by_hand(ell):
    """Two points: gamma is |dk/dx| / 2 at both; no other term exists.

    The slope's square overflows from 1e-78 on, where the density must not become infinite.
    """
    gap = 50.0
    expected = -0.5 * (gap / ell) ** 2 + np.log(gap / 2) - 2 * np.log(ell)
    for X in ([0.0, gap], np.array([[0.0, 0.0], [0.6 * gap, 0.8 * gap]])):
        actual = log_jacobian(X, SquaredExponential(ell))
        np.testing.assert_allclose(actual, [expected, expected], rtol=1e-14)


# Identities


@pytest.mark.one_in(4)
@pytest.mark.parametrize("factor", [1e-3, 0.3048, 7.0])
@pytest.mark.parametrize("D", [1, 3])
def test_change_of_units(D, factor):
    """log p(cX | c l) = log p(X | l) - n log c.

    mu_hat and R depend on (x - y) / l only; gamma is the length of a gradient, one power of 1 / c
    at each of the n points, whatever D.
    """
    X, ell = sample(50, D, seed=2), 0.8 * RATIOS[:D]
    value = log_marginal_likelihood(X, SquaredExponential(ell))
    scaled = log_marginal_likelihood(factor * X, SquaredExponential(factor * ell))
    assert scaled == pytest.approx(value - len(X) * np.log(factor), rel=1e-12)


@pytest.mark.parametrize("n", [50, LARGE])
def test_order_of_rows_does_not_matter(n):
    X = sample(n, 2, seed=3)
    kernel = SquaredExponential([0.7, 1.9])
    shuffled = X[np.random.default_rng(4).permutation(n)]
    value = log_marginal_likelihood(X, kernel)
    assert log_marginal_likelihood(shuffled, kernel) == pytest.approx(value, rel=1e-11)


def test_the_origin_does_not_matter_but_for_a_finite_measure():
    X, kernel = sample(50, 2, seed=3), SquaredExponential(0.9)
    shift = np.array([3.0, -2.0])
    for measure in ("unit", "lebesgue"):
        value = log_marginal_likelihood(X, kernel, measure=measure)
        moved = log_marginal_likelihood(X + shift, kernel, measure=measure)
        assert moved == pytest.approx(value, rel=1e-11)
    centered, shifted = Gaussian(1.5, 0.3), Gaussian(1.5, 0.3 + shift)
    value = log_marginal_likelihood(X, kernel, measure=centered)
    assert abs(log_marginal_likelihood(X + shift, kernel, measure=centered) - value) > 0.1
    moved = log_marginal_likelihood(X + shift, kernel, measure=shifted)
    assert moved == pytest.approx(value, rel=1e-11)


def test_a_wide_finite_measure_is_the_lebesgue_measure():
    X, kernel = sample(40, 2), SquaredExponential([0.6, 1.1])
    lebesgue = log_marginal_likelihood(X, kernel, measure="lebesgue")
    wide = log_marginal_likelihood(X, kernel, measure=Gaussian(1e5, 0.0))
    assert wide == pytest.approx(lebesgue, rel=1e-7)
    assert abs(log_marginal_likelihood(X, kernel, measure=Gaussian(3.0, 0.0)) - lebesgue) > 0.1


@pytest.mark.one_in(4)
@pytest.mark.parametrize("ell", [0.3, 0.5, 1.0, 3.0])
def test_it_grows_by_thousands_as_the_noise_vanishes(twin, ell):
    """Design, reference facts: mu_hat is smooth, so small noise is favored at any lengthscale."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=150) + rng.choice([-3.0, 0.0, 3.0], size=150)
    noises = [1e-1, 1e-3, 1e-6, 1e-10]
    values = [
        log_marginal_likelihood(X, SquaredExponential(ell), noise_variance=noise)
        for noise in noises
    ]
    assert np.all(np.diff(values) > 50.0)
    assert values[-1] - values[0] > 1000.0
    gaussian, log_gamma = twin(X, ell, noises[-1])
    assert values[-1] == pytest.approx(gaussian + log_gamma.sum(), rel=1e-5)


# Derivatives


def naive(X, k, r, noise_variance):
    """BKE (13) from the definition, by functions of one difference (D,); no log space."""
    n, D = X.shape
    delta = X[:, None] - X[None]
    off = ~jnp.eye(n, dtype=bool)
    safe = jnp.where(off[..., None], delta, 1.0)  # sqrt has no derivative at 0

    def of_pairs(function):
        return jax.vmap(jax.vmap(function))(safe)

    mu_hat = jnp.mean(jnp.where(off, of_pairs(k), 1.0), axis=1)
    gradient = jnp.mean(jnp.where(off[..., None], of_pairs(jax.grad(k)), 0.0), axis=1)
    R = jnp.where(off, of_pairs(r), r(jnp.full(D, 1e-12)))
    L = jnp.linalg.cholesky(R + noise_variance * jnp.eye(n))
    white = jax.scipy.linalg.solve_triangular(L, mu_hat, lower=True)
    log_normal = -0.5 * (white @ white + n * jnp.log(2 * jnp.pi)) - jnp.sum(jnp.log(jnp.diag(L)))
    return log_normal + 0.5 * jnp.sum(jnp.log(jnp.sum(gradient**2, axis=1)))


def naive_se(X, ell, noise_variance, measure):
    ell = jnp.broadcast_to(ell, (X.shape[1],))
    constant = jnp.sqrt(jnp.pi) ** X.shape[1] * jnp.prod(ell) if measure == "lebesgue" else 1.0
    return naive(
        X,
        lambda delta: jnp.exp(-0.5 * jnp.sum((delta / ell) ** 2)),
        lambda delta: constant * jnp.exp(-0.25 * jnp.sum((delta / ell) ** 2)),
        noise_variance,
    )


def naive_matern(X, ell, noise_variance, measure):
    """Matern 3/2 in one dimension; the smoothed kernel is Matern 7/2 in the same t."""

    def t(delta):
        return jnp.sqrt(3.0) * jnp.abs(delta[0]) / ell

    return naive(
        X,
        lambda delta: (1 + t(delta)) * jnp.exp(-t(delta)),
        lambda delta: (
            (1 + t(delta) + 0.4 * t(delta) ** 2 + t(delta) ** 3 / 15) * jnp.exp(-t(delta))
        ),
        noise_variance,
    )


def untied(n, D, seed):
    return np.random.default_rng(seed).gamma(2.0, size=(n, D))


def finite_differences(function, at, step=1e-5):
    """Central differences of ``function`` (any shape out) along every entry of ``at``."""
    at = np.asarray(at, dtype=float)
    derivatives = []
    for index in np.ndindex(at.shape):
        h = np.zeros_like(at)
        h[index] = step * max(1.0, abs(at[index]))
        rise = np.asarray(function(at + h)) - np.asarray(function(at - h))
        derivatives.append(rise / (2 * h[index]))
    return np.stack(derivatives, axis=-1).reshape(*np.shape(derivatives[0]), *at.shape)


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("n", "D", "make", "ell", "measure"),
    [
        (LARGE, 1, SquaredExponential, 0.7, "lebesgue"),  # low rank
        (45, 3, SquaredExponential, [0.7, 1.6, 0.4], "unit"),
        (45, 2, SquaredExponential, [0.7, 1.6], "lebesgue"),
        (LARGE, 3, SquaredExponential, 0.2, "unit"),  # full rank, by the dense route
        (45, 1, functools.partial(Matern, 1.5), 0.8, "unit"),
    ],
)
def test_value_and_gradients_agree_with_automatic_differentiation(x64, n, D, make, ell, measure):
    X, ell = jnp.asarray(untied(n, D, seed=6)), jnp.asarray(ell)
    plain = naive_se if make is SquaredExponential else naive_matern

    def ours(X, ell, noise_variance):
        return log_marginal_likelihood(X, make(ell), noise_variance=noise_variance, measure=measure)

    value, gradients = jax.jit(jax.value_and_grad(ours, argnums=(0, 1, 2)))(X, ell, 0.1)
    expected, expected_gradients = jax.jit(
        jax.value_and_grad(functools.partial(plain, measure=measure), argnums=(0, 1, 2))
    )(X, ell, 0.1)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    for gradient, wanted in zip(gradients, expected_gradients, strict=True):
        assert gradient.shape == jnp.shape(wanted)
        np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-7 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("X", "model", "at"),
    [
        (untied(30, 2, 7), lambda t: (SquaredExponential(t[:2]), t[2], "unit"), [0.6, 1.7, 0.2]),
        (
            untied(30, 2, 8),
            lambda t: (SquaredExponential(0.8), 0.1, Gaussian(t[0], t[1:])),
            [1.4, 0.3, -0.5],
        ),
        # The naive form underflows here; the closed form must not.
        (
            with_outlier(30, 2),
            lambda t: (SquaredExponential(jnp.exp(t)), 0.1, "unit"),
            np.log([700.0, 0.9]),
        ),
        pytest.param(
            untied(25, 2, 10),
            lambda t: (
                SquaredExponential(t[:2]) + t[3] * SquaredExponential(t[2]),
                0.1,
                MEASURES["gaussian"],
            ),
            [0.6, 1.7, 3.0, 0.5],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["kernel and noise", "measure", "outlier and ties", "sum"],
)
def test_gradients_agree_with_finite_differences(x64, X, model, at):
    @jax.jit
    def ours(theta):
        kernel, noise_variance, measure = model(theta)
        return log_marginal_likelihood(X, kernel, noise_variance=noise_variance, measure=measure)

    gradient = jax.jit(jax.grad(ours))(jnp.asarray(at))
    np.testing.assert_allclose(gradient, finite_differences(ours, at, 3e-6), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.jacfwd(ours))(jnp.asarray(at)), gradient, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "D", "likelihood"),
    [(30, 2, "auto"), (LARGE, 1, "auto"), (LARGE, 1, "dense"), (LARGE, 1, "spectral")],
)
def test_second_derivatives_and_batches(x64, n, D, likelihood):
    """From 256 rows on, a batch is computed one entry after another."""
    X = untied(n, D, seed=11)

    def ours(theta):
        kernel = SquaredExponential(jnp.exp(theta[:D]))
        return log_marginal_likelihood(
            X, kernel, noise_variance=jnp.exp(theta[D]), likelihood=likelihood
        )

    slope, at = jax.jit(jax.grad(ours)), np.array([*[0.3, 0.7][:D], -2.0])
    hessian = np.asarray(jax.jit(jax.hessian(ours))(jnp.asarray(at)))
    expected = finite_differences(slope, at)
    size = np.abs(expected).max()
    np.testing.assert_allclose(hessian, expected, rtol=1e-5, atol=1e-6 * size)
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-8, atol=1e-9 * size)
    batch = jnp.stack([at, at - 1.0, at - 0.2])
    expected = [slope(point) for point in batch]
    np.testing.assert_allclose(jax.jit(jax.vmap(slope))(batch), expected, rtol=1e-9, atol=1e-9)


# JAX


@pytest.mark.parametrize("n", [30, pytest.param(LARGE, marks=pytest.mark.slow)])
def test_vmap_agrees_with_single_calls(x64, n):
    """For the larger sample the rank is full at the first lengthscale, and low at the others."""
    X = untied(n, 1, seed=14)
    lengthscales = jnp.array([0.01, 0.4, 2.0])

    def ours(ell):
        return log_marginal_likelihood(X, SquaredExponential(ell))

    function = jax.value_and_grad(ours)
    values, gradients = jax.jit(jax.vmap(function))(lengthscales)
    expected = [jax.jit(function)(ell) for ell in lengthscales]
    np.testing.assert_allclose(values, [ours(ell) for ell in lengthscales], rtol=1e-12)
    np.testing.assert_allclose(gradients, [gradient for _, gradient in expected], rtol=1e-9)


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, lambda f: lambda x: jax.vmap(f)(x[None])])
def test_inside_a_single_precision_trace_it_refuses(transform):
    X = sample(20, 1)

    def ours(ell):
        return log_marginal_likelihood(X, SquaredExponential(ell))

    with jax.enable_x64(False), pytest.raises(RuntimeError, match="jax_enable_x64"):
        transform(ours)(jnp.asarray(0.7))


def test_lists_and_vectors_are_a_single_column():
    column = sample(12, 1)
    values = {
        float(log_marginal_likelihood(X, SquaredExponential(0.7)))
        for X in (column, column[:, 0], column[:, 0].tolist())
    }
    assert len(values) == 1


# Exact zeros


def test_balanced_neighbors_give_minus_infinity(x64):
    X, kernel = [1.0, 1.0, 2.0, 3.0, 3.0], SquaredExponential(0.7)
    np.testing.assert_array_equal(np.isneginf(log_jacobian(X, kernel)), [0, 0, 1, 0, 0])

    def ours(ell, X):
        return log_marginal_likelihood(X, SquaredExponential(ell))

    value, gradients = jax.value_and_grad(ours, argnums=(0, 1))(jnp.asarray(0.7), jnp.asarray(X))
    assert log_marginal_likelihood(X, kernel) == value == -np.inf
    assert all(np.all(np.isfinite(gradient)) for gradient in gradients)
    assert log_marginal_likelihood([2.0, 2.0, 2.0], kernel) == -np.inf


# Refusals


NOISES = [0.0, -0.1, np.nan, np.inf, np.float32(-1.0), jnp.asarray(0.0), jnp.asarray(-0.1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"noise_variance": noise}, "noise_variance") for noise in NOISES),
        *(
            ({"measure": measure}, "measure must be 'unit', 'lebesgue' or Gaussian")
            for measure in ("Unit", "gaussian", None, 1.0)
        ),
        *(
            ({"likelihood": likelihood}, r"likelihood must be one of .*auto.*dense")
            for likelihood in ("sparse", "Dense", None)
        ),
        ({"likelihood": "exact"}, r"'spectral', 'landmark', Nystrom.*got 'exact'"),
        ({"X": np.zeros((2, 2, 2))}, "shape"),
        ({"kernel": SquaredExponential([1.0, 2.0, 3.0])}, "lengthscale"),
    ],
)
def test_refusals(options, message):
    with jax.enable_x64(False):
        with pytest.raises(ValueError, match=message):
            log_marginal_likelihood(
                **{"X": sample(10, 2), "kernel": SquaredExponential(1.0), **options}
            )
        assert jax.config.jax_enable_x64 is False


@pytest.mark.parametrize("likelihood", ["auto", "dense", "spectral", Nystrom(5), Fourier(7)])
def test_a_recorded_likelihood_is_restored(likelihood):
    expected = as_likelihood(likelihood)
    assert restore_likelihood({"kernel": {}, **expected.record()}) == expected


def test_a_restored_landmark_model_has_the_landmarks_that_are_stored_elsewhere():
    record = Landmark([[1.0], [2.0]]).record()
    assert record == {"likelihood": "landmark"}
    restored = restore_likelihood({**record, "landmarks": [[1.0], [2.0]]})
    assert restored.points.tolist() == [[1.0], [2.0]]
