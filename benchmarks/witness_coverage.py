"""Do the bands of the witness cover the true witness?

P and Q are Gaussian mixtures, whose embeddings have closed form, so the truth is known. For many
independent data sets (iid draws) the pointwise 80 % band at a fixed lengthscale is compared with
it, over the central 95 % of the data and, apart, over the tails. The nominal figure is 0.80.

    python benchmarks/witness_coverage.py

With ``--rare``: rows that are 0 or 1, as those of a rare event, of which a sample often shows none.
Every pair of counts is gone through and weighed by its binomial probability, but those of which all
rows are equal, so that coverages have no error but that of the bands' draws. Beside the bands of
:meth:`~bke.inference.Comparison.witness` and of embeddings those of each sample's own rows alone.
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
#: Of rare events: chances in both samples, sizes, and the mass of counts that is left out.
CHANCES = ((0.01, 0.01), (0.03, 0.03), (0.1, 0.1), (0.3, 0.3), (0.03, 0.1), (0.03, 0.3))
SIZES = ((20, 20), (30, 30), (100, 100), (30, 300))
LEFT_OUT = 1e-4
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


def rows_of(ones: int, size: int) -> np.ndarray:
    """Rows (size, 1) of which so many are 1."""
    return np.asarray((np.arange(size) < ones)[:, None], dtype=float)


@functools.cache
def embedded(ones: int, size: int) -> tuple[float, float, float]:
    """The embedding at 1 of :func:`rows_of`, its variance, and that of more rows."""
    kernel, at, rows = SquaredExponential(1.0), np.ones((1, 1)), rows_of(ones, size)
    with computing():
        found = embedding_posterior(rows, kernel, at)
        more = pseudo_observation_covariance(
            kernel, jnp.array([[0.0], [1.0]]), at, found.mean, size
        )
    return float(found.mean[0]), max(float(found.covariance[0, 0]), 0.0), float(more[0, 0])


@functools.cache
def missed(ones: tuple[int, int], sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Means and half widths (6,) of bands at 1, by 80 and 95 %.

    Of own rows alone, of `compare`, and of embeddings with more rows.
    """
    samples = [rows_of(*one) for one in zip(ones, sizes, strict=True)]
    rng = np.random.default_rng(ones)
    rows = pool_rows(TwoSamples.checked(*samples), 1, rng)
    draws = sampling_draws(rows, np.ones((1, 1)) / rows.scale, 1.0 / rows.scale, 4000, rng)
    bands = Bands.from_draws(draws, LEVEL, WIDE)
    unit = 1.0 - np.exp(-0.5)
    shares = np.divide(ones, sizes)
    own = unit * np.sqrt(np.sum(shares * (1.0 - shares) / sizes))
    (of_p, *variances_p), (of_q, *variances_q) = map(embedded, ones, sizes)
    whole = np.sqrt(np.sum([*variances_p, *variances_q]))
    z = norm.ppf([0.5 + 0.5 * level for level in (LEVEL, WIDE)])
    widths = [*own * z, (bands.upper - bands.lower)[0] / 2, (bands.wide_upper - bands.mean)[0]]
    means = np.repeat([unit * (shares[0] - shares[1]), of_p - of_q], [4, 2])
    return means, np.array([*widths, *whole * z])


def rare(chances: tuple[float, float], sizes: tuple[int, int]) -> np.ndarray:
    """Coverage (6,) of the bands of :func:`missed` over all pairs of counts."""
    masses = [binom(n, p).pmf(np.arange(n + 1)) for n, p in zip(sizes, chances, strict=True)]
    mass = np.outer(*masses)
    mass[0, 0] = mass[-1, -1] = 0.0
    order = np.argsort(-mass, axis=None)
    enough = np.searchsorted(np.cumsum(mass.ravel()[order]), (1.0 - LEFT_OUT) * mass.sum()) + 1
    truth = (1.0 - np.exp(-0.5)) * (chances[0] - chances[1])
    inside, total = np.zeros(6), 0.0
    for index in order[:enough]:
        first, second = np.unravel_index(index, mass.shape)
        means, widths = missed((int(first), int(second)), sizes)
        inside += mass.ravel()[index] * (np.abs(means - truth) <= widths)
        total += mass.ravel()[index]
    return inside / total


def rare_report() -> None:
    """Measure rare events and write the table."""
    kinds = ("own rows", "compare", "embeddings")
    names = [f"{kind}, {level:.0%}" for kind in kinds for level in (LEVEL, WIDE)]
    rows = []
    for sizes in SIZES:
        for chances in CHANCES:
            row = dict(zip(names, rare(chances, sizes).round(3).tolist(), strict=True))
            rows.append({"m": sizes[0], "n": sizes[1], "p": chances[0], "q": chances[1]} | row)
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
