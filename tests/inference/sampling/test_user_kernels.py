"""A kernel in a user's module, from fit to another process."""

import importlib
import json
import os
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import InputError, Quadrature, diagnose, fit, load_run, sample_witness, save_run
from bke.inference.sampling.densities import compile_log_density
from bke.inference.sampling.record import (
    RECORD,
    describe_kernel,
    identity_of,
    read_record,
    restore_kernel,
)
from bke.inference.sampling.run import target_of
from bke.inference.sampling.target import Target
from bke.models import SquaredExponential, kernel_from_function, register_dataclass

MODULE = """
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from bke.models import Radial, Stationary, parameter, register_dataclass


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Mine(Stationary):
    width: Any = parameter(1.0, unit="length", prior=dist.LogNormal(0.0, 0.5))
    kind: str = parameter("se", static=True)

    def log_evaluate(self, x, y):
        return -0.5 * jnp.sum(((x - y) / self.width) ** 2)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class Ball(Radial):
    lengthscale: Any = 1.0

    def evaluate_distance(self, rho):
        return jnp.exp(-0.5 * rho**2)


def product(x, y, *, lengthscale=1.0):
    return jnp.exp(-0.5 * jnp.sum(((x - y) / lengthscale) ** 2))
"""
NAME = "kernels_of_a_user"
QUICK = {"method": Quadrature(num_samples=100), "progress": False}


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / f"{NAME}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


def elsewhere(program, *folders):
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_copy_of_ours_has_its_posterior_in_the_units_of_the_data(module):
    X = np.random.default_rng(0).normal(size=(12, 2)) * [1.0, 30.0]
    copied, ours = (
        fit(X, kernel=kernel, likelihood="dense", **QUICK)["posterior"]["lengthscale"]
        for kernel in (module.Ball, SquaredExponential)
    )
    assert copied.dims == ours.dims == ("chain", "draw", "input")
    np.testing.assert_allclose(copied, ours, rtol=1e-4)


@pytest.mark.slow
def test_from_fit_to_another_process(module, tmp_path):
    rng = np.random.default_rng(0)
    P, Q = 50.0 * rng.normal(size=(10, 1)), 90.0 * rng.normal(size=(8, 1))
    run = fit(np.concatenate([P, Q]), kernel=module.Mine, **QUICK)
    assert 5.0 < float(run["posterior"]["width"].mean()) < 300.0
    assert read_record(run.attrs)["model"]["prior"]["width"]["distribution"] == "LogNormal"
    file = tmp_path / "run.nc"
    save_run(run, file)
    program = "from bke.inference import *; print(diagnose(load_run({}, modules={})))"
    output = elsewhere(program.format(repr(str(file)), [NAME]), tmp_path)
    assert output.returncode == 0, output.stderr
    assert output.stdout.strip() == str(diagnose(run)).strip()
    assert "width" in output.stdout
    (tmp_path / f"{NAME}.py").unlink()
    refused = elsewhere(program.format(repr(str(file)), []))
    assert refused.returncode == 1
    last = refused.stderr.strip().splitlines()[-1]
    assert f"its kernel is of the module '{NAME}', which would be run" in last
    witness = sample_witness(load_run(file), P, Q, at=np.zeros((1, 1)), progress=False)
    assert np.isfinite(witness["witness"]).all()


@pytest.mark.parametrize("kind", ["class", "function", "sum", "local", "lambda"])
def test_kernels_through_their_record(module, kind):
    class Local(module.Mine):
        pass

    register_dataclass(Local)
    kernel = {
        "class": module.Mine(np.array([1.0, 2.5]), "other"),
        "function": kernel_from_function(module.product, stationary=True),
        "sum": module.Mine(0.3) + 2.0 * SquaredExponential(1.5),
        "local": Local(0.7),
        "lambda": kernel_from_function(lambda x, y, *, a: a * jnp.dot(x, y), {"a": 2.0}),
    }[kind]
    record = json.loads(json.dumps(describe_kernel(kernel)))
    restored = restore_kernel(record)
    assert jax.tree.structure(restored) == jax.tree.structure(kernel)
    np.testing.assert_array_equal(jax.tree.leaves(restored), jax.tree.leaves(kernel))
    assert ("session" in json.dumps(record)) == (kind in ("local", "lambda"))


