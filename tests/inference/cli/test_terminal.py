"""What the terminal shows of a posterior is what the summary says."""

import jax.numpy as jnp
import numpy as np
import pytest
import typer
from bke.inference import InputError, Nuts, Quadrature, fit, reweight
from bke.inference.cli.steps import diagnose_and_print
from bke.inference.cli.terminal import Terminal, exit_codes, number
from bke.inference.diagnostics.summary import settings
from bke.models import Matern, kernel_from_function


@pytest.mark.slow
def test_the_mass_of_a_single_mode_counts_too(capsys):
    """Two short chains are off, quadrature is not: both are in the table once it is known."""
    X = np.random.default_rng(11).normal(size=(21, 1))
    run = fit(X, method=Nuts(2, 20, 6), progress=False)
    weighed = reweight(run, progress=False)
    for tree in (run, weighed):
        _, summary, _ = diagnose_and_print(tree, Terminal(json=False, quiet=True))
        printed = capsys.readouterr().out
        posterior = summary["posterior"]
        assert len(posterior["modes"]) == 1
        assert ("by mass" in printed) == (tree is weighed)
    (found,) = posterior["overall"].values()
    (row,) = (line for line in printed.splitlines() if "by mass" in line)
    assert number(found["mean"], found["sd"]) in row
    assert found != posterior["modes"][0]["hyperparameters"]["lengthscale"]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("no\nfile: use method='smc'", "no\\nfile: use --method smc"),
        ("noise_variance='clt' with it", "--noise-variance clt with it"),
        ("got 'smc', x=3 and name=None", "got 'smc', x=3 and name=None"),
        ("", "InputError"),
    ],
)
def test_an_error_is_one_sentence_in_the_words_of_the_command_line(message, said, capsys):
    with pytest.raises(typer.Exit) as ended, exit_codes(False):
        raise InputError(message)
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"bke: {said}\n"


def stretched(x, y, *, width=1.0, power=2.0):
    return jnp.exp(-jnp.sum(jnp.abs((x - y) / width) ** power))


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        (kernel_from_function(stretched, units={"width": "length"}, stationary=True),
         f"kernel {stretched.__module__}:stretched, power 2.0; "),
        (Matern(1.5), "kernel Matern, nu 1.5; "),
    ],
    ids=["function", "class"],
)  # fmt: skip
@pytest.mark.slow
def test_the_kernel_is_told_without_what_was_learned(kernel, said, capsys):
    X = np.random.default_rng(0).normal(size=9)
    run = fit(X, kernel=kernel, method=Quadrature(1.0, 16), likelihood="dense", progress=False)
    Terminal(json=False, quiet=True).settings(settings(run))
    assert said in capsys.readouterr().out
