"""``bke monitor``: a stream on the command line, its state, and its exit status."""

import json
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest
from bke.inference import Monitor
from bke.inference.cli.terminal import Terminal

HEADER = "id,heat,zone\n"
PROGRAM = "from bke.inference.cli import main; main()"


def lines(n, seed, shift=0.0, start=0):
    rng = np.random.default_rng(seed)
    return [
        f"{start + i},{rng.normal(20.0 + shift, 2.0):.2f},{rng.choice(['a', 'b'])}\n"
        for i in range(n)
    ]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A reference, a stream that changes after 300 rows, and one that does not."""
    monkeypatch.chdir(tmp_path)
    streams = {
        "reference": lines(300, 0),
        "changed": [*lines(300, 1, start=1000), *lines(300, 2, 3.0, start=1300)],
        "same": lines(500, 3, start=1000),
    }
    for name, rows in streams.items():
        (tmp_path / f"{name}.csv").write_text(HEADER + "".join(rows))
    return tmp_path


@pytest.fixture
def monitor(bke):
    """Call the command with a reference."""

    def call(*arguments, **options):
        return bke("monitor", "--reference", "reference.csv", *arguments, **options)

    return call


def test_an_alarm_is_printed_and_fails(files, monitor):
    """One line a batch; with --fail the alarm ends the command with status 3."""
    text = monitor("changed.csv", "--exclude", "id", "--batch", 200).output
    assert "200 rows: no change" in text
    assert re.search(r"CHANGE at row (29|30)\d ", text)
    assert "heat is larger" in text
    failed = monitor("changed.csv", "--exclude", "id", "--batch", 350, "--fail", status=3)
    assert "600 rows" not in failed.output
    monitor("same.csv", "--exclude", "id", "--fail")


def test_an_alarm_ends_the_command_while_the_pipe_is_open(files):
    """As of ``tail -f``: the writer has not closed its end, and nothing more comes."""
    arguments = ["--reference", "reference.csv", "--exclude", "id", "--fail", "--quiet"]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "monitor", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        process.stdin.write((files / "changed.csv").read_bytes())
        process.stdin.flush()
        assert process.wait(timeout=120) == 3, process.stderr.read().decode()
        assert b"Fatal" not in process.stderr.read()


def test_lines_of_json_and_files(files, monitor):
    """Each line is an object; the folder has a picture and the summary."""
    options = ("--key", "id", "--batch", 250, "--json", "--out", "out")
    printed = monitor("-", *options, text=(files / "changed.csv").read_text()).stdout
    batches = [json.loads(line) for line in printed.splitlines()]
    assert [batch["rows"] for batch in batches] == [250, 500, 600]
    assert [batch["alarm"] for batch in batches] == [False, True, True]
    summary = json.loads((files / "out" / "monitor.json").read_text())
    assert summary["alarm_row"] == batches[-1]["alarm_row"]
    assert summary["stream"] == "-"
    assert (files / "out" / "monitor.png").stat().st_size > 10_000


def test_a_state_is_continued(files, bke, monitor):
    """Rows that are sent again are dropped; other options or another reference are refused."""
    options = ("--key", "id", "--state", "state")
    monitor("same.csv", *options)
    text = monitor("same.csv", *options).output
    assert "Going on after 500 rows" in text
    assert "500 repeated rows dropped" in text
    (files / "other.csv").write_text(HEADER + "".join(lines(300, 9)))
    for changed, message in (
        (("--reference", "other.csv"), "started with another reference"),
        (("--alpha", 0.01), "started with --alpha 0.05, not 0.01"),
        (("--time", "zone"), "started with --time None, not zone"),
    ):
        assert message in monitor("changed.csv", *options, *changed, status=2).output
    bke("monitor", "changed.csv", "--state", "state", "--fail", status=3)


def test_a_batch_is_saved_before_it_is_printed(files, monitor, monkeypatch):
    """A command that is killed while it prints has not to be given rows again, nor repeats them."""
    left = f".bke-{zlib.crc32(b'state'):08x}-{16 * '0'}"
    (files / left).write_text("of a killed command")
    other = files / ".bke-00000000-of-another-file"
    other.touch()
    with monkeypatch.context() as patched:
        patched.setattr(Terminal, "say", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        monitor("same.csv", "--state", "state", "--batch", 200, status=130)
    assert Monitor.from_file(files / "state").state.rows == 200
    assert [path.name for path in files.glob(".bke-*")] == [other.name]


def test_a_state_is_not_read_while_another_command_has_locked_it(files, monitor):
    """Or what that one adds to it would be lost."""
    options = ("same.csv", "--state", "state")
    (files / "state").write_bytes(b"is being written")
    program = (
        "import filelock; lock = filelock.FileLock('.state.lock'); lock.acquire(); "
        "print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        process.stdout.readline()
        assert "another process is writing to" in monitor(*options, status=1).stderr
        process.communicate(b"\n")
    assert "is not a monitor" in monitor(*options, status=1).stderr


def test_a_closed_standard_input(files):
    done = subprocess.run(
        f"{sys.executable} -c '{PROGRAM}' monitor --reference reference.csv <&-",
        shell=True, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "standard input is closed" in done.stderr


def test_lines_that_are_no_rows_are_noted_once(files, monitor):
    """As of a stream whose columns change midway; in the summary too."""
    uneven = "".join(f"{line.strip()},more\n" for line in lines(40, 5))
    text = (files / "same.csv").read_text() + uneven
    output = monitor("-", "--exclude", "id", "--out", "out", text=text).output
    note = "Left out for more or fewer cells: 40 lines, the first of them near line 502."
    assert output.rstrip().count("no change (") == 1
    assert note in output.split("no change (")[1]
    assert note in json.loads((files / "out" / "monitor.json").read_text())["notes"]


def test_several_streams(files, bke):
    """The summary names those that have changed."""
    rng = np.random.default_rng(0)

    def rows(n, shift):
        return "site,x\n" + "".join(
            f"s{i},{rng.normal(i + shift * (i == 2), 1.0):.3f}\n"
            for _ in range(n)
            for i in (0, 1, 2)
        )

    (files / "sites.csv").write_text(rows(60, 0.0))
    options = ("--reference", "sites.csv", "--by", "site", "--out", "many", "--fail")
    assert "CHANGE in 1 stream" in bke("monitor", *options, text=rows(120, 2.5), status=3).output
    assert list(json.loads((files / "many" / "monitor.json").read_text())["changed"]) == ["s2"]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "--reference"),
        (("--reference", "none.csv"), 1, "none.csv"),
        (("--reference", "reference.csv", "--state", "reference.csv"), 2, "replace the reference"),
        (("--reference", "reference.csv", "--by", "zone", "--state", "s"), 2, "--by has many"),
        (("--reference", "reference.csv", "--key", "nothing"), 1, "no column 'nothing'"),
        (("--state", "reference.csv"), 1, "not a monitor"),
    ],
)
def test_invalid_options(files, bke, arguments, status, message):
    assert message in bke("monitor", "same.csv", *arguments, status=status).output


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
def test_a_stray_quote_does_not_change_other_rows(files, monitor, line, instead):
    """The alarm, its row and the e-value are those of the stream without the quote."""
    rows = (files / "changed.csv").read_text().splitlines(keepends=True)
    last = []
    for inserted in (line, instead):
        text = "".join([*rows[:101], inserted, *rows[101:]])
        printed = monitor("-", "--exclude", "id", "--json", "--batch", 1000, text=text).stdout
        last.append(json.loads(printed.splitlines()[-1]))
    notes = [set(summary.pop("notes")) for summary in last]
    assert last[0] == last[1]
    assert last[0]["alarm"]
    assert bool(notes[0] - notes[1]) == (not instead)
