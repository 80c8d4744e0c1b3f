"""Options: what they refuse, what the library is told, and what names there are."""

import textwrap
from typing import get_args

import pytest
import typer
from bke.inference import InputError, Nuts, Quadrature, Smc
from bke.inference.cli import app
from bke.inference.cli.commands import COMMANDS
from bke.inference.cli.model import build_kernel, build_sampler, model_arguments
from bke.inference.cli.options import KERNELS, NOISES, Likelihood, number_or_word
from bke.inference.sampling.samplers import Auto
from bke.models import Landmark
from bke.models.likelihood.marginal import LIKELIHOODS
from bke.models.likelihood.noise import SAMPLING_NOISES

DEFAULTS = {
    "kernel": "se",
    "ard": False,
    "prior_shape": 1.0,
    "prior_rate": 1.0,
    "noise_variance": "0.1",
    "likelihood": "auto",
    "landmarks": None,
    "standardize": None,
}


def model(dimension=2, **options):
    return model_arguments(dimension, **{**DEFAULTS, **options})


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
def test_the_method(method, expected):
    """The defaults of the command line are those of the library."""
    assert build_sampler(method, chains=None) == expected


def test_given_options_replace_those_of_a_default_sampler():
    default = Nuts(num_samples=500, target_accept_prob=0.5)
    assert build_sampler(None, default) == default
    expected = Nuts(num_chains=3, num_samples=500, target_accept_prob=0.5)
    assert build_sampler(None, default, chains=3) == expected
    assert build_sampler("smc", default) == Smc()


def test_numbers_reach_the_sampler():
    auto = Auto(Quadrature(num_samples=40), Smc(num_repeats=3))
    assert build_sampler(None, chains=3, draws=40) == auto
    assert build_sampler("quadrature", draws=40) == auto.quadrature
    assert build_sampler("smc", chains=3) == auto.smc
    assert build_sampler("nuts", chains=3, warmup=30, draws=40) == Nuts(3, 30, 40)


@pytest.mark.parametrize("method", [None, "auto", "quadrature", "smc", "nuts"])
@pytest.mark.parametrize(
    ("option", "value", "ways"),
    [
        ("chains", 3, ("nuts", "smc")),
        ("warmup", 300, ("nuts",)),
        ("draws", 300, ("nuts", "quadrature")),
    ],
)
def test_no_number_is_ignored(method, option, value, ways):
    name = method or "auto"
    if name in ways or (name == "auto" and {"quadrature", "smc"} & {*ways}):
        assert build_sampler(method, **{option: value}) != build_sampler(method)
    else:
        named = f"--{option} is for --method {' or '.join(ways)}, and the method is {name} here"
        with pytest.raises(InputError, match=named):
            build_sampler(method, **{option: value})


@pytest.mark.parametrize("method", ["auto", "smc", "nuts"])
def test_samplers_check_what_they_are_told(method):
    with pytest.raises(InputError, match="--chains must be from 1 to 1000"):
        build_sampler(method, chains=1001)


def test_the_model():
    told = model(3)
    assert told["prior"].shape() == ()
    assert (told["standardize"], told["likelihood"]) == ("column", "auto")
    assert model(3, ard=True)["prior"].shape() == (3,)
    assert model(1, ard=True)["prior"].shape() == ()
    assert model(standardize="none")["standardize"] is None
    assert model(standardize="pooled")["standardize"] == "pooled"
    assert model(likelihood="landmark", landmarks=7)["likelihood"] == Landmark(7)
    with pytest.raises(InputError, match="--landmarks is for --likelihood landmark, not for auto"):
        model(landmarks=7)


def test_words_are_refused_as_wrong_usage():
    assert number_or_word("CLT", NOISES) == "clt"
    assert number_or_word("0.25", NOISES) == 0.25
    with pytest.raises(typer.BadParameter):
        number_or_word("lots", NOISES)


def test_the_command_line_has_names_of_the_models():
    assert set(NOISES) == set(SAMPLING_NOISES)
    assert set(get_args(get_args(Likelihood)[0])) <= set(LIKELIHOODS)


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
    assert model(kernel="kernels_of_mine:Mine")["prior"] is None  # its own
    assert model(kernel="kernels_of_mine:Mine", ard=True)["prior"].shape() == (2,)
    for path, said in {
        "kernels_of_mine:Other": "the module 'kernels_of_mine' has no 'Other'",
        "kernels_of_mine:not_a_kernel": "is no kernel",
        "no_such_module:Mine": "No module named 'no_such_module'",
    }.items():
        with pytest.raises(InputError, match=said):
            build_kernel(path)


def test_every_command_is_listed_once():
    names = [command.__name__ for command in COMMANDS]
    assert list(typer.main.get_command(app).commands) == names
