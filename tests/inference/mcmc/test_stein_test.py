"""The Stein test: by loops, at its level, and where a sampler leaves its density."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import InputError, score_of, stein_test
from bke.inference.core.machine import computing
from bke.inference.mcmc import stein_test as module
from bke.inference.mcmc.batches import Batches, is_autocorrelated
from bke.inference.mcmc.stein_test import SteinStatistics
from bke.models import (
    Laplace,
    Matern,
    RationalQuadratic,
    SquaredExponential,
    squared_stein_discrepancy,
    stein_matrix,
)
from scipy.stats import binom

QUIET = {"progress": False}
RNG = np.random.default_rng(0)
POINTS, SCORES = RNG.normal(size=(24, 3)), RNG.normal(size=(24, 3))
BATCHES = Batches(length=4, gap=0, per_chain=3, num_chains=2, autocorrelation_time=1.0)
KERNEL = RationalQuadratic(0.5, [0.7, 1.0, 2.0])


UNIT, OBSERVED = np.ones(3), np.ones((6, 1))


def statistics(*, scale=UNIT, signs=OBSERVED):
    return SteinStatistics(POINTS, SCORES, scale, BATCHES, signs)


def by_batch(matrix):
    return matrix.reshape(6, 4, 6, 4).sum(axis=(1, 3))


def test_sums_over_batches(monkeypatch):
    """Use blocks of complete batches, of which the last overlaps the previous block."""
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 24 * 10)
    matrix = np.asarray(stein_matrix(POINTS, SCORES, KERNEL))
    with computing():
        sums, means = statistics().kernel_sums(KERNEL)
        parts = statistics().column_sums(KERNEL)
        np.testing.assert_allclose(sums, by_batch(matrix), rtol=1e-9)
    expected = (matrix.sum(axis=1) - np.diagonal(matrix)) / 23
    np.testing.assert_allclose(means, expected, rtol=1e-9)
    np.testing.assert_allclose(parts.sum(axis=0), sums, rtol=1e-9)


def test_moments_are_those_of_steins_identity():
    unit = np.array([1.0, 2.0, 0.5])
    z, u = (POINTS - POINTS.mean(axis=0)) / unit, SCORES * unit
    features = np.array([np.outer(a, b) + np.eye(3) for a, b in zip(z, u, strict=True)])
    expected = np.einsum("iab,jab->ij", features, features)
    scaled = statistics(scale=unit)
    with computing():
        moments = scaled.moment_sums()
    np.testing.assert_allclose(moments, by_batch(expected), rtol=1e-9)
    columns = list(scaled.column_moments())
    np.testing.assert_allclose(
        sum(features @ features.T for features, _ in columns), moments, rtol=1e-9
    )
    z, u = scaled._standardized()
    variances = (1.0 + u * z).reshape(scaled.batches.count, scaled.batches.length, -1).sum(axis=1)
    np.testing.assert_allclose(
        np.hstack([features for _, features in columns]), variances, rtol=1e-9
    )


def test_statistics_leave_out_pairs_within_a_batch():
    signs = np.ones((6, 3))
    signs[[1, 4], 1] = -1.0
    signs[0, 2] = -1.0
    matrix = np.asarray(stein_matrix(POINTS, SCORES, KERNEL))
    compared = statistics(signs=signs)
    features = np.random.default_rng(2).normal(size=(6, 2))
    by_sums = compared.from_sums(features @ features.T)
    np.testing.assert_allclose(compared.from_features(features), by_sums, rtol=1e-9)
    from_moments = compared.from_sums(by_batch(matrix))
    rows = np.repeat(signs, 4, axis=0)
    pairs = [(i, j) for i, j in itertools.product(range(24), repeat=2) if i // 4 != j // 4]
    for column in range(3):
        products = [rows[i, column] * rows[j, column] * matrix[i, j] for i, j in pairs]
        assert from_moments[column] == pytest.approx(np.mean(products), rel=1e-9)


def student(seed, autoregression):
    X = np.random.default_rng(seed).standard_t(5, size=(40, 2))
    return X, -6.0 * X / (5.0 + X**2)


def chains(phi):
    def sample_chains(seed, autoregression):
        X = autoregression(4, 600, phi, seed=seed, columns=2)
        return X, -X

    return sample_chains


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sample", "seeds", "level"),
    [(student, 120, 0.05), (chains(0.5), 100, 0.07), (chains(0.8), 100, 0.07)],
)
def test_level(sample, seeds, level, autoregression):
    """40 rows of t distributions, 120 samples, or 100 sets of four autoregressions of 600 draws.

    False failure below 1 in 1000 at a level of 0.05 and of 0.07.
    """
    rejected = sum(
        stein_test(*sample(seed, autoregression), bootstraps=99, seed=seed, **QUIET).reject
        for seed in range(seeds)
    )
    assert rejected <= binom.isf(1e-3, seeds, level)


def langevin(step, seed=0, chains=4, draws=800):
    """Unadjusted in the second column, for a normal: of variance 1 / (1 - step / 4) there."""
    rng = np.random.default_rng(seed)
    x, path = rng.normal(size=(chains, 2)), []
    steps = np.array([0.0, step])
    for _ in range(draws):
        moved = x - 0.5 * steps * x + np.sqrt(steps) * rng.normal(size=x.shape)
        x = np.where(steps > 0.0, moved, rng.normal(size=x.shape))
        path.append(x)
    return np.stack(path, axis=1)


@pytest.mark.slow
def test_a_biased_sampler_is_detected_and_its_column_named():
    """Langevin's algorithm without its correction, in the second column alone (seed 0)."""
    right, wrong = langevin(0.05), langevin(1.2)
    assert not stein_test(right, -right, **QUIET).reject
    result = stein_test(wrong, -wrong, columns=("a", "b"), **QUIET)
    assert result.reject
    assert [column.name for column in result.columns if column.differs] == ["b"]
    assert "columns that do not fit, adjusted for all columns: b" in str(result)
    assert result.rows == "series"
    best = next(part for part in result.components if part.kernel is result.kernel)
    assert sum(column.part for column in result.columns) == pytest.approx(best.statistic, rel=1e-9)
    # Too wide: too many draws far out, too few in the middle.
    in_tails = np.abs(result.points[:, 1]) > 1.5
    assert result.witness[in_tails].mean() > 0.0 > result.witness[~in_tails].mean()


