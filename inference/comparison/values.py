"""Values of any kernel as the difference's: its lengths are multiples of the lengthscale."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InputError, input_errors
from ..statistics.kernels import KernelFunction, squared_exponential

if TYPE_CHECKING:
    from bke.models.kernels.base import Covariance, Kernel


@dataclasses.dataclass(frozen=True)
class KernelValues:
    """Values of ``kernel`` with every length in it multiplied by a lengthscale."""

    kernel: Covariance

    def __call__(self, first: np.ndarray, second: np.ndarray, lengthscale: float) -> np.ndarray:
        """Evaluate k(x / lengthscale, y / lengthscale) of points (k, D) and (l, D): (k, l)."""
        return np.asarray(self.kernel(first / lengthscale, second / lengthscale), dtype=float)


def kernel_values(given: Covariance | type[Kernel] | None, dimension: int) -> KernelFunction:
    """The values of a kernel, or of a class whose parameters all have defaults.

    Args:
        given: of the package, of scikit-learn, or one's own; ``None`` is the squared exponential.
        dimension: D, of the points.

    Raises:
        InputError: for what is no kernel, and for one that cannot be evaluated at D columns.
    """
    if given is None:
        return squared_exponential
    from bke.models.kernels.base import Covariance
    from bke.models.kernels.scikit_learn import as_kernel

    pass
    from bke.models.priors import template

    with input_errors():
        found = as_kernel(given)
        values = KernelValues(found if isinstance(found, Covariance) else template(found))
        once = values(np.zeros((2, dimension)), np.ones((1, dimension)), 1.0)
    if once.shape != (2, 1) or not np.isfinite(once).all():
        raise InputError(f"kernel must have a finite value for any two rows, got {given!r}")
    return values
