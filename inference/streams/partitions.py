"""Samples in partitions on several machines: collections of Dask and datasets of Ray.

An engine, Dask's or Ray's, applies functions to partitions. Results are merged in pairs of
neighbors, in an order that depends on the partitions only, so sums are the same to the last digit
with any number of workers.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..core.errors import InputError
from ..core.machine import single_threaded_blas
from ..data.checks import as_matrix, as_sample, column_names
from .rows import check_values, import_optional

T = TypeVar("T")
#: Reference to a value that an engine has or will compute.
Handle: TypeAlias = Any


class DaskEngine:
    """Dask's default scheduler, or the cluster of the current client."""

    def __init__(self) -> None:
        self._dask: Any = import_optional("dask", "dask", "samples in partitions need")

    def put(self, value: Any) -> Handle:
        """Store a value that many tasks share: on the cluster, where there is one."""
        try:
            client = importlib.import_module("distributed").default_client()
        except (ImportError, ValueError):
            return self._dask.delayed(value, pure=False, traverse=False)
        return client.scatter([value], hash=False)[0]  # it scatters the elements of a value

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Describe a task, which runs when its result is fetched."""
        return self._dask.delayed(function, pure=False, traverse=False)(*arguments)

    def gather(self, handles: Sequence[Handle]) -> list[Any]:
        """Run tasks and fetch their results."""
        return list(self._dask.compute(*handles))


class RayEngine:
    """The Ray cluster of the current connection, or one on this machine."""

    def __init__(self) -> None:
        self._ray: Any = import_optional("ray", "ray", "samples in partitions need")
        self._remote: dict[Callable[..., Any], Any] = {}

    def put(self, value: Any) -> Handle:
        """Store a value in the object store."""
        return self._ray.put(value)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Handle:
        """Start a task."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(function)
        return self._remote[function].remote(*arguments)

    def gather(self, handles: Sequence[Handle]) -> list[Any]:
        """Wait for tasks and fetch their results."""
        try:
            return list(self._ray.get(list(handles)))
        except self._ray.exceptions.RayTaskError as error:
            raise error.cause from None


#: Runs functions where the partitions are.
Engine: TypeAlias = DaskEngine | RayEngine


@dataclasses.dataclass(frozen=True)
class PartitionedSample:
    """Rows (N, D) in partitions.

    Attributes:
        engine: that stores them.
        handles: one for each partition, in order.
        columns: names, or ``None``.
        name: the sample's name, for messages.
    """

    engine: Engine
    handles: tuple[Handle, ...]
    columns: tuple[str, ...] | None
    name: str

    def select(self, indices: Sequence[int]) -> PartitionedSample:
        """Return the sample with the partitions at ``indices`` only."""
        return dataclasses.replace(self, handles=tuple(self.handles[index] for index in indices))

    def map_partitions(
        self, function: Callable[[Any, np.ndarray], Any], arguments: Sequence[Any] | None = None
    ) -> list[Handle]:
        """Apply a function to every partition.

        Args:
            function: takes an argument and the rows (n, D) as float64; must be picklable.
            arguments: one for each partition; by default its index.

        Returns:
            Handles of the results, in order.
        """
        engine, count = self.engine, len(self.handles)
        shared = engine.put(function)
        inputs = range(count) if arguments is None else map(engine.put, arguments)
        return [
            engine.submit(_apply, shared, index, handle, self.name, argument)
            for index, (handle, argument) in enumerate(zip(self.handles, inputs, strict=True))
        ]

    def reduce(self, results: list[Handle], merge: Callable[[T, T], T]) -> Handle:
        """Merge the results of all partitions, in pairs of neighbors."""
        while len(results) > 1:
            pairs = [results[start : start + 2] for start in range(0, len(results), 2)]
            results = [
                self.engine.submit(merge, *pair) if len(pair) == 2 else pair[0] for pair in pairs
            ]
        return results[0]

    def to_numpy(self) -> np.ndarray:
        """Fetch all rows (N, D)."""
        return np.concatenate(self.engine.gather(self.map_partitions(_rows)))


def is_collection(value: Any) -> bool:
    """Return whether a value is a collection of Dask or a dataset of Ray."""
    # Arrays of xarray in memory have no chunks.
    is_dask = hasattr(value, "__dask_graph__") and getattr(value, "chunks", ()) is not None
    return is_dask or (
        type(value).__module__.startswith("ray.data") and hasattr(value, "to_numpy_refs")
    )


def as_partitioned(
    value: Any, name: str, engine: Engine | None = None, *, rows_per_partition: int = 2**17
) -> PartitionedSample:
    """Convert a collection to a sample in partitions.

    Args:
        value: an array, a data frame, a series or a bag of rows of Dask, in any chunks; a dataset
            of Ray; or, with an ``engine``, any sample in memory.
        name: the sample's name, for messages.
        engine: the other sample's, if it has one.
        rows_per_partition: used for a sample in memory; not tuned.

    Raises:
        InputError: it is none of these, of another engine, or a package is missing.
    """
    if is_collection(value) and hasattr(value, "__dask_graph__"):
        value_engine: Engine = engine if isinstance(engine, DaskEngine) else DaskEngine()
        handles, columns = _dask_partitions(value, name), column_names(value)
    elif is_collection(value):
        value_engine = engine if isinstance(engine, RayEngine) else RayEngine()
        handles, names = list(value.to_numpy_refs()), tuple(map(str, value.columns() or ()))
        columns = names if len(names) > 1 else None  # a single column may hold vectors
    else:
        assert engine is not None
        value_engine, columns = engine, column_names(value)
        rows = as_sample(value, name, may_be_constant=True)
        starts = range(0, len(rows), rows_per_partition)
        handles = [value_engine.put(rows[start : start + rows_per_partition]) for start in starts]
    if engine is not None and value_engine is not engine:
        raise InputError("P and Q must be collections of one engine, Dask or Ray")
    if not handles:
        raise InputError(f"{name} has no rows")
    return PartitionedSample(value_engine, tuple(handles), columns, name)


def _dask_partitions(value: Any, name: str) -> list[Handle]:
    """Return delayed partitions of a collection, each with all columns."""
    if hasattr(value, "dims") and hasattr(value, "data"):  # an array of xarray
        value = value.data
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


def _apply(
    function: Callable[[Any, np.ndarray], T], index: int, partition: Any, name: str, argument: Any
) -> T:
    """Apply a function to a partition with one BLAS thread, since every core has a worker.

    Args:
        function: takes the argument and the rows as float64 (n, D).
        index: the partition's index.
        partition: an array, a data frame, a dictionary of columns, or rows.
        name: the sample's name, for messages.
        argument: first argument of the function.

    Raises:
        InputError: the partition does not hold real numbers, or one is missing, not finite or
            beyond 1e150.
    """
    with single_threaded_blas():
        if isinstance(partition, dict):  # of Ray; a column may hold vectors
            columns = [np.reshape(column, (len(column), -1)) for column in partition.values()]
            partition = np.column_stack(columns)
        rows = as_matrix(partition, f"partition {index + 1} of {name}")
        numbered = range(1, rows.shape[1] + 1)
        check_values(rows, name, numbered, lambda row: f"row {row + 1} of partition {index + 1}")
        return function(argument, rows)


def _rows(argument: Any, rows: np.ndarray) -> np.ndarray:
    return rows
