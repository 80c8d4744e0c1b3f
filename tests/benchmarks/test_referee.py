"""The referee: statistics of other tools by their definitions, and who is ahead of whom."""

import numpy as np
import pytest


@pytest.fixture(scope="module")
def referee(load):
    return load("referee")


@pytest.fixture(scope="module")
def peers(load):
    return load("referee_peers")


@pytest.fixture(scope="module")
def settings(load):
    return load("referee_settings")


def test_every_setting_draws_two_samples_of_equal_shape(settings):
    assert {setting.family for setting in settings.SETTINGS.values()} == set(settings.FAMILIES)
    for family in settings.FAMILIES:
        held_out = [
            setting.held_out for setting in settings.SETTINGS.values() if setting.family == family
        ]
        assert sum(held_out) >= 3
        assert len(held_out) - sum(held_out) >= 3
    for setting in settings.SETTINGS.values():
        first, second = setting.draw(0)
        assert first.shape == second.shape
        assert len(first) == setting.n
        np.testing.assert_array_equal(first, setting.draw(0)[0])
        assert not np.array_equal(first, setting.draw(1)[0])
        assert np.isfinite([first, second]).all()


def test_mmd_estimates_are_unbiased(peers):
    """Compare with sums over pairs, also for permuted labels."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(9, 2)), rng.normal(0.5, 1.0, size=(9, 2))
    rows, weights = np.concatenate([x, y]), peers.labels(9, 9, rng)[:, :3]
    gram = np.exp(-np.sum((rows[:, None] - rows) ** 2, axis=2))
    for column, estimate in zip(weights.T, peers.unbiased(gram, weights, 9, 9), strict=True):
        a, b = np.flatnonzero(column > 0), np.flatnonzero(column < 0)
        within = sum(gram[i, j] for s in (a, b) for i in s for j in s if i != j) / (9 * 8)
        assert estimate == pytest.approx(within - 2.0 * gram[np.ix_(a, b)].mean(), rel=1e-10)


def test_the_energy_distance_is_that_of_its_definition(peers):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 1)), rng.normal(2.0, 1.0, size=(8, 1))
    assert peers.energy(x, y, rng) <= 0.01
    assert 0.05 < peers.energy(x, rng.permutation(x), rng) <= 1.0


@pytest.mark.parametrize(
    "tool",
    [
        "energy distance",
        "Kolmogorov-Smirnov (scipy)",
        "Cramer-von Mises (scipy)",
        "Hotelling",
        "MMD-FUSE",
        "MMDAgg",
        "MMD, median",
        "MMD, split",
        "spectral MMD",
        pytest.param("KLR", marks=pytest.mark.slow),
        "nearest neighbours",
        "spanning tree",
    ],
)
def test_other_tools_reject_a_shift_and_keep_their_level(peers, tool):
    """60 null data sets of 20 + 20 rows, seed 2: at most 10 rejections but for 1 in 2000.

    KLR, whose level may be 0.08: 1 in 100.
    """
    rng = np.random.default_rng(2)
    test = peers.PEERS[tool][0]
    assert test(rng.normal(size=(40, 2)), rng.normal(2.0, 1.0, size=(40, 2)), rng) <= 0.05
    rejected = sum(test(*rng.normal(size=(2, 20, 2)), rng) <= 0.05 for _ in range(60))
    assert rejected <= 10


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_the_likelihood_ratio_is_that_of_its_definition(peers, metric):
    """By square roots of dense matrices, without leaving out a direction; m is not n."""
    rng = np.random.default_rng(3)
    rows = np.concatenate([rng.normal(size=(14, 2)), rng.normal(0.5, 1.0, size=(9, 2))])
    distances = np.linalg.norm(rows[:, None] - rows, axis=2)
    distances = distances**2 if metric == "sqeuclidean" else distances
    first, ridges = rng.permutation(np.arange(23) < 14), np.array([1e-5, 1e-2, 1.0])
    for width in (0.05, 10.0):
        scale = 2.0 * np.median(distances[np.triu_indices(23, 1)])
        gram = np.exp(-distances / (width * scale))
        S, T = (gram[:, labels] @ gram[:, labels].T / labels.sum() for labels in (first, ~first))
        A = 0.99 * S + 0.01 * T
        statistics = peers.whitened(peers.kernel_features(rows, metric, width), first, ridges)
        for ridge, value in zip(ridges, statistics, strict=True):
            values, vectors = np.linalg.eigh(A + ridge * np.eye(23))
            root = vectors / np.sqrt(values) @ vectors.T
            eigenvalues = np.maximum(np.linalg.eigvalsh(root @ (A - T) @ root), -1.0)
            assert value == pytest.approx(np.sum(eigenvalues**2), rel=1e-6)


def test_statistics_of_the_likelihood_ratio_are_followed_until_all_are_reached(peers):
    """All of them, against every permutation, say how long the best one lasts."""
    x, y = np.random.default_rng(4).normal(size=(2, 15, 2)) * np.array([[[1.0]], [[2.0]]])
    first = peers.labels(15, 15, np.random.default_rng(5))[:, :61] > 0.0
    lasted = []
    for width in peers.WIDTHS:
        features = peers.kernel_features(np.concatenate([x, y]), "sqeuclidean", width)
        drawn = np.array([peers.whitened(features, labels, peers.RIDGES) for labels in first.T])
        reached = drawn[1:] >= drawn[0]
        lasted.append(np.where(reached.any(axis=0), reached.argmax(axis=0), 60).max())
    assert 0 < max(lasted) < 60
    for most in (5, 60):
        result = peers.permutations_exceeded(x, y, np.random.default_rng(5), max_permutations=most)
        assert result == min(most, max(lasted))


def test_published_settings_have_their_covariances(settings):
    """40000 rows, seed 6: no entry is six standard errors off, by chance in 1 of 10^6."""
    rng, n = np.random.default_rng(6), 40000
    spiked = settings.spiked(8, 3, 3.0)(n, rng)
    wanted = np.eye(8)
    wanted[-3:, -3:] = 3.0
    errors = np.sqrt((np.outer(np.diag(wanted), np.diag(wanted)) + wanted**2) / n)
    assert (np.abs(spiked.T @ spiked / n - wanted) < 6.0 * errors).all()
    rows = settings.shell(8, 1.5, 0.1)(n, rng)
    squares = np.sum(rows**2, axis=1)
    assert abs(squares.mean() - (1.5**2 + 8 * 0.01)) < 6.0 * squares.std() / n**0.5
    near = settings.autoregressive(8, 0.5)(n, rng)
    wanted = 0.5 ** np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    assert (np.abs(near.T @ near / n - wanted) < 6.0 * np.sqrt((1.0 + wanted**2) / n)).all()


def test_a_loss_exceeds_two_paired_standard_errors(referee):
    ours = "1" * 50 + "0" * 50
    better = "1" * 50 + "0" * 10 + "1" * 15 + "0" * 25  # 15 of 100 more: 4.2 standard errors
    same = "0" + "1" * 49 + "0" * 10 + "11" + "0" * 38
    name = "shift, D = 10"
    results = {name: {"bke": ours, "MMDAgg": better, "MMD-FUSE": same}}
    (loss,) = referee.losses(results, ["bke", "MMDAgg", "MMD-FUSE"], [name])
    assert loss["tool"] == "MMDAgg"
    assert loss["ahead by"] == pytest.approx(0.15)
    assert loss["error"] == pytest.approx((0.15 * 0.85 / 100) ** 0.5)
    medians = {"bke": 0.5, "MMDAgg": 0.1, "MMD-FUSE": 0.1}
    assert "| shift, D = 10 " in referee.summary(results, medians, null=False)
    assert len(referee.draw_powers(results).axes) == 1
