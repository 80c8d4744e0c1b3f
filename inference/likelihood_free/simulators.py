"""Simulators: functions of the user's that draw data sets given parameters, many at a time.

Processes that simulate import this module: it must not import JAX at once.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import hashlib
import itertools
import multiprocessing
import pickle
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..core.errors import InputError
from ..data.checks import LARGEST, check_count, counted

if TYPE_CHECKING:
    from .distances import Distance

#: Values of every parameter by its name, (B, ...).
Parameters: TypeAlias = Mapping[str, np.ndarray]

#: Pieces of a batch for each process: small enough that none waits long for the others.
PIECES = 4
NOT_FINITE = "values that are not finite"


class Simulated(NamedTuple):
    """Data sets that were simulated."""

    values: np.ndarray  # (B, n, D), zeros where a simulation failed
    causes: np.ndarray  # (B,) of str: why it failed, "" where it did not


#: Data sets for every one of (B, ...) parameters, from a stream of random numbers.
Simulate: TypeAlias = Callable[[Parameters, np.random.SeedSequence], Simulated]


@dataclasses.dataclass(frozen=True)
class JaxSimulator:
    """A function of a key and one parameter, mapped over many and compiled."""

    function: Callable[[Any, dict[str, Any]], Any]

    def __call__(self, key: Any, theta: dict[str, Any]) -> Any:
        """Simulate one data set."""
        return self.function(key, theta)

    @functools.cached_property
    def batched(self) -> Callable[[Any, dict[str, Any]], Any]:
        """Simulate data sets for B keys and parameters."""
        import jax

        return jax.jit(jax.vmap(self.function))


@dataclasses.dataclass(frozen=True)
class VectorisedSimulator:
    """A function that simulates for many parameters at once."""

    function: Callable[[np.random.Generator, dict[str, np.ndarray]], Any]

    def __call__(self, rng: np.random.Generator, theta: dict[str, np.ndarray]) -> Any:
        """Simulate B data sets."""
        return self.function(rng, theta)


def jax_simulator(function: Callable[[Any, dict[str, Any]], Any]) -> JaxSimulator:
    """Say that ``function`` can be mapped and compiled by JAX; also a decorator.

    Args:
        function: of a JAX random key and a dict of parameters, to an array (n,) or (n, D), in
            JAX's operations. It is called in 64-bit.
    """
    return JaxSimulator(function)


def vectorised(
    function: Callable[[np.random.Generator, dict[str, np.ndarray]], Any],
) -> VectorisedSimulator:
    """Say that ``function`` simulates for many parameters at once; also a decorator.

    Args:
        function: of a NumPy generator and a dict of arrays (B,), or (B, k) of a parameter with k
            components, to an array (B, n) or (B, n, D). Data sets that are not finite are left out.
    """
    return VectorisedSimulator(function)


def stream(seed: int, *where: int) -> np.random.SeedSequence:
    """Seed the random numbers of one place of a computation, whatever was computed before it."""
    return np.random.SeedSequence(seed, spawn_key=where)


@contextlib.contextmanager
def simulating(simulate: Any, shape: tuple[int, int], workers: int | None) -> Iterator[Simulate]:
    """Make a function that simulates batches, in ``workers`` processes within the block.

    Args:
        simulate: a :func:`jax_simulator`, a :func:`vectorised` one, or a plain function of a
            generator and a dict of numbers, which is called for one parameter after the other. Each
            of these calls has a generator of its own, so that results do not depend on ``workers``.
        shape: (n, D) that data sets must have; (n,) will do for D = 1.
        workers: processes; ``None`` is this one alone.

    Raises:
        InputError: ``simulate`` is no function, or cannot be handed to other processes.
    """
    count = 1 if workers is None else check_count(workers, "workers", 1)
    if not callable(simulate):
        raise InputError(f"simulate must be a function, got {simulate!r}")
    if count > 1 and isinstance(simulate, (JaxSimulator, VectorisedSimulator)):
        raise InputError(
            "workers are for plain functions: a simulator of many parameters at once has all cores "
            "already"
        )
    if isinstance(simulate, JaxSimulator):
        yield functools.partial(_by_jax, simulate, shape)
    elif isinstance(simulate, VectorisedSimulator):
        yield functools.partial(_by_arrays, simulate, shape)
    elif count == 1:
        yield functools.partial(_one_by_one, simulate, shape)
    else:
        _check_portable(simulate)
        # A fork of a process that runs JAX's threads may hang.
        ways = multiprocessing.get_all_start_methods()
        context = multiprocessing.get_context("forkserver" if "forkserver" in ways else "spawn")
        pool = concurrent.futures.ProcessPoolExecutor(count, context, initializer=_ignore_interrupt)
        try:
            yield functools.partial(_in_processes, pool, count, simulate, shape)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def parameters_at(theta: Parameters, index: int) -> dict[str, Any]:
    """Take one of B parameters: a number, or an array (k,), by name."""
    return {
        name: float(values[index]) if np.ndim(values) == 1 else np.array(values[index])
        for name, values in theta.items()
    }


def as_words(parameters: Mapping[str, Any]) -> str:
    """Tell parameters in words to six digits, such as ``a = 1.5, b = [0.1, 0.2]``."""
    return ", ".join(
        f"{name} = {np.array2string(np.asarray(value), precision=6, separator=', ')}"
        for name, value in parameters.items()
    )


def _called(simulate: Callable[..., Any], *arguments: Any) -> Any:
    """What the user's function returns; where it ends the program it has failed."""
    try:
        return simulate(*arguments)
    except SystemExit as end:
        raise RuntimeError(f"simulate ended the program by exit({end})") from None


