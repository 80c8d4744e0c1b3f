"""The Stein test: its level on rows and on chains, and its power beside KSDAgg.

Chains are autoregressions whose every column is standard normal; few rows, skewed ones, heavy tails
and a funnel are of independent rows. Power is on Gaussian-Bernoulli restricted Boltzmann machines
whose couplings are disturbed (Schrab, Guedj and Gretton 2022, section 4.2: 50 visible and 40 hidden
units, 1000 rows), and on Langevin's algorithm without its correction, whose bias grows with its
step. KSDAgg is re-evaluated from its formula, with the inverse multiquadrics of its section 4;
``median`` is that at the median distance. The table is written after every row; ``--resume`` goes
on.
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
#: Settings that are no true null where their strength is above 0.
BIASED = ("Langevin", "machine")
#: KSDAgg's lengthscales, over the median distance.
AGGREGATED = 2.0 ** np.arange(-20, 1)
VISIBLE, HIDDEN, SWEEPS = 50, 40, 1000


def autoregression(chains: int, draws: int, columns: int, phi: float, rng: Rng) -> np.ndarray:
    """Chains (C, n, D) whose every column is standard normal."""
    noise = rng.normal(size=(chains, draws, columns)) * np.sqrt(1.0 - phi**2)
    noise[:, 0] = rng.normal(size=(chains, columns))
    return np.asarray(lfilter([1.0], [1.0, -phi], noise, axis=1))


def funnel(n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows of Neal's funnel in five columns, and their scores."""
    v = 3.0 * rng.normal(size=n)
    x = np.exp(0.5 * v)[:, None] * rng.normal(size=(n, 4))
    to_v = -v / 9.0 - 2.0 + 0.5 * np.sum(x**2, axis=1) / np.exp(v)
    return np.column_stack([v, x]), np.column_stack([to_v, -x / np.exp(v)[:, None]])


def student(n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows of t distributions of three degrees of freedom, and their scores."""
    x = rng.standard_t(3, size=(n, 3))
    return x, -4.0 * x / (3.0 + x**2)


def machine(disturbed: float, n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a machine with disturbed couplings, and the scores of the machine itself."""
    couplings = rng.choice([-1.0, 1.0], size=(VISIBLE, HIDDEN))
    b, c = rng.normal(size=VISIBLE), rng.normal(size=HIDDEN)
    other = couplings + disturbed * rng.normal(size=couplings.shape)
    x = rng.normal(size=(n, VISIBLE))
    for _ in range(SWEEPS):
        on = rng.random(size=(n, HIDDEN)) < 1.0 / (1.0 + np.exp(-(x @ other + 2.0 * c)))
        x = b + 0.5 * np.where(on, 1.0, -1.0) @ other.T + rng.normal(size=x.shape)
    return x, b - x + 0.5 * np.tanh(0.5 * x @ couplings + c) @ couplings.T


def langevin(step: float, rng: Rng, chains: int = 4, draws: int = 2000) -> np.ndarray:
    """Chains of Langevin's algorithm for a standard normal in five columns, (C, n, 5).

    Exact if ``step`` is zero, by the same autocorrelation as a step of 0.2.
    """
    drift = 1.0 - 0.5 * (step or 0.2)
    scale = np.sqrt(step) if step else np.sqrt(1.0 - drift**2)
    x, found = rng.normal(size=(chains, 5)), []
    for _ in range(draws + 200):
        x = drift * x + scale * rng.normal(size=x.shape)
        found.append(x)
    return np.stack(found[200:], axis=1)


def drawn(setting: str, columns: int, strength: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Draws with their scores."""
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
    """P-values of KSDAgg and of the test at the median distance, by signs of rows."""
    some = x[rng.permutation(len(x))[:500]]
    squares = np.sum(some**2, axis=1)
    apart = squares[:, None] + squares - 2.0 * some @ some.T
    median = np.sqrt(np.median(apart[np.triu_indices(len(some), 1)]))
    signs = rng.choice([-1.0, 1.0], size=(len(x), 1 + bootstraps))
    signs[:, 0] = 1.0
    rows = []
    with computing():
        for factor in AGGREGATED:
            matrix = np.array(stein_matrix(x, s, RationalQuadratic(0.5, median * factor)))
            np.fill_diagonal(matrix, 0.0)
            rows.append(np.einsum("ij,ij->j", signs, matrix @ signs))
    # By ranks among its own bootstrap, as quantiles at a common level are.
    ranks = np.argsort(np.argsort(np.array(rows), axis=1), axis=1)
    return [p_value(ranks.max(axis=0).astype(float)), p_value(rows[-1])]


def pvalues(
    setting: str, columns: int, strength: float, bootstraps: int, seeds: range
) -> list[list[float]]:
    """Ours and, of independent rows, KSDAgg's and the median's; NaN elsewhere."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, columns, int(1000 * strength)])
        x, s = drawn(setting, columns, strength, rng)
        ours = stein_test(x, s, bootstraps=bootstraps, seed=seed, progress=False).pvalue
        others = peers(x, s, bootstraps, rng) if setting == "machine" else [np.nan, np.nan]
        found.append([float(ours), *others])
    return found


def summary(values: np.ndarray) -> repeats.Row:
    """How often each rejects."""
    shares = np.mean(values <= ALPHA + 1e-9, axis=0)
    known = ~np.isnan(values[0])
    told = [float(share) if there else None for share, there in zip(shares, known, strict=True)]
    return dict(zip(("bke", "KSDAgg", "median"), told, strict=True))


def main() -> None:
    """Count and write."""
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
        *({"setting": "Langevin", "D": 5, "strength": one} for one in (0, 0.1, 0.2, 0.4)),
        *(
            {"setting": "autoregression", "D": columns, "strength": phi}
            for phi, columns in itertools.product((0, 0.5, 0.9, 0.99), (1, 5, 20))
        ),
        *({"setting": "machine", "D": VISIBLE, "strength": one} for one in (0, 0.01, 0.02, 0.03)),
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
            f"{options.repeats} data sets each, level {ALPHA}, {options.permutations} flips. "
            "Strength: rows of a normal and of the logarithm of a gamma variable of shape 0.3, or "
            "of 0.05; the step of Langevin's algorithm; the autocorrelation of neighbours; the "
            "deviation of a machine's disturbed couplings. But for steps and couplings above 0 all "
            "are true "
            f"nulls, of which the 99.9 % band of a rate of {ALPHA} is {low:.3f} to "
            f"{high:.3f}.{outside}\n\n{report.table(rows)}"
        )

    repeats.fill("stein", "The Stein test", keys, pvalues, summary, text, options)


if __name__ == "__main__":
    main()
