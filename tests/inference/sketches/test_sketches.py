"""Sketches: sums that add, and what two of them say, beside the data themselves."""

import json

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from bke.inference import (
    InputError,
    compare_sketches,
    load_sketch,
    open_rows,
    save_sketch,
    sketch,
)
from bke.inference.cli import app
from bke.inference.sketches.two_sample import sketch_test
from bke.models import (
    Gaussian,
    GaussianMixture,
    Matern,
    SquaredExponential,
    landmark_embedding_posterior,
    landmark_log_likelihood,
)
from bke.models.landmarks import LandmarkSums
from scipy.integrate import trapezoid
from scipy.spatial.distance import cdist
from scipy.stats import cauchy, gamma
from typer.testing import CliRunner

RNG = np.random.default_rng(11)
P = RNG.gamma(2.0, size=(90, 2)) * [1.0, 30.0]
Q = RNG.gamma(2.0, size=(70, 2)) * [1.3, 30.0]
PLACES = np.array([[0.5, 10.0], [1.0, 60.0], [2.0, 30.0], [3.0, 80.0], [4.0, 120.0], [6.0, 40.0]])
GRID = [0.5, 0.7, 1.0, 1.4, 2.0]
QUIET = {"progress": False}


@pytest.fixture(scope="module")
def sketches():
    first = sketch(P, landmarks=PLACES, lengthscales=GRID, **QUIET)
    return first, sketch(Q, like=first, **QUIET)


def test_merged_is_pooled(sketches):
    pooled = sketch(np.concatenate([P, Q]), like=sketches[0], **QUIET)
    merged = sketches[0].merged(sketches[1])
    assert merged.rows == pooled.rows == 160
    for one, other in zip(merged.sums, pooled.sums, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13 * np.abs(other).max())