def _by_jax(
    simulate: JaxSimulator,
    shape: tuple[int, int],
    theta: Parameters,
    seed: np.random.SeedSequence,
) -> Simulated:
    import jax

    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(int(seed.generate_state(1)[0])), _count(theta))
        try:
            arrays = {k: jax.numpy.asarray(v) for k, v in theta.items()}
            found = _called(simulate.batched, keys, arrays)
            return _checked(np.asarray(found), _count(theta), shape)
        except Exception as error:
            error.add_note(
                f"while {counted(_count(theta), 'data set')} were simulated by JAX; is simulate a "
                "function of a key and of parameters in JAX's operations?"
            )
            raise


def _by_arrays(
    simulate: VectorisedSimulator,
    shape: tuple[int, int],
    theta: Parameters,
    seed: np.random.SeedSequence,
) -> Simulated:
    try:
        arrays = {k: np.array(v) for k, v in theta.items()}
        found = _called(simulate, np.random.default_rng(seed), arrays)
    except Exception as error:
        ends = ", ".join(f"{k} from {v.min():.6g} to {v.max():.6g}" for k, v in theta.items())
        error.add_note(
            f"while {counted(_count(theta), 'data set')} were simulated at once, for {ends}; is "
            "simulate a function of arrays of parameters, as vectorised says?"
        )
        raise
    return _checked(_numbers(found), _count(theta), shape)


def _checked(values: np.ndarray, count: int, shape: tuple[int, int]) -> Simulated:
    """Check ``count`` data sets that were simulated at once, of which all have one shape."""
    if values.shape != (count, *shape) and (shape[1] > 1 or values.shape != (count, shape[0])):
        wanted = f"({count}, {shape[0]}{f', {shape[1]}' if shape[1] > 1 else ''})"
        raise InputError(
            f"simulate gave an array of shape {values.shape} for {count} parameters, where "
            f"{wanted} is needed: rows= says how many rows a data set has, where these are not as "
            "many as in the observed data"
        )
    values = values.reshape(count, *shape)
    good = np.all(np.abs(values) <= LARGEST, axis=(1, 2))
    return Simulated(
        np.where(good[:, None, None], values, 0.0), np.where(good, "", NOT_FINITE).astype(object)
    )


