"""Kernels, priors and measures survive being written as JSON."""

import json

import bke.models as bk
import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference.core.errors import InputError
from bke.inference.sampling.record import describe, describe_kernel, restore, restore_kernel
from bke.inference.sampling.target import Target


def through_json(record):
    """JSON has no NaN: a file with one cannot be read by others."""
    return json.loads(json.dumps(record, allow_nan=False))


SUM = bk.SquaredExponential(0.7) + bk.SquaredExponential(2.0)
KERNELS = [
    bk.SquaredExponential(0.7),
    bk.SquaredExponential(np.array([0.7, 1.9])),
    bk.FullSquaredExponential([[1.0, 0.3], [0.3, 0.8]]),
    bk.Matern(1.5, 0.7),
    bk.Matern(0.5, [0.7, 1.9]),
    bk.Matern(nu=2.5),
    bk.Laplace(0.4),
    bk.RationalQuadratic(1.7, 0.6),
    bk.GaussianMixture([0.5, 2.0], [0.3, 0.7]),
    bk.GaussianMixture([0.5, 2.0]),
    bk.SpectralMixture([[0.5, 0.9], [1.1, 0.4]], [[0.3, -0.2], [0.8, 0.4]], [0.4, 0.9]),
    bk.SpectralMixture(0.5, 0.3),
    SUM,
    0.3 * bk.SquaredExponential([0.7, 1.9]) + bk.Matern(1.5, 0.4) * bk.Laplace(3.0),
]


def restored_from_json(value):
    return restore(through_json(describe(value)))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_kernels(kernel):
    restored = restore_kernel(through_json(describe_kernel(kernel)))
    assert type(restored) is type(kernel)
    X = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_array_equal(restored(X), kernel(X))
    assert describe_kernel(restored) == describe_kernel(kernel)  # classes, also within sums


MIXTURE_WEIGHTS = dist.Categorical(np.array([0.3, 0.7]))
PRIORS = [
    dist.Gamma(1.0, 1.0),
    dist.Gamma(0.1, 0.1),
    dist.Gamma(np.array([1.0, 2.0]), np.array([0.5, 3.0])),
    dist.Gamma(1.0, 2.0).expand([3]),
    dist.Gamma(1.0, 2.0).expand([3]).to_event(1),
    dist.Gamma(np.array([1.0, 2.0]), 1.0).to_event(1),
    dist.LogNormal(0.3, 1.2),
    dist.LogNormal(np.array([0.3, -1.0]), 1.2),
    dist.Uniform(0.01, 1.0),
    dist.HalfNormal(2.0),
    dist.HalfCauchy(1.5),
    dist.InverseGamma(3.0, 2.0),
    dist.Exponential(0.7),
    dist.Weibull(1.3, 2.1),
    dist.TruncatedNormal(0.5, 2.0, low=0.1),
    dist.TruncatedNormal(0.5, 2.0, low=0.1, high=3.0),
    dist.FoldedDistribution(dist.Normal(0.0, 1.0)),
    dist.Gamma(1.0, 2.0).mask(True),
    dist.GaussianRandomWalk(1.0, num_steps=4),
    dist.MixtureSameFamily(MIXTURE_WEIGHTS, dist.Gamma(np.array([1.0, 5.0]), 1.0)),
    dist.MixtureGeneral(MIXTURE_WEIGHTS, [dist.Gamma(2.0, 3.0), dist.LogNormal(0.0, 0.5)]),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: f"{type(p).__name__}{p.shape()}")
def test_priors(prior):
    restored = restored_from_json(prior)
    assert type(restored) is type(prior)
    assert restored.batch_shape == prior.batch_shape
    assert restored.event_shape == prior.event_shape
    with jax.enable_x64(True):
        for value in (0.2, 0.5, 0.9):
            at = np.full(prior.shape(), value)
            np.testing.assert_allclose(
                restored.log_prob(at), prior.log_prob(at), rtol=1e-6, atol=1e-7
            )
        key = jax.random.key(0)
        np.testing.assert_allclose(restored.sample(key), prior.sample(key), rtol=1e-6)


@pytest.mark.parametrize("double", [False, True])
def test_numbers_keep_all_their_digits(double):
    with jax.enable_x64(double):
        restored = restored_from_json(dist.Gamma(0.1, 1 / 3))
    assert (restored.concentration, restored.rate) == (0.1, 1 / 3)


