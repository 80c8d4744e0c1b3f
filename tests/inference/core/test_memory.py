import os

import pytest
from bke.inference.core.machine import available_memory

MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n"


GROUP = "sys/fs/cgroup/job/"
STATISTICS = "anon 2000000000\ninactive_file 1000000000\n"
VERSION_1 = "sys/fs/cgroup/memory/"  # the path of the job is not visible inside


@pytest.mark.parametrize(
    ("files", "available"),
    [
        ({}, 8_000_000 * 1024),
        (
            {
                "proc/self/cgroup": "0::/job/step\n",
                f"{GROUP}memory.max": "5000000000\n",
                f"{GROUP}step/memory.max": "max\n",
                **{f"{GROUP}{step}memory.current": "3000000000\n" for step in ("", "step/")},
                **{f"{GROUP}{step}memory.stat": STATISTICS for step in ("", "step/")},
            },
            3_000_000_000,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu:/\n3:memory:/job\n0::/\n",
                f"{VERSION_1}memory.limit_in_bytes": "2000000000\n",
                f"{VERSION_1}memory.usage_in_bytes": "500000000\n",
                f"{VERSION_1}memory.stat": "total_inactive_file 100000000\n",
            },
            1_600_000_000,
        ),
    ],
    ids=["free system", "control groups", "control groups of version 1"],
)
def test_memory_that_is_available(tmp_path, files, available):
    for name, content in {"proc/meminfo": MEMINFO, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    assert available_memory(tmp_path) == available


def test_memory_of_an_unknown_system(tmp_path, monkeypatch):
    assert available_memory(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.delattr(os, "sysconf")
    assert available_memory(tmp_path) is None
