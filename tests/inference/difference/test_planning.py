"""How many rows are needed: the search beside a known power, and an answer."""

import numpy as np
import pytest
from bke.inference import InputError, compare
from bke.inference.difference import planning
from scipy.stats import norm


@pytest.mark.parametrize("start", [100.0, 6000.0], ids=["too few", "too many"])
def test_the_search_finds_where_a_known_power_is_reached(start):
    """Phi(-1.645 + 0.06 sqrt(N)) is 0.8 at N = 1718; seed 0, within three of its errors."""
    rng = np.random.default_rng(0)
    needed, error = planning._solve(
        lambda total: rng.uniform() < norm.cdf(-1.645 + 0.06 * total**0.5),
        0.8, 0.05, start=start, most=1e6,
    )  # fmt: skip
    exact = ((norm.ppf(0.8) + 1.645) / 0.06) ** 2
    assert error < 0.4
    assert abs(np.log(needed / exact)) < 3.0 * error


def test_where_nothing_is_to_be_found_no_number_is_enough():
    rng = np.random.default_rng(0)
    needed, _ = planning._solve(
        lambda total: rng.uniform() < 0.05, 0.8, 0.05, start=200.0, most=1e4
    )
    assert needed == 1e4


def test_a_large_difference_needs_fewer_rows_than_there_are(monkeypatch):
    monkeypatch.setattr(planning, "TRIALS", 4)
    monkeypatch.setattr(planning, "PERMUTATIONS", 39)
    rng = np.random.default_rng(0)
    found = compare(rng.normal(size=150), rng.normal(1.0, size=75), permutations=99, progress=False)
    needed = found.rows_needed(0.8)
    first, second = needed.sizes
    assert 12 <= first + second < 150
    assert abs(first - 2 * second) <= 2
    low, high = needed.interval
    assert low < first + second < high + 2
    assert str(needed).startswith(f"{first} + {second} rows find it with probability 0.8")
    for wrong in (0.05, 1.0, 2.0):
        with pytest.raises(InputError, match="power must be between"):
            found.rows_needed(wrong)


def test_more_rows_than_are_tried_are_told_as_such():
    told = planning.RowsNeeded(None, (1e4, np.inf), 0.9)
    assert (
        str(told) == "More than 50 times as many rows are needed to find it with probability 0.9."
    )
