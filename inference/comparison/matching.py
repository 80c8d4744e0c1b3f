"""Kernel mean matching: weights that make a sample similar to a target, as uniform as possible."""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from bke.models import choose_landmarks
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import minimize

from ..core.errors import InputError
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..data.checks import (
    as_sample,
    check_column_names,
    check_count,
    check_same_columns,
    column_names,
    default_names,
    reorder_columns,
)
from ..learning.kernel_selection import select_kernels

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .comparison import Comparison

#: Number of landmarks of the features, and seed of the rows for the median distance.
LANDMARKS, MEDIAN_SEED = 200, 0
#: Eigenvalues of the Gram matrix of the landmarks below this, relative to the largest, are dropped.
RESOLUTION = 1e-10
#: Penalties on the variance of the weights, in the order in which they are tried.
PENALTIES = 10.0 ** np.arange(2.0, -9.0, -0.5)
#: Number of bisections between the last two penalties.
BISECTIONS = 4
#: Target of the squared MMD, relative to that expected for equal distributions. With a quarter a
#: powerful test finds almost no difference, and the effective sample size is close to that of the
#: density ratio (benchmarks/matching.py).
TARGET_MMD2 = 0.25
#: Tolerance of reproduced moments, in standard deviations of the target.
MOMENT_TOLERANCE = 1e-6
#: Effective sample size below which there is a note.
MIN_EFFECTIVE_SIZE = 30.0
#: Largest number of moments in a summary, and remaining differences that are rounding errors.
MAX_MOMENTS, ROUNDING = 8, 1e-9


class Moment(NamedTuple):
    """Difference of the mean or the variance of a column between source and target.

    Attributes:
        name: name of the column for its mean, in standard deviations of the target, or "variance
            of" the column: the variance about the mean of the same rows and weights, relative to
            that of the target, minus one, over the square root of two, which has the same sampling
            error as a mean for normal columns.
        before: source minus target, with equal weights.
        after: with the weights.
        balanced: true if the weights reproduce it exactly.
    """

    name: str
    before: float
    after: float
    balanced: bool


