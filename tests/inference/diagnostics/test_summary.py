"""Short reports: zeros of the density, the table of modes, extremes of the witness."""

import types

import numpy as np
import pytest
import xarray as xr
from bke.inference.diagnostics import summary
from bke.inference.diagnostics.diagnosis import Convergence, Diagnosis
from bke.inference.diagnostics.modes import Mode, Modes
from bke.inference.witness.summary import brief_witness

ZEROS = (0.51, 0.53)


def mode(location, draws, chains, stuck=(), mass=None):
    return Mode(
        {"lengthscale": np.array(location)}, 0.0, 9.0, draws, chains, stuck, None, mass, 0.0
    )


def two_modes(masses=(1e-40, 1.0)):
    """Chains 0 and 2 are in the first mode, chain 1 is stuck there, chain 3 is in the second."""
    of_draws = np.repeat([[0], [0], [0], [1]], 50, axis=1)
    first = mode(0.5, 100, (0, 2), (1,), masses[0])
    second = mode(3.0, 50, (3,), (), masses[1])
    return Modes((first, second), of_draws, of_draws[:, 0], 30, 0)


def diagnosis(modes, **options):
    inside = (Convergence((0, 2), 1.0131, 55.7, 60.0), Convergence((3,), np.nan, 48.2, 40.0))
    every = Convergence((0, 1, 2, 3), 1.9, 7.9, 8.0)
    return Diagnosis(
        convergence=every, modes=modes, per_mode=inside, divergences=0, nonfinite=(0, 0),
        method="nuts", num_draws=200, fitted_columns=("x",), integral=None,
        method_in_words="chains of NUTS", **options,
    )  # fmt: skip


SUMMARY = {
    "settings": {"prior": {"lengthscale": {}}, "num_warmup": 20, "num_samples": 50},
    "posterior": {
        "modes": [
            {"hyperparameters": {"lengthscale": {"mean": 0.5214, "sd": 0.0181}}},
            {"hyperparameters": {"lengthscale": {"mean": 3.0412, "sd": 0.0671}}},
        ]
    },
}


def as_dataset(unconstrained):
    """Return the values as of one unit."""
    return xr.Dataset({k: (("chain", "draw"), np.exp(v)) for k, v in unconstrained.items()})


@pytest.mark.parametrize(
    ("draws", "as_figure5", "names"),
    [
        ((5, 5), False, ["mode 1", "mode 2"]),
        ((5, 5), True, ["A: short mode (mode 1)", "B: long mode (mode 2)"]),
        ((0, 5, 5), True, ["mode 1", "A: short mode (mode 2)", "B: long mode (mode 3)"]),
        ((5, 5, 5), True, ["A: mode 1", "B: mode 2", "C: mode 3"]),
        ((5,), True, ["A: mode 1"]),
    ],
)
def test_names_of_modes(draws, as_figure5, names):
    modes = types.SimpleNamespace(modes=[mode(1.0, count, ()) for count in draws])
    assert summary.mode_names(modes, as_figure5=as_figure5) == names


def test_every_number_of_the_diagnosis_is_printed_once():
    modes = two_modes()
    lines = summary.brief_diagnosis(
        diagnosis(modes), SUMMARY, summary.mode_names(modes, as_figure5=True), [ZEROS, ()]
    )
    title = "Posterior of the lengthscale by 4 chains of NUTS, 20 warmup + 50 draws each:"
    assert lines[0] == title
    rows = [line.split() for line in lines[2:4]]
    assert " ".join(rows[0]) == "A: short (mode 1) 0.521 (0.018) about 1e-40 0, 2 1.014 55"
    assert " ".join(rows[1]) == "B: long (mode 2) 3.04 (0.067) 1 3 - 48"
    assert lines[4:7] == [
        "All chains: R-hat 1.900, bulk ESS 7; none moved between modes: do not pool.",
        "Stuck at a far lower density, left out: chain 1.",
        "Zeros of the density at 0.51 and 0.53 divide the short mode (mode 1).",
    ]
    text = "\n".join(lines)
    counts = {"1e-40": 1, "R-hat 1.9": 1, "chain 1": 1, "Multimodal": 0}
    assert {words: text.count(words) for words in counts} == counts
    values = np.linspace(0.4, 0.6, 9).tolist()
    lines = summary.brief_diagnosis(diagnosis(modes), SUMMARY, ["mode 1", "mode 2"], [values, []])
    assert "Zeros of the density at 9 points from 0.4 to 0.6 divide mode 1." in lines


