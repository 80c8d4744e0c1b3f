"""Sum, product and Bayes' rule of embeddings, and functions of variables.

Muandet et al. (2017, section 4.3), whose errors are corrected. In the features of the sample, see
:mod:`~bke.models.embeddings.conditional`, the estimates are those of the literature, at the cost of
r x r systems in place of n x n ones.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_solve

from ..kernels.base import Covariance, check_row_labels
from .conditional import (
    ConditionalEmbedding,
    LowRankFeatures,
    check_regularization,
    check_weight_sums,
    low_rank_features,
    matching_points,
    regularized_cholesky,
)
from .embedding import Embedding, function_values, mean_embedding, same_kernel


def sum_rule(conditional: ConditionalEmbedding, prior: Embedding) -> Embedding:
    """Compute the embedding of Y where X has another distribution, int P(Y | x) dPi(x).

    Muandet et al. (2017, eq. 4.15 to 4.17). The weight of y_i is that of
    :class:`ConditionalEmbedding` averaged over the prior, (K + n lambda I)^-1 K~ a.

    Args:
        conditional: of Y given X.
        prior: of X, with its kernel; its weights may be negative.

    Raises:
        ValueError: the prior has another kernel, other columns or no weights.
        ArithmeticError: the prior is so far from the sample that the weights vanish.
    """
    weights = conditional.weights_of(prior)
    return Embedding(conditional.kernel_y, conditional.Y, weights, columns=conditional.columns_y)


@dataclasses.dataclass(frozen=True)
class JointEmbedding:
    """sum_ij B_ij k(x_i, .) (x) l(y_j, .), the embedding of two variables.

    Attributes:
        kernel_x: k.
        kernel_y: l.
        X: (n, D).
        Y: (m, E).
        coefficients: B, (n, m).
        columns_x: names of the columns of X; ``None`` without names.
        columns_y: names of the columns of Y; ``None`` without names.
    """

    kernel_x: Covariance
    kernel_y: Covariance
    X: np.ndarray
    Y: np.ndarray
    coefficients: np.ndarray
    columns_x: tuple[str, ...] | None = None
    columns_y: tuple[str, ...] | None = None

    def __call__(self, x: ArrayLike, y: ArrayLike) -> np.ndarray:
        """Return the values at pairs of points, (p,) for shapes (p, D) and (p, E)."""
        check_row_labels(x, y, ("x", "y"))
        at_x = matching_points(x, self.X, "x", self.columns_x)
        at_y = matching_points(y, self.Y, "y", self.columns_y)
        if len(at_x) != len(at_y):
            raise ValueError(f"x has {len(at_x)} points and y {len(at_y)}, where pairs are needed")
        left, right = self.kernel_x(at_x, self.X), self.kernel_y(at_y, self.Y)
        return np.asarray(np.sum((left @ self.coefficients) * np.asarray(right), axis=1))

    def inner_product(self, other: JointEmbedding) -> float:
        """Compute the inner product in the tensor product of both Hilbert spaces."""
        kernels = (self.kernel_x, other.kernel_x), (self.kernel_y, other.kernel_y)
        if not all(same_kernel(first, second) for first, second in kernels):
            raise ValueError("the joint embeddings belong to different kernels")
        left = np.asarray(self.kernel_x(self.X, other.X))
        right = np.asarray(self.kernel_y(self.Y, other.Y))
        return float(np.sum(self.coefficients * (left @ other.coefficients @ right.T)))

    def expectation(self, function: Callable[[np.ndarray, np.ndarray], ArrayLike]) -> float:
        """Compute sum_ij B_ij f(x_i, y_j) for a function of pairs, rows (p, D), (p, E) to (p,)."""
        i, j = (index.ravel() for index in np.indices(self.coefficients.shape))
        values = np.asarray(function(self.X[i], self.Y[j]), dtype=float)
        if values.shape != i.shape:
            raise ValueError(f"the function must return {len(i)} values, got shape {values.shape}")
        return float(self.coefficients.ravel() @ values)

    def marginal_x(self) -> Embedding:
        """Return the embedding of X: the coefficients summed over y."""
        weights = self.coefficients.sum(axis=1)
        return Embedding(self.kernel_x, self.X, weights, columns=self.columns_x)

    def marginal_y(self) -> Embedding:
        """Return the embedding of Y: the coefficients summed over x."""
        weights = self.coefficients.sum(axis=0)
        return Embedding(self.kernel_y, self.Y, weights, columns=self.columns_y)


def product_rule(conditional: ConditionalEmbedding, prior: Embedding) -> JointEmbedding:
    """Compute the joint embedding of P(Y | X) and a prior on X.

    Muandet et al. (2017, eq. 4.18 to 4.21). Coefficients (K + n lambda I)^-1 K~ diag(a), of y_i and
    the prior's points x~_j. Memory grows with the rows of the sample times the points of the prior.

    Args:
        conditional: of Y given X.
        prior: of X, with its kernel.

    Returns:
        The joint embedding of (X, Y) in this order, on the prior's points and the sample's y.
    """
    conditional.features.coordinates(prior)  # raises an error for an invalid prior
    coefficients = conditional.weights(prior.points) * np.asarray(prior.weights)[:, None]
    return JointEmbedding(
        prior.kernel,
        conditional.kernel_y,
        np.asarray(prior.points),
        conditional.Y,
        coefficients,
        prior.columns or conditional.features.columns,
        conditional.columns_y,
    )


@dataclasses.dataclass(frozen=True, repr=False)
class BayesRule:
    """Kernel Bayes' rule: the posterior of X given Y = y, for every y.

    Fukumizu, Song and Gretton (2013). (The empirical rule of Muandet et al. 2017, section 4.3.3,
    lacks the square and is wrong.) With Lambda the diagonal matrix of the weights w_i that the sum
    rule gives the sample, and Z the features of y, the uncentered covariance operator of Y under
    the prior is C = Z' Lambda Z. The posterior of the sample is Lambda Z (C^2 + delta I)^-1 C
    z(y): the L_Y (L_Y^2 + delta I)^-1 Lambda k_Y of the literature, L_Y = Lambda G_Y.
    :func:`bayes_rule` makes one.

    The importance-weighted rule (Xu, Chen, Doucet and Gretton 2022) has Lambda Z (C + delta I)^-1
    z(y) with weights w_i that are not negative: n w_i estimates the ratio of the densities of the
    prior and of the sample at x_i, and the posterior is the ridge regression of the features of X
    on those of Y with these weights.

    Attributes:
        features: of Y.
        kernel_x: of X.
        points: of X, on which the posterior has weights, (p, D).
        map: Lambda Z, (p, r); or its counterpart on the prior's points.
        covariance: C, the uncentered covariance, (r, r), symmetric; not positive where weights are
            negative.
        regularization: delta.
        columns: names of the columns of X; ``None`` without names. The features have the names of
            the columns of Y.
        method: ``"squared"`` or ``"importance"``.
    """

    features: LowRankFeatures
    kernel_x: Covariance
    points: np.ndarray
    map: np.ndarray
    covariance: np.ndarray
    regularization: float
    columns: tuple[str, ...] | None = None
    method: str = "squared"

    def __repr__(self) -> str:
        return (
            f"BayesRule(on {len(self.points)} points, kernel_x={self.kernel_x}, "
            f"kernel_y={self.features.kernel}, regularization={self.regularization:.4g})"
        )

    def weights(self, y: ArrayLike) -> np.ndarray:
        """Return the posterior's weights at observations y, (m, p) for (m, E), (m,) or (E,)."""
        return self.apply(self.features(y, "y"))

    def __call__(self, y: ArrayLike) -> Embedding:
        """Return the posterior of X given Y = y, one observation.

        Raises:
            ValueError: for more than one observation, or other columns.
            ArithmeticError: y is so far from the sample that the weights vanish.
        """
        weights = self.weights(y)
        if len(weights) != 1:
            raise ValueError(
                f"y must be one observation, got {len(weights)}: use weights() for several"
            )
        # The sums of the weights at the sample's rows.
        totals = self.map.sum(axis=0) @ self._solved(self.features.values.T)
        typical = float(np.median(totals))
        points = matching_points(y, self.features.points, "y", self.features.columns)
        check_weight_sums(weights, typical, points, self.features.points, "y")
        return Embedding(self.kernel_x, self.points, weights[0], columns=self.columns)

    def condition_on(self, observation: Embedding) -> Embedding:
        """Return the posterior averaged over an uncertain observation, an embedding of Y."""
        coordinates = self.features.coordinates(observation, "the observation")
        weights = self.apply(coordinates[None])[0]
        return Embedding(self.kernel_x, self.points, weights, columns=self.columns)

    def apply(self, coordinates: np.ndarray) -> np.ndarray:
        """Return weights (m, p) for elements of Y's Hilbert space by their coordinates (m, r)."""
        return np.asarray(self.map @ self._solved(coordinates.T)).T

    def _solved(self, coordinates: np.ndarray) -> np.ndarray:
        """Return (C^2 + delta I)^-1 C z or (C + delta I)^-1 z of coordinates z (r, m)."""
        return rule_solution(self._factor, self.covariance, coordinates, self.method)

    @functools.cached_property
    def _factor(self) -> tuple[np.ndarray, bool]:
        return rule_cholesky(self.covariance, self.regularization, self.method, "regularization")


