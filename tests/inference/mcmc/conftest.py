"""Chains whose autocorrelation is known."""

import numpy as np
import pytest
from scipy.signal import lfilter


@pytest.fixture(scope="session")
def autoregression():
    """Make chains (C, n, D) of independent standard normal columns of autocorrelation phi."""

    def sample_chains(chains, draws, phi, seed=0, columns=1):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=(chains, draws, columns)) * np.sqrt(1.0 - phi**2)
        noise[:, 0] = rng.normal(size=(chains, columns))
        return lfilter([1.0], [1.0, -phi], noise, axis=1)

    return sample_chains
