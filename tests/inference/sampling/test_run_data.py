"""Samples that are given with a run are compared with its rows."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bke.inference import InputError, Nuts, Quadrature, fit, open_blocks, open_run
from bke.inference.sampling.run_data import compare_rows, match_columns
from bke.models import Landmark

RNG = np.random.default_rng(0)
P, Q = RNG.normal(size=(12, 2)), RNG.normal(0.5, 1.0, size=(9, 2))
NEW = RNG.normal(size=(5, 2))
POOLED = np.concatenate([P, Q])


def fitted(rows):
    """The parts of a run that the comparison reads."""
    X = xr.Dataset({"X": (("row", "column"), rows)}, coords={"column": ["a", "b"]})
    tree = xr.DataTree.from_dict({"/observed_data": X})
    tree.attrs["creation_library"] = "bke"
    return open_run(tree)


RUN = fitted(POOLED)


@pytest.mark.parametrize(
    "pair", [(P, Q), (Q, P), (P[::-1], Q), (POOLED[3:], POOLED[:3]), (P + 0.0, Q)]
)
def test_the_rows_of_the_run_in_any_order_are_accepted(pair):
    assert compare_rows(RUN, *pair) is None


@pytest.mark.parametrize(
    ("pair", "new", "absent"),
    [
        ((P[:10], Q), "0 rows of P and Q not", "2 rows of them"),
        ((NEW, Q), "5 rows of P and Q not", "12 rows of them"),
        ((P, NEW), "5 rows of P and Q not", "9 rows of them"),
        ((P, P), "12 rows of P and Q not", "9 rows of them"),  # each row twice
        ((np.concatenate([P, P[:1]]), Q), "1 row of P and Q not", "0 rows of them"),
    ],
)
def test_new_rows_and_rows_left_out_are_counted(pair, new, absent):
    note = compare_rows(RUN, *pair)
    assert new in note
    assert absent in note
    assert "not the 21 rows that this run was fitted to" in note


@pytest.mark.parametrize("pair", [(NEW, NEW + 1.0), (2.0 * P, 2.0 * Q), (NEW, P[[0, 0]])])
def test_samples_of_other_data_are_refused(pair):
    with pytest.raises(InputError, match=r"not among the 21 rows that this run was fitted to"):
        compare_rows(RUN, *pair)


def test_rows_are_equal_at_the_precision_in_which_they_are_stored():
    single = P.astype(np.float32).astype(float), Q.astype(np.float32).astype(float)
    assert compare_rows(RUN, *single) is None
    tenths = np.tile([[0.1, 0.2], [0.3, 0.7]], (4, 1))
    sums = np.tile([[0.1, 0.2], [0.1 + 0.2, 0.7]], (4, 1))
    assert (sums != tenths).any()
    assert compare_rows(fitted(np.concatenate([tenths, tenths])), tenths, sums) is None


def test_rows_that_a_run_does_not_store_are_compared_by_their_digest():
    """A run of the landmark model reads its file again and again and never holds the rows."""
    options = {"likelihood": Landmark(POOLED[:3] + 0.1), "progress": False}
    run = open_run(fit(open_blocks([POOLED]), method=Quadrature(1.0, 4), **options))
    assert "X" not in run.tree["observed_data"]
    assert compare_rows(run, P, Q) is None
    assert compare_rows(run, POOLED[12:], POOLED[:12]) is None  # Q first
    assert "do not have the digest of the 21 rows" in compare_rows(run, P[::-1], Q)


def test_columns_are_those_of_the_run_by_name():
    run = fit(POOLED, columns=["a", "b"], method=Nuts(1, 20, 4), progress=False)
    opened = open_run(run)
    swapped = pd.DataFrame({"b": P[:, 1], "a": P[:, 0]})
    first, second, names = match_columns(opened, swapped, Q)
    np.testing.assert_array_equal(first, P)
    np.testing.assert_array_equal(second, Q)
    assert names == ("a", "b")
    with pytest.raises(InputError, match=r"P and Q have 1 column, but the run has 2 \(a, b\)"):
        match_columns(opened, P[:, 0], Q[:, 0])
