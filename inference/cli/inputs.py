"""Inputs of the commands, read and checked before anything is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InputError
from ..core.names import join_names
from ..data.checks import (
    WITNESS_MATRICES,
    as_pair,
    as_sample,
    check_file,
    check_memory,
    default_names,
    pluralize,
    reorder_columns,
)
from ..data.equality import equalize
from ..data.new_rows import known_names
from .options import sample_names

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from bke.models.kernels.base import Kernel
    from bke.models.measures import Measure

    from ..io.samples import Sample


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two samples with the same columns, their names and where they are from."""

    P: np.ndarray  # (n, D)
    Q: np.ndarray  # (m, D)
    columns: tuple[str, ...]
    sources: dict[str, str]  # for the summary
    notes: tuple[str, ...] = ()
    names: tuple[str, str] = ("P", "Q")

    @property
    def pooled(self) -> np.ndarray:
        """Both samples, P first."""
        return np.concatenate([self.P, self.Q])

    def labeled(self, values: np.ndarray) -> np.ndarray | pd.DataFrame:
        """Return rows (k, D) with the names of the columns, unless these are default names."""
        if len(self.columns) == 1 or known_names(self.columns) is None:
            return values
        import pandas as pd

        return pd.DataFrame(values, columns=list(self.columns))


def read_sample(path: Path, *, columns: Sequence[str | int] | None = None) -> Sample:
    """Read a sample; Arrow is imported here, since it is slow."""
    from ..io import samples

    return samples.read_sample(path, columns=columns)


def _read_samples(paths: Sequence[Path], columns: Sequence[str] | None) -> list[Sample]:
    from ..io import samples

    return samples.read_samples(paths, columns=columns)


def built_in_pair(names: tuple[str, str] | None) -> Pair:
    """Return the 300 + 300 rows of the two mixtures of BKE Figure 3."""
    from ..data.samples import normal_laplace

    P, Q = normal_laplace(seed=0)
    note = f"{len(P)} rows of a normal and {len(Q)} of a Laplace mixture, as in Figure 3 of BKE."
    sources = {"P": "built-in normal mixture", "Q": "built-in Laplace mixture"}
    return Pair(P, Q, ("x",), sources, (note,), names or ("normal", "Laplace"))


def read_pair(
    path_P: Path,
    path_Q: Path,
    columns: Sequence[str] | None,
    names: tuple[str, str] | None,
    *,
    tested: bool = False,
) -> Pair:
    """Read the samples of two files; if only ``tested``, a column of one may be constant.

    Raises:
        InputError: one sentence that names the file.
    """
    for path in (path_P, path_Q):
        if not path.is_dir():
            check_file(path)  # before a fault of the other file is reported
    first, second = _read_samples([path_P, path_Q], columns)
    second = _reorder(first.columns, second)
    if not tested:
        first, second = check_sample(first), check_sample(second)
    _check_names(first, second)
    P, Q = equalize(
        as_pair(first.values, second.values, may_be_constant=tested), [first.sizes, second.sizes]
    )
    if tested:
        union = dataclasses.replace(first, values=np.concatenate([P, Q]))
        check_sample(union, "the union of P and Q")
    notes = []
    if first.columns != second.columns:
        notes.append(
            f"The columns have different names in the two files and are matched by position: "
            f"{join_names(first.columns)} in P, {join_names(second.columns)} in Q."
        )
    sources = {"P": str(path_P), "Q": str(path_Q)}
    return Pair(P, Q, first.columns, sources, tuple(notes), sample_names(names, path_P, path_Q))


