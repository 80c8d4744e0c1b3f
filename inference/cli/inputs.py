"""Inputs and output places of the commands, checked before anything is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InputError
from ..data.checks import (
    WITNESS_MATRICES,
    as_pair,
    as_sample,
    check_file,
    check_memory,
    check_positive,
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
    from ..streams.rows import Rows


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two samples with the same columns, and what there is to say about them."""

    P: np.ndarray  # (n, D)
    Q: np.ndarray  # (m, D)
    columns: tuple[str, ...]
    sources: dict[str, str]  # for the summary
    notes: tuple[str, ...] = ()
    names: tuple[str, str] = ("P", "Q")  # in words and pictures

    @property
    def pooled(self) -> np.ndarray:
        """Both samples, P first."""
        return np.concatenate([self.P, self.Q])

    def labelled(self, values: np.ndarray) -> np.ndarray | pd.DataFrame:
        """Rows (k, D) with the names of the columns, where several have names of their own."""
        if len(self.columns) == 1 or known_names(self.columns) is None:
            return values
        import pandas as pd

        return pd.DataFrame(values, columns=list(self.columns))


def read_sample(path: Path, *, columns: Sequence[str | int] | None = None) -> Sample:
    """Read a sample; Arrow and pandas are imported when one is read."""
    from ..io import samples

    return samples.read_sample(path, columns=columns)


def _read_together(paths: Sequence[Path], columns: Sequence[str] | None) -> list[Sample]:
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
    """The samples of two files; in one that is only tested a column may be constant.

    Raises:
        InputError: one sentence that names the file.
    """
    for path in (path_P, path_Q):
        if not path.is_dir():
            check_file(path)  # before a fault of the other file is reported
    first, second = _read_together([path_P, path_Q], columns)
    second = _in_order_of(first.columns, second)
    if not tested:
        first, second = checked(first), checked(second)
    _check_names(first, second)
    P, Q = equalize(
        as_pair(first.values, second.values, may_be_constant=tested), [first.sizes, second.sizes]
    )
    if tested:
        union = dataclasses.replace(first, values=np.concatenate([P, Q]))
        checked(union, "the union of P and Q")
    notes = []
    if first.columns != second.columns:
        notes.append(
            f"The columns have different names in the two files and are matched by position: "
            f"{', '.join(first.columns)} in P, {', '.join(second.columns)} in Q."
        )
    sources = {"P": str(path_P), "Q": str(path_Q)}
    return Pair(P, Q, first.columns, sources, tuple(notes), sample_names(names, path_P, path_Q))


def open_sample(
    paths: Sequence[Path], columns: Sequence[str] | None
) -> tuple[Rows, tuple[str, ...], list[str]]:
    """Open one sample whose rows stay in their files, see :func:`read_pooled`.

    Raises:
        InputError: one sentence that names the file.
    """
    from ..streams.rows import open_rows

    if len(paths) > 1:
        raise InputError(f"--stream is for one file, and there are {len(paths)}")
    rows = open_rows(paths[0], columns=columns)
    return rows, rows.columns, []


def read_pooled(
    paths: Sequence[Path], columns: Sequence[str] | None
) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """The rows of all files, (n, D), the names of their columns, and notes.

    Raises:
        InputError: one sentence that names the file.
    """
    files = _read_together(paths, columns)
    for other in files[1:]:
        _check_names(files[0], other)
    notes = [
        f"The columns of {other.path} are named {', '.join(other.columns)} and matched by position "
        f"to {', '.join(files[0].columns)}."
        for other in files[1:]
        if other.columns != files[0].columns
    ]
    pooled = np.concatenate([sample.values for sample in files])
    name = str(paths[0]) if len(paths) == 1 else "the union of the files"
    checked(dataclasses.replace(files[0], values=pooled), name)
    return pooled, files[0].columns, notes


def read_points(
    path: Path | None, columns: Sequence[str] | None, names: Sequence[str]
) -> np.ndarray | None:
    """The points of ``--at``, (k, D)."""
    if path is None:
        return None
    points = read_sample(path, columns=columns)
    if len(points.columns) != len(names):
        raise InputError(
            f"{path} has {len(points.columns)} columns, but the samples have {len(names)}"
        )
    return points.values


def read_landmarks(
    text: str | None, columns: Sequence[str] | None, names: Sequence[str]
) -> int | np.ndarray | None:
    """``--landmarks``: a number, or the places (m, D) in a file.

    Raises:
        InputError: it is neither, or the file has no such places.
    """
    asked = None if text is None else count_or_file(text)
    if not isinstance(asked, Path):
        return asked
    if not asked.exists():
        raise InputError(f"--landmarks {text} is neither a whole number nor a file that exists")
    return read_points(asked, columns, names)


def count_or_file(text: str) -> int | Path:
    """Parse ``--landmarks``: a number, or a file."""
    try:
        return int(text)
    except ValueError:
        return Path(text)


def checked(sample: Sample, name: str | None = None) -> Sample:
    """``sample``, refused where nothing can be learned from it; messages name file and column."""
    as_sample(sample.values, name or str(sample.path), columns=sample.columns)
    return sample


def _in_order_of(names: tuple[str, ...], sample: Sample) -> Sample:
    """Return a sample whose columns have these names in another order in their order."""
    if sorted(names) != sorted(sample.columns):
        return sample
    values, sizes = (
        reorder_columns(names, sample.columns, rows)
        for rows in (sample.values, np.array([sample.sizes]))
    )
    return dataclasses.replace(sample, values=values, columns=names, sizes=tuple(sizes[0]))


def _check_names(first: Sample, second: Sample) -> None:
    """Refuse columns that seem to be in different orders, or others; one is what it is."""
    counts = [len(one.columns) for one in (first, second)]
    if counts == [1, 1] or first.columns == second.columns:
        return
    if all(one.columns != tuple(default_names(len(one.columns))) for one in (first, second)):
        raise InputError(
            f"{first.path} has the column{'s' * (counts[0] > 1)} {', '.join(first.columns)} and "
            f"{second.path} has {', '.join(second.columns)}: choose columns of both, in one order, "
            "with --columns"
        )
    if counts[0] != counts[1]:
        raise InputError(
            f"{first.path} has {pluralize(counts[0], 'column')} and {second.path} has "
            f"{pluralize(counts[1], 'column')}, where the same number is needed"
        )


def check_witness(
    pair: Pair,
    points: np.ndarray | None,
    noise: str | float,
    level: float,
    *,
    seen: bool,
    kernel: Kernel,
    measure: Measure | str,
) -> None:
    """Refuse options that the witness cannot be drawn with; ``seen`` from landmarks or not."""
    from ..core.machine import cores
    from ..witness.draws import matrix_size

    if not isinstance(noise, str):
        check_positive(noise, "--noise")
    if not 0 < level < 1:  # nor NaN
        raise InputError(f"--level must be between 0 and 1, and is {level}")
    largest = 0 if points is None else len(points)
    if not seen:
        each = (matrix_size(sample, kernel, measure) for sample in (pair.P, pair.Q))
        largest = max(largest, *each)
    check_memory(largest, len(pair.columns), matrices=WITNESS_MATRICES * cores())


def check_samples(run: xr.DataTree, pair: Pair) -> None:
    """Refuse samples that are not those of a run, before anything is computed."""
    from ..sampling.open_run import open_run
    from ..sampling.run_data import compare_rows, match_columns

    opened = open_run(run)
    P, Q, _ = match_columns(opened, pair.labelled(pair.P), pair.labelled(pair.Q))
    compare_rows(opened, P, Q)
