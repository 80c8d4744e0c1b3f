"""Options: invalid values, the arguments of the library, and the names of choices."""

import textwrap
from typing import get_args, get_type_hints

import numpy as np
import pytest
import typer
from bke.inference import InputError, Nuts, Quadrature, Smc
from bke.inference.cli import app
from bke.inference.cli.commands import COMMANDS
from bke.inference.cli.inputs import read_points
from bke.inference.cli.model import NOISES, ModelOptions
from bke.inference.cli.options import KERNELS, number_or_word, parse_columns
from bke.inference.cli.terminal import exit_codes
from bke.inference.sampling.samplers import Auto
from bke.models import Landmark
from bke.models.likelihood.marginal import LIKELIHOODS
from bke.models.likelihood.noise import SAMPLING_NOISES


def model(dimension=2, **options):
    return ModelOptions(**options).fit_arguments([f"x{i}" for i in range(dimension)])


def sampler(default=None, **options):
    return ModelOptions(**options).build_sampler(default)


FIGURE4 = Nuts(num_samples=500, target_accept_prob=0.5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Auto()),
        ({"method": "auto"}, Auto()),
        ({"method": "nuts"}, Nuts()),
        ({"method": "smc"}, Smc()),
        ({"method": "quadrature"}, Quadrature()),
        ({"chains": 3, "draws": 40}, Auto(Quadrature(num_samples=40), Smc(num_repeats=3))),
        ({"method": "quadrature", "draws": 40}, Quadrature(num_samples=40)),
        ({"method": "smc", "chains": 3}, Smc(num_repeats=3)),
        ({"method": "nuts", "chains": 3, "warmup": 30, "draws": 40}, Nuts(3, 30, 40)),
        ({"default": FIGURE4}, FIGURE4),
        ({"default": FIGURE4, "chains": 3}, Nuts(3, num_samples=500, target_accept_prob=0.5)),
        ({"default": FIGURE4, "method": "smc"}, Smc()),
    ],
)
def test_numbers_are_passed_to_the_sampler(options, expected):
    """The defaults of the command line are those of the library, or of a default sampler."""
    assert sampler(**options) == expected


@pytest.mark.parametrize("method", [None, "auto", "quadrature", "smc", "nuts"])
@pytest.mark.parametrize(
    ("option", "methods"),
    [("chains", ("nuts", "smc")), ("warmup", ("nuts",)), ("draws", ("nuts", "quadrature"))],
)
def test_no_number_is_ignored(method, option, methods):
    name = method or "auto"
    if name in methods or (name == "auto" and option != "warmup"):
        assert sampler(method=method, **{option: 300}) != sampler(method=method)
    else:
        text = f"--{option} is for --method {' or '.join(methods)}, and the method is {name} here"
        with pytest.raises(InputError, match=text):
            sampler(method=method, **{option: 300})


@pytest.mark.parametrize("method", ["auto", "smc", "nuts"])
def test_errors_of_a_sampler_name_the_option(method):
    with pytest.raises(InputError, match="--chains must be from 1 to 1000"):
        sampler(method=method, chains=1001)


def test_the_model():
    arguments = model(3)
    assert arguments["prior"].shape() == ()
    assert (arguments["standardize"], arguments["likelihood"]) == ("column", "auto")
    assert model(3, ard=True)["prior"].shape() == (3,)
    assert model(1, ard=True)["prior"].shape() == ()
    assert model(standardize="none")["standardize"] is None
    assert model(standardize="pooled")["standardize"] == "pooled"
    assert model(likelihood="landmark", landmarks="7")["likelihood"] == Landmark(7)
    with pytest.raises(InputError, match="--landmarks is for --likelihood landmark, not for auto"):
        model(landmarks="7")


def test_a_number_or_a_word():
    assert number_or_word("CLT", "--noise", NOISES) == "clt"
    assert number_or_word("0.25", "--noise", NOISES) == 0.25
    with pytest.raises(typer.BadParameter):
        number_or_word("lots", "--noise", NOISES)


@pytest.mark.parametrize(
    ("text", "names"),
    [("a, b", ["a", "b"]), ('"a,b",c', ["a,b", "c"]), ('c, "a ""b"""', ["c", 'a "b"']), ("", [""])],
)
def test_names_of_columns(text, names):
    assert parse_columns(text) == names


def test_choices_are_those_of_the_models():
    assert set(NOISES) == set(SAMPLING_NOISES)
    assert set(get_args(get_type_hints(ModelOptions)["likelihood"])) <= set(LIKELIHOODS)


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_by_name(name):
    kernel = ModelOptions(kernel=name).build_kernel()
    assert type(kernel).__name__ == KERNELS[name][0]
    for parameter, value in KERNELS[name][1].items():
        assert getattr(kernel, parameter) == value


USER_MODULE = """
import dataclasses

import jax
from bke.models import Laplace, register_dataclass

@register_dataclass
@dataclasses.dataclass(frozen=True)
class Mine(Laplace):
    pass

not_a_kernel = 3
"""


def test_a_kernel_of_the_user(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "user_kernels.py").write_text(textwrap.dedent(USER_MODULE))
    arguments = model(kernel="user_kernels:Mine")
    assert type(arguments["kernel"]).__name__ == "Mine"
    assert arguments["prior"] is None  # the prior of the kernel
    assert model(kernel="user_kernels:Mine", ard=True)["prior"].shape() == (2,)
    for path, message in {
        "user_kernels:Other": "the module 'user_kernels' has no 'Other'",
        "user_kernels:not_a_kernel": "is no kernel",
        "no_such_module:Mine": "No module named 'no_such_module'",
    }.items():
        with pytest.raises(InputError, match=message):
            model(kernel=path)


def test_every_command_is_listed_once():
    names = [command.__name__ for command in COMMANDS]
    assert list(typer.main.get_command(app).commands) == names


def test_points_match_the_columns_of_the_samples_by_name(tmp_path, write_csv):
    path = write_csv(tmp_path / "at.csv", [[1.0, 2.0], [3.0, 4.0]], "b,a")
    np.testing.assert_array_equal(read_points(path, None, ("a", "b")), [[2.0, 1.0], [4.0, 3.0]])
    np.testing.assert_array_equal(read_points(path, None, ("b", "a")), [[1.0, 2.0], [3.0, 4.0]])


def test_both_samples_are_arguments_of_run_in_its_help(bke):
    lines = bke("run", "--help").stdout.splitlines()
    assert [line.split()[0] for line in lines if line.lstrip().startswith(("P ", "Q "))] == [
        "P",
        "Q",
    ]


def test_a_closed_pipe_is_left_to_typer():
    """It ends the program with status 1, and does not flush the closed stream again."""
    with pytest.raises(BrokenPipeError), exit_codes(debug=False):
        raise BrokenPipeError
