"""Public calls return what was recorded before the redesign; the comparison itself can fail."""

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))

import adapter  # noqa: E402, F401  registers the cases
import recording  # noqa: E402
from cases import CASES, Case  # noqa: E402
from recording import allowed, compare, load, recorded_entry, take  # noqa: E402

RECORDED = load()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_recorded(name):
    outcomes = compare(CASES[name], RECORDED[name], allowed())
    assert outcomes
    broken = [f"{outcome.output}: {outcome.message}" for outcome in outcomes if not outcome.agrees]
    assert not broken, "\n".join(broken)


def test_every_case_is_recorded():
    assert set(RECORDED) == set(CASES)


def test_only_the_adapter_names_the_package():
    for path in FOLDER.glob("*.py"):
        imported = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.Import, ast.ImportFrom))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
            )
        }
        assert ("bke" in imported) == (path.name == "adapter.py")


# -- the comparison -------------------------------------------------------------------------------


def outcome_of(recorded, returned, patterns=(), **options):
    """Take the values of one function, and compare them with those of another."""
    entries = take(Case("area.function", recorded, False))
    outcomes = compare(Case("area.function", returned, False), entries, patterns, **options)
    return {outcome.output.rpartition(".")[2]: outcome for outcome in outcomes}


@pytest.mark.parametrize(
    ("recorded", "returned"),
    [
        (1.0, 1.0 + 3e-9),
        ([1e6, 1.0], [1e6, 1.01]),
        ([1.0, np.nan], [1.0, 2.0]),
        ([1.0, 2.0], [1.0]),
        ("rejected", "not rejected"),
        (True, False),
        (["a", "b"], ["b", "a"]),
    ],
)
def test_a_change_is_noticed(recorded, returned, monkeypatch):
    monkeypatch.setattr(recording, "TOLERANCE", 1e-9)
    outcome = outcome_of(lambda: {"x": recorded}, lambda: {"x": returned})["x"]
    assert (outcome.kind, outcome.agrees) == ("exact", False)
    free = outcome_of(lambda: {"x": recorded}, lambda: {"x": returned}, ["area.*.x"])["x"]
    assert (free.kind, free.agrees) == ("allowed", True)


@pytest.mark.parametrize(
    ("recorded", "returned"),
    [(1.0, 1.0 + 3e-10), ([1e6, 1.0], [1e6, 1.0 + 1e-5]), ([np.nan], [np.nan]), (1e-17, -1e-17)],
)
def test_rounding_is_no_change(recorded, returned):
    assert outcome_of(lambda: {"x": recorded}, lambda: {"x": returned})["x"].agrees


def test_outputs_that_appear_or_vanish_are_noticed():
    outcomes = outcome_of(lambda: {"x": 1.0, "y": 2.0}, lambda: {"x": 1.0, "z": 2.0})
    assert {name: outcome.agrees for name, outcome in outcomes.items()} == {
        "x": True,
        "y": False,
        "z": False,
    }


def draws(stream, shift=0.0, scale=1.0):
    """A function of a seed whose output is a mean of 100 draws, and their deviation."""

    def function(seed):
        values = shift + scale * np.random.default_rng([stream, seed]).normal(size=100)
        return {"mean": values.mean(), "sd": values.std()}

    return function


def test_another_stream_of_random_numbers_is_no_change():
    outcomes = outcome_of(draws(1), draws(2))
    assert all(outcome.agrees and not outcome.identical for outcome in outcomes.values())


def test_another_distribution_is_noticed():
    # The standard error of a difference of means over 16 and 8 seeds is 0.043.
    assert not outcome_of(draws(1), draws(2, shift=0.3))["mean"].agrees
    assert not outcome_of(draws(1), draws(2, scale=1.3))["sd"].agrees
    assert not outcome_of(draws(1), draws(1, scale=1.3), all_seeds=True)["sd"].agrees


def test_a_decision_that_depends_on_the_seed_is_recorded_as_a_rate():
    recorded = take(Case("area.function", lambda seed: {"reject": seed % 3 == 0}, False))["reject"]
    assert recorded["class"] == "distributional"
    assert recorded["mean"] == pytest.approx(6 / 16)


def test_pvalues_at_their_least_value_may_come_out_a_little_larger():
    runs = [np.array(0.005)] * 16
    entry = recorded_entry("area.function.pvalue", runs, seeded=True)
    assert entry["class"] == "distributional"
    assert entry["sd"] == pytest.approx(0.005, rel=0.01)
    assert recorded_entry("area.function.pvalue", runs[:1], seeded=False)["class"] == "exact"


def test_a_string_that_depends_on_the_seed_is_refused():
    with pytest.raises(ValueError, match="depends on the seed"):
        take(
            Case("area.function", lambda seed: {"decision": "reject" if seed > 3 else "no"}, False)
        )
