"""Level of the default two-sample test on twenty kinds of samples: tails, ties, sizes, columns.

Both samples have the same distribution. The level is exact by construction, so a rate outside of
the exact 99.9 % binomial band is a fault, except for one in a thousand kinds by chance. The
benchmark takes some hours on two cores: the table is written after every kind, and ``--resume``
continues a run.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Callable

import levels
import numpy as np
import repeats
import report
from bke.inference import two_sample_test
from scipy.stats import binom

Rng = np.random.Generator


@dataclasses.dataclass(frozen=True)
class Null:
    """Sizes and distribution of both samples.

    Attributes:
        sizes: rows of the first and of the second sample.
        columns: D.
        rows: draws (n, D) from n, D and a generator.
    """

    sizes: tuple[int, int]
    columns: int
    rows: Callable[[int, int, Rng], np.ndarray]


def _normal(n: int, columns: int, rng: Rng) -> np.ndarray:
    return rng.normal(size=(n, columns))


def _cauchy(n: int, columns: int, rng: Rng) -> np.ndarray:
    return rng.standard_cauchy(size=(n, columns))


def _lognormal(n: int, columns: int, rng: Rng) -> np.ndarray:
    return np.exp(2.0 * rng.normal(size=(n, columns)))


def _t3(n: int, columns: int, rng: Rng) -> np.ndarray:
    """Columns with a common random scale, so that whole rows are outliers."""
    return rng.normal(size=(n, columns)) / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3.0)


def _coins(n: int, columns: int, rng: Rng) -> np.ndarray:
    return (rng.random(size=(n, columns)) < 0.2).astype(float)


def _counts(n: int, columns: int, rng: Rng) -> np.ndarray:
    return rng.poisson(1.5, size=(n, columns)).astype(float)


def _rounded(n: int, columns: int, rng: Rng) -> np.ndarray:
    return np.round(rng.normal(size=(n, columns)), 1)


def _zeros(n: int, columns: int, rng: Rng) -> np.ndarray:
    """Three values in four are zero, and the others are positive."""
    return rng.exponential(size=(n, columns)) * (rng.random(size=(n, columns)) < 0.25)


def _repeated(n: int, columns: int, rng: Rng) -> np.ndarray:
    """Draw from thirty distinct rows."""
    return np.random.default_rng(5).normal(size=(30, columns))[rng.integers(30, size=n)]


def _modes(n: int, columns: int, rng: Rng) -> np.ndarray:
    """Nine rows in ten are in one small cluster, and the others in another cluster."""
    return rng.normal(size=(n, columns)) * 0.1 + 20.0 * (rng.random(size=(n, 1)) < 0.1)


def _correlated(n: int, columns: int, rng: Rng) -> np.ndarray:
    return rng.normal(size=(n, columns)) + 2.0 * rng.normal(size=(n, 1))


def _units(n: int, columns: int, rng: Rng) -> np.ndarray:
    """Columns whose scales differ by twelve powers of ten."""
    return rng.normal(size=(n, columns)) * np.logspace(-6.0, 6.0, columns)


NULLS = {
    "normal": Null((20, 20), 1, _normal),
    "normal, few beside many": Null((15, 200), 1, _normal),
    "normal, many beside few": Null((200, 15), 2, _normal),
    "normal, D = 10": Null((100, 100), 10, _normal),
    "normal, D = 500": Null((50, 50), 500, _normal),
    "normal, D = 100, few beside many": Null((20, 80), 100, _normal),
    "Cauchy": Null((100, 100), 1, _cauchy),
    "Cauchy, D = 20, unequal": Null((40, 120), 20, _cauchy),
    "lognormal": Null((100, 60), 1, _lognormal),
    "lognormal, D = 5": Null((60, 60), 5, _lognormal),
    "t of three, D = 50": Null((60, 60), 50, _t3),
    "coins": Null((100, 50), 1, _coins),
    "coins, D = 8": Null((60, 60), 8, _coins),
    "counts, D = 2": Null((100, 100), 2, _counts),
    "rounded": Null((100, 100), 1, _rounded),
    "zeros, D = 3": Null((80, 120), 3, _zeros),
    "repeated rows, D = 2": Null((100, 60), 2, _repeated),
    "two clusters, D = 2": Null((80, 80), 2, _modes),
    "correlated, D = 200": Null((50, 50), 200, _correlated),
    "units apart, D = 6": Null((60, 60), 6, _units),
}


def pvalues(kind: str, permutations: int, seeds: range) -> list[float]:
    """Return a p-value for each seed; both samples have the same distribution."""
    null, results = NULLS[kind], []
    number = list(NULLS).index(kind)
    for seed in seeds:
        rng = np.random.default_rng([number, seed])
        first, second = (null.rows(n, null.columns, rng) for n in null.sizes)
        options = {"n_resamples": permutations, "seed": seed, "progress": False}
        results.append(float(two_sample_test(first, second, **options).pvalue))
    return results


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=list(NULLS), default=list(NULLS))
    repeats.add_options(parser, repeats=1000, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.kinds = 5, options.kinds[:2]
    band = binom.interval(0.999, options.repeats, levels.ALPHA)
    low, high = (edge / options.repeats for edge in band)

    def text(rows: list[repeats.Row]) -> str:
        outside = sum(row["inside"] == "NO" for row in rows)
        table_rows = [
            {
                "kind": row["kind"],
                "m + n": "{} + {}".format(*NULLS[row["kind"]].sizes),
                "D": NULLS[row["kind"]].columns,
                **{name: row[name] for name in ("level", "inside", "grid")},
            }
            for row in sorted(rows, key=lambda row: list(NULLS).index(row["kind"]))
        ]
        return (
            f"{options.repeats} data sets of each kind, {options.permutations} permutations. The "
            f"99.9 % band of the level is {low:.4f} to {high:.4f}; {outside} of {len(rows)} kinds "
            f"are outside.\n\n{report.table(table_rows)}"
        )

    repeats.fill(
        "nulls",
        "Level of the default two-sample test",
        [{"kind": kind} for kind in options.kinds],
        pvalues,
        functools.partial(levels.summary, band=band),
        text,
        options,
    )


if __name__ == "__main__":
    main()
