"""Kernel mean matching: weights by which one sample looks like another, as even as can be."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from bke.models import choose_landmarks
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from scipy.optimize import minimize

from ..core.errors import InputError
from ..core.machine import computing
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
from .matched import MatchedWeights, Moment

#: Landmarks of the features, and the seed of the rows that the median distance is of.
LANDMARKS, CHOOSING = 200, 0
#: Eigenvalues of the landmarks' Gram matrix below this share of the largest are left out.
NEGLIGIBLE = 1e-10
#: Penalties of unevenness that are tried, the largest first.
PENALTIES = 10.0 ** np.arange(2.0, -9.0, -0.5)
#: Halvings of the step between the last two of them.
HALVINGS = 4
#: The squared MMD that weights are to leave, over what is expected of equal distributions: with a
#: quarter a sharp test finds next to nothing of what was to be matched, and the weights are worth
#: as many rows as the ratio of densities is (benchmarks/matching.py).
LEFT = 0.25
#: Moments are reproduced to this, in the target's standard deviations.
EXACT = 1e-6
#: Fewer rows than this, in effect, are told.
FEW = 30.0


class Matching(NamedTuple):
    """The problem: weights w = 1 + v of n rows, -1 <= v <= most - 1.

    Minimise penalty |v|^2 / n + |F'w / n - target of F|^2 where A'w / n is the target of A.

    Attributes:
        features: F (n, r), of the kernel.
        moments: A (n, k).
        goals: (r + k,), what both are to be.
        most: what a row may count for.
    """

    features: np.ndarray
    moments: np.ndarray
    goals: np.ndarray
    most: float

    def solved(self, penalty: float, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights (n,) and the dual variables (r + k,), from those of a penalty nearby.

        The dual is concave and its r + k variables are free: v is what its slope is clipped to.
        """
        n, r = self.features.shape
        M = np.concatenate([self.features, self.moments], axis=1) / n
        away = self.goals - M.sum(axis=0)
        free = np.concatenate([np.ones(r), np.zeros(self.moments.shape[1])])

        def weights(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            plain = -(n / penalty) * (M @ y)
            return np.clip(plain, -1.0, self.most - 1.0), plain

        def value(y: np.ndarray) -> float:
            v, _ = weights(y)
            inner = 0.5 * penalty / n * v @ v + v @ (M @ y)
            return float(0.5 * y @ (free * y) + away @ y - inner)

        def slope(y: np.ndarray) -> np.ndarray:
            v, _ = weights(y)
            return free * y + away - M.T @ v

        def bend(y: np.ndarray) -> np.ndarray:
            v, plain = weights(y)
            inside = M[v == plain]
            ridge = 1e-12 * (n / penalty) * np.mean(M**2) * n
            return (n / penalty) * inside.T @ inside + np.diag(free + ridge)

        options: Any = {"gtol": 1e-9, "maxiter": 300}
        found = minimize(value, start, jac=slope, hess=bend, method="trust-exact", options=options)
        return 1.0 + weights(found.x)[0], found.x


def match_weights(
    source: ArrayLike,
    target: ArrayLike,
    *,
    moments: int = 1,
    most: float | None = None,
    kernel: Any = None,
    columns: Sequence[str] | None = None,
) -> MatchedWeights:
    """Weigh the rows of a source so that it looks like a target: kernel mean matching (MMD-28).

    Of all weights of 0 to ``most`` by which the means of the columns are those of the target, the
    most even ones that bring the squared MMD down to a quarter of what is expected of rows of one
    distribution, so many as the weights are worth beside the target: more would be fitting noise,
    at the cost of rows (Huang et al. 2007, with equality of moments as in entropy balancing,
    Hainmueller 2012).

    Do two groups still differ once age is balanced? ``match_weights(old[["age"]], new[["age"]])``
    gives weights for :func:`~bke.inference.compare` of all columns; what is left of the columns
    that were matched :meth:`MatchedWeights.compare` tells.

    Args:
        source: rows that are weighed, shape (n, D) or (n,).
        target: rows that they are to look like, shape (m, D) or (m,), of the same columns.
        moments: 1, the means of all columns are reproduced exactly; 2, their variances too; 0,
            neither.
        most: what a row may count for, where 1 is its own; by default no limit.
        kernel: in the units of the data; by default a squared exponential whose lengthscales are
            the columns' standard deviations times the median distance of rows in these.
        columns: names; by default those of data frames.

    Raises:
        InputError: for rows or arguments that make no sense, and where no such weights reproduce
            the moments; names the column where it is one.
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
    if not np.ptp(np.concatenate([x, y]), axis=0).any():
        raise InputError("all rows of both are the same: there is nothing to match")
    limit = float(len(x)) if most is None else _checked_limit(most)
    wanted = _moments(x, y, names, moments, limit)
    if kernel is None:
        (kernel,) = select_kernels("median", np.concatenate([x, y]), "column", CHOOSING)
    with computing():
        features = _features(kernel, x, y)
        return _matched(x, y, names, kernel, wanted, features, limit)


def _checked_limit(most: Any) -> float:
    real = isinstance(most, numbers.Real) and not isinstance(most, bool)
    limit = float(most) if real else 0.0
    if not limit > 1.0:
        raise InputError(f"most must be more than 1, as every row counts at first, got {most!r}")
    return limit


class Wanted(NamedTuple):
    """Moments that are told, of which the first ones are reproduced.

    Attributes:
        names: of all.
        source: (n, k), their contributions, in the target's standard deviations and less what their
            means are to be.
        balanced: how many of the first ones are reproduced.
    """

    names: tuple[str, ...]
    source: np.ndarray
    balanced: int


def _moments(
    x: np.ndarray, y: np.ndarray, names: tuple[str, ...], moments: int, limit: float
) -> Wanted:
    deviation = y.std(axis=0)
    unit = np.where(deviation > 0.0, deviation, np.where(x.std(axis=0) > 0.0, x.std(axis=0), 1.0))
    centred, own = (x - y.mean(axis=0)) / unit, (y - y.mean(axis=0)) / unit
    # Over the root of two it varies with a normal as much as the mean does.
    squares = (centred**2 - np.mean(own**2, axis=0)) / math.sqrt(2.0)
    found = Wanted(
        (*names, *(f"variance of {name}" for name in names)),
        np.concatenate([centred, squares], axis=1),
        moments * len(names),
    )
    for index in range(found.balanced):
        _check_reachable(found.source[:, index], found.names[index], limit)
    return found


def _check_reachable(values: np.ndarray, name: str, limit: float) -> None:
    """Refuse a moment that lies beyond what weights up to a limit can reach, which is zero here."""
    ordered = np.sort(values)
    share = len(values) / limit  # rows that all the weight may be on
    whole, part = int(share), share - int(share)
    least, most = (
        (end[:whole].sum() + part * (end[whole] if whole < len(end) else 0.0)) / share
        for end in (ordered, ordered[::-1])
    )
    if least > EXACT or most < -EXACT:
        raise InputError(
            f"no weights up to {limit:.6g} give {name} the target's mean: the source has hardly "
            "any rows there; leave it out, raise most, or take fewer of the target"
        )


def _usable(balanced: np.ndarray) -> np.ndarray:
    """Which rows may count, (n,): where a mean is to be at the end of all rows, those there."""
    there = np.ones(len(balanced), dtype=bool)
    for values in balanced.T:
        if values.min() >= -EXACT or values.max() <= EXACT:
            there &= np.abs(values) <= EXACT
    return there


def _features(kernel: Any, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nystrom features (n, r) and (m, r) at centres of clusters of all rows."""
    pooled = np.concatenate([x, y])
    different = len(np.unique(pooled, axis=0))
    if different <= max(LANDMARKS, x.shape[1]):
        landmarks = np.unique(pooled, axis=0)
    else:
        landmarks = np.asarray(choose_landmarks(pooled, max(LANDMARKS, x.shape[1])))
    try:
        values, vectors = eigh(np.asarray(kernel(landmarks)))
        kept = values > NEGLIGIBLE * values[-1]
        root = vectors[:, kept] / np.sqrt(values[kept])
        return np.asarray(kernel(x, landmarks)) @ root, np.asarray(kernel(y, landmarks)) @ root
    except (ValueError, TypeError, np.linalg.LinAlgError) as error:
        raise InputError(f"the kernel does not fit the rows: {error}") from None


def _matched(
    x: np.ndarray,
    y: np.ndarray,
    names: tuple[str, ...],
    kernel: Any,
    wanted: Wanted,
    features: tuple[np.ndarray, np.ndarray],
    limit: float,
) -> MatchedWeights:
    first, second = features
    goal, spread = second.mean(axis=0), float(second.var(axis=0).sum())

    def discrepancy(w: np.ndarray) -> float:
        return float(np.sum((w @ first / len(x) - goal) ** 2))

    def expected(w: np.ndarray) -> float:
        return spread * (float(np.sum(w**2)) / np.sum(w) ** 2 + 1.0 / len(y))

    best = _best(first, goal, wanted, limit, lambda w: discrepancy(w) <= LEFT * expected(w))
    size = float(best.sum() ** 2 / np.sum(best**2))
    after = best @ wanted.source / len(x)
    told = tuple(
        Moment(name, float(one), float(other), index < wanted.balanced)
        for index, (name, one, other) in enumerate(
            zip(wanted.names, wanted.source.mean(axis=0), after, strict=True)
        )
    )
    return MatchedWeights(
        values=best,
        effective_size=size,
        moments=told,
        discrepancies=(discrepancy(np.ones(len(x))), discrepancy(best)),
        expected=expected(best),
        kernel=kernel,
        columns=names,
        source=x,
        target=y,
        notes=_notes(best, size, discrepancy(best), expected(best)),
    )


def _best(
    features: np.ndarray,
    goal: np.ndarray,
    wanted: Wanted,
    limit: float,
    enough: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """The most even weights (n,) that are enough, or the nearest that could be found.

    Raises:
        InputError: none reproduce the moments.
    """
    balanced = wanted.source[:, : wanted.balanced]
    there = _usable(balanced)
    count, n = int(there.sum()), len(features)
    # The weights' own mean is a moment too, and is to be one.
    kept = np.concatenate([np.ones((count, 1)), balanced[there]], axis=1)
    own = np.array([1.0, *np.zeros(wanted.balanced)])
    problem = Matching(features[there], kept, np.concatenate([goal, own]), limit * count / n)
    dual = np.zeros(len(problem.goals))

    def solved(penalty: float) -> np.ndarray | None:
        nonlocal dual
        w, dual = problem.solved(penalty, dual)
        if np.abs(w @ kept / count - own).max() > EXACT:
            return None
        found = np.zeros(n)
        found[there] = w * n / count
        return found

    best, before = None, float(PENALTIES[0])
    for penalty in PENALTIES if count and problem.most > 1.0 else ():
        found = solved(float(penalty))
        if found is None and best is not None:
            break
        best = best if found is None else found
        if best is not None and enough(best):
            return _evened(best, float(penalty), before, solved, enough)
        before = float(penalty)
    if best is None:
        raise InputError(
            "no weights reproduce all these moments together: match fewer columns, moments=1 or "
            "moments=0, or raise most"
        )
    return best


def _evened(
    best: np.ndarray,
    low: float,
    high: float,
    solved: Callable[[float], np.ndarray | None],
    enough: Callable[[np.ndarray], bool],
) -> np.ndarray:
    """Weights of the largest penalty between two that are still enough, by bisection."""
    for _ in range(HALVINGS if high > low else 0):
        middle = math.sqrt(low * high)
        found = solved(middle)
        if found is not None and enough(found):
            best, low = found, middle
        else:
            high = middle
    return best


def _notes(w: np.ndarray, size: float, left: float, expected: float) -> tuple[str, ...]:
    notes = []
    if left > expected:
        notes.append(
            "the two still differ by more than expected of equal distributions: the source has "
            "hardly any rows where the target has some"
        )
    elif left > LEFT * expected:
        notes.append(
            "weights that leave a quarter of the squared MMD that is expected of equal "
            f"distributions were not found: {left / expected:.2g} of it is left"
        )
    if size < FEW:
        notes.append(
            f"the weights are worth {size:.3g} rows: what is said of the weighted source is said "
            "of those few"
        )
    return tuple(notes)
