"""Low-rank factors of Gram matrices: accuracy, and the same test results as with the matrix."""

import numpy as np
import pytest
from bke.inference import InputError, two_sample_test
from bke.inference.core.machine import computing
from bke.inference.testing import kernels, two_sample
from bke.inference.testing.kernels import gram
from bke.inference.testing.mmd import permuted_mmd
from bke.models import Matern, SquaredExponential

RNG = np.random.default_rng(0)
# Of different sizes, with outliers and ties, the second sample a little wider.
P, Q = RNG.normal(size=(1200, 1)), 1.1 * RNG.normal(size=(900, 1))
P[:4] = [[40.0], [41.0], [-300.0], [0.5]]
Q[:3] = 0.5
POOLED = np.concatenate([P, Q])
KERNEL = SquaredExponential(0.3)


def factorize(kernel, points):
    with computing():
        return kernels.factorize(kernel, points)


@pytest.mark.parametrize("estimator", ["unbiased", "biased", "paired"])
def test_the_statistics_are_those_of_the_matrix(estimator, permute_labels, swap_labels):
    rng = np.random.default_rng(1)
    points = POOLED if estimator != "paired" else np.concatenate([P[:1050], P[:1050] + Q[0]])
    labels = (
        swap_labels(1050, 30, rng)
        if estimator == "paired"
        else permute_labels((len(P), len(Q)), 30, rng)
    )
    with computing():
        expected = permuted_mmd(gram(KERNEL, points), labels, estimator=estimator)
        row = permuted_mmd(kernels.factorize(KERNEL, points), labels, estimator=estimator)
    np.testing.assert_allclose(row, expected, rtol=0, atol=1e-9 * np.ptp(expected))


def test_kernels_without_a_small_rank_are_not_factorized():
    assert factorize(KERNEL, POOLED[:1900]) is None  # small sample
    assert factorize(Matern(0.5, 0.01), POOLED) is None  # no small rank


def test_samples_too_large_for_matrices(monkeypatch):
    def refuse(*arguments, **options):
        raise InputError("no room")

    monkeypatch.setattr(two_sample, "check_memory", refuse)
    options = {"n_resamples": 99, "progress": False}
    assert two_sample_test(P, Q, kernel=KERNEL, **options).pvalue <= 0.05
    with pytest.raises(InputError, match="no room"):
        two_sample_test(P, Q, kernel=Matern(0.5, 0.01), **options)
