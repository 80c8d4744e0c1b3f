"""Data frames: columns are matched by name, and rows in another order are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from bke.inference import (
    DistributionRegressor,
    InputError,
    compare_chains,
    goodness_of_fit_test,
    independence_test,
    regress_out,
    sample_dependence_witness,
    stein_test,
    thin,
)

RNG = np.random.default_rng(0)
X = pd.DataFrame({"height": RNG.normal(0, 1, 60), "dose": RNG.normal(5, 0.5, 60)})
SWAPPED, REVERSED = X[["dose", "height"]], X.iloc[::-1]
SCORES = (X.mean() - X) / X.var()
ANOTHER_ORDER = "the same row labels in another order"


def drawn(rows, order):
    return goodness_of_fit_test(
        X, lambda rng, n: rows.iloc[:n][order], n_resamples=99, progress=False
    ).pvalue


def test_draws_of_a_sampler_are_matched_by_name():
    rows = X + RNG.normal(0.0, 0.1, X.shape)
    assert drawn(rows, ["dose", "height"]) == drawn(rows, ["height", "dose"]) > 0.05
    with pytest.raises(InputError, match="the sampler: column 'dose' missing; column 'pay' unkn"):
        drawn(rows.rename(columns={"dose": "pay"}), ["height", "pay"])
    hidden = np.ma.array(X.to_numpy(), mask=np.eye(60, 2))
    with pytest.raises(InputError, match="the sampler has a missing value"):
        goodness_of_fit_test(X, lambda rng, n: hidden, progress=False)
    single_column = goodness_of_fit_test(  # one column is that column, whatever its name
        X[["dose"]], lambda rng, n: X[["dose"]].set_axis(["of"], axis=1), progress=False
    )
    assert single_column.pvalue > 0.05


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda score: thin(X, 5, score=score).indices.tolist(),
        lambda score: stein_test(X, score, bootstraps=99, progress=False).statistic,
    ],
)
def test_scores_are_matched_by_name(evaluate):
    expected = evaluate(SCORES.to_numpy())
    for score in (SCORES, SCORES[SWAPPED.columns], SCORES.convert_dtypes()):
        assert evaluate(score) == expected
    with pytest.raises(InputError, match="the score: column 'dose' missing"):
        evaluate(SCORES.rename(columns={"dose": "pay"}))
    with pytest.raises(InputError, match=f"draws and score have {ANOTHER_ORDER}"):
        evaluate(SCORES.iloc[::-1])
    with pytest.raises(InputError, match="row 2, column 'dose', where a real number is needed"):
        evaluate(SCORES.astype(object).where(np.arange(120).reshape(60, 2) != 3, "none"))


def test_chains_of_frames_are_matched_by_name():
    chains = [X, X + RNG.normal(0.0, 0.1, X.shape)]
    expected = compare_chains(np.stack(chains), columns=list(X))
    result = compare_chains([chains[0], chains[1][SWAPPED.columns]])
    assert str(result) == str(expected)
    with pytest.raises(InputError, match=r"draws\[1\]: column 'dose' missing"):
        compare_chains([X, X.rename(columns={"dose": "pay"})])


def test_rows_in_another_order_are_refused():
    with pytest.raises(InputError, match=f"values and on have {ANOTHER_ORDER}"):
        regress_out(X["height"], REVERSED["dose"])
    groups = pd.Series(np.repeat(np.arange(12), 5))
    with pytest.raises(InputError, match=f"X and groups have {ANOTHER_ORDER}"):
        DistributionRegressor(progress=False).fit(X, np.arange(12.0), groups.iloc[::-1])
    result = independence_test(X["height"], X["dose"], kernel="median", progress=False)
    at = X["height"].iloc[:5], X["dose"].iloc[4::-1]
    with pytest.raises(InputError, match=f"x and y have {ANOTHER_ORDER}"):
        sample_dependence_witness(result, X["height"], X["dose"], at, draws=2)
