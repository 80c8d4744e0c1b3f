"""Kernel Bayes' rule against approximate Bayesian computation, where the posterior mean is known.

After the experiment "Comparison with approximate Bayesian computation" of the slides by Fukumizu,
*Kernel Method for Bayesian Inference*: E[X | Y = y] at ten values of y, Gaussian prior and
likelihood, ten random runs, X in 2 and in 6 columns. The slides print neither the distributions nor
the constants. Here the prior is N(0.5, I), Y = B X + N(0, 0.5^2 I) with B one on the diagonal and
0.5 above it, and the ten y of a run are drawn from the prior predictive distribution, new ones for
every run.

Kernel Bayes' rule learns from n pairs with X_i from N(0, 2 I), another and wider distribution, and
n draws of the prior, for which nothing is simulated. Rejection ABC simulates from the prior and
accepts what is nearest to y, distances with every column of Y over its standard deviation; with the
local linear adjustment of Beaumont, Zhang and Balding (2002) as well, whose model is exact here.
``direct`` is the conditional embedding of X given Y of pairs simulated from the prior, no rule
needed.

The error is |estimate - E[X | Y = y]|^2, over the ten y of a run its mean. The computing time is
that of the process on all its cores, simulation and the choice of kernels and regularisation
included; simulating costs next to nothing here.

    python benchmarks/bayes_rule.py
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy as np
import report
from bke.inference.core.machine import computing
from bke.inference.filtering import learn_conditional
from bke.inference.learning.kernel_selection import scale_lengthscales, select_kernel
from bke.models import (
    BayesRule,
    bayes_rule,
    conditional_embedding,
    mean_embedding,
    pre_image,
)
from bke.models.embeddings.conditional import low_rank_features

matplotlib.use("Agg")
from matplotlib import pyplot as plt

PICTURE = Path(__file__).parent.parent / "docs" / "bayes_rule.png"
SIZES, DIMENSIONS, RUNS, PLACES = (100, 200, 500, 1000, 2000, 4000), (2, 6), 10, 10
PRIOR_MEAN, WIDE, NOISE = 0.5, 2.0**0.5, 0.5
#: epsilon_n = CONSTANT / n and delta_n = 2 epsilon_n; the largest entry that the factorisations
#: leave is 1 / n, at most MOST_RANK columns.
CONSTANTS, TOLERANCE, MOST_RANK = (0.1, 0.01), 1.0, 500
#: ABC alone goes on to these sizes.
MORE_SIZES = (10_000, 100_000, 1_000_000)
#: Shares of the simulations that are accepted, where that is FEWEST rows at least.
SHARES, ADJUSTED, FEWEST = (0.1, 0.01, 0.001), (0.1, 0.3), 5
#: Learning a kernel takes seconds whatever n: in so many runs, at these sizes.
LEARNED_RUNS, LEARNED_SIZES = 3, (100, 500, 4000)
#: Pre-images look at n^2 values of the kernel for every y: up to so many rows.
MODE_ROWS = 500
#: Chosen from data: epsilon and the factor of the lengthscale of X from CHOSEN_ROWS pairs at most,
#: delta and the factor of that of Y by the error at pairs simulated from the prior, HELD of the n
#: but MOST_HELD at most.
CHOSEN_ROWS, FACTORS, DELTAS = 1000, (0.5, 1.0, 2.0), np.geomspace(1e-9, 1e-1, 9)
HELD, MOST_HELD = 0.2, 200
#: What is faster is timed when it runs again, with what XLA compiles at hand.
WARM = 0.5
STYLES = {
    "KBR median, 0.1/n": ("#56B4E9", "-", "o"),
    "KBR median, 0.01/n": ("#0072B2", "-", "o"),
    "KBR learned, 0.01/n": ("#CC79A7", "-", "s"),
    "KBR chosen": ("black", "-", "D"),
    "direct": ("#009E73", "--", "^"),
    "ABC 0.1": ("#E69F00", ":", "v"),
    "ABC 0.01": ("#D55E00", ":", "v"),
    "ABC 0.001": ("#882255", ":", "v"),
    "ABC adjusted 0.1": ("grey", "-.", "x"),
    "ABC adjusted 0.3": ("grey", "-.", "+"),
}


class Estimate(NamedTuple):
    """Estimates of the posterior means at all y (PLACES, D), and the seconds they took."""

    points: np.ndarray
    seconds: float


class Task:
    """Prior, likelihood and posterior in D columns."""

    def __init__(self, D: int):
        self.D, self.B = D, np.eye(D) + 0.5 * np.eye(D, k=1)

    def prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return PRIOR_MEAN + rng.normal(size=(n, self.D))

    def wide(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return WIDE * rng.normal(size=(n, self.D))

    def simulate(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return X @ self.B.T + NOISE * rng.normal(size=X.shape)

    def posterior_mean(self, y: np.ndarray) -> np.ndarray:
        """At every row of y."""
        precision = np.eye(self.D) + self.B.T @ self.B / NOISE**2
        return np.linalg.solve(precision, (y @ self.B / NOISE**2 + PRIOR_MEAN).T).T


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns and its seconds of computing; it must give the same when it runs again."""
    for _ in range(2):
        began = time.process_time()
        found = function()
        seconds = time.process_time() - began
        if seconds > WARM:
            break
    return found, seconds


