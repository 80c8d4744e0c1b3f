"""Simulation-based calibration of quadrature, NUTS and SMC: rank histograms of 500 data sets.

A lengthscale and three rows are drawn from their joint density, prior times likelihood; then the
rank of the lengthscale among draws from the posterior given these rows is uniform, if the draws are
right (Talts et al. 2018, theorem 1). The likelihood is invariant under a translation of all rows,
so one row is at zero; and rows scaled by c at a lengthscale scaled by c have c^-3 times the
density. So the rows are the lengthscale times rows at lengthscale one, and the lengthscale has the
density of its prior divided by itself: Gamma(2, 3) under the prior Gamma(3, 3).

Each lengthscale is ranked among 48 posterior draws. The table has the counts of seven bins of
ranks, and the interval that a uniform count leaves with probability 0.001.

    python benchmarks/calibration.py
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
import report
from bke.inference import Nuts, Quadrature, Smc, fit
from bke.models import SquaredExponential, log_marginal_likelihood
from numpyro.distributions import Gamma
from scipy.stats import binom, kstest

#: Shape and rate of the prior. With the default's shape 1 the joint density has no integral.
PRIOR = (3.0, 3.0)
#: Draws that a lengthscale is ranked among; every ``THINNING``-th of chains and particles.
NUM_DRAWS, THINNING = 48, 8
METHODS = {
    "quadrature": Quadrature(num_samples=NUM_DRAWS),
    "NUTS": Nuts(num_chains=4, num_warmup=200, num_samples=NUM_DRAWS * THINNING // 4),
    "SMC": Smc(num_particles=NUM_DRAWS * THINNING // 2, num_repeats=2),
}
BINS, OUTSIDE = 7, 1e-3


def joint_draws(
    count: int, seed: int = 0, *, proposals: int = 40_000, df: float = 3.0, scale: float = 1.2
) -> tuple[np.ndarray, np.ndarray, float]:
    """Draw lengthscales and three rows given each from the joint density.

    Rows at lengthscale one are resampled from Student-t proposals in proportion to their weights.

    Returns:
        Lengthscales (count,), rows (count, 3, 1), and the effective sample size of the proposals.
    """
    rng = np.random.default_rng(seed)
    steps = rng.standard_t(df, size=(proposals, 2))
    rows = np.concatenate([np.zeros((proposals, 1)), scale * steps], axis=1)[..., None]

    def log_likelihood(X: jax.Array) -> jax.Array:
        return log_marginal_likelihood(X, SquaredExponential(1.0), noise_variance=0.1)

    with jax.enable_x64(True):
        log_weights = np.asarray(jax.jit(jax.vmap(log_likelihood))(jnp.array(rows)))
    log_weights = log_weights + 0.5 * (df + 1.0) * np.log1p(steps**2 / df).sum(axis=1)
    finite = np.isfinite(log_weights)
    weights = np.where(finite, np.exp(log_weights - np.nanmax(log_weights)), 0.0)
    weights /= weights.sum()
    resampled = rows[rng.choice(proposals, size=count, p=weights)]
    shape, rate = PRIOR
    lengthscales = rng.gamma(shape - 1.0, 1.0 / rate, size=count)
    effective_sample_size = float(1.0 / np.sum(weights**2))
    return lengthscales, lengthscales[:, None, None] * resampled, effective_sample_size


def ranks(method: object, lengthscales: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rank every lengthscale among posterior draws given its rows: (k,), 0 to ``NUM_DRAWS``."""
    result = []
    for seed, (lengthscale, X) in enumerate(zip(lengthscales, rows, strict=True)):
        run = fit(
            X,
            prior=Gamma(*PRIOR),
            method=method,
            standardize=None,
            dither=None,
            seed=seed,
            progress=False,
        )
        draws = np.ravel(run["posterior"]["lengthscale"].values)
        result.append(np.sum(draws[:: draws.size // NUM_DRAWS] < lengthscale))
    return np.array(result)


def uniformity_pvalue(values: np.ndarray, seed: int = 0) -> float:
    """Compute the p-value of a Kolmogorov-Smirnov test of uniform ranks, with ties broken."""
    jitter = np.random.default_rng(seed).uniform(size=len(values))
    return float(kstest((values + jitter) / (NUM_DRAWS + 1), "uniform").pvalue)


def main() -> None:
    """Rank all data sets and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    count = 6 if options.quick else options.datasets
    lengthscales, rows, effective_sample_size = joint_draws(count, seed=1)
    low, high = binom.ppf([OUTSIDE / 2, 1 - OUTSIDE / 2], count, 1 / BINS).astype(int)
    table = []
    for name, method in METHODS.items():
        values = ranks(method, lengthscales, rows)
        counts = np.bincount(values * BINS // (NUM_DRAWS + 1), minlength=BINS)
        bins = {f"bin {index + 1}": int(number) for index, number in enumerate(counts)}
        within = bool(((counts >= low) & (counts <= high)).all())
        table.append(
            {"method": name, **bins, "p": uniformity_pvalue(values), "within": str(within)}
        )
    settings = {
        "data sets": count,
        "rows each": 3,
        "ranks among": NUM_DRAWS,
        "interval of a bin": f"{low} to {high}",
        "effective sample size of the proposals": round(effective_sample_size),
    }
    print(report.table(table))
    if not options.quick:
        report.write_report("calibration", "Simulation-based calibration", table, settings)


if __name__ == "__main__":
    main()
