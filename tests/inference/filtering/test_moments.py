"""Conditional moments, and NaN where the weights sum to too little."""

import numpy as np
import pytest
from bke.inference.filtering import SMALLEST_WEIGHT_SUM, moments, normalized_weights
from bke.inference.report.embeddings import far_rows_notes
from bke.models import SquaredExponential, conditional_embedding


def test_weights_with_a_small_sum_are_nan():
    weights = np.array([[0.75, 0.5], [0.02, 0.03], [2.0, -1.5]])
    scaled, total = normalized_weights(weights)
    np.testing.assert_allclose(total, [1.25, 0.05, 0.5])
    np.testing.assert_allclose(scaled[[0, 2]], [[0.6, 0.4], [4.0, -3.0]])
    assert np.isnan(scaled[1]).all()
    assert total[1] < SMALLEST_WEIGHT_SUM
    (note,) = far_rows_notes(total, "row")
    assert note.startswith("Rows 1, 2, 3 are far")
    assert far_rows_notes(np.array([0.8, 1.0, 1.2]), "row") == []


def test_moments_are_those_of_the_embedding():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = np.column_stack([2.0 * x, rng.normal(size=60)])
    kernel = SquaredExponential(0.5)
    learned = conditional_embedding(x, y, kernel, kernel, regularization=0.01)
    at = np.array([[0.0], [0.7], [40.0]])
    mean, deviation, negative_variance, total = moments(learned, at)
    np.testing.assert_allclose(mean[:2], learned.expectation(at[:2]))
    variance = learned.variance(at[:2])
    np.testing.assert_allclose(deviation[:2] ** 2, np.where(variance > 0, variance, np.nan))
    assert negative_variance.tolist() == [*np.any(variance <= 0, axis=1), False]
    assert np.isnan(mean[2]).all()
    assert total[2] == pytest.approx(0.0, abs=1e-6)
