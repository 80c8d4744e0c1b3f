"""Rates of false and true discoveries of methods that locate differences between two samples.

The regions of `compare` are compared with: Goldman and Kaplan's (2018) familywise comparison of
distribution functions at every value, by beta intervals whose level is calibrated by simulation;
global envelopes of extreme rank length under permutations (Konstantinou, Mrkvička and Myllymäki,
2024), of distribution functions and of densities; the weighted difference of distribution functions
that B-plots show (Ćmiel and Ledwina, 2025), by permutations; and multi-resolution scanning (Soriano
and Ma, 2017). All are implemented here from their papers. A claim of a method states which sample
has more rows up to a value, around it, or in the lower half of a window. The truth is estimated
from 200 000 fresh rows of each sample. A claim is false if the true sign is opposite by more than
three standard errors, or if P = Q.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable

import answers
import numpy as np
import repeats
import report
from bke.inference import compare
from scanning import scan
from scipy.stats import beta

ALPHA, GRID = 0.05, 100
#: A flag of each claim of a method, True if it is false, and the number of separate claims.
Claims = tuple[list[bool], int]
LINE = [
    "normal, P = Q",
    "mixture, P = Q",
    "t with 2 degrees, P = Q",
    "normal and Laplace mixture",
    "shift 0.25",
    "scale 1.25",
    "4 % bump of width 0.1",
    "t with 3 degrees, equal variance",
    "lognormal times 1.1",
]
PLANE = ["four Gaussians, one 1.6 times as wide"]


def judge(setting: str, differences: np.ndarray, errors: np.ndarray, signs: np.ndarray) -> Claims:
    """Compare signs (k,) with true differences (k,); adjacent equal signs are one claim."""
    claimed = signs != 0
    false = signs * differences < -3.0 * errors
    false |= not answers.SETTINGS[setting][1]
    runs = np.sum(claimed & (signs != np.concatenate([[0], signs[:-1]])))
    return list(false[claimed]), int(runs)


def true_functions(setting: str, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return F_P - F_Q (k,) at values of one column, and its standard errors."""
    P, Q = (np.sort(values[:, 0]) for values in answers.fresh(setting))
    F, G = (np.searchsorted(values, at, side="right") / len(values) for values in (P, Q))
    return F - G, np.sqrt((F * (1 - F) + G * (1 - G)) / len(P))


@functools.cache
def calibrated_level(m: int, n: int) -> float:
    """Return the level of beta intervals with familywise error rate ``ALPHA`` in simulations."""
    rng = np.random.default_rng(0)
    labels = rng.permuted(np.tile(np.arange(m + n) < m, (1000, 1)), axis=1)
    first, second = np.cumsum(labels, axis=1), np.cumsum(~labels, axis=1)
    levels = np.geomspace(1e-4, 0.1, 40)
    errors = [np.mean(disjoint_signs(first, second, m, n, level).any(axis=1)) for level in levels]
    return float(levels[np.searchsorted(errors, ALPHA, side="right") - 1])


def disjoint_signs(
    first: np.ndarray, second: np.ndarray, m: int, n: int, level: float
) -> np.ndarray:
    """Return the sign of F_P - F_Q where their beta intervals are disjoint, else 0."""
    ends = []
    for count, size in ((first, m), (second, n)):
        k = np.arange(size + 1)
        low, high = beta.ppf(level, k, size + 1 - k), beta.ppf(1 - level, k + 1, size - k)
        ends.append((np.nan_to_num(low)[count], np.nan_to_num(high, nan=1.0)[count]))
    (low_p, high_p), (low_q, high_q) = ends
    return (low_p > high_q).astype(int) - (low_q > high_p).astype(int)


def goldman_kaplan(
    setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int
) -> Claims:
    """Goldman and Kaplan's comparison of distribution functions at every value."""
    at = np.unique(np.concatenate([P, Q])[:, 0])
    first, second = (np.searchsorted(np.sort(sample[:, 0]), at, side="right") for sample in (P, Q))
    signs = disjoint_signs(first, second, len(P), len(Q), calibrated_level(len(P), len(Q)))
    return judge(setting, *true_functions(setting, at), signs)


