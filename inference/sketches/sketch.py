"""A sketch of data: what the landmark model needs of them, at every lengthscale of a grid."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import SquaredExponential
from bke.models.bayes.priors import sites, template, with_values
from bke.models.kernels.base import Kernel
from bke.models.landmarks import LandmarkSums, check_apart, merged_each
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from ..core.errors import InputError
from ..core.machine import computing
from ..core.notebook import Shown
from ..data.checks import as_sample, check_count
from ..data.units import choose_scale, choose_units, default_columns, unit_of
from ..sampling.landmarks import default_count, places_for
from ..sampling.record import describe_kernel
from ..streams.checkpoint import Checkpoint
from ..streams.collected import Collected
from ..streams.engines import is_collection, names_of
from ..streams.passes import sums_over_rows, survey
from ..streams.source import ArrayRows, Rows

#: Lengthscales by default, over the unit: how many, the shortest and the longest, evenly in the
#: log. All but 0.02 of the default prior lies between these.
LENGTHSCALES = (60, 0.02, 8.0)
#: The shortest is no longer than this share of the way from a landmark to the next, for the model
#: likes lengthscales a few times longer.
SHARE_OF_GAP = 0.1
#: A centre of fewer rows would show them.
FEWEST_IN_CLUSTER = 10
#: Rows for each landmark by default.
ROWS_EACH = 40


@dataclasses.dataclass(frozen=True)
class SketchPlan:
    """What sketches must share to be merged or compared.

    Attributes:
        kernel: the template; its lengthscale is replaced by those of the grid.
        lengthscales: (G,), increasing, over ``unit``.
        landmarks: (m, D), over ``unit``.
        unit: (D,), what each column is divided by.
        columns: names, D.
    """

    kernel: Kernel
    lengthscales: np.ndarray
    landmarks: np.ndarray
    unit: np.ndarray
    columns: tuple[str, ...]

    def kernel_at(self, index: int) -> Kernel:
        """The kernel with the lengthscale of that index, over the unit."""
        return _with(self.kernel, self.lengthscales[index])

    def kernel_in_data_units(self, index: int) -> Kernel:
        """The kernel with the lengthscale of that index, in the units of the data."""
        lengthscale = self.lengthscales[index] * self.unit
        shared = float(lengthscale[0]) if np.all(self.unit == self.unit[0]) else lengthscale
        return _with(self.kernel, shared)

    def difference(self, other: SketchPlan) -> str:
        """Name the first thing in which ``other`` differs; empty where there is none."""
        if describe_kernel(_with(self.kernel, 1.0)) != describe_kernel(_with(other.kernel, 1.0)):
            return "kernels"
        for name in ("columns", "unit", "lengthscales", "landmarks"):
            if not np.array_equal(getattr(self, name), getattr(other, name)):
                return name
        return ""


@dataclasses.dataclass(frozen=True)
class Sketch(Shown):
    """Sums over rows; that of a union is exactly that of its parts.

    It is small, and holds no row as it is, but it is not anonymous: a row far from all others can
    be found from its sums at the landmarks around it, and landmarks that were not agreed upon are
    averages of at least ten rows of the data they were chosen from.

    Attributes:
        plan: what it has in common with others.
        sums: of k(x, z) and of log gamma, one for every lengthscale: leading axis G.
    """

    plan: SketchPlan
    sums: LandmarkSums

    @property
    def rows(self) -> int:
        """How many rows were summed."""
        return int(self.sums.n[0])

    def at(self, index: int) -> LandmarkSums:
        """The sums at the lengthscale of that index."""
        return LandmarkSums(*(np.asarray(leaf)[index] for leaf in self.sums))

    def merged(self, other: Sketch) -> Sketch:
        """The sketch of both sets of rows together.

        Raises:
            InputError: where the two were not made by one plan, or the other is no sketch.
        """
        check_sketch(other, "other")
        if different := self.plan.difference(other.plan):
            raise InputError(
                f"the sketches have different {different}: make the second like the first, with "
                "like=sketch or --like FILE"
            )
        with computing():
            both = (jax.tree.map(jnp.asarray, each.sums) for each in (self, other))
            sums = merged_each(*both)
        return Sketch(self.plan, jax.tree.map(np.asarray, sums))

    def __str__(self) -> str:
        plan = self.plan
        return (
            f"Sketch of {self.rows} rows of {', '.join(plan.columns)}: {len(plan.landmarks)} "
            f"landmarks, {len(plan.lengthscales)} lengthscales from "
            f"{plan.lengthscales[0]:.3g} to {plan.lengthscales[-1]:.3g} units"
        )

    def __repr__(self) -> str:
        return f"<{str(self)[0].lower()}{str(self)[1:]}>"


def check_sketch(value: Any, name: str) -> None:
    """Refuse what is no sketch."""
    if not isinstance(value, Sketch):
        raise InputError(
            f"{name} must be a sketch, see sketch and load_sketch, got {type(value).__name__}"
        )


def sketch(
    X: ArrayLike | Rows | Any,
    *,
    like: Sketch | None = None,
    landmarks: int | ArrayLike | None = None,
    lengthscales: Sequence[float] | None = None,
    kernel: Kernel | type[Kernel] | None = None,
    scale: str | None = "column",
    columns: Sequence[str] | None = None,
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Sketch:
    """Sum over the rows what the landmark model needs of them, at every lengthscale of a grid.

    Sketches of one plan add: :meth:`Sketch.merged`; :func:`compare_sketches` has the posterior, the
    witness and a two-sample test from two of them. The cost is n m^2 for each lengthscale.

    Landmarks at the centres of clusters of ``X`` lie where ``X`` happens to have more rows than
    what it was drawn from, which a test against other rows hears: with few rows it rejects a little
    more often than its level. Places from rows that are in neither sketch,
    ``landmarks=choose_landmarks(rows, 24)``, or a grid do not have that fault.

    Args:
        X: data, shape (n, D) or (n,); or :func:`~bke.inference.open_rows` of a file, which is gone
            through once, or twice where there is nothing to be ``like``; or a collection of Dask or
            a dataset of Ray, once more, whose rows stay where they are: its sketch is that of a
            file of the same rows, up to rounding.
        like: a sketch whose landmarks, lengthscales, kernel and unit are taken over, so that both
            can be compared; the first three may not be given then, ``scale`` and ``seed`` say
            nothing.
        landmarks: how many, at the centres of clusters of ``X``, fewer where clusters have less
            than ten rows; or places (m, D) in the units of the data, such as a grid that was agreed
            upon. By default 64, or one for 40 rows or as many as differ, where that is fewer.
        lengthscales: the grid, over ``scale``; by default 60 from 0.02, or a tenth of the way
            between landmarks, to 8.
        kernel: a kernel with one lengthscale; by default the squared exponential.
        scale: ``"column"`` divides each column by its standard deviation in ``X``, ``"pooled"``
            all by one number, ``None`` by nothing.
        columns: names; by default those of a data frame.
        seed: of the choice of landmarks.
        checkpoint: for rows of a file: the sums so far, and some 20 000 rows as they are, are
            written here twice a minute and when interrupted, and the same call goes on from them;
            it is removed in the end.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    if like is not None:
        check_sketch(like, "like")
    if like is not None and any(each is not None for each in (landmarks, lengthscales, kernel)):
        raise InputError("a sketch like another has its landmarks, lengthscales and kernel")
    if not isinstance(X, Rows) and checkpoint is not None:
        raise InputError("a checkpoint is for rows of a file, see open_rows")
    named = names_of(X) if columns is None else tuple(columns)
    asked = landmarks, lengthscales, kernel, named, seed
    with computing():
        if is_collection(X):
            return _of_parts(Collected.of(X), like, scale, *asked)
        rows: Rows
        if isinstance(X, Rows):
            rows = X
            told = [np.asarray(each).tolist() for each in (landmarks, lengthscales)]
            about = describe_kernel(_family(kernel)), told, scale, seed
            job = {"file": X.fingerprint(), "sketch": about if like is None else _digest(like.plan)}
            kept = Checkpoint(checkpoint, job)
        else:
            data = as_sample(X, may_be_constant=True, columns=named)
            names = default_columns(data.shape[1]) if named is None else named
            rows, kept = ArrayRows(data, Path("X"), names), Checkpoint(None, {})
        if like is not None:
            plan = like.plan
            _check_columns(plan, rows.shape[1], named)
        elif isinstance(X, Rows):
            found = survey(rows, seed, kept, progress=progress)
            plan = _plan(found.sample, unit_of(found.deviation, scale), *asked)
        else:
            as_sample(data, columns=named)  # of a constant column there is no scale
            plan = _plan(data, choose_scale(data, scale), *asked)
        sums = sums_over_rows(
            rows,
            plan.unit,
            plan.landmarks,
            _kernels(plan),
            covariance=True,
            checkpoint=kept,
            progress=progress,
        )
        kept.remove()
    return Sketch(plan, sums)


