"""Where a witness is evaluated unless its user says: a line, a mesh, or the data themselves."""

from __future__ import annotations

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import as_pair, check_same_columns, column_names, counted
from ..data.equality import equalize, round_to
from ..data.new_rows import column_order, known_names
from ..sampling.open_run import OpenRun
from ..sampling.run import digest_of, rows_of

LINE_POINTS = 200
MESH_SIDE = 30


def default_points(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Where to evaluate: a line (D = 1), a mesh (D = 2) over the data, else the data points.

    Nothing beyond the data, where a witness is extrapolated.
    """
    pooled = np.concatenate([P, Q])
    if pooled.shape[1] > 2:
        return pooled
    low, high = pooled.min(axis=0), pooled.max(axis=0)
    side = LINE_POINTS if pooled.shape[1] == 1 else MESH_SIDE
    axes = [np.linspace(a, b, side) for a, b in zip(low, high, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def in_range(at: np.ndarray, P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """Return which of the points (m, D) are within the range of the pooled rows in every column."""
    pooled = np.concatenate([P, Q])
    return ((at >= pooled.min(axis=0)) & (at <= pooled.max(axis=0))).all(axis=1)


def within_range(witness: xr.DataTree) -> xr.DataTree:
    """Return a witness at its points within the range of the data, or at all where none is."""
    inside = np.asarray(witness["in_range"].values, dtype=bool)
    return witness.isel(point=inside) if inside.any() else witness


def match_columns(
    run: OpenRun, P: ArrayLike, Q: ArrayLike
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    """Return two samples with the columns of a run in its order, and the names of these.

    Raises:
        InputError: the samples are not valid, or have other columns.
    """
    columns = run.units.columns
    first, second = as_pair(P, Q)
    names_P, names_Q = column_names(P), column_names(Q)
    check_same_columns(names_P, names_Q)
    dimension = len(columns)
    if first.shape[1] != dimension:
        raise InputError(
            f"P and Q have {counted(first.shape[1], 'column')}, but the run has {dimension} "
            f"({', '.join(columns)}): choose these (--columns)"
        )
    known = known_names(columns) if dimension > 1 else None  # one column has one meaning
    for_P, for_Q = column_order(names_P, known, "P"), column_order(names_Q, known, "Q")
    first = first if for_P is None else first[:, for_P]
    second = second if for_Q is None else second[:, for_Q]
    names_Q = names_Q if names_P is None else names_Q and names_P
    return first, second, known_names(columns) or names_P or names_Q


def compare_rows(run: OpenRun, P: np.ndarray, Q: np.ndarray) -> str | None:
    """Compare the rows of two samples with those that a run was fitted to.

    A run of a large file does not hold its rows; the SHA-256 digest of these is compared then.

    Args:
        run: of ``fit``, or of another program, whose rows are those that its user gave.
        P: the first sample (n, D), with the columns of the run.
        Q: the second (m, D).

    Returns:
        ``None`` where the rows of both are together those of the run, in any order; else a note
        that says how many rows differ.

    Raises:
        InputError: neither sample is part of the data of the run.
    """
    observed = run.tree["observed_data"].to_dataset()
    if "X" not in observed:
        digests = (digest_of(np.concatenate(pair)) for pair in ((P, Q), (Q, P)))
        if run.tree.attrs["data_sha256"] in digests:
            return None
        return (
            f"P and Q together do not have the digest of the {rows_of(run.tree)} rows that this "
            "run was fitted to, which it does not hold: where these are other rows, the "
            "lengthscale was learned from other data"
        )
    X = np.asarray(observed["X"].values, dtype=float)
    if np.array_equal(np.concatenate([P, Q]), X):
        return None
    # Samples of which one was stored in single precision are both rounded to it.
    single = all(np.array_equal(round_to(sample, 4), sample) for sample in (P, Q))
    samples = equalize([X, P, Q], [[4 if single else 8] * X.shape[1]] * 3)
    kinds, kind = np.unique(np.concatenate(samples), axis=0, return_inverse=True)
    ends = np.cumsum([len(sample) for sample in samples])[:-1]
    in_run, in_P, in_Q = (
        np.bincount(part, minlength=len(kinds)) for part in np.split(kind.ravel(), ends)
    )
    new_P, new_Q, new, absent = (
        int(np.maximum(count, 0).sum())
        for count in (in_P - in_run, in_Q - in_run, in_P + in_Q - in_run, in_run - in_P - in_Q)
    )
    if new_P and new_Q:
        raise InputError(
            f"{counted(new_P, 'row')} of P ({len(P)} in all) and {counted(new_Q, 'row')} of Q "
            f"({len(Q)}) are not among the {len(X)} rows that this run was fitted to: give its "
            "samples in the same units, or fit these samples first"
        )
    if not new and not absent:
        return None
    return (
        f"P and Q together are not the {len(X)} rows that this run was fitted to: "
        f"{counted(new, 'row')} of P and Q not among them, {counted(absent, 'row')} of them in "
        "neither; the lengthscale was learned from other data"
    )
