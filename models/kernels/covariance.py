"""Covariance functions, the fields of their dataclasses, and checks of points and parameters."""

from __future__ import annotations

import abc
import collections
import dataclasses
import decimal
import functools
import numbers
import operator
import unicodedata
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..linalg.precision import double_precision
from ..linalg.pytrees import register_dataclass

if TYPE_CHECKING:
    import numpyro.distributions as dist

FieldUnit: TypeAlias = Literal["none", "length", "1/length", "length^2"]


def parameter(
    default: Any = dataclasses.MISSING,
    *,
    unit: FieldUnit = "none",
    prior: dist.Distribution | None = None,
    per_component: bool = False,
    static: bool = False,
) -> Any:
    """Declare a field of a kernel's dataclass.

    Args:
        default: default value.
        unit: ``"length"`` for parameters that divide distances: random by default, and a number or
            one per column; ``"1/length"`` for frequencies; ``"length^2"`` for a covariance (D, D);
            else ``"none"``.
        prior: prior in the model's units, for a parameter that is random by default with another
            than the default prior.
        per_component: True if its first axis runs over the components of a mixture.
        static: True if it is fixed when the program is compiled, and never random.

    Raises:
        ValueError: for an unknown unit.
    """
    metadata = {"per_component": per_component, "prior": prior, "static": static}
    return dataclasses.field(default=default, metadata={"unit": _checked_unit(unit), **metadata})


def unit_of(field: dataclasses.Field[Any]) -> FieldUnit:
    """Return the unit of a field; without metadata ``lengthscale`` is a length.

    Raises:
        ValueError: for an unknown unit.
    """
    default = "length" if field.name == "lengthscale" else "none"
    return _checked_unit(field.metadata.get("unit", default))


def _checked_unit(unit: FieldUnit) -> FieldUnit:
    units = get_args(FieldUnit)
    if unit not in units:
        raise ValueError(f"a field's unit must be one of {', '.join(units)}, got {unit!r}")
    return unit


