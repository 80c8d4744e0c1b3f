"""What a Gaussian-process regression leaves over: a variable less what another says of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.canonical import canonical_order, generator, random_part
from ..data.checks import as_sample, check_count, check_memory, check_positive, check_same_rows
from .names import Whitening

#: Rows from which the hyperparameters are estimated, at most.
ROWS = 500
#: Share of a column's variance below which what is left over is no more than rounding.
NOTHING = 1e-5
#: Lengthscales, in standard deviations of what is regressed on, from which the search may start.
SHORTEST, LONGEST, STARTS = 1e-2, 3.0, 6
#: Shares of noise from which it may start.
NOISES = (0.03, 0.5)
SMOOTHNESS = (0.5, 1.5, 2.5, np.inf)
MATRICES = 3


def whitened(values: ArrayLike, how: Whitening, *, seed: int = 0) -> np.ndarray:
    """Columns without what makes rows in order of time, at even steps, depend on each other.

    Args:
        values: shape (n, D) or (n,).
        how: ``"residuals"``: what a smooth regression of each column on time leaves;
            ``"innovations"``: each value less its prediction from those before; ``"none"``: as
            they are.
        seed: see :func:`regress_out`.

    Raises:
        InputError: as :func:`regress_out`.
    """
    if how == "none":
        return np.asarray(values)
    rough = how == "innovations"
    time = np.arange(len(np.asarray(values)), dtype=float)
    smoothness = 0.5 if rough else np.inf
    return regress_out(values, time, smoothness=smoothness, innovations=rough, seed=seed)


def regress_out(
    values: ArrayLike,
    on: ArrayLike,
    *,
    smoothness: float = np.inf,
    innovations: bool = False,
    shortest: float | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Regress each column of ``values`` on ``on`` by a Gaussian process; the residuals.

    One lengthscale per column of ``on``, an amplitude and a noise variance, by maximum marginal
    likelihood (scikit-learn). With A = K + s^2 I the residual is what the posterior mean leaves,
    ``y - K A^-1 y = s^2 A^-1 y``, as in Flaxman, Neill and Smola (2015), to test for conditional
    independence (``on`` what is conditioned on) or to take out a trend (``on`` the time).

    Args:
        values: shape (n, D) or (n,).
        on: shape (n, E) or (n,), row by row with ``values``.
        smoothness: of the regression function: ``inf`` is the squared exponential kernel; 0.5, 1.5
            and 2.5 are Matern's, 0.5 for a series that forgets like an autoregression.
        innovations: return ``L^-1 y`` with ``A = L L'`` in the order of ``on`` instead, each value
            less its prediction from those before it, over the error of that prediction: white where
            the Gaussian process is right, while residuals about the posterior mean are not.
        shortest: lengthscale, in the units of ``on``, below which nothing is regressed out, such as
            30 days for the seasons but not the weather. By default what is most likely decides.
        seed: of the rows from which hyperparameters are estimated, where there are more than 500;
            of a series the 500 in the middle.

    Returns:
        (n, D), residuals in the units of ``values``, innovations in standard deviations.

    Raises:
        InputError: for data that make no sense, without scikit-learn, or where nothing is left.
    """
    check_same_rows(values=values, on=on)
    samples = as_sample(values, "values"), as_sample(on, "on")
    check_choice(smoothness, "smoothness", SMOOTHNESS)
    check_count(seed, "seed", 0, 2**63 - 1)
    if len(samples[0]) != len(samples[1]):
        raise InputError(
            f"values have {len(samples[0])} rows, but what they are regressed on {len(samples[1])}"
        )
    if shortest is not None:
        check_positive(shortest, "shortest")
    check_memory(len(samples[0]), samples[0].shape[1], matrices=MATRICES)
    found = np.empty_like(samples[0])
    for column in range(found.shape[1]):
        both = np.column_stack([samples[1], samples[0][:, column]])
        order = canonical_order(both)
        # Rows with the same z in random order: sorted, each would be predicted from smaller ones.
        shuffle = generator(seed, both).permutation(len(order))
        order = order[np.lexsort((shuffle, *both[order, :-1].T[::-1]))]
        # In this order from here on, so that not even rounding depends on that of the rows.
        both, deviation = both[order], both[order].std(axis=0)
        both = (both - both.mean(axis=0)) / deviation
        least = None if shortest is None else shortest / deviation[:-1]
        with computing():
            left = _left_over(both, smoothness, innovations, least, seed)
        found[order, column] = left if innovations else left * deviation[-1]
    return found


def _left_over(
    both: np.ndarray, smoothness: float, innovations: bool, least: np.ndarray | None, seed: int
) -> np.ndarray:
    """Regress the last column on the others, all standardised, rows sorted by those."""
    columns = both.shape[1] - 1
    if columns == 1 and len(both) > ROWS:
        # Neighbours in a row, or a short lengthscale would not be seen.
        start = (len(both) - ROWS) // 2
        part = both[start : start + ROWS]
    else:
        part = random_part(both, ROWS, seed)
    kernel, variance = _fitted(part, smoothness, least)
    z, y = both[:, :-1], both[:, -1]
    lower = cholesky(kernel(z), lower=True)
    inverse = solve_triangular(lower, np.eye(len(lower)), lower=True)
    forward = inverse @ y
    if innovations:
        return np.asarray(forward)
    weights = inverse.T @ forward
    # Each value less its prediction from all others: a fit without noise may just be a bad one.
    left_out = weights / np.sum(inverse**2, axis=0)
    if np.mean(left_out**2) < NOTHING:
        raise InputError(
            "values are a function of what they are regressed on, but for rounding: nothing is "
            "left. Leave one of the columns out"
        )
    return np.asarray(variance * weights)


def _fitted(both: np.ndarray, smoothness: float, least: np.ndarray | None) -> tuple[Any, float]:
    """Maximise the marginal likelihood: the kernel, its noise with it, and the noise variance."""
    try:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
    except ImportError:
        raise InputError("scikit-learn is not installed: pip install 'bke[sklearn]'") from None
    from sklearn.exceptions import ConvergenceWarning

    z, y = both[:, :-1], both[:, -1]
    columns = z.shape[1]
    if least is None:
        least = np.full(columns, SHORTEST)
        if columns == 1:  # a series: its steps are the scale that matters
            steps = np.diff(np.unique(z))
            least = np.minimum(least, 0.2 * np.median(steps))
    # A lengthscale of 1000, in standard deviations, is a column that does not matter.
    lengths = np.column_stack([least, np.maximum(1e3, 10.0 * least)])
    noises = (0.1 * NOTHING, 10.0)

    def kernel(length: float, noise: float) -> Any:
        smooth = Matern(np.maximum(length, least), lengths, nu=smoothness)
        return ConstantKernel(1.0, (1e-3, 1e3)) * smooth + WhiteKernel(noise, noises)

    # From the best of a few, or a rough function would be taken for noise.
    starts = [
        kernel(length, noise)
        for length in np.geomspace(max(2.0 * float(least.min()), 1e-3), LONGEST, STARTS)
        for noise in NOISES
    ]
    values = [
        GaussianProcessRegressor(start, optimizer=None).fit(z, y).log_marginal_likelihood_value_
        for start in starts
    ]
    regressor = GaussianProcessRegressor(starts[int(np.argmax(values))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # at a bound the search is done
        regressor.fit(z, y)
    return regressor.kernel_, float(regressor.kernel_.k2.noise_level)
