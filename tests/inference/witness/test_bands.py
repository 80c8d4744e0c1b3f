"""Thinning: draws represent draws of the same mode, and bands stay within their error."""

import numpy as np
import pytest
import xarray as xr
from bke.inference.witness.bands import credible_band, thin_draws, weighted_by_chain

#: Draws of each mode, and of a single hyperparameter, that "auto" uses at least.
LEAST, LEAST_SORTED = 200, 100
MODES = np.repeat([[0], [1], [1], [-1]], 600, axis=1)
MODES[0, :7] = 2  # a small mode, in a chain that crossed


def two(labels):
    """Two hyperparameters, which give draws no order."""
    return np.zeros((*labels.shape, 2))


def test_all_of_a_small_number_of_draws_are_used():
    labels = np.zeros((2, 2 * LEAST // 2 - 1), dtype=int)
    chosen, source, turn = thin_draws("auto", labels, two(labels))
    np.testing.assert_array_equal(chosen, np.arange(labels.size))
    np.testing.assert_array_equal(chosen[source].ravel(), np.arange(labels.size))
    assert turn.max() + 1 == 1


def test_modes_keep_at_least_the_least_number_of_draws():
    chosen, source, turn = thin_draws("auto", MODES, two(MODES))
    np.testing.assert_array_equal(MODES.ravel()[chosen][source], MODES)
    modes_of_chosen = MODES.ravel()[chosen]
    counts = dict(zip(*np.unique(modes_of_chosen, return_counts=True), strict=True))
    assert counts[2] == 7
    assert counts[-1] == 600 // (1200 // LEAST)  # as sparsely as any mode
    assert all(LEAST <= counts[mode] < 2 * LEAST for mode in (0, 1))
    used = source.ravel() * (turn.max() + 1) + turn.ravel()
    assert len(np.unique(used)) == MODES.size  # no witness stands for two draws
    assert turn.max() + 1 == 1200 // LEAST


def test_draws_of_no_mode_are_used_if_all_chains_are_stuck():
    chosen, _source, _turn = thin_draws("auto", np.full((2, 300), -1), np.zeros((2, 300, 2)))
    assert len(chosen) == LEAST


def test_a_small_mode_keeps_a_draw_at_any_thinning():
    """Two draws of one chain that are neither first nor at a multiple of anything."""
    labels = np.zeros((2, 50), dtype=int)
    labels[1, [7, 30]] = 1
    chosen, source, turn = thin_draws(10, labels, two(labels))
    np.testing.assert_array_equal(labels.ravel()[chosen][source], labels)
    assert 57 in chosen
    assert 80 not in chosen
    assert turn[1, 30] == 1


@pytest.mark.parametrize("thin", [1, 3, 10])
def test_integer_thinning_takes_every_nth_draw_by_chain(thin):
    labels = np.zeros((3, 10), dtype=int)
    chosen, source, turn = thin_draws(thin, labels, two(labels))
    first = np.arange(0, 10, thin)
    np.testing.assert_array_equal(chosen, (10 * np.arange(3)[:, None] + first).ravel())
    np.testing.assert_array_equal(chosen[source[1]], 10 + np.arange(10) // thin * thin)
    np.testing.assert_array_equal(turn[2], np.arange(10) % thin)
    assert turn.max() + 1 == thin


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_ends_of_a_band_are_within_five_percent_of_its_width(level):
    """Draws differ only in hyperparameters, which is the worst case; 400 times 1600.

    The root mean square of 400 errors is known to 4 %, the bound is 1.06 times the expected value
    at 0.8 and 1.04 times at 0.95 (seed 0).
    """
    rng = np.random.default_rng(0)
    chosen, source, _turn = thin_draws("auto", np.zeros((8, 200), dtype=int), np.zeros((8, 200, 2)))
    assert len(chosen) == LEAST
    levels = [(1 - level) / 2, (1 + level) / 2]
    draws = rng.normal(size=(400, 8, 200))
    represented = draws.reshape(400, -1)[:, chosen][:, source].reshape(400, -1)
    ends = np.quantile(represented, levels, axis=1)
    exact = np.array([[-1.0], [1.0]]) * {0.8: 1.2816, 0.95: 1.9600}[level]
    error = np.sqrt(np.mean((ends - exact) ** 2)) / (2 * exact[1, 0])
    assert 0.04 < error < 0.05


def test_sorted_draws_of_a_single_hyperparameter_represent_their_neighbors():
    """Each chosen draw is in the middle of its neighbors, which are of the same mode."""
    z = np.random.default_rng(1).normal(size=(*MODES.shape, 1))
    chosen, source, turn = thin_draws("auto", MODES, z)
    values, labels = z.ravel(), MODES.ravel()
    np.testing.assert_array_equal(labels[chosen][source], MODES)
    for mode in (0, 1):
        inside = np.flatnonzero(labels == mode)
        step = len(inside) // LEAST_SORTED
        inside = inside[np.argsort(values[inside])]
        positions = source.ravel()[inside]
        first = inside[:step]
        assert len(set(positions[:step])) == 1
        assert chosen[positions[0]] == first[(step - 1) // 2]
        assert np.all(np.diff(values[chosen[positions]]) >= 0.0)
    used = source.ravel() * (turn.max() + 1) + turn.ravel()
    assert len(np.unique(used)) == MODES.size
    # The order of chains, where thinning is asked for.
    np.testing.assert_array_equal(thin_draws(10, MODES, z)[0], thin_draws(10, MODES, two(MODES))[0])


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(("of", "bound"), [(lambda z: z, 0.025), (np.square, 0.06)])
def test_half_the_draws_in_order_halve_the_error_of_a_band(level, of, bound):
    """Witnesses that are a function of the hyperparameter; 400 times 1600 (seed 0).

    In the order of the chains twice as many have 0.05 and 0.07 to 0.11.
    """
    rng = np.random.default_rng(0)
    levels = [(1 - level) / 2, (1 + level) / 2]
    exact = np.quantile(of(rng.normal(size=10**6)), levels)
    squares = []
    for _ in range(400):
        draws = rng.normal(size=(8, 200))
        chosen, source, _turn = thin_draws(
            "auto", np.zeros((8, 200), dtype=int), draws[:, :, np.newaxis]
        )
        assert len(chosen) == LEAST_SORTED
        ends = np.quantile(of(draws.ravel()[chosen][source]), levels)
        squares.append(np.mean((ends - exact) ** 2))
    assert np.sqrt(np.mean(squares)) / np.ptp(exact) < bound


@pytest.mark.parametrize(
    ("modes", "mean"), [((0, 0, 1, -1), (2.0 + 3.0 + 7.0) / 3.0), ((-1,) * 4, 43.0)]
)
def test_chains_have_equal_weights_but_for_stuck_ones(modes, mean):
    """By mass nearly all weight is in the third chain; if all are stuck, all are used."""
    values = np.repeat([[2.0], [3.0], [7.0], [160.0]], 50, axis=1)
    dims = ("chain", "draw")
    tree = xr.DataTree(
        xr.Dataset(
            {
                "witness": ((*dims, "point"), values[..., None]),
                "mode": (dims, np.repeat(np.reshape(modes, (4, 1)), 50, axis=1)),
                "weight": (dims, np.where(values == 7.0, 1.0 / 50.0, 0.0)),
            },
            attrs={"weights": "posterior"},
        )
    )
    weighted = weighted_by_chain(tree)
    assert weighted.attrs["weights"] == "chains"
    assert float(weighted["weight"].sum()) == pytest.approx(1.0, rel=1e-12)
    assert credible_band(weighted, 0.8).mean[0] == pytest.approx(mean, rel=1e-12)
    assert credible_band(tree, 0.8).mean[0] == pytest.approx(7.0, rel=1e-12)
