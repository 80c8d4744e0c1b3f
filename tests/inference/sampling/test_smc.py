"""Tempered SMC on targets with known, unequal masses, and on a posterior known by quadrature."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import SamplingError, Smc, diagnose, find_modes, fit
from bke.inference.diagnostics.modes import _masses_of_repeats, mode_masses
from bke.inference.sampling.tempering import Population, TemperedSmc

CENTERS = (-1.0, 1.5)
SCALES = (0.25, 0.4)
WEIGHTS = (0.8, 0.2)


class KnownTarget:
    """A standard normal prior in D dimensions times a likelihood that makes a known posterior.

    It is 0.8 N(c_1 e, s_1^2 I) + 0.2 N(c_2 e, s_2^2 I) times exp(-5), with e = (1, .., 1).
    """

    def __init__(self, dimension: int) -> None:
        self.shapes = {"theta": (dimension,)}
        self.num_hyperparameters = dimension

    def log_prior(self, z):
        return dist.Normal(0.0, 1.0).log_prob(z["theta"]).sum()

    def log_density(self, z, X):
        parts = jnp.stack(
            [
                np.log(w) + dist.Normal(c, s).log_prob(z["theta"]).sum()
                for w, c, s in zip(WEIGHTS, CENTERS, SCALES, strict=True)
            ]
        )
        return jax.scipy.special.logsumexp(parts) - 5.0 + 0.0 * X.sum()


def sample(dimension, repeats, particles, seed, kind=KnownTarget):
    target = kind(dimension)
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        return TemperedSmc(target).run(
            np.zeros((2, 1)), rng.normal(size=(repeats, particles, dimension)), jax.random.key(seed)
        )


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("dimension", "particles"), [(1, 500), (2, 1000), (5, 4000)])
def test_unequal_masses_and_the_normalizer_within_their_standard_errors(dimension, particles):
    """Twelve repeats, seed 0: four standard errors, exceeded in 1 of 500 (t with 11 degrees)."""
    sampled = sample(dimension, 12, particles, 0)
    population = sampled.group(sampled.log_likelihood)
    error = population.attrs["log_normalizer_error"]
    assert error < 0.1
    assert population.attrs["log_normalizer"] == pytest.approx(-5.0, abs=4 * error)
    right = (sampled.z.mean(axis=-1) > 0).mean(axis=1)
    proportion = population["share"].values
    mass = proportion @ right
    spread = np.std(12 * proportion * (right - mass), ddof=1) / np.sqrt(12)
    assert spread < 0.05
    assert mass == pytest.approx(WEIGHTS[1], abs=4 * spread)
    inside = sampled.z[sampled.z.mean(axis=-1) > 0]
    assert inside.mean() == pytest.approx(CENTERS[1], abs=0.05)
    assert inside.std(axis=0).mean() == pytest.approx(SCALES[1], rel=0.1)


def test_a_likelihood_of_zero_is_left_behind_and_everywhere_refused():
    class Half(KnownTarget):
        def log_density(self, z, X):
            value = self.log_prior(z) + 0.0 * X.sum()
            return jnp.where(z["theta"][0] > edge, value, -jnp.inf)

    edge = 0.0
    sampled = sample(1, 4, 500, 0, Half)
    assert sampled.z.min() > 0.0
    # Four repeats of 500: the standard error of the log of a half is 0.02.
    assert sampled.log_normalizer.mean() == pytest.approx(np.log(0.5), abs=0.1)
    edge = 9.0
    with pytest.raises(SamplingError, match="density zero"):
        sample(1, 4, 500, 0, Half)


@pytest.mark.slow
def test_the_posterior_of_two_comparable_modes_agrees_with_quadrature():
    """Eight repeats of 250, seed 0: within four standard errors, or the floor of 0.01 and 0.2."""
    rng = np.random.default_rng(3)
    centers = np.repeat([-3.6, 0.0, 3.6], 15)
    data = np.concatenate([rng.normal(centers, 1.0), rng.laplace(centers, np.sqrt(0.5))])
    exact = fit(data, method="quadrature", standardize=None, progress=False)
    run = fit(data, method=Smc(num_particles=2000), standardize=None, progress=False)
    attrs = run["smc"].attrs
    normalizer = exact["quadrature"].attrs["log_normalizer"]
    assert attrs["log_normalizer_error"] < 0.2
    assert attrs["log_normalizer"] == pytest.approx(
        normalizer, abs=max(0.05, 4 * attrs["log_normalizer_error"])
    )
    modes = find_modes(run).modes
    intervals = [mode.interval for mode in modes]
    expected, _ = mode_masses(exact, intervals, find_modes(exact).of_draws)
    for mode, mass in zip(modes, expected, strict=True):
        assert mode.mass == pytest.approx(mass, abs=max(0.01, 4 * mode.mass_error))
    assert sum(mode.mass for mode in modes) == pytest.approx(1.0)
    assert run["posterior"]["lengthscale"].shape == (1, 2000)
    assert "tempered SMC" in diagnose(run).verdict


@pytest.mark.slow
def test_the_same_seed_gives_the_same_draws():
    first, again, other = (sample(1, 2, 100, seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.z, again.z)
    assert not np.array_equal(first.z, other.z)


def test_standard_errors_are_those_of_a_mean_over_repeats():
    """Normalizers 1, 2, 3 by hand; equal repeats against NumPy's deviation with n - 1."""
    empty = np.zeros((3, 4, 1))
    result = Population(empty, empty[..., 0], np.log([1.0, 2.0, 3.0]), np.ones(3))
    attrs = result.group(empty[..., 0]).attrs
    assert attrs["log_normalizer"] == pytest.approx(np.log(2.0))
    assert attrs["log_normalizer_error"] == pytest.approx(0.5 / np.sqrt(3.0))
    fraction = np.array([[0.1, 0.9], [0.4, 0.6], [0.25, 0.75]])
    mass, error = _masses_of_repeats(fraction, np.full(3, 1 / 3), 1000)
    np.testing.assert_allclose(mass, [0.25, 0.75])
    np.testing.assert_allclose(error, fraction.std(axis=0, ddof=1) / np.sqrt(3.0))
