"""Results hang on data, options and seeds alone: not on threads, processes or settings of JAX.

Each way runs one program in a process of its own; sums in other orders differ by rounding.
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
    tested = two_sample_test(P, Q, permutations=99, **quiet)
    told = compare(P, Q, permutations=99, **quiet)
    run = fit(np.concatenate([P, Q]), **quiet)
    chains = fit(P[:12, 0], method=Nuts(warmup=50, draws=50, chains=2), **quiet)
    witness = sample_witness(run, P, Q, at=P[:3], **quiet)["witness"].mean(["chain", "draw"])
    draws = [one["posterior"]["lengthscale"].values for one in (run, chains)]
    return [
        tested.pvalue,
        tested.statistic,
        told.log_bayes_factor,
        told.effect,
        float(draws[0].mean()),
        float(draws[1].mean()),
        *map(float, witness),
    ]
"""
PLAIN = "print(json.dumps(work()))"
WAYS = {
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
    one, other = pool.map(lambda _: work(), range(2))
np.testing.assert_allclose(one, other, rtol=1e-6)
print(json.dumps(other))
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
    found = work()
assert jax.config.jax_enable_x64
assert jax.config.jax_default_matmul_precision == "bfloat16"
print(json.dumps(found))
""",
    "32 bits": """
import jax

jax.config.update("jax_enable_x64", False)
found = work()
assert not jax.config.jax_enable_x64
assert jax.numpy.ones(1).dtype == "float32"
print(json.dumps(found))
""",
}


def found(program, **environment):
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
    return found(PLAIN)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_where_it_is_called(way, expected):
    np.testing.assert_allclose(found(WAYS[way]), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2", "4"])
def test_how_many_threads(threads, expected):
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    again = found(PLAIN, **dict.fromkeys(names, threads))
    np.testing.assert_allclose(again, expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_in_processes(how, expected, tmp_path):
    """A fork before JAX has started: one after it JAX itself warns about."""
    program = tmp_path / "program.py"
    program.write_text(
        WORK
        + f"""
if __name__ == "__main__":
    import multiprocessing

    with multiprocessing.get_context({how!r}).Pool(1) as pool:
        print(json.dumps(pool.apply(work)))
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), expected, rtol=1e-6)


def test_import_changes_no_global_state():
    """Settings of JAX, warnings, logging, signals, the state of random numbers, paths."""
    state = """
import json, logging, os, random, signal, sys, warnings
import numpy as np
import jax

def state():
    return json.dumps([
        {name: str(value) for name, value in jax.config.values.items()},
        [str(one) for one in warnings.filters],
        logging.getLogger().level,
        [str(one) for one in logging.getLogger().handlers],
        str(signal.getsignal(signal.SIGINT)),
        str(random.getstate()),
        str(np.random.get_state()),
        np.geterr(),
        dict(os.environ),
        sys.path,
        str(sys.excepthook),
    ])

import arviz_base, matplotlib, numpyro, pandas, rich.console, sklearn, xarray  # of others
before = state()
import bke.inference, bke.models
for room in (bke.models, bke.inference):
    for name in dir(room):
        getattr(room, name)
after = state()
if before != after:
    for one, other in zip(json.loads(before), json.loads(after)):
        if isinstance(one, dict):
            one, other = (
                [name for name in a.items() if name not in b.items()]
                for a, b in ((one, other), (other, one))
            )
        if one != other:
            sys.exit(f"{one} became {other}"[:2000])
"""
    done = subprocess.run(
        [sys.executable, "-c", state], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
