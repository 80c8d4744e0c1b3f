"""A comparison of samples: level, power, and consistency of its parts."""

import json

import numpy as np
import pytest
import scipy.stats
from bke.inference import InputError, compare, two_sample_test
from bke.inference.comparison.regions import find_regions
from bke.inference.statistics.local_differences import LocalStatistics

QUIET = {"progress": False}


def mixture(rng, n, kind):
    """BKE Figure 3: three components of variance 1, normal or Laplace."""
    center = rng.choice([-3.0, 0.0, 3.0], size=n)
    spread = rng.normal(size=n) if kind == "normal" else rng.laplace(scale=0.5**0.5, size=n)
    return center + spread


@pytest.fixture(scope="module")
def built_in():
    rng = np.random.default_rng(0)
    return mixture(rng, 3000, "normal"), mixture(rng, 3000, "laplace")


@pytest.fixture(scope="module")
def result(built_in):
    return compare(*built_in, **QUIET)


def true_ratio(at, scale):
    """E_P k / E_Q k of the mixtures, by integration."""
    x = np.linspace(-12.0, 12.0, 20_001)
    p, q = np.zeros_like(x), np.zeros_like(x)
    for center in (-3.0, 0.0, 3.0):
        p += scipy.stats.norm.pdf(x, center)
        q += scipy.stats.laplace.pdf(x, center, 0.5**0.5)
    k = np.exp(-0.5 * ((x - at) / scale) ** 2)
    return (p @ k) / (q @ k)


@pytest.mark.slow
def test_built_in_pair_differs_where_its_densities_do(result):
    """Seed 0; 3000 rows per sample. The prototype detected all seven regions from 4000 rows."""
    assert result.reject
    assert result.pvalue == 0.001
    assert result.posterior_probability_of_difference > 0.99
    assert len(result.regions) >= 3
    for region in result.regions:
        truth = true_ratio(region.center[0], region.bandwidth[0])
        assert np.sign(truth - 1.0) == region.sign
        assert region.ratio_interval[0] <= truth <= region.ratio_interval[1]
    # The scale of the difference, not of the shape, whose likeliest lengthscale is about 3.
    assert 0.2 < result.lengthscale[0] < 1.2
    low, high = result.lengthscale_interval
    assert low < result.lengthscale < high


def test_shaded_intervals_are_the_reported_regions(result):
    at = np.linspace(-6.0, 6.0, 200)
    signs = result.region_sign(at)
    assert {-1, 1} <= set(signs)
    for region in result.regions:
        assert result.region_sign(region.center)[0] == region.sign
    assert (result.region_sign([40.0, -40.0]) == 0).all()


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.slow
def test_a_sign_is_that_of_the_samples_around_a_point_and_zero_away_from_rows(columns):
    """Densities that fall steeply: the mean weight at a center differs from that at the edges."""
    rng = np.random.default_rng(0)
    P = np.abs(rng.normal(size=(300, columns)))
    Q = np.abs(rng.normal(size=(300, columns))) * 1.5
    result = compare(P, Q, n_resamples=199, **QUIET)
    at = rng.uniform(-3.0, 9.0, size=(2000, columns))
    signs = result.region_sign(at)
    assert {-1, 1} <= set(signs)
    rows = np.concatenate([P, Q])
    for point, sign in zip(at[signs != 0], signs[signs != 0], strict=True):
        # By the scale of a reported window that contains the point.
        covers = (
            np.sum(((point - result.windows.centers) / result.windows.bandwidths) ** 2, axis=1)
            <= 1.0
        )
        covers &= result.windows.signs == sign
        agree = []
        for scale in result.windows.bandwidths[covers]:
            p, q = (
                np.exp(-0.5 * np.sum(((sample - point) / scale) ** 2, axis=1)).mean()
                for sample in (P, Q)
            )
            near = np.min(np.sum(((rows - point) / scale) ** 2, axis=1)) ** 0.5
            agree.append(sign * (p - q) > 0.0 and near <= 0.3)
        assert any(agree)
    outside = (at < rows.min(axis=0) - 0.4 * result.windows.bandwidths.max()).any(axis=1)
    assert outside.any()
    assert not signs[outside].any()
    for region in result.regions:
        assert result.region_sign(region.center[None])[0] == region.sign


