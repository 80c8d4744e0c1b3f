"""Units of data: checked rows, the scale the prior refers to, and the dither of rounded data.

Where neighbors on a lattice balance, the Jacobian factor gamma(x_i) of BKE (12) is exactly zero and
the marginal likelihood (13) has no density: rounded data get noise within their rounding unit.
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
from .checks import STANDARDIZATIONS, as_samples, column_names, default_names

MOST_DECIMALS = 12
FINEST = 1e-9  # of the column's range; a finer lattice is as good as none
MOST_STEPS = 1e5  # lattice points in the range, where the unit is not a decimal number


def rounding_unit(column: NDArray[np.float64]) -> float | None:
    """Find the largest u such that all differences of the column are integer multiples of u.

    Found exactly for numbers of at most 12 decimals (u = 0.3048 for whole feet given in metres).
    Otherwise, for at least three different values, by Euclid's algorithm with a tolerance: whole
    numbers divided by their standard deviation keep their lattice. Single-precision numbers that
    were converted to double are recognised; far from zero (at 1000, say) the lattice found may be
    that of single precision itself.

    Args:
        column: (n,) finite values.

    Returns:
        u in the units of the column; None if there is no lattice, if all values are equal, if u is
        below 1e-9 of the range, or below what floating-point numbers of this size can tell.
    """
    values = np.unique(np.asarray(column, dtype=np.float64))
    if len(values) < 2:
        return None
    largest, extent = float(np.max(np.abs(values))), float(values[-1] - values[0])
    with np.errstate(over="ignore"):
        single = np.array_equal(values, values.astype(np.float32).astype(np.float64))
    for epsilon in [2.0**-52] + [2.0**-23] * single:
        error = 4 * epsilon * largest
        # Within the error every number is on the lattice, which says nothing.
        finest = max(FINEST * extent, error)
        for unit in (_decimal_unit(values, 2 * epsilon), _real_unit(values - values[0], error)):
            if unit is not None and unit >= finest:
                return unit
    return None


def _decimal_unit(values: NDArray[np.float64], tolerance: float) -> float | None:
    """Find the unit of numbers with few decimals; ``tolerance`` is relative, for one value."""
    for decimals in range(MOST_DECIMALS + 1):
        scaled = values * 10.0**decimals
        whole = np.rint(scaled)
        if np.all(np.abs(scaled - whole) <= tolerance * np.abs(scaled)):
            integers = [int(value) for value in whole]
            unit = math.gcd(*(value - integers[0] for value in integers))
            return float(unit / 10**decimals)  # exact integers, so rounded once
    return None


def _real_unit(differences: NDArray[np.float64], tolerance: float) -> float | None:
    """Find a unit by Euclid's algorithm on real numbers; ``tolerance`` is absolute, for one."""
    extent = float(differences[-1])
    unit, unit_error = float(np.min(np.diff(differences))), 2 * tolerance
    if len(differences) < 3:
        return None
    while unit * MOST_STEPS >= extent:
        steps = np.rint(differences / unit)
        rest = np.abs(differences - steps * unit)
        rest_error = tolerance + steps * unit_error
        left = np.flatnonzero(rest > rest_error)
        if left.size == 0:
            unit = extent / float(steps[-1])  # the longest difference has the smallest error
            exact = np.abs(differences - steps * unit) <= 2 * tolerance
            return unit if bool(np.all(exact)) else None
        shortest = left[np.argmin(rest[left])]
        unit, unit_error = float(rest[shortest]), float(rest_error[shortest])
    return None


def dithered(X: NDArray[np.float64], units: list[float | None], seed: int) -> NDArray[np.float64]:
    """Undo the rounding: add independent noise, uniform on (-u/2, u/2), to every value.

    Args:
        X: (n, D) sample; it is not changed.
        units: D rounding units, one per column; None or 0 leaves the column as it is.
        seed: of the NumPy generator. The noise of one column does not depend on the other units.

    Returns:
        (n, D) dithered copy.
    """
    if len(units) != X.shape[1]:
        raise ValueError(f"units has {len(units)} entries for {X.shape[1]} columns")
    noise = np.random.default_rng(seed).uniform(-0.5, 0.5, size=X.shape)
    moved: NDArray[np.float64] = X + noise * np.array([unit or 0.0 for unit in units])
    return moved


DETECTION_DRAWS = 48


