"""Low-rank, landmark and spectral likelihoods through fit, diagnosis, saved runs and commands."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Quadrature,
    compare_kernels,
    diagnose,
    fit,
    learn_kernel,
    load_run,
    open_run,
    sample_witness,
    save_run,
)
from bke.inference.cli import app
from bke.inference.core.machine import computing
from bke.inference.data.units import choose_units
from bke.inference.diagnostics.summary import settings
from bke.inference.sampling.approximation_error import error_sentences, estimate_error, is_small
from bke.inference.sampling.record import RECORD, read_record
from bke.inference.sampling.run import target_of, units_of
from bke.inference.sampling.target import Target
from bke.models import (
    Fourier,
    Landmark,
    Matern,
    Nystrom,
    SquaredExponential,
    landmark_log_likelihood,
    log_marginal_likelihood,
)
from bke.models.likelihood import marginal
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.dense import Dense
from bke.models.likelihood.low_rank import LowRankSolver
from bke.models.likelihood.spectral import spectral_index
from bke.models.likelihood.spectral.base import SpectralIndex
from scipy.optimize import minimize_scalar
from scipy.stats import gamma
from typer.testing import CliRunner

QUIET = {"progress": False}
#: Data of the low-rank likelihoods, of the landmark model with its landmarks, and of the spectral.
X = np.random.default_rng(4).gamma(2.0, size=(90, 3)) * [1.0, 30.0, 5.0]
PLANE = np.random.default_rng(8).gamma(2.0, size=(80, 2)) * [1.0, 30.0]
LANDMARK_POINTS = np.array(
    [[0.5, 10.0], [1.0, 60.0], [2.0, 30.0], [3.0, 80.0], [4.0, 120.0], [6.0, 40.0]]
)
LINE = np.random.default_rng(0).gamma(2.0, size=320)
LOW_RANK = {"likelihood": Nystrom(30), **QUIET}
LANDMARKS = {"likelihood": Landmark(LANDMARK_POINTS), **QUIET}
QUICK = {"method": Quadrature(num_samples=800)}


def lengthscales(run):
    """Draws of the first column's lengthscale (chain, draw)."""
    return run["posterior"]["lengthscale"].values[..., 0]


def logs_of(run):
    return run["quadrature"].attrs["log_normalizer"]


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (X, {"likelihood": "nystrom"}, "likelihood='nystrom' needs a rank"),
        (X, {"likelihood": "fourier"}, "likelihood='fourier' needs a rank"),
        (X, {"likelihood": Nystrom(91)}, "rank must be from 1 to the number of rows, 90"),
        (X, {**LOW_RANK, "noise_variance": "clt"}, "has one noise variance"),
        (PLANE, {"likelihood": Landmark(PLANE[:9])}, "landmark 1 is row 1 of X"),
        (PLANE, {"likelihood": Landmark(1)}, "^the number of landmarks must be at least 2"),
        (PLANE, {"likelihood": Landmark(81)}, "at most 80"),
        (PLANE, {"likelihood": Landmark(2.5)}, "must be a whole number, got 2.5"),
        (PLANE, {"likelihood": Landmark(LANDMARK_POINTS[:, :1])}, r"must have shape \(k, 2\)"),
        (PLANE, {"likelihood": Landmark(LANDMARK_POINTS[:1])}, "at least 2"),
        (PLANE, {"likelihood": "landmark", "noise_variance": "clt"}, "one noise variance"),
        (np.hstack([PLANE] * 2), {"likelihood": "spectral"}, r"cannot be used here: .* 4 columns"),
    ],
)
def test_refusals(data, options, message):
    with pytest.raises(InputError, match=message):
        fit(data, **{**QUIET, **options})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "options"), [(X, LOW_RANK), (PLANE, LANDMARKS)], ids=["low rank", "landmarks"]
)
def test_nuts_agrees_with_quadrature(data, options):
    exact = np.log(lengthscales(fit(data, method=Quadrature(num_samples=1600), **options))).ravel()
    run = fit(data, method=Nuts(num_chains=4, num_warmup=60, num_samples=100), seed=1, **options)
    chains = np.log(lengthscales(run))
    # Chains may be in a lower mode, 20 nats below and at a third of the lengthscale.
    drawn = chains[(chains > np.log(1.5 * data[:, 0].std())).all(axis=1)].ravel()
    assert len(drawn) >= 100
    # Some 40 effective draws or more: 5 standard errors of the mean, 6e-7 by the normal limit.
    assert abs(exact.mean() - drawn.mean()) < 0.8 * exact.std()
    assert drawn.std() == pytest.approx(exact.std(), rel=0.5)
    assert run["sample_stats"]["nonfinite_evaluations"].values.sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "likelihood", "accuracy"),
    [(X, Nystrom(30), 0.02), (LINE, "spectral", 1e-5)],
    ids=["low rank", "spectral"],
)
def test_the_learned_kernel_is_that_of_the_matrices(data, likelihood, accuracy):
    approximate, exact = (
        learn_kernel(data, likelihood=kind, **QUIET) for kind in (likelihood, "dense")
    )
    ratio = np.asarray(approximate.kernel.lengthscale) / np.asarray(exact.kernel.lengthscale)
    np.testing.assert_allclose(ratio, 1.0, atol=accuracy)
    values = [learned.log_marginal_likelihood for learned in (approximate, exact)]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=0.5 if accuracy > 1e-3 else 0.0)


