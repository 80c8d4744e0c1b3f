"""The landmark model through fit, learn_kernel, the witness and the command line."""

import numpy as np
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Quadrature,
    compare_kernels,
    fit,
    learn_kernel,
    load_run,
    sample_witness,
    save_run,
)
from bke.inference.cli import app
from bke.inference.core.machine import computing
from bke.inference.data.units import choose_units
from bke.inference.sampling.run import target_of
from bke.inference.sampling.target import Target
from bke.models import Fourier, Landmark, SquaredExponential, landmark_log_likelihood
from scipy.optimize import minimize_scalar
from scipy.stats import gamma
from typer.testing import CliRunner

RNG = np.random.default_rng(8)
X = RNG.gamma(2.0, size=(80, 2)) * [1.0, 30.0]
PLACES = np.array([[0.5, 10.0], [1.0, 60.0], [2.0, 30.0], [3.0, 80.0], [4.0, 120.0], [6.0, 40.0]])
OPTIONS = {"likelihood": Landmark(PLACES), "progress": False}


def log_likelihood(lengthscale):
    """Of the scaled data: independent of everything in bke.inference."""
    unit = X.std(axis=0)
    kernel = SquaredExponential(lengthscale)
    return float(landmark_log_likelihood(X / unit, PLACES / unit, kernel, noise_variance=0.1))


@pytest.fixture(scope="module")
def run():
    return fit(X, method=Quadrature(num_samples=1600), **OPTIONS)


def test_the_posterior_is_that_of_the_density(run):
    grid = np.exp(np.linspace(np.log(0.05), np.log(5.0), 400))
    log_density = [log_likelihood(value) + gamma(1.0).logpdf(value) for value in grid]
    weight = np.exp(log_density - np.max(log_density)) * grid  # evenly spaced logs
    mean = np.sum(weight * grid) / weight.sum()
    spread = np.sqrt(np.sum(weight * (grid - mean) ** 2) / weight.sum())
    drawn = run["posterior"]["lengthscale"].values[..., 0] / X[:, 0].std()
    # 1600 independent draws: five standard errors, a false failure in two million.
    assert abs(drawn.mean() - mean) < 5.0 * spread / 40.0
    assert drawn.std() == pytest.approx(spread, rel=0.15)


def test_a_saved_run_knows_its_landmarks(run, tmp_path):
    save_run(run, tmp_path / "run.nc")
    loaded = load_run(tmp_path / "run.nc")
    np.testing.assert_allclose(loaded["constant_data"]["landmarks"].values, PLACES)
    target, units = target_of(loaded)
    np.testing.assert_allclose(target.landmarks, PLACES / X.std(axis=0))
    with computing():
        points = target.prepared(units.points(X))
    assert points.entries == 80 * 6


@pytest.mark.slow
def test_nuts_samples_the_same(run):
    chains = fit(X, method=Nuts(num_chains=4, num_warmup=60, num_samples=100), seed=1, **OPTIONS)
    both = [np.log(tree["posterior"]["lengthscale"].values[..., 0]) for tree in (run, chains)]
    # Chains may be in the lower mode, 20 nats below and at a third of the lengthscale.
    low = np.log(1.5 * X[:, 0].std())
    exact, drawn = both[0].ravel(), both[1][(both[1] > low).all(axis=1)].ravel()
    assert len(drawn) >= 100
    # Some 40 effective draws or more: 5 standard errors of the mean, 6e-7 by the normal limit.
    assert abs(exact.mean() - drawn.mean()) < 0.8 * exact.std()
    assert drawn.std() == pytest.approx(exact.std(), rel=0.5)
    assert chains["sample_stats"]["nonfinite_evaluations"].values.sum() == 0


@pytest.mark.slow
def test_the_learned_kernel_is_the_maximum():
    learned = learn_kernel(X, **OPTIONS)
    found = minimize_scalar(lambda at: -log_likelihood(at), bounds=(1.5, 5.0), method="bounded")
    np.testing.assert_allclose(learned.kernel.lengthscale, found.x * X.std(axis=0), rtol=1e-3)
    assert learned.log_marginal_likelihood == pytest.approx(-found.fun, rel=1e-9)


