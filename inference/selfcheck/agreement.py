"""Ways to one number: methods of the posterior, threads of the BLAS, NumPy and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ..diagnosis.integral import integral_of
from ..diagnosis.reweight import reweight
from ..posterior.fit import fit
from ..posterior.samplers.nuts import Nuts
from ..posterior.samplers.smc import Smc
from ..runtime.machine import computing
from .finding import Finding

#: Standard errors that two ways to an integral may be apart.
APART = 5.0
#: Relative difference that rounding may make of a factorisation of so many rows.
ROUNDING, ROWS = 1e-8, 600


def _two_groups() -> np.ndarray:
    """Rows whose posterior has a short and a long lengthscale."""
    rng = np.random.default_rng(3)
    return np.concatenate([rng.normal(-3.0, 0.3, size=20), rng.normal(3.0, 0.3, size=20)])


def integrals() -> tuple[Finding, ...]:
    """The log of the posterior's integral by quadrature, beside SMC and bridged chains of NUTS."""
    X = _two_groups()
    how: Any = {"seed": 1, "progress": False}
    quadrature = integral_of(fit(X, method="quadrature", **how))
    chains = fit(X, method=Nuts(chains=4, warmup=300, draws=300), **how)
    others = {
        "SMC": integral_of(fit(X, method=Smc(), **how)),
        "NUTS": integral_of(reweight(chains, progress=False)),
    }
    assert quadrature is not None
    found = []
    for name, other in others.items():
        assert other is not None
        apart = abs(other.log - quadrature.log)
        allowed = APART * np.hypot(other.error, quadrature.error)
        found.append(
            Finding(
                f"integral by quadrature and {name}",
                f"{quadrature.log:.3f} and {other.log:.3f} nats",
                f"at most {allowed:.2g} apart",
                bool(apart <= allowed),
            )
        )
    return tuple(found)


def threads() -> Finding:
    """The likelihood and its slope with one thread of the BLAS and with all, and by NumPy."""
    import jax
    import jax.numpy as jnp
    from bke.models import SquaredExponential, log_marginal_likelihood

    X = np.random.default_rng(0).normal(size=(ROWS, 2))

    def value(lengthscale: jax.Array) -> jax.Array:
        return log_marginal_likelihood(X, SquaredExponential(lengthscale), noise_variance=0.1)

    both = jax.jit(jax.value_and_grad(value))
    found = []
    with computing():
        for most in (1, None):
            with threadpool_limits(most, user_api="blas"):
                found.append(np.array(both(jnp.asarray(0.8))))
    apart = float(np.max(np.abs(found[1] - found[0]) / np.abs(found[0])))
    return Finding(
        "likelihood by one thread and by all",
        f"{apart:.1g} apart",
        f"at most {ROUNDING:g}",
        bool(apart <= ROUNDING),  # and so not where it is no number
    )


def factors() -> Finding:
    """A Cholesky factor by JAX, on its default device, beside NumPy's: in 64 bits, and finite."""
    import jax.numpy as jnp

    X = np.random.default_rng(1).normal(size=(ROWS, 2))
    square = ((X[:, None] - X[None]) ** 2).sum(axis=-1)
    matrix = np.exp(-0.5 * square) + 0.1 * np.eye(ROWS)
    with computing():
        found = np.asarray(jnp.linalg.cholesky(jnp.asarray(matrix)))
    exact = np.linalg.cholesky(matrix)
    apart = float(np.max(np.abs(found @ found.T - exact @ exact.T)))
    return Finding(
        "factorisation by JAX and by NumPy",
        f"{apart:.1g} apart",
        f"at most {ROUNDING:g}",
        bool(apart <= ROUNDING),
    )
