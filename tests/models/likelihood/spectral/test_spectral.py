"""All spectral likelihoods against n x n matrices: terms, points, gradients, limits, refusals."""

import dataclasses
import functools
from collections.abc import Callable
from functools import partial, partialmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import (
    Gaussian,
    GaussianMixture,
    Laplace,
    Matern,
    RationalQuadratic,
    SpectralMixture,
    SquaredExponential,
    log_jacobian,
    log_marginal_likelihood,
)
from bke.models.likelihood.dense import dense_terms
from bke.models.likelihood.spectral import (
    base as base_module,
    line as line_module,
    mixture as mixture_module,
    spectral_index,
)
from bke.models.likelihood.spectral.box import box_index
from bke.models.likelihood.spectral.mixture import mixture_index
from bke.models.likelihood.spectral.pairs import DistinctPoints, isolated_in_column

SE = SquaredExponential


def skewed(n, seed=0):
    return np.random.default_rng(seed).gamma(2.0, size=n)


def normal(columns, n=1000, seed=0):
    return np.random.default_rng(seed).normal(size=(n, columns))


def columns(n, gap=1e-12):
    """Samples of equal size, which use the same compiled programs."""
    return {
        "skewed": skewed(n),
        "outliers": np.concatenate([skewed(n - 5), [60.0, -40.0, -40.3, 21.0, 1e5]]),
        "heavy": np.random.default_rng(1).standard_cauchy(size=n),
        "ties": np.concatenate([np.repeat(skewed(n // 2 - 2), 2), [30.0, 30.0, 30.0, 31.0, 31.0]]),
        "close": np.concatenate([skewed(n - 4), [40.0, 40.0 + 1e-9, 80.0, 80.0 + gap]]),
    }


def skewed_plane(n=1000):
    """Heavy tails, a near pair and a tied one far off, and one row beyond all others."""
    X = np.random.default_rng(1).gamma(2.0, size=(1000, 2))
    X[:7] = [[40, 40], [40.3, 40], [-9, 7], [-9, 7], [21, 0], [13, -12], [3e3, 1]]
    return X[:n]


def clusters():
    """On a line but for rounding, in columns of unlike scale."""
    x = 0.3 * normal(1) + 8.0 * np.random.default_rng(2).integers(0, 3, size=(1000, 1))
    return x * [1.0, -0.02] + 1e-9 * normal(2, seed=3)


@dataclasses.dataclass(frozen=True)
class Family:
    """One kind of index, and where it is compared; ``at`` gives lengthscales."""

    index: Callable[[np.ndarray], Any]
    kernel: Callable[[Any], Any]
    at: Callable[[Any, np.ndarray], Any]
    data: dict[str, np.ndarray]
    #: Relative errors of both terms, of log gamma at a point and of slopes.
    errors: tuple[float, float, float]


def near_ends(ranges, shortest, longest):
    """Lengthscales near both ends of every range; beyond it for the one of the longest."""
    for i, item in enumerate(ranges):
        for ratio in shortest if i else longest:
            yield ratio * float(item.shortest)


def mixture_lengthscales(index, X):
    ratios = [(1.0, 2.0, 10.0), (1.0, 1.0, 50.0), (1.0, 3.0, 1e4)]
    ends = sorted(near_ends(index.ranges, (1.001, 2.3), (1.001, 2.3)))
    assert len(ends) == 4
    return [end * np.array(ratio) for end, ratio in zip(ends, [*ratios, ratios[0]], strict=True)]


def line_lengthscales(index, X):
    long = [ratio * float(index.long.shortest) for ratio in (1.001, 4.0, 30.0, 1e3, 1e6)]
    ranges = [shortest for shortest in np.asarray(index.short.shortest) if shortest > 0.0]
    assert len(ranges) >= 2
    return [*long, *(ratio * shortest for shortest in ranges for ratio in (1.001, 1.99))]


def band_lengthscales(index, X):
    """Down to where log gamma is -1e14 and no point has neighbors."""
    longest = float(index.banded)
    assert 0.0 < longest < index.long.shortest
    assert index.is_accurate(SE(1e-7 * longest), 0.1)
    return longest * np.array([1.0, 0.3, 1e-2, 1e-7])


def box_lengthscales(index, X):
    return near_ends(index.ranges, (1.001, 1.4), (1.001, 1.4, 30.0, 1e4))


def of_column(kernel):
    return lambda X: spectral_index(X[:, None], kernel)


LINE = columns(325)
MIXTURE = {**columns(705), "close": 1e4 + columns(705, 1e-10)["close"]}
MATERN = {**LINE, "clusters": np.concatenate([1e-3 * skewed(165), 1e4 + skewed(160)])}
BOX = {
    "skewed": skewed_plane(),
    "clusters": clusters(),
    "rounded": np.round(normal(2), 1) + np.array([1e4, 0.0]),
    "three": np.round(normal(3) @ [[1.0, 0.9, 0.0], [0.0, 0.2, 0.5], [0.0, 0.0, 1.0]], 2),
}
FAMILIES = {
    "line": Family(of_column(SE()), SE, line_lengthscales, LINE, (1e-8, 1e-6, 1e-6)),
    "bands": Family(of_column(SE()), SE, band_lengthscales, LINE, (1e-12, 1e-10, 1e-9)),
    "mixture": Family(
        lambda X: mixture_index(X[:, None]),
        lambda at: GaussianMixture(at, np.array([0.7, 1.3, 0.4])),
        mixture_lengthscales,
        MIXTURE,
        (1e-10, 1e-8, 1e-8),
    ),
    "box": Family(spectral_index, SE, box_lengthscales, BOX, (1e-8, 1e-6, 1e-6)),
    "two ranges": Family(
        partial(box_index, min_rows=100, max_ranges=2),
        SE,
        box_lengthscales,
        {"skewed": skewed_plane(240)},
        (1e-8, 1e-6, 1e-6),
    ),
    **{
        f"Matern {nu}": Family(
            of_column(Matern(0.5)),
            partial(Matern, nu),
            lambda index, X: np.ptp(X) * np.array([1e-5, 1e-3, 0.02, 0.3, 30.0, 1e3]),
            MATERN,
            (1e-11, 1e-10, 1e-8),
        )
        for nu in (0.5, 1.5, 2.5)
    },
}
QUICK = [("line", "skewed", False), *(("Matern 0.5", sample, True) for sample in MATERN)]
CASES = [
    *QUICK,
    *(
        pytest.param(name, sample, True, marks=pytest.mark.slow)
        for name, family in FAMILIES.items()
        for sample in family.data
        if (name, sample, True) not in QUICK
    ),
]


def both_terms(terms, with_gradients):
    """Compile ``terms`` of data, lengthscale and noise variance, and slopes in these two."""

    def stacked(at, data):
        value = jnp.stack(terms(data, *at))
        return value, value

    if with_gradients:
        return jax.jit(lambda data, *at: jax.jacfwd(stacked, has_aux=True)(at, data))
    return jax.jit(lambda data, *at: ((), stacked(at, data)[0]))


@functools.cache
def programs(name, with_gradients=True):
    """Compile terms and log gamma by the index and by matrices."""
    kernel = FAMILIES[name].kernel

    def log_gamma(index, at):
        if hasattr(index, "log_jacobian"):  # for several ranges
            return index.log_jacobian(kernel(at))
        return index.sums(kernel(at), 0.1).log_jacobian

    return (
        both_terms(
            lambda index, at, noise: index.likelihood_terms(kernel(at), noise, "unit"),
            with_gradients,
        ),
        both_terms(
            lambda X, at, noise: dense_terms(X, kernel(at), noise, "unit", low_rank=False),
            with_gradients,
        ),
        jax.jit(log_gamma),
        jax.jit(lambda X, at: log_jacobian(X, kernel(at))),
    )


@pytest.mark.parametrize(("name", "sample", "with_gradients"), CASES)
def test_terms_points_and_gradients_agree_with_the_matrices(
    name, sample, with_gradients, monkeypatch
):
    if name == "mixture":  # what is compiled takes only nodes: half the time
        monkeypatch.setattr(base_module, "MAX_DENSE", 0)
    family = FAMILIES[name]
    X = family.data[sample]
    index = jax.tree.map(jnp.asarray, family.index(X))
    spectral, dense, log_gamma, log_gamma_by_matrices = programs(name, with_gradients)
    of_terms, of_points, of_gradients = family.errors
    for at in family.at(index, X):
        gradients, value = spectral(index, at, 0.1)
        exact_gradients, exact = dense(index.rows.data, at, 0.1)
        assert np.all(np.isfinite(exact)), at
        np.testing.assert_allclose(value, exact, rtol=of_terms, atol=of_terms, err_msg=str(at))
        for gradient, exact_gradient, step in zip(
            gradients, exact_gradients, (at, 0.1), strict=False
        ):
            # A gradient near zero is the difference of terms as large as the value.
            scale = 0.01 * np.abs(exact).reshape(-1, *[1] * np.ndim(step)) / step
            error = np.abs(gradient - exact_gradient) / np.maximum(np.abs(exact_gradient), scale)
            assert np.all(error <= of_gradients), (at, error)
        expected = np.asarray(log_gamma_by_matrices(index.rows.data, at))
        result = np.asarray(log_gamma(index, at))[: len(expected)]
        zero = np.isneginf(expected)
        np.testing.assert_array_equal(zero, np.isneginf(result), err_msg=str(at))
        error = np.abs(result - expected)[~zero] / np.maximum(1.0, np.abs(expected[~zero]))
        assert np.max(error) <= of_points, at


@pytest.mark.parametrize(
    ("name", "at", "noise_variance", "measure"),
    [
        ("Matern 2.5", 3.0, 0.1, "lebesgue"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("line", 0.3, 0.1, "lebesgue"),
                ("line", 3.0, 0.1, "lebesgue"),
                ("box", 3.0, 1e-4, "unit"),
                ("box", 3.0, 0.3, "lebesgue"),
            ]
        ),
    ],
)
def test_other_measures_and_less_noise(name, at, noise_variance, measure):
    family = FAMILIES[name]
    index = jax.tree.map(jnp.asarray, family.index(family.data["skewed"]))
    kernel = family.kernel(at)
    assert index.is_accurate(kernel, noise_variance)
    result = jax.jit(lambda index: index.likelihood_terms(kernel, noise_variance, measure))(index)
    expected = dense_terms(index.rows.data, kernel, noise_variance, measure, low_rank=False)
    np.testing.assert_allclose(result, expected, rtol=1e-6 if name == "box" else 1e-9)


@pytest.mark.parametrize(
    ("name", "sample", "at"),
    [
        ("line", "outliers", lambda index: 4.0 * index.long.shortest),
        pytest.param(
            "mixture",
            "outliers",
            lambda index: index.shortest * np.array([1.0, 2.0, 10.0]),
            marks=pytest.mark.slow,
        ),
        pytest.param("box", "skewed", lambda index: index.shortest, marks=pytest.mark.slow),
    ],
)
def test_isolated_points_need_their_pairs(name, sample, at, monkeypatch):
    """Without them rounding error would stand for gamma."""
    for module in (line_module, mixture_module):
        none = partial(isolated_in_column, min_slope=0.0)
        monkeypatch.setattr(module, "isolated_in_column", none)
    none = partialmethod(DistinctPoints.isolated, min_slope=0.0)
    monkeypatch.setattr(DistinctPoints, "isolated", none)
    family = FAMILIES[name]
    index = jax.tree.map(jnp.asarray, family.index(family.data[sample]))
    _, _, log_gamma, by_matrices = programs(name)
    expected = by_matrices(index.rows.data, at(index))
    error = np.abs(log_gamma(index, at(index))[: len(expected)] - expected)
    assert np.any(error > 1e-2 * np.abs(expected))


PLANE = np.stack(np.meshgrid(np.arange(33.0), np.arange(33.0)), axis=-1).reshape(-1, 2)
BALANCED = np.repeat([1.0, 1.0, 2.0, 3.0, 3.0], 65)


@pytest.mark.parametrize(
    ("name", "X", "at"),
    [
        ("mixture", np.arange(705.0), np.array([30.0, 90.0, 90.0])),
        ("Matern 0.5", BALANCED, 0.4),
        pytest.param("Matern 1.5", BALANCED, 0.4, marks=pytest.mark.slow),
        pytest.param("Matern 2.5", BALANCED, 0.4, marks=pytest.mark.slow),
        pytest.param("line", np.arange(2001.0), 300.0, marks=pytest.mark.slow),
        pytest.param("box", PLANE, 9.0, marks=pytest.mark.slow),
    ],
)
def test_balanced_neighbors_have_density_zero(name, X, at):
    family = FAMILIES[name]
    _, _, log_gamma, by_matrices = programs(name)
    index = jax.tree.map(jnp.asarray, family.index(X))
    rows = np.asarray(index.rows.data)
    middle = np.all(rows.reshape(len(X), -1) == X.mean(axis=0), axis=1)
    assert np.any(middle)
    np.testing.assert_array_equal(np.isneginf(log_gamma(index, at)[: len(X)]), middle)
    if name != "box":  # one step off the balance all are positive again
        moved = np.append(X[:-1], X[-1] + 0.5)
        index = jax.tree.map(jnp.asarray, family.index(moved))
        expected = by_matrices(index.rows.data, at)
        assert np.all(np.isfinite(expected))
        result = np.sum(log_gamma(index, at)[: len(X)])
        assert result == pytest.approx(float(np.sum(expected)), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "at"),
    [
        (SE, [1e-4, 0.05, 0.7, 5.0]),  # bands, grid and waves
        (lambda at: SE(at) + 0.5 * SE(3.0), [1e-3, 0.1, 0.7]),  # matrices and nodes
        (partial(Matern, 1.5), [1e-4, 0.7, 5.0]),
    ],
)
def test_rows_in_any_order_and_transformations(make, at):
    X = skewed(325)

    def value(lengthscale, likelihood="spectral"):
        return log_marginal_likelihood(X[::-1], make(lengthscale), likelihood=likelihood)

    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(value)))(jnp.array(at))
    exact = jax.jit(jax.value_and_grad(partial(value, likelihood="dense")))
    for result, gradient, lengthscale in zip(values, gradients, at, strict=True):
        expected, expected_slope = exact(lengthscale)
        assert result == pytest.approx(float(expected), rel=1e-9)
        assert gradient == pytest.approx(float(expected_slope), rel=1e-6)
    assert gradients[1] == pytest.approx(float(jax.jit(jax.jacfwd(value))(at[1])), rel=1e-11)