# Low-rank likelihoods


@pytest.fixture(scope="module")
def run():
    return fit(X, **QUICK, **LOW_RANK)


@pytest.mark.slow
def test_the_posterior_of_low_rank_is_that_of_the_dense_likelihood(run):
    """Within the error that is printed, here small; 800 independent draws each."""
    dense = fit(X, **QUICK, likelihood="dense", **QUIET)
    low, exact = (np.log(lengthscales(tree)) for tree in (run, dense))
    # Five standard errors of a difference of means, a false failure in two million, and a tenth.
    assert abs(low.mean() - exact.mean()) < (5.0 * np.sqrt(2.0 / 800) + 0.1) * exact.std()
    assert low.std() == pytest.approx(exact.std(), rel=0.2)
    assert logs_of(run) == pytest.approx(logs_of(dense), abs=0.3)
    assert "low_rank_error" not in dense.attrs
    assert diagnose(dense).low_rank_error is None


@pytest.mark.slow
def test_the_error_is_recorded_and_printed(run, tmp_path):
    save_run(run, tmp_path / "run.nc")
    loaded = load_run(tmp_path / "run.nc")
    for tree in (run, loaded):
        error = tree.attrs["low_rank_error"]
        assert 0.0 < error < 0.3
        parts = [tree.attrs[f"low_rank_{name}"] for name in ("standard_error", "truncation")]
        assert error == pytest.approx(np.hypot(*parts))
        assert tree.attrs["low_rank_draws"] == 16
        diagnosis = diagnose(tree)
        sentence = "approximation of rank 30: differences of its log over these draws are estimated"
        assert f"{sentence} to be off by {error:.2g} nats" in str(diagnosis)
        assert "NOT ACCURATE" not in str(diagnosis)
        assert diagnosis.summary()["low_rank_error_small"] is True
    target, units = target_of(loaded)
    assert target.likelihood == Nystrom(30)
    with computing():
        points = target.prepared(units.transform_data(X))
    assert isinstance(points, LowRankSolver)
    assert points.basis.size == 30


def with_record(run, **entries):
    """A copy of a run with other entries in its record."""
    copy = run.copy()
    copy.attrs[RECORD] = json.dumps({**read_record(run.attrs), **entries})
    return copy


@pytest.mark.slow
def test_a_large_error_is_a_warning(run):
    assert [is_small(value) for value in (0.3, 0.31, float("nan"))] == [True, False, False]
    poor = with_record(run, low_rank_error=1.4)
    (sentence, warning) = error_sentences(poor)
    assert "off by 1.4 nats" in sentence
    assert "heavy tails" in sentence  # in few columns
    assert "NOT ACCURATE" in warning
    diagnosis = diagnose(poor)
    assert warning in diagnosis.verdict
    assert diagnosis.summary()["low_rank_error_small"] is False


