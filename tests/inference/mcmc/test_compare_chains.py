"""Comparisons of chains: statistics by loops, level, and the chains and parameters that differ."""

import json

import numpy as np
import pytest
import xarray as xr
from bke.inference import InputError, compare_chains
from bke.inference.core.machine import computing
from bke.inference.mcmc import chain_statistics
from bke.inference.mcmc.batches import Batches, make_batches, normal_scores
from bke.inference.mcmc.chain_statistics import (
    COMPONENTS,
    BatchFeatures,
    batch_features,
    group_statistics,
    permute_labels,
)
from bke.inference.mcmc.compare_chains import _notes
from bke.inference.mcmc.draws import Chains
from scipy.stats import binom

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(24, 3)) ** 3
NORMAL = RNG.normal(size=(2, 50, 2))
BATCHES = Batches(length=4, gap=0, per_chain=3, num_chains=2, autocorrelation_time=1.0)


def test_normal_scores_depend_on_ranks_only():
    scores = normal_scores(ROWS)
    np.testing.assert_array_equal(scores, normal_scores(np.exp(ROWS) * 1e5))
    np.testing.assert_allclose(scores.std(axis=0), 1.0)
    tied = normal_scores(np.array([[0.0], [0.0], [5.0], [7.0]]))
    assert tied[0] == tied[1] < tied[2]


@pytest.mark.parametrize("by_halves", [True, False])
def test_features_are_means_over_batches(by_halves, monkeypatch):
    monkeypatch.setattr(chain_statistics, "BLOCK_ENTRIES", 24 * 10)  # blocks that overlap
    if by_halves:  # few batches are standardized one by one otherwise
        monkeypatch.setattr(chain_statistics, "MIN_HALF_BATCHES", 2)
    with computing():
        features = batch_features(ROWS, BATCHES)
    scores = normal_scores(ROWS)
    batch = scores[8:12]
    hermite = [
        batch,
        (batch**2 - 1.0) / np.sqrt(2.0),
        (batch**3 - 3.0 * batch) / np.sqrt(6.0),
        (batch**4 - 6.0 * batch**2 + 3.0) / np.sqrt(24.0),
    ]
    np.testing.assert_allclose(features.moments[:, 2], np.mean(hermite, axis=1))
    # Batches 0 and 1 are the first half of the first chain, 2 its second.
    moved = (batch - batch.mean(axis=0)) / batch.std(axis=0)
    np.testing.assert_allclose(features.products[2, 1], np.mean(moved[:, 0] * moved[:, 2]))
    first = scores[:8] if by_halves else scores[4:8]
    moved = (scores[4:8] - first.mean(axis=0)) / first.std(axis=0)
    np.testing.assert_allclose(features.products[1, 0], np.mean(moved[:, 0] * moved[:, 1]))
    squared_distances = np.sum((scores[:, None] - scores) ** 2, axis=2)
    median = np.median(np.sqrt(squared_distances[np.triu_indices(24, 1)]))
    kernel = np.exp(-0.5 * squared_distances / (0.5 * median) ** 2)
    for a, b in ((5, 0), (2, 2)):
        expected = kernel[4 * a : 4 * a + 4, 4 * b : 4 * b + 4].mean()
        assert features.grams[1, a, b] == pytest.approx(expected, rel=1e-9)


def test_group_statistics_by_loops():
    """Three groups, and two pairs of them."""
    q = 6
    root = RNG.normal(size=(q, 4))
    features = BatchFeatures(
        RNG.normal(size=(4, q, 2)), RNG.normal(size=(q, 1)), (root @ root.T)[None]
    )
    groups = permute_labels(np.repeat([0, 1, 2], 2)[None], 5, np.random.default_rng(1))
    statistics = group_statistics(features, groups, [(0, 1), (1, 2)])

    def squared_difference(values, first, second):
        return np.sum((values[first].mean(axis=0) - values[second].mean(axis=0)) ** 2)

    for column in (0, 3):
        for index, (a, b) in enumerate([(0, 1), (1, 2)]):
            pair = groups[:, column] == a, groups[:, column] == b
            expected = [
                squared_difference(part, *pair) for part in (*features.moments, features.products)
            ]
            np.testing.assert_allclose(statistics.components[:5, index, column], expected)
    differences = [squared_difference(root, labels == 0, labels == 1) for labels in groups.T]
    np.testing.assert_allclose(statistics.components[5, 0], differences / np.std(differences))