def _of_parts(
    rows: Collected,
    like: Sketch | None,
    scale: str | None,
    landmarks: Any,
    lengthscales: Sequence[float] | None,
    kernel: Kernel | type[Kernel] | None,
    columns: tuple[str, ...] | None,
    seed: int,
) -> Sketch:
    """Sum over rows in parts, where these are."""
    if like is None:
        found = rows.survey(seed)
        unit = unit_of(found.deviation, scale)
        plan = _plan(found.sample, unit, landmarks, lengthscales, kernel, columns, seed)
    else:
        plan = like.plan
        _check_columns(plan, len(rows.columns), columns)
    return Sketch(plan, rows.sums(plan.unit, plan.landmarks, _kernels(plan)))


def _kernels(plan: SketchPlan) -> list[Kernel]:
    """The kernel at every lengthscale of the grid, over the unit."""
    return [plan.kernel_at(index) for index in range(len(plan.lengthscales))]


def _plan(
    data: np.ndarray,
    unit: np.ndarray,
    landmarks: Any,
    lengthscales: Sequence[float] | None,
    kernel: Kernel | type[Kernel] | None,
    columns: tuple[str, ...] | None,
    seed: int,
) -> SketchPlan:
    family = _family(kernel)
    units = dataclasses.replace(choose_units(data, None, columns), scale=unit)
    dimension = data.shape[1]
    if landmarks is None:
        landmarks = default_count(data / unit, ROWS_EACH, seed)
    places, points = places_for(landmarks, units, data, seed), data / unit
    if np.ndim(landmarks) == 0:
        places = _of_many(places, points)
    if len(places) < dimension:
        raise InputError(
            f"landmarks has {len(places)} rows, but the volume in {dimension} columns needs at "
            f"least {dimension}"
        )
    try:
        check_apart(points[:0], places)
    except ValueError as error:
        raise InputError(str(error)) from None
    grid = np.asarray(_grid(places) if lengthscales is None else lengthscales, dtype=float)
    if grid.ndim != 1 or len(grid) < 2 or not (np.isfinite(grid) & (grid > 0)).all():
        raise InputError("lengthscales must be two or more positive numbers")
    if (np.diff(grid) <= 0).any():
        raise InputError("lengthscales must increase")
    return SketchPlan(family, grid, places, unit, units.columns)