def _one_by_one(
    simulate: Callable[[np.random.Generator, dict[str, Any]], Any],
    shape: tuple[int, int],
    theta: Parameters,
    seed: np.random.SeedSequence,
    part: tuple[int, int] | None = None,
) -> Simulated:
    """Simulate for all parameters one by one, or from ``part[0]`` to ``part[1]``."""
    start, stop = part or (0, _count(theta))
    values = np.zeros((stop - start, *shape))
    causes = np.full(stop - start, "", dtype=object)
    for place, index in enumerate(range(start, stop)):
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, index))
        one = parameters_at(theta, index)
        try:
            made = _called(simulate, np.random.default_rng(own), one)
            found = _numbers(made)
        except ArithmeticError as error:
            causes[place] = f"{type(error).__name__}: {error}"
            continue
        except Exception as error:
            error.add_note(f"while a data set was simulated for {as_words(one)}")
            raise
        if made is None:
            causes[place] = "None returned"
        elif found.shape != shape and (shape[1] > 1 or found.shape != shape[:1]):
            causes[place] = (
                f"shape {found.shape} in place of {shape if shape[1] > 1 else shape[:1]}"
            )
        elif not np.all(np.abs(found) <= LARGEST):
            causes[place] = NOT_FINITE
        else:
            values[place] = found.reshape(shape)
    return Simulated(values, causes)


def _in_processes(
    pool: concurrent.futures.ProcessPoolExecutor,
    workers: int,
    simulate: Any,
    shape: tuple[int, int],
    theta: Parameters,
    seed: np.random.SeedSequence,
) -> Simulated:
    edges = np.linspace(0, _count(theta), min(PIECES * workers, _count(theta)) + 1).astype(int)
    parts = [(int(a), int(b)) for a, b in itertools.pairwise(edges)]
    pieces = [pool.submit(_one_by_one, simulate, shape, theta, seed, part) for part in parts]
    try:
        found = [piece.result() for piece in pieces]
    except BrokenProcessPool as error:
        raise InputError(
            "a process that simulated has died: where simulate is in the script that is run, the "
            'rest of that must stand below if __name__ == "__main__"; or leave out workers'
        ) from error
    return Simulated(
        np.concatenate([one.values for one in found]), np.concatenate([one.causes for one in found])
    )


def _numbers(found: Any) -> np.ndarray:
    try:
        return np.asarray(found, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"simulate must give an array of numbers: {error}") from error


def _count(theta: Parameters) -> int:
    return len(next(iter(theta.values())))


def _check_portable(simulate: Any) -> None:
    reason = "it is defined where only this process can see it"
    try:
        pickle.dumps(simulate)
        main = sys.modules["__main__"]
        seen = getattr(simulate, "__module__", "") != "__main__" or hasattr(main, "__file__")
    except Exception as error:  # pickle raises whatever it likes
        seen, reason = False, str(error)
    if not seen:
        raise InputError(
            f"simulate cannot be handed to other processes ({reason}): define it with def in a "
            "module, or leave out workers"
        )


