"""What conditional embeddings say at points, and where they say nothing."""

import numpy as np
import pytest
from bke.inference.filtering import LEAST_SUM, moments, trusted, unusual
from bke.models import SquaredExponential, conditional_embedding


def test_weights_that_say_too_little_are_blank():
    weights = np.array([[0.75, 0.5], [0.02, 0.03], [2.0, -1.5]])
    scaled, total = trusted(weights)
    np.testing.assert_allclose(total, [1.25, 0.05, 0.5])
    np.testing.assert_allclose(scaled[[0, 2]], [[0.6, 0.4], [4.0, -3.0]])
    assert np.isnan(scaled[1]).all()
    assert total[1] < LEAST_SUM
    assert unusual(total).tolist() == [True, True, True]
    assert unusual(np.array([0.8, 1.0, 1.2])).tolist() == [False] * 3


def test_moments_are_those_of_the_embedding():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = np.column_stack([2.0 * x, rng.normal(size=60)])
    kernel = SquaredExponential(0.5)
    learned = conditional_embedding(x, y, kernel, kernel, regularization=0.01)
    at = np.array([[0.0], [0.7], [40.0]])
    found = moments(learned, at)
    np.testing.assert_allclose(found.mean[:2], learned.expectation(at[:2]))
    variance = learned.variance(at[:2])
    np.testing.assert_allclose(found.deviation[:2] ** 2, np.where(variance > 0, variance, np.nan))
    assert found.imaginary.tolist() == [*np.any(variance <= 0, axis=1), False]
    assert np.isnan(found.mean[2]).all()
    assert found.total[2] == pytest.approx(0.0, abs=1e-6)
