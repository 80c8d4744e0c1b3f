"""Bad arguments of the Python API: one sentence that names the argument, never a NaN result."""

import math

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    Nuts,
    credible_band,
    diagnose,
    fit,
    load_run,
    normal_laplace,
    sample_witness,
)
from bke.inference.data import checks
from bke.models import (
    Gaussian,
    Laplace,
    Matern,
    RationalQuadratic,
    SquaredExponential,
    bke_model,
    embedding_posterior,
    log_jacobian,
    log_marginal_likelihood,
)
from numpyro import handlers

NAN, INF = math.nan, math.inf
RNG = np.random.default_rng(0)
X, X2 = RNG.normal(size=(12, 1)), RNG.normal(size=(12, 2))
QUICK = {"method": Nuts(num_chains=1, num_warmup=20, num_samples=4), "progress": False}
JARGON = ("jit", "tracer", "abstract array", "jnp.", "broadcast", "shapes=", "<function", "ufunc")


def refusal(function, *args, error=ValueError, **options):
    """The message with which ``function`` refuses: one line, no word of JAX."""
    with pytest.raises(error) as caught:
        function(*args, **options)
    message = str(caught.value)
    assert message
    assert "\n" not in message
    assert not [word for word in JARGON if word in message]
    return message


def quick_fit(data=X, **options):
    return fit(data, **(QUICK | options))


def likelihood(data=X, kernel=None, **options):
    return log_marginal_likelihood(data, kernel or SquaredExponential(1.0), **options)


def model(data=X, **options):
    """One execution of the model, as a user's MCMC would start it."""
    with jax.enable_x64(True):
        seeded = handlers.seed(bke_model, jax.random.key(0))
        return handlers.trace(seeded).get_trace(data, **options)


ENTRIES = pytest.mark.parametrize("entry", [quick_fit, likelihood, model])


@pytest.fixture(scope="module")
def run():
    return quick_fit()


@pytest.fixture(scope="module")
def witness(run):
    return sample_witness(run, X[:6], X[6:], [0.0, 1.0])


@pytest.mark.parametrize(
    "value",
    [-1, 0, 0.0, NAN, INF, -INF, np.array([1.0, -1.0]), [1.0, -1.0], np.array([1.0, NAN])],
)
@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential,
        Laplace,
        lambda value: Matern(1.5, value),
        lambda value: RationalQuadratic(1.0, value),
    ],
)
def test_lengthscale(kernel, value):
    assert "lengthscale must be positive" in refusal(kernel, value)


@pytest.mark.parametrize("value", ["a", None])
def test_lengthscale_of_another_type(value):
    assert "lengthscale" in refusal(lambda: likelihood(kernel=SquaredExponential(value)))


def test_wrong_number_of_lengthscales():
    three = SquaredExponential(np.ones(3))
    assert "(2)" in refusal(likelihood, X2, three)
    assert "lengthscale" in refusal(quick_fit, X2, prior=dist.Gamma(1.0, 1.0).expand([3]))


@ENTRIES
@pytest.mark.parametrize("value", [-1, 0, 0.0, NAN, INF, -0.1])
def test_noise_variance(entry, value):
    assert "noise_variance must be" in refusal(entry, noise_variance=value)


@pytest.mark.parametrize("value", ["0.1", None, True, np.array([0.1, 0.2])])
def test_noise_variance_of_another_type(value):
    assert "noise_variance must be" in refusal(quick_fit, noise_variance=value)


@pytest.mark.parametrize("entry", [likelihood, model])
@pytest.mark.parametrize("value", ["a", None, True, np.array([0.1, 0.2])])
def test_noise_variance_of_another_type_without_fit(entry, value):
    assert "noise_variance" in refusal(entry, noise_variance=value)


@pytest.mark.parametrize("entry", [quick_fit, model])
def test_noise_prior_that_reaches_zero(entry):
    for prior in (dist.Gamma(1.0, 1.0), dist.HalfNormal(1.0), dist.Uniform(0.0, 1.0)):
        assert "bounded away from zero" in refusal(entry, noise_variance=prior)


@pytest.mark.parametrize("entry", [quick_fit, model])
@pytest.mark.parametrize(
    "prior",
    [
        lambda: dist.Gamma(-1.0, 1.0),
        lambda: dist.Gamma(0.0, 1.0),
        lambda: dist.Gamma(1.0, -1.0),
        lambda: dist.Gamma(1.0, 0.0),
        lambda: dist.Gamma(NAN, 1.0),
        lambda: dist.LogNormal(NAN, 1.0),
        lambda: dist.LogNormal(0.0, -1.0),
        lambda: dist.Gamma(INF, 1.0),
        lambda: dist.Gamma(1.0, INF),
        lambda: dist.Uniform(0.5, NAN),
    ],
)
def test_parameters_of_the_prior(entry, prior):
    message = refusal(lambda: entry(prior=prior()))  # NumPyro refuses some of them itself
    assert "invalid" in message or "prior" in message


