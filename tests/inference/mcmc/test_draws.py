"""Draws of files and of other programs: CSV files of CmdStan, Zarr, an MCMC of NumPyro, arrays."""

import json
import pickle
import shutil

import arviz_base
import jax
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from bke.inference import InputError, compare_chains, score_of
from bke.inference.mcmc.draws import as_chains, read_draws

SAMPLER = "lp__,accept_stat__,stepsize__,treedepth__,n_leapfrog__,divergent__,energy__"
DRAWS = np.random.default_rng(0).normal(size=(4, 60, 7))
#: Column-major, as CmdStan writes matrices; a tuple of a number and a vector.
NAMES = ("mu", "theta.1.1", "theta.2.1", "theta.1.2", "theta.2.2", "pair:1", "pair:2.1")


def write_stan(path, draws, names=NAMES, warmup=None, **settings):
    """A file as CmdStan 2.35 writes it."""
    saved = warmup is not None and settings.get("algorithm") != "fixed_param"
    header = {
        "method": "sample",
        "num_samples": len(draws),
        "num_warmup": len(warmup) if saved else 1000,
        "save_warmup": "true" if saved else "false",
        "thin": 1,
        "algorithm": "hmc",
        **settings,
    }
    lines = ["# stan_version_major = 2", "# model = a_model"]
    lines += [f"#   {name} = {value} (Default)" for name, value in header.items()]
    lines += ["#   metric_file =  (Default)", f"{SAMPLER},{','.join(names)}"]
    lines += rows(() if warmup is None else warmup)
    adapted = ["# Adaptation terminated", "# Step size = 0.8", "# Diagonal elements:", "# 1, 2"]
    lines += adapted if header["algorithm"] == "hmc" else []
    lines += [*rows(draws), "# ", "#  Elapsed Time: 0.01 seconds (Warm-up)", "# "]
    path.write_text("\n".join(lines) + "\n")
    return path


def rows(draws):
    return [",".join(map(repr, [-7.5, 1.0, 0.8, 2, 3, 0, 8.0, *map(float, row)])) for row in draws]


@pytest.fixture
def files(tmp_path):
    return [
        write_stan(tmp_path / f"fit_{index}.csv", draws) for index, draws in enumerate(DRAWS, 1)
    ]


def test_parameters_of_stan_have_their_shapes_and_its_indices(files):
    posterior = read_draws(files)
    assert set(posterior.data_vars) == {"mu", "theta", "pair:1", "pair:2"}
    np.testing.assert_array_equal(posterior["mu"], DRAWS[:, :, 0])
    np.testing.assert_array_equal(posterior["theta"][..., 1, 0], DRAWS[:, :, 2])
    last = posterior["theta"].sel(theta_dim_0=1, theta_dim_1=2)
    np.testing.assert_array_equal(last, DRAWS[:, :, 3])
    np.testing.assert_array_equal(posterior["pair:2"][..., 0], DRAWS[:, :, 6])
    result, expected = compare_chains(files), compare_chains(DRAWS)
    assert result.pvalue == expected.pvalue
    assert result.names[:3] == ("mu", "theta[1, 1]", "theta[1, 2]")
    assert result.labels == ("fit_1.csv", "fit_2.csv", "fit_3.csv", "fit_4.csv")
    assert compare_chains(str(files[0])).sizes == (1, 60)


@pytest.mark.parametrize(
    ("warmup", "thin", "settings"),
    [
        (None, 1, {}),
        (40, 1, {}),
        (40, 1, {"save_warmup": 1}),  # before CmdStan 2.33
        (40, 3, {"num_warmup": 118, "num_samples": 179}),  # rounded up
        (40, 1, {"algorithm": "static"}),  # without adaptation no comment marks its end
        (None, 1, {"algorithm": "fixed_param", "save_warmup": "true"}),
    ],
)
def test_draws_of_the_warmup_are_left_out(tmp_path, warmup, thin, settings):
    draws = None if warmup is None else DRAWS[0, :warmup] + 100.0
    path = write_stan(tmp_path / "fit.csv", DRAWS[1], warmup=draws, thin=thin, **settings)
    np.testing.assert_array_equal(read_draws([path])["mu"], DRAWS[1:2, :, 0])


