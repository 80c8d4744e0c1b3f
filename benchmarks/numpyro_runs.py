"""Time NumPyro's NUTS with ``bke_model``, ``fit``, and a textbook model of the density.

The rows come from the paper's mixtures; there are 100 warmup iterations and 100 draws. Each model
runs in a separate process. One ``MCMC`` object runs twice with different seeds, except for
vectorized chains, for which NumPyro runs an object only once. The benchmark takes about six
minutes.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import report

ITERATIONS = 100
#: Model, likelihood, rows and number of chains.
RUNS = (
    ("bke_model", "auto", 60, 1),
    ("bke_model", "auto", 600, 1),
    ("bke_model", "auto", 6000, 1),
    ("bke_model", "auto", 600, 4),
    ("bke_model", "dense", 600, 1),
    ("fit", "auto", 600, 1),
    ("textbook", "", 600, 1),
)


def measure(model: str, likelihood: str, rows: int, chains: int) -> dict[str, Any]:
    """Return wall and CPU seconds of two runs, and leapfrog steps per draw."""
    import jax
    import numpyro
    from bke.inference import Nuts, fit, normal_laplace
    from bke.models import bke_model
    from numpyro.infer import MCMC, NUTS
    from plain_model import plain_model

    numpyro.enable_x64()
    # One array: NumPyro knows the data of a compiled program by their identity.
    X = jax.numpy.asarray(np.concatenate(normal_laplace(seed=0, per_component=rows // 6))[:, 0])
    mcmc = MCMC(
        NUTS(plain_model if model == "textbook" else bke_model),
        num_warmup=ITERATIONS,
        num_samples=ITERATIONS,
        num_chains=chains,
        chain_method="vectorized" if chains > 1 else "sequential",
    )
    options = {"likelihood": likelihood} if likelihood else {}
    row: dict[str, Any] = {"model": model, "likelihood": likelihood, "rows": rows, "chains": chains}
    for seed, name in enumerate(("first", "second")[: 1 if chains > 1 else 2]):
        wall, cpu = time.perf_counter(), time.process_time()
        if model == "fit":
            method = Nuts(chains, ITERATIONS, ITERATIONS)
            run = fit(
                np.asarray(X), method=method, standardize=None, seed=seed, progress=False, **options
            )
            steps = run["sample_stats"]["n_steps"].values
        else:
            key = jax.random.PRNGKey(seed)
            mcmc.run(key, X, extra_fields=("num_steps",), **options)
            steps = np.asarray(mcmc.get_extra_fields()["num_steps"])
        row[f"{name}, s"] = time.perf_counter() - wall
        row[f"{name}, CPU s"] = time.process_time() - cpu
        row[f"{name}, steps"] = float(steps.mean())
    if chains > 1:
        row |= dict.fromkeys(("second, s", "second, CPU s", "second, steps"))
    return row


def main() -> None:
    """Measure each model in a separate process and write the table."""
    info, folder = report.start(None)
    rows = [report.child(__file__, *run) for run in RUNS]
    text = f"{ITERATIONS} warmup iterations and {ITERATIONS} draws; steps are per draw."
    title = "NumPyro's NUTS with bke_model, fit, and a textbook model"
    text += f"\n\n{report.table(rows)}"
    report.save(folder, "numpyro_runs", title, info, text, {"rows": rows})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(measure(*sys.argv[2:4], *map(int, sys.argv[4:]))))
    else:
        main()