def local_ratio(built_in, points, scale):
    """The difference of mean weights of P and Q around points, over its standard error."""
    means, variances = [], []
    for rows in built_in:
        weights = np.exp(-0.5 * ((points[:, None] - rows) / scale) ** 2)
        means.append(weights.mean(axis=1))
        variances.append(weights.var(axis=1) / len(rows))
    return (means[0] - means[1]) / np.sqrt(sum(variances))


def test_intervals_of_a_region_are_where_the_local_ratio_differs_from_unity(built_in, result):
    reach = 0.05 * result.windows.bandwidths.min()
    for region in result.regions:
        assert any(low <= region.center[0] <= high for low, high in region.intervals)
        for low, high in region.intervals:
            inside = np.linspace(low, high, 50)
            assert (result.region_sign(inside) == region.sign).all()
            errors = region.sign * local_ratio(built_in, inside, region.bandwidth[0])
            assert errors.min() > 1.96  # the simultaneous critical value is larger
            beyond = local_ratio(
                built_in, np.array([low - reach, high + reach]), region.bandwidth[0]
            )
            assert (region.sign * beyond < errors.max()).all()
        first = region.intervals[0][0]
        assert f"x in [{first:.3g}"[:9] in str(result)


@pytest.mark.slow
def test_intervals_have_the_order_of_the_densities():
    """Normal densities, one of which is wider, seeds 0 to 7."""
    wrong = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        result = compare(rng.normal(size=1000), rng.normal(scale=1.5, size=1000), **QUIET)
        for region in result.regions:
            for low, high in region.intervals:
                at = np.linspace(low, high, 200)
                densities = [scipy.stats.norm.pdf(at, scale=scale) for scale in (1.0, 1.5)]
                wrong.append(np.mean(np.sign(densities[0] - densities[1]) != region.sign))
    assert np.mean(wrong) < 0.05


def test_no_difference_is_reported_between_distant_rows():
    rng = np.random.default_rng(0)
    result = compare(rng.normal(size=200), 1000.0 + rng.normal(size=200), n_resamples=199, **QUIET)
    np.testing.assert_array_equal(result.region_sign([0.0, 400.0, 1000.0]), [1, 0, -1])


def test_text_and_json_agree(result):
    report = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert report["reject"] is True
    assert report["pvalue"] == result.pvalue
    assert [region["center"] for region in report["regions"]] == [
        region.center.tolist() for region in result.regions
    ]
    first = str(result).splitlines()[0]
    assert first == report["sentence"]
    assert "differ (permutation test: p ≤ 0.001" in first
    assert str(result).count(" at the peak, ") == len(result.regions)
    assert repr(result).startswith("<Comparison: differ, p ≤ 0.001")


@pytest.mark.slow
def test_samples_have_their_names_in_reports(built_in):
    P, Q = (sample[:300] for sample in built_in)
    different = compare(P, Q + 2.0, n_resamples=99, names=("June", "July"), **QUIET)
    similar = compare(P, P[::-1] + 0.01, n_resamples=99, names=("June", "July"), **QUIET)
    for result in (different, similar):
        text = str(result)
        assert "June" in text
        assert " P " not in text
        assert " Q " not in text
        assert result.to_dict()["names"] == ["June", "July"]
        for wanted in ("June (300 rows; ticks below)", "July (300 rows; ticks above)"):
            assert wanted in [text.get_text() for text in result.plot().legends[0].get_texts()]
    assert "June and July differ" in str(different)
    for wrong in (("a", "a"), ("", "b"), "PQ", ("a", "b", "c")):
        with pytest.raises(InputError, match="names must"):
            compare(P, Q, names=wrong, **QUIET)