def test_permutations_keep_sizes_and_strata():
    groups = permute_labels(np.repeat([0, 1, 2], 4)[None], 50, np.random.default_rng(2))
    assert (np.sort(groups, axis=0) == np.repeat([0, 1, 2], 4)[:, None]).all()
    assert (groups[:, 0] == np.repeat([0, 1, 2], 4)).all()
    observed = np.array([[0, 0, 1, 1], [2, 2, 3, 3]])
    permuted = permute_labels(observed, 50, np.random.default_rng(3))
    assert (permuted[:, 0] == [0, 0, 1, 1, 2, 2, 3, 3]).all()
    assert (np.sort(permuted[:4], axis=0) == np.array([0, 0, 1, 1])[:, None]).all()
    assert len({tuple(labels) for labels in permuted.T}) > 10


@pytest.mark.slow
@pytest.mark.parametrize("phi", [0.0, 0.7])
def test_level(phi, autoregression):
    """100 sets of four chains in two columns: false failure below 1 in 1000 at a level of 0.06."""
    disagree = 0
    for seed in range(100):
        draws = autoregression(4, 300, phi, seed=seed, columns=2)
        disagree += not compare_chains(draws, n_resamples=99, seed=seed).agree
    assert disagree <= binom.isf(1e-3, 100, 0.06)


def correlated(x, y):
    return 0.7 * x + np.sqrt(0.51) * y


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x, y: y + 1.0, "x1"),
        (lambda x, y: 1.6 * y, "x1"),
        (correlated, "x0 and x1"),
    ],
)
def test_chains_and_parameters_that_differ_are_reported(change, expected, autoregression):
    """One of four chains (seed 1; with seed 0 chains that agree have p = 0.01)."""
    draws = autoregression(4, 1000, 0.5, seed=1, columns=3)
    assert compare_chains(draws).agree
    draws[2, :, 1] = change(draws[2, :, 0], draws[2, :, 1])
    result = compare_chains(draws)
    assert not result.agree
    assert result.clusters == ((0, 1, 3), (2,))
    assert [
        component.name for component in (*result.columns, *result.pairs) if component.differs
    ] == [expected]
    # The smallest value of twice the smaller of two p-values with 999 permutations.
    assert f"{expected} (p ≤ 0.002)" in str(result)
    assert repr(result) == "<comparison of 4 chains: p ≤ 0.002>"
    assert "0, 1, 3 | 2" in str(result)
    if change is correlated:
        assert result.strongest_component == COMPONENTS[4] == "correlations"
        assert result.rhat < 1.01


def test_a_chain_that_drifts(autoregression):
    draws = autoregression(3, 1200, 0.3, columns=2)
    draws[1, 600:, 0] += 0.8
    result = compare_chains(draws)
    assert result.drifting == (1,)
    assert "First and second half differ: chain 1." in str(result)
    assert "of both halves" in result.plot().axes[0].get_ylabel()
    single_chain = compare_chains(draws[1:2], columns=("a", "b"))
    assert (single_chain.agree, single_chain.drifting, single_chain.clusters) == (
        False,
        (0,),
        ((0,),),
    )
    assert np.isnan(single_chain.pvalue_between)
    assert [column.name for column in single_chain.columns if column.differs] == ["a"]
    assert "THE CHAIN DRIFTS" in str(single_chain)
    assert "no drift was found" in str(compare_chains(draws[:1]))


def test_different_means_are_no_different_correlations(autoregression):
    """Two columns of one chain are moved and stretched, together: they are named, no pair is."""
    draws = autoregression(4, 1000, 0.5, seed=1, columns=3)
    draws[2, :, :2] = 1.5 * draws[2, :, :2] + 1.0
    result = compare_chains(draws)
    assert [column.name for column in result.columns if column.differs] == ["x0", "x1"]
    assert not any(pair.differs for pair in result.pairs)


def test_chains_have_their_names_in_the_tree(autoregression):
    draws = autoregression(3, 300, 0.3, columns=2)
    draws[1] += 2.0
    coordinates = {"chain": [1, 2, 7]}
    posterior = xr.Dataset({"x": (("chain", "draw", "label"), draws)}, coords=coordinates)
    result = compare_chains(posterior)
    assert result.clusters == ((1, 7), (2,))
    assert "1, 7 | 2" in str(result)
    ticks = [tick.get_text() for tick in result.plot().axes[0].get_yticklabels()]
    assert ticks == ["1", "2", "7"]


