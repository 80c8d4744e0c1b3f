"""Many tests of conditional independence on one sample, each made once and kept."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.machine import computing
from ..data.canonical import canonical_order, generator
from ..permutation.permutation import p_value
from .independence import Variable, chosen_kernels, dependence, variable
from .kernel_choice import KernelChoice
from .pairing import pairings
from .residuals import regress_out

#: Gram matrices that are kept, with their factors, a few of the former per variable.
CACHE_BYTES = 2**30
SIDE_MATRICES = 8


@dataclasses.dataclass(frozen=True)
class ConditionalIndependence:
    """Whether two columns are independent given others.

    Attributes:
        first: name of a column.
        second: name of the other.
        given: names of those conditioned on.
        pvalue: of the test.
    """

    first: str
    second: str
    given: tuple[str, ...]
    pvalue: float

    def __str__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        return f"{self.first} and {self.second}{given}: p = {self.pvalue:.3g}"


class ConditionalTests:
    """Tests of conditional independence, each made once; what they share is kept.

    Args:
        sample: (n, D).
        names: of the columns.
        choice: how kernels are chosen.
        permutations: of every test.
        seed: of the permutations and of the regressions.
    """

    def __init__(
        self,
        sample: np.ndarray,
        names: tuple[str, ...],
        choice: KernelChoice,
        permutations: int,
        seed: int,
    ) -> None:
        # Sorted, so that nothing depends on the order of rows.
        self._sample = sample[canonical_order(sample)]
        self._names = names
        self.permutations = permutations
        self.choice = choice
        self.seed = seed
        rng = generator(seed, *np.hsplit(sample, sample.shape[1]))
        self._rows = pairings(len(sample), permutations, rng)
        self._answers: dict[tuple[str, str, tuple[str, ...]], ConditionalIndependence] = {}
        self._residuals: dict[tuple[str, tuple[str, ...]], np.ndarray] = {}
        self._kernels: dict[tuple[str, tuple[str, ...]], list[Any]] = {}
        most = max(2, CACHE_BYTES // (SIDE_MATRICES * 8 * len(sample) ** 2))
        self._variable = functools.lru_cache(most)(self._make_variable)

    def with_choice(self, choice: KernelChoice) -> ConditionalTests:
        """Tests of the same columns by other kernels; regressions are shared."""
        other = ConditionalTests(self._sample, self._names, choice, self.permutations, self.seed)
        other._residuals = self._residuals
        return other

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """The values of some columns, (n, D)."""
        return self._sample[:, [self._names.index(name) for name in names]]

    def test(self, first: str, second: str, given: tuple[str, ...]) -> ConditionalIndependence:
        """Test whether two columns are independent given others, once."""
        key = (min(first, second), max(first, second), tuple(sorted(given)))
        if key not in self._answers:
            x, y = (self._variable(name, key[2]) for name in key[:2])
            with computing():
                combined, _ = dependence(x, y, self._rows, "unbiased", progress=False)
            self._answers[key] = ConditionalIndependence(*key, p_value(combined.row))
        return self._answers[key]

    def _make_variable(self, name: str, given: tuple[str, ...]) -> Variable:
        """Make a column, or what the others leave of it, with its kernels and Gram matrices."""
        key = name, given
        if key not in self._residuals:
            values = self.columns([name])
            if given:
                try:
                    values = regress_out(values, self.columns(given), seed=self.seed)
                except InputError as error:
                    raise InputError(f"{name} given {', '.join(given)}: {error}") from None
            self._residuals[key] = values
        values = self._residuals[key]
        with computing():
            if key not in self._kernels:
                self._kernels[key] = chosen_kernels(values, self.choice)
            return variable(values, self._kernels[key], self.choice)
