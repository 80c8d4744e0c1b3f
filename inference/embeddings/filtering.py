"""A kernel Bayes filter whose kernels and regularisation are found from its training series."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from bke.models import KernelBayesFilter, kernel_bayes_filter
from bke.models.kernels.base import Covariance
from bke.models.kernels.parameters import lengths_of

from ..core.errors import InputError
from ..core.notebook import Shown
from ..core.progress import progress_bar
from ..data.checks import as_sample, check_positive
from ..learning.kernel_selection import (
    check_factors,
    format_kernel,
    scale_lengthscales,
    select_kernel,
)

if TYPE_CHECKING:
    import pandas as pd

#: Multiples of both lengthscales, and of 1/T for epsilon, that are compared.
FACTORS = (0.25, 0.5, 1.0)
REGULARISATIONS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: Steps of each fold that are filtered, at most.
VALIDATED = 200
#: Tolerance of the factorisations over epsilon, while settings are compared.
TOLERANCE = 0.01
#: Multiples of delta that are compared for smoothing.
SMOOTHINGS = (1.0, 10.0, 100.0, 1000.0)


@dataclasses.dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        factor: of both lengthscales.
        regularisation: epsilon times the number of training rows.
        error: mean squared error of the posterior mean on the halves held out, over the variance of
            each column of the states: 1 is what their mean would have. Infinite where the filter
            failed.
    """

    factor: float
    regularisation: float
    error: float