def test_columns_are_of_chains_unless_only_halves_differ(autoregression):
    draws = autoregression(4, 800, 0.3, columns=2)
    assert compare_chains(draws).groups == "chains"
    draws[:, 400:, 0] += 2.0  # equal in all chains
    result = compare_chains(draws, columns=np.array(["a", "b"]))
    assert (result.groups, result.pvalue_between > 0.025) == ("halves", True)
    assert ": THE FIRST AND SECOND HALVES OF THE CHAINS DIFFER (p " in str(result)
    assert "No difference of the chains from each other was found (p = " in str(result)
    assert result.pvalue == 2.0 * result.pvalue_within  # there are two tests
    assert [column.name for column in result.columns if column.differs] == ["a"]


def test_groups_of_chains(autoregression):
    draws = autoregression(6, 600, 0.5, columns=2)
    draws[[1, 4], :, 0] += 4.0
    result = compare_chains(draws)
    assert result.clusters == ((0, 2, 3, 5), (1, 4))
    assert result.to_dict()["clusters"] == ((0, 2, 3, 5), (1, 4))
    json.dumps(result.to_dict(), allow_nan=False)
    json.dumps(compare_chains(draws[:1]).to_dict(), allow_nan=False)
    assert [axes.get_xlabel() for axes in result.plot().axes] == ["x0"]
    # The tails are heavier than those of nearly all permutations, too.
    assert result.strongest_component == "location"
    assert "Strongest component of the test: location." in str(result)


def test_parameters_units_and_shapes_do_not_matter(autoregression):
    draws = autoregression(3, 400, 0.5, columns=2)
    result = compare_chains(draws)
    stretched = compare_chains(np.stack([np.exp(draws[..., 0]), 1e9 * draws[..., 1]], axis=2))
    assert stretched.pvalue_between == pytest.approx(result.pvalue_between, abs=0.1)
    swapped = compare_chains(draws[..., ::-1])
    assert swapped.pvalue == result.pvalue


def test_a_tree_with_parameters_that_do_not_move(autoregression):
    draws = autoregression(3, 200, 0.5, columns=3)
    variables = {
        "mu": (("chain", "draw"), draws[..., 0]),
        "theta": (("chain", "draw", "dim"), draws[..., 1:]),
        "fixed": (("chain", "draw"), np.full((3, 200), 2.0)),
    }
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})
    result = compare_chains(tree)
    assert result.names == ("mu", "theta[0]", "theta[1]")
    assert result.constant_parameters == ("fixed",)
    assert "dropped constant parameters: fixed" in result.notes
    assert result.pvalue == compare_chains(tree["posterior"].to_dataset()).pvalue


def test_the_picture_shows_the_pair_that_is_named(autoregression):
    draws = autoregression(4, 1000, 0.5, seed=1, columns=5)
    draws[2, :, 1] = correlated(draws[2, :, 0], draws[2, :, 1])
    (axes,) = compare_chains(draws).plot().axes
    assert axes.get_xlabel() == "x0 times x1"
    assert axes.get_title(loc="left") == "adjusted p ≤ 0.002"
    # The median of products of correlated normals is larger.
    middle = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    assert int(np.argmax(middle)) == 2


def with_chain(draws, chain, values):
    draws[chain] = values
    return draws


@pytest.mark.parametrize(
    ("draws", "expected"),
    [
        (lambda ar: ar(4, 1000, 0.5, seed=1, columns=3), ""),
        (lambda ar: with_chain(ar(4, 400, 0.5), 3, 9.0), "stuck at one point: chain 3"),
        (
            lambda ar: with_chain(ar(4, 2000, 0.5), 3, ar(1, 2000, 0.95, seed=1)[0]),
            "chain 3 mixes clearly more slowly",
        ),
        (
            lambda ar: with_chain(ar(3, 400, 0.5), 2, ar(3, 400, 0.5)[0]),
            "chains 0, 2 have identical draws, as if from one seed: p-values assume",
        ),
        (lambda ar: ar(4, 100, 0.95), "the chains are short"),
    ],
)
def test_notes(draws, expected, autoregression):
    result = compare_chains(draws(autoregression))
    assert expected in " ".join(result.notes)
    assert bool(result.notes) == bool(expected)
    if "stuck" in expected:
        assert (result.agree, (3,) in result.clusters) == (False, True)
    if "slowly" in expected:
        assert result.autocorrelation_time > 20.0


