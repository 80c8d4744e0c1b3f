"""The spectral mixture kernel: Gaussian components that oscillate."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..linalg.pytrees import register_dataclass
from .base import check_positive, concrete_values
from .components import Components
from .gaussian import GaussianFamily, mixture_log_weights, mixture_size, per_row
from .parameters import parameter


@register_dataclass
@dataclasses.dataclass(frozen=True)
class SpectralMixture(GaussianFamily):
    """Gaussian components that oscillate; the kernel may be negative.

    ``k(x, y) = sum_q weights_q exp(-1/2 sum_d delta_d^2 / lengthscale_qd^2)
    cos(2 pi sum_d frequency_qd delta_d)`` with delta = x - y. By Bochner's theorem (KER-14) its
    spectral density, in cycles per unit, is a mixture of Gaussians at +-frequency_q with standard
    deviations 1 / (2 pi lengthscale_q) (Wilson and Adams 2013).

    Args:
        lengthscale: positive, a number, (Q,) or (Q, D), in the units of the data; (Q,) means the
            same in every column.
        frequency: a number, (Q,) or (Q, D), in cycles per unit of the data. Learned, it needs a
            bounded prior, such as Uniform(0, 1 / range of the data): the volume factor grows with
            it, so that high frequencies, which fit nothing, outweigh the tail of any other.
        weights: positive (Q,), used as they are, so that k(x, x) is their sum; by default equal
            with sum one.
    """

    lengthscale: Any = parameter(1.0, unit="length", per_component=True)
    frequency: Any = parameter(1.0, unit="1/length", per_component=True)
    weights: Any = parameter(None, per_component=True)

    def __post_init__(self) -> None:
        check_positive(self.lengthscale, "lengthscale")
        check_positive(self.weights, "weights")
        if not np.all(np.isfinite(concrete_values(self.frequency))):
            raise ValueError(f"frequency must be finite, got {self.frequency}")

    def components(self, dimension: int) -> Components:
        """The Gaussian components on R^``dimension``."""
        count = mixture_size(self.weights, self.lengthscale, self.frequency)
        lengthscale = per_row(self.lengthscale, count, dimension, "lengthscale")
        frequency = per_row(self.frequency, count, dimension, "frequency")
        log_weights = mixture_log_weights(self.weights, count)
        return Components(log_weights, lengthscale**-2, frequency)