def test_a_lambda_cannot_be_restored_in_another_process(tmp_path):
    kernel = kernel_from_function(
        lambda x, y, *, lengthscale=1.0: jnp.exp(-jnp.sum(((x - y) / lengthscale) ** 2)),
        stationary=True,
    )
    run = fit(np.random.default_rng(0).normal(size=12), kernel=kernel, **QUICK)
    assert target_of(run)[0].kernel == kernel
    file = tmp_path / "run.nc"
    with pytest.warns(UserWarning, match="cannot be imported"):
        save_run(run, file)
    load_run(file)
    run.attrs[RECORD] = run.attrs[RECORD].replace('"session": "', '"session": "another')
    with pytest.raises(InputError, match="only the process that made the run"):
        target_of(run)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"type": "os:system"}, "kernel os:system, which is none now"),
        ({"type": "function", "function": {"type": "os:system"}}, "function os:system, which is"),
        ({"type": "os:path.join.__globals__"}, "not of the form module:name"),
        ({"type": ".os:system"}, "not of the form module:name"),
        ({"type": "os\0:system"}, "not of the form module:name"),
        ({"type": "NoSuchKernel"}, "'bke.models' has no 'NoSuchKernel'"),
        ({"type": "Sum", "left": {"type": "os:system"}}, "kernel os:system, which is none now"),
        ({"type": "breaking_module:Mine"}, "cannot be imported (ZeroDivisionError: "),
        ({"type": 5}, "no record of its kernel"),
        ({"type": "function"}, "no record of its kernel"),
        ({"type": "function", "function": {"type": 5}}, "no record of its kernel"),
        ([1, 2], "no record of its kernel"),
        ({"type": "pathlib:Path"}, "is none now"),
        ({"type": "Periodic", "lengthscale": 1.0}, "the kernel Periodic, but "),
    ],
    ids=str,
)
def test_a_record_of_no_kernel_is_refused(record, message, tmp_path, monkeypatch):
    (tmp_path / "breaking_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=re.escape(message)):
        restore_kernel(record)


def test_a_redefined_class_has_no_program_of_the_old_class(module, tmp_path):
    points, z = np.array([[0.0], [1.0], [2.5]]), {"lengthscale": np.zeros(1)}

    def density():
        target = Target.checked(module.Ball, None, 0.1, "unit", "dense")
        with jax.enable_x64(True):
            compiled = compile_log_density(target)
            assert compile_log_density(target) is compiled  # kept
            return float(
                compiled({k: jnp.asarray(v) for k, v in z.items()}, jnp.asarray(points))[0]
            )

    before, family = density(), identity_of(module.Ball())
    (tmp_path / f"{NAME}.py").write_text(MODULE.replace("-0.5 * rho**2", "-2.0 * rho**2"))
    importlib.invalidate_caches()
    sys.modules.pop(NAME)
    module = importlib.import_module(NAME)
    assert identity_of(module.Ball()) != family
    assert abs(density() - before) > 0.1


def test_a_kernel_that_has_changed_is_refused(module):
    record = describe_kernel(module.Ball(2.0))
    with pytest.raises(InputError, match=f"{NAME}:Ball has changed"):
        restore_kernel({**record, "width": 1.0})


def test_a_kernel_without_an_integral_is_refused_before_sampling():
    kernel = kernel_from_function(
        lambda x, y, *, lengthscale=1.0: jnp.cos(jnp.sum((x - y) / lengthscale)), stationary=True
    )
    with pytest.raises(InputError, match="does not exist"):
        fit(np.random.default_rng(0).normal(size=12), kernel=kernel, **QUICK)
