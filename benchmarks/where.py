"""Methods that name where two samples differ: how often anything false is named, or anything true.

Beside the regions of `compare`: Goldman and Kaplan's (2018) familywise comparison of distribution
functions at every value, by beta intervals whose level is calibrated by simulation; global
envelopes of extreme rank length under permutations (Konstantinou, Mrkvička and Myllymäki, 2024), of
distribution functions and of densities; the weighted difference of distribution functions that
B-plots show (Ćmiel and Ledwina, 2025), by permutations; and multi-resolution scanning (Soriano and
Ma, 2017). All are written here anew from their papers. Each is judged by its own claim: which
sample has more up to a value, around it, or in the lower half of a window; the truth is that of
200 000 fresh rows of each sample, and a claim is false where it is the other way round by more than
three standard errors, and where P = Q.
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
#: Whether each claim of a method is false, and how many separate ones there are.
Judged = tuple[list[bool], int]
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


def judged(setting: str, differences: np.ndarray, errors: np.ndarray, signs: np.ndarray) -> Judged:
    """Claims by their signs (k,) beside true differences (k,); neighbours of one sign are one."""
    claimed = signs != 0
    false = signs * differences < -3.0 * errors
    false |= not answers.SETTINGS[setting][1]
    runs = np.sum(claimed & (signs != np.concatenate([[0], signs[:-1]])))
    return list(false[claimed]), int(runs)


def true_functions(setting: str, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F_P - F_Q (k,) at values of one column, and its standard errors."""
    P, Q = (np.sort(one[:, 0]) for one in answers.fresh(setting))
    F, G = (np.searchsorted(one, at, side="right") / len(one) for one in (P, Q))
    return F - G, np.sqrt((F * (1 - F) + G * (1 - G)) / len(P))


@functools.cache
def calibrated(m: int, n: int) -> float:
    """The level of beta intervals at which all together err in ``ALPHA`` of 1000 null samples."""
    rng = np.random.default_rng(0)
    labels = rng.permuted(np.tile(np.arange(m + n) < m, (1000, 1)), axis=1)
    first, second = np.cumsum(labels, axis=1), np.cumsum(~labels, axis=1)
    levels = np.geomspace(1e-4, 0.1, 40)
    errors = [np.mean(apart(first, second, m, n, level).any(axis=1)) for level in levels]
    return float(levels[np.searchsorted(errors, ALPHA, side="right") - 1])


def apart(first: np.ndarray, second: np.ndarray, m: int, n: int, level: float) -> np.ndarray:
    """Where beta intervals of two distribution functions do not meet: their sign, or 0."""
    ends = []
    for count, size in ((first, m), (second, n)):
        k = np.arange(size + 1)
        low, high = beta.ppf(level, k, size + 1 - k), beta.ppf(1 - level, k + 1, size - k)
        ends.append((np.nan_to_num(low)[count], np.nan_to_num(high, nan=1.0)[count]))
    (low_p, high_p), (low_q, high_q) = ends
    return (low_p > high_q).astype(int) - (low_q > high_p).astype(int)


def goldman_kaplan(
    setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int
) -> Judged:
    """Distribution functions at every value."""
    at = np.unique(np.concatenate([P, Q])[:, 0])
    first, second = (np.searchsorted(np.sort(one[:, 0]), at, side="right") for one in (P, Q))
    signs = apart(first, second, len(P), len(Q), calibrated(len(P), len(Q)))
    return judged(setting, *true_functions(setting, at), signs)


