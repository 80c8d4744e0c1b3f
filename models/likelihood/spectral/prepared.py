"""What prepared data of any number of columns have in common."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.algebra import Scaled
from ...kernels.base import Kernel
from ...kernels.matern import Matern
from ...kernels.squared_exponential import SquaredExponential
from ...linalg.rows import PaddedRows, padded, shared_size
from ...linalg.transforms import sequential_vmap, value_and_jacobian
from ...measures import Measure, as_measure
from ..base import LikelihoodSolver, LogLikelihoodTerms, closed_form
from ..dense import dense_terms
from ..noise import check_noise
from .obstacle import order_of, spectral_obstacle, unscaled

#: Rows up to which a lengthscale too short for the sums goes to the n x n matrices.
MOST_DENSE = 5000
#: A slope below this, over the sizes of the terms it is a sum of, is rounding error: it is exactly
#: zero, as where the neighbours of a point balance.
RESOLUTION = 2.0**-50


class TooLargeError(ValueError):
    """What a lengthscale needs would be more than anybody waits for."""


class SpectralParameters(NamedTuple):
    """What the sums are differentiated in."""

    kernel: SquaredExponential | Matern  # its lengthscale is a number
    noise_variance: jax.Array
    measure: Measure
    #: Log of a number that mu_hat in the Gaussian term is multiplied by.
    log_amplitude: jax.Array | None = None


class SpectralIndex(LikelihoodSolver):
    """The points and what they need at every lengthscale."""

    rows: PaddedRows

    description = "the spectral route"

    @property
    @abc.abstractmethod
    def shortest(self) -> float:
        """The lengthscale from which on no matrices are needed."""

    @abc.abstractmethod
    def prepared_for(self, kernel: Kernel) -> bool:
        """Whether the points are prepared for kernels like this one."""

    @abc.abstractmethod
    def evaluated(self, parameters: SpectralParameters) -> LogLikelihoodTerms:
        """Both terms; the Gaussian one that of exp(log_amplitude) mu_hat, the volume mu_hat's."""

    @property
    def matrix_size(self) -> int:
        """All rows, where a short lengthscale may need matrices; 0 if they are too many."""
        return int(self.rows.number) if len(self.rows) <= MOST_DENSE else 0

    @property
    def refused(self) -> str:
        """The lengthscales that go to the matrices, in words."""
        return f"below {self.shortest:.3g}"

    def shortest_of(self, kernel: Kernel) -> Any:
        """What of the ``kernel``, a known number, is to be no less than :attr:`shortest`."""
        return cast(Any, unscaled(kernel)[0]).lengthscale

    def takes(self, kernel: Kernel) -> bool:
        """Whether its lengthscale, a known number, is long enough, or matrices can be taken."""
        lengthscale = np.asarray(self.shortest_of(kernel))
        return bool(np.all(lengthscale >= self.shortest)) or len(self.rows) <= MOST_DENSE

    def unsupported_reason(self, kernel: Kernel) -> str | None:
        """Which lengthscales are too short, where that of a known ``kernel`` is."""
        if self.takes(kernel):
            return None
        return (
            f"a lengthscale {self.refused} is too short beside {int(self.rows.number)} rows: R has "
            "a rank for which no route is fast enough"
        )

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Any, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i).

        At lengthscales (of a sum, where the shortest is) that ``refused`` names, and where the
        noise variance is too small beside R (on grids less than 1e-9 of its trace; in several
        columns than 1e-5 of its diagonal, at long lengthscales 1e-7; with Matern than 2e-11 of its
        trace), the n x n matrices are taken, and beyond :data:`MOST_DENSE` rows both terms are NaN.

        Raises:
            ValueError: for what the route does not take, with the reason.
        """
        measure, noise_variance = as_measure(measure), check_noise(noise_variance)
        reason = spectral_obstacle(self.rows.points.shape[1], kernel, measure, noise_variance)
        if reason is not None:
            raise ValueError(f"likelihood='spectral' cannot be used here: {reason}")
        if not self.prepared_for(kernel):
            raise ValueError(f"the data are not prepared for {type(kernel).__name__}")
        index = jax.tree.map(jnp.asarray, self)
        noise_variance = jnp.asarray(noise_variance, index.rows.points.dtype)
        return cast(LogLikelihoodTerms, index.terms_for(kernel, noise_variance, measure))

    def terms_for(
        self, kernel: Kernel, noise_variance: jax.Array, measure: Measure
    ) -> LogLikelihoodTerms:
        """Both terms for a kernel that the points are prepared for, times a number or not.

        With variance v, mu_hat is v times what it is with 1, and R v^2 times or, if relative,
        unchanged.
        """
        dtype = self.rows.points.dtype
        plain, variance = unscaled(kernel)
        lengthscale = jnp.asarray(cast(SquaredExponential, plain).lengthscale, dtype).reshape(())
        order = order_of(kernel)
        one = SquaredExponential(lengthscale) if order is None else Matern(order, lengthscale)
        terms: LogLikelihoodTerms
        if variance is None:
            terms = closed_form(self, SpectralParameters(one, noise_variance, measure))
            return terms
        log_amplitude = jnp.log(jnp.asarray(variance, dtype)).reshape(())
        of_all = self.rows.number * log_amplitude
        if measure.relative:
            parameters = SpectralParameters(one, noise_variance, measure, log_amplitude)
            terms = closed_form(self, parameters)
            return terms._replace(jacobian=terms.jacobian + of_all)
        relative = noise_variance * jnp.exp(-2.0 * log_amplitude)
        terms = closed_form(self, SpectralParameters(one, relative, measure))
        return LogLikelihoodTerms(terms.gaussian - of_all, terms.jacobian + of_all)

    def value(self, parameters: Any) -> LogLikelihoodTerms:
        """Both terms, one after the other where they are batched."""
        numbers, tree = jax.tree.flatten(parameters)

        @sequential_vmap
        def terms(index: SpectralIndex, *numbers: jax.Array) -> LogLikelihoodTerms:
            return index.evaluated(jax.tree.unflatten(tree, numbers))

        return terms(self, *numbers)

    def value_and_grad(
        self, parameters: Any, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Forward through the sums, even where backward was asked for: there are few numbers."""
        numbers, tree = jax.tree.flatten(parameters)
        moved = [place for place, moves in enumerate(moving) if moves]

        @sequential_vmap
        def both(index: SpectralIndex, *numbers: jax.Array) -> Any:
            def stacked(theta: jax.Array) -> jax.Array:
                values = list(numbers)
                for entry, place in enumerate(moved):
                    values[place] = theta[entry]
                return jnp.stack(index.evaluated(jax.tree.unflatten(tree, values)))

            theta = jnp.stack([numbers[place] for place in moved])
            return value_and_jacobian(stacked, theta, smallest_reverse=4)

        value, jacobian = both(self, *numbers)
        slopes = jnp.zeros((2, len(moving))).at[:, np.array(moved)].set(jacobian)
        return LogLikelihoodTerms(*value), LogLikelihoodTerms(*slopes)

    def summed(self, gaussian: jax.Array, log_volume: jax.Array) -> LogLikelihoodTerms:
        """The terms from log gamma at every point, (N,)."""
        return LogLikelihoodTerms(gaussian, self.rows.total(log_volume))

    def by_matrices(self, parameters: SpectralParameters) -> LogLikelihoodTerms:
        """What :meth:`evaluated` gives, by the dense route."""
        kernel, noise_variance, measure, log_amplitude = parameters
        if len(self.rows) > MOST_DENSE:
            return unresolved(jnp.asarray(kernel.lengthscale))
        if log_amplitude is None:
            return dense_terms(self.rows, kernel, noise_variance, measure, low_rank=False)
        scaled = Scaled(kernel, jnp.exp(log_amplitude))
        terms = dense_terms(self.rows, scaled, noise_variance, measure, low_rank=False)
        return terms._replace(jacobian=terms.jacobian - self.rows.number * log_amplitude)


