"""Chains in equivalent modes are reported as equivalent, and others are not."""

import numpy as np
import pytest
import xarray as xr
from bke.inference import compare_chains
from bke.inference.mcmc.chain_clusters import label_switching_notes

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
        "label switching: chain 2 agrees with chains 0, 1, 3 after a permutation of the components "
        "of 'mu', 'sd'; apply it to the draws before pooling them"
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
        note.startswith(
            "label switching: chain 3 agrees with chains 0, 1, 2 after a change of sign of 'w'; "
        )
        for note in result.notes
    )


@pytest.mark.parametrize(
    ("means", "change"),
    [
        ([0.0, 3.0], "a permutation of the components of 'mu'"),
        (
            [-2.0, 2.0],
            "a change of sign of 'mu1', 'mu2', or after a permutation of the components of 'mu'",
        ),
        ([0.0, 3.0, 900.0], "a permutation of the components of 'mu'"),
    ],
)
def test_an_exchange_of_numbered_parameters_is_named(means, change):
    """The last column has another scale, by which the others would be equal."""
    scale = np.array([0.3, 0.3, 300.0])[: len(means)]
    values = np.array(means) + scale * np.random.default_rng(1).normal(size=(4, 400, len(means)))
    values[[1, 3]] = values[[1, 3]][:, :, [1, 0, *range(2, len(means))]]
    names = [f"mu{index + 1}" for index in range(len(means))]
    (note,) = label_switching_notes(values, [(0, 2), (1, 3)], names, (0, 1, 2, 3))
    assert note.startswith(
        f"label switching: chains 1, 3 agree with chains 0, 2 after {change}; apply "
    )
    values[1] += [0.0, 5.0, 0.0][: len(means)]
    assert not label_switching_notes(values, [(0, 2), (1, 3)], names, (0, 1, 2, 3))


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_chains_that_agree_and_other_modes_are_not_noted(shift):
    draws = RNG.normal(size=(4, 400, 3)) + np.array([10.0, 20.0, 30.0])
    draws[3] += shift
    result = compare_chains(draws, n_resamples=99)
    assert result.agree == (shift == 0.0)
    assert not any("label switching" in note for note in result.notes)
