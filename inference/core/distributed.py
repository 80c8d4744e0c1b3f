"""Distributed computation of a posterior on several processes or devices.

Either rows are sharded over devices, so that every likelihood is a sum over devices, or chains are
distributed. The result is that of a single device: partial sums of rows do not depend on the number
of devices, and draws of a chain do not depend on its device.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from threading import Event
from typing import Any, TypeVar

import jax
import numpy as np
from bke.models.likelihood.base import LikelihoodSolver
from jax.experimental import multihost_utils

from .errors import InputError, SamplingError, check_choice
from .machine import side_by_side

T = TypeVar("T")

SHARDS = ("auto", "rows", "chains")
#: Entries of the gradients of all rows from which rows are sharded; they take tenths of a second.
LARGE = 2**26


def is_first() -> bool:
    """Return True in the process that prints and writes."""
    return jax.process_index() == 0


def check_same_inputs(inputs: Mapping[str, Any]) -> None:
    """Raise an error if the processes of a job have different inputs.

    All processes must call this. Without the check they might wait for arrays of different shapes
    forever, or sum likelihoods of different data.

    Args:
        inputs: arrays or data that JSON can hold, by name.

    Raises:
        InputError: the processes have different inputs.
    """
    if jax.process_count() == 1:
        return
    digests = np.array([_digest(value) for value in inputs.values()])
    by_name = np.transpose(multihost_utils.process_allgather(digests))
    different = [name for name, values in zip(inputs, by_name, strict=True) if np.ptp(values)]
    if different:
        raise InputError(
            f"the processes of this job were given different {' and '.join(different)}: give all "
            "the same command and the same data"
        )


def _digest(value: Any) -> int:
    """Return a digest of 31 bits, which fits the integers of JAX in single precision."""
    if isinstance(value, np.ndarray):
        content = f"{value.shape} {value.dtype}".encode() + np.ascontiguousarray(value).tobytes()
    else:
        content = json.dumps(value).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big") >> 1


def check_shard(shard: str) -> str:
    """Raise an error unless ``shard`` is one of :data:`SHARDS`."""
    check_choice(shard, "shard", SHARDS)
    return shard


def shard_points(points: Any, shard: str) -> Any:
    """Shard the rows of landmark models over all devices if ``shard`` requires it."""
    solvers = points if isinstance(points, tuple) else (points,)
    entries = [solver.shardable_entries for solver in solvers]
    if shard == "rows" and not all(entries):
        raise InputError("shard='rows' is for likelihood='landmark': other likelihoods are no sums")
    large = all(entries) and max(entries) >= LARGE
    if shard == "chains" or (shard == "auto" and not large):
        return points
    # Also on a single device, so that its program is that of several devices.
    sharded = tuple(solver.sharded(jax.devices()) for solver in solvers)
    return sharded if isinstance(points, tuple) else sharded[0]


def has_sharded_rows(points: Any) -> bool:
    """Return True if the rows of ``points`` are sharded over devices."""
    solvers = points if isinstance(points, tuple) else (points,)
    return any(isinstance(solver, LikelihoodSolver) and solver.is_sharded for solver in solvers)


def on_devices(work: Callable[[int], T], count: int, stop: Event, points: Any) -> list[T]:
    """Call ``work`` with 0 to ``count - 1`` on all devices of all processes.

    All processes must call this.

    Args:
        work: function of an index that returns numbers and arrays of the same shapes for all
            indices, and should end early once ``stop`` is set.
        count: number of indices.
        stop: event that is set on an error.
        points: data of ``work``. If their rows are sharded, all devices do one index after another.
    """
    if has_sharded_rows(points):
        # With threads, processes might do the sums of two chains in different order.
        return [work(index) for index in range(count)]
    processes, devices = jax.process_count(), jax.local_devices()
    if len(devices) == 1 and processes == 1:
        return side_by_side(work, count, stop)
    # The last index is repeated so that all processes have the same number of results.
    per_process = -(-count // processes)
    indices = [
        min(jax.process_index() + processes * turn, count - 1) for turn in range(per_process)
    ]

    def on_device(turn: int) -> T:
        with jax.default_device(devices[turn % len(devices)]):
            return work(indices[turn])

    results = side_by_side(on_device, per_process, stop)
    return results if processes == 1 or not results else _gather(results, count)


def _gather(results: list[T], count: int) -> list[T]:
    """Gather the results of all processes, in order."""
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *results)
    all_results = multihost_utils.process_allgather(stacked)
    positions = (divmod(index, jax.process_count()) for index in range(count))
    return [
        jax.tree.map(lambda leaf, at=(process, turn): leaf[at], all_results)
        for turn, process in positions
    ]


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Raise a ``SamplingError`` if another process of the job has ended."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        reason = str(error).splitlines()[0]
        raise SamplingError(
            f"another process of this job has ended, so this one cannot go on ({reason})"
        ) from error
