"""The low-rank value of BKE (13) and its gradient, a block of rows at a time.

Four passes: the mean of the features of k; the sums that both terms need; then the slopes of every
row against what these sums are worth; and of the mean. Nothing of n x m entries is kept, and the
cost does not grow with the number of hyperparameters.
"""

from __future__ import annotations

from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ...kernels.base import Kernel
from ...linalg.rows import map_rows, reduce_blocks
from ...linalg.transforms import value_and_jacobian
from ..evidence import Evidence
from ..view import LogLikelihoodTerms, Parameters
from ..volume import pushforward
from .approximation import Approximation
from .terms import (
    Common,
    RowSums,
    common,
    gaussian,
    no_sums,
    row_sums,
    volume_correction,
    worth_of_features,
    worth_of_own,
    worth_of_rows,
)

#: Entries of the gradients of one block of rows, and the fewest rows: products of matrices with
#: fewer take as long for each row.
BLOCK_ENTRIES, FEWEST_ROWS = 2**19, 64


def exact_rows(view: Approximation, kernel: Kernel) -> tuple[jax.Array, jax.Array]:
    """Mu_hat and log gamma at the exact rows, (s,) each, at a cost of n s D."""
    rows = view.points[view.exact]
    found = map_rows(lambda x: pushforward(x, view.points, kernel)[:2], rows, len(view.points))
    return cast(tuple[jax.Array, jax.Array], found)


def feature_mean(view: Approximation, kernel: Kernel) -> jax.Array:
    """The mean of the features of k over rows."""
    basis = view.basis

    def add(total: jax.Array, rows: jax.Array, _: jax.Array, known: jax.Array) -> jax.Array:
        return total + known @ basis.embedding_features(rows, kernel)

    width = jax.eval_shape(lambda x: basis.embedding_features(x, kernel), view.points[:1]).shape[1]
    return _over(view, add, jnp.zeros(width)) / len(view.points)


def all_sums(
    view: Approximation, parameters: Parameters, shared: Common
) -> tuple[RowSums, jax.Array]:
    """Sums over all rows, and that of log gamma~."""
    smoothed = parameters.smoothed(view.points.shape[1])

    def add(total: Any, rows: jax.Array, index: jax.Array, known: jax.Array) -> Any:
        block = row_sums(
            rows, index, known, view, parameters.kernel, smoothed, parameters.noise_variance, shared
        )
        return jax.tree.map(jnp.add, total, block)

    return cast(tuple[RowSums, jax.Array], _over(view, add, (no_sums(view), jnp.zeros(()))))


