"""Kernels of a test: which were asked for, how they are chosen from rows, how they are told."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
from bke.models.kernels.base import Covariance

from ..data.checks import check_count
from ..data.units import choose_scale
from ..diagnosis.modes import as_text
from ..errors import InputError
from ..learning.named_kernels import kernels_for
from ..learning.names import SingleKernel

#: Choices that name one kernel, whose statistic needs no permutations to be calibrated.
SINGLE: tuple[str, ...] = get_args(SingleKernel)
MOST_LENGTHSCALES = 8


@dataclasses.dataclass(frozen=True)
class KernelChoice:
    """A choice of kernels with all that it depends on beside the rows.

    Attributes:
        named: a kernel, or the name of a choice.
        scale: see :func:`~bke.inference.fit`.
        seed: of whatever is random in the choice.
    """

    named: Any
    scale: str | None
    seed: int

    @classmethod
    def checked(
        cls, kernel: Any, choices: tuple[str, ...], scale: str | None, seed: int
    ) -> KernelChoice:
        """Refuse what is neither a kernel nor one of ``choices``, and seeds that are none."""
        known = isinstance(kernel, str) and kernel in choices
        if not known and not isinstance(kernel, Covariance):
            raise InputError(f"kernel must be a kernel or one of {choices}, got {kernel!r}")
        return cls(kernel, scale, check_count(seed, "seed", 0, 2**63 - 1))

    def kernels(self, sample: np.ndarray) -> list[Any]:
        """The kernels for a sample (N, D), its rows in any order."""
        return list(kernels_for(self.named, sample, self.scale, self.seed))

    def unit(self, sample: np.ndarray) -> np.ndarray:
        """The scale (D,) of a sample (N, D), in which lengthscales are chosen."""
        return choose_scale(sample, self.scale)

    def __str__(self) -> str:
        return self.named if isinstance(self.named, str) else "given kernel"


def describe(kernel: Any) -> str:
    """Tell a kernel, or a tuple of them, in a few words."""
    if isinstance(kernel, tuple):
        return " and ".join(describe(one) for one in kernel)
    lengthscale = getattr(kernel, "lengthscale", None)
    name = type(kernel).__name__
    if lengthscale is None:
        return name
    if np.size(lengthscale) > MOST_LENGTHSCALES:
        low, high = np.min(lengthscale), np.max(lengthscale)
        return f"{name}, lengthscales {as_text(low)} to {as_text(high)}"
    return f"{name}, lengthscale {as_text(np.asarray(lengthscale))}"


def brief(kernel: Any) -> str:
    """Tell a squared exponential by its lengthscale alone, others as :func:`describe` does."""
    return describe(kernel).removeprefix("SquaredExponential, ")
