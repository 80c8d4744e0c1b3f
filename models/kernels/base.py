"""Kernels given by their value at one pair of points; the derivative is JAX's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.typing import ArrayLike

from ..linalg.precision import double_precision
from ..measures import Gaussian, Measure, as_measure
from .components import ComponentCovariance, Components, convolve
from .covariance import (
    Covariance as Covariance,
    SmoothingError as SmoothingError,
    ValueAndGrad,
    as_points as as_points,
    check_columns,
    check_kernel as check_kernel,
    check_positive as check_positive,
    concrete_values as concrete_values,
    differences as differences,
    per_column as per_column,
    squared_norm as squared_norm,
)
from .smoothing import RadialTable, TabulatedCovariance, at_places, of_distance_on_line, tabulated

#: Of two points (D,), a number.
OfPair: TypeAlias = Callable[[jax.Array, jax.Array], Any]
#: Stands for the difference of equal points: the square root has no derivative at zero, and
#: squares of this do not underflow.
APART = 1e-30


def as_number(value: Any) -> jax.Array:
    """What a kernel says of one pair, as a scalar.

    Raises:
        ValueError: where it is more than one number.
    """
    number = jnp.asarray(value, dtype=jnp.float64)
    if number.size != 1:
        raise ValueError(
            f"a kernel's value at one pair of points must be a number, got shape {number.shape}: a "
            "length may be one per column, so divide x - y by it before the sum over columns (or "
            "fit with scale='pooled', which keeps one number)"
        )
    return number.reshape(())


def pairwise_terms(of_pair: OfPair, X: jax.Array, Y: jax.Array, *, log: bool) -> ValueAndGrad:
    """Value and derivative in the first argument at all pairs.

    Args:
        of_pair: k(x, y), or with ``log`` its logarithm.
        X: (n, D).
        Y: (m, D).
        log: see above.
    """
    check_columns(X, Y, "Y")
    pair = jax.value_and_grad(lambda x, y: as_number(of_pair(x, y)))
    value, slope = jax.vmap(jax.vmap(pair, (None, 0)), (0, None))(X, Y)
    gradient = jnp.moveaxis(slope, -1, 0)
    if log:
        return ValueAndGrad(value, jnp.ones_like(value), gradient)
    return ValueAndGrad(jnp.zeros_like(value), value, gradient)


def stationary_terms(of_pair: OfPair, delta: jax.Array, *, log: bool) -> ValueAndGrad:
    """The terms of a kernel of x - y at differences (D, n, m); equal points have derivative 0."""
    dimension, *shape = delta.shape
    apart = jnp.any(delta != 0.0, axis=0)
    moved = jnp.where(apart, delta, APART).reshape(dimension, -1).T
    terms = pairwise_terms(of_pair, moved, jnp.zeros((1, dimension)), log=log)
    gradient = jnp.where(apart, terms.gradient.reshape(delta.shape), 0.0)
    return ValueAndGrad(terms.log_scale.reshape(shape), terms.value.reshape(shape), gradient)


#: Where 'unit' and 'lebesgue' are found numerically.
FOUND = (
    "for 'unit' and 'lebesgue' it is found with one column for a subclass of Stationary, with "
    "several for one of Radial"
)


class Kernel(Covariance):
    """A positive definite kernel on R^D.

    A subclass is a frozen dataclass registered as a pytree; its parameters are kept as given, so
    they may be traced. ``+`` and ``*`` combine kernels. At the least it says its fields' units and
    its value at one pair of points::

        @bke.models.register_dataclass
        @dataclasses.dataclass(frozen=True)
        class Mine(bke.models.Kernel):
            width: Any = bke.models.parameter(1.0, unit="length")

            def evaluate(self, x, y):  # (D,) each
                return jnp.exp(-jnp.sum(jnp.abs((x - y) / self.width)))

    The derivative is then JAX's. A length may be a number or one per column, so that it is
    divided into x - y before anything is summed. A kernel of x - y is better a subclass of
    :class:`~bke.models.Stationary`, one of the distance over the lengthscale of
    :class:`~bke.models.Radial`: more is known of r there. A positive kernel that underflows far
    away writes :meth:`log_evaluate` instead; :meth:`value_and_grad` has all pairs at once.

    Where it does not write :meth:`smooth`, r is numerical, see
    :mod:`bke.models.kernels.smoothing` for its errors: for a Gaussian measure always, for the
    other measures where the kernel is stationary and D = 1, or radial. For a Gaussian measure it
    is a sum over places, which is rough for a kernel with a kink (as exp(-|x - y|)) or a long tail:
    a class that would rather be refused than rough says so by ``allow_fixed_nodes = False``, a
    class attribute without annotation. It then has r for "unit" and "lebesgue" only: in one
    column where it is stationary, in several where it is radial.
    """

    allow_fixed_nodes: bool = True
    """Whether r for a Gaussian measure may be a sum over places; not for kinks and long tails."""

    def evaluate(self, x: jax.Array, y: jax.Array) -> Any:
        """k(x, y) of two points (D,), a number; at a kink its derivative must be finite."""
        raise NotImplementedError(
            f"{type(self).__name__} does not write evaluate(x, y): k of arrays is its Gram matrix"
        )

    def log_evaluate(self, x: jax.Array, y: jax.Array) -> Any:
        """Log of k(x, y) of two points (D,), for a kernel that is positive everywhere."""
        return jnp.log(self.evaluate(x, y))

    @property
    def by_logarithm(self) -> bool:
        """Whether it is given by :meth:`log_evaluate`."""
        return type(self).log_evaluate is not Kernel.log_evaluate

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Value and derivative in the first argument at all pairs, see :class:`ValueAndGrad`."""
        log = self.by_logarithm
        return pairwise_terms(self.log_evaluate if log else self.evaluate, X, Y, log=log)

    @double_precision
    def smoothed(self, measure: Measure | str, dimension: int) -> Covariance:
        """r(x, y) = int k(x, u) k(u, y) nu(du), BKE (4), as a covariance on R^``dimension``.

        Raises:
            SmoothingError: where r is not implemented; names the measures that work.
        """
        return self.smooth(as_measure(measure), dimension)

    def smooth(self, measure: Measure, dimension: int) -> Covariance:
        """What :meth:`smoothed` returns: by default, of the measure's own method below."""
        return measure.smooth(self, dimension)

    def unit_smoothed(self, dimension: int) -> Covariance:
        """The Lebesgue r over its value at zero, by quadrature for a function of x - y in D = 1."""
        if self._on_line(dimension):
            return of_distance_on_line(self, relative=True)
        raise self.smoothing_error(dimension, gaussian=False)

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """The integral of k(x, u) k(u, y) du over all of space, as :meth:`unit_smoothed`."""
        if self._on_line(dimension):
            return of_distance_on_line(self, relative=False)
        raise self.smoothing_error(dimension, gaussian=False)

    def gaussian_smoothed(self, measure: Gaussian, dimension: int) -> Covariance:
        """The integral against exp(-|u - centre|^2 / (2 scale^2)) du, a sum over fixed places.

        Raises:
            SmoothingError: where that would be too rough, see :attr:`allow_fixed_nodes`.
        """
        if self.allow_fixed_nodes:
            return at_places(self, measure)
        raise self.smoothing_error(dimension, gaussian=True)

    def _on_line(self, dimension: int) -> bool:
        return dimension == 1 and self.translation_invariant

    def smoothing_error(self, dimension: int, *, gaussian: bool) -> SmoothingError:
        """What says that there is no r for a Gaussian measure or the others, and what to do."""
        where = columns(dimension)
        asked = "a Gaussian measure" if gaussian else f"'unit' and 'lebesgue' in {where}"
        start = f"{type(self).__name__} has no smoothed kernel r for {asked}"
        own = type(self).unit_smoothed is not Kernel.unit_smoothed
        if gaussian and (own or self._on_line(dimension)):
            return SmoothingError(f"{start}; use measure='unit' or measure='lebesgue'")
        if dimension == 1 and not gaussian:
            start += " unless it says that it hangs on x - y alone (Stationary, stationary=True)"
        if self.allow_fixed_nodes:
            return SmoothingError(
                f"{start}: take measure=Gaussian(scale, centre), for which it is found "
                f"numerically, or write its method smooth(measure, dimension); {FOUND}"
            )
        return SmoothingError(
            f"{start}, nor for any other measure in {where}: write its method "
            "smooth(measure, dimension), or, where the kernel has neither a kink nor a long tail, "
            "leave allow_fixed_nodes at True, for which r of a Gaussian measure is a sum over "
            f"places; {FOUND}"
        )

    def matrix(self, X: jax.Array, Y: jax.Array) -> jax.Array:
        """The Gram matrix k(x_i, y_j)."""
        terms = self.value_and_grad(X, Y)
        return jnp.exp(terms.log_scale) * terms.value

    @double_precision
    def gradient(self, X: ArrayLike, Y: ArrayLike | None = None) -> jax.Array:
        """The derivative d k(x_i, y_j) / d x_i in closed form, (n, m, D); 0 at a kink."""
        points = as_points(X)
        terms = self.value_and_grad(points, points if Y is None else as_points(Y, "Y"))
        return jnp.moveaxis(jnp.exp(terms.log_scale) * terms.gradient, 0, -1)

    def components(self, dimension: int) -> Components | None:
        """The kernel as a sum of Gaussian components, or None where it is not one."""
        return None

    # NumPy scalars leave ``2.0 * kernel`` to __rmul__ instead of building an object array.
    __array_ufunc__ = None

    def __add__(self, other: Kernel) -> Kernel:
        return OPERATIONS["sum"](self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel | ArrayLike) -> Kernel:
        if isinstance(other, Kernel):
            return OPERATIONS["product"](self, other)
        return (
            NotImplemented if isinstance(other, Covariance) else OPERATIONS["multiple"](self, other)
        )

    def __rmul__(self, other: ArrayLike) -> Kernel:
        return OPERATIONS["multiple"](self, other)


