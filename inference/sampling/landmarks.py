"""Where the landmark model looks from: as many places as are asked for, or given ones."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from bke.models import Landmark, choose_landmarks
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.landmark import subsample_rows

from ..core.errors import InputError
from ..data.new_rows import as_evaluation_points, known_names
from ..data.units import Units

#: By default; fewer where there are less than four rows for each.
LANDMARKS, ROWS_EACH = 64, 4


def with_places(likelihood: Likelihood, units: Units, data: np.ndarray, seed: int) -> Likelihood:
    """The landmark model with :func:`places_for` its landmarks; another likelihood as it is."""
    if isinstance(likelihood, Landmark):
        return Landmark(places_for(likelihood.landmarks, units, data, seed))
    return likelihood


def places_for(landmarks: Any, units: Units, data: np.ndarray, seed: int) -> np.ndarray:
    """(m, D) in the model's units.

    Args:
        landmarks: how many, places (m, D) in the units of the data, or ``None``.
        units: of the data.
        data: (n, D), in their own units.
        seed: of the choice.

    Raises:
        InputError: for landmarks that make no sense.
    """
    dimension = data.shape[1]
    if landmarks is None:
        landmarks = default_count(units.to_model(data), ROWS_EACH, seed)
    if np.ndim(landmarks):
        names = known_names(units.columns)
        return units.to_model(as_evaluation_points(landmarks, dimension, "landmarks", names))
    try:
        count = operator.index(landmarks)
    except TypeError:
        raise InputError(
            f"landmarks must be places (m, {dimension}) or how many there are, got {landmarks!r}"
        ) from None
    try:
        return choose_landmarks(units.to_model(data), count, seed=seed)
    except ValueError as error:
        raise InputError(f"the number of landmarks {str(error).removeprefix('count ')}") from None


def default_count(points: np.ndarray, rows_each: int, seed: int) -> int:
    """64, or one for ``rows_each`` of the rows (n, D), but no more than there are different ones.

    Nor fewer than columns.
    """
    n, dimension = points.shape
    different = len(np.unique(subsample_rows(points, np.random.default_rng(seed)), axis=0))
    return max(dimension, min(LANDMARKS, n // rows_each, different))