@dataclasses.dataclass(frozen=True)
class Units:
    """How the data were brought to the model's units: dithered, then divided by ``scale``."""

    scale: np.ndarray  # (D,), units of the data
    dither: np.ndarray  # (D,), rounding units of the data; 0 where a column is left alone
    dither_seed: int
    columns: tuple[str, ...]
    sizes: tuple[int, ...] = ()  # rows of the samples that have a likelihood each; (): all one

    def points(self, data: np.ndarray) -> Any:
        """Bring (n, D) ``data`` to the model's units with the recorded dither, and split it."""
        if self.dither.any():
            data = dithered(data, list(self.dither), self.dither_seed)
        return self.split(data / self.scale)

    def split(self, data: np.ndarray) -> Any:
        """Split ``data`` into a tuple of the samples that follow each other in it, if any do."""
        if not self.sizes:
            return data
        return tuple(np.split(data, np.cumsum(self.sizes)[:-1]))

    def to_model(self, data: np.ndarray) -> np.ndarray:
        """Bring (n, D) points to the model's units, without dither."""
        return data / self.scale

    def measure_to_model(self, measure: Measure | str) -> Measure:
        """A measure given in the units of the data, in the model's; a prior of its scale stays."""
        with input_errors():
            return as_measure(measure).rescaled(self.scale)

    def to_data(
        self, unit: FieldUnit, values: np.ndarray, sample_axes: int, *, per_component: bool = False
    ) -> np.ndarray:
        """A kernel parameter in the units of the data.

        A length shared by columns of different scale becomes one per column.

        Args:
            unit: of the parameter, see :func:`~bke.models.parameter`.
            values: in the model's units.
            sample_axes: how many leading axes run over draws.
            per_component: whether the next axis runs over the components of a mixture kernel.
        """
        if unit == "none":
            return values
        if unit == "length^2":
            squares = np.outer(self.scale, self.scale)
            if values.ndim == sample_axes:  # a number stands for that number times the identity
                return values[..., None, None] * np.diag(np.diag(squares))
            return values * squares
        factor = self.scale if unit == "length" else 1.0 / self.scale
        if np.all(factor == factor[0]):
            return values * factor[0]
        if values.ndim == sample_axes + per_component + 1:
            return values * factor
        return values[..., None] * factor


def choose_scale(data: np.ndarray, standardize: str | None) -> np.ndarray:
    """Choose the (D,) divisors that ``standardize`` asks for, from data (n, D)."""
    return unit_of(data.std(axis=0), standardize)


def unit_of(deviations: np.ndarray, standardize: str | None) -> np.ndarray:
    """Choose the (D,) divisors from the columns' standard deviations (D,)."""
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
    """Choose units for ``data`` (n, D), not dithered yet."""
    dimension = data.shape[1]
    names = tuple(columns) if columns is not None else default_columns(dimension)
    if len(names) != dimension:
        raise InputError(f"columns has {len(names)} names, but the data have {dimension} columns")
    return Units(choose_scale(data, standardize), np.zeros(dimension), 0, names, sizes)


def default_columns(dimension: int) -> tuple[str, ...]:
    """Name columns that have no names: ``x``, or ``x0``, ``x1``, ..."""
    return tuple(default_names(dimension))


def may_be_dithered(data: np.ndarray, dither: Any) -> bool:
    """Whether :func:`with_dither` may add any to ``data`` (n, D)."""
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
    """Add a dither to ``units`` where rounding makes the density zero.

    ``cancelled`` says which rows (N,) have a density of zero at some of the draws, as compiled by
    :func:`~bke.inference.sampling.densities.cancelled_rows`, or is ``None`` where rounding
    cannot do that.

    Raises:
        InputError: where the density is zero and ``dither`` is ``None`` or finds no rounding unit.
    """
    some = {name: jnp.asarray(z[:DETECTION_DRAWS]) for name, z in prior_draws.items()}
    samples = units.split(units.to_model(data))
    each = samples if isinstance(samples, tuple) else (samples,)
    repeated = cancelled is not None and any(_repeated(column) for column in data.T)
    zero_rows = np.flatnonzero(
        np.concatenate([_cancellations(x, some, cancelled, repeated) for x in each])
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
            f"the density of the data is exactly zero at row {rows}: equal neighbours on both "
            "sides cancel, as rounded data do; set dither to 'auto' to undo the rounding"
        )
    found = [rounding_unit(column) for column in data.T]
    if not any(found):
        raise InputError(
            f"the density of the data is exactly zero at row {rows}, where neighbours on both "
            "sides cancel, and no rounding unit was found: set dither to one"
        )
    return dataclasses.replace(
        units, dither=np.array([unit or 0.0 for unit in found]), dither_seed=seed
    )


def _cancellations(
    x: np.ndarray,
    z: Mapping[str, jax.Array],
    cancelled: Callable[[Any, PaddedRows], jax.Array] | None,
    repeated: bool,
) -> np.ndarray:
    """Find which rows (n,) of a sample may cancel; of a large one all if it is rounded.

    Over a standard deviation the unit of heavy tails is too small to be found: there values that
    most rows have in common tell (``repeated``).
    """
    if cancelled is not None and len(x) <= MAX_DENSE:
        rows = jax.tree.map(jnp.asarray, padded(x, shared_size(dense_size(len(x)))))
        return np.asarray(cancelled(z, rows))[: len(x)]
    rounded = cancelled is not None and any(rounding_unit(column) is not None for column in x.T)
    return np.full(len(x), rounded or repeated)


def _repeated(column: np.ndarray) -> bool:
    """Whether a large column (n,) is rounded and has hardly half as many values as rows."""
    few = len(column) > MAX_DENSE and 2 * len(np.unique(column)) < len(column)
    return few and rounding_unit(column) is not None


@dataclasses.dataclass(frozen=True)
class Observed:
    """Rows in their own units, and how these are brought to the model's.

    Attributes:
        rows: (n, D), finite, those of all samples.
        units: scale of the columns and their names; not dithered yet.
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
    """Check data and choose their units; arguments are those of :func:`~bke.inference.fit`.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    arrays = as_samples(X, samples)
    rows = np.concatenate(arrays)
    sizes = tuple(map(len, arrays)) if samples == "product" else ()
    names = column_names(X) if columns is None else columns
    return Observed(rows, choose_units(rows, standardize, names, sizes))
