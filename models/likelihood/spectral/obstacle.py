"""For which models there are sums over one to three columns of data, and why not for others."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ...kernels.algebra import Scaled
from ...kernels.base import Kernel
from ...kernels.matern import Laplace, Matern
from ...kernels.squared_exponential import SquaredExponential
from ...measures import Measure
from ..noise import SamplingNoise
from .mixture import is_mixture

#: Columns beside one.
SEVERAL = (2, 3)


def order_of(kernel: Kernel) -> float | None:
    """The order of a Matern kernel, which in one column Laplace is too; ``None`` of others."""
    if type(kernel) is Laplace:
        return 0.5
    return kernel.nu if type(kernel) is Matern else None


def has_one(kernel: Kernel) -> bool:
    """Whether it has one lengthscale: Matern, or a squared exponential, times a number or not."""
    return order_of(kernel) is not None or type(unscaled(kernel)[0]) is SquaredExponential


def unscaled(kernel: Kernel) -> tuple[Kernel, Any]:
    """Without the number it is multiplied by, and this number; ``None`` where there is none."""
    variance = None
    while type(kernel) is Scaled:
        variance = kernel.variance if variance is None else variance * kernel.variance
        kernel = kernel.kernel
    return kernel, variance


def spectral_obstacle(
    dimension: int, kernel: Kernel, measure: Measure, noise_variance: Any
) -> str | None:
    """Why the spectral route does not take such a model, or ``None`` where it does."""
    if dimension not in (1, *SEVERAL):
        return f"the data have {dimension} columns, and it takes up to {SEVERAL[-1]}"
    name = type(kernel).__name__
    if dimension > 1 and order_of(kernel) is not None:
        return f"the data have {dimension} columns, and it takes one with {name}"
    one = has_one(kernel) if dimension == 1 else type(kernel) is SquaredExponential
    if not one and (dimension > 1 or not is_mixture(kernel)):
        more = (
            ", sums of such, Matern and Laplace" if dimension == 1 else " alone in several columns"
        )
        return f"the kernel is {name}, and it takes SquaredExponential{more}"
    if one and np.size(cast(SquaredExponential, unscaled(kernel)[0]).lengthscale) != 1:
        return "there is a lengthscale for each column, and it takes one for all"
    if not measure.translation_invariant:
        return "the measure is Gaussian, and it takes 'unit' and 'lebesgue'"
    if isinstance(noise_variance, SamplingNoise):
        return "the noise is a sampling covariance, and it takes a number"
    return None
