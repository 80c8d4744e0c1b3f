"""Which rows of a column are kept, so that its density is right wherever it is not negligible.

By nodes of bins the density is wrong where a zero of mu_hat' is in one: by some tens or hundreds of
nats, of millions. That is enough to find the lengthscales that count, with an estimate of the
error. The zeros of these are in few bins, whose rows are kept in another pass.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.likelihood.spectral import LineIndex, weighted_line_index
from scipy.ndimage import binary_dilation, label

from ..core.errors import input_errors
from ..core.progress import progress_bar
from ..streams.column import Column
from . import programs
from .algorithms.integral import integrate
from .profile import BATCH, LogDensity, log_densities
from .samplers.quadrature import MOST_EVALUATIONS
from .target import Target, flatten, unflatten

#: Error of the log density that is accepted, and what bins may add to it that are not looked into.
TOLERANCE, LEFT = 1e-4, 1e-5
#: How far below its top, beside the errors, a log density counts for nothing.
MARGIN = 50.0
#: How often rows are kept, the evaluations before the first time, halvings of what lies between two
#: points at most, and bins beside those in doubt.
ROUNDS, FIRST_EVALUATIONS, HALVINGS, BESIDE = 4, 400, 12, 2
#: Room for points, over those that there are before any rows are kept.
ROOM = 2


class Resolved(NamedTuple):
    """A column for the spectral route.

    Attributes:
        points: the rows as the likelihood needs them.
        density: the log density of a batch of unconstrained points, each evaluated once.
        error: estimate of the largest error of a log density that is not negligible, in nats.
    """

    points: LineIndex
    density: LogDensity
    error: float


def resolved(
    target: Target,
    column: Column,
    prior_draws: Mapping[str, np.ndarray],
    tolerance: float,
    *,
    progress: bool,
) -> Resolved:
    """Keep the rows that the density of one or two hyperparameters depends on.

    Args:
        target: with one lengthscale.
        column: the rows.
        prior_draws: unconstrained, by site; the density is looked at over their range, and on.
        tolerance: of the integral that tells where it counts, see
            :class:`~bke.inference.Quadrature`.
        progress: show progress bars.

    Raises:
        InputError: where too many rows would have to be kept, or so many are so near each other
            that nothing can be prepared.
    """
    flat = flatten(prior_draws)
    low, high = flat.min(axis=0), flat.max(axis=0)
    known: dict[bytes, float] = {}
    room = ROOM * column.size  # another size would compile anew
    for turn in range(ROUNDS):
        seen = _Seen(target, column, known, room)
        most = FIRST_EVALUATIONS if turn == 0 else MOST_EVALUATIONS[flat.shape[1]]
        with progress_bar("evaluations", None, shown=progress) as advance:

            def tallied(z: np.ndarray, seen: _Seen = seen, advance: Any = advance) -> np.ndarray:
                advance(len(z))
                return seen.at(z)

            found = integrate(tallied, low, high, tolerance=tolerance, most=most)
        uncertain, error = seen.uncertain(found.nodes, found.log_density)
        if not uncertain.any() or turn == ROUNDS - 1:
            break
        column.keep(seen.in_doubt(found.nodes, uncertain))
        # What is negligible stays as it is known; all else is evaluated anew.
        known = {z.tobytes(): known[z.tobytes()] for z in found.nodes[~uncertain]}
    if uncertain.any():
        warnings.warn(
            f"the log density of the rows may be wrong by {error:.2g} nats, however many are kept: "
            "with rows in memory it is not",
            stacklevel=2,
        )
    return Resolved(seen.points, seen.density, error)


class _Seen:
    """The column by the rows that are kept so far."""

    def __init__(
        self, target: Target, column: Column, known: dict[bytes, float], room: int
    ) -> None:
        self._target, self._known = target, known
        self._weighted = weighted = column.points()
        with input_errors():
            index = weighted_line_index(weighted.x, weighted.weights, column.width, room)
        self.points = jax.tree.map(jnp.asarray, index)
        self._evaluate = programs.log_densities(target)
        self._errors = programs.volume_errors(target)
        self._told: dict[bytes, tuple[float, np.ndarray]] = {}

    def density(self, z: Mapping[str, Any]) -> np.ndarray:
        """Log density (k,) of k unconstrained points by site."""
        names = list(self._target.shapes)
        return self.at(flatten({name: np.asarray(z[name]) for name in names}))

    def at(self, z: np.ndarray) -> np.ndarray:
        """Log density (k,) of unconstrained points (k, p)."""
        z = np.ascontiguousarray(z)
        new = {one.tobytes(): one for one in z if one.tobytes() not in self._known}
        if new:
            points = unflatten(np.stack(list(new.values())), self._target.shapes)
            values = log_densities(self._evaluate, points, self.points)
            self._known.update(zip(new, values.tolist(), strict=True))
        return np.array([self._known[one.tobytes()] for one in z])

    def uncertain(self, z: np.ndarray, logs: np.ndarray) -> tuple[np.ndarray, float]:
        """Which points (k, p) may count and are not right, and the largest error of those that may.

        From the highest density down, until what may be wrong is far less than what is missing.
        """
        errors = np.zeros(len(z))
        order = np.argsort(-logs)
        done = 0
        while done < len(order):
            some = order[done : done + BATCH]
            errors[some] = [error for error, _ in self._told_of(z[some])]
            done += len(some)
            best = np.max(logs[order[:done]] - errors[order[:done]])
            if logs[some[-1]] + 3.0 * errors[order[:done]].max() + MARGIN < best:
                break
        seen = order[:done]
        counts = np.zeros(len(z), dtype=bool)
        counts[seen] = logs[seen] + errors[seen] > best - MARGIN
        return counts & (errors > TOLERANCE), float(errors[counts].max())

    def in_doubt(self, z: np.ndarray, uncertain: np.ndarray) -> np.ndarray:
        """Bins (bins,) in which there may be a zero of mu_hat' at the ``uncertain`` of points.

        And between any two that are next to each other, or next to one that is not: where the bins
        of two have none in common, what lies between is looked at as well.
        """
        lengthscales = self._lengthscales(z)
        each, first, which = np.unique(lengthscales, return_index=True, return_inverse=True)
        open_ = np.bincount(which.ravel(), uncertain, minlength=len(each)) > 0
        beside = binary_dilation(open_)
        pairs = [(z[first[i]], z[first[i + 1]]) for i in np.flatnonzero(beside[1:] & beside[:-1])]
        found = np.zeros(len(self._weighted.counts), dtype=bool)
        for depth in range(HALVINGS):
            self._told_of(np.array(pairs).reshape(-1, z.shape[1]))
            apart = []
            for one, other in pairs:
                (_, bins), (_, others) = self._told_of(np.stack([one, other]))
                found |= bins | others
                if not (_reached(bins, others) and _reached(others, bins)):
                    middle = 0.5 * (one + other)
                    apart += [(one, middle), (middle, other)]
            if not apart or depth == HALVINGS - 1:
                break
            pairs = apart
        return binary_dilation(found, iterations=BESIDE)

    def _told_of(self, z: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """Error of the volume term at points (k, p), and the bins it is of."""
        z = np.ascontiguousarray(z)
        new = {one.tobytes(): one for one in z if one.tobytes() not in self._told}
        if new:
            points = unflatten(np.stack(list(new.values())), self._target.shapes)
            nodes, counts = jnp.asarray(self._weighted.nodes), jnp.asarray(self._weighted.counts)

            def evaluate(z: Any, X: LineIndex) -> jax.Array:
                return self._errors(z, X, nodes, counts)

            for key, errors in zip(new, log_densities(evaluate, points, self.points), strict=True):
                order = np.argsort(errors)
                flagged = np.zeros(len(errors), dtype=bool)
                flagged[order[np.cumsum(errors[order]) > LEFT]] = True
                self._told[key] = float(errors.sum()), flagged
        return [self._told[one.tobytes()] for one in z]

    def _lengthscales(self, z: np.ndarray) -> np.ndarray:
        """Of points (k, p), in the model's units, (k,)."""
        values = self._target.constrain(
            {name: jnp.asarray(v) for name, v in unflatten(z, self._target.shapes).items()}
        )
        shortest = [
            self.points.shortest_of(
                self._target.kernel_at({name: value[i] for name, value in values.items()})
            )
            for i in range(len(z))
        ]
        return np.array(shortest, dtype=float).reshape(len(z))


def _reached(bins: np.ndarray, others: np.ndarray) -> bool:
    """Whether every run of ``bins`` has one of the ``others``, or is next to one."""
    runs, count = label(bins)
    near = binary_dilation(others) if others.any() else others
    return len(np.unique(runs[near & bins])) == count
