"""What a filter says: the posterior embedding of the state at every step."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.base import Covariance
from .conditional import (
    ConditionalEmbedding,
    LowRankFeatures,
    as_numpy_points,
    check_regularization,
    diagonal_of,
    low_rank_features,
    matching_points,
)
from .embedding import Embedding
from .pre_image import pre_images
from .rules import posterior_weights


@dataclasses.dataclass(frozen=True, repr=False)
class StateEstimates:
    """Posterior embeddings of the states at S steps: weights on T training states.

    Attributes:
        kernel: of the states.
        points: training states, (T, D).
        weights: (S, T), of any sign; where the filter normalizes, each row sums to one.
        observed: (S,), whether the observation of the step counted; ``None``: not told.
    """

    kernel: Covariance
    points: np.ndarray
    weights: np.ndarray
    observed: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"StateEstimates({len(self)} steps, on {len(self.points)} states)"

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, step: int) -> Embedding:
        """The embedding at a step, counted from 0."""
        return Embedding(self.kernel, self.points, self.weights[step])

    def mean(self) -> np.ndarray:
        """Posterior means (S, D), by weights that sum to one."""
        total = self.weights.sum(axis=1, keepdims=True)
        return np.asarray(self.weights @ self.points / total)

    def mode(self) -> np.ndarray:
        """Where each embedding is highest (S, D), see :func:`~bke.models.pre_image` (PRE-3)."""
        return pre_images(self.kernel, self.points, self.weights).point


#: Sums of weights are nothing below so much of the sum of their sizes, and of the prior's sum: an
#: observation some five lengthscales from all of training.
CANCELLED, NOTHING = 1e-9, 1e-6
#: Regularization of the smoother over the squared mean of k(x, x).
SMOOTHING = 0.01
#: Share of k(x, x) outside the span of the training states that the ends of transitions may have.
OUTSIDE = 0.9


@dataclasses.dataclass(frozen=True, repr=False)
class KernelBayesFilter:
    """A hidden Markov model learned from states and observations, see :func:`kernel_bayes_filter`.

    Attributes:
        observation: of an observation given the state: T pairs.
        transition: of the next state given the state: S pairs.
        of_y: features of the training observations.
        successors: coordinates of the ends of the transitions, (S, r).
        posterior_regularization: delta.
        smoothing_regularization: the same for the steps of :meth:`smooth`.
        normalize: whether weights are made to sum to one at every step.
    """

    observation: ConditionalEmbedding
    transition: ConditionalEmbedding
    of_y: LowRankFeatures
    successors: np.ndarray
    posterior_regularization: float
    smoothing_regularization: float
    normalize: bool

    def regularized(
        self,
        regularization: float,
        posterior_regularization: float | None = None,
        smoothing_regularization: float | None = None,
    ) -> KernelBayesFilter:
        """Change the regularizations of the filter, see :func:`kernel_bayes_filter`.

        Factorizations are kept: they are as accurate as what they were made for asked.
        """
        delta = posterior_regularization
        if delta is None:
            delta = 2.0 * regularization
        check_regularization(regularization, "regularization")
        check_regularization(delta, "posterior_regularization")
        if smoothing_regularization is not None:
            check_regularization(smoothing_regularization, "smoothing_regularization")
        backwards = _smoothing(smoothing_regularization, delta, self.observation.features)
        return dataclasses.replace(
            self,
            observation=dataclasses.replace(self.observation, regularization=regularization),
            transition=dataclasses.replace(self.transition, regularization=regularization),
            posterior_regularization=delta,
            smoothing_regularization=backwards,
        )

    @property
    def states(self) -> np.ndarray:
        """The training states, (T, D)."""
        return self.observation.X

    def __repr__(self) -> str:
        return (
            f"KernelBayesFilter(of {len(self.states)} states, "
            f"kernel_x={self.observation.kernel_x}, kernel_y={self.observation.kernel_y}, "
            f"regularization={self.observation.regularization:.4g})"
        )

    def filter(
        self,
        Y: ArrayLike,
        *,
        prior: Embedding | None = None,
        observed: ArrayLike | None = None,
        outliers: str = "raise",
    ) -> StateEstimates:
        """Posterior of the state at each step given the observations up to then.

        Args:
            Y: observations in order of time, shape (S, E) or (S,).
            prior: of the first state; the empirical embedding of the training states by default.
            observed: (S,) of bool, ``False`` where there is no observation, whose row of Y may
                then hold anything; all by default.
            outliers: observations so far from all of training that the weights sum to nothing:
                ``"raise"``, or ``"skip"``, as if they had not been observed; ``observed`` of the
                result tells which.

        Raises:
            ValueError: for observations of another number of columns than in training, or that
                are not finite where they count; a prior with another kernel or no weights.
            ArithmeticError: weights that sum to nothing, with the row.
        """
        if outliers not in ("raise", "skip"):
            raise ValueError(f"outliers must be 'raise' or 'skip', got {outliers!r}")
        series, seen = self._series(Y, observed)
        evidence = self.of_y(series, "Y")
        if prior is None:
            belief = self.observation.features.values.mean(axis=0)
        else:
            belief = self.observation.coordinates(prior)
        found = []
        for step in range(len(series)):
            predicted = self.observation.apply(belief[None])[0]
            weights = self._update(predicted, evidence[step]) if seen[step] else predicted
            if seen[step] and outliers == "skip" and _is_nothing(weights, predicted):
                seen[step], weights = False, predicted
            weights = self._normalized(weights, step, predicted)
            found.append(weights)
            belief = self._next(weights @ self.observation.features.values)
        kernel = self.observation.kernel_x
        return StateEstimates(kernel, self.states, np.stack(found), seen)

    def predict(self, estimates: StateEstimates, steps: int = 1) -> StateEstimates:
        """The states ``steps`` later, each from the estimate at its step.

        Raises:
            ValueError: for less than one step.
        """
        if isinstance(steps, bool) or int(steps) != steps or steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
        beliefs = estimates.weights @ self.observation.features(estimates.points)
        for _ in range(steps - 1):
            beliefs = self.transition.apply(beliefs) @ self.successors
        weights = self.transition.apply(beliefs)
        if self.normalize:
            weights = np.stack([self._normalized(row, step) for step, row in enumerate(weights)])
        return StateEstimates(self.observation.kernel_x, self.transition.Y, weights)

    def smooth(self, filtered: StateEstimates) -> StateEstimates:
        """Posterior of the state at each step given all observations, from :meth:`filter`.

        Backwards from the last: the weights of training transitions under the filtered state, then
        kernel Bayes' rule for their starts given the smoothed state after. Smoothed states have
        weights on the training states that transitions start from; so has the last, which is the
        filtered one told by these.
        """
        starts = self.transition.features
        beliefs = filtered.weights @ self.observation.features(filtered.points)
        weights = self._normalized(self.transition.apply(beliefs[-1:])[0], len(filtered) - 1)
        after, found = beliefs[-1], [weights]
        for step in range(len(filtered) - 2, -1, -1):
            prior = self.transition.apply(beliefs[step][None])[0]
            weighted = self.successors * prior[:, None]
            weights = posterior_weights(
                weighted,
                self.successors.T @ weighted,
                self.smoothing_regularization,
                after[None],
                "smoothing_regularization",
            )[0]
            weights = self._normalized(weights, step, prior)
            found.append(weights)
            after = weights @ starts.values
        return StateEstimates(self.observation.kernel_x, self.transition.X, np.stack(found[::-1]))

    def _series(self, Y: ArrayLike, observed: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        values = np.array(Y, dtype=float)
        seen = np.ones(len(values), bool) if observed is None else np.array(observed)
        if len(values) == 0:
            raise ValueError("there are no observations")
        if seen.dtype != bool or seen.shape != (len(values),):
            raise ValueError(f"observed must hold {len(values)} of True or False")
        values[~seen] = 0.0
        faulty = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if faulty.any():
            raise ValueError(
                f"Y has a value that is not finite in row {int(np.argmax(faulty)) + 1}: rows "
                "without an observation are told by observed="
            )
        return matching_points(as_numpy_points(values, "Y"), self.of_y.points, "Y"), seen

    def _update(self, prior: np.ndarray, evidence: np.ndarray) -> np.ndarray:
        """Posterior weights (T,) for those of the prior and the observation's coordinates."""
        weighted = self.of_y.values * prior[:, None]
        covariance = self.of_y.values.T @ weighted
        return posterior_weights(
            weighted,
            covariance,
            self.posterior_regularization,
            evidence[None],
            "posterior_regularization",
        )[0]

    def _next(self, belief: np.ndarray) -> np.ndarray:
        """Coordinates of the next state's embedding."""
        after: np.ndarray = self.transition.apply(belief[None])[0] @ self.successors
        return after

    def _normalized(
        self, weights: np.ndarray, step: int, prior: np.ndarray | None = None
    ) -> np.ndarray:
        """Weights that sum to one, where there were those of ``prior`` before."""
        if not self.normalize:
            return weights
        if _is_nothing(weights, prior):
            raise ArithmeticError(
                f"the posterior's weights sum to nothing in row {step + 1}: its observation may be "
                "far from all of training; tell it as not observed, widen the kernel of the "
                "observations, or raise posterior_regularization"
            )
        return weights / weights.sum()


