"""Names are completed by the shell, and to ask for them imports nothing slow."""

import os
import subprocess
import sys

import pytest

#: As the console script is, but says what it has imported.
PROGRAM = (
    "import atexit, sys\n"
    "slow = {'jax', 'numpyro', 'matplotlib', 'xarray', 'pandas', 'scipy', 'arviz_stats'}\n"
    "atexit.register(lambda: print(*sorted(slow & set(sys.modules)), file=sys.stderr))\n"
    "sys.argv[0] = 'bke'\n"
    "from bke.inference.cli import main\n"
    "main()\n"
)


def bke(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


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
    done = bke(_BKE_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=last)
    assert done.stdout.split() == completed
    assert not done.stderr.strip()


def test_zsh_is_told_what_commands_do():
    done = bke(_BKE_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="bke dri")
    assert "drift" in done.stdout
    assert "What has changed between two tables" in done.stdout.replace("\n", " ")


def test_the_script_for_a_shell():
    done = bke("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_BKE_COMPLETE=complete_bash" in done.stdout
    assert "complete -o default -F" in done.stdout


def test_help_imports_nothing_slow():
    done = bke("--help")
    assert "--install-completion" in done.stdout
    assert not done.stderr.strip()
