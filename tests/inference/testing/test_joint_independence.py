"""Tests of joint independence and of interactions: closed forms, exact levels, power, bad input."""

import itertools

import numpy as np
import pytest
from bke.inference import InputError, independence_test, lancaster_test
from bke.inference.testing import joint_independence
from bke.inference.testing.joint_independence import (
    EmbeddedVariable,
    permuted_dhsic,
    permuted_interaction,
)
from bke.models import SquaredExponential
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 60))
#: Independent of X and of Y, but not of both.
Z = np.sign(X * Y) * np.abs(RNG.normal(size=60))
QUIET = {"progress": False}
KERNELS = (SquaredExponential(0.7), SquaredExponential(0.5), SquaredExponential(1.1))


def gram_of(kernel, values):
    squares = cdist(values[:, None], values[:, None], "sqeuclidean")
    return np.exp(-0.5 * squares / kernel.lengthscale**2)


def dhsic_by_definition(grams):
    """Definition 4 of Pfister et al. (2018), one term at a time."""
    n = len(grams[0])
    joint = sum(np.prod([K[i, j] for K in grams]) for i, j in itertools.product(range(n), repeat=2))
    across = sum(np.prod([K[i].sum() for K in grams]) for i in range(n))
    margins = np.prod([K.sum() for K in grams])
    d = len(grams)
    return joint / n**2 + margins / n ** (2 * d) - 2.0 * across / n ** (d + 1)


def test_the_statistic_is_dhsic():
    result = independence_test(X, Y, Z, kernel=KERNELS, standardize=None, n_resamples=99, **QUIET)
    grams = [gram_of(kernel, values) for kernel, values in zip(KERNELS, (X, Y, Z), strict=True)]
    assert result.statistic == pytest.approx(dhsic_by_definition(grams), rel=1e-9)
    assert result.kernel == KERNELS


@pytest.mark.parametrize("by_features", [False, True])
def test_permuted_statistics_are_those_of_permuted_data(by_features, monkeypatch):
    monkeypatch.setattr(joint_independence, "MAX_GRAM_ROWS", 20 if by_features else 500)
    monkeypatch.setattr(joint_independence, "MAX_PRODUCTS", 40**3)
    values = [X[:40], Y[:40], Z[:40]]
    orders = [np.vstack([np.arange(40), RNG.permutation(40)]) for _ in range(2)]
    permuted = [values[0], values[1][orders[0][1]], values[2][orders[1][1]]]
    for centered in (False, True):
        variables = [
            EmbeddedVariable.of_kernels([kernel], part[:, None], 3, centered=centered)
            for kernel, part in zip(KERNELS, values, strict=True)
        ]
        assert (variables[0].grams is None) == by_features
        if centered:
            grams = [
                gram_of(k, part)
                for k, part in zip(KERNELS, [*values[:2], permuted[2]], strict=True)
            ]
            K, L, M = (G - G.mean(0) - G.mean(1)[:, None] + G.mean() for G in grams)
            statistics, expected = permuted_interaction(*variables, orders[1]), np.mean(K * L * M)
        else:
            grams = [gram_of(k, part) for k, part in zip(KERNELS, permuted, strict=True)]
            statistics, expected = permuted_dhsic(variables, orders), dhsic_by_definition(grams)
        assert statistics[0, 1] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("test", [independence_test, lancaster_test])
def test_the_order_of_rows_and_variables_does_not_matter(test):
    options = {"kernel": "median", "n_resamples": 199, **QUIET}
    rng = np.random.default_rng(1)
    first, second, noise = rng.normal(size=(3, 60))
    third = 0.2 * first * second + noise
    order = rng.permutation(60)
    expected = test(first, second, third, **options).pvalue
    assert 0.005 < expected < 1.0
    for variables in itertools.permutations((first[order], second[order], 7.0 * third[order])):
        assert test(*variables, **options).pvalue == pytest.approx(expected, abs=1e-12)


def test_dependence_of_three_variables_whose_pairs_are_independent():
    joint = independence_test(X, Y, Z, kernel="median", **QUIET)
    assert joint.reject
    assert "the 3 variables are not jointly independent" in str(joint)
    interaction = lancaster_test(X, Y, Z, **QUIET)
    assert interaction.reject
    assert [part.name for part in interaction.components] == [
        f"interaction of all three, {permuted} permuted against ({others})"
        for permuted, others in (("X", "Y, Z"), ("Y", "X, Z"), ("Z", "X, Y"))
    ]
    assert interaction.pvalue == max(part.pvalue for part in interaction.components)


def test_a_dependent_pair_is_no_interaction():
    """X and Y are equal, Z is independent: two of three factorizations are rejected."""
    rng = np.random.default_rng(3)
    first, third = rng.normal(size=(2, 80))
    assert independence_test(first, first, third, kernel="median", **QUIET).pvalue == 0.001
    result = lancaster_test(first, first, third, kernel="median", **QUIET)
    assert result.pvalue > 0.05
    assert result.components[2].pvalue == result.pvalue


def test_four_variables_and_several_columns():
    rng = np.random.default_rng(4)
    variables = [rng.normal(size=(50, 2)) for _ in range(3)]
    result = independence_test(*variables, variables[0][:, 0] + variables[2][:, 1], **QUIET)
    assert result.reject
    assert len(result.components) == 16


@pytest.mark.slow
@pytest.mark.parametrize("rows", [12, 60])
def test_the_level(rows, monkeypatch):
    """150 sets, seed 5, 39 permutations, level 0.1: at most 31 rejected but 1 in 10 000.

    Sixty rows by features. Of the interaction test X and Y are dependent, so that one of the three
    hypotheses is true.
    """
    monkeypatch.setattr(joint_independence, "MAX_GRAM_ROWS", 40)
    rng = np.random.default_rng(5)
    options = {"kernel": "median", "n_resamples": 39, "alpha": 0.1, **QUIET}
    pvalues = []
    for seed in range(150):
        first, second, third = rng.gamma(2.0, size=(3, rows))
        pvalues.append(
            (
                independence_test(first, second, third, seed=seed, **options).pvalue,
                lancaster_test(first, first + second, third, seed=seed, **options).pvalue,
            )
        )
    assert np.all(np.sum(np.array(pvalues) <= 0.1, axis=0) <= 31)
    assert np.all(np.mean(pvalues, axis=0) > 0.4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"others": (Z[:20],)}, "X has 60 rows but variable 3 has 20"),
        ({"method": "gamma"}, "method must be"),
        ({"estimator": "unbiased"}, "estimator must be"),
        ({"kernel": ("median", "median")}, "one for all variables or a tuple of 3"),
    ],
)
def test_bad_input(arguments, message):
    others = arguments.pop("others", (Z,))
    with pytest.raises(InputError, match=message):
        independence_test(X, Y, *others, **QUIET, **arguments)


def test_bad_input_of_the_interaction():
    with pytest.raises(InputError, match="X has 60 rows but Z has 20"):
        lancaster_test(X, Y, Z[:20], **QUIET)
    with pytest.raises(InputError, match="one for all variables or a tuple of 3, got"):
        lancaster_test(X, Y, Z, kernel=("median", "median"), **QUIET)
