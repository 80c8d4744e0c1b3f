"""Columns of data frames are matched by name, in any order."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import (
    InputError,
    Quadrature,
    compare,
    compare_tables,
    credible_band,
    fit,
    learn_kernel,
    relative_similarity_test,
    sample_witness,
    two_sample_test,
)

RNG = np.random.default_rng(0)
P = pd.DataFrame({"height": RNG.normal(180, 10, 20), "dose": RNG.normal(2e-3, 5e-4, 20)})
Q = 1.1 * P.iloc[:15]
SWAPPED = ["dose", "height"]
SETTINGS = {"method": Quadrature(num_samples=64), "progress": False}


def test_the_run_has_them():
    run = fit((P, Q), **SETTINGS)
    assert list(run["observed_data"]["column"].values) == ["height", "dose"]
    assert list(fit(P, **SETTINGS)["posterior"]["input"].values) == ["height", "dose"]


def test_other_names_are_refused():
    for samples in ("pooled", "product"):
        with pytest.raises(InputError, match="give them the same names"):
            learn_kernel((P, Q.rename(columns={"dose": "pay"})), samples=samples, progress=False)


def test_columns_with_one_name_are_refused():
    twice = Q[["dose", "height", "dose"]]
    for function in (compare, two_sample_test, compare_tables):
        with pytest.raises(InputError, match="has 2 columns named 'dose': rename them"):
            function(twice, twice, progress=False)


@pytest.mark.slow
def test_columns_are_matched_by_name_not_by_order():
    quiet = {"progress": False}
    for samples in ("pooled", "product"):
        learned = [
            learn_kernel((P, second), samples=samples, **quiet) for second in (Q, Q[SWAPPED])
        ]
        lengths = [result.kernel.lengthscale for result in learned]
        np.testing.assert_allclose(lengths[0], lengths[1], rtol=1e-6)
    compared = [compare(P, second, n_resamples=99, **quiet) for second in (Q, Q[SWAPPED])]
    assert compared[0].to_dict() == compared[1].to_dict()
    tested = [two_sample_test(P, second, n_resamples=99, **quiet) for second in (Q, Q[SWAPPED])]
    assert tested[0].statistic == tested[1].statistic
    related = [
        relative_similarity_test(P, sample, other, kernel="median").statistic
        for sample, other in ((Q, 1.2 * Q), (Q[SWAPPED], 1.2 * Q), (Q, 1.2 * Q[SWAPPED]))
    ]
    assert len(set(related)) == 1
    run = fit((P, Q), **SETTINGS)
    at = P.to_numpy()[:5]
    pairs = [(P, Q), (P[SWAPPED], Q), (P, Q[SWAPPED]), (P[SWAPPED], Q[SWAPPED]),
             (P.to_numpy(), Q[SWAPPED]), (P[SWAPPED], Q.to_numpy())]  # fmt: skip
    drawn = [sample_witness(run, *pair, at=at, thin=8, **quiet).witness.values for pair in pairs]
    for other in drawn[1:]:
        np.testing.assert_array_equal(other, drawn[0])


def test_a_comparison_has_names_that_both_frames_have():
    settings = {"n_resamples": 99, "progress": False}
    assert compare(P, Q, **settings).columns == ("height", "dose")
    assert compare(P, Q.to_numpy(), **settings).columns == ("height", "dose")
    before, after = P["height"].rename("before"), Q["height"].rename("after")
    assert compare(before.to_frame(), after.to_frame(), **settings).columns == ("x",)
    with pytest.raises(InputError, match="give them the same names"):
        compare(P, Q.rename(columns={"dose": "pay"}), **settings)
    with pytest.raises(InputError, match="height, dose in one sample and height, dose, pay in"):
        compare(P, Q.assign(pay=1.0), **settings)


def test_a_list_of_samples_is_not_read_as_rows():
    with pytest.raises(InputError, match="pass samples as a tuple"):
        fit([P.values[:10, 0], P.values[10:, 0]], **SETTINGS)
    run = fit([[1.0, 2.5], [2.2, 0.4], [0.1, 3.3], [4.0, 1.7]], **SETTINGS)
    assert run["observed_data"]["X"].shape == (4, 2)
    with pytest.raises(InputError, match="sample_witness"):
        credible_band(run)
