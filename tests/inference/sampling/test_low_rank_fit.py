"""Low-rank likelihoods through fit, the diagnosis, a saved run and the command line."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.inference import (
    InputError,
    Nuts,
    Quadrature,
    diagnose,
    fit,
    learn_kernel,
    load_run,
    open_run,
    save_run,
)
from bke.inference.core.machine import computing
from bke.inference.diagnostics.summary import settings
from bke.inference.sampling.approximation_error import error_sentences, estimate_error, is_small
from bke.inference.sampling.record import RECORD, read_record
from bke.inference.sampling.run import target_of
from bke.models import Nystrom, SquaredExponential, log_marginal_likelihood
from bke.models.likelihood import marginal
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.dense import Dense
from bke.models.likelihood.low_rank import LowRankSolver

X = np.random.default_rng(4).gamma(2.0, size=(90, 3)) * [1.0, 30.0, 5.0]
OPTIONS = {"likelihood": Nystrom(30), "progress": False}
QUICK = {"method": Quadrature(num_samples=800)}


@pytest.fixture(scope="module")
def run():
    return fit(X, **QUICK, **OPTIONS)


@pytest.mark.slow
def test_the_posterior_is_the_dense_one(run):
    """Within the error that is printed, here small; 800 independent draws each."""
    dense = fit(X, **QUICK, likelihood="dense", progress=False)
    low, exact = (np.log(tree["posterior"]["lengthscale"].values[..., 0]) for tree in (run, dense))
    # Five standard errors of a difference of means, a false failure in two million, and a tenth.
    assert abs(low.mean() - exact.mean()) < (5.0 * np.sqrt(2.0 / 800) + 0.1) * exact.std()
    assert low.std() == pytest.approx(exact.std(), rel=0.2)
    logs = [tree["quadrature"].attrs["log_normalizer"] for tree in (run, dense)]
    assert logs[0] == pytest.approx(logs[1], abs=0.3)
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
        found = diagnose(tree)
        said = "approximation of rank 30: differences of its log over these draws are estimated"
        assert f"{said} to be off by {error:.2g} nats" in str(found)
        assert "NOT ACCURATE" not in str(found)
        assert found.summary()["low_rank_error_small"] is True
    target, units = target_of(loaded)
    assert target.likelihood == Nystrom(30)
    with computing():
        points = target.prepared(units.points(X))
    assert isinstance(points, LowRankSolver)
    assert points.basis.size == 30


def change_record(run, **entries):
    run.attrs[RECORD] = json.dumps({**read_record(run.attrs), **entries})


@pytest.mark.slow
def test_a_large_error_is_a_warning(run):
    assert is_small(0.3)
    assert not is_small(0.31)
    assert not is_small(float("nan"))
    poor = run.copy()
    change_record(poor, low_rank_error=1.4)
    (sentence, warning) = error_sentences(poor)
    assert "off by 1.4 nats" in sentence
    assert "heavy tails" in sentence  # in few columns
    assert "NOT ACCURATE" in warning
    found = diagnose(poor)
    assert warning in found.verdict
    assert found.summary()["low_rank_error_small"] is False


def test_an_unknown_error_is_said_to_be_unknown(run, monkeypatch):
    """A solver without error estimate must neither lose the draws nor pass for accurate."""
    target, units = target_of(run)
    z = {n: v.values for n, v in run["unconstrained_posterior"].data_vars.items()}
    with computing():
        points = target.prepared(units.points(X))
        monkeypatch.setattr(LowRankSolver, "error_terms", lambda *_: None)
        found = estimate_error(target, points, z, run["sample_stats"]["lp"].values)
    assert np.isnan(found["low_rank_error"])
    unknown = run.copy()
    change_record(unknown, **found)
    (sentence,) = error_sentences(unknown)
    assert "draws is NOT KNOWN" in sentence
    assert diagnose(unknown).summary()["low_rank_error_small"] is False


@dataclasses.dataclass(frozen=True)
class Blurred(Likelihood):
    """The dense likelihood times a power, as some new one with options of its own."""

    share: float = 1.0
    powers: tuple[int, ...] = (1,)

    name = "blurred"
    approximate = True

    @property
    def advice(self):
        return "blur less"

    def solver(self, points, kernel, noise_variance, measure):
        return Dense().solver(points, kernel, noise_variance, measure)


def test_options_of_any_likelihood_are_recorded_and_restored(run, monkeypatch):
    """Also those of one that is no rank: they tell two runs apart, and advice is its own."""
    monkeypatch.setitem(marginal.LIKELIHOODS, Blurred.name, Blurred)
    trees = []
    for share in (0.25, 0.5):
        tree = run.copy()
        options = json.loads(json.dumps(Blurred(np.float64(share), (1, 2)).record()))
        model = {k: v for k, v in read_record(run.attrs)["model"].items() if k != "rank"}
        change_record(tree, model={**model, **options})
        assert target_of(tree)[0].likelihood == Blurred(share, (1, 2))
        trees.append(open_run(tree))
    assert [one.target.likelihood.share for one in trees] == [0.25, 0.5]
    poor = trees[0].tree
    change_record(poor, low_rank_error=1.4)
    assert error_sentences(poor)[1].endswith("as its width: blur less.")
    assert settings(poor)["likelihood_options"] == {"share": 0.25, "powers": (1, 2)}
    assert Blurred(0.25, (1, 2)).summary == "blurred likelihood, share 0.25, powers (1, 2)"


@pytest.mark.slow
def test_nuts_takes_the_gradient():
    found = fit(X, method=Nuts(num_chains=2, num_warmup=40, num_samples=30), seed=1, **OPTIONS)
    assert found["sample_stats"]["nonfinite_evaluations"].values.sum() == 0
    assert found.attrs["low_rank_error"] < 0.3


@pytest.mark.slow
def test_two_samples_have_a_view_each():
    options = {**OPTIONS, "likelihood": Nystrom(np.int64(30))}
    found = fit((X[:50], X[50:]), samples="product", **QUICK, **options)
    assert 0.0 < found.attrs["low_rank_error"] < 0.3


@pytest.mark.slow
def test_the_learned_kernel_is_nearly_the_same():
    low, exact = (
        learn_kernel(X, **options)
        for options in (OPTIONS, {"likelihood": "dense", "progress": False})
    )
    ratio = low.kernel.lengthscale / exact.kernel.lengthscale
    np.testing.assert_allclose(ratio, 1.0, atol=0.02)
    kernel = SquaredExponential(np.asarray(exact.kernel.lengthscale) / X.std(axis=0))
    dense = float(log_marginal_likelihood(X / X.std(axis=0), kernel, likelihood="dense"))
    assert low.log_marginal_likelihood == pytest.approx(dense, abs=0.5)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"likelihood": "nystrom"}, "likelihood='nystrom' needs a rank"),
        ({"likelihood": "fourier"}, "likelihood='fourier' needs a rank"),
        ({"likelihood": Nystrom(91)}, "rank must be from 1 to the number of rows, 90"),
        ({**OPTIONS, "noise_variance": "clt"}, "has one noise variance"),
    ],
)
def test_refusals(options, said):
    with pytest.raises(InputError, match=said):
        fit(X, **{"progress": False, **options})


def test_the_precision_of_jax_is_left_alone():
    for asked in (False, True):
        with jax.enable_x64(asked):
            log_marginal_likelihood(X, SquaredExponential(9.0), likelihood=Nystrom(30))
            assert jax.config.jax_enable_x64 is asked
            assert jnp.asarray(1.0).dtype == (np.float64 if asked else np.float32)
