"""Bad arguments of the Python API: one sentence that names the argument, never a NaN result."""

import itertools
import math

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import (
    Nuts,
    Quadrature,
    Smc,
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
    method = Nuts(num_chains=1, num_warmup=20, num_samples=4)
    return fit(data, **({"method": method, "progress": False} | options))


def likelihood(data=X, kernel=None, **options):
    return log_marginal_likelihood(data, kernel or SquaredExponential(1.0), **options)


def model(data=X, **options):
    """One execution of the model, as a user's MCMC would start it."""
    with jax.enable_x64(True):
        seeded = handlers.seed(bke_model, jax.random.key(0))
        return handlers.trace(seeded).get_trace(data, **options)


def give(name, *functions):
    """Functions of the value of one argument."""
    return [lambda value, call=call: call(**{name: value}) for call in functions]


def with_cell(value, shape=(12, 2)):
    data = RNG.normal(size=shape)
    data[7, -1] = value
    return data


NOT_POSITIVE = [-1, 0, 0.0, NAN, INF, -INF, [1.0, -1.0], np.array([1.0, NAN])]
PRIORS_THAT_REACH_ZERO = [dist.Gamma(1.0, 1.0), dist.HalfNormal(1.0), dist.Uniform(0.0, 1.0)]
EVERY = (quick_fit, likelihood, model)
MODELS = (quick_fit, model)
FAMILIES = [
    SquaredExponential,
    Laplace,
    lambda value: Matern(1.5, value),
    lambda value: RationalQuadratic(1.0, value),
]
#: Parts of messages, calls that refuse, and values that all of them refuse.
ARGUMENTS = [
    ("lengthscale must be positive", FAMILIES, NOT_POSITIVE),
    ("lengthscale", [lambda value: likelihood(kernel=SquaredExponential(value))], ["a", None]),
    ("(2)", give("kernel", lambda kernel: likelihood(X2, kernel)), [SquaredExponential([1.0] * 3)]),
    (
        "lengthscale",
        give("prior", lambda prior: quick_fit(X2, prior=prior)),
        [dist.Gamma(1.0, 1.0).expand([3])],
    ),
    ("noise_variance must be", give("noise_variance", *EVERY), [-1, 0, 0.0, NAN, INF, -0.1]),
    (
        "noise_variance must be",
        give("noise_variance", quick_fit),
        ["0.1", None, True, np.array([0.1, 0.2])],
    ),
    (
        "noise_variance",
        give("noise_variance", likelihood, model),
        ["a", None, True, np.array([0.1, 0.2])],
    ),
    ("bounded away from zero", give("noise_variance", *MODELS), PRIORS_THAT_REACH_ZERO),
    ("positive support", give("prior", *MODELS), [dist.Normal(0.0, 1.0)]),
    (
        "prior of 'lengthscale': Gamma",
        give("prior", *MODELS),
        [dist.Gamma(-1.0, 1.0, validate_args=False)],
    ),
    ("prior must be a NumPyro distribution", give("prior", *MODELS), ["gamma", 2.0]),
    ("prior names 'length'", give("prior", *MODELS), [{"length": dist.Gamma(1.0, 1.0)}]),
    (
        "prior of 'lengthscale' must be a NumPyro distribution",
        give("prior", *MODELS),
        [{"lengthscale": 1.0}],
    ),
    ("prior", give("prior", *MODELS), [dist.Poisson(2.0)]),
    ("prior", give("prior", quick_fit), [{}]),
    (
        "measure must be 'unit', 'lebesgue' or Gaussian",
        give("measure", *EVERY),
        ["gauss", None, 3],
    ),
    ("scale", [Gaussian], NOT_POSITIVE),
    ("center", [lambda value: Gaussian(1.0, value)], [NAN, INF]),
    (
        "scale",
        [lambda value, call=call: call(X2, measure=value) for call in (likelihood, quick_fit)],
        [Gaussian(np.ones(3))],
    ),
    ("likelihood must be one of", give("likelihood", *EVERY), ["sparse", None]),
    ("method must be one of", give("method", quick_fit), ["gibbs", None, Nuts]),
    ("kernel must be a kernel", give("kernel", quick_fit), ["se", 3, None]),
    ("kernel Matern needs parameters", give("kernel", quick_fit), [Matern]),
    ("standardize must be one of", give("standardize", quick_fit), ["row", 3]),
    ("dither must be", give("dither", quick_fit), ["yes", -1, NAN, INF]),
    ("dither", give("dither", quick_fit), [[1.0, 2.0, 3.0]]),
    ("seed must be from 0", give("seed", quick_fit), [-1]),
    ("seed must be a whole number", give("seed", quick_fit), [1.5]),
    ("seed", give("seed", quick_fit), [2**70]),
    ("columns has 2 names", give("columns", quick_fit), [["a", "b"]]),
    ("columns has 0 names", give("columns", quick_fit), [[]]),
    ("num_chains must be from 1 to 1000", give("num_chains", Nuts), [0, -1]),
    ("num_chains must be from 1 to 1000, got 1001", give("num_chains", Nuts), [1001]),
    ("num_chains must be a whole number", give("num_chains", Nuts), [2.5, NAN, "3", True]),
    ("num_warmup must be at least 20", give("num_warmup", Nuts), [19]),
    ("num_warmup must be a whole number", give("num_warmup", Nuts), [50.0]),
    ("num_samples must be at least 4, got 3", give("num_samples", Nuts, Quadrature), [3]),
    ("num_samples must be a whole number", give("num_samples", Nuts), [None]),
    ("target_accept_prob must be between 0 and 1", give("target_accept_prob", Nuts), [1.0]),
    ("max_tree_depth must be from 1 to 20, got 0", give("max_tree_depth", Nuts), [0]),
    ("num_repeats must be from 1 to 1000, got 0", give("num_repeats", Smc), [0]),
    ("num_particles must be at least 32, got 31", give("num_particles", Smc), [31]),
    ("tolerance must be a positive number", give("tolerance", Quadrature), [0.0]),
    ("X must have shape", [likelihood], [np.zeros((2, 2, 2)), 3.0]),
    (
        "X must have shape",
        [lambda data: log_jacobian(data, SquaredExponential(1.0))],
        [np.zeros((2, 2, 2)), 3.0],
    ),
    (
        "row 8",
        [
            likelihood,
            model,
            lambda data: log_jacobian(data, SquaredExponential(1.0)),
            lambda data: embedding_posterior(data, SquaredExponential(1.0), [0.0, 1.0]),
            lambda data: embedding_posterior(X, SquaredExponential(1.0), data),
        ],
        [with_cell(NAN, (12, 1)), with_cell(INF, (12, 1))],
    ),
    ("run", [diagnose, lambda run: sample_witness(run, X, X)], [None]),
    (
        "per_component must be at least 1",
        [lambda count: normal_laplace(0, count)],
        [0],
    ),
]


@pytest.mark.parametrize(("message", "calls", "values"), ARGUMENTS)
def test_arguments(message, calls, values):
    for call, value in itertools.product(calls, values):
        assert message in refusal(call, value)


@pytest.mark.parametrize("entry", MODELS)
@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        (dist.Gamma, [(-1.0, 1.0), (0.0, 1.0), (1.0, -1.0), (1.0, 0.0), (NAN, 1.0)]),
        (dist.Gamma, [(INF, 1.0), (1.0, INF)]),
        (dist.LogNormal, [(NAN, 1.0), (0.0, -1.0)]),
        (dist.Uniform, [(0.5, NAN)]),
    ],
)
def test_parameters_of_the_prior(entry, family, parameters):
    """NumPyro refuses some of them itself."""
    for values in parameters:
        message = refusal(lambda values=values: entry(prior=family(*values)))
        assert "invalid" in message or "prior" in message


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("num_particles", "'num_particles': give method=Smc(num_particles=...)"),
        ("num_warmup", "'num_warmup': give method=Nuts(num_warmup=...)"),
        ("num_samples", "method=Nuts(num_samples=...) or method=Quadrature(num_samples=...)"),
        ("rank", "give likelihood=Nystrom(rank=...) or likelihood=Fourier(rank=...)"),
        ("chians", "unexpected keyword argument 'chians'"),
    ],
)
def test_the_message_on_a_misplaced_option_names_its_class(name, message):
    assert refusal(fit, X, error=TypeError, **{name: 100}).endswith(message)


