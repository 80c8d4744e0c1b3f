"""Kernels: value and gradient in the first argument without underflow, and smoothed kernel r.

The smoothed kernel r(x, y) = int k(x, u) k(u, y) nu(du), BKE (4), is the prior covariance of the
mean embedding: k convolved with itself where nu is the Lebesgue measure.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike

from ..linalg.precision import double_precision
from ..measures import Gaussian, Measure, as_measure
from .components import ComponentCovariance, Components
from .covariance import (
    Covariance as Covariance,
    SmoothingError as SmoothingError,
    ValueAndGrad as ValueAndGrad,
    as_points as as_points,
    as_samples as as_samples,
    check_columns as check_columns,
    check_kernel as check_kernel,
    check_row_labels as check_row_labels,
    check_same_columns as check_same_columns,
    column_names as column_names,
    differences as differences,
    in_order_of as in_order_of,
    per_column as per_column,
    squared_norm as squared_norm,
)
from .smoothing import NodesCovariance, tabulate_smoothed

#: Replaces the difference of equal points: the square root has no derivative at zero, and squares
#: of this do not underflow.
SMALL_DIFFERENCE = 1e-30


def _scalar(value: Any) -> jax.Array:
    """Return the value of a kernel at one pair of points as a scalar.

    Raises:
        ValueError: if it is more than one number.
    """
    number = jnp.asarray(value, dtype=jnp.float64)
    if number.size != 1:
        raise ValueError(
            f"a kernel's value at one pair of points must be a number, got shape {number.shape}: a "
            "length may be one per column, so divide x - y by it before the sum over columns (or "
            "fit with scale='pooled', which keeps one number)"
        )
    return number.reshape(())


class Kernel(Covariance):
    """A positive definite kernel on R^D.

    A subclass is a frozen dataclass registered as a pytree; its parameters are kept as given, so
    they may be traced. ``+`` and ``*`` combine kernels. A subclass needs the units of its fields
    and its value at one pair of points::

        @bke.models.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class Mine(bke.models.Kernel):
            width: Any = bke.models.parameter(1.0, unit="length")

            def evaluate(self, x, y):  # (D,) each
                return jnp.exp(-jnp.sum(jnp.abs((x - y) / self.width)))

    The derivative is then JAX's. A length may be a number or one per column, so divide x - y by it
    before summing. For a kernel of x - y subclass :class:`~bke.models.Stationary`, for one of the
    distance over the lengthscale :class:`~bke.models.Radial`: more is known of r there. A positive
    kernel that underflows far away defines :meth:`log_evaluate` instead of :meth:`evaluate`;
    :meth:`value_and_grad` has all pairs at once.

    Without a method :meth:`smooth` r is numerical, see :mod:`bke.models.kernels.smoothing` for its
    errors: for a Gaussian measure always, for the other measures if the kernel is stationary and
    D = 1, or radial.

    Attributes:
        allow_fixed_nodes: True if r for a Gaussian measure may be computed by quadrature with nodes
            that do not depend on the kernel, which is inaccurate for a kernel with a kink (as
            exp(-|x - y|)) or a long tail. Such a class sets ``allow_fixed_nodes = False``, a class
            attribute without annotation, and then has r for "unit" and "lebesgue" only: in one
            column if it is stationary, in several if it is radial.
    """

    allow_fixed_nodes: bool = True

    def evaluate(self, x: jax.Array, y: jax.Array) -> Any:
        """Return k(x, y) of two points (D,), a number; at a kink its derivative must be finite."""
        raise NotImplementedError(
            f"{type(self).__name__} must define evaluate(x, y), its value at two points; call the "
            "kernel itself for the Gram matrix of arrays"
        )

    def log_evaluate(self, x: jax.Array, y: jax.Array) -> Any:
        """Return log k(x, y) of two points (D,), for a kernel that is positive everywhere."""
        return jnp.log(self.evaluate(x, y))

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Return value and gradient in the first argument at all pairs, over ``exp(log_scale)``."""
        check_columns(X, Y, "Y")
        uses_log = type(self).log_evaluate is not Kernel.log_evaluate
        function = self.log_evaluate if uses_log else self.evaluate
        pair = jax.value_and_grad(lambda x, y: _scalar(function(x, y)))
        value, gradient = jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(X, Y)
        gradient = jnp.moveaxis(gradient, -1, 0)
        if uses_log:
            return ValueAndGrad(value, jnp.ones_like(value), gradient)
        return ValueAndGrad(jnp.zeros_like(value), value, gradient)

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """Return the Gram matrix k(x_i, y_j)."""
        return self.value_and_grad(X, Y).kernel_matrix()

    @double_precision
    def gradient(self, X: ArrayLike, Y: ArrayLike | None = None) -> jax.Array:
        """Return the derivative d k(x_i, y_j) / d x_i, (n, m, D); 0 at a kink."""
        terms = self.value_and_grad(*as_samples(X, X if Y is None else Y))
        return jnp.moveaxis(jnp.exp(terms.log_scale) * terms.gradient, 0, -1)

    def components(self, dimension: int) -> Components | None:
        """Return the kernel as a sum of Gaussian components, or None if it is not one."""
        return None

    @double_precision
    def smoothed(self, measure: Measure | str, dimension: int) -> Covariance:
        """Return r(x, y) = int k(x, u) k(u, y) nu(du), BKE (4), on R^``dimension``.

        Raises:
            SmoothingError: if r is not implemented; names the measures that work.
        """
        return self.smooth(as_measure(measure), dimension)

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """Compute r for :meth:`smoothed`: in closed form for sums of Gaussian components.

        Subclasses override it for other measures.
        """
        components = self.components(dimension)
        return measure.smooth(self if components is None else components, dimension)

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> Covariance:
        """Return the integral of k(x, u) k(u, y) du over all of space, numerically.

        Args:
            dimension: D.
            relative: divide by the value where x = y.

        Raises:
            SmoothingError: if it is not implemented.
        """
        if dimension > 1 or not self.translation_invariant:
            raise self.smoothing_error(dimension, gaussian=False)

        def profile(distance: jax.Array) -> jax.Array:
            values = self.value_and_grad(distance.reshape(-1, 1), jnp.zeros((1, 1)))
            return values.kernel_matrix().reshape(distance.shape)

        return tabulate_smoothed(self, profile, 1, jnp.ones(1), relative=relative)

    def gaussian_smoothed(self, measure: Gaussian, dimension: int) -> Covariance:
        """Return the integral against exp(-|u - center|^2 / (2 scale^2)) du, over fixed nodes.

        Raises:
            SmoothingError: if that would be too inaccurate, see ``allow_fixed_nodes``.
        """
        if self.allow_fixed_nodes:
            return NodesCovariance(self, measure)
        raise self.smoothing_error(dimension, gaussian=True)

    def smoothing_error(self, dimension: int, *, gaussian: bool) -> SmoothingError:
        """Build the exception for a measure for which r is not implemented."""
        name, columns = str(self), f"{dimension} column{'s' * (dimension > 1)}"
        measures = "a Gaussian measure" if gaussian else f"'unit' and 'lebesgue' in {columns}"
        message = f"{name} has no smoothed kernel r for {measures}"
        overridden = type(self).lebesgue_smoothed is not Kernel.lebesgue_smoothed
        if gaussian and (overridden or (dimension == 1 and self.translation_invariant)):
            return SmoothingError(f"{message}; use measure='unit' or measure='lebesgue'")
        remedy = (
            "define its method smooth(measure, dimension); 'unit' and 'lebesgue' are numerical in "
            "one column for Stationary kernels (stationary=True), in several for Radial ones; sums "
            "and products of SquaredExponential, FullSquaredExponential, GaussianMixture and "
            "SpectralMixture have r for every measure"
        )
        alternative = f", nor for any other measure in {columns}: "
        if self.allow_fixed_nodes:
            alternative = ": take measure=Gaussian(scale, center), for which it is numerical, or "
        return SmoothingError(message + alternative + remedy)

    # NumPy scalars leave ``2.0 * kernel`` to __rmul__ instead of building an object array.
    __array_ufunc__ = None

    def __add__(self, other: Kernel) -> Kernel:
        return OPERATIONS["sum"](self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | ArrayLike) -> Kernel:
        if isinstance(other, Kernel):
            return OPERATIONS["product"](self, other)
        if isinstance(other, Covariance):
            return NotImplemented
        return OPERATIONS["multiple"](self, other)

    def __rmul__(self, other: ArrayLike) -> Kernel:
        return OPERATIONS["multiple"](self, other)


