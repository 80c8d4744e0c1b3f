"""Rows in parts on several machines: work on each part where it is, and merge what is found.

An engine, Dask's or Ray's, applies functions to parts; what it gives back is merged in pairs of
neighbours, whose order depends on the parts alone: so sums are the same to the last digit with any
number of workers.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from ..core.errors import InputError
from ..core.machine import one_thread
from ..data.checks import as_sample, column_names, first_fault

T = TypeVar("T")
#: What stands for a value that an engine has, or will have.
Handle: TypeAlias = Any
#: Work on a part: of its number, or of what is beside it, and its rows (n, D), as float64.
Work: TypeAlias = Callable[[Any, np.ndarray], T]


class Engine(Protocol):
    """What runs functions near the rows."""

    def held(self, value: Any) -> Handle:
        """Keep a value that many applications share."""

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Apply a function to arguments, of which those that are handles stand for values."""

    def results(self, handles: Sequence[Handle]) -> list[Any]:
        """Wait for values, and fetch them."""


@dataclasses.dataclass(frozen=True)
class Parts:
    """Rows (N, D) in parts, each with an engine's handle.

    Attributes:
        engine: that has them.
        handles: one for each part, in order.
        columns: names, or ``None``.
        name: what messages call the rows.
    """

    engine: Engine
    handles: tuple[Handle, ...]
    columns: tuple[str, ...] | None
    name: str

    def some(self, which: Sequence[int]) -> Parts:
        """Take some of the parts alone."""
        return dataclasses.replace(self, handles=tuple(self.handles[one] for one in which))

    def each(self, work: Work[Any], beside: Sequence[Any] | None = None) -> list[Handle]:
        """Work on every part; handles of what is found.

        Args:
            work: on a part.
            beside: something for each part, in the place of its number.
        """
        held = self.engine.held(work)
        own: list[tuple[Handle, ...]] = [()] * len(self.handles)
        if beside is not None:
            own = [(self.engine.held(one),) for one in beside]
        return [
            self.engine.apply(_worked, held, index, part, self.name, *more)
            for index, (part, more) in enumerate(zip(self.handles, own, strict=True))
        ]

    def merged(self, work: Work[T], merge: Callable[[T, T], T]) -> Handle:
        """Work on every part, and merge what is found; the handle of that."""
        return self.joined(self.each(work), merge)

    def joined(self, found: list[Handle], merge: Callable[[T, T], T]) -> Handle:
        """Merge what was found of every part; the handle of that."""
        while len(found) > 1:
            pairs = [tuple(found[at : at + 2]) for at in range(0, len(found), 2)]
            found = [self.engine.apply(merge, *pair) if pair[1:] else pair[0] for pair in pairs]
        return found[0]

    def gathered(self) -> np.ndarray:
        """Fetch all rows (N, D)."""
        return np.concatenate(self.engine.results(self.each(_rows)))


class Extent(NamedTuple):
    """What is known of some rows before anything else.

    Attributes:
        rows: how many there are.
        low: (D,), the smallest value of every column; infinite of no rows.
        high: (D,), the largest.
    """

    rows: int
    low: np.ndarray
    high: np.ndarray


def extent(index: int, rows: np.ndarray) -> Extent:
    """Find how many rows (n, D) there are and where."""
    if not len(rows):
        width = rows.shape[1]
        return Extent(0, np.full(width, np.inf), np.full(width, -np.inf))
    return Extent(len(rows), rows.min(axis=0), rows.max(axis=0))


def extent_of_all(each: Sequence[Extent]) -> Extent:
    """Find the extent of rows in several parts.

    Raises:
        InputError: parts have different numbers of columns.
    """
    widths = {len(one.low) for one in each}
    if len(widths) > 1:
        raise InputError(f"parts have {' and '.join(map(str, sorted(widths)))} columns")
    low = np.min([one.low for one in each], axis=0)
    return Extent(sum(one.rows for one in each), low, np.max([one.high for one in each], axis=0))


def numbers(part: Any, name: str, index: int) -> np.ndarray:
    """Make an array (n, D) of float64 of what an engine has as a part.

    Args:
        part: an array, a data frame, a table of columns, or rows.
        name: what messages call all rows.
        index: of the part.

    Raises:
        InputError: it does not hold real numbers, or one is missing, not finite or beyond 1e150.
    """
    if isinstance(part, dict):  # of Ray: columns, or one of vectors
        part = np.column_stack([np.reshape(one, (len(one), -1)) for one in part.values()])
    try:
        found = part.to_numpy() if hasattr(part, "to_numpy") else np.asarray(part)
        if found.dtype.kind not in "iufbO":
            raise TypeError(f"the type is {found.dtype}")
        rows = np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must hold real numbers in part {index + 1}: {error}") from None
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2:
        raise InputError(f"{name} has {rows.ndim} dimensions, where (rows, columns) is needed")
    bad = first_fault(rows)
    if bad is not None:
        row, column, fault = bad
        raise InputError(
            f"{name} has {fault} in row {row + 1} of part {index + 1}, "
            f"column {column + 1}: fill in or leave out that row"
        )
    return rows