@dataclasses.dataclass(frozen=True, repr=False)
class MatchedWeights(ReprMixin):
    """Weights of the rows of a source that make it similar to a target.

    Attributes:
        values: weights (n,), with mean 1.
        effective_size: effective sample size, (sum w)^2 / sum w^2 (Kish 1965).
        moments: mean and variance of each column.
        discrepancies: squared MMD of source and target, before and after weighting.
        expected: squared MMD expected for equal distributions and sample sizes ``effective_size``
            and m.
        kernel: kernel of the MMD, in the units of the data.
        columns: names of the columns.
        source: rows (n, D).
        target: rows (m, D).
        notes: warnings.
    """

    values: np.ndarray
    effective_size: float
    moments: tuple[Moment, ...]
    discrepancies: tuple[float, float]
    expected: float
    kernel: Any
    columns: tuple[str, ...]
    source: np.ndarray
    target: np.ndarray
    notes: tuple[str, ...] = ()

    def compare(self, **options: Any) -> Comparison:
        """Compare the weighted source with the target, to find remaining differences.

        The weights were chosen to make the samples similar, so that the test is conservative
        (``benchmarks/results/matching.md``).

        Args:
            **options: of :func:`~bke.inference.compare`.
        """
        from .compare import compare

        weights = (self.values, None)
        return compare(self.source, self.target, weights=weights, columns=self.columns, **options)

    def __str__(self) -> str:
        before, after = (math.sqrt(max(0.0, mmd2)) for mmd2 in self.discrepancies)
        lines = [
            f"{len(self.values)} rows weighted to match {len(self.target)}: effective sample size "
            f"{self.effective_size:.4g}, largest weight {float(self.values.max()):.3g}.",
            f"MMD {before:.3g} before and {after:.3g} after weighting; {self.expected**0.5:.3g} is "
            "expected for equal distributions.",
            "Differences before and after weighting, of means in standard deviations of the "
            "target, of variances as (ratio to the target's variance - 1) / √2:",
        ]
        moments = sorted(self.moments, key=lambda moment: -abs(moment.before))
        for moment in moments[:MAX_MOMENTS]:
            is_zero = abs(moment.after) < ROUNDING
            after_text = "0" if is_zero else f"{moment.after:+.2g}"
            suffix = "" if moment.balanced or is_zero else " (not balanced)"
            lines.append(f"  {moment.name}: {moment.before:+.3g}, {after_text}{suffix}")
        if (more := len(moments) - MAX_MOMENTS) > 0:
            lines.append(f"  and {more} smaller ones")
        return "\n".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return (
            f"<weights of {len(self.values)} rows, effective sample size {self.effective_size:.4g}>"
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each moment.

        Columns: ``name``, ``before``, ``after`` and ``balanced``, see :class:`Moment`.
        """
        import pandas as pd

        return pd.DataFrame(self.moments, columns=Moment._fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as plain data for JSON, without the rows."""
        return {
            "weights": self.values.tolist(),
            "effective_size": self.effective_size,
            "moments": [moment._asdict() for moment in self.moments],
            "squared_mmd": {"before": self.discrepancies[0], "after": self.discrepancies[1]},
            "expected_squared_mmd": self.expected,
            "columns": list(self.columns),
            "notes": list(self.notes),
        }

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Plot the differences of all moments before and after weighting.

        Args:
            ax: axes; by default a new figure.
        """
        from ..plots.testing import plot_matching

        return plot_matching(self, ax=ax)


class MatchingProblem(NamedTuple):
    """Quadratic program of kernel mean matching, for weights w = 1 + v of n rows.

    Minimize ``penalty |v|^2 / n + |F'w / n - f|^2`` subject to ``A'w / n = a`` and
    ``-1 <= v <= max_weight - 1``.

    Attributes:
        features: F (n, r), of the kernel.
        moments: A (n, k).
        goals: f and a, (r + k,).
        max_weight: largest weight.
    """

    features: np.ndarray
    moments: np.ndarray
    goals: np.ndarray
    max_weight: float

    def solve(self, penalty: float, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Solve the concave dual problem, whose r + k variables are unconstrained.

        Args:
            penalty: on the variance of the weights.
            start: dual variables (r + k,), such as those of a similar penalty.

        Returns:
            Weights (n,) and dual variables (r + k,).
        """
        n, r = self.features.shape
        M = np.concatenate([self.features, self.moments], axis=1) / n
        deficit = self.goals - M.sum(axis=0)
        is_feature = np.concatenate([np.ones(r), np.zeros(self.moments.shape[1])])

        def primal(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            unclipped = -(n / penalty) * (M @ y)
            return np.clip(unclipped, -1.0, self.max_weight - 1.0), unclipped

        def objective(y: np.ndarray) -> float:
            v, _ = primal(y)
            inner = 0.5 * penalty / n * v @ v + v @ (M @ y)
            return float(0.5 * y @ (is_feature * y) + deficit @ y - inner)

        def gradient(y: np.ndarray) -> np.ndarray:
            v, _ = primal(y)
            return is_feature * y + deficit - M.T @ v

        def hessian(y: np.ndarray) -> np.ndarray:
            v, unclipped = primal(y)
            inside = M[v == unclipped]
            ridge = 1e-12 * (n / penalty) * np.mean(M**2) * n
            return (n / penalty) * inside.T @ inside + np.diag(is_feature + ridge)

        options: Any = {"gtol": 1e-9, "maxiter": 300}
        solution = minimize(
            objective, start, jac=gradient, hess=hessian, method="trust-exact", options=options
        )
        return 1.0 + primal(solution.x)[0], solution.x


class _Moments(NamedTuple):
    """Moments of the columns, of which the first ones are reproduced.

    Attributes:
        names: of all.
        source: (n, k), terms of the rows, in standard deviations of the target, minus the moments
            of the target: their weighted mean is 0 if the moment is reproduced. The second moments
            are about the target's mean: if the mean is reproduced too, so is the variance.
        n_balanced: number of those that are reproduced.
    """

    names: tuple[str, ...]
    source: np.ndarray
    n_balanced: int

    def differences(self, weights: np.ndarray) -> np.ndarray:
        """Return the differences (k,) of means and of variances with weights (n,) of mean 1."""
        result = weights @ self.source / len(weights)
        means, second_moments = np.split(result, 2)
        return np.concatenate([means, second_moments - means**2 / math.sqrt(2.0)])


def match_weights(
    source: ArrayLike,
    target: ArrayLike,
    *,
    moments: int = 1,
    most: float | None = None,
    kernel: Any = None,
    columns: Sequence[str] | None = None,
) -> MatchedWeights:
    """Weight the rows of a source to match a target: kernel mean matching (MMD-28).

    The weights are from 0 to ``most``, and the means of the columns are those of the target.
    Among such weights these are the most uniform ones that reduce the squared MMD to a quarter of
    that expected for equal distributions with the same effective sample sizes. A smaller MMD
    would fit noise, at the cost of effective rows (Huang et al. 2007, with equality of moments as
    in entropy balancing, Hainmueller 2012).

    To test whether two groups differ once age is balanced, pass the weights of
    ``match_weights(old[["age"]], new[["age"]])`` to :func:`~bke.inference.compare` with all
    columns. :meth:`MatchedWeights.compare` compares the matched columns.

    Args:
        source: rows that are weighted, shape (n, D) or (n,).
        target: rows that are matched, shape (m, D) or (m,), with the same columns.
        moments: 1 to reproduce the means of all columns, 2 for means and second moments about the
            target's means, and thereby the variances, 0 for neither.
        most: largest weight, where the mean weight is 1; by default no limit.
        kernel: in the units of the data; by default a squared exponential whose lengthscales are
            the standard deviations of the columns times the median distance of rows in these units.
        columns: names; by default those of data frames.

    Raises:
        InputError: for invalid rows or arguments, and if no such weights reproduce the moments,
            with the name of the column if it is a single one.
    """
    check_count(moments, "moments", 0, 2)
    check_same_columns(column_names(source), column_names(target))
    x = as_sample(source, "source", may_be_constant=True)
    y = as_sample(target, "target", may_be_constant=True)
    if x.shape[1] != y.shape[1]:
        raise InputError(f"source has {x.shape[1]} columns but target has {y.shape[1]}")
    y = reorder_columns(column_names(source), column_names(target), y)
    known = column_names(source) or column_names(target) or tuple(default_names(x.shape[1]))
    names = check_column_names(columns, known)
    pooled = np.concatenate([x, y])
    if not np.ptp(pooled, axis=0).any():
        raise InputError("all rows of both are the same: there is nothing to match")
    max_weight = float(len(x))
    if most is not None:
        is_number = isinstance(most, numbers.Real) and not isinstance(most, bool)
        if not is_number or not most > 1.0:
            raise InputError(f"most must be more than 1, the mean weight, got {most!r}")
        max_weight = float(most)
    goals = _column_moments(x, y, names, moments, most)
    if kernel is None:
        (kernel,) = select_kernels("median", pooled, "column", MEDIAN_SEED)
    with computing():
        features, target_features = _kernel_features(kernel, x, y)
        mean, variance = target_features.mean(axis=0), float(target_features.var(axis=0).sum())

        def squared_mmd(w: np.ndarray) -> float:
            return float(np.sum((w @ features / len(x) - mean) ** 2))

        def expected(w: np.ndarray) -> float:
            return variance * (float(np.sum(w**2)) / np.sum(w) ** 2 + 1.0 / len(y))

        weights = _optimal_weights(
            features,
            mean,
            goals,
            max_weight,
            lambda w: squared_mmd(w) <= TARGET_MMD2 * expected(w),
        )
    before, after = goals.differences(np.ones(len(x))), goals.differences(weights)
    size = float(weights.sum() ** 2 / np.sum(weights**2))
    return MatchedWeights(
        values=weights,
        effective_size=size,
        moments=tuple(
            Moment(name, float(before[index]), float(after[index]), index < goals.n_balanced)
            for index, name in enumerate(goals.names)
        ),
        discrepancies=(squared_mmd(np.ones(len(x))), squared_mmd(weights)),
        expected=expected(weights),
        kernel=kernel,
        columns=names,
        source=x,
        target=y,
        notes=_notes(size, squared_mmd(weights), expected(weights)),
    )


def _column_moments(
    x: np.ndarray, y: np.ndarray, names: tuple[str, ...], moments: int, most: float | None
) -> _Moments:
    """Return the means and variances of all columns; check that weights can reproduce them."""
    deviation, other = y.std(axis=0), x.std(axis=0)
    scale = np.where(deviation > 0.0, deviation, np.where(other > 0.0, other, 1.0))
    mean = y.mean(axis=0)
    centered, target = (x - mean) / scale, (y - mean) / scale
    # Over the square root of two, its sampling error is that of a mean for normal columns.
    squares = (centered**2 - np.mean(target**2, axis=0)) / math.sqrt(2.0)
    result = _Moments(
        (*names, *(f"variance of {name}" for name in names)),
        np.concatenate([centered, squares], axis=1),
        moments * len(names),
    )
    for index in range(result.n_balanced):
        prefix = "mean of " if index < len(names) else ""
        _check_attainable(result.source[:, index], prefix + result.names[index], most)
    return result


def _check_attainable(values: np.ndarray, name: str, most: float | None) -> None:
    """Check that weights of at most ``most`` and mean 1 can give values (n,) the mean 0."""
    ordered = np.sort(values)
    fewest = 1.0 if most is None else len(values) / most  # rows that can have all the weight
    full, rest = int(fewest), fewest - int(fewest)
    smallest, largest = (
        (end[:full].sum() + rest * (end[full] if full < len(end) else 0.0)) / fewest
        for end in (ordered, ordered[::-1])
    )
    if smallest > MOMENT_TOLERANCE or largest < -MOMENT_TOLERANCE:
        raise InputError(
            f"no weights{'' if most is None else f' up to {most:.6g}'} reproduce the target's "
            f"{name}: the source has too few rows there; leave the column out, "
            f"{'' if most is None else 'raise most, '}or use fewer rows of the target"
        )


def _kernel_features(kernel: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Nystrom features (n, r) and (m, r) at cluster centers of all rows."""
    pooled = np.concatenate([x, y])
    unique = np.unique(pooled, axis=0)
    n_landmarks = max(LANDMARKS, x.shape[1])
    landmarks = unique
    if len(unique) > n_landmarks:
        landmarks = np.asarray(choose_landmarks(pooled, n_landmarks))
    try:
        values, vectors = eigh(np.asarray(kernel(landmarks)))
        significant = values > RESOLUTION * values[-1]
        root = vectors[:, significant] / np.sqrt(values[significant])
        return np.asarray(kernel(x, landmarks)) @ root, np.asarray(kernel(y, landmarks)) @ root
    except (ValueError, TypeError, np.linalg.LinAlgError) as error:
        raise InputError(f"the kernel does not fit the rows: {error}") from None


def _optimal_weights(
    features: np.ndarray,
    mean: np.ndarray,
    goals: _Moments,
    max_weight: float,
    is_close: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """Return the most uniform weights (n,) that satisfy ``is_close``, or the closest ones.

    Args:
        features: features of the source, (n, r).
        mean: mean of the features of the target, (r,).
        goals: moments.
        max_weight: largest weight.
        is_close: returns true for weights that make the source similar to the target.

    Raises:
        InputError: if no weights reproduce the moments.
    """
    balanced = goals.source[:, : goals.n_balanced]
    # If a mean to be reproduced is an end of the range, only the rows there may have weight.
    ends = (balanced >= -MOMENT_TOLERANCE).all(axis=0) | (balanced <= MOMENT_TOLERANCE).all(axis=0)
    usable = (np.abs(balanced[:, ends]) <= MOMENT_TOLERANCE).all(axis=1)
    count, n = int(usable.sum()), len(features)
    # The mean weight is a moment too, equal to 1.
    moments = np.concatenate([np.ones((count, 1)), balanced[usable]], axis=1)
    moment_goals = np.array([1.0, *np.zeros(goals.n_balanced)])
    problem = MatchingProblem(
        features[usable], moments, np.concatenate([mean, moment_goals]), max_weight * count / n
    )
    dual = np.zeros(len(problem.goals))

    def solve(penalty: float) -> np.ndarray | None:
        nonlocal dual
        w, dual = problem.solve(penalty, dual)
        if np.abs(w @ moments / count - moment_goals).max() > MOMENT_TOLERANCE:
            return None
        weights = np.zeros(n)
        weights[usable] = w * n / count
        return weights

    best, previous = None, float(PENALTIES[0])
    for penalty in map(float, PENALTIES if count and problem.max_weight > 1.0 else ()):
        weights = solve(penalty)
        if weights is None and best is not None:
            break
        best = best if weights is None else weights
        if best is not None and is_close(best):
            return _bisect_penalty(best, penalty, previous, solve, is_close)
        previous = penalty
    if best is None:
        raise InputError(
            "no weights reproduce all these moments together: match fewer columns, or pass a "
            "smaller moments, or a larger most if it is given"
        )
    return best


def _bisect_penalty(
    best: np.ndarray,
    low: float,
    high: float,
    solve: Callable[[float], np.ndarray | None],
    is_close: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """Return the weights of the largest penalty between two that satisfy ``is_close``."""
    for _ in range(BISECTIONS if high > low else 0):
        middle = math.sqrt(low * high)
        weights = solve(middle)
        if weights is not None and is_close(weights):
            best, low = weights, middle
        else:
            high = middle
    return best


def _notes(effective_size: float, mmd2: float, expected: float) -> tuple[str, ...]:
    """Return warnings on a squared MMD above that expected, and on few effective rows."""
    notes = []
    if mmd2 > expected:
        notes.append(
            "the samples still differ by more than expected for equal distributions: the source "
            "has too few rows where the target has some"
        )
    elif mmd2 > TARGET_MMD2 * expected:
        notes.append(
            "no weights reduce the squared MMD to a quarter of that expected for equal "
            f"distributions: {mmd2 / expected:.2g} of it remains"
        )
    if effective_size < MIN_EFFECTIVE_SIZE:
        notes.append(
            f"the effective sample size is {effective_size:.3g}: results for the weighted source "
            "depend on few rows"
        )
    return tuple(notes)
