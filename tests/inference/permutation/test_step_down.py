"""Adjusted p-values, by hand."""

import numpy as np
from bke.inference.permutation.null_distribution import step_down


def test_each_competes_with_those_that_are_no_more_significant():
    """Of three, the observed first and four relabellings; not in the order of significance."""
    statistics = np.array(
        [
            [4.0, 4.5, 4.2, 1.0, 2.0],  # with the last: 3 of 5
            [1.0, 0.0, 0.0, 0.0, 0.0],  # alone 1 of 5, but no smaller than that of the first
            [5.0, 1.0, 6.0, 2.0, 3.0],  # with all: 2 of 5
        ]
    )
    np.testing.assert_allclose(step_down(statistics), [3 / 5, 3 / 5, 2 / 5])
    np.testing.assert_allclose(step_down(statistics[[1]]), [1 / 5])
    assert step_down(np.empty((0, 5))).shape == (0,)


def test_rounding_is_a_tie_and_what_is_more_is_none():
    for observed in (2.0, -2.0, 2e6):
        row = observed - abs(observed) * np.array([0.0, 1e-12, 1e-6, 1e-3])
        np.testing.assert_allclose(step_down(row[None]), [2 / 4])
