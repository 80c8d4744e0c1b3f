"""Compiled functions of a model, cached for models with the same description.

Data are arguments, and each function is compiled once for every shape of them. The classes of the
kernel are compared too, since a notebook may redefine them under the same name. A model with a
prior that has no description is not cached.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from bke.models.likelihood import spectral
from bke.models.likelihood.spectral import LineIndex
from bke.models.linalg.rows import PaddedRows

from ..core.compilation import jit
from .profile import BatchLogDensity
from .record import identity_of
from .target import Points, Target, cancelled_rows

MAX_PROGRAMS = 16

T = TypeVar("T")


def cached(build: Callable[..., T]) -> Callable[..., T]:
    """Cache a function of a model and further hashable arguments."""

    @functools.lru_cache(maxsize=MAX_PROGRAMS)
    def restored(description: str, kernel: tuple[Any, ...], *arguments: Any) -> T:
        return build(Target.restore(json.loads(description)), *arguments)

    @functools.wraps(build)
    def either(target: Target, *arguments: Any) -> T:
        description = target.describe()
        if "unrecorded" in str(description):
            return build(target, *arguments)
        return restored(json.dumps(description), identity_of(target.kernel), *arguments)

    return either


@cached
def log_densities(target: Target) -> BatchLogDensity:
    """Compile the log density at a batch of unconstrained points, evaluated sequentially."""

    @jit
    def evaluate(z: dict[str, jax.Array], X: Points) -> jax.Array:
        return jax.lax.map(lambda point: target.log_density(point, X), z)

    return evaluate


@cached
def volume_errors(target: Target) -> Callable[..., jax.Array]:
    """Return the errors of the Jacobian term by nodes of bins at a batch of points."""

    @jit
    def evaluate(
        z: dict[str, jax.Array], X: LineIndex, nodes: jax.Array, counts: jax.Array
    ) -> jax.Array:
        def at_point(z: dict[str, jax.Array]) -> jax.Array:
            log_jacobian = X.log_jacobian(target.kernel_at(target.constrain(z)))
            return spectral.volume_errors(log_jacobian, nodes, counts)

        return jax.lax.map(at_point, z)

    return evaluate


@cached
def prior_along(target: Target) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Compile the hyperparameter (k,) and its log prior at unconstrained points (k,)."""
    (name,) = target.sites

    @jit
    @jax.vmap
    def along(point: jax.Array) -> tuple[jax.Array, jax.Array]:
        z = {name: point}
        return target.constrain(z)[name], target.log_prior(z)

    return along


@cached
def objectives(target: Target, objective: str) -> BatchLogDensity:
    """Return the objective of :func:`~bke.inference.learn_kernel` at a batch of points."""
    at_point = _objective(target, objective)

    @jit
    def evaluate(z: dict[str, jax.Array], X: Points) -> jax.Array:
        return jax.lax.map(lambda z: at_point(z, X), z)

    return evaluate


@cached
def objective_and_gradient(target: Target, objective: str) -> Callable[..., Any]:
    """Return the value and gradient of an objective at one unconstrained point."""
    return jit(jax.value_and_grad(_objective(target, objective)))


def _objective(target: Target, objective: str) -> Callable[[Any, Points], jax.Array]:
    """``"ml"``: log marginal likelihood; ``"map"``: plus the log prior density of the values."""

    def value(z: dict[str, jax.Array], X: Points) -> jax.Array:
        likelihood = target.log_density(z, X) - target.log_prior(z)
        if objective == "ml":
            return likelihood
        return likelihood + target.log_prior_density(target.constrain(z))

    return value


@cached
def cancelled(target: Target) -> Callable[[Any, PaddedRows], jax.Array]:
    """Return a search for rows whose Jacobian factor is zero."""
    return cancelled_rows(target)
