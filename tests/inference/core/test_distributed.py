"""Several processes of a job give the results of one; they run a common script."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from bke.inference import InputError, fit
from bke.inference.core.distributed import on_devices

FIT = """
import sys
import jax
import numpy as np
from bke.inference import Nuts, Quadrature, Smc, fit, open_rows
from bke.inference.sampling import out_of_core
from bke.models import Landmark

port, processes, process, rows, out = sys.argv[1:]
if processes != "1":
    jax.distributed.initialize(f"localhost:{port}", int(processes), int(process))
X = np.load(rows)
options = dict(likelihood=Landmark(9), progress=False)
out_of_core.chunk_size = lambda landmarks, dimension: 30
quadrature = Quadrature(tolerance=1e-3)
streamed = fit(open_rows(rows), method=quadrature, **options)
rows = fit(X, method=quadrature, shard="rows", **options)
moved = fit(X, method=Nuts(3, 20, 4), shard="rows", **options)
own = fit(X, method=Smc(60, 3), shard="chains", **options)
found = {}
for name, run in {"streamed": streamed, "rows": rows, "moved": moved, "own": own}.items():
    found[name] = run["posterior"]["lengthscale"].values
    found[f"{name} lp"] = run["sample_stats"]["lp"].values
if jax.process_index() == 0:
    np.savez(out, **found)
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        return listener.getsockname()[1]


def processes(count, script, *arguments):
    port = str(free_port())
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, port, str(count), str(process), *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for process in range(count)
    ]


@pytest.mark.slow
def test_two_processes_give_the_draws_of_a_single_process(tmp_path):
    rows = tmp_path / "rows.npy"
    np.save(rows, np.random.default_rng(0).gamma(2.0, size=(300, 2)))
    outputs = [tmp_path / "one.npz", tmp_path / "two.npz"]
    for count, out in zip((1, 2), outputs, strict=True):
        for process in processes(count, FIT, rows, out):
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0, output
    single, double = (np.load(out) for out in outputs)
    for name in single.files:
        np.testing.assert_allclose(single[name], double[name], rtol=1e-10, err_msg=name)
    assert np.unique(single["own"]).size > 9  # not one chain three times


LONG = """
import sys
import jax
import numpy as np
from bke.inference import fit
from bke.models import Landmark

port, processes, process = sys.argv[1:]
jax.distributed.initialize(
    f"localhost:{port}", int(processes), int(process), heartbeat_timeout_seconds=30
)
X = np.random.default_rng(0).gamma(2.0, size=(900, 2))
options = dict(likelihood=Landmark(9), shard="rows", progress=False)
fit(X, method="quadrature", **options)
print("at work")
while True:
    fit(X, method="quadrature", **options)
"""


@pytest.mark.slow
def test_a_process_that_dies_is_missed_at_once(tmp_path):
    first, second = processes(2, LONG)
    assert any("at work" in line for line in first.stdout)
    time.sleep(1.0)
    second.send_signal(signal.SIGKILL)
    output, _ = first.communicate(timeout=120)
    assert first.returncode != 0
    assert "another process of this job has ended" in output
    second.wait()


OTHER = """
import sys
import jax
import numpy as np
from bke.inference import InputError, fit

port, processes, process = sys.argv[1:]
jax.distributed.initialize(f"localhost:{port}", int(processes), int(process))
X = np.random.default_rng(int(process)).normal(size=40)
try:
    fit(X, seed=int(process), progress=False)
except InputError as error:
    print(error)
"""


@pytest.mark.slow
def test_processes_must_have_equal_arguments():
    for process in processes(2, OTHER):
        output, _ = process.communicate(timeout=120)
        assert "were given different data and seeds: give all the same" in output


DEVICES = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
import threading
import jax
import numpy as np
from bke.inference.core.distributed import on_devices

where = on_devices(lambda i: (i, next(iter((jax.numpy.zeros(1) + i).devices())).id), 7,
               threading.Event(), np.zeros(1))
print([int(i) for i, _ in where], sorted({device for _, device in where}))
"""


@pytest.mark.slow
def test_work_is_distributed_to_all_devices_and_returned_in_order():
    done = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True)
    assert done.stdout.strip() == "[0, 1, 2, 3, 4, 5, 6] [0, 1, 2]", done.stderr


def test_invalid_arguments_are_refused():
    X = np.random.default_rng(0).normal(size=40)
    with pytest.raises(InputError, match="shard must be one of"):
        fit(X, shard="columns", progress=False)
    with pytest.raises(InputError, match="shard='rows' is for likelihood='landmark'"):
        fit(X, shard="rows", progress=False)
    assert on_devices(lambda index: index, 0, None, X) == []
