"""Draws of a witness: a sample whose rows are all equal, as of a rare event, has errors too."""

import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import credible_band, sample_test_witness, two_sample_test
from bke.inference.core.machine import computing
from bke.inference.witness.draws import distinct_rows, pseudo_observation_covariance
from bke.models import SquaredExponential
from scipy.stats import norm

NO_EVENTS, RARE_EVENTS = np.zeros((30, 1)), (np.arange(300) < 9).astype(float)[:, None]
UNIT = 1.0 - np.exp(-0.5)


@pytest.mark.slow
def test_bands_of_embeddings_include_the_errors_of_extra_rows():
    """All rows of one sample are 0: at 0 its variance is that of the nugget.

    4000 draws: within 6 %, five standard errors.
    """
    test = two_sample_test(
        NO_EVENTS, RARE_EVENTS, kernel=SquaredExponential(1.0), n_resamples=19, progress=False
    )
    drawn = sample_test_witness(test, NO_EVENTS, RARE_EVENTS, at=np.zeros(1), draws=4000)
    proportion = 0.03
    more = [2 * (0.5 - p + p * p) / n**2 for p, n in ((0.0, 30), (proportion, 300))]
    expected = UNIT * np.sqrt(proportion * (1 - proportion) / 300 + sum(more))
    band = credible_band(drawn, 0.8)
    width = float((band.upper - band.lower)[0]) / (2 * norm.isf(0.1))
    assert width == pytest.approx(expected, rel=0.06)
    by_variance = sample_test_witness(
        test, NO_EVENTS, RARE_EVENTS, at=np.zeros(1), noise=1e-8, draws=4000
    )
    assert float(by_variance["witness"].std()) < 0.01 * expected


def test_distinct_rows_of_large_samples_are_a_subset():
    rows = np.random.default_rng(0).normal(size=(3000, 2))
    rows_used = distinct_rows((rows, rows[:5]))
    assert len(rows_used) == 1000
    assert set(map(tuple, rows_used)) <= set(map(tuple, rows))
    assert distinct_rows((NO_EVENTS, RARE_EVENTS)).tolist() == [[0.0], [1.0]]


def test_extra_row_covariance_are_a_mean_of_outer_products():
    rng = np.random.default_rng(1)
    different, at, mean = rng.normal(size=(7, 2)), rng.normal(size=(3, 2)), rng.normal(size=3)
    kernel = SquaredExponential(0.8)
    with computing():
        covariance = pseudo_observation_covariance(
            kernel, jnp.asarray(different), jnp.asarray(at), mean, 11
        )
    expected = np.zeros((3, 3))
    for row in different:
        centered = np.exp(-0.5 * np.sum((at - row) ** 2, axis=1) / 0.8**2) - mean
        expected += 2.0 / 7 * np.outer(centered, centered) / 11**2
    np.testing.assert_allclose(covariance, expected, rtol=1e-12)
