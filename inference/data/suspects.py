"""Columns of numbers that are none: identifiers, and codes that stand for missing values."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: Numbers from which on all that floating-point numbers can be are whole.
WHOLE = 2.0**53
#: Names of identifiers, and of how many rows on all different ones may be one.
IDENTIFIER = re.compile(
    r"(^|[_\W])(id|uuid|guid|key|nr|no)$|^index$|Id$|(?<![A-Z])ID$|^Unnamed", re.ASCII
)
LEAST_ROWS = 20
#: Different whole numbers in a row: with so much more room than there are rows, at most.
SPARE = 1.05
#: Numbers that often stand for a missing value.
CODES = (
    *(sign * (10.0**k - 1.0) for k in range(2, 8) for sign in (-1, 1)),
    # Of NetCDF, of climate models, and of the limits of single precision.
    *(9.969209968386869e36, 1e20, 3.4e38, 3.4028234663852886e38, 1e30),
    *(-3.4e38, -3.4028234663852886e38, -1e30),
)
#: Codes are equal to this relative precision, that of single precision.
PRECISION = 1e-6
#: How often a code must be there, in rows and in share.
CODED_ROWS, CODED_SHARE = 3, 0.002


def are_whole(known: np.ndarray) -> bool:
    """Whether all of some numbers are whole, and small enough to tell."""
    whole = bool(len(known)) and bool((known == np.round(known)).all())
    return whole and bool(np.abs(known).max() < WHOLE)


def identify(name: str, samples: Sequence[np.ndarray]) -> bool:
    """Whether whole numbers only tell rows apart: all different, and named so or in a row.

    Args:
        name: of the column.
        samples: its whole numbers in every sample, NaN where there is none.
    """
    for part in samples:
        known = part[~np.isnan(part)]
        if len(known) < LEAST_ROWS or len(np.unique(known)) < len(known):
            return False
    called = IDENTIFIER.search(name) is not None
    return called or all(np.nanmax(part) - np.nanmin(part) < SPARE * len(part) for part in samples)


def missing_codes(known: np.ndarray) -> tuple[float, ...]:
    """Numbers that may stand for a missing value: repeated, and far from all others."""
    found = []
    are_codes = [
        np.abs(known - code) <= PRECISION * abs(code) * (abs(code) > WHOLE) for code in CODES
    ]
    is_code = np.any(are_codes, axis=0)
    for code, coded in zip(CODES, are_codes, strict=True):
        if coded.sum() < max(CODED_ROWS, CODED_SHARE * len(known)) or coded.all():
            continue
        others = known[~coded & ~is_code]
        if not len(others) or others.min() <= code <= others.max():
            continue
        if min(abs(code - others.min()), abs(code - others.max())) > np.ptp(others):
            found.append(float(known[coded][0]))
    return tuple(found)


def _is_told(name: str, column: np.ndarray) -> bool:
    """Years and the like are in a row too: of such numbers those that count from the first row."""
    return IDENTIFIER.search(name) is not None or column.min() in (0.0, 1.0)


def warn_of_suspects(path: Path, names: Sequence[str], values: np.ndarray) -> None:
    """Warn of columns (n, D) of a file that would be taken for measurements."""
    for name, column in zip(names, values.T, strict=True):
        if are_whole(column) and identify(name, [column]) and _is_told(name, column):
            warnings.warn(
                f"{path}: the numbers of {name!r} are all different, as those of an identifier "
                "are: leave it out with columns= (--columns), unless it is measured",
                stacklevel=3,
            )
        for code in missing_codes(column):
            rows = int(np.sum(column == code))
            warnings.warn(
                f"{path}: {name!r} is {code:g} in {rows} rows, far from all others: if that stands "
                "for a missing value, leave these rows out",
                stacklevel=3,
            )
