"""Names of data frames' columns: used, and never silently matched to others."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import (
    InputError,
    Quadrature,
    band,
    compare,
    fit,
    learn_kernel,
    sample_witness,
)

RNG = np.random.default_rng(0)
P = pd.DataFrame({"height": RNG.normal(180, 10, 20), "dose": RNG.normal(2e-3, 5e-4, 20)})
Q = 1.1 * P.iloc[:15]
SETTINGS = {"method": Quadrature(draws=64), "progress": False}


def test_the_run_has_them():
    run = fit((P, Q), **SETTINGS)
    assert list(run["observed_data"]["column"].values) == ["height", "dose"]
    assert list(fit(P, **SETTINGS)["posterior"]["column"].values) == ["height", "dose"]
    with pytest.raises(InputError, match="dose, height in another"):
        sample_witness(run, P[["dose", "height"]], Q[["dose", "height"]], progress=False)


@pytest.mark.parametrize("other", [Q[["dose", "height"]], Q.rename(columns={"dose": "pay"})])
def test_other_names_are_refused(other):
    for share in ("pooled", "joint"):
        with pytest.raises(InputError, match="same names in the same order"):
            learn_kernel((P, other), share=share, progress=False)


def test_a_comparison_has_names_that_both_frames_have():
    settings = {"permutations": 99, "progress": False}
    assert compare(P, Q, **settings).columns == ("height", "dose")
    assert compare(P, Q.to_numpy(), **settings).columns == ("height", "dose")
    before, after = P["height"].rename("before"), Q["height"].rename("after")
    assert compare(before.to_frame(), after.to_frame(), **settings).columns == ("x",)
    for other in (Q[["dose", "height"]], Q.rename(columns={"dose": "pay"})):
        with pytest.raises(InputError, match="same names in the same order"):
            compare(P, other, **settings)


def test_a_list_of_samples_is_not_taken_for_rows():
    with pytest.raises(InputError, match="give samples as a tuple"):
        fit([P.values[:10, 0], P.values[10:, 0]], **SETTINGS)
    run = fit([[1.0, 2.5], [2.2, 0.4], [0.1, 3.3], [4.0, 1.7]], **SETTINGS)
    assert run["observed_data"]["X"].shape == (4, 2)


def test_a_band_of_something_else():
    with pytest.raises(InputError, match="sample_witness"):
        band(fit(P, **SETTINGS))
