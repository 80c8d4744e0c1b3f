"""Level of the Stein test on independent rows and on chains, and its power compared with KSDAgg.

Chains are autoregressions whose columns are standard normal. Small samples, skewed distributions,
heavy tails and a funnel have independent rows. Power is measured on Gaussian-Bernoulli restricted
Boltzmann machines with perturbed couplings (Schrab, Guedj and Gretton 2022, section 4.2: 50 visible
and 40 hidden units, 1000 rows), and on unadjusted Langevin chains, whose bias grows with the step
size. KSDAgg is implemented from its formula, with the inverse multiquadrics of its section 4;
``median`` is the test at the median distance. The table is written after every row; ``--resume``
continues a run.
"""

from __future__ import annotations

import argparse
import itertools
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import stein_test
from bke.inference.core.machine import computing
from bke.inference.permutation.null_distribution import p_value
from bke.models import RationalQuadratic, stein_matrix
from scipy.signal import lfilter
from scipy.stats import binom

ALPHA = 0.05
Rng = np.random.Generator
#: Shapes of gamma variables, whose logarithms have scores of skewness 3.7 and 8.9.
SHAPES = {"log of gamma": 0.3, "log of gamma 0.05": 0.05}
#: Settings in which the null hypothesis is false if their strength is above 0.
BIASED = ("Langevin", "machine")
#: Lengthscales of KSDAgg, divided by the median distance.
AGGREGATED = 2.0 ** np.arange(-20, 1)
VISIBLE, HIDDEN, SWEEPS = 50, 40, 1000


def autoregression(chains: int, draws: int, columns: int, phi: float, rng: Rng) -> np.ndarray:
    """Draw autoregressive chains (C, n, D) whose columns are standard normal."""
    noise = rng.normal(size=(chains, draws, columns)) * np.sqrt(1.0 - phi**2)
    noise[:, 0] = rng.normal(size=(chains, columns))
    return np.asarray(lfilter([1.0], [1.0, -phi], noise, axis=1))


