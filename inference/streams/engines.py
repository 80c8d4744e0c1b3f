"""Collections of Dask and datasets of Ray as rows in parts."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..data.checks import as_sample, column_names
from .parts import Engine, Handle, Parts

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
