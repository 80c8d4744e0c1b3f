"""Regularised systems that say so where they are singular."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor

#: Squared ratio of the smallest to the largest diagonal entry of a Cholesky factor below which
#: solutions are rounding.
SINGULAR = 1e-13


def factorised(matrix: np.ndarray, added: float, what: str, name: str) -> tuple[np.ndarray, bool]:
    """The Cholesky factor of ``matrix + added I``, for SciPy's ``cho_solve``.

    Args:
        matrix: (r, r), symmetric and at least 0 but for rounding.
        added: regularisation.
        what: is singular, for the message.
        name: of the argument to raise.

    Raises:
        ArithmeticError: the matrix is singular to rounding.
    """
    regularised = matrix + added * np.eye(len(matrix))
    try:
        factor: tuple[np.ndarray, bool] = cho_factor(regularised)
        pivots = np.abs(np.diagonal(factor[0]))
        singular = not (pivots.min() / pivots.max()) ** 2 > SINGULAR
    except LinAlgError:
        singular = True
    if singular:
        raise ArithmeticError(f"{what} is singular to rounding: raise {name}, which is too small")
    return factor