def test_the_sums_are_those_of_numpy(sketches):
    unit = P.std(axis=0)
    features = np.exp(-0.5 * cdist(P / unit, PLACES / unit, "sqeuclidean") / 0.7**2)
    at = sketches[0].at(1)
    np.testing.assert_allclose(at.mean, features.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(at.scatter, 89 * np.cov(features.T), rtol=1e-10)


def test_a_file_gives_the_same_sketch(sketches, tmp_path):
    save_sketch(sketches[0], tmp_path / "p.nc")
    loaded = load_sketch(tmp_path / "p.nc")
    assert loaded.plan.difference(sketches[0].plan) == ""
    for one, other in zip(loaded.sums, sketches[0].sums, strict=True):
        np.testing.assert_array_equal(one, other)
    assert str(loaded) == str(sketches[0])


@pytest.mark.slow
def test_the_posterior_and_the_witness_are_those_of_the_rows(sketches):
    at = np.array([[1.0, 30.0], [3.0, 100.0]])
    found = compare_sketches(*sketches, noise_variance=0.05, at=at, draws=4000)
    unit = P.std(axis=0)
    scaled = [np.concatenate([P, Q]) / unit, PLACES / unit]
    direct = [
        float(landmark_log_likelihood(*scaled, SquaredExponential(value), noise_variance=0.05))
        for value in GRID
    ]
    np.testing.assert_allclose(found.posterior["log_likelihood"].values, direct, rtol=1e-10)
    density = np.exp(np.array(direct) - max(direct)) * gamma(1.0).pdf(GRID)
    # The trapezoid rule, a node at a time: its mass is the integral of its share of the lines.
    mass = np.array([trapezoid(density * unit_vector, GRID) for unit_vector in np.eye(len(GRID))])
    np.testing.assert_allclose(found.posterior["mass"].values, mass / mass.sum(), rtol=1e-8)
    np.testing.assert_allclose(
        found.posterior["lengthscale"].values, np.outer(GRID, unit), rtol=1e-12
    )
    moments = []
    for value in GRID:
        each = [
            landmark_embedding_posterior(
                Z / unit, PLACES / unit, SquaredExponential(value), at / unit
            )
            for Z in (P, Q)
        ]
        moments.append(
            (each[0].mean - each[1].mean, np.diagonal(each[0].covariance + each[1].covariance))
        )
    means, variances = (np.array(each) for each in zip(*moments, strict=True))
    mass = mass / mass.sum()
    mean = mass @ means
    variance = mass @ (variances + means**2) - mean**2
    # In pairs around the mean at each lengthscale: exact, but for lengthscales of mass 1e-6.
    band = found.band(0.8)
    np.testing.assert_allclose(band.mean, mean, rtol=1e-5)
    group = found.witness.to_dataset()
    drawn, weight = group["witness"].values[0], group["weight"].values[0]
    assert len(drawn) >= 4000
    # 2000 independent pairs: 5 standard errors, a false failure in a million.
    found_variance = weight @ (drawn - mean) ** 2
    np.testing.assert_allclose(found_variance, variance, rtol=5.0 * np.sqrt(2.0 / 2000))


@pytest.mark.parametrize(("between", "told"), [(0.5, False), (6.0, True)])
@pytest.mark.one_in(4)
def test_a_band_as_wide_as_the_prior(between, told):
    """Of landmarks half a lengthscale apart, and six; what remedies a grid too coarse."""
    places = np.arange(-6.0, 6.1, between)
    options = {"landmarks": places, "lengthscales": [1.0, 1.001, 9.0], "scale": None, **QUIET}
    first = sketch(RNG.normal(0.0, 2.0, size=400), **options)
    second = sketch(RNG.normal(0.0, 2.0, size=400), like=first, **QUIET)
    options = {"prior": dist.Uniform(0.9, 1.0005), "draws": 8, "names": ("old", "new")}
    found = compare_sketches(first, second, **options)
    assert str(found).startswith("old: 400 rows; new: 400 rows.")
    assert "old and new differ" in str(found)
    assert any("as wide as the prior" in note for note in found.notes) == told
    assert found.posterior["mass"].values[0] == 1.0
    assert "--lengthscales" in str(found)


def features(X, Z, lengthscale):
    """Sums by NumPy, which compiles nothing."""
    phi = np.exp(-0.5 * cdist(X, Z, "sqeuclidean") / lengthscale**2)
    apart = phi - phi.mean(axis=0)
    return LandmarkSums(np.array(float(len(X))), phi.mean(axis=0), apart.T @ apart, np.zeros(()))


def both_at(X, Y, Z):
    return [
        (features(X, Z, value), features(Y, Z, value), SquaredExponential(value))
        for value in np.geomspace(0.05, 5.0, 6)
    ]


@pytest.mark.slow
def test_the_level_and_the_power():
    """500 + 500 skewed rows, 12 landmarks: at level 0.05 at most 24 of 200 null data sets, which
    a level of 0.05 exceeds once in 50 000; and at least 150 of 200 where one is shifted."""
    rejected = np.zeros(2, dtype=int)
    for seed in range(200):
        rng = np.random.default_rng([seed, 1])
        X, Y = rng.gamma(2.0, size=(2, 500, 1))
        Z = np.quantile(X, np.linspace(0.02, 0.98, 12))[:, None]
        for index, other in enumerate((Y, Y + 0.35)):
            found = sketch_test(both_at(X, other, Z), draws=299, alpha=0.05, rng=rng)
            rejected[index] += found.rejected
    assert rejected[0] <= 24
    assert rejected[1] >= 150


def test_p_values_are_combined_by_cauchy():
    X, Y = RNG.normal(size=(2, 400, 1))
    found = sketch_test(
        both_at(X, Y, np.linspace(-1, 1, 5)[:, None]), draws=199, alpha=0.05, rng=RNG
    )
    each = np.array([part.pvalue for part in found.parts])
    expected = cauchy.sf(np.mean(cauchy.isf(each)))
    assert found.pvalue == pytest.approx(expected, rel=1e-9)
    assert not found.notes


def test_one_landmark_is_the_t_test():
    """Its square over the ridge of the only eigenvalue: the statistic grows with |t| alone."""
    X, Y = RNG.normal(size=(300, 1)), RNG.normal(0.3, size=(200, 1))
    at = both_at(X, Y, np.zeros((1, 1)))[-1:]
    found = sketch_test(at, draws=20_000, alpha=0.05, rng=np.random.default_rng(0))
    from scipy.stats import ttest_ind

    phi = [np.exp(-0.5 * Z[:, 0] ** 2 / 25.0) for Z in (X, Y)]
    # 20 000 draws: 5 standard errors of a share of at most 1/2.
    assert found.pvalue == pytest.approx(ttest_ind(*phi).pvalue, abs=5 * 0.5 / np.sqrt(20_000))


@pytest.mark.parametrize("few", [0, 1])
def test_landmarks_that_few_rows_of_a_sample_are_near_to_are_left_out(few):
    """Thirty of one sample, four hundred of the other."""
    both = list(RNG.normal(size=(2, 400, 1)))
    both[few][:30] += 60.0
    both[1 - few] = np.concatenate([both[1 - few], RNG.normal(60.0, size=(400, 1))])
    near = np.linspace(-1, 1, 5)[:, None]
    far = np.concatenate([near, [[60.0]]])
    one, other = (
        sketch_test(both_at(*both, Z)[3:4], draws=99, alpha=0.05, rng=np.random.default_rng(0))
        for Z in (near, far)
    )
    assert one.parts[0].statistic == other.parts[0].statistic


@pytest.mark.slow
def test_the_covariance_is_known_from_few_rows():
    """60 + 60 rows of 15 normal features: at most 75 of 1000, which a level of 0.05 exceeds three
    times in 10 000; with N - 2 for N - 3 less the features some 98 are rejected."""
    rejected = 0
    for seed in range(1000):
        rng = np.random.default_rng([seed, 3])
        both = []
        for phi in rng.normal(10.0, size=(2, 60, 15)):
            apart = phi - phi.mean(axis=0)
            both.append(
                LandmarkSums(np.array(60.0), phi.mean(axis=0), apart.T @ apart, np.zeros(()))
            )
        at = [(*both, SquaredExponential(1.0))]
        rejected += sketch_test(at, draws=199, alpha=0.05, rng=rng).rejected
    assert rejected <= 75


@pytest.mark.slow
def test_samples_of_very_different_size():
    """200 + 20 000 skewed rows: at most 24 of 200, which a level of 0.05 exceeds once in 50 000."""
    rejected = 0
    Z = np.linspace(0.2, 6.0, 8)[:, None]
    for seed in range(200):
        rng = np.random.default_rng([seed, 2])
        X, Y = rng.gamma(2.0, size=(200, 1)), rng.gamma(2.0, size=(20_000, 1))
        at = both_at(X, Y, Z)[1:]
        rejected += sketch_test(at, draws=199, alpha=0.05, rng=rng).rejected
    assert rejected <= 24


@pytest.mark.slow
def test_too_few_rows_for_a_test():
    X, Y = RNG.normal(size=(20, 3)), RNG.normal(size=(30, 3))
    first = sketch(X, landmarks=RNG.normal(size=(4, 3)), lengthscales=GRID, **QUIET)
    found = compare_sketches(first, sketch(Y, like=first, **QUIET), draws=8)
    assert found.test is None
    assert "no test" in str(found)
    # In three columns the witness is at the landmarks.
    np.testing.assert_allclose(found.witness["at"].values, first.plan.landmarks * X.std(axis=0))


def test_no_landmark_is_the_average_of_a_few_rows():
    X = np.concatenate([RNG.normal(size=(400, 2)), [[400.0, 17.0], [7.0, -45.0], [-88.0, 31.0]]])
    places = sketch(X, landmarks=12, lengthscales=[1.0, 2.0], scale=None, **QUIET).plan.landmarks
    assert np.abs(places).max() < 4.0
    with pytest.raises(InputError, match="fewer than 2 clusters of 10 rows"):
        sketch(X[:15], landmarks=4, **QUIET)


def test_the_lengthscale_of_the_template_does_not_matter(sketches):
    other = sketch(
        Q, landmarks=PLACES, lengthscales=GRID, kernel=SquaredExponential(2.0), scale=None, **QUIET
    )
    first = sketch(P, landmarks=PLACES, lengthscales=GRID, scale=None, **QUIET)
    assert first.merged(other).rows == 160


def test_other_plans_do_not_add(sketches):
    for options, said in (
        ({"landmarks": PLACES + 1.0, "lengthscales": GRID}, "different landmarks"),
        ({"landmarks": PLACES, "lengthscales": GRID[1:]}, "different lengthscales"),
        ({"landmarks": PLACES, "lengthscales": GRID, "scale": "pooled"}, "different unit"),
        ({"landmarks": PLACES, "lengthscales": GRID, "kernel": Matern(1.5)}, "different kernels"),
        ({"landmarks": PLACES, "lengthscales": GRID, "columns": "ab"}, "different columns"),
    ):
        with pytest.raises(InputError, match=said):
            sketches[0].merged(sketch(P, **options, **QUIET))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengthscales": [1.0]}, "two or more positive"),
        ({"lengthscales": [1.0, 0.5]}, "must increase"),
        ({"landmarks": P[:5]}, "landmark 1 is row 1 of X"),
        ({"landmarks": 0}, "at least 2"),
        ({"landmarks": [[0.1, 1.0]]}, "the volume in 2 columns needs at least 2"),
        ({"like": PLACES}, r"like must be a sketch, .* got ndarray"),
        ({"kernel": GaussianMixture}, "lengthscale"),
        ({"landmarks": np.repeat(PLACES[:2], 2, axis=0)}, "landmark 1 is there more than once"),
        ({"scale": "rows"}, "scale must be one of"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(InputError, match=said):
        sketch(P, **options, **QUIET)


def test_no_more_landmarks_by_default_than_distinct_rows():
    found = sketch(np.repeat(np.arange(5.0), 100), lengthscales=GRID, **QUIET)
    assert found.plan.landmarks.shape == (5, 1)


def test_like_another(sketches):
    with pytest.raises(InputError, match="has its landmarks, lengthscales and kernel"):
        sketch(Q, like=sketches[0], landmarks=7)
    with pytest.raises(InputError, match="X has 1 columns"):
        sketch(Q[:, 0], like=sketches[0])
    with pytest.raises(InputError, match="landmark 2 is row 1 of X"):
        sketch(np.concatenate([PLACES[1:2], Q]), like=sketches[0])
    with pytest.raises(InputError, match=r"other must be a sketch, .* got ndarray"):
        sketches[0].merged(P)
    with pytest.raises(InputError, match="P must be a sketch"):
        compare_sketches(P, sketches[0])
    with pytest.raises(InputError, match="give them in that order"):
        sketch(Q, like=sketches[0], columns=("x1", "z"))
    for options, said in (
        ({"measure": Gaussian(np.ones(3), 0.0)}, "one per column"),
        ({"prior": 1.0}, "distribution of one number"),
        ({"names": ("old", "old")}, "tell the samples apart"),
        ({"prior": dist.Gamma(1.0, 1.0).expand([2])}, "distribution of one number"),
        ({"prior": dist.Uniform(50.0, 60.0)}, "zero at every lengthscale"),
    ):
        with pytest.raises(InputError, match=said):
            compare_sketches(*sketches, **options)
    with pytest.raises(InputError, match="null draws cannot reject"):
        compare_sketches(*sketches, null_draws=5)


@pytest.mark.slow
def test_the_commands(tmp_path):
    for name, part in (("p", P), ("q", Q)):
        np.savetxt(tmp_path / f"{name}.csv", part, delimiter=",", header="a,b", comments="")

    def run(*arguments, code=0):
        told = [str(tmp_path / each) if "." in each else each for each in arguments]
        result = CliRunner().invoke(app, told)
        assert result.exit_code == code, (result.stderr, result.exception)
        return result

    np.savetxt(tmp_path / "z.csv", PLACES, delimiter=",", header="a,b", comments="")
    grid = ("--lengthscales", "1,2,3")
    text = run("sketch", "p.csv", "--landmarks", "z.csv", *grid, "--out", "p.nc").stdout
    assert "Sketch of 90 rows of a, b: 6 landmarks, 3 lengthscales from 1 to 2 units" in text
    run("sketch", "q.csv", "--like", "p.nc", "--out", "q.nc")
    assert "Sketch of 160 rows" in run("merge", "p.nc", "q.nc", "--out", "pq.nc").stdout
    told = run("compare", "p.nc", "q.nc", "--json", "--out", "both.d")
    summary = json.loads(told.stdout)
    assert summary["rows"] == {"P": 90, "Q": 70}
    assert len(summary["posterior"]["mass"]) == 3
    assert {path.name for path in (tmp_path / "both.d").iterdir()} == {
        "witness.nc",
        "witness.png",
        "compare.json",
        "bke-files.json",
        ".bke.lock",
    }
    assert "given twice" in run("merge", "p.nc", "p.nc", code=2).stderr
    assert "leave out" in run("sketch", "q.csv", "--like", "p.nc", *grid, code=2).stderr
    assert "LOW,HIGH,COUNT" in run("sketch", "q.csv", "--lengthscales", "1,2", code=2).stderr
    assert "is not a sketch" in run("compare", "p.nc", "q.csv", code=1).stderr
    merged = run("merge", "p.nc", "q.csv", code=1).stderr
    assert (merged.count("q.csv"), "is not a sketch" in merged) == (1, True)
    narrow = run("sketch", "q.csv", "--columns", "a", "--like", "p.nc", code=1).stderr
    assert "q.csv has 1 column, but the sketch" in narrow
    assert "p.nc has 2: choose them with --columns" in narrow
    assert "no such file" in run("compare", "p.nc", "r.nc", code=1).stderr


@pytest.mark.slow
def test_a_collection_is_sketched_where_its_rows_are(tmp_path):
    """As the rows of a file are, up to rounding, in whatever parts; with names of columns."""
    dask = pytest.importorskip("dask")
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    X = np.random.default_rng(5).gamma(2.0, size=(900, 2))
    np.save(tmp_path / "rows.npy", X)
    options = {"landmarks": 9, "lengthscales": [0.5, 1.0, 2.0], "progress": False}
    of_file = sketch(open_rows(tmp_path / "rows.npy"), **options)
    with dask.config.set(scheduler="synchronous"):
        for chunks in ((900, 2), (170, 1)):
            found = sketch(da.from_array(X, chunks=chunks), **options)
            np.testing.assert_allclose(found.plan.landmarks, of_file.plan.landmarks, rtol=1e-12)
            for one, other in zip(found.sums, of_file.sums, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
        frame = dd.from_pandas(pd.DataFrame(X, columns=["u", "v"]), npartitions=3)
        assert sketch(frame, **options).plan.columns == ("u", "v")
        alike = sketch(frame[frame["u"] > 1.0], like=found)
        assert alike.rows == (X[:, 0] > 1.0).sum()
        assert not found.plan.difference(alike.plan)
        compare_sketches(found, alike)
        with pytest.raises(InputError, match="same value"):
            sketch(da.ones((50, 2), chunks=20), **options)
        with pytest.raises(InputError, match="landmark 1 is row 3 of part 2 of X"):
            sketch(da.from_array(X, chunks=(100, 2)), landmarks=[*X[102:103], [50.0, 50.0]])
        with pytest.raises(InputError, match="checkpoint"):
            sketch(frame, checkpoint=tmp_path / "kept")
