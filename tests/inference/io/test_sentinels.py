"""Identifiers and codes of missing values are noted wherever numbers are read."""

import warnings

import numpy as np
import pandas as pd
import pytest
from bke.inference import open_rows, read_sample
from bke.inference.cli import app
from bke.inference.io.types import find_sentinels
from typer.testing import CliRunner

ROWS = 60


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    temperature = rng.normal(20.0, 5.0, ROWS).round(1)
    temperature[::9] = -999.0
    return pd.DataFrame(
        {
            "patient_id": rng.permutation(10**6)[:ROWS],
            "running": np.arange(ROWS) + 1,
            "temperature": temperature,
            "count": rng.poisson(30.0, ROWS),
            "COVID": rng.permutation(10**6)[:ROWS],
            "year": np.arange(ROWS) + 1960,
        }
    )


def write_file(frame, path):
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        np.save(path, frame.to_numpy(float))
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npy"])
@pytest.mark.parametrize("read", [read_sample, open_rows])
def test_possible_sentinels_and_identifiers_are_noted(read, suffix, frame, tmp_path):
    path = write_file(frame, tmp_path / f"rows{suffix}")
    with pytest.warns(UserWarning) as caught:  # noqa: PT030 - messages are checked below
        read(path)
    messages = [str(warning.message).removeprefix(f"{path}: ") for warning in caught]
    named = suffix != ".npy"
    assert len(messages) == 2 + named
    running = "running" if named else "x1"
    assert any(f"of {running!r} are all different" in message for message in messages)
    assert any("is -999 in 7 rows, far from all others" in message for message in messages)
    assert any("of 'patient_id' are all different" in message for message in messages) == named


@pytest.mark.parametrize("read", [read_sample, open_rows])
def test_measurements_are_not(read, frame, tmp_path):
    path = write_file(frame, tmp_path / "rows.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(path, columns=["count", "COVID", "year"])


def test_codes_lie_outside_the_range_of_the_other_values():
    spread = np.linspace(-500.0, 800.0, 40)
    assert find_sentinels(np.concatenate([spread, [999.0] * 5])) == ()
    assert find_sentinels(np.concatenate([spread / 10, [999.0] * 5])) == (999.0,)
    assert find_sentinels(np.concatenate([spread / 10, [999.0] * 2])) == ()
    assert find_sentinels(np.full(40, 999.0)) == ()


def test_the_command_line_reports_in_a_sentence(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("p.csv", "q.csv"):
        write_file(frame, tmp_path / name)
    done = CliRunner().invoke(
        app, ["compare", "p.csv", "q.csv", "--columns", "temperature", "--permutations", "19"]
    )
    assert done.exit_code == 0
    assert "bke: warning: p.csv: 'temperature' is -999 in 7 rows" in done.stderr
