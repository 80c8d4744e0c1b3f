"""Compiled functions of a target, kept for the next one like it; data are their arguments.

Each compiles once per shape of the data, which similar data share. A problem is known by its
description, so one whose prior has none is built anew each time, and by the classes of its kernel,
which a notebook or a reload may define anew under their old name.
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

from ..core.jit import jit
from . import profile
from .likelihoods import cancelled_rows
from .profile import BatchLogDensity, batch_log_density
from .record import identity_of
from .target import Points, Target

KEPT = 16

T = TypeVar("T")


def kept(build: Callable[..., T]) -> Callable[..., T]:
    """``build`` of a target and further hashable arguments, remembered by its description."""

    @functools.lru_cache(maxsize=KEPT)
    def restored(description: str, kernel: tuple[Any, ...], *arguments: Any) -> T:
        return build(Target.restore(json.loads(description)), *arguments)

    @functools.wraps(build)
    def either(target: Target, *arguments: Any) -> T:
        description = target.describe()
        if "unrecorded" in str(description):
            return build(target, *arguments)
        return restored(json.dumps(description), identity_of(target.kernel), *arguments)

    return either


@kept
def log_densities(target: Target) -> BatchLogDensity:
    """Log density of a batch of unconstrained points, by one compiled program."""
    return batch_log_density(target)


@kept
def volume_errors(target: Target) -> Callable[..., jax.Array]:
    """Errors of the volume term by nodes of bins, of a batch of unconstrained points."""

    @jit
    def evaluate(
        z: dict[str, jax.Array], X: LineIndex, nodes: jax.Array, counts: jax.Array
    ) -> jax.Array:
        def one(z: dict[str, jax.Array]) -> jax.Array:
            log_jacobian = X.log_jacobian(target.kernel_at(target.constrain(z)))
            return spectral.volume_errors(log_jacobian, nodes, counts)

        return jax.lax.map(one, z)

    return evaluate


@kept
def prior_along(target: Target) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """Log prior along the one hyperparameter, by one compiled program."""
    return profile.prior_along(target)


@kept
def objectives(target: Target, objective: str) -> BatchLogDensity:
    """What :func:`~bke.inference.learn_kernel` maximises, at a batch of unconstrained points."""
    one = _objective(target, objective)

    @jit
    def evaluate(z: dict[str, jax.Array], X: Points) -> jax.Array:
        return jax.lax.map(lambda z: one(z, X), z)

    return evaluate


@kept
def objective_slopes(target: Target, objective: str) -> Callable[..., Any]:
    """Its value and gradient at one unconstrained point."""
    return jit(jax.value_and_grad(_objective(target, objective)))


def _objective(target: Target, objective: str) -> Callable[[Any, Points], jax.Array]:
    """``"ml"``: log marginal likelihood; ``"map"``: plus the log prior density of the values."""

    def value(z: dict[str, jax.Array], X: Points) -> jax.Array:
        likelihood = target.log_density(z, X) - target.log_prior(z)
        if objective == "ml":
            return likelihood
        return likelihood + target.log_prior_density(target.constrain(z))

    return value


@kept
def cancelled(target: Target) -> Callable[[Any, PaddedRows], jax.Array]:
    """Search for rows whose volume factor is zero, by one compiled program."""
    return cancelled_rows(target)
