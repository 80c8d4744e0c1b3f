"""Conditional embeddings whose kernels and regularisation are chosen from the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from bke.models import ConditionalEmbedding
from bke.models.embeddings.conditional.embedding import check_regularisation
from bke.models.embeddings.conditional.features import features
from bke.models.embeddings.conditional.regularisation import (
    CHOICES,
    Regularisation,
    choose_regularisation,
)
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import as_sample, column_names
from ..data.new_rows import ordered_rows
from ..learning.multiples import factors_for, widened
from ..learning.named_kernels import kernel_of

#: Multiples of the lengthscale of X that are tried.
FACTORS = (0.25, 0.5, 1.0, 2.0)


@dataclasses.dataclass(frozen=True, repr=False)
class LearnedConditionalEmbedding(ConditionalEmbedding):
    """A conditional embedding that matches columns of new rows by name.

    Attributes:
        columns: names of the columns of the data frame X; ``None`` without names.
    """

    columns: tuple[str, ...] | None = None

    def weights(self, x: ArrayLike) -> np.ndarray:
        """Return the weights (m, n) at new rows x, (m, D), (m,) or one row (D,).

        Raises:
            ValueError: columns do not match, or a value is missing, masked or infinite.
        """
        return super().weights(ordered_rows(x, self.columns, "x"))


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
) -> LearnedConditionalEmbedding:
    """Learn the conditional embedding of Y given X, with what it needs chosen from the pairs.

    The kernel of X that serves a regression need not be that of its distribution: multiples of its
    lengthscale are compared together with lambda, by one score. The kernel of Y defines what is
    predicted, so it stays as chosen.

    Args:
        X: what is conditioned on, shape (n, D) or (n,).
        Y: row by row with X, shape (n, E) or (n,).
        kernel_x: ``"bkl"``, learned from X alone; ``"median"``; or a kernel. See
            :func:`~bke.inference.learning.named_kernels.kernel_of`.
        kernel_y: likewise, of Y.
        regularisation: ``"leave-one-out"``, the error at rows left out (CME-5);
            ``"marginal-likelihood"``, of the features of Y as Gaussian processes of x; or lambda,
            a number, with which the kernel of X stays as chosen.
        factors: of the lengthscale of X that are compared, a quarter to twice by default; (1,)
            keeps the kernel, as is done with one that has no lengthscale.
        scale: see :func:`~bke.inference.learning.named_kernels.kernel_of`.
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
    of_y = kernel_of(outputs, kernel_y, scale=scale, seed=seed, name="Y")
    start = kernel_of(inputs, kernel_x, scale=scale, seed=seed, name="X")
    multiples = factors_for(factors, FACTORS if compared else (1.0,), start)
    kernels = [widened(start, factor) for factor in multiples]
    tried = [features(inputs, one, tolerance=tolerance, rank=rank) for one in kernels]
    if not isinstance(regularisation, str):
        value = float(regularisation)
        return LearnedConditionalEmbedding(tried[0], outputs, of_y, value, column_names(X))
    targets = features(outputs, of_y, tolerance=tolerance, rank=rank).values
    found: list[Regularisation] = [
        choose_regularisation(one.values, targets, regularisation) for one in tried
    ]
    best = min(range(len(found)), key=lambda index: found[index].score)
    return LearnedConditionalEmbedding(
        tried[best], outputs, of_y, found[best].value, column_names(X)
    )