def means(weights: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """By the weights (m, p) as they are, and over their sum."""
    plain = weights @ points
    return plain, plain / weights.sum(axis=1, keepdims=True)


class Pairs(NamedTuple):
    """What kernel Bayes' rule learns from."""

    X: np.ndarray
    Y: np.ndarray
    prior: np.ndarray


def draw(task: Task, n: int, seed: Sequence[int]) -> Pairs:
    rng = np.random.default_rng(seed)
    X = task.wide(n, rng)
    return Pairs(X, task.simulate(X, rng), task.prior(n, rng))


def fixed_rule(pairs: Pairs, choice: str, constants: Sequence[float]) -> list[BayesRule]:
    """The slides' regularisation with every constant, the kernels by ``choice``."""
    n = len(pairs.X)
    of_x, of_y = select_kernel(pairs.X, choice), select_kernel(pairs.Y, choice, name="Y")
    tolerance = TOLERANCE / n
    outputs = low_rank_features(pairs.Y, of_y, tolerance=tolerance, rank=MOST_RANK)
    prior = mean_embedding(pairs.prior, of_x)
    rules = []
    for constant in constants:
        likelihood = conditional_embedding(
            pairs.X,
            pairs.Y,
            of_x,
            of_y,
            regularization=constant / n,
            tolerance=tolerance,
            rank=MOST_RANK,
        )
        rules.append(bayes_rule(likelihood, prior, features_y=outputs))
    return rules


def chosen_rule(task: Task, n: int, seed: Sequence[int]) -> BayesRule:
    """With everything chosen from n simulations, of which some are kept for delta.

    The posterior mean is what has the smallest mean squared error as a function of y where (x, y)
    are drawn from prior and likelihood. Such pairs can be simulated, so that delta and the
    lengthscale for Y are compared by that error; they count as simulations.
    """
    held = min(MOST_HELD, max(10, round(HELD * n)))
    pairs = draw(task, n - held, seed)
    rng = np.random.default_rng([*seed, 1])
    held_x = task.prior(held, rng)
    held_y = task.simulate(held_x, rng)
    size = len(pairs.X)
    of_x, of_y = select_kernel(pairs.X, "median"), select_kernel(pairs.Y, "median", name="Y")
    part = min(size, CHOSEN_ROWS)
    options: dict[str, Any] = {"tolerance": TOLERANCE / part, "rank": MOST_RANK}
    first = learn_conditional(
        pairs.X[:part], pairs.Y[:part], kernel_x=of_x, kernel_y=of_y, factors=FACTORS, **options
    )
    options["tolerance"] = TOLERANCE / size
    of_x, epsilon = first.kernel_x, first.regularization * part / size
    prior = mean_embedding(pairs.prior, of_x)
    same_x = conditional_embedding(pairs.X, pairs.Y, of_x, of_y, regularization=epsilon, **options)
    best: tuple[float, BayesRule | None] = np.inf, None
    for factor in FACTORS:
        wide = scale_lengthscales(of_y, factor)
        likelihood = dataclasses.replace(same_x, kernel_y=wide)
        outputs = low_rank_features(pairs.Y, wide, **options)
        start = bayes_rule(likelihood, prior, features_y=outputs)
        for delta in DELTAS:
            rule = dataclasses.replace(start, regularization=float(delta))
            _, normalised = means(rule.weights(held_y), rule.points)
            error = float(np.mean(np.sum((normalised - held_x) ** 2, axis=1)))
            if error < best[0]:
                best = error, rule
    assert best[1] is not None
    return best[1]


def direct(task: Task, n: int, y: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """The conditional embedding of X given Y from n simulations of the prior."""
    rng = np.random.default_rng(seed)
    X = task.prior(n, rng)
    Y = task.simulate(X, rng)
    part = min(n, CHOSEN_ROWS)
    of_x, of_y = select_kernel(X, "median"), select_kernel(Y, "median", name="Y")
    options: dict[str, Any] = {"tolerance": TOLERANCE / part, "rank": MOST_RANK}
    first = learn_conditional(
        Y[:part], X[:part], kernel_x=of_y, kernel_y=of_x, factors=FACTORS, **options
    )
    options["tolerance"] = TOLERANCE / n
    epsilon = first.regularization * part / n
    learned = conditional_embedding(Y, X, first.kernel_x, of_x, regularization=epsilon, **options)
    return learned.expectation(y)


def nearest(task: Task, n: int, y: np.ndarray, share: float, seed: Sequence[int]) -> Any:
    """Simulations from the prior and, for every y, those accepted: X, Y and distances."""
    rng = np.random.default_rng(seed)
    X = task.prior(n, rng)
    Y = task.simulate(X, rng)
    unit, accepted = Y.std(axis=0), round(share * n)
    for at in y:
        squares = np.sum(((Y - at) / unit) ** 2, axis=1)
        rows = np.argpartition(squares, accepted - 1)[:accepted]
        yield at, X[rows], Y[rows], squares[rows]


def rejection(task: Task, n: int, y: np.ndarray, share: float, seed: Sequence[int]) -> np.ndarray:
    return np.array([X.mean(axis=0) for _, X, *_ in nearest(task, n, y, share, seed)])


def adjusted(task: Task, n: int, y: np.ndarray, share: float, seed: Sequence[int]) -> np.ndarray:
    """Local linear regression with Epanechnikov's weights: its value at y."""
    found = []
    for at, X, Y, squares in nearest(task, n, y, share, seed):
        root = np.sqrt(np.maximum(1.0 - squares / squares.max(), 1e-9))[:, None]
        design = np.hstack([np.ones((len(Y), 1)), Y - at])
        found.append(np.linalg.lstsq(root * design, root * X, rcond=None)[0][0])
    return np.array(found)


def run(D: int, n: int, index: int, kernels: bool) -> dict[str, Estimate]:
    """All estimates of one run; ``kernels`` for those that are not ABC."""
    task, y = Task(D), places(D, index)
    found: dict[str, Estimate] = {}

    def kept(name: str, rule: BayesRule, seconds: float, modes: bool) -> None:
        """Its estimates: both means, and the approximate modes."""
        (plain, normalised), more = timed(lambda: means(rule.weights(y), rule.points))
        found[name] = Estimate(normalised, seconds + more)
        found[f"{name}, not normalised"] = Estimate(plain, seconds + more)
        if modes and n <= MODE_ROWS:
            points, more = timed(lambda: np.array([pre_image(rule(at)).point for at in y]))
            found[f"{name}, mode"] = Estimate(points, seconds + more)

    if kernels:
        seed = [D, n, index, 0]
        for constant in CONSTANTS:
            rules, seconds = timed(
                lambda constant=constant: fixed_rule(draw(task, n, seed), "median", [constant])
            )
            kept(f"KBR median, {constant:g}/n", rules[0], seconds, modes=constant == CONSTANTS[-1])
        if index < LEARNED_RUNS and n in LEARNED_SIZES:
            rules, seconds = timed(lambda: fixed_rule(draw(task, n, seed), "bkl", CONSTANTS[-1:]))
            kept(f"KBR learned, {CONSTANTS[-1]:g}/n", rules[0], seconds, modes=True)
        rule, seconds = timed(lambda: chosen_rule(task, n, seed))
        kept("KBR chosen", rule, seconds, modes=True)
        found["direct"] = Estimate(*timed(lambda: direct(task, n, y, [D, n, index, 2])))
    seed = [D, n, index, 2]
    for share in SHARES:
        if share * n >= FEWEST:
            found[f"ABC {share:g}"] = Estimate(
                *timed(lambda share=share: rejection(task, n, y, share, seed))
            )
    for share in ADJUSTED:
        if share * n >= FEWEST * (D + 1):  # of a plane with D + 1 coefficients
            found[f"ABC adjusted {share:g}"] = Estimate(
                *timed(lambda share=share: adjusted(task, n, y, share, seed))
            )
    return found


def places(D: int, index: int) -> np.ndarray:
    """The values of y of a run, the same for every n."""
    task, rng = Task(D), np.random.default_rng([D, index])
    return task.simulate(task.prior(PLACES, rng), rng)


def cell(D: int, n: int, runs: int, kernels: bool) -> list[dict[str, Any]]:
    """A row for each estimate."""
    errors: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for index in range(runs):
        truth = Task(D).posterior_mean(places(D, index))
        for name, one in run(D, n, index, kernels).items():
            errors.setdefault(name, []).append(float(np.mean(np.sum((one.points - truth) ** 2, 1))))
            seconds.setdefault(name, []).append(one.seconds)
    return [
        {
            "side": name,
            "D": D,
            "n": n,
            "runs": len(values),
            "error": float(np.mean(values)),
            "standard error": float(np.std(values, ddof=1) / len(values) ** 0.5)
            if len(values) > 1
            else float("nan"),
            "CPU s": float(np.median(seconds[name])),
        }
        for name, values in errors.items()
    ]


def check() -> None:
    """The posterior mean against a weighted sample of the prior, and the regression's exactness."""
    task, rng = Task(2), np.random.default_rng(0)
    y, X = np.array([[0.3, 1.1]]), task.prior(400_000, rng)
    weights = np.exp(-0.5 * np.sum((y - X @ task.B.T) ** 2, axis=1) / NOISE**2)
    weights /= weights.sum()
    centre = weights @ X
    error = np.sqrt(weights**2 @ (X - centre) ** 2)
    assert np.all(np.abs(centre - task.posterior_mean(y)) < 5.0 * error)
    assert np.all(error < 0.01)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows of all cells."""
    rows: list[dict[str, Any]] = []
    more = () if options.quick else MORE_SIZES
    with computing():
        check()
        for D in options.dimensions:
            for n in (*options.sizes, *more):
                began = time.perf_counter()
                rows += cell(D, n, options.runs, kernels=n in options.sizes)
                print(f"D = {D}, n = {n}: {time.perf_counter() - began:.0f} s", flush=True)
    return rows


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Tables of the errors and of the times."""
    parts = [
        "Mean squared error of the estimated posterior mean, summed over the columns of X; in "
        "brackets its standard error over the runs. `mode` is the pre-image, an approximate mode; "
        "means are over the sum of the weights but where it says `not normalised`. Of `KBR "
        f"learned` there are {LEARNED_RUNS} runs at most."
    ]
    for D in sorted({row["D"] for row in rows}):
        spread = float(np.mean([np.mean(np.sum(
            (Task(D).posterior_mean(places(D, index)) - PRIOR_MEAN) ** 2, 1
        )) for index in range(max(row["runs"] for row in rows))]))  # fmt: skip
        mine = [row for row in rows if row["D"] == D]
        timed_rows = [row for row in mine if not row["side"].endswith("not normalised")]
        parts.append(
            f"**X in {D} columns, error** (of the prior mean: {report.cell(spread)})\n\n"
            + report.table(_lines(mine, _error))
        )
        parts.append(
            f"**X in {D} columns, seconds of computing for ten y**\n\n"
            + report.table(_lines(timed_rows, lambda row: report.cell(row["CPU s"])))
        )
    return "\n\n".join(parts)


def _error(row: dict[str, Any]) -> str:
    spread = float(f"{row['standard error']:.1g}")
    return f"{report.cell(row['error'])} ({spread:g})"


def _lines(
    rows: Sequence[dict[str, Any]], shown: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    sizes = sorted({row["n"] for row in rows})
    names = sorted({row["side"] for row in rows}, key=_order)
    known = {(row["side"], row["n"]): shown(row) for row in rows}
    return [
        {"simulations": name, **{str(n): known.get((name, n), "-") for n in sizes}}
        for name in names
    ]


def _order(name: str) -> tuple[int, int]:
    """As in STYLES, and there the means first."""
    place, side = max((len(side), -i) for i, side in enumerate(STYLES) if name.startswith(side))
    return -side, len(name) - place


def picture(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Error against seconds of computing, and against simulations, a row of panels each."""
    dimensions = sorted({row["D"] for row in rows})
    figure, axes = plt.subplots(
        2,
        len(dimensions),
        figsize=(5.2 * len(dimensions), 8.2),
        sharex="row",
        sharey="col",
        squeeze=False,
        layout="constrained",
    )
    labels = {"CPU s": "seconds of computing, ten y", "n": "simulations"}
    for line, (key, label) in zip(axes, labels.items(), strict=True):
        for ax, D in zip(line, dimensions, strict=True):
            for name, (colour, dashes, marker) in STYLES.items():
                mine = [row for row in rows if row["D"] == D and row["side"] == name]
                if mine:
                    ax.errorbar(
                        [row[key] for row in mine],
                        [row["error"] for row in mine],
                        [row["standard error"] for row in mine],
                        color=colour,
                        linestyle=dashes,
                        marker=marker,
                        markersize=4,
                        label=name,
                    )
            ax.set(xscale="log", yscale="log", xlabel=label, title=f"X in {D} columns")
            ax.set_ylabel("mean squared error")
        values = [row[key] for row in rows if row["side"] in STYLES]
        line[0].set_xlim(min(values) / 1.5, max(values) * 1.5)  # of the row of panels
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Simulate, estimate, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(DIMENSIONS))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument("--summary", action="store_true", help="write and draw what is recorded")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.sizes = 2, [100, 200]
    name = "bayes_rule-quick" if options.quick else "bayes_rule"
    if options.summary:
        folder = options.results or report.RESULTS
        recorded = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        info, settings, rows = (recorded[key] for key in ("machine", "settings", "rows"))
    else:
        info, folder = report.start(options.results)
        settings = {"runs": options.runs, "sizes": options.sizes}
        rows = measure(options)
    report.save(
        folder,
        name,
        "Kernel Bayes' rule and approximate Bayesian computation",
        info,
        text(rows),
        {"settings": settings, "rows": rows},
    )
    picture(rows, folder / f"{name}.png" if options.quick or options.results else PICTURE)


if __name__ == "__main__":
    main()