#: Classes that ``+`` and ``*`` build; :mod:`.algebra` registers them, since they are kernels.
OPERATIONS: dict[str, Callable[..., Kernel]] = {}


class Stationary(Kernel):
    """A kernel of x - y. A subclass defines :meth:`evaluate` or :meth:`value_and_grad_at`."""

    translation_invariant = True

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """Return value and gradient as a function of the differences (D, n, m)."""
        dimension, *shape = delta.shape
        distinct = jnp.any(delta != 0.0, axis=0)
        points = jnp.where(distinct, delta, SMALL_DIFFERENCE).reshape(dimension, -1).T
        terms = super().value_and_grad(points, jnp.zeros((1, dimension)))
        gradient = jnp.where(distinct, terms.gradient.reshape(delta.shape), 0.0)
        return ValueAndGrad(terms.log_scale.reshape(shape), terms.value.reshape(shape), gradient)

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Return value and gradient in the first argument at all pairs, over ``exp(log_scale)``."""
        return self.value_and_grad_at(differences(X, Y))

    def diagonal(self, X: jax.Array) -> jax.Array:
        """Return k(x_i, x_i), the same for every point."""
        origin = jnp.zeros((1, X.shape[1]))
        return jnp.broadcast_to(self.matrix(origin, origin)[0], (len(X),))


class ValueAndDecay(NamedTuple):
    """``k = exp(log_scale) * value``, and its derivative -(1 / rho) dk / d rho, (n, m) each.

    The latter is ``exp(log_scale) * decay``: ``dk/dx_d = -exp(log_scale) * decay * (x_d - y_d) /
    lengthscale_d^2``.
    """

    log_scale: jax.Array
    value: jax.Array
    decay: jax.Array


class Radial(Stationary):
    """A kernel of rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2.

    A subclass has a field ``lengthscale`` and defines :meth:`evaluate_distance` or
    :meth:`value_and_decay`.
    """

    lengthscale: Any

    def evaluate_distance(self, rho: jax.Array) -> Any:
        """Return the value at one rho, a number."""
        raise NotImplementedError(f"{type(self).__name__} must define evaluate_distance(rho)")

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """Return k and its derivative, see :class:`ValueAndDecay`, for rho^2 of any shape."""
        distinct = rho_squared > 0.0
        rho = jnp.sqrt(jnp.where(distinct, rho_squared, SMALL_DIFFERENCE**2))
        function = jax.value_and_grad(lambda rho: _scalar(self.evaluate_distance(rho)))
        value, derivative = (x.reshape(rho.shape) for x in jax.vmap(function)(rho.reshape(-1)))
        decay = jnp.where(distinct, -derivative / rho, 0.0)
        return ValueAndDecay(jnp.zeros_like(rho), value, decay)

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """Return value and gradient as a function of the differences (D, n, m)."""
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        terms = self.value_and_decay(squared_distance(delta, lengthscale))
        inverse = 1.0 / lengthscale
        gradient = terms.decay * (-delta * inverse * inverse)
        return ValueAndGrad(terms.log_scale, terms.value, gradient)

    def lebesgue_smoothed(self, dimension: int, *, relative: bool) -> Covariance:
        """Return the integral of k(x, u) k(u, y) du over all of space, numerically."""

        def profile(rho: jax.Array) -> jax.Array:
            terms = self.value_and_decay(rho**2)
            return jnp.exp(terms.log_scale) * terms.value

        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return tabulate_smoothed(self, profile, dimension, lengthscale, relative=relative)


@jax.custom_jvp
def squared_distance(delta: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Return rho^2 (n, m) of differences (D, n, m) and a lengthscale (D or 1, 1, 1)."""
    # Scaled before squaring: a tiny lengthscale must not overflow 1 / lengthscale^2. By a product:
    # a division of every difference would take longer than the exponential.
    return squared_norm(delta * (1.0 / lengthscale))


