"""Rows of a file give the results of the same rows in memory, also when resumed."""

import functools

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow
import pyarrow.parquet
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Quadrature,
    diagnose,
    fit,
    open_blocks,
    open_rows,
    read_sample,
    save_run,
)
from bke.inference.core.machine import computing
from bke.inference.data.units import Units
from bke.inference.sampling import out_of_core
from bke.inference.sampling.binned_column import BinnedColumn, ColumnDensity
from bke.inference.sampling.out_of_core import Checkpoint
from bke.inference.sampling.record import read_record
from bke.inference.sampling.run import units_of
from bke.inference.streams.rows import Rows
from bke.models import Landmark, Matern, SquaredExponential

QUIET = {"progress": False}
OPTIONS = {"likelihood": Landmark(9), "method": Quadrature(num_samples=100), **QUIET}
BINNED = {"method": Quadrature(tolerance=0.05, num_samples=200), **QUIET}
X = np.random.default_rng(0).gamma(2.0, size=(3000, 2))


@functools.cache
def column():
    """Two humps, a tail, and one row far out."""
    rng = np.random.default_rng(1)
    humps = np.where(rng.random(7600) < 0.3, 4.0, 0.0) + rng.normal(size=7600)
    return np.concatenate([humps, rng.standard_t(4, size=399), [40.0]])[:, None]


