"""Coverage of the true witness by its pointwise bands.

P and Q are Gaussian mixtures, whose embeddings have closed form, so the truth is known. For many
independent data sets (iid draws) the pointwise 80 % band at a fixed lengthscale is compared with
it, separately over the central 95 % of the data and over the tails. The nominal coverage is 0.80.

    python benchmarks/witness_coverage.py

With ``--rare`` the rows are 0 or 1, as for a rare event that many samples do not contain. Every
pair of counts is evaluated and weighted by its binomial probability, except for pairs in which all
rows are equal. The only error of these coverages is that of the draws of the bands. The bands of
:meth:`~bke.inference.Comparison.witness` and of embeddings are compared with bands from the rows of
each sample only.
"""

from __future__ import annotations

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
from bke.inference.comparison.witness import Bands, sampling_draws
from bke.inference.core.machine import computing
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.witness.draws import pseudo_observation_covariance
from bke.models import SquaredExponential, embedding_posterior, gaussian_mixture_embedding
from report import write_report
from scipy.stats import binom, norm

LEVEL, WIDE = 0.8, 0.95
#: Rare events: probabilities in both samples, sizes, and the probability of the dropped counts.
PROBABILITIES = ((0.01, 0.01), (0.03, 0.03), (0.1, 0.1), (0.3, 0.3), (0.03, 0.1), (0.03, 0.3))
SIZES = ((20, 20), (30, 30), (100, 100), (30, 300))
LEFT_OUT = 1e-4
MIXTURES = {
    "P": (np.array([1, 1, 1]) / 3, np.array([-3.0, 0.0, 3.0]), np.array([1.0, 1.0, 1.0])),
    "Q": (np.array([0.2, 0.5, 0.3]), np.array([-3.0, 0.0, 3.0]), np.array([0.5, 1.0, 1.5])),
}


