"""Comparison of kernel Bayes' rule and approximate Bayesian computation with known posterior means.

The experiment follows "Comparison with approximate Bayesian computation" in the slides by Fukumizu,
*Kernel Method for Bayesian Inference*: E[X | Y = y] at ten values of y, Gaussian prior and
likelihood, ten random runs, X in 2 and in 6 columns. The slides do not report the distributions and
the constants. Here the prior is N(0.5, I), Y = B X + N(0, 0.5^2 I) with B one on the diagonal and
0.5 above it, and the ten y of each run are drawn from the prior predictive distribution.

Kernel Bayes' rule learns from n pairs with X_i from the wider distribution N(0, 2 I), and n draws
from the prior, for which no Y is simulated. Rejection ABC simulates from the prior and accepts the
simulations nearest to y, with each column of Y divided by its standard deviation. Adjusted ABC adds
the local linear adjustment of Beaumont, Zhang and Balding (2002), whose model is exact here.
``direct`` is the conditional embedding of X given Y from pairs simulated from the prior, without
Bayes' rule.

The error is |estimate - E[X | Y = y]|^2, averaged over the ten y of a run. The computing time is
that of the process on all its cores, including simulation and the choice of kernels and
regularization. The cost of simulating is negligible here.

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
SIZES, DIMENSIONS, RUNS, NUM_VALUES = (100, 200, 500, 1000, 2000, 4000), (2, 6), 10, 10
PRIOR_MEAN, INPUT_SD, NOISE = 0.5, 2.0**0.5, 0.5
#: epsilon_n = constant / n and delta_n = 2 epsilon_n; the factorizations stop at a largest residual
#: of TOLERANCE / n or at MAX_RANK columns.
REGULARIZATION_CONSTANTS, TOLERANCE, MAX_RANK = (0.1, 0.01), 1.0, 500
#: Further sizes, for ABC only.
ABC_SIZES = (10_000, 100_000, 1_000_000)
#: Acceptance rates, used where at least MIN_ACCEPTED rows are accepted.
ACCEPTANCE_RATES, ADJUSTED_ACCEPTANCE_RATES, MIN_ACCEPTED = (0.1, 0.01, 0.001), (0.1, 0.3), 5
#: Number of runs and sizes with a learned kernel, which takes seconds at any n.
LEARNED_RUNS, LEARNED_SIZES = 3, (100, 500, 4000)
#: Largest n for pre-images, which evaluate n^2 kernel values for each y.
MODE_MAX_ROWS = 500
#: Tuning from data: epsilon and the factor of the lengthscale of X use at most TUNING_ROWS pairs;
#: delta and the factor of the lengthscale of Y use the error at pairs simulated from the prior, a
#: fraction VALIDATION_FRACTION of the n but at most MAX_VALIDATION.
TUNING_ROWS, FACTORS, DELTAS = 1000, (0.5, 1.0, 2.0), np.geomspace(1e-9, 1e-1, 9)
VALIDATION_FRACTION, MAX_VALIDATION = 0.2, 200
#: Faster calls are timed in a second run, without XLA compilation.
MIN_SECONDS = 0.5
STYLES = {
    "KBR median, 0.1/n": ("#56B4E9", "-", "o"),
    "KBR median, 0.01/n": ("#0072B2", "-", "o"),
    "KBR learned, 0.01/n": ("#CC79A7", "-", "s"),
    "KBR chosen": ("black", "-", "D"),
    "importance chosen": ("#7F3C8D", "-", "p"),
    "direct": ("#009E73", "--", "^"),
    "ABC 0.1": ("#E69F00", ":", "v"),
    "ABC 0.01": ("#D55E00", ":", "v"),
    "ABC 0.001": ("#882255", ":", "v"),
    "ABC adjusted 0.1": ("gray", "-.", "x"),
    "ABC adjusted 0.3": ("gray", "-.", "+"),
}


class Estimate(NamedTuple):
    """Estimated posterior means at all y (NUM_VALUES, D), and seconds of computing."""

    points: np.ndarray
    seconds: float


class Task:
    """Prior, likelihood and posterior in D columns."""

    def __init__(self, D: int):
        self.D, self.B = D, np.eye(D) + 0.5 * np.eye(D, k=1)

    def prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return PRIOR_MEAN + rng.normal(size=(n, self.D))

    def training_inputs(self, n: int, rng: np.random.Generator) -> np.ndarray:
        return INPUT_SD * rng.normal(size=(n, self.D))

    def simulate(self, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return X @ self.B.T + NOISE * rng.normal(size=X.shape)

    def posterior_mean(self, y: np.ndarray) -> np.ndarray:
        """Compute the posterior mean at each row of y."""
        precision = np.eye(self.D) + self.B.T @ self.B / NOISE**2
        return np.linalg.solve(precision, (y @ self.B / NOISE**2 + PRIOR_MEAN).T).T


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Call a deterministic function; return its result and its seconds of computing."""
    for _ in range(2):
        begin = time.process_time()
        result = function()
        seconds = time.process_time() - begin
        if seconds > MIN_SECONDS:
            break
    return result, seconds


