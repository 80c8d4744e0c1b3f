"""How often three tests find a difference: the Bayesian kernel test, the label GP, a p-value.

The settings are those of the two-dimensional experiments of Zhang, Wild, Filippi, Flaxman and
Sejdinovic (2022): standard normal rows against rows with another mean, or with another variance
along one direction; and one-dimensional normal rows against Laplace rows of equal variance. The
Bayesian kernel test (`bayesian_two_sample_test`) has the prior variance 1 of the paper, and smaller
ones. "label GP" are the posterior odds of `compare`, and "permutations" its p-value. A Bayesian
answer counts as a difference if its probability is above 1/2, the p-value if it is at most 0.05.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
import repeats
import report
from bke.inference import bayesian_two_sample_test, compare

ALPHA = 0.05
VARIANCES = (1.0, 0.1, 0.01)
#: Difference of the means in two columns, and variance of Q along a direction.
NORMALS = {
    "equal": ((0.0, 0.0), 1.0),
    "shift 0.5 of one column": ((0.5, 0.0), 1.0),
    "shift 2 of one column": ((2.0, 0.0), 1.0),
    "shift 1.5 of both columns": ((1.5, 1.5), 1.0),
    "variance 2 in one direction": ((0.0, 0.0), 2.0),
    "variance 6 in one direction": ((0.0, 0.0), 6.0),
    "variance 20 in one direction": ((0.0, 0.0), 20.0),
}
LAPLACE = "normal and Laplace"
SIZES = (50, 200)


def samples(setting: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw n rows of P and of Q."""
    rng = np.random.default_rng([seed, n])
    if setting == LAPLACE:
        return rng.normal(size=(n, 1)), rng.laplace(scale=math.sqrt(0.5), size=(n, 1))
    shift, variance = NORMALS[setting]
    first, second = rng.normal(size=(2, n, 2))
    direction = np.array([math.cos(math.pi / 4), math.sin(math.pi / 4)])
    stretched = second + np.outer(second @ direction, direction) * (math.sqrt(variance) - 1.0)
    return first, stretched + np.array(shift)


def evaluate(setting: str, n: int, permutations: int, seeds: range) -> list[list[float]]:
    """Return log Bayes factors of all variances, that of the label GP, and the p-value."""
    results = []
    for seed in seeds:
        P, Q = samples(setting, n, seed)
        comparison = compare(P, Q, n_resamples=permutations, seed=seed, progress=False)
        values = [
            bayesian_two_sample_test(P, Q, difference_variance=v).log_bayes_factor
            for v in VARIANCES
        ]
        results.append([*values, comparison.log_bayes_factor, comparison.pvalue])
    return results


def summary(values: np.ndarray) -> repeats.Row:
    """Return the proportion of differences by each answer, and the median log Bayes factor."""
    detections = [*(values[:, :-1] > 0.0).T, values[:, -1] <= ALPHA + 1e-9]
    names = [*(f"variance {v:g}" for v in VARIANCES), "label GP", "permutations"]
    row = {name: float(np.mean(column)) for name, column in zip(names, detections, strict=True)}
    return row | {"median log BF": float(np.median(values[:, 0]))}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    repeats.add_options(parser, repeats=100, permutations=199)
    options = parser.parse_args()
    settings, sizes = [*NORMALS, LAPLACE], SIZES
    if options.quick:
        settings, sizes, options.repeats = settings[:2], SIZES[:1], 2
    keys = [{"setting": setting, "n": n} for setting in settings for n in sizes]
    repeats.fill(
        "bayesian_test",
        "Bayesian kernel two-sample test",
        keys,
        evaluate,
        summary,
        lambda rows: (
            "Proportion of data sets with a difference: columns `variance` are the Bayesian kernel "
            "test with this prior variance of the difference; `median log BF` is that of variance "
            f"1, in nats.\n\n{report.table(rows)}"
        ),
        options,
        {"variances": list(VARIANCES)},
    )


if __name__ == "__main__":
    main()
