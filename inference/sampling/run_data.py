"""Samples that are given together with a run, compared with the data that it was fitted to."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import as_pair, check_same_columns, column_names, pluralize
from ..data.equality import equalize, round_to
from ..data.new_rows import column_order, known_names
from .open_run import OpenRun
from .record import read_record
from .run import digest_of, rows_of


def match_columns(
    run: OpenRun, P: ArrayLike, Q: ArrayLike
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    """Return two samples with the columns of a run in its order, and the names of these.

    Raises:
        InputError: the samples are not valid, or have other columns.
    """
    columns, samples = run.units.columns, as_pair(P, Q)
    names_P, names_Q = column_names(P), column_names(Q)
    check_same_columns(names_P, names_Q)
    dimension = samples[0].shape[1]
    if dimension != len(columns):
        raise InputError(
            f"P and Q have {pluralize(dimension, 'column')}, but the run has {len(columns)} "
            f"({', '.join(columns)}): choose these (--columns)"
        )
    # A single column needs no name. The columns of Q are in the order of those of P already.
    known = known_names(columns) if dimension > 1 else None
    orders = (
        column_order(names_P, known, "P"),
        column_order(names_Q and (names_P or names_Q), known, "Q"),
    )
    first, second = (
        sample if order is None else sample[:, order]
        for sample, order in zip(samples, orders, strict=True)
    )
    return first, second, known_names(columns) or names_P or names_Q


def compare_rows(run: OpenRun, P: np.ndarray, Q: np.ndarray) -> str | None:
    """Compare the rows of two samples with those that a run was fitted to.

    A run of a large file does not hold its rows; the SHA-256 digest of these is compared then.

    Args:
        run: a run of :func:`~bke.inference.fit`, or draws of another program, whose rows are those
            that its user gave.
        P: first sample (n, D), with the columns of the run.
        Q: second sample (m, D).

    Returns:
        ``None`` where the rows of both samples are together those of the run, in any order; else a
        note with the number of rows that differ.

    Raises:
        InputError: neither sample is part of the data of the run.
    """
    observed = run.tree["observed_data"].to_dataset()
    if "X" not in observed:
        digests = (digest_of(np.concatenate(pair)) for pair in ((P, Q), (Q, P)))
        if read_record(run.tree.attrs)["data_sha256"] in digests:
            return None
        return (
            f"P and Q together do not have the digest of the {rows_of(run.tree)} rows that this "
            "run was fitted to, which it does not hold: if they are not these rows, the "
            "lengthscale was learned from other data"
        )
    X = np.asarray(observed["X"].values, dtype=float)
    if np.array_equal(np.concatenate([P, Q]), X):
        return None
    # Two samples of which one is stored in single precision are both rounded to it.
    single = all(np.array_equal(round_to(sample, 4), sample) for sample in (P, Q))
    samples = equalize([X, P, Q], [[4 if single else 8] * X.shape[1]] * 3)
    in_run, in_P, in_Q = (Counter(map(bytes, sample + 0.0)) for sample in samples)  # -0.0 is 0.0
    new_P, new_Q = (in_P - in_run).total(), (in_Q - in_run).total()
    new, absent = (in_P + in_Q - in_run).total(), (in_run - in_P - in_Q).total()
    if new_P and new_Q:
        raise InputError(
            f"{pluralize(new_P, 'row')} of P ({len(P)} in all) and {pluralize(new_Q, 'row')} of Q "
            f"({len(Q)}) are not among the {len(X)} rows that this run was fitted to: give the "
            "samples of the run, in the same units, or fit P and Q first"
        )
    if not new and not absent:
        return None
    return (
        f"P and Q together are not the {len(X)} rows that this run was fitted to: "
        f"{pluralize(new, 'row')} of P and Q not among them, {pluralize(absent, 'row')} of them in "
        "neither; the lengthscale was learned from other data"
    )
