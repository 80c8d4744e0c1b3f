"""Streams for the benchmark of monitoring: ten without a change and eight kinds of change."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Rng = np.random.Generator
Rows = Callable[[int, Rng], np.ndarray]
#: Columns of streams that change.
COLUMNS = 5


def normal(n: int, rng: Rng) -> np.ndarray:
    """Draw five columns: two correlated normal, two independent normal, and one lognormal."""
    rows = rng.normal(size=(n, COLUMNS))
    rows[:, 1] = 0.6 * rows[:, 0] + 0.8 * rows[:, 1]
    rows[:, 4] = np.exp(rows[:, 4])
    return rows


def _shift(n: int, rng: Rng) -> np.ndarray:
    rows = normal(n, rng)
    rows[:, 2] += 0.5
    return rows


def _all_shift(n: int, rng: Rng) -> np.ndarray:
    rows = normal(n, rng)
    rows[:, :4] += 0.25
    return rows


def _wider(n: int, rng: Rng) -> np.ndarray:
    rows = normal(n, rng)
    rows[:, 3] *= 1.5
    return rows


def _correlated(n: int, rng: Rng) -> np.ndarray:
    rows = normal(n, rng)
    rows[:, 3] = 0.6 * rows[:, 2] + 0.8 * rows[:, 3]
    return rows


def _tenth(n: int, rng: Rng) -> np.ndarray:
    """One row in ten is in a small cluster."""
    rows = normal(n, rng)
    in_cluster = rng.random(n) < 0.1
    rows[in_cluster, :4] = np.array([1.5, -1.0, 1.0, 0.0]) + 0.2 * rng.normal(
        size=(in_cluster.sum(), 4)
    )
    return rows


def _tails(n: int, rng: Rng) -> np.ndarray:
    """A normal column is a t of three degrees of freedom with the same variance."""
    rows = normal(n, rng)
    rows[:, 2] = rng.standard_t(3, size=n) / np.sqrt(3.0)
    return rows


def _two_modes(n: int, rng: Rng) -> np.ndarray:
    """A normal column has two modes, with the same mean and variance."""
    rows = normal(n, rng)
    rows[:, 2] = 0.9 * rng.choice([-1.0, 1.0], n) + np.sqrt(0.19) * rng.normal(size=n)
    return rows


def _stuck(n: int, rng: Rng) -> np.ndarray:
    """A sensor repeats one value in a quarter of the rows."""
    rows = normal(n, rng)
    rows[rng.random(n) < 0.25, 4] = 1.0
    return rows


#: Distributions after the change; before it the rows are those of ``normal``.
CHANGES: dict[str, Rows] = {
    "shift of one column by 0.5": _shift,
    "shift of four columns by 0.25": _all_shift,
    "one column 1.5 times as wide": _wider,
    "correlation 0 to 0.6": _correlated,
    "one row in ten at one place": _tenth,
    "heavier tails": _tails,
    "two modes": _two_modes,
    "a quarter of one column stuck": _stuck,
}


def _cauchy(n: int, rng: Rng) -> np.ndarray:
    return rng.standard_cauchy(size=(n, 2))


def _counts(n: int, rng: Rng) -> np.ndarray:
    return np.stack([rng.poisson(0.7, n), rng.random(n) < 0.02], axis=1).astype(float)


def _missing(n: int, rng: Rng) -> np.ndarray:
    rows = rng.normal(size=(n, 3))
    rows[rng.random((n, 3)) < 0.1] = np.nan
    return rows


def _wide(n: int, rng: Rng) -> np.ndarray:
    return rng.normal(size=(n, 20)) + rng.normal(size=(n, 1))


def _outliers(n: int, rng: Rng) -> np.ndarray:
    rows = np.exp(2.0 * rng.normal(size=(n, 1)))
    rows[rng.random(n) < 0.001] *= 1e6
    return rows


def _repeats(n: int, rng: Rng) -> np.ndarray:
    """Draw from twelve distinct rows."""
    return np.random.default_rng(5).normal(size=(12, 3))[rng.integers(12, size=n)]


#: Streams without a change: the number of rows of the reference, and the function that draws rows.
NULLS: dict[str, tuple[int, Rows]] = {
    "five columns": (1000, normal),
    "five columns, 50 rows of reference": (50, normal),
    "one column, 20 rows of reference": (20, lambda n, rng: rng.normal(size=(n, 1))),
    "Cauchy, two columns": (300, _cauchy),
    "counts and a rare event": (500, _counts),
    "holes in three columns": (300, _missing),
    "twenty correlated columns": (300, _wide),
    "lognormal with outliers": (200, _outliers),
    "twelve different rows": (100, _repeats),
    "ten thousand rows of reference": (10_000, normal),
}
