"""Several processes, or several devices of one, at work on one posterior.

Either they share the rows, so that every likelihood is a sum over all of them, or each has chains
of its own. Rows are summed in parts that do not depend on how many devices there are, and a chain's
draws do not depend on where it runs: the result is that of one device.
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
#: Entries of gradients of all rows from which on these are shared: some tenths of a second.
LARGE = 2**26


def is_first() -> bool:
    """Whether this process is the one that prints and writes."""
    return jax.process_index() == 0


def check_alike(given: Mapping[str, Any]) -> None:
    """Refuse a job whose processes were given different things, by name: arrays or plain data.

    All processes must ask; each would wait for sums of other shapes otherwise, or write a posterior
    that is nobody's.
    """
    if jax.process_count() == 1:
        return
    every = multihost_utils.process_allgather(np.array([_digest(each) for each in given.values()]))
    different = [name for name, of in zip(given, np.transpose(every), strict=True) if np.ptp(of)]
    if different:
        raise InputError(
            f"the processes of this job were given different {' and '.join(different)}: give all "
            "the same command and the same data"
        )


def _digest(given: Any) -> int:
    """Digest what was given to 31 bits, which JAX hands on in single precision too."""
    if isinstance(given, np.ndarray):
        content = f"{given.shape} {given.dtype}".encode() + np.ascontiguousarray(given).tobytes()
    else:
        content = json.dumps(given).encode()
    return int.from_bytes(hashlib.sha256(content).digest()[:4], "big") >> 1


def check_shard(shard: str) -> str:
    """Refuse what is no way to share the work."""
    check_choice(shard, "shard", SHARDS)
    return shard


def placed(points: Any, shard: str) -> Any:
    """Place the rows of landmark models on all devices, where ``shard`` says so."""
    each = points if isinstance(points, tuple) else (points,)
    entries = [one.shardable_entries for one in each]
    if shard == "rows" and not all(entries):
        raise InputError("shard='rows' is for likelihood='landmark': other likelihoods are no sums")
    large = all(entries) and max(entries) >= LARGE
    if shard == "chains" or (shard == "auto" and not large):
        return points
    # On one device too: its program is that of several.
    shared = tuple(one.sharded(jax.devices()) for one in each)
    return shared if isinstance(points, tuple) else shared[0]


def shares_rows(points: Any) -> bool:
    """Whether devices share the rows of ``points``."""
    each = points if isinstance(points, tuple) else (points,)
    return any(isinstance(one, LikelihoodSolver) and one.is_sharded for one in each)


def on_devices(work: Callable[[int], T], count: int, stop: Event, points: Any) -> list[T]:
    """Do ``work`` of 0 to ``count - 1`` on all devices of all processes, which must all ask.

    Args:
        work: gives numbers and arrays of the same shapes for all; looks at ``stop``.
        count: how many.
        stop: set where one of them raises, to end the others too.
        points: what ``work`` goes through. Where devices share the rows, all do each in turn.
    """
    if shares_rows(points):
        # In threads, the sums of two chains could meet in another order elsewhere.
        return [work(index) for index in range(count)]
    processes, devices = jax.process_count(), jax.local_devices()
    if len(devices) == 1 and processes == 1:
        return side_by_side(work, count, stop)
    # Filled up with the last: all processes give as many results.
    each = -(-count // processes)
    mine = [min(jax.process_index() + processes * turn, count - 1) for turn in range(each)]

    def one(turn: int) -> T:
        with jax.default_device(devices[turn % len(devices)]):
            return work(mine[turn])

    done = side_by_side(one, each, stop)
    return done if processes == 1 or not done else _gathered(done, count)


def _gathered(mine: list[T], count: int) -> list[T]:
    """Gather the results of all processes, in order."""
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *mine)
    every = multihost_utils.process_allgather(stacked)
    places = (divmod(index, jax.process_count()) for index in range(count))
    return [
        jax.tree.map(lambda leaf, at=(process, turn): leaf[at], every) for turn, process in places
    ]


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Tell where another process of the job has gone."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if jax.process_count() == 1:
            raise
        reason = str(error).splitlines()[0]
        raise SamplingError(
            f"another process of this job has ended, so this one cannot go on ({reason})"
        ) from error
