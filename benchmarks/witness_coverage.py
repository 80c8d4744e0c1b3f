"""Do the bands of the witness cover the true witness?

P and Q are Gaussian mixtures, whose embeddings have closed form, so the truth is known. For many
independent data sets (iid draws) the pointwise 80 % band at a fixed lengthscale is compared with
it, over the central 95 % of the data and, apart, over the tails. The nominal figure is 0.80.

    python benchmarks/witness_coverage.py
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from bke.inference.runtime.machine import computing
from bke.models import SquaredExponential, embedding_posterior, gaussian_mixture_embedding
from report import write_report
from scipy.stats import norm

LEVEL = 0.8
MIXTURES = {
    "P": (np.array([1, 1, 1]) / 3, np.array([-3.0, 0.0, 3.0]), np.array([1.0, 1.0, 1.0])),
    "Q": (np.array([0.2, 0.5, 0.3]), np.array([-3.0, 0.0, 3.0]), np.array([0.5, 1.0, 1.5])),
}


def draw(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` iid draws from a mixture: components are drawn too."""
    weights, means, deviations = MIXTURES[name]
    component = rng.choice(len(weights), size=n, p=weights)
    return np.asarray(rng.normal(means[component], deviations[component]))


def evaluation_points() -> tuple[np.ndarray, np.ndarray]:
    """Points over the central 95 % of the pooled population, and points beyond it."""
    rng = np.random.default_rng(0)
    pooled = np.concatenate([draw("P", 200_000, rng), draw("Q", 200_000, rng)])
    low, high = np.quantile(pooled, [0.025, 0.975])
    far_low, far_high = np.quantile(pooled, [0.001, 0.999])
    centre = np.linspace(low, high, 60)
    tails = np.concatenate(
        [np.linspace(far_low, low, 11)[:-1], np.linspace(high, far_high, 11)[1:]]
    )
    return centre, tails


def coverage(
    n: int, lengthscale: float, data_sets: int, seed: int, noise: str | float = "clt"
) -> tuple[np.ndarray, np.ndarray]:
    """Share of points covered in each data set, centre and tails, (data_sets,) each."""
    centre, tails = evaluation_points()
    at = np.concatenate([centre, tails])
    kernel = SquaredExponential(lengthscale)
    truth = gaussian_mixture_embedding(*MIXTURES["P"], lengthscale, at) - (
        gaussian_mixture_embedding(*MIXTURES["Q"], lengthscale, at)
    )
    rng = np.random.default_rng(seed)
    samples = [np.stack([draw(name, n, rng) for _ in range(data_sets)]) for name in ("P", "Q")]

    def covered(pair: tuple[jax.Array, jax.Array]) -> jax.Array:
        posteriors = [embedding_posterior(X, kernel, at, noise=noise) for X in pair]
        mean = posteriors[0].mean - posteriors[1].mean
        variance = sum(jnp.diagonal(posterior.covariance) for posterior in posteriors)
        half_width = norm.ppf((1 + LEVEL) / 2) * jnp.sqrt(jnp.maximum(variance, 0.0))
        return jnp.abs(mean - truth) <= half_width

    with computing():
        pairs = tuple(jnp.asarray(sample) for sample in samples)
        inside = np.asarray(jax.jit(lambda pairs: jax.lax.map(covered, pairs))(pairs))
    return inside[:, : len(centre)].mean(axis=1), inside[:, len(centre) :].mean(axis=1)


def main() -> None:
    """Measure all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rows = []
    for noise in ("clt", 0.1):
        for n in (100, 300):
            for lengthscale in (0.3, 0.5, 3.0):
                centre, tails = coverage(n, lengthscale, arguments.data_sets, arguments.seed, noise)
                error = centre.std(ddof=1) / np.sqrt(len(centre))
                rows.append(
                    {
                        "noise": str(noise),
                        "n": n,
                        "lengthscale": lengthscale,
                        "centre": round(float(centre.mean()), 3),
                        "standard error": round(float(error), 3),
                        "tails": round(float(tails.mean()), 3),
                    }
                )
                print(rows[-1], flush=True)
    write_report(
        "coverage",
        f"Coverage of the pointwise {LEVEL:.0%} band of the witness",
        rows,
        {"data sets": arguments.data_sets, "seed": arguments.seed},
    )


if __name__ == "__main__":
    main()
