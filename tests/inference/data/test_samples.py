import numpy as np
import pytest
from bke.inference.core.errors import InputError
from bke.inference.data.samples import normal_laplace, normal_laplace_density
from scipy import integrate, stats


def test_shapes_and_seed():
    P, Q = normal_laplace()
    assert P.shape == Q.shape == (300, 1)
    assert P.dtype == Q.dtype == np.float64
    again, _ = normal_laplace(1)
    other, _ = normal_laplace(0)
    np.testing.assert_array_equal(P, again)
    assert not np.array_equal(P, other)
    assert normal_laplace(per_component=7)[1].shape == (21, 1)
    for bad in (0, 2.5):
        with pytest.raises(InputError, match="per_component"):
            normal_laplace(per_component=bad)


def test_samples_follow_their_densities():
    # Fixed counts make the Kolmogorov-Smirnov distance smaller than for iid draws, never larger.
    P, Q = (sample[:, 0] for sample in normal_laplace(seed=5, per_component=20_000))
    centers = np.array([-3.0, 0.0, 3.0])

    def p_cdf(x):
        return stats.norm.cdf(x[:, None], centers).mean(axis=1)

    def q_cdf(x):
        return stats.laplace.cdf(x[:, None], centers, np.sqrt(0.5)).mean(axis=1)

    # 1.95 / sqrt(n) is passed by one iid sample in 1000; the mixtures differ by 0.025
    limit = 1.95 / np.sqrt(60_000)
    assert stats.kstest(P, p_cdf).statistic < limit
    assert stats.kstest(Q, q_cdf).statistic < limit
    assert stats.kstest(P, q_cdf).statistic > 2 * limit
    assert stats.kstest(Q, p_cdf).statistic > 2 * limit


def test_counts_per_component_are_fixed():
    # The mean of the centers is exactly 0, so the mean varies as 1/n and not as 7/n.
    means = [normal_laplace(seed)[0].mean() for seed in range(200)]
    assert np.var(means) * 300 == pytest.approx(1.0, rel=0.4)  # iid draws: 7; 4 standard errors


def test_rows_are_shuffled():
    for sample in normal_laplace():
        blocks = sample.reshape(3, 100).mean(axis=1)
        assert np.all(np.abs(blocks) < 4 * np.sqrt(7 / 100))  # unshuffled: -3, 0, 3


def test_density():
    x = np.linspace(-25, 25, 100_001)
    p, q = normal_laplace_density(x)
    assert p.shape == q.shape == x.shape
    for density in (p, q):
        assert integrate.simpson(density, x=x) == pytest.approx(1.0, abs=1e-7)
        assert integrate.simpson(x**2 * density, x=x) == pytest.approx(7.0, abs=1e-6)
    np.testing.assert_allclose(p, stats.norm.pdf(x[:, None], [-3, 0, 3]).mean(axis=1), rtol=1e-12)
    laplace = stats.laplace.pdf(x[:, None], [-3, 0, 3], np.sqrt(0.5)).mean(axis=1)
    np.testing.assert_allclose(q, laplace, rtol=1e-12)
    np.testing.assert_array_equal(normal_laplace_density(x[:, None])[0], p)
