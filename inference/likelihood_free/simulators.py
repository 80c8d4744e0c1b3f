"""Simulators, batches of simulated data sets with their failures, and fingerprints of functions.

Worker processes import this module, so that it must not import JAX at module level.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import enum
import functools
import hashlib
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from types import CodeType
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import MAX_ABS_VALUE, check_count, pluralize

#: Values (B, ...) of every parameter, by its name.
Parameters: TypeAlias = Mapping[str, np.ndarray]
#: Values (B, n, D) of data sets, zeros where a simulation failed, and causes of failure (B,), texts
#: that are empty where it did not.
Batch: TypeAlias = tuple[np.ndarray, np.ndarray]
Simulate: TypeAlias = Callable[[Parameters, np.random.SeedSequence], Batch]

NOT_FINITE = "values that are not finite"
DISTANCE_NOT_FINITE = "a distance that is not finite"


class Stream(enum.IntEnum):
    """Independent streams of random numbers of a run."""

    PRIOR = 0
    DATA = 1
    MOVES = 2


def seed_sequence(seed: int, *key: int) -> np.random.SeedSequence:
    """Return the seed of the random numbers with this key, independent of all other keys."""
    return np.random.SeedSequence(seed, spawn_key=key)


@dataclasses.dataclass(frozen=True)
class BatchSimulator:
    """Function that simulates many data sets by one call.

    Attributes:
        function: function of a source of random numbers and of parameters.
        by_jax: true if JAX vectorizes and compiles it.
    """

    function: Callable[[Any, dict[str, Any]], Any]
    by_jax: bool

    def __call__(self, random: Any, theta: dict[str, Any]) -> Any:
        """Call the function."""
        return self.function(random, theta)

    @functools.cached_property
    def compiled(self) -> Callable[[Any, dict[str, Any]], Any]:
        """Function that simulates data sets for B JAX keys and parameter sets."""
        import jax

        return jax.jit(jax.vmap(self.function))


def jax_simulator(function: Callable[[Any, dict[str, Any]], Any]) -> BatchSimulator:
    """Mark a function as a simulator that JAX can vectorize and compile; also a decorator.

    Args:
        function: maps a JAX random key and a dict of parameters to an array (n,) or (n, D), in
            JAX operations. It is called in 64-bit.
    """
    return BatchSimulator(function, by_jax=True)


def vectorize(
    function: Callable[[np.random.Generator, dict[str, np.ndarray]], Any],
) -> BatchSimulator:
    """Mark a function as a batched simulator, of many parameter sets at once; also a decorator.

    Args:
        function: maps a NumPy generator and a dict of arrays, (B,) or (B, k) for a parameter with k
            components, to an array (B, n) or (B, n, D). Data sets that are not finite are left out.
    """
    return BatchSimulator(function, by_jax=False)


@contextlib.contextmanager
def start_simulator(
    simulate: Any, shape: tuple[int, int], workers: int | None
) -> Iterator[Simulate]:
    """Yield a function that simulates batches, in ``workers`` processes within the block.

    Args:
        simulate: a :func:`jax_simulator`, a :func:`vectorize` one, or a plain function of a
            generator and a dict of numbers, which is called for one parameter set at a time. Each
            of these calls has its own generator, so that results do not depend on ``workers``.
        shape: (n, D) of every data set; (n,) is accepted for D = 1.
        workers: processes; ``None`` uses this process alone.

    Raises:
        InputError: if ``simulate`` is not a function or cannot be sent to other processes.
    """
    num_workers = 1 if workers is None else check_count(workers, "workers", 1)
    if not callable(simulate):
        raise InputError(f"simulate must be a function, got {simulate!r}")
    if isinstance(simulate, BatchSimulator):
        if num_workers > 1:
            raise InputError(
                "workers are for plain functions: a vectorized or JAX simulator uses all cores "
                "without them"
            )
        yield functools.partial(_simulate_batch, simulate, shape)
        return
    if num_workers == 1:
        yield functools.partial(_simulate_separately, map, simulate, shape)
        return
    _check_picklable(simulate)
    # A fork of a process that runs JAX's threads may hang.
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    # Ctrl-C is handled by the process that started the simulations.
    ignore_interrupt = functools.partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    pool = concurrent.futures.ProcessPoolExecutor(num_workers, context, ignore_interrupt)

    def pool_map(function: Callable[..., Any], *arguments: Sequence[Any]) -> Iterator[Any]:
        # Four chunks for each process, not tuned, keep all busy where simulations differ in cost.
        chunksize = -(-len(arguments[0]) // (4 * num_workers))
        return pool.map(function, *arguments, chunksize=chunksize)

    try:
        yield functools.partial(_simulate_separately, pool_map, simulate, shape)
    except BrokenProcessPool as error:
        raise InputError(
            "a process that simulated has died: where simulate is in the script that is run, the "
            'rest of that must stand below if __name__ == "__main__"; or leave out workers'
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def parameters_at(theta: Parameters, index: int) -> dict[str, Any]:
    """Return one of B parameter sets: a number or an array (k,) by name."""
    return {
        name: float(values[index]) if np.ndim(values) == 1 else np.array(values[index])
        for name, values in theta.items()
    }


def format_parameters(parameters: Mapping[str, Any]) -> str:
    """Format parameters to six digits, such as ``a = 1.5, b = [0.1, 0.2]``."""
    return ", ".join(
        f"{name} = {np.array2string(np.asarray(value), precision=6, separator=', ')}"
        for name, value in parameters.items()
    )


def count_failures(causes: Iterable[str]) -> dict[str, int]:
    """Count the causes of failure, the most frequent first; "" is no failure."""
    return dict(collections.Counter(sorted(str(cause) for cause in causes if cause)).most_common())


class DatasetDistance(Protocol):
    """Distance of simulated data sets from the observed one."""

    observed: np.ndarray  # (m, D)

    def squared(self, batch: ArrayLike) -> np.ndarray:
        """Compute the squared distances (B,) of data sets (B, n, D)."""

    def describe(self) -> dict[str, Any]:
        """Describe the distance by plain data that identify it."""


class Simulations(NamedTuple):
    """Simulated data sets, reduced to their distances from the observed data."""

    theta: dict[str, np.ndarray]  # parameters (M, ...)
    squared: np.ndarray  # squared distances (M,), NaN where a simulation failed
    causes: np.ndarray  # causes of failure (M,), "" where a simulation did not fail

    @property
    def good(self) -> np.ndarray:
        """Mask (M,) of the simulations that did not fail."""
        return np.asarray(self.causes == "")

    @property
    def first_failure(self) -> str:
        """The first parameters whose simulation failed, formatted; "" if there are none."""
        failed = np.flatnonzero(~self.good)
        return format_parameters(parameters_at(self.theta, int(failed[0]))) if len(failed) else ""

    def check(self, minimum: int = 1) -> None:
        """Raise ``InputError`` if there are at least ``minimum`` simulations and all failed."""
        if len(self.causes) < minimum or self.good.any():
            return
        cause, count = next(iter(count_failures(self.causes).items()))
        hint = ": rows= sets the number of rows of a data set" if "shape (" in cause else ""
        raise InputError(
            f"all {len(self.causes)} simulations failed, {count} of them with {cause}; the first "
            f"was for {self.first_failure}{hint}"
        )


def run_simulations(
    theta: Parameters, simulate: Simulate, distance: DatasetDistance, seed: np.random.SeedSequence
) -> Simulations:
    """Simulate one data set for each of M parameter sets and compute its distance."""
    values, causes = simulate(theta, seed)
    squared = np.full(len(causes), np.nan)
    good = causes == ""
    if good.any():
        squared[good] = distance.squared(values[good])
    causes = np.where(good & ~np.isfinite(squared), DISTANCE_NOT_FINITE, causes)
    squared[causes != ""] = np.nan
    return Simulations(dict(theta), squared, causes)


def _call(simulate: Callable[..., Any], *arguments: Any) -> Any:
    """Call the user's function; an exit of the program becomes a ``RuntimeError``."""
    try:
        return simulate(*arguments)
    except SystemExit as end:
        raise RuntimeError(f"simulate ended the program by exit({end})") from None


