"""Learn the hyperparameters of kernel Student-t densities from leave-one-out predictions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from bke.models import (
    KernelStudentT,
    Normalizer,
    hyvarinen_scores,
    kernel_student_t,
    leave_one_out_log_densities,
    log_normalizer,
)
from bke.models.kernels.base import Covariance
from bke.models.student_t.quadrature import MAX_DIMENSION, Bounds, check_bounds

from ..core.errors import InputError, check_choice, input_errors
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..core.progress import progress_bar
from ..data.checks import as_sample, check_positive_numbers, column_names
from ..data.new_rows import ordered_rows
from ..learning.kernel_selection import (
    check_factors,
    format_kernel,
    scale_lengthscales,
    select_kernel,
)

if TYPE_CHECKING:
    import pandas as pd

CRITERIA = ("log", "hyvarinen")
NOISE_VARIANCES = (0.1, 1.0, 10.0, 100.0)


def choose_box(
    points: np.ndarray, kernel: Covariance, bounds: Bounds | None, margin: float = 0.5
) -> tuple[np.ndarray, np.ndarray]:
    """Return the corners (D,) of the box that a density of points (N, D) is restricted to.

    Args:
        points: the rows of the density.
        kernel: its kernel.
        bounds: the corners; ``None`` takes the range of every column, extended at each side by
            ``margin`` times its width, or all of R^D for kernels that are not of x - y, whose
            densities fall to zero.
        margin: not tuned.

    Raises:
        InputError: bounds are invalid, or leave out some of the points.
    """
    if bounds is not None:
        with input_errors():
            return check_bounds(points, kernel, bounds)
    if not kernel.translation_invariant:
        return np.full(points.shape[1], -np.inf), np.full(points.shape[1], np.inf)
    low, high = points.min(axis=0), points.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    return low - margin * width, high + margin * width


@dataclasses.dataclass(frozen=True)
class LearnedStudentT(ReprMixin):
    """The best density of a grid of hyperparameters; ``print`` shows a report.

    Attributes:
        density: with the best hyperparameters, given all rows.
        criterion: see :func:`learn_student_t`.
        scores: the score of every combination, larger is better; NaN where a density could not be
            integrated or there is only one combination. Dimensions ``factor`` (of the kernel's
            lengthscale), ``noise_variance``, ``alpha``, ``beta``.
        normalizer: normalizer on the box of the density, ``None`` where it is not known.
        columns: names of the columns of the data frame it was learned from, by which columns of
            points are matched; ``None`` without names.
    """

    density: KernelStudentT
    criterion: str
    scores: xr.DataArray
    normalizer: Normalizer | None
    columns: tuple[str, ...] | None = None

    @property
    def chosen(self) -> dict[str, float]:
        """The best ``factor``, ``noise_variance``, ``alpha`` and ``beta``."""
        return _hyperparameters(_best(self.scores))

    @property
    def at_edge(self) -> tuple[str, ...]:
        """Names of hyperparameters whose best value is the smallest or largest of several tried."""
        return tuple(
            name
            for name, value in self.chosen.items()
            if self.scores.sizes[name] > 1 and value in self.scores[name].values[[0, -1]]
        )

    @property
    def score(self) -> float:
        """The best score; NaN where only one combination was tried."""
        return float(self.scores.max())

    def log_density(self, at: Any) -> np.ndarray:
        """Evaluate log q at points (m, D) or (m,), normalized where that is known; -inf outside.

        Without a normalizer it is up to a constant. Columns of data frames are matched by name.
        """
        rows = ordered_rows(at, self.columns, "at")
        values = np.asarray(self.density.log_density(rows))
        if self.normalizer is None:
            return values
        points = rows.reshape(len(values), -1)
        return np.where(self.normalizer.contains(points), values - self.normalizer.value, -np.inf)

    def typicality(self, at: Any = None) -> np.ndarray:
        """Compute the proportion of rows that have a lower density than each point, (m,).

        The density of a row is that given the other rows, the density of a point that given all
        rows, with the same exponent of s. Values near 0 mean that a point is unlike the rows. For
        points from the distribution of the rows they are about uniform, but they are not p-values
        of an exact test.

        Args:
            at: points, (m, D) or (m,), columns of data frames matched by name. By default the rows
                themselves, each given the others: the proportion of rows with a density that is not
                higher, 1 / N for the most unusual row.
        """
        rows = np.asarray(self.density.leave_one_out_log_density())
        if at is None:
            return np.searchsorted(np.sort(rows), rows, side="right") / len(rows)
        points = self.density.log_density(ordered_rows(at, self.columns, "at"))
        below = np.searchsorted(np.sort(rows), np.asarray(points), side="right")
        return (1.0 + below) / (1.0 + len(rows))

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each combination of hyperparameters, the best first.

        Columns: ``factor``, ``noise_variance``, ``alpha``, ``beta`` and ``score``, see ``scores``.
        """
        table = self.scores.to_dataframe("score").reset_index()
        return table.sort_values("score", ascending=False, ignore_index=True)

    def __str__(self) -> str:
        density, rows = self.density, self.density.rows.data
        lines = [
            f"kernel Student-t density of {len(rows)} rows in {density.dimension} column(s)",
            f"  {format_kernel(density.kernel)}",
            f"  noise variance {density.noise_variance:.4g}, alpha {density.alpha:.4g}, "
            f"beta {density.beta:.4g}",
        ]
        if np.isfinite(self.score):
            name, sign = ("log density", 1) if self.criterion == "log" else ("Hyvarinen score", -1)
            lines.append(f"  mean leave-one-out {name} {sign * self.score:.4g}")
        if self.at_edge:
            lines.append(
                f"  best value of {' and '.join(self.at_edge)} at an end of the values tried: pass "
                "learn_student_t a wider range"
            )
        repeated = 1.0 - len(np.unique(rows, axis=0)) / len(rows)
        if repeated > 0.1:  # not tuned
            lines.append(f"  {repeated:.0%} of the rows repeat others: they may give narrow modes")
        if self.normalizer is None:
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
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> LearnedStudentT:
    """Learn the kernel Student-t density that predicts each row best from the others.

    Args:
        X: shape (n, D) or (n,).
        kernel: ``"median"``, ``"bkl"`` or a kernel, see
            :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        factors: multiples of its lengthscale to try, 1/8 to 4 by default; (1,) keeps it.
        noise_variance: sigma_0^2, relative to k(x, x), one value or several to try.
        alpha: one value or several to try.
        beta: one value or several to try.
        criterion: evaluated at up to 200 random rows, each given all others. ``"log"``: mean log
            density, normalized by quadrature; for 1 or 2 columns, the default there.
            ``"hyvarinen"``: score matching, for any number of columns and kernels that are twice
            differentiable.
        bounds: the box the density is restricted to, lower and upper corner, each (D,) or a number;
            by default the range of the rows, extended by half of it at each side.
        standardize: unit of the columns for the choice of the kernel.
        seed: seed of the choice of the kernel and of the rows.
        progress: show a progress bar.

    Raises:
        InputError: the data or an argument are invalid, or no density could be integrated.
    """
    points = as_sample(X)
    small = points.shape[1] <= MAX_DIMENSION
    criterion = ("log" if small else "hyvarinen") if criterion is None else criterion
    check_choice(criterion, "criterion", CRITERIA)
    if criterion == "log" and not small:
        raise InputError(
            f"criterion='log' needs a normalizer, which is found in up to {MAX_DIMENSION} "
            f"columns, and there are {points.shape[1]}: take 'hyvarinen'"
        )
    initial = select_kernel(points, kernel, standardize=standardize, seed=seed)
    values = {"factor": check_factors(factors, (0.125, 0.25, 0.5, 1.0, 2.0, 4.0), initial)}
    for name, value in (("noise_variance", noise_variance), ("alpha", alpha), ("beta", beta)):
        values[name] = tuple(sorted(set(check_positive_numbers(value, name))))
    box = choose_box(points, initial, bounds)
    scored = np.sort(np.random.default_rng(seed).permutation(len(points))[:200])

    def condition(score: xr.DataArray) -> KernelStudentT:
        values = _hyperparameters(score)
        return kernel_student_t(points, scale_lengthscales(initial, values.pop("factor")), **values)

    coords = {name: list(options) for name, options in values.items()}
    scores = xr.DataArray(np.nan, dims=list(values), coords=coords, name="score")
    with computing():
        if scores.size > 1:
            failure = ""
            with progress_bar("densities", scores.size, show=progress) as advance:
                for index in np.ndindex(scores.shape):
                    try:
                        density = condition(scores[index])
                        scores[index] = _score(density, criterion, box, scored)
                    except ValueError as error:
                        raise InputError(str(error)) from None
                    except ArithmeticError as error:
                        failure = str(error)
                    advance(1)
            if not np.any(np.isfinite(scores)):
                raise InputError(f"no density of the grid has a finite score: {failure}")
        density = condition(_best(scores))
        normalizer = _find_normalizer(density, box) if small else None
    return LearnedStudentT(density, criterion, scores, normalizer, column_names(X))


