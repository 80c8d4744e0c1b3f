"""Rows whose density factor is exactly zero because equal neighbours on both sides cancel."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models import Landmark, choose_landmarks
from bke.models.likelihood.evidence import ErrorOfDifferences, error_of_differences
from bke.models.likelihood.landmark import subsample_rows
from bke.models.likelihood.routes import restored_likelihood
from bke.models.likelihood.volume import pushforward
from bke.models.likelihood.way import Likelihood
from bke.models.linalg.rows import PaddedRows, map_rows

from ..core.errors import InputError
from ..core.jit import jit
from ..data.new_rows import as_evaluation_points, known_names
from ..data.units import Units
from .record import likelihood_record
from .target import Points, Target, flatten, unflatten

#: Below this, |sum of terms| / sum of |terms| is rounding error: the derivative is exactly zero.
CANCELLED = 1e-12


def cancelled_rows(target: Target) -> Callable[[Any, PaddedRows], jax.Array]:
    """Compile the search for rows (N,) with a volume factor of exactly zero, BKE (12).

    What is returned takes unconstrained draws of the hyperparameters, along the leading axis, and
    the rows; a row counts where the factor vanishes at any of the draws.
    """

    @jit
    def cancelled(z: dict[str, jax.Array], X: PaddedRows) -> jax.Array:
        def at(one: dict[str, jax.Array]) -> jax.Array:
            kernel = target.kernel_at(target.constrain(one))
            remain = map_rows(lambda x: pushforward(x, X, kernel).cancellation, X.points, len(X))
            return remain <= CANCELLED

        return jnp.any(jax.lax.map(at, z), axis=0)

    return cancelled


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


#: Draws at which the error is looked at, and how far below the highest, in nats, they may be.
DRAWS, LOWEST = 16, 30.0
#: An error beside which a difference of one nat counts for what it is.
SMALL = 0.3
#: Columns up to which the estimate may be too small: a few rows far out have most of the error.
FEW_COLUMNS = 3


def recorded_error(
    target: Target, points: Points, z: Mapping[str, np.ndarray], lp: np.ndarray
) -> dict[str, Any]:
    """Error of an approximate likelihood over unconstrained draws (chain, draw, ...).

    For attributes: NaN where a view has no evidence of it, and nothing for a likelihood that is no
    approximation.
    """
    if not target.likelihood.approximate:
        return {}
    flat = flatten(z, leading=2).reshape(lp.size, -1)
    inside = np.flatnonzero(lp.ravel() >= lp.max() - LOWEST)
    ordered = flat[inside[np.argsort(flat[inside, 0], kind="stable")]]
    middles = (np.arange(DRAWS) + 0.5) / DRAWS * len(ordered)
    chosen = np.unique(ordered[middles.astype(int)], axis=0)
    views = points if isinstance(points, tuple) else (points,)
    found: list[list[Any]] = [[] for _ in views]
    every = target.constrain(unflatten(chosen, target.shapes))
    for index in range(len(chosen)):
        values = {name: value[index] for name, value in every.items()}
        noise = values.get("noise_variance", target.noise_variance)
        for view, pieces in zip(views, found, strict=True):
            pieces.append(view.evidence(target.kernel_at(values), noise, target.measure_at(values)))
    if any(piece is None for pieces in found for piece in pieces):
        error = ErrorOfDifferences(float("nan"), float("nan"))
    else:
        error = error_of_differences(found)
    return {
        "low_rank_error": error.size,
        "low_rank_standard_error": error.standard_error,
        "low_rank_truncation": error.truncation,
        "low_rank_draws": len(chosen),
    }


def error_of_run(run: xr.DataTree) -> float | None:
    """What :func:`recorded_error` found, in nats; ``None`` for a run that is no approximation."""
    return float(run.attrs["low_rank_error"]) if "low_rank_error" in run.attrs else None


def is_small(error: float) -> bool:
    """Whether a difference of one nat counts for what it is; not where the error is not known."""
    return error <= SMALL


def in_words(run: xr.DataTree) -> list[str]:
    """Tell the error in a sentence, with a warning where it is not small beside one nat."""
    error = error_of_run(run)
    if error is None:
        return []
    attrs = run.attrs
    likelihood = restored_likelihood(likelihood_record(attrs))
    if math.isnan(error):
        return [
            f"The likelihood is {likelihood.words}: how far differences of its log over these "
            "draws are off is NOT KNOWN."
        ]
    few = run["observed_data"].sizes["column"] <= FEW_COLUMNS
    more = ", or by more than twice that where these few columns have heavy tails" if few else ""
    sentences = [
        f"The likelihood is {likelihood.words}: differences of its log "
        f"over these draws are estimated to be off by {error:.2g} nats (root mean square at "
        f"{attrs['low_rank_draws']} of them){more}."
    ]
    if not is_small(error):
        sentences.append(
            "NOT ACCURATE: that is not small beside 1 nat, so the posterior may be shifted by as "
            f"much as it is wide: {likelihood.advice}."
        )
    return sentences