def test_without_a_difference_no_region_is_reported():
    """12 pairs of 2 x 60 normal rows, 99 permutations, level 0.1, seeds 0 to 11.

    Of 12 exact tests 5 or more reject by chance with probability 0.004.
    """
    rejected = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        result = compare(
            rng.normal(size=60), rng.normal(size=60), n_resamples=99, alpha=0.1, **QUIET
        )
        rejected += result.reject
        if not result.reject:
            assert result.regions == ()
            assert not result.region_sign(np.linspace(-3, 3, 50)).any()
            assert "No difference between P and Q was found" in str(result)
            assert "density in" not in str(result)
    assert rejected <= 4


@pytest.mark.slow
def test_order_of_rows_does_not_matter_and_swapped_samples_change_only_signs(built_in):
    P, Q = built_in[0][:400], built_in[1][:360]
    original = compare(P, Q, n_resamples=199, **QUIET)
    assert compare(P[::-1], Q[::-1], n_resamples=199, **QUIET).to_dict() == original.to_dict()
    swapped = compare(Q, P, n_resamples=199, **QUIET)
    assert swapped.pvalue == original.pvalue
    assert swapped.log_bayes_factor == pytest.approx(original.log_bayes_factor)
    assert swapped.auc == pytest.approx(original.auc, rel=1e-9)
    assert swapped.auc_interval == pytest.approx(original.auc_interval, rel=1e-9)
    assert [-region.sign for region in swapped.regions] == [
        region.sign for region in original.regions
    ]


def test_units_of_columns_do_not_matter(built_in):
    P, Q = (sample[:400] for sample in built_in)
    original = compare(P, Q, n_resamples=99, **QUIET)
    rescaled = compare(1e6 * P + 3e7, 1e6 * Q + 3e7, n_resamples=99, **QUIET)
    assert rescaled.log_bayes_factor == pytest.approx(original.log_bayes_factor, rel=1e-5)
    np.testing.assert_allclose(rescaled.lengthscale, 1e6 * original.lengthscale, rtol=1e-5)


def test_prob_mmd2_exceeds_decreases_with_delta(result):
    chances = [result.prob_mmd2_exceeds(delta) for delta in (1e-5, 1e-3, 3e-3, 1e-1)]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0.99
    assert chances[-1] < 0.01
    with pytest.raises(InputError, match="delta"):
        result.prob_mmd2_exceeds(0.0)


def test_bands_of_the_witness_contain_the_truth(result):
    at = np.linspace(-6.0, 6.0, 25)
    scale = 0.5
    bands = result.witness(at, scale=scale)
    x = np.linspace(-14.0, 14.0, 20_001)
    p, q = np.zeros_like(x), np.zeros_like(x)
    for center in (-3.0, 0.0, 3.0):
        p += scipy.stats.norm.pdf(x, center) / 3
        q += scipy.stats.laplace.pdf(x, center, 0.5**0.5) / 3
    truth = np.exp(-0.5 * ((at[:, None] - x) / scale) ** 2) @ (p - q) * (x[1] - x[0])
    assert ((bands.wide_lower <= truth) & (truth <= bands.wide_upper)).all()
    assert np.mean((bands.lower <= truth) & (truth <= bands.upper)) > 0.5
    assert np.corrcoef(bands.mean, truth)[0, 1] > 0.9


def windows_at(at, scale, t):
    """Return windows of one column with the given t, equal otherwise, for the observed labels."""
    at, t = np.array(at, dtype=float), np.array(t, dtype=float)
    half = np.full((len(t), 2), 0.5)
    scale = np.broadcast_to(np.asarray(scale, float), at.shape)
    nulls = np.tile([0.1, -0.1], (len(t), 30))
    return LocalStatistics(at[:, None], scale[:, None], np.concatenate([t[:, None], nulls], axis=1),
                 half, 0.01 * half, np.zeros(len(at)))  # fmt: skip


def regions_of(centers, scale, t, *, reject=True):
    return find_regions(windows_at(centers, scale, t), np.ones(1), 0.05, reject=reject)


