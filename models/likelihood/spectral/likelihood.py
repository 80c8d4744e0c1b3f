"""Value and gradient of BKE (13) for prepared data, whatever the lengthscale."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ...arrays.jacobian import value_and_jacobian
from ...arrays.one_by_one import one_by_one
from ...kernels.algebra import Scaled
from ...kernels.base import Kernel
from ...kernels.laplace import Laplace
from ...kernels.matern import Matern
from ...kernels.squared_exponential import SquaredExponential
from ...measures.measure import Measure, as_measure
from ..dense import LogLikelihoodTerms, dense_terms
from ..noise import SamplingNoise
from .box import COLUMNS, BoxIndex, box_index
from .index import LineIndex, line_index
from .markov import MarkovIndex, markov_index
from .mixture import is_mixture
from .mixture_index import MixtureIndex, mixture_index, mixture_terms
from .prepared import MOST_DENSE, SpectralIndex, unscaled


class _Model(NamedTuple):
    """What is fixed at compilation."""

    measure: Measure
    order: float | None  # of a Matern kernel; None: the squared exponential

    def kernel(self, lengthscale: jax.Array) -> SquaredExponential | Matern:
        if self.order is None:
            return SquaredExponential(lengthscale)
        return Matern(self.order, lengthscale)


def _order(kernel: Kernel) -> float | None:
    """Of a Matern kernel, which in one column Laplace is too."""
    if type(kernel) is Laplace:
        return 0.5
    return kernel.nu if type(kernel) is Matern else None


def spectral_obstacle(
    dimension: int, kernel: Kernel, measure: Measure, noise_variance: Any
) -> str | None:
    """Why the spectral route does not take such a model, or ``None`` where it does."""
    if dimension not in (1, *COLUMNS):
        return f"the data have {dimension} columns, and it takes up to {COLUMNS[-1]}"
    name = type(kernel).__name__
    if dimension > 1 and _order(kernel) is not None:
        return f"the data have {dimension} columns, and it takes one with {name}"
    one = has_one(kernel) if dimension == 1 else type(kernel) is SquaredExponential
    if not one and (dimension > 1 or not is_mixture(kernel)):
        more = (
            ", sums of such, Matern and Laplace" if dimension == 1 else " alone in several columns"
        )
        return f"the kernel is {name}, and it takes SquaredExponential{more}"
    if one and np.size(cast(SquaredExponential, unscaled(kernel)[0]).lengthscale) != 1:
        return "there is a lengthscale for each column, and it takes one for all"
    if not measure.translation_invariant:
        return "the measure is Gaussian, and it takes 'unit' and 'lebesgue'"
    if isinstance(noise_variance, SamplingNoise):
        return "the noise is a sampling covariance, and it takes a number"
    return None


def spectral_index(X: np.ndarray, kernel: Kernel | None = None) -> SpectralIndex:
    """Prepare (n, D) data of one to three columns for kernels like ``kernel``.

    By default for one lengthscale; only its kind matters.

    Raises:
        ValueError: for data that it does not pay for, with the reason.
    """
    if X.shape[1] > 1:
        return box_index(X)
    if kernel is not None and _order(kernel) is not None:
        return markov_index(X)
    return line_index(X) if kernel is None or has_one(kernel) else mixture_index(X)


def has_one(kernel: Kernel) -> bool:
    """Whether it has one lengthscale: Matern, or a squared exponential, times a number or not."""
    return _order(kernel) is not None or type(unscaled(kernel)[0]) is SquaredExponential


def spectral_terms(
    index: SpectralIndex, kernel: Kernel, noise_variance: Any, measure: Measure | str
) -> LogLikelihoodTerms:
    """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i) for the points of ``index``.

    At lengthscales (of a sum, where the shortest is) that ``index.refused`` names, and where the
    noise variance is too small beside R (on grids less than 1e-9 of its trace; in several columns
    than 1e-5 of its diagonal, at long lengthscales 1e-7; with Matern than 2e-11 of its trace), the
    n x n matrices are taken, and beyond :data:`~bke.models.likelihood.spectral.MOST_DENSE` rows
    both terms are
    NaN.

    Raises:
        ValueError: for what the route does not take, with the reason.
    """
    measure = as_measure(measure)
    reason = spectral_obstacle(index.rows.points.shape[1], kernel, measure, noise_variance)
    if reason is not None:
        raise ValueError(f"likelihood='spectral' cannot be used here: {reason}")
    index = jax.tree.map(jnp.asarray, index)
    dtype = index.rows.points.dtype
    noise_variance = jnp.asarray(noise_variance, dtype)
    if isinstance(index, MixtureIndex):
        return mixture_terms(index, kernel, noise_variance, measure)
    model = _Model(measure, _order(kernel))
    if not has_one(kernel) or isinstance(index, MarkovIndex) != (model.order is not None):
        raise ValueError(f"the data are not prepared for {type(kernel).__name__}")
    plain, variance = unscaled(kernel)
    parameter = cast(SquaredExponential, plain).lengthscale
    lengthscale = jnp.asarray(parameter, dtype).reshape(())
    terms: LogLikelihoodTerms
    if variance is None:
        terms = _terms(index, (lengthscale, noise_variance), model)
        return terms
    # With variance v, mu_hat is v times what it is with 1, and R v^2 times or, if unit, unchanged.
    log_amplitude = jnp.log(jnp.asarray(variance, dtype)).reshape(())
    volume = gaussian = index.rows.number * log_amplitude
    if measure.relative:
        terms = _terms(index, (lengthscale, noise_variance, log_amplitude), model)
        return terms._replace(volume=terms.volume + volume)
    relative = noise_variance * jnp.exp(-2.0 * log_amplitude)
    terms = _terms(index, (lengthscale, relative), model)
    return LogLikelihoodTerms(terms.gaussian - gaussian, terms.volume + volume)


def _evaluated(
    index: SpectralIndex,
    model: _Model,
    lengthscale: jax.Array,
    noise_variance: jax.Array,
    log_amplitude: jax.Array | None = None,
) -> LogLikelihoodTerms:
    """With the Gaussian term that of exp(``log_amplitude``) mu_hat; the volume is mu_hat's own."""
    kernel, measure, rows = model.kernel(lengthscale), model.measure, index.rows
    n = rows.number

    def summed(gaussian: jax.Array, log_volume: jax.Array) -> LogLikelihoodTerms:
        return LogLikelihoodTerms(gaussian, jnp.sum(rows.of_data(log_volume)))

    def by_matrices() -> LogLikelihoodTerms:
        if len(rows) > MOST_DENSE:
            nothing = jnp.nan * lengthscale  # whose slope is no number either
            return LogLikelihoodTerms(nothing, nothing)
        if log_amplitude is None:
            return dense_terms(rows, kernel, noise_variance, measure, low_rank=False)
        scaled = Scaled(kernel, jnp.exp(log_amplitude))
        terms = dense_terms(rows, scaled, noise_variance, measure, low_rank=False)
        return terms._replace(volume=terms.volume - n * log_amplitude)

    if isinstance(kernel, Matern):
        markov, matern = cast(MarkovIndex, index), kernel

        def by_filter() -> LogLikelihoodTerms:
            return summed(*markov.terms(matern, noise_variance, measure))

        known = markov.resolves(kernel, noise_variance, measure)
        return jax.lax.cond(known, by_filter, by_matrices)

    if isinstance(index, BoxIndex):
        box, which = index, index.range_of(kernel, noise_variance, measure)

        def by_basis() -> LogLikelihoodTerms:
            return summed(*box.terms(which, kernel, noise_variance, measure))

        return jax.lax.cond(which < len(box.ranges), by_basis, by_matrices)

    line = cast(LineIndex, index)

    def by_sums() -> LogLikelihoodTerms:
        return summed(*line.terms(kernel, noise_variance, measure, log_amplitude))

    def by_bands() -> LogLikelihoodTerms:
        return summed(*line.very_short.terms(rows, kernel, noise_variance, measure, log_amplitude))

    which = line.route_of(kernel, noise_variance, measure)
    return jax.lax.switch(which, [by_sums, by_bands, by_matrices])


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def _terms(
    index: SpectralIndex, parameters: tuple[jax.Array, ...], model: _Model
) -> LogLikelihoodTerms:
    @one_by_one
    def terms(index: SpectralIndex, parameters: tuple[jax.Array, ...]) -> LogLikelihoodTerms:
        return _evaluated(index, model, *parameters)

    return terms(index, parameters)


@partial(_terms.defjvp, symbolic_zeros=True)
def _terms_jvp(
    model: _Model, primals: tuple[Any, ...], tangents: tuple[Any, ...]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    """Forward through the sums, even where backward was asked for: there are few numbers."""
    index, parameters = primals
    of_points = jax.tree.leaves(tangents[0], is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    if not all(isinstance(leaf, SymbolicZero) for leaf in of_points):
        raise NotImplementedError("the spectral route has no derivative in the data")
    dots = tangents[1]
    moved = [place for place, dot in enumerate(dots) if not isinstance(dot, SymbolicZero)]

    @one_by_one
    def value_and_slopes(index: SpectralIndex, *parameters: jax.Array) -> Any:
        def stacked(theta: jax.Array) -> jax.Array:
            values = list(parameters)
            for entry, place in enumerate(moved):
                values[place] = theta[entry]
            return jnp.stack(_evaluated(index, model, *values))

        theta = jnp.stack([parameters[place] for place in moved])
        return value_and_jacobian(stacked, theta, smallest_reverse=4)

    value, jacobian = value_and_slopes(index, *parameters)
    along = jacobian @ jnp.stack([dots[place] for place in moved])
    return LogLikelihoodTerms(*value), LogLikelihoodTerms(*along)