#: What ``+`` and ``*`` build, entered by :mod:`.algebra`, whose classes are kernels themselves.
OPERATIONS: dict[str, Callable[..., Kernel]] = {}


class Stationary(Kernel):
    """A kernel of x - y. A subclass writes :meth:`evaluate` or :meth:`value_and_grad_at`."""

    translation_invariant = True

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """The terms as a function of the differences (D, n, m)."""
        log = self.by_logarithm
        return stationary_terms(self.log_evaluate if log else self.evaluate, delta, log=log)

    def value_and_grad(self, X: jax.Array, Y: jax.Array) -> ValueAndGrad:
        """Value and derivative in the first argument, see :class:`ValueAndGrad`."""
        return self.value_and_grad_at(differences(X, Y))

    def diagonal(self, X: jax.Array) -> jax.Array:
        """k(x_i, x_i), the same for every point."""
        origin = jnp.zeros((1, X.shape[1]))
        return jnp.broadcast_to(self.matrix(origin, origin)[0], (len(X),))


def columns(dimension: int) -> str:
    """So many columns, in words."""
    return f"{dimension} column{'s' * (dimension > 1)}"


def invalid_kernel_message(given: Any, wanted: str) -> str:
    """A sentence that ``given`` is not the kernel that is ``wanted``, and what makes one of it."""
    said = f"kernel must be {wanted}, got {given!r}"
    if inspect.isclass(given) and issubclass(given, Kernel):
        name = given.__name__
        return (
            f"{said}: give an instance, such as {name}() or learn_kernel(X, kernel={name}).kernel"
        )
    if inspect.isfunction(given):
        return f"{said}: kernel_from_function makes a kernel of a function of two points"
    return said


