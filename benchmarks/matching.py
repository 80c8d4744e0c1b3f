"""Kernel mean matching: what a test still finds afterwards, and an effect that is known.

Shifted: 800 rows of a standard normal in two columns are weighted to look like 300 of one whose
mean is (0.6, -0.3); ``left`` is how often ``compare`` still finds a difference at level 0.05,
beside the rows that the weights are worth and those that the true ratio of densities is.

Trained: 2490 persons are weighted to look like 185 who took part in a training, and their earnings
are compared. Covariates have the means that Dehejia and Wahba (1999, Table 1) give for the
participants of the National Supported Work demonstration and for the PSID's men; all else is
simulated, so that the effect of the training is known: 1794 dollars.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import match_weights
from sklearn.linear_model import LogisticRegression

EFFECT, SHIFT = 1794.0, np.array([0.6, -0.3])
NAMES = ("age", "education", "black", "hispanic", "married", "no degree", "earnings 1974", "1975")
WAYS = ("plain", "logistic", "kernel alone", "means", "means and variances")
Rng = np.random.Generator


def shifted(rng: Rng, moments: int) -> list[float]:
    """Whether a difference is found after weighting, and what both weights are worth."""
    source, target = rng.normal(size=(800, 2)), rng.normal(SHIFT, size=(300, 2))
    found = match_weights(source, target, moments=moments)
    ratio = np.exp(source @ SHIFT)
    left = found.compare(n_resamples=199, progress=False).pvalue <= 0.05
    return [float(left), found.effective_size, float(ratio.sum() ** 2 / np.sum(ratio**2))]


def persons(rng: Rng, n: int, *, trained: bool) -> np.ndarray:
    """Covariates (n, 8), of participants or of the PSID's men."""
    if trained:
        age, education = rng.normal(25.8, 7.2, size=n), rng.normal(10.3, 2.0, size=n)
        black, hispanic, married, idle = 0.84, 0.06, 0.19, 0.71
        earned, spread = 2096.0 / (1.0 - idle), 0.8
    else:
        age, education = rng.normal(34.9, 10.4, size=n), rng.normal(12.1, 3.1, size=n)
        black, hispanic, married, idle = 0.25, 0.03, 0.87, 0.09
        earned, spread = 19429.0 / (1.0 - idle), 0.6
    columns = [np.round(np.clip(age, 17, 55)), np.round(np.clip(education, 0, 17))]
    columns += [(rng.random(n) < share).astype(float) for share in (black, hispanic, married)]
    columns.append((columns[1] < 12).astype(float))
    first = np.where(rng.random(n) < idle, 0.0, 1.0)
    level = rng.normal(np.log(earned) - 0.5 * spread**2, spread, size=n)
    second = np.where(rng.random(n) < 0.15, 1.0 - first, first)
    columns += [first * np.exp(level), second * np.exp(level + 0.3 * rng.normal(size=n))]
    return np.column_stack(columns)


def earnings(x: np.ndarray, rng: Rng) -> np.ndarray:
    """Earnings in 1978 without a training: neither linear nor additive."""
    age, education, black, _, married, degree, first, second = x.T
    plain = 4000.0 + 0.35 * first + 0.4 * second + 300.0 * (education - 10.0)
    plain += 1500.0 * married - 1000.0 * black - 6.0 * (age - 38.0) ** 2
    plain += 2500.0 * (second == 0.0) * (age < 30.0) - 1200.0 * degree * black
    return np.maximum(plain + 4000.0 * rng.normal(size=len(x)), 0.0)


def trained(rng: Rng) -> list[float]:
    """Errors of the effect, in dollars: plain, by odds of a logistic regression, by ours."""
    there, others = persons(rng, 185, trained=True), persons(rng, 2490, trained=False)
    y, z = earnings(there, rng) + EFFECT, earnings(others, rng)
    unit = others.std(axis=0)
    both, labels = np.concatenate([there, others]) / unit, np.repeat([1, 0], [185, 2490])
    odds = LogisticRegression(C=100.0, max_iter=2000).fit(both, labels).predict_proba(others / unit)
    weights = [np.ones(len(z)), odds[:, 1] / odds[:, 0]]
    sizes = []
    for moments in (0, 1, 2):
        try:
            found = match_weights(others, there, moments=moments, columns=NAMES)
        except ValueError:
            weights.append(np.full(len(z), np.nan))
            sizes.append(np.nan)
            continue
        weights.append(found.values)
        sizes.append(found.effective_size)
    return [*(float(y.mean() - np.average(z, weights=w) - EFFECT) for w in weights), *sizes]


def experiment(what: str, moments: int, _: int, seeds: range) -> list[list[float]]:
    """Each data set's figures."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, moments])
        found.append(trained(rng) if what == "trained" else shifted(rng, moments))
    return found


def summary(values: np.ndarray) -> repeats.Row:
    """Means of what the two kinds of data sets say."""
    if values.shape[1] == 3:
        return dict(
            zip(("left", "worth", "ratio worth"), map(float, values.mean(axis=0)), strict=True)
        )
    solved = ~np.isnan(values[:, 3])  # the same data sets for all but those without a solution
    told: dict[str, Any] = {}
    for index, name in enumerate(WAYS):
        errors = values[solved, index]
        known = errors[~np.isnan(errors)]
        told[f"{name}: error"] = float(known.mean()) if len(known) else None
        told[f"{name}: rms"] = float(np.sqrt(np.mean(known**2))) if len(known) else None
        told[f"{name}: solved"] = float(np.mean(~np.isnan(values[:, index])))
        sizes = values[solved, 3 + index] if index > 1 else np.array([np.nan])
        there = sizes[~np.isnan(sizes)]
        told[f"{name}: worth"] = float(there.mean()) if len(there) else None
    return told


def text(rows: list[repeats.Row]) -> str:
    """Two tables: what is left of a shift, and errors of an effect."""
    plain = [row for row in rows if row["what"] == "shifted"]
    parts = [f"## Shifted\n\n{report.table(plain)}"] if plain else []
    for row in rows:
        if row["what"] == "trained":
            errors = [
                {
                    "weights": one,
                    "solved": row[f"{one}: solved"],
                    "mean error": row[f"{one}: error"],
                    "rms error": row[f"{one}: rms"],
                    "rows worth": row[f"{one}: worth"],
                }
                for one in WAYS
            ]
            parts.append(
                f"## Trained: dollars, of an effect of {EFFECT:g}\n\n{report.table(errors)}\n\n"
                "Errors are those of the data sets in which weights reproduce all means."
            )
    return "\n\n".join(parts)


def main() -> None:
    """Draw, weigh, count, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    repeats.add_options(parser, repeats=100, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats = 2
    keys = [
        {"what": "shifted", "moments": 1},
        {"what": "shifted", "moments": 2},
        {"what": "trained", "moments": 0},
    ]
    repeats.fill("matching", "Kernel mean matching", keys, experiment, summary, text, options)


if __name__ == "__main__":
    main()
