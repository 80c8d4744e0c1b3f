"""``bke monitor``: a stream on the command line, its state, and its exit status."""

import json
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest
from bke.inference import Monitor
from bke.inference.cli import app
from bke.inference.cli.terminal import Terminal
from typer.testing import CliRunner

WIDE = {"COLUMNS": "200", "TERM": "dumb"}
HEADER = "id,heat,zone\n"
PROGRAM = "from bke.inference.cli import main; main()"


def lines(n, seed, shift=0.0, start=0):
    rng = np.random.default_rng(seed)
    return [
        f"{start + i},{rng.normal(20.0 + shift, 2.0):.2f},{rng.choice(['a', 'b'])}\n"
        for i in range(n)
    ]


@pytest.fixture
def files(tmp_path):
    """A reference, a stream that changes after 300 rows, and one that does not."""
    told = {
        "reference": lines(300, 0),
        "changed": [*lines(300, 1, start=1000), *lines(300, 2, 3.0, start=1300)],
        "same": lines(500, 3, start=1000),
    }
    for name, rows in told.items():
        (tmp_path / f"{name}.csv").write_text(HEADER + "".join(rows))
    return tmp_path


def monitor(*arguments, text=None):
    return CliRunner().invoke(app, ["monitor", *map(str, arguments)], env=WIDE, input=text)


def test_alarm_is_told_and_fails(files):
    """One line a batch; with --fail the alarm ends the command with status 3."""
    stream, reference = files / "changed.csv", files / "reference.csv"
    found = monitor(stream, "--reference", reference, "--exclude", "id", "--batch", 200)
    assert found.exit_code == 0, found.output
    assert "200 rows: no change" in found.output
    assert re.search(r"CHANGE at row (29|30)\d ", found.output)
    assert "heat is larger" in found.output
    failed = monitor(stream, "--reference", reference, "--exclude", "id", "--batch", 350, "--fail")
    assert failed.exit_code == 3
    assert "600 rows" not in failed.output
    same = monitor(files / "same.csv", "--reference", reference, "--exclude", "id", "--fail")
    assert same.exit_code == 0


