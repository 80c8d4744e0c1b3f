"""Data that were checked once, at the entry, with the units of their columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .checks import as_samples, column_names
from .units import Units, choose_units


@dataclasses.dataclass(frozen=True)
class Observed:
    """Rows in their own units, and how these are brought to the model's.

    Attributes:
        rows: (n, D), finite, those of all samples.
        units: scale of the columns and their names; not dithered yet.
    """

    rows: np.ndarray
    units: Units


def observe(
    X: ArrayLike | tuple[ArrayLike, ...],
    *,
    samples: str = "pooled",
    standardize: str | None = "column",
    columns: Sequence[str] | None = None,
) -> Observed:
    """Check data and choose their units; arguments are those of :func:`~bke.inference.fit`.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    arrays = as_samples(X, samples)
    rows = np.concatenate(arrays)
    sizes = tuple(map(len, arrays)) if samples == "product" else ()
    names = column_names(X) if columns is None else columns
    return Observed(rows, choose_units(rows, standardize, names, sizes))
