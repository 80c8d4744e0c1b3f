"""Results depend on data, options and seeds only, not on threads, processes or settings of JAX.

Every test runs the same program in a separate process; sums in other orders differ by rounding.
"""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

#: Prints a test, a comparison, a posterior and its witness in numbers.
WORK = """
import json
import numpy as np

def work():
    from bke.inference import Nuts, compare, fit, sample_witness, two_sample_test

    rng = np.random.default_rng(0)
    P, Q = rng.normal(size=(40, 2)), rng.normal(size=(30, 2)) * [1.0, 1.6]
    quiet = {"progress": False, "seed": 1}
    test = two_sample_test(P, Q, n_resamples=99, **quiet)
    comparison = compare(P, Q, n_resamples=99, **quiet)
    run = fit(np.concatenate([P, Q]), **quiet)
    chains = fit(P[:12, 0], method=Nuts(num_warmup=50, num_samples=50, num_chains=2), **quiet)
    witness = sample_witness(run, P, Q, at=P[:3], **quiet)["witness"].mean(["chain", "draw"])
    draws = [fitted["posterior"]["lengthscale"].values for fitted in (run, chains)]
    return [
        test.pvalue,
        test.statistic,
        comparison.log_bayes_factor,
        comparison.auc,
        float(draws[0].mean()),
        float(draws[1].mean()),
        *map(float, witness),
    ]
"""
PLAIN = "print(json.dumps(work()))"
CALLERS = {
    "asyncio": """
import asyncio

async def main():
    return work()

print(json.dumps(asyncio.run(main())))
""",
    "a thread": """
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(1) as pool:
    print(json.dumps(pool.submit(work).result()))
""",
    "two threads at once": """
from concurrent.futures import ThreadPoolExecutor

with ThreadPoolExecutor(2) as pool:
    first, second = pool.map(lambda _: work(), range(2))
np.testing.assert_allclose(first, second, rtol=1e-6)
print(json.dumps(second))
""",
    "joblib": """
from joblib import Parallel, delayed

print(json.dumps(Parallel(n_jobs=2, backend="threading")(delayed(work)() for _ in range(1))[0]))
""",
    "dask": """
import dask

print(json.dumps(dask.delayed(work)().compute(scheduler="threads")))
""",
    "other settings of JAX": """
import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "bfloat16")
with jax.default_device(jax.devices("cpu")[0]):
    values = work()
assert jax.config.jax_enable_x64
assert jax.config.jax_default_matmul_precision == "bfloat16"
print(json.dumps(values))
""",
    "32 bits": """
import jax

jax.config.update("jax_enable_x64", False)
values = work()
assert not jax.config.jax_enable_x64
assert jax.numpy.ones(1).dtype == "float32"
print(json.dumps(values))
""",
}


def values_of(program, **environment):
    done = subprocess.run(
        [sys.executable, "-c", WORK + program],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def expected():
    return values_of(PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("caller", CALLERS)
def test_results_do_not_depend_on_the_caller(caller, expected):
    np.testing.assert_allclose(values_of(CALLERS[caller]), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_results_do_not_depend_on_threads(threads, expected):
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    values = values_of(PLAIN, **dict.fromkeys(names, threads))
    np.testing.assert_allclose(values, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "spawn", "forkserver"])
def test_results_do_not_depend_on_processes(start_method, expected, tmp_path):
    """The fork happens before JAX has started; JAX itself warns about a later one."""
    program = tmp_path / "program.py"
    program.write_text(
        WORK
        + f"""
if __name__ == "__main__":
    import multiprocessing

    with multiprocessing.get_context({start_method!r}).Pool(1) as pool:
        print(json.dumps(pool.apply(work)))
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), expected, rtol=1e-6)


def test_import_changes_no_global_state():
    """Settings of JAX, warnings, logging, signals, states of random numbers and paths stay."""
    state = """
import json, logging, os, random, signal, sys, warnings
import numpy as np
import jax

def state():
    return json.dumps([
        {name: str(value) for name, value in jax.config.values.items()},
        [str(item) for item in warnings.filters],
        logging.getLogger().level,
        [str(item) for item in logging.getLogger().handlers],
        str(signal.getsignal(signal.SIGINT)),
        str(random.getstate()),
        str(np.random.get_state()),
        np.geterr(),
        dict(os.environ),
        sys.path,
        str(sys.excepthook),
    ])

import arviz_base, matplotlib, numpyro, pandas, rich.console, sklearn, xarray  # change it too
before = state()
import bke.inference, bke.models
for package in (bke.models, bke.inference):
    for name in dir(package):
        getattr(package, name)
after = state()
if before != after:
    for old, new in zip(json.loads(before), json.loads(after)):
        if isinstance(old, dict):
            old, new = (
                [name for name in a.items() if name not in b.items()]
                for a, b in ((old, new), (new, old))
            )
        if old != new:
            sys.exit(f"{old} became {new}"[:2000])
"""
    done = subprocess.run(
        [sys.executable, "-c", state], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
