"""Cause and effect of two columns by additive noise models and tests of their residuals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..core.progress import progress_bar
from ..data.canonical import canonical_order, generator
from ..data.checks import check_count
from ..permutation.null_distribution import check_permutations, describe_p_with_error
from .independence import CenteredGram, permuted_hsic, permuted_indices
from .kernels import SINGLE_KERNELS, KernelChoice, gram
from .residuals import MIN_RESIDUAL_VARIANCE, cross_predict
from .result import TestResult
from .variables import paired_samples, variable_notes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Smallest number of rows, and largest number that is used.
MIN_ROWS, MAX_ROWS = 50, 2000
#: Number of folds. Errors of a regression on four fifths of the rows are small for a test of one
#: fifth. Not tuned.
N_FOLDS = 5
HYPOTHESES = ("no evidence against the model", "the residuals depend on the cause")
UNDECIDED = "undecided"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AdditiveNoiseModel:
    """A regression of the effect on the cause, with a test of independence of its residuals.

    Attributes:
        cause: name of the cause, ``"x"`` or ``"y"``.
        effect: name of the effect.
        values: values of the cause, (n,).
        observed: values of the effect, (n,).
        predicted: predictions of the effect, each by the regression on the other folds, (n,).
        folds: fold of each row, (n,).
        test: test of independence of the cause and the residuals; its statistic is the mean of the
            unbiased HSIC of each fold.
    """

    cause: str
    effect: str
    values: np.ndarray
    observed: np.ndarray
    predicted: np.ndarray
    folds: np.ndarray
    test: TestResult

    @property
    def direction(self) -> str:
        """Cause and effect, such as ``"x -> y"``."""
        return f"{self.cause} -> {self.effect}"

    @property
    def residuals(self) -> np.ndarray:
        """Observed less predicted values, (n,)."""
        return self.observed - self.predicted


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class CausalDirection(ReprMixin):
    """Result of :func:`causal_direction`.

    Attributes:
        forward: model with x as the cause.
        backward: model with y as the cause.
        difference: HSIC of the residuals of ``backward`` less that of ``forward``. Mooij et al.
            (2016) decide by its sign: positive for x as the cause.
        standard_error: standard error of the difference in the normal limit, with the regressions
            taken as fixed.
        alpha: level of the tests.
        notes: warnings.
    """

    forward: AdditiveNoiseModel
    backward: AdditiveNoiseModel
    difference: float
    standard_error: float
    alpha: float
    notes: tuple[str, ...] = ()

    @property
    def difference_pvalue(self) -> float:
        """p-value of the difference in its direction, from the normal limit."""
        if self.difference == 0.0:
            return 0.5
        return float(norm.sf(abs(self.difference) / self.standard_error))

    @property
    def direction(self) -> str:
        """Direction: ``"x -> y"``, ``"y -> x"`` or ``"undecided"``."""
        better, worse = self.forward, self.backward
        if self.difference < 0.0:
            better, worse = worse, better
        significant = self.difference_pvalue <= self.alpha
        is_direction = significant and worse.test.reject and not better.test.reject
        return better.direction if is_direction else UNDECIDED

    @property
    def reason(self) -> str:
        """Reason for the direction, or for no decision."""
        models = (self.forward, self.backward)
        rejected = [model.direction for model in models if model.test.reject]
        if not rejected:
            return "both models fit"
        if len(rejected) == 2:
            return "neither model fits"
        if self.direction == UNDECIDED:
            return f"{rejected[0]} is rejected, but not significantly worse than the other model"
        return f"{rejected[0]} is rejected"

    def to_dataframe(self) -> pd.DataFrame:
        """Return the two models as rows.

        Columns: ``cause``, ``effect``, ``hsic`` of the residuals, ``pvalue`` and ``reject``.
        """
        import pandas as pd

        models = (self.forward, self.backward)
        rows = [
            (model.cause, model.effect, test.statistic, test.pvalue, test.reject)
            for model, test in ((model, model.test) for model in models)
        ]
        return pd.DataFrame(rows, columns=["cause", "effect", "hsic", "pvalue", "reject"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows as plain data."""
        return {
            "direction": self.direction,
            "reason": self.reason,
            "alpha": self.alpha,
            "models": [
                {"cause": model.cause, "effect": model.effect, "test": model.test.to_dict()}
                for model in (self.forward, self.backward)
            ],
            "difference": self.difference,
            "standard_error": self.standard_error,
            "difference_pvalue": self.difference_pvalue,
            "n": len(self.forward.values),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [
            f"Causal direction: {self.direction} at level {self.alpha:g} ({self.reason}).",
            "  Independence of the cause and the residuals:",
        ]
        for model in (self.forward, self.backward):
            test = model.test
            pvalue = describe_p_with_error(
                test.pvalue, test.pvalue_error, len(test.null_distribution)
            )
            lines.append(f"    {model.direction}: {pvalue}, HSIC {test.statistic:.3g}")
        lines += [
            f"  Difference of HSIC: {self.difference:.3g} (standard error "
            f"{self.standard_error:.2g}, p = {self.difference_pvalue:.2g}, normal limit)",
            f"  {len(self.forward.values)} rows, {self.forward.test.method}",
        ]
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<causal direction: {self.direction}, {self.reason}>"

    def plot(self, *, axes: Sequence[Axes] | None = None) -> Figure:
        """Plot the rows with the predictions of both models, and the residuals below.

        Args:
            axes: four axes, row by row; by default those of a new figure.
        """
        from ..plots.testing import plot_direction

        return plot_direction(self, axes=axes)


def causal_direction(
    x: ArrayLike,
    y: ArrayLike,
    *,
    kernel: str = "median",
    alpha: float = 0.05,
    n_resamples: int = 999,
    seed: int = 0,
    progress: bool = True,
) -> CausalDirection:
    """Decide whether x causes y or y causes x, by additive noise models (Hoyer et al. 2009).

    If x is the cause, with y = f(x) + e and e independent of x, then in general no such model holds
    in the other direction. Linear functions with Gaussian noise are an exception. The rows are
    split into five folds. The residuals of each fold are those of a Gaussian-process regression on
    the other folds. The independence of the cause and the residuals is tested by HSIC within folds,
    with permutations of the residuals of each fold. (Mooij, Peters, Janzing, Zscheischler and
    Schölkopf, 2016, section 2, compare the HSIC of both directions, of all rows or of one split.)

    The answer is a direction if its model is retained at level ``alpha``, the other model is
    rejected, and the HSIC of the other model is significantly larger, by a one-sided test at the
    same level with a normal limit (as DEP-11). Otherwise it is ``"undecided"``: both models fit,
    neither fits, or they do not differ significantly. If the additive noise model of one direction
    is true, the other direction is the answer only if the true model is rejected, with a
    probability of about ``alpha`` or less. The tests are approximations, because the regressions
    have errors that depend on the cause.

    The answer assumes that one of the columns causes the other with additive noise, that they have
    no common cause, and that the selection of the rows does not depend on both. A common cause or a
    selection may make one model fit better than the other.

    Args:
        x: first column, shape (n,) or (n, 1), n >= 50. Of more than 2000 rows a random subset is
            used.
        y: second column, row by row with x.
        kernel: ``"median"``, ``"bkl"`` or ``"posterior"``, for x, y and the residuals.
        alpha: level of the tests.
        n_resamples: number of permutations of each test.
        seed: random seed of the split, of the regressions and of the permutations. The order of
            rows has no influence; swapped columns give the swapped answer.
        progress: show the number of completed models.

    Raises:
        InputError: for invalid data or arguments, without scikit-learn, or if one column is a
            function of the other, without noise.

    References:
        Hoyer, Janzing, Mooij, Peters and Schölkopf, *Nonlinear causal discovery with additive noise
        models*, NIPS 2009. Mooij, Peters, Janzing, Zscheischler and Schölkopf, *Distinguishing
        cause from effect using observational data*, JMLR 17 (2016).
    """
    check_choice(kernel, "kernel", SINGLE_KERNELS)
    alpha = check_permutations(n_resamples, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    samples = paired_samples({"x": x, "y": y})
    for name, sample in zip("xy", samples, strict=True):
        if sample.shape[1] != 1:
            raise InputError(f"{name} must be one column, and has {sample.shape[1]}")
    n = len(samples[0])
    if n < MIN_ROWS:
        raise InputError(f"a causal direction needs at least {MIN_ROWS} rows, and there are {n}")
    pairs = np.concatenate(samples, axis=1)
    notes = variable_notes({"x": x, "y": y}, samples, independent_rows=True)
    if n > MAX_ROWS:
        notes.append(f"a random subset of {MAX_ROWS} of {n} rows is used")
    order = generator(seed, *samples, stream=5).permutation(canonical_order(pairs))[:MAX_ROWS]
    models, influences = [], []
    with progress_bar("models", 2, show=progress) as advance:
        for cause in (0, 1):
            model, influence = _additive_noise_model(
                pairs[order], cause, KernelChoice(kernel, "column"), alpha, n_resamples, seed
            )
            models.append(model)
            influences.append(influence)
            advance(1)
    forward, backward = models
    deviations = influences[1] - influences[0]
    return CausalDirection(
        forward,
        backward,
        backward.test.statistic - forward.test.statistic,
        float(np.sqrt(np.sum(deviations**2)) / len(order)),
        alpha,
        tuple(notes),
    )


def _additive_noise_model(
    pairs: np.ndarray, cause: int, choice: KernelChoice, alpha: float, n_resamples: int, seed: int
) -> tuple[AdditiveNoiseModel, np.ndarray]:
    """Fit and test one direction.

    Args:
        pairs: values of x and y in random order, (n, 2).
        cause: column of the cause.
        choice: choice of the kernels of the cause and of the residuals.
        alpha: level of the test.
        n_resamples: number of permutations.
        seed: random seed of the regression and of the permutations.

    Returns:
        The model, and the influence of each row on its statistic, (n,): with the centered Gram
        matrices K and L of a fold of m rows it is 2 (K o L) 1 / m less its mean, the derivative of
        the squared norm of the cross-covariance operator by the weight of the row.

    Raises:
        InputError: the effect is a function of the cause.
    """
    names = "xy"[cause], "xy"[1 - cause]
    values, observed = pairs[:, cause], pairs[:, 1 - cause]
    n = len(pairs)
    folds = np.arange(n) % N_FOLDS
    predicted = cross_predict(observed, values, folds, seed)
    residuals = observed - predicted
    if np.var(residuals) < MIN_RESIDUAL_VARIANCE * np.var(observed):
        raise InputError(
            f"{names[1]} is a function of {names[0]} up to rounding: pass columns with noise, "
            "additive noise models do not apply to others"
        )
    rng = generator(seed, values[:, None], observed[:, None], stream=6)
    statistic, influence = np.zeros(1 + n_resamples), np.empty(n)
    with computing():
        kernels = [choice.kernels(column[:, None])[0] for column in (values, residuals)]
        for fold in range(N_FOLDS):
            rows = np.flatnonzero(folds == fold)
            x, y = (
                CenteredGram.of(gram(kernel, column[rows, None]))
                for kernel, column in zip(kernels, (values, residuals), strict=True)
            )
            indices = permuted_indices(len(rows), n_resamples, rng)
            statistic += len(rows) / n * permuted_hsic(x, y, indices)
            products = np.mean(np.asarray(x.gram) * np.asarray(y.gram), axis=1)
            influence[rows] = 2.0 * (products - products.mean())
    test = TestResult.from_permutations(
        statistic,
        test=f"additive noise model {names[0]} -> {names[1]}",
        hypotheses=HYPOTHESES,
        kernel=tuple(kernels),
        method=f"{n_resamples} permutations within {N_FOLDS} folds, {choice}",
        exact=False,
        alpha=alpha,
        statistic_label="HSIC (unbiased), mean of the folds",
        rows="residuals",
    )
    return AdditiveNoiseModel(*names, values, observed, predicted, folds, test), influence
