"""Kernel mean matching: remaining differences after weighting, and errors of a known effect.

Shifted: 800 rows of a standard normal distribution in two columns are weighted to match 300 rows of
one whose mean is (0.6, -0.3). ``left`` is the proportion of data sets in which ``compare`` still
rejects at level 0.05. The effective sample size of the weights is compared with that of the true
density ratio.

Trained: 2490 persons are weighted to match 185 participants of a training, and their earnings are
compared. Covariates have the means of Dehejia and Wahba (1999, Table 1) for the participants of the
National Supported Work demonstration and for the PSID's men; everything else is simulated, so that
the effect of the training is known: 1794 dollars.
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
WEIGHTINGS = ("plain", "logistic", "kernel alone", "means", "means and variances")
Rng = np.random.Generator


def shifted(rng: Rng, moments: int) -> list[float]:
    """Return rejection after weighting and the effective sizes of the weights and true ratio."""
    source, target = rng.normal(size=(800, 2)), rng.normal(SHIFT, size=(300, 2))
    matching = match_weights(source, target, moments=moments)
    ratio = np.exp(source @ SHIFT)
    left = matching.compare(n_resamples=199, progress=False).pvalue <= 0.05
    return [float(left), matching.effective_size, float(ratio.sum() ** 2 / np.sum(ratio**2))]


def persons(rng: Rng, n: int, *, trained: bool) -> np.ndarray:
    """Draw covariates (n, 8) of participants or of the PSID's men."""
    if trained:
        age, education = rng.normal(25.8, 7.2, size=n), rng.normal(10.3, 2.0, size=n)
        black, hispanic, married, idle = 0.84, 0.06, 0.19, 0.71
        earned, log_sd = 2096.0 / (1.0 - idle), 0.8
    else:
        age, education = rng.normal(34.9, 10.4, size=n), rng.normal(12.1, 3.1, size=n)
        black, hispanic, married, idle = 0.25, 0.03, 0.87, 0.09
        earned, log_sd = 19429.0 / (1.0 - idle), 0.6
    columns = [np.round(np.clip(age, 17, 55)), np.round(np.clip(education, 0, 17))]
    columns += [
        (rng.random(n) < probability).astype(float) for probability in (black, hispanic, married)
    ]
    columns.append((columns[1] < 12).astype(float))
    first = np.where(rng.random(n) < idle, 0.0, 1.0)
    level = rng.normal(np.log(earned) - 0.5 * log_sd**2, log_sd, size=n)
    second = np.where(rng.random(n) < 0.15, 1.0 - first, first)
    columns += [first * np.exp(level), second * np.exp(level + 0.3 * rng.normal(size=n))]
    return np.column_stack(columns)


def earnings(x: np.ndarray, rng: Rng) -> np.ndarray:
    """Draw earnings in 1978 without the training: neither linear nor additive in the covariates."""
    age, education, black, _, married, degree, first, second = x.T
    plain = 4000.0 + 0.35 * first + 0.4 * second + 300.0 * (education - 10.0)
    plain += 1500.0 * married - 1000.0 * black - 6.0 * (age - 38.0) ** 2
    plain += 2500.0 * (second == 0.0) * (age < 30.0) - 1200.0 * degree * black
    return np.maximum(plain + 4000.0 * rng.normal(size=len(x)), 0.0)


def trained(rng: Rng) -> list[float]:
    """Return the errors of the effect in dollars by method of weighting, and effective sizes."""
    participants, population = persons(rng, 185, trained=True), persons(rng, 2490, trained=False)
    y, z = earnings(participants, rng) + EFFECT, earnings(population, rng)
    sd = population.std(axis=0)
    both, labels = np.concatenate([participants, population]) / sd, np.repeat([1, 0], [185, 2490])
    odds = (
        LogisticRegression(C=100.0, max_iter=2000).fit(both, labels).predict_proba(population / sd)
    )
    weights = [np.ones(len(z)), odds[:, 1] / odds[:, 0]]
    sizes = []
    for moments in (0, 1, 2):
        try:
            matching = match_weights(population, participants, moments=moments, columns=NAMES)
        except ValueError:
            weights.append(np.full(len(z), np.nan))
            sizes.append(np.nan)
            continue
        weights.append(matching.values)
        sizes.append(matching.effective_size)
    return [*(float(y.mean() - np.average(z, weights=w) - EFFECT) for w in weights), *sizes]


def experiment(setting: str, moments: int, _: int, seeds: range) -> list[list[float]]:
    """Return a row of measurements for each seed."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([seed, moments])
        results.append(trained(rng) if setting == "trained" else shifted(rng, moments))
    return results


def summary(values: np.ndarray) -> repeats.Row:
    """Average the measurements of one of the two settings."""
    if values.shape[1] == 3:
        return dict(
            zip(("left", "worth", "ratio worth"), map(float, values.mean(axis=0)), strict=True)
        )
    solved = ~np.isnan(values[:, 3])  # the same data sets for all but those without a solution
    row: dict[str, Any] = {}
    for index, name in enumerate(WEIGHTINGS):
        errors = values[solved, index]
        known = errors[~np.isnan(errors)]
        row[f"{name}: error"] = float(known.mean()) if len(known) else None
        row[f"{name}: rms"] = float(np.sqrt(np.mean(known**2))) if len(known) else None
        row[f"{name}: solved"] = float(np.mean(~np.isnan(values[:, index])))
        sizes = values[solved, 3 + index] if index > 1 else np.array([np.nan])
        sizes = sizes[~np.isnan(sizes)]
        row[f"{name}: worth"] = float(sizes.mean()) if len(sizes) else None
    return row


def text(rows: list[repeats.Row]) -> str:
    """Format the two tables: remaining differences after a shift, and errors of the effect."""
    plain = [row for row in rows if row["what"] == "shifted"]
    parts = [f"## Shifted\n\n{report.table(plain)}"] if plain else []
    for row in rows:
        if row["what"] == "trained":
            errors = [
                {
                    "weights": weighting,
                    "solved": row[f"{weighting}: solved"],
                    "mean error": row[f"{weighting}: error"],
                    "rms error": row[f"{weighting}: rms"],
                    "rows worth": row[f"{weighting}: worth"],
                }
                for weighting in WEIGHTINGS
            ]
            parts.append(
                f"## Trained: dollars, of an effect of {EFFECT:g}\n\n{report.table(errors)}\n\n"
                "Errors are over the data sets in which weights reproduce all means."
            )
    return "\n\n".join(parts)


def main() -> None:
    """Run the settings and write the tables."""
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