def _ignore_interrupt() -> None:
    """Ctrl-C is for the process that asked for the simulations."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def commonest(causes: Sequence[str] | np.ndarray) -> dict[str, int]:
    """Count how often there was each cause of failure, the commonest first."""
    found, counts = np.unique([cause for cause in causes if cause], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return {str(found[i]): int(counts[i]) for i in order}


#: What random numbers are for.
PRIOR, DATA = 0, 1
#: Cause of failure of a simulation that is too far from the observed data, or nowhere.
NO_DISTANCE = "a distance that is not finite"
#: Where so many simulations have failed and none has not, all of them will.
HOPELESS = 100


class Simulations(NamedTuple):
    """What a run has simulated, failures included."""

    theta: dict[str, np.ndarray]  # (M, ...) each
    squared: np.ndarray  # (M,), squared distances; NaN where a simulation failed
    causes: np.ndarray  # (M,) of str: why, "" where it did not

    @property
    def good(self) -> np.ndarray:
        """Which simulations did not fail, (M,)."""
        return np.asarray(self.causes == "")


def simulations_at(
    theta: Parameters, run: Simulate, distance: Distance, seed: np.random.SeedSequence
) -> Simulations:
    """Simulate one data set for each of the parameters, and tell how far it is."""
    values, causes = run(theta, seed)
    squared = np.full(len(causes), np.nan)
    good = causes == ""
    if good.any():
        squared[good] = distance.squared(values[good])
    causes = np.where(good & ~np.isfinite(squared), NO_DISTANCE, causes)
    squared[causes != ""] = np.nan
    return Simulations(dict(theta), squared, causes)


def together(parts: list[Simulations]) -> Simulations:
    """Join simulations that were made in several goes."""
    return Simulations(
        {name: np.concatenate([part.theta[name] for part in parts]) for name in parts[0].theta},
        np.concatenate([part.squared for part in parts]),
        np.concatenate([part.causes for part in parts]),
    )


def check_hope(parts: list[Simulations]) -> None:
    """Give up where the first hundred simulations have all failed."""
    if sum(len(part.squared) for part in parts) >= HOPELESS and not any(
        part.good.any() for part in parts
    ):
        raise_hopeless(together(parts))


def raise_hopeless(found: Simulations) -> None:
    """Refuse to go on where all simulations have failed."""
    cause, times = next(iter(commonest(found.causes).items()))
    first = as_words(parameters_at(found.theta, 0))
    raise InputError(
        f"all {len(found.causes)} simulations failed, {times} of them with {cause}; the first was "
        f"for {first}" + (": rows= says how many a data set has" if "shape (" in cause else "")
    )


def code_of(function: Any) -> str:
    """Name a function, with a digest of what it does for one version of Python.

    Its code, its defaults, what a ``partial`` or an object that can be called holds, and numbers,
    texts and arrays of what it encloses are in it; values of its module are not.
    """
    inner = getattr(function, "function", function)  # of a jax_simulator or a vectorised one
    name = f"{getattr(inner, '__module__', '')}.{getattr(inner, '__qualname__', type(inner))}"
    digest = hashlib.sha256(_of_function(inner).encode()).hexdigest()[:16]
    return f"{type(function).__name__} {name} {digest}"


def _of_function(function: Any) -> str:
    if isinstance(function, functools.partial):
        held = _plain([list(function.args), function.keywords])
        return f"{_of_function(function.func)} {held}"
    code = getattr(function, "__code__", None)
    if code is None:
        call = getattr(type(function).__call__, "__code__", None)
        known = "" if call is None else hashlib.sha256(_content(call)).hexdigest()
        return f"{type(function).__name__} {known} {_plain(getattr(function, '__dict__', {}))}"
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    # What calls may fill, such as a list of them, is no part of what the function does.
    enclosed = [None if isinstance(one, (list, dict, set)) else one for one in cells]
    defaults = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None)]
    return f"{hashlib.sha256(_content(code)).hexdigest()} {_plain([defaults, enclosed])}"


def _plain(value: Any) -> str:
    """Write values as a text that is the same in another process; others by their type alone."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_plain(one)}' for key, one in value.items())}}}"
    if callable(value) and not isinstance(value, type):
        return _of_function(value)
    if hasattr(value, "__array__"):
        array = np.asarray(value)
        return f"{array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
    return type(value).__name__


def _content(code: CodeType) -> bytes:
    constants = b"".join(
        _content(one)
        if isinstance(one, CodeType)
        # A set has no order that would be the same in another process.
        else repr(sorted(map(repr, one)) if isinstance(one, frozenset) else one).encode()
        for one in code.co_consts
    )
    return code.co_code + repr(code.co_names).encode() + constants
