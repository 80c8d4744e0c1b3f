"""Rows of one column of a large file give the posterior of the same rows in memory."""

import functools

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import InputError, Nuts, Quadrature, diagnose, fit, open_blocks, open_rows
from bke.inference.data.units import Units
from bke.inference.sampling import out_of_core
from bke.inference.sampling.binned_column import BinnedColumn, ColumnDensity
from bke.inference.sampling.record import read_record
from bke.inference.sampling.run import units_of
from bke.models import Matern

OPTIONS = {"method": Quadrature(tolerance=0.05, num_samples=200), "progress": False}


@functools.cache
def data():
    """Two humps, a tail, and one row far out."""
    rng = np.random.default_rng(1)
    humps = np.where(rng.random(7600) < 0.3, 4.0, 0.0) + rng.normal(size=7600)
    return np.concatenate([humps, rng.standard_t(4, size=399), [40.0]])[:, None]


@functools.cache
def in_memory():
    return fit(data(), **OPTIONS)


@pytest.fixture
def coarse(monkeypatch):
    """Bins so wide that most have nodes, few rows to a chunk, and nothing held."""
    monkeypatch.setattr(BinnedColumn, "bins_per_deviation", 2**6)
    monkeypatch.setattr(out_of_core, "chunk_size", lambda landmarks, dimension: 2801)
    monkeypatch.setattr(BinnedColumn, "chunk_rows", 2801)
    monkeypatch.setattr(out_of_core, "MAX_ROWS_IN_MEMORY", 400)


def cut(X, at):
    return np.split(X, at)


@pytest.mark.slow
def test_the_posterior_is_that_of_rows_in_memory(tmp_path, coarse):
    np.save(tmp_path / "rows.npy", data())
    expected, streamed = in_memory(), fit(open_rows(tmp_path / "rows.npy"), **OPTIONS)
    assert streamed.attrs["points"] < 0.5 * len(data())
    assert streamed.attrs["density_error"] < 1e-4
    lengthscales = [run["posterior"]["lengthscale"] for run in (expected, streamed)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-9)
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (expected, streamed)]
    assert abs(logs[0] - logs[1]) < 1e-4
    first, second = (read_record(run.attrs) for run in (streamed, expected))
    assert first["data_sha256"] == second["data_sha256"]
    assert "X" not in streamed["observed_data"]
    assert str(diagnose(streamed)) == str(diagnose(expected))


@pytest.mark.slow
def test_blocks_of_any_size_give_the_same_digits(coarse):
    X = data()
    runs = []
    for at in ([11, 12, 6000], range(400, len(X), 400)):
        run = fit(open_blocks(iter(cut(X, at))), **OPTIONS)
        runs.append((run["posterior"]["lengthscale"].values, run["quadrature"]["log_density"]))
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(runs[0][0], in_memory()["posterior"]["lengthscale"], rtol=1e-9)


@pytest.mark.slow
def test_rounded_rows(coarse):
    """Noise of the dither is that of rows in memory."""
    X = np.round(data()[:7600], 3)
    expected, streamed = fit(X, **OPTIONS), fit(open_blocks([X]), **OPTIONS)
    assert list(units_of(streamed).dither) == list(units_of(expected).dither) == [0.001]
    lengthscales = [run["posterior"]["lengthscale"] for run in (expected, streamed)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-9)


@pytest.mark.slow
def test_a_random_noise_variance(coarse):
    X = data()[:3000]
    rough = Quadrature(tolerance=1.0, num_samples=100)
    options = {**OPTIONS, "noise_variance": dist.Uniform(0.05, 0.5), "method": rough}
    expected, streamed = (fit(rows, **options) for rows in (X, open_blocks([X])))
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (expected, streamed)]
    # Rounding decides what so rough a quadrature refines.
    errors = [run["quadrature"].attrs["log_normalizer_error"] for run in (expected, streamed)]
    assert max(errors) <= 1.0
    assert abs(logs[0] - logs[1]) < sum(errors)
    for name in ("lengthscale", "noise_variance"):
        first, second = (run["posterior"][name].values.mean() for run in (expected, streamed))
        np.testing.assert_allclose(first, second, rtol=0.05)


@pytest.mark.slow
def test_small_files_are_read_into_memory():
    X = data()[:600]
    method = Nuts(num_chains=2, num_warmup=20, num_samples=4)
    runs = [fit(rows, method=method, progress=False) for rows in (X, open_blocks([X]))]
    lengthscales = [run["posterior"]["lengthscale"].values for run in runs]
    np.testing.assert_array_equal(*lengthscales)
    assert "source" in runs[1].attrs


def test_points_represent_the_rows(coarse):
    """Sums of a smooth function over points are those over rows, whatever is kept."""
    x = data()[:, 0]
    column = BinnedColumn(
        open_blocks([x]), Units(np.ones(1), np.zeros(1), 0, ("x",)), 2.0, progress=False
    )

    def smooth(x):
        return np.exp(-0.5 * (x - 0.3) ** 2) + np.sin(x)

    third = np.arange(len(column.stored)) % 3 == 0
    for bins in (~third & third, third, ~third):
        column.store(bins)
        points = column.points()
        assert len(points.x) == column.size
        assert np.all(np.diff(points.x) >= 0.0)
        np.testing.assert_allclose(np.sum(points.weights), len(x), rtol=1e-13)
        np.testing.assert_allclose(points.weights @ smooth(points.x), np.sum(smooth(x)), rtol=1e-11)
        np.testing.assert_allclose(points.counts > 0.0, ~column.stored)
    np.testing.assert_array_equal(points.x, np.sort(x))


@pytest.mark.slow
def test_a_large_error_warns(coarse, monkeypatch):
    """Without a second look the error is that of bins alone."""
    monkeypatch.setattr(ColumnDensity, "max_rounds", 1)
    with pytest.warns(UserWarning, match="may be wrong by .* nats"):
        run = fit(open_blocks([data()]), **OPTIONS)
    assert run.attrs["density_error"] > 1.0


@pytest.mark.slow
def test_the_limit_of_stored_rows(coarse, monkeypatch):
    monkeypatch.setattr(BinnedColumn, "max_rows", 100)
    with pytest.raises(InputError, match="at most 100 are kept: read the rows into memory"):
        fit(open_blocks([data()]), **OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": Matern(1.5)}, "kernel is Matern, and it takes SquaredExponential"),
        ({"likelihood": "dense"}, "likelihood='dense' needs all rows at once"),
        (
            {"measure": "lebesgue", "samples": "product"},
            "samples and columns are for data in memory",
        ),
    ],
)
def test_refusals(coarse, options, message):
    with pytest.raises(InputError, match=message):
        fit(open_blocks([data()[:2000]]), **{**OPTIONS, **options})


def test_two_columns_are_refused(coarse):
    with pytest.raises(InputError, match="has 2 columns, and it takes one; set likelihood='land"):
        fit(open_blocks([np.random.default_rng(0).normal(size=(2000, 2))]), **OPTIONS)