def test_copies_of_several_chains_are_in_one_note_which_is_the_first():
    draws = np.repeat(RNG.normal(size=(2, 20, 1)), [3, 1], axis=0)
    chains = Chains(draws, ("x",), (0, 1, 2, 3), ordered=True)
    first, *rest = _notes(chains, ("c",), make_batches(draws, ordered=True), 0.05, 1.0)
    assert first.startswith("chains 0, 1, 2 have identical draws")
    assert rest
    assert not any("identical" in note for note in rest)


def test_a_large_rhat_of_chains_of_few_autocorrelation_times_is_no_conflict(autoregression):
    draws = autoregression(4, 100, 0.98)
    notes = _notes(
        Chains(draws, ("x",), (0, 1, 2, 3), ordered=True),
        (),
        make_batches(draws, ordered=True),
        0.05,
        1.21,
    )
    assert "R-hat is 1.21, and the chains are only " in notes[0]
    assert "autocorrelation times long: they have not mixed" in notes[0]


def test_an_insufficient_number_of_permutations_of_half_chains_is_noted(autoregression):
    """Four batches per chain have three distinct divisions into halves."""
    draws = autoregression(4, 100, 0.95, seed=2)
    draws[:, 50:] += 9.0
    result = compare_chains(draws, alpha=0.01)
    assert 0.5 / 81.0 < result.pvalue_within < 2.0 / 81.0  # with 999 permutations
    assert any("only 81 distinct permutations" in note for note in result.notes)
    assert "distinct permutations" not in str(compare_chains(draws, alpha=0.05).notes)


@pytest.mark.parametrize(
    ("draws", "options", "expected"),
    [
        (ROWS, {}, "draws must be chains"),
        (np.ones((2, 50, 2)), {}, "all parameters are constant"),
        (np.full((2, 50, 2), np.nan), {}, "not finite, or beyond 1e.150, in chain 0, draw 0 of x0"),
        (np.ones((70, 50, 2)), {}, "at most 64 chains, got 70"),
        (NORMAL, {"n_resamples": 30}, "cannot reject"),
        (NORMAL, {"alpha": 1.5}, "alpha must be"),
        (NORMAL, {"columns": ("a", "a")}, "names of columns must differ"),
        (NORMAL, {"columns": "ab"}, "columns has 1 name,"),
        (np.full((2, 50, 2), "a"), {}, "must be real numbers"),
        (np.empty((2, 50, 0)), {}, "no parameters"),
        ([[[1, 2], [3]]], {}, "no array of numbers|not an array of numbers"),
        (xr.DataTree(), {}, "no group named posterior"),
        ("run.nc", {}, r"run\.nc: no such file"),
        ({"mu": np.ones((2, 50))}, {}, "is a dictionary: pass arviz_base"),
        ([np.ones((50, 2)), np.ones((40, 2))], {}, "of different lengths: 50, 40"),
        (NORMAL, {"n_resamples": 38}, "is 2/39; take at least 39"),
        (NORMAL, {"score": lambda x: -x}, "the result of score_of"),
    ],
)
def test_invalid_arguments_are_refused(draws, options, expected):
    with pytest.raises(InputError, match=expected):
        compare_chains(draws, **options)


def rarely_switching(rng, chains=4, draws=1000, stay=1.0 - 1.0 / 450.0):
    """Stationary chains, all of one distribution, that change the sign of their mean rarely."""
    flips = np.where(rng.random((chains, draws)) > stay, -1.0, 1.0)
    signs = rng.choice([-1.0, 1.0], size=(chains, 1)) * np.cumprod(flips, axis=1)
    noise = rng.normal(size=(chains, draws)) * 0.6
    for draw in range(1, draws):
        noise[:, draw] += 0.8 * noise[:, draw - 1]
    return (2.0 * signs + noise)[:, :, None]


def test_differing_chains_that_switch_rarely_have_a_note():
    """Seed 0, 20 runs: about a quarter differ, all with a note on R-hat."""
    rng = np.random.default_rng(0)
    results = [compare_chains(rarely_switching(rng), n_resamples=99) for _ in range(20)]
    notes = [str(result.notes) for result in results if not result.agree]
    assert notes
    assert all("too rarely" in note or "short" in note for note in notes)