def bayes_rule(
    conditional: ConditionalEmbedding,
    prior: Embedding,
    *,
    method: str = "squared",
    regularization: float | None = None,
    support: str = "sample",
    features_y: LowRankFeatures | None = None,
) -> BayesRule:
    """Compute the posterior of X given Y by kernel Bayes' rule, from pairs and a prior on X.

    The pairs (x_i, y_i) represent the likelihood.

    The error depends on delta more than on epsilon: where that was learned and is tiny, twice its
    value may be too little. Regularization makes posteriors wider than they should be, more so the
    larger delta is, and weights of both signs make their variances uncertain: the rule is for
    posterior means. Far from all y_i the weights sum to nearly 0, which is an error.

    Args:
        conditional: of Y given X, which represents the likelihood; its regularization is epsilon.
        prior: of X, with its kernel.
        method: ``"squared"``, the rule of Fukumizu, Song and Gretton (2013); or ``"importance"``,
            the importance-weighted rule of Xu et al. (2022), see :class:`BayesRule`, with no
            inverse of an indefinite operator. With equal weights w_i = 1 / n the latter is the
            conditional embedding of X given Y.
        regularization: delta, at least 0. For ``"squared"`` in the units of the squared uncentered
            covariance of Y; twice epsilon by default, as in Fukumizu's slides. For ``"importance"``
            in the units of the covariance; epsilon by default.
        support: the posterior's points, ``"sample"`` for x_i (Fukumizu's slides) or ``"prior"`` for
            those of the prior (Muandet et al. 2017), of ``"squared"`` only.
        features_y: features of Y, where they are known already; by default to the tolerance and
            rank of the features of X.

    Raises:
        ValueError: for an invalid argument.
        ArithmeticError: the prior is so far from the sample that the weights vanish.
    """
    if support not in ("sample", "prior"):
        raise ValueError(f"support must be 'sample' or 'prior', got {support!r}")
    delta = rule_regularization(method, conditional.regularization, regularization)
    if method == "importance" and support == "prior":
        raise ValueError("method='importance' has weights on the sample: use support='sample'")
    if features_y is None:
        tolerance, rank = conditional.features.tolerance, conditional.features.max_rank
        features_y = low_rank_features(
            conditional.Y, conditional.kernel_y, tolerance=tolerance, rank=rank
        )
        features_y = dataclasses.replace(features_y, columns=conditional.columns_y)
    elif not (
        same_kernel(features_y.kernel, conditional.kernel_y)
        and np.array_equal(features_y.points, conditional.Y)
    ):
        raise ValueError("features_y must be features of conditional.Y, by its kernel")
    Z = features_y.values
    weights = conditional.weights_of(prior)
    if method == "importance":
        weights = np.maximum(weights, 0.0)
    points, mapped = conditional.X, Z * weights[:, None]
    covariance = Z.T @ mapped
    if support == "prior":
        joint = product_rule(conditional, prior)
        points, mapped = joint.X, joint.coefficients @ Z
    columns = conditional.features.columns or prior.columns
    return BayesRule(
        features_y, conditional.kernel_x, points, mapped, covariance, delta, columns, method
    )