def _family(kernel: Kernel | type[Kernel] | None) -> Kernel:
    try:
        family = template(SquaredExponential if kernel is None else kernel)
    except ValueError as error:
        raise InputError(str(error)) from None
    _site(family)
    return family


def _digest(plan: SketchPlan) -> str:
    """The digest that tells a plan from others."""
    arrays = plan.lengthscales, plan.landmarks, plan.unit
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(each).tobytes() for each in arrays))
    digest.update(json.dumps([describe_kernel(plan.kernel), plan.columns]).encode())
    return digest.hexdigest()


def _of_many(places: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Keep the centres of clusters that are no few rows' average."""
    _, nearest = cKDTree(places).query(points)
    many = np.bincount(nearest, minlength=len(places)) >= FEWEST_IN_CLUSTER
    if many.sum() < places.shape[1]:
        raise InputError(
            f"fewer than {places.shape[1]} clusters of {FEWEST_IN_CLUSTER} rows are found: ask for "
            "fewer landmarks, or give places"
        )
    return np.asarray(places[many])


def _with(kernel: Kernel, lengthscale: Any) -> Kernel:
    return with_values(kernel, {_site(kernel): lengthscale})


def _grid(landmarks: np.ndarray) -> np.ndarray:
    count, shortest, longest = LENGTHSCALES
    if len(landmarks) > 1:
        gaps, _ = cKDTree(landmarks).query(landmarks, k=[2])
        shortest = min(shortest, SHARE_OF_GAP * float(np.median(gaps)))
    return np.geomspace(shortest, longest, count)


def _site(kernel: Kernel) -> str:
    """The name of its lengthscale."""
    lengths = {name: site for name, site in sites(kernel).items() if site.unit == "length"}
    if len(lengths) != 1 or any(site.per_component for site in lengths.values()):
        raise InputError(f"a sketch needs a kernel with one lengthscale, got {kernel!r}")
    return next(iter(lengths))


def _check_columns(plan: SketchPlan, width: int, columns: tuple[str, ...] | None) -> None:
    if width != len(plan.columns):
        raise InputError(
            f"X has {width} columns, but the sketch it is to be like has {len(plan.columns)}"
        )
    both = zip(columns or (), plan.columns, strict=False)
    if any(mine != theirs and mine in plan.columns for mine, theirs in both):
        raise InputError(
            f"X has the columns {', '.join(columns or ())}, and the sketch it is to be like has "
            f"{', '.join(plan.columns)}: give them in that order"
        )
