"""Save a monitor to a file of bounded size, and read it."""

from __future__ import annotations

import dataclasses
import itertools
import os
from typing import Any, TypeAlias

import numpy as np

from ..core.archive import Expected, check_arrays, read_arrays, write_arrays
from ..core.errors import InputError
from ..core.machine import computing
from .martingales import Martingales, WealthHistory
from .row_reader import RowReader
from .scores import (
    NUM_BINS,
    NUM_GENERATIONS,
    NUM_LANDMARKS,
    NUM_WITNESSES,
    Columns,
    Scores,
    Witnesses,
)
from .sequential_test import Alarm, Change, ChangePoint, SequentialTest
from .stream_checks import ArrivalLog, SerialCorrelation

#: Version of the layout. Files of other versions are refused.
VERSION = 3
#: Classes whose fields are stored as arrays, and the keys of their fields in the file.
ARRAY_KEYS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "capital": (Martingales, ("at_least", "staked", "ages")),
    "witnesses": (
        Witnesses,
        ("landmarks", "weights", "slopes", "edges", "shares", "scale", "generation", "next_at"),
    ),
    "serial": (SerialCorrelation, ("last", "products", "squares", "rows")),
    "history": (WealthHistory, ("evidence", "stride")),
}
#: Types and sizes of all arrays; the C columns, of which some are numbers; the J scores and, of
#: martingales, also of witnesses.
ARRAYS: Expected = {
    "apart": ("float64", ("training rows", "C")),
    "ranked": ("float64", ("calibration rows", "C")),
    "edges": ("float32", ("J", NUM_BINS - 1)),
    "recent": ("float64", ("recent rows", "C")),
    "keys": ("uint64", ("keys",)),
    "times": ("U", ("times",)),
    "capital at_least": ("int64", ("martingales", NUM_BINS + 1)),
    "capital staked": ("float64", ("martingales", "bets")),
    "capital ages": ("int64", ("martingales",)),
    "witnesses landmarks": ("float64", (NUM_GENERATIONS, NUM_LANDMARKS, "features")),
    "witnesses weights": ("float64", (NUM_GENERATIONS, NUM_LANDMARKS)),
    "witnesses slopes": ("float64", (NUM_GENERATIONS, "features")),
    "witnesses edges": ("float32", (NUM_WITNESSES, NUM_BINS - 1)),
    "witnesses shares": ("float64", (NUM_WITNESSES,)),
    "witnesses scale": ("float64", ()),
    "witnesses generation": ("int64", ()),
    "witnesses next_at": ("int64", ()),
    "serial last": ("float64", ("last rows", "numbers")),
    "serial products": ("float64", ("numbers",)),
    "serial squares": ("float64", ("numbers",)),
    "serial rows": ("int64", ()),
    "history evidence": ("float64", ("history",)),
    "history stride": ("int64", ()),
}
#: Fields of the reader with an item for each column.
PER_COLUMN = ("types", "formats", "sizes", "tied")
#: All parts of a monitor. The last one is its notes.
Parts: TypeAlias = tuple[RowReader, SequentialTest, ArrivalLog, SerialCorrelation, tuple[str, ...]]


def write_monitor(parts: Parts, path: str | os.PathLike[str]) -> None:
    """Write the parts of a monitor. If writing fails, an existing file is unchanged."""
    reader, test, arrivals, serial, notes = parts
    alarm = test.alarm
    metadata = {
        "monitor": VERSION,
        "alpha": test.alpha,
        "seed": test.seed,
        "rows": test.num_rows,
        "evidence": test.max_wealth,
        "alarm": alarm
        and [*alarm[:2], list(map(dataclasses.astuple, alarm.changes)), alarm.change_point_time],
        "reader": reader._asdict()
        | {
            "columns": dict(zip(("names", "levels", "shown"), reader.columns, strict=True)),
            "tied": [values.tolist() for values in reader.tied],
        },
        "arrivals": [
            arrivals.key,
            arrivals.time,
            float(arrivals.latest_time),
            arrivals.num_repeated,
            arrivals.num_late,
        ],
        "notes": notes,
    }
    arrays: dict[str, Any] = {
        "apart": test.training_rows,
        "ranked": test.calibration_rows,
        "edges": test.edges,
        "recent": test.recent_rows,
        "keys": arrivals.key_hashes,
        "times": arrivals.times,
    }
    fields = (test.martingales, test.witnesses, serial, test.history)
    for (name, (_, keys)), values in zip(ARRAY_KEYS.items(), fields, strict=True):
        arrays |= {f"{name} {key}": value for key, value in zip(keys, values, strict=True)}
    write_arrays(path, metadata, arrays)


