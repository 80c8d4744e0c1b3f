import os
import stat
import sys
from pathlib import Path

import pytest
from bke.inference.core import atomic
from bke.inference.core.atomic import atomic_path, check_output_folder
from bke.inference.core.errors import InputError


def test_writes_a_single_file(tmp_path):
    target = tmp_path / "run.nc"
    with atomic_path(target) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".nc"
        assert not temporary.exists()
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit, FileNotFoundError])
def test_failure_keeps_the_old_file(tmp_path, error):
    target = tmp_path / "summary.json"
    target.write_text("old")

    def half():
        with atomic_path(str(target)) as temporary:
            if error is FileNotFoundError:
                return  # nothing was written
            temporary.write_text("hal")
            raise error

    with pytest.raises(error):
        half()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_failed_rename_removes_the_temporary_file(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("disk gone")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk gone"), atomic_path(tmp_path / "a.png") as temporary:
        temporary.write_text("whole")
    assert list(tmp_path.iterdir()) == []


def test_relative_path_and_the_old_file_replaced(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for text in ("old", "new"):
        with atomic_path("a.png") as temporary:
            temporary.write_text(text)
        assert (tmp_path / "a.png").read_text() == text


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes of POSIX")
def test_link_is_replaced_and_mode_is_usual(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "b.png").write_text("old")
    link = tmp_path / "a.png"
    for make in (os.symlink, os.link):
        make(tmp_path / "real" / "b.png", link)
        with atomic_path(link) as temporary:
            temporary.write_text("new")
        assert not link.is_symlink()
        assert link.read_text() == "new"
        assert (tmp_path / "real" / "b.png").read_text() == "old"
        link.unlink()
    link.symlink_to(tmp_path / "real" / "nowhere.png")
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert not (tmp_path / "real" / "nowhere.png").exists()
    (tmp_path / "usual").write_text("")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("usual", "a.png")]
    assert modes[0] == modes[1]


def test_refuses_folders(tmp_path):
    with pytest.raises(InputError, match=r"is a folder"), atomic_path(tmp_path):
        pass
    target = tmp_path / "absent" / "a.png"
    with pytest.raises(InputError, match=r"a\.png.*no folder.*absent"), atomic_path(target):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="pipes and devices of POSIX")
def test_refuses_devices_and_pipes(tmp_path):
    """As root, a rename would replace them."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/null", "/dev/stdout"):
        with pytest.raises(InputError, match="no regular file"), atomic_path(path):
            pass


def refusal(path):
    with pytest.raises(InputError) as caught:
        check_output_folder(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_output_folder(tmp_path):
    folder = tmp_path / "a" / "b"
    assert check_output_folder(str(folder)) == folder
    assert check_output_folder(folder) == folder
    assert list(folder.iterdir()) == []
    (tmp_path / "out").write_text("mine")
    for path in (tmp_path / "out", tmp_path / "out" / "deeper"):
        message = refusal(path)
        assert str(path) in message
        assert f"{tmp_path / 'out'} exists and is not a folder" in message
    assert (tmp_path / "out").read_text() == "mine"


def test_no_folder_is_left_behind(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    refusal(tmp_path / "old" / "new" / ("x" * 300))
    assert list((tmp_path / "old").iterdir()) == []

    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(atomic.tempfile, "TemporaryFile", refuse)
    message = refusal(tmp_path / "old" / "new" / "newer")
    assert "Read-only file system" in message
    assert list((tmp_path / "old").iterdir()) == []
    refusal(tmp_path / "old")
    assert (tmp_path / "old").is_dir()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_read_only_parent(tmp_path):
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in refusal(tmp_path / "out")
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_folder_that_nobody_can_make():
    assert "/proc/bke" in refusal("/proc/bke")