class ValueAndDecay(NamedTuple):
    """``k = exp(log_scale) * value``, and its decay with the distance.

    ``dk/dx_d = -exp(log_scale) * decay * (x_d - y_d) / lengthscale_d^2``. All (n, m).
    """

    log_scale: jax.Array
    value: jax.Array
    decay: jax.Array


class Radial(Stationary):
    """A kernel of rho^2 = sum_d (x_d - y_d)^2 / lengthscale_d^2.

    A subclass has a field ``lengthscale`` and writes :meth:`evaluate_distance` or
    :meth:`value_and_decay`.
    """

    lengthscale: Any

    def evaluate_distance(self, rho: jax.Array) -> Any:
        """The value at one rho, a number."""
        raise NotImplementedError(f"{type(self).__name__} does not write evaluate_distance(rho)")

    def value_and_decay(self, rho_squared: jax.Array) -> ValueAndDecay:
        """The terms as a function of rho^2, of any shape."""
        apart = rho_squared > 0.0
        rho = jnp.sqrt(jnp.where(apart, rho_squared, APART**2))
        one = jax.value_and_grad(lambda rho: as_number(self.evaluate_distance(rho)))
        value, slope = (found.reshape(rho.shape) for found in jax.vmap(one)(rho.reshape(-1)))
        return ValueAndDecay(jnp.zeros_like(rho), value, jnp.where(apart, -slope / rho, 0.0))

    def unit_smoothed(self, dimension: int) -> Covariance:
        """The Lebesgue r over its value at zero, by quadrature."""
        return TabulatedCovariance(*self._tabulated(dimension, relative=True))

    def lebesgue_smoothed(self, dimension: int) -> Covariance:
        """The integral over all of space, by quadrature."""
        table, lengthscale = self._tabulated(dimension, relative=False)
        volume = jnp.prod(jnp.broadcast_to(lengthscale, (dimension,)))
        return TabulatedCovariance(table._replace(values=volume * table.values), lengthscale)

    def _tabulated(self, dimension: int, *, relative: bool) -> tuple[RadialTable, jax.Array]:
        """The table as a function of rho, and the lengthscale."""

        def of_distance(rho: jax.Array) -> jax.Array:
            terms = self.value_and_decay(rho**2)
            return jnp.exp(terms.log_scale) * terms.value

        lengthscale = per_column(self.lengthscale, dimension, "lengthscale").reshape(-1)
        return tabulated(self, of_distance, dimension, relative=relative), lengthscale

    def value_and_grad_at(self, delta: jax.Array) -> ValueAndGrad:
        """The terms as a function of the differences (D, n, m)."""
        lengthscale = per_column(self.lengthscale, delta.shape[0], "lengthscale")
        terms = self.value_and_decay(squared_distance(delta, lengthscale))
        inverse = 1.0 / lengthscale
        pull = -delta * inverse * inverse
        return ValueAndGrad(terms.log_scale, terms.value, terms.decay * pull)


