"""The null distribution that a test was asked for, and the estimator that goes with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np

from ..core.errors import InputError, check_choice, nearest
from ..permutation.enough import check_permutations
from .kernel_choice import SINGLE, KernelChoice
from .names import HsicNull, MmdNull, SeriesNull

#: Which estimators of the squared MMD go with which null distribution, the default first.
MMD_NULLS: dict[MmdNull, tuple[str, ...]] = {
    "permutation": ("unbiased", "biased", "paired"),
    "gamma": ("biased",),
    "spectrum": ("unbiased",),
    "wild bootstrap": ("biased",),
    "normal": ("linear", "block"),
}
#: Which estimators of HSIC go with which null distribution, the default first.
HSIC_NULLS: dict[HsicNull, tuple[str, ...]] = {
    "permutation": ("unbiased", "biased"),
    "gamma": ("biased",),
    "spectrum": ("biased",),
    "wild bootstrap": ("biased",),
    "shift": ("biased",),
}
#: Nulls for rows in order of time, and the steps over which a series is taken to forget.
OF_SERIES: tuple[str, ...] = get_args(SeriesNull)
MEMORY = 20.0
#: The wild bootstrap needs a series that long, in units of the multipliers' memory.
MEMORIES = 5


@dataclasses.dataclass(frozen=True)
class NullChoice:
    """A null distribution with all that it depends on beside the rows.

    Attributes:
        name: such as ``"permutation"``.
        estimator: of the statistic, one that goes with it.
        draws: permutations, or draws of another null.
        alpha: level of the verdict.
        memory: steps over which series forget; ``None`` for the default.
    """

    name: str
    estimator: str
    draws: int
    alpha: float
    memory: float | None = None

    @classmethod
    def checked(
        cls,
        null: Any,
        estimator: Any,
        kernels: Sequence[KernelChoice],
        table: Mapping[Any, tuple[str, ...]],
        *,
        draws: int,
        alpha: float,
        memory: float | None,
    ) -> NullChoice:
        """Refuse what does not go together, by ``table`` of nulls and their estimators."""
        check_choice(null, "null", tuple(table))
        known = sorted({name for names in table.values() for name in names})
        if estimator is not None and estimator not in known:
            raise InputError(
                f"estimator must be one of {known}, got {estimator!r}{nearest(estimator, known)}"
            )
        if estimator is not None and estimator not in table[null]:
            fitting = [name for name, estimators in table.items() if estimator in estimators]
            raise InputError(
                f"estimator={estimator!r} goes with null={' or '.join(map(repr, fitting))}, not "
                f"with null={null!r}"
            )
        for kernel in (choice.named for choice in kernels):
            if null != "permutation" and isinstance(kernel, str) and kernel not in SINGLE:
                raise InputError(
                    f"the kernel {kernel!r} combines many statistics by their permutations; with "
                    f"the null {null!r} choose the kernel {', '.join(SINGLE)} or one of your own"
                )
        alpha = check_permutations(draws, alpha, null=null)
        return cls(str(null), str(estimator or table[null][0]), draws, alpha, memory)

    @property
    def permutes(self) -> bool:
        """Whether the null is drawn by permutations, which are exact."""
        return self.name == "permutation"

    def steps(self, n: int) -> float:
        """The memory for ``n`` rows in order of time, :data:`MEMORY` by default.

        Raises:
            InputError: where the null has no use for what was given, or it is no positive number,
                or too long for a series of ``n``.
        """
        if self.name not in OF_SERIES:
            if self.memory is not None:
                raise InputError(
                    f"memory is for the nulls {', '.join(OF_SERIES)}, not for {self.name!r}"
                )
            return MEMORY
        memory = MEMORY if self.memory is None else self.memory
        number = isinstance(memory, (int, float, np.number)) and not isinstance(memory, bool)
        if not number or not np.isfinite(memory) or memory <= 0:
            raise InputError(f"memory must be a positive number of steps, got {memory!r}")
        if memory * MEMORIES > n:
            raise InputError(
                f"a series of {n} rows is too short for a memory of {memory:g} steps, which needs "
                f"{MEMORIES * memory:g}: give a shorter memory, if the series has one"
            )
        return float(memory)
