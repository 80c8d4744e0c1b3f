"""Sums of the landmark model over rows in parts on several machines, in one pass."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from bke.models.kernels.base import Kernel
from bke.models.landmarks import LandmarkSums, check_apart, in_parts, merged_each, sums_of_view

from ..core.errors import InputError
from ..core.machine import computing
from ..data.checks import check_spread
from ..data.file_table import default_names
from .engines import as_parts
from .parts import Extent, Parts, extent, extent_of_all
from .passes import SAMPLE, Survey, chunk_size


class Moments(NamedTuple):
    """Moments of some rows, which merge without cancellation (Chan, Golub and LeVeque 1983)."""

    rows: int
    mean: np.ndarray
    scatter: np.ndarray

    def merged(self, other: Moments) -> Moments:
        """Those of both sets of rows."""
        rows, apart = self.rows + other.rows, other.mean - self.mean
        share = other.rows / rows
        scatter = self.scatter + other.scatter + apart**2 * self.rows * share
        return Moments(rows, self.mean + share * apart, scatter)


@dataclasses.dataclass(frozen=True)
class Collected:
    """Rows in parts, of a collection of Dask or a dataset of Ray.

    Attributes:
        parts: those with rows.
        starts: the number of each part's first row.
        extent: of all rows.
        columns: names.
    """

    parts: Parts
    starts: np.ndarray
    extent: Extent
    columns: tuple[str, ...]

    @classmethod
    def of(cls, value: Any) -> Collected:
        """Go through a collection once, to see how many rows there are.

        Raises:
            InputError: for rows that make no sample.
        """
        parts = as_parts(value, "X")
        each: list[Extent] = parts.engine.results(parts.each(extent))
        whole = extent_of_all(each)
        if whole.rows < 2:
            raise InputError(f"X needs at least two rows, and has {whole.rows}")
        some = [index for index, one in enumerate(each) if one.rows]
        sizes = np.array([each[index].rows for index in some])
        names = parts.columns or tuple(default_names(len(whole.low)))
        return cls(parts.some(some), np.cumsum(sizes) - sizes, whole, names)

    def survey(self, seed: int) -> Survey:
        """Find mean, deviation and a sample, as of the rows of a file; no digest.

        Raises:
            InputError: a column is constant or varies too little.
        """
        low, high, n = self.extent.low, self.extent.high, self.extent.rows
        check_spread(low, high, "X", lambda at: f"column {self.columns[at]!r}")
        drawn = np.sort(np.random.default_rng((seed, 7)).choice(n, min(n, SAMPLE), replace=False))
        found = self.parts.engine.results(self.parts.each(SurveyOfPart(self.starts, drawn)))
        whole = functools.reduce(Moments.merged, [moments for moments, _ in found])
        deviation = np.sqrt(whole.scatter / n)
        sample = np.concatenate([rows for _, rows in found])
        return Survey(whole.mean, deviation, sample, np.zeros(0, dtype=np.uint8))

    def sums(
        self, unit: np.ndarray, landmarks: np.ndarray, kernels: Sequence[Kernel]
    ) -> LandmarkSums:
        """Sum what the landmark model needs, as :func:`sums_over_rows` does, scatter a matrix.

        Raises:
            InputError: a row is at a landmark.
        """
        work = SumsOfPart(unit, landmarks, tuple(kernels))
        (found,) = self.parts.engine.results([self.parts.merged(work, merged_sums)])
        return LandmarkSums(*found)


@dataclasses.dataclass(frozen=True)
class SurveyOfPart:
    """Finds moments of a part, and its rows of the sample, which ``drawn`` numbers."""

    starts: np.ndarray
    drawn: np.ndarray

    def __call__(self, index: int, rows: np.ndarray) -> tuple[Moments, np.ndarray]:
        """Work on a part."""
        mean, start = rows.mean(axis=0), self.starts[index]
        inside = self.drawn[(self.drawn >= start) & (self.drawn < start + len(rows))]
        return Moments(len(rows), mean, ((rows - mean) ** 2).sum(axis=0)), rows[inside - start]


@dataclasses.dataclass(frozen=True)
class SumsOfPart:
    """Sums over the rows of a part for every kernel, chunk by chunk."""

    unit: np.ndarray
    landmarks: np.ndarray
    kernels: tuple[Kernel, ...]

    def __call__(self, index: int, rows: np.ndarray) -> LandmarkSums:
        """Work on a part."""
        size = chunk_size(*self.landmarks.shape)
        with computing():
            chunks = range(0, len(rows), size)
            each = (self._chunk(index, start, rows[start : start + size]) for start in chunks)
            return functools.reduce(merged_sums, each)

    def _chunk(self, index: int, start: int, rows: np.ndarray) -> LandmarkSums:
        points = rows / self.unit
        try:
            check_apart(points, self.landmarks, first=start + 1, of=f"part {index + 1} of X")
        except ValueError as error:
            raise InputError(str(error)) from None
        view = in_parts(points, self.landmarks)
        each = [sums_of_view(view, kernel, covariance=True) for kernel in self.kernels]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *each)  # type: ignore[no-any-return]


def merged_sums(first: LandmarkSums, second: LandmarkSums) -> LandmarkSums:
    """Merge sums over two sets of rows, for every kernel."""
    with computing():
        return jax.tree.map(np.asarray, merged_each(first, second))  # type: ignore[no-any-return]