@pytest.fixture(scope="module")
def witness(nuts_run):
    rows = nuts_run["observed_data"]["X"].values
    return sample_witness(nuts_run, rows[:6], rows[6:], [0.0, 1.0])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
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
    ],
)
def test_data(nuts_run, data, expected):
    for name, call in (
        ("X", quick_fit),
        ("P", lambda data: sample_witness(nuts_run, data, X)),
        ("Q", lambda data: sample_witness(nuts_run, X, data)),
    ):
        message = refusal(call, data)
        assert message.startswith(f"{name} ")
        assert expected in message


@pytest.mark.parametrize(
    ("argument", "values", "message"),
    [
        ("at", [[[0.0, 1.0]], np.zeros((0, 1))], "at must have shape (k, 1)"),
        ("at", [[0.0, NAN]], "at has a missing value (NaN) in row 2"),
        ("at", [[0.0, INF]], "at has an infinite value in row 2"),
        (
            "at",
            [[0.0, -1e200]],
            "at has a value beyond 1e+150, whose square would overflow in row 2",
        ),
        ("at", [["a"]], "at "),
        ("noise", ["none"], "noise must be"),
        ("noise", [-1.0, 0.0, NAN, INF, None, True], "noise must be 'clt' or a positive"),
        ("seed", [-1], "seed must be from 0"),
        ("seed", [0.5], "seed must be a whole number"),
        ("P", [X2], "P has 2 columns and Q has 1 column"),
        ("Q", [X2], "P has 1 column and Q has 2 columns"),
    ],
)
def test_arguments_of_the_witness(nuts_run, argument, values, message):
    for value in values:
        assert message in refusal(sample_witness, nuts_run, **{"P": X, "Q": X, argument: value})