def rule_regularization(
    method: str, epsilon: float, delta: float | None, name: str = "regularization"
) -> float:
    """Return delta of kernel Bayes' rule, by default 2 epsilon if squared and epsilon otherwise.

    Raises:
        ValueError: for an unknown method or an invalid delta, the argument ``name``.
    """
    if method not in ("squared", "importance"):
        raise ValueError(f"method must be 'squared' or 'importance', got {method!r}")
    default = 2.0 * epsilon if method == "squared" else epsilon
    return check_regularization(default if delta is None else delta, name)


def rule_cholesky(
    covariance: np.ndarray, added: float, method: str, name: str
) -> tuple[np.ndarray, bool]:
    """Compute the Cholesky factor of C^2 + added I, or of C + added I for ``"importance"``.

    Raises:
        ArithmeticError: it is singular; the message says to raise the argument ``name``.
    """
    description = "the uncentered covariance operator of the observations under the prior"
    matrix = covariance @ covariance if method == "squared" else covariance
    return regularized_cholesky(matrix, added, description, name)


def rule_solution(
    factor: tuple[np.ndarray, bool], covariance: np.ndarray, coordinates: np.ndarray, method: str
) -> np.ndarray:
    """Solve by the factor of :func:`rule_cholesky` for C z, or for z with ``"importance"``."""
    right = covariance @ coordinates if method == "squared" else coordinates
    return np.asarray(cho_solve(factor, right))


