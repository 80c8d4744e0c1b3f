"""Level and power of the tests of three variables: joint independence and interaction.

The settings with a difference are those of Sejdinovic, Gretton and Bergsma, *A Kernel Test for
Three-Variable Interactions* (NIPS 2013), with X and Y standard normal in D columns each and Z in D
columns, of which only the first depends on the others:

- "A": Z_1 = sign(X_1 Y_1) times an exponential variable with mean 1 / sqrt 2, where each pair of
  variables is independent;
- "B": Z_1 is X_1^2, Y_1^2 or X_1 Y_1 with probability 1/3 each, plus noise of deviation 0.1.

"independent" has three independent variables, and "one pair" has Z_1 = X_1 plus noise of deviation
1 and Y independent of both: the null hypothesis of the interaction is true, and that of joint
independence is not. Columns: `independence_test(X, Y, Z)` (dHSIC), `lancaster_test(X, Y, Z)`, and
the smallest of the three p-values of `independence_test` of pairs, adjusted by Bonferroni.
"""

from __future__ import annotations

import argparse

import numpy as np
import repeats
import report
from bke.inference import independence_test, lancaster_test

ALPHA = 0.05
NAMES = ("dHSIC", "interaction", "pairs")


def draw(setting: str, n: int, dimension: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Draw X, Y and Z, (n, dimension) each."""
    X, Y, Z = rng.normal(size=(3, n, dimension))
    x, y = X[:, 0], Y[:, 0]
    if setting == "A":
        Z[:, 0] = np.sign(x * y) * rng.exponential(np.sqrt(0.5), n)
    elif setting == "B":
        values = np.stack([x**2, y**2, x * y])[rng.integers(3, size=n), np.arange(n)]
        Z[:, 0] = values + 0.1 * rng.normal(size=n)
    elif setting == "one pair":
        Z[:, 0] += x
    return [X, Y, Z]


def pvalues(setting: str, n: int, D: int, permutations: int, seeds: range) -> list[list[float]]:
    """Return the p-values of ``NAMES`` for each seed."""
    results = []
    for seed in seeds:
        X, Y, Z = draw(setting, n, D, np.random.default_rng([seed, n, D]))
        options = {"n_resamples": permutations, "seed": seed, "progress": False}
        pairs = [independence_test(*pair, **options).pvalue for pair in ((X, Y), (X, Z), (Y, Z))]
        results.append(
            [
                independence_test(X, Y, Z, **options).pvalue,
                lancaster_test(X, Y, Z, **options).pvalue,
                min(1.0, 3.0 * min(pairs)),
            ]
        )
    return results


def summary(values: np.ndarray) -> repeats.Row:
    """Return rejection rates at ``ALPHA``."""
    rates = np.mean(values <= ALPHA + 1e-9, axis=0)
    return dict(zip(NAMES, rates.tolist(), strict=True))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    repeats.add_options(parser, repeats=200, permutations=199)
    options = parser.parse_args()
    keys = [
        {"setting": setting, "n": n, "D": D}
        for setting in ("independent", "one pair", "A", "B")
        for n in (100, 500)
        for D in (1, 3, 5)
    ]
    if options.quick:
        keys, options.repeats = keys[::6], 2
    repeats.fill(
        "joint_independence",
        "Joint independence and interaction of three variables",
        keys,
        pvalues,
        summary,
        lambda rows: f"Rejection rates at level {ALPHA:g}.\n\n{report.table(rows)}",
        options,
    )


if __name__ == "__main__":
    main()