@pytest.mark.parametrize("entry", [quick_fit, model])
@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (lambda: dist.Normal(0.0, 1.0), "positive support"),
        (lambda: dist.Gamma(-1.0, 1.0, validate_args=False), "prior of 'lengthscale': Gamma"),
        (lambda: "gamma", "prior must be a NumPyro distribution"),
        (lambda: 2.0, "prior must be a NumPyro distribution"),
        (lambda: {"length": dist.Gamma(1.0, 1.0)}, "prior names 'length'"),
        (lambda: {"lengthscale": 1.0}, "prior of 'lengthscale' must be a NumPyro distribution"),
        (lambda: dist.Poisson(2.0), "prior"),
    ],
)
def test_prior(entry, prior, said):
    assert said in refusal(entry, prior=prior())


def test_prior_without_any_site():
    assert "prior" in refusal(quick_fit, prior={})


@ENTRIES
@pytest.mark.parametrize("measure", ["gauss", None, 3])
def test_measure(entry, measure):
    assert "measure must be 'unit', 'lebesgue' or Gaussian" in refusal(entry, measure=measure)


@pytest.mark.parametrize("scale", [-1.0, 0.0, NAN, INF, np.array([1.0, -1.0]), [1.0, -1.0]])
def test_scale_of_the_gaussian_measure(scale):
    assert "scale" in refusal(Gaussian, scale)


@pytest.mark.parametrize("centre", [NAN, INF])
def test_centre_of_the_gaussian_measure(centre):
    assert "centre" in refusal(Gaussian, 1.0, centre)


@pytest.mark.parametrize("entry", [likelihood, quick_fit])
def test_gaussian_measure_of_another_dimension(entry):
    assert "scale" in refusal(entry, X2, measure=Gaussian(np.ones(3)))


@ENTRIES
def test_likelihood(entry):
    for value in ("sparse", None):
        assert "likelihood must be one of" in refusal(entry, likelihood=value)


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("method", "gibbs", "method must be one of"),
        ("method", None, "method must be one of"),
        ("method", Nuts, "method must be one of"),
        ("kernel", "se", "kernel must be a kernel"),
        ("kernel", 3, "kernel must be a kernel"),
        ("kernel", None, "kernel must be a kernel"),
        ("kernel", Matern, "kernel Matern needs parameters"),
        ("standardize", "row", "standardize must be one of"),
        ("standardize", 3, "standardize must be one of"),
        ("dither", "yes", "dither must be"),
        ("dither", -1, "dither must be"),
        ("dither", NAN, "dither must be"),
        ("dither", INF, "dither must be"),
        ("dither", [1.0, 2.0, 3.0], "dither"),
        ("seed", -1, "seed must be from 0"),
        ("seed", 1.5, "seed must be a whole number"),
        ("seed", 2**70, "seed"),
        ("columns", ["a", "b"], "columns has 2 names"),
        ("columns", [], "columns has 0 names"),
    ],
)
def test_arguments_of_fit(argument, value, said):
    assert said in refusal(quick_fit, **{argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("num_chains", 0, "num_chains must be from 1 to 1000"),
        ("num_chains", -1, "num_chains must be from 1 to 1000"),
        ("num_chains", 1001, "num_chains must be from 1 to 1000, got 1001"),
        ("num_chains", 2.5, "num_chains must be a whole number"),
        ("num_chains", NAN, "num_chains must be a whole number"),
        ("num_chains", "3", "num_chains must be a whole number"),
        ("num_chains", True, "num_chains must be a whole number"),
        ("num_warmup", 19, "num_warmup must be at least 20"),
        ("num_warmup", 50.0, "num_warmup must be a whole number"),
        ("num_samples", 3, "num_samples must be at least 4"),
        ("num_samples", None, "num_samples must be a whole number"),
    ],
)
def test_options_of_nuts(argument, value, said):
    assert said in refusal(Nuts, **{argument: value})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("num_particles", "'num_particles': give method=Smc(num_particles=...)"),
        ("num_warmup", "'num_warmup': give method=Nuts(num_warmup=...)"),
        ("num_samples", "method=Nuts(num_samples=...) or method=Quadrature(num_samples=...)"),
        ("rank", "give likelihood=Nystrom(rank=...) or likelihood=Fourier(rank=...)"),
        ("chians", "unexpected keyword argument 'chians'"),
    ],
)
def test_an_option_in_the_wrong_place_is_told_where_it_belongs(name, said):
    message = refusal(fit, X, error=TypeError, **{name: 100})
    assert message.endswith(said)


def with_cell(value, row=7, shape=(12, 2)):
    data = RNG.normal(size=shape)
    data[row, -1] = value
    return data


