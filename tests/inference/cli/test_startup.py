"""Completion by the shell, help and the version; none of them imports a slow module."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import typer
from bke.inference.cli import app
from bke.inference.cli.commands import COMMANDS

NAMES = tuple(command.__name__ for command in COMMANDS)
#: As the console script is, but prints which of some modules it has imported.
PROGRAM = (
    "import atexit, sys\n"
    "slow = set(sys.argv.pop(1).split())\n"
    "atexit.register(lambda: print(*sorted(slow & set(sys.modules)), file=sys.stderr))\n"
    "sys.argv[0] = 'bke'\n"
    "from bke.inference.cli import main\n"
    "main()\n"
)
SLOW = "jax numpyro matplotlib xarray pandas scipy arviz_stats"


def start(*arguments, slow=SLOW, **environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, slow, *map(str, arguments)],
        env={**os.environ, **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert not done.stderr.strip()
    return done.stdout


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("bke com", ["compare"]),
        ("bke m", ["monitor"]),
        ("bke fit --ker", ["--kernel"]),
        ("bke drift --sentinels m", ["missing"]),
        ("bke fit --method q", ["quadrature"]),
    ],
)
def test_bash_completes_commands_options_and_choices(words, completed):
    last = str(len(words.split()) - 1)
    done = start(_BKE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=last)
    assert done.split() == completed


def test_zsh_shows_descriptions_of_commands():
    done = start(_BKE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="bke dri")
    assert "drift" in done
    assert "What has changed between two tables" in done.replace("\n", " ")


def test_the_script_for_a_shell():
    done = start("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_BKE_COMPLETE=complete_bash" in done
    assert "complete -o default -F" in done


def test_help_and_version_import_no_slow_module():
    assert "--install-completion" in start("--help")
    assert "--kernel" in start("run", "--help")
    assert re.fullmatch(r"bke \d+\.\d+\S*\n", start("--version"))


def test_a_comparison_needs_no_jax(tmp_path, write_csv):
    """Arrow imports pandas where it converts arrays."""
    rng = np.random.default_rng(0)
    files = [
        write_csv(tmp_path / f"{name}.csv", rng.normal(shift, 1.0, size=(60, 2)), "u,v")
        for name, shift in (("a", 0.0), ("b", 0.5))
    ]
    start("compare", *files, slow="jax numpyro matplotlib xarray scipy.stats")


@pytest.mark.parametrize("command", NAMES)
def test_help_mentions_every_option(bke, command):
    text = bke(command, "--help").stdout
    assert len(text.splitlines()) <= 50
    for parameter in typer.main.get_command(app).commands[command].params:
        for option in parameter.opts if parameter.param_type_name == "option" else []:
            assert option in text
        assert parameter.param_type_name == "argument" or parameter.help
    assert f"Example: bke {command}" in text


def test_help_of_the_program(bke):
    text = bke("--help").stdout
    assert "Example: bke run" in text
    assert "Exit status" in text
    listed = [line.split()[0] for line in text.splitlines() if re.match("  [a-z]+  ", line)]
    assert listed == list(NAMES) == list(typer.main.get_command(app).commands)
