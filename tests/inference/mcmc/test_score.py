"""The score of NumPyro models: by hand where a transformation adds its volume."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import InputError, score_of

DATA = np.array([0.3, -1.2, 2.5])


def model(y):
    mu = numpyro.sample("mu", dist.Normal(1.0, 2.0))
    tau = numpyro.sample("tau", dist.HalfNormal(3.0))
    with numpyro.plate("J", 3):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
    numpyro.deterministic("twice", 2.0 * mu)
    numpyro.sample("y", dist.Normal(theta, 0.5), obs=y)


def by_hand(point):
    """In mu, t = log tau and theta: of t the volume adds one."""
    mu, t, theta = point[0], point[1], point[2:]
    tau = np.exp(t)
    to_mu = -(mu - 1.0) / 4.0 + np.sum(theta - mu) / tau**2
    of_tau = -tau / 9.0 - 3.0 / tau + np.sum((theta - mu) ** 2) / tau**3
    to_t = of_tau * tau + 1.0
    to_theta = -(theta - mu) / tau**2 - (theta - DATA) / 0.25
    return np.array([to_mu, to_t, *to_theta])


def tree(mu, tau, theta):
    variables = {
        "tau": (("chain", "draw"), tau),
        "theta": (("chain", "draw", "J"), theta),
        "mu": (("chain", "draw"), mu),
        "twice": (("chain", "draw"), 2.0 * mu),
    }
    return xr.DataTree.from_dict({"posterior": xr.Dataset(variables)})


@pytest.mark.parametrize("double", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_gradients_by_hand(double):
    """A model that JAX has traced in 32 bits, with its data, cannot be converted to 64."""
    with jax.enable_x64(double):
        if not double:
            kernel = numpyro.infer.NUTS(model)
            mcmc = numpyro.infer.MCMC(kernel, num_warmup=5, num_samples=5, progress_bar=False)
            mcmc.run(jax.random.key(0), DATA)
        score = score_of(model, DATA)
        assert score.columns == ("mu", "tau, unconstrained", "theta[0]", "theta[1]", "theta[2]")
        points = np.random.default_rng(0).normal(size=(4, 5))
        expected = [by_hand(point) for point in points]
        np.testing.assert_allclose(score(points), expected, rtol=1e-9 if double else 1e-3)


def test_draws_are_transformed_to_unconstrained_space():
    rng = np.random.default_rng(1)
    mu, theta = rng.normal(size=(2, 9)), rng.normal(size=(2, 9, 3))
    tau = rng.gamma(2.0, size=(2, 9))
    unconstrained = score_of(model, y=DATA).unconstrained(tree(mu, tau, theta))
    expected = np.concatenate([mu[..., None], np.log(tau)[..., None], theta], axis=2)
    np.testing.assert_allclose(unconstrained, expected, rtol=1e-5)


def test_invalid_arguments_are_refused():
    def coin():
        numpyro.sample("side", dist.Bernoulli(0.5))

    def broken(y):
        raise RuntimeError("no such data")

    def empty_model(y):
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=jnp.asarray(y))

    for arguments, message in (
        ((coin,), "discrete sites, which have no score: side"),
        ((broken, DATA), "cannot be evaluated: no such data"),
        ((empty_model, DATA), "no unobserved sites"),
    ):
        with pytest.raises(InputError, match=message):
            score_of(*arguments)
    short = tree(*np.ones((2, 2, 9)), np.ones((2, 9, 3)))
    del short["posterior"]["tau"]
    with pytest.raises(InputError, match="no draws of 'tau'"):
        score_of(model, DATA).unconstrained(short)
