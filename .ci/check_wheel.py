"""A wheel that lacks a module of the tree is the mistake this layout invites."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

root = Path(__file__).parent.parent
expected = {
    f"bke/{path.relative_to(root).as_posix().removeprefix('inference/_package/')}"
    for folder in ("models", "inference")
    for path in (root / folder).rglob("*")
    if path.suffix in (".py", ".pyi", ".html", ".css", ".js", ".csv") or path.name == "py.typed"
}
held = set(zipfile.ZipFile(sys.argv[1]).namelist())
missing = sorted(expected - held)
if missing:
    sys.exit("the wheel lacks " + ", ".join(missing))
print(f"the wheel holds all {len(expected)} files")
