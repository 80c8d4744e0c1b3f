"""Very many rows are dealt out in bins: the same sums as by single labels, at the same level."""

import numpy as np
import pytest
from bke.inference import two_sample_test
from bke.inference.evidence import spectrum
from bke.inference.evidence.asked import answered
from bke.inference.evidence.families import GAUSSIAN
from bke.inference.evidence.landmarks import evidence_rows, landmarks
from bke.inference.evidence.places import cells
from bke.inference.evidence.statistic import evidences
from bke.inference.permutation import bins, pooling, relabelled as relabelled_rows
from bke.inference.permutation.bins import bin_size, cut
from bke.inference.permutation.pair import Pair
from bke.inference.permutation.pooling import relabelled
from bke.inference.permutation.relabelled import LabelSums
from bke.inference.permutation.weighted import weighted

QUIET = {"progress": False}


@pytest.fixture
def few(monkeypatch):
    """More than 20 rows are very many."""
    monkeypatch.setattr(pooling, "MOST_SINGLE", 20)
    monkeypatch.setattr(bins, "BINS", 25)
    monkeypatch.setattr(bins, "LEAST_BINS", 5)


def test_groups_are_cut_into_bins_and_a_rest():
    group = np.array([0] * 7 + [1] * 6 + [3] * 2)
    found = cut(group, 3, np.random.default_rng(0).permutation(15))
    np.testing.assert_array_equal(group[found.row][found.of_row], group)
    sizes = np.bincount(found.of_row)
    assert list(sizes) == [3, 3, 1, 3, 3, 2]
    assert list(found.rest) == [False, False, True, False, False, True]
    assert bin_size(524_288, 262_144) == 128
    assert bin_size(100_000, 5_000) == 25  # a hundred bins of the smaller sample
    assert bin_size(400_000, 50) == 1


def test_sums_are_those_of_single_labels(few):
    rng = np.random.default_rng(1)
    rows = relabelled(Pair(*rng.normal(size=(2, 50, 4))), 19, rng)
    assert rows.bins is not None
    assert len(rows.labels) == 26  # of 4 rows, and two rests
    single = rows.relabelled(rows.of_points(slice(None)))
    np.testing.assert_array_equal(single.labels.sum(axis=0), 50)
    assert rows.sizes == (50, 50)
    np.testing.assert_allclose(rows.shares, 0.5)
    found, expected = (evidences(one, cells(one), lambda n: None) for one in (rows, single))
    for one, other in zip(found.each(), expected.each(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9)


def test_of_very_many_rows_a_part_tells_how_features_vary(few):
    """3000 + 3000 rows, of which 2000 tell it: fits are within a few per cent."""
    rng = np.random.default_rng(2)
    rows = relabelled(Pair(*rng.normal(size=(2, 3000, 3))), 19, rng)
    at = spectrum.nodes(rows, 60)
    whole = spectrum.spectrum(rows, at, 1.0)
    part = answered(spectrum.spectra_asked(rows, GAUSSIAN.at(at, 1.0), 2000), rows)[0]
    np.testing.assert_allclose(part.values[-10:], whole.values[-10:], rtol=0.1)
    np.testing.assert_allclose(
        np.square(part.loadings).sum(axis=0), np.square(whole.loadings).sum(axis=0), rtol=1e-9
    )


@pytest.mark.parametrize("size", [7, 4096])  # blocks that cut bins in two, and one block
def test_sums_over_bins_are_sums_over_rows(few, monkeypatch, size):
    monkeypatch.setattr(relabelled_rows, "BINNED", size)
    rng = np.random.default_rng(6)
    rows = relabelled(Pair(*rng.normal(size=(2, 50, 3))), 19, rng).in_bins
    assert (np.diff(rows.bins) >= 0).all()
    features = rng.normal(size=(100, 2))
    sums = LabelSums(rows, 2)
    for block in rows.blocks():
        sums.add(block, features[block])
    expected = features.T @ rows.of_points(slice(None)).astype(float)
    np.testing.assert_allclose(sums.found(), expected, rtol=1e-12)


@pytest.mark.parametrize("full", [0, 20])  # by a sparse matrix, and by a full one
def test_labels_of_cells_are_those_of_their_rows(few, monkeypatch, full):
    monkeypatch.setattr(relabelled_rows, "FULL", full)
    rng = np.random.default_rng(7)
    rows = relabelled(Pair(*rng.normal(size=(2, 50, 3))), 19, rng)
    merged = rows.merged(np.arange(100) % 6)
    single = rows.of_points(slice(None)).astype(int)
    np.testing.assert_array_equal(merged.labels, [single[cell::6].sum(axis=0) for cell in range(6)])
    assert merged.labels.dtype.kind == "i"


def test_measures_tell_what_rows_count_for(few):
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(40, 2)).round(1), rng.normal(size=(60, 2)).round(1)
    weights = rng.uniform(size=40), rng.uniform(size=60)
    for rows in (
        relabelled(Pair(x, y), 19, rng),
        weighted(Pair(x, y), weights, 19, rng),
    ):
        columns, combine = rows.measures
        expected = [rows.counts / rows.rows, rows.weights, rows.squares, rows.expected]
        np.testing.assert_allclose(columns @ combine, np.column_stack(expected), atol=1e-15)


