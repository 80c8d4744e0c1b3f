"""A million rows of each of two samples: posterior, witness with bands and two-sample test.

There is one column; P is a mixture of two normal distributions, and in Q one of them is a little
wider. The posterior of the pooled sample is computed by quadrature with the spectral solver, and
the witness from all rows by waves, for every fiftieth posterior draw. The tests use a kernel that
is learned from 2000 of the rows: the MMD of all pairs with 999 permutations, and the block
estimator with its normal limit. Each step runs in a separate process, whose peak memory includes
the data.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import report
from bke.inference import credible_band, fit, load_run, sample_witness, save_run, two_sample_test

THIN = 50


def samples(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw P and Q, (n, 1) each."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, n, 1))
    wide = rng.random(size=(2, n, 1)) < 0.3
    P = np.where(wide[0], 4.0 + 0.5 * first, first)
    Q = np.where(wide[1], 4.0 + 0.52 * second, second)
    return P, Q


def posterior(n: int, path: str) -> str:
    """Fit by quadrature and save the run."""
    run = fit(np.concatenate(samples(n)), method="quadrature", progress=False)
    save_run(run, path)
    value = run["posterior"]["lengthscale"].values
    return f"lengthscale {value.mean():.4g}, standard deviation {value.std():.2g}"


def witness(n: int, path: str) -> str:
    """Draw the witness of the saved run from all rows."""
    P, Q = samples(n)
    run = load_run(path)
    draws = sample_witness(run, P, Q, thin=THIN, progress=False)
    at, bands = draws["at"].values[:, 0], credible_band(draws, 0.8)
    clear = (bands.lower > 0) | (bands.upper < 0)
    return f"80 % band excludes zero at {clear.sum()} of {len(at)} points"


def permutations(n: int, path: str) -> str:
    """Run the permutation test with all pairs."""
    test = two_sample_test(*samples(n), kernel="bkl", progress=False)
    return f"p = {test.pvalue:.2g}, {test.method}"


def blocks(n: int, path: str) -> str:
    """Run the test with pairs within blocks and the normal limit."""
    P, Q = samples(n)
    test = two_sample_test(P, Q, kernel="bkl", method="normal", estimator="block", progress=False)
    return f"p = {test.pvalue:.2g}, {test.method}"


STEPS = {
    "posterior": posterior,
    "witness": witness,
    "test by permutations": permutations,
    "test by blocks": blocks,
}


def step(name: str, n: int, path: str) -> tuple[float, float, str]:
    """Run one step; return its seconds, peak memory in GiB and result."""
    start = time.perf_counter()
    result = STEPS[name](n, path)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30, result


def main() -> None:
    """Run all steps and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**6, help="of each sample")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    n = 3000 if options.quick else options.rows
    info, folder = report.start(options.results)
    rows = []
    with TemporaryDirectory() as scratch:
        path = str(Path(scratch) / "run.nc")
        for name in STEPS:
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                seconds, memory, result = pool.submit(step, name, n, path).result()
            rows.append({"step": name, "seconds": seconds, "peak GiB": memory, "found": result})
            print(rows[-1], flush=True)
    body = (
        f"{n} + {n} rows; every {THIN}th posterior draw for the witness. With imports and "
        f"compilation.\n\n{report.table(rows)}"
    )
    name = "million-quick" if options.quick else "million"
    report.save(folder, name, "A million rows of each sample", info, body, {"rows": rows})


if __name__ == "__main__":
    main()
