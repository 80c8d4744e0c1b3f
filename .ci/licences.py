"""Licences of the packages that bke needs and takes, from their own metadata, as a table.

python .ci/licences.py >docs/licences.md
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

#: Of which packages bke makes use when it runs; tests, benchmarks and tools are not shipped.
NOT_SHIPPED = {"test", "dev", "docs", "benchmarks", "stan"}


def licence(name: str) -> str:
    """What a package says of itself: an expression, or its classifiers, or its first line."""
    metadata = importlib.metadata.metadata(name)
    told = metadata.get("License-Expression")
    classified = [
        one.rpartition(" :: ")[2]
        for one in metadata.get_all("Classifier", [])
        if one.startswith("License :: ") and one != "License :: OSI Approved"
    ]
    return told or ", ".join(classified) or (metadata.get("License") or "unknown").splitlines()[0]


project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
wanted = dict.fromkeys(project["dependencies"], "always")
for extra, lines in project["optional-dependencies"].items():
    if extra not in NOT_SHIPPED:
        wanted |= {line: f"`bke[{extra}]`" for line in lines if line not in wanted}
print("# Licences\n")
print(
    "The table lists the dependencies of bke with the licences in their package metadata. "
    "`.ci/licences.py` writes it.\n"
)
print("| package | when | licence |\n| --- | --- | --- |")
for line, when in wanted.items():
    requirement = Requirement(line)
    if requirement.marker is None or requirement.marker.evaluate():
        try:
            print(f"| {requirement.name} | {when} | {licence(requirement.name)} |")
        except importlib.metadata.PackageNotFoundError:
            print(f"| {requirement.name} | {when} | not installed here |")