BAD_DATA = [
    (with_cell(NAN), "a missing value (NaN) in row 8, column 2"),
    (with_cell(INF), "an infinite value in row 8, column 2"),
    (np.array([1.0]), "at least two rows, and has 1"),
    (np.zeros((0, 1)), "at least two rows, and has 0"),
    (np.ones((5, 1)), "5 rows and all are equal"),
    (np.column_stack([np.arange(5.0), np.ones(5)]), "every row of column 2"),
    ([["1", "a"], ["2", "b"]], "'1' in row 1, column 1"),
    (np.zeros((2, 2, 2)), "3 dimensions"),
    (None, "must be an array or a data frame, got NoneType"),
    (np.array([1j, 2.0, 3.0]), "'1j' in row 1"),
    ([[1.0, 2.0], [3.0]], "1 values in row 2 but 2 in row 1"),
    (np.array([1e200, 1.0, 2.0]), "overflow in row 1"),
]


@pytest.mark.parametrize(("data", "said"), BAD_DATA)
def test_data_of_fit(data, said):
    message = refusal(quick_fit, data)
    assert message.startswith("X ")
    assert said in message


@pytest.mark.parametrize(("data", "said"), BAD_DATA)
@pytest.mark.parametrize("name", ["P", "Q"])
def test_data_of_the_witness(run, name, data, said):
    pair = {"P": X, "Q": X} | {name: data}
    message = refusal(sample_witness, run, **pair)
    assert message.startswith(f"{name} ")
    assert said in message


@pytest.mark.parametrize(
    "call",
    [
        likelihood,
        model,
        lambda data: log_jacobian(data, SquaredExponential(1.0)),
        lambda data: embedding_posterior(data, SquaredExponential(1.0), [0.0, 1.0]),
        lambda data: embedding_posterior(X, SquaredExponential(1.0), data),
    ],
)
@pytest.mark.parametrize("value", [NAN, INF])
def test_numbers_that_are_not_finite_without_fit(call, value):
    data = with_cell(value, shape=(12, 1))
    assert "row 8" in refusal(call, data)


@pytest.mark.parametrize("data", [np.zeros((2, 2, 2)), 3.0])
def test_shape_of_the_data_without_fit(data):
    assert "X must have shape" in refusal(likelihood, data)
    assert "X must have shape" in refusal(log_jacobian, data, SquaredExponential(1.0))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"at": [[0.0, 1.0]]}, "at must have shape (k, 1)"),
        ({"at": np.zeros((0, 1))}, "at must have shape (k, 1)"),
        ({"at": [0.0, NAN]}, "at has a missing value (NaN) in row 2"),
        ({"at": [0.0, INF]}, "at has an infinite value in row 2"),
        (
            {"at": [0.0, -1e200]},
            "at has a value beyond 1e+150, whose square would overflow in row 2",
        ),
        ({"at": ["a"]}, "at "),
        ({"noise": "none"}, "noise must be"),
        ({"noise": -1.0}, "noise must be"),
        ({"noise": NAN}, "noise must be"),
        ({"noise": None}, "noise must be"),
        ({"seed": -1}, "seed must be from 0"),
        ({"seed": 0.5}, "seed must be a whole number"),
    ],
)
def test_arguments_of_the_witness(run, options, said):
    assert said in refusal(sample_witness, run, X[:6], X[6:], **options)


@pytest.mark.parametrize("value", [-1.0, 0.0, NAN, INF, None, True])
def test_noise_of_the_witness_is_refused(run, value):
    assert "noise must be 'clt' or a positive" in refusal(
        sample_witness, run, X[:6], X[6:], noise=value
    )


def test_samples_of_another_dimension(run):
    assert "P and Q have 2 columns, but the run has 1" in refusal(sample_witness, run, X2, X2)
    assert "P has 1 column and Q has 2 columns" in refusal(sample_witness, run, X, X2)


def test_something_that_is_no_run(witness, tmp_path):
    assert "not a run" in refusal(sample_witness, witness, X[:6], X[6:])
    assert "not a run" in refusal(diagnose, witness)
    text = tmp_path / "run.nc"
    text.write_text("x\n1\n2\n")
    assert str(text) in refusal(load_run, text)
    assert "no such file" in refusal(load_run, tmp_path / "absent.nc")
    witness.to_netcdf(tmp_path / "witness.nc", engine="h5netcdf")
    assert "not a run" in refusal(load_run, tmp_path / "witness.nc")


@pytest.mark.parametrize("call", [diagnose, lambda r: sample_witness(r, X, X)])
def test_no_run_at_all(call):
    assert "run" in refusal(call, None)


@pytest.mark.parametrize("level", [0, 1, -0.5, 1.5, 80, NAN, INF, "0.8", None])
def test_level(witness, level):
    assert "level must be between 0 and 1" in refusal(credible_band, witness, level)


@pytest.mark.parametrize("mode", [7, -2])
def test_mode(witness, mode):
    assert f"no draw is in mode {mode}" in refusal(credible_band, witness, mode=mode)


def test_more_than_the_memory(monkeypatch, run):
    monkeypatch.setattr(checks, "available_memory", lambda: 2**20)
    large = RNG.normal(size=(1000, 1))
    for call in (lambda: quick_fit(large), lambda: sample_witness(run, large, large)):
        message = refusal(call)
        assert "n = 1000 rows need about" in message
        assert "0.0 GiB are free" in message


def test_built_in_data():
    assert "per_component must be at least 1" in refusal(normal_laplace, 0, 0)
