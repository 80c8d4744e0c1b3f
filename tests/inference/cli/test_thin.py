"""``bke thin``: draws that ArviZ reads, with their weights and places."""

import json

import arviz_base
import numpy as np
import pytest
import xarray as xr
from bke.inference import thin
from bke.inference.cli import app
from typer.testing import CliRunner


@pytest.fixture
def posterior(tmp_path):
    rng = np.random.default_rng(0)
    draws = {"mu": rng.normal(size=(3, 60)), "theta": rng.normal(size=(3, 60, 2))}
    # Called as a dimension of draws side by side could be.
    tree = arviz_base.from_dict({"posterior": draws}, dims={"theta": ["row"]})
    tree.to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    return tmp_path / "posterior.nc", draws


def thinned(*arguments):
    return CliRunner().invoke(app, ["thin", *map(str, arguments)])


def test_the_chosen_draws_are_written(posterior, tmp_path):
    path, draws = posterior
    out = tmp_path / "out"
    result = thinned(path, "--to", 12, "--json", "--out", out)
    assert result.exit_code == 0, result.stderr
    told = json.loads(result.stdout)
    every = np.concatenate([draws["mu"][..., None], draws["theta"]], axis=2)
    expected = thin(every, 12)
    assert told["indices"] == expected.indices.tolist()
    tree = xr.open_datatree(out / "thinned.nc", engine="h5netcdf")
    stats = tree["sample_stats"]
    chain, draw = (stats[f"original_{name}"].values[0] for name in ("chain", "draw"))
    assert tree["posterior"]["mu"].dims == ("chain", "draw")
    np.testing.assert_array_equal(tree["posterior"]["mu"].values[0], draws["mu"][chain, draw])
    np.testing.assert_array_equal(tree["posterior"]["theta"].values[0], draws["theta"][chain, draw])
    np.testing.assert_allclose(stats["weight"].values[0], expected.weights)


def test_parameters_and_errors(posterior):
    path, draws = posterior
    result = thinned(path, "--to", 5, "--parameters", "mu", "--json")
    assert json.loads(result.stdout)["indices"] == thin(draws["mu"][..., None], 5).indices.tolist()
    refused = thinned(path, "--to", 500)
    assert refused.exit_code == 1
    assert "count must be from 1 to 179" in refused.stderr