def is_static(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field is fixed when the program is compiled."""
    return bool(field.metadata.get("static"))


def length_parameters(kernel: Any) -> dict[str, Any]:
    """Return the kernel's fields that are lengths, by name, without those of nested kernels.

    Default priors and results in the units of the data use it, for any name of the field.
    """
    return {
        field.name: getattr(kernel, field.name)
        for field in (dataclasses.fields(kernel) if dataclasses.is_dataclass(kernel) else ())
        if not is_static(field) and unit_of(field) == "length"
    }


class ValueAndGrad(NamedTuple):
    """k and its gradient with a common factor taken out, so that far points do not underflow.

    ``k = exp(log_scale) * value`` and ``dk/dx_d = exp(log_scale) * gradient[d]``.

    Attributes:
        log_scale: logarithm of the common factor, (n, m).
        value: (n, m).
        gradient: derivative in the first argument, (D, n, m).
    """

    log_scale: jax.Array
    value: jax.Array
    gradient: jax.Array

    def kernel_matrix(self) -> jax.Array:
        """Return k(x_i, y_j), shape (n, m)."""
        return jnp.exp(self.log_scale) * self.value


class SmoothingError(ValueError):
    """The smoothed kernel r has no implemented form for this kernel and measure."""


def as_points(X: ArrayLike, name: str = "X") -> jax.Array:
    """Return ``X`` as an (n, D) float64 array; a 1-D array means D = 1.

    Raises:
        ValueError: a concrete value is not a finite real number, or masked; names its row.
    """
    if not isinstance(X, jax.core.Tracer):
        X = as_numbers(X, name)
        if not np.all(np.isfinite(X)):
            row = int(np.argwhere(~np.isfinite(np.atleast_1d(X)))[0, 0]) + 1
            raise ValueError(
                f"{name} has a value that is not finite in row {row}: fill in, or leave out, such "
                "rows"
            )
    points = jnp.asarray(X, dtype=jnp.float64)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2:
        raise ValueError(f"{name} must have shape (n,) or (n, D), got {points.shape}")
    return points


def as_numbers(X: Any, name: str) -> np.ndarray:
    """Return concrete ``X`` as an array of real numbers, NaN for missing and masked values.

    Raises:
        ValueError: it is not an array, or a value is not a real number.
    """
    if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    if isinstance(X, np.ma.MaskedArray):  # np.asarray would show what the mask hides
        X = np.ma.filled(X.astype(np.float64 if X.dtype.kind in "fiu" else object), np.nan)
    # polars, whose types are a list, converts dates to numbers in varying units.
    dtypes = getattr(X, "dtypes", None)
    for of in dtypes if isinstance(dtypes, list) else ():
        if getattr(of, "is_temporal", bool)():
            raise ValueError(f"{name} must hold real numbers, got a column of type {of}")
    values = np.asarray(X)
    if values.dtype == object and values.ndim == 0:
        raise ValueError(f"{name} must be an array or a data frame, got {type(X).__name__}")
    if values.dtype == object:  # such as of pandas columns with nullable types
        objects, values = values, np.empty(values.shape)
        for index, cell in np.ndenumerate(objects):
            real = isinstance(cell, (numbers.Real, decimal.Decimal))
            real = real and not isinstance(cell, (bool, np.timedelta64))
            if not (real or cell is None or str(cell) == "<NA>"):  # the last is pandas.NA
                raise ValueError(
                    f"{name} has {str(cell)[:40]!r} in row {index[0] + 1}, where a real number is "
                    "needed"
                )
            values[index] = float(cell) if real else np.nan
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got type {values.dtype}")
    return values


def as_samples(
    X: ArrayLike, Y: ArrayLike, names: tuple[str, str] = ("X", "Y")
) -> tuple[jax.Array, jax.Array]:
    """Return two samples of the same variables as points; columns of frames are matched by name.

    Raises:
        ValueError: data frames of several columns have other names.
    """
    Y = in_order_of(Y, column_names(X), names[1], names[0])
    return as_points(X, names[0]), as_points(Y, names[1])


def column_names(X: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame; ``None`` for anything else."""
    # Arrow's tables have ``column_names``; their ``columns`` are arrays.
    columns = getattr(X, "column_names", None) or getattr(X, "columns", None)
    if columns is None:
        return None
    return tuple(unicodedata.normalize("NFC", str(name)) for name in columns)


def in_order_of(
    X: Any, columns: tuple[str, ...] | None, name: str, sample: str = "the sample"
) -> Any:
    """Return ``X`` with its columns in the order of those of a sample, by their names.

    Args:
        X: a data frame, or an object without names, which is returned unchanged.
        columns: names of the columns of the sample, or ``None``.
        name: name of ``X`` in messages.
        sample: name of the sample in messages.

    Raises:
        ValueError: the names differ or repeat; see :func:`_columns_differ`.
    """
    order = column_order(column_names(X), columns, name, sample)
    return X if order is None else np.asarray(X)[:, order]


def column_order(
    names: tuple[str, ...] | None, columns: tuple[str, ...] | None, name: str, sample: str
) -> list[int] | None:
    """Return the indices of :func:`in_order_of` for ``names``, or ``None`` if nothing moves."""
    if names is None or columns is None or not _columns_differ(columns, names):
        return None
    if sorted(names) != sorted(columns) or len(set(names)) < len(names):
        check_same_columns(columns, names, sample, name)
    return [names.index(column) for column in columns]


def check_same_columns(
    first: tuple[str, ...] | None, second: tuple[str, ...] | None, *samples: str
) -> None:
    """Refuse two samples whose columns have other names, or are in another order."""
    if first and second and _columns_differ(first, second):
        same = "order" if sorted(first) == sorted(second) else "names"
        raise ValueError(
            f"{samples[0]} has the columns {', '.join(first)}, and {samples[1]} has "
            f"{', '.join(second)}: give both the same {same}"
        )


def _columns_differ(first: tuple[str, ...], second: tuple[str, ...]) -> bool:
    """Return whether the names differ, or their order.

    One column is that column, whatever its name; the labels 0, 1, ... of pandas are not names.
    """
    if first == second or len(first) == len(second) == 1:
        return False
    labels = [set(names) == set(map(str, range(len(names)))) for names in (first, second)]
    return not any(labels) or bool(set(first) & set(second))


def as_pairs(
    X: ArrayLike, Y: ArrayLike, names: tuple[str, str] = ("X", "Y")
) -> tuple[jax.Array, jax.Array]:
    """Return two samples as points, with one row of each for every pair.

    Raises:
        ValueError: they have different numbers of rows, or of pandas the same row labels in another
            order.
    """
    check_row_labels(X, Y, names)
    x, y = as_points(X, names[0]), as_points(Y, names[1])
    if len(x) != len(y):
        raise ValueError(
            f"{names[0]} has {len(x)} rows but {names[1]} has {len(y)}: they must be pairs"
        )
    return x, y


def check_row_labels(X: Any, Y: Any, names: tuple[str, str]) -> None:
    """Refuse pandas objects with the same row labels in another order: rows match by position."""
    first, second = (cast(Any, getattr(Z, "index", None)) for Z in (X, Y))
    if not (hasattr(first, "equals") and hasattr(second, "equals")) or first.equals(second):
        return
    if collections.Counter(first) == collections.Counter(second):
        raise ValueError(
            f"{names[0]} and {names[1]} have the same row labels in another order, and pairs are "
            f"taken by position: give {names[1]}.loc[{names[0]}.index], or .to_numpy() of both"
        )


def check_columns(X: jax.Array, other: jax.Array, name: str) -> None:
    """Refuse points (n, D) and (m, E) with different numbers of columns."""
    if X.shape[1] != other.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but {name} has {other.shape[1]}")


def differences(X: jax.Array, Y: jax.Array) -> jax.Array:
    """Return x_i - y_j by coordinate, shape (D, n, m).

    Taken directly: |x|^2 + |y|^2 - 2xy would cancel for near points, which determine the log
    Jacobian.
    """
    check_columns(X, Y, "Y")
    return X.T[:, :, None] - Y.T[:, None, :]


@jax.custom_jvp
def squared_norm(delta: jax.Array) -> jax.Array:
    """Sum squares over the leading axis, (D, n, m) to (n, m).

    Written out term by term, because XLA's reduction over a leading axis stores all D matrices;
    its derivative is a reduction, because that of a slice is a matrix of zeros with a slice in it.
    """
    return functools.reduce(operator.add, [coordinate**2 for coordinate in delta])


@squared_norm.defjvp
def _squared_norm_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (delta,), (delta_dot,) = primals, tangents
    return squared_norm(delta), 2.0 * jnp.sum(delta * delta_dot, axis=0)


def positive_sqrt(squared: jax.Array) -> jax.Array:
    """Return the square root, with derivative 0 at 0, where the root itself has none."""
    positive = squared > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, squared, 1.0)), 0.0)


