"""Groups of options: what they refuse, what the library is told, and what names there are."""

import dataclasses
import textwrap
from typing import get_args

import pytest
import typer
from bke.inference import InputError, Nuts, Quadrature, Smc
from bke.inference.cli import app
from bke.inference.cli.commands import COMMANDS
from bke.inference.cli.options.model import (
    KERNELS,
    GammaOptions,
    LikelihoodName,
    LikelihoodOptions,
    MeasureName,
    ModelOptions,
    PriorOptions,
    UnitOptions,
    build_kernel,
    standardize_argument,
)
from bke.inference.cli.options.sampler import SamplerOptions
from bke.inference.cli.options.testing import (
    IndependenceMethodName,
    StatisticName,
    TestOptions,
    TwoSampleMethodName,
)
from bke.inference.cli.words import SAMPLING_NOISE_NAMES
from bke.inference.sampling.samplers import SAMPLERS, Auto
from bke.inference.testing import TwoSampleStatistic
from bke.inference.testing.nulls import HSIC_ESTIMATORS, MMD_ESTIMATORS
from bke.models import Nystrom
from bke.models.likelihood.marginal import LIKELIHOODS
from bke.models.likelihood.noise import SAMPLING_NOISES
from bke.models.measures import MEASURES


def model(**options):
    prior = PriorOptions(gamma=GammaOptions(), **options)
    return ModelOptions(prior=prior, likelihood=LikelihoodOptions(), units=UnitOptions())


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (None, Auto()),
        ("auto", Auto()),
        ("nuts", Nuts()),
        ("smc", Smc()),
        ("quadrature", Quadrature()),
    ],
)
def test_the_way_to_the_posterior(method, expected):
    """The defaults of the command line are those of the library."""
    assert SamplerOptions(method=method).arguments() == {"method": expected, "seed": 0}


def test_given_options_replace_those_of_a_default_sampler():
    default = Nuts(num_samples=500, target_accept_prob=0.5)
    assert SamplerOptions().sampler(default) == default
    expected = Nuts(num_chains=3, num_samples=500, target_accept_prob=0.5)
    assert SamplerOptions(chains=3).sampler(default) == expected
    assert SamplerOptions(method="smc").sampler(default) == Smc()
    with pytest.raises(InputError, match="--tolerance is for --method quadrature"):
        SamplerOptions(tolerance=0.1).sampler(default)


def test_numbers_reach_the_sampler():
    quadrature = Quadrature(tolerance=0.1, num_samples=40)
    smc = Smc(num_particles=50, num_repeats=3)
    of_smc = {"chains": 3, "particles": 50}
    assert SamplerOptions(**of_smc, draws=40, tolerance=0.1).sampler() == Auto(quadrature, smc)
    assert SamplerOptions(method="quadrature", draws=40, tolerance=0.1).sampler() == quadrature
    assert SamplerOptions(method="smc", **of_smc).sampler() == smc
    assert SamplerOptions(method="nuts", chains=3, warmup=30, draws=40).sampler() == Nuts(3, 30, 40)


def test_a_sampler_of_the_registry_gets_the_numbers_it_has_fields_for(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class New(Quadrature):
        name = "new"
        patience: int = 5

    monkeypatch.setitem(SAMPLERS, "new", New)
    asked = SamplerOptions(method="new", draws=40, tolerance=0.1).sampler()
    assert asked == New(tolerance=0.1, num_samples=40, patience=5)


@pytest.mark.parametrize("method", [None, "auto", "quadrature", "smc", "nuts"])
@pytest.mark.parametrize(
    ("option", "value", "ways"),
    [
        ("chains", 3, ("nuts", "smc")),
        ("warmup", 300, ("nuts",)),
        ("draws", 300, ("nuts", "quadrature")),
        ("particles", 640, ("smc",)),
        ("tolerance", 0.1, ("quadrature",)),
    ],
)
def test_no_number_is_ignored(method, option, value, ways):
    options = SamplerOptions(method=method, **{option: value})
    name = method or "auto"
    if name in ways or (name == "auto" and {"quadrature", "smc"} & {*ways}):
        assert options.sampler() != SamplerOptions(method=method).sampler()
    else:
        named = f"--{option} is for --method {' or '.join(ways)}, and the method is {name} here"
        with pytest.raises(InputError, match=named):
            options.sampler()


@pytest.mark.parametrize("method", ["auto", "smc"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"chains": 1001}, "--chains must be from 1 to 1000"),
        ({"particles": 31}, "--particles must be at least 32"),
    ],
)
def test_samplers_check_what_they_are_told(method, options, said):
    with pytest.raises(InputError, match=said):
        SamplerOptions(method=method, **options).sampler()