def _is_nothing(weights: np.ndarray, prior: np.ndarray | None = None) -> bool:
    """Whether they sum to nothing, beside their sizes or the sum of the prior's."""
    least = CANCELLED * float(np.abs(weights).sum())
    if prior is not None:
        least = max(least, NOTHING * abs(float(prior.sum())))
    return not float(weights.sum()) > least


def _smoothing(given: float | None, delta: float, of_x: LowRankFeatures) -> float:
    """The regularization of the smoother."""
    size = float(np.mean(np.sum(of_x.values**2, axis=1)))
    return max(delta, SMOOTHING * size**2) if given is None else given


def _check_inside(reached: np.ndarray, points: np.ndarray, kernel: Covariance) -> None:
    """Refuse transitions to where no training state is."""
    size = np.asarray(diagonal_of(kernel, points))
    outside = size - np.sum(reached**2, axis=1) > OUTSIDE * size
    if outside.any():
        raise ValueError(
            f"{int(outside.sum())} of {len(points)} transitions end far from all states X, the "
            f"first in row {int(np.argmax(outside)) + 1}: what is there cannot be told by weights "
            "on X"
        )


def kernel_bayes_filter(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    regularization: float | None = None,
    posterior_regularization: float | None = None,
    smoothing_regularization: float | None = None,
    transitions: tuple[ArrayLike, ArrayLike] | None = None,
    normalize: bool = True,
    tolerance: float | None = None,
    rank: int | None = None,
) -> KernelBayesFilter:
    """Learn the filter from training states and their observations.

    Args:
        X: states, shape (T, D) or (T,), in order of time unless ``transitions`` are given.
        Y: observations of these states, shape (T, E) or (T,).
        kernel_x: of states.
        kernel_y: of observations.
        regularization: epsilon, per row: T epsilon is added to the Gram matrix of the states;
            0.01 / T by default.
        posterior_regularization: delta of kernel Bayes' rule; twice epsilon by default.
        smoothing_regularization: the same where smoothing conditions on the state after, which
            says less than an observation, and with little regularization it is worse than
            filtering: a hundredth of the squared mean of k(x, x) by default, at least delta.
        transitions: states and the states that followed them, (S, D) each, where training is not
            one series in order of time; consecutive rows of X by default.
        normalize: make weights sum to one at every step; the published updates do not.
        tolerance: of the incomplete Cholesky factorizations, see
            :func:`~bke.models.embeddings.conditional.low_rank_features`; rounding by default. A
            hundredth of
            epsilon costs a fraction, and moves posterior means little where the filter is stable.
        rank: likewise, their largest rank.

    Raises:
        ValueError: for arguments that make no sense, naming them.
    """
    states, outputs = np.asarray(as_numpy_points(X)), np.asarray(as_numpy_points(Y, "Y"))
    if len(states) != len(outputs):
        raise ValueError(
            f"X has {len(states)} rows and Y has {len(outputs)}, where pairs are needed"
        )
    if transitions is None:
        if len(states) < 2:
            raise ValueError("a series of states needs at least 2 rows")
        pairs = states[:-1], states[1:]
    else:
        before, after = transitions
        pairs = (
            matching_points(before, states, "transitions"),
            matching_points(after, states, "transitions"),
        )
        if len(pairs[0]) != len(pairs[1]):
            raise ValueError(
                f"transitions start from {len(pairs[0])} states and end in {len(pairs[1])}"
            )
    epsilon = 0.01 / len(states) if regularization is None else regularization
    delta = 2.0 * epsilon if posterior_regularization is None else posterior_regularization
    check_regularization(epsilon, "regularization")
    check_regularization(delta, "posterior_regularization")
    if smoothing_regularization is not None:
        check_regularization(smoothing_regularization, "smoothing_regularization")
    of_x = low_rank_features(states, kernel_x, tolerance=tolerance, rank=rank)
    backwards = _smoothing(smoothing_regularization, delta, of_x)
    of_y = low_rank_features(outputs, kernel_y, tolerance=tolerance, rank=rank)
    reached = of_x(pairs[1])
    if transitions is not None:
        _check_inside(reached, pairs[1], kernel_x)
    starts = dataclasses.replace(of_x, points=pairs[0], values=of_x(pairs[0]))
    return KernelBayesFilter(
        ConditionalEmbedding(of_x, outputs, kernel_y, float(epsilon)),
        ConditionalEmbedding(starts, pairs[1], kernel_x, float(epsilon)),
        of_y,
        reached,
        float(delta),
        float(backwards),
        normalize,
    )
