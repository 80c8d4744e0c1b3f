"""Runs and densities that several files of tests read."""

import numpy as np
import pytest
from bke.inference import Nuts, fit


@pytest.fixture(scope="session")
def nuts_run():
    """Two short chains of NUTS given 40 skewed rows of one column; not to be changed."""
    X = np.random.default_rng(0).gamma(2.0, size=(40, 1))
    method = Nuts(num_chains=2, num_warmup=20, num_samples=10)
    return fit(X, method=method, seed=3, progress=False)