def _simulate_batch(
    simulate: BatchSimulator,
    shape: tuple[int, int],
    theta: Parameters,
    seed: np.random.SeedSequence,
) -> Batch:
    """Simulate all data sets of a batch by one call."""
    count = len(next(iter(theta.values())))
    arrays: dict[str, Any]
    try:
        if simulate.by_jax:
            expected = "a key and of parameters in JAX's operations"
            import jax

            with jax.enable_x64(True):
                keys = jax.random.split(jax.random.key(int(seed.generate_state(1)[0])), count)
                arrays = {name: jax.numpy.asarray(value) for name, value in theta.items()}
                result = np.asarray(_call(simulate.compiled, keys, arrays))
        else:
            expected = "arrays of parameters, as vectorize requires"
            arrays = {name: np.array(value) for name, value in theta.items()}
            result = _call(simulate, np.random.default_rng(seed), arrays)
    except Exception as error:
        ranges = ", ".join(f"{k} from {v.min():.6g} to {v.max():.6g}" for k, v in theta.items())
        error.add_note(
            f"while {pluralize(count, 'data set')} were simulated at once, for {ranges}; is "
            f"simulate a function of {expected}?"
        )
        raise
    values = _as_numbers(result)
    shapes = [(count, *shape)] if shape[1] > 1 else [(count, *shape), (count, shape[0])]
    if values.shape not in shapes:
        raise InputError(
            f"simulate gave an array of shape {values.shape} for {count} parameters, where "
            f"{shapes[-1]} is needed: rows= sets the number of rows of a data set, where "
            "it differs from that of the observed data"
        )
    values = values.reshape(count, *shape)
    good = np.all(np.abs(values) <= MAX_ABS_VALUE, axis=(1, 2))
    values = np.where(good[:, None, None], values, 0.0)
    return values, np.where(good, "", NOT_FINITE)


