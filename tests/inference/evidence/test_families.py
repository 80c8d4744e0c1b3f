"""Kernels at which a test looks, beside those of the models and one at a time."""

import dataclasses
import itertools

import numpy as np
import pytest
from bke.inference.core.machine import computing
from bke.inference.evidence import ladder
from bke.inference.evidence.asked import answered
from bke.inference.evidence.families import GAUSSIAN, LAPLACE, RUN
from bke.inference.evidence.ladder import (
    LENGTHSCALES,
    OF_LAPLACE,
    landmark_lengthscales,
    test_scales as scales_of_test,
)
from bke.inference.evidence.places import cells
from bke.inference.evidence.spectrum import spectra_asked, spectrum
from bke.inference.evidence.statistic import evidences
from bke.inference.evidence.tilt import fits
from bke.inference.permutation.combination import neg_log_pvalues
from bke.inference.permutation.pair import Pair
from bke.inference.permutation.pooling import relabelled, swapped

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 3))


@pytest.mark.parametrize("family", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("columns", [2, 12])
def test_kernels_are_those_of_the_models(family, columns):
    points, others = RNG.normal(size=(5, columns)), RNG.normal(size=(7, columns))
    with computing():
        each = [np.asarray(family.model(length)(points, others)) for length in (0.3, 2.0)]
    kernels = family.at(others, 0.3, 2.0)
    np.testing.assert_allclose(kernels(points), np.concatenate(each, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(family.values(points, others, 2.0), kernels(points)[:, 7:])


@pytest.mark.parametrize("family", [GAUSSIAN, LAPLACE])
def test_kernels_that_are_squares_are_those_of_the_models(family):
    """Distances of 0 to 40 lengthscales; the last one is no square of the one before."""
    points, others = 4.0 * RNG.normal(size=(50, 3)), RNG.normal(size=(40, 3))
    lengths = 3.0 * 2.0 ** (np.array([0, -1, -2, -4]) / family.power)
    lengths = [*lengths, 0.9 * lengths[-1]]
    assert [family.squarings(a, b) for a, b in itertools.pairwise(lengths)] == [1, 1, 2, 0]
    assert family.squarings(lengths[1], lengths[0]) == 0
    assert family.squarings(1.0, 1.0) == 0
    with computing():
        each = [np.asarray(family.model(length)(points, others)) for length in lengths]
    found = family.at(others, *lengths)(points)
    np.testing.assert_allclose(found, np.concatenate(each, axis=1), rtol=1e-11, atol=1e-140)


@pytest.mark.parametrize(("family", "step"), [(GAUSSIAN, 2.0), (LAPLACE, 4.0)])
def test_squares_reach_the_shortest(family, step):
    found = family.squares(10.0, 0.1, 2)
    np.testing.assert_allclose(found[:-1] / found[1:], step)
    assert found[0] == 10.0
    assert found[-1] <= 0.1 < found[-2]
    assert len(family.squares(16.0, 1.0, 2)) == 1 + round(np.log(16.0) / np.log(step))
    runs = family.runs(found)
    assert all(len(run) == RUN for run in runs[:-1])
    np.testing.assert_array_equal(np.concatenate(runs), found)
    assert family.runs([1.0, 0.9, 0.8]) == [(1.0,), (0.9,), (0.8,)]


def test_of_very_many_rows_every_kernel_is_a_square(monkeypatch):
    """As few as 80 count as very many here."""
    rows = relabelled(Pair.checked(P, Q), 9, np.random.default_rng(1))
    fewer, landmarks = scales_of_test(rows), landmark_lengthscales(rows)
    monkeypatch.setattr(ladder, "VERY_MANY", 79)
    found, seen = scales_of_test(rows), landmark_lengthscales(rows)
    for family in (GAUSSIAN, LAPLACE):
        own, few = (
            [one.lengthscale for one in each if one.family is family] for each in (found, fewer)
        )
        assert max(own) == pytest.approx(max(few))
        assert min(own) <= min(few)
        assert len(family.runs(own)) == -(-len(own) // RUN)
    assert seen[0] == landmarks[-1]
    assert 0.5 * landmarks[0] < seen[-1] <= landmarks[0] * (1.0 + 1e-9)
    pairs = swapped(Pair.checked(P, Q), 9, np.random.default_rng(1))
    own = [one.lengthscale for one in scales_of_test(pairs) if one.family is GAUSSIAN]
    assert len(family.runs(own)) == len(own)  # which are gone through one by one


def test_several_kernels_are_each_by_itself():
    """By all rows as the part that tells products; Q is of another scale."""
    rows = relabelled(Pair.checked(P, 1.5 * Q), 9, np.random.default_rng(1))
    lengths, sizes, at = (0.3, 1.0, 2.0), np.array([0.1, 10.0]), rows.points[::2]
    together = answered(spectra_asked(rows, LAPLACE.at(at, *lengths), len(rows.points)), rows)
    for length, found in zip(lengths, together, strict=True):
        alone = spectrum(rows, at, length, LAPLACE.values)
        np.testing.assert_allclose(fits(found, sizes), fits(alone, sizes), rtol=1e-7)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_kernels_of_both_families(columns):
    pair = Pair.checked(P[:, :columns], Q[:, :columns])
    rows = relabelled(pair, 9, np.random.default_rng(1))
    scales = scales_of_test(rows)
    assert len(scales) == LENGTHSCALES + OF_LAPLACE * (columns > 2)
    families = [one.family for one in scales]
    assert families[-LENGTHSCALES:] == [GAUSSIAN] * LENGTHSCALES
    assert set(families[:-LENGTHSCALES]) == ({LAPLACE} if columns > 2 else set())


def test_heavier_tails_of_every_column_are_heard_by_laplace_kernels():
    """80 + 80 rows of 40 columns, normal and Laplace of one variance; seed 3, 199 relabellings."""
    rng = np.random.default_rng(3)
    pair = Pair.checked(rng.normal(size=(80, 40)), rng.laplace(scale=0.5**0.5, size=(80, 40)))
    rows = relabelled(pair, 199, rng)
    found = evidences(rows, _silent(rows), lambda count: None)
    loud = neg_log_pvalues(found.tilt, trim=1)[:, 0]
    of_laplace = np.array([scale.family is LAPLACE for scale in found.scales])
    assert loud[of_laplace].max() > loud[~of_laplace].max() + 2.0
    assert found.scale.family is LAPLACE


def test_all_scales_together_are_a_mean_of_order_minus_two_of_tail_probabilities():
    rows = relabelled(Pair.checked(P, 1.5 * Q), 19, np.random.default_rng(1))
    found = evidences(rows, _silent(rows), lambda count: None)
    for index, part in ((1, found.tilt), (2, found.landmarks)):
        tails = np.exp(-neg_log_pvalues(part))
        expected = -np.log(np.sum(tails**-2.0, axis=0) ** -0.5)
        np.testing.assert_allclose(found.each()[index], expected, rtol=1e-9)


def _silent(rows):
    """Places that say nothing."""
    found = cells(rows.of_columns((0,), 10))
    return dataclasses.replace(found, t=np.zeros_like(found.t))
