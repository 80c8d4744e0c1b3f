"""What a screen shows and a pipe receives: no codes where none are wanted, lines that fit."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from bke.inference.cli.program import PLAIN
from bke.inference.cli.terminal import Terminal
from rich.console import Console

pty = pytest.importorskip("pty", reason="needs the terminals of Unix")
PROGRAM = "import sys; sys.argv[0] = 'bke'; from bke.inference.cli import main; main()"
ESCAPE = "\x1b"


def command(*arguments):
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def on_a_screen(*arguments, **environment):
    """What a terminal of 80 columns receives."""
    ours, theirs = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    environment = {**plain, "TERM": "xterm-256color", "COLUMNS": "80", **environment}
    streams = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command(*arguments), env=environment, **streams) as process:
        os.close(theirs)
        output = b""
        while True:
            try:
                more = os.read(ours, 65536)
            except OSError:  # Linux's signal of the end
                break
            if not more:
                break
            output += more
    os.close(ours)
    assert process.returncode == 0, output
    return output.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    rng = np.random.default_rng(0)
    for name, shift in (("before", 0.0), ("after", 2.0)):
        rows = rng.normal(size=(80, 2)) + shift
        np.savetxt(folder / f"{name}.csv", rows, delimiter=",", header="u,v", comments="")
    return folder / "before.csv", folder / "after.csv"


def test_a_pipe_receives_no_codes_and_complete_lines(tables):
    done = subprocess.run(
        command("drift", *tables), capture_output=True, encoding="utf-8", check=True
    )
    assert ESCAPE not in done.stdout + done.stderr
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("  u (number)"))
    assert len(line) > 80


@pytest.mark.slow
def test_a_screen_shows_lines_that_fit(tables):
    lines = on_a_screen("drift", *tables, "--quiet").splitlines()
    assert max(map(len, lines)) <= 80
    index = next(k for k, line in enumerate(lines) if line.startswith("  u (number)"))
    assert lines[index + 1].startswith("    ")
    words = subprocess.run(command("drift", *tables), capture_output=True, encoding="utf-8")
    assert " ".join(" ".join(lines).split()) == " ".join(words.stdout.split())


@pytest.mark.slow
def test_no_color_leaves_no_codes(tmp_path):
    plain = on_a_screen("examples", tmp_path / "a", NO_COLOR="1")
    assert ESCAPE not in plain
    colored = on_a_screen("examples", tmp_path / "b")
    assert f"{ESCAPE}[1m" in colored  # bold
    # Text to be copied is on one line of any length.
    narrow = on_a_screen("examples", tmp_path / "c", NO_COLOR="1", COLUMNS="60").splitlines()
    assert any(line.startswith("    bke drift") and line.endswith("drift.html") for line in narrow)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii"])
@pytest.mark.one_in(2)
def test_an_old_encoding_receives_characters_that_it_has(encoding, tables):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(command("drift", *tables), env=environment, capture_output=True)
    assert done.returncode == 0
    output = done.stdout.decode(encoding)
    assert "(p <= 0.001)" in output
    assert "->" in output
    assert "?" not in output
    assert all(name not in output for name in PLAIN if not name.isascii() and encoding == "ascii")


def printed(text, width=80, **options):
    terminal, stream = Terminal(json=False, quiet=True), io.StringIO()
    screen = {"force_terminal": True, "color_system": None, "width": width}
    terminal._results = Console(file=stream, highlight=False, **screen)
    terminal.say(text, **options)
    return stream.getvalue()


def test_lines_are_wrapped_between_words():
    line = "  " + "word " * 9 + "x" * 50
    assert printed(line, 60) == "  " + "word " * 8 + "word\n" + "    " + "x" * 50 + "\n"
    assert printed(line, 60, wrap=False) == f"{line}\n"
    table = "a      b\n1      2"  # short lines do not change
    assert printed(table) == f"{table}\n"
    assert printed("") == "\n"
    assert max(map(len, printed("ab " * 40, 10).splitlines())) <= 40  # a width that makes no sense
