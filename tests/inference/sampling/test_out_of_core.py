"""Rows of a file give the results of the same rows in memory, also when resumed."""

import functools

import jax
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from bke.inference import (
    InputError,
    Quadrature,
    diagnose,
    fit,
    open_rows,
    read_sample,
    save_run,
)
from bke.inference.core.machine import computing
from bke.inference.sampling import out_of_core
from bke.inference.sampling.out_of_core import Checkpoint
from bke.inference.sampling.record import read_record
from bke.inference.streams.rows import Rows
from bke.models import Landmark, SquaredExponential

OPTIONS = {
    "likelihood": Landmark(9),
    "method": Quadrature(num_samples=100),
    "progress": False,
}


@functools.cache
def data():
    return np.random.default_rng(0).gamma(2.0, size=(3000, 2))


@pytest.fixture
def small_chunks(monkeypatch):
    """Eleven of them, so that every lane has one and some have two."""
    monkeypatch.setattr(out_of_core, "chunk_size", lambda landmarks, dimension: 280)


@pytest.mark.slow
def test_the_posterior_is_that_of_rows_in_memory(tmp_path, small_chunks, write):
    X = data()
    path = write(tmp_path, X, "npy")
    in_memory, by_rows = fit(X, **OPTIONS), fit(open_rows(path), **OPTIONS)
    lengthscales = [run["posterior"]["lengthscale"] for run in (in_memory, by_rows)]
    np.testing.assert_allclose(*lengthscales, rtol=1e-8)
    logs = [run["quadrature"].attrs["log_normalizer"] for run in (in_memory, by_rows)]
    np.testing.assert_allclose(*logs, rtol=1e-10)
    first, second = (read_record(run.attrs) for run in (by_rows, in_memory))
    assert first["data_sha256"] == second["data_sha256"]
    assert "X" not in by_rows["observed_data"]
    assert str(diagnose(by_rows)) == str(diagnose(in_memory))


@pytest.mark.slow
def test_a_random_noise_variance(tmp_path, small_chunks, write):
    import numpyro.distributions as dist

    X = data()[:600]
    rough = Quadrature(tolerance=1.0, num_samples=100)
    options = {**OPTIONS, "noise_variance": dist.Uniform(0.05, 0.5), "method": rough}
    runs = [fit(rows, **options) for rows in (X, open_rows(write(tmp_path, X, "npy")))]
    for name in ("lengthscale", "noise_variance"):
        first, second = (run["posterior"][name].values for run in runs)
        np.testing.assert_allclose(first, second, rtol=1e-8)


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
    landmarks = data()[:8] + 0.01
    kernels = [SquaredExponential(lengthscale) for lengthscale in (0.5, 1.0)]
    with computing():
        return out_of_core.sums_over_rows(
            rows, np.ones(2), landmarks, kernels, checkpoint=checkpoint, progress=False
        )


@pytest.mark.parametrize("every", [0.0, 1e9])  # after each chunk, or only when interrupted
def test_interrupted_sums_resume_without_rereading_chunks(
    tmp_path, small_chunks, monkeypatch, every, write
):
    monkeypatch.setattr(Checkpoint, "interval", every)
    path, checkpoint = write(tmp_path, data(), "npy"), tmp_path / "checkpoint.npz"
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


def test_an_interrupted_update_changes_no_array(tmp_path):
    path, job = tmp_path / "checkpoint.npz", {"file": "rows"}
    first = Checkpoint(path, job)
    first.update(sums=np.zeros(2), chunk=1)
    with pytest.raises(KeyboardInterrupt):
        first.update(sums=np.ones(2), chunk=Interrupting())
    first.write(now=True)
    state = Checkpoint(path, job).state
    np.testing.assert_array_equal(state["sums"], [0.0, 0.0])
    assert state["chunk"] == 1


@pytest.mark.slow
def test_a_fit_that_was_killed_goes_on(tmp_path, small_chunks, monkeypatch, write):
    monkeypatch.setattr(Checkpoint, "interval", 0.0)
    path = write(tmp_path, data(), "npy")
    checkpoint = tmp_path / "checkpoint.npz"
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


def test_sums_do_not_depend_on_the_format_of_the_file(tmp_path, small_chunks, write):
    by_format = [sums(open_rows(write(tmp_path, data(), kind))) for kind in ("npy", "parquet")]
    for expected, actual in zip(*by_format, strict=True):
        np.testing.assert_array_equal(expected, actual)


