"""Conditional embeddings and kernel Bayes filters with kernels and regularization from the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from bke.models import (
    ConditionalEmbedding,
    ConditionalPosterior,
    KernelBayesFilter,
    StateEstimates,
    choose_landmarks,
    conditional_posterior,
    kernel_bayes_filter,
    log_conditional_evidence,
)
from bke.models.embeddings.conditional import (
    REGULARIZATION_SCORES,
    check_regularization,
    choose_regularization,
    low_rank_features,
)
from bke.models.kernels.base import Covariance, Kernel
from bke.models.kernels.covariance import length_parameters
from bke.models.linalg.clustering import column_scale
from numpy.typing import ArrayLike

from .core.errors import InputError, check_choice, input_errors
from .core.machine import computing
from .core.notebook import ReprMixin
from .core.progress import progress_bar
from .data.checks import (
    as_sample,
    check_count,
    check_positive_numbers,
    check_same_rows,
    column_names,
)
from .data.new_rows import ordered_rows
from .io.samples import warn_of_sentinels
from .learning.kernel_selection import (
    check_factors,
    format_kernel,
    scale_lengthscales,
    select_kernel,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True, repr=False)
class LearnedConditionalEmbedding(ConditionalEmbedding):
    """A conditional embedding that matches columns of new rows by name, see ``ordered_rows``."""

    def _points(self, x: ArrayLike) -> np.ndarray:
        return super()._points(ordered_rows(x, self.features.columns, "x"))


@dataclasses.dataclass(frozen=True, repr=False)
class LearnedKernelBayesFilter(KernelBayesFilter):
    """A kernel Bayes filter that matches columns of observations by name, see ``ordered_rows``."""

    def filter(self, Y: ArrayLike, **options: Any) -> StateEstimates:
        """Estimate the state at each step, see :meth:`~bke.models.KernelBayesFilter.filter`.

        Args:
            Y: observations, (S, E) or (S,), columns of data frames in any order.
            **options: of :meth:`~bke.models.KernelBayesFilter.filter`.

        Raises:
            ValueError: columns do not match, or an observed row has a missing, masked or infinite
                value.
        """
        return super().filter(ordered_rows(Y, self.features_y.columns, "Y"), **options)


def learn_conditional(
    X: Any,
    Y: Any,
    *,
    kernel_x: str | Covariance = "bkl",
    kernel_y: str | Covariance = "bkl",
    regularization: str | float = "leave-one-out",
    factors: Sequence[float] | None = None,
    standardize: str | None = "column",
    seed: int = 0,
    tolerance: float | None = None,
    rank: int | None = None,
) -> LearnedConditionalEmbedding:
    """Learn the conditional embedding of Y given X, its kernels and regularization from the pairs.

    The best kernel of X for a regression need not be that of its distribution: multiples of its
    lengthscale are compared together with lambda, by one score. The kernel of Y defines what is
    predicted, so it stays as chosen.

    Args:
        X: the conditioning variable, shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        kernel_x: ``"bkl"``, learned from X alone; ``"median"``; or a kernel. See
            :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        kernel_y: as ``kernel_x``, of Y.
        regularization: ``"leave-one-out"``, the error at rows left out (Muandet et al. 2017,
            section 4.2); ``"marginal-likelihood"``, of the features of Y as Gaussian processes of
            x; or lambda, a number, with which the kernel of X stays as chosen.
        factors: multiples of the lengthscale of X that are compared, (0.25, 0.5, 1, 2) by default;
            (1,) keeps the kernel, as for one that has no lengthscale.
        standardize: see :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        seed: seed for the subsample from which kernels are chosen, with many rows.
        tolerance: for the incomplete Cholesky factorizations, see
            :func:`~bke.models.conditional_embedding`.
        rank: largest rank of the factorizations.

    Raises:
        InputError: for invalid data or arguments, in one sentence.
    """
    inputs, outputs = _pairs(X, Y)
    by_score = isinstance(regularization, str)
    if not by_score:
        with input_errors():
            check_regularization(regularization, "regularization")
    elif regularization not in REGULARIZATION_SCORES:
        raise InputError(
            f"regularization must be a number or one of {tuple(REGULARIZATION_SCORES)}"
        )
    kernel_y = select_kernel(outputs, kernel_y, standardize=standardize, seed=seed, name="Y")
    kernel_x = select_kernel(inputs, kernel_x, standardize=standardize, seed=seed, name="X")
    multiples = check_factors(factors, (0.25, 0.5, 1.0, 2.0) if by_score else (1.0,), kernel_x)
    if not by_score and len(multiples) > 1:
        raise InputError("with a number as regularization nothing is compared: give one factor")
    candidates = [
        low_rank_features(
            inputs, scale_lengthscales(kernel_x, factor), tolerance=tolerance, rank=rank
        )
        for factor in multiples
    ]
    best, value = candidates[0], regularization
    if isinstance(regularization, str):
        targets = low_rank_features(outputs, kernel_y, tolerance=tolerance, rank=rank).values
        choices = [
            (features, *choose_regularization(features.values, targets, regularization))
            for features in candidates
        ]
        best, value, _ = min(choices, key=lambda choice: choice[2])
    best = dataclasses.replace(best, columns=column_names(X))
    return LearnedConditionalEmbedding(best, outputs, kernel_y, float(value), column_names(Y))


def learn_conditional_posterior(
    X: Any,
    Y: Any,
    *,
    kernel_x: str | Covariance = "median",
    kernel_y: str | Kernel = "bkl",
    landmarks: int = 20,
    standardize: str | None = "column",
    seed: int = 0,
    factors: Sequence[float] | None = None,
    regularizations: Sequence[float] | None = None,
    min_weight: float = 1e-2,
) -> ConditionalPosterior:
    """Learn the posterior of conditional expectations of Y given X, its hyperparameters included.

    The lengthscale of Y maximizes the marginal likelihood of Y, BKE (13). Given it the lengthscale
    of X and the regularization, with log-uniform priors, are integrated out by quadrature of
    :func:`~bke.models.log_conditional_evidence`. :func:`~bke.models.conditional_model` also has a
    posterior of the lengthscale of Y.

    Pointwise bands of 80 % had a coverage of 0.84 to 0.88, and those of 95 % 0.93 to 0.98, for f =
    y, y^2, exp(y) and the indicator of y > 0 in 100 data sets of 100 rows with linear and sine
    means (``benchmarks/conditional_posterior.py``). Noise has one variance for all x: where its
    standard deviation grew with abs(x), bands of the indicator had 0.78 and 0.94.

    Args:
        X: the conditioning variable, shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X; a few thousand rows at most.
        kernel_x: ``"median"``, ``"bkl"`` or a kernel, whose lengthscale is multiplied by
            ``factors``. See :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        kernel_y: ``"bkl"``, ``"median"`` or a kernel.
        landmarks: number of points at which the kernel of Y is evaluated. With half or twice as
            many, lengthscales of X differ by less than a tenth.
        standardize: see :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        seed: seed of the landmarks, and of the subsample from which kernels are chosen.
        factors: multiples of the lengthscale of X, by default from 1/16 to 16.
        regularizations: values of lambda, relative to k(x, x), by default from 0.0001 to 100.
        min_weight: points of lower posterior weight, relative to the largest, are left out.

    Raises:
        InputError: for invalid data or arguments, in one sentence.
    """
    inputs, outputs = _pairs(X, Y)
    check_count(landmarks, "landmarks", 1, 1000)
    smoothed = select_kernel(outputs, kernel_y, standardize=standardize, seed=seed, name="Y")
    if not isinstance(smoothed, Kernel):
        raise InputError(f"kernel_y must be a kernel that can be smoothed, got {smoothed!r}")
    kernel_x = select_kernel(inputs, kernel_x, standardize=standardize, seed=seed, name="X")
    multiples = check_factors(factors, tuple(2.0 ** np.arange(-4.0, 4.5, 0.5)), kernel_x)
    values = check_positive_numbers(
        np.logspace(-4, 2, 21) if regularizations is None else regularizations, "regularizations"
    )
    kernels = [scale_lengthscales(kernel_x, factor) for factor in multiples]
    with computing(), input_errors():
        count = max(outputs.shape[1], min(landmarks, len(np.unique(outputs, axis=0))))
        points = choose_landmarks(outputs, count, seed=seed)
        evidence = jax.jit(log_conditional_evidence)
        grid = [(kernel, value) for kernel in kernels for value in values]
        data = (inputs, outputs, points)
        logs = np.array([float(evidence(*data, k, smoothed, value)) for k, value in grid])
        weights = np.exp(logs - np.nanmax(logs))
        used = np.flatnonzero(weights >= min_weight)
        return conditional_posterior(
            X, Y, [grid[i][0] for i in used], [grid[i][1] for i in used], weights=weights[used]
        )


def _pairs(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return X (n, D) and Y (n, E) as checked samples with the same number of rows."""
    check_same_rows(X=X, Y=Y)
    inputs, outputs = as_sample(X, "X"), as_sample(Y, "Y")
    for name, data, values in (("X", X, inputs), ("Y", Y, outputs)):
        warn_of_sentinels(name, column_names(data), values)
    if len(inputs) != len(outputs):
        raise InputError(f"X has {len(inputs)} rows and Y has {len(outputs)}, not pairs")
    return inputs, outputs


