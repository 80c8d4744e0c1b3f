"""Data of the cases: small, seeded, asymmetric, and without anything degenerate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

#: Rows of the first and the second sample in most cases, few sizes so that programs are shared.
FIRST, SECOND = 40, 52


def rows(count: int, columns: int, stream: int = 0) -> np.ndarray:
    """Skewed, correlated rows whose columns have different scales."""
    rng = np.random.default_rng([stream, count, columns])
    values = rng.gamma(2.0, 1.0, size=(count, columns)) - 1.5
    values[:, 1:] += 0.6 * values[:, :-1]
    return values * np.array([1.0, 2.5, 0.4])[:columns]


def pair(columns: int = 1, shift: float = 0.7, stream: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of different sizes and shapes."""
    first = rows(FIRST, columns, stream)
    second = 0.8 * rows(SECOND, columns, stream + 100)
    second[:, 0] += shift
    return first, second


def bimodal_pair(count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of one column that differ in one region: few rows of the second are near 2."""
    rng = np.random.default_rng(11)
    first = np.where(rng.random(count) < 0.4, rng.normal(2.0, 0.4, count), rng.normal(-1, 1, count))
    more = count + 60
    second = np.where(rng.random(more) < 0.1, rng.normal(2.0, 0.4, more), rng.normal(-1, 1, more))
    return first[:, None], second[:, None]


def dependent(count: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two variables that are independent given the third, each (count, 1)."""
    rng = np.random.default_rng(21)
    z = rng.normal(size=(count, 1))
    x = z + 0.4 * rng.gamma(2.0, 0.5, size=(count, 1))
    y = np.sin(z) + 0.3 * rng.normal(size=(count, 1))
    return x, y, z


def series(count: int = 120, shift: float = 0.0, stream: int = 0) -> np.ndarray:
    """An autoregression of one column."""
    rng = np.random.default_rng([31, stream])
    values = rng.normal(size=count)
    for step in range(1, count):
        values[step] += 0.5 * values[step - 1]
    return values[:, None] + shift


def circle(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """States that turn on a circle, and what is observed of them, each (count, 2)."""
    rng = np.random.default_rng(41)
    angle = np.cumsum(0.4 + 0.1 * rng.normal(size=count))
    states = np.column_stack([np.cos(angle), np.sin(angle)])
    return states, states + 0.2 * rng.normal(size=states.shape)


def chains(shift: float = 0.0) -> np.ndarray:
    """Independent draws, (chain, draw, parameter); the last chain is shifted."""
    draws = np.random.default_rng(51).normal(size=(4, 250, 2))
    draws[..., 1] = np.exp(0.4 * draws[..., 1] + 0.3 * draws[..., 0])
    draws[3, :, 0] += shift
    return draws


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Two tables of numbers, categories, dates and missing values; age and plan have changed."""
    rng = np.random.default_rng(61)
    frames = []
    for count, older, pro in ((160, 0.0, 0.2), (210, 6.0, 0.6)):
        spent = rng.gamma(3.0, 10.0, count).round(2)
        spent[rng.random(count) < 0.06] = np.nan
        days = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 60, count), unit="D")
        frames.append(
            pd.DataFrame(
                {
                    "age": rng.normal(40.0 + older, 9.0, count).round(),
                    "plan": np.where(rng.random(count) < pro, "pro", "basic"),
                    "spent": spent,
                    "day": days,
                    "user": rng.integers(0, 60, count),
                    "site": rng.choice(["north", "south", "west"], count),
                    "weight": rng.uniform(0.5, 2.0, count),
                    "copies": rng.integers(1, 3, count),
                }
            )
        )
    return frames[0], frames[1]


def groups() -> tuple[list[np.ndarray], np.ndarray]:
    """Groups of rows of different sizes, and a number that depends on each distribution's shape."""
    rng = np.random.default_rng(71)
    target = rng.uniform(4.0, 8.0, 40)
    sizes = rng.choice([6, 15, 30], 40)
    return [
        rng.gamma(v / 2, 2 / v, (size, 1)) for v, size in zip(target, sizes, strict=True)
    ], target


def write_csv(path: Path, values: np.ndarray, names: str) -> str:
    """Write rows with a header, and return the path."""
    np.savetxt(path, values, delimiter=",", header=names, comments="", fmt="%.6f")
    return str(path)