def _worked(work: Work[T], index: int, part: Any, name: str, *beside: Any) -> T:
    """Work on a part with one BLAS thread, for there are as many workers as cores."""
    with one_thread():
        return work(beside[0] if beside else index, numbers(part, name, index))


def _rows(index: int, rows: np.ndarray) -> np.ndarray:
    return rows


#: Rows of a part of an array in memory, that is taken where the others are.
ROWS = 2**17


class DaskEngine:
    """Dask: its default scheduler, or the cluster of the client that there is."""

    def __init__(self) -> None:
        self._dask: Any = _imported("dask", "dask")

    def held(self, value: Any) -> Handle:
        """Keep a value that many tasks share: on the cluster, where there is one."""
        try:
            client = importlib.import_module("distributed").default_client()
        except (ImportError, ValueError):
            return self._dask.delayed(value, pure=False, traverse=False)
        return client.scatter([value], hash=False)[0]  # a list, or it would be taken apart

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Describe a task, which runs when its result is asked for."""
        return self._dask.delayed(function, pure=False, traverse=False)(*arguments)

    def results(self, handles: Sequence[Handle]) -> list[Any]:
        """Run tasks, and fetch their results."""
        return list(self._dask.compute(*handles))


class RayEngine:
    """Ray: the cluster that it is connected to, or one on this machine."""

    def __init__(self) -> None:
        self._ray: Any = _imported("ray", "ray")
        self._remote: dict[Callable[..., Any], Any] = {}

    def held(self, value: Any) -> Handle:
        """Put a value where all workers find it."""
        return self._ray.put(value)

    def apply(self, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start a task."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(function)
        return self._remote[function].remote(*arguments)

    def results(self, handles: Sequence[Handle]) -> list[Any]:
        """Wait for tasks, and fetch their results."""
        try:
            return list(self._ray.get(list(handles)))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None


def is_collection(value: Any) -> bool:
    """Tell a collection of Dask or a dataset of Ray from what is in memory."""
    return hasattr(value, "__dask_graph__") or _of_ray(value)


def names_of(value: Any) -> tuple[str, ...] | None:
    """The names of the columns of a collection or of a sample in memory, where it has any."""
    if not _of_ray(value):
        return column_names(value)
    names = tuple(map(str, value.columns() or ()))
    return names if len(names) > 1 else None  # a column of vectors has no names


def as_parts(value: Any, name: str, engine: Engine | None = None) -> Parts:
    """Take a collection for rows in parts.

    Args:
        value: an array, a data frame, a series or a bag of rows of Dask, in whatever chunks; a
            dataset of Ray; or, with an ``engine``, anything in memory that is a sample.
        name: what messages call it.
        engine: that has the other rows.

    Raises:
        InputError: it is none of these, of another engine, or a package is missing.
    """
    if hasattr(value, "__dask_graph__"):
        own: Engine = engine if isinstance(engine, DaskEngine) else DaskEngine()
        handles = _of_dask(value, name)
    elif _of_ray(value):
        own = engine if isinstance(engine, RayEngine) else RayEngine()
        handles = list(value.to_numpy_refs())
    else:
        assert engine is not None
        own, rows = engine, as_sample(value, name, may_be_constant=True)
        handles = [own.held(rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)]
    if engine is not None and own is not engine:
        raise InputError("P and Q must be collections of one engine, Dask or Ray")
    if not handles:
        raise InputError(f"{name} has no rows")
    return Parts(own, tuple(handles), names_of(value), name)


def _of_dask(value: Any, name: str) -> list[Handle]:
    """Delayed parts of a collection, each with all columns."""
    if not hasattr(type(value), "to_delayed"):
        raise InputError(
            f"{name} must be an array, a data frame or a bag of rows of Dask, "
            f"got {type(value).__name__}"
        )
    if hasattr(type(value), "rechunk"):
        if value.ndim not in (1, 2):
            raise InputError(f"{name} has {value.ndim} dimensions, where (rows, columns) is needed")
        value = value.rechunk({1: -1}) if value.ndim == 2 else value
    return list(np.ravel(np.asarray(value.to_delayed(), dtype=object)))


def _of_ray(value: Any) -> bool:
    return type(value).__module__.startswith("ray.data") and hasattr(value, "to_numpy_refs")


def _imported(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f'rows in parts need pip install "bke[{extra}]"') from error