TWO_SCALES = [0.0, 0.0, 0.5], [2.0, 0.1, 2.0], [-9.0, 6.0, -5.0]
TWO_SHOULDERS = [0.0, -3.0, 3.0, 0.0], [5.0, 0.5, 0.5, 1.0], [9.0, 8.0, 7.0, -6.0]


@pytest.mark.parametrize(
    ("windows", "expected", "signs"),
    [
        # Neighbors of one sign are one region, and the stronger sign wins: 0.5 is in the windows
        # of 9, of 5 and of 4; 1.0 in those of 5, 4 and, stronger, of -6.
        (
            ([0.0, 0.5, 0.9, 1.2, 5.0], 0.6, [9.0, 5.0, 4.0, -6.0, 7.0]),
            [(0, 1), (5, 1), (1.2, -1)],
            {0.5: 1, 1.0: -1, 5.5: 1, 3.0: 0},
        ),
        # A narrow region within a wide one of the other sign keeps its own.
        (
            ([0.0, -1.5, -0.3, 0.2], [2.2, 0.4, 2.2, 2.0], [9.0, -5.0, 8.0, 7.0]),
            [(0, 1), (-1.5, -1)],
            {-1.5: -1, -1.2: -1, -1.0: 1, 0.0: 1, 2.0: 1, 2.3: 0},
        ),
        (TWO_SCALES, [(0, 1), (0.5, -1)], {0.0: 1, 0.05: 1, 0.5: -1, -1.0: -1, 1.0: -1}),
        (([0.0, 0.0], [2.0, 0.1], [-9.0, 6.0]), [(0, 1)], {0.0: 1}),
        (TWO_SHOULDERS, [(-3, 1), (3, 1), (0, -1)], {-3.0: 1, 3.0: 1}),
    ],
)
def test_regions_and_signs_of_windows(windows, expected, signs):
    result = regions_of(*windows)
    assert [(region.center[0], region.sign) for region in result.regions] == expected
    at = np.array(list(signs))[:, None]
    np.testing.assert_array_equal(result.window_sign(at), list(signs.values()))
    assert regions_of(*windows, reject=False).regions == ()


def test_signs_are_those_of_named_regions():
    # No window covers the other shoulder of the wide one: it is not reported, nor shaded.
    shoulders = regions_of(*TWO_SCALES).region_sign(np.array([[-1.0], [1.0]]))
    np.testing.assert_array_equal(shoulders, [0, -1])
    # All intervals that a wide window connects are reported.
    assert regions_of(*TWO_SHOULDERS).region_sign(np.linspace(-4.9, 4.9, 50)[:, None]).all()


def test_ratio_whose_denominator_may_be_zero_has_no_upper_limit():
    windows = windows_at([0.0], 1.0, [9.0])
    means, errors = np.array([[0.5, 0.001]]), np.array([[0.01, 0.001]])
    sparse = LocalStatistics(windows.centers, windows.scales, windows.t, means, errors, np.zeros(1))
    (region,) = find_regions(sparse, np.ones(1), 0.05, reject=True).regions
    low, high = region.ratio_interval
    assert region.ratio == 500.0
    assert 1.0 < low < 500.0
    assert high == np.inf or high > 500.0
    assert region.to_dict()["ratio_interval"][1] in (None, high)


@pytest.mark.slow
def test_a_column_that_is_constant_in_both_samples_does_not_change_the_result(built_in):
    P, Q = (sample[:150] for sample in built_in)
    rng = np.random.default_rng(9)
    second = rng.normal(size=(2, 150))
    pairs = [np.column_stack([Z, column]) for Z, column in zip((P, Q), second, strict=True)]
    wide = [np.insert(Z, 1, 7.0, axis=1) for Z in pairs]
    original, result = (compare(*both, n_resamples=99, **QUIET) for both in (pairs, wide))
    assert result.pvalue == original.pvalue
    assert result.log_bayes_factor == pytest.approx(original.log_bayes_factor)
    assert result.columns == ("x0", "x2")
    assert result.to_dict()["left_out"] == ["x1"]
    assert "Dropped constant columns: x1." in str(result)


