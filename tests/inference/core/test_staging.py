"""Outputs of a run replace a folder's files at once, whatever ends the process."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bke.inference.core import staging
from bke.inference.core.errors import InputError
from bke.inference.core.staging import (
    LOCK,
    MANIFEST,
    MARK,
    UNFINISHED,
    check_in_place,
    in_place,
    staging_folder,
)

NAMES = ("a.txt", "b.txt", "c.txt")


def write_files(folder, text, command="run", names=NAMES):
    with staging_folder(folder, command) as aside:
        for name in names:
            (aside / name).write_text(f"{text} {name}")


def names_in(folder):
    return {path.name for path in Path(folder).iterdir()}


def texts(folder):
    return {name: (folder / name).read_text() for name in NAMES if (folder / name).exists()}


def test_files_are_replaced_together_and_listed(tmp_path):
    folder = tmp_path / "new" / "out"
    with staging_folder(folder, "run") as aside:
        (aside / "a.txt").write_text("whole")
        assert names_in(folder) == {UNFINISHED, LOCK}
        assert in_place(aside / "a.txt") == folder / "a.txt"
    assert names_in(folder) == {"a.txt", MANIFEST, LOCK}
    listed = json.loads((folder / MANIFEST).read_text())["files"]
    digest = hashlib.sha256(b"whole").hexdigest()
    assert listed == {"a.txt": {"command": "run", "bytes": 5, "sha256": digest}}
    assert in_place(folder / "a.txt") == folder / "a.txt"


def test_a_folder_with_the_name_of_a_draft_is_no_draft(tmp_path):
    assert in_place(tmp_path / UNFINISHED / "run.nc") == tmp_path / UNFINISHED / "run.nc"
    (tmp_path / UNFINISHED).mkdir()
    (tmp_path / UNFINISHED / MANIFEST).write_text('{"files": {}}')
    check_in_place(tmp_path / "run.nc")
    (tmp_path / UNFINISHED / MARK).touch()
    with pytest.raises(InputError, match="may not belong"):
        check_in_place(tmp_path / "run.nc")


def test_a_command_replaces_only_its_files(tmp_path):
    (tmp_path / "mine.txt").write_text("of the user")
    write_files(tmp_path, "old")
    write_files(tmp_path, "other", "test", ["d.txt", "a.txt"])  # the second changes hands
    write_files(tmp_path, "new", names=["b.txt"])
    assert names_in(tmp_path) == {"a.txt", "b.txt", "d.txt", "mine.txt", MANIFEST, LOCK}
    assert texts(tmp_path) == {"a.txt": "other a.txt", "b.txt": "new b.txt"}
    listed = json.loads((tmp_path / MANIFEST).read_text())["files"]
    assert {name: entry["command"] for name, entry in listed.items()} == {
        "a.txt": "test",
        "b.txt": "run",
        "d.txt": "test",
    }
    (tmp_path / "b.txt").write_text("edited")
    write_files(tmp_path, "newer", names=["c.txt"])
    assert texts(tmp_path) == {
        "a.txt": "other a.txt",
        "b.txt": "edited",
        "c.txt": "newer c.txt",
    }


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_failure_leaves_the_old_files_and_finished_files(tmp_path, error):
    write_files(tmp_path, "old")

    def half(folder, *finished):
        with staging_folder(folder, "run") as aside:
            for name in finished:
                (aside / name).write_text("new")
            raise error

    with pytest.raises(error) as failed:
        half(tmp_path / "new" / "out")
    assert not hasattr(failed.value, "__notes__")
    assert not (tmp_path / "new").exists()
    with pytest.raises(error) as failed:
        half(tmp_path, "a.txt")
    assert failed.value.__notes__ == [
        f"finished files are in {tmp_path / UNFINISHED} until a command writes to the folder again"
    ]
    assert texts(tmp_path) == {name: f"old {name}" for name in NAMES}
    assert (tmp_path / UNFINISHED / "a.txt").read_text() == "new"
    check_in_place(tmp_path / "a.txt")
    write_files(tmp_path, "newer")
    assert texts(tmp_path) == {name: f"newer {name}" for name in NAMES}
    assert UNFINISHED not in names_in(tmp_path)


#: Writes three new files over old ones, and is killed at a rename, from 0.
KILLED = """
import os, sys
from pathlib import Path
from bke.inference.core import staging

