"""Statistics of permuted labels and pairings, and approximations of their null distributions."""

import numpy as np
import pytest
from bke.inference.testing.independence import (
    CenteredGram,
    cholesky_factor,
    permuted_hsic,
    permuted_indices,
)
from bke.inference.testing.mmd import permuted_mmd
from bke.inference.testing.nulls import (
    hsic_gamma,
    hsic_spectrum,
    mmd_core,
    shift_null,
    wild_bootstrap,
)
from bke.models import Laplace, SquaredExponential, hsic, squared_mmd

RNG = np.random.default_rng(0)
Z = RNG.gamma(2.0, size=(13, 2))
KERNEL = SquaredExponential(0.9)


@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_columns_are_the_mmd_of_their_labels(estimator, permute_labels):
    labels = permute_labels((8, 5), 30, np.random.default_rng(1))
    row = permuted_mmd(np.asarray(KERNEL(Z)), labels, estimator=estimator)
    assert labels[:, 0].tolist() == [True] * 8 + [False] * 5
    for column, value in zip(labels.T, row, strict=True):
        expected = squared_mmd(Z[column], Z[~column], KERNEL, estimator=estimator)
        assert value == pytest.approx(float(expected), rel=1e-10)


def test_columns_are_the_paired_mmd_of_their_swaps(swap_labels):
    labels = swap_labels(6, 30, np.random.default_rng(1))
    row = permuted_mmd(np.asarray(KERNEL(Z[:12])), labels, estimator="paired")
    assert labels[:6, 0].all()
    assert not labels[6:, 0].any()
    for column, value in zip(labels.T, row, strict=True):
        first = np.where(column[:6, None], Z[:6], Z[6:12])
        second = np.where(column[:6, None], Z[6:12], Z[:6])
        expected = squared_mmd(first, second, KERNEL, estimator="paired")
        assert value == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("lengthscale", [0.05, 3.0], ids=["dense", "low rank"])
@pytest.mark.parametrize("estimator", ["biased", "unbiased"])
def test_pairings_have_the_hsic_of_their_pairs(estimator, lengthscale):
    X, Y = RNG.normal(size=40), RNG.gamma(2.0, size=40)
    kernels = SquaredExponential(lengthscale), Laplace(lengthscale)
    if lengthscale == 3.0:
        kernels = SquaredExponential(lengthscale), SquaredExponential(2.0)
    K, L = np.asarray(kernels[0](X)), np.asarray(kernels[1](Y))
    ranks = cholesky_factor(K).shape[1] * cholesky_factor(L).shape[1]
    assert (ranks < 8 * 40) == (lengthscale == 3.0)
    rows = permuted_indices(40, 20, np.random.default_rng(1))
    statistics = permuted_hsic(CenteredGram.of(K), CenteredGram.of(L), rows, estimator=estimator)
    for pairing, value in zip(rows, statistics, strict=True):
        expected = float(hsic(X, Y[pairing], *kernels, estimator=estimator))
        assert value == pytest.approx(expected, abs=1e-10 * K.mean())


# The approximations, against permutations of large samples: moments and tails within a few percent.


def test_gamma_and_spectrum_of_hsic():
    rng = np.random.default_rng(3)
    K = np.asarray(SquaredExponential(0.7)(rng.normal(size=200)))
    L = 2.0 * np.asarray(SquaredExponential(1.5)(rng.gamma(2.0, size=200)))  # l(y, y) is not 1
    rows = permuted_indices(200, 4000, np.random.default_rng(4))
    biased = permuted_hsic(CenteredGram.of(K), CenteredGram.of(L), rows, estimator="biased")[1:]
    for null in (
        hsic_gamma(K, L).rvs(4000, random_state=5),
        hsic_spectrum(K, L, 4000, np.random.default_rng(5)),
    ):
        assert null.mean() == pytest.approx(biased.mean(), rel=0.05)
        assert np.quantile(null, 0.95) == pytest.approx(np.quantile(biased, 0.95), rel=0.1)


def test_wild_bootstrap_of_independent_rows_agrees_with_permutations(permute_labels):
    """Length 0.05: nearly independent multipliers; 2000 draws; deviation to 15 %, mean to 10 %."""
    points = np.random.default_rng(3).normal(size=(400, 1))
    gram = np.asarray(SquaredExponential(0.7)(points))
    core = mmd_core(gram)
    observed = squared_mmd(points[:200], points[200:], SquaredExponential(0.7), estimator="biased")
    assert core.mean() == pytest.approx(float(observed), rel=1e-9)
    draws = wild_bootstrap(core, 2000, np.random.default_rng(5), length=0.05)
    labels = permute_labels((200, 200), 2000, np.random.default_rng(4))
    expected = permuted_mmd(gram, labels, estimator="biased")[1:]
    assert draws.mean() == pytest.approx(expected.mean(), rel=0.1)
    assert draws.std() == pytest.approx(expected.std(), rel=0.15)


def test_null_distribution_of_shifts():
    X, Y = RNG.normal(size=20), RNG.normal(size=20)
    K, L = (np.asarray(SquaredExponential(1.0)(x)) for x in (X, Y))
    row = shift_null(K, L, 3)
    assert len(row) == 1 + 15
    for shift, value in zip([0, *range(3, 18)], row, strict=True):
        expected = hsic(X, np.roll(Y, shift), *[SquaredExponential(1.0)] * 2, estimator="biased")
        assert value == pytest.approx(float(expected), abs=1e-12)
