"""Runs for the pictures: two tiny fits, and one with two modes and a stuck chain made by hand."""

import matplotlib

matplotlib.use("Agg")

import numpy as np
import numpyro.distributions as dist
import pytest
import xarray as xr
from bke.inference import Nuts, fit

SHORT, LONG = 0.5, 3.0
CHAINS, WARMUP, DRAWS = 4, 20, 60


@pytest.fixture(scope="session")
def data():
    return np.random.default_rng(3).normal(size=(30, 1))


@pytest.fixture(scope="session")
def run(data):
    return fit(
        data,
        standardize=None,
        columns=["speed"],
        method=Nuts(num_chains=2, num_warmup=20, num_samples=10),
        seed=1,
        progress=False,
    )


@pytest.fixture(scope="session")
def plane():
    return np.random.default_rng(4).normal(size=(30, 2)) * [1.0, 100.0]


@pytest.fixture(scope="session")
def ard_run(plane):
    return fit(
        plane,
        prior=dist.Gamma(np.ones(2), np.ones(2)),
        columns=["wind", "height"],
        method=Nuts(num_chains=2, num_warmup=20, num_samples=10),
        seed=1,
        progress=False,
    )


@pytest.fixture(scope="session")
def bimodal(run):
    """Chains 0 and 1 near 0.5, 50 nats below chain 2 near 3; chain 3 stuck near 0.25."""
    rng = np.random.default_rng(0)
    centers = np.log([SHORT, SHORT, LONG, SHORT * np.exp(-0.7)])
    z = centers[:, None] + 0.02 * rng.normal(size=(CHAINS, WARMUP + DRAWS))
    grid = np.sort([*np.linspace(-4.0, 3.0, 701), np.log(SHORT), np.log(LONG)])
    smoothed = np.maximum(
        -50.0 - 150.0 * (grid - np.log(SHORT)) ** 2, -150.0 * (grid - np.log(LONG)) ** 2
    )
    raw = smoothed.copy()
    raw[::37] = -np.inf
    profile = xr.Dataset(
        {
            "value": ("grid", np.exp(grid)),
            "value_in_data_units": ("grid", np.exp(grid)),
            "log_density": ("grid", raw),
            "smoothed": ("grid", smoothed),
            "log_prior": ("grid", grid - np.exp(grid)),
        },
        coords={"unconstrained": ("grid", grid)},
        attrs={"site": "lengthscale", "smoothing": 0.1, "step": 0.01},
    )

    def draws(values):
        return xr.Dataset({"lengthscale": (("chain", "draw"), values)})

    tree = xr.DataTree.from_dict(
        {
            "/posterior": draws(np.exp(z[:, WARMUP:])),
            "/warmup_posterior": draws(np.exp(z[:, :WARMUP])),
            "/unconstrained_posterior": draws(z[:, WARMUP:]),
            "/observed_data": run["observed_data"].to_dataset(),
            "/profile": profile,
        }
    )
    tree.attrs.update(run.attrs)
    return tree


def witness_group(at, columns, seed=0, chains=CHAINS, draws=DRAWS):
    """Draws of a witness: mode 0 is about +1 where the first column is positive, mode 1 about 0."""
    rng = np.random.default_rng(seed)
    at = np.asarray(at, dtype=float)
    labels = np.repeat(np.array([0, 0, 1, -1])[:chains, None], draws, axis=1)
    values = 0.1 * rng.normal(size=(chains, draws, len(at)))
    values += np.where(labels == 0, 1.0, 0.0)[..., None] * (at[:, 0] > 0)
    return xr.DataTree(
        xr.Dataset(
            {
                "witness": (("chain", "draw", "point"), values),
                "mode": (("chain", "draw"), labels),
                "weight": (("chain", "draw"), (labels >= 0) / (labels >= 0).sum()),
            },
            coords={
                "at": (("point", "column"), at),
                "column": columns,
                "in_range": ("point", np.ones(len(at), dtype=bool)),
            },
            attrs={"noise": "clt", "weights": "chains", "seed": 0, "sizes": [10, 10]},
        ),
        name="witness",
    )


@pytest.fixture(scope="session")
def line_witness():
    return witness_group(np.linspace(-2, 2, 41)[:, None], ["speed"])


@pytest.fixture(scope="session")
def map_witness():
    x, y = np.meshgrid(np.linspace(-1, 1, 6), np.linspace(0, 500, 5), indexing="ij")
    return witness_group(np.stack([x.ravel(), y.ravel()], axis=1), ["wind", "height"])


@pytest.fixture(scope="session")
def point_witness():
    return witness_group(np.random.default_rng(2).normal(size=(12, 3)), ["a", "b", "c"])


@pytest.fixture(autouse=True)
def _pyplot_is_not_changed():
    """No picture registers a figure with pyplot or changes a setting."""
    import matplotlib.pyplot as plt

    plt.close("all")
    before = matplotlib.rcParams.copy()
    yield
    assert plt.get_fignums() == []
    assert matplotlib.rcParams.copy() == before
