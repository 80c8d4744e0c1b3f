"""A million rows of each of two samples: posterior, witness with bands and two-sample test.

One column, P a mixture of two normal distributions and Q the same with one of them a little wider.
The posterior of the pooled sample is by quadrature on the spectral route; the witness is given all
rows, by waves, for every fiftieth posterior draw; the tests have the kernel that 2000 of the rows
learn: MMD of all pairs with 999 permutations, and by blocks with their normal limit. Each step is
in a process of its own, whose peak memory is that of the step and of the data.
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
    """P and Q, (n, 1) each."""
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, n, 1))
    wide = rng.random(size=(2, n, 1)) < 0.3
    P = np.where(wide[0], 4.0 + 0.5 * first, first)
    Q = np.where(wide[1], 4.0 + 0.52 * second, second)
    return P, Q


def posterior(n: int, path: str) -> str:
    """By quadrature; saved."""
    run = fit(np.concatenate(samples(n)), method="quadrature", progress=False)
    save_run(run, path)
    value = run["posterior"]["lengthscale"].values
    return f"lengthscale {value.mean():.4g}, standard deviation {value.std():.2g}"


def witness(n: int, path: str) -> str:
    """Given all rows."""
    P, Q = samples(n)
    run = load_run(path)
    found = sample_witness(run, P, Q, thin=THIN, progress=False)
    at, bands = found["at"].values[:, 0], credible_band(found, 0.8)
    clear = (bands.lower > 0) | (bands.upper < 0)
    return f"80 % band excludes zero at {clear.sum()} of {len(at)} points"


def permutations(n: int, path: str) -> str:
    """Of all pairs, exact."""
    found = two_sample_test(*samples(n), kernel="bkl", progress=False)
    return f"p = {found.pvalue:.2g}, {found.method}"


def blocks(n: int, path: str) -> str:
    """Of pairs within blocks, in the normal limit."""
    P, Q = samples(n)
    found = two_sample_test(P, Q, kernel="bkl", method="normal", estimator="block", progress=False)
    return f"p = {found.pvalue:.2g}, {found.method}"


STEPS = {
    "posterior": posterior,
    "witness": witness,
    "test by permutations": permutations,
    "test by blocks": blocks,
}


def step(name: str, n: int, path: str) -> tuple[float, float, str]:
    """Seconds, peak memory in GiB, what was found."""
    start = time.perf_counter()
    found = STEPS[name](n, path)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30, found


def main() -> None:
    """Run, time, write."""
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
                seconds, memory, found = pool.submit(step, name, n, path).result()
            rows.append({"step": name, "seconds": seconds, "peak GiB": memory, "found": found})
            print(rows[-1], flush=True)
    body = (
        f"{n} + {n} rows; every {THIN}th posterior draw for the witness. With imports and "
        f"compilation.\n\n{report.table(rows)}"
    )
    name = "million-quick" if options.quick else "million"
    report.save(folder, name, "A million rows of each sample", info, body, {"rows": rows})


if __name__ == "__main__":
    main()