EQUAL = np.append(skewed(265), np.full(60, 2.0))  # more points than a block has are equal


@pytest.mark.parametrize(
    ("X", "make", "at", "noise_variance", "measure", "errors"),
    [
        # The filter by itself is off in the eighth digit.
        (np.sort(skewed(325)), partial(Matern, 0.5), 50.0, 1e-9, "lebesgue", (1e-10, None)),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                (EQUAL, SE, lambda index: 0.5 * index.shortest, 0.1, "unit", (1e-12, 1e-9)),
                # By the grid 2521, where extended precision gives 1564.118.
                (np.random.default_rng(7).normal(size=300), SE, 0.05, 1e-12, "unit", (1e-4, None)),
                (
                    skewed_plane(),
                    SE,
                    lambda index: 0.9 * index.shortest,
                    0.1,
                    "unit",
                    (1e-12, 1e-9),
                ),
                (BOX["skewed"], SE, lambda index: index.shortest, 1e-8, "unit", (1e-12, None)),
            ]
        ),
    ],
)
def test_matrices_are_used_if_the_basis_is_not_accurate(
    X, make, at, noise_variance, measure, errors
):
    if callable(at):
        at = float(at(spectral_index(X.reshape(len(X), -1))))

    def value(at, likelihood):
        return log_marginal_likelihood(
            X, make(at), noise_variance=noise_variance, measure=measure, likelihood=likelihood
        )

    of_value, of_slope = errors
    assert value(at, "spectral") == pytest.approx(float(value(at, "dense")), rel=of_value)
    if of_slope is not None:
        slope, expected = (
            jax.jit(jax.grad(partial(value, likelihood=route)))(at)
            for route in ("spectral", "dense")
        )
        assert slope == pytest.approx(float(expected), rel=of_slope)


