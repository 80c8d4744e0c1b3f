"""Coverage of the true error of a low-rank likelihood by its reported estimate.

The error is the root mean square error of differences of the log likelihood over five lengthscales,
0.96 to 1.04 times one near the maximum. The true error, computed with n x n matrices, is compared
with one, two and three times the estimate. Each data set has different rows, of normal, Student t,
mixed or correlated columns in turn, and different landmarks. If the estimate were a standard
deviation of a normal error, the coverage would be 0.68, 0.95 and 0.997.
"""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np
import report
from bke.inference.core.machine import computing
from bke.models import Fourier, Nystrom, SquaredExponential
from bke.models.likelihood.low_rank import LowRank, error_of_differences
from low_rank import NOISE_VARIANCE, Row, value

#: Rows, columns, likelihood, rank, exact rows, lengthscale.
CASES = [
    (600, 10, Nystrom, 100, 100, 3.2),
    (600, 10, Nystrom, 200, 200, 3.2),
    (600, 3, Nystrom, 60, 100, 1.5),
    (600, 10, Fourier, 200, 200, 3.2),
    (600, 10, Fourier, 600, 300, 3.2),
]
FACTORS = (0.96, 0.98, 1.0, 1.02, 1.04)


def main() -> None:
    """Measure the coverage and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-sets", type=int, default=200)
    options = parser.parse_args()
    with computing():
        rows = [coverage_row(case, options.data_sets) for case in CASES]
    settings = {"data sets": options.data_sets, "noise variance": NOISE_VARIANCE}
    report.write_report("low_rank_coverage", "Errors of low-rank likelihoods", rows, settings)


def sample(seed: int, n: int, dimension: int) -> np.ndarray:
    """Draw rows (n, D), every column divided by its standard deviation."""
    rng = np.random.default_rng(seed)
    shape = (n, dimension)
    X = rng.standard_t(4, size=shape) if seed % 4 == 1 else rng.normal(size=shape)
    if seed % 4 == 2:
        X += 2.0 * rng.normal(size=(5, dimension))[rng.integers(5, size=n)]
    if seed % 4 == 3:
        X = 0.3 * X + rng.normal(size=(n, 3)) @ rng.normal(size=(3, dimension))
    return X / X.std(axis=0)


def coverage_row(case: tuple[int, int, type[LowRank], int, int, float], count: int) -> Row:
    """Return coverages and the medians of true and estimated errors over data sets."""
    n, dimension, likelihood, rank, exact, middle = case
    true, estimate = np.empty((2, count))
    for seed in range(count):
        X = sample(seed, n, dimension)
        kernels = [SquaredExponential(factor * middle) for factor in FACTORS]
        solver = likelihood(rank).solver(
            X, kernels[0], NOISE_VARIANCE, "unit", exact=exact, seed=seed
        )
        lengthscales = [jnp.asarray(kernel.lengthscale) for kernel in kernels]
        error = [
            float(value(lengthscale, solver) - value(lengthscale, jnp.asarray(X)))
            for lengthscale in lengthscales
        ]
        terms = [solver.error_terms(kernel, NOISE_VARIANCE, "unit") for kernel in kernels]
        true[seed] = np.std(error)
        estimate[seed] = error_of_differences([terms]).size
    row: Row = {"n": n, "D": dimension, "likelihood": likelihood.name, "rank": rank, "exact": exact}
    row |= {"true": float(np.median(true)), "estimate": float(np.median(estimate))}
    for times in (1, 2, 3):
        row[f"within {times}"] = float(np.mean(true <= times * estimate))
    print(", ".join(f"{name} {report.cell(entry)}" for name, entry in row.items()), flush=True)
    return row


if __name__ == "__main__":
    main()