def means(weights: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute weighted means by weights (m, p), without and with division by their sum."""
    unnormalized = weights @ points
    return unnormalized, unnormalized / weights.sum(axis=1, keepdims=True)


class Pairs(NamedTuple):
    """Training pairs and prior draws of kernel Bayes' rule."""

    X: np.ndarray
    Y: np.ndarray
    prior: np.ndarray


def draw(task: Task, n: int, seed: Sequence[int]) -> Pairs:
    rng = np.random.default_rng(seed)
    X = task.training_inputs(n, rng)
    return Pairs(X, task.simulate(X, rng), task.prior(n, rng))


def fixed_rule(
    pairs: Pairs, choice: str, constants: Sequence[float], method: str = "squared"
) -> list[BayesRule]:
    """Build a rule for each constant of the slides' regularization, with kernels by ``choice``."""
    n = len(pairs.X)
    kernel_x, kernel_y = select_kernel(pairs.X, choice), select_kernel(pairs.Y, choice, name="Y")
    tolerance = TOLERANCE / n
    outputs = low_rank_features(pairs.Y, kernel_y, tolerance=tolerance, rank=MAX_RANK)
    prior = mean_embedding(pairs.prior, kernel_x)
    rules = []
    for constant in constants:
        likelihood = conditional_embedding(
            pairs.X,
            pairs.Y,
            kernel_x,
            kernel_y,
            regularization=constant / n,
            tolerance=tolerance,
            rank=MAX_RANK,
        )
        rules.append(bayes_rule(likelihood, prior, method=method, features_y=outputs))
    return rules


def chosen_rule(task: Task, n: int, seed: Sequence[int], method: str = "squared") -> BayesRule:
    """Build a rule with all hyperparameters tuned on n simulations, some held out for delta.

    The posterior mean minimizes the mean squared error over functions of y where (x, y) are drawn
    from prior and likelihood. Such pairs can be simulated, so delta and the lengthscale for Y are
    chosen by this error. The simulated pairs count towards n.
    """
    num_validation = min(MAX_VALIDATION, max(10, round(VALIDATION_FRACTION * n)))
    pairs = draw(task, n - num_validation, seed)
    rng = np.random.default_rng([*seed, 1])
    validation_x = task.prior(num_validation, rng)
    validation_y = task.simulate(validation_x, rng)
    size = len(pairs.X)
    kernel_x, kernel_y = (
        select_kernel(pairs.X, "median"),
        select_kernel(pairs.Y, "median", name="Y"),
    )
    num_tuning = min(size, TUNING_ROWS)
    options: dict[str, Any] = {"tolerance": TOLERANCE / num_tuning, "rank": MAX_RANK}
    first = learn_conditional(
        pairs.X[:num_tuning],
        pairs.Y[:num_tuning],
        kernel_x=kernel_x,
        kernel_y=kernel_y,
        factors=FACTORS,
        **options,
    )
    options["tolerance"] = TOLERANCE / size
    kernel_x, epsilon = first.kernel_x, first.regularization * num_tuning / size
    prior = mean_embedding(pairs.prior, kernel_x)
    base = conditional_embedding(
        pairs.X, pairs.Y, kernel_x, kernel_y, regularization=epsilon, **options
    )
    best: tuple[float, BayesRule | None] = np.inf, None
    for factor in FACTORS:
        scaled_kernel_y = scale_lengthscales(kernel_y, factor)
        likelihood = dataclasses.replace(base, kernel_y=scaled_kernel_y)
        outputs = low_rank_features(pairs.Y, scaled_kernel_y, **options)
        unregularized = bayes_rule(likelihood, prior, method=method, features_y=outputs)
        for delta in DELTAS:
            rule = dataclasses.replace(unregularized, regularization=float(delta))
            _, normalized = means(rule.weights(validation_y), rule.points)
            error = float(np.mean(np.sum((normalized - validation_x) ** 2, axis=1)))
            if error < best[0]:
                best = error, rule
    assert best[1] is not None
    return best[1]


def direct(task: Task, n: int, y: np.ndarray, seed: Sequence[int]) -> np.ndarray:
    """Estimate by the conditional embedding of X given Y from n simulations of the prior."""
    rng = np.random.default_rng(seed)
    X = task.prior(n, rng)
    Y = task.simulate(X, rng)
    num_tuning = min(n, TUNING_ROWS)
    kernel_x, kernel_y = select_kernel(X, "median"), select_kernel(Y, "median", name="Y")
    options: dict[str, Any] = {"tolerance": TOLERANCE / num_tuning, "rank": MAX_RANK}
    first = learn_conditional(
        Y[:num_tuning],
        X[:num_tuning],
        kernel_x=kernel_y,
        kernel_y=kernel_x,
        factors=FACTORS,
        **options,
    )
    options["tolerance"] = TOLERANCE / n
    epsilon = first.regularization * num_tuning / n
    learned = conditional_embedding(
        Y, X, first.kernel_x, kernel_x, regularization=epsilon, **options
    )
    return learned.expectation(y)


def accepted_simulations(
    task: Task, n: int, y: np.ndarray, acceptance_rate: float, seed: Sequence[int]
) -> Any:
    """Simulate from the prior; yield each y with its accepted X, Y and squared distances."""
    rng = np.random.default_rng(seed)
    X = task.prior(n, rng)
    Y = task.simulate(X, rng)
    scale, num_accepted = Y.std(axis=0), round(acceptance_rate * n)
    for value in y:
        squares = np.sum(((Y - value) / scale) ** 2, axis=1)
        rows = np.argpartition(squares, num_accepted - 1)[:num_accepted]
        yield value, X[rows], Y[rows], squares[rows]


def rejection_abc(
    task: Task, n: int, y: np.ndarray, acceptance_rate: float, seed: Sequence[int]
) -> np.ndarray:
    return np.array(
        [X.mean(axis=0) for _, X, *_ in accepted_simulations(task, n, y, acceptance_rate, seed)]
    )


def adjusted_abc(
    task: Task, n: int, y: np.ndarray, acceptance_rate: float, seed: Sequence[int]
) -> np.ndarray:
    """Estimate by local linear regression with Epanechnikov weights, evaluated at y."""
    estimates = []
    for value, X, Y, squares in accepted_simulations(task, n, y, acceptance_rate, seed):
        root = np.sqrt(np.maximum(1.0 - squares / squares.max(), 1e-9))[:, None]
        design = np.hstack([np.ones((len(Y), 1)), Y - value])
        estimates.append(np.linalg.lstsq(root * design, root * X, rcond=None)[0][0])
    return np.array(estimates)


def run(D: int, n: int, index: int, with_kernel_methods: bool) -> dict[str, Estimate]:
    """Compute all estimates of one run, with ABC only unless ``with_kernel_methods``."""
    task, y = Task(D), observed_values(D, index)
    estimates: dict[str, Estimate] = {}

    def add_estimates(name: str, rule: BayesRule, seconds: float, with_mode: bool) -> None:
        """Add both means of a rule and, if wanted, its approximate modes."""
        (unnormalized, normalized), extra_seconds = timed(
            lambda: means(rule.weights(y), rule.points)
        )
        estimates[name] = Estimate(normalized, seconds + extra_seconds)
        estimates[f"{name}, not normalized"] = Estimate(unnormalized, seconds + extra_seconds)
        if with_mode and n <= MODE_MAX_ROWS:
            points, extra_seconds = timed(
                lambda: np.array([pre_image(rule(value)).point for value in y])
            )
            estimates[f"{name}, mode"] = Estimate(points, seconds + extra_seconds)

    if with_kernel_methods:
        seed = [D, n, index, 0]
        for constant in REGULARIZATION_CONSTANTS:
            rules, seconds = timed(
                lambda constant=constant: fixed_rule(draw(task, n, seed), "median", [constant])
            )
            add_estimates(
                f"KBR median, {constant:g}/n",
                rules[0],
                seconds,
                with_mode=constant == REGULARIZATION_CONSTANTS[-1],
            )
        if index < LEARNED_RUNS and n in LEARNED_SIZES:
            rules, seconds = timed(
                lambda: fixed_rule(draw(task, n, seed), "bkl", REGULARIZATION_CONSTANTS[-1:])
            )
            add_estimates(
                f"KBR learned, {REGULARIZATION_CONSTANTS[-1]:g}/n",
                rules[0],
                seconds,
                with_mode=True,
            )
        rules, seconds = timed(
            lambda: fixed_rule(
                draw(task, n, seed), "median", REGULARIZATION_CONSTANTS[-1:], "importance"
            )
        )
        name = f"importance median, {REGULARIZATION_CONSTANTS[-1]:g}/n"
        add_estimates(name, rules[0], seconds, with_mode=False)
        rule, seconds = timed(lambda: chosen_rule(task, n, seed))
        add_estimates("KBR chosen", rule, seconds, with_mode=True)
        rule, seconds = timed(lambda: chosen_rule(task, n, seed, "importance"))
        add_estimates("importance chosen", rule, seconds, with_mode=False)
        estimates["direct"] = Estimate(*timed(lambda: direct(task, n, y, [D, n, index, 2])))
    seed = [D, n, index, 2]
    for acceptance_rate in ACCEPTANCE_RATES:
        if acceptance_rate * n >= MIN_ACCEPTED:
            estimates[f"ABC {acceptance_rate:g}"] = Estimate(
                *timed(
                    lambda acceptance_rate=acceptance_rate: rejection_abc(
                        task, n, y, acceptance_rate, seed
                    )
                )
            )
    for acceptance_rate in ADJUSTED_ACCEPTANCE_RATES:
        if acceptance_rate * n >= MIN_ACCEPTED * (D + 1):  # a plane has D + 1 coefficients
            estimates[f"ABC adjusted {acceptance_rate:g}"] = Estimate(
                *timed(
                    lambda acceptance_rate=acceptance_rate: adjusted_abc(
                        task, n, y, acceptance_rate, seed
                    )
                )
            )
    return estimates


def observed_values(D: int, index: int) -> np.ndarray:
    """Draw the values of y of a run, the same for every n."""
    task, rng = Task(D), np.random.default_rng([D, index])
    return task.simulate(task.prior(NUM_VALUES, rng), rng)


def cell(D: int, n: int, runs: int, with_kernel_methods: bool) -> list[dict[str, Any]]:
    """Return a row of results for each method."""
    errors: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for index in range(runs):
        truth = Task(D).posterior_mean(observed_values(D, index))
        for name, estimate in run(D, n, index, with_kernel_methods).items():
            errors.setdefault(name, []).append(
                float(np.mean(np.sum((estimate.points - truth) ** 2, 1)))
            )
            seconds.setdefault(name, []).append(estimate.seconds)
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
    """Check the posterior mean against a weighted sample of the prior."""
    task, rng = Task(2), np.random.default_rng(0)
    y, X = np.array([[0.3, 1.1]]), task.prior(400_000, rng)
    weights = np.exp(-0.5 * np.sum((y - X @ task.B.T) ** 2, axis=1) / NOISE**2)
    weights /= weights.sum()
    center = weights @ X
    error = np.sqrt(weights**2 @ (X - center) ** 2)
    assert np.all(np.abs(center - task.posterior_mean(y)) < 5.0 * error)
    assert np.all(error < 0.01)


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the rows of all dimensions and sizes."""
    rows: list[dict[str, Any]] = []
    extra_sizes = () if options.quick else ABC_SIZES
    with computing():
        check()
        for D in options.dimensions:
            for n in (*options.sizes, *extra_sizes):
                begin = time.perf_counter()
                rows += cell(D, n, options.runs, with_kernel_methods=n in options.sizes)
                print(f"D = {D}, n = {n}: {time.perf_counter() - begin:.0f} s", flush=True)
    return rows


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Format tables of the errors and of the times."""
    parts = [
        "Mean squared error of the estimated posterior mean, summed over the columns of X; in "
        "brackets its standard error over the runs. `mode` is the pre-image, an approximate mode; "
        "means are divided by the sum of the weights except where labeled `not normalized`. `KBR "
        f"learned` has at most {LEARNED_RUNS} runs."
    ]
    for D in sorted({row["D"] for row in rows}):
        prior_error = float(np.mean([np.mean(np.sum(
            (Task(D).posterior_mean(observed_values(D, index)) - PRIOR_MEAN) ** 2, 1
        )) for index in range(max(row["runs"] for row in rows))]))  # fmt: skip
        selected = [row for row in rows if row["D"] == D]
        normalized_rows = [row for row in selected if not row["side"].endswith("not normalized")]
        parts.append(
            f"**X in {D} columns, error** (of the prior mean: {report.cell(prior_error)})\n\n"
            + report.table(_pivot(selected, _error))
        )
        parts.append(
            f"**X in {D} columns, seconds of computing for ten y**\n\n"
            + report.table(_pivot(normalized_rows, lambda row: report.cell(row["CPU s"])))
        )
    return "\n\n".join(parts)


def _error(row: dict[str, Any]) -> str:
    spread = float(f"{row['standard error']:.1g}")
    return f"{report.cell(row['error'])} ({spread:g})"


def _pivot(
    rows: Sequence[dict[str, Any]], format_value: Callable[[dict[str, Any]], str]
) -> list[dict[str, Any]]:
    sizes = sorted({row["n"] for row in rows})
    names = sorted({row["side"] for row in rows}, key=_order)
    formatted = {(row["side"], row["n"]): format_value(row) for row in rows}
    return [
        {"simulations": name, **{str(n): formatted.get((name, n), "-") for n in sizes}}
        for name in names
    ]


def _order(name: str) -> tuple[int, int]:
    """Return a sort key: the order of STYLES, with means first."""
    length, style = max(
        (len(style), -i) for i, style in enumerate(STYLES) if name.startswith(style)
    )
    return -style, len(name) - length


def picture(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot error against seconds of computing and against simulations, in two rows of panels."""
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
            for name, (color, dashes, marker) in STYLES.items():
                selected = [row for row in rows if row["D"] == D and row["side"] == name]
                if selected:
                    ax.errorbar(
                        [row[key] for row in selected],
                        [row["error"] for row in selected],
                        [row["standard error"] for row in selected],
                        color=color,
                        linestyle=dashes,
                        marker=marker,
                        markersize=4,
                        label=name,
                    )
            ax.set(xscale="log", yscale="log", xlabel=label, title=f"X in {D} columns")
            ax.set_ylabel("mean squared error")
        values = [row[key] for row in rows if row["side"] in STYLES]
        line[0].set_xlim(min(values) / 1.5, max(values) * 1.5)  # shared by the row of panels
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Run the methods and write the tables and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(DIMENSIONS))
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument(
        "--summary", action="store_true", help="rewrite tables and figure from the recorded results"
    )
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
