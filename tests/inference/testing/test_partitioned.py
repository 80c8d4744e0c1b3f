"""Rows in partitions have the p-value of the same rows in memory, with any number of workers."""

import contextlib

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, compare, two_sample_test
from bke.inference.permutation import bins, partitioned, pool, samples as in_memory
from bke.inference.statistics import (
    kernels,
    label_bayes_factor,
    landmark_bayes_factor,
    local_differences,
)
from bke.inference.testing import two_sample

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
bag = pytest.importorskip("dask.bag")
dd = pytest.importorskip("dask.dataframe")

QUIET = {"progress": False}


@pytest.fixture
def small_limits(monkeypatch):
    """More than 400 rows are large samples; everything is chosen from 300 rows; 40 bins."""
    values = {
        "LARGE": (400, in_memory, two_sample),
        "SUBSET": (300, bins),
        "MAX_SINGLE": (50, pool, partitioned),
        "MAX_POINTS": (32, pool, partitioned),
        "N_BINS": (40, bins),
        "MIN_BINS": (5, bins, partitioned),
        "LARGE_SAMPLE": (
            200,
            kernels,
            label_bayes_factor,
            landmark_bayes_factor,
            local_differences,
        ),
    }
    for name, (value, *modules) in values.items():
        for module in modules:
            monkeypatch.setattr(module, name, value)


@pytest.fixture(autouse=True)
def single_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def samples(kind, rng=None):
    """Return P and Q of some hundred rows, permuted in bins or cells, or with few distinct rows."""
    rng = np.random.default_rng(0) if rng is None else rng
    if kind == "kinds":
        return rng.integers(0, 2, size=(500, 4)).astype(float), rng.binomial(1, 0.4, size=(400, 4))
    columns = {"bins": 3, "plane": 2, "line": 1}[kind]
    P, Q = rng.normal(size=(500, columns)), rng.normal(0.1, 1.0, size=(400, columns))
    if kind == "bins":  # a column of ties, and a constant column, which is dropped
        P, Q = (
            np.column_stack([sample, sample[:, :1].round(), np.full(len(sample), 7.0)])
            for sample in (P, Q)
        )
    return P, Q


def in_chunks(sample, rows):
    return da.from_array(sample, chunks=(rows, -1))


def same(actual, expected):
    """Check for equal p-values, and statistics that differ only by rounding."""
    assert actual.pvalue == expected.pvalue
    assert actual.statistic == pytest.approx(expected.statistic, rel=1e-5, abs=1e-5)  # a log
    np.testing.assert_allclose(actual.null_distribution, expected.null_distribution, atol=1e-3)
    assert [part.pvalue for part in actual.components] == [
        part.pvalue for part in expected.components
    ]
    assert actual.notes == expected.notes


@pytest.mark.parametrize("kind", ["bins", "plane", "line", "kinds"])
@pytest.mark.one_in(4)
def test_parts_give_the_p_value_of_rows_in_memory(small_limits, kind):
    P, Q = samples(kind)
    expected = two_sample_test(P, Q, n_resamples=99, **QUIET)
    assert 0.01 <= expected.pvalue < 1.0
    for first, second in ((500, 400), (61, 130)):
        result = two_sample_test(in_chunks(P, first), in_chunks(Q, second), n_resamples=99)
        same(result, expected)
        if kind != "bins":  # sums of integers are exact
            np.testing.assert_array_equal(result.null_distribution, expected.null_distribution)
    assert compare(P, Q, n_resamples=99, **QUIET).pvalue == expected.pvalue


