"""Likelihood-free inference of the blowflies' population: summaries chosen by hand, and the MMD.

After the slides on K2-ABC (Park, Jitkrittum and Sejdinovic, 2016): series of 180 steps, six
parameters, the prior of Meeds and Welling (2014), see ``examples/simulators.py``. The slides show
one series, that of Nicholson's flies, and the mean squared error of ten summaries between it and
what is simulated from the posterior mean. Here the observed series are simulated from parameters
drawn from the prior, a pair for every data set, so that errors and coverage of the parameters are
known as well. Drawn again are pairs whose series is dull: fewer than five peaks of 1.5 standard
deviations, or a population that falls below one. Posteriors given the data are not changed by that.

All sides but those named ``3 x`` and ``10 x`` have the same number of simulations, those from the
prior the same ones. Each epsilon is the one with an effective sample size of 1 % of them; rejection
accepts the nearest 1 %. Nothing is chosen by the error. Sequential sides have a particle for every
16 simulations, which suffices for five stages with the library's three moves of each, and stop
where the library does: when fewer than a tenth of a stage's moves are accepted, and not all
simulations are then made. Distances of summaries are over their
spread, 1.4826 times the median absolute deviation, over 500 more simulations from the prior. For
the synthetic likelihood, 50 simulations to a point, the numbers of peaks are dithered, here and not
by the library: spread evenly over the unit interval around them, by digits of the series; where
they do not vary their covariance would be singular.

The posterior mean is that of the logarithms. From it 100 series are simulated. Errors of the ten
summaries are squared, over the variance of the summary at the true parameters (plus 1/12 for
numbers of peaks), and averaged; ``as in the slides`` not divided. Errors of parameters are squared,
over the prior's variance, and averaged over the six, where the prior mean has one on average.

    python benchmarks/blowfly.py
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import abc_runs
import numpy as np
import report
from abc_runs import Draws, Row
from bke.inference import (
    Summaries,
    abc,
    k2_abc,
    sequential_k2_abc,
    synthetic_likelihood,
    vectorize,
)

sys.path.append(str(abc_runs.EXAMPLES))
from simulators import (
    PARAMETERS,
    SUMMARIES,
    blowflies,
    blowfly_prior,
    delay_vectors,
    peaks,
    quarter_cycle,
    ten_summaries,
)

DATA_SETS, SIMULATIONS = 12, 5000
#: Effective sample sizes as shares of the simulations; the first is that of the comparison.
SHARES = (0.01, 0.1, 0.004)
PER_POINT = 50
#: Simulations for the spread of summaries, for their error, and how many the long chains have.
PILOT, CHECKS, TIMES = 500, 100, 10
#: Of a series that is observed.
LEAST_PEAKS, LEAST = 5, 1.0
LEVELS = (0.05, 0.95)
COUNTS = np.array([name.startswith("peaks") for name in SUMMARIES])
TRUTH, PRIOR = "the true parameters", "the prior mean"
K2, LONG = "K2 median", f"synthetic likelihood, {TIMES} x"
SIDES = (
    TRUTH,
    PRIOR,
    K2,
    "K2 bkl",
    "K2 median, features",
    "K2 median, linear",
    "K2 median, delay vectors",
    "K2 median, sequential",
    "K2 median, delay vectors, sequential",
    "K2 median, sequential, 3 x",
    "K2 median, delay vectors, sequential, 3 x",
    "summaries, exponential",
    "summaries, rejection",
    "synthetic likelihood",
    LONG,
)


def prior_mean() -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations (6,) of the prior."""
    sites = blowfly_prior()
    return (
        np.array([float(sites[name].loc) for name in PARAMETERS]),
        np.array([float(sites[name].scale) for name in PARAMETERS]),
    )


