"""Rows of one column that are gone through give the posterior of the same rows in memory."""

import functools

import numpy as np
import numpyro.distributions as dist
import pyarrow
import pytest
from bke.inference import InputError, Nuts, Quadrature, diagnose, fit, open_blocks, open_rows
from bke.inference.data.units import Units
from bke.inference.sampling import resolved_column, streamed_column
from bke.inference.streams import column, passes
from bke.inference.streams.column import Column
from bke.models import Matern

OPTIONS = {"method": Quadrature(tolerance=0.05, draws=200, chains=2), "progress": False}


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
    monkeypatch.setattr(column, "FINENESS", 2**6)
    monkeypatch.setattr(passes, "chunk_size", lambda landmarks, dimension: 2801)
    monkeypatch.setattr(column, "chunk_size", lambda landmarks, dimension: 2801)
    monkeypatch.setattr(streamed_column, "HELD", 400)


def cut(X, at):
    return np.split(X, at)


@pytest.mark.slow
def test_the_posterior_is_that_of_rows_in_memory(tmp_path, coarse):
    np.save(tmp_path / "rows.npy", data())
    whole, streamed = in_memory(), fit(open_rows(tmp_path / "rows.npy"), **OPTIONS)
    assert streamed.attrs["points"] < 0.5 * len(data())
    assert streamed.attrs["density_error"] < 1e-4
    lengthscales = [run["posterior"]["lengthscale"] for run in (whole, streamed)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-9)
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (whole, streamed)]
    assert abs(logs[0] - logs[1]) < 1e-4
    assert streamed.attrs["data_sha256"] == whole.attrs["data_sha256"]
    assert "X" not in streamed["observed_data"]
    assert str(diagnose(streamed)) == str(diagnose(whole))


