"""The combination of all statistics."""

import dataclasses

import numpy as np
import pytest
from bke.inference.permutation.null_distribution import monte_carlo_error, neg_log_tails, p_value
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.combined import STATISTICS, CombinedStatistic, combined_pvalue
from bke.inference.statistics.label_bayes_factor import LabelBayesFactors
from bke.inference.statistics.landmark_bayes_factor import LandmarkBayesFactors
from bke.inference.statistics.location import Location


def test_weights_of_the_components_are_those_of_the_documented_formula():
    """CMP-9 by its definition: a weighted mean, location and covariances weigh one half."""
    rng = np.random.default_rng(2)
    samples = TwoSamples(rng.normal(size=(30, 2)), rng.normal(0.3, 1.2, size=(45, 2)))
    sample = pool_rows(samples, 29, rng)
    combined = CombinedStatistic.evaluate(sample)
    half = {"in location", "in the distance of covariances", "in the dimensions of covariances"}
    names = [name for statistic in STATISTICS for name, _ in statistic.component_weights]
    assert half < set(names)
    expected, total = np.zeros(30), 0.0
    for name, values in zip(names, combined.components(), strict=True):
        weight = 0.5 if name in half else 1.0
        expected += weight * np.exp(0.5 * neg_log_tails(values))
        total += weight
    expected /= total
    np.testing.assert_allclose(combined.values(), 2.0 * np.log(expected), rtol=1e-12)
    assert combined_pvalue(sample) == p_value(expected)
    location = Location.choose(sample).evaluate(sample).values[0]
    np.testing.assert_array_equal(combined.components()[names.index("in location")], location)


def test_components_of_several_scales_are_means_of_order_minus_two_of_tail_probabilities():
    rng = np.random.default_rng(0)
    samples = TwoSamples.checked(rng.normal(size=(40, 3)), 1.5 * rng.normal(size=(40, 3)))
    sample = pool_rows(samples, 19, np.random.default_rng(1))
    statistics = [LabelBayesFactors.choose(sample), LandmarkBayesFactors.choose(sample)]
    combined = CombinedStatistic.evaluate(sample, statistics)
    _, all_scales, landmarks = combined.components()
    components = all_scales, landmarks
    for component, evaluation in zip(components, combined.evaluations, strict=True):
        tails = np.exp(-neg_log_tails(evaluation.values))
        expected = -np.log(np.sum(tails**-2.0, axis=0) ** -0.5)
        np.testing.assert_allclose(component, expected, rtol=1e-9)


def test_monte_carlo_error_is_nearly_the_same_with_approximate_tail_probabilities():
    """500 labels, of which each tenth is left out in turn; half of the values are interpolated."""
    rng = np.random.default_rng(4)
    samples = TwoSamples.checked(rng.normal(size=(40, 1)), rng.normal(0.3, 1.0, size=(40, 1)))
    sample = pool_rows(samples, 499, np.random.default_rng(1))
    combined = CombinedStatistic.evaluate(sample)
    values = combined.values()

    def error(approximate):
        return monte_carlo_error(
            lambda columns: dataclasses.replace(
                combined.select(columns), approximate=approximate
            ).values(),
            p_value(values),
            len(values),
        )

    assert error(True) == pytest.approx(error(False), rel=0.1)