@pytest.mark.slow
def test_two_workers_give_the_same_result_to_the_last_digit(small_limits):
    """And the p-value of the same rows in memory."""
    distributed = pytest.importorskip("distributed")
    P, Q = samples("bins")
    expected = two_sample_test(P, Q, n_resamples=99, **QUIET)
    results = []
    for workers in (1, 2):
        with contextlib.ExitStack() as stack:
            cluster = distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
            )
            client = distributed.Client(stack.enter_context(cluster))
            stack.enter_context(client)
            stack.enter_context(dask.config.set(scheduler="distributed"))
            first, second = client.persist([in_chunks(P, 100), in_chunks(Q, 80)])
            results.append(two_sample_test(first, second, n_resamples=99))
            if workers == 2:
                bad = P.copy()
                bad[250, 1] = np.nan
                with pytest.raises(InputError, match=r"NaN\) in row 51 of partition 3, column 2"):
                    two_sample_test(in_chunks(bad, 100), second)
    single, double = results
    assert single.pvalue == double.pvalue == expected.pvalue
    assert single.statistic == double.statistic
    np.testing.assert_array_equal(single.null_distribution, double.null_distribution)


@pytest.mark.slow
def test_parts_as_large_as_they_are():
    """70 000 + 70 000 rows, with the default limits."""
    rng = np.random.default_rng(1)
    P, Q = rng.normal(size=(2, 70_000, 3))
    expected = two_sample_test(P, Q, n_resamples=99, **QUIET)
    same(two_sample_test(in_chunks(P, 30_000), in_chunks(Q, 9000), n_resamples=99), expected)


@pytest.mark.slow
def test_more_permutations_do_not_read_the_rows_again(small_limits, monkeypatch):
    P, Q = (in_chunks(sample, 100) for sample in samples("bins"))
    passes = []
    over = partitioned.PartitionedSamples.run

    def counted(self, *arguments, **options):
        passes.append(1)
        return over(self, *arguments, **options)

    monkeypatch.setattr(partitioned.PartitionedSamples, "run", counted)
    result = two_sample_test(P, Q, n_resamples=9999, alpha=0.2)
    assert len(result.null_distribution) == 9999  # after a first stage
    assert len(passes) == 4  # hashes of columns, hashes of rows, a subset of rows, and all sums


@pytest.mark.slow
def test_any_collection_will_do(small_limits):
    P, Q = samples("bins")
    expected = two_sample_test(P, Q, n_resamples=39, **QUIET).pvalue
    frames = [pd.DataFrame(sample, columns=list("abcde")) for sample in (P, Q)]
    of_frames = [dd.from_pandas(frame, npartitions=3) for frame in frames]
    from_bag = bag.from_sequence(P.tolist(), npartitions=4)
    across = da.from_array(P, chunks=(200, 2))
    empty = dd.concat([of_frames[0], of_frames[0][of_frames[0]["a"] > 1e9]])
    for first, second in (
        (of_frames[0], of_frames[1]),
        (from_bag, in_chunks(Q, 170)),
        (across, Q),  # the second one is in memory
        (P, of_frames[1]),
        (empty, of_frames[1]),
    ):
        assert two_sample_test(first, second, n_resamples=39).pvalue == expected


def test_the_order_of_rows_in_a_collection_does_not_matter(small_limits):
    P, Q = samples("bins")
    expected = two_sample_test(in_chunks(P, 100), in_chunks(Q, 100), n_resamples=99)
    P, Q = (np.random.default_rng(3).permutation(sample) for sample in (P, Q))
    same(two_sample_test(in_chunks(P, 170), in_chunks(Q, 90), n_resamples=99), expected)


def test_small_collections_are_fetched_for_all_tests():
    rng = np.random.default_rng(2)
    P, Q = rng.normal(size=(2, 60, 2))
    for options in ({"kernel": "median"}, {"paired": True}):
        expected = two_sample_test(P, Q, n_resamples=99, **options, **QUIET)
        result = two_sample_test(in_chunks(P, 25), in_chunks(Q, 60), n_resamples=99, **options)
        assert result.pvalue == expected.pvalue
        np.testing.assert_array_equal(result.null_distribution, expected.null_distribution)


