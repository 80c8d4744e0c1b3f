"""Hyperparameters of a kernel Student-t density by how well rows are predicted by the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from bke.models import (
    KernelStudentT,
    Normaliser,
    hyvarinen_scores,
    kernel_student_t,
    leave_one_out_log_densities,
    log_normaliser,
)
from bke.models.kernels.base import Covariance
from bke.models.student_t.normaliser import Bounds
from bke.models.student_t.quadrature import MOST_DIMENSIONS

from ..core.errors import InputError, nearest
from ..core.machine import computing
from ..core.notebook import Shown
from ..core.progress import progress_bar
from ..data.checks import as_sample, check_positive
from ..learning.kernel_selection import (
    check_factors,
    format_kernel,
    scale_lengthscales,
    select_kernel,
)
from .box import box_for

if TYPE_CHECKING:
    import pandas as pd

CRITERIA = ("log", "hyvarinen")
FACTORS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
NOISE_VARIANCES = (0.1, 1.0, 10.0, 100.0)
#: Rows that are left out, each once, to tell how well they are predicted.
MOST_SCORED = 200
#: Of the integral of the best one, relative: the second where the first is out of reach.
TOLERANCES = (1e-6, 1e-3)
#: Share of rows equal to others from which on the report says so.
MANY_TIES = 0.1


@dataclasses.dataclass(frozen=True)
class LearnedStudentT(Shown):
    """The best density of a grid; prints as a report.

    Attributes:
        density: with the best hyperparameters, of all rows.
        criterion: what was compared, see :func:`learn_student_t`.
        scores: of every combination, larger is better, NaN where a density could not be integrated
            or there is only one; dims ``factor`` (of the kernel's lengthscale), ``noise_variance``,
            ``alpha``, ``beta``.
        at_edge: names of what is best at an end of the values tried.
        normaliser: of the density on its box, ``None`` where it is not known.
    """

    density: KernelStudentT
    criterion: str
    scores: xr.DataArray
    at_edge: tuple[str, ...]
    normaliser: Normaliser | None

    @property
    def chosen(self) -> dict[str, float]:
        """The best ``factor``, ``noise_variance``, ``alpha`` and ``beta``."""
        best = np.unravel_index(np.nanargmax(self.scores.fillna(-np.inf)), self.scores.shape)
        return {
            str(name): float(self.scores[name][index])
            for name, index in zip(self.scores.dims, best, strict=True)
        }

    @property
    def score(self) -> float:
        """The best score; NaN where nothing was compared."""
        return float(self.scores.max())

    def log_density(self, at: Any) -> np.ndarray:
        """Evaluate log q at points (m, D) or (m,), normalised where that is known; -inf outside.

        Without a normaliser it is up to a constant.
        """
        values = np.asarray(self.density.log_density(at))
        if self.normaliser is None:
            return values
        points = np.asarray(at, dtype=float).reshape(len(values), -1)
        return np.where(self.normaliser.contains(points), values - self.normaliser.value, -np.inf)

    def typicality(self, at: Any = None) -> np.ndarray:
        """Compare points with rows: the share of rows that are less likely than each, (m,).

        The likelihood of a row is that given the others, that of a point given all rows.

        Near 0 for what is unlike the rows; of points from the same distribution about uniform, but
        no p-value of an exact test. Rows and points are compared by the same power of s.

        Args:
            at: points, (m, D) or (m,). By default the rows themselves, each given the others: the
                share of rows that are no more likely, 1 / N for the most unusual.
        """
        of = self.density
        rows = np.asarray(of.log_density_of_rows())
        if at is None:
            return np.searchsorted(np.sort(rows), rows, side="right") / len(rows)
        below = np.searchsorted(np.sort(rows), np.asarray(of.log_density(at)), side="right")
        return (1.0 + below) / (1.0 + len(rows))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each combination of hyperparameters that was tried, the best first.

        Columns: ``factor``, ``noise_variance``, ``alpha``, ``beta`` and ``score``, see ``scores``.
        """
        found = self.scores.to_dataframe("score").reset_index()
        return found.sort_values("score", ascending=False, ignore_index=True)

    def __str__(self) -> str:
        of = self.density
        lines = [
            f"kernel Student-t density of {len(of.rows.data)} rows in {of.dimension} column(s)",
            f"  {format_kernel(of.kernel)}",
            f"  noise variance {of.noise_variance:.4g}, alpha {of.alpha:.4g}, beta {of.beta:.4g}",
        ]
        if np.isfinite(self.score):
            what, sign = ("log density", 1) if self.criterion == "log" else ("Hyvarinen score", -1)
            lines.append(f"  mean {what} of a row given the others {sign * self.score:.4g}")
        if self.at_edge:
            lines.append(
                f"  {' and '.join(self.at_edge)} best at an end of the values tried: "
                "learn_student_t takes others"
            )
        rows = of.rows.data
        tied = 1.0 - len(np.unique(rows, axis=0)) / len(rows)
        if tied > MANY_TIES:
            lines.append(f"  {tied:.0%} of the rows repeat others: modes may be spikes at these")
        if self.normaliser is None:
            lines.append("  known up to a constant")
        return "\n".join(lines)


def learn_student_t(
    X: Any,
    *,
    kernel: str | Covariance = "median",
    factors: Sequence[float] | None = None,
    noise_variance: float | Sequence[float] = NOISE_VARIANCES,
    alpha: float | Sequence[float] = 1.0,
    beta: float | Sequence[float] = 0.01,
    criterion: str | None = None,
    bounds: Bounds | None = None,
    scale: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> LearnedStudentT:
    """Learn the kernel Student-t density that predicts each row best from the others.

    Args:
        X: shape (n, D) or (n,).
        kernel: ``"median"``, ``"bkl"`` or a kernel, see
            :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        factors: of its lengthscale that are tried, 1/8 to 4 by default; (1,) keeps it.
        noise_variance: sigma_0^2, one or several to try, beside k(x, x).
        alpha: one or several to try.
        beta: one or several to try.
        criterion: of 200 random rows at most, each given all others. ``"log"``, their mean log
            density, normalised by quadrature: for 1 or 2 columns, the default there.
            ``"hyvarinen"``, of score matching, for any number of columns; the kernel must be twice
            differentiable.
        bounds: the box the density is restricted to, lower and upper corner, each (D,) or a number;
            by default the range of the rows and half of it more at each side.
        scale: of the columns, for the kernel's choice.
        seed: of the kernel's choice, and of the rows that are left out.
        progress: whether a bar is shown.

    Raises:
        InputError: for data or arguments that make no sense; no density could be integrated.
    """
    points = as_sample(X)
    chosen = _criterion(criterion, points.shape[1])
    start = select_kernel(points, kernel, scale=scale, seed=seed)
    grid = _Grid(
        points,
        start,
        {
            "factor": check_factors(factors, FACTORS, start),
            "noise_variance": _values(noise_variance, "noise_variance"),
            "alpha": _values(alpha, "alpha"),
            "beta": _values(beta, "beta"),
        },
    )
    box = box_for(points, start, bounds)
    scored = np.sort(np.random.default_rng(seed).permutation(len(points))[:MOST_SCORED])
    with computing():
        scores = grid.scores(lambda density: _score(density, chosen, box, scored), progress)
        # With nothing to compare there is nothing to score.
        flat = np.nanargmax(scores) if scores.size > 1 else 0
        best = tuple(map(int, np.unravel_index(flat, scores.shape)))
        found = grid.density(best)
        small = points.shape[1] <= MOST_DIMENSIONS
        normaliser = _normaliser(found, box) if small else None
    values = grid.values
    table = xr.DataArray(
        scores, dims=list(values), coords={k: list(v) for k, v in values.items()}, name="score"
    )
    return LearnedStudentT(found, chosen, table, grid.at_edge(best), normaliser)


class _Grid(NamedTuple):
    """Densities of the same rows with every combination of hyperparameters."""

    points: np.ndarray  # (N, D)
    kernel: Covariance
    values: dict[str, tuple[float, ...]]  # of "factor", of the lengthscale, and the others

    def density(self, index: tuple[int, ...]) -> KernelStudentT:
        """The density of one combination, by the place of each value."""
        each = zip(self.values.items(), index, strict=True)
        chosen = {name: values[place] for (name, values), place in each}
        kernel = scale_lengthscales(self.kernel, chosen.pop("factor"))
        return kernel_student_t(self.points, kernel, **chosen)

    def scores(self, score: Callable[[KernelStudentT], float], progress: bool) -> np.ndarray:
        """The score of every combination, NaN where it fails, or where there is but one.

        Raises:
            InputError: no score is finite.
        """
        found = np.full([len(values) for values in self.values.values()], np.nan)
        if found.size == 1:
            return found
        failed = ""
        with progress_bar("densities", found.size, shown=progress) as advance:
            for index in np.ndindex(found.shape):
                try:
                    found[index] = score(self.density(index))
                except ValueError as error:
                    raise InputError(str(error)) from None
                except ArithmeticError as error:
                    failed = str(error)
                advance(1)
        if not np.any(np.isfinite(found)):
            raise InputError(f"no density of the grid has a finite score: {failed}")
        return found

    def at_edge(self, best: tuple[int, ...]) -> tuple[str, ...]:
        """The hyperparameters that are best at an end of several values."""
        return tuple(
            name
            for (name, values), place in zip(self.values.items(), best, strict=True)
            if len(values) > 1 and place in (0, len(values) - 1)
        )


def _criterion(given: str | None, dimension: int) -> str:
    """The criterion for so many columns, the log density where it can be normalised."""
    small = dimension <= MOST_DIMENSIONS
    chosen = given or ("log" if small else "hyvarinen")
    if chosen not in CRITERIA:
        raise InputError(
            f"criterion must be one of {CRITERIA}, got {given!r}{nearest(given, CRITERIA)}"
        )
    if chosen == "log" and not small:
        raise InputError(
            f"criterion='log' needs a normaliser, which is found in up to {MOST_DIMENSIONS} "
            f"columns, and there are {dimension}: take 'hyvarinen'"
        )
    return chosen


def _normaliser(density: KernelStudentT, box: tuple[np.ndarray, np.ndarray]) -> Normaliser:
    """Find the normaliser, less exactly where it has to be, as for kinks in two columns."""
    for tolerance in TOLERANCES:
        try:
            return log_normaliser(density, box, tolerance=tolerance)
        except ArithmeticError as error:
            reason = str(error)
    raise InputError(reason)


def _score(
    density: KernelStudentT,
    criterion: str,
    box: tuple[np.ndarray, np.ndarray],
    rows: np.ndarray,
) -> float:
    """Score a density by a mean over some of the rows; larger is better."""
    if criterion == "log":
        return float(np.mean(leave_one_out_log_densities(density, box, rows=rows)))
    value = -float(np.mean(np.asarray(hyvarinen_scores(density, rows=rows))))
    if not np.isfinite(value):
        raise ArithmeticError("the Hyvarinen score is not finite: is the kernel smooth enough?")
    return value


def _values(given: float | Sequence[float], name: str) -> tuple[float, ...]:
    """Check one positive number or several, and sort them."""
    values = tuple(check_positive(one, name) for one in np.atleast_1d(np.asarray(given, object)))
    if not values:
        raise InputError(f"{name} must hold at least one number")
    return tuple(sorted(set(values)))