def test_an_unknown_error_is_reported_as_unknown(run, monkeypatch):
    """A solver without error estimate must neither lose the draws nor pass for accurate."""
    target, units = target_of(run)
    z = {n: v.values for n, v in run["unconstrained_posterior"].data_vars.items()}
    with computing():
        points = target.prepared(units.transform_data(X))
        monkeypatch.setattr(LowRankSolver, "error_terms", lambda *_: None)
        estimate = estimate_error(target, points, z, run["sample_stats"]["lp"].values)
    assert np.isnan(estimate["low_rank_error"])
    unknown = with_record(run, **estimate)
    (sentence,) = error_sentences(unknown)
    assert "draws is NOT KNOWN" in sentence
    assert diagnose(unknown).summary()["low_rank_error_small"] is False


@dataclasses.dataclass(frozen=True)
class Blurred(Likelihood):
    """The dense likelihood times a power, as a new likelihood with new options."""

    fraction: float = 1.0
    powers: tuple[int, ...] = (1,)

    name = "blurred"
    approximate = True

    @property
    def advice(self):
        return "blur less"

    def solver(self, points, kernel, noise_variance, measure):
        return Dense().solver(points, kernel, noise_variance, measure)


def test_options_of_any_likelihood_are_recorded_and_restored(run, monkeypatch):
    """Options other than a rank identify runs too, and the likelihood gives its advice."""
    monkeypatch.setitem(marginal.LIKELIHOODS, Blurred.name, Blurred)
    trees = []
    for fraction in (0.25, 0.5):
        options = json.loads(json.dumps(Blurred(np.float64(fraction), (1, 2)).record()))
        model = {k: v for k, v in read_record(run.attrs)["model"].items() if k != "rank"}
        tree = with_record(run, model={**model, **options})
        assert target_of(tree)[0].likelihood == Blurred(fraction, (1, 2))
        trees.append(open_run(tree))
    assert [tree_run.target.likelihood.fraction for tree_run in trees] == [0.25, 0.5]
    poor = with_record(trees[0].tree, low_rank_error=1.4)
    assert error_sentences(poor)[1].endswith("as its width: blur less.")
    assert settings(poor)["likelihood_options"] == {"fraction": 0.25, "powers": (1, 2)}
    assert Blurred(0.25, (1, 2)).summary == "blurred likelihood, fraction 0.25, powers (1, 2)"


@pytest.mark.slow
def test_two_samples_are_prepared_separately():
    options = {**LOW_RANK, "likelihood": Nystrom(np.int64(30))}
    product_run = fit((X[:50], X[50:]), samples="product", **QUICK, **options)
    assert 0.0 < product_run.attrs["low_rank_error"] < 0.3


def test_the_precision_of_jax_does_not_change():
    for enabled in (False, True):
        with jax.enable_x64(enabled):
            log_marginal_likelihood(X, SquaredExponential(9.0), likelihood=Nystrom(30))
            assert jax.config.jax_enable_x64 is enabled
            assert jnp.asarray(1.0).dtype == (np.float64 if enabled else np.float32)


# The landmark model


def log_likelihood(lengthscale):
    """Compute it for scaled data, independently of bke.inference."""
    unit = PLANE.std(axis=0)
    kernel = SquaredExponential(lengthscale)
    return float(
        landmark_log_likelihood(PLANE / unit, LANDMARK_POINTS / unit, kernel, noise_variance=0.1)
    )


@pytest.fixture(scope="module")
def by_landmarks():
    return fit(PLANE, method=Quadrature(num_samples=1600), **LANDMARKS)


def test_the_posterior_by_landmarks_is_that_of_the_density(by_landmarks):
    grid = np.exp(np.linspace(np.log(0.05), np.log(5.0), 400))
    log_density = [log_likelihood(value) + gamma(1.0).logpdf(value) for value in grid]
    weight = np.exp(log_density - np.max(log_density)) * grid  # evenly spaced logs
    mean = np.sum(weight * grid) / weight.sum()
    spread = np.sqrt(np.sum(weight * (grid - mean) ** 2) / weight.sum())
    drawn = lengthscales(by_landmarks) / PLANE[:, 0].std()
    # 1600 independent draws: five standard errors, a false failure in two million.
    assert abs(drawn.mean() - mean) < 5.0 * spread / 40.0
    assert drawn.std() == pytest.approx(spread, rel=0.15)