def permuted(P: np.ndarray, Q: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Labels (1 + count, N) of pooled rows, as they are and dealt out anew."""
    labels = np.tile(np.arange(len(P) + len(Q)) < len(P), (1 + count, 1))
    labels[1:] = np.random.default_rng(seed).permuted(labels[1:], axis=1)
    return labels.astype(float)


def outside(curves: np.ndarray) -> np.ndarray:
    """Where the first of curves (1 + B, k) leaves the global envelope of extreme rank length."""
    low = np.argsort(np.argsort(curves, axis=0), axis=0) + 1
    ranks = np.sort(np.minimum(low, len(curves) + 1 - low), axis=1)
    order = np.lexsort(ranks.T[::-1])
    extreme = np.empty(len(curves))
    extreme[order] = (np.arange(len(curves)) + 1) / len(curves)
    kept = curves[extreme > ALPHA]
    above, below = curves[0] > kept.max(axis=0), curves[0] < kept.min(axis=0)
    return above.astype(int) - below.astype(int)


def weights_at(rows: np.ndarray, at: np.ndarray, width: float) -> np.ndarray:
    """Normal densities (N, k) of one column around values; with no width, which are up to them."""
    if not width:
        return (rows <= at).astype(float)
    return np.exp(-0.5 * ((rows - at) / width) ** 2) / width


def curves_of(labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Differences (1 + B, k) of mean weights (N, k) between labels (1 + B, N)."""
    m, n = labels[0].sum(), (1.0 - labels[0]).sum()
    of_first = labels @ weights
    return of_first / m - (weights.sum(axis=0) - of_first) / n


def envelope(
    setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int, *, density: bool
) -> Judged:
    """A global envelope of differences of distribution functions, or of densities."""
    rows = np.concatenate([P, Q])
    at = np.unique(np.quantile(rows, (np.arange(GRID) + 0.5) / GRID))
    spread = min(rows.std(), np.subtract(*np.quantile(rows, [0.75, 0.25])) / 1.349)
    width = 0.9 * spread * len(rows) ** -0.2 if density else 0.0
    signs = outside(curves_of(permuted(P, Q, permutations, seed), weights_at(rows, at, width)))
    if not density:
        return judged(setting, *true_functions(setting, at), signs)
    found = [weights_at(one[:50_000], at, width) for one in answers.fresh(setting)]
    errors = np.hypot(*(one.std(axis=0) / len(one) ** 0.5 for one in found))
    return judged(setting, found[0].mean(axis=0) - found[1].mean(axis=0), errors, signs)


def weighted(setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int) -> Judged:
    """The difference of distribution functions in its standard deviations."""
    rows = np.concatenate([P, Q])
    at = np.unique(np.quantile(rows, np.linspace(0.02, 0.98, GRID)))
    below = weights_at(rows, at, 0.0)
    share = below.mean(axis=0)
    curves = curves_of(permuted(P, Q, permutations, seed), below)
    curves /= np.sqrt(np.maximum(share * (1.0 - share), 1e-12))
    largest = np.sort(np.abs(curves).max(axis=1))
    critical = largest[int(np.ceil((1.0 - ALPHA) * len(largest))) - 1]
    signs = np.where(np.abs(curves[0]) > critical, np.sign(curves[0]), 0).astype(int)
    return judged(setting, *true_functions(setting, at), signs)


def scanning(setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int) -> Judged:
    """Windows that split differently, by their Bayesian false discovery rate."""
    false = []
    for window in scan(P, Q):
        shares, errors = [], []
        for rows in answers.fresh(setting):
            inside = np.all((rows >= window.low) & (rows < window.high), axis=1)
            column = rows[inside, window.column]
            middle = 0.5 * (window.low + window.high)[window.column]
            shares.append(np.mean(column < middle) if len(column) else 0.5)
            errors.append(0.5 / max(len(column), 1) ** 0.5)
        wrong = window.sign * (shares[0] - shares[1]) < -3.0 * np.hypot(*errors)
        false.append(bool(wrong) or not answers.SETTINGS[setting][1])
    return false, len(false)


def ours(setting: str, P: np.ndarray, Q: np.ndarray, permutations: int, seed: int) -> Judged:
    """The regions of ``compare``."""
    found = compare(P, Q, n_resamples=permutations, seed=seed, progress=False)
    false = []
    for region in found.regions:
        means, errors = answers.truth(setting, region.center, region.bandwidth)
        wrong = region.sign * (means[0] - means[1]) < -3.0 * np.hypot(*errors)
        false.append(bool(wrong) or not answers.SETTINGS[setting][1])
    return false, len(false)


METHODS: dict[str, Callable[..., Judged]] = {
    "compare": ours,
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
    """Of every seed whether anything false is named, anything true, and how many true."""
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([answers.NAMES.index(setting), seed])
        P, Q = answers.SETTINGS[setting][0](n, rng)
        false, separate = METHODS[method](setting, P, Q, permutations, seed)
        right = len(false) - sum(false)
        rows.append([float(any(false)), float(right > 0), float(separate if right else 0)])
    return rows


def main() -> None:
    """Draw, name, judge, write."""
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
            "permutations, level 0.05 (of scanning the false discovery rate). Shares of data sets "
            "with any false claim and with any true one, and separate claims in those.\n\n"
            + report.table(rows)
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
