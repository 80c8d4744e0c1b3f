"""Rejection rates of `compare` over many data sets, and the correctness of its regions.

There are thirteen settings, five of them with P = Q. For each data set the benchmark checks the
p-value, the signs of the regions, the simultaneous intervals of all windows, and whether any two
parts of the result contradict each other. True differences of mean weights are estimated from
200 000 fresh rows of each sample, with their standard errors.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import power
import repeats
import report
from bke.inference import Comparison, compare
from bke.inference.comparison.regions import ratio_intervals
from bke.inference.data.units import rounding_unit
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from bke.inference.plots.comparison import REGION_ALPHA
from bke.inference.plots.density import bin_edges
from bke.inference.statistics.local_differences import LocalStatistics, local_statistics

ALPHA = 0.05
FRESH = 200_000
Draw = Callable[[int, np.random.Generator], tuple[np.ndarray, np.ndarray]]


def normal(n: int, rng: np.random.Generator, columns: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Two samples of the standard normal distribution."""
    return rng.normal(size=(n, columns)), rng.normal(size=(n, columns))


def mixture(n: int, rng: np.random.Generator, *, same: bool) -> tuple[np.ndarray, np.ndarray]:
    """The mixtures of BKE Figure 3 with random components; the normal one for both if ``same``."""
    center = rng.choice([-3.0, 0.0, 3.0], size=(2, n, 1))
    P = center[0] + rng.normal(size=(n, 1))
    noise = rng.normal(size=(n, 1)) if same else rng.laplace(scale=0.5**0.5, size=(n, 1))
    return P, center[1] + noise