def read_monitor(path: str | os.PathLike[str]) -> Parts:
    """Read the parts of a monitor.

    Raises:
        InputError: if the file is not a saved monitor of this version, or is damaged.
    """
    metadata, arrays = read_arrays(path, "a monitor")
    if metadata.get("monitor") != VERSION:
        raise InputError(f"{path} is not a monitor of this version of bke: start a new monitor")
    try:
        check_arrays(arrays, ARRAYS)
        _check(metadata, arrays)
        return _parts(metadata, arrays)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{path} is a damaged monitor ({reason}): start a new monitor") from error


def _check(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    """Raise ValueError for contents that no monitor has, where using them would fail later."""
    reader, (key, time, latest, *counts) = metadata["reader"], metadata["arrivals"]
    row, change_point, changes, times = metadata["alarm"] or (0, (), (), None)
    names, levels = reader["columns"]["names"], reader["columns"]["levels"]
    lists = [names, levels, *(reader[key] for key in PER_COLUMN)]
    texts = [*names, *reader["all_columns"], *reader["notes"], *metadata["notes"], *(times or ())]
    texts += [text for text in (key, time) if text is not None]
    texts += [*reader["types"], *reader["formats"], *itertools.chain.from_iterable(levels)]
    texts += itertools.chain.from_iterable((text, *columns) for text, columns, _ in changes)
    sizes = [*reader["sizes"], *counts, metadata["seed"], metadata["rows"], row, *change_point[:3]]
    numbers = [metadata["evidence"], latest, *(wealth for *_, wealth in changes)]
    is_code = np.array([bool(words) for words in levels])
    num_levels = np.array([len(words) for words in levels if words])
    reference = np.concatenate([arrays["apart"], arrays["ranked"]])[:, is_code]
    recent = arrays["recent"][:, is_code]  # with other levels
    are_plain = {
        "a list": all(
            isinstance(values, list)
            for values in (*lists, reader["na_values"], *levels, *reader["tied"])
        ),
        "text": all(isinstance(text, str) for text in texts),
        "a count": all(type(size) is int and 0 <= size < 2**63 for size in sizes),
        "a number": all(type(x) is float for x in numbers),
        "the level": 0.0 < metadata["alpha"] < 1.0,
        "the number of columns": {len(values) for values in lists} == {len(names)},
        "a category": not ((reference < 0.0) | (reference >= num_levels)).any()
        and not ((recent < 0.0) | (recent > num_levels)).any(),
        "the row of the next witnesses": np.all(arrays["witnesses next_at"] > metadata["rows"]),
        "the history": arrays["history stride"] > 0,
        "the number of scores": len(arrays["capital ages"]) == len(arrays["edges"]) + NUM_WITNESSES,
    }
    if wrong := [name for name, is_right in are_plain.items() if not is_right]:
        raise ValueError(f"{wrong[0]} is not as it was saved")


def _parts(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> Parts:
    """Build the parts of a monitor from what was saved."""
    parts: dict[str, Any] = {}
    for name, (cls, keys) in ARRAY_KEYS.items():
        values = [arrays[f"{name} {key}"] for key in keys]
        # Numbers are stored as arrays without dimensions.
        parts[name] = cls(*[value if value.ndim else value.item() for value in values])
    # JSON has lists for tuples.
    reader_fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in metadata["reader"].items()
    }
    columns = reader_fields["columns"]
    columns = Columns(tuple(columns["names"]), tuple(map(tuple, columns["levels"])))
    tied = tuple(np.array(values, dtype=float) for values in reader_fields.get("tied", ()))
    reader = RowReader(**{**reader_fields, "columns": columns, "tied": tied})
    alarm = metadata["alarm"]
    if alarm is not None:
        row, change_point, changes, times = alarm
        changes = tuple(Change(text, tuple(names), wealth) for text, names, wealth in changes)
        alarm = Alarm(row, ChangePoint(*change_point), changes, times and tuple(times))
    training, seed = arrays["apart"], metadata["seed"]
    with computing():
        test = SequentialTest(
            alpha=metadata["alpha"],
            seed=seed,
            training_rows=training,
            calibration_rows=arrays["ranked"],
            scores=Scores.choose(reader.columns.with_indicators(training), training, seed),
            edges=arrays["edges"],
            martingales=parts["capital"],
            witnesses=parts["witnesses"],
            recent_rows=arrays["recent"],
            history=parts["history"],
            num_rows=metadata["rows"],
            max_wealth=metadata["evidence"],
            alarm=alarm,
        )
    key, time, latest_time, num_repeated, num_late = metadata["arrivals"]
    arrivals = ArrivalLog(
        key, time, arrays["keys"], latest_time, arrays["times"], num_repeated, num_late
    )
    return reader, test, arrivals, parts["serial"], tuple(metadata["notes"])