@dataclasses.dataclass(frozen=True)
class LearnedFilter(Shown):
    """What :func:`learn_filter` returns.

    Attributes:
        filter: learned from the whole series at the best setting.
        trials: all settings, the best first.
        smoothed_error: of the smoothed means, as ``trials`` tell that of the filter's.
    """

    filter: KernelBayesFilter
    trials: tuple[Trial, ...]
    smoothed_error: float

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each setting that was tried, the best first.

        Columns: those of :class:`Trial`: ``factor``, ``regularisation`` and ``error``.
        """
        import pandas as pd

        header = [field.name for field in dataclasses.fields(Trial)]
        rows = [[getattr(one, name) for name in header] for one in self.trials]
        return pd.DataFrame(rows, columns=header)

    def _answer(self) -> str:
        return ""  # all of it

    def __str__(self) -> str:
        best = self.trials[0]
        lines = [
            f"States: {format_kernel(self.filter.observation.kernel_x)}",
            f"Observations: {format_kernel(self.filter.observation.kernel_y)}",
            f"regularisation {best.regularisation:g} / {len(self.filter.states)}, lengthscales "
            f"times {best.factor:g}: root mean squared error {best.error**0.5:.4g} standard "
            f"deviations of the states on held out halves, the best of {len(self.trials)} "
            f"settings; smoothed {self.smoothed_error**0.5:.4g}",
        ]
        worst = [trial for trial in self.trials if not np.isfinite(trial.error)]
        if worst:
            lines.append(f"{len(worst)} settings failed: the weights summed to nothing")
        return "\n".join(lines)


def learn_filter(
    X: Any,
    Y: Any,
    *,
    kernel_x: str | Covariance = "bkl",
    kernel_y: str | Covariance = "bkl",
    factors: Sequence[float] | None = None,
    regularisations: Sequence[float] = REGULARISATIONS,
    scale: str | None = "column",
    seed: int = 0,
    tolerance: float | None = None,
    rank: int | None = None,
    progress: bool = True,
) -> LearnedFilter:
    """Learn a filter from one training series, settings by cross-validation in two halves.

    Each half trains a filter that is run on the other, at most 200 steps of it, for every factor of
    both lengthscales and every regularisation; epsilon is that over the number of rows, delta twice
    epsilon. At the best, four regularisations of the smoother are compared likewise. Observations
    far from all of the training half are left out, so that the error is that of a prediction.

    Args:
        X: states in order of time, shape (T, D) or (T,).
        Y: observations, row by row, shape (T, E) or (T,).
        kernel_x: ``"bkl"``, learned from the states; ``"median"``; or a kernel. See
            :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        kernel_y: of the observations, as ``kernel_x`` of the states.
        factors: of both lengthscales, a quarter to 1 by default; 1 where a kernel has none.
        regularisations: epsilon times the number of rows.
        scale: see :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        seed: likewise.
        tolerance: see :func:`~bke.models.kernel_bayes_filter`; while settings are compared a
            hundredth of epsilon by default.
        rank: likewise.
        progress: show a progress bar.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence, or where the filter
            fails at every setting.
    """
    states, outputs = _checked_series(X, Y)
    if len(regularisations) == 0:
        raise InputError("regularisations must hold at least one number")
    for value in regularisations:
        check_positive(value, "a regularisation")
    of_x = select_kernel(states, kernel_x, scale=scale, seed=seed, name="X")
    of_y = select_kernel(outputs, kernel_y, scale=scale, seed=seed, name="Y")
    without = [kernel for kernel in (of_x, of_y) if not lengths_of(kernel)]
    multiples = check_factors(factors, FACTORS, without[0] if without else of_x)
    series = _Series(states, outputs, of_x, of_y, tolerance, rank)
    settings = [(factor, value) for factor in multiples for value in regularisations]
    with progress_bar("settings", len(settings), shown=progress and len(settings) > 1) as advance:
        trials = []
        for setting in settings:
            trials.append(Trial(*setting, series.error(*setting)))
            advance(1)
    trials.sort(key=lambda trial: trial.error)
    best = trials[0].factor, trials[0].regularisation
    if not np.isfinite(trials[0].error):
        raise InputError(
            "the filter's weights sum to nothing at every setting: try larger regularisations or "
            "wider kernels"
        )
    smoothed = series.smoothed_errors(*best)
    multiple = SMOOTHINGS[int(np.argmin(smoothed))]
    found = _smoothing_with(series.learned(slice(None), *best, final=True), multiple)
    return LearnedFilter(found, tuple(trials), min(smoothed))


def _checked_series(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """States and observations, row by row, long enough for two halves."""
    states, outputs = as_sample(X, "X"), as_sample(Y, "Y")
    if len(states) != len(outputs):
        raise InputError(f"X has {len(states)} rows and Y has {len(outputs)}, not pairs")
    if len(states) < 8:
        raise InputError(f"two halves need at least 8 rows, got {len(states)}")
    return states, outputs


@dataclasses.dataclass(frozen=True)
class _Series:
    """A training series whose halves are held out in turn.

    Attributes:
        states: (T, D).
        outputs: observations, (T, E).
        kernel_x: of the states, before its lengthscale is multiplied.
        kernel_y: of the observations, likewise.
        tolerance: of the factorisations, ``None`` to choose it.
        rank: of the factorisations, at most.
    """

    states: np.ndarray
    outputs: np.ndarray
    kernel_x: Covariance
    kernel_y: Covariance
    tolerance: float | None
    rank: int | None

    def learned(
        self, rows: slice, factor: float, regularisation: float, final: bool = False
    ) -> KernelBayesFilter:
        """Train a filter on some rows; a rough one unless it is ``final``."""
        part = self.states[rows]
        epsilon = regularisation / len(part)
        rough = None if final else min(TOLERANCE * epsilon, TOLERANCE)
        return kernel_bayes_filter(
            part,
            self.outputs[rows],
            scale_lengthscales(self.kernel_x, factor),
            scale_lengthscales(self.kernel_y, factor),
            regularisation=epsilon,
            tolerance=rough if self.tolerance is None else self.tolerance,
            rank=self.rank,
        )

    @property
    def folds(self) -> list[tuple[slice, slice]]:
        """The rows to train on, and the start of the others, which are filtered."""
        rows = len(self.states)
        first, second = slice(0, rows // 2), slice(rows // 2, rows)
        return [
            (training, slice(held.start, min(held.start + VALIDATED, held.stop)))
            for training, held in ((first, second), (second, first))
        ]

    def error(self, factor: float, regularisation: float) -> float:
        """The mean squared error of the filter on the halves held out; infinite where it fails."""
        total = 0.0
        for training, held in self.folds:
            try:
                model = self.learned(training, factor, regularisation)
                found = model.filter(self.outputs[held], outliers="skip")
            except ArithmeticError:
                return np.inf
            total += self._squares(found.mean(), held)
        return total / self._steps

    def smoothed_errors(self, factor: float, regularisation: float) -> list[float]:
        """The mean squared errors of the smoother, with each of :data:`SMOOTHINGS`."""
        totals = np.zeros(len(SMOOTHINGS))
        for training, held in self.folds:
            model = self.learned(training, factor, regularisation)
            filtered = model.filter(self.outputs[held], outliers="skip")
            for index, multiple in enumerate(SMOOTHINGS):
                try:
                    found = _smoothing_with(model, multiple).smooth(filtered).mean()
                    totals[index] += self._squares(found, held)
                except ArithmeticError:
                    totals[index] = np.inf
        return list(totals / self._steps)

    @property
    def _steps(self) -> int:
        """How many steps are filtered in all."""
        return sum(held.stop - held.start for _, held in self.folds)

    def _squares(self, found: np.ndarray, held: slice) -> float:
        """Squared errors over each column's variance, averaged over columns, summed over rows."""
        spread = self.states.std(axis=0)
        spread[spread == 0.0] = 1.0  # a column that is the same throughout has no error
        return float(np.sum(np.mean(((found - self.states[held]) / spread) ** 2, axis=1)))


def _smoothing_with(model: KernelBayesFilter, multiple: float) -> KernelBayesFilter:
    """Give ``model`` that multiple of delta for smoothing."""
    delta = multiple * model.posterior_regularisation
    return dataclasses.replace(model, smoothing_regularisation=delta)
