"""Pictures of a predictive check mark the observations beyond the reach."""

import dataclasses

import numpy as np
import pytest
from bke.inference.plots.testing import plot_predictive_check
from bke.inference.testing.result import TestResult

RNG = np.random.default_rng(0)
RESULT = TestResult.from_permutations(
    np.concatenate([[3.0], RNG.normal(size=99)]), test="predictive check",
    hypotheses=("they agree", "they differ"), kernel=None, method="99 replicates", exact=True,
    alpha=0.05,
)  # fmt: skip


@dataclasses.dataclass
class Check:
    points: np.ndarray
    score: np.ndarray
    predicted: np.ndarray
    result: TestResult = RESULT
    variable: str = "height"
    reach: float = 2.5


@pytest.mark.parametrize("columns", [1, 3])
def test_scores_beyond_the_reach_are_marked(columns):
    score = np.array([0.1, -3.0, 2.4, 2.6, 1.0])
    points = np.array([5.0, 4.0, 3.0, 2.0, 1.0])[:, None] * np.ones(columns)
    figure = plot_predictive_check(Check(points, score, RNG.normal(3.0, size=(40, columns))))
    null, scores = figure.axes
    assert [line.get_label() for line in null.lines][-1] == "observed, p ≤ 0.01"
    marked = next(line for line in scores.lines if line.get_label() == "beyond 2.5")
    np.testing.assert_allclose(np.sort(marked.get_ydata()), [-3.0, 2.6])
    # One column: over its values; several: in order of size.
    expected = {1: [2.0, 4.0], 3: [0, 4]}[columns]
    np.testing.assert_allclose(np.sort(marked.get_xdata()), expected)
    assert scores.get_xlabel().startswith({1: "height", 3: "observations"}[columns])