@dataclasses.dataclass(frozen=True)
class Trial:
    """A setting that was compared, with its cross-validated error.

    Attributes:
        factor: of both lengthscales.
        regularization: epsilon times the number of training rows.
        error: mean squared error of the posterior mean on the halves held out, over the variance of
            each column of the states: 1 for a prediction by their mean. Infinite where the filter
            failed.
    """

    factor: float
    regularization: float
    error: float


@dataclasses.dataclass(frozen=True)
class LearnedFilter(ReprMixin):
    """The result of :func:`learn_filter`.

    Attributes:
        filter: learned from the whole series at the best setting.
        trials: all settings, the best first.
        smoothed_error: error of the smoothed means, on the scale of :attr:`Trial.error`.
    """

    filter: KernelBayesFilter
    trials: tuple[Trial, ...]
    smoothed_error: float

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each setting, the best first.

        Columns: those of :class:`Trial`: ``factor``, ``regularization`` and ``error``.
        """
        import pandas as pd

        return pd.DataFrame(list(self.trials))

    def __str__(self) -> str:
        best = self.trials[0]
        lines = [
            f"Root mean squared error {best.error**0.5:.4g} standard deviations of the states on "
            f"held out halves, the best of {len(self.trials)} settings: regularization "
            f"{best.regularization:g} / {len(self.filter.states)}, lengthscales times "
            f"{best.factor:g}; smoothed {self.smoothed_error**0.5:.4g}",
            f"States: {format_kernel(self.filter.observation.kernel_x)}",
            f"Observations: {format_kernel(self.filter.observation.kernel_y)}",
        ]
        failed = sum(not np.isfinite(trial.error) for trial in self.trials)
        if failed:
            lines.append(f"{failed} settings failed: the weights summed to nothing")
        return "\n".join(lines)


def learn_filter(
    X: Any,
    Y: Any,
    *,
    kernel_x: str | Covariance = "bkl",
    kernel_y: str | Covariance = "bkl",
    method: str = "squared",
    factors: Sequence[float] | None = None,
    regularizations: Sequence[float] = (1e-3, 1e-2, 1e-1, 1.0, 10.0),
    standardize: str | None = "column",
    seed: int = 0,
    tolerance: float | None = None,
    rank: int | None = None,
    progress: bool = True,
) -> LearnedFilter:
    """Learn a filter from one training series, its settings by cross-validation in two halves.

    Each half trains a filter that is run on the other, at most 200 steps of it, for every factor of
    both lengthscales and every regularization; epsilon is that over the number of rows, delta the
    default for it. At the best, 1, 10, 100 and 1000 times delta are compared for the smoother.
    Observations far from all of the training half are skipped, so that the error is that of a
    prediction.

    Args:
        X: states in order of time, shape (T, D) or (T,).
        Y: observations, row by row, shape (T, E) or (T,).
        kernel_x: ``"bkl"``, learned from the states; ``"median"``; or a kernel. See
            :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        kernel_y: kernel of the observations, as ``kernel_x``.
        method: ``"squared"`` or ``"importance"``, see :func:`~bke.models.bayes_rule`.
        factors: of both lengthscales, (0.25, 0.5, 1) by default; 1 where a kernel has none.
        regularizations: epsilon times the number of rows.
        standardize: see :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        seed: seed for the subsample from which kernels are chosen, with many rows.
        tolerance: see :func:`~bke.models.kernel_bayes_filter`; while settings are compared a
            hundredth of epsilon by default.
        rank: largest rank of the factorizations.
        progress: show a progress bar.

    Raises:
        InputError: for invalid data or arguments, in one sentence, or where the filter fails at
            every setting.
    """
    check_choice(method, "method", ("squared", "importance"))
    states, outputs = _pairs(X, Y)
    if len(states) < 8:
        raise InputError(f"two halves need at least 8 rows, got {len(states)}")
    regularizations = check_positive_numbers(regularizations, "regularizations")
    kernel_x = select_kernel(states, kernel_x, standardize=standardize, seed=seed, name="X")
    kernel_y = select_kernel(outputs, kernel_y, standardize=standardize, seed=seed, name="Y")
    # With a kernel that has no lengthscale the only factor is 1.
    scaled = kernel_y if length_parameters(kernel_x) else kernel_x
    multiples = check_factors(factors, (0.25, 0.5, 1.0), scaled)
    validation = _CrossValidation(states, outputs, kernel_x, kernel_y, method, tolerance, rank)
    settings = [(factor, value) for factor in multiples for value in regularizations]
    trials = []
    with progress_bar("settings", len(settings), show=progress and len(settings) > 1) as advance:
        for setting in settings:
            trials.append(Trial(*setting, validation.error(validation.filtered(*setting))))
            advance(1)
    trials.sort(key=lambda trial: trial.error)
    best = trials[0].factor, trials[0].regularization
    if not np.isfinite(trials[0].error):
        raise InputError(
            "the filter's weights sum to nothing at every setting: try larger regularizations or "
            "wider kernels"
        )
    filtered = list(validation.filtered(*best))
    smoothing = (1.0, 10.0, 100.0, 1000.0)
    smoothed_errors = [validation.error(filtered, multiple) for multiple in smoothing]
    multiple = smoothing[int(np.argmin(smoothed_errors))]
    model = _with_smoothing(validation.train(slice(None), *best, tolerance=tolerance), multiple)
    features_x = dataclasses.replace(model.observation.features, columns=column_names(X))
    named = {
        **vars(model),
        "observation": dataclasses.replace(model.observation, features=features_x),
        "features_y": dataclasses.replace(model.features_y, columns=column_names(Y)),
    }
    return LearnedFilter(LearnedKernelBayesFilter(**named), tuple(trials), min(smoothed_errors))


@dataclasses.dataclass(frozen=True)
class _CrossValidation:
    """Cross-validation of filters in two halves of a training series.

    Attributes:
        states: (T, D).
        outputs: observations, (T, E).
        kernel_x: kernel of the states, before its lengthscale is multiplied.
        kernel_y: kernel of the observations, before its lengthscale is multiplied.
        method: kernel Bayes' rule.
        tolerance: for the factorizations; ``None`` for 0.01 epsilon, at most 0.01.
        rank: largest rank of the factorizations.
        max_steps: filtered steps of each half, at most; not tuned.
    """

    states: np.ndarray
    outputs: np.ndarray
    kernel_x: Covariance
    kernel_y: Covariance
    method: str
    tolerance: float | None
    rank: int | None
    max_steps: int = 200

    def train(
        self, rows: slice, factor: float, regularization: float, tolerance: float | None
    ) -> KernelBayesFilter:
        """Train a filter on some rows."""
        states = self.states[rows]
        return kernel_bayes_filter(
            states,
            self.outputs[rows],
            scale_lengthscales(self.kernel_x, factor),
            scale_lengthscales(self.kernel_y, factor),
            method=self.method,
            regularization=regularization / len(states),
            tolerance=tolerance,
            rank=self.rank,
        )

    def filtered(
        self, factor: float, regularization: float
    ) -> Iterator[tuple[KernelBayesFilter, StateEstimates, slice]]:
        """Yield the filter trained on each half, its estimates in the other, and their rows."""
        n, middle = len(self.states), len(self.states) // 2
        first, second = slice(0, middle), slice(middle, n)
        for training, test in ((first, second), (second, first)):
            rows = slice(test.start, min(test.start + self.max_steps, test.stop))
            epsilon = regularization / (training.stop - training.start)
            tolerance = 0.01 * min(epsilon, 1.0) if self.tolerance is None else self.tolerance
            model = self.train(training, factor, regularization, tolerance)
            yield model, model.filter(self.outputs[rows], outliers="skip"), rows

    def error(
        self,
        filtered: Iterable[tuple[KernelBayesFilter, StateEstimates, slice]],
        multiple: float | None = None,
    ) -> float:
        """Compute the mean squared error over the variances of columns; infinite at a failure.

        Args:
            filtered: from :meth:`filtered`.
            multiple: of delta, with which estimates are smoothed; ``None`` takes them as filtered.
        """
        scale = column_scale(self.states)
        errors = []
        try:
            for model, estimates, rows in filtered:
                if multiple is not None:
                    estimates = _with_smoothing(model, multiple).smooth(estimates)
                squares = ((estimates.mean() - self.states[rows]) / scale) ** 2
                errors.append(squares.mean(axis=1))
        except ArithmeticError:
            return np.inf
        return float(np.concatenate(errors).mean())


def _with_smoothing(model: KernelBayesFilter, multiple: float) -> KernelBayesFilter:
    """Return the filter with that multiple of delta for smoothing."""
    delta = multiple * model.posterior_regularization
    return dataclasses.replace(model, smoothing_regularization=delta)
