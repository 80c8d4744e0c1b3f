"""Permutation schemes draw each rearrangement with the same probability.

Each chi-square test has a fixed seed, 20 000 draws, at least 100 of which are expected for each
rearrangement, and a false-failure rate of 1 in 1000 over seeds.
"""

import itertools

import numpy as np
import pytest
import scipy.stats
from bke.inference.permutation import scheme
from bke.inference.permutation.scheme import PermutationScheme, draw_counts

N_DRAWS = 20_000


def pvalue_of_uniform(draws, rearrangements):
    """Test that the columns of draws (M, B) are uniform on some rearrangements, and no others."""
    counts = dict.fromkeys(map(tuple, rearrangements), 0)
    for draw in draws.T.tolist():
        counts[tuple(draw)] += 1
    assert sum(counts.values()) / len(counts) >= 100
    return scipy.stats.chisquare(list(counts.values())).pvalue


def arrangements(labels):
    return set(itertools.permutations(labels))


LABELS = np.array([1, 0, 0, 1, 0, 1, 0])


@pytest.mark.parametrize(
    ("scheme_of", "expected"),
    [
        (lambda: PermutationScheme.independent(LABELS), arrangements(LABELS.tolist())),
        (lambda: PermutationScheme("samples", 6), [*itertools.product((0, 1), repeat=6)]),
        (lambda: PermutationScheme("pairings", 5), [*itertools.permutations(range(5))]),
        (lambda: PermutationScheme("signs", 6), [*itertools.product((-1, 1), repeat=6)]),
    ],
    ids=["independent", "samples", "pairings", "signs"],
)
def test_rearrangements_are_uniform(scheme_of, expected):
    """All 35 choices of 3 of 7 units, 2^6 swaps of six pairs, 5! orders and 2^6 signs."""
    draws = scheme_of().draw(N_DRAWS, np.random.default_rng(0))
    assert pvalue_of_uniform(draws, expected) > 1e-3


@pytest.mark.parametrize(
    ("scheme", "count"),
    [
        (PermutationScheme.independent(np.arange(31) < 1), 31),
        (PermutationScheme.independent(np.arange(5000) < 1), 5000),
        (PermutationScheme.independent(np.arange(6) < 3), 10),
        (PermutationScheme.independent(LABELS, np.array([5, 2, 5, 2, 5, 2, 2])), 18),
        (PermutationScheme.independent(np.arange(8) % 2, np.arange(8) // 4), 18),
        (PermutationScheme.independent(np.arange(4) % 2, np.arange(4)), 1),
        (PermutationScheme("samples", 6), 2**5),
        (PermutationScheme("signs", 6), 2**5),
        (PermutationScheme("pairings", 5), 120),
    ],
)
def test_number_of_distinct_rearrangements(scheme, count):
    """Labels, swaps and signs that are all exchanged are the same."""
    assert scheme.n_distinct == count


def test_labels_within_strata_are_uniform():
    """All 3 x 6 arrangements of strata of 3 and 4 units, whose units are not adjacent."""
    strata = np.array([5, 2, 5, 2, 5, 2, 2])
    draws = PermutationScheme.independent(LABELS, strata).draw(N_DRAWS, np.random.default_rng(1))
    expected = []
    for first in arrangements(LABELS[strata == 5].tolist()):
        for second in arrangements(LABELS[strata == 2].tolist()):
            arrangement = np.empty(7, dtype=int)
            arrangement[strata == 5], arrangement[strata == 2] = first, second
            expected.append(arrangement.tolist())
    assert len(expected) == 18
    assert pvalue_of_uniform(draws, expected) > 1e-3


@pytest.mark.parametrize("n_strata", [1, 2])
def test_units_in_strata_of_size_1_keep_their_labels(n_strata):
    """Three such units, of both labels, and one or two strata with several units."""
    labels = np.array([1, 0, 1, 0, 1, 0, 1, 0])
    strata = np.array([9, 0, 0, 7, 0, 1, 1, 8])
    if n_strata == 1:
        strata[5:7] = 0
    generator = np.random.default_rng(2)
    draws = PermutationScheme.independent(labels, strata).draw(N_DRAWS, generator)
    is_single = strata >= 7
    assert is_single.sum() == 3
    assert (draws[is_single] == labels[is_single, None]).all()
    parts = [arrangements(labels[strata == stratum].tolist()) for stratum in range(n_strata)]
    free = np.concatenate([np.flatnonzero(strata == stratum) for stratum in range(n_strata)])
    expected = [list(itertools.chain(*choice)) for choice in itertools.product(*parts)]
    assert len(expected) == (10 if n_strata == 1 else 3 * 2)
    assert pvalue_of_uniform(draws[free], expected) > 1e-3


def test_labels_do_not_change_if_all_strata_have_size_1():
    labels = np.array([1, 0, 1, 0])
    draws = PermutationScheme.independent(labels, np.arange(4)).draw(5, np.random.default_rng(3))
    np.testing.assert_array_equal(draws, np.tile(labels[:, None], 5))


@pytest.mark.parametrize("max_labels", [2**28, 0], ids=["labels", "counts"])
def test_drawn_counts_have_the_distribution_of_summed_labels(monkeypatch, max_labels):
    """4 of 9 rows at points of 2, 1, 5 and 1 rows, against the multivariate hypergeometric."""
    monkeypatch.setattr(scheme, "MAX_LABELS", max_labels)
    counts = np.array([2, 1, 5, 1])
    draws = draw_counts(counts, 4, N_DRAWS, np.random.default_rng(7 + (max_labels == 0)))
    assert draws.shape == (4, N_DRAWS)
    distribution = scipy.stats.multivariate_hypergeom(counts, 4)
    states = [
        state
        for state in itertools.product(*(range(count + 1) for count in counts))
        if sum(state) == 4
    ]
    observed = [(draws == np.array(state)[:, None]).all(axis=0).sum() for state in states]
    assert sum(observed) == N_DRAWS
    expected = N_DRAWS * np.array([distribution.pmf(state) for state in states])
    assert expected.min() >= 100
    assert scipy.stats.chisquare(observed, expected).pvalue > 1e-3


def test_drawn_counts_of_different_rows_are_labels():
    """All 10 choices of 2 of 5 rows."""
    draws = draw_counts(np.ones(5, dtype=int), 2, N_DRAWS, np.random.default_rng(9))
    assert pvalue_of_uniform(draws, arrangements([1, 1, 0, 0, 0])) > 1e-3
