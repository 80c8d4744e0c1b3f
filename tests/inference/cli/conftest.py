"""Commands in this process, and files for them."""

import json

import numpy as np
import pytest
from bke.inference.cli import app
from typer.testing import CliRunner

WIDE = {"COLUMNS": "300", "TERMINAL_WIDTH": "300", "NO_COLOR": "1"}


def call(*arguments, status=0, text=None):
    """Call ``bke``, and check its exit status; status 1 is with one sentence on standard error."""
    result = CliRunner().invoke(
        app, [str(argument) for argument in arguments], env=WIDE, input=text
    )
    assert result.exit_code == status, (result.output, result.exception)
    assert "Traceback" not in result.output
    if status == 1:
        # The simulator shift.py prints a line too, and old versions of rich an empty one.
        other = ("bke: warning", "being read")
        lines = [line for line in result.stderr.splitlines() if line and not line.startswith(other)]
        assert [line.startswith("bke: ") for line in lines] == [True], result.stderr
    return result


@pytest.fixture(scope="session")
def bke():
    """Call a command, and return its result."""
    return call


@pytest.fixture(scope="session")
def bke_json():
    """Call a command with ``--json``, and return what it prints."""
    return lambda *arguments, **options: json.loads(call(*arguments, "--json", **options).stdout)


@pytest.fixture(scope="session")
def write_csv():
    """Write rows with a header, and return the path."""

    def write(path, rows, header):
        np.savetxt(path, rows, delimiter=",", header=header, comments="", fmt="%.17g")
        return path

    return write