@pytest.mark.parametrize(
    ("options", "places", "said"),
    [
        ({"likelihood": "fourier"}, None, "--likelihood fourier needs --rank"),
        ({"rank": 5}, None, "--rank is for --likelihood nystrom or fourier, .* is auto here"),
        ({"likelihood": "dense"}, 9, "--landmarks is for --likelihood landmark, .* is dense"),
    ],
)
def test_options_of_another_likelihood(options, places, said):
    with pytest.raises(InputError, match=said):
        LikelihoodOptions(**options).arguments(places)


def test_one_lengthscale_or_one_for_each_column():
    told = model().arguments(3, None)
    assert told["prior"].shape() == ()
    assert (told["standardize"], told["dither"], told["samples"]) == ("column", "auto", "pooled")
    assert told["likelihood"] == "auto"
    ranked = LikelihoodOptions(likelihood="nystrom", rank=7).arguments(None)
    assert ranked["likelihood"] == Nystrom(7)
    assert model(ard=True).arguments(3, None)["prior"].shape() == (3,)
    assert model(ard=True).arguments(1, None)["prior"].shape() == ()
    assert model().arguments(1, None, "none")["standardize"] is None


def test_scale():
    assert [standardize_argument(name) for name in (None, "none", "pooled")] == [
        "column",
        None,
        "pooled",
    ]


def test_words_are_refused_as_wrong_usage():
    for refused in (
        lambda: model(noise_variance="lots"),
        lambda: UnitOptions(dither="maybe"),
        lambda: TestOptions(dependence_length=3.0, level=None).check("gamma", "bkl"),
        lambda: TestOptions(level=None).check("gamma", "multiscale"),
    ):
        with pytest.raises(typer.BadParameter):
            refused()


def test_the_command_line_has_the_likelihoods_and_measures_of_the_models():
    assert get_args(LikelihoodName) == tuple(LIKELIHOODS)
    assert get_args(MeasureName) == tuple(MEASURES)
    assert set(SAMPLING_NOISE_NAMES) == set(SAMPLING_NOISES)


def test_the_command_line_has_the_statistics_and_methods_of_the_library():
    statistics = [name.replace("_", "-") for name in get_args(TwoSampleStatistic)]
    assert list(get_args(StatisticName)) == statistics
    methods = {name.replace(" ", "-") for name in MMD_ESTIMATORS} - {"normal"}
    assert set(get_args(TwoSampleMethodName)) == methods | set(MMD_ESTIMATORS["normal"])
    methods = {name.replace(" ", "-") for name in HSIC_ESTIMATORS}
    assert set(get_args(IndependenceMethodName)) == methods


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_by_name(name):
    kernel = build_kernel(name)
    assert type(kernel).__name__ == KERNELS[name][0]
    for parameter, value in KERNELS[name][1].items():
        assert getattr(kernel, parameter) == value


def test_a_kernel_of_the_user(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kernels_of_mine.py").write_text(
        textwrap.dedent(
            """
            import dataclasses

            import jax
            from bke.models import Laplace, register_dataclass

            @register_dataclass
            @dataclasses.dataclass(frozen=True)
            class Mine(Laplace):
                pass

            not_a_kernel = 3
            """
        )
    )
    assert type(build_kernel("kernels_of_mine:Mine")).__name__ == "Mine"
    own = dataclasses.replace(model(), kernel="kernels_of_mine:Mine")
    assert own.arguments(2, None)["prior"] is None  # its own
    told = dataclasses.replace(model(ard=True), kernel="kernels_of_mine:Mine").arguments(2, None)
    assert told["prior"].shape() == (2,)
    for path, said in {
        "kernels_of_mine:Other": "the module 'kernels_of_mine' has no 'Other'",
        "kernels_of_mine:not_a_kernel": "is no kernel",
        "no_such_module:Mine": "No module named 'no_such_module'",
    }.items():
        with pytest.raises(InputError, match=said):
            build_kernel(path)


def test_every_command_is_listed_once():
    names = [command.name for command in COMMANDS]
    assert len(set(names)) == len(names)
    assert list(typer.main.get_command(app).commands) == names
