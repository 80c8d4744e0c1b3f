"""Files that come to a folder together: whatever ends the process, none of two runs is read."""

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


def written(folder, text, command="run", names=NAMES):
    with staging_folder(folder, command) as aside:
        for name in names:
            (aside / name).write_text(f"{text} {name}")


def held(folder):
    return {path.name for path in Path(folder).iterdir()}


def texts(folder):
    return {name: (folder / name).read_text() for name in NAMES if (folder / name).exists()}


def test_files_come_together_and_are_listed(tmp_path):
    folder = tmp_path / "new" / "out"
    with staging_folder(folder, "run") as aside:
        (aside / "a.txt").write_text("whole")
        assert held(folder) == {UNFINISHED, LOCK}
        assert in_place(aside / "a.txt") == folder / "a.txt"
    assert held(folder) == {"a.txt", MANIFEST, LOCK}
    listed = json.loads((folder / MANIFEST).read_text())["files"]
    digest = hashlib.sha256(b"whole").hexdigest()
    assert listed == {"a.txt": {"command": "run", "bytes": 5, "sha256": digest}}
    assert in_place(folder / "a.txt") == folder / "a.txt"


def test_a_folder_that_is_called_like_a_draft_is_none(tmp_path):
    assert in_place(tmp_path / UNFINISHED / "run.nc") == tmp_path / UNFINISHED / "run.nc"
    (tmp_path / UNFINISHED).mkdir()
    (tmp_path / UNFINISHED / MANIFEST).write_text('{"files": {}}')
    check_in_place(tmp_path / "run.nc")
    (tmp_path / UNFINISHED / MARK).touch()
    with pytest.raises(InputError, match="may not belong"):
        check_in_place(tmp_path / "run.nc")


def test_a_command_replaces_its_own_files_and_no_others(tmp_path):
    (tmp_path / "mine.txt").write_text("of the user")
    written(tmp_path, "old")
    written(tmp_path, "other", "test", ["d.txt", "a.txt"])  # the second changes hands
    written(tmp_path, "new", names=["b.txt"])
    assert held(tmp_path) == {"a.txt", "b.txt", "d.txt", "mine.txt", MANIFEST, LOCK}
    assert texts(tmp_path) == {"a.txt": "other a.txt", "b.txt": "new b.txt"}
    listed = json.loads((tmp_path / MANIFEST).read_text())["files"]
    assert {name: one["command"] for name, one in listed.items()} == {
        "a.txt": "test",
        "b.txt": "run",
        "d.txt": "test",
    }
    (tmp_path / "b.txt").write_text("edited")
    written(tmp_path, "newer", names=["c.txt"])
    assert texts(tmp_path) == {
        "a.txt": "other a.txt",
        "b.txt": "edited",
        "c.txt": "newer c.txt",
    }


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_failure_leaves_the_old_files_and_what_was_finished(tmp_path, error):
    written(tmp_path, "old")

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
    written(tmp_path, "newer")
    assert texts(tmp_path) == {name: f"newer {name}" for name in NAMES}
    assert UNFINISHED not in held(tmp_path)


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
    written(tmp_path, "old")
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
        # Whoever writes next, and be it another command, ends what was begun.
        written(tmp_path, "", "test", ["d.txt"])
        check_in_place(tmp_path / "a.txt")
        assert texts(tmp_path) == new
        assert set(json.loads((tmp_path / MANIFEST).read_text())["files"]) == {*new, "d.txt"}


@pytest.mark.parametrize("last", range(4))
def test_killed_at_any_removal(tmp_path, last, monkeypatch):
    """What is left is known for a draft, or is empty: the next command goes on."""
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
        written(tmp_path, "new")
    monkeypatch.undo()
    written(tmp_path, "new")
    assert held(tmp_path) == {*NAMES, MANIFEST, LOCK}


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
    written(folder, "new")
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
        written(folder, "new")
    assert held(elsewhere) == {MARK, "a.txt", MANIFEST}
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
    written(tmp_path / "out", "new", names=["c.txt"])
    assert victim.read_text() == "of the user"
    assert texts(tmp_path / "out") == {"a.txt": "recovered", "c.txt": "new c.txt"}
    assert not any(path.is_symlink() for path in (tmp_path / "out").iterdir())
    aside = interrupted(tmp_path / "linked", [])
    (aside / MANIFEST).rename(victim)
    victim.write_text('{"files": {"a.txt": {}}}')
    (aside / MANIFEST).symlink_to(victim)
    (aside / "a.txt").write_text("recovered")
    written(tmp_path / "linked", "new", names=["c.txt"])
    assert texts(tmp_path / "linked") == {"c.txt": "new c.txt"}


def test_paths_and_bke_s_own_files_in_a_list_are_ignored(tmp_path, victim):
    names = ["../victim.txt", str(victim), "..", "sub/a.txt", "", LOCK, MANIFEST, "a.txt"]
    for folder in (tmp_path / "out", interrupted(tmp_path / "out", names)):
        (folder / MANIFEST).write_text(json.dumps({"files": {name: {} for name in names}}))
        assert list(staging.listed(folder)) == [folder / "a.txt"]
    (tmp_path / "out" / UNFINISHED / LOCK).write_text("")
    written(tmp_path / "out", "new")
    assert texts(tmp_path / "out") == {name: f"new {name}" for name in NAMES}
    assert victim.read_text() == "of the user"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_is_a_link_is_refused(tmp_path, victim, link):
    folder = tmp_path / "out"
    folder.mkdir()
    link(victim, folder / LOCK)
    with pytest.raises(InputError, match="is a link, but bke needs a regular file here"):
        written(folder, "new")
    assert victim.read_text() == "of the user"
    assert held(folder) == {LOCK}


def test_a_folder_or_file_of_the_user_s_is_not_removed(tmp_path):
    mine = tmp_path / UNFINISHED
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="was not created by bke"):
        written(tmp_path, "new")
    assert (mine / "thesis.txt").read_text() == "mine"
    with pytest.raises(InputError, match="the name of the folders of unfinished files"):
        written(mine, "new")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / UNFINISHED).write_text("a file")
    with pytest.raises(InputError, match="exists and was not created by bke"):
        written(tmp_path / "out", "new")


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"files": 3}', '{"files": {"a.txt": 1}}', "[" * 100_000],
    ids=range(6),
)
def test_a_list_that_is_none_of_ours_is_replaced(tmp_path, content):
    (tmp_path / MANIFEST).write_text(content)
    written(tmp_path, "new")
    assert texts(tmp_path) == {name: f"new {name}" for name in NAMES}


def test_a_list_removes_nothing_outside_its_folder(tmp_path):
    outside, folder = tmp_path / "outside.txt", tmp_path / "out"
    outside.write_text("stays")
    folder.mkdir()
    known = {"command": "run", "sha256": hashlib.sha256(b"stays").hexdigest()}
    told = {"files": {"../outside.txt": known, str(outside): known}}
    (folder / MANIFEST).write_text(json.dumps(told))
    written(folder, "new")
    assert outside.read_text() == "stays"