def read_pooled(
    paths: Sequence[Path], columns: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """Return the rows of all files, (n, D), the names of their columns, and notes.

    Raises:
        InputError: one sentence that names the file.
    """
    first, *rest = files = _read_samples(paths, columns)
    for other in rest:
        _check_names(first, other)
    notes = [
        f"The columns of {other.path} are named {join_names(other.columns)} and matched by "
        f"position to {join_names(first.columns)}."
        for other in rest
        if other.columns != first.columns
    ]
    pooled = np.concatenate([sample.values for sample in files])
    name = "the union of the files" if rest else str(first.path)
    check_sample(dataclasses.replace(first, values=pooled), name)
    return pooled, first.columns, notes


def read_points(
    path: Path | None, columns: Sequence[str] | None, names: Sequence[str]
) -> np.ndarray | None:
    """Return the points of ``--at``, (k, D)."""
    if path is None:
        return None
    points = _reorder(tuple(names), read_sample(path, columns=columns))
    if len(points.columns) != len(names):
        raise InputError(
            f"{path} has {len(points.columns)} columns, but the samples have {len(names)}"
        )
    return points.values


def read_landmarks(
    text: str | None, columns: Sequence[str] | None, names: Sequence[str]
) -> int | np.ndarray | None:
    """Return ``--landmarks``: a number, or the points (m, D) of a file.

    Raises:
        InputError: it is neither, or the file has no such points.
    """
    value = None if text is None else count_or_file(text)
    if not isinstance(value, Path):
        return value
    if not value.exists():
        raise InputError(f"--landmarks {text} is neither a whole number nor a file that exists")
    return read_points(value, columns, names)


def count_or_file(text: str) -> int | Path:
    """Parse ``--landmarks``: a number, or a file."""
    try:
        return int(text)
    except ValueError:
        return Path(text)


def check_sample(sample: Sample, name: str | None = None) -> Sample:
    """Refuse a sample from which nothing can be learned; the message names file and column."""
    as_sample(sample.values, name or str(sample.path), columns=sample.columns)
    return sample


def _reorder(names: tuple[str, ...], sample: Sample) -> Sample:
    """Return a sample with the columns in the order of ``names``, if these are its names."""
    if sorted(names) != sorted(sample.columns):
        return sample
    values, sizes = (
        reorder_columns(names, sample.columns, rows)
        for rows in (sample.values, np.array([sample.sizes]))
    )
    return dataclasses.replace(sample, values=values, columns=names, sizes=tuple(sizes[0]))


def _check_names(first: Sample, second: Sample) -> None:
    """Refuse columns in different orders, or different columns; a single column always matches."""
    counts = [len(sample.columns) for sample in (first, second)]
    if counts == [1, 1] or first.columns == second.columns:
        return
    if all(
        sample.columns != tuple(default_names(n))
        for sample, n in zip((first, second), counts, strict=True)
    ):
        raise InputError(
            f"{first.path} has the column{'s' * (counts[0] > 1)} {join_names(first.columns)} and "
            f"{second.path} has {join_names(second.columns)}: choose columns of both, in one "
            "order, with --columns"
        )
    if counts[0] != counts[1]:
        raise InputError(
            f"{first.path} has {pluralize(counts[0], 'column')} and {second.path} has "
            f"{pluralize(counts[1], 'column')}, where the same number is needed"
        )


def check_witness_memory(
    pair: Pair,
    points: np.ndarray | None,
    kernel: Kernel,
    measure: Measure | str = "unit",
    *,
    by_landmarks: bool,
) -> None:
    """Refuse a witness that needs more than the memory, conditioned on all rows or on landmarks."""
    from ..core.machine import cores
    from ..witness.draws import matrix_size

    largest = 0 if points is None else len(points)
    if not by_landmarks:
        largest = max(largest, *(matrix_size(rows, kernel, measure) for rows in (pair.P, pair.Q)))
    check_memory(largest, len(pair.columns), matrices=WITNESS_MATRICES * cores())


def check_samples(run: xr.DataTree, pair: Pair) -> None:
    """Refuse samples that are not those of a run, before anything is computed."""
    from ..sampling.open_run import open_run
    from ..sampling.run_data import compare_rows, match_columns

    opened = open_run(run)
    P, Q, _ = match_columns(opened, pair.labeled(pair.P), pair.labeled(pair.Q))
    compare_rows(opened, P, Q)
