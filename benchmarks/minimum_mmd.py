"""Minimum MMD and the MMD posterior bootstrap: coverage, errors, and simulations used.

Problems:

- ``normal``: 100 rows of N(0, 1), the model N(mu, 1); ``contaminated``: one row in ten is at 10.
  The parameter is that of the other rows, as in Dellaporta et al. (2022).
- ``toy``: 400 rows of a mixture of five uniform distributions (``examples/abc_toy.py``), with
  weights from their prior, and the kernel learned from the data.

Methods: estimates with intervals from their normal limit, the bootstrap, K2-ABC with the smallest
epsilon of its defaults, and the synthetic likelihood with 50 simulations for each point (of the
mean in the first two, and the frequencies of four intervals in ``toy``). ``exact`` is the posterior
of the mean of a normal distribution.

Errors are of the estimate or the posterior mean: the root mean square over data sets and
parameters. Coverage is that of intervals of 90 % from 5 to 95 %.

    python benchmarks/minimum_mmd.py
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import abc_runs
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import report
from abc_runs import Row
from bke.inference import (
    k2_abc,
    minimum_mmd,
    mmd_posterior_bootstrap,
    posterior_table,
    synthetic_likelihood,
    vectorize,
)

sys.path.append(str(abc_runs.EXAMPLES))
from simulators import INTERVALS, uniform_prior, uniforms

DATA_SETS, SIMULATIONS = 100, 5000
#: Data sets of the toy model.
FEW_DATA_SETS = 4
NUM_SAMPLES = 100
ROWS, CONTAMINATION, OUTLIER = 100, 0.1, 10.0
#: Chains, simulations for each point, and draws of the prior of which a chain takes the best.
CHAINS, PER_POINT, STARTS = 4, 50, 10
METHODS = ("minimum MMD", "bootstrap", "K2-ABC", "synthetic likelihood", "exact")
PROBLEMS = ("normal", "contaminated", "toy")
SIDES = tuple(f"{problem}: {method}" for problem in PROBLEMS for method in METHODS)


class Problem(NamedTuple):
    """A data set with its model and parameters.

    Attributes:
        rows: the observed data.
        simulate: their simulator.
        prior: prior of the parameters.
        summaries: of the synthetic likelihood.
        kernel: of the MMD.
        truth: parameters by component.
    """

    rows: np.ndarray
    simulate: Any
    prior: dict[str, Any]
    summaries: Any
    kernel: str
    truth: dict[str, float]


def problem_of(name: str, seed: int) -> Problem:
    """Draw the data set of a problem."""
    rng = np.random.default_rng([seed, PROBLEMS.index(name)])
    if name == "toy":
        weights = rng.dirichlet(np.ones(INTERVALS))
        simulate, prior = vectorize(uniforms(400)), uniform_prior()
        rows = uniforms(400)(rng, {"pi": weights[None]})[0]
        truth = {f"pi[{index}]": weight for index, weight in enumerate(weights)}
        summaries, kernel = four_frequencies, "bkl"
    else:
        rows = rng.normal(size=ROWS)
        if name == "contaminated":
            rows[: round(CONTAMINATION * ROWS)] = OUTLIER
        simulate, prior = vectorize(normal), {"mu": dist.Normal(0.0, 5.0)}
        truth, summaries, kernel = {"mu": 0.0}, np.mean, "median"
    return Problem(rows, simulate, prior, summaries, kernel, truth)


def normal(rng: np.random.Generator, theta: Mapping[str, np.ndarray]) -> np.ndarray:
    return theta["mu"][:, None] + rng.normal(size=(len(theta["mu"]), ROWS))


def four_frequencies(sample: np.ndarray) -> np.ndarray:
    return np.bincount(sample.astype(int), minlength=INTERVALS)[:-1] / len(sample)


def results(
    problem: Problem, seed: int, settings: Mapping[str, Any]
) -> Iterator[tuple[str, pd.DataFrame, int]]:
    """Yield the method, a table of means and intervals, and the number of simulations."""
    data = (problem.rows, problem.simulate, problem.prior)
    count = settings["simulations"]
    options: dict[str, Any] = {"kernel": problem.kernel, "seed": seed}
    estimate = minimum_mmd(*data, **options)
    if estimate.covariance is not None:
        table = estimate.to_dataframe()
        names = {"estimate": "mean", "lower": "q05", "upper": "q95"}
        yield METHODS[0], table.rename(columns=names), estimate.simulations
    options["progress"] = False
    run = mmd_posterior_bootstrap(*data, num_samples=settings["num_samples"], **options)
    yield METHODS[1], posterior_table(run), run.attrs["simulations"]
    run = k2_abc(*data, num_simulations=count, **options)
    yield METHODS[2], posterior_table(run).groupby("parameter").last().reset_index(), count
    iterations = count // (CHAINS * PER_POINT) * 4
    run = synthetic_likelihood(
        *data,
        summaries=problem.summaries,
        simulations_per_point=PER_POINT,
        num_chains=CHAINS,
        num_warmup=max(50, iterations // 2),
        num_samples=iterations,
        seed=seed,
        progress=False,
    )
    iterations += max(50, iterations // 2) + STARTS
    yield METHODS[3], posterior_table(run), CHAINS * PER_POINT * iterations
    if list(problem.truth) == ["mu"]:
        mean, half = problem.rows.mean(), 1.645 / np.sqrt(ROWS)
        row = {"parameter": "mu", "mean": mean, "q05": mean - half, "q95": mean + half}
        yield METHODS[4], pd.DataFrame([row]), 0


def experiment(seed: int, settings: Mapping[str, Any], requested: frozenset[str]) -> list[Row]:
    """Compute the rows of all methods on the data sets of one seed."""
    warnings.simplefilter("ignore")  # effective sample sizes and chains that have not mixed
    rows = []
    for name in PROBLEMS if seed < settings["few"] else PROBLEMS[:2]:
        problem = problem_of(name, seed)
        begin = time.process_time()
        for method, table, simulations in results(problem, seed, settings):
            seconds, begin = time.process_time() - begin, time.process_time()
            truth = table["parameter"].map(problem.truth)
            errors = table["mean"] - truth
            rows.append(
                {
                    "data": seed,
                    "side": f"{name}: {method}",
                    "squared error": float(np.mean(errors**2)),
                    "covered": float(np.mean((table["q05"] <= truth) & (truth <= table["q95"]))),
                    "width": float(np.mean(table["q95"] - table["q05"])),
                    "simulations": int(simulations),
                    "CPU s": seconds,
                }
            )
    return [row for row in rows if row["side"] in requested]


def text(rows: list[Row], settings: Mapping[str, Any]) -> str:
    """Format the table of all problems and methods."""
    table = []
    for side in dict.fromkeys(row["side"] for row in rows):
        selected = [row for row in rows if row["side"] == side]
        table.append(
            {
                "problem and method": side,
                "data sets": len(selected),
                "error": float(np.sqrt(np.mean([row["squared error"] for row in selected]))),
                "coverage": abc_runs.mean_and_error([row["covered"] for row in selected]),
                "width": float(np.mean([row["width"] for row in selected])),
                "simulations": f"{np.mean([row['simulations'] for row in selected]):.0f}",
                "CPU s": float(np.median([row["CPU s"] for row in selected])),
            }
        )
    return (
        f"Root mean squared errors; coverage of intervals of 90 %, with its standard error; mean "
        f"width of the intervals; {settings['num_samples']} draws of the bootstrap. Minimum MMD is "
        f"left out where it has no covariance.\n\n{report.table(table)}"
    )


def main() -> None:
    """Simulate, estimate, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    abc_runs.add_options(parser, DATA_SETS, SIMULATIONS)
    options = parser.parse_args()
    settings = {
        "simulations": options.simulations,
        "few": FEW_DATA_SETS,
        "num_samples": NUM_SAMPLES,
    }
    if options.quick:
        options.data_sets = 1
        settings = {"simulations": 500, "few": 1, "num_samples": 4}
    title = "Minimum MMD and the MMD posterior bootstrap"
    abc_runs.fill("minimum_mmd", title, experiment, SIDES, text, settings, options)


if __name__ == "__main__":
    main()