def test_how_many_landmarks():
    units = choose_units(X, "column", None)
    for asked, count in ((7, 7), (None, 20), (np.int64(9), 9)):  # by default a quarter of the rows
        target = Target.checked(likelihood=Landmark(asked)).in_model_units(units, X, 0)
        found = target.landmarks
        assert found.shape == (count, 2)
        assert (found < (X / X.std(axis=0)).max(axis=0)).all()
    target = Target.checked(likelihood=Fourier(3)).in_model_units(units, X, 0)
    assert target.likelihood == Fourier(3)


@pytest.mark.slow
def test_the_witness_at_all_rows_is_the_usual_one():
    """Draws have the mean and the spread of the posteriors given all rows."""
    P, Q = X[:40], X[40:] + np.array([0.4, 0.0])
    run = fit(np.concatenate([P, Q]), method=Quadrature(num_samples=1600), progress=False)
    at = X[:3] + 0.1
    whole, seen, thinned = (
        sample_witness(run, P, Q, at, progress=False, **options)["witness"].values.reshape(1600, 3)
        for options in (
            {},
            {"landmarks": np.concatenate([P, Q]) + 1e-9},
            {"landmarks": np.concatenate([P, Q]) + 1e-9, "thin": 3},
        )
    )
    spread = whole.std(axis=0)
    np.testing.assert_allclose(seen.mean(axis=0), whole.mean(axis=0), atol=0.01 * spread.max())
    np.testing.assert_allclose(seen.std(axis=0), spread, rtol=0.05)
    # Other numbers, and a third of the hyperparameters: 5 standard errors of a difference.
    np.testing.assert_allclose(thinned.mean(axis=0), whole.mean(axis=0), atol=0.25 * spread.max())
    np.testing.assert_allclose(thinned.std(axis=0), spread, rtol=0.2)
    assert len(np.unique(thinned[:, 0])) == 1600


def test_the_witness_of_a_run_is_seen_from_its_landmarks(run):
    found = sample_witness(run, X[:40], X[40:], X[:2], progress=False)
    assert found.attrs["landmarks"] == 6
    far = sample_witness(run, X[:40], X[40:], [[1e3, 1e5]], progress=False)["witness"].values
    assert far.std() == pytest.approx(np.sqrt(2.0), rel=0.1)  # the prior of a difference


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"likelihood": Landmark(X[:9])}, "landmark 1 is row 1 of X"),
        ({"likelihood": Landmark(1)}, "^the number of landmarks must be at least 2"),
        ({"likelihood": Landmark(81)}, "at most 80"),
        ({"likelihood": Landmark(2.5)}, "must be a whole number, got 2.5"),
        ({"likelihood": Landmark(PLACES[:, :1])}, r"must have shape \(k, 2\)"),
        ({"likelihood": Landmark(PLACES[:1])}, "at least 2"),
        ({"likelihood": "landmark", "noise_variance": "clt"}, "one noise variance"),
        ({"likelihood": "quadratic"}, "likelihood must be one of"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(InputError, match=said):
        fit(X, progress=False, **options)


def test_scores_are_for_the_dense_model():
    with pytest.raises(InputError, match="likelihood must be one of"):
        compare_kernels(X, {"se": SquaredExponential}, likelihood="landmark")


def test_thinned_away(run):
    with pytest.raises(InputError, match="thin must be from 1 to 1600"):
        sample_witness(run, X[:40], X[40:], thin=1601)


@pytest.mark.slow
def test_on_the_command_line(tmp_path):
    for name, part in (("p.csv", X[:40]), ("q.csv", X[40:])):
        np.savetxt(tmp_path / name, part, delimiter=",", header="a,b", comments="")
    np.savetxt(tmp_path / "z.csv", PLACES, delimiter=",", header="a,b", comments="")
    files = [str(tmp_path / name) for name in ("p.csv", "q.csv")]
    told = ["--likelihood", "landmark", "--landmarks", str(tmp_path / "z.csv")]
    out = tmp_path / "run.nc"
    quick = ["--method", "quadrature", "--draws", "64", "--out", str(out)]
    result = CliRunner().invoke(app, ["fit", *files, *told, *quick])
    assert result.exit_code == 0, result.stderr
    np.testing.assert_allclose(load_run(out)["constant_data"]["landmarks"].values, PLACES)
    folder = ["--out", str(tmp_path / "w"), "--landmarks", "5"]
    result = CliRunner().invoke(app, ["witness", str(out), *files, *folder])
    assert result.exit_code == 0, result.stderr