def swap(old, new):
    return lambda text: text.replace(old, new)


def cell(value):
    """Change theta[2, 1] in line 21."""

    def change(text):
        lines = text.splitlines(keepends=True)
        fields = lines[20].split(",")
        lines[20] = ",".join([*fields[:9], value, *fields[10:]])
        return "".join(lines)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda text: "", r"fit_2.csv has no comments of CmdStan"),
        (lambda text: "mu,tau\n1,2\n3", r"fit_2.csv has no comments of CmdStan, .* array"),
        (swap("= sample", "= variational"), "fit_2.csv was written by CmdStan's method 'variat"),
        (
            swap("num_samples = 60", "num_samples = 1000"),
            r"fit_2.csv has 60 rows, 0 of them before .* 1000 draws: wait until",
        ),
        (
            swap("save_warmup = false", "save_warmup = true"),
            r"fit_2.csv has 60 rows, .* say 1000 of the warmup",
        ),
        (swap("num_samples", "samples"), "fit_2.csv has no whole numbers for thin, num_samples"),
        (swap("thin = 1", "thin = 0"), "fit_2.csv has no whole numbers"),
        (lambda text: text[: text.rindex("# \n#  El") - 9], r"fit_2.csv, line 74 is incomplete"),
        (cell("0.1,0.2"), r"line 21 .* has 15 numbers, not 14"),
        (cell("0.1x"), "fit_2.csv, line 21, column theta.2.1: '0.1x' is not a number"),
        (cell(""), "fit_2.csv, line 21, column theta.2.1: ''"),
        (
            cell("nan"),
            r"not finite, .* in chain fit_2.csv, draw 6 of theta\[2, 1\] .* drop that",
        ),
        (swap("theta.1.1", "mu"), "fit_2.csv has no parameters, or duplicate names"),
        (
            swap("energy__,mu", "energy__,nu"),
            r"fit_1.csv has the parameter mu, but .*fit_2.csv does not: pass chains of one model",
        ),
    ],
)
def test_incomplete_or_inconsistent_files_of_stan_are_refused(files, change, expected):
    files[1].write_text(change(files[1].read_text()))
    with pytest.raises(InputError, match=expected) as refused:
        compare_chains(files)
    assert "\n" not in str(refused.value)


def test_incompatible_files_are_refused(files, tmp_path):
    short = write_stan(tmp_path / "short.csv", DRAWS[0, :30])
    draw = write_stan(tmp_path / "draw.csv", DRAWS[0, :, :1], ["draw"])
    (tmp_path / "folder").mkdir()
    for paths, expected in (
        ([*files, short], "short.csv has 30 draws, but .*fit_1.csv has 60"),
        ([files[0], files[1], files[0]], "fit_1.csv is given twice"),
        ([*files, tmp_path / "fit_9.csv"], "fit_9.csv does not exist"),
        ([files[0], tmp_path / "fit.nc"], "several files must be the CSV files of CmdStan"),
        ([draw], "has a parameter 'draw'"),
        ([tmp_path / "folder"], "folder is a folder: pass"),
        ([tmp_path / "fit.nc"], "fit.nc: no such file"),
        ([tmp_path / "fit.zarr"], "fit.zarr: no such file"),
    ):
        with pytest.raises(InputError, match=expected):
            read_draws(paths)


def test_files_of_equal_names_are_labeled_by_their_paths(tmp_path):
    paths = [tmp_path / name / "output.csv" for name in "ab"]
    for path, draws in zip(paths, DRAWS[:2], strict=True):
        path.parent.mkdir()
        write_stan(path, draws)
    assert compare_chains(paths).labels == tuple(map(str, paths))


# Zarr


