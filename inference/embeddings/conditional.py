"""Conditional embeddings whose kernels and regularisation are chosen from the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bke.models import ConditionalEmbedding
from bke.models.embeddings.conditional.embedding import check_regularisation
from bke.models.embeddings.conditional.features import features
from bke.models.embeddings.conditional.regularisation import (
    CHOICES,
    Regularisation,
    choose_regularisation,
)
from bke.models.kernels.base import Covariance

from ..core.errors import InputError
from ..data.checks import as_sample
from ..learning.kernel_selection import check_factors, scale_lengthscales, select_kernel

#: Multiples of the lengthscale of X that are tried.
FACTORS = (0.25, 0.5, 1.0, 2.0)


def learn_conditional(
    X: Any,
    Y: Any,
    *,
    kernel_x: str | Covariance = "bkl",
    kernel_y: str | Covariance = "bkl",
    regularisation: str | float = "leave-one-out",
    factors: Sequence[float] | None = None,
    scale: str | None = "column",
    seed: int = 0,
    tolerance: float | None = None,
    rank: int | None = None,
) -> ConditionalEmbedding:
    """Learn the conditional embedding of Y given X, with what it needs chosen from the pairs.

    The kernel of X that serves a regression need not be that of its distribution: multiples of its
    lengthscale are compared together with lambda, by one score. The kernel of Y defines what is
    predicted, so it stays as chosen.

    Args:
        X: what is conditioned on, shape (n, D) or (n,).
        Y: row by row with X, shape (n, E) or (n,).
        kernel_x: ``"bkl"``, learned from X alone; ``"median"``; or a kernel. See
            :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        kernel_y: likewise, of Y.
        regularisation: ``"leave-one-out"``, the error at rows left out (CME-5);
            ``"marginal-likelihood"``, of the features of Y as Gaussian processes of x; or lambda,
            a number, with which the kernel of X stays as chosen.
        factors: of the lengthscale of X that are compared, a quarter to twice by default; (1,)
            keeps the kernel, as is done with one that has no lengthscale.
        scale: see :func:`~bke.inference.learning.kernel_selection.select_kernel`.
        seed: likewise.
        tolerance: of the incomplete Cholesky factorisations, see
            :func:`~bke.models.conditional_embedding`.
        rank: likewise.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    inputs, outputs = as_sample(X, "X"), as_sample(Y, "Y")
    if len(inputs) != len(outputs):
        raise InputError(f"X has {len(inputs)} rows and Y has {len(outputs)}, not pairs")
    compared = isinstance(regularisation, str)
    if not compared:
        check_regularisation(regularisation, "regularisation")
    elif regularisation not in CHOICES:
        raise InputError(f"regularisation must be a number or one of {CHOICES}")
    if factors is not None and not compared and len(factors) > 1:
        raise InputError("with a number as regularisation nothing is compared: give one factor")
    of_y = select_kernel(outputs, kernel_y, scale=scale, seed=seed, name="Y")
    start = select_kernel(inputs, kernel_x, scale=scale, seed=seed, name="X")
    multiples = check_factors(factors, FACTORS if compared else (1.0,), start)
    kernels = [scale_lengthscales(start, factor) for factor in multiples]
    tried = [features(inputs, one, tolerance=tolerance, rank=rank) for one in kernels]
    if not isinstance(regularisation, str):
        return ConditionalEmbedding(tried[0], outputs, of_y, float(regularisation))
    targets = features(outputs, of_y, tolerance=tolerance, rank=rank).values
    found: list[Regularisation] = [
        choose_regularisation(one.values, targets, regularisation) for one in tried
    ]
    best = min(range(len(found)), key=lambda index: found[index].score)
    return ConditionalEmbedding(tried[best], outputs, of_y, found[best].value)