def test_a_saved_run_has_its_landmarks(by_landmarks, tmp_path):
    save_run(by_landmarks, tmp_path / "run.nc")
    loaded = load_run(tmp_path / "run.nc")
    np.testing.assert_allclose(loaded["constant_data"]["landmarks"].values, LANDMARK_POINTS)
    target, units = target_of(loaded)
    np.testing.assert_allclose(target.landmarks, LANDMARK_POINTS / PLANE.std(axis=0))
    with computing():
        points = target.prepared(units.transform_data(PLANE))
    assert points.entries == 80 * 6


@pytest.mark.slow
def test_the_learned_kernel_of_landmarks_is_the_maximum():
    learned = learn_kernel(PLANE, **LANDMARKS)
    maximum = minimize_scalar(lambda at: -log_likelihood(at), bounds=(1.5, 5.0), method="bounded")
    np.testing.assert_allclose(learned.kernel.lengthscale, maximum.x * PLANE.std(axis=0), rtol=1e-3)
    assert learned.log_marginal_likelihood == pytest.approx(-maximum.fun, rel=1e-9)


def test_the_number_of_landmarks():
    units = choose_units(PLANE, "column", None)
    for number, count in ((7, 7), (None, 20), (np.int64(9), 9)):  # by default a quarter of the rows
        target = Target.checked(likelihood=Landmark(number)).in_model_units(units, PLANE, 0)
        assert target.landmarks.shape == (count, 2)
        assert (target.landmarks < (PLANE / PLANE.std(axis=0)).max(axis=0)).all()
    target = Target.checked(likelihood=Fourier(3)).in_model_units(units, PLANE, 0)
    assert target.likelihood == Fourier(3)


@pytest.mark.slow
def test_the_witness_with_all_rows_as_landmarks_is_the_usual_witness():
    """Draws have the mean and the spread of the posteriors given all rows."""
    P, Q = PLANE[:40], PLANE[40:] + np.array([0.4, 0.0])
    rows = np.concatenate([P, Q])
    run = fit(rows, method=Quadrature(num_samples=1600), **QUIET)
    exact, by_landmarks, thinned = (
        sample_witness(run, P, Q, PLANE[:3] + 0.1, **QUIET, **options)["witness"].values[0]
        for options in ({}, {"landmarks": rows + 1e-9}, {"landmarks": rows + 1e-9, "thin": 3})
    )
    spread = exact.std(axis=0)
    np.testing.assert_allclose(
        by_landmarks.mean(axis=0), exact.mean(axis=0), atol=0.01 * spread.max()
    )
    np.testing.assert_allclose(by_landmarks.std(axis=0), spread, rtol=0.05)
    # Other numbers, and a third of the hyperparameters: 5 standard errors of a difference.
    np.testing.assert_allclose(thinned.mean(axis=0), exact.mean(axis=0), atol=0.25 * spread.max())
    np.testing.assert_allclose(thinned.std(axis=0), spread, rtol=0.2)
    assert len(np.unique(thinned[:, 0])) == 1600


def test_the_witness_of_a_run_uses_its_landmarks(by_landmarks):
    pair = PLANE[:40], PLANE[40:]
    witness = sample_witness(by_landmarks, *pair, PLANE[:2], **QUIET)
    assert witness.attrs["landmarks"] == 6
    distant = sample_witness(by_landmarks, *pair, [[1e3, 1e5]], **QUIET)["witness"].values
    assert distant.std() == pytest.approx(np.sqrt(2.0), rel=0.1)  # the prior of a difference
    with pytest.raises(InputError, match="thin must be from 1 to 1600"):
        sample_witness(by_landmarks, *pair, thin=1601)


def test_scores_are_for_the_dense_model():
    with pytest.raises(InputError, match="likelihood must be one of"):
        compare_kernels(PLANE, {"se": SquaredExponential}, likelihood="landmark")


