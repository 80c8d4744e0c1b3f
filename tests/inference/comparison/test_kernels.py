"""Any kernel as that of the difference: against dense Gaussian densities, and what is refused."""

from __future__ import annotations

import bke.models as models
import numpy as np
import pytest
from bke.inference import compare
from bke.inference.comparison.difference_posterior import (
    VARIANCES,
    difference_posterior,
    kernel_function,
)
from bke.inference.core.errors import InputError
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.label_bayes_factor import label_log_bayes_factors
from scipy.stats import multivariate_normal


def quickly(P, Q, **options):
    return compare(P, Q, n_resamples=99, progress=False, **options)


@pytest.mark.parametrize(
    ("kernel", "value"),
    [
        (models.Laplace(2.0), lambda x, y: np.exp(-0.5 * np.abs(x - y).sum())),
        (models.Matern(1.5), None),
        (models.Polynomial(2, 1.0), lambda x, y: (x @ y + 1.0) ** 2),
    ],
)
def test_the_bayes_factor_is_a_ratio_of_normal_densities(kernel, value):
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=(40, 2)), 1.5 * rng.normal(size=(25, 2)) + 0.3
    rows = pool_rows(TwoSamples.checked(P, Q), 0, rng)
    posterior = difference_posterior(rows, kernel_function(kernel, 2))
    index, length = 9, posterior.lengthscales[9]
    x = np.concatenate([P, Q]) / rows.scale / length
    if value is None:
        t = np.sqrt(3.0) * np.sqrt(((x[:, None] - x) ** 2).sum(axis=2))  # nu = 3/2
        gram = (1.0 + t) * np.exp(-t)
    else:
        gram = np.array([[value(a, b) for b in x] for a in x])
    center = np.eye(65) - 1.0 / 65.0
    fraction = 40.0 / 65.0
    y = np.where(np.arange(65) < 40, 1.0 - fraction, -fraction) / np.sqrt(
        fraction * (1.0 - fraction)
    )
    log_bayes_factors = label_log_bayes_factors(posterior.decompositions[index], VARIANCES)[:, 0]
    for variance, log_bayes_factor in zip(VARIANCES, log_bayes_factors, strict=True):
        alternative = multivariate_normal(
            np.zeros(65), np.eye(65) + variance * center @ gram @ center
        )
        null = multivariate_normal(np.zeros(65), np.eye(65))
        assert log_bayes_factor == pytest.approx(alternative.logpdf(y) - null.logpdf(y), abs=1e-6)


def test_the_default_is_the_squared_exponential():
    rng = np.random.default_rng(4)
    P, Q = rng.normal(size=300), rng.normal(size=200) + 0.3
    first, second = (quickly(P, Q, kernel=k) for k in (None, models.SquaredExponential))
    assert second.log_bayes_factor == pytest.approx(first.log_bayes_factor, abs=1e-6)
    assert second.auc == pytest.approx(first.auc, abs=1e-9)
    at = [-1.0, 0.5]
    np.testing.assert_allclose(
        second.density_ratio(at).mean, first.density_ratio(at).mean, rtol=1e-6
    )


@pytest.mark.slow
def test_lengthscales_of_columns_select_differences():
    rng = np.random.default_rng(5)
    P, Q = rng.normal(size=(2, 300, 3))
    Q[:, 0] *= 1.5
    in_first, in_second = (
        quickly(P, Q, kernel=models.SquaredExponential(lengths))
        for lengths in ((1.0, 9.0, 9.0), (9.0, 1.0, 9.0))
    )
    assert in_first.log_bayes_factor > in_second.log_bayes_factor + 5.0
    assert in_first.pvalue == in_second.pvalue


@pytest.mark.parametrize("labels", ["gaussian", "logit"])
@pytest.mark.one_in(2)
def test_every_part_of_the_answer_serves_another_kernel(labels):
    rng = np.random.default_rng(6)
    P, Q = rng.normal(size=(150, 1)), rng.normal(size=(150, 1)) + 0.6
    result = quickly(P, Q, kernel=models.Laplace, labels=labels)
    assert result.log_bayes_factor > 3.0
    assert result.prob_mmd2_exceeds(1e-4) > 0.9
    assert result.density_ratio([2.0]).mean[0] < 1.0 < result.density_ratio([-1.5]).mean[0]
    assert result.witness([2.0]).mean[0] < 0.0 < result.witness([-1.5]).mean[0]


@pytest.mark.parametrize("kernel", ["rbf", 3, max, models.SquaredExponential((1.0, 2.0))])
def test_kernels_that_do_not_fit_the_columns_are_refused(kernel):
    with pytest.raises(InputError, match=r"kernel must be|one entry per column"):
        quickly(np.zeros((20, 3)) + np.arange(20)[:, None], np.ones((5, 3)), kernel=kernel)