def test_the_mean_of_the_witness_is_the_discrepancy():
    X = RNG.normal(size=(60, 2)) * 1.5
    result = stein_test(X, -X, kernel=SquaredExponential(1.0), **QUIET)
    assert result.statistic == pytest.approx(result.witness.mean(), rel=1e-9)
    unit = X.std(axis=0)
    within = squared_stein_discrepancy(X / unit, -X * unit, SquaredExponential(1.0 / unit))
    assert result.statistic == pytest.approx(within, rel=1e-6)
    plain = stein_test(X, -X, kernel=SquaredExponential(1.0), standardize=None, **QUIET)
    expected = squared_stein_discrepancy(X, -X, SquaredExponential(1.0))
    assert plain.statistic == pytest.approx(expected, rel=1e-9)
    assert result.components == ()
    assert result.statistic_label == "squared kernel Stein discrepancy"


def test_functions_units_and_origins_do_not_matter():
    X, unit = RNG.normal(size=(80, 2)) * 1.2, np.array([1e-6, 1e4])
    score = jax.vmap(jax.grad(lambda x: -0.5 * jnp.sum(x**2)))
    result = stein_test(X, -X, **QUIET)
    assert stein_test(X, score, **QUIET).pvalue == result.pvalue
    assert stein_test(X * unit, -X / unit, **QUIET).pvalue == result.pvalue
    for origin in (1e4, 1e7):
        shifted = stein_test(X + origin, -X, **QUIET)
        assert shifted.pvalue == pytest.approx(result.pvalue, abs=0.01)
        np.testing.assert_allclose(shifted.kernel.lengthscale, result.kernel.lengthscale, rtol=1e-6)


def normal():
    numpyro.sample("x", dist.Normal(0.0, 2.0).expand([2]))


@pytest.mark.slow
def test_a_tree_and_a_model():
    draws = np.random.default_rng(3).normal(size=(3, 300, 2)) * [2.0, 3.0]
    tree = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"x": (("chain", "draw", "x_dim_0"), draws)})}
    )
    result = stein_test(tree, score_of(normal), **QUIET)
    assert result.names == ("x[0]", "x[1]")
    assert [column.name for column in result.columns if column.differs] == ["x[1]"]
    assert result.pvalue == stein_test(draws, -draws / 4.0, **QUIET).pvalue
    assert len(result.plot().axes) == 1


def test_notes(autoregression):
    chain = autoregression(1, 400, 0.95)
    result = stein_test(chain[0], -chain[0], **QUIET)
    assert "consecutive rows seem to be dependent" in result.notes[0]
    short = stein_test(chain, -chain, **QUIET)
    assert "the chains are short" in short.notes[0]
    assert "flips the signs of only" in short.notes[1]
    assert short.num_batches >= 16


