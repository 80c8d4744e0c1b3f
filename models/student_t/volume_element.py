"""How much the feature map of a kernel stretches volume."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from ..kernels.base import Covariance, as_points
from ..linalg.precision import concrete, double_precision


@double_precision
def log_volume_element(X: ArrayLike, kernel: Covariance) -> jax.Array:
    """Log det(<d_i phi(x), d_j phi(x)>)^(1/2), the last factor of KST (6).

    The inner products are d^2 k(x, y) / dx_i dy_j at y = x. For a kernel of x - y they are the same
    at every x (KST, appendix B).

    Args:
        X: shape (m, D) or (m,).
        kernel: twice differentiable where its arguments are equal.

    Returns:
        Shape (m,); minus infinity where features do not change to first order in some direction,
        such as x = 0 for the kernel (x y)^2.

    Raises:
        ValueError: that is so at all points known, as for kernels with a kink where x = y.
    """
    points = as_points(X)
    value = _log_volume_element(kernel, points)
    known = concrete(value)
    if isinstance(known, np.ndarray) and len(known) and not np.any(np.isfinite(known)):
        raise ValueError(
            f"the features of {kernel} have no derivative that automatic differentiation finds, or "
            "none in some direction"
        )
    return value


@jax.jit
def _log_volume_element(kernel: Covariance, points: jax.Array) -> jax.Array:
    def one(x: jax.Array) -> jax.Array:
        def value(x: jax.Array, y: jax.Array) -> jax.Array:
            return kernel.matrix(x[None], y[None])[0, 0]

        products = jax.jacfwd(jax.grad(value), argnums=1)(x, x)
        sign, logarithm = jnp.linalg.slogdet(products)
        return jnp.where(sign > 0, 0.5 * logarithm, -jnp.inf)

    return jax.vmap(one)(points)