LARGE_SAMPLE = np.append(skewed(5940), np.full(60, 2.0))
NEARLY_EQUAL = np.append(skewed(5940), 2.0 + 1e-9 * skewed(60, seed=2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("X", "kernel", "options", "message"),
    [
        (LARGE_SAMPLE, SE(1e-6), {}, "too short for 6000 rows"),
        # Still shorter lengthscales may be accurate again.
        (NEARLY_EQUAL, SE(1e-6), {}, r"between .* and .* is too short"),
        (skewed(6000), SE(1e-6) + SE(1.0), {}, "too short for 6000 rows"),
        (normal(2, n=5100), SE(1e-3), {}, "too short for 5100 rows"),
        (skewed(5001), Matern(1.5), {"noise_variance": 1e-9}, "too small compared with"),
        # As by the matrices: R grows with the lengthscale under the Lebesgue measure.
        *(
            (skewed(300), SE(1e13), {"measure": "lebesgue", "likelihood": route}, "too small")
            for route in ("spectral", "dense")
        ),
    ],
)
def test_a_value_that_no_route_gives_is_an_error(X, kernel, options, message):
    with pytest.raises(ArithmeticError, match=message):
        log_marginal_likelihood(X, kernel, **options)
    if X is NEARLY_EQUAL:
        assert np.isfinite(log_marginal_likelihood(X, SE(1e-11)))


@pytest.mark.parametrize(
    ("X", "kernel", "options", "message"),
    [
        (np.ones((300, 4)) * skewed(300)[:, None], SE(), {}, "4 columns, and it takes up to 3"),
        (normal(2), SE([1.0, 2.0]), {}, "a lengthscale for each column"),
        (normal(2)[:999], SE(), {}, "999 rows are too few"),
        (normal(2), Matern(1.5), {}, "2 columns, and it takes one"),
        (normal(2), SE() + SE(2.0), {}, "in several columns"),
        (normal(2), 2.0 * SE(), {}, "in several columns"),
        (np.ones((1000, 2)), SE(), {}, "all rows are equal"),
        *((np.ones(300), kernel, {}, "all rows are equal") for kernel in (SE(), Laplace())),
        (skewed(300), RationalQuadratic(1.0), {}, "the kernel is RationalQuadratic"),
        (skewed(300), SpectralMixture(1.0, 0.3), {}, "SpectralMixture"),
        (skewed(300), 2.0 * Matern(1.5), {}, "the kernel is Scaled"),
        (skewed(300), SE(), {"measure": Gaussian(1.0)}, "Gaussian"),
        (skewed(300), Matern(1.5), {"measure": Gaussian(1.0)}, "no smoothed kernel"),
        *(
            (skewed(300), kernel, {"noise_variance": "clt"}, "sampling covariance")
            for kernel in (SE(), Matern(1.5))
        ),
        *(
            (skewed(249), kernel, {}, "249 rows are too few")
            for kernel in (SE(), SE() + SE(2.0), Matern(1.5))
        ),
        # Pairs of them would take memory that grows like n^2.
        (np.append(1e-10 * normal(1, n=1999), 1.0), SE(0.1), {}, "far nearer each other"),
    ],
)
def test_refusals_name_the_reason(X, kernel, options, message):
    with pytest.raises(ValueError, match=message):
        log_marginal_likelihood(X, kernel, likelihood="spectral", **options)


def test_traced_data_are_refused():
    with pytest.raises(ValueError, match="close over them"):
        jax.jit(lambda X: log_marginal_likelihood(X, SE(), likelihood="spectral"))(skewed(300))
