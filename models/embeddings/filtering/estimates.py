"""What a filter says: the posterior embedding of the state at every step."""

from __future__ import annotations

import dataclasses

import numpy as np

from ...kernels.base import Covariance
from ..embedding import Embedding
from ..pre_image import pre_images


@dataclasses.dataclass(frozen=True, repr=False)
class StateEstimates:
    """Posterior embeddings of the states at S steps: weights on T training states.

    Attributes:
        kernel: of the states.
        points: training states, (T, D).
        weights: (S, T), of any sign; where the filter normalises, each row sums to one.
        observed: (S,), whether the observation of the step counted; ``None``: not told.
    """

    kernel: Covariance
    points: np.ndarray
    weights: np.ndarray
    observed: np.ndarray | None = None

    def __repr__(self) -> str:
        return f"StateEstimates({len(self)} steps, on {len(self.points)} states)"

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, step: int) -> Embedding:
        """The embedding at a step, counted from 0."""
        return Embedding(self.kernel, self.points, self.weights[step])

    def mean(self) -> np.ndarray:
        """Posterior means (S, D), by weights that sum to one."""
        total = self.weights.sum(axis=1, keepdims=True)
        return np.asarray(self.weights @ self.points / total)

    def mode(self) -> np.ndarray:
        """Where each embedding is highest (S, D), see :func:`~bke.models.pre_image` (PRE-3)."""
        return pre_images(self.kernel, self.points, self.weights).point
