"""The landmark model as a likelihood: with its landmarks, and what it is told of the data."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Kernel, as_points, check_columns, check_positive
from ..likelihood.derivative import closed_form
from ..likelihood.noise import Noise, SamplingNoise, check_noise
from ..likelihood.view import LikelihoodView, LogLikelihoodTerms, Parameters
from ..likelihood.way import Likelihood
from ..linalg.precision import concrete, double_precision
from ..linalg.pytrees import register_dataclass
from ..measures import Measure, fixed_measure
from .likelihood import terms, terms_and_slopes
from .view import LandmarkView, check_apart, in_parts


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LandmarkLikelihood(LandmarkView, LikelihoodView):
    """What the landmark model is told: its likelihood takes these for any kernel."""

    called = "the landmark model"

    @property
    def rows_of_matrices(self) -> int:
        """Those of R between landmarks."""
        return len(self.landmarks)

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """The Gaussian term and sum_i log gamma(x_i)."""
        parameters = Parameters.of(kernel, noise_variance, measure, self.landmarks.dtype)
        terms: LogLikelihoodTerms = closed_form(self, parameters)
        return terms

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Both terms, from sums over rows."""
        return terms(self, parameters)

    def value_and_slopes(
        self, parameters: Parameters, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Both terms, and their slopes (p,) in the p numbers of ``parameters``."""
        return terms_and_slopes(self, parameters)


@dataclasses.dataclass(frozen=True)
class Landmark(Likelihood):
    """Another model of the same kernel, in which data are seen through m landmarks.

    See :func:`~bke.models.landmark_log_likelihood`; its ``noise_variance`` is that of one k(x, z).

    Args:
        landmarks: places, shape (m, D), in the units of the data and off them; or, for
            :func:`~bke.inference.fit`, how many, at the centres of clusters, or ``None``: 64, or
            one for four rows.
    """

    landmarks: Any = dataclasses.field(default=None, compare=False)

    name = "landmark"

    @property
    def places(self) -> np.ndarray | None:
        """(m, D), where they are given."""
        return np.asarray(self.landmarks) if np.ndim(self.landmarks) else None

    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LandmarkLikelihood:
        """(n, D) ``points`` with the landmarks, which must be places."""
        if isinstance(check_noise(noise_variance), SamplingNoise):
            raise ValueError("likelihood='landmark' has one noise variance, that of k(x, z)")
        if not np.ndim(self.landmarks):
            raise ValueError(
                "likelihood='landmark' needs landmarks: give Landmark(places), such as "
                "choose_landmarks gives"
            )
        return landmark_view(points, as_points(self.landmarks, "landmarks"))

    def record(self) -> dict[str, Any]:
        """Its name: places are data, and kept with them."""
        return {"likelihood": self.name}


def landmark_view(points: jax.Array, landmarks: jax.Array) -> LandmarkLikelihood:
    """The model of points (n, D) seen from landmarks (m, D), m >= D, apart from all others.

    Raises:
        ValueError: for landmarks of other columns, fewer than D, two at one place, or one that is
            an observation.
    """
    dimension = points.shape[1]
    check_columns(points, landmarks, "landmarks")
    if len(landmarks) < dimension:
        raise ValueError(
            f"landmarks has {len(landmarks)} rows, but the volume in {dimension} columns needs at "
            f"least {dimension}"
        )
    if not isinstance(points, jax.core.Tracer) and not isinstance(landmarks, jax.core.Tracer):
        check_apart(np.asarray(points), np.asarray(landmarks))
    rows = in_parts(points, landmarks)
    return LandmarkLikelihood(rows.parts, rows.count, rows.landmarks)


@double_precision
def landmark_log_likelihood(
    X: ArrayLike,
    landmarks: ArrayLike,
    kernel: Kernel,
    *,
    noise_variance: Any,
    measure: Measure | str = "unit",
) -> jax.Array:
    """Log pseudo-likelihood of the data seen through m landmarks: the cost is linear in n.

    ``log N([phi(x_1); ..; phi(x_n)]; 0, 1 1' (x) R_zz + tau^2 I) + sum_i log gamma(x_i)`` with
    ``phi(x) = [k(x, z_1), .., k(x, z_m)]`` and ``gamma(x) = det[sum_l grad k(x, z_l) grad
    k(x, z_l)']^(1/2)``, the marginal pseudo-likelihood of the slides on Bayesian learning of kernel
    embeddings (Flaxman, Sejdinovic, Cunningham and Filippi, 2016). Rows are gone through a block
    at a time, so memory does not grow with n.

    Args:
        X: data, shape (n, D) or (n,).
        landmarks: shape (m, D) or (m,), m at least D and better many more; off the data, where
            the gradient of k is zero, see :func:`~bke.models.choose_landmarks`. Fixed: there is no
            derivative in them, nor in ``X``.
        kernel: a kernel; its parameters may be traced (jit, grad, vmap).
        noise_variance: tau^2, of one phi(x_i), not of their mean. A positive number that is fixed
            or bounded below: with m > D the value grows without bound as the lengthscale l goes to
            infinity and tau like l^-2 to zero, for phi then fills D of its m dimensions only. A
            small one prefers lengthscales beyond the data, where every k(x, z) is one.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.

    Returns:
        A scalar; ``-inf`` where a gamma(x_i) is exactly zero.

    Raises:
        ValueError: for an argument that makes no sense, naming it; a landmark that is a row of X.
        ArithmeticError: where the noise is lost to rounding beside n R; inside a transformation
            the value is NaN there.
        RuntimeError: inside a JAX transformation with ``jax_enable_x64`` off.
    """
    measure = fixed_measure(measure)
    check_positive(noise_variance, "noise_variance")
    view = landmark_view(as_points(X), as_points(landmarks, "landmarks"))
    kernel.smoothed(measure, view.landmarks.shape[1])  # refuses what compiled code could not name
    value = _compiled(view, kernel, noise_variance, measure)
    if not isinstance(value, jax.core.Tracer) and np.isnan(concrete(value)):
        raise ArithmeticError(
            "n R + noise_variance I is not positive definite in double precision: noise_variance "
            "is too small beside the diagonal of n R"
        )
    return value


@jax.jit
def _compiled(
    view: LandmarkLikelihood, kernel: Kernel, noise_variance: Any, measure: Measure
) -> jax.Array:
    terms = view.likelihood_terms(kernel, noise_variance, measure)
    return terms.gaussian + terms.volume
