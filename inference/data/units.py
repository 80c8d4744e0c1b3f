"""Units of data: the scale to which priors refer, and the dither of rounded data.

If the neighbors of a point on a lattice balance, the Jacobian factor gamma(x_i) of BKE (12) is
exactly zero, and the marginal likelihood (13) has no density. Dither adds noise within the rounding
unit to such data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.covariance import FieldUnit
from bke.models.likelihood.spectral.base import MAX_DENSE
from bke.models.linalg.rows import PaddedRows, dense_size, padded, shared_size
from bke.models.measures import Measure, as_measure
from numpy.typing import ArrayLike, NDArray

from ..core.errors import InputError, check_choice, input_errors
from .checks import (
    STANDARDIZATIONS,
    as_samples,
    check_column_names,
    column_names,
    default_names,
)
from .equality import count_decimals

#: Smallest rounding unit, as a proportion of the range of the column.
MIN_RELATIVE_UNIT = 1e-9
#: Largest number of lattice points in the range, for units that are not decimal numbers.
MAX_LATTICE_POINTS = 1e5
#: Number of prior draws at which the density is checked for zeros.
DETECTION_DRAWS = 48


def rounding_unit(column: NDArray[np.float64]) -> float | None:
    """Find the largest u such that all differences of the column are integer multiples of u.

    The result is exact for numbers of at most 12 decimals; for example u = 0.3048 for integers of
    feet in meters. For other columns of at least three distinct values, Euclid's algorithm is used
    with a tolerance; for example integers divided by their standard deviation still form a lattice.
    Numbers that were converted from single precision are recognized. At large values, such as 1000,
    the result may be the resolution of single precision itself.

    Args:
        column: (n,) finite values.

    Returns:
        u in the units of the column, or ``None``. It is ``None`` if there is no lattice, if all
        values are equal, or if u is below 1e-9 of the range or the resolution of floating-point
        numbers.
    """
    values = np.unique(np.asarray(column, dtype=np.float64))
    if len(values) < 2:
        return None
    largest, extent = float(np.max(np.abs(values))), float(values[-1] - values[0])
    with np.errstate(over="ignore"):
        single = np.array_equal(values, values.astype(np.float32).astype(np.float64))
    for epsilon in [2.0**-52] + [2.0**-23] * single:
        error = 4 * epsilon * largest
        # If the unit is within the error, every number is on the lattice.
        smallest = max(MIN_RELATIVE_UNIT * extent, error)
        for unit in (_decimal_unit(values, 2 * epsilon), _real_unit(values - values[0], error)):
            if unit is not None and unit >= smallest:
                return unit
    return None


def _decimal_unit(values: NDArray[np.float64], tolerance: float) -> float | None:
    """Find the unit of numbers with few decimals; ``tolerance`` of one value is relative."""
    decimals = count_decimals(values, tolerance)
    if decimals is None:
        return None
    integers = [int(value) for value in np.rint(values * 10.0**decimals)]
    unit = math.gcd(*(value - integers[0] for value in integers))
    return float(unit / 10**decimals)  # the division of integers rounds once


def _real_unit(differences: NDArray[np.float64], tolerance: float) -> float | None:
    """Find a unit by Euclid's algorithm; ``tolerance`` of one difference is absolute."""
    extent = float(differences[-1])
    unit, unit_error = float(np.min(np.diff(differences))), 2 * tolerance
    if len(differences) < 3:
        return None
    while unit * MAX_LATTICE_POINTS >= extent:
        steps = np.rint(differences / unit)
        remainders = np.abs(differences - steps * unit)
        errors = tolerance + steps * unit_error
        nonzero = np.flatnonzero(remainders > errors)
        if nonzero.size == 0:
            unit = extent / float(steps[-1])  # the longest difference has the smallest error
            exact = np.abs(differences - steps * unit) <= 2 * tolerance
            return unit if bool(np.all(exact)) else None
        smallest = nonzero[np.argmin(remainders[nonzero])]
        unit, unit_error = float(remainders[smallest]), float(errors[smallest])
    return None


def dithered(X: NDArray[np.float64], units: list[float | None], seed: int) -> NDArray[np.float64]:
    """Add independent noise, uniform on (-u/2, u/2), to every value of rounded data.

    Args:
        X: (n, D) sample, which is not changed.
        units: D rounding units u, one per column; ``None`` or 0 adds no noise.
        seed: seed of the NumPy generator. The noise of a column does not depend on the units of
            other columns.

    Returns:
        (n, D) dithered copy.
    """
    if len(units) != X.shape[1]:
        raise ValueError(f"units has {len(units)} entries for {X.shape[1]} columns")
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, size=X.shape)
    result: NDArray[np.float64] = X + noise * np.array([unit or 0.0 for unit in units])
    return result


