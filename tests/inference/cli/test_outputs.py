"""No command writes over what it reads, however the two are spelt or linked."""

import os

import numpy as np
import pytest
from bke.inference.cli.outputs import output_file, output_folder
from bke.inference.cli.terminal import Terminal
from bke.inference.core import staging
from bke.inference.core.atomic import same_file
from bke.inference.core.errors import InputError

ROWS = ("--stream", "--likelihood", "landmark", "--method", "quadrature")


@pytest.fixture
def refusal(bke):
    """Standard error of a command that fails."""
    return lambda *arguments: bke(*arguments, status=1).stderr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three samples, and two files that are read only after the output folder is checked."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in ("p", "q", "z"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(30, 2)))
    for name in ("run.nc", "other.nc"):
        (tmp_path / name).write_text(name)
    return tmp_path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "fit p.npy --out p.npy",
        "fit p.npy q.npy --out q.npy",
        "fit p.npy --likelihood landmark --landmarks z.npy --out z.npy",
        "fit p.npy --out ../{name}/./p.npy",
        "fit p.npy --out {folder}/p.npy",
    ],
)
def test_a_file_that_is_read(folder, refusal, command):
    before = contents(folder)
    arguments = command.format(folder=folder, name=folder.name).split()
    assert "which is read: choose another place" in refusal(*arguments)
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("link_type", "command"),
    [
        ("run.nc", "run {link} q.npy"),
        ("witness.nc", "run p.npy q.npy --at {link}"),
        ("samples.png", "run p.npy q.npy --likelihood landmark --landmarks {link}"),
        ("witness.nc", "witness run.nc p.npy {link}"),
        ("witness.nc", "witness {run} p.npy q.npy"),
        ("diagnosis.json", "diagnose {run}"),
        ("compare.json", "compare p.npy {link}"),
        ("test.png", "independence {link} --x 0 --y 1"),
    ],
)
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_in_the_folder_is_a_link_to_an_input(folder, refusal, link_type, command, link):
    (folder / "out").mkdir()
    source = "run.nc" if "{run}" in command else "z.npy"
    link(folder / source, folder / "out" / link_type)
    before = contents(folder)
    arguments = command.format(link="z.npy", run="run.nc").split()
    assert f"out/{link_type} over {source}, which is read" in refusal(*arguments, "--out", "out")
    assert contents(folder) == before


def test_a_folder_of_zarr(folder, refusal):
    zarr = pytest.importorskip("zarr")
    zarr.create_array("rows.zarr", shape=(30, 2), dtype=float)[:] = np.load("p.npy")
    for option in ("--out", "--checkpoint"):
        message = refusal("fit", "rows.zarr", *ROWS, option, "rows.zarr/zarr.json")
        assert "over rows.zarr, which is read" in message


def test_the_checkpoint_differs_from_all_outputs(folder, refusal):
    message = refusal("fit", "p.npy", *ROWS, "--checkpoint", "p.npy")
    assert "--checkpoint would write p.npy over p.npy" in message
    same = ("--checkpoint", "./s.nc", "--out", "s.nc")
    assert "--out and --checkpoint are both s.nc" in refusal("fit", "p.npy", *ROWS, *same)


def test_files_that_are_not_outputs_may_lie_in_the_folder(folder, refusal):
    assert "run.nc is not a run" in refusal("witness", "run.nc", "p.npy", "q.npy", "--out", ".")


def test_same_file(tmp_path):
    assert same_file(tmp_path / "new", tmp_path / "a" / ".." / "new")
    assert not same_file(tmp_path / "new", tmp_path / "other")
    (tmp_path / "there").write_text("")
    assert not same_file(tmp_path / "new", tmp_path / "there")
    (tmp_path / "link").symlink_to("new")  # which is not there
    assert same_file(tmp_path / "link", tmp_path / "new")


COMPARE = ("compare", "p.npy", "q.npy", "--permutations", "99", "--out", "out")


