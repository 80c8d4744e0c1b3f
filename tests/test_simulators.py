"""The models of the examples of likelihood-free inference: ``examples/simulators.py``."""

import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


simulators = loaded("simulators")


def parameters(**values):
    """Logarithms of what is given, as arrays."""
    return {f"log_{name}": np.log(np.atleast_1d(value)) for name, value in values.items()}


DIFFERENT = parameters(
    P=[29.0, 5.0, 100.0, 2.0],
    delta=[0.2, 0.5, 0.1, 0.9],
    Y0=[260.0, 100.0, 400.0, 50.0],
    sigma_d=[0.6, 0.1, 1.5, 0.4],
    sigma_p=[0.3, 2.0, 0.1, 0.8],
    tau=[7.0, 1.0, 30.0, 1000.0],
)


def series_by_loops(rng, theta):
    """One number at a time, with the same random numbers: first all e, then all epsilon."""
    P, delta, Y0, sigma_d, sigma_p, tau = (np.exp(theta[n]) for n in simulators.PARAMETERS)
    B, steps = len(P), 230
    e = [[rng.gamma(sigma_p[b] ** -2, sigma_p[b] ** 2) for b in range(B)] for _ in range(steps)]
    epsilon = [
        [rng.gamma(sigma_d[b] ** -2, sigma_d[b] ** 2) for b in range(B)] for _ in range(steps)
    ]
    rows = []
    for b in range(B):
        lag = max(1, round(tau[b]))
        Y = [180.0] * (lag + 1)  # Y_{-lag}, ..., Y_0
        for t in range(steps):
            late = Y[-1 - lag]
            recruits = P[b] * late * math.exp(-late / Y0[b]) * e[t][b]
            Y.append(recruits + Y[-1] * math.exp(-delta[b] * epsilon[t][b]))
        rows.append(Y[-180:])
    return np.array(rows)


def test_blowflies_are_those_of_a_loop():
    series = simulators.blowflies(np.random.default_rng(3), DIFFERENT)
    assert series.shape == (4, 180)
    np.testing.assert_allclose(
        series, series_by_loops(np.random.default_rng(3), DIFFERENT), rtol=1e-10
    )


def test_the_same_seed_gives_the_same_series():
    first, again, other = (
        simulators.blowflies(np.random.default_rng(seed), DIFFERENT) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)


@pytest.mark.parametrize("delay", [1e-3, 1.4])
def test_a_delay_is_rounded_and_positive(delay):
    changed = {**DIFFERENT, "log_tau": np.log(np.full(4, delay))}
    unit_delay = {**DIFFERENT, "log_tau": np.zeros(4)}
    np.testing.assert_array_equal(
        simulators.blowflies(np.random.default_rng(0), changed),
        simulators.blowflies(np.random.default_rng(0), unit_delay),
    )


def test_moments_of_the_noise_are_those_of_the_equation():
    """Both noises, from what the series do with one of the two terms gone.

    With P = 0 the population decays: -log(Y_{t+1} / Y_t) / delta is epsilon. With a delay beyond
    the end and delta so large that nobody survives, Y is e times a constant. 400 series of 180
    values, seed 5. Means and variances of 72 000 gamma numbers have standard errors of at most
    0.0023 and 0.0042; the bounds are five of them: false-failure rate 4e-6 for another seed.
    """
    B, sigma = 400, 0.6
    still = parameters(
        delta=np.full(B, 0.01), Y0=np.full(B, 200.0), sigma_d=np.full(B, sigma),
        sigma_p=np.full(B, 0.3), tau=np.full(B, 7.0),
    )  # fmt: skip
    decayed = simulators.blowflies(
        np.random.default_rng(5), {"log_P": np.full(B, -np.inf), **still}
    )
    epsilon = -np.diff(np.log(decayed), axis=1) / 0.01
    assert epsilon.mean() == pytest.approx(1.0, abs=0.012)
    assert epsilon.var() == pytest.approx(sigma**2, abs=0.021)
    gone = parameters(
        P=np.full(B, 3.0), delta=np.full(B, 1e6), Y0=np.full(B, 200.0), sigma_d=np.full(B, 0.1),
        sigma_p=np.full(B, sigma), tau=np.full(B, 1e4),
    )  # fmt: skip
    e = simulators.blowflies(np.random.default_rng(5), gone) / (3.0 * 180.0 * math.exp(-0.9))
    assert e.mean() == pytest.approx(1.0, abs=0.012)
    assert e.var() == pytest.approx(sigma**2, abs=0.021)