@functools.cache
def column_in_memory():
    return fit(column(), **BINNED)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Eleven of them, so that every lane has one and some have two; checkpoints after each."""
    monkeypatch.setattr(out_of_core, "chunk_size", lambda landmarks, dimension: 280)
    monkeypatch.setattr(Checkpoint, "interval", 0.0)


@pytest.fixture
def path(tmp_path, write):
    return write(tmp_path, X, "npy")


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint.npz"


@pytest.fixture
def coarse(monkeypatch):
    """Bins so wide that most have nodes, small chunks, and rows that are not held in memory."""
    monkeypatch.setattr(BinnedColumn, "bins_per_deviation", 2**6)
    monkeypatch.setattr(out_of_core, "chunk_size", lambda landmarks, dimension: 2801)
    monkeypatch.setattr(BinnedColumn, "chunk_rows", 2801)
    monkeypatch.setattr(out_of_core, "MAX_ROWS_IN_MEMORY", 400)


@pytest.mark.slow
@pytest.mark.parametrize("binned", [False, True])
def test_the_posterior_is_that_of_rows_in_memory(tmp_path, binned, request, write):
    if binned:
        expected = column_in_memory()
        request.getfixturevalue("coarse")
        np.save(tmp_path / "rows.npy", column())
        streamed = fit(open_rows(tmp_path / "rows.npy"), **BINNED)
        assert streamed.attrs["points"] < 0.5 * len(column())
        assert streamed.attrs["density_error"] < 1e-4
    else:
        expected, streamed = fit(X, **OPTIONS), fit(open_rows(write(tmp_path, X, "npy")), **OPTIONS)
    lengthscales = [run["posterior"]["lengthscale"] for run in (expected, streamed)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-9 if binned else 1e-8)
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (expected, streamed)]
    np.testing.assert_allclose(*logs, rtol=0.0 if binned else 1e-10, atol=1e-4 if binned else 0.0)
    first, second = (read_record(run.attrs) for run in (streamed, expected))
    assert first["data_sha256"] == second["data_sha256"]
    assert "X" not in streamed["observed_data"]
    assert str(diagnose(streamed)) == str(diagnose(expected))


@pytest.mark.slow
@pytest.mark.parametrize("binned", [False, True])
def test_a_random_noise_variance(binned, request):
    """For a single column, rounding decides which cells a rough quadrature refines."""
    rows, options, rtol = X[:600], OPTIONS, 1e-8
    if binned:
        request.getfixturevalue("coarse")
        rows, options, rtol = column()[:3000], BINNED, 0.05
    rough = Quadrature(tolerance=1.0, num_samples=100)
    options = {**options, "noise_variance": dist.Uniform(0.05, 0.5), "method": rough}
    runs = [fit(data, **options) for data in (rows, open_blocks([rows]))]
    attrs = [run["quadrature"].attrs for run in runs]
    errors = [attributes["log_normalizer_error"] for attributes in attrs]
    assert max(errors) <= 1.0
    assert abs(attrs[0]["log_normalizer"] - attrs[1]["log_normalizer"]) < sum(errors)
    for name in ("lengthscale", "noise_variance"):
        first, second = (run["posterior"][name].values for run in runs)
        if binned:
            first, second = first.mean(), second.mean()
        np.testing.assert_allclose(first, second, rtol=rtol)


class Breaking(Rows):
    """Rows that can be read so often, and then no more."""

    def __init__(self, path, left):
        super().__init__(np.load(path), path, ("x0", "x1"))
        self.left = left

    def block(self, start, stop):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt
        return super().block(start, stop)


def sums(rows, path=None):
    """Compute the sums of the landmark model, with a checkpoint at ``path``."""
    checkpoint = Checkpoint(path, {"rows": rows.fingerprint()})
    landmarks = X[:8] + 0.01
    kernels = [SquaredExponential(lengthscale) for lengthscale in (0.5, 1.0)]
    with computing():
        return out_of_core.sums_over_rows(
            rows, np.ones(2), landmarks, kernels, checkpoint=checkpoint, progress=False
        )


@pytest.mark.parametrize("every", [0.0, 1e9])  # after each chunk, or only when interrupted
def test_interrupted_sums_resume_without_rereading_chunks(path, checkpoint, monkeypatch, every):
    monkeypatch.setattr(Checkpoint, "interval", every)
    uninterrupted = sums(open_rows(path))
    with pytest.raises(KeyboardInterrupt):
        sums(Breaking(path, 7), checkpoint)
    assert checkpoint.exists()
    rest = Breaking(path, 5)  # the four chunks that are left, and one that was prefetched
    resumed = sums(rest, checkpoint)
    assert rest.left >= 0
    for expected, actual in zip(uninterrupted, resumed, strict=True):
        np.testing.assert_array_equal(expected, actual)


class Interrupting:
    """Not converted to an array before an interrupt."""

    def __array__(self, dtype=None, copy=None):
        raise KeyboardInterrupt


def test_an_interrupted_update_changes_no_array(checkpoint):
    job = {"file": "rows"}
    first = Checkpoint(checkpoint, job)
    first.update(sums=np.zeros(2), chunk=1)
    with pytest.raises(KeyboardInterrupt):
        first.update(sums=np.ones(2), chunk=Interrupting())
    first.write(now=True)
    state = Checkpoint(checkpoint, job).state
    np.testing.assert_array_equal(state["sums"], [0.0, 0.0])
    assert state["chunk"] == 1


@pytest.mark.slow
def test_a_fit_that_was_killed_is_resumed(path, checkpoint):
    uninterrupted = fit(open_rows(path), **OPTIONS)
    runs, finished = 0, None
    while finished is None:
        try:
            finished = fit(Breaking(path, 30), checkpoint=checkpoint, **OPTIONS)
        except KeyboardInterrupt:
            runs += 1
    assert runs > 2
    first, second = (run["posterior"]["lengthscale"].values for run in (uninterrupted, finished))
    np.testing.assert_array_equal(first, second)


def test_sums_do_not_depend_on_the_format_of_the_file(tmp_path, write):
    by_format = [sums(open_rows(write(tmp_path, X, kind))) for kind in ("npy", "parquet")]
    for expected, actual in zip(*by_format, strict=True):
        np.testing.assert_array_equal(expected, actual)


def test_refusals(tmp_path, path, monkeypatch, write):
    monkeypatch.setattr(out_of_core, "MAX_ROWS_IN_MEMORY", 0)
    rows = open_rows(path)
    with pytest.raises(InputError, match="set likelihood='landmark' and method='quadrature'"):
        fit(rows)
    with pytest.raises(InputError, match="a checkpoint is for rows of a file"):
        fit(X, checkpoint=tmp_path / "checkpoint")
    at_row = X[[2500, 3, 4, 5]] + [[0.0], [0.1], [0.1], [0.1]]
    with pytest.raises(InputError, match=r"landmark 1 is row 2501 of .*rows\.npy"):
        fit(rows, **{**OPTIONS, "likelihood": Landmark(at_row)})
    with pytest.raises(InputError, match="at least 2"):
        fit(rows, **{**OPTIONS, "likelihood": Landmark(1)})
    invalid = X.copy()
    descriptions = {np.nan: "a missing", -np.inf: "an infinite", 1e200: "a"}
    for value, description in descriptions.items():
        invalid[2999, 1] = value
        with pytest.raises(InputError, match=f"has {description} value.* in row 3000, column 'x1'"):
            fit(open_rows(write(tmp_path, invalid, "npy")), **OPTIONS)
    constant = {0.0: r"the same value \(0\) in every row of", 1e-200: "varies by only"}
    for factor, message in constant.items():
        with pytest.raises(InputError, match=f"{message}.* column 'x1'"):
            fit(open_rows(write(tmp_path, X * [1.0, factor], "npy")), **OPTIONS)
    with pytest.raises(InputError, match="does not exist"):
        open_rows(tmp_path / "none.zarr")
    table = pyarrow.table({"a": ["one", "two"]})
    pyarrow.parquet.write_table(table, tmp_path / "text.parquet")
    with pytest.raises(InputError, match=r"has the type string in column 'a'.*--columns leaves"):
        open_rows(tmp_path / "text.parquet")
    for start, stop in ((-1, 5), (0, 3001), (7, 7), (9, 8)):
        with pytest.raises(InputError, match=r"rows\.npy has no rows from .* from 0 to 2999"):
            rows.block(start, stop)
    for name in (str(path), path):
        with pytest.raises(InputError, match=r"X is the string .*rows\.npy'.* open_rows"):
            fit(name, **OPTIONS)
    with pytest.raises(InputError, match=r"is zarr, which fit --stream and open_rows read"):
        read_sample(write(tmp_path, X, "zarr"))


def test_a_file_that_changes_while_it_is_read(tmp_path, path):
    rows = open_rows(path)
    rows._array = np.load(path)[:2000]  # as of a file that was cut short
    with pytest.raises(InputError, match=r"rows 1961 to 2240 have the shape \(40, 2\)"):
        fit(rows, **OPTIONS)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("1,2\n" * 50 + "1,2,3\n" * 50)
    with pytest.raises(InputError, match="3 cells in line 51 but 2 columns"):
        open_rows(ragged)


def test_checkpoints_that_are_of_no_use(path, checkpoint):
    make = functools.partial(fit, **OPTIONS, checkpoint=checkpoint)
    with pytest.raises(KeyboardInterrupt):
        make(Breaking(path, 18))
    with pytest.raises(InputError, match="checkpoint of another job, with a different landmarks"):
        fit(open_rows(path), **{**OPTIONS, "likelihood": Landmark(8)}, checkpoint=checkpoint)
    np.save(path, X + 1.0)
    with pytest.raises(InputError, match="checkpoint of another job, with a different file"):
        make(open_rows(path))
    content = checkpoint.read_bytes()
    torn = bytearray(content)
    torn[len(torn) // 2] ^= 255
    for broken in (content[: len(content) // 2], content[:50], bytes(torn)):
        checkpoint.write_bytes(broken)
        with pytest.raises(InputError, match=r"cannot be read as a checkpoint .*delete it"):
            make(open_rows(path))
        assert checkpoint.read_bytes() == broken  # the file does not change


def test_a_checkpoint_of_other_processes_is_refused(path, checkpoint, monkeypatch):
    """The chunks before a given one depend on the number of processes."""
    with monkeypatch.context() as two:
        two.setattr(jax, "process_count", lambda: 2)
        with pytest.raises(KeyboardInterrupt):
            sums(Breaking(path, 3), checkpoint)
    with pytest.raises(InputError, match="with a different number of processes"):
        sums(open_rows(path), checkpoint)


def test_other_files_are_not_replaced(tmp_path, path):
    files = {name: tmp_path / name for name in ("p.npy", "a.npz", "j.npz", "s.nc", "e", "t", "d")}
    np.save(files["p.npy"], X)
    np.savez(files["a.npz"], a=X)
    np.savez(files["j.npz"], job=X)
    save_run(fit(X[:12, :1], progress=False), files["s.nc"])
    files["e"].write_bytes(b"")
    files["t"].write_text("text")
    files["d"].mkdir()
    before = [other.read_bytes() for other in files.values() if other.is_file()]
    for name, other in files.items():
        with pytest.raises(InputError, match=f"{name} is not a checkpoint"):
            fit(open_rows(path), checkpoint=other, **OPTIONS)
    assert [other.read_bytes() for other in files.values() if other.is_file()] == before


# Rows of one column, in bins


@pytest.mark.slow
def test_blocks_of_any_size_give_the_same_digits(coarse):
    runs = []
    for at in ([11, 12, 6000], range(400, 8000, 400)):
        run = fit(open_blocks(iter(np.split(column(), at))), **BINNED)
        runs.append((run["posterior"]["lengthscale"].values, run["quadrature"]["log_density"]))
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(
        runs[0][0], column_in_memory()["posterior"]["lengthscale"], rtol=1e-9
    )


@pytest.mark.slow
def test_rounded_rows(coarse):
    """Noise of the dither is that of rows in memory."""
    rows = np.round(column()[:7600], 3)
    expected, streamed = fit(rows, **BINNED), fit(open_blocks([rows]), **BINNED)
    assert list(units_of(streamed).dither) == list(units_of(expected).dither) == [0.001]
    lengthscales = [run["posterior"]["lengthscale"] for run in (expected, streamed)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-9)


@pytest.mark.slow
def test_small_files_are_read_into_memory():
    rows, method = column()[:600], Nuts(num_chains=2, num_warmup=20, num_samples=4)
    runs = [fit(data, method=method, **QUIET) for data in (rows, open_blocks([rows]))]
    lengthscales = [run["posterior"]["lengthscale"].values for run in runs]
    np.testing.assert_array_equal(*lengthscales)
    assert "source" in runs[1].attrs


def test_points_represent_the_rows(coarse):
    """Sums of a smooth function over points are those over rows, for any bins with stored rows."""
    x = column()[:, 0]
    binned = BinnedColumn(
        open_blocks([x]), Units(np.ones(1), np.zeros(1), 0, ("x",)), 2.0, progress=False
    )

    def smooth(x):
        return np.exp(-0.5 * (x - 0.3) ** 2) + np.sin(x)

    third = np.arange(len(binned.stored)) % 3 == 0
    for bins in (~third & third, third, ~third):
        binned.store(bins)
        points = binned.points()
        assert len(points.x) == binned.size
        assert np.all(np.diff(points.x) >= 0.0)
        np.testing.assert_allclose(np.sum(points.weights), len(x), rtol=1e-13)
        np.testing.assert_allclose(points.weights @ smooth(points.x), np.sum(smooth(x)), rtol=1e-11)
        np.testing.assert_allclose(points.counts > 0.0, ~binned.stored)
    np.testing.assert_array_equal(points.x, np.sort(x))


@pytest.mark.slow
def test_a_large_error_warns(coarse, monkeypatch):
    """Without a second round the error is that of bins only."""
    monkeypatch.setattr(ColumnDensity, "max_rounds", 1)
    with pytest.warns(UserWarning, match="may be wrong by .* nats"):
        run = fit(open_blocks([column()]), **BINNED)
    assert run.attrs["density_error"] > 1.0


@pytest.mark.slow
def test_the_limit_of_stored_rows(coarse, monkeypatch):
    monkeypatch.setattr(BinnedColumn, "max_rows", 100)
    with pytest.raises(InputError, match="at most 100 are kept: read the rows into memory"):
        fit(open_blocks([column()]), **BINNED)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (1, {"kernel": Matern(1.5)}, "kernel is Matern, and it takes SquaredExponential"),
        (1, {"likelihood": "dense"}, "likelihood='dense' needs all rows at once"),
        (1, {"samples": "product"}, "samples and columns are for data in memory"),
        (2, {}, "has 2 columns, and it takes one; set likelihood='land"),
    ],
)
def test_refusals_of_a_single_column(coarse, columns, options, message):
    rows = column()[:4000].reshape(-1, columns)
    with pytest.raises(InputError, match=message):
        fit(open_blocks([rows]), **{**BINNED, **options})
