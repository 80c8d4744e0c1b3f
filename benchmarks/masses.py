"""Mode masses and normalizing constants by quadrature, tempered SMC, reweighted and plain NUTS.

There are two families of data sets: those of BKE Figure 3 (600 points, nearly all mass in the long
mode), and the same with 30 points per component and centers further out, where both modes have
mass, so that a wrong weight is visible. Tempered SMC is compared with quadrature in units of the
standard errors of SMC.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import report
import xarray as xr
from bke.inference import Smc, find_modes, fit, reweight
from bke.inference.diagnostics.modes import mode_masses

#: Centers of the outer components and points per component, by family.
FAMILIES = {"figure 3": (3.0, 100), "comparable": (3.6, 30)}


def main() -> None:
    """Fit every data set with every method and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--data-sets", type=int, default=20)
    parser.add_argument("--particles", type=int, default=4000)
    parser.add_argument("--methods", nargs="+", choices=("smc", "nuts"), default=["smc", "nuts"])
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.families, options.data_sets, options.particles = ["comparable"], 1, 200
    info, folder = report.start(options.results)
    info["load_average"] = None  # nothing here is timed
    rows = []
    for family in options.families:
        for seed in range(options.data_sets):
            rows.append(compare(family, seed, options))
            print(report.table(rows[-1:]), flush=True)
    text = (
        f"{options.particles} particles in 8 repeats; NUTS: 8 chains x (200 + 200). `mass` is that "
        "of the longest mode by quadrature. The columns of other methods are differences from it, "
        "for SMC also in its standard errors, which are at least one particle. `log Z` is the log "
        "normalizing constant. `plain NUTS` uses the proportion of the draws. `cost.py` measures "
        "the cost of the methods."
        "\n\n" + report.table(rows)
    )
    name = "masses-quick" if options.quick else "masses"
    report.save(folder, name, "Mode masses and normalizers", info, text, {"data sets": rows})


def sample(family: str, seed: int) -> np.ndarray:
    """Normal and Laplace mixtures with equal moments, pooled, (n, 1)."""
    outer, per_component = FAMILIES[family]
    rng = np.random.default_rng(seed)
    centers = np.repeat([-outer, 0.0, outer], per_component)
    return np.concatenate([rng.normal(centers, 1.0), rng.laplace(centers, np.sqrt(0.5))])[:, None]


def compare(family: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """Compare the methods on one data set and return its row."""
    X = sample(family, seed)
    exact = fit(X, method="quadrature", standardize=None, progress=False)
    attrs = exact["quadrature"].attrs
    intervals = [mode.interval for mode in find_modes(exact).modes]
    mass, log_normalizer = long_mass(exact, intervals), attrs["log_normalizer"]
    row: dict[str, Any] = {
        "data": f"{family} {seed}",
        "modes": len(intervals),
        "log Z": log_normalizer,
        "error": attrs["log_normalizer_error"],
        "mass": mass[0],
        "evaluations": attrs["evaluations"],
    }
    if "smc" in options.methods:
        run = fit(X, method=Smc(num_particles=options.particles), standardize=None, progress=False)
        attrs = run["smc"].attrs
        smc_mass, error = long_mass(run, intervals)
        row |= {
            "SMC log Z": attrs["log_normalizer"] - log_normalizer,
            "its se": attrs["log_normalizer_error"],
            "SMC mass": smc_mass - mass[0],
            "its se ": error,
            "in se": (smc_mass - mass[0]) / error,
            "temperatures": float(run["smc"]["temperatures"].mean()),
        }
    if "nuts" in options.methods:
        run = fit(X, method="nuts", standardize=None, progress=False)
        reweighted = reweight(run, progress=False)
        row |= {
            "plain NUTS": proportion_of_draws(run, intervals) - mass[0],
            "reweighted": long_mass(reweighted, intervals)[0] - mass[0],
        }
    return row


def long_mass(run: xr.DataTree, intervals: list[Any]) -> tuple[float, float]:
    """Return the mass of the mode with the longest lengthscale, and its error."""
    masses = mode_masses(run, intervals, find_modes(run).of_draws)
    if masses is None:
        raise ValueError("the run has no masses")
    mass, error = masses
    return float(mass[-1]), float(error[-1])


def proportion_of_draws(run: xr.DataTree, intervals: list[Any]) -> float:
    """Return the proportion of the draws of all chains in that mode."""
    draws = run["unconstrained_posterior"].to_dataset()["lengthscale"].values
    return float((draws >= intervals[-1][0]).mean())


if __name__ == "__main__":
    main()