def test_summaries_by_hand():
    """1, 5, 2, 8, 3, 9, 4, 6 thousand: differences 4, -3, 6, -5, 6, -5, 2.

    The standard deviation is 2.60, so that the first threshold is 1.30 and the second 3.90. Falls
    of 3, 5 and 5 follow the peaks 5, 8 and 9: three exceed 1.30. Two exceed 3.90, those from 8 and
    9, for the series rises from 3 to 9 between them. The last rise is followed by no fall.
    """
    series = 1000.0 * np.array([1.0, 5.0, 2.0, 8.0, 3.0, 9.0, 4.0, 6.0])
    quarters = np.log([1.5, 3.5, 5.5, 8.5])
    # Seven differences in order, -5, -5 | -3, 2 | 4, 6 | 6: the last quarter is the rest.
    differences = [-5.0, -0.5, 5.0, 6.0]
    np.testing.assert_allclose(
        simulators.ten_summaries(series), [*quarters, *differences, 3, 2], atol=1e-10
    )
    expected_of_half = [*(quarters - math.log(2.0)), *(0.5 * np.array(differences)), 3, 2]
    np.testing.assert_allclose(simulators.ten_summaries(0.5 * series), expected_of_half, atol=1e-10)


def test_peaks_wait_for_the_rise():
    """Down in steps below the threshold, up again by less than it, down: one peak, not two."""
    series = np.array([0.0, 3.0, 2.5, 1.9, 2.7, 1.0, 2.5, 1.2])
    assert simulators.peaks(series, 1.0) == 2
    assert simulators.peaks(series, 1.6) == 1
    assert simulators.peaks(series, 0.5) == 3
    assert simulators.peaks(np.ones(9), 0.5) == 0


def test_summaries_of_a_dead_population_are_finite():
    assert np.all(np.isfinite(simulators.ten_summaries(np.zeros(180))))


def test_uniforms_have_their_weights_and_their_posterior():
    """5000 observations, seed 1: five standard errors of a proportion are at most 0.036."""
    weights = np.array([[0.1, 0.4, 0.0, 0.2, 0.3], [0.0, 0.0, 0.0, 0.0, 1.0]])
    values = simulators.uniforms(5000)(np.random.default_rng(1), {"pi": weights})
    assert values.shape == (2, 5000)
    frequencies = [np.bincount(row.astype(int), minlength=5) / 5000 for row in values]
    np.testing.assert_allclose(frequencies, weights, atol=0.036)
    assert np.all(values[1] >= 4.0)
    inside = values[0] % 1.0
    assert inside.mean() == pytest.approx(0.5, abs=0.021)
    assert simulators.uniform_posterior(np.array([0.5, 0.1, 4.9])).tolist() == [3, 1, 1, 1, 2]


def test_delay_vectors_are_pairs_at_a_lag():
    series = np.arange(12.0).reshape(2, 6)
    expected = [[2.0, 0.0], [3.0, 1.0], [4.0, 2.0], [5.0, 3.0]]
    assert simulators.delay_vectors(series, 2)[0].tolist() == expected
    assert simulators.delay_vectors(series, 2).shape == (2, 4, 2)


def test_a_quarter_of_a_cycle_is_detected():
    """The correlation of a cosine is one, of 20 steps, with itself is zero five steps later."""
    wave = np.cos(2.0 * np.pi * np.arange(200) / 20.0)
    assert simulators.quarter_cycle(wave) in (5, 6)  # zero but for rounding
    assert simulators.quarter_cycle(np.array([1.0, -1.0] * 10)) == 1


@pytest.mark.slow
def test_toy_example(tmp_path):
    """Seed 0 of the example. The learned kernel is nearer to the known mean than two moments."""
    command = [sys.executable, EXAMPLES / "abc_toy.py", "--quick", "--out", tmp_path]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    error = json.loads((tmp_path / "abc_toy.json").read_text())["error"]
    assert error["K2-ABC, learned"] < 0.5 * error["mean and variance"]
    assert (tmp_path / "abc_toy.png").stat().st_size > 5000


@pytest.mark.slow
def test_blowfly_example_takes_a_series_of_any_length(tmp_path):
    series = simulators.blowflies(np.random.default_rng(1), DIFFERENT, num_steps=90)[0]
    np.savetxt(tmp_path / "series.csv", series, header="population", comments="")
    command = [sys.executable, EXAMPLES / "blowfly.py", "--quick", "--out", tmp_path]
    command += ["--data", tmp_path / "series.csv"]
    done = subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True
    )
    assert "90 steps" in done.stdout
    assert (tmp_path / "blowfly.png").stat().st_size > 5000