class Touch:
    """Unpickled, it writes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def write_zarr(path, **options):
    pytest.importorskip("zarr")
    tree = arviz_base.from_dict({"posterior": {"mu": DRAWS[..., 0], "theta": DRAWS[..., 1:]}})
    tree.to_zarr(path, **options)
    return path


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("options", [{}, {"zarr_format": 2}, {"consolidated": False}], ids=str)
def test_a_tree_of_zarr_is_read(tmp_path, options):
    result = compare_chains(write_zarr(tmp_path / "fit.zarr", **options))
    assert result.pvalue == compare_chains(DRAWS).pvalue
    assert result.names[:2] == ("mu", "theta[0]")


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
def test_damaged_stores_are_refused(tmp_path):
    path = write_zarr(tmp_path / "fit.zarr")
    shutil.rmtree(path / "posterior" / "mu" / "c")
    with pytest.raises(InputError, match="not finite"):
        compare_chains(path)
    metadata = path / "posterior" / "mu" / "zarr.json"
    complete = metadata.read_text()
    grid = {"name": "regular", "configuration": {"chunk_shape": [4, 10**9]}}
    metadata.write_text(
        json.dumps(json.loads(complete) | {"shape": [4, 10**12], "chunk_grid": grid})
    )
    with pytest.raises(InputError, match=r"claims to hold 29802.3 GiB"):
        compare_chains(path)
    metadata.write_text(complete[:50])
    with pytest.raises(InputError, match=r"fit.zarr is not a tree of draws saved as Zarr"):
        compare_chains(path)
    shutil.rmtree(path / "posterior")
    with pytest.raises(InputError, match=r"fit.zarr has no group named posterior"):
        compare_chains(path)
    shutil.rmtree(path)
    path.mkdir()
    with pytest.raises(InputError, match=r"fit.zarr is not a tree of draws saved as Zarr"):
        compare_chains(path)


PICKLE = {"id": "pickle", "protocol": 5}


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("name", ["chain", "mu"])
@pytest.mark.parametrize(
    "entries",
    [
        {"compressor": PICKLE},
        {"filters": [PICKLE]},
        {"filters": [PICKLE], "dtype": "|O", "fill_value": None},
        {"filters": [{"id": "vlen-utf8"}, PICKLE], "dtype": "|O", "fill_value": None},
        {"filters": [{"id": "vlen-utf8"}], "dtype": "|O", "fill_value": None, "compressor": PICKLE},
    ],
)
def test_pickled_chunks_are_not_read(tmp_path, name, entries):
    path = write_zarr(tmp_path / "fit.zarr", zarr_format=2, consolidated=False)
    array, marker = path / "posterior" / name, tmp_path / "ran"
    metadata = json.loads((array / ".zarray").read_text()) | {"compressor": None} | entries
    (array / ".zarray").write_text(json.dumps(metadata))
    for chunk in array.iterdir():
        if not chunk.name.startswith("."):
            chunk.write_bytes(pickle.dumps(Touch(marker)))
    with pytest.raises(InputError, match=r"not a tree of draws|holds pickled objects"):
        compare_chains(path)
    assert not marker.exists()


# NumPyro


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0).expand([2]).to_event())
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    numpyro.deterministic("twice", 2.0 * tau)
    numpyro.sample("y", dist.Normal(mu[0] + mu[1], tau), obs=y)


Y = np.array([0.3, -0.2, 0.8])


@pytest.fixture(scope="module")
def mcmc():
    kernel = numpyro.infer.NUTS(model)
    options = {"num_warmup": 100, "num_samples": 150, "num_chains": 2, "progress_bar": False}
    sampler = numpyro.infer.MCMC(kernel, chain_method="vectorized", **options)
    with pytest.raises(InputError, match="no draws after its warmup: call its run"):
        compare_chains(sampler)
    sampler.warmup(jax.random.key(0), Y, collect_warmup=True)
    with pytest.raises(InputError, match="no draws after its warmup: call its run"):
        compare_chains(sampler)
    sampler.run(jax.random.key(1), Y)
    return sampler


def test_an_mcmc_of_numpyro_is_checked_as_its_tree(mcmc):
    result, expected = (compare_chains(draws) for draws in (mcmc, arviz_base.from_numpyro(mcmc)))
    assert result.sizes == (2, 150)
    assert set(result.names) == {"mu[0]", "mu[1]", "tau", "twice"} == set(expected.names)
    mu = mcmc.get_samples(group_by_chain=True)["mu"]
    np.testing.assert_array_equal(result.draws[:, :, result.names.index("mu[1]")], mu[:, :, 1])
    with_score = compare_chains(mcmc, score=score_of(model, Y))
    assert set(with_score.names) == {"mu[0]", "mu[1]", "tau"}
    assert with_score.log_integral is not None


def test_draws_of_a_density_without_sites_are_refused():
    kernel = numpyro.infer.NUTS(potential_fn=lambda z: 0.5 * (z**2).sum())
    sampler = numpyro.infer.MCMC(kernel, num_warmup=20, num_samples=20, progress_bar=False)
    sampler.run(jax.random.key(0), init_params=np.zeros(2))
    with pytest.raises(InputError, match="no names: pass get_samples"):
        compare_chains(sampler)


# Arrays


def test_an_array_of_a_single_parameter_is_chains_and_draws():
    expected = compare_chains(DRAWS[:, :, :1], columns=["mu"])
    for draws in (DRAWS[:, :, 0], DRAWS[:, :, 0].tolist(), tuple(DRAWS[:, :, 0])):
        result = compare_chains(draws, columns=["mu"])
        assert result.to_dict() == expected.to_dict()


SINGLE_CHAIN = r"np.asarray\(draws\)\[None\] is one chain of"


@pytest.mark.parametrize(
    ("draws", "expected"),
    [
        (
            DRAWS[0],
            rf"shape \(60, 7\): {SINGLE_CHAIN} 7 parameters, "
            r"np.asarray\(draws\).T is 7 chains of one parameter",
        ),
        (DRAWS[:, :4, 0], r"fewer chains than draws, got the shape \(4, 4\)"),
        (DRAWS[0, :, 0], rf"shape \(60,\): {SINGLE_CHAIN} 1 parameter$"),
        ([DRAWS[0, :, 0], DRAWS[0, :50, 0]], "different lengths: 60, 50"),
        # The columns of a data frame are parameters, and 60 are more than there are rows.
        (pd.DataFrame(DRAWS[:, :, 0]), r"one chain of 60 parameters"),
    ],
)
def test_arrays_that_may_be_something_else_are_refused(draws, expected):
    with pytest.raises(InputError, match=expected):
        compare_chains(draws)


def test_the_remedies_of_messages_are_accepted():
    assert compare_chains(np.asarray(DRAWS[0, :, 0])[None]).sizes == (1, 60)
    assert compare_chains(np.asarray(DRAWS[0])[None]).sizes == (1, 60)
    assert compare_chains(np.asarray(DRAWS[:, :, 0].T).T).sizes == (4, 60)


def test_a_data_array_is_read_by_the_names_of_its_dimensions():
    array = xr.DataArray(DRAWS[..., :1], dims=("chain", "draw", "p"), name="mu")
    expected = as_chains(array).values
    np.testing.assert_array_equal(expected, DRAWS[..., :1])
    np.testing.assert_array_equal(as_chains(array.transpose("draw", "p", "chain")).values, expected)


def test_draws_that_are_no_numbers_are_refused():
    posterior = xr.Dataset({"mu": (("chain", "draw"), DRAWS[..., 0])})
    posterior["t"] = (("chain", "draw"), np.full((4, 60), np.datetime64("2024-01-01", "ns")))
    with pytest.raises(InputError, match=r"'t' are datetime64\[ns\].*drop_vars\('t'\)"):
        as_chains(posterior)