@pytest.mark.parametrize(
    "prior",
    [
        dist.TransformedDistribution(dist.Normal(0.0, 1.0), dist.transforms.ExpTransform()),
        dist.ImproperUniform(dist.constraints.positive, (), ()),
        # its own support would be lost, and the draws be in other coordinates than the density
        dist.MixtureGeneral(
            MIXTURE_WEIGHTS,
            [dist.Uniform(0.5, 1.0), dist.Uniform(2.0, 3.0)],
            support=dist.constraints.positive,
        ),
    ],
    ids=lambda p: type(p).__name__,
)
def test_a_prior_that_cannot_be_recorded_is_refused_in_a_single_sentence(prior):
    record = through_json(describe(prior))
    with pytest.raises(InputError) as refusal:
        restore(record)
    message = str(refusal.value)
    assert type(prior).__name__ in message
    assert "\n" not in message
    assert "prior" in message


@pytest.mark.parametrize(
    "value",
    [0.3, bk.SamplingNoise(True, 1e-7), bk.SamplingNoise(False, 0.01), bk.Unit(), bk.Lebesgue()],
    ids=str,
)
def test_noises_and_named_measures(value):
    is_measure = isinstance(value, bk.Unit | bk.Lebesgue)
    restored = restored_from_json(value)
    assert (bk.measures.as_measure(restored) if is_measure else restored) == value


@pytest.mark.parametrize(
    "scale", [2.0, [1.0, 2.0], dist.Gamma(2.0, 3.0)], ids=["fixed", "by column", "prior"]
)
def test_gaussian_measures(scale):
    restored = restored_from_json(bk.Gaussian(scale, [0.1, -3.0]))
    if isinstance(scale, dist.Gamma):
        assert (restored.scale.concentration, restored.scale.rate) == (2.0, 3.0)
    else:
        np.testing.assert_array_equal(restored.scale, scale)
    np.testing.assert_array_equal(restored.center, [0.1, -3.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "prior", "noise", "measure"),
    [
        (bk.SquaredExponential, None, 0.1, "unit"),
        (bk.SquaredExponential, dist.Gamma(1.0, 1.0).expand([2]), 0.3, bk.Gaussian(2.0, 0.5)),
        (bk.Matern(1.5), dist.LogNormal(0.0, 1.0), dist.Uniform(0.05, 1.0), "lebesgue"),
        (SUM, {"lengthscale_1": dist.HalfNormal(2.0)}, 0.1, "unit"),
        (bk.SquaredExponential, dist.TruncatedNormal(1.0, 1.0, low=0.05), 0.1, "unit"),
    ],
    ids=["default", "ARD", "noise prior", "sum", "truncated"],
)
def test_a_restored_problem_has_the_same_density(kernel, prior, noise, measure):
    X = np.random.default_rng(1).gamma(2.0, size=(15, 2))
    with jax.enable_x64(True):
        target = Target.checked(kernel, prior, noise, measure, "auto")
        restored = Target.restore(through_json(target.describe()))
        assert list(restored.sites) == list(target.sites)
        draws = target.prior_draws(np.random.default_rng(0), 3)
        for index in range(3):
            z = {name: values[index] for name, values in draws.items()}
            density = target.log_density(z, X)
            assert np.isfinite(density)
            assert float(restored.log_density(z, X)) == pytest.approx(float(density), rel=1e-12)


def test_the_densities_of_a_problem_are_those_of_the_unconstrained_coordinate():
    """With z = log l the density gains a factor l."""
    X = np.random.default_rng(1).gamma(2.0, size=(15, 2))
    with jax.enable_x64(True):
        target = Target.checked(bk.SquaredExponential, dist.Gamma(2.0, 3.0), 0.1, "unit", "auto")
        z = {"lengthscale": jax.numpy.asarray(np.log(0.7))}
        log_prior, log_density = float(target.log_prior(z)), float(target.log_density(z, X))
    by_hand = np.log(9.0) + np.log(0.7) - 2.1 + np.log(0.7)
    likelihood = bk.log_marginal_likelihood(X, bk.SquaredExponential(0.7))
    assert log_prior == pytest.approx(by_hand, rel=1e-12)
    assert log_density == pytest.approx(by_hand + likelihood, rel=1e-12)
