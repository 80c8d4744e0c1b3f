import jax
import numpy as np
import pytest
from bke.inference import (
    InputError,
    plot_embedding_posterior,
    plot_empirical_embedding,
    plot_prior_draws,
)
from bke.models import (
    Gaussian,
    SquaredExponential,
    embedding_posterior,
    empirical_embedding,
    gaussian_mixture_embedding,
)

KERNEL = SquaredExponential(0.4)
AT = np.linspace(-2.0, 2.0, 25)


def band_of(collection, at):
    """Lowest and highest vertex of a filled band at every point."""
    vertices = collection.get_paths()[0].vertices
    columns = [vertices[np.isclose(vertices[:, 0], x), 1] for x in at]
    return np.array([c.min() for c in columns]), np.array([c.max() for c in columns])


@pytest.mark.slow
def test_prior_draws_have_the_covariance_of_the_smoothed_kernel():
    at = np.linspace(0.0, 1.0, 4)
    (ax,) = plot_prior_draws(KERNEL, at, draws=2000, seed=3).axes
    values = np.array([line.get_ydata() for line in ax.lines[:2000]])
    expected = KERNEL.smoothed("unit", 1)(at)
    # Standard error of a covariance of 2000 draws of unit variance: at most sqrt(2 / 2000) = 0.032.
    np.testing.assert_allclose(np.cov(values.T), expected, atol=5 * 0.032)


def test_prior_draws_are_reproducible_and_follow_the_measure():
    first, second = (plot_prior_draws(KERNEL, AT, seed=1).axes[0].lines for _ in range(2))
    assert len(first) == 3 + 1  # and the zero line
    np.testing.assert_array_equal(first[0].get_ydata(), second[0].get_ydata())
    narrow = plot_prior_draws(KERNEL, AT, seed=1, measure=Gaussian(0.1)).axes[0].lines[0]
    assert abs(narrow.get_ydata()[[0, -1]]).max() < 1e-3


def test_empirical_embedding_and_its_rug(data):
    (ax,) = plot_empirical_embedding(data, KERNEL, AT, column="speed").axes
    np.testing.assert_allclose(ax.lines[0].get_ydata(), empirical_embedding(data, KERNEL, AT))
    (rug,) = ax.collections
    np.testing.assert_array_equal([s[0, 0] for s in rug.get_segments()], data[:, 0])
    assert ax.get_xlabel() == "speed"


@pytest.mark.parametrize("noise", ["clt", 0.1])
@pytest.mark.one_in(2)
def test_posterior_band_is_that_of_the_gaussian(data, noise):
    (ax,) = plot_embedding_posterior(data, KERNEL, AT, noise=noise, level=0.9).axes
    posterior = embedding_posterior(data, KERNEL, AT, noise=noise)
    half = 1.6448536269514722 * np.sqrt(np.diagonal(posterior.covariance))
    lower, upper = band_of(ax.collections[0], AT)
    np.testing.assert_allclose(lower, posterior.mean - half, atol=1e-12)
    np.testing.assert_allclose(upper, posterior.mean + half, atol=1e-12)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), posterior.mean)


def test_truth_may_be_a_function_or_values(data):
    def truth(at):
        return gaussian_mixture_embedding([1.0], [0.0], [1.0], 0.4, at)

    back = AT[::-1]
    for at, argument in ((AT, truth), (AT, truth(AT)), (back, truth(back))):
        (ax,) = plot_embedding_posterior(data, KERNEL, at, truth=argument).axes
        (line,) = [line for line in ax.lines if line.get_label() == "true embedding"]
        np.testing.assert_allclose(line.get_ydata(), truth(AT))
    with pytest.raises(InputError, match="truth has 3 values for 25 points"):
        plot_embedding_posterior(data, KERNEL, AT, truth=[0.0, 0.0, 0.0])


def test_default_line_extends_beyond_the_data(data):
    (ax,) = plot_embedding_posterior(data, KERNEL).axes
    low, high = ax.get_xlim()
    assert low < data.min() < data.max() < high


def test_bad_input_is_named(plane, data):
    with pytest.raises(InputError, match="one column, and X has 2"):
        plot_empirical_embedding(plane, KERNEL)
    with pytest.raises(InputError, match="at must be finite points of a line"):
        plot_prior_draws(KERNEL, [0.0, np.nan])
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        plot_embedding_posterior(data, KERNEL, level=80)
    with pytest.raises(InputError, match="draws"):
        plot_prior_draws(KERNEL, AT, draws=0)


def test_sixty_four_bits_are_left_as_they_were(data):
    before = jax.config.jax_enable_x64
    plot_prior_draws(KERNEL, AT)
    plot_embedding_posterior(data, KERNEL, AT)
    assert jax.config.jax_enable_x64 == before