def test_files_that_were_not_moved_are_not_printed(folder, bke, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bke.inference.core.staging._write_manifest", full)
    result = bke(*COMPARE, "--json", "--quiet", status=1)
    assert result.stdout == ""
    assert "No space left" in result.stderr


def test_files_of_commands_are_not_mixed(folder, bke, refusal):
    """But for files that are made from a run, as a diagnosis of the run in the folder."""
    bke(*COMPARE)
    before = contents(folder / "out")
    refused = refusal("run", "p.npy", "q.npy", "--out", "out")
    assert "comparison.png, which belongs to what bke compare has written there" in refused
    assert contents(folder / "out") == before
    (folder / "out" / "comparison.png").unlink()
    bke(*COMPARE)
    assert set(contents(folder / "out")) == set(before)


def put(folder, command, *names, read=()):
    terminal = Terminal(json=False, quiet=True)
    with output_folder(terminal, folder, names, command=command, read=read) as output:
        for name in names:
            output.add(name, name).write_text(command)


def test_a_folder_contains_outputs_of_a_single_command_and_its_run(tmp_path):
    run, other = tmp_path / "out" / "run.nc", tmp_path / "other.nc"
    other.write_text("other")
    put(tmp_path / "out", "run", "run.nc", "summary.json")
    put(tmp_path / "out", "diagnose", "profile.png", "summary.json", read=[run])
    put(tmp_path / "out", "witness", "witness.nc", "summary.json", read=[run])
    put(tmp_path / "out", "diagnose", "profile.png", "summary.json", read=[run])
    put(tmp_path / "out", "run", "run.nc", "summary.json")
    with pytest.raises(InputError, match="belongs to what bke run has written there"):
        put(tmp_path / "out", "density", "summary.json", read=[other])
    put(tmp_path / "out", "diagnose", "profile.png", read=[run])
    with pytest.raises(InputError, match="belongs to what bke diagnose has written there"):
        put(tmp_path / "out", "diagnose", "profile.png", read=[other])
    put(tmp_path / "alone", "diagnose", "profile.png", read=[run])
    put(tmp_path / "alone", "diagnose", "profile.png", read=[other])
    with (
        pytest.raises(InputError, match="belongs to what bke run has written there"),
        output_file(run, read=[other]),
    ):
        pass
    assert (tmp_path / "out" / "summary.json").read_text() == "run"


def test_a_link_into_the_folder_of_another_command(tmp_path):
    put(tmp_path / "out", "run", "run.nc")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "run.nc").symlink_to(tmp_path / "out" / "run.nc")
    put(tmp_path / "linked", "compare", "run.nc")
    assert (tmp_path / "linked" / "run.nc").read_text() == "compare"
    assert (tmp_path / "out" / "run.nc").read_text() == "run"


@pytest.mark.parametrize(
    ("link", "command"),
    [
        ("out/compare.json", "compare p.npy q.npy --permutations 19 --out out"),
        ("out/bke-files.json", "compare p.npy q.npy --permutations 19 --out out"),
        ("page.html", "drift a.csv b.csv --permutations 19 --html page.html"),
        ("page.md", "drift a.csv b.csv --permutations 19 --markdown page.md"),
        ("state", "monitor b.csv --reference a.csv --state state"),
        ("s.nc", "fit p.npy --out s.nc"),
    ],
)
@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_no_command_writes_through_a_link(folder, bke, link, command, target):
    """Neither over a file outside, nor where there is none yet."""
    for name, file in (("p", "a"), ("q", "b")):
        np.savetxt(f"{file}.csv", np.load(f"{name}.npy"), delimiter=",", header="u,v", comments="")
    (folder / "out").mkdir()
    (folder / "victim").write_text("of the user")
    (folder / link).symlink_to(folder / target)
    resumed = "--state" in command and target == "victim"
    result = bke(*command.split(), status=int(resumed))
    assert (folder / "victim").read_text() == "of the user"
    assert not (folder / "nowhere").exists()
    if resumed:
        assert "is not a monitor of bke" in result.stderr
    else:
        assert (folder / link).is_file()
        assert not (folder / link).is_symlink()


def test_files_of_a_killed_command_are_completed_before_their_owner_is_checked(
    tmp_path, monkeypatch
):
    replace, count = os.replace, iter(range(9))

    def killed(path, target):
        if next(count) == 2:  # the first puts the list into the draft
            raise KeyboardInterrupt
        replace(path, target)

    monkeypatch.setattr(staging.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        put(tmp_path, "run", "a.png", "run.nc", "summary.json")
    monkeypatch.undo()
    assert {path.name for path in tmp_path.iterdir() if path.suffix} == {"a.png", ".bke.lock"}
    (tmp_path / "link.nc").symlink_to("a.png")
    with pytest.raises(InputError, match="was replacing them was interrupted"):
        staging.check_in_place(tmp_path / "link.nc")
    with pytest.raises(InputError, match="belongs to what bke run has written there"):
        put(tmp_path, "compare", "summary.json")
    assert (tmp_path / "summary.json").read_text() == "run"
    assert (tmp_path / "bke-files.json").exists()
