"""``bke examples``: the data are what is said of them, and every command runs as it is written."""

import importlib.resources
import itertools
import os
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bke.inference.cli import examples
from bke.inference.cli.commands import COMMANDS
from bke.inference.cli.commands.examples import FILES

ROOT = Path(__file__).parents[3]
#: Done within seconds: these compile little.
QUICK = ("bke compare", "bke drift", "bke chains")
SCRIPT = importlib.resources.files(examples).joinpath("commands.txt").read_text("utf-8")
SHOWN = [line for line in SCRIPT.splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def written(bke, tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "here"
    return folder, bke("examples", folder)


def test_the_files_and_the_commands(written):
    folder, done = written
    assert {*os.listdir(folder)} == {*FILES, "bke-files.json", ".bke.lock"}
    assert (folder / "commands.txt").read_text(encoding="utf-8") == SCRIPT
    assert all(f"    {command}" in done.stdout.splitlines() for command in SHOWN)
    explained = (folder / "README.md").read_text(encoding="utf-8")
    data = {*FILES} - {"README.md"}
    assert all(f"`{name}`" in explained for name in data)


def test_every_command_on_files_is_shown():
    named = {shlex.split(command)[1] for command in SHOWN}
    others = {"examples", "fit", "diagnose", "witness"}
    assert named == {command.__name__ for command in COMMANDS} - others


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=() if command.startswith(QUICK) else pytest.mark.slow)
        for command in SHOWN
    ],
    ids=lambda command: command.split()[1],
)
def test_commands_run_as_they_are_written(command, bke, written, tmp_path, monkeypatch):
    shutil.copytree(written[0], tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    program, *arguments = shlex.split(command)
    assert program == "bke"
    bke(*arguments)
    for option, name in itertools.pairwise(arguments):
        assert option not in ("--out", "--html") or Path(name).exists()


def test_the_data_are_what_is_said_of_them(written):
    folder, _ = written
    ozone, calm, windy = (
        pd.read_csv(folder / f"{name}.csv") for name in ("ozone", "calm", "windy")
    )
    assert (ROOT / "examples" / "data" / "ozone.csv").read_text() == (
        folder / "ozone.csv"
    ).read_text()
    assert len(ozone) == len(calm) + len(windy) == 330
    assert calm["Wind"].max() < ozone["Wind"].median() <= windy["Wind"].min()
    before, after = (pd.read_csv(folder / f"{name}_month.csv") for name in ("last", "this"))
    assert not {*before["customer"]} & {*after["customer"]}
    assert after["age"].mean() > before["age"].mean()
    old, new = (pd.read_csv(folder / f"{name}.csv")["pressure"] for name in ("old", "new"))
    assert np.std(new[400:]) > 2.0 * np.std(new[:400])
    assert abs(np.std(old) / np.std(new[:400]) - 1.0) < 0.2


def test_repeated_and_in_a_folder_with_other_files(bke, bke_json, tmp_path, written):
    folder = tmp_path / "again"
    bke("examples", folder)
    summary = bke_json("examples", folder)
    assert summary["commands"] == SHOWN
    assert {Path(path).name for path in summary["files"]} == {*FILES}
    for name in {*FILES} - {"posterior.nc"}:
        assert (folder / name).read_bytes() == (written[0] / name).read_bytes()
    (tmp_path / "README.md").write_text("mine")
    refused = bke("examples", tmp_path, status=1)
    assert "README.md exists and was not written by bke examples" in refused.stderr
    assert (tmp_path / "README.md").read_text() == "mine"
    assert not (tmp_path / "ozone.csv").exists()