def test_warnings_of_the_verdict_are_printed():
    missed = two_modes(masses=(0.02, 0.9))
    noted = diagnosis(missed, notes=("The likelihood is not accurate.",))
    text = "\n".join(summary.brief_diagnosis(noted, SUMMARY, ["mode 1", "mode 2"]))
    assert "NOT THE POSTERIOR" in text
    assert "The likelihood is not accurate." in text


def test_zeros_are_detected_and_smooth_minima_are_not(monkeypatch):
    """The log density has logarithmic singularities at two points and a smooth minimum at 0.55."""
    rng = np.random.default_rng(0)
    z = np.log(rng.uniform(0.49, 0.57, (4, 50)))
    z[3] += np.log(6.0)
    z[1] = np.log(0.3)  # stuck
    logs = np.log(ZEROS)

    def log_density(values):
        (x,) = values.values()
        return np.log(np.abs(x - logs[0]) * np.abs(x - logs[1])) + 900 * (x - np.log(0.55)) ** 2

    opened = types.SimpleNamespace(log_density=log_density, target=None, units=None)
    monkeypatch.setattr(summary, "open_run", lambda run: opened)
    monkeypatch.setattr(summary, "unconstrained_shapes", lambda run: {"lengthscale": ()})
    monkeypatch.setattr(summary, "unconstrained_draws", lambda run: z[..., None])
    monkeypatch.setattr(summary, "in_data_units", lambda target, units, values: as_dataset(values))
    first, second = summary.zeros_of_density(None, two_modes())
    np.testing.assert_allclose(first, ZEROS, rtol=1e-4)
    assert second == []


def extremes(largest, smallest):
    return {
        "draws": 9,
        "largest": {"mean": largest, "lower": -0.00097, "upper": 0.0449, "at": {"x": -0.251}},
        "smallest": {"mean": smallest, "lower": -0.0421, "upper": 0.018, "at": {"x": 5.83}},
    }


@pytest.mark.parametrize("concentrated", [True, False])
def test_extremes_have_the_decimals_of_their_mean(concentrated):
    """The row by mass is that of a mode where it prints the same numbers."""
    first, second = extremes(0.0617, -0.0601), extremes(0.0217, -0.0121)
    overall = extremes(0.02171, -0.01211) if concentrated else extremes(0.0317, -0.0221)
    witness = {
        "level": 0.8,
        "modes": [first, {"draws": 0}, second],
        "overall": {**overall, "weighting": "modes by posterior mass"},
        "by_chain": extremes(0.0417, -0.0321),
    }
    names = ["A: short mode", "mode 2", "B: long mode"]
    title, *rows = brief_witness(witness, names, ("before", "after"))
    assert title == "Witness before - after: largest and smallest posterior mean (80 % band)"
    long_mode = "0.022 at -0.25 (-0.001, 0.045) -0.012 at 5.8 (-0.042, 0.018)"
    expected = [
        "A: short mode 0.062 at -0.25 (-0.001, 0.045) -0.060 at 5.8 (-0.042, 0.018)",
        *([f"B, C: by mass {long_mode}"] if concentrated else [
            f"B: long mode {long_mode}",
            "C: by mass 0.032 at -0.25 (-0.001, 0.045) -0.022 at 5.8 (-0.042, 0.018)",
        ]),
        "C: by chain 0.042 at -0.25 (-0.001, 0.045) -0.032 at 5.8 (-0.042, 0.018)",
    ]  # fmt: skip
    assert [" ".join(row.split()) for row in rows] == expected
