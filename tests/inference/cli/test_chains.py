"""``bke chains``: NetCDF of any sampler, parameters, files and the exit status."""

import json

import arviz_base
import numpy as np
import pytest
from bke.inference import check_chains
from bke.inference.cli import app
from typer.testing import CliRunner


@pytest.fixture
def posterior(tmp_path):
    """Four chains of which one differs in one of three numbers."""
    rng = np.random.default_rng(0)
    draws = {"mu": rng.normal(size=(4, 400)), "theta": rng.normal(size=(4, 400, 2))}
    draws["mu"][2] += 0.5
    path = tmp_path / "posterior.nc"
    arviz_base.from_dict({"posterior": draws}).to_netcdf(path, engine="h5netcdf")
    return path, draws


def chains(*arguments):
    return CliRunner().invoke(app, ["chains", *map(str, arguments)])


def test_files_and_answer(posterior, tmp_path):
    path, draws = posterior
    out = tmp_path / "out"
    result = chains(path, "--json", "--out", out)
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told == json.loads((out / "chains.json").read_text())
    every = np.concatenate([draws["mu"][..., None], draws["theta"]], axis=2)
    assert told["pvalue"] == check_chains(every).pvalue
    assert told["clusters"] == [[0, 1, 3], [2]]
    assert [one["name"] for one in told["columns"] if one["differs"]] == ["mu"]
    assert (out / "chains.png").stat().st_size > 5000


@pytest.mark.slow
def test_parameters_and_exit_status(posterior):
    path, _ = posterior
    assert chains(path, "--fail").exit_code == 3
    assert chains(path, "--parameters", "theta", "--fail").exit_code == 0
    refused = chains(path, "--parameters", "tau")
    assert refused.exit_code == 1
    assert "no parameter 'tau': there are mu, theta" in refused.stderr


def test_what_is_no_posterior_is_refused(tmp_path):
    (tmp_path / "text.nc").write_text("no NetCDF")
    refused = chains(tmp_path / "text.nc")
    assert refused.exit_code == 1
    assert len(refused.stderr.strip().splitlines()) == 1
    empty = tmp_path / "prior.nc"
    arviz_base.from_dict({"prior": {"mu": np.ones((1, 50))}}).to_netcdf(empty, engine="h5netcdf")
    assert "no group named posterior" in chains(empty).stderr