@partial(squared_distance.defjvp, symbolic_zeros=True)
def _squared_distance_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[Any, Any]
) -> tuple[jax.Array, jax.Array]:
    """Differentiate in the lengthscale without the D matrices of the differences' own rule."""
    delta, lengthscale = primals
    value, inverse = squared_distance(delta, lengthscale), 1.0 / lengthscale
    tangent = jnp.zeros_like(value)
    if not isinstance(tangents[1], SymbolicZero):
        relative = -2.0 * tangents[1] / lengthscale  # (D or 1, 1, 1)
        isotropic = len(relative) == 1
        tangent = (
            value * relative[0] if isotropic else jnp.sum((delta * inverse) ** 2 * relative, axis=0)
        )
    if not isinstance(tangents[0], SymbolicZero):
        products = (delta * inverse) * (tangents[0] * inverse)
        tangent = tangent + 2.0 * jnp.sum(products, axis=0)
    return value, tangent


def invalid_kernel_message(kernel: Any, expected: str) -> str:
    """Return the message that ``kernel`` is not the ``expected`` one, and how to make one of it."""
    message = f"kernel must be {expected}, got {kernel!r}"
    if inspect.isclass(kernel) and issubclass(kernel, Kernel):
        name = kernel.__name__
        instance = f"{name}() or learn_kernel(X, kernel={name}).kernel"
        return f"{message}: give an instance, such as {instance}"
    if inspect.isfunction(kernel):
        return f"{message}: kernel_from_function makes a kernel of a function of two points"
    return message


def twice_smoothed(kernel: Kernel, measure: Measure, dimension: int) -> Covariance:
    """Return the inner products of r(x, .) and r(y, .) in the Hilbert space of k.

    That is the integral of k(x, u) k(u, v) k(v, y) nu(du) nu(dv), for the Lebesgue measure the
    third convolution power of k.

    Raises:
        SmoothingError: if there is no closed form: for kernels that are not sums of Gaussian
            components, and for Gaussian measures.
    """
    components = kernel.components(dimension)
    if components is None or not measure.translation_invariant:
        raise SmoothingError(
            "inner products of smoothed sections are known for kernels that are sums of Gaussian "
            "components, with the measures 'unit' and 'lebesgue'"
        )
    smoothed = components.convolve()
    log_at_zero = jax.nn.logsumexp(smoothed.log_weight) if measure.relative else 0.0
    return ComponentCovariance(smoothed.convolve(components).scaled(-2.0 * log_at_zero))
