"""What a score is about, and how it has changed, in words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from .scores import NEAR, Scores

#: Columns of a direction or of a place that are named.
NAMED = 3
#: The least mean or log deviation of normal scores that is told as one.
LEAST = 0.05
#: The mean beyond which a shift is told, whatever became of the spread.
FAR = 1.0
#: Families that are about one column, and in plain words.
PLAINLY = ("numbers", "levels", "holes")
#: What larger and smaller values of a score say, by its family; spread where there is no entry.
MORE = {
    "levels": ("{} more often", "{} less often"),
    "holes": ("more {}", "fewer {}"),
    "pairs": ("the correlation of {} is larger", "the correlation of {} is smaller"),
    "places": ("more {}", "fewer {}"),
    "learned": ("more rows like {}", "fewer rows like {}"),
}
PLAIN = ("{} is larger", "{} is smaller", "{} is more spread", "{} is less spread")
OTHERWISE = "{}: otherwise distributed"


class Named(NamedTuple):
    """A score in words.

    Attributes:
        family: a key of :data:`MORE`, or another.
        what: the score.
        columns: those that it is about.
        sign: -1 where larger values say less of ``what``.
    """

    family: str
    what: str
    columns: tuple[str, ...]
    sign: float = 1.0

    def changed(self, reference: np.ndarray, after: np.ndarray) -> str:
        """Tell how its values (n,) after a change are against the reference's (r,)."""
        reference, after = self.sign * reference, self.sign * after
        if self.family in MORE:
            more, fewer = MORE[self.family]
            return (more if after.mean() > reference.mean() else fewer).format(self.what)
        ordered = np.sort(reference)
        ranks = [np.searchsorted(ordered, after, side=side) for side in ("left", "right")]
        normal = ndtri((0.5 * (ranks[0] + ranks[1]) + 0.5) / (len(ordered) + 1.0))
        usual = ndtri((np.arange(len(ordered)) + 1.0) / (len(ordered) + 1.0)).std()
        mean, spread = float(normal.mean()), float(np.log(max(float(normal.std()), 1e-9) / usual))
        if max(abs(mean), abs(spread)) < LEAST:
            return OTHERWISE.format(self.what)
        # Of rows that are alike the spread is as small as can be, wherever they are.
        kind = int(mean < 0.0) if abs(mean) >= min(abs(spread), FAR) else 2 + int(spread < 0.0)
        return PLAIN[kind].format(self.what)


def names_of(scores: Scores) -> list[Named]:
    """Name every score (J,)."""
    columns = scores.columns
    are_numbers = zip(columns.names, columns.numbers, strict=True)
    numbers = [name for name, is_number in are_numbers if is_number]
    found = [Named("numbers", name, (name,)) for name in numbers]
    found += [
        Named("levels", what, (columns.names[column],)) for column, _, what in columns.indicated
    ]
    found.append(Named("holes", "missing cells", columns.names))
    for a, b in scores.pairs:
        pair = (numbers[a], numbers[b])
        found.append(Named("pairs", " and ".join(pair), pair))
    found += [_direction(column, numbers) for column in scores.directions.T]
    if scores.directions.shape[1]:
        found.append(Named("distance", "the distance from the centre", tuple(numbers)))
    places = [_place(scores, place, numbers) for place in scores.places]
    return found + places * len(NEAR)


def learned_name(last: int, window: int, columns: tuple[str, ...]) -> Named:
    """Name a witness that was learned from rows up to ``last``."""
    return Named("learned", f"rows {last - window + 1} to {last}", columns)


def _direction(weights: np.ndarray, names: list[str]) -> Named:
    """Name a combination of columns by the largest weights."""
    order = np.argsort(-np.abs(weights), kind="stable")[:NAMED]
    kept = [one for one in order if abs(weights[one]) > 0.25 * np.abs(weights).max()]
    if len(kept) == 1:
        name = names[kept[0]]
        return Named("numbers", name, (name,), float(np.sign(weights[kept[0]])))
    parts = [f"{'-' if weights[one] < 0 else '+'} {names[one]}" for one in kept]
    told = " ".join(parts).removeprefix("+ ")
    return Named("directions", f"the combination {told}", tuple(names[one] for one in kept))


def _place(scores: Scores, place: np.ndarray, names: list[str]) -> Named:
    """Name a place by where it is in the units of the columns."""
    at = [
        f"{name} {np.interp(height, heights, knots):.3g}"
        for name, height, heights, knots in zip(
            names, place, scores.heights, scores.knots, strict=True
        )
    ]
    more = ", ..." if len(names) > NAMED else ""
    return Named("places", f"rows near {', '.join(at[:NAMED])}{more}", tuple(names))
