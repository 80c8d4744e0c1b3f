"""Ways to one number: methods of the posterior, threads of the BLAS, NumPy and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from scipy import stats
from threadpoolctl import threadpool_limits

from ..core.machine import computing
from ..diagnostics.integral import integral_of
from ..sampling.fit import fit
from ..sampling.samplers.nuts import Nuts
from ..sampling.samplers.smc import Smc
from .finding import Finding

#: With this probability two ways to a number are further apart than is allowed, by chance.
BY_CHANCE = 1e-3
#: Relative difference that rounding may make of a factorisation of so many rows.
ROUNDING, ROWS = 1e-8, 600


def _two_groups() -> np.ndarray:
    """Rows whose posterior has a short and a long lengthscale."""
    rng = np.random.default_rng(3)
    return np.concatenate([rng.normal(-3.0, 0.3, size=20), rng.normal(3.0, 0.3, size=20)])


def integrals() -> Finding:
    """The log of the posterior's integral by quadrature and SMC, whose repeats tell its error."""
    X, method = _two_groups(), Smc()
    how: Any = {"seed": 1, "progress": False}
    exact = integral_of(fit(X, method="quadrature", **how))
    other = integral_of(fit(X, method=method, **how))
    assert exact is not None
    assert other is not None
    apart = abs(other.log - exact.log)
    allowed = stats.t(method.repeats - 1).isf(BY_CHANCE / 2) * other.error + exact.error
    return Finding(
        "integral by quadrature and SMC",
        f"{exact.log:.3f} and {other.log:.3f} nats",
        f"at most {allowed:.2g} apart",
        bool(apart <= allowed),
    )


def means() -> Finding:
    """The mean of the log lengthscale by quadrature, beside chains of NUTS, of one mode."""
    X = np.random.default_rng(0).normal(size=40)
    how: Any = {"seed": 1, "progress": False}
    exact = _log_lengthscales(fit(X, method="quadrature", **how))
    chains = _log_lengthscales(fit(X, method=Nuts(chains=8, warmup=300, draws=300), **how))
    by_chain = chains.mean(axis=1)
    error = by_chain.std(ddof=1) / np.sqrt(len(by_chain))
    allowed = stats.t(len(by_chain) - 1).isf(BY_CHANCE / 2) * error
    # Draws by quadrature are independent, and have an error too.
    allowed += stats.norm.isf(BY_CHANCE / 2) * exact.std() / np.sqrt(exact.size)
    apart = abs(by_chain.mean() - exact.mean())
    return Finding(
        "mean by quadrature and NUTS",
        f"{exact.mean():.4f} and {by_chain.mean():.4f}",
        f"at most {allowed:.2g} apart",
        bool(apart <= allowed),
    )


def _log_lengthscales(run: xr.DataTree) -> np.ndarray:
    return np.log(np.asarray(run["posterior"].to_dataset()["lengthscale"].values))


def threads() -> Finding:
    """The likelihood and its slope with one thread of the BLAS and with all."""
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
