"""What a kernel is: a frozen pytree that knows its value and its derivative without underflow."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from ..linalg.precision import double_precision
from ..measures.measure import Gaussian, Measure, as_measure
from .components import Components
from .covariance import (
    Covariance as Covariance,
    SmoothingError as SmoothingError,
    ValueAndGrad as ValueAndGrad,
    as_points as as_points,
    check_columns as check_columns,
    check_kernel as check_kernel,
    check_positive as check_positive,
    concrete_values as concrete_values,
    differences as differences,
    per_column as per_column,
    squared_norm as squared_norm,
)
from .numerical import at_places, of_distance_on_line
from .pairwise import pairwise_terms, stationary_terms

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
    :mod:`bke.models.kernels.quadrature` for its errors: for a Gaussian measure always, for the
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
