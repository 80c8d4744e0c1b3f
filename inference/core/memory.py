"""The memory that this process may still use, by what the system and its containers allow."""

from __future__ import annotations

import os
from pathlib import Path


def available_memory(root: Path = Path("/")) -> int | None:
    """How many bytes this process can still allocate, or None if unknown.

    The smallest of what the system has free and what its control groups (containers, batch
    queues) leave it. ``root`` is where /proc and /sys are looked for.
    """
    found = [_system_memory(root), *_control_groups(root)]
    return min((size for size in found if size is not None), default=None)


def _system_memory(root: Path) -> int | None:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:  # macOS and the BSDs have no /proc, and tell only the total
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _control_groups(root: Path) -> list[int]:
    """How many bytes each control group around this process leaves, versions 1 and 2."""
    try:
        groups = [line.split(":", 2) for line in _lines(root / "proc/self/cgroup")]
    except OSError:
        return []
    left = []
    for _, controllers, group in groups:
        if controllers == "":
            top, limit, used, cache = "", "memory.max", "memory.current", "inactive_file"
        elif "memory" in controllers.split(","):
            top, limit, used = "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache = "total_inactive_file"
        else:
            continue
        # A limit may sit on any group above; inside a container the path may not be visible.
        parts = Path(group.lstrip("/")).parts
        for depth in range(len(parts) + 1):
            folder = root.joinpath("sys/fs/cgroup", top, *parts[:depth])
            try:
                size = int((folder / limit).read_text()) - int((folder / used).read_text())
                stat = dict(line.split() for line in _lines(folder / "memory.stat"))
            except (OSError, ValueError):  # absent, or the limit is the word max
                continue
            left.append(max(0, size + int(stat.get(cache, 0))))  # file cache gives way
    return left


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