@dataclasses.dataclass(frozen=True)
class Units:
    """Transformation of data to the units of the model: dither, then division by ``scale``.

    Attributes:
        scale: (D,), in the units of the data.
        dither: (D,) rounding units, in the units of the data; 0 for columns without dither.
        dither_seed: seed of the dither.
        columns: names of the D columns.
        sizes: numbers of rows of samples with separate likelihoods; empty for a single likelihood.
    """

    scale: np.ndarray
    dither: np.ndarray
    dither_seed: int
    columns: tuple[str, ...]
    sizes: tuple[int, ...] = ()

    def transform_data(self, data: np.ndarray) -> Any:
        """Transform data (n, D) to the units of the model with the recorded dither, and split."""
        if self.dither.any():
            data = dithered(data, list(self.dither), self.dither_seed)
        return self.split(data / self.scale)

    def split(self, data: np.ndarray) -> Any:
        """Split data into a tuple of consecutive samples if they have separate likelihoods."""
        if not self.sizes:
            return data
        return tuple(np.split(data, np.cumsum(self.sizes)[:-1]))

    def to_model(self, data: np.ndarray) -> np.ndarray:
        """Transform points (n, D) to the units of the model, without dither."""
        return data / self.scale

    def measure_to_model(self, measure: Measure | str) -> Measure:
        """Transform a measure to the units of the model; a prior of its scale is unchanged."""
        with input_errors():
            return as_measure(measure).rescaled(self.scale)

    def to_data(
        self, unit: FieldUnit, values: np.ndarray, sample_axes: int, *, per_component: bool = False
    ) -> np.ndarray:
        """Transform a kernel parameter to the units of the data.

        A length that is shared by columns of different scales becomes one length per column.

        Args:
            unit: unit of the parameter, see :func:`~bke.models.parameter`.
            values: the parameter in the units of the model.
            sample_axes: number of leading axes over draws.
            per_component: ``True`` if the next axis is over the components of a mixture kernel.

        Returns:
            The parameter in the units of the data.
        """
        if unit == "none":
            return values
        if unit == "length^2":
            squares = np.outer(self.scale, self.scale)
            if values.ndim == sample_axes:  # a multiple of the identity
                return values[..., None, None] * np.diag(np.diag(squares))
            return values * squares
        factor = self.scale if unit == "length" else 1.0 / self.scale
        if np.all(factor == factor[0]):
            return values * factor[0]
        if values.ndim == sample_axes + per_component + 1:
            return values * factor
        return values[..., None] * factor


def choose_scale(data: np.ndarray, standardize: str | None) -> np.ndarray:
    """Compute the scale (D,) of data (n, D) for an option ``standardize``."""
    return scale_from_deviations(data.std(axis=0), standardize)


def scale_from_deviations(deviations: np.ndarray, standardize: str | None) -> np.ndarray:
    """Compute the scale (D,) from the standard deviations (D,) of the columns."""
    check_choice(standardize, "standardize", STANDARDIZATIONS)
    if standardize is None:
        return np.ones(len(deviations))
    if standardize == "pooled":
        return np.full(len(deviations), np.sqrt(np.mean(deviations**2)))
    return np.asarray(deviations)


def choose_units(
    data: np.ndarray,
    standardize: str | None,
    columns: Sequence[str] | None,
    sizes: tuple[int, ...] = (),
) -> Units:
    """Choose the units of data (n, D), without dither."""
    dimension = data.shape[1]
    names = tuple(default_names(dimension) if columns is None else columns)
    if len(names) != dimension:
        raise InputError(f"columns has {len(names)} names, but the data have {dimension} columns")
    return Units(choose_scale(data, standardize), np.zeros(dimension), 0, names, sizes)


def may_be_dithered(data: np.ndarray, dither: Any) -> bool:
    """Return whether :func:`with_dither` may add dither to data (n, D)."""
    if isinstance(dither, str):
        return any(rounding_unit(column) for column in data.T)
    return dither is not None


