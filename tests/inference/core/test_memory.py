import os

from bke.inference.core.machine import available_memory


def plant(root, **files):
    for name, content in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


MEMINFO = "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\n"


def test_memory_of_a_free_system(tmp_path):
    plant(tmp_path, proc__meminfo=MEMINFO)
    assert available_memory(tmp_path) == 8_000_000 * 1024


def test_memory_left_by_control_groups(tmp_path):
    plant(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/job/step\n")
    group = tmp_path / "sys/fs/cgroup/job"
    (group / "step").mkdir(parents=True)
    for folder, limit in ((group, "5000000000\n"), (group / "step", "max\n")):
        (folder / "memory.max").write_text(limit)
        (folder / "memory.current").write_text("3000000000\n")
        (folder / "memory.stat").write_text("anon 2000000000\ninactive_file 1000000000\n")
    assert available_memory(tmp_path) == 3_000_000_000


def test_memory_left_by_control_groups_version_1(tmp_path):
    plant(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="4:cpu:/\n3:memory:/job\n0::/\n")
    group = tmp_path / "sys/fs/cgroup/memory"  # the path of the job is not visible inside
    group.mkdir(parents=True)
    (group / "memory.limit_in_bytes").write_text("2000000000\n")
    (group / "memory.usage_in_bytes").write_text("500000000\n")
    (group / "memory.stat").write_text("total_inactive_file 100000000\n")
    assert available_memory(tmp_path) == 1_600_000_000


def test_memory_where_nothing_is_known(tmp_path, monkeypatch):
    assert available_memory(tmp_path) == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.delattr(os, "sysconf")
    assert available_memory(tmp_path) is None
