"""``bke examples``: the data agree with their description, and every command runs."""

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
SHELL_LINES = [line for line in SCRIPT.splitlines() if line and not line.startswith("#")]


@pytest.fixture(scope="module")
def example_files(bke, tmp_path_factory):
    folder = tmp_path_factory.mktemp("examples") / "here"
    return folder, bke("examples", folder)


def test_the_files_and_the_commands(example_files):
    folder, done = example_files
    assert {*os.listdir(folder)} == {*FILES, "bke-files.json", ".bke.lock"}
    assert (folder / "commands.txt").read_text(encoding="utf-8") == SCRIPT
    assert all(f"    {command}" in done.stdout.splitlines() for command in SHELL_LINES)
    explained = (folder / "README.md").read_text(encoding="utf-8")
    data = {*FILES} - {"README.md"}
    assert all(f"`{name}`" in explained for name in data)


def test_every_command_on_files_is_in_the_examples():
    named = {shlex.split(command)[1] for command in SHELL_LINES}
    excluded = {"examples", "fit", "diagnose", "witness"}
    assert named == {command.__name__ for command in COMMANDS} - excluded


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=() if command.startswith(QUICK) else pytest.mark.slow)
        for command in SHELL_LINES
    ],
    ids=lambda command: command.split()[1],
)
def test_all_commands_of_the_examples_run(command, bke, example_files, tmp_path, monkeypatch):
    shutil.copytree(example_files[0], tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    program, *arguments = shlex.split(command)
    assert program == "bke"
    bke(*arguments)
    for option, name in itertools.pairwise(arguments):
        assert option not in ("--out", "--html") or Path(name).exists()


def test_the_data_agree_with_their_description(example_files):
    folder, _ = example_files
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


def test_repeated_and_in_a_folder_with_other_files(bke, bke_json, tmp_path, example_files):
    folder = tmp_path / "again"
    bke("examples", folder)
    summary = bke_json("examples", folder)
    assert summary["commands"] == SHELL_LINES
    assert {Path(path).name for path in summary["files"]} == {*FILES}
    for name in {*FILES} - {"posterior.nc"}:
        assert (folder / name).read_bytes() == (example_files[0] / name).read_bytes()
    (tmp_path / "README.md").write_text("mine")
    refused = bke("examples", tmp_path, status=1)
    assert "README.md exists and was not written by bke examples" in refused.stderr
    assert (tmp_path / "README.md").read_text() == "mine"
    assert not (tmp_path / "ozone.csv").exists()
