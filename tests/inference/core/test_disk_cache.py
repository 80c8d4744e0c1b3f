"""Programs on disk: written once, found by the next process, removed when there are too many."""

import os
import subprocess
import sys

import jax
import pytest
from bke.inference.core import compilation as compilation_cache
from bke.inference.core.compilation import remove_oldest
from bke.inference.core.machine import computing

SCRIPT = """
import jax, numpy as np
from bke.inference.core.machine import computing
with computing():
    print(jax.jit(lambda x: 2.0 * x + 1.0)(np.arange(3.0)))
"""

#: One function of kernels of 40 classes with the same fields, which need separate programs.
CLASSES = """
import dataclasses, jax
from bke.inference.core.machine import computing
from bke.models import register_dataclass

def made(constant):
    @register_dataclass
    @dataclasses.dataclass(frozen=True)
    class Alike:
        width: object
        def value(self):
            return 2.0 * self.width + constant
    return Alike

with computing():
    value = jax.jit(lambda kernel: kernel.value())
    print(sum(float(value(made(i)(1.0))) != 2.0 + i for i in range(40)), "wrong")
"""


def files(folder):
    return {p.name: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}


def run(folder, *, script=SCRIPT, expected="[1. 3. 5.]", **more):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
    environment = {**inherited, "BKE_COMPILATION_CACHE": str(folder), **more}
    program = [sys.executable, "-c", script]
    done = subprocess.run(program, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == f"{expected}\n"


def test_the_next_process_loads_compiled_programs(tmp_path):
    folder = tmp_path / "compiled"
    run(folder)
    first = files(folder)
    assert first
    run(folder)
    assert files(folder) == first


@pytest.mark.slow
def test_code_of_another_version_has_separate_programs(tmp_path):
    """Code that differs in one number, of the same names and shapes, side by side in a folder."""
    folder, other = tmp_path / "compiled", SCRIPT.replace("+ 1.0", "+ 2.0")
    for _ in range(2):  # written, then read
        run(folder)
        run(folder, script=other, expected="[2. 4. 6.]")
    assert sum("lambda" in name for name in files(folder)) == 2


@pytest.mark.slow
def test_no_class_runs_the_program_of_another(tmp_path):
    """As JAX registers classes, about one in eight does, with files or without."""
    for folder in ("off", tmp_path / "compiled", tmp_path / "compiled"):
        run(folder, script=CLASSES, expected="0 wrong")
    assert len(files(tmp_path / "compiled")) == 40


def test_programs_are_separate_by_target_processor(tmp_path, monkeypatch):
    names = set()
    for flags in ("avx", "avx avx512f"):
        monkeypatch.setattr(compilation_cache, "PROCESSORS", tmp_path / "cpuinfo")
        (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags: {flags}\ncpu MHz: 1\n")
        compilation_cache.compiled_for.cache_clear()
        names.add(compilation_cache.compiled_for())
        (tmp_path / "cpuinfo").write_text(f"processor: 1\nflags: {flags}\ncpu MHz: 2\n")
        compilation_cache.compiled_for.cache_clear()
        names.add(compilation_cache.compiled_for())
    compilation_cache.compiled_for.cache_clear()
    assert len(names) == 2


@pytest.mark.slow
def test_unwanted_folders_are_not_written(tmp_path):
    home, user_folder = tmp_path / "home", tmp_path / "own"
    for unwanted in ("off", ""):  # programs are cached only on request
        run(unwanted, HOME=str(home), XDG_CACHE_HOME=str(home))
    assert not home.exists()
    run(tmp_path / "ours", JAX_COMPILATION_CACHE_DIR=str(user_folder))
    assert not (tmp_path / "ours").exists()


@pytest.mark.slow
def test_a_home_without_write_permission_is_no_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    run(tmp_path / "file" / "below")


def test_the_oldest_files_are_removed_first(tmp_path):
    for age in range(5):
        path = tmp_path / str(age)
        path.write_bytes(b"x" * 100)
        os.utime(path, (1000 - age, 1000 - age))
    remove_oldest(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
    remove_oldest(tmp_path, 250)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.skipif(not compilation_cache.REGIONS.exists(), reason="Linux counts regions")
def test_programs_are_cleared_before_memory_regions_run_out(monkeypatch):
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
