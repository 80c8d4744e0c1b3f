"""A monitor in a file of bounded size, from which it goes on."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ..core.archive import read_arrays, write_arrays
from ..core.errors import InputError
from ..core.machine import computing
from .arrivals import Arrivals
from .capital import Capital
from .columns import Columns
from .history import History
from .learned import Witnesses
from .row_reader import RowReader
from .scores import Scores
from .serial import Serial
from .since import Since
from .watch import Alarm, Watch

#: Of the layout: files of another are refused.
VERSION = 2
#: Parts whose arrays are written by their fields' names.
PARTS: dict[str, Any] = {
    "capital": Capital,
    "witnesses": Witnesses,
    "serial": Serial,
    "history": History,
}


class Parts(NamedTuple):
    """All that a monitor is made of."""

    reader: RowReader
    watch: Watch
    arrivals: Arrivals
    serial: Serial
    notes: tuple[str, ...]


def write_monitor(of: Parts, path: str | os.PathLike[str]) -> None:
    """Write all that :func:`read_monitor` needs, whole or not at all."""
    reader, watch, arrivals, serial, notes = of
    alarm = watch.alarm
    told = {
        "monitor": VERSION,
        "alpha": watch.alpha,
        "seed": watch.seed,
        "rows": watch.rows,
        "evidence": watch.evidence,
        "alarm": None if alarm is None else [alarm.row, alarm.since, alarm.what, alarm.times],
        "reader": reader._asdict()
        | {
            "columns": reader.columns._asdict(),
            "tied": [values.tolist() for values in reader.tied],
        },
        "arrivals": [
            *(arrivals.key, arrivals.time),
            *(float(arrivals.newest), arrivals.repeated, arrivals.late),
        ],
        "notes": notes,
    }
    arrays = {name: getattr(watch, name) for name in ("apart", "ranked", "edges", "recent")}
    arrays |= {"keys": arrivals.keys, "times": arrivals.times}
    parts: dict[str, Any] = {name: getattr(watch, name, serial) for name in PARTS}
    for part, one in parts.items():
        arrays |= {f"{part} {name}": value for name, value in one._asdict().items()}
    write_arrays(path, told, arrays)


def read_monitor(path: str | os.PathLike[str]) -> Parts:
    """Put a monitor together from a file; see :meth:`~bke.inference.Monitor.from_file`."""
    told, arrays = read_arrays(path, "a monitor")
    if told.get("monitor") != VERSION:
        raise InputError(f"{path} is no monitor that this version of bke can read")
    reader = _reader(**told["reader"])
    parts = {}
    for part, of in PARTS.items():
        fields = {name: arrays[f"{part} {name}"] for name in of._fields}
        # Numbers are written as arrays without dimensions.
        parts[part] = of(**{n: v if v.ndim else v.item() for n, v in fields.items()})
    alarm = told["alarm"]
    with computing():
        watch = Watch(
            told["alpha"],
            told["seed"],
            arrays["apart"],
            arrays["ranked"],
            Scores.of(reader.columns.showing(arrays["apart"]), arrays["apart"], told["seed"]),
            arrays["edges"],
            parts["capital"],
            parts["witnesses"],
            arrays["recent"],
            parts["history"],
            told["rows"],
            told["evidence"],
            None if alarm is None else _alarm(*alarm),
        )
    key, time, newest, repeated, late = told["arrivals"]
    arrivals = Arrivals(key, time, arrays["keys"], newest, arrays["times"], repeated, late)
    return Parts(reader, watch, arrivals, parts["serial"], tuple(told["notes"]))


def _reader(columns: dict[str, Any], **fields: Any) -> RowReader:
    """How rows are read, lists being tuples."""
    levels = tuple(tuple(one) for one in columns["levels"])
    plain: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    plain["tied"] = tuple(np.array(one, dtype=float) for one in fields.get("tied", ()))
    return RowReader(Columns(tuple(columns["names"]), levels), **plain)


def _alarm(row: int, since: list[Any], what: list[Any], times: list[str] | None) -> Alarm:
    changes = tuple((told, tuple(columns), evidence) for told, columns, evidence in what)
    return Alarm(row, Since(*since), changes, None if times is None else tuple(times))  # type: ignore[arg-type]
