"""K2-ABC with a known posterior: the toy model of Park, Jitkrittum and Sejdinovic (2016).

Data y_1, ..., y_400 come from a mixture of the uniform distributions on [0, 1], ..., [4, 5] with
weights pi and prior Dirichlet(1, ..., 1). The posterior is Dirichlet, with the number of y in each
interval added to its parameter. The weights of each data set are drawn from the prior.

The benchmark compares K2-ABC by its estimators and with two choices of the kernel; rejection and
exponential ABC with mean and variance, which are not sufficient, and with the frequencies of the
five intervals, which are. All methods that are not sequential share their simulations from the
prior; each epsilon gives a fixed effective sample size, and rejection accepts a fixed number of
nearest simulations. Sequential methods may use as many simulations as the others, or three times as
many. They have one particle per 16 simulations, which suffices for five stages of the library's
three moves, and use the library's stopping rule: a run ends when fewer than a tenth of the moves of
a stage are accepted, so that part of the budget may be unused.

Error: root mean squared difference between the components of the estimated and the exact posterior
mean. ``sd``: ratio of estimated to exact standard deviations, mean over the components.

    python benchmarks/abc_toy.py
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import abc_runs
import numpy as np
import report
from abc_runs import Draws, Row
from bke.inference import Summaries, abc, k2_abc, sequential_k2_abc, vectorize

sys.path.append(str(abc_runs.EXAMPLES))
from simulators import INTERVALS, uniform_posterior, uniform_prior, uniforms

DATA_SETS, SIMULATIONS, ROWS = 10, 3000, 400
#: Sizes of subsets of the simulations, relative to all of them.
BUDGET_FRACTIONS = (1 / 3, 1.0)
#: Effective sample sizes over the number of simulations; DEFAULT_RATE is used in the comparison.
ACCEPTANCE_RATES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.004, 0.002)
DEFAULT_RATE = 0.01
ESTIMATORS = ("biased", "features", "linear")
#: Relative budget of the linear-time estimator, which is cheap.
LINEAR_BUDGET_FACTOR = 10
SEQUENTIAL = tuple(f"K2 median, {suffix}" for suffix in abc_runs.SEQUENTIAL)
PRIOR = "the prior"
SIDES = (
    *(f"K2 median, {estimator}" for estimator in ESTIMATORS),
    "K2 bkl, biased",
    *(
        f"{summaries}, {draw_type}"
        for summaries in ("mean and variance", "shares")
        for draw_type in ("exponential", "rejection")
    ),
    *SEQUENTIAL,
    PRIOR,
)


def moments(sample: np.ndarray) -> list[float]:
    return [sample.mean(), sample.var()]


def interval_frequencies(sample: np.ndarray) -> np.ndarray:
    return np.bincount(sample.astype(int), minlength=INTERVALS) / len(sample)


def sides(
    observed: np.ndarray, count: int, seed: int, requested: frozenset[str]
) -> Iterator[tuple[str, Any, str, float]]:
    """Yield the name of each method, its run, its type of acceptance and its CPU seconds."""
    simulate, prior = vectorize(uniforms(len(observed))), uniform_prior()
    common: dict[str, Any] = {"seed": seed, "progress": False}
    for kernel, estimators in (("median", ESTIMATORS), ("bkl", ("biased",))):
        for estimator in estimators:
            name = f"K2 {kernel}, {estimator}"
            if name not in requested:
                continue
            begin = time.process_time()
            run = k2_abc(
                observed,
                simulate,
                prior,
                kernel=kernel,
                estimator=estimator,
                num_simulations=LINEAR_BUDGET_FACTOR * count if estimator == "linear" else count,
                **common,
            )
            yield name, run, "exponential", time.process_time() - begin
    for name, function in (("mean and variance", moments), ("shares", interval_frequencies)):
        names = (f"{name}, exponential", f"{name}, rejection")
        if not requested.intersection(names):
            continue
        scale = _scale(function, simulate, prior, seed)
        begin = time.process_time()
        run = abc(
            observed,
            simulate,
            prior,
            distance=Summaries(observed, function, scale=scale),
            num_simulations=count,
            **common,
        )
        seconds = time.process_time() - begin
        for side, acceptance in zip(names, ("exponential", "indicator"), strict=True):
            yield side, run, acceptance, seconds


def _scale(function: Any, simulate: Any, prior: Any, seed: int) -> np.ndarray:
    """Compute standard deviations of summaries over 200 simulations from the prior."""
    rng = np.random.default_rng([seed, 1])
    weights = rng.dirichlet(np.ones(INTERVALS), 200)
    return np.std([function(row) for row in simulate(rng, {"pi": weights})], axis=0)


def experiment(seed: int, settings: Mapping[str, Any], requested: frozenset[str]) -> list[Row]:
    """Compute the rows of the requested methods on one data set."""
    warnings.simplefilter("ignore")  # effective sample sizes are in the table
    count = settings["simulations"]
    rng = np.random.default_rng([seed, 0])
    truth = rng.dirichlet(np.ones(INTERVALS))
    observed = uniforms(ROWS)(rng, {"pi": truth[None]})[0]
    exact = uniform_posterior(observed)
    mean = exact / exact.sum()
    sd = np.sqrt(mean * (1.0 - mean) / (exact.sum() + 1.0))

    def row(
        side: str, simulations: int, acceptance_rate: float | None, draws: Draws, seconds: float
    ) -> Row:
        return {
            "data": seed,
            "side": side,
            "simulations": simulations,
            "share": acceptance_rate,
            "ess": draws.ess,
            "error": float(np.sqrt(np.mean((draws.mean - mean) ** 2))),
            "sd": float(np.mean(draws.sd / sd)),
            "CPU s": seconds,
        }

    rows = []
    for side, run, acceptance, seconds in sides(observed, count, seed, requested):
        points, squared = abc_runs.parameters(run, ["pi"]), abc_runs.squared_distances(run)
        sizes = {round(fraction * count) for fraction in BUDGET_FRACTIONS} | {len(points)}
        for size in sorted(sizes):
            for acceptance_rate in ACCEPTANCE_RATES if size == count else (DEFAULT_RATE,):
                select = abc_runs.accepted if acceptance == "indicator" else abc_runs.weighted
                number = (
                    round(acceptance_rate * size)
                    if acceptance == "indicator"
                    else acceptance_rate * size
                )
                draws = select(points[:size], squared[:size], number)
                rows.append(row(side, size, acceptance_rate, draws, seconds * size / len(points)))
    for side, options in zip(SEQUENTIAL, abc_runs.sequential_options(count).values(), strict=True):
        if side not in requested:
            continue
        begin = time.process_time()
        run = sequential_k2_abc(
            observed,
            vectorize(uniforms(ROWS)),
            uniform_prior(),
            seed=seed,
            progress=False,
            **options,
        )
        seconds, draws = time.process_time() - begin, abc_runs.equally_weighted(run, ["pi"])
        rows.append(row(side, count, None, draws, seconds) | abc_runs.sequential_diagnostics(run))
    if PRIOR not in requested:
        return rows
    prior_mean = np.full(INTERVALS, 1.0 / INTERVALS)
    prior_sd = np.sqrt(prior_mean * (1.0 - prior_mean) / (INTERVALS + 1.0))
    rows.append(
        {
            "data": seed,
            "side": PRIOR,
            "simulations": 0,
            "share": None,
            "ess": None,
            "error": float(np.sqrt(np.mean((prior_mean - mean) ** 2))),
            "sd": float(np.mean(prior_sd / sd)),
            "CPU s": 0.0,
        }
    )
    return rows


def text(rows: list[Row], settings: Mapping[str, Any]) -> str:
    """Format tables by number of simulations, by acceptance rate, and of sequential methods."""
    names = [
        side
        for side in dict.fromkeys(row["side"] for row in rows)
        if side not in (*SEQUENTIAL, PRIOR)
    ]
    seeds, count = len({row["data"] for row in rows}), settings["simulations"]
    sizes = sorted({row["simulations"] for row in rows if row["side"] in names})

    def format_mean(key: str, **requested: Any) -> str:
        values = [row[key] for row in rows if all(row[k] == v for k, v in requested.items())]
        return abc_runs.mean_and_error(values) if values else "-"

    tables = []
    for key in ("error", "sd"):
        by_size = [
            {
                "simulations": side,
                **{
                    str(size): format_mean(key, side=side, simulations=size, share=DEFAULT_RATE)
                    for size in sizes
                },
            }
            for side in names
        ]
        by_rate = [
            {
                "effective sample size": side,
                **{
                    f"{acceptance_rate * count:g}": format_mean(
                        key, side=side, simulations=count, share=acceptance_rate
                    )
                    for acceptance_rate in ACCEPTANCE_RATES
                },
            }
            for side in names
        ]
        prior = format_mean(key, side=PRIOR)
        tables.append(
            f"**{key}**; prior {prior}; effective sample size or acceptances "
            f"{DEFAULT_RATE:g} of the simulations\n\n{report.table(by_size)}"
        )
        tables.append(
            f"**{key}** with {count} simulations, as epsilon falls\n\n{report.table(by_rate)}"
        )
    times = [
        {
            "side": side,
            "CPU s": float(np.median([r["CPU s"] for r in rows
                if r["side"] == side and r["simulations"] == count])),
        }
        for side in names
    ]  # fmt: skip
    sequential = abc_runs.sequential_table(rows, {"error": "error", "sd": "sd"})
    return "\n\n".join(
        [
            f"{seeds} data sets, seeds 0 to {max(row['data'] for row in rows)}, of {ROWS} "
            "observations; means over them, in brackets their standard errors. `error` is the root "
            "mean squared difference between the estimated and the exact posterior mean, `sd` the "
            "estimated over the exact standard deviations.",
            *tables,
            "**Sequential methods**, means: number of simulations, stages up to the one whose "
            "particles are used; the ESS counts particles with a common ancestor that did not move "
            f"as one\n\n{sequential}",
            f"CPU seconds with {count} simulations, medians:\n\n{report.table(times)}",
        ]
    )


STYLES = {
    "K2 median, biased": ("#0072B2", "-", "o"),
    "K2 bkl, biased": ("#CC79A7", "-", "s"),
    "K2 median, features": ("#56B4E9", "--", "^"),
    "K2 median, linear": ("#009E73", "--", "v"),
    "shares, exponential": ("black", ":", "x"),
    "mean and variance, rejection": ("#D55E00", ":", "+"),
}


def picture(rows: list[Row], settings: Mapping[str, Any], path: Any) -> None:
    """Plot errors and standard deviations against the effective sample size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    count = settings["simulations"]
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    ticks = {"error": (0.01, 0.02, 0.05, 0.1), "sd": (1.0, 2.0, 5.0, 10.0)}
    for ax, key in zip(axes, ticks, strict=True):
        for side, (color, dashes, marker) in STYLES.items():
            values = np.array(
                [
                    [
                        row[key]
                        for row in rows
                        if (row["side"], row["simulations"], row["share"])
                        == (side, count, acceptance_rate)
                    ]
                    for acceptance_rate in ACCEPTANCE_RATES
                ]
            )
            error = values.std(axis=1, ddof=1) / values.shape[1] ** 0.5
            ax.errorbar(
                [acceptance_rate * count for acceptance_rate in ACCEPTANCE_RATES],
                values.mean(axis=1),
                error,
                color=color,
                linestyle=dashes,
                marker=marker,
                markersize=4,
                label=side,
            )
        for side, marker in zip(SEQUENTIAL, ("*", "P"), strict=True):
            selected = [row for row in rows if row["side"] == side]
            if not selected:
                continue
            values = np.array([row[key] for row in selected])
            mean_simulations = np.mean([row["simulations"] for row in selected])
            ax.errorbar(
                np.mean([row["ess"] for row in selected]),
                values.mean(),
                values.std(ddof=1) / len(values) ** 0.5,
                color="#5A4A78",
                linestyle="none",
                marker=marker,
                markersize=10,
                label=f"{side} ({mean_simulations:.0f} simulations)",
            )
        ax.set(xscale="log", yscale="log", xlabel="effective sample size")
        ax.invert_xaxis()
        ax.set_yticks(ticks[key], [f"{tick:g}" for tick in ticks[key]])
        ax.yaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(f"{count} simulations where no other number is given", fontsize="medium")
    axes[0].set_ylabel("error of the posterior mean")
    axes[1].set_ylabel("standard deviations over the exact ones")
    axes[1].axhline(1.0, color="#9A9A9A", linewidth=0.8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
    print(f"Written: {path}")


def main() -> None:
    """Run the methods on all data sets, and write the tables and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    abc_runs.add_options(parser, DATA_SETS, SIMULATIONS)
    options = parser.parse_args()
    if options.quick:
        options.data_sets, options.simulations = 2, 1000
    settings = {"simulations": options.simulations, "rows": ROWS}
    title = "K2-ABC where the posterior is known"
    rows = abc_runs.fill("abc_toy", title, experiment, SIDES, text, settings, options)
    if len({row["data"] for row in rows}) > 1:
        folder = options.results or report.RESULTS
        recorded = not (options.quick or options.results)
        path = abc_runs.DOCS / "abc_toy.png" if recorded else folder / "abc_toy-quick.png"
        picture(rows, {"simulations": options.simulations}, path)


if __name__ == "__main__":
    main()
