"""Two-sample tests: exactness by construction, levels, power, bad input."""

import dataclasses

import jax
import numpy as np
import pytest
import scipy.stats
from bke.inference import InputError, compare, learn_kernel, two_sample_test
from bke.inference.core.machine import computing
from bke.inference.data.canonical import canonical_order, generator, random_part
from bke.inference.learning.kernel_selection import (
    KERNEL_NAMES,
    LEARNED_ROWS,
    median_kernel,
    select_kernels,
)
from bke.inference.permutation.pool import pool_pairs, pool_rows
from bke.inference.permutation.pooled_sample import PooledSample, Request
from bke.inference.permutation.samples import TwoSamples
from bke.inference.statistics.base import Statistic
from bke.inference.statistics.combined import CombinedStatistic
from bke.inference.testing.nulls import MMD_ESTIMATORS, NullChoice
from bke.inference.testing.two_sample import TwoSampleTest
from bke.models import (
    Distance,
    GaussianMixture,
    Matern,
    Polynomial,
    SpectralMixture,
    SquaredExponential,
    log_marginal_likelihood,
    squared_mmd,
)

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(25, 2)), RNG.normal(size=(20, 2)) * [1.0, 2.5]
QUIET = {"progress": False}
OPTIONS = {
    "combined": {"statistic": "combined"},
    "bayes_factor": {"statistic": "bayes_factor"},
    **{name: {"kernel": name} for name in KERNEL_NAMES},
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("statistic", "kernel"),
    [
        ("bayes_factor", None),
        *(("mmd", kernel) for kernel in (*KERNEL_NAMES, Matern(1.5, 0.7))),
    ],
    ids=str,
)
def test_a_permutation_of_the_labels_permutes_the_statistics(statistic, kernel, permute_labels):
    """The level is exact as nothing else depends on the index of the observed labels."""
    points = np.concatenate([P, Q])
    points = points[canonical_order(points)]
    labels = permute_labels((25, 20), 40, np.random.default_rng(1)).astype(np.int8)
    moved = np.random.default_rng(2).permutation(41)
    counts, scale = np.ones(len(points), dtype=int), np.ones(points.shape[1])
    with computing():
        null = NullChoice.checked("permutation", None, MMD_ESTIMATORS, 40, 0.05, None)
        test = TwoSampleTest(kernel, "column", statistic, null, 0, False)
        compute = test.mmd_test if statistic == "mmd" else test.bayes_factor_test
        results = [
            compute(PooledSample(points, counts, permuted, scale), points)
            for permuted in (labels, labels[:, moved])
        ]
        row, other = (np.append(result.statistic, result.null_distribution) for result in results)
    assert len(np.unique(row)) > 20
    np.testing.assert_allclose(other, row[moved], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("dimension", [1, 2, 4, 70])
def test_a_permutation_of_the_labels_permutes_all_components(dimension):
    """Fewer columns than 64 and more, independent rows and pairs."""
    rng = np.random.default_rng(dimension)
    samples = TwoSamples(*rng.normal(size=(2, 30, dimension)).round(1))
    for pool in (pool_rows, pool_pairs):
        sample = pool(samples, 40, np.random.default_rng(1))
        order = np.random.default_rng(2).permutation(41)
        components, permuted = (
            CombinedStatistic.evaluate(permuted_sample).components()
            for permuted_sample in (sample, sample.with_labels(sample.labels[:, order]))
        )
        for row, other in zip(components, permuted, strict=True):
            np.testing.assert_allclose(other, row[order], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("paired", [False, True])
def test_the_test_and_the_comparison_have_the_same_p_value(paired):
    """The p-values agree to the last digit, also with a constant column."""
    rng = np.random.default_rng(4)
    P, Q = rng.normal(size=(40, 3)), rng.normal(0.3, 1.0, size=(40, 3))
    P[:, 1] = Q[:, 1] = 7.0
    options = {"seed": 3, **QUIET}
    result = two_sample_test(P, Q, paired=paired, n_resamples=199, **options)
    answer = compare(P, Q, paired=paired, n_resamples=199, **options)
    assert (result.pvalue, result.pvalue_error) == (answer.pvalue, answer.pvalue_error)
    assert [part.name for part in result.components] == [part.name for part in answer.components]
    strongest = f"Strongest component of the test: difference {answer.components[0].name} (p"
    assert strongest in str(answer) or not answer.reject
    assert np.shape(result.kernel.lengthscale) == (3,)
    assert any("column 2" in note for note in result.notes)


@pytest.mark.parametrize("paired", [False, True])
def test_labels_and_swapped_labels_have_the_same_statistic(paired):
    """3 + 3 rows have 10 statistics, 4 pairs 8, for all draws; p is no smaller."""
    rng = np.random.default_rng(0)
    size = 4 if paired else 3
    P, Q = 0.1 * rng.normal(size=(2, size, 1)) + [[[0.0]], [[5.0]]]
    n_permutations = TwoSamples(P, Q).n_permutations(paired=paired)
    for seed in range(3):
        result = two_sample_test(P, Q, paired=paired, seed=seed, **QUIET)
        assert (
            len(np.unique(np.append(result.null_distribution, result.statistic).round(6)))
            <= n_permutations
        )
        assert result.pvalue > 0.5 / n_permutations
        assert f"in {n_permutations} ways only" in str(result)


def test_rounding_does_not_change_the_p_value():
    """A balanced column of 0 and 1: both variances are equal for all permuted labels."""
    P, Q = np.repeat([0.0, 1.0], [28, 22]), np.repeat([0.0, 1.0], [22, 28])
    result = two_sample_test(P, Q, **QUIET)
    other = two_sample_test(7.3 * P + 11.0, 7.3 * Q + 11.0, **QUIET)
    assert result.pvalue == other.pvalue
    deviations = {part.name: part.deviation for part in other.components}
    assert deviations["in the distance of covariances"] == 0.0
    assert deviations["in the dimensions of covariances"] == 0.0


@pytest.mark.slow
def test_samples_and_columns_of_equal_marginals_may_be_swapped():
    """One sample is the other in another unit; columns have the same values in another order."""
    rng = np.random.default_rng(1)
    options = {"n_resamples": 199, **QUIET}
    P = rng.normal(size=(12, 2))
    for Q in (1.7 * P, P + 0.8):
        original, swapped = (two_sample_test(*both, **options) for both in ((P, Q), (Q, P)))
        assert original.pvalue == swapped.pvalue
    ranks = np.stack([rng.permutation(60) for _ in range(3)], axis=1).astype(float)
    pvalues = {
        two_sample_test(ranks[:30, order], ranks[30:, order], **options).pvalue
        for order in ([0, 1, 2], [2, 0, 1], [1, 0, 2])
    }
    assert len(pvalues) == 1


def test_without_standardization_the_scale_is_that_of_all_columns():
    """Local differences also use scales of the data."""
    rng = np.random.default_rng(2)
    P, Q = rng.normal(size=(60, 2)) * [1.0, 3.0], rng.normal(0.4, 1.0, size=(60, 2)) * [1.0, 3.0]
    pooled = two_sample_test(P, Q, standardize="pooled", n_resamples=199, **QUIET)
    for unit in (1.0, 1e4, 1e-4):
        result = two_sample_test(unit * P, unit * Q, standardize=None, n_resamples=199, **QUIET)
        assert result.pvalue == pooled.pvalue
    assert result.kernel.lengthscale == pytest.approx(1e-4 * pooled.kernel.lengthscale)


def test_default_statistic():
    options = {"n_resamples": 19, **QUIET}

    def pvalue(**arguments):
        result = two_sample_test(P, Q, **arguments, **options)
        return result.statistic, result.pvalue, result.method

    assert pvalue() == pvalue(statistic="combined")
    assert pvalue(kernel="median") == pvalue(statistic="mmd", kernel="median")
    assert pvalue(statistic="mmd") == pvalue(kernel="multiscale")
    assert pvalue(statistic="mmd") != pvalue()
    assert pvalue()[2] == "19 permutations, combined statistic"
    assert pvalue(statistic="bayes_factor")[2] == "19 permutations, Bayes factor"
    assert pvalue(kernel="median")[2] == "19 permutations, median"


@pytest.mark.slow
def test_bkl_is_the_kernel_that_is_learned():
    """It is the higher of two modes, from fewer starts, in the units of the data."""
    rng = np.random.default_rng(4)
    points = 50.0 * (0.3 * rng.normal(size=(60, 1)) + 3.0 * rng.integers(3, size=(60, 1)))
    points = points[canonical_order(points)]
    learned = learn_kernel(points, progress=False)
    assert len(learned.peaks) > 1
    (kernel,) = select_kernels("bkl", points, "column", 0)
    assert kernel.lengthscale == pytest.approx(learned.kernel.lengthscale, rel=1e-3)


@pytest.mark.slow
def test_the_highest_mode_is_determined_from_all_rows():
    """As in BKE Figure 2, half of the rows stretched: 500 of 1800 prefer the scale of the grid."""
    rng = np.random.default_rng(30)
    points = 14.1 * rng.integers(3, size=(1800, 2)) + rng.normal(size=(1800, 2))
    points[900:, 0] += np.sqrt(2.0) * rng.normal(size=900)
    points = points[canonical_order(points)]
    part = random_part(points, LEARNED_ROWS, 0)
    for rows, near in ((part, 17.0), (points, 1.5)):
        (kernel,) = select_kernels("bkl", rows, "pooled", 0)
        assert kernel.lengthscale == pytest.approx(near, rel=0.2)
    with jax.enable_x64(True):
        short, long = (
            float(log_marginal_likelihood(points, SquaredExponential(scale)))
            for scale in (kernel.lengthscale, 17.0)
        )
    assert short > long + 10.0


@pytest.mark.slow
def test_rounding_that_only_large_samples_show():
    """Neighbors that balance in all rows only: the kernel is the one learned from all of them."""
    values = np.repeat(np.add.outer([0.0, 5.0, 10.0], [0.0, 0.1, 0.2]).ravel(), 60)[:, None]
    learned = learn_kernel(values, progress=False).kernel.lengthscale
    (kernel,) = select_kernels("bkl", values, "column", 0)
    assert kernel.lengthscale == pytest.approx(learned, rel=0.3)


def test_samples_that_are_rounded_differently():
    rng = np.random.default_rng(12)
    first, second = rng.normal(36.8, 0.4, size=(2, 300))
    note = "column 1 has at most 1 decimal in P and more in Q: round both alike"
    options = {"kernel": SquaredExponential(0.01), **QUIET}
    assert note in str(two_sample_test(first.round(1), second.round(2), **options))
    assert "decimal" not in str(two_sample_test(first.round(1), second.round(1) + 1.0, **options))
    both = np.column_stack([first, first.round(1)]), np.column_stack([second, second.round(2)])
    assert "column 2 has at most 1 decimal in P" in str(two_sample_test(*both, **options))
    lattices = first.round(1) * 0.3048, second.round(2) * 0.3048
    note = "one sample is rounded to 0.0305 and the other to 0.00305"
    assert note in str(two_sample_test(*lattices, **options))


@pytest.mark.slow
@pytest.mark.parametrize("choice", OPTIONS)
def test_the_kernel_does_not_depend_on_labels_or_the_order_of_rows(choice):
    """Any other split of the pooled sample: the same kernels. Any other order: the same p-value."""
    rng = np.random.default_rng(3)
    pooled = rng.gamma(2.0, size=(LEARNED_ROWS + 20, 1))  # more than are learned from
    options = {**OPTIONS[choice], "n_resamples": 19, **QUIET}
    result = two_sample_test(pooled[:300], pooled[300:], **options)
    shuffled = two_sample_test(pooled[299::-1], pooled[:299:-1], **options)
    assert shuffled.pvalue == result.pvalue
    assert shuffled.statistic == pytest.approx(result.statistic, rel=1e-9)
    again = rng.permutation(pooled)
    other = two_sample_test(again[:300], again[300:], **options)
    assert {part.name for part in other.components} == {part.name for part in result.components}
    if choice not in ("combined", "multiscale", "bayes_factor"):
        np.testing.assert_array_equal(other.kernel.lengthscale, result.kernel.lengthscale)


@pytest.mark.slow
def test_the_average_of_the_statistics_is_the_statistic_of_the_average():
    """KER-12: for the kernel averaged over posterior draws."""
    points = np.concatenate([P, Q])
    (kernel,) = select_kernels("posterior", points[canonical_order(points)], "column", 0)
    assert isinstance(kernel, GaussianMixture)
    lengthscales = np.asarray(kernel.lengthscale)
    assert len(np.unique(lengthscales, axis=0)) > 30
    statistics = [
        float(squared_mmd(P, Q, SquaredExponential(lengthscale), estimator="biased"))
        for lengthscale in lengthscales
    ]
    average = squared_mmd(P, Q, kernel, estimator="biased")
    assert np.mean(statistics) == pytest.approx(float(average), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["median", "bayes_factor", "combined"])
def test_the_level(choice):
    """300 null data sets of 12 + 9 rows, seed 4, 39 permutations, level 0.1 (exact: 4 of 40).

    Rejections are Binomial(300, 0.1): at most 50 but for 1 in 7000. Combined
    statistic: 100 data sets, at most 23 but for 1 in 25 000.
    """
    rng = np.random.default_rng(4)
    pvalues = np.array(
        [
            two_sample_test(
                rng.gamma(2.0, size=(12, 1)),
                rng.gamma(2.0, size=(9, 1)),
                **OPTIONS[choice],
                n_resamples=39,
                alpha=0.1,
                seed=seed,
                **QUIET,
            ).pvalue
            for seed in range(300 if choice in ("median", "bayes_factor") else 100)
        ]
    )
    most = 50 if len(pvalues) == 300 else 23
    assert np.sum(pvalues <= 0.1) <= most
    assert np.mean(pvalues) > 0.4
    assert pvalues.min() >= 1 / 40


@pytest.mark.parametrize("shift", [0.0, 40.0])
def test_the_e_value_is_the_bayes_factor_over_the_mean_of_all(shift):
    """Averaged over all permuted labels as the observed ones, it is 1."""
    result = two_sample_test(P, Q + shift, statistic="bayes_factor", n_resamples=19, **QUIET)
    row = np.append(result.statistic, result.null_distribution)
    expected = np.exp(row[0] - row.max()) / np.mean(np.exp(row - row.max()))
    assert result.e_value == pytest.approx(expected)


def test_permutations_differ_between_samples_of_equal_size():
    """A common set of permutations for all samples would have a fixed error of the level."""
    points = RNG.normal(size=(9, 2))
    other = points + 1e-4 * RNG.normal(size=(9, 2))
    draws = [generator(0, Z).integers(10**9) for Z in (points, points[::-1], other)]
    assert draws[0] == draws[1] != draws[2]
    assert generator(1, points).integers(10**9) != draws[0]
    zeros = np.zeros((3, 1))
    assert generator(0, zeros).integers(10**9) == generator(0, -zeros).integers(10**9)


@pytest.mark.parametrize("choice", OPTIONS)
def test_a_difference_is_detected_and_reported(choice):
    result = two_sample_test(P, Q + 2.0, **OPTIONS[choice], n_resamples=199, **QUIET)
    assert result.pvalue <= 3 / 200
    assert result.reject
    assert len(result.null_distribution) == 199
    text = str(result)
    sign = "≤" if result.pvalue == 0.005 else "="  # at the floor of 199 permutations
    assert f"P and Q differ at level 0.05 (p {sign} {result.pvalue:.3g}" in text
    assert result.plot().axes[0].get_xlabel() == result.statistic_label
    if result.interval is not None:
        low, high = result.interval
        value = float(squared_mmd(P, Q + 2.0, result.kernel))
        assert low < value < high


def test_pairs():
    """A small shift within strongly dependent pairs, which an unpaired test does not detect."""
    rng = np.random.default_rng(5)
    base = 10.0 * rng.normal(size=60)
    first, second = base, base + 0.5 + 0.1 * rng.normal(size=60)
    kernel = SquaredExponential(10.0)
    paired = two_sample_test(first, second, kernel=kernel, paired=True, **QUIET)
    unpaired = two_sample_test(first, second, kernel=kernel, **QUIET)
    assert paired.pvalue < 0.01
    assert unpaired.pvalue > 0.2
    with pytest.raises(InputError, match="samples of one size"):
        two_sample_test(first, second[:50], paired=True, **QUIET)


def test_the_median_heuristic():
    """One version of two (E16): the median distance of different rows, exp(-d^2 / (2 s^2))."""
    points = np.array([[0.0], [1.0], [3.0], [3.0]])
    kernel = median_kernel(points, None, 0)
    assert kernel.lengthscale == pytest.approx(np.median([1, 3, 3, 2, 2]))
    scaled = median_kernel(points * [[1.0, 10.0]], "column", 0)
    assert scaled.lengthscale[1] / scaled.lengthscale[0] == pytest.approx(10.0)


@pytest.mark.parametrize("choice", ["combined", "bayes_factor", "bkl", "median"])
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.one_in(4)
def test_order_of_samples_rows_and_columns_and_units_do_not_matter(choice, paired):
    paired = paired and choice != "bayes_factor"
    rng = np.random.default_rng(21)
    P, Q = rng.normal(size=(40, 2)), rng.normal(0.3, 1.2, size=(40 if paired else 55, 2))
    P[:, 1], Q[:5] = P[:, 1].round(1), P[:5]  # ties, and rows that are in both
    options = {**OPTIONS[choice], "paired": paired, "n_resamples": 199, "progress": False}
    p = two_sample_test(P, Q, **options).pvalue
    order = rng.permutation(40)
    variants = [
        (Q, P),
        (P[order], Q[order] if paired else Q),
        (P[:, ::-1], Q[:, ::-1]),
        (2.54 * P + 7.0, 2.54 * Q + 7.0),
    ]
    for first, second in variants:
        assert two_sample_test(first, second, **options).pvalue == pytest.approx(p, abs=1e-12)
    assert 0.005 < p < 1.0


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("choice", ["combined", "bayes_factor"])
@pytest.mark.slow
def test_the_seed_changes_only_permutations(choice):
    """The statistic is the same for any seed, and p varies as 999 permutations make it.

    24 seeds; a ratio of variances beyond 1.9 has a chance of 0.01 (chi-square, 23 degrees).
    """
    rng = np.random.default_rng(22)
    P, Q = rng.normal(size=(60, 2)), rng.normal(0.2, 1.0, size=(60, 2))
    results = [
        two_sample_test(P, Q, **OPTIONS[choice], seed=seed, progress=False) for seed in range(24)
    ]
    p = np.array([result.pvalue for result in results])
    assert p.var(ddof=1) < 1.9 * p.mean() * (1.0 - p.mean()) / 999
    if choice == "bayes_factor":
        assert np.ptp([result.statistic for result in results]) < 1e-9


def test_kernels_that_are_not_characteristic():
    blind = two_sample_test(P, Q, kernel=Polynomial(2), n_resamples=99, **QUIET)
    assert any("Polynomial is not characteristic" in note for note in blind.notes)
    assert not two_sample_test(P, Q, kernel=Distance(), n_resamples=99, **QUIET).notes
    assert SpectralMixture(1.0, 0.1).characteristic
    assert (Matern(0.5) + SquaredExponential(1.0)).characteristic
    assert (2.0 * Matern(0.5) * SquaredExponential(1.0)).characteristic


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_resamples": 9}, "9 permutations cannot reject at level 0.05"),
        ({"n_resamples": 0}, "n_resamples must be at least 1"),
        ({"alpha": 0.0}, "alpha must be a number between 0 and 0.5"),
        ({"kernel": "best"}, "kernel must be a kernel or one of"),
        ({"kernel": SquaredExponential}, "kernel must be a kernel or one of"),
        ({"kernel": SquaredExponential([1.0, 2.0, 3.0])}, "the kernel does not fit the data"),
        ({"estimator": "linear"}, "requires method='normal'"),
        ({"statistic": "mdd"}, "statistic must be one of"),
        ({"seed": -1}, "seed"),
        ({"standardize": "row"}, "standardize must be one of"),
        ({"P": np.where(P > 1.5, np.nan, P)}, "missing value"),
        ({"Q": Q[:, :1]}, "columns"),
        *(
            (
                {"statistic": statistic, option: value},
                f"{option}='{value}' is for statistic='mmd', not for '{statistic}': pass "
                f"statistic='mmd' or leave {option} out",
            )
            for statistic in ("combined", "bayes_factor")
            for option, value in [
                ("kernel", "median"),
                ("method", "gamma"),
                ("estimator", "biased"),
                ("estimator", "unbiased"),
            ]
        ),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(InputError, match=message):
        two_sample_test(**{"P": P, "Q": Q, **arguments}, **QUIET)


def test_64_bit_is_not_required_of_the_user():
    assert not jax.config.jax_enable_x64
    assert (
        two_sample_test(P, Q, kernel="median", n_resamples=99, **QUIET).null_distribution.dtype
        == float
    )


@pytest.mark.parametrize("choice", OPTIONS)
@pytest.mark.one_in(4)
def test_columns_that_are_constant_in_both_samples_do_not_matter(choice):
    rng = np.random.default_rng(23)
    P, Q = rng.normal(size=(40, 2)), rng.normal(0.4, 1.0, size=(45, 2)) * [1.0, 3.0]
    wide = [np.column_stack([Z[:, 0], np.full(len(Z), 7.0), Z[:, 1]]) for Z in (P, Q)]
    options = {**OPTIONS[choice], "n_resamples": 99, "progress": False}
    original, with_constant = two_sample_test(P, Q, **options), two_sample_test(*wide, **options)
    assert with_constant.pvalue == original.pvalue
    assert any(
        "constant in both samples" in note and "column 2" in note for note in with_constant.notes
    )
    assert not any("constant" in note for note in original.notes)
    if with_constant.kernel is not None:  # it is of all three columns
        assert np.asarray(with_constant.kernel(wide[0][:2], wide[1][:3])).shape == (2, 3)
    with pytest.raises(InputError, match="rows and all are equal"):
        two_sample_test(np.full((5, 2), 7.0), np.full((6, 2), 7.0))


@pytest.mark.slow
def test_a_column_may_be_constant_in_one_sample():
    """A constant in one sample is a difference to be found, not an error."""
    zeros, ones = np.zeros(20), np.r_[0.0, np.ones(24)]
    for choice in OPTIONS:
        assert (
            two_sample_test(zeros, ones, **OPTIONS[choice], n_resamples=99, **QUIET).pvalue == 0.01
        )
    with pytest.raises(InputError, match="the union of P and Q"):
        two_sample_test(zeros, zeros, **QUIET)


def test_rare_values_and_mixed_resolutions():
    """Subsamples with all rows equal; one sample rounded and the other not."""
    rare = np.zeros(1500)
    rare[0] = 1.0
    for choice in ("median", "bayes_factor"):
        assert two_sample_test(rare, rare, **OPTIONS[choice], n_resamples=19, **QUIET).pvalue > 0.5
    for seed in range(6):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=30), (3 * rng.normal(size=30)).astype(int)
        assert 0 < two_sample_test(first, second, n_resamples=99, **QUIET).pvalue <= 1


def test_small_samples_and_low_numbers_of_permutations():
    """Three rows each: 20 / 2 ways. A limit in closed form needs no permutations."""
    result = two_sample_test(np.arange(3.0), 100.0 + np.arange(3.0), n_resamples=99, **QUIET)
    assert result.pvalue > 0.05
    assert "in 10 ways only" in str(result)
    plain = str(two_sample_test(P, Q, kernel="median", n_resamples=19, **QUIET))
    assert "Note" not in plain
    same = two_sample_test(P, P[::-1], kernel="median", n_resamples=19, **QUIET)
    assert "P and Q are the same rows" in str(same)
    approximation = two_sample_test(P, Q, kernel="median", method="gamma", n_resamples=5, **QUIET)
    assert (
        approximation.pvalue
        == two_sample_test(P, Q, kernel="median", method="gamma", **QUIET).pvalue
    )
    with pytest.raises(InputError, match="cannot reject"):
        two_sample_test(P, Q, kernel="median", method="spectrum", n_resamples=5, **QUIET)


@pytest.mark.parametrize(
    ("change", "description", "has_interval"),
    [
        ("shift", "most significant component in location, most", True),
        ("correlation", "most significant component in the distance of covariances, most", True),
        ("spread", "most significant component in the dimensions of covariances, most", False),
    ],
)
def test_the_sentence_names_the_largest_component(change, description, has_interval):
    """Ten columns shifted by 0.5, two of ten correlated; neighbors of 200 more so."""
    rng = np.random.default_rng({"shift": 2, "correlation": 0, "spread": 3}[change])
    P, Q = rng.normal(size=(2, 60, 200) if change == "spread" else (2, 150, 10))
    if change == "shift":
        Q += 0.5
    elif change == "correlation":
        Q[:, 1] = 0.7 * Q[:, 0] + 0.51**0.5 * Q[:, 1]
    else:
        for rows, correlation in ((P, 0.5), (Q, 0.6)):
            for column in range(1, 200):
                innovation = (1.0 - correlation**2) ** 0.5 * rows[:, column]
                rows[:, column] = correlation * rows[:, column - 1] + innovation
    result = two_sample_test(P, Q, n_resamples=199, progress=False)
    assert result.reject
    assert description in str(result)
    assert (result.interval is not None) == has_interval
    assert result.kernel is not None  # an argument of the witness


@dataclasses.dataclass(frozen=True)
class Means(Statistic):
    """The squared distance of means."""

    component_weights = (("in means", 1.0),)

    @classmethod
    def choose(cls, sample):
        return cls()

    def requests(self, sample):
        def finish(sums):
            differences = sample.mean_differences(sums.first, sums.total)
            return np.square(differences).sum(axis=0, keepdims=True)

        return [Request(lambda points: points, sample.points.shape[1], finish)]


@pytest.mark.parametrize(("paired", "kind"), [(False, "independent"), (True, "samples")])
def test_a_class_of_statistics_is_tested_alone(paired, kind):
    """As SciPy's test of the same statistic with all permutations, but for their random choice.

    7 + 7 rows, 9999 permutations, seed 0: within four standard errors but 1 in 10 000.
    """
    rng = np.random.default_rng(14)
    P, Q = rng.normal(size=(2, 7, 1))
    result = two_sample_test(
        P, Q, statistic=Means, paired=paired, n_resamples=9999, sequential=False, **QUIET
    )
    exact = scipy.stats.permutation_test(
        (P[:, 0], Q[:, 0]),
        lambda x, y: np.square(x.mean() - y.mean()),
        permutation_type=kind,
        n_resamples=np.inf,
        alternative="greater",
    )
    error = np.sqrt(exact.pvalue * (1.0 - exact.pvalue) / 9999)
    assert 0.01 < exact.pvalue < 0.5
    assert abs(result.pvalue - exact.pvalue) < 4.0 * error
    assert "9999 permutations, Means" in str(result)
    with pytest.raises(InputError, match="kernel='median' is for statistic='mmd'"):
        two_sample_test(P, Q, statistic=Means, kernel="median", **QUIET)
