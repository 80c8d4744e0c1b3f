"""Write a table of the dependencies of bke and their licences.

python .ci/licences.py >docs/licences.md
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

#: Extras of tests, benchmarks and tools, which are not part of an installed bke.
NOT_SHIPPED = {"test", "dev", "docs", "benchmarks", "stan"}


def licence(name: str) -> str:
    """Read a licence from metadata: an expression, classifiers, or a first line; else its file."""
    distribution = importlib.metadata.distribution(name)
    metadata = distribution.metadata
    classifiers = [
        classifier.rpartition(" :: ")[2]
        for classifier in metadata.get_all("Classifier", [])
        if classifier.startswith("License :: ") and classifier != "License :: OSI Approved"
    ]
    files = [file for file in distribution.files or () if file.name.startswith("LICENSE")]
    text = (
        metadata.get("License-Expression")
        or ", ".join(classifiers)
        or metadata.get("License")
        or (files[0].read_text() if files else "unknown")
    )
    return text.strip().splitlines()[0]


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
