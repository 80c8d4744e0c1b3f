"""Kernels of a test: which were asked for, how they are chosen from rows, how they are told."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np

from ..data.units import choose_scale, scale_from_deviations
from ..learning import SingleKernel
from ..learning.kernel_selection import check_kernel, format_kernel, select_kernels

#: Choices that name one kernel, whose statistic needs no permutations to be calibrated.
SINGLE: tuple[str, ...] = get_args(SingleKernel)
#: Seed of whatever is random in a choice of kernels, landmarks among it: with one of its own for
#: every test a p-value would hang on the seed by far more than by its permutations.
CHOOSING = 0


@dataclasses.dataclass(frozen=True)
class KernelChoice:
    """A choice of kernels with all that it depends on beside the rows.

    Attributes:
        named: a kernel, or the name of a choice.
        scale: see :func:`~bke.inference.fit`.
    """

    named: Any
    scale: str | None

    @classmethod
    def checked(
        cls, kernel: Any, choices: tuple[str, ...], standardize: str | None
    ) -> KernelChoice:
        """Refuse what is neither a kernel nor one of ``choices``, and what is no scale.

        A kernel of scikit-learn becomes one of ours.
        """
        scale_from_deviations(np.ones(1), standardize)
        return cls(check_kernel(kernel, choices), standardize)

    def kernels(self, sample: np.ndarray) -> list[Any]:
        """The kernels for a sample (N, D), its rows in any order."""
        return list(select_kernels(self.named, sample, self.scale, CHOOSING))

    def unit(self, sample: np.ndarray) -> np.ndarray:
        """The scale (D,) of a sample (N, D), in which lengthscales are chosen: 1 of constants."""
        unit = choose_scale(sample, self.scale)
        return np.where(unit > 0.0, unit, 1.0)

    def __str__(self) -> str:
        return self.named if isinstance(self.named, str) else "given kernel"


def brief(kernel: Any) -> str:
    """Tell a squared exponential by its lengthscale alone, others as ``format_kernel`` does."""
    return format_kernel(kernel).removeprefix("SquaredExponential with ")