def test_landmarks_are_weighed_by_a_part_of_very_many_rows(few):
    """4000 + 4000 rows, of which 2000 tell C, which hardly changes evidences, by their spread."""
    rng = np.random.default_rng(9)
    rows = relabelled(Pair(*rng.normal(size=(2, 4000, 3))), 199, rng)
    places = landmarks(rows.points, 10, 0)
    whole, part = (evidence_rows(rows, [1.0], places, part=count) for count in (None, 2000))
    assert np.abs(part - whole).max() > 0.0
    assert np.abs(part - whole).std() < 0.1 * whole.std()
    lengths = [2.0, 2.0**0.5, 1.0]  # of which kernels are evaluated together
    alone, together = (evidence_rows(rows, lengths, places, part=count) for count in (None, 8000))
    np.testing.assert_allclose(together, alone, rtol=1e-6)


def test_a_bin_of_one_row_is_none(few):
    rng = np.random.default_rng(5)
    rows = relabelled(Pair(rng.normal(size=(8, 3)), rng.normal(size=(90, 3))), 19, rng)
    assert rows.bins is None
    assert rows.labels.shape == (98, 20)


@pytest.mark.parametrize("digits", [8, 0])
def test_neither_the_order_of_samples_nor_of_rows_matters(few, digits):
    """Nor where rows are tied."""
    rng = np.random.default_rng(3)
    P, Q = rng.normal(size=(45, 3)), rng.normal(0.3, 1.0, size=(70, 3))
    P, Q = P.round(digits), Q.round(digits)
    p = two_sample_test(P, Q, permutations=199, **QUIET).pvalue
    for first, second in ((Q, P), (P[::-1], Q), (P[:, ::-1], Q[:, ::-1]), (2.54 * P, 2.54 * Q)):
        assert two_sample_test(first, second, permutations=199, **QUIET).pvalue == p
    assert 0.004 < p < 1.0


@pytest.mark.slow
def test_the_level_by_bins(few):
    """200 null data sets of 45 + 30 skewed rows, seed 4, 39 permutations, level 0.1.

    Rejections are Binomial(200, 0.1): at most 36 but for 1 in 5000.
    """
    rng = np.random.default_rng(4)
    pvalues = [
        two_sample_test(
            rng.gamma(2.0, size=(45, 3)),
            rng.gamma(2.0, size=(30, 3)),
            permutations=39,
            seed=seed,
            **QUIET,
        ).pvalue
        for seed in range(200)
    ]
    assert np.sum(np.array(pvalues) <= 0.1) <= 36
    assert np.mean(pvalues) > 0.4
