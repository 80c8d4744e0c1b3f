"""Levels and powers of tests of conditional independence: HSIC of residuals, and KCI.

The data are similar to those of Zhang, Peters, Janzing and Schölkopf (2011): a post-nonlinear
model, x = g(f(z) + e) and y in the same way with its own functions and noise, for normal z in 1 to
5 columns. Functions are random mixtures of the identity, a cubic and a hyperbolic tangent of the
standardized argument; noise is normal, uniform or Laplace. In case I only the first column of z
has an effect, in case II the sum of a function of each column. For the power the same normal
variable is added to x and y. The weights of the mixtures are uniform on the simplex, the standard
deviation of the noise is half that of f(z), and that of the added variable a quarter of that of x
and y. In the case
"variance" x and y have mean zero and a standard deviation exp(s / 2), for the sum s of the columns
over the root of their number.

About 20 minutes on two cores. The normalized statistic is measured with 100 rows only;
``--slow --sizes 100 200 400 --dimensions 1 2 3 4 5`` measures all, in hours.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import conditional_independence_test
from scipy.stats import binom

ALPHA = 0.05
#: Statistic and null distribution of each test.
TESTS: dict[str, dict[str, str]] = {
    "residuals": {"statistic": "residuals"},
    "kci gamma": {"statistic": "kci", "method": "gamma"},
    "kci local": {"statistic": "kci", "method": "local permutation"},
    "normalized": {"statistic": "normalized"},
}
CASES = ("I", "II", "variance")
#: Largest numbers of rows of slow tests, without ``--slow``.
MAX_ROWS = {"residuals": 200, "normalized": 100}


def mixture(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Apply a random mixture of a line, a cubic and tanh to values (n,), and standardize."""
    values = (values - values.mean()) / values.std()
    mixed = rng.dirichlet(np.ones(3)) @ np.stack([values, values**3, np.tanh(values)])
    return np.asarray((mixed - mixed.mean()) / mixed.std())


def data(
    case: str, n: int, columns: int, dependent: bool, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw x (n,), y (n,) and z (n, columns)."""
    rng = np.random.default_rng([seed, n, columns, CASES.index(case)])
    z = rng.normal(size=(n, columns))
    variables = []
    for _ in range(2):
        noise = (
            rng.normal(size=n),
            rng.uniform(-(3.0**0.5), 3.0**0.5, size=n),
            rng.laplace(scale=0.5**0.5, size=n),
        )[rng.integers(3)]
        if case == "variance":
            values = np.exp(0.5 * z.sum(axis=1) / columns**0.5) * noise
        else:
            effective = z[:, :1] if case == "I" else z
            regression = np.sum([mixture(column, rng) for column in effective.T], axis=0)
            values = mixture(regression / regression.std() + 0.5 * noise, rng)
        variables.append(values / values.std())
    shared = 0.25 * dependent * rng.normal(size=n)
    return variables[0] + shared, variables[1] + shared, z


def pvalues(
    case: str,
    n: int,
    columns: int,
    test: str,
    permutations: int,
    seeds: range,
) -> list[list[float]]:
    """Compute the p-values under the null hypothesis and the alternative, for each seed."""
    options: dict[str, Any] = {"kernel": "median", "progress": False, **TESTS[test]}
    return [
        [
            conditional_independence_test(
                *data(case, n, columns, dependent, seed),
                n_resamples=permutations,
                seed=seed,
                **options,
            ).pvalue
            for dependent in (False, True)
        ]
        for seed in seeds
    ]


def summary(values: np.ndarray, band: tuple[float, float]) -> repeats.Row:
    """Compute rejection rates."""
    level, power = np.mean(values <= ALPHA + 1e-9, axis=0)
    verdict = "low" if level < band[0] else "HIGH" if level > band[1] else "yes"
    return {"level": float(level), "as stated": verdict, "power": float(power)}


def main() -> None:
    """Count rejections and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 200])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--tests", nargs="+", choices=list(TESTS), default=list(TESTS))
    parser.add_argument("--slow", action="store_true", help="all tests at all sizes; hours")
    repeats.add_options(parser, repeats=150, permutations=99)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.dimensions = 2, [40], [2]
    low, high = binom.interval(0.99, options.repeats, ALPHA)
    band = (low / options.repeats, high / options.repeats)

    def text(rows: list[repeats.Row]) -> str:
        return (
            f"{options.repeats} data sets each, {options.permutations} permutations. A test of "
            f"level 0.05 has a rate from {band[0]:.4f} to {band[1]:.4f} with probability 0.99."
            f"\n\n{report.table(rows)}"
        )

    # With one column, case II is case I. A variance that depends on z is measured for the first D.
    keys = [
        {"case": case, "n": n, "D": columns, "test": test}
        for n, case, columns, test in itertools.product(
            options.sizes, options.cases, options.dimensions, options.tests
        )
        if (case, columns) != ("II", 1)
        and (case != "variance" or columns == min(options.dimensions))
        and (options.slow or n <= MAX_ROWS.get(test, n))
    ]
    repeats.fill(
        "conditional",
        "Levels and powers of tests of conditional independence",
        keys,
        pvalues,
        functools.partial(summary, band=band),
        text,
        options,
    )


if __name__ == "__main__":
    main()