def test_an_alarm_ends_the_command_while_the_pipe_is_open(files):
    """As of ``tail -f``: the writer has not closed its end, and nothing more comes."""
    arguments = [files / "reference.csv", "--exclude", "id", "--fail", "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "monitor", "--reference", *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write((files / "changed.csv").read_bytes())
        process.stdin.flush()
        assert process.wait(timeout=120) == 3, process.stderr.read().decode()
        assert b"Fatal" not in process.stderr.read()


def test_lines_of_json_and_files(files):
    """Each line is an object; the folder has a picture and the summary."""
    out = files / "out"
    found = monitor(
        *("-", "--reference", files / "reference.csv", "--key", "id", "--batch", 250),
        *("--json", "--out", out),
        text=(files / "changed.csv").read_text(),
    )
    told = [json.loads(line) for line in found.stdout.splitlines()]
    assert [one["rows"] for one in told] == [250, 500, 600]
    assert [one["alarm"] for one in told] == [False, True, True]
    summary = json.loads((out / "monitor.json").read_text())
    assert summary["row"] == told[-1]["row"]
    assert summary["stream"] == "-"
    assert (out / "monitor.png").stat().st_size > 10_000


def test_state_goes_on(files):
    """A second call goes on from the first, and rows that are sent again are left out."""
    state = files / "watch.bke"
    options = ("--reference", files / "reference.csv", "--key", "id", "--state", state)
    first = monitor(files / "same.csv", *options)
    assert first.exit_code == 0, first.output
    again = monitor(files / "same.csv", *options)
    assert "Going on after 500 rows" in again.output
    assert "500 repeated rows dropped" in again.output
    later = monitor(files / "changed.csv", "--state", state, "--fail")
    assert later.exit_code == 3


def test_a_batch_is_kept_before_it_is_told(files, monkeypatch):
    """A command that is killed while it prints has not to be given rows again, nor repeats them."""
    state = files / "watch.bke"
    options = (files / "same.csv", "--reference", files / "reference.csv", "--state", state)
    (files / f".bke-{zlib.crc32(b'watch.bke'):08x}-{16 * '0'}.bke").write_text(
        "of a killed command"
    )
    other = files / ".bke-00000000-of-another-file"
    other.touch()
    with monkeypatch.context() as patched:
        patched.setattr(Terminal, "say", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert monitor(*options, "--batch", 200).exit_code == 130
    assert Monitor.from_file(state).state.rows == 200
    assert [path.name for path in files.glob(".bke-*")] == [other.name]


def test_a_state_is_not_read_while_another_command_holds_it(files):
    """Or what that one adds to it would be lost."""
    state = files / "watch.bke"
    options = (files / "same.csv", "--reference", files / "reference.csv", "--state", state)
    assert monitor(*options).exit_code == 0
    state.write_bytes(b"is being written")
    program = (
        "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); "
        "print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, files / ".watch.bke.lock"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdout.readline()
        assert "another process is writing to" in monitor(*options).output
        process.communicate(b"\n")
    assert "is not a monitor" in monitor(*options).output


def test_a_closed_standard_input(files):
    found = subprocess.run(
        f"{sys.executable} -c '{PROGRAM}' monitor --reference reference.csv <&-",
        shell=True, cwd=files, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 1
    assert "standard input is closed" in found.stderr


def test_another_reference_or_level_is_refused(files):
    """A state goes on as it was begun."""
    state = ("--state", files / "watch.bke", "--exclude", "id")
    reference = ("--reference", files / "reference.csv")
    assert monitor(files / "same.csv", *reference, *state).exit_code == 0
    (files / "other.csv").write_text(HEADER + "".join(lines(300, 9)))
    for options, told in (
        (("--reference", files / "other.csv"), "started with another reference"),
        ((*reference, "--alpha", 0.01), "started with --alpha 0.05, not 0.01"),
        ((*reference, "--time", "zone"), "started with --time None, not zone"),
    ):
        found = monitor(files / "changed.csv", *options, *state)
        assert found.exit_code == 2
        assert told in " ".join(found.output.replace("│", " ").split())
    assert monitor(files / "changed.csv", *reference, *state).exit_code == 0


def test_lines_that_are_no_rows_are_told_at_the_end(files):
    """As of a stream whose columns change midway; in the summary too. Nothing is told twice."""
    uneven = "".join(f"{line.strip()},more\n" for line in lines(40, 5))
    text = (files / "same.csv").read_text() + uneven
    out = files / "out"
    options = ("--reference", files / "reference.csv", "--exclude", "id", "--out", out)
    found = monitor("-", *options, text=text)
    told = "Left out for more or fewer cells: 40 lines, the first of them near line 502."
    assert found.output.rstrip().count("no change (") == 1
    assert told in found.output.split("no change (")[1]
    assert told in json.loads((out / "monitor.json").read_text())["notes"]


def test_many_streams(files):
    """Those that have changed are named."""
    rng = np.random.default_rng(0)

    def text(n, shift):
        rows = [
            f"s{i},{rng.normal(i + shift * (i == 2), 1.0):.3f}\n"
            for _ in range(n)
            for i in (0, 1, 2)
        ]
        return "site,x\n" + "".join(rows)

    (files / "sites.csv").write_text(text(60, 0.0))
    out = files / "many"
    found = monitor(
        *("-", "--reference", files / "sites.csv", "--by", "site", "--out", out, "--fail"),
        text=text(120, 2.5),
    )
    assert found.exit_code == 3, found.output
    assert "CHANGE in 1 stream" in found.output
    assert list(json.loads((out / "monitor.json").read_text())["changed"]) == ["s2"]


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        ((), 2, "--reference"),
        (("--reference", "none.csv"), 1, "none.csv"),
        (("--reference", "reference.csv", "--state", "reference.csv"), 2, "replace the reference"),
        (("--reference", "reference.csv", "--by", "zone", "--state", "s"), 2, "--by has many"),
        (("--reference", "reference.csv", "--key", "nothing"), 1, "no column 'nothing'"),
        (("--state", "reference.csv"), 1, "not a monitor"),
    ],
)
def test_refusals(files, monkeypatch, arguments, status, told):
    """One sentence, and the status of a wrong usage or input."""
    monkeypatch.chdir(files)
    found = monitor("same.csv", *arguments)
    assert found.exit_code == status
    assert told in " ".join(found.output.split())


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ('"1100,20.0,a\n', ""),
        ('1100,20.0,"a\n', ""),
        ('11"00,20.0,a\n', "1100,20.0,a\n"),
        ('"11\n00",20.0,a\n', "1100,20.0,a\n"),
        ('"11""00",20.0,a\n', "1100,20.0,a\n"),
    ],
)
def test_a_stray_quote_changes_nothing_for_other_rows(files, line, instead):
    """The alarm, its row and the evidence are those of the stream without the quote."""
    rows = (files / "changed.csv").read_text().splitlines(keepends=True)
    told = []
    for one in (line, instead):
        text = "".join([*rows[:101], one, *rows[101:]])
        options = ("--reference", files / "reference.csv", "--exclude", "id", "--json")
        found = monitor("-", *options, "--batch", 1000, text=text)
        told.append(json.loads(found.stdout.splitlines()[-1]))
        assert found.exit_code == 0
    notes = told[0].pop("notes"), told[1].pop("notes")
    assert told[0] == told[1]
    assert told[0]["alarm"]
    assert bool(set(notes[0]) - set(notes[1])) == (not instead)