def test_refusals(tmp_path, small_chunks, monkeypatch, write):
    monkeypatch.setattr(out_of_core, "MAX_ROWS_IN_MEMORY", 0)
    X = data()
    path = write(tmp_path, X, "npy")
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
    for hole, what in (
        (np.nan, "a missing value"),
        (-np.inf, "an infinite value"),
        (1e200, "a value beyond 1e"),
    ):
        invalid[2999, 1] = hole
        with pytest.raises(InputError, match=f"has {what}.* in row 3000, column 'x1'"):
            fit(open_rows(write(tmp_path, invalid, "npy")), **OPTIONS)
    for factor, message in (
        (0.0, r"the same value \(0\) in every row of"),
        (1e-200, "varies by only"),
    ):
        with pytest.raises(InputError, match=f"{message}.* column 'x1'"):
            fit(open_rows(write(tmp_path, X * [1.0, factor], "npy")), **OPTIONS)
    with pytest.raises(InputError, match="does not exist"):
        open_rows(tmp_path / "none.zarr")
    table = pyarrow.table({"a": ["one", "two"]})
    pyarrow.parquet.write_table(table, tmp_path / "text.parquet")
    with pytest.raises(InputError, match=r"has the type string in column 'a'.*--columns leaves"):
        open_rows(tmp_path / "text.parquet")
    for start, stop in ((-1, 5), (0, 3001), (7, 7), (9, 8)):
        with pytest.raises(
            InputError, match=r"rows\.npy has no rows from .* counted from 0 to 2999"
        ):
            rows.block(start, stop)
    for name in (str(path), path):
        with pytest.raises(InputError, match=r"X is the string .*rows\.npy'.* open_rows"):
            fit(name, **OPTIONS)
    with pytest.raises(InputError, match=r"is zarr, which fit --stream and open_rows read"):
        read_sample(write(tmp_path, X, "zarr"))


def test_a_file_that_changes_while_it_is_read(tmp_path, small_chunks, write):
    narrower = write(tmp_path, data(), "npy")
    rows = open_rows(narrower)
    rows._array = np.load(narrower)[:2000]  # as of a file that was cut short
    with pytest.raises(InputError, match=r"rows 1961 to 2240 have the shape \(40, 2\)"):
        fit(rows, **OPTIONS)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("1,2\n" * 50 + "1,2,3\n" * 50)
    with pytest.raises(InputError, match="3 cells in line 51 but 2 columns"):
        open_rows(ragged)


def test_checkpoints_that_are_of_no_use(tmp_path, small_chunks, monkeypatch, write):
    monkeypatch.setattr(Checkpoint, "interval", 0.0)
    path = write(tmp_path, data(), "npy")
    checkpoint = tmp_path / "checkpoint.npz"
    make = functools.partial(fit, **OPTIONS, checkpoint=checkpoint)
    with pytest.raises(KeyboardInterrupt):
        make(Breaking(path, 18))
    with pytest.raises(InputError, match="checkpoint of another job, with a different landmarks"):
        fit(open_rows(path), **{**OPTIONS, "likelihood": Landmark(8)}, checkpoint=checkpoint)
    np.save(path, data() + 1.0)
    with pytest.raises(InputError, match="checkpoint of another job, with a different file"):
        make(open_rows(path))
    content = checkpoint.read_bytes()
    torn = bytearray(content)
    torn[len(torn) // 2] ^= 255
    for broken in (content[: len(content) // 2], content[:50], bytes(torn)):
        checkpoint.write_bytes(broken)
        with pytest.raises(InputError, match=r"cannot be read as a checkpoint .*delete it"):
            make(open_rows(path))
        assert checkpoint.read_bytes() == broken  # nothing is lost by asking


def test_a_checkpoint_of_other_processes_is_refused(tmp_path, small_chunks, monkeypatch, write):
    """The chunks before a given one depend on the number of processes."""
    monkeypatch.setattr(Checkpoint, "interval", 0.0)
    path = write(tmp_path, data(), "npy")
    checkpoint = tmp_path / "checkpoint.npz"
    with monkeypatch.context() as two:
        two.setattr(jax, "process_count", lambda: 2)
        with pytest.raises(KeyboardInterrupt):
            sums(Breaking(path, 3), checkpoint)
    with pytest.raises(InputError, match="with a different number of processes"):
        sums(open_rows(path), checkpoint)


def test_other_files_are_not_replaced(tmp_path, write):
    path = write(tmp_path, data(), "npy")
    files = {name: tmp_path / name for name in ("p.npy", "a.npz", "j.npz", "s.nc", "e", "t", "d")}
    np.save(files["p.npy"], data())
    np.savez(files["a.npz"], a=data())
    np.savez(files["j.npz"], job=data())
    save_run(fit(data()[:12, :1], progress=False), files["s.nc"])
    files["e"].write_bytes(b"")
    files["t"].write_text("text")
    files["d"].mkdir()
    before = [other.read_bytes() for other in files.values() if other.is_file()]
    for name, other in files.items():
        with pytest.raises(InputError, match=f"{name} is not a checkpoint"):
            fit(open_rows(path), checkpoint=other, **OPTIONS)
    assert [other.read_bytes() for other in files.values() if other.is_file()] == before
