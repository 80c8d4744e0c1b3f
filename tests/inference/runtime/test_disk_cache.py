"""Programs on disk: written once, found by the next process, removed when there are too many."""

import os
import subprocess
import sys

import jax
import pytest
from bke.inference.runtime import disk_cache as compilation_cache
from bke.inference.runtime.disk_cache import remove_oldest
from bke.inference.runtime.machine import computing

SCRIPT = """
import jax, numpy as np
from bke.inference.runtime.machine import computing
with computing():
    print(jax.jit(lambda x: 2.0 * x + 1.0)(np.arange(3.0)))
"""


def run(folder, **more):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment = {**kept, "BKE_COMPILATION_CACHE": str(folder), **more}
    program = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "[1. 3. 5.]\n"


def test_the_next_process_finds_what_was_compiled(tmp_path):
    folder = tmp_path / "compiled"
    run(folder)
    first = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert first
    run(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == first


@pytest.mark.slow
def test_nothing_is_written_where_it_is_not_wanted(tmp_path):
    home, own = tmp_path / "home", tmp_path / "own"
    for unwanted in ("off", ""):  # nothing is kept unless it is asked for
        run(unwanted, HOME=str(home), XDG_CACHE_HOME=str(home))
    assert not home.exists()
    run(tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=str(own))
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_a_home_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    run(tmp_path / "file" / "below")


def test_the_oldest_go_first(tmp_path):
    for age in range(5):
        path = tmp_path / str(age)
        path.write_bytes(b"x" * 100)
        os.utime(path, (1000 - age, 1000 - age))
    remove_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    remove_oldest(tmp_path, 250)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not compilation_cache.REGIONS.exists(), reason="Linux counts regions")
def test_programs_are_forgotten_before_there_is_no_room(monkeypatch):
    compiled = []

    @jax.jit
    def double(x):
        compiled.append(x)  # while it is traced
        return 2.0 * x

    monkeypatch.setattr(compilation_cache, "EVERY", 2)
    for most, times in ((10**6, 1), (0, 3)):
        monkeypatch.setattr(compilation_cache, "MOST_REGIONS", most)
        for _ in range(4):
            with computing():
                assert double(1.5) == 3.0
        assert len(compiled) == times
