"""Coverage of the bands of the posterior of a difference, and calibration of its probabilities.

*Bands.* For every data set the witness of two squared exponential kernels is computed at nine
points, with the 80 % pointwise and the 95 % simultaneous band of `compare`. The true witness is
estimated from 200 000 fresh rows of each sample. Coverage and risk are reported separately for data
sets with log BF above 3 and for the others. The risk is the mean squared error of the posterior
mean over that of the empirical difference.

*Odds.* Half of the data sets have a difference that is drawn from the prior of the model, over a
common shape, and half have none. The posterior probabilities of a difference are compared with its
frequencies in bins.
"""

from __future__ import annotations

import argparse
import functools
import itertools

import answers
import numpy as np
import repeats
import report
from bke.inference.comparison.difference_posterior import difference_posterior
from bke.inference.comparison.witness import Bands, sampling_draws, witness_draws
from bke.inference.permutation.pool import pool_rows
from bke.inference.permutation.samples import TwoSamples
from scipy.stats import beta, gamma

STRONG, LEVEL, WIDE, DRAWS = 3.0, 0.8, 0.95, 1000
#: Lengthscales of the kernels, in standard deviations of the pooled rows.
SCALES = (0.3, 1.0)
SETTINGS = [
    "normal, P = Q",
    "normal and Laplace mixture",
    "shift 0.25",
    "scale 1.25",
    "4 % bump of width 0.1",
    "four Gaussians, one 1.6 times as wide",
]
BINS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])


def evaluation_points(setting: str) -> np.ndarray:
    """Return nine points (9, D) of the setting, quantiles or rows of fresh data."""
    P, Q = answers.fresh(setting)
    both = np.concatenate([P[:5000], Q[:5000]])
    if both.shape[1] == 1:
        return np.quantile(both, np.linspace(0.04, 0.96, 9), axis=0)
    return both[np.random.default_rng(0).choice(len(both), 9, replace=False)]


def true_witness(setting: str, at: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Estimate the witness (9,) from the fresh rows of each sample."""
    return np.subtract(
        *(weights(sample, at, scale).mean(axis=0) for sample in answers.fresh(setting))
    )


def weights(rows: np.ndarray, at: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the kernel matrix (n, k) between rows (n, D) and points (k, D)."""
    parts = [((rows[:, None, d] - at[:, d]) / scale[d]) ** 2 for d in range(rows.shape[1])]
    return np.exp(-0.5 * np.sum(parts, axis=0))


@functools.cache
def _truths(setting: str) -> tuple[np.ndarray, dict[float, np.ndarray], dict[float, np.ndarray]]:
    """Return the points and, by kernel, its scale in the units of the data and the true witness."""
    sd = np.concatenate(answers.fresh(setting)).std(axis=0)
    at, scales = (
        evaluation_points(setting),
        {lengthscale: lengthscale * sd for lengthscale in SCALES},
    )
    return at, scales, {scale: true_witness(setting, at, scales[scale]) for scale in SCALES}


def coverage(setting: str, permutations: int, seeds: range, *, n: int) -> list[list[float]]:
    """For each seed: log BF and, by kernel, the coverages and squared errors of one data set."""
    at, scales, truths = _truths(setting)
    results = []
    for seed in seeds:
        rng = np.random.default_rng([answers.NAMES.index(setting), seed, n])
        P, Q = answers.SETTINGS[setting][0](n, rng)
        rows = pool_rows(TwoSamples.checked(P, Q), permutations, rng)
        posterior = difference_posterior(rows)
        drawn, row = posterior.draw(DRAWS, rng), [posterior.log_bayes_factor]
        for lengthscale in SCALES:
            at_scaled, scale, truth = (
                at / rows.scale,
                scales[lengthscale] / rows.scale,
                truths[lengthscale],
            )
            posterior_bands = Bands.from_draws(
                witness_draws(drawn, rows, at_scaled, scale), LEVEL, WIDE
            )
            sampling_bands = Bands.from_draws(
                sampling_draws(rows, at_scaled, scale, DRAWS, rng), LEVEL, WIDE
            )
            empirical = np.subtract(
                *(weights(X, at, scales[lengthscale]).mean(axis=0) for X in (P, Q))
            )
            for bands in (posterior_bands, sampling_bands):
                row += [
                    np.mean((bands.lower <= truth) & (truth <= bands.upper)),
                    np.all((bands.wide_lower <= truth) & (truth <= bands.wide_upper)),
                ]
            row += [
                np.sum((estimate - truth) ** 2) for estimate in (posterior_bands.mean, empirical)
            ]
        results.append([float(value) for value in row])
    return results


def coverage_summary(values: np.ndarray) -> repeats.Row:
    """Summarize coverage and risk separately for data sets with log BF above 3 and the others."""
    strong = values[:, 0] > STRONG
    row: repeats.Row = {
        "median log BF": float(np.median(values[:, 0])),
        "BF > 1": float(np.mean(values[:, 0] > 0.0)),
        "strong": float(np.mean(strong)),
    }
    for name, chosen in (("strong", strong), ("weak", ~strong)):
        for index, scale in enumerate(SCALES):
            part = values[chosen, 1 + 6 * index : 7 + 6 * index]
            any_rows, key = len(part) > 0, f"{name}, {scale:g}"
            for column, entry in enumerate(("each", "all", "each by sampling", "all by sampling")):
                row[f"{entry}, {key}"] = float(part[:, column].mean()) if any_rows else None
            row[f"risk, {key}"] = float(part[:, 4].sum() / part[:, 5].sum()) if any_rows else None
    return row


def odds(half: str, permutations: int, seeds: range, *, n: int) -> list[list[float]]:
    """For each seed: 1 if the data set has a difference, else 0, and its posterior probability."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([7, seed])
        shape = rng.choice([-2.0, 0.0, 2.0], size=(2 * n, 1)) + rng.normal(size=(2 * n, 1))
        chances = np.full(2 * n, 0.5)
        if half == "with":
            chances += 0.5 * _difference(shape / shape.std(), rng)
        of_first = rng.uniform(size=2 * n) < chances
        samples = TwoSamples.checked(shape[of_first], shape[~of_first])
        rows = pool_rows(samples, permutations, rng)
        results.append([float(half == "with"), difference_posterior(rows).probability])
    return results


def _difference(points: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw g = h / 2 at rows of one column from the prior of the model."""
    lengthscale = np.inf
    while not 0.05 <= lengthscale <= 5.0:  # the range of the model's grid
        lengthscale = gamma(1.0).rvs(random_state=rng)
    size = 10.0 ** rng.uniform(-2.0, 0.0)
    at = np.linspace(points.min(), points.max(), 400)
    gram = np.exp(-0.5 * ((at[:, None] - at) / lengthscale) ** 2)
    values, vectors = np.linalg.eigh(gram)
    curve = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.normal(size=len(at)))
    g = np.interp(points[:, 0], at, curve)
    return np.clip(size * (g - g.mean()), -1.0, 1.0)


