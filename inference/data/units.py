"""Units: the scale the prior refers to, and the dither that rounded data need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.covariance import FieldUnit
from bke.models.likelihood.spectral import MAX_DENSE
from bke.models.linalg.rows import PaddedRows, dense_size, padded, shared_size
from bke.models.measures import Measure, as_measure

from ..core.errors import InputError, check_choice, input_errors
from .checks import STANDARDIZATIONS
from .file_table import default_names
from .rounding import dithered, rounding_unit

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
    :func:`~bke.inference.sampling.target.cancelled_rows`, or is ``None`` where rounding
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