def _over(view: Approximation, add: Any, start: Any) -> Any:
    columns = max(view.basis.size, len(view.exact)) * view.points.shape[1]
    return reduce_blocks(add, start, view.points, max(FEWEST_ROWS, BLOCK_ENTRIES // columns))


def _common(parameters: Parameters, mean: jax.Array, view: Approximation) -> Common:
    return common(mean, view, parameters.kernel, parameters.smoothed(view.points.shape[1]))


def _gaussian(
    sums: RowSums,
    shared: Common,
    embedding: jax.Array,
    parameters: Parameters,
    view: Approximation,
) -> jax.Array:
    smoothed = parameters.smoothed(view.points.shape[1])
    return gaussian(
        sums, shared, embedding, view, parameters.kernel, smoothed, parameters.noise_variance
    ).value


def _correction(
    weights: jax.Array, kernel: Kernel, log_volume: jax.Array, view: Approximation
) -> jax.Array:
    share = len(view.points) / len(view.exact)
    return share * jnp.sum(volume_correction(log_volume, view, kernel, weights))


def terms(view: Approximation, parameters: Parameters) -> LogLikelihoodTerms:
    """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i), both approximate."""
    shared = _common(parameters, feature_mean(view, parameters.kernel), view)
    sums, volume = all_sums(view, parameters, shared)
    embedding, log_volume = exact_rows(view, parameters.kernel)
    value = _gaussian(sums, shared, embedding, parameters, view)
    return LogLikelihoodTerms(
        value, volume + _correction(shared.weights, parameters.kernel, log_volume, view)
    )


def terms_and_slopes(
    view: Approximation, parameters: Parameters
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    """Both terms, and their slopes (p,) in the p entries of ``parameters``."""
    kernel = parameters.kernel
    mean = feature_mean(view, kernel)
    shared, pull_back = jax.vjp(
        lambda parameters, mean: _common(parameters, mean, view), parameters, mean
    )
    sums, volume = all_sums(view, parameters, shared)
    embedding, log_volume, row_slopes = _exact_slopes(view, kernel)

    value, worth = jax.value_and_grad(_gaussian, argnums=(0, 1, 2, 3))(
        sums, shared, embedding, parameters, view
    )
    of_sums, of_shared, of_embedding, of_shape = worth
    correction, (of_weights, of_kernel) = jax.value_and_grad(_correction, argnums=(0, 1))(
        shared.weights, kernel, log_volume, view
    )

    def gaussian_worth(rows: Any, known: Any, parameters: Parameters, shared: Common) -> jax.Array:
        smoothed = parameters.smoothed(view.points.shape[1])
        told = view, parameters.kernel, smoothed, parameters.noise_variance, shared, of_sums
        return worth_of_rows(rows, known, *told) if rows is not None else worth_of_own(*told)

    def add(total: Any, rows: jax.Array, _: jax.Array, known: jax.Array) -> Any:
        def volume_worth(kernel: Kernel, weights: jax.Array) -> jax.Array:
            return known @ view.basis.embedding(rows, kernel, weights)[1]

        of_block = (
            jax.grad(gaussian_worth, argnums=(2, 3))(rows, known, parameters, shared),
            jax.grad(volume_worth, argnums=(0, 1))(kernel, shared.weights),
        )
        return jax.tree.map(jnp.add, total, of_block)

    start = jax.tree.map(
        jnp.add,
        (of_shape, of_shared),
        jax.grad(gaussian_worth, argnums=(2, 3))(None, None, parameters, shared),
    )
    in_gaussian, in_volume = _over(view, add, (start, (of_kernel, of_weights)))
    features = in_gaussian[1].features + worth_of_features(sums, of_sums)
    nothing = jax.tree.map(jnp.zeros_like, (parameters, shared))
    both = [
        (part, pull_back(cotangent))
        for part, cotangent in (
            (in_gaussian[0], in_gaussian[1]._replace(features=features)),
            (nothing[0]._replace(kernel=in_volume[0]), nothing[1]._replace(weights=in_volume[1])),
        )
    ]
    # The mean is the last of what the rows' slopes are taken against.
    in_mean = jnp.stack([pulled[1] for _, pulled in both]) / len(view.points)
    direct = [ravel_pytree(jax.tree.map(jnp.add, part, pulled[0]))[0] for part, pulled in both]
    kernel_slopes = _of_exact_rows(view, of_embedding, row_slopes)
    kernel_slopes = kernel_slopes + _mean_slopes(view, kernel, in_mean)
    entries = kernel_slopes.shape[1]  # parameters begin with the kernel
    slopes = [
        whole.at[:entries].add(part) for whole, part in zip(direct, kernel_slopes, strict=True)
    ]
    return LogLikelihoodTerms(value, volume + correction), LogLikelihoodTerms(*slopes)


def _of_exact_rows(
    view: Approximation, of_embedding: jax.Array, row_slopes: jax.Array
) -> jax.Array:
    """Slopes (2, p) of both terms through mu_hat and log gamma at the exact rows."""
    volume = _share(view) * jnp.sum(row_slopes[:, 1], axis=0)
    return jnp.stack([of_embedding @ row_slopes[:, 0], volume])


def _share(view: Approximation) -> float:
    return len(view.points) / len(view.exact)


def _exact_slopes(view: Approximation, kernel: Kernel) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Mu_hat and log gamma at the exact rows, and the slopes of both (s, 2, p)."""
    theta, unravel = ravel_pytree(kernel)

    def of_row(theta: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.stack(pushforward(x, view.points, unravel(theta))[:2])

    rows, slopes = map_rows(
        lambda x: value_and_jacobian(lambda theta: of_row(theta, x), theta),
        view.points[view.exact],
        len(view.points),
    )
    return rows[:, 0], rows[:, 1], slopes


def _mean_slopes(view: Approximation, kernel: Kernel, worth: jax.Array) -> jax.Array:
    """Slopes (2, p) of the sum of the features of k against what they are ``worth``, (2, k)."""
    theta, unravel = ravel_pytree(kernel)

    def add(total: jax.Array, rows: jax.Array, _: jax.Array, known: jax.Array) -> jax.Array:
        def contracted(theta: jax.Array) -> jax.Array:
            return worth @ (known @ view.basis.embedding_features(rows, unravel(theta)))

        return total + value_and_jacobian(contracted, theta)[1]

    return cast(jax.Array, _over(view, add, jnp.zeros((2, theta.size))))


def evidence(view: Approximation, parameters: Parameters) -> Evidence:
    """What the error of the value at known parameters is told from."""
    influence, truncation, remainder = _evidence(view, parameters)
    rows = len(view.points)
    return Evidence(np.asarray(influence), np.asarray(truncation), float(remainder), rows)


@jax.jit
def _evidence(view: Approximation, parameters: Parameters) -> tuple[jax.Array, ...]:
    kernel, noise_variance = parameters.kernel, parameters.noise_variance
    smoothed = parameters.smoothed(view.points.shape[1])
    shared = common(feature_mean(view, kernel), view, kernel, smoothed)
    sums, _ = all_sums(view, parameters, shared)
    embedding, log_volume = exact_rows(view, kernel)
    term = gaussian(sums, shared, embedding, view, kernel, smoothed, noise_variance)
    of_volume = volume_correction(log_volume, view, kernel, shared.weights)
    return term.influence + of_volume, term.truncation, sums.remainder