def permuted_labels(P: np.ndarray, Q: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Return labels (1 + count, N) of pooled rows, observed and permuted."""
    labels = np.tile(np.arange(len(P) + len(Q)) < len(P), (1 + count, 1))
    labels[1:] = np.random.default_rng(seed).permuted(labels[1:], axis=1)
    return labels.astype(float)


def outside(curves: np.ndarray) -> np.ndarray:
    """Return signs (k,) where the first of curves (1 + B, k) is outside of the envelope, else 0."""
    low = np.argsort(np.argsort(curves, axis=0), axis=0) + 1
    ranks = np.sort(np.minimum(low, len(curves) + 1 - low), axis=1)
    order = np.lexsort(ranks.T[::-1])
    extreme = np.empty(len(curves))
    extreme[order] = (np.arange(len(curves)) + 1) / len(curves)
    central = curves[extreme > ALPHA]
    above, below = curves[0] > central.max(axis=0), curves[0] < central.min(axis=0)
    return above.astype(int) - below.astype(int)


def weights_at(rows: np.ndarray, at: np.ndarray, width: float) -> np.ndarray:
    """Return normal densities (N, k) around values; with zero width, indicators of being below."""
    if not width:
        return (rows <= at).astype(float)
    return np.exp(-0.5 * ((rows - at) / width) ** 2) / width


def curves_of(labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return differences (1 + B, k) of mean weights (N, k) between labels (1 + B, N)."""
    m, n = labels[0].sum(), (1.0 - labels[0]).sum()
    of_first = labels @ weights
    return of_first / m - (weights.sum(axis=0) - of_first) / n


def envelope(
    setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int, *, density: bool
) -> Claims:
    """Global envelope of differences of distribution functions, or of densities."""
    rows = np.concatenate([P, Q])
    at = np.unique(np.quantile(rows, (np.arange(GRID) + 0.5) / GRID))
    sd = min(rows.std(), np.subtract(*np.quantile(rows, [0.75, 0.25])) / 1.349)
    width = 0.9 * sd * len(rows) ** -0.2 if density else 0.0
    signs = outside(
        curves_of(permuted_labels(P, Q, permutations, seed), weights_at(rows, at, width))
    )
    if not density:
        return judge(setting, *true_functions(setting, at), signs)
    densities = [weights_at(sample[:50_000], at, width) for sample in answers.fresh(setting)]
    errors = np.hypot(*(values.std(axis=0) / len(values) ** 0.5 for values in densities))
    return judge(setting, densities[0].mean(axis=0) - densities[1].mean(axis=0), errors, signs)


def weighted(setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int) -> Claims:
    """Difference of distribution functions, divided by its standard deviation."""
    rows = np.concatenate([P, Q])
    at = np.unique(np.quantile(rows, np.linspace(0.02, 0.98, GRID)))
    below = weights_at(rows, at, 0.0)
    proportion = below.mean(axis=0)
    curves = curves_of(permuted_labels(P, Q, permutations, seed), below)
    curves /= np.sqrt(np.maximum(proportion * (1.0 - proportion), 1e-12))
    largest = np.sort(np.abs(curves).max(axis=1))
    critical = largest[int(np.ceil((1.0 - ALPHA) * len(largest))) - 1]
    signs = np.where(np.abs(curves[0]) > critical, np.sign(curves[0]), 0).astype(int)
    return judge(setting, *true_functions(setting, at), signs)


def scanning(setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int) -> Claims:
    """Windows of multi-resolution scanning, by their Bayesian false discovery rate."""
    false = []
    for window in scan(P, Q):
        proportions, errors = [], []
        for rows in answers.fresh(setting):
            inside = np.all((rows >= window.low) & (rows < window.high), axis=1)
            column = rows[inside, window.column]
            middle = 0.5 * (window.low + window.high)[window.column]
            proportions.append(np.mean(column < middle) if len(column) else 0.5)
            errors.append(0.5 / max(len(column), 1) ** 0.5)
        wrong = window.sign * (proportions[0] - proportions[1]) < -3.0 * np.hypot(*errors)
        false.append(bool(wrong) or not answers.SETTINGS[setting][1])
    return false, len(false)


def compare_regions(
    setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int
) -> Claims:
    """Regions of ``compare``."""
    comparison = compare(P, Q, n_resamples=permutations, seed=seed, progress=False)
    false = []
    for region in comparison.regions:
        means, errors = answers.truth(setting, region.center, region.bandwidth)
        wrong = region.sign * (means[0] - means[1]) < -3.0 * np.hypot(*errors)
        false.append(bool(wrong) or not answers.SETTINGS[setting][1])
    return false, len(false)


METHODS: dict[str, Callable[..., Claims]] = {
    "compare": compare_regions,
    "Goldman-Kaplan": goldman_kaplan,
    "envelope, functions": functools.partial(envelope, density=False),
    "envelope, densities": functools.partial(envelope, density=True),
    "weighted functions": weighted,
    "scanning": scanning,
}
OF_A_PLANE = ("compare", "scanning")


def counts(
    setting: str, method: str, permutations: int, seeds: range, *, n: int
) -> list[list[float]]:
    """Return for each seed: any false claim, any true claim, and the number of separate claims."""
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([answers.NAMES.index(setting), seed])
        P, Q = answers.SETTINGS[setting][0](n, rng)
        false, separate = METHODS[method](setting, P, Q, permutations, seed)
        right = len(false) - sum(false)
        rows.append([float(any(false)), float(right > 0), float(separate if right else 0)])
    return rows


def main() -> None:
    """Run the settings and methods and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=LINE + PLANE, default=LINE + PLANE)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--n", type=int, default=500)
    repeats.add_options(parser, repeats=100, permutations=499)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.n, options.permutations = 2, 60, 99
    keys = [
        {"setting": setting, "method": method}
        for setting in options.settings
        for method in options.methods
        if setting in LINE or method in OF_A_PLANE
    ]

    def text(rows: list[repeats.Row]) -> str:
        return (
            f"m = n = {options.n}, {options.repeats} data sets each, {options.permutations} "
            "permutations, level 0.05 (for scanning the false discovery rate). Proportions of data "
            "sets with any false claim and with any true claim, and the mean number of separate "
            "claims in the latter.\n\n" + report.table(rows)
        )

    repeats.fill(
        "where",
        "Where two samples differ, by several methods",
        keys,
        functools.partial(counts, n=options.n),
        lambda values: {
            "any false": float(values[:, 0].mean()),
            "any true": float(values[:, 1].mean()),
            "separate": float(values[values[:, 1] > 0, 2].mean()) if values[:, 1].any() else None,
        },
        text,
        options,
        {"n": options.n},
    )


if __name__ == "__main__":
    main()
