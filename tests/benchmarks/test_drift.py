"""The level of comparisons of tables, on random subsets of tables of ``benchmarks/drift.py``."""

import pytest
from bke.inference import compare_tables
from scipy.stats import binom

PAIRS, LEVEL = 100, 0.05


@pytest.fixture(scope="module")
def drift(load):
    return load("drift")


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["simulated", "census", "passengers", "car loans"])
def test_rejection_rate_between_random_subsets_of_a_table_is_at_most_the_level(
    drift, setting, tmp_path
):
    """100 pairs, one half as text and one as Parquet; at most the 99.9 % quantile of a binomial.

    Three tables are of NannyML's wheel, in the folder where ``benchmarks/drift.py`` installs it.
    """
    if setting in drift.REAL and not (drift.ENVIRONMENTS / "nannyml").exists():
        pytest.skip("the tables are those that benchmarks/drift.py installs")
    different = 0
    for seed in range(PAIRS):
        before, after, column_types = drift.pair(setting, seed, drift.ENVIRONMENTS)
        before.to_csv(tmp_path / "before.csv", index=False)
        after.to_parquet(tmp_path / "after.parquet", index=False)
        words = {
            name: kind for name, kind in column_types.items() if kind in ("category", "boolean")
        }
        result = compare_tables(
            tmp_path / "before.csv",
            tmp_path / "after.parquet",
            column_types=dict.fromkeys(words, "category"),
            n_resamples=99,
            seed=seed,
            alpha=LEVEL,
            progress=False,
        )
        different += result.reject
    assert different <= binom.ppf(0.999, PAIRS, LEVEL)
