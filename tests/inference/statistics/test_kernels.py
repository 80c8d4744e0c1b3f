"""Kernels of the statistics, compared with those of the models and evaluated one at a time."""

import itertools

import numpy as np
import pytest
from bke.inference.core.machine import computing
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics import kernels
from bke.inference.statistics.kernels import (
    GAUSSIAN,
    LAPLACE,
    MAX_RUN,
    MIN_EXPONENT,
    N_GAUSSIAN,
    N_LAPLACE,
    choose_scales,
    landmark_lengthscales,
    squared_exponential,
)

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 3))


@pytest.mark.parametrize("family", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize("columns", [2, 12])
def test_kernels_are_those_of_the_models(family, columns):
    points, second_points = RNG.normal(size=(5, columns)), RNG.normal(size=(7, columns))
    with computing():
        expected = [
            np.asarray(family.model(length)(points, second_points)) for length in (0.3, 2.0)
        ]
    values = family.at(second_points, 0.3, 2.0)(points)
    np.testing.assert_allclose(values, np.concatenate(expected, axis=1), rtol=1e-12)
    np.testing.assert_array_equal(family.function(points, second_points, 2.0), values[:, 7:])


@pytest.mark.parametrize("family", [GAUSSIAN, LAPLACE])
def test_squared_kernels_are_those_of_the_models(family):
    """Distances of 0 to 40 lengthscales; the last kernel is no square of the previous one."""
    points, second_points = 4.0 * RNG.normal(size=(50, 3)), RNG.normal(size=(40, 3))
    lengths = 3.0 * 2.0 ** (np.array([0, -1, -2, -4]) / family.power)
    lengths = [*lengths, 0.9 * lengths[-1]]
    assert [family.squarings(a, b) for a, b in itertools.pairwise(lengths)] == [1, 1, 2, 0]
    assert family.squarings(lengths[1], lengths[0]) == 0
    assert family.squarings(1.0, 1.0) == 0
    with computing():
        expected = [np.asarray(family.model(length)(points, second_points)) for length in lengths]
    values = family.at(second_points, *lengths)(points)
    np.testing.assert_allclose(values, np.concatenate(expected, axis=1), rtol=1e-11, atol=1e-140)


@pytest.mark.parametrize(("family", "factor"), [(GAUSSIAN, 2.0), (LAPLACE, 4.0)])
def test_squared_lengthscales_extend_to_the_shortest(family, factor):
    lengthscales = family.squared_lengthscales(10.0, 0.1, 2)
    np.testing.assert_allclose(lengthscales[:-1] / lengthscales[1:], factor)
    assert lengthscales[0] == 10.0
    assert lengthscales[-1] <= 0.1 < lengthscales[-2]
    count = 1 + round(np.log(16.0) / np.log(factor))
    assert len(family.squared_lengthscales(16.0, 1.0, 2)) == count
    runs = family.runs(lengthscales)
    assert all(len(run) == MAX_RUN for run in runs[:-1])
    np.testing.assert_array_equal(np.concatenate(runs), lengthscales)
    assert family.runs([1.0, 0.9, 0.8]) == [(1.0,), (0.9,), (0.8,)]


def test_kernels_of_large_samples_are_squares(monkeypatch):
    """80 rows count as very many."""
    sample = pool_rows(TwoSamples.checked(P, Q), 9, np.random.default_rng(1))
    subset_scales, subset_lengthscales = choose_scales(sample), landmark_lengthscales(sample)
    monkeypatch.setattr(kernels, "LARGE_SAMPLE", 79)
    scales, lengthscales = choose_scales(sample), landmark_lengthscales(sample)
    for family in (GAUSSIAN, LAPLACE):
        bandwidths, subset_bandwidths = (
            [scale.lengthscale for scale in selected if scale.family is family]
            for selected in (scales, subset_scales)
        )
        assert max(bandwidths) == pytest.approx(max(subset_bandwidths))
        assert min(bandwidths) <= min(subset_bandwidths)
        assert len(family.runs(bandwidths)) == -(-len(bandwidths) // MAX_RUN)
    assert lengthscales[0] == subset_lengthscales[-1]
    assert 0.5 * subset_lengthscales[0] < lengthscales[-1] <= subset_lengthscales[0] * (1.0 + 1e-9)
    pairs = pool_pairs(TwoSamples.checked(P, Q), 9, np.random.default_rng(1))
    bandwidths = [scale.lengthscale for scale in choose_scales(pairs) if scale.family is GAUSSIAN]
    # Kernels of pairs are evaluated separately.
    assert len(family.runs(bandwidths)) == len(bandwidths)


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_laplace_kernels_are_used_for_more_than_two_columns(columns):
    samples = TwoSamples.checked(P[:, :columns], Q[:, :columns])
    scales = choose_scales(pool_rows(samples, 9, np.random.default_rng(1)))
    assert len(scales) == N_GAUSSIAN + N_LAPLACE * (columns > 2)
    families = [scale.family for scale in scales]
    assert families[-N_GAUSSIAN:] == [GAUSSIAN] * N_GAUSSIAN
    assert set(families[:-N_GAUSSIAN]) == ({LAPLACE} if columns > 2 else set())


@pytest.mark.parametrize("dimension", [3, 9])
@pytest.mark.parametrize("factor", [1.0, 1e7])
def test_squared_exponential_by_definition(dimension, factor):
    """With one lengthscale, and one for each point; also by a matrix product of many columns."""
    points = np.random.default_rng(dimension).normal(size=(20, dimension))
    points[0] *= factor
    shifted, lengthscales = points[:6] + 0.3, np.linspace(0.5, 3.0, 6)
    squares = np.sum((points[:, None] - shifted) ** 2, axis=2)
    for lengthscale in (0.8, lengthscales):
        values = squared_exponential(points, shifted, lengthscale)
        expected = np.exp(-squares / (2.0 * lengthscale**2))
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 9])  # by distances, and by a matrix product
def test_kernel_of_distant_points_is_not_denormal(dimension):
    origin, distant = np.zeros((1, dimension)), np.zeros((3, dimension))
    distant[:, 0] = 1.0, 26.0, 40.0  # exp(-800) is less than the smallest number
    values = squared_exponential(origin, distant, 1.0)[0]
    np.testing.assert_allclose(values, np.exp([-0.5, -338.0, MIN_EXPONENT]), rtol=1e-12)