def per_column(parameter: Any, dimension: int, name: str) -> jax.Array:
    """Return a scalar or (D,) parameter as (D or 1, 1, 1), to broadcast against differences."""
    if parameter is None:
        raise ValueError(f"{name} must be a positive number, got None")
    values: jax.Array = jnp.asarray(parameter, dtype=jnp.float64)
    if values.ndim > 1 or (values.ndim == 1 and values.shape[0] not in (1, dimension)):
        raise ValueError(
            f"{name} must be a number or have one entry per column ({dimension}), "
            f"got shape {values.shape}"
        )
    return values.reshape(-1, 1, 1)


class Covariance(abc.ABC):
    """A covariance function: ``r(X, Y)`` is its matrix, from arrays that are checked.

    :meth:`matrix` is the same within programs of JAX: of arrays (n, D) and (m, D), in their
    precision and without checks.

    Attributes:
        numerical: whether the values come from a quadrature rule; the class states its accuracy.
        characteristic: whether any two different distributions have different embeddings:
            true of a kernel of x - y whose spectral density is positive everywhere (Muandet et al.
            2017, section 3.3.1). None: unknown.
        translation_invariant: whether k(x, y) is known to depend on x - y alone.
    """

    numerical: bool = False
    characteristic: bool | None = None
    translation_invariant: bool = False

    @abc.abstractmethod
    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the (n, m) matrix r(x_i, y_j) of two (n, D), (m, D) arrays."""

    def check_points(self, X: jax.Array) -> None:  # noqa: B027
        """Raise ``ValueError`` for concrete (n, D) points outside the covariance's domain."""

    def diagonal(self, X: jax.Array) -> jax.Array:
        """Return r(x_i, x_i) of an (n, D) array, shape (n,)."""
        return jax.vmap(lambda x: self.matrix(x[None], x[None])[0, 0])(X)

    @double_precision
    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> jax.Array:
        """Return the (n, m) Gram matrix; ``Y`` defaults to ``X``."""
        x, y = as_samples(X, X if Y is None else Y)
        self.check_points(x)
        self.check_points(y)
        return _matrix(self, x, y)


# Compiled as a whole: operation by operation the unused derivatives of ``value_and_grad`` would be
# computed too.
@jax.jit
def _matrix(covariance: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    return covariance.matrix(X, Y)


def check_kernel(kernel: Any, name: str) -> None:
    """Refuse what is no kernel, such as the names that ``bke.inference.select_kernel`` takes."""
    if not isinstance(kernel, Covariance):
        raise ValueError(
            f"{name} must be a kernel, such as SquaredExponential(1.0), got {kernel!r}; "
            "bke.inference.select_kernel chooses one from the data"
        )


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ScaledCovariance(Covariance):
    """A constant times another covariance, such as r(0) times r / r(0)."""

    variance: Any
    covariance: Covariance

    @property
    def numerical(self) -> bool:  # type: ignore[override]
        """The value for the other covariance."""
        return self.covariance.numerical

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the matrix r(x_i, y_j)."""
        return self.variance * self.covariance.matrix(X, Y)