def line_rows(x: np.ndarray, weights: np.ndarray | None = None, room: int = 0) -> PaddedRows:
    """Ascending points (n,) as rows, of a size that others share; with ``weights``, no matrices.

    Those with weights have ``room`` for more.
    """
    n = len(x)
    if weights is not None:
        size = shared_size(max(n, room, MOST_DENSE + 1))
        points = filled(x[:, None], size)
        return PaddedRows(points, np.sum(weights), np.pad(weights, (0, size - n)))
    most = MOST_DENSE if n <= MOST_DENSE else shared_size(n)
    return padded(x[:, None], min(shared_size(n), most))


def filled(values: np.ndarray, size: int) -> np.ndarray:
    """``values`` (n, ...) of points, as long as the rows."""
    return np.pad(values, [(0, size - len(values)), *[(0, 0)] * (values.ndim - 1)], mode="edge")


def at_zero(kernel: Kernel, measure: Measure, dimension: int = 1) -> Any:
    """r(x, x)."""
    origin = jnp.zeros((1, dimension))
    return kernel.smoothed(measure, dimension).matrix(origin, origin)[0, 0]


def unresolved(like: jax.Array) -> LogLikelihoodTerms:
    """NaN, whose slope is no number either."""
    nothing = jnp.nan * like
    return LogLikelihoodTerms(nothing, nothing)
