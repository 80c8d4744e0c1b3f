"""What a monitor has found so far, in numbers and in words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from ..core.notebook import Shown
from ..data.checks import pluralize
from .since import Since

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class Change:
    """What of the rows has changed, by one score.

    Attributes:
        what: in words, such as "temperature is larger".
        columns: those that it is about.
        evidence: of this score, times its share of the level.
    """

    what: str
    columns: tuple[str, ...]
    evidence: float

    def __str__(self) -> str:
        return self.what


@dataclasses.dataclass(frozen=True)
class MonitorState(Shown):
    """What is known after some rows of a stream.

    Attributes:
        rows: how many have been seen.
        alpha: the chance of ever raising an alarm where nothing changes.
        evidence: the largest so far; alarm where it reaches 1 / alpha.
        alarm: whether it has.
        row: the row of the alarm, counted from 1; ``None`` where there is none.
        since: when the change came, by the rows up to the alarm.
        where: what has changed, told by the scores with the largest evidence, not tested apart.
        since_time: the times of ``since``: of its row, and of both ends; where times are known.
        repeated: rows that were dropped, for their key had been seen.
        late: rows that were older than one before them.
        notes: what a reader should know.
    """

    rows: int
    alpha: float
    evidence: float
    alarm: bool
    row: int | None = None
    since: Since | None = None
    where: tuple[Change, ...] = ()
    since_time: tuple[str, str, str] | None = None
    repeated: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()

    @property
    def pvalue(self) -> float:
        """Anytime-valid: the chance that it is ever as small is at most its value."""
        return min(1.0, 1.0 / self.evidence)

    @property
    def e_value(self) -> float:
        """An e-value at whatever row one stops, for :func:`e_bh`: its mean is at most 1.

        The evidence is a running maximum, whose chance of reaching x is at most 1 / x but whose
        mean is not bounded: it is calibrated by (x - 1 - log x) / log(x)^2 (Vovk and Wang 2021, at
        the p-value 1 / x).
        """
        return calibrated(float(np.log(self.evidence)))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each thing that has changed, that of the largest evidence first.

        Columns: ``what``, in words; ``columns``, those that it is about, joined by commas; and
        ``evidence``.
        """
        import pandas as pd

        rows = [(one.what, ", ".join(one.columns), one.evidence) for one in self.where]
        return pd.DataFrame(rows, columns=["what", "columns", "evidence"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "rows": self.rows,
            "alpha": self.alpha,
            "evidence": self.evidence,
            "pvalue": self.pvalue,
            "e_value": self.e_value,
            "alarm": self.alarm,
            "row": self.row,
            "since": None if self.since is None else self.since._asdict(),
            "since_time": self.since_time,
            "where": [dataclasses.asdict(one) for one in self.where],
            "repeated": self.repeated,
            "late": self.late,
            "notes": list(self.notes),
        }

    @property
    def line(self) -> str:
        """One line."""
        told = f"{pluralize(self.rows, 'row')}: "
        if self.rows == 0:
            return f"{told}none has come, so nothing is known"
        if not self.alarm:
            return f"{told}no change (evidence {self.evidence:.3g} of {1.0 / self.alpha:g})"
        what = ", ".join(map(str, self.where[:2])) or "rows differ"
        return f"{told}CHANGED since {self.when}: {what} (alarm at row {self.row})"

    @property
    def when(self) -> str:
        """Since when, in words."""
        if self.since_time is None:
            return str(self.since)
        at, low, high = self.since_time
        before = "or before, " if self.since is not None and self.since.cut else ""
        span = at if low == high else f"{at} (90 %: {low} to {high})"
        return f"{before}{span}, {self.since}"

    def __str__(self) -> str:
        lines = [self.line]
        if self.alarm:
            lines.append(
                f"Evidence {self.evidence:.3g}: were there no change, the chance of this alarm "
                f"at any row would be at most {self.alpha:g}."
            )
            lines += [f"  {one} (evidence {one.evidence:.3g})" for one in self.where]
        if self.repeated:
            lines.append(f"{pluralize(self.repeated, 'repeated row')} left out.")
        if self.late:
            lines.append(f"{pluralize(self.late, 'row')} late: taken in the order of arrival.")
        return "\n".join([*lines, *self.notes])


def calibrated(log_evidence: float) -> float:
    """The e-value of the largest evidence so far, by its logarithm."""
    if log_evidence <= 1e-6:
        return 0.5
    return float((np.expm1(log_evidence) - log_evidence) / log_evidence**2)


def evidence_of(e_value: float) -> float:
    """The evidence whose e-value is so much; 1 of 0.5 and below."""
    if e_value <= 0.5:
        return 1.0
    return float(
        np.exp(brentq(lambda log: calibrated(log) - e_value, 0.0, 2.0 * np.log(e_value) + 9.0))
    )
