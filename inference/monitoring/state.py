"""State of a monitor, with summaries, and e-values."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from ..core.notebook import Shown
from ..data.checks import pluralize
from .sequential_test import Change, ChangePoint

if TYPE_CHECKING:
    import pandas as pd


@dataclasses.dataclass(frozen=True)
class MonitorState(Shown):
    """State of a monitor after some rows of a stream.

    Attributes:
        rows: number of rows so far.
        alpha: bound on the probability of ever raising an alarm if nothing changes.
        max_wealth: largest wealth of the bets so far over rows and scores, times the weight of the
            score. An alarm is raised when it reaches 1 / alpha.
        alarm: ``True`` if an alarm was raised.
        alarm_row: row of the alarm, counted from 1, or ``None``.
        change_point: estimate of the change point, from the rows up to the alarm, or ``None``.
        changes: changes of the scores of largest wealth at the alarm, without a test of each.
        change_point_time: times of the row, the lower and the upper end of ``change_point``, or
            ``None`` if times are unknown.
        repeated: number of rows that were dropped because their key is known.
        late: number of rows that are older than a row before them.
        notes: notes on the data and on the validity of the test.
    """

    rows: int
    alpha: float
    max_wealth: float
    alarm: bool
    alarm_row: int | None = None
    change_point: ChangePoint | None = None
    changes: tuple[Change, ...] = ()
    change_point_time: tuple[str, str, str] | None = None
    repeated: int = 0
    late: int = 0
    notes: tuple[str, ...] = ()

    @property
    def pvalue(self) -> float:
        """Anytime-valid p-value 1 / ``max_wealth``.

        If nothing changes, the probability that it is ever at most p is at most p.
        """
        return min(1.0, 1.0 / self.max_wealth)

    @property
    def e_value(self) -> float:
        """E-value for :func:`e_bh`: at any stopping time its expectation is at most 1.

        The expectation of the running maximum ``max_wealth`` = x is unbounded. It is calibrated to
        (x - 1 - log x) / log(x)^2 (Vovk and Wang 2021, at the p-value 1 / x).
        """
        return calibrate_wealth(float(np.log(self.max_wealth)))

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each change, in the order of ``changes``.

        Columns: ``what``, its description; ``columns``, their names joined by commas; and
        ``evidence``, its wealth.
        """
        import pandas as pd

        rows = [
            (change.description, ", ".join(change.columns), change.wealth)
            for change in self.changes
        ]
        return pd.DataFrame(rows, columns=["what", "columns", "evidence"])

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        change_point = None
        if self.change_point is not None:
            row, low, high, censored = self.change_point
            change_point = {"row": row, "low": low, "high": high, "cut": censored}
        return {
            "rows": self.rows,
            "alpha": self.alpha,
            "evidence": self.max_wealth,
            "pvalue": self.pvalue,
            "e_value": self.e_value,
            "alarm": self.alarm,
            "row": self.alarm_row,
            "since": change_point,
            "since_time": self.change_point_time,
            "where": [
                {"what": change.description, "columns": change.columns, "evidence": change.wealth}
                for change in self.changes
            ],
            "repeated": self.repeated,
            "late": self.late,
            "notes": list(self.notes),
        }

    @property
    def summary_line(self) -> str:
        """Summary in one line."""
        rows = pluralize(self.rows, "row")
        if self.rows == 0:
            return f"{rows}: no result yet"
        if not self.alarm:
            return (
                f"{rows}: no change (wealth {self.max_wealth:.3g}, alarm at {1.0 / self.alpha:g})"
            )
        changes = ", ".join(map(str, self.changes[:2])) or "rows differ"
        return (
            f"{rows}: CHANGE at {self.change_point_text}: {changes} (alarm at row {self.alarm_row})"
        )

    @property
    def change_point_text(self) -> str:
        """Change point as text, with its time if known."""
        if self.change_point_time is None:
            return str(self.change_point)
        time, low, high = self.change_point_time
        is_censored = self.change_point is not None and self.change_point.censored
        interval = "" if low == high else f" (90 % interval {low} to {high})"
        return f"{'or before ' if is_censored else ''}{time}{interval}, {self.change_point}"

    def __str__(self) -> str:
        lines = [self.summary_line]
        if self.alarm:
            lines.append(
                f"Wealth of the bets: {self.max_wealth:.3g}. If nothing changed, the probability "
                f"of an alarm at any row would be at most {self.alpha:g}."
            )
            lines += [f"  {change} (wealth {change.wealth:.3g})" for change in self.changes]
        if self.repeated:
            lines.append(f"{pluralize(self.repeated, 'repeated row')} dropped.")
        if self.late:
            lines.append(f"{pluralize(self.late, 'late row')} used in the order of arrival.")
        return "\n".join([*lines, *self.notes])


def calibrate_wealth(log_wealth: float) -> float:
    """Compute the e-value of a running maximum of wealth, from its logarithm."""
    if log_wealth <= 1e-6:
        return 0.5
    return float((np.expm1(log_wealth) - log_wealth) / log_wealth**2)


def wealth_of_e_value(e_value: float) -> float:
    """Compute the running maximum of wealth with this e-value; 1 for e-values of at most 0.5."""
    if e_value <= 0.5:
        return 1.0
    upper = 2.0 * np.log(e_value) + 9.0
    return float(np.exp(brentq(lambda log: calibrate_wealth(log) - e_value, 0.0, upper)))
