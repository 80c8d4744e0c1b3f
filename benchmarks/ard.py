"""NUTS with one lengthscale per column (ARD) in 2, 5 and 10 dimensions: cost and mixing.

The data are n points in D independent columns: column 0 is an equal mixture of N(-2, 1) and
N(2, 1), and column d = 1, ..., D - 1 is N(0, s_d^2) with s_d spaced evenly on the logarithmic scale
from 1/2 to 2. So each column has a different scale, which its lengthscale should match, and column
0 also has the two scales that make the one-dimensional posterior bimodal. The prior is Gamma(1, 1)
on each lengthscale, in the units of the data (``standardize=None``).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import arviz_stats
import numpy as np
import numpyro.distributions as dist
import report
import xarray as xr
from bke.inference import Nuts, fit
from clock import SamplerClock


def main() -> None:
    """Fit all dimensions and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--chains", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--likelihood", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.dimensions, options.n = [2, 5], 60
        options.chains, options.warmup, options.draws = 2, 20, 20
    info, folder = report.start(options.results)
    clock = SamplerClock()
    costs: list[dict[str, Any]] = []
    columns: list[dict[str, Any]] = []
    for dimension in options.dimensions:
        X = ard_sample(options.n, dimension, options.seed)
        begin, compiled = time.perf_counter(), clock.compilation
        run = fit(
            X,
            prior=dist.Gamma(1.0, 1.0).expand((dimension,)),
            likelihood=options.likelihood,
            standardize=None,
            method=Nuts(options.chains, options.warmup, options.draws),
            seed=options.seed,
            progress=False,
        )
        seconds = {
            "seconds": time.perf_counter() - begin,
            "of which compiling": clock.compilation - compiled,
            "sampling": clock.sampling,
        }
        costs.append({"D": dimension, **seconds, **cost(run, clock.sampling)})
        columns += column_rows(run, X)
        print(f"D {dimension}: {seconds['seconds']:.0f} s", flush=True)
    text = "\n\n".join(
        [
            f"n = {options.n}, {options.chains} chains x ({options.warmup} warmup + "
            f"{options.draws} draws), likelihood {options.likelihood!r}, seed {options.seed}. "
            "`seconds` is all of `fit`; `ms per step` is `sampling` over the leapfrog steps of all "
            "chains, warmup included; divergences are counted after warmup. `agreeing` counts "
            "the chains in the same mode as the chain with the highest density.",
            report.table(costs),
            "Column by column (`sd` of the data; lengthscale over the agreeing chains):",
            report.table(columns),
        ]
    )
    name = "ard-quick" if options.quick else "ard"
    title = "ARD: cost and mixing"
    report.save(folder, name, title, info, text, {"dimensions": costs, "columns": columns})


def ard_sample(n: int, dimension: int, seed: int) -> np.ndarray:
    """Draw the data of this benchmark, (n, D); see the docstring of this module."""
    generator = np.random.default_rng(seed)
    bimodal = generator.normal(generator.choice([-2.0, 2.0], n), 1.0)
    scales = np.geomspace(0.5, 2.0, dimension - 1)
    return np.column_stack([bimodal, generator.normal(0.0, scales, (n, dimension - 1))])


def cost(run: xr.DataTree, sampling: float) -> dict[str, Any]:
    """Return a row with the cost of ``sampling`` seconds and diagnostics of mixing."""
    posterior = run["posterior"].to_dataset()
    steps = sum(
        int(run[group]["n_steps"].sum()) for group in ("sample_stats", "warmup_sample_stats")
    )
    agreeing = agreeing_chains(run)
    agreeing_posterior = posterior.isel(chain=agreeing)
    return {
        "leapfrog steps": steps,
        "ms per step": 1e3 * sampling / steps,
        "divergences": int(run["sample_stats"]["diverging"].sum()),
        "max R-hat": largest(arviz_stats.rhat(posterior)),
        "min bulk ESS": -largest(-arviz_stats.ess(posterior, method="bulk")),
        "chains": posterior.sizes["chain"],
        "agreeing": len(agreeing),
        "max R-hat, agreeing": largest(arviz_stats.rhat(agreeing_posterior)),
        "min bulk ESS, agreeing": -largest(-arviz_stats.ess(agreeing_posterior, method="bulk")),
    }


def largest(values: xr.Dataset) -> float:
    """Return the largest value over all lengthscales."""
    return float(values["lengthscale"].max())


def lengthscales(run: xr.DataTree) -> xr.DataArray:
    """Return draws with dimensions (chain, draw, column)."""
    return run["posterior"].to_dataset()["lengthscale"]


def agreeing_chains(run: xr.DataTree) -> list[int]:
    """Return chains in the same mode as the chain with the highest median log density.

    Two chains are in the same mode if the means of the log lengthscale of each column differ by at
    most twice the root of the sum of both variances.
    """
    scale = np.log(lengthscales(run).values)
    best = int(run["sample_stats"].to_dataset()["lp"].median("draw").argmax("chain"))
    mean, variance = scale.mean(axis=1), scale.var(axis=1)
    agrees = np.abs(mean - mean[best]) <= 2 * np.sqrt(variance + variance[best])
    return [int(chain) for chain in np.flatnonzero(agrees.all(axis=1))]


def column_rows(run: xr.DataTree, X: np.ndarray) -> list[dict[str, Any]]:
    """Return a row for each column of the data."""
    posterior = run["posterior"].to_dataset()
    r_hat = arviz_stats.rhat(posterior)["lengthscale"].values
    ess = arviz_stats.ess(posterior, method="bulk")["lengthscale"].values
    agreeing_draws = lengthscales(run).values[agreeing_chains(run)]
    return [
        {
            "D": X.shape[1],
            "column": column,
            "sd": float(X[:, column].std()),
            "lengthscale mean": float(agreeing_draws[..., column].mean()),
            "lengthscale sd": float(agreeing_draws[..., column].std()),
            "R-hat": float(r_hat[column]),
            "bulk ESS": float(ess[column]),
        }
        for column in range(X.shape[1])
    ]


if __name__ == "__main__":
    main()
