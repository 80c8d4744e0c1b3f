"""Residuals of Gaussian-process regressions: partialling out variables and removing trends."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.canonical import canonical_order, generator, random_part
from ..data.checks import as_sample, check_count, check_memory, check_positive, check_same_rows

#: Largest number of rows from which the hyperparameters are estimated.
MAX_FIT_ROWS = 500
#: Proportion of the variance of a column below which its residuals are rounding errors.
MIN_RESIDUAL_VARIANCE = 1e-5
#: Message for residuals that are rounding errors.
NOTHING_LEFT = (
    "values are a function of what they are regressed on, up to rounding: nothing is left. "
    "Remove one of the columns"
)


def regress_out(
    values: ArrayLike,
    on: ArrayLike,
    *,
    smoothness: float = np.inf,
    innovations: bool = False,
    shortest: float | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Compute the residuals of Gaussian-process regressions of each column of ``values`` on ``on``.

    One lengthscale per column of ``on``, an amplitude and a noise variance are estimated by maximum
    marginal likelihood (scikit-learn). With A = K + s^2 I the residual of the posterior mean is
    ``y - K A^-1 y = s^2 A^-1 y``, as in Flaxman, Neill and Smola (2015). Residuals serve to test
    for conditional independence (``on`` is the conditioning variable) or to remove a trend (``on``
    is the time).

    Args:
        values: response, shape (n, D) or (n,).
        on: predictors, shape (n, E) or (n,), row by row with ``values``.
        smoothness: smoothness of the regression function. ``inf`` is the squared exponential
            kernel; 0.5, 1.5 and 2.5 are Matern kernels, 0.5 for the memory of an autoregression.
        innovations: return ``L^-1 y`` with ``A = L L'`` in the order of ``on`` instead: the error
            of the prediction of each value from those before it, over its standard deviation.
            Innovations are white if the Gaussian process is correct; residuals of the posterior
            mean are not.
        shortest: lower bound of the lengthscale, in the units of ``on``, such as 30 days to remove
            seasons but not the weather. Default: no bound.
        seed: random seed of the subsample for the hyperparameters, with more than 500 rows. For a
            series these are the 500 rows in the middle.

    Returns:
        Residuals in the units of ``values``, or innovations in standard deviations, (n, D).

    Raises:
        InputError: for invalid data, without scikit-learn, or if the residuals vanish.
    """
    check_same_rows(values=values, on=on)
    response, predictors = as_sample(values, "values"), as_sample(on, "on")
    check_choice(smoothness, "smoothness", (0.5, 1.5, 2.5, np.inf))
    check_count(seed, "seed", 0, 2**63 - 1)
    if len(response) != len(predictors):
        raise InputError(
            f"values have {len(response)} rows, but what they are regressed on {len(predictors)}"
        )
    if shortest is not None:
        check_positive(shortest, "shortest")
    check_memory(len(response), response.shape[1], matrices=3)
    residuals = np.empty_like(response)
    for column in range(response.shape[1]):
        data = np.column_stack([predictors, response[:, column]])
        order = canonical_order(data)
        # Rows with equal predictors are shuffled: in sorted order the innovations of each would be
        # predicted from smaller values.
        shuffle = generator(seed, data).permutation(len(order))
        order = order[np.lexsort((shuffle, *data[order, :-1].T[::-1]))]
        # All that follows uses this order, so that rounding errors do not depend on that of the
        # rows either.
        data, deviations = data[order], data[order].std(axis=0)
        data = (data - data.mean(axis=0)) / deviations
        min_length = None if shortest is None else shortest / deviations[:-1]
        with computing():
            standardized = _residuals(data, smoothness, innovations, min_length, seed)
        residuals[order, column] = standardized if innovations else standardized * deviations[-1]
    return residuals


