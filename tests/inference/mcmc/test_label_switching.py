"""Chains in equivalent modes are reported as equivalent, and others are not."""

import numpy as np
import pytest
import xarray as xr
from bke.inference import compare_chains

RNG = np.random.default_rng(0)


def mixture(orders, draws=400):
    """A tree of chains of a mixture of three components, with a different order in each chain."""
    means, spreads = np.array([-4.0, 0.0, 5.0]), np.array([0.3, 0.6, 0.9])
    mu = np.stack([means[list(order)] for order in orders])[:, None] + 0.2 * RNG.normal(
        size=(len(orders), draws, 3)
    )
    sd = np.stack([spreads[list(order)] for order in orders])[:, None] * np.exp(
        0.1 * RNG.normal(size=(len(orders), draws, 3))
    )
    total = RNG.normal(size=(len(orders), draws))
    dims = ("chain", "draw", "component")
    return xr.Dataset({"mu": (dims, mu), "sd": (dims, sd), "total": (dims[:2], total)})


def test_a_permutation_of_components_is_named():
    result = compare_chains(mixture([(0, 1, 2), (0, 1, 2), (2, 0, 1), (0, 1, 2)]), n_resamples=99)
    assert not result.agree
    (note,) = [note for note in result.notes if "label switching" in note]
    assert note == (
        "label switching: chains 2 agree with chains 0, 1, 3 after a permutation of the components "
        "of 'mu', 'sd'"
    )


def test_arrays_must_be_permuted_together():
    data = mixture([(0, 1, 2), (0, 1, 2), (2, 0, 1)])
    wrong = data["sd"].values.copy()
    wrong[2] = wrong[0]  # the spreads of another order than the means
    data["sd"] = (data["sd"].dims, wrong)
    result = compare_chains(data, n_resamples=99)
    assert not result.agree
    assert not any("label switching" in note for note in result.notes)


def test_a_change_of_sign_is_named():
    draws = RNG.gamma(4.0, size=(4, 400, 2)) + np.array([2.0, 0.0])
    draws[3, :, 0] *= -1.0
    result = compare_chains(draws, n_resamples=99, columns=["w", "v"])
    assert any(
        note == "label switching: chains 3 agree with chains 0, 1, 2 after a change of sign of 'w'"
        for note in result.notes
    )


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_chains_that_agree_and_other_modes_are_not_noted(shift):
    draws = RNG.normal(size=(4, 400, 3)) + np.array([10.0, 20.0, 30.0])
    draws[3] += shift
    result = compare_chains(draws, n_resamples=99)
    assert result.agree == (shift == 0.0)
    assert not any("label switching" in note for note in result.notes)
