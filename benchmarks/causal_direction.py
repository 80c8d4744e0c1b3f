"""Directions named by `causal_direction` on synthetic pairs: right, wrong and undecided.

In the first settings x is the cause, with y = f(x) + e. A wrong direction requires that the true
model is rejected, so its rate is at most the level of the test of residuals, which is the column
`level`. Of linear functions with Gaussian noise, and of independent columns, both models are true:
any direction is wrong. In the last settings neither model is true: any direction is wrong. The
common causes are exchangeable, so that both models are equally wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import repeats
import report
from bke.inference import causal_direction

ALPHA = 0.05
Pair = tuple[np.ndarray, np.ndarray]
RIGHT, NONE = "x -> y", "none"


def additive(x: np.ndarray, f: np.ndarray, noise: np.ndarray, size: float) -> Pair:
    """Return x and f(x) with noise, whose standard deviation is a multiple of that of f(x)."""
    return x, f + size * f.std() * noise / noise.std()


def uniform_tanh(n: int, rng: np.random.Generator) -> Pair:
    """Draw a saturating function of a normal cause, with uniform noise."""
    x = rng.normal(size=n)
    return additive(x, np.tanh(2.0 * x), rng.uniform(-1.0, 1.0, n), 0.5)


def normal_sine(n: int, rng: np.random.Generator) -> Pair:
    """Draw a sine of a uniform cause, with normal noise."""
    x = rng.uniform(-2.0, 2.0, n)
    return additive(x, np.sin(2.0 * x), rng.normal(size=n), 0.5)


def heavy_cubic(n: int, rng: np.random.Generator) -> Pair:
    """Draw a cubic function of a normal cause, with noise of Student's t with 4 degrees."""
    x = rng.normal(size=n)
    return additive(x, x + 0.3 * x**3, rng.standard_t(4.0, n), 0.3)


def skewed_square(n: int, rng: np.random.Generator) -> Pair:
    """Draw a square of an exponential cause, with exponential noise."""
    x = rng.exponential(size=n)
    return additive(x, x**2, rng.exponential(size=n), 0.5)


def uniform_line(n: int, rng: np.random.Generator) -> Pair:
    """Draw a linear function of a uniform cause, with uniform noise."""
    x = rng.uniform(-1.0, 1.0, n)
    return additive(x, x, rng.uniform(-1.0, 1.0, n), 0.7)


def normal_line(n: int, rng: np.random.Generator) -> Pair:
    """Draw a linear function of a normal cause, with normal noise."""
    x = rng.normal(size=n)
    return additive(x, x, rng.normal(size=n), 0.7)


def independent(n: int, rng: np.random.Generator) -> Pair:
    """Draw a normal and an independent exponential column."""
    return rng.normal(size=n), rng.exponential(size=n)


def multiplicative(n: int, rng: np.random.Generator) -> Pair:
    """Draw a normal cause that scales normal noise."""
    x = rng.normal(size=n)
    return x, (0.2 + np.abs(x)) * rng.normal(size=n)


def common_scale(n: int, rng: np.random.Generator) -> Pair:
    """Draw two normal columns with a common random scale."""
    first, second = rng.normal(size=(2, n)) * np.exp(0.7 * rng.normal(size=n))
    return first, second


def common_cause(n: int, rng: np.random.Generator) -> Pair:
    """Draw two noisy functions of a common uniform cause."""
    cause = rng.uniform(-1.0, 1.0, n)
    first, second = cause + np.abs(cause) * rng.normal(size=(2, n))
    return first, second


SETTINGS: dict[str, tuple[Callable[[int, np.random.Generator], Pair], str]] = {
    "tanh, uniform noise": (uniform_tanh, RIGHT),
    "sine, normal noise": (normal_sine, RIGHT),
    "cubic, t noise": (heavy_cubic, RIGHT),
    "square, exponential noise": (skewed_square, RIGHT),
    "line, uniform noise": (uniform_line, RIGHT),
    "line, normal noise": (normal_line, NONE),
    "independent": (independent, NONE),
    "multiplicative noise": (multiplicative, NONE),
    "common scale": (common_scale, NONE),
    "common cause": (common_cause, NONE),
}
#: Settings in which the additive noise model x -> y is true.
TRUE_MODEL = list(SETTINGS)[:7]


def answers(setting: str, n: int, permutations: int, seeds: range) -> list[tuple[int, int, int]]:
    """Return a row for each seed.

    Its entries are 1 for the direction x -> y, -1 for y -> x and 0 for undecided; the number of
    rejected models; and 1 if x -> y is rejected.
    """
    rows = []
    for seed in seeds:
        rng = np.random.default_rng([seed, n, list(SETTINGS).index(setting)])
        x, y = SETTINGS[setting][0](n, rng)
        result = causal_direction(x, y, n_resamples=permutations, seed=seed, progress=False)
        rejected = [model.test.reject for model in (result.forward, result.backward)]
        code = {"x -> y": 1, "y -> x": -1}.get(result.direction, 0)
        rows.append((code, sum(rejected), int(rejected[0])))
    return rows


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 400])
    repeats.add_options(parser, repeats=100, permutations=199)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.sizes, options.permutations = 2, [60], 39

    def summary(values: np.ndarray) -> repeats.Row:
        direction, rejected, of_first = values.T
        undecided = direction == 0
        return {
            "x -> y": float(np.mean(direction == 1)),
            "y -> x": float(np.mean(direction == -1)),
            "both fit": float(np.mean(undecided & (rejected == 0))),
            "neither fits": float(np.mean(undecided & (rejected == 2))),
            "not significant": float(np.mean(undecided & (rejected == 1))),
            "level": float(np.mean(of_first)),
        }

    def text(rows: list[repeats.Row]) -> str:
        shown = []
        for row in sorted(rows, key=lambda row: (list(SETTINGS).index(row["setting"]), row["n"])):
            truth = SETTINGS[row["setting"]][1]
            wrong = row["y -> x"] + (row["x -> y"] if truth == NONE else 0.0)
            level = row["level"] if row["setting"] in TRUE_MODEL else None
            shown.append({**row, "truth": truth, "wrong": wrong, "level": level})
        error = (ALPHA * (1.0 - ALPHA) / options.repeats) ** 0.5
        return (
            f"{options.repeats} pairs each, {options.permutations} permutations, level {ALPHA}. "
            f"Proportions; the standard error of a proportion of {ALPHA} is {error:.3f}. `level`: "
            f"rejections of the true model x -> y.\n\n{report.table(shown)}"
        )

    keys = [{"setting": setting, "n": n} for n in options.sizes for setting in options.settings]
    repeats.fill(
        "causal_direction",
        "Directions of synthetic pairs by additive noise models",
        keys,
        answers,
        summary,
        text,
        options,
    )


if __name__ == "__main__":
    main()
