"""The kernel Bayes filter: hidden states from observations, both known from a sample only.

Fukumizu, Song and Gretton, *Kernel Bayes' Rule* (2011-13), and the slides of 2010: the dynamics and
the observation model are both given by samples of pairs. Smoothing is the same rule backwards in
time, as in Nishiyama et al., *The Nonparametric Kernel Bayes Smoother* (2016): the posterior of the
state before, given the state after, with the filtered state as its prior.

An embedding of the state is represented by its coordinates in the features of the training states,
so that a step costs T r^2 for T training rows and features of rank r.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.base import Covariance, check_row_labels, column_names, in_order_of
from ..kernels.covariance import as_numbers
from ..linalg.precision import double_precision
from .conditional import (
    ConditionalEmbedding,
    LowRankFeatures,
    as_numpy_pairs,
    as_numpy_points,
    check_regularization,
    low_rank_features,
    matching_points,
)
from .embedding import Embedding
from .pre_image import pre_images
from .rules import rule_cholesky, rule_regularization, rule_solution


@dataclasses.dataclass(frozen=True, repr=False)
class StateEstimates:
    """Posterior embeddings of the states at S steps: weights on T training states.

    Attributes:
        kernel: kernel of the states.
        points: training states, (T, D).
        weights: (S, T), of any sign; where the filter normalizes, each row sums to one.
        observed: ``True`` where the observation of the step was used, (S,); ``None`` if unknown.
        columns: names of the columns of the states; ``None`` without names.
    """

    kernel: Covariance
    points: np.ndarray
    weights: np.ndarray
    observed: np.ndarray | None = None
    columns: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return f"StateEstimates({len(self)} steps, on {len(self.points)} states)"

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, step: int) -> Embedding:
        """Return the embedding at a step, counted from 0."""
        return Embedding(self.kernel, self.points, self.weights[step], columns=self.columns)

    def mean(self) -> np.ndarray:
        """Return posterior means (S, D), by weights that sum to one."""
        total = self.weights.sum(axis=1, keepdims=True)
        return np.asarray(self.weights @ self.points / total)

    def mode(self) -> np.ndarray:
        """Return where each embedding is highest, (S, D): :func:`~bke.models.pre_image`."""
        return pre_images(self.kernel, self.points, self.weights)[0]


@dataclasses.dataclass(frozen=True, repr=False)
class KernelBayesFilter:
    """A hidden Markov model learned from states and observations, see :func:`kernel_bayes_filter`.

    Attributes:
        observation: embedding of an observation given the state, from T pairs.
        transition: embedding of the next state given the state, from S pairs.
        features_y: features of the training observations.
        successors: coordinates of the ends of the transitions, (S, r).
        posterior_regularization: delta.
        smoothing_regularization: the same for the steps of :meth:`smooth`.
        normalize: ``True`` if weights are divided by their sum at every step.
        method: ``"squared"`` or ``"importance"``, the kernel Bayes' rule of each step.
    """

    observation: ConditionalEmbedding
    transition: ConditionalEmbedding
    features_y: LowRankFeatures
    successors: np.ndarray
    posterior_regularization: float
    smoothing_regularization: float
    normalize: bool
    method: str = "squared"

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
        """Compute the posterior of the state at each step given the observations up to then.

        Args:
            Y: observations in order of time, shape (S, E) or (S,).
            prior: embedding of the first state; by default that of the training states.
            observed: (S,) of bool, ``False`` where there is no observation, whose row of Y may
                then hold anything; all by default.
            outliers: for observations so far from all of training that the weights sum to nearly
                zero: ``"raise"``, or ``"skip"``, as if they had not been observed; ``observed`` of
                the result is ``False`` there.

        Raises:
            ValueError: for observations with another number of columns than in training, or that
                are not finite where they are used; a prior with another kernel or no weights.
            ArithmeticError: weights that sum to nearly zero, with the row.
        """
        if outliers not in ("raise", "skip"):
            raise ValueError(f"outliers must be 'raise' or 'skip', got {outliers!r}")
        series, used = self._series(Y, observed)
        observations = self.features_y(series, "Y")
        features = self.observation.features
        state = features.values.mean(axis=0) if prior is None else features.coordinates(prior)
        delta = self.posterior_regularization
        rows = []
        for step, observation in enumerate(observations):
            predicted = self.observation.apply(state[None])[0]
            weights = predicted
            if used[step]:
                weights = self._posterior_weights(
                    self.features_y.values, predicted, observation, delta, "posterior"
                )
                if outliers == "skip" and _vanishes(weights, predicted):
                    used[step], weights = False, predicted
            weights = self._normalized(weights, step, predicted)
            rows.append(weights)
            state = self.transition.apply((weights @ features.values)[None])[0] @ self.successors
        return self._estimates(self.states, np.stack(rows), used)

    def predict(self, estimates: StateEstimates, steps: int = 1) -> StateEstimates:
        """Predict the states ``steps`` later, each from the estimate at its step.

        Raises:
            ValueError: for less than one step.
        """
        if isinstance(steps, bool) or int(steps) != steps or steps < 1:
            raise ValueError(f"steps must be a whole number of at least 1, got {steps!r}")
        states = estimates.weights @ self.observation.features(estimates.points)
        for _ in range(steps - 1):
            states = self.transition.apply(states) @ self.successors
        weights = self.transition.apply(states)
        weights = np.stack([self._normalized(row, step) for step, row in enumerate(weights)])
        return self._estimates(self.transition.Y, weights)

    def smooth(self, filtered: StateEstimates) -> StateEstimates:
        """Compute the posterior of the state at each step given all observations.

        Backwards from the last: the weights of training transitions under the filtered state, then
        kernel Bayes' rule for their starts given the smoothed state after. Smoothed states have
        weights on the training states that transitions start from; so has the last, which is the
        filtered one expressed by these.

        Args:
            filtered: the result of :meth:`filter`.
        """
        states = filtered.weights @ self.observation.features(filtered.points)
        weights = self._normalized(self.transition.apply(states[-1:])[0], len(filtered) - 1)
        after, rows = states[-1], [weights]
        delta = self.smoothing_regularization
        for step in range(len(filtered) - 2, -1, -1):
            prior = self.transition.apply(states[step][None])[0]
            weights = self._posterior_weights(self.successors, prior, after, delta, "smoothing")
            weights = self._normalized(weights, step, prior)
            rows.append(weights)
            after = weights @ self.transition.features.values
        return self._estimates(self.transition.X, np.stack(rows[::-1]))

    def _estimates(
        self, points: np.ndarray, weights: np.ndarray, observed: np.ndarray | None = None
    ) -> StateEstimates:
        features = self.observation.features
        return StateEstimates(features.kernel, points, weights, observed, features.columns)

    def _series(self, Y: ArrayLike, observed: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        """Return observations (S, E), with zeros where there are none, and which are used."""
        check_row_labels(Y, observed, ("Y", "observed"))
        values = as_numbers(in_order_of(Y, self.features_y.columns, "Y"), "Y")
        values = np.array(np.atleast_1d(values), dtype=float)
        used = np.ones(len(values), bool) if observed is None else np.array(observed, subok=True)
        if len(values) == 0:
            raise ValueError("there are no observations")
        if used.dtype != bool or used.shape != (len(values),) or np.ma.is_masked(used):
            raise ValueError(f"observed must hold {len(values)} of True or False")
        values[~used] = 0.0
        finite = np.isfinite(values.reshape(len(values), -1)).all(axis=1)
        if not finite.all():
            raise ValueError(
                f"Y has a value that is not finite in row {int(np.argmin(finite)) + 1}: mark rows "
                "without an observation by observed="
            )
        points = np.asarray(as_numpy_points(values, "Y"))
        return matching_points(points, self.features_y.points, "Y"), used

    def _posterior_weights(
        self, Z: np.ndarray, prior: np.ndarray, coordinates: np.ndarray, added: float, step: str
    ) -> np.ndarray:
        """Compute the weights of :class:`~bke.models.BayesRule` on the training pairs, (T,).

        Args:
            Z: features of the training pairs, (T, r).
            prior: weights of the pairs, the diagonal of Lambda, (T,).
            coordinates: z of the observation, (r,).
            added: regularization.
            step: ``"posterior"`` or ``"smoothing"``, for the error message.
        """
        if self.method == "importance":
            prior = np.maximum(prior, 0.0)
        weighted = Z * prior[:, None]
        covariance = Z.T @ weighted
        factor = rule_cholesky(covariance, added, self.method, f"{step}_regularization")
        return np.asarray(weighted @ rule_solution(factor, covariance, coordinates, self.method))

    def _normalized(
        self, weights: np.ndarray, step: int, prior: np.ndarray | None = None
    ) -> np.ndarray:
        """Return weights that sum to one; ``prior`` are the weights before the update."""
        if not self.normalize:
            return weights
        if _vanishes(weights, prior):
            raise ArithmeticError(
                f"the posterior's weights sum to nothing in row {step + 1}: its observation may be "
                "far from all of training; mark it by observed=, widen the kernel of the "
                "observations, or raise posterior_regularization"
            )
        return weights / weights.sum()


def _vanishes(weights: np.ndarray, prior: np.ndarray | None = None) -> bool:
    """Return whether weights (T,) sum to nearly zero; ``prior`` are those before the update.

    That is 1e-9 of the sum of their absolute values, or 1e-6 of the prior's sum: an observation
    some five lengthscales from all of training.
    """
    smallest = 1e-9 * float(np.abs(weights).sum())
    if prior is not None:
        smallest = max(smallest, 1e-6 * abs(float(prior.sum())))
    return not float(weights.sum()) > smallest


def kernel_bayes_filter(
    X: ArrayLike,
    Y: ArrayLike,
    kernel_x: Covariance,
    kernel_y: Covariance,
    *,
    method: str = "squared",
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
        X: states, shape (T, D) or (T,), in order of time unless there are ``transitions``.
        Y: observations of these states, shape (T, E) or (T,).
        kernel_x: of states.
        kernel_y: of observations.
        method: ``"squared"`` or ``"importance"``, see :func:`~bke.models.bayes_rule`.
        regularization: epsilon, per row: T epsilon is added to the Gram matrix of the states;
            0.01 / T by default.
        posterior_regularization: delta of kernel Bayes' rule; by default twice epsilon for
            ``"squared"`` and epsilon for ``"importance"``.
        smoothing_regularization: the same where smoothing conditions on the state after, which is
            less informative than an observation: with little regularization it is worse than
            filtering. By default 0.01 times the squared mean of k(x, x), or 0.1 times the mean for
            ``"importance"``, at least delta.
        transitions: states and the states that followed them, (S, D) each, where training is not
            one series in order of time; consecutive rows of X by default.
        normalize: make weights sum to one at every step; the published updates do not.
        tolerance: for the incomplete Cholesky factorizations, see
            :func:`~bke.models.embeddings.conditional.low_rank_features`; rounding error by default.
            A hundredth of epsilon costs a fraction of the time, and changes posterior means little
            where the filter is stable.
        rank: largest rank of the factorizations.

    Raises:
        ValueError: for an invalid argument.
    """
    states, outputs = as_numpy_pairs(X, Y)
    if transitions is not None:
        columns = column_names(X)
        before, after = (
            matching_points(part, states, "transitions", columns) for part in transitions
        )
        if len(before) != len(after):
            raise ValueError(f"transitions start from {len(before)} states and end in {len(after)}")
    elif len(states) < 2:
        raise ValueError("a series of states needs at least 2 rows")
    else:
        before, after = states[:-1], states[1:]
    features_x = low_rank_features(X, kernel_x, tolerance=tolerance, rank=rank)
    features_y = low_rank_features(Y, kernel_y, tolerance=tolerance, rank=rank)
    successors = features_x(after)
    # With little of k(x, x) in the span of the training states, weights cannot represent a state.
    diagonal = np.asarray(double_precision(kernel_x.diagonal)(after))  # type: ignore[arg-type]
    outside = diagonal - np.sum(successors**2, axis=1) > 0.9 * diagonal
    if transitions is not None and outside.any():
        raise ValueError(
            f"{int(outside.sum())} of {len(after)} transitions end far from all states X, the "
            f"first in row {int(np.argmax(outside)) + 1}: weights on X cannot represent them; add "
            "states there"
        )
    starts = dataclasses.replace(features_x, points=before, values=features_x(before))
    epsilon = 0.01 / len(states) if regularization is None else regularization
    epsilon = check_regularization(epsilon, "regularization")
    delta = rule_regularization(
        method, epsilon, posterior_regularization, "posterior_regularization"
    )
    smoothing = smoothing_regularization
    if smoothing is None:
        typical = 0.1 * float(np.mean(np.sum(features_x.values**2, axis=1)))
        smoothing = max(delta, typical**2 if method == "squared" else typical)
    return KernelBayesFilter(
        ConditionalEmbedding(features_x, outputs, kernel_y, epsilon),
        ConditionalEmbedding(starts, after, kernel_x, epsilon),
        features_y,
        successors,
        delta,
        check_regularization(smoothing, "smoothing_regularization"),
        normalize,
        method,
    )
