"""The oldest versions that pyproject.toml allows, as constraints for pip: those of one Python.

pip install -c <(python .ci/floors.py) .
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
lines = [
    *project["dependencies"],
    *(one for more in project["optional-dependencies"].values() for one in more),
]
floors: dict[str, str] = {}
for line in lines:
    requirement = Requirement(line)
    if requirement.name == project["name"] or (
        requirement.marker and not requirement.marker.evaluate()
    ):
        continue
    for floor in (one.version for one in requirement.specifier if one.operator == ">="):
        if floors.setdefault(requirement.name, floor) != floor:
            sys.exit(f"{line} has another floor than {floors[requirement.name]}")
print("\n".join(f"{name}=={floor}" for name, floor in floors.items()))
