"""Rounded data: the unit they were rounded to, and noise within it.

Where neighbours on a lattice balance, the volume factor gamma(x_i) of BKE (12) is exactly zero and
the marginal likelihood (13) has no density (design, "Rounded data").
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

MOST_DECIMALS = 12
FINEST = 1e-9  # of the column's range; a finer lattice is as good as none
MOST_STEPS = 1e5  # lattice points in the range, where the unit is not a decimal number


def rounding_unit(column: NDArray[np.float64]) -> float | None:
    """Find the largest u such that all differences of the column are integer multiples of u.

    Found exactly for numbers of at most 12 decimals (u = 0.3048 for whole feet given in metres).
    Otherwise, for at least three different values, by Euclid's algorithm with a tolerance: whole
    numbers divided by their standard deviation keep their lattice. Single-precision numbers that
    were converted to double are recognised; far from zero (at 1000, say) the lattice found may be
    that of single precision itself.

    Args:
        column: (n,) finite values.

    Returns:
        u in the units of the column; None if there is no lattice, if all values are equal, if u is
        below 1e-9 of the range, or below what floating-point numbers of this size can tell.
    """
    values = np.unique(np.asarray(column, dtype=np.float64))
    if len(values) < 2:
        return None
    largest, extent = float(np.max(np.abs(values))), float(values[-1] - values[0])
    with np.errstate(over="ignore"):
        single = np.array_equal(values, values.astype(np.float32).astype(np.float64))
    for epsilon in [2.0**-52] + [2.0**-23] * single:
        error = 4 * epsilon * largest
        # Within the error every number is on the lattice, which says nothing.
        finest = max(FINEST * extent, error)
        for unit in (_decimal_unit(values, 2 * epsilon), _real_unit(values - values[0], error)):
            if unit is not None and unit >= finest:
                return unit
    return None


def _decimal_unit(values: NDArray[np.float64], tolerance: float) -> float | None:
    """Find the unit of numbers with few decimals; ``tolerance`` is relative, for one value."""
    for decimals in range(MOST_DECIMALS + 1):
        scaled = values * 10.0**decimals
        whole = np.rint(scaled)
        if np.all(np.abs(scaled - whole) <= tolerance * np.abs(scaled)):
            integers = [int(value) for value in whole]
            unit = math.gcd(*(value - integers[0] for value in integers))
            return float(unit / 10**decimals)  # exact integers, so rounded once
    return None


def _real_unit(differences: NDArray[np.float64], tolerance: float) -> float | None:
    """Find a unit by Euclid's algorithm on real numbers; ``tolerance`` is absolute, for one."""
    extent = float(differences[-1])
    unit, unit_error = float(np.min(np.diff(differences))), 2 * tolerance
    if len(differences) < 3:
        return None
    while unit * MOST_STEPS >= extent:
        steps = np.rint(differences / unit)
        rest = np.abs(differences - steps * unit)
        rest_error = tolerance + steps * unit_error
        left = np.flatnonzero(rest > rest_error)
        if left.size == 0:
            unit = extent / float(steps[-1])  # the longest difference has the smallest error
            exact = np.abs(differences - steps * unit) <= 2 * tolerance
            return unit if bool(np.all(exact)) else None
        shortest = left[np.argmin(rest[left])]
        unit, unit_error = float(rest[shortest]), float(rest_error[shortest])
    return None


def dithered(X: NDArray[np.float64], units: list[float | None], seed: int) -> NDArray[np.float64]:
    """Undo the rounding: add independent noise, uniform on (-u/2, u/2), to every value.

    Args:
        X: (n, D) sample; it is not changed.
        units: D rounding units, one per column; None or 0 leaves the column as it is.
        seed: of the NumPy generator. The noise of one column does not depend on the other units.

    Returns:
        (n, D) dithered copy.
    """
    if len(units) != X.shape[1]:
        raise ValueError(f"units has {len(units)} entries for {X.shape[1]} columns")
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, size=X.shape)
    moved: NDArray[np.float64] = X + noise * np.array([unit or 0.0 for unit in units])
    return moved
