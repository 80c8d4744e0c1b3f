"""t at places beside a slow twin, cell by cell and labelling by labelling."""

import dataclasses

import numpy as np
import pytest
from bke.inference.evidence import places
from bke.inference.evidence.local_t import LEAST_ROWS
from bke.inference.evidence.places import LONGEST, SHORTEST, Cells, Looks, _quantiles, cells
from bke.inference.permutation.pair import Pair
from bke.inference.permutation.pooling import relabelled, swapped
from bke.inference.permutation.relabelled import MORE_ROWS

RNG = np.random.default_rng(3)
SIZES = (37, 26)


def weights(points, at, scale):
    """exp(-|z - x|^2 / (2 l^2)) in the columns that are looked at."""
    used = np.isfinite(scale)
    return np.exp(-0.5 * np.sum(((points[:, used] - at[used]) / scale[used]) ** 2, axis=1))


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("very_many", [False, True])  # whose scales are evaluated together
def test_t_is_the_difference_of_mean_weights_over_its_deviation_under_equality(
    columns, very_many, monkeypatch
):
    monkeypatch.setattr(places, "VERY_MANY", 20 if very_many else 10_000)
    P, Q = RNG.gamma(2.0, size=(SIZES[0], columns)), RNG.normal(size=(SIZES[1], columns)) + 2.0
    rows = relabelled(Pair.checked(P, Q), 9, np.random.default_rng(0))
    found = cells(rows)
    assert len(found.t) > 100
    assert np.isfinite(found.scale).all() == (columns < 3)  # of three each is also looked at alone
    for at, scale, t, means, errors, covariance in zip(
        found.at, found.scale, found.t, found.means, found.errors, found.covariance, strict=True
    ):
        k = weights(rows.points, at, scale)
        assert k.sum() ** 2 >= LEAST_ROWS * np.sum(k**2) * (1.0 - 1e-6)
        inside = rows.labels.T.astype(bool)
        apart = np.array([k[one].mean() - k[~one].mean() for one in inside])
        deviation = np.sqrt(np.var(k, ddof=1) * (1 / SIZES[0] + 1 / SIZES[1]))
        np.testing.assert_allclose(t, apart / deviation, rtol=1e-6, atol=1e-9)
        of_each = zip((inside[0], ~inside[0]), means, errors, SIZES, strict=True)
        for one, mean, error, size in of_each:
            assert mean == pytest.approx(k[one].mean(), rel=1e-9)
            square = np.sum((k[one] - mean) ** 2) + MORE_ROWS * np.mean((k - mean) ** 2)
            floor = 1.0 if mean * size < 1.0 else 0.0
            assert error == pytest.approx(max(square, floor) ** 0.5 / size, rel=1e-6)
        assert covariance == 0.0


def test_t_of_pairs_is_that_of_their_differences():
    P = RNG.normal(size=(30, 1))
    Q = P + 0.5 * RNG.normal(size=(30, 1)) + 0.3
    rows = swapped(Pair.checked(P, Q), 9, np.random.default_rng(0))
    found = cells(rows)
    a, b = rows.partners.T
    for at, scale, t, covariance in zip(
        found.at, found.scale, found.t, found.covariance, strict=True
    ):
        k = weights(rows.points, at, scale)
        signs = 2.0 * rows.labels[a].astype(float) - 1.0
        apart = np.mean((k[a] - k[b])[:, None] * signs, axis=0)
        noise = np.mean((k[a] - k[b]) ** 2) / len(a)
        np.testing.assert_allclose(t, apart / noise**0.5, rtol=1e-6, atol=1e-9)
        assert covariance == pytest.approx(np.cov(k[a], k[b], ddof=0)[0, 1] / len(a), rel=1e-6)


def test_cells_in_which_few_rows_have_all_weight_are_left_out():
    rows = relabelled(Pair.checked(*RNG.normal(size=(2, 40))), 3, np.random.default_rng(0))
    found, looks = cells(rows), Looks.of(rows)
    kept = {(float(a), float(s)) for a, s in zip(found.at[:, 0], found.scale[:, 0], strict=True)}
    expected = set()
    for scale in np.geomspace(SHORTEST, LONGEST, 14):
        for at in looks.where[:, 0]:
            k = weights(rows.points, np.array([at]), np.array([scale]))
            if k.sum() ** 2 >= LEAST_ROWS * np.sum(k**2):
                expected.add((float(at), float(scale)))
    assert kept == expected
    assert len(expected) < 14 * len(looks.where)


def test_places_among_many_rows_are_different_rows_whatever_the_labels():
    P, Q = RNG.normal(size=(200, 2)), RNG.normal(size=(150, 2))
    one, other = (
        Looks.of(relabelled(Pair.checked(*pair), 3, np.random.default_rng(0))).where
        for pair in ((P, Q), (np.concatenate([P[:50], Q]), P[50:]))
    )
    assert len(np.unique(one, axis=0)) == 200
    np.testing.assert_array_equal(one, other)


def test_quantiles_of_points_with_counts():
    np.testing.assert_array_equal(_quantiles(np.ones(10), 5), [1, 3, 5, 7, 9])
    np.testing.assert_array_equal(_quantiles(np.ones(5), 100), np.arange(5))
    np.testing.assert_array_equal(_quantiles(np.array([8.0, 1.0, 1.0]), 2), [0, 1])
    np.testing.assert_array_equal(_quantiles(np.array([1.0, 8.0, 1.0]), 1), [1])


def test_the_largest_and_what_it_exceeds():
    t = np.array([[1.0, -3.0, 0.5, 0.2], [-2.0, 0.1, 0.4, -0.3]])
    shape = np.zeros((2, 1))
    found = Cells(shape, shape, t, np.zeros((2, 2)), np.zeros((2, 2)), np.zeros(2))
    np.testing.assert_array_equal(found.largest, [2.0, 3.0, 0.5, 0.3])
    assert found.critical(0.5) == 0.5
    assert found.critical(0.25) == 2.0
    assert found.critical(0.2) == 3.0
    np.testing.assert_allclose(found.pvalues(), [2 / 4, 2 / 4])
    more = dataclasses.replace(found, others=np.array([0.0, 0.0, 9.0, 9.0]))
    np.testing.assert_array_equal(more.largest, [2.0, 3.0, 9.0, 9.0])
    np.testing.assert_allclose(more.pvalues(), [1.0, 1.0])
