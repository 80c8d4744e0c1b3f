"""Conditional independence tests: does y say anything about x that z does not?"""

from __future__ import annotations

import dataclasses
from typing import Any

from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..data.checks import as_sample, check_options, check_same_rows
from .independence import independence_test
from .residuals import regress_out
from .result import TestResult

HYPOTHESES = (
    "no evidence that x and y depend on each other given z",
    "x and y depend on each other given z",
)


def conditional_independence_test(
    X: ArrayLike, Y: ArrayLike, Z: ArrayLike, *, seed: int = 0, **options: Any
) -> TestResult:
    """Test that X and Y are independent given Z: HSIC of what Z leaves of each (CI-3).

    X and Y are regressed on Z by Gaussian processes and the residuals tested for independence, as
    in BKE section 5. An approximation: residuals are estimates, so permutations of them are not
    exact (of independent X and Y with 20 to 200 rows about 0.07 are rejected at level 0.05), and a
    dependence on Z beyond the mean, such as a spread that changes with Z, is taken for one between
    X and Y.

    Args:
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        Z: shape (n, F) or (n,), what is conditioned on.
        seed: of the regressions' subsample and of the test.
        **options: to :func:`~bke.inference.independence_test`.

    Raises:
        InputError: for data or arguments that make no sense, without scikit-learn, or where Z
            determines X or Y.
    """
    check_options(options, independence_test)
    check_same_rows(X=X, Y=Y, Z=Z)
    left_over = []
    given = as_sample(Z, "Z")
    for values, name in ((X, "X"), (Y, "Y")):
        sample = as_sample(values, name)
        if len(sample) != len(given):
            raise InputError(f"{name} has {len(sample)} rows but Z has {len(given)}")
        try:
            left_over.append(regress_out(sample, given, seed=seed))
        except InputError as error:
            raise InputError(f"{name} given Z: {error}") from None
    result = independence_test(left_over[0], left_over[1], seed=seed, **options)
    result = dataclasses.replace(
        result, exact=False, rows="residuals", how=f"{result.how}, of residuals"
    )
    return result.renamed("conditional independence test", HYPOTHESES)