def test_samples_of_another_dimension(nuts_run):
    assert "P and Q have 2 columns, but the run has 1" in refusal(sample_witness, nuts_run, X2, X2)


def test_something_that_is_no_run(witness, tmp_path):
    assert "not a run" in refusal(sample_witness, witness, X[:6], X[6:])
    assert "not a run" in refusal(diagnose, witness)
    text = tmp_path / "run.nc"
    text.write_text("x\n1\n2\n")
    assert str(text) in refusal(load_run, text)
    assert "no such file" in refusal(load_run, tmp_path / "absent.nc")
    witness.to_netcdf(tmp_path / "witness.nc", engine="h5netcdf")
    assert "not a run" in refusal(load_run, tmp_path / "witness.nc")


@pytest.mark.parametrize(
    ("argument", "values", "message"),
    [
        ("level", [0, 1, -0.5, 1.5, 80, NAN, INF, "0.8", None], "level must be between 0 and 1"),
        ("mode", [7], "no draw is in mode 7"),
        ("mode", [-2], "no draw is in mode -2"),
    ],
)
def test_arguments_of_the_band(witness, argument, values, message):
    for value in values:
        assert message in refusal(credible_band, witness, **{argument: value})


def test_more_than_the_memory(monkeypatch, nuts_run):
    monkeypatch.setattr(checks, "available_memory", lambda: 2**20)
    large = RNG.normal(size=(1000, 1))
    for call in (lambda: quick_fit(large), lambda: sample_witness(nuts_run, large, large)):
        message = refusal(call)
        assert "n = 1000 rows need about" in message
        assert "0.0 GiB are free" in message