@pytest.mark.parametrize(
    ("P", "Q", "options", "n_permutations"),
    [
        (np.arange(3.0), np.arange(3.0) + 9.0, {}, 10),
        (np.arange(4.0), np.arange(4.0) + 9.0, {"paired": True}, 8),
        (np.arange(3.0), np.arange(2.0) + 9.0, {"weights": ([1.0, 1.1, 1.0], None)}, 16),
        (np.arange(4.0), np.arange(4.0) + 9.0, {}, None),
    ],
)
def test_samples_too_small_to_reject_are_noted(P, Q, options, n_permutations):
    result = compare(P, Q, n_resamples=99, **options, **QUIET)
    notes = (
        []
        if n_permutations is None
        else [f"so few rows can be permuted in {n_permutations} ways only"]
    )
    assert [note.partition(":")[0] for note in result.notes] == notes
    assert result.to_dict()["notes"] == list(result.notes)
    assert str(result).count("Note: so few rows") == len(notes)
    if not options:
        assert two_sample_test(P, Q, n_resamples=99, **QUIET).notes == result.notes


@pytest.mark.parametrize("paired", [False, True])
def test_bands_show_sampling_errors_if_the_bayes_factor_is_small(paired):
    """2000 draws: deviations within 12 % (5 standard errors) of those of two means.

    Two rows more than each has are 2 % of that.
    """
    rng = np.random.default_rng(5)
    P, Q = rng.normal(size=(2, 50))
    at = np.array([-1.0, 0.5])
    result = compare(P, Q, paired=paired, n_resamples=99, **QUIET)
    assert result.log_bayes_factor < 3.0
    bands = result.witness(at, scale=0.8)
    assert not bands.posterior
    k = [np.exp(-0.5 * ((sample[:, None] - at) / 0.8) ** 2) for sample in (P, Q)]
    np.testing.assert_allclose(bands.mean, k[0].mean(axis=0) - k[1].mean(axis=0), atol=0.01)
    variance = (k[0] - k[1]).var(axis=0) if paired else k[0].var(axis=0) + k[1].var(axis=0)
    deviation = (bands.upper - bands.lower) / (2 * scipy.stats.norm.isf(0.1))
    np.testing.assert_allclose(deviation, (variance / 50) ** 0.5, rtol=0.12)
    assert result.witness(at, scale=0.8, of="posterior").posterior
    labels = [text.get_text() for text in result.plot().legends[0].get_texts()]
    assert sum("band of sampling errors" in label for label in labels) == 2
    with pytest.raises(InputError, match="'posterior' or 'sampling', got 'both'"):
        result.witness(at, of="both")


@pytest.mark.slow
def test_the_only_column_that_differs_is_reported():
    """A window of all columns around the region would be less significant."""
    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(2, 400, 6))
    Q[:, 3] += 0.8
    result = compare(P, Q, n_resamples=199, **QUIET)
    assert {tuple(region.columns) for region in result.regions} == {(3,)}
    assert np.isinf(np.delete(result.regions[0].bandwidth, 3)).all()
    assert result.to_dict()["regions"][0]["bandwidth"][0] is None
    assert "x3" in str(result)
    assert {region.sign for region in result.regions} == {-1, 1}
    Q = rng.normal(size=(400, 6))
    P[:, 0] = 0.9 * P[:, 1] + 0.4 * P[:, 0]  # the columns alone are normal in both
    P[:, 0] /= P[:, 0].std()
    result = compare(P, Q, n_resamples=199, **QUIET)
    assert result.reject
    assert all(len(region.columns) == 6 for region in result.regions)


def test_regions_end_where_rows_do():
    rng = np.random.default_rng(0)
    P, Q = rng.exponential(size=400), rng.exponential(1.6, size=400)
    result = compare(P, Q, n_resamples=199, **QUIET)
    rows = np.concatenate([P, Q])
    ends = np.array([interval for region in result.regions for interval in region.intervals])
    assert rows.min() <= ends.min()
    assert ends.max() <= rows.max()
