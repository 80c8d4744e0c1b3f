"""The NumPyro model: its sites, its density, and NumPyro's own inference on it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.models import (
    Gaussian,
    GaussianMixture,
    Matern,
    Nystrom,
    SquaredExponential,
    bke_model,
    log_marginal_likelihood,
)
from numpyro.handlers import seed, substitute, trace
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.util import log_density
from numpyro.optim import Adam
from scipy import stats

X1 = np.random.default_rng(0).gamma(2.0, size=25)
X2 = np.random.default_rng(1).gamma(2.0, size=(25, 2)) * [1.0, 3.0]


def sites(*args, **kwargs):
    """Every site of one draw, and the names of the random ones."""
    model_trace = trace(seed(bke_model, jax.random.key(0))).get_trace(*args, **kwargs)
    latent = [n for n, s in model_trace.items() if s["type"] == "sample" and not s["is_observed"]]
    return model_trace, latent


def density(values, *args, **kwargs):
    values = {name: jnp.asarray(value) for name, value in values.items()}
    return float(log_density(bke_model, args, kwargs, values)[0])


# Sites


def test_the_default_model(x64):
    model_trace, latent = sites(X1)
    assert latent == ["lengthscale"]
    assert model_trace["lengthscale"]["value"].shape == ()
    prior = model_trace["lengthscale"]["fn"]
    assert isinstance(prior, dist.Gamma)
    assert (prior.concentration, prior.rate) == (1.0, 1.0)


def sum_of(a, b, c):
    return SquaredExponential(a) + 0.3 * (SquaredExponential(b) * SquaredExponential(c))


#: A mixture as the prior of a lengthscale: BKE section 5 names it as an extension.
MIXTURE = np.array([0.3, 0.7]), np.array([2.0, 8.0]), np.array([4.0, 2.0])
MIXTURE_DENSITY = MIXTURE[0] @ stats.gamma.pdf(1.3, MIXTURE[1], scale=1 / MIXTURE[2])
#: Data, arguments of the model, values of its sites, log prior, and arguments of the likelihood.
CASES = {
    "numbered lengthscales, noise and measure": (
        X1,
        {
            "kernel": sum_of(1.0, 2.0, 3.0),
            "prior": {
                "lengthscale_0": dist.Gamma(2.0, 3.0),
                "lengthscale_1": dist.LogNormal(0.0, 0.5),
                "lengthscale_2": dist.Gamma(1.0, 1.0),
            },
            "noise_variance": dist.Uniform(0.01, 0.6),
            "measure": Gaussian(dist.LogNormal(0.5, 0.3), 0.4),  # BKE A.3
        },
        {
            "lengthscale_0": 0.4,
            "lengthscale_1": 1.7,
            "lengthscale_2": 0.8,
            "noise_variance": 0.2,
            "measure_scale": 2.2,
        },
        stats.gamma.logpdf(0.4, 2.0, scale=1 / 3.0)
        + stats.lognorm.logpdf(1.7, 0.5)
        - 0.8
        - np.log(0.59)
        + stats.lognorm.logpdf(2.2, 0.3, scale=np.exp(0.5)),
        {
            "kernel": sum_of(0.4, 1.7, 0.8),
            "noise_variance": 0.2,
            "measure": Gaussian(2.2, 0.4),
        },
    ),
    "kernel": (
        X2,
        {"kernel": SquaredExponential(5.0), "prior": dist.Gamma(2.0, 0.5), "measure": "lebesgue"},
        {"lengthscale": 0.9},
        stats.gamma.logpdf(0.9, 2.0, scale=2.0),
        {"kernel": SquaredExponential(0.9), "measure": "lebesgue"},
    ),
    "kernel class": (
        X2,
        {"kernel": SquaredExponential, "noise_variance": 0.3, "likelihood": "dense"},
        {"lengthscale": 0.9},
        -0.9,
        {"kernel": SquaredExponential(0.9), "noise_variance": 0.3},
    ),
    "a lengthscale per column": (
        X2,
        {"prior": dist.Gamma(1.0, 1.0).expand([2])},
        {"lengthscale": [0.7, 2.5]},
        -3.2,
        {"kernel": SquaredExponential([0.7, 2.5])},
    ),
    **{
        type(prior).__name__: (
            X1,
            {"prior": prior},
            {"lengthscale": 1.3},
            np.log(MIXTURE_DENSITY),
            {"kernel": SquaredExponential(1.3)},
        )
        for prior in (
            dist.MixtureSameFamily(dist.Categorical(MIXTURE[0]), dist.Gamma(*MIXTURE[1:])),
            dist.MixtureGeneral(
                dist.Categorical(MIXTURE[0]), [dist.Gamma(2.0, 4.0), dist.Gamma(8.0, 2.0)]
            ),
        )
    },
    "a dict leaves other parameters fixed": (
        X1,
        {
            "kernel": GaussianMixture([0.5, 2.0], [0.3, 0.7]),
            "prior": {"weights": dist.Dirichlet(np.ones(2))},
        },
        {"weights": [0.8, 0.2]},
        0.0,
        {"kernel": GaussianMixture([0.5, 2.0], [0.8, 0.2])},
    ),
}


@pytest.mark.one_in(len(CASES))
@pytest.mark.parametrize("name", CASES)
def test_density_is_prior_plus_marginal_likelihood(x64, name):
    X, arguments, values, log_prior, model = CASES[name]
    model_trace, latent = sites(X, **arguments)
    assert set(latent) == set(values)
    for site, value in values.items():
        assert model_trace[site]["value"].shape == np.shape(value)
        assert model_trace[site]["fn"].batch_shape == ()
    expected = log_prior + log_marginal_likelihood(X, **model)
    assert density(values, X, **arguments) == pytest.approx(expected, rel=1e-10)


@pytest.mark.slow
def test_likelihood_of_several_samples_is_the_product(x64):
    value = density({"lengthscale": 0.7}, (X1, 2.0 * X1[:10]))
    parts = [log_marginal_likelihood(x, SquaredExponential(0.7)) for x in (X1, 2.0 * X1[:10])]
    assert value == pytest.approx(-0.7 + sum(parts), rel=1e-12)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        *(
            (lambda scale=scale: Gaussian(scale), "measure_scale")
            for scale in (dist.Normal(0.0, 1.0), dist.Gamma(1.0, 1.0).expand([2, 2]))
        ),
        (
            lambda: log_marginal_likelihood(
                X1, SquaredExponential(1.0), measure=Gaussian(dist.LogNormal(0.5, 0.3))
            ),
            "must be a number",
        ),
        (lambda: Gaussian(1.0, dist.Normal(0.0, 1.0)), "center"),
        (
            lambda: sites(X2, SquaredExponential(1.0) + Matern(1.5, 2.0)),  # none in two columns
            "smoothed kernel r",
        ),
    ],
)
def test_measures_that_cannot_be_used(x64, act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_the_two_terms_are_recorded_separately(twin, x64):
    conditioned = substitute(bke_model, {"lengthscale": jnp.asarray(0.9)})
    model_trace = trace(seed(conditioned, jax.random.key(0))).get_trace(X2)
    gaussian, log_gamma = twin(X2, 0.9)
    for name, expected in (("gaussian", gaussian), ("jacobian", log_gamma.sum())):
        factor = model_trace[name]
        assert factor["is_observed"]
        assert float(factor["fn"].log_factor) == pytest.approx(expected, rel=1e-10)
        assert model_trace[f"log_{name}"]["type"] == "deterministic"
        assert float(model_trace[f"log_{name}"]["value"]) == pytest.approx(expected, rel=1e-10)


# NumPyro's inference


@pytest.mark.slow
def test_mcmc(x64):
    mcmc = MCMC(NUTS(bke_model), num_warmup=30, num_samples=30, progress_bar=False)
    mcmc.run(jax.random.key(1), X1)
    draws = mcmc.get_samples()
    assert draws["lengthscale"].shape == (30,)
    assert draws["lengthscale"].dtype == np.float64
    assert np.all(draws["lengthscale"] > 0)
    assert len(np.unique(draws["lengthscale"])) > 5
    total = log_marginal_likelihood(X1, SquaredExponential(float(draws["lengthscale"][-1])))
    assert float(draws["log_gaussian"][-1] + draws["log_jacobian"][-1]) == pytest.approx(total)


@pytest.mark.slow
def test_svi(x64):
    guide = AutoNormal(bke_model)
    svi = SVI(bke_model, guide, Adam(0.05), Trace_ELBO())
    result = svi.run(jax.random.key(2), 60, X2, progress_bar=False)
    assert np.all(np.isfinite(result.losses))
    assert np.mean(result.losses[-15:]) < np.mean(result.losses[:15])


def test_predictive_draws_from_the_prior(x64):
    draws = Predictive(bke_model, num_samples=400)(jax.random.key(3), X1[:6])
    lengthscales = np.asarray(draws["lengthscale"])
    assert lengthscales.shape == draws["log_gaussian"].shape == (400,)
    assert stats.kstest(lengthscales, "expon").pvalue > 1e-3
    first = log_marginal_likelihood(X1[:6], SquaredExponential(float(lengthscales[0])))
    assert float(draws["log_gaussian"][0] + draws["log_jacobian"][0]) == pytest.approx(first)


# Refusals


@pytest.mark.parametrize(
    "noise",
    [
        dist.HalfNormal(1.0),
        dist.Gamma(2.0, 1.0),
        dist.LogNormal(0.0, 1.0),
        dist.Uniform(0.0, 1.0),
        dist.Normal(0.1, 0.01),
        dist.TruncatedNormal(0.1, 1.0, low=0.0),
    ],
    ids=lambda noise: type(noise).__name__,
)
def test_a_noise_prior_that_reaches_zero_is_refused_with_the_reason(x64, noise):
    with pytest.raises(ValueError, match=r"noise_variance must be bounded away from zero.*grows"):
        sites(X1, noise_variance=noise)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"prior": dist.Normal(1.0, 0.1)}, "'lengthscale' must have positive support, got Normal"),
        ({"prior": dist.Uniform(-0.1, 1.0)}, "'lengthscale' must have positive support"),
        ({"prior": {"length": dist.Gamma(1.0, 1.0)}}, "names 'length', but the kernel has"),
        ({"prior": {"lengthscale": 1.0}}, "'lengthscale' must be a NumPyro distribution"),
        ({"prior": 1.0}, "prior must be a NumPyro distribution or a dict"),
        ({"prior": dist.Gamma(1.0, -1.0, validate_args=False)}, "'lengthscale'.* rate"),
        ({"prior": dist.Gamma(0.0, 1.0, validate_args=False)}, "'lengthscale'.* concentration"),
        ({"noise_variance": 0.0}, "noise_variance must be positive"),
        ({"noise_variance": -1}, "noise_variance must be positive"),
        ({"measure": "flat"}, "measure must be"),
        ({"likelihood": "fast"}, "likelihood must be"),
        ({"kernel": Matern}, "Matern needs parameters"),
        ({"kernel": "rbf"}, "kernel must be a kernel"),
    ],
)
def test_invalid_arguments_are_named(x64, arguments, message):
    with pytest.raises(ValueError, match=message):
        sites(X1, **arguments)


def test_single_precision_is_refused():
    with jax.enable_x64(False), pytest.raises(RuntimeError, match="jax_enable_x64"):
        sites(X1)


def test_an_unregistered_likelihood_is_refused(x64):
    class UserLikelihood(Nystrom):
        name = "mine"

    with pytest.raises(ValueError, match="is not one of bke"):
        sites(X1, likelihood=UserLikelihood(5))
