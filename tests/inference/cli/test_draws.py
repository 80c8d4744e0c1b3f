"""``bke chains`` and ``thin``: files of any sampler, parameters, files and the exit status."""

import json

import arviz_base
import numpy as np
import pytest
import xarray as xr
from bke.inference import compare_chains, thin


def write_tree(path, **groups):
    tree = arviz_base.from_dict(groups, dims={"theta": ["row"]})  # as a dimension of all draws
    tree.to_netcdf(path, engine="h5netcdf")
    return path


@pytest.fixture
def draws():
    """Four chains of which one differs in one of three numbers."""
    rng = np.random.default_rng(0)
    draws = {"mu": rng.normal(size=(4, 400)), "theta": rng.normal(size=(4, 400, 2))}
    draws["mu"][2] += 0.5
    return draws


@pytest.fixture
def path(draws, tmp_path):
    return write_tree(tmp_path / "posterior.nc", posterior=draws)


def joined(draws):
    return np.concatenate([draws["mu"][..., None], draws["theta"]], axis=2)


def differing(summary):
    return [column["name"] for column in summary["columns"] if column["differs"]]


def test_chains_are_compared(bke_json, path, draws, tmp_path):
    out = tmp_path / "out"
    summary = bke_json("chains", path, "--out", out)
    assert summary == json.loads((out / "chains.json").read_text())
    assert summary["pvalue"] == compare_chains(joined(draws)).pvalue
    assert summary["clusters"] == [[0, 1, 3], [2]]
    assert differing(summary) == ["mu"]
    assert (out / "chains.png").stat().st_size > 5000


def test_draws_are_chosen(bke_json, path, draws, tmp_path):
    """ArviZ reads them, with their weights and their original chains and draws."""
    out = tmp_path / "out"
    expected = thin(joined(draws), 12)
    assert bke_json("thin", path, "--to", 12, "--out", out)["indices"] == expected.indices.tolist()
    tree = xr.open_datatree(out / "thinned.nc", engine="h5netcdf")
    stats = tree["sample_stats"]
    chain, draw = (stats[f"original_{name}"].values[0] for name in ("chain", "draw"))
    assert tree["posterior"]["mu"].dims == ("chain", "draw")
    for name, values in draws.items():
        np.testing.assert_array_equal(tree["posterior"][name].values[0], values[chain, draw])
    np.testing.assert_allclose(stats["weight"].values[0], expected.weights)


def test_parameters_and_exit_status(bke, bke_json, path, draws):
    bke("chains", path, "--fail", status=3)
    bke("chains", path, "--parameters", "theta", "--fail")
    indices = bke_json("thin", path, "--to", 5, "--parameters", "mu")["indices"]
    assert indices == thin(draws["mu"][..., None], 5).indices.tolist()


def test_invalid_draws(bke, path, tmp_path):
    (tmp_path / "text.nc").write_text("no NetCDF")
    prior = write_tree(tmp_path / "prior.nc", prior={"mu": np.ones((1, 50))})
    for arguments, message in (
        (("chains", path, "--parameters", "teta"), "there are mu, theta; did you mean 'theta'?"),
        (("chains", tmp_path / "text.nc"), "text.nc"),
        (("chains", prior), "no group named posterior"),
        (("thin", path, "--to", 5000), "count must be from 1 to 1599"),
    ):
        assert message in bke(*arguments, status=1).stderr


def test_files_of_stan(bke, bke_json, tmp_path):
    rng, files = np.random.default_rng(1), []
    for index in range(1, 4):
        draws = rng.normal([0.6 * (index == 3), 0.0, 0.0], size=(400, 3))
        lines = ["# method = sample (Default)", "# num_samples = 400", "# num_warmup = 2"]
        lines += ["# save_warmup = 1", "# thin = 1", "lp__,mu,theta.1,theta.2"]
        lines += ["-7,1e9,0,0", "-7,1e9,0,0", "# Adaptation terminated", "# 1, 1, 1"]
        lines += [",".join(map(repr, [-7.0, *row])) for row in draws.tolist()]
        files.append(tmp_path / f"fit_{index}.csv")
        files[-1].write_text("\n".join([*lines, "#  Elapsed Time: 1 seconds", ""]))
    summary = bke_json("chains", *files, "--fail", status=3)
    assert summary["sources"] == [str(path) for path in files]
    assert summary["clusters"] == [["fit_1.csv", "fit_2.csv"], ["fit_3.csv"]]
    assert differing(summary) == ["mu"]
    bke("chains", *files, "--parameters", "theta", "--fail")
    text = files[1].read_text().replace("# 1, 1, 1\n", "# 1, 1, 1\n-7,x,0,0\n", 1)
    files[1].write_text(text.replace("num_samples = 400", "num_samples = 401"))
    message = "fit_2.csv, line 11, column mu: 'x' is not a number"
    assert message in bke("chains", *files, status=1).stderr


def test_a_store_of_zarr_is_read_and_not_modified(bke, bke_json, tmp_path):
    pytest.importorskip("zarr")
    path, out = tmp_path / "fit.zarr", tmp_path / "few"
    draws = {"mu": np.random.default_rng(2).normal(size=(3, 200))}
    arviz_base.from_dict({"posterior": draws}).to_zarr(path, consolidated=False)
    assert bke_json("chains", path)["pvalue"] == compare_chains(draws["mu"]).pvalue
    refused = bke("chains", path, "--out", path / "posterior", status=1)
    assert "which is read" in refused.stderr
    bke("thin", path, "--to", 20, "--out", out, "--quiet")
    assert xr.load_dataset(out / "thinned.nc", group="posterior").sizes["draw"] == 20
