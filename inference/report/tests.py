"""Hypothesis tests as plain data, for the JSON summary."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..sampling.record import describe_kernel
from ..testing.result import TestResult

#: Levels of the quantiles of the null distribution, whose draws are left out.
QUANTILES = (0.5, 0.9, 0.95, 0.99)


def result_summary(result: TestResult) -> dict[str, Any]:
    """Return a result as plain data, with quantiles in place of the null distribution."""
    quantiles = (
        {f"{level:g}": float(np.quantile(result.null_distribution, level)) for level in QUANTILES}
        if len(result.null_distribution)
        else None
    )
    return {
        "test": result.test,
        "statistic": result.statistic,
        "pvalue": result.pvalue,
        "pvalue_error": result.pvalue_error,
        "reject": result.reject,
        "alpha": result.alpha,
        "method": result.method,
        "exact": result.exact,
        "kernel": _kernel(result.kernel),
        "squared_mmd": result.estimate,
        "interval_of_squared_mmd": result.interval,
        "e_value": result.e_value,
        "components": [
            {"name": part.name, "statistic": part.statistic, "pvalue": part.pvalue}
            for part in result.components
        ],
        "quantiles_of_null_distribution": quantiles,
    }


def _kernel(kernel: Any) -> Any:
    if isinstance(kernel, tuple):
        return [_kernel(one) for one in kernel]
    return None if kernel is None else describe_kernel(kernel)