def test_draws_of_a_constrained_model():
    def model():
        numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("tau", dist.HalfNormal(1.0))

    score = score_of(model)
    values = np.abs(np.random.default_rng(4).normal(size=(200, 2)))
    expected = "assumed to hold unconstrained values of tau"
    assert any(expected in note for note in stein_test(values, score, **QUIET).notes)
    sites = dict(zip(("mu", "tau"), values.T, strict=True))
    tree = xr.Dataset({name: (("chain", "draw"), site[None]) for name, site in sites.items()})
    assert "unconstrained values" not in str(stein_test(tree, score, **QUIET).notes)
    tree["tau"][0, 7] = -0.1
    with pytest.raises(InputError, match="tau is outside of its support in chain 0, draw 7"):
        stein_test(tree, score, **QUIET)


def test_the_least_fitting_column_comes_first():
    """Columns with the smallest p-value are ordered by their components."""
    X = RNG.normal(size=(300, 3)) * [1.6, 1.6, 3.0]
    result = stein_test(X, -X, columns=("a", "b", "c"), **QUIET)
    assert result.columns[result.least_fitting[0]].name == "c"
    assert "all columns: c (p ≤ 0.001), " in str(result)
    assert result.plot().axes[0].get_xlabel() == "c"
    assert "bke" not in result.method
    assert ": ≤ 0.001" in str(result)  # the p-value of a component


@pytest.mark.parametrize(
    ("shape", "rows", "expected"), [(0.05, 300, True), (0.5, 200, True), (3.0, 300, False)]
)
def test_skewed_scores_are_noted(shape, rows, expected):
    """The logarithm of a gamma variable y, whose score is shape - exp(y): its skewness is 8.9, 2.8
    and 1.2."""
    x = np.random.default_rng(0).gamma(shape, size=rows)
    result = stein_test(np.log(np.maximum(x, 1e-300)), shape - x, **QUIET)
    assert any("the scores of x are too skewed" in note for note in result.notes) == expected


def test_independent_rows_have_no_note():
    """Sixty samples of twenty columns: a false note in one of a thousand."""
    for seed in range(60):
        X = np.random.default_rng(seed).normal(size=(100, 20))
        assert not is_autocorrelated(np.concatenate([X, -X], axis=1))


def test_large_samples_are_thinned_evenly(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS", 500)
    X = langevin(0.2)
    result = stein_test(X, -X, **QUIET)
    assert len(result.points) <= 600
    assert "are compared with each other" in result.notes[-1]


@pytest.mark.parametrize(
    ("draws", "score", "options", "expected"),
    [
        (POINTS, SCORES[:, :2], {}, "score must be real numbers of shape"),
        (POINTS, lambda x: x[:3], {}, "score must be real numbers of shape"),
        (POINTS, SCORES, {"kernel": Laplace(1.0)}, "of the distance over its lengthscale"),
        (POINTS, SCORES, {"kernel": Matern(0.5, 1.0)}, "not smooth enough"),
        (POINTS, np.where(SCORES > 2.0, np.inf, SCORES), {}, "score is not finite, or beyond"),
        (POINTS, 1e70 * SCORES, {}, "score is not finite, or beyond 1e.60, in draw 0 of x0"),
        (POINTS, np.full(POINTS.shape, "a"), {}, "the score has 'a' in row 1"),
        (POINTS, lambda x: x.slope, {}, "such as score_of.model, data.: it raised AttributeError"),
        (POINTS, SCORES, {"kernel": "posterior"}, "a kernel or one of"),
        (POINTS, SCORES, {"bootstraps": 5}, "bootstraps cannot reject"),
        (POINTS, SCORES, {"columns": ["a"]}, "columns has 1 name,"),
        (np.ones((20, 2)), np.ones((20, 2)), {}, "all draws are equal"),
        (np.ones((2, 4, 3, 2)), SCORES, {}, "dimensions"),
        (POINTS[None, :5], SCORES[None, :5], {}, "at least one chain of 10 draws"),
        (xr.Dataset({"x": ("draw", np.ones(20))}), lambda x: x, {}, "no dimensions named chain"),
    ],
)
def test_invalid_arguments_are_refused(draws, score, options, expected):
    with pytest.raises(InputError, match=expected):
        stein_test(draws, score, **options, **QUIET)


def test_report_notes_that_weights_of_distant_modes_are_not_tested():
    """Half of the rows are in each mode, of which one has nine tenths of the mass."""
    rng = np.random.default_rng(0)
    x = rng.normal(np.repeat([-20.0, 20.0], 150))[:, None]
    logs = np.log([[0.9, 0.1]]) - 0.5 * (x - [[-20.0, 20.0]]) ** 2
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    result = stein_test(x, np.sum(weights * ([[-20.0, 20.0]] - x), axis=1, keepdims=True), **QUIET)
    assert not result.reject
    assert "cannot detect modes without draws, or wrong weights of distant modes" in str(result)
    wrong = stein_test(2.0 * x, -2.0 * x, **QUIET)
    assert wrong.reject
    assert "cannot detect" not in str(wrong)