@pytest.mark.slow
def test_blocks_of_any_size_give_the_same_digits(coarse):
    X = data()
    found = []
    for at in ([11, 12, 6000], range(400, len(X), 400)):
        run = fit(open_blocks(iter(cut(X, at))), **OPTIONS)
        found.append((run["posterior"]["lengthscale"].values, run["quadrature"]["log_density"]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(found[0][0], in_memory()["posterior"]["lengthscale"], rtol=1e-9)


@pytest.mark.slow
def test_rounded_rows(coarse):
    """Noise of the dither is that of rows in memory."""
    X = np.round(data()[:7600], 3)
    whole, streamed = fit(X, **OPTIONS), fit(open_blocks([X]), **OPTIONS)
    assert list(streamed.attrs["dither"]) == list(whole.attrs["dither"]) == [0.001]
    lengthscales = [run["posterior"]["lengthscale"] for run in (whole, streamed)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-9)


@pytest.mark.slow
def test_a_random_noise_variance(coarse):
    X = data()[:3000]
    rough = Quadrature(tolerance=1.0, draws=100, chains=2)
    options = {**OPTIONS, "noise_variance": dist.Uniform(0.05, 0.5), "method": rough}
    whole, streamed = (fit(rows, **options) for rows in (X, open_blocks([X])))
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (whole, streamed)]
    # Rounding decides what so rough a quadrature refines.
    errors = [run["quadrature"].attrs["log_normalizer_error"] for run in (whole, streamed)]
    assert max(errors) <= 1.0
    assert abs(logs[0] - logs[1]) < sum(errors)
    for name in ("lengthscale", "noise_variance"):
        one, other = (run["posterior"][name].values.mean() for run in (whole, streamed))
        np.testing.assert_allclose(one, other, rtol=0.05)


@pytest.mark.slow
def test_few_rows_are_as_in_memory():
    X = data()[:600]
    method = Nuts(chains=2, warmup=20, draws=4)
    found = [fit(rows, method=method, progress=False) for rows in (X, open_blocks([X]))]
    lengthscales = [run["posterior"]["lengthscale"].values for run in found]
    np.testing.assert_array_equal(*lengthscales)
    assert "source" in found[1].attrs


def test_points_stand_for_the_rows(coarse):
    """Sums of a smooth function over points are those over rows, whatever is kept."""
    x = data()[:, 0]
    found = Column(open_blocks([x]), Units(np.ones(1), np.zeros(1), 0, ("x",)), 2.0, progress=False)

    def smooth(x):
        return np.exp(-0.5 * (x - 0.3) ** 2) + np.sin(x)

    some = np.arange(len(found.kept)) % 3 == 0
    for more in (~some & some, some, ~some):
        found.keep(more)
        points = found.points()
        assert len(points.x) == found.size
        assert np.all(np.diff(points.x) >= 0.0)
        np.testing.assert_allclose(np.sum(points.weights), len(x), rtol=1e-13)
        np.testing.assert_allclose(points.weights @ smooth(points.x), np.sum(smooth(x)), rtol=1e-11)
        np.testing.assert_allclose(points.counts > 0.0, ~found.kept)
    np.testing.assert_array_equal(points.x, np.sort(x))


@pytest.mark.slow
def test_what_is_not_right_is_told(coarse, monkeypatch):
    """Without a second look the error is that of bins alone."""
    monkeypatch.setattr(resolved_column, "ROUNDS", 1)
    with pytest.warns(UserWarning, match="may be wrong by .* nats"):
        run = fit(open_blocks([data()]), **OPTIONS)
    assert run.attrs["density_error"] > 1.0


@pytest.mark.slow
def test_no_more_rows_are_kept_than_there_is_room_for(coarse, monkeypatch):
    monkeypatch.setattr(column, "MOST_KEPT", 100)
    with pytest.raises(InputError, match="at most 100 are kept: read the rows into memory"):
        fit(open_blocks([data()]), **OPTIONS)


def test_what_blocks_may_be():
    X = np.random.default_rng(0).normal(size=(50, 2))
    batch = pyarrow.RecordBatch.from_arrays([pyarrow.array(c) for c in X.T], names=["b", "a"])
    rows = open_blocks([batch.slice(0, 20), batch.slice(20, 0), batch.slice(20)])
    assert rows.columns == ("b", "a")
    np.testing.assert_array_equal(rows.block(0, 50), X)
    path = rows.path
    assert path.exists()
    del rows
    assert not path.exists()
    single = open_blocks((np.float32([1.0, 2.5]), [3, 4]), columns=["height"])
    assert single.columns == ("height",)
    np.testing.assert_array_equal(single.block(0, 4)[:, 0], [1.0, 2.5, 3.0, 4.0])


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        ([], "has no rows: was the iterator used up before"),
        ([np.empty((0, 1))], "has no rows"),
        ([[1.0, 2.0], [3.0, np.nan]], r"a missing value \(NaN\) in row 4 \(row 2 of block 2\)"),
        ([[1.0], [np.inf]], "an infinite value in row 2"),
        ([[[1.0, 2.0]], [3.0]], "block 2 has 1 column, where 2 are needed"),
        ([["a", "b"]], "block 1 of blocks has 'a' in row 1"),
        ([np.zeros((2, 2, 2))], "block 1 of blocks has 3 dimensions"),
        ([np.zeros((2, 0))], "has no columns"),
        ("rows.csv", "for a file there is open_rows"),
        (3.0, "must be an iterator of arrays, got float"),
    ],
)
def test_what_blocks_may_not_be(blocks, said, tmp_path):
    with pytest.raises(InputError, match=said):
        open_blocks(blocks, folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_columns_of_another_name():
    first, second = (pyarrow.table({name: [1.0, 2.0]}) for name in "ab")
    with pytest.raises(InputError, match="columns of block 2 are b, and those of the first a"):
        open_blocks([first, second])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kernel": Matern(1.5)}, "kernel is Matern, and it is for SquaredExponential"),
        ({"likelihood": "dense"}, "likelihood='dense' needs all rows at once"),
        ({"measure": "lebesgue", "share": "joint"}, "share and columns are for data in memory"),
    ],
)
def test_refusals(coarse, options, said):
    with pytest.raises(InputError, match=said):
        fit(open_blocks([data()[:2000]]), **{**OPTIONS, **options})


def test_more_than_one_column(coarse):
    with pytest.raises(InputError, match="has 2 columns, and it is for one; set likelihood='land"):
        fit(open_blocks([np.random.default_rng(0).normal(size=(2000, 2))]), **OPTIONS)
