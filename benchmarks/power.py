"""Power of the two-sample tests and published power of other tests, m = n = 500, level 0.05.

(i) *mixture*: P is a mixture of four unit Gaussians in the plane at (+-20, +-20). Q is the same
except for one component, whose standard deviation is s. (ii) *perturbed*: P is a uniform density on
[0, 1] with two pairs of bumps of amplitude c and random signs, and Q is uniform. The published
powers are those of MMD-FUSE (Biggs, Schrab and Gretton, 2023), MMDAgg and tests on split data.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import two_sample_test
from levels import statistic_options

ALPHA = 0.05
Samples = tuple[np.ndarray, np.ndarray]


def mixture(deviation: float, n: int, rng: np.random.Generator) -> Samples:
    """Draw setting (i)."""
    centers = 20.0 * np.array([[1, 1], [-1, 1], [1, -1], [-1, -1]])
    first = centers[rng.integers(4, size=n)] + rng.normal(size=(n, 2))
    component = rng.integers(4, size=n)
    sd = np.where(component == 0, deviation, 1.0)[:, None]
    return first, centers[component] + sd * rng.normal(size=(n, 2))


def perturbed(amplitude: float, n: int, rng: np.random.Generator) -> Samples:
    """Draw setting (ii); P by rejection sampling from the uniform distribution."""

    def bump(x: np.ndarray) -> np.ndarray:
        value = np.zeros_like(x)
        up, down = (x > -1.0) & (x < -0.5), (x > -0.5) & (x < 0.0)
        value[up] = np.exp(-1.0 / (1.0 - (4.0 * x[up] + 3.0) ** 2))
        value[down] = -np.exp(-1.0 / (1.0 - (4.0 * x[down] + 1.0) ** 2))
        return value

    signs = rng.choice([-1.0, 1.0], size=2)
    samples = np.empty(0)
    while len(samples) < n:
        x = rng.uniform(size=4 * n)
        density = 1.0 + amplitude * np.e * (signs[0] * bump(2 * x - 1) + signs[1] * bump(2 * x - 2))
        accepted = rng.uniform(size=4 * n) * (1.0 + amplitude) < density
        samples = np.concatenate([samples, x[accepted]])
    return samples[:n, None], rng.uniform(size=(n, 1))


#: By setting: function and parameter, and the published power of the tests in ``PUBLISHED``.
SETTINGS: dict[str, tuple[Callable[..., Samples], float, tuple[float, ...]]] = {
    "mixture, s = 1.4": (mixture, 1.4, (0.235, 0.250, 0.145, 0.040)),
    "mixture, s = 1.6": (mixture, 1.6, (0.635, 0.675, 0.315, 0.030)),
    "mixture, s = 2": (mixture, 2.0, (0.905, 0.945, 0.555, 0.050)),
    "perturbed, c = 0.2": (perturbed, 0.2, (0.180, 0.210, 0.125, 0.105)),
    "perturbed, c = 0.3": (perturbed, 0.3, (0.505, 0.605, 0.240, 0.290)),
    "perturbed, c = 0.5": (perturbed, 0.5, (0.975, 0.985, 0.825, 0.675)),
    "mixture, P = Q": (mixture, 1.0, (0.05,) * 4),
    "perturbed, P = Q": (perturbed, 0.0, (0.05,) * 4),
}
PUBLISHED = ("FUSE", "MMDAgg", "split", "median, published")
#: Statistics, those of MMD by their kernels.
STATISTICS = ("combined", "multiscale", "bayes_factor", "median")


def pvalues(
    statistic: str, setting: str, permutations: int, seeds: range, *, n: int
) -> list[float]:
    """Return a p-value for each seed, on data sets that are the same for every statistic."""
    draw, value, _ = SETTINGS[setting]
    options: dict[str, Any] = {"n_resamples": permutations, "progress": False}
    options |= statistic_options(statistic)
    results = []
    for seed in seeds:
        P, Q = draw(value, n, np.random.default_rng([list(SETTINGS).index(setting), seed]))
        results.append(two_sample_test(P, Q, seed=seed, **options).pvalue)
    return results


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--statistics", nargs="+", choices=STATISTICS, default=list(STATISTICS))
    parser.add_argument("--n", type=int, default=500)
    repeats.add_options(parser, repeats=200, permutations=499)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.n, options.permutations = 4, 60, 99

    def summary(values: np.ndarray) -> repeats.Row:
        return {"rejected": float(np.mean(values <= ALPHA + 1e-9))}

    def text(rows: list[repeats.Row]) -> str:
        powers = {(row["setting"], row["statistic"]): row["rejected"] for row in rows}
        measured = {name for _, name in powers}
        statistics = [name for name in STATISTICS if name in measured]
        published = [
            {
                "setting": name,
                **{statistic: powers.get((name, statistic)) for statistic in statistics},
                **dict(zip(PUBLISHED, published_powers, strict=True)),
            }
            for name, (_, _, published_powers) in SETTINGS.items()
            if any(setting == name for setting, _ in powers)
        ]
        error = 0.5 / options.repeats**0.5
        return (
            f"m = n = {options.n}, {options.repeats} data sets each, {options.permutations} "
            f"permutations, level 0.05; standard error of a power at most {error:.3f}.\n\n"
            + report.table(published)
        )

    repeats.fill(
        "power",
        "Power of the two-sample tests",
        [
            {"statistic": statistic, "setting": name}
            for statistic in options.statistics
            for name in options.settings
        ],
        functools.partial(pvalues, n=options.n),
        summary,
        text,
        options,
        {"n": options.n},
    )


if __name__ == "__main__":
    main()