def function_embedding(
    function: Callable[..., ArrayLike],
    *variables: Embedding,
    kernel: Covariance,
    max_points: int = 10_000_000,
) -> Embedding:
    """Compute the embedding of f(X, Y, ...) for independent variables.

    Muandet et al. (2017, eq. 4.23): sum_ij.. a_i b_j .. k(f(x_i, y_j, ..), .) over the product of
    the sums of the weights. Every combination of points is one point of the result:
    :func:`~bke.models.reduced_embedding` of the variables, or of the result, keeps that small.

    Args:
        function: of rows (p, D), (p, E), ..., one for each variable, with values (p,) or (p, F).
        variables: their embeddings, as weighted samples; they may have different kernels.
        kernel: kernel of the values of f.
        max_points: largest number of combinations, against exhausted memory.

    Raises:
        ValueError: for no variables, smoothed sections, too many combinations, or a function that
            returns another number of values or values that are not finite.
        ArithmeticError: weights that sum to zero.
    """
    if not variables:
        raise ValueError("a function needs at least 1 variable")
    if any(variable.measure is not None for variable in variables):
        raise ValueError("an embedding with smoothed sections is not a weighted sample")
    sizes = [len(variable.weights) for variable in variables]
    if np.prod(sizes, dtype=float) > max_points:
        raise ValueError(
            f"{' x '.join(map(str, sizes))} combinations are more than {max_points}: represent the "
            "variables by fewer points with reduced_embedding"
        )
    indices = [index.ravel() for index in np.indices(sizes)]
    points = [np.asarray(v.points)[i] for v, i in zip(variables, indices, strict=True)]
    values = function_values(function, *points)
    weights = [np.asarray(variable.normalized().weights) for variable in variables]
    return mean_embedding(values, kernel, functools.reduce(np.multiply.outer, weights).ravel())
