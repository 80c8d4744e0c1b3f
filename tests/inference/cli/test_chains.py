"""``bke chains``: files of any sampler, parameters, files and the exit status."""

import json

import arviz_base
import numpy as np
import pytest
import xarray as xr
from bke.inference import compare_chains
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
    assert told["pvalue"] == compare_chains(every).pvalue
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


def test_files_of_stan_and_zarr(tmp_path):
    rng, files = np.random.default_rng(1), []
    for index in range(1, 4):
        draws = rng.normal([0.6 * (index == 3), 0.0, 0.0], size=(400, 3))
        lines = ["# method = sample (Default)", "# num_samples = 400", "# num_warmup = 2"]
        lines += ["# save_warmup = 1", "# thin = 1", "lp__,mu,theta.1,theta.2"]
        lines += ["-7,1e9,0,0", "-7,1e9,0,0", "# Adaptation terminated", "# 1, 1, 1"]
        lines += [",".join(map(repr, [-7.0, *row])) for row in draws.tolist()]
        files.append(tmp_path / f"fit_{index}.csv")
        files[-1].write_text("\n".join([*lines, "#  Elapsed Time: 1 seconds", ""]))
    result = chains(*files, "--json", "--fail")
    assert result.exit_code == 3
    told = json.loads(result.stdout)
    assert told["sources"] == [str(path) for path in files]
    assert told["clusters"] == [["fit_1.csv", "fit_2.csv"], ["fit_3.csv"]]
    assert [one["name"] for one in told["columns"] if one["differs"]] == ["mu"]
    assert chains(*files, "--parameters", "theta", "--fail").exit_code == 0
    files[1].write_text(files[1].read_text().replace("# 1, 1, 1\n", "# 1, 1, 1\n-7,x,0,0\n", 1))
    files[1].write_text(files[1].read_text().replace("num_samples = 400", "num_samples = 401"))
    refused = chains(*files)
    assert refused.exit_code == 1
    assert "fit_2.csv, line 11, column mu: 'x' is not a number" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_store_of_zarr_is_read_and_not_written_into(tmp_path):
    pytest.importorskip("zarr")
    path = tmp_path / "fit.zarr"
    draws = {"mu": np.random.default_rng(2).normal(size=(3, 200))}
    arviz_base.from_dict({"posterior": draws}).to_zarr(path, consolidated=False)
    told = json.loads(chains(path, "--json").stdout)
    assert told["pvalue"] == compare_chains(draws["mu"]).pvalue
    refused = chains(path, "--out", path / "posterior")
    assert refused.exit_code == 1
    assert "which is read" in refused.stderr
    few = CliRunner().invoke(
        app, ["thin", str(path), "--to", "20", "--out", str(tmp_path / "few"), "--quiet"]
    )
    assert few.exit_code == 0
    assert xr.load_dataset(tmp_path / "few" / "thinned.nc", group="posterior").sizes["draw"] == 20