def with_dither(
    units: Units,
    data: np.ndarray,
    dither: Any,
    seed: int,
    prior_draws: Mapping[str, np.ndarray],
    cancelled: Callable[[Any, PaddedRows], jax.Array] | None,
) -> Units:
    """Add dither to ``units`` if rounding units are given, or if rounding makes the density zero.

    Args:
        units: units without dither.
        data: (n, D), in the units of the data.
        dither: ``"auto"``, ``None`` or rounding units, as in :func:`~bke.inference.fit`.
        seed: seed of the dither.
        prior_draws: draws of the parameters, at which the density is checked.
        cancelled: function that returns which rows (N,) have a density of zero at some of the
            draws, see :func:`~bke.inference.sampling.densities.cancelled_rows`. It is ``None`` for
            likelihoods that rounding cannot make zero.

    Raises:
        InputError: if ``dither`` is invalid. Also if the density is zero, and ``dither`` is
            ``None`` or no rounding unit is found.
    """
    draws = {name: jnp.asarray(z[:DETECTION_DRAWS]) for name, z in prior_draws.items()}
    samples = units.split(units.to_model(data))
    samples = samples if isinstance(samples, tuple) else (samples,)
    repeated = cancelled is not None and any(_has_repeated_values(column) for column in data.T)
    zero_rows = np.flatnonzero(
        np.concatenate([_cancellations(x, draws, cancelled, repeated) for x in samples])
    )
    explicit = dither is not None and not isinstance(dither, (str, bool))
    if isinstance(dither, bool) or (isinstance(dither, str) and dither != "auto"):
        raise InputError(f"dither must be 'auto', None or rounding units, got {dither!r}")
    if explicit:
        steps = np.asarray(dither, dtype=float)
        if steps.shape not in ((), units.scale.shape):
            raise InputError(
                f"dither has {steps.size} rounding units, but the data have "
                f"{len(units.scale)} columns"
            )
        steps = np.broadcast_to(steps, units.scale.shape).copy()
        if not np.all(np.isfinite(steps) & (steps >= 0)):
            raise InputError(f"dither must be rounding units of at least 0, got {dither!r}")
        return dataclasses.replace(units, dither=steps, dither_seed=seed)
    if not zero_rows.size:
        return units
    rows = ", ".join(str(row + 1) for row in zero_rows[:5])
    rows += f" and {zero_rows.size - 5} more" if zero_rows.size > 5 else ""
    if dither is None:
        raise InputError(
            f"the density of the data is exactly zero at row {rows}, because neighbors of rounded "
            "data cancel; pass dither='auto' to add noise within the rounding unit"
        )
    rounding_units = [rounding_unit(column) for column in data.T]
    if not any(rounding_units):
        raise InputError(
            f"the density of the data is exactly zero at row {rows}, because neighbors cancel, and "
            "no rounding unit was found; pass the rounding units as dither"
        )
    return dataclasses.replace(
        units, dither=np.array([unit or 0.0 for unit in rounding_units]), dither_seed=seed
    )


def _cancellations(
    x: np.ndarray,
    z: Mapping[str, jax.Array],
    cancelled: Callable[[Any, PaddedRows], jax.Array] | None,
    repeated: bool,
) -> np.ndarray:
    """Return which rows (n,) of a sample may have a density of zero.

    In a large sample, all rows may if one column is rounded. ``repeated`` says that a column of the
    data has repeated values. It detects the rounding of heavy-tailed columns, whose unit is too
    small to be found after division by their standard deviation.
    """
    if cancelled is not None and len(x) <= MAX_DENSE:
        rows = jax.tree.map(jnp.asarray, padded(x, shared_size(dense_size(len(x)))))
        return np.asarray(cancelled(z, rows))[: len(x)]
    rounded = cancelled is not None and any(rounding_unit(column) is not None for column in x.T)
    return np.full(len(x), rounded or repeated)


def _has_repeated_values(column: np.ndarray) -> bool:
    """Return whether a large column (n,) is rounded and has fewer than n / 2 distinct values."""
    repeated = len(column) > MAX_DENSE and 2 * len(np.unique(column)) < len(column)
    return repeated and rounding_unit(column) is not None


@dataclasses.dataclass(frozen=True)
class Observed:
    """Checked data and their units.

    Attributes:
        rows: (n, D) finite rows of all samples, in the units of the data.
        units: scale and names of the columns, without dither.
    """

    rows: np.ndarray
    units: Units


def observe(
    X: ArrayLike | tuple[ArrayLike, ...],
    *,
    samples: str = "pooled",
    standardize: str | None = "column",
    columns: Sequence[str] | None = None,
) -> Observed:
    """Check data and choose their units; the arguments are those of :func:`~bke.inference.fit`.

    Raises:
        InputError: if the data or an argument are invalid.
    """
    arrays = as_samples(X, samples)
    rows = np.concatenate(arrays)
    sizes = tuple(map(len, arrays)) if samples == "product" else ()
    names = column_names(X)
    if columns is not None:
        names = check_column_names(columns, default_names(rows.shape[1]))
    return Observed(rows, choose_units(rows, standardize, names, sizes))