def changed(
    n: int, rng: np.random.Generator, change: Callable[[np.ndarray], np.ndarray], columns: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal rows, and such rows that are changed."""
    P, Q = normal(n, rng, columns)
    return P, change(Q)


def bump(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Four percent of Q's rows are near 1, within 0.1."""
    P, Q = normal(n, rng)
    moved = rng.uniform(size=n) < 0.04
    Q[moved] = 1.0 + 0.1 * rng.normal(size=(moved.sum(), 1))
    return P, Q


def first_shifted(Q: np.ndarray) -> np.ndarray:
    """The first column moved by 0.3."""
    return Q + 0.3 * (np.arange(Q.shape[1]) == 0)


SETTINGS: dict[str, tuple[Draw, bool]] = {
    "normal, P = Q": (normal, False),
    "mixture, P = Q": (functools.partial(mixture, same=True), False),
    "Poisson, P = Q": (lambda n, r: tuple(r.poisson(3.0, (2, n, 1)).astype(float)), False),
    "t with 2 degrees, P = Q": (lambda n, r: tuple(r.standard_t(2, (2, n, 1))), False),
    "ten columns, P = Q": (functools.partial(normal, columns=10), False),
    "normal and Laplace mixture": (functools.partial(mixture, same=False), True),
    "shift 0.25": (functools.partial(changed, change=lambda Q: Q + 0.25), True),
    "scale 1.25": (functools.partial(changed, change=lambda Q: 1.25 * Q), True),
    "4 % bump of width 0.1": (bump, True),
    "t with 3 degrees, equal variance": (
        lambda n, r: (r.normal(size=(n, 1)), r.standard_t(3, (n, 1)) / 3**0.5),
        True,
    ),
    "lognormal times 1.1": (
        lambda n, r: (np.exp(r.normal(size=(n, 1))), 1.1 * np.exp(r.normal(size=(n, 1)))),
        True,
    ),
    "one of ten columns by 0.3": (
        functools.partial(changed, change=first_shifted, columns=10),
        True,
    ),
    "four Gaussians, one 1.6 times as wide": (functools.partial(power.mixture, 1.6), True),
}
NAMES = list(SETTINGS)


@functools.cache
def fresh(setting: str) -> tuple[np.ndarray, np.ndarray]:
    """Draw ``FRESH`` rows of each sample of a setting."""
    return SETTINGS[setting][0](FRESH, np.random.default_rng(7))


def truth(setting: str, at: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean weight of each sample in a region, (2,), and its standard errors, (2,)."""
    used = np.isfinite(scale)
    means, errors = [], []
    for rows in fresh(setting):
        k = np.exp(-0.5 * np.sum(((rows[:, used] - at[used]) / scale[used]) ** 2, axis=1))
        means.append(k.mean())
        errors.append(k.std() / FRESH**0.5)
    return np.array(means), np.array(errors)


def wrong_signs(setting: str, comparison: Comparison) -> int:
    """Count the regions whose true sign is opposite by more than three standard errors."""
    wrong = 0
    for region in comparison.regions:
        means, errors = truth(setting, region.center, region.bandwidth)
        wrong += region.sign * (means[0] - means[1]) < -3.0 * np.hypot(*errors)
        wrong += not SETTINGS[setting][1]  # there is no true region
    return wrong


def uncovered(
    setting: str, local: LocalStatistics, scale: np.ndarray, rng: np.random.Generator
) -> bool:
    """Return whether the simultaneous intervals miss the ratio in any of forty random windows."""
    low, high = ratio_intervals(local, ALPHA)
    for window in rng.choice(len(low), min(40, len(low)), replace=False):
        center, window_scale = local.centers[window] * scale, local.scales[window] * scale
        means, errors = truth(setting, center, window_scale)
        ratio, slack = means[0] / means[1], 3.0 * np.hypot(*(errors / means)) * means[0] / means[1]
        if not low[window] - slack <= ratio <= high[window] + slack:
            return True
    return False


def shaded_wrongly(comparison: Comparison) -> bool:
    """Return whether the plot shades points outside of the regions."""
    if comparison.pooled.points.shape[1] > 1:
        return False
    figure = comparison.plot()
    points = comparison.pooled.points[:, 0] * comparison.pooled.scale[0]
    edges, unit = bin_edges(points, int(comparison.pooled.n_rows)), rounding_unit(points)
    one_value_per_bin = unit and np.isclose(edges[1] - edges[0], unit)
    wrong = False
    for ax in figure.axes:
        for collection in ax.collections:
            if collection.get_alpha() == REGION_ALPHA:
                x = np.unique(collection.get_paths()[0].vertices[:, 0])[1:-1]
                if not len(x):  # the shaded part is a single point
                    continue
                if one_value_per_bin:  # a whole bin has the sign of its value
                    x = points.min() + unit * np.round((x - points.min()) / unit)
                signs = comparison.region_sign(x)
                wrong |= bool((signs == 0).any()) or len(np.unique(signs)) > 1
    return wrong


def contradictions(comparison: Comparison) -> int:
    """Count the parts of a result that contradict its p-value."""
    record, sentence = comparison.to_dict(), str(comparison).splitlines()[0]
    differ = comparison.pvalue <= comparison.alpha
    points = comparison.pooled.points * comparison.pooled.scale
    return sum(
        [
            comparison.reject != differ,
            sentence.startswith("P and Q differ") != differ,
            record["reject"] != differ,
            bool(comparison.regions) and not differ,
            bool(comparison.region_sign(points).any()) and not differ,
            len(record["regions"]) != len(comparison.regions),
            any(
                comparison.region_sign(region.center[None])[0] != region.sign
                for region in comparison.regions
            ),
            any(
                not region.ratio_interval[0] <= region.ratio <= region.ratio_interval[1]
                for region in comparison.regions
            ),
            any(region.sign * (region.ratio - 1.0) <= 0.0 for region in comparison.regions),
            shaded_wrongly(comparison),
        ]
    )


def measurements(
    setting: str, permutations: int, seeds: range, *, n: int, nulls: bool
) -> list[list[float]]:
    """Draw a data set for each seed and compute one row of measurements from it."""
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([NAMES.index(setting), seed])
        P, Q = SETTINGS[setting][0](n, rng)
        options: dict[str, Any] = {"seed": seed, "progress": False}
        comparison = compare(P, Q, n_resamples=permutations, **options)
        samples = TwoSamples.checked(P, Q)
        pooled = pool_rows(samples, permutations, samples.generator(seed))
        rows.append(
            [
                comparison.pvalue <= ALPHA + 1e-9,
                len(comparison.regions),
                wrong_signs(setting, comparison),
                not nulls and uncovered(setting, local_statistics(pooled), pooled.scale, rng),
                contradictions(comparison),
            ]
        )
    return np.array(rows, dtype=float).tolist()


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--n", type=int, default=500)
    parser.add_argument("--nulls", action="store_true", help="P = Q alone, without intervals")
    repeats.add_options(parser, repeats=100, permutations=499)
    options = parser.parse_args()
    if options.nulls:
        options.settings = [name for name in options.settings if not SETTINGS[name][1]]
    if options.quick:
        options.repeats, options.n, options.permutations = 4, 60, 99

    def summary(values: np.ndarray) -> repeats.Row:
        row = {
            "rejected": values[:, 0].mean(),
            "named": np.mean(values[:, 1] > 0),
            "regions each": values[:, 1].mean(),
            "with a wrong region": np.mean(values[:, 2] > 0),
            "intervals that miss": values[:, 3].mean(),
            "contradictions": values[:, 4].sum(),
        }
        if options.nulls:
            del row["intervals that miss"]
        return {name: float(value) for name, value in row.items()}

    def text(rows: list[repeats.Row]) -> str:
        return (
            f"m = n = {options.n}, {options.repeats} data sets each, {options.permutations} "
            "permutations, level 0.05. Proportions of data sets: rejected; named, with any region; "
            "with a region whose sign is wrong, or with any region if P = Q; with a simultaneous "
            "interval that misses the true ratio in any of forty windows. Contradictions are the "
            "total number.\n\n" + report.table(rows)
        )

    settings = {"n": options.n, "nulls": options.nulls}
    repeats.fill(
        f"answers-{'nulls-' if options.nulls else ''}{options.n}",
        "Answers of compare",
        [{"setting": name} for name in options.settings],
        functools.partial(measurements, **settings),
        summary,
        text,
        options,
        settings,
    )


if __name__ == "__main__":
    main()
