"""What is evaluated of every relabelling, before relabellings are held against each other."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.special import logsumexp

from ..permutation.permutation import standardised


class Told(Protocol):
    """Evidence of some kind, as of :class:`~bke.inference.evidence.statistic.Evidences`."""

    def of(self, labellings: np.ndarray, /) -> Self:
        """That of some labellings."""

    def each(self) -> list[np.ndarray]:
        """Its statistics, (1 + B,) each, which treat all labellings alike."""


class Fitted(NamedTuple):
    """The tilt at several scales and sizes, and what is told beside it.

    Attributes:
        tilt: (k, 1 + B), what of log BF the labels change.
        beside: (1 + B,), another statistic; ``None`` where there is none.
    """

    tilt: np.ndarray
    beside: np.ndarray | None = None

    def of(self, labellings: np.ndarray, /) -> Fitted:
        """That of some labellings."""
        beside = None if self.beside is None else self.beside[labellings]
        return Fitted(self.tilt[:, labellings], beside)

    def each(self) -> list[np.ndarray]:
        """The tilt at its most and at all scales together, and what is beside it."""
        beside = [] if self.beside is None else [self.beside]
        if len(self.tilt) == 1:
            return [self.tilt[0], *beside]
        rows = standardised(self.tilt)
        return [rows.max(axis=0), np.asarray(logsumexp(rows, axis=0)), *beside]
