"""What a self-test has measured, beside what it should be."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.notebook import Shown

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Finding:
    """One self-test.

    Attributes:
        name: what was tested.
        measured: in words.
        expected: in words.
        passed: whether they agree.
    """

    name: str
    measured: str
    expected: str
    passed: bool


@dataclasses.dataclass(frozen=True)
class SelfCheck(Shown):
    """All self-tests of this machine; printed as a table with a verdict.

    Attributes:
        findings: one for each test.
        machine: processor, versions and BLAS, in words.
    """

    findings: tuple[Finding, ...]
    machine: str

    @property
    def passed(self) -> bool:
        """Whether every one did."""
        return all(one.passed for one in self.findings)

    @property
    def verdict(self) -> str:
        """What follows, in one sentence."""
        failed = [one.name for one in self.findings if not one.passed]
        if not failed:
            return "All agree: results of bke on this machine are what they should be."
        return f"DO NOT TRUST RESULTS ON THIS MACHINE: {'; '.join(failed)} came out otherwise."

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each self-test: ``name``, ``measured``, ``expected`` and ``passed``."""
        import pandas as pd

        header = [field.name for field in dataclasses.fields(Finding)]
        return pd.DataFrame(map(dataclasses.astuple, self.findings), columns=header)

    def _answer(self) -> str:
        return self.verdict

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data."""
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "machine": self.machine,
            "findings": [dataclasses.asdict(one) for one in self.findings],
        }

    def __str__(self) -> str:
        lines = [("", "measured", "expected", ""), *map(_line, self.findings)]
        widths = [max(len(line[column]) for line in lines) for column in range(3)]
        table = [_padded(line, widths) for line in lines]
        return "\n".join([*table, "", self.machine, self.verdict])


def _line(one: Finding) -> tuple[str, str, str, str]:
    return one.name, one.measured, one.expected, "agrees" if one.passed else "DOES NOT AGREE"


def _padded(line: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(line[:3], widths, strict=True))
    return "  ".join([*cells, line[3]]).rstrip()