def funnel(n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of Neal's funnel in five columns, and return them with their scores."""
    v = 3.0 * rng.normal(size=n)
    x = np.exp(0.5 * v)[:, None] * rng.normal(size=(n, 4))
    to_v = -v / 9.0 - 2.0 + 0.5 * np.sum(x**2, axis=1) / np.exp(v)
    return np.column_stack([v, x]), np.column_stack([to_v, -x / np.exp(v)[:, None]])


def student(n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of t distributions with three degrees of freedom; return them with their scores."""
    x = rng.standard_t(3, size=(n, 3))
    return x, -4.0 * x / (3.0 + x**2)


def machine(disturbed: float, n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Draw rows of a machine with perturbed couplings; return them with the original scores."""
    couplings = rng.choice([-1.0, 1.0], size=(VISIBLE, HIDDEN))
    b, c = rng.normal(size=VISIBLE), rng.normal(size=HIDDEN)
    other = couplings + disturbed * rng.normal(size=couplings.shape)
    x = rng.normal(size=(n, VISIBLE))
    for _ in range(SWEEPS):
        on = rng.random(size=(n, HIDDEN)) < 1.0 / (1.0 + np.exp(-(x @ other + 2.0 * c)))
        x = b + 0.5 * np.where(on, 1.0, -1.0) @ other.T + rng.normal(size=x.shape)
    return x, b - x + 0.5 * np.tanh(0.5 * x @ couplings + c) @ couplings.T


def langevin(step: float, rng: Rng, chains: int = 4, draws: int = 2000) -> np.ndarray:
    """Draw unadjusted Langevin chains (C, n, 5) for a standard normal target.

    If ``step`` is zero, the chains are exact, with the autocorrelation of a step of 0.2.
    """
    drift = 1.0 - 0.5 * (step or 0.2)
    scale = np.sqrt(step) if step else np.sqrt(1.0 - drift**2)
    x, positions = rng.normal(size=(chains, 5)), []
    for _ in range(draws + 200):
        x = drift * x + scale * rng.normal(size=x.shape)
        positions.append(x)
    return np.stack(positions[200:], axis=1)


def draw(setting: str, columns: int, strength: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws of a setting and their scores."""
    if setting == "autoregression":
        draws = 10_000 if strength > 0.95 else 1000
        x = autoregression(4, draws, columns, strength, rng)
        return x, -x
    if setting == "Langevin":
        x = langevin(strength, rng)
        return x, -x
    if setting == "machine":
        return machine(strength, 1000, rng)
    if setting in SHAPES:
        gamma = rng.gamma(SHAPES[setting], size=(int(strength), columns))
        return np.log(gamma), SHAPES[setting] - gamma
    if setting == "normal":
        x = rng.normal(size=(int(strength), columns))
        return x, -x
    return funnel(300, rng) if setting == "funnel" else student(300, rng)


def peers(x: np.ndarray, s: np.ndarray, bootstraps: int, rng: Rng) -> list[float]:
    """Return the p-values of KSDAgg and of the test at the median distance, by a wild bootstrap."""
    subset = x[rng.permutation(len(x))[:500]]
    squares = np.sum(subset**2, axis=1)
    squared_distances = squares[:, None] + squares - 2.0 * subset @ subset.T
    median = np.sqrt(np.median(squared_distances[np.triu_indices(len(subset), 1)]))
    signs = rng.choice([-1.0, 1.0], size=(len(x), 1 + bootstraps))
    signs[:, 0] = 1.0
    rows = []
    with computing():
        for factor in AGGREGATED:
            matrix = np.array(stein_matrix(x, s, RationalQuadratic(0.5, median * factor)))
            np.fill_diagonal(matrix, 0.0)
            rows.append(np.einsum("ij,ij->j", signs, matrix @ signs))
    # Each statistic is ranked within its bootstrap, which is equivalent to quantiles at one level.
    ranks = np.argsort(np.argsort(np.array(rows), axis=1), axis=1)
    return [p_value(ranks.max(axis=0).astype(float)), p_value(rows[-1])]


def pvalues(
    setting: str, columns: int, strength: float, bootstraps: int, seeds: range
) -> list[list[float]]:
    """Return the p-values of bke and, for the machines, of KSDAgg and the median; else NaN."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([seed, columns, int(1000 * strength)])
        x, s = draw(setting, columns, strength, rng)
        pvalue = stein_test(x, s, bootstraps=bootstraps, seed=seed, progress=False).pvalue
        peer_pvalues = peers(x, s, bootstraps, rng) if setting == "machine" else [np.nan, np.nan]
        results.append([float(pvalue), *peer_pvalues])
    return results


def summary(values: np.ndarray) -> repeats.Row:
    """Return the rejection rates."""
    rates = np.mean(values <= ALPHA + 1e-9, axis=0)
    known = ~np.isnan(values[0])
    values_or_none = [
        float(rate) if available else None for rate, available in zip(rates, known, strict=True)
    ]
    return dict(zip(("bke", "KSDAgg", "median"), values_or_none, strict=True))


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", help="by default all")
    repeats.add_options(parser, repeats=200, permutations=199)
    options = parser.parse_args()
    keys: list[dict[str, Any]] = [
        *({"setting": "normal", "D": 1, "strength": rows} for rows in (16, 50, 100)),
        *({"setting": "log of gamma", "D": 1, "strength": rows} for rows in (30, 100, 400)),
        *({"setting": "log of gamma 0.05", "D": 1, "strength": rows} for rows in (100, 300)),
        {"setting": "t of three", "D": 3, "strength": 0},
        {"setting": "funnel", "D": 5, "strength": 0},
        *({"setting": "Langevin", "D": 5, "strength": strength} for strength in (0, 0.1, 0.2, 0.4)),
        *(
            {"setting": "autoregression", "D": columns, "strength": phi}
            for phi, columns in itertools.product((0, 0.5, 0.9, 0.99), (1, 5, 20))
        ),
        *(
            {"setting": "machine", "D": VISIBLE, "strength": strength}
            for strength in (0, 0.01, 0.02, 0.03)
        ),
    ]
    if options.quick:
        options.repeats, keys = 3, [keys[0], keys[10]]
    elif options.settings:
        keys = [key for key in keys if key["setting"] in options.settings]
    band = binom.interval(0.999, options.repeats, ALPHA)

    def text(rows: list[repeats.Row]) -> str:
        low, high = (edge / options.repeats for edge in band)
        beyond = [
            f"{row['setting']} {row['strength']:g} ({row['bke']:.3g})"
            for row in rows
            if row["bke"] > high and not (row["setting"] in BIASED and row["strength"] > 0)
        ]
        outside = f" Above it: {', '.join(beyond)}." if beyond else ""
        return (
            f"{options.repeats} data sets each, level {ALPHA}, {options.permutations} sign flips. "
            "Strength: rows of a normal and of the logarithm of a gamma variable of shape 0.3, or "
            "of 0.05; the step of the Langevin chain; the lag-1 autocorrelation; the standard "
            "deviation of the perturbation of a machine's couplings. Except for steps and "
            "perturbations above 0 the null hypothesis is true; the 99.9 % band of a rate of "
            f"{ALPHA} is {low:.3f} to {high:.3f}.{outside}\n\n{report.table(rows)}"
        )

    repeats.fill("stein", "The Stein test", keys, pvalues, summary, text, options)


if __name__ == "__main__":
    main()