def _best(scores: xr.DataArray) -> xr.DataArray:
    """Return the largest score, (), with its coordinates."""
    index: Any = scores.fillna(-np.inf).argmax(...)
    return scores[index]


def _hyperparameters(score: xr.DataArray) -> dict[str, float]:
    """Return the coordinates of a score, ()."""
    return {str(name): float(value) for name, value in score.coords.items()}


def _score(
    density: KernelStudentT, criterion: str, box: tuple[np.ndarray, np.ndarray], rows: np.ndarray
) -> float:
    """Compute the mean score of some rows; larger is better."""
    if criterion == "log":
        return float(np.mean(leave_one_out_log_densities(density, box, rows=rows)))
    value = -float(np.mean(np.asarray(hyvarinen_scores(density, rows=rows))))
    if not np.isfinite(value):
        raise ArithmeticError("the Hyvarinen score is not finite: is the kernel smooth enough?")
    return value


def _find_normalizer(density: KernelStudentT, box: tuple[np.ndarray, np.ndarray]) -> Normalizer:
    """Compute the normalizer to 1e-6, or 1e-3 where that fails, as for kinks in two columns."""
    for tolerance in (1e-6, 1e-3):
        try:
            return log_normalizer(density, box, tolerance=tolerance)
        except ArithmeticError as error:
            failure = str(error)
    raise InputError(failure)
