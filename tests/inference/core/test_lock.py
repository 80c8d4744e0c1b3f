"""One process at a time writes: to the folder of a run, to a checkpoint."""

import subprocess
import sys

import pytest
from bke.inference import InputError
from bke.inference.core.atomic import acquire_lock
from bke.inference.core.staging import LOCK, staging_folder
from bke.inference.likelihood_free.problem import CheckpointFolder
from bke.inference.sampling.out_of_core import Checkpoint

HOLDS = """
import sys
from pathlib import Path
from bke.inference.core.atomic import acquire_lock

kept = acquire_lock(Path(sys.argv[1]), "it")
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def other(tmp_path):
    """Another process, which holds a lock until it is killed."""
    started = []

    def start(path):
        command = [sys.executable, "-c", HOLDS, str(path)]
        process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
        assert process.stdout.readline() == "held\n"
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("opened", "lock"),
    [
        (lambda folder: CheckpointFolder(folder, {"seed": 1}), ".lock"),
        (lambda folder: Checkpoint(folder / "job", {"seed": 1}), ".job.lock"),
        (lambda folder: staging_folder(folder, "run").__enter__(), LOCK),
    ],
    ids=["folder", "checkpoint", "draft"],
)
def test_a_folder_in_use_by_another_process_is_refused(opened, lock, other, tmp_path):
    process = other(tmp_path / lock)
    with pytest.raises(InputError, match="another process is writing to"):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [lock]
    process.kill()  # which leaves no lock behind
    process.communicate()
    opened(tmp_path)


def test_this_process_may_acquire_it_again(tmp_path):
    first = acquire_lock(tmp_path / "lock", "it")
    second = acquire_lock(tmp_path / "lock", "it")
    assert second.is_locked
    first.release()
    assert second.is_locked
    second.release()
    assert not first.is_locked
    Checkpoint(tmp_path / "job", {}).remove()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