@pytest.mark.slow
def test_landmarks_on_the_command_line(tmp_path):
    def succeeds(*arguments):
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == 0, result.stderr

    files = [tmp_path / name for name in ("p.csv", "q.csv", "z.csv")]
    for path, rows in zip(files, (PLANE[:40], PLANE[40:], LANDMARK_POINTS), strict=True):
        np.savetxt(path, rows, delimiter=",", header="a,b", comments="")
    *pair, landmarks = files
    out = tmp_path / "run.nc"
    quick = ("--method", "quadrature", "--draws", 64, "--out", out)
    succeeds("fit", *pair, "--likelihood", "landmark", "--landmarks", landmarks, *quick)
    np.testing.assert_allclose(load_run(out)["constant_data"]["landmarks"].values, LANDMARK_POINTS)
    succeeds("witness", out, *pair, "--out", tmp_path / "w", "--landmarks", 5)


# The spectral likelihood


def integrated(X, likelihood, *, tolerance=1e-3, **options):
    method = Quadrature(tolerance, num_samples=64)
    return fit(X, method=method, likelihood=likelihood, **QUIET, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "by_waves", "options"),
    [
        (LINE, "spectral", {}),
        # The 40 rows are too few for waves.
        ((LINE[:40] + 0.5, LINE), "auto", {"samples": "product"}),
        (LINE, "spectral", {"kernel": Matern(1.5)}),
    ],
    ids=["one", "two", "Matern"],
)
def test_the_posterior_by_waves_is_that_of_the_matrices(data, by_waves, options):
    runs = [integrated(data, likelihood, **options) for likelihood in (by_waves, "dense")]
    assert logs_of(runs[0]) == pytest.approx(logs_of(runs[1]), abs=1e-6)
    np.testing.assert_allclose(*(run["posterior"]["lengthscale"] for run in runs), rtol=1e-5)


@pytest.mark.slow
def test_rounded_rows_that_sums_do_not_take_are_dithered_before_they_are_prepared():
    """2000 rows of 60 values, which would need matrices without dithering.

    Over the standard deviation of heavy tails the unit is a millionth; most rows have values of
    others.
    """
    rounded = np.round(np.random.default_rng(0).normal(size=2000), 1)
    with pytest.raises(ValueError, match="far nearer each other"):
        spectral_index(rounded[:, None], SquaredExponential())
    assert units_of(integrated(rounded, "spectral", tolerance=0.1)).dither == [0.1]
    heavy = (np.random.default_rng(0).pareto(1.2, size=6000) * 100.0).round()
    assert units_of(integrated(heavy, "auto", tolerance=1.0)).dither == [1.0]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "spread"), [(100_000, 0.05), ((6000, 2), 0.1)])
def test_more_rows_than_matrices_can_hold(shape, spread):
    """10^5 rows: an n x n matrix would take 75 GiB."""
    rows = np.random.default_rng(1).gamma(2.0, size=shape)
    run = integrated(rows, "auto", tolerance=0.1)
    draws = run["posterior"]["lengthscale"].values
    assert run["observed_data"]["X"].shape == rows.reshape(len(rows), -1).shape
    assert np.all(draws.reshape(64, -1).std(axis=0) < spread * draws.mean())


def test_separate_lengthscales_of_columns_need_matrices():
    points = np.random.default_rng(1).normal(size=(1000, 2))
    for shape, index in (((), True), ((2,), False)):
        prior = dist.Gamma(np.ones(shape), 1.0)
        target = Target.checked(SquaredExponential, prior, 0.1, "unit", "auto")
        assert isinstance(target.prepared(points), SpectralIndex) == index


@pytest.mark.slow
def test_a_mode_narrower_than_the_grid_of_its_profile():
    """0.1 % wide, on a grid of steps of 4 %, whose smoothed top is 20 widths off."""
    run = integrated(np.random.default_rng(0).gamma(3.0, size=20_000), "auto")
    (mode,) = diagnose(run).modes.modes
    draws = run["posterior"]["lengthscale"].values
    assert mode.draws == draws.size
    assert abs(mode.location["lengthscale"] - draws.mean()) < 0.1 * draws.std()
