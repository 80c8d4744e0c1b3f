"""The one rule by which every way to BKE (13) is differentiated: its own slopes, in closed form."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree

from .view import LikelihoodView, LogLikelihoodTerms


@jax.custom_jvp
def closed_form(view: LikelihoodView, parameters: Any) -> LogLikelihoodTerms:
    """Both terms of a ``view`` at ``parameters``, with the slopes that it writes itself.

    Reverse mode through sums over all pairs would keep every one of them, and cost ten times the
    value: so value and slopes are one forward pass, of whatever order the derivative is asked for.
    """
    return view.value(parameters)


@partial(closed_form.defjvp, symbolic_zeros=True)
def _closed_form_jvp(
    primals: tuple[LikelihoodView, Any], tangents: tuple[Any, Any]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    view, parameters = primals
    of_data = LogLikelihoodTerms(jnp.zeros(()), jnp.zeros(()))
    if any(_moving(tangents[0])):
        of_data = view.along_data(jax.tree.map(_zero_or_array, tangents[0]), parameters)
    terms, slopes = view.value_and_slopes(parameters, _moving(tangents[1]))
    # The leaves alone: a tangent is no parameter, whose checks would refuse a zero.
    direction = ravel_pytree([_zero_or_array(leaf) for leaf in jax.tree.leaves(tangents[1])])[0]
    return terms, LogLikelihoodTerms(
        slopes.gaussian @ direction + of_data.gaussian, slopes.volume @ direction + of_data.volume
    )


def _moving(tangents: Any) -> tuple[bool, ...]:
    """Which leaves have a tangent that is not known to be zero."""
    leaves = jax.tree.leaves(tangents, is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    return tuple(not isinstance(leaf, SymbolicZero) for leaf in leaves)


def _zero_or_array(tangent: Any) -> jax.Array:
    """A tangent, written out where it is zero symbolically."""
    if isinstance(tangent, SymbolicZero):
        return jnp.zeros(tangent.shape, tangent.dtype)
    return cast(jax.Array, tangent)
