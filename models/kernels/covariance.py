"""What the fields of a kernel are: in which unit, with which prior, and what their axes run over.

Whatever asks for lengths asks here, so that a kernel of the user's, whose length is called
``width``, gets the default prior and results in the units of the data as ours do.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import operator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..linalg.precision import double_precision
from ..linalg.pytrees import register_dataclass

if TYPE_CHECKING:
    import numpyro.distributions as dist

FieldUnit: TypeAlias = Literal["none", "length", "1/length", "length^2"]
UNITS: tuple[FieldUnit, ...] = get_args(FieldUnit)


def parameter(
    default: Any = dataclasses.MISSING,
    *,
    unit: FieldUnit = "none",
    prior: dist.Distribution | None = None,
    per_component: bool = False,
    static: bool = False,
) -> Any:
    """A field of a kernel's dataclass.

    Args:
        default: value where none is given.
        unit: ``"length"`` for what is divided into distances: random by default, and a number or
            one per column; ``"1/length"`` for frequencies; ``"length^2"`` for a covariance (D, D);
            else ``"none"``.
        prior: of the parameter in the model's units, where it is to be random by default with
            another than the default prior.
        per_component: whether its first axis runs over the components of a mixture.
        static: fixed when the program is compiled, and never random.

    Raises:
        ValueError: for a unit that there is not.
    """
    _check_unit(unit)
    metadata: dict[str, Any] = {"unit": unit, "per_component": per_component}
    if prior is not None:
        metadata["prior"] = prior
    if static:
        metadata["static"] = True
    return dataclasses.field(default=default, metadata=metadata)


def unit_of(field: dataclasses.Field[Any]) -> FieldUnit:
    """The unit of a field; one without metadata is a length where it is named ``lengthscale``.

    Raises:
        ValueError: for a unit that there is not.
    """
    unit: FieldUnit = field.metadata.get(
        "unit", "length" if field.name == "lengthscale" else "none"
    )
    return _check_unit(unit)


def is_static(field: dataclasses.Field[Any]) -> bool:
    """Whether a field is fixed when the program is compiled."""
    return bool(field.metadata.get("static"))


def is_per_component(field: dataclasses.Field[Any]) -> bool:
    """Whether the first axis of a field runs over the components of a mixture."""
    return bool(field.metadata.get("per_component"))


def field_prior(field: dataclasses.Field[Any]) -> dist.Distribution | None:
    """The default prior that a field carries."""
    return field.metadata.get("prior")


def length_parameters(kernel: Any) -> dict[str, Any]:
    """The kernel's own fields that are lengths, by name; not those of kernels within it."""
    if not dataclasses.is_dataclass(kernel):
        return {}
    fields = dataclasses.fields(kernel)
    return {
        field.name: getattr(kernel, field.name)
        for field in fields
        if not is_static(field) and unit_of(field) == "length"
    }


def _check_unit(unit: FieldUnit) -> FieldUnit:
    if unit not in UNITS:
        raise ValueError(f"a field's unit must be one of {', '.join(UNITS)}, got {unit!r}")
    return unit


class ValueAndGrad(NamedTuple):
    """k and its derivative with a common factor taken out, so that far points do not underflow.

    ``k = exp(log_scale) * value`` and ``dk/dx_d = exp(log_scale) * gradient[d]``.
    """

    log_scale: jax.Array  # (n, m)
    value: jax.Array  # (n, m)
    gradient: jax.Array  # (D, n, m), derivative in the first argument


class SmoothingError(ValueError):
    """The smoothed kernel r has no implemented form for this kernel and measure."""


def as_points(X: ArrayLike, name: str = "X") -> jax.Array:
    """``X`` as an (n, D) float64 array; a 1-D array means D = 1.

    Raises ``ValueError`` naming the row of a concrete value that is not a finite real number.
    """
    if not isinstance(X, jax.core.Tracer):
        _check_real(np.asarray(X), name)
    points = jnp.asarray(X, dtype=jnp.float64)
    if points.ndim == 1:
        points = points[:, None]
    if points.ndim != 2:
        raise ValueError(f"{name} must have shape (n,) or (n, D), got {points.shape}")
    return points


def _check_real(values: np.ndarray, name: str) -> None:
    if values.dtype.kind not in "fiu":
        raise ValueError(f"{name} must hold real numbers, got type {values.dtype}")
    if not np.all(np.isfinite(values)):
        row = int(np.argwhere(~np.isfinite(values))[0, 0]) + 1
        raise ValueError(f"{name} has a value that is not finite in row {row}")


