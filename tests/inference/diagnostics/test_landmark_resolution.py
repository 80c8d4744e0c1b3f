"""Lengthscales that landmarks do not resolve are reported, and others are not."""

import numpy as np
import pytest
from bke.inference import diagnose, fit
from bke.inference.core.machine import computing
from bke.inference.diagnostics.landmark_resolution import correlation_medians, resolution_notes
from bke.models import Landmark, SquaredExponential, choose_landmarks

RNG = np.random.default_rng(4)
P, Q = RNG.normal(size=3000), RNG.laplace(scale=np.sqrt(0.5), size=2500)
SHORT, LONG = "lengthscales too short", "lengthscales too long"
QUIET = {"progress": False}
#: Skewed, and landmarks around them, as in test_landmark_fit.
SKEWED = np.random.default_rng(8).gamma(2.0, size=(80, 2)) * [1.0, 30.0]
LANDMARKS = np.array(
    [[0.5, 10.0], [1.0, 60.0], [2.0, 30.0], [3.0, 80.0], [4.0, 120.0], [6.0, 40.0]]
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("X", "landmarks", "expected"),
    [
        (np.concatenate([P, Q]), None, SHORT),  # lengthscale 0.016, landmarks at distances of 0.08
        (np.concatenate([P, Q]), choose_landmarks(P, 57), LONG),  # 6.0, and 7 from end to end
        (SKEWED, LANDMARKS, None),  # 2.4, where neighbors are 1.1 and pairs 2.2
    ],
)
def test_a_fit(X, landmarks, expected):
    run = fit(X, likelihood=Landmark(landmarks), method="quadrature", **QUIET)
    diagnosis = diagnose(run)
    assert diagnosis.summary()["resolved"] is (expected is None)
    verdict = diagnosis.verdict
    assert [text in verdict for text in (SHORT, LONG)] == [expected == SHORT, expected == LONG]
    assert ("NOT RESOLVED" in verdict) == (expected is not None)


@pytest.mark.parametrize(
    ("lengthscales", "expected"),
    [([0.1, 0.2, 0.5, 0.9], SHORT), ([1.1, 1.3, 1.6], None), ([4.1, 5.0, 6.0], LONG)],
)
def test_five_landmarks(lengthscales, expected):
    """Neighbors are at a distance of 1, pairs in the median of 2: limits 1 and 4."""
    landmarks = np.linspace(-2.0, 2.0, 5)[:, None]
    with computing():
        medians = np.array(
            [correlation_medians(SquaredExponential(value), landmarks) for value in lengthscales]
        )
    closed_form = [np.exp(-0.5 * np.array([1.0, 4.0]) / value**2) for value in lengthscales]
    np.testing.assert_allclose(medians, closed_form, rtol=1e-12)
    notes = resolution_notes(medians, np.ones(len(lengthscales)))
    assert [any(text in note for note in notes) for text in (SHORT, LONG)] == [
        expected == SHORT,
        expected == LONG,
    ]