def draw(name: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ``n`` iid values from a mixture, with random components."""
    weights, means, deviations = MIXTURES[name]
    component = rng.choice(len(weights), size=n, p=weights)
    return np.asarray(rng.normal(means[component], deviations[component]))


def evaluation_points() -> tuple[np.ndarray, np.ndarray]:
    """Return points over the central 95 % of the pooled population, and points beyond it."""
    rng = np.random.default_rng(0)
    pooled = np.concatenate([draw("P", 200_000, rng), draw("Q", 200_000, rng)])
    low, high = np.quantile(pooled, [0.025, 0.975])
    tail_low, tail_high = np.quantile(pooled, [0.001, 0.999])
    center = np.linspace(low, high, 60)
    tails = np.concatenate(
        [np.linspace(tail_low, low, 11)[:-1], np.linspace(high, tail_high, 11)[1:]]
    )
    return center, tails


def coverage(
    n: int, lengthscale: float, data_sets: int, seed: int, noise: str | float = "clt"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the proportion of covered points by data set, center and tails, (data_sets,) each."""
    center, tails = evaluation_points()
    at = np.concatenate([center, tails])
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
    return inside[:, : len(center)].mean(axis=1), inside[:, len(center) :].mean(axis=1)


def rows_of(ones: int, size: int) -> np.ndarray:
    """Return rows (size, 1), the first ``ones`` of which are 1 and the others 0."""
    return np.asarray((np.arange(size) < ones)[:, None], dtype=float)


@functools.cache
def embedded(ones: int, size: int) -> tuple[float, float, float]:
    """Return the embedding at 1 of :func:`rows_of`, its variance, and the pseudo-observations'."""
    kernel, at, rows = SquaredExponential(1.0), np.ones((1, 1)), rows_of(ones, size)
    with computing():
        posterior = embedding_posterior(rows, kernel, at)
        extra_covariance = pseudo_observation_covariance(
            kernel, jnp.array([[0.0], [1.0]]), at, posterior.mean, size
        )
    return (
        float(posterior.mean[0]),
        max(float(posterior.covariance[0, 0]), 0.0),
        float(extra_covariance[0, 0]),
    )


@functools.cache
def band_widths(ones: tuple[int, int], sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return means and half widths (6,) of the bands at 1, with levels 80 and 95 %.

    The bands are those from the rows of each sample only, those of `compare`, and those of
    embeddings with pseudo-observations.
    """
    samples = [rows_of(*pair) for pair in zip(ones, sizes, strict=True)]
    rng = np.random.default_rng(ones)
    rows = pool_rows(TwoSamples.checked(*samples), 1, rng)
    draws = sampling_draws(rows, np.ones((1, 1)) / rows.scale, 1.0 / rows.scale, 4000, rng)
    bands = Bands.from_draws(draws, LEVEL, WIDE)
    kernel_drop = 1.0 - np.exp(-0.5)
    proportions = np.divide(ones, sizes)
    sample_width = kernel_drop * np.sqrt(np.sum(proportions * (1.0 - proportions) / sizes))
    (mean_p, *variances_p), (mean_q, *variances_q) = map(embedded, ones, sizes)
    embedding_width = np.sqrt(np.sum([*variances_p, *variances_q]))
    z = norm.ppf([0.5 + 0.5 * level for level in (LEVEL, WIDE)])
    widths = [
        *sample_width * z,
        (bands.upper - bands.lower)[0] / 2,
        (bands.wide_upper - bands.mean)[0],
    ]
    means = np.repeat([kernel_drop * (proportions[0] - proportions[1]), mean_p - mean_q], [4, 2])
    return means, np.array([*widths, *embedding_width * z])


def rare_coverage(probabilities: tuple[float, float], sizes: tuple[int, int]) -> np.ndarray:
    """Return the coverage (6,) of the bands of :func:`band_widths` over all pairs of counts."""
    masses = [binom(n, p).pmf(np.arange(n + 1)) for n, p in zip(sizes, probabilities, strict=True)]
    mass = np.outer(*masses)
    mass[0, 0] = mass[-1, -1] = 0.0
    order = np.argsort(-mass, axis=None)
    num_pairs = np.searchsorted(np.cumsum(mass.ravel()[order]), (1.0 - LEFT_OUT) * mass.sum()) + 1
    truth = (1.0 - np.exp(-0.5)) * (probabilities[0] - probabilities[1])
    inside, total = np.zeros(6), 0.0
    for index in order[:num_pairs]:
        first, second = np.unravel_index(index, mass.shape)
        means, widths = band_widths((int(first), int(second)), sizes)
        inside += mass.ravel()[index] * (np.abs(means - truth) <= widths)
        total += mass.ravel()[index]
    return inside / total


def rare_report() -> None:
    """Measure rare events and write the table."""
    methods = ("own rows", "compare", "embeddings")
    names = [f"{method}, {level:.0%}" for method in methods for level in (LEVEL, WIDE)]
    rows = []
    for sizes in SIZES:
        for probabilities in PROBABILITIES:
            row = dict(
                zip(names, rare_coverage(probabilities, sizes).round(3).tolist(), strict=True)
            )
            rows.append(
                {"m": sizes[0], "n": sizes[1], "p": probabilities[0], "q": probabilities[1]} | row
            )
            print(rows[-1], flush=True)
    settings = {"lengthscale": 1.0, "at": 1.0, "mass left out": LEFT_OUT}
    write_report("coverage-rare", "Coverage of bands of the witness of rare events", rows, settings)


def main() -> None:
    """Measure all settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-sets", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rare", action="store_true")
    arguments = parser.parse_args()
    if arguments.rare:
        return rare_report()
    rows = []
    for noise in ("clt", 0.1):
        for n in (100, 300):
            for lengthscale in (0.3, 0.5, 3.0):
                center, tails = coverage(n, lengthscale, arguments.data_sets, arguments.seed, noise)
                error = center.std(ddof=1) / np.sqrt(len(center))
                rows.append(
                    {
                        "noise": str(noise),
                        "n": n,
                        "lengthscale": lengthscale,
                        "centre": round(float(center.mean()), 3),
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