@jax.custom_jvp
def squared_distance(delta: jax.Array, lengthscale: jax.Array) -> jax.Array:
    """Rho^2 (n, m) of differences (D, n, m) and a lengthscale (D or 1, 1, 1)."""
    # Scaled before squaring: a tiny lengthscale must not overflow 1 / lengthscale^2. By a product:
    # a division of every difference would take longer than the exponential.
    return squared_norm(delta * (1.0 / lengthscale))


@partial(squared_distance.defjvp, symbolic_zeros=True)
def _squared_distance_jvp(
    primals: tuple[jax.Array, jax.Array], tangents: tuple[Any, Any]
) -> tuple[jax.Array, jax.Array]:
    """Along the lengthscale without the D matrices that the differences' own rule would take."""
    delta, lengthscale = primals
    value, inverse = squared_distance(delta, lengthscale), 1.0 / lengthscale
    along = jnp.zeros_like(value)
    if not isinstance(tangents[1], SymbolicZero):
        share = -2.0 * tangents[1] / lengthscale  # (D or 1, 1, 1)
        one = len(share) == 1
        along = value * share[0] if one else jnp.sum((delta * inverse) ** 2 * share, axis=0)
    if not isinstance(tangents[0], SymbolicZero):
        moved = (delta * inverse) * (tangents[0] * inverse)
        along = along + 2.0 * jnp.sum(moved, axis=0)
    return value, along


def twice_smoothed(kernel: Kernel, measure: Measure, dimension: int) -> Covariance:
    """Inner products of r(x, .) and r(y, .) in the Hilbert space of k, as a covariance.

    That is the integral of k(x, u) k(u, v) k(v, y) nu(du) nu(dv), for the Lebesgue measure the
    third convolution power of k.

    Raises:
        SmoothingError: where there is no closed form: for kernels that are no sums of Gaussian
            components, and for Gaussian measures.
    """
    components = kernel.components(dimension)
    if components is None or not measure.translation_invariant:
        raise SmoothingError(
            "inner products of smoothed sections are known for kernels that are sums of Gaussian "
            "components, with the measures 'unit' and 'lebesgue'"
        )
    smoothed = convolve(components)
    found = convolve(smoothed, components)
    if measure.relative:
        at_zero = jax.nn.logsumexp(smoothed.log_weight)
        found = found._replace(log_weight=found.log_weight - 2.0 * at_zero)
    return ComponentCovariance(found)