def _simulate_separately(
    map_function: Callable[..., Iterable[Any]],
    simulate: Callable[[np.random.Generator, dict[str, Any]], Any],
    shape: tuple[int, int],
    theta: Parameters,
    seed: np.random.SeedSequence,
) -> Batch:
    """Simulate the data sets of a batch by one call each."""
    indices = range(len(next(iter(theta.values()))))
    parameters = [parameters_at(theta, index) for index in indices]
    seeds = [np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, i)) for i in indices]
    function = functools.partial(_simulate_data_set, simulate, shape)
    values, causes = zip(*map_function(function, parameters, seeds), strict=True)
    return np.stack(values), np.array(causes)


def _simulate_data_set(
    simulate: Callable[[np.random.Generator, dict[str, Any]], Any],
    shape: tuple[int, int],
    parameters: dict[str, Any],
    seed: np.random.SeedSequence,
) -> tuple[np.ndarray, str]:
    """Simulate one data set; return it, or zeros and the cause of failure."""
    shapes = [shape] if shape[1] > 1 else [shape, shape[:1]]
    failed = np.zeros(shape)
    try:
        result = _call(simulate, np.random.default_rng(seed), parameters)
        array = _as_numbers(result)
    except ArithmeticError as error:
        return failed, f"{type(error).__name__}: {error}"
    except Exception as error:
        error.add_note(f"while a data set was simulated for {format_parameters(parameters)}")
        raise
    if result is None:
        return failed, "None returned"
    if array.shape not in shapes:
        return failed, f"shape {array.shape} in place of {shapes[-1]}"
    if not np.all(np.abs(array) <= MAX_ABS_VALUE):
        return failed, NOT_FINITE
    return array.reshape(shape), ""


def _as_numbers(result: Any) -> np.ndarray:
    try:
        return np.asarray(result, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"simulate must give an array of numbers: {error}") from error


def _check_picklable(simulate: Any) -> None:
    reason = "it is defined where other processes cannot import it"
    try:
        pickle.dumps(simulate)
        interactive = not hasattr(sys.modules["__main__"], "__file__")
        if not (interactive and getattr(simulate, "__module__", "") == "__main__"):
            return
    except Exception as error:  # pickle raises errors of any type
        reason = str(error)
    raise InputError(
        f"simulate cannot be handed to other processes ({reason}): define it with def in a module, "
        "or leave out workers"
    )


def fingerprint(function: Any) -> str:
    """Return the name of a function and a checksum of its behavior in one version of Python.

    The checksum covers the code, the defaults, the arguments of a ``partial``, the attributes of a
    callable object, and enclosed numbers, texts and arrays; not the variables of its module.
    """
    inner = getattr(function, "function", function)  # inside a BatchSimulator
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner))}"
    return f"{type(function).__name__} {name} {_checksum(_content(inner))[:16]}"


def _content(value: Any) -> str:
    """Format a value to a text that is equal in every process; unknown types by their name alone.

    A function is formatted as its code, defaults and enclosed values, without mutable containers,
    such as a list of results, that calls may change.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, functools.partial):
        return _content([value.func, value.args, value.keywords])
    if isinstance(value, CodeType):
        return _checksum(f"{value.co_code!r} {value.co_names} {_content(value.co_consts)}")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_content, value))}]"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_content, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_content(item)}' for key, item in value.items())}}}"
    if hasattr(value, "__code__"):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        enclosed = [cell for cell in cells if not isinstance(cell, (list, dict, set))]
        return _content([value.__code__, value.__defaults__, value.__kwdefaults__, enclosed])
    if callable(value) and not isinstance(value, type):
        call = getattr(type(value).__call__, "__code__", None)
        return f"{type(value).__name__} {_content([call, getattr(value, '__dict__', {})])}"
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    return type(value).__name__


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