def calibration(values: np.ndarray) -> list[repeats.Row]:
    """Count the data sets in each bin of probabilities, and those with a difference among them."""
    rows = []
    for low, high in itertools.pairwise(BINS):
        inside = (values[:, 1] >= low) & ((values[:, 1] < high) | (high == 1.0))
        count, true = int(inside.sum()), int(values[inside, 0].sum())
        expected = float(values[inside, 1].mean()) if count else np.nan
        ends = beta([true + 0.5, true + 0.5], count - true + 0.5).ppf([0.005, 0.995])
        rows.append(
            {
                "probability": f"{low:.1f} to {high:.1f}",
                "data sets": count,
                "mean probability": expected,
                "with a difference": true / max(count, 1),
                "99 % from": float(ends[0]),
                "to": float(ends[1]),
            }
        )
    return rows


def main() -> None:
    """Run the settings and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[300, 1500])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--odds", action="store_true", help="the odds alone")
    repeats.add_options(parser, repeats=200, permutations=1)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.n = 4, [60]
    if options.odds:
        _odds(options)
        return
    for n in options.n:
        repeats.fill(
            f"difference-{n}",
            f"Bands of the posterior of a difference, m = n = {n}",
            [{"setting": name} for name in options.settings],
            functools.partial(coverage, n=n),
            coverage_summary,
            functools.partial(_text, n, options.repeats),
            options,
            {"n": n},
        )


def _text(n: int, count: int, rows: list[repeats.Row]) -> str:
    columns = ["setting", "median log BF", "BF > 1", "strong"]
    tables = [report.table([{name: row[name] for name in columns} for row in rows])]
    for name, scale in itertools.product(("strong", "weak"), SCALES):
        ending = f", {name}, {scale:g}"
        part = [
            {key.removesuffix(ending): row[key] for key in row if key.endswith((ending, "setting"))}
            for row in rows
        ]
        tables += [
            f"Log BF {'above' if name == 'strong' else 'at most'} 3, kernel of {scale:g} standard "
            "deviations:",
            report.table(part),
        ]
    return (
        f"m = n = {n}, {count} data sets each; the difference is strong if log BF > 3. Coverage "
        "of the 80 % band at each of nine points and of the 95 % band at all of them, by the "
        "posterior and by sampling errors only (compare shows these bands if log BF is at most 3); "
        "risk of the posterior mean over that of the empirical difference.\n\n"
        + "\n\n".join(tables)
    )


def _odds(options: argparse.Namespace) -> None:
    n = options.n[0]
    every: list[np.ndarray] = []

    def summary(values: np.ndarray) -> repeats.Row:
        every.append(values)
        return {"median probability": float(np.median(values[:, 1]))}

    def text(rows: list[repeats.Row]) -> str:
        table = report.table(calibration(np.concatenate(every)))
        return (
            f"{n} + {n} rows or so, {options.repeats} data sets with a difference from the prior "
            f"and as many without.\n\n{report.table(rows)}\n\n{table}"
        )

    options.resume = options.again = False
    repeats.fill(
        "odds",
        "Posterior probabilities of a difference, and how often there is one",
        [{"half": "without"}, {"half": "with"}],
        functools.partial(odds, n=n),
        summary,
        text,
        options,
        {"n": n},
    )


if __name__ == "__main__":
    main()
