"""Covariance functions, the fields of their dataclasses, and checks of points and parameters."""

from __future__ import annotations

import abc
import dataclasses
import functools
import operator
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
    if isinstance(X, np.ma.MaskedArray):  # np.asarray would show what the mask hides
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if not isinstance(X, jax.core.Tracer):
        values = np.asarray(X)
        if values.dtype.kind not in "fiu":
            raise ValueError(f"{name} must hold real numbers, got type {values.dtype}")
        if not np.all(np.isfinite(values)):
            row = int(np.argwhere(~np.isfinite(values))[0, 0]) + 1
            raise ValueError(f"{name} has a value that is not finite in row {row}")
    points = jnp.asarray(X, dtype=jnp.float64)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2:
        raise ValueError(f"{name} must have shape (n,) or (n, D), got {points.shape}")
    return points


def as_samples(
    X: ArrayLike, Y: ArrayLike, names: tuple[str, str] = ("X", "Y")
) -> tuple[jax.Array, jax.Array]:
    """Return two samples of the same variables as points; columns of frames are matched by name.

    Raises:
        ValueError: data frames of several columns have other names.
    """
    first, second = _column_names(X), _column_names(Y)
    if first and second and first != second and max(len(first), len(second)) > 1:
        if sorted(first) != sorted(second) or len(set(first)) < len(first):
            raise ValueError(
                f"{names[0]} has the columns {', '.join(first)}, and {names[1]} has "
                f"{', '.join(second)}: give both the same"
            )
        Y = np.asarray(Y)[:, [second.index(name) for name in first]]
    return as_points(X, names[0]), as_points(Y, names[1])


def _column_names(X: Any) -> list[str]:
    """Return the names of the columns of a data frame; none of anything else."""
    # Arrow's tables have ``column_names``; their ``columns`` are arrays.
    columns = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return [] if columns is None else list(map(str, columns))


def as_pairs(
    X: ArrayLike, Y: ArrayLike, names: tuple[str, str] = ("X", "Y")
) -> tuple[jax.Array, jax.Array]:
    """Return two samples as points, with one row of each for every pair.

    Raises:
        ValueError: they have different numbers of rows, or of pandas the same row labels in another
            order.
    """
    first, second = (cast(Any, getattr(Z, "index", None)) for Z in (X, Y))
    labelled = hasattr(first, "equals") and hasattr(second, "equals")
    if labelled and not first.equals(second) and sorted(first) == sorted(second):
        raise ValueError(
            f"{names[0]} and {names[1]} have the same row labels in another order, and pairs are "
            f"taken by position: give {names[1]}.loc[{names[0]}.index]"
        )
    x, y = as_points(X, names[0]), as_points(Y, names[1])
    if len(x) != len(y):
        raise ValueError(
            f"{names[0]} has {len(x)} rows but {names[1]} has {len(y)}: they must be pairs"
        )
    return x, y


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