def _residuals(
    data: np.ndarray,
    smoothness: float,
    innovations: bool,
    min_length: np.ndarray | None,
    seed: int,
) -> np.ndarray:
    """Regress the last column on the others, all standardized and sorted by these others."""
    if data.shape[1] == 2 and len(data) > MAX_FIT_ROWS:
        # Consecutive rows: a random subsample of a series would not show short lengthscales.
        start = (len(data) - MAX_FIT_ROWS) // 2
        subsample = data[start : start + MAX_FIT_ROWS]
    else:
        subsample = random_part(data, MAX_FIT_ROWS, seed)
    kernel, noise_variance = _fit_kernel(subsample, smoothness, min_length)
    z, y = data[:, :-1], data[:, -1]
    lower = cholesky(kernel(z), lower=True)
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    whitened = inverse @ y
    if innovations:
        return np.asarray(whitened)
    weights = inverse.T @ whitened
    # Leave-one-out errors distinguish a noiseless function from overfitting.
    leave_one_out = weights / np.sum(inverse**2, axis=0)
    if np.mean(leave_one_out**2) < MIN_RESIDUAL_VARIANCE:
        raise InputError(NOTHING_LEFT)
    return np.asarray(noise_variance * weights)


def cross_predict(values: np.ndarray, on: np.ndarray, folds: np.ndarray, seed: int) -> np.ndarray:
    """Predict the values of each fold by the Gaussian-process regression on the other folds.

    The regression is that of :func:`regress_out` with the squared exponential kernel. Its
    hyperparameters are estimated once, from at most :data:`MAX_FIT_ROWS` random rows of all folds.

    Args:
        values: response, (n,), in an order that does not depend on that of the user's rows.
        on: predictor, (n,).
        folds: fold of each row, (n,).
        seed: random seed of the subsample.

    Returns:
        Predictions in the units of ``values``, (n,).
    """
    data = np.column_stack([on, values])
    mean, deviation = data.mean(axis=0), data.std(axis=0)
    data = (data - mean) / deviation
    check_memory(len(data), 2, matrices=3)
    with computing():
        kernel, noise_variance = _fit_kernel(random_part(data, MAX_FIT_ROWS, seed), np.inf, None)
        gram, predictions = kernel.k1(data[:, :1]), np.empty(len(data))
        for fold in np.unique(folds):
            held_out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            noisy = gram[np.ix_(rest, rest)] + noise_variance * np.eye(len(rest))
            weights = cho_solve(cho_factor(noisy, lower=True), data[rest, 1])
            predictions[held_out] = gram[np.ix_(held_out, rest)] @ weights
    return np.asarray(mean[1] + deviation[1] * predictions)


def _fit_kernel(
    data: np.ndarray, smoothness: float, min_length: np.ndarray | None
) -> tuple[Any, float]:
    """Maximize the marginal likelihood.

    Returns:
        The kernel including its noise, and the noise variance.
    """
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ImportError:
        raise InputError("scikit-learn is not installed: pip install 'bke[sklearn]'") from None
    from sklearn.exceptions import ConvergenceWarning

    z, y = data[:, :-1], data[:, -1]
    if min_length is None:
        min_length = np.full(z.shape[1], 1e-2)
        if z.shape[1] == 1:  # a series, whose lengthscale may be a few steps
            steps = np.diff(np.unique(z))
            min_length = np.minimum(min_length, 0.2 * np.median(steps))
    # A column with a lengthscale of 1000 standard deviations has no influence.
    length_bounds = np.column_stack([min_length, np.maximum(1e3, 10.0 * min_length)])
    noise_bounds = (0.1 * MIN_RESIDUAL_VARIANCE, 10.0)

    def kernel(length: float, noise: float) -> Any:
        smooth = Matern(np.maximum(length, min_length), length_bounds, nu=smoothness)
        return ConstantKernel(1.0, (1e-3, 1e3)) * smooth + WhiteKernel(noise, noise_bounds)

    # The best of a grid of initial values: from a single one a rough function may be fitted as
    # noise.
    initial = [
        kernel(length, noise)
        for length in np.geomspace(max(2.0 * float(min_length.min()), 1e-3), 3.0, 6)
        for noise in (0.03, 0.5)
    ]
    likelihoods = [
        GaussianProcessRegressor(start, optimizer=None).fit(z, y).log_marginal_likelihood_value_
        for start in initial
    ]
    regressor = GaussianProcessRegressor(initial[int(np.argmax(likelihoods))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # an optimum on a bound is acceptable
        regressor.fit(z, y)
    return regressor.kernel_, float(regressor.kernel_.k2.noise_level)