def check_columns(X: jax.Array, other: jax.Array, name: str) -> None:
    """Refuse points (n, D) and (m, E) of different numbers of columns."""
    if X.shape[1] != other.shape[1]:
        raise ValueError(f"X has {X.shape[1]} columns but {name} has {other.shape[1]}")


def differences(X: jax.Array, Y: jax.Array) -> jax.Array:
    """x_i - y_j coordinate by coordinate, shape (D, n, m).

    Taken directly: |x|^2 + |y|^2 - 2xy would cancel for near points, which decide the volume term.
    """
    check_columns(X, Y, "Y")
    return X.T[:, :, None] - Y.T[:, None, :]


@jax.custom_jvp
def squared_norm(delta: jax.Array) -> jax.Array:
    """Sum of squares over the leading axis, (D, n, m) to (n, m).

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


def per_column(parameter: Any, dimension: int, name: str) -> jax.Array:
    """A scalar or (D,) parameter as shape (D or 1, 1, 1), to broadcast against differences."""
    if parameter is None:
        raise ValueError(f"{name} must be a positive number, got None")
    values: jax.Array = jnp.asarray(parameter, dtype=jnp.float64)
    if values.ndim > 1 or (values.ndim == 1 and values.shape[0] not in (1, dimension)):
        raise ValueError(
            f"{name} must be a number or have one entry per column ({dimension}), "
            f"got shape {values.shape}"
        )
    return values.reshape(-1, 1, 1)


def check_positive(parameter: Any, name: str) -> None:
    """Raise ``ValueError`` for a concrete parameter that is not positive and finite."""
    if isinstance(parameter, str):
        raise ValueError(f"{name} must be a positive number, got {parameter!r}")
    values = concrete_values(parameter)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"{name} must be positive and finite, got {parameter}")


def concrete_values(parameter: Any) -> np.ndarray:
    """The numbers of a parameter, none where it is ``None`` or any of them is traced."""
    entries = jax.tree.leaves(parameter)
    if all(isinstance(entry, (int, float, np.ndarray, np.number)) for entry in entries):
        return np.asarray(parameter if entries else [], dtype=float)
    return np.empty(0)


class Covariance(abc.ABC):
    """A covariance function: ``r(X, Y)`` is its matrix."""

    numerical: bool = False
    """Whether the values come from a quadrature rule; the class says how accurate it is."""

    characteristic: bool | None = None
    """Whether any two distributions that differ have different embeddings (KER-10): true of a
    kernel of x - y whose spectral density is positive everywhere. None: not known."""

    translation_invariant: bool = False
    """Whether k(x, y) is known to hang on x - y alone."""

    @abc.abstractmethod
    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The (n, m) matrix r(x_i, y_j) of two (n, D), (m, D) arrays."""

    def check_points(self, X: jax.Array) -> None:  # noqa: B027
        """Raise ``ValueError`` for concrete (n, D) points that the covariance is not for."""

    def diagonal(self, X: jax.Array) -> jax.Array:
        """r(x_i, x_i) of an (n, D) array, shape (n,)."""
        return jax.vmap(lambda x: self.matrix(x[None], x[None])[0, 0])(X)

    @double_precision
    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> jax.Array:
        """The (n, m) Gram matrix; ``Y`` defaults to ``X``."""
        points = as_points(X)
        others = points if Y is None else as_points(Y, "Y")
        for given in (points, others):
            self.check_points(given)
        return _matrix(self, points, others)


def check_kernel(kernel: Any, name: str) -> None:
    """Refuse what is no kernel, such as the names that ``bke.inference.kernel_of`` takes."""
    if not isinstance(kernel, Covariance):
        raise ValueError(
            f"{name} must be a kernel, such as SquaredExponential(1.0), got {kernel!r}; "
            "bke.inference.kernel_of makes one from the data"
        )


# One program: operation by operation the derivatives of ``value_and_grad`` would be computed too.
@jax.jit
def _matrix(covariance: Covariance, X: jax.Array, Y: jax.Array) -> jax.Array:
    return covariance.matrix(X, Y)


@register_dataclass
@dataclasses.dataclass(frozen=True)
class ScaledCovariance(Covariance):
    """A constant times another covariance."""

    variance: Any
    covariance: Covariance

    @property
    def numerical(self) -> bool:  # type: ignore[override]
        """Whether the other covariance is."""
        return self.covariance.numerical

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The matrix r(x_i, y_j)."""
        matrix: jax.Array = self.variance * self.covariance.matrix(X, Y)
        return matrix
