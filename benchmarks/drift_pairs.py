"""Rejection rates of `compare_tables` for the association of two columns.

There are two columns of 1000 + 1000 rows. In most settings the association is the same before and
after, and one column is shifted, rounded, clipped, has other proportions of categories or missing
values: a reported pair is then a false alarm. Some settings are outside of the assumptions:
dependence that is not that of normal columns, levels of unequal variance, hours. In the last
settings the association has changed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd
import repeats
import report
from bke.inference import compare_tables
from scipy.stats import norm, poisson

N = 1000
Rng = np.random.Generator
Draw = Callable[[Rng, bool], dict[str, np.ndarray]]


def normal(change: Callable[[Rng, np.ndarray], np.ndarray], r: float = 0.6) -> Draw:
    """Two correlated normal columns, the first of which is changed."""

    def draw(rng: Rng, after: bool) -> dict[str, np.ndarray]:
        x = rng.normal(size=N)
        y = r * x + np.sqrt(1.0 - r * r) * rng.normal(size=N)
        return {"x": change(rng, x) if after else x, "y": y}

    return draw


def clayton(change: Callable[[np.ndarray], np.ndarray]) -> Draw:
    """Two normal columns whose low values are associated (Clayton's copula, parameter 3)."""

    def draw(rng: Rng, after: bool) -> dict[str, np.ndarray]:
        u, w = rng.uniform(size=(2, N))
        v = ((w ** (-0.75) - 1.0) * u**-3.0 + 1.0) ** (-1.0 / 3.0)
        x, y = norm.ppf(u), norm.ppf(v)
        return {"x": change(x) if after else x, "y": y}

    return draw


def levels(
    before: list[float],
    after: list[float],
    means: list[float],
    spreads: list[float],
    change: Callable[[np.ndarray], np.ndarray] = lambda y: y,
) -> Draw:
    """A category, and a number whose mean and standard deviation depend on it."""

    def draw(rng: Rng, changed: bool) -> dict[str, np.ndarray]:
        level = rng.choice(len(before), N, p=after if changed else before)
        y = np.array(means)[level] + np.array(spreads)[level] * rng.normal(size=N)
        return {"c": np.array(list("abcdef"))[level], "y": change(y) if changed else y}

    return draw


def two_categories(rng: Rng, after: bool) -> dict[str, np.ndarray]:
    """Two categories whose proportions change at equal odds ratios."""
    probabilities = np.array([[0.30, 0.10, 0.05], [0.05, 0.15, 0.10], [0.05, 0.05, 0.15]])
    if after:
        probabilities = probabilities * np.array([[0.2], [1.0], [3.0]]) * np.array([1.0, 0.5, 2.0])
    cell = rng.choice(9, N, p=(probabilities / probabilities.sum()).ravel())
    return {"c": np.array(list("abc"))[cell // 3], "d": np.array(list("uvw"))[cell % 3]}


def hours(rng: Rng, after: bool) -> dict[str, np.ndarray]:
    """Temperature by hour, which stays the same, and changed proportions of the hours."""
    probabilities = np.where(
        (np.arange(24) >= 6) & (np.arange(24) < 18), 3.0 if after else 1.0, 1.0
    )
    hour = rng.choice(24, N, p=probabilities / probabilities.sum())
    when = np.datetime64("2026-01-01") + rng.integers(0, 28, N) * np.timedelta64(24, "h")
    warm = 10.0 - 5.0 * np.cos(2.0 * np.pi * hour / 24.0) + rng.normal(size=N)
    return {"when": when + hour * np.timedelta64(1, "h"), "y": warm}


def correlation(before: float, after: float) -> Draw:
    """Two normal columns whose correlation changes."""
    return lambda rng, changed: normal(lambda _, x: x, after if changed else before)(rng, False)


def half_missing(rng: Rng, x: np.ndarray) -> np.ndarray:
    """Remove half of the values at random."""
    return np.where(rng.uniform(size=len(x)) < 0.5, np.nan, x)


def counts(rng: Rng, x: np.ndarray) -> np.ndarray:
    """Transform to Poisson counts of mean 0.5."""
    return poisson.ppf(norm.cdf(x), 0.5)


EVEN = [0.6, 0.3, 0.1]
SETTINGS: dict[str, Draw] = {
    "nothing has changed": normal(lambda _, x: x),
    "shifted and scaled": normal(lambda _, x: 5.0 + 3.0 * x),
    "rounded to 1": normal(lambda _, x: np.round(x)),
    "clipped at the median": normal(lambda _, x: np.maximum(x, 0.0)),
    "counts of 0.5": normal(counts),
    "exp(3 x)": normal(lambda _, x: np.exp(3.0 * x)),
    "half missing at random": normal(half_missing),
    "other shares of 3 levels": levels(EVEN, [0.2, 0.2, 0.6], [0, 1, 2], [1, 1, 1]),
    "other shares of both categories": two_categories,
    "2 levels, exp(2 y)": levels([0.5, 0.5], [0.5, 0.5], [0, 1], [1, 1], lambda y: np.exp(2 * y)),
    "2 levels, rounded to 2": levels(
        [0.5, 0.5], [0.5, 0.5], [0, 1], [1, 1], lambda y: 2.0 * np.round(y / 2.0)
    ),
    "other shares of levels of spread 1, 1, 5": levels(EVEN, [0.4, 0.2, 0.4], [0, 1, 0], [1, 1, 5]),
    "low values go together, clipped below": clayton(lambda x: np.maximum(x, 0.0)),
    "other shares of hours": hours,
    "correlation 0.3 to 0.5": correlation(0.3, 0.5),
    "correlation 0.6 to 0.7": correlation(0.6, 0.7),
}
#: Settings outside of the assumptions, and settings in which the association has changed.
UNCLAIMED = list(SETTINGS)[9:14]
CHANGED = list(SETTINGS)[14:]


def named(setting: str, permutations: int, seeds: range) -> list[bool]:
    """Return for each seed whether the pair is reported."""
    draw, flags = SETTINGS[setting], []
    for seed in seeds:
        rng = np.random.default_rng([list(SETTINGS).index(setting), seed])
        tables = [pd.DataFrame(draw(rng, after)) for after in (False, True)]
        comparison = compare_tables(*tables, n_resamples=permutations, seed=seed, progress=False)
        flags.append(any(pair.reject for pair in comparison.pairs))
    return flags


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    repeats.add_options(parser, repeats=100, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.permutations = 2, 39

    def text(rows: list[repeats.Row]) -> str:
        groups = {
            "is the same": [],
            "is the same, outside of the assumptions": [],
            "has changed": [],
        }
        for row in rows:
            index = 2 if row["setting"] in CHANGED else int(row["setting"] in UNCLAIMED)
            groups[list(groups)[index]].append(row)
        error = 0.5 / options.repeats**0.5
        header = f"{N} + {N} rows, {options.repeats} data sets each, {options.permutations} "
        header += f"permutations, level 0.05; standard error of a proportion at most {error:.3f}."
        tables = [
            f"The association of the columns {status}:\n\n{report.table(group)}"
            for status, group in groups.items()
            if group
        ]
        return "\n\n".join([header, *tables])

    repeats.fill(
        "drift-pairs",
        "How often a pair of columns is named",
        [{"setting": name} for name in options.settings],
        named,
        lambda values: {"named": float(np.mean(values))},
        text,
        options,
    )


if __name__ == "__main__":
    main()
