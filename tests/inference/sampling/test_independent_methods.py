"""Numbers that two independent methods, libraries or numbers of threads must agree on."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import Nuts, Smc, fit
from bke.inference.core.machine import computing
from bke.inference.diagnostics.integral import integral_of
from bke.models import SquaredExponential, log_marginal_likelihood
from scipy import stats
from threadpoolctl import threadpool_limits

OPTIONS = {"seed": 1, "progress": False}
#: Probability of a difference beyond the tolerance by chance.
FALSE_FAILURE_RATE = 1e-3


@pytest.mark.slow
def test_the_normalizer_by_quadrature_and_smc():
    """Two clusters of 20 rows, seed 3: a short and a long mode."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(-3.0, 0.3, size=20), rng.normal(3.0, 0.3, size=20)])
    method = Smc()
    quadrature = integral_of(fit(X, method="quadrature", **OPTIONS))
    smc = integral_of(fit(X, method=method, **OPTIONS))
    quantile = stats.t(method.num_repeats - 1).isf(FALSE_FAILURE_RATE / 2)
    assert abs(smc.log - quadrature.log) <= quantile * smc.error + quadrature.error


def mean_log_lengthscale(run):
    """Return the mean of every chain, and the standard deviation of all draws."""
    draws = np.log(run["posterior"]["lengthscale"].values)
    return draws.mean(axis=1), draws.std(), draws.size


@pytest.mark.slow
@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_the_posterior_mean_by_quadrature_and_nuts(shift):
    """40 normal rows, seed 0, one mode; a shift of the log lengthscale by 0.1 is detected."""
    X = np.random.default_rng(0).normal(size=40)
    exact, deviation, draws = mean_log_lengthscale(fit(X, method="quadrature", **OPTIONS))
    nuts = Nuts(num_chains=8, num_warmup=300, num_samples=300)
    chains, _, _ = mean_log_lengthscale(fit(X, method=nuts, **OPTIONS))
    standard_error = chains.std(ddof=1) / np.sqrt(len(chains))
    tolerance = stats.t(len(chains) - 1).isf(FALSE_FAILURE_RATE / 2) * standard_error
    tolerance += stats.norm.isf(FALSE_FAILURE_RATE / 2) * deviation / np.sqrt(draws)
    difference = abs(chains.mean() + shift - exact.mean())
    assert (difference <= tolerance) == (shift == 0.0)


@pytest.mark.slow
def test_the_likelihood_and_its_gradient_with_one_thread_and_with_all():
    X = np.random.default_rng(0).normal(size=(600, 2))

    def log_likelihood(lengthscale):
        return log_marginal_likelihood(X, SquaredExponential(lengthscale), noise_variance=0.1)

    compiled = jax.jit(jax.value_and_grad(log_likelihood))
    results = []
    with computing():
        for threads in (1, None):
            with threadpool_limits(threads, user_api="blas"):
                results.append(np.array(compiled(jnp.asarray(0.8))))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-8)


@pytest.mark.slow
def test_a_cholesky_factor_by_jax_and_by_numpy():
    X = np.random.default_rng(1).normal(size=(600, 2))
    matrix = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1)) + 0.1 * np.eye(600)
    with computing():
        factor = np.asarray(jnp.linalg.cholesky(jnp.asarray(matrix)))
    np.testing.assert_allclose(factor, np.linalg.cholesky(matrix), atol=1e-8)