folder, last = Path(sys.argv[1]), int(sys.argv[2])
replace, count = os.replace, 0

def killed(*paths):
    global count
    if armed and count == last:
        os._exit(9)
    count += armed
    replace(*paths)

armed = False
os.replace = killed
with staging.staging_folder(folder, "run") as aside:
    for name in ("a.txt", "b.txt"):
        (aside / name).write_text(f"new {name}")
    armed = True
"""


@pytest.mark.parametrize("last", range(5))
def test_killed_at_any_rename(tmp_path, last):
    """One rename puts the list into the draft, two the files in place, one the list."""
    write_files(tmp_path, "old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(last)], check=False)
    assert done.returncode == (0 if last == 4 else 9)
    old = {name: f"old {name}" for name in NAMES}
    new = {name: f"new {name}" for name in NAMES[:2]}
    if last == 0:
        check_in_place(tmp_path / "a.txt")
        assert texts(tmp_path) == old
    elif last == 4:
        check_in_place(tmp_path / "a.txt")
        assert texts(tmp_path) == new
    else:
        for name in NAMES:
            with pytest.raises(InputError, match="repeat that command"):
                check_in_place(tmp_path / name)
        # The next command, whichever it is, completes the interrupted replacement.
        write_files(tmp_path, "", "test", ["d.txt"])
        check_in_place(tmp_path / "a.txt")
        assert texts(tmp_path) == new
        assert set(json.loads((tmp_path / MANIFEST).read_text())["files"]) == {*new, "d.txt"}


@pytest.mark.parametrize("last", range(4))
def test_killed_at_any_removal(tmp_path, last, monkeypatch):
    """Remaining files are recognized as a draft, or there are none: the next command continues."""
    (tmp_path / UNFINISHED).mkdir()
    for name in (MARK, *NAMES):
        (tmp_path / UNFINISHED / name).touch()
    unlink, count = Path.unlink, iter(range(9))

    def killed(path, **options):
        if path.parent.name == UNFINISHED and next(count) == last:
            raise KeyboardInterrupt
        unlink(path, **options)

    monkeypatch.setattr(Path, "unlink", killed)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, "new")
    monkeypatch.undo()
    write_files(tmp_path, "new")
    assert names_in(tmp_path) == {*NAMES, MANIFEST, LOCK}


@pytest.fixture
def victim(tmp_path):
    """A file of the user outside the output folder."""
    path = tmp_path / "victim.txt"
    path.write_text("of the user")
    return path


@pytest.mark.parametrize("link", [os.symlink, os.link])
@pytest.mark.parametrize("name", ["a.txt", MANIFEST])
def test_a_link_in_the_folder_is_replaced(tmp_path, victim, link, name):
    folder = tmp_path / "out"
    folder.mkdir()
    link(victim, folder / name)
    (folder / "b.txt").symlink_to(tmp_path / "made.txt")
    write_files(folder, "new")
    assert texts(folder) == {name: f"new {name}" for name in NAMES}
    assert not any((folder / linked).is_symlink() for linked in (name, "b.txt"))
    assert victim.read_text() == "of the user"
    assert not (tmp_path / "made.txt").exists()


def test_a_link_in_place_of_the_draft_is_refused(tmp_path):
    """Though the folder that it leads to has all that a draft has."""
    folder, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    for name, text in ((MARK, ""), ("a.txt", "mine"), (MANIFEST, '{"files": {"a.txt": {}}}')):
        (elsewhere / name).write_text(text)
    (folder / UNFINISHED).symlink_to(elsewhere)
    with pytest.raises(InputError, match="exists and was not created by bke"):
        write_files(folder, "new")
    assert names_in(elsewhere) == {MARK, "a.txt", MANIFEST}
    assert texts(folder) == {}


def interrupted(folder, files):
    """Make a folder as a command leaves it that was killed after the list was written."""
    aside = folder / UNFINISHED
    aside.mkdir(parents=True)
    (aside / MARK).touch()
    (aside / MANIFEST).write_text(json.dumps({"files": {name: {} for name in files}}))
    return aside


def test_recovery_writes_through_no_link(tmp_path, victim):
    aside = interrupted(tmp_path / "out", ["a.txt", "b.txt"])
    (aside / "a.txt").write_text("recovered")
    (aside / "b.txt").symlink_to(victim)
    (tmp_path / "out" / "a.txt").symlink_to(victim)
    write_files(tmp_path / "out", "new", names=["c.txt"])
    assert victim.read_text() == "of the user"
    assert texts(tmp_path / "out") == {"a.txt": "recovered", "c.txt": "new c.txt"}
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    aside = interrupted(tmp_path / "linked", [])
    (aside / MANIFEST).rename(victim)
    victim.write_text('{"files": {"a.txt": {}}}')
    (aside / MANIFEST).symlink_to(victim)
    (aside / "a.txt").write_text("recovered")
    write_files(tmp_path / "linked", "new", names=["c.txt"])
    assert texts(tmp_path / "linked") == {"c.txt": "new c.txt"}


def test_paths_and_files_of_bke_in_a_list_are_ignored(tmp_path, victim):
    names = ["../victim.txt", str(victim), "..", "sub/a.txt", "", LOCK, MANIFEST, "a.txt"]
    for folder in (tmp_path / "out", interrupted(tmp_path / "out", names)):
        (folder / MANIFEST).write_text(json.dumps({"files": {name: {} for name in names}}))
        assert list(staging.listed(folder)) == [folder / "a.txt"]
    (tmp_path / "out" / UNFINISHED / LOCK).write_text("")
    write_files(tmp_path / "out", "new")
    assert texts(tmp_path / "out") == {name: f"new {name}" for name in NAMES}
    assert victim.read_text() == "of the user"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_is_a_link_is_refused(tmp_path, victim, link):
    folder = tmp_path / "out"
    folder.mkdir()
    link(victim, folder / LOCK)
    with pytest.raises(InputError, match="is a link, but bke needs a regular file here"):
        write_files(folder, "new")
    assert victim.read_text() == "of the user"
    assert names_in(folder) == {LOCK}


def test_a_folder_or_file_of_the_user_s_is_not_removed(tmp_path):
    user_folder = tmp_path / UNFINISHED
    user_folder.mkdir()
    (user_folder / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="was not created by bke"):
        write_files(tmp_path, "new")
    assert (user_folder / "thesis.txt").read_text() == "mine"
    with pytest.raises(InputError, match="the name of the folders of unfinished files"):
        write_files(user_folder, "new")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / UNFINISHED).write_text("a file")
    with pytest.raises(InputError, match="exists and was not created by bke"):
        write_files(tmp_path / "out", "new")


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"files": 3}', '{"files": {"a.txt": 1}}', "[" * 100_000],
    ids=range(6),
)
def test_an_invalid_list_is_replaced(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    write_files(tmp_path, "new")
    assert texts(tmp_path) == {name: f"new {name}" for name in NAMES}


def test_a_list_does_not_remove_files_outside_its_folder(tmp_path):
    outside, folder = tmp_path / "outside.txt", tmp_path / "out"
    outside.write_text("stays")
    folder.mkdir()
    known = {"command": "run", "sha256": hashlib.sha256(b"stays").hexdigest()}
    manifest = {"files": {"../outside.txt": known, str(outside): known}}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    write_files(folder, "new")
    assert outside.read_text() == "stays"
