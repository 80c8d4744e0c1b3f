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
    share: str = "pooled",
    scale: str | None = "column",
    columns: Sequence[str] | None = None,
) -> Observed:
    """Check data and choose their units; arguments are those of :func:`~bke.inference.fit`.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    samples = as_samples(X, share)
    rows = np.concatenate(samples)
    sizes = tuple(map(len, samples)) if share == "joint" else ()
    names = column_names(X) if columns is None else columns
    return Observed(rows, choose_units(rows, scale, names, sizes))
