"""How much to regularise a conditional embedding: by left out rows, or a marginal likelihood."""

from __future__ import annotations

from typing import NamedTuple, get_args

import numpy as np
from scipy.optimize import minimize_scalar

from . import names

CHOICES: tuple[str, ...] = get_args(names.Regularisation)
#: Range of n lambda over the trace of K that is searched, and points of a first look; then the best
#: of them is refined. Below, the system would be singular to rounding.
LOWEST, HIGHEST, TRIED = 1e-12, 10.0, 53


class Regularisation(NamedTuple):
    """The lambda that is best, see :func:`choose_regularisation`."""

    value: float
    score: float
    at_bound: bool


class Spectrum(NamedTuple):
    """What both scores of all lambdas hang on: Z_X = U S V' and the features of Y along U."""

    squares: np.ndarray  # (r,), S^2
    left: np.ndarray  # (n, r), U
    outputs: np.ndarray  # (n, q), Z_Y
    along: np.ndarray  # (r, q), U' Z_Y


def spectrum(features_x: np.ndarray, features_y: np.ndarray) -> Spectrum:
    """The spectrum of K_X with what Y has along it, from features Z_X (n, r) and Z_Y (n, q)."""
    left, singular, _ = np.linalg.svd(features_x, full_matrices=False)
    return Spectrum(singular**2, left, features_y, left.T @ features_y)


def leave_one_out(of: Spectrum, added: float) -> float:
    """Mean squared distance of l(y_j, .) to its prediction from the other rows (CME-5).

    (1/n) sum_j (W L W)_jj / W_jj^2 with W = (K + n lambda I)^-1, n lambda = ``added`` as it is with
    all rows: the residuals of ridge regression over one less their leverage.
    """
    shrinkage = of.squares / (of.squares + added)
    kept = 1.0 - of.left**2 @ shrinkage
    residuals = of.outputs - of.left @ (shrinkage[:, None] * of.along)
    return float(np.mean(np.sum(residuals**2, axis=1) / kept**2))


def negative_log_marginal_likelihood(of: Spectrum, added: float) -> float:
    """-2/q log of the marginal likelihood of q outputs, up to a constant: n log tr(W L) - log|W|.

    The features of Y as independent Gaussian processes of x with covariance a (K + n lambda I), a
    at its maximum. Their number q only multiplies the logarithm, so it need not be known.
    """
    n = len(of.outputs)
    total = np.sum(of.outputs**2) - np.sum(
        (of.squares / (of.squares + added))[:, None] * of.along**2
    )
    determinant = np.sum(np.log1p(of.squares / added))
    # n log(tr(W L)) with tr(W L) = total / added, and log|K + added I| = determinant + n log added.
    return float(n * np.log(max(total, np.finfo(float).tiny)) + determinant)


SCORES = {
    "leave-one-out": leave_one_out,
    "marginal-likelihood": negative_log_marginal_likelihood,
}


def choose_regularisation(
    features_x: np.ndarray, features_y: np.ndarray, choice: str
) -> Regularisation:
    """The lambda with the lowest score.

    Args:
        features_x: Z_X, (n, r) with Z_X Z_X' the Gram matrix of X.
        features_y: Z_Y, (n, q).
        choice: ``"leave-one-out"``, the error of :func:`leave_one_out`, or
            ``"marginal-likelihood"``, see :func:`negative_log_marginal_likelihood`.

    Returns:
        The value of lambda per row, its score, and whether it is at an end of the range searched,
        n lambda from 1e-12 to 10 times the trace of K.
    """
    of, n = spectrum(features_x, features_y), len(features_x)
    unit = float(np.sum(features_x**2))
    score = SCORES[choice]
    tried = np.log(unit) + np.linspace(np.log(LOWEST), np.log(HIGHEST), TRIED)
    scores = [score(of, np.exp(value)) for value in tried]
    best = int(np.argmin(scores))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, TRIED - 1)]
    refined = minimize_scalar(
        lambda value: score(of, np.exp(value)), bounds=(low, high), method="bounded"
    )
    value, found = (
        (float(refined.x), float(refined.fun))
        if refined.fun < scores[best]
        else (float(tried[best]), float(scores[best]))
    )
    at_bound = best in (0, TRIED - 1)
    return Regularisation(float(np.exp(value)) / n, found, at_bound)