def simulated(point: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Series (count, 180) at one parameter (6,)."""
    theta = {name: np.full(count, x) for name, x in zip(PARAMETERS, point, strict=True)}
    return blowflies(rng, theta)


def data_set(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """True parameters (6,), an observed series (180,), and how many were drawn for it."""
    rng = np.random.default_rng([seed, 0])
    mean, sd = prior_mean()
    drawn = 0
    while True:
        drawn += 1
        point = mean + sd * rng.normal(size=len(mean))
        series = simulated(point, 1, rng)[0]
        if series.min() >= LEAST and peaks(series / series.std(), 1.5) >= LEAST_PEAKS:
            return point, series, drawn


def of_many(series: np.ndarray) -> np.ndarray:
    return np.array([ten_summaries(one) for one in series])


def dithered(series: np.ndarray) -> np.ndarray:
    """The ten summaries, the numbers of peaks spread over the unit interval around them."""
    digits = np.modf(series.mean() * np.array([1e3, 1e5]))[0] - 0.5
    found = ten_summaries(series)
    found[COUNTS] += digits
    return found


def pilot_spread(seed: int) -> np.ndarray:
    """Of the summaries (10,), over simulations from the prior."""
    rng = np.random.default_rng([seed, 1])
    mean, sd = prior_mean()
    points = mean + sd * rng.normal(size=(PILOT, len(mean)))
    series = blowflies(rng, dict(zip(PARAMETERS, points.T, strict=True)))
    found = of_many(series)
    return 1.4826 * np.median(np.abs(found - np.median(found, axis=0)), axis=0)


def simulator_of_pairs(lag: int) -> Callable[..., np.ndarray]:
    return lambda rng, theta: delay_vectors(blowflies(rng, theta), lag)


def sides(
    observed: np.ndarray, count: int, seed: int
) -> Iterator[tuple[str, Callable[[], Any], str]]:
    """A name, what runs, and what is done with the run."""
    prior, simulate = blowfly_prior(), vectorize(blowflies)
    common: dict[str, Any] = {"seed": seed, "progress": False}
    lag = quarter_cycle(observed)
    pairs, simulate_pairs = (
        delay_vectors(observed[None], lag)[0],
        vectorize(simulator_of_pairs(lag)),
    )
    for name, options in (
        (K2, {}),
        ("K2 bkl", {"kernel": "bkl"}),
        ("K2 median, features", {"estimator": "features"}),
        ("K2 median, linear", {"estimator": "linear"}),
    ):
        yield (
            name,
            lambda options=options: k2_abc(
                observed, simulate, prior, num_simulations=count, **options, **common
            ),
            "weights",
        )
    yield (
        "K2 median, delay vectors",
        lambda: k2_abc(pairs, simulate_pairs, prior, num_simulations=count, **common),
        "weights",
    )
    for end, options in abc_runs.sequential_options(count).items():
        yield (
            f"K2 median, {end}",
            lambda options=options: sequential_k2_abc(
                observed, simulate, prior, **options, **common
            ),
            "equal",
        )
        yield (
            f"K2 median, delay vectors, {end}",
            lambda options=options: sequential_k2_abc(
                pairs, simulate_pairs, prior, **options, **common
            ),
            "equal",
        )
    distance = Summaries(observed, ten_summaries, scale=pilot_spread(seed))
    for name, how in (("exponential", "weights"), ("rejection", "accepted")):
        yield (
            f"summaries, {name}",
            lambda: abc(
                observed, simulate, prior, distance=distance, num_simulations=count, **common
            ),
            how,
        )
    for name, chains, points in (
        ("synthetic likelihood", 1, count // PER_POINT),
        (LONG, 4, TIMES * count // (4 * PER_POINT)),
    ):
        warmup = max(50, points // 3)
        yield (
            name,
            lambda chains=chains, warmup=warmup, draws=points - warmup - 10: synthetic_likelihood(
                observed,
                simulate,
                prior,
                summaries=dithered,
                simulations_per_point=PER_POINT,
                num_chains=chains,
                num_warmup=warmup,
                num_samples=draws,
                **common,
            ),
            "equal",
        )


def experiment(seed: int, settings: Mapping[str, Any], wanted: frozenset[str]) -> list[Row]:
    """The rows of the sides that are wanted, of one data set."""
    warnings.simplefilter("ignore")  # of small effective sample sizes: they are in the table
    truth, observed, drawn = data_set(seed)
    count = settings["simulations"]
    mean, sd = prior_mean()
    seen = ten_summaries(observed)
    at_truth = of_many(simulated(truth, CHECKS, np.random.default_rng([seed, 2])))
    variance = at_truth.var(axis=0) + COUNTS / 12.0

    def summary_errors(point: np.ndarray) -> tuple[float, float]:
        found = of_many(simulated(point, CHECKS, np.random.default_rng([seed, 3])))
        squares = (found - seen) ** 2
        return float(np.mean(squares / variance)), float(np.mean(squares))

    def row(side: str, share: float | None, point: np.ndarray, spent: float) -> Row:
        relative, plain = summary_errors(point)
        return {
            "data": seed,
            "side": side,
            "share": share,
            "summaries": relative,
            "slides": plain,
            "parameters": ((point - truth) ** 2 / sd**2).tolist(),
            "CPU s": spent,
        }

    def of_draws(side: str, share: float | None, draws: Draws, spent: float, **facts: Any) -> Row:
        low, high = draws.quantiles(LEVELS)
        return {
            **row(side, share, draws.mean, spent),
            **facts,
            "sd": (draws.sd / sd).tolist(),
            "covered": ((low <= truth) & (truth <= high)).tolist(),
        }

    rows = []
    if TRUTH in wanted:
        about = {"drawn": drawn, "truth": truth.tolist(), "lag": quarter_cycle(observed)}
        rows.append(row(TRUTH, None, truth, 0.0) | about)
    if PRIOR in wanted:
        rows.append(row(PRIOR, None, mean, 0.0))
    for side, make, how in sides(observed, count, seed):
        if side not in wanted:
            continue
        began = time.process_time()
        run = make()
        spent = time.process_time() - began
        if how == "equal":
            known = abc_runs.sequential_facts(run) if "stages" in run.children else {}
            facts = known or {"ess": float(run.attrs["ess"])}
            rows.append(of_draws(side, SHARES[0], abc_runs.equal(run, PARAMETERS), spent, **facts))
            continue
        points, squared = abc_runs.parameters(run, PARAMETERS), abc_runs.squared_distances(run)
        for share in SHARES:
            chosen = abc_runs.accepted if how == "accepted" else abc_runs.weighted
            draws = chosen(points, squared, round(share * count))
            rows.append(of_draws(side, share, draws, spent, ess=draws.ess))
    return rows


def text(rows: list[Row], settings: Mapping[str, Any]) -> str:
    """What is found, by side; by epsilon; by parameter."""
    names = list(dict.fromkeys(row["side"] for row in rows))
    count, seeds = settings["simulations"], sorted({row["data"] for row in rows})
    known = {(row["side"], row["share"], row["data"]): row for row in rows}

    def of(side: str, share: float | None = SHARES[0]) -> list[Row]:
        share = None if side in (TRUTH, PRIOR) else share
        return [known[side, share, seed] for seed in seeds if (side, share, seed) in known]

    def quartiles(values: list[float]) -> str:
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75))
        return f"{report.cell(middle)} ({report.cell(low)} to {report.cell(high)})"

    def errors(mine: list[Row]) -> list[float]:
        return [float(np.mean(row["parameters"])) for row in mine]

    def made(side: str) -> str:
        if side in (TRUTH, PRIOR):
            return "-"
        usual = TIMES * count if side == LONG else count
        return f"{np.mean([row.get('simulations', usual) for row in of(side)]):.0f}"

    base = {row["data"]: row for row in of(K2)}
    main = []
    for side in names:
        mine = of(side)
        nearer = sum(row["summaries"] < base[row["data"]]["summaries"] for row in mine)
        main.append(
            {
                "side": side,
                "summaries": quartiles([row["summaries"] for row in mine]),
                "as in the slides": quartiles([row["slides"] for row in mine]),
                f"better than {K2}": "-" if side == K2 else f"{nearer} of {len(mine)}",
                "parameters": abc_runs.spread_of(errors(mine)),
                "simulations": made(side),
                "90 % interval": report.cell(float(np.mean([row["covered"] for row in mine])))
                if "covered" in mine[0]
                else "-",
                "ESS": report.cell(float(np.median([row["ess"] for row in mine])))
                if "ess" in mine[0]
                else "-",
                "CPU s": report.cell(float(np.median([row["CPU s"] for row in mine]))),
            }
        )
    shares = {side: {row["share"] for row in rows if row["side"] == side} for side in names}
    by_share = [
        {
            "side": side,
            **{
                f"{what}, {share * count:g}": cell(of(side, share))
                for what, cell in (
                    ("summaries", lambda mine: quartiles([row["summaries"] for row in mine])),
                    ("parameters", lambda mine: abc_runs.spread_of(errors(mine))),
                )
                for share in sorted(SHARES, reverse=True)
            },
        }
        for side in names
        if len(shares[side]) > 1
    ]
    by_parameter = [
        {
            "side": side,
            **{
                name.removeprefix("log_"): abc_runs.spread_of(
                    [row["parameters"][j] for row in of(side)]
                )
                for j, name in enumerate(PARAMETERS)
            },
        }
        for side in names
        if side != TRUTH
    ]
    drawn = sum(row["drawn"] for row in of(TRUTH))
    return "\n\n".join(
        [
            f"{len(seeds)} data sets, seeds {seeds[0]} to {seeds[-1]}, of {drawn} drawn; {count} "
            "simulations. `summaries`: squared error of the ten summaries of series simulated from "
            "the posterior mean, over their variance at the true parameters; `as in the slides` "
            "without division; medians and quartiles over the data sets. `parameters`: squared "
            "error of the posterior mean over the prior's variance, mean of six, with standard "
            "error over the data sets. `90 % interval`: how often it holds the true value, of "
            f"{len(PARAMETERS) * len(seeds)} cases; those of a data set hang together.",
            report.table(main),
            "**Sequential sides**, means: simulations that were made, stages up to the one whose "
            "particles are taken; of ESS, particles that came from one another and did not move "
            f"count as one\n\n{abc_runs.sequential_table(rows, {})}",
            "**With larger and smaller epsilon**, by effective sample size or acceptances; "
            f"{SHARES[0] * count:g} is that of the table above.",
            report.table(by_share),
            "**Squared errors of the parameters' logarithms**, over the prior's variance",
            report.table(by_parameter),
        ]
    )


def main() -> None:
    """Simulate, infer, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    abc_runs.add_options(parser, DATA_SETS, SIMULATIONS)
    options = parser.parse_args()
    if options.quick:
        options.data_sets, options.simulations = 2, 4500  # the least for a synthetic likelihood
    settings = {"simulations": options.simulations, "shares": SHARES}
    title = "Blowflies: likelihood-free inference by the MMD and by summaries"
    abc_runs.fill("blowfly", title, experiment, SIDES, text, settings, options)


if __name__ == "__main__":
    main()
