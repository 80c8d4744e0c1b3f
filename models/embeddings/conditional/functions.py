"""Embeddings of functions of independent random variables (KME section 4.3.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import ArrayLike

from ...kernels.base import Covariance
from ..embedding import Embedding, mean_embedding

#: Combinations of points that the function is worked out at, at most.
MOST_POINTS = 10_000_000


def function_embedding(
    function: Callable[..., ArrayLike], *variables: Embedding, kernel: Covariance
) -> Embedding:
    """The embedding of f(X, Y, ...) for independent variables, KME (4.23) (OPS-6).

    sum_ij.. a_i b_j .. k(f(x_i, y_j, ..), .) over the product of the sums of the weights. Every
    combination of points is one point of the result: :func:`~bke.models.reduced_embedding` of the
    variables, or of the result, keeps that small.

    Args:
        function: of rows (p, D), (p, E), ..., one for each variable, with values (p,) or (p, F).
        variables: their embeddings, as weighted samples; each may have a kernel of its own.
        kernel: of the values of f.

    Raises:
        ValueError: for no variables, smoothed sections, too many combinations, or a function that
            returns another number of values or values that are not finite.
        ArithmeticError: weights that sum to nothing.
    """
    if not variables:
        raise ValueError("a function needs at least 1 variable")
    if any(one.measure is not None for one in variables):
        raise ValueError("an embedding with smoothed sections is not a weighted sample")
    sizes = [len(one.weights) for one in variables]
    if np.prod(sizes, dtype=float) > MOST_POINTS:
        raise ValueError(
            f"{' x '.join(map(str, sizes))} combinations are more than {MOST_POINTS}: tell the "
            "variables by fewer points with reduced_embedding"
        )
    indices = [index.ravel() for index in np.indices(sizes)]
    weights = [np.asarray(one.normalised().weights) for one in variables]
    pairs = zip(variables, indices, strict=True)
    values = np.asarray(function(*(np.asarray(one.points)[i] for one, i in pairs)), dtype=float)
    if values.ndim == 0 or len(values) != len(indices[0]):
        raise ValueError(
            f"the function must return one value or row for each of {len(indices[0])} combinations,"
            f" got shape {values.shape}"
        )
    return mean_embedding(values, kernel, reduce(np.multiply.outer, weights).ravel())