@pytest.mark.parametrize("kind", ["bins", "plane", "line", "kinds"])
@pytest.mark.one_in(3)
def test_names_columns_units_and_the_order_of_rows_do_not_matter(small_limits, kind):
    P, Q = samples(kind)
    p = two_sample_test(P, Q, n_resamples=99, **QUIET).pvalue
    shuffled = (np.random.default_rng(3).permutation(sample) for sample in (P, Q))
    for first, second in ((Q, P), (P[:, ::-1], Q[:, ::-1]), (2.0 * P, 2.0 * Q), shuffled):
        assert two_sample_test(first, second, n_resamples=99, **QUIET).pvalue == p


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bins", "plane"])
def test_the_level_of_large_samples(small_limits, kind):
    """200 null data sets of 250 + 200 skewed rows, seed 4, 39 permutations, level 0.1.

    Rejections are Binomial(200, 0.1): at most 36 but for 1 in 5000.
    """
    rng = np.random.default_rng(4)
    columns = 3 if kind == "bins" else 2
    pvalues = [
        two_sample_test(
            rng.gamma(2.0, size=(250, columns)),
            rng.gamma(2.0, size=(200, columns)),
            n_resamples=39,
            seed=seed,
            **QUIET,
        ).pvalue
        for seed in range(200)
    ]
    assert np.sum(np.array(pvalues) <= 0.1) <= 36
    assert np.mean(pvalues) > 0.4


def test_a_difference_is_detected_and_notes_name_its_rows(small_limits):
    P, Q = samples("bins")
    result = two_sample_test(in_chunks(P, 100), in_chunks(Q + 0.5, 100), n_resamples=99)
    assert result.pvalue == 0.01
    assert "constant in both samples" not in str(result)  # 7 and 7.5 differ
    assert result.interval is None
    same_rows = two_sample_test(in_chunks(P, 100), in_chunks(P[::-1], 100), n_resamples=99)
    assert "P and Q are the same rows" in same_rows.notes
    assert any("column 5" in note for note in same_rows.notes)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda P, Q: (P, Q), {"kernel": "median"}, "statistic='combined' only"),
        (lambda P, Q: (P, Q[:400]), {"paired": True}, "paired rows"),
        (lambda P, Q: (P, Q[:, :3]), {}, "5 columns and Q has 3 columns"),
        (lambda P, Q: (P, Q[:9]), {}, "samples of 9 and 500 rows cannot be divided"),
        (lambda P, Q: (P, Q[:1]), {}, "at least two rows"),
        (lambda P, Q: (np.zeros_like(P), np.zeros_like(Q)), {}, "all rows of P and Q are equal"),
        (lambda P, Q: (P.astype(str), Q), {}, "of P has .*real number"),
        (lambda P, Q: (P > 0.0, Q), {}, "of P has '(True|False)' in row 1, .*astype"),
        (
            lambda P, Q: (np.where(P[120] == P, np.inf, P), Q),
            {},
            "P has an infinite value in row 1 of",
        ),
    ],
)
def test_invalid_arguments_are_refused(small_limits, change, options, message):
    P, Q = change(*samples("bins"))
    with pytest.raises(InputError, match=message):
        two_sample_test(in_chunks(P, 100), in_chunks(Q, 100), n_resamples=39, **options)


def test_data_frames_of_other_columns_are_refused(small_limits):
    P, Q = (dd.from_pandas(pd.DataFrame(sample), npartitions=2) for sample in samples("bins"))
    with pytest.raises(InputError, match="the columns are"):
        two_sample_test(P, Q.rename(columns={0: 9}))


def test_a_single_number_is_no_collection_of_rows():
    with pytest.raises(InputError, match="an array, a data frame or a bag"):
        two_sample_test(dask.delayed(np.zeros)((3, 2)), np.zeros((3, 2)))


def test_datasets_of_ray(small_limits):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.data")
    P, Q = samples("bins")
    expected = two_sample_test(P, Q, n_resamples=39, **QUIET)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        first = ray.data.from_numpy([P[:200], P[200:]])
        frame = pd.DataFrame(Q, columns=list("abcde"))
        second = ray.data.from_pandas([frame[:150], frame[150:]])
        result = two_sample_test(first, second, n_resamples=39)
        with pytest.raises(InputError, match="of one engine"):
            two_sample_test(first, in_chunks(Q, 100))
        with pytest.raises(InputError, match="missing value"):
            two_sample_test(first, ray.data.from_pandas(frame.replace(frame["a"][3], np.nan)))
    finally:
        ray.shutdown()
    same(result, expected)
