"""
Hidden states by the kernel Bayes filter
========================================

The noisy oscillation of the slides *Kernel Method for Bayesian Inference* (Fukumizu, 2010). A
point moves around the origin by 0.4 radians per step, on a rosette of eight leaves, and is
observed with noise. The filter learns from 600 steps with known states and observations, without
a model of the dynamics or the noise. For new observations it estimates the current states
(filtering), past states (smoothing) and future states (prediction), also during steps without
observations.

``benchmarks/filtering.py`` compares it with Kalman filters with known dynamics. Run this script
as ``python filtering.py --out FOLDER``; it takes a minute.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from bke.inference import learn_filter

matplotlib.use("Agg")
from matplotlib import pyplot as plt

TURN, NOISE = 0.4, 0.2

parser = argparse.ArgumentParser(description="Filtering, smoothing and prediction.")
parser.add_argument("--out", type=Path, default=Path("filtering-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data")
parser.add_argument("--quick", action="store_true", help="less training")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)


# %%
# Training and test series
# ------------------------


def simulate(steps, rng):
    """Simulate states and observations, (steps, 2) each."""
    state, states = np.array([1.0, 0.0]), np.empty((steps, 2))
    for step in range(steps):
        angle = np.arctan2(state[1], state[0]) + TURN
        radius = 1.0 + 0.4 * np.sin(8.0 * angle)
        state = radius * np.array([np.cos(angle), np.sin(angle)]) + NOISE * rng.normal(size=2)
        states[step] = state
    return states, states + NOISE * rng.normal(size=(steps, 2))


rng = np.random.default_rng(options.seed)
training, observed = simulate(200 if options.quick else 600, rng)
states, series = simulate(150, rng)

# %%
# Learn, filter, smooth, predict
# ------------------------------

learned = learn_filter(training, observed, kernel_x="median", kernel_y="median", progress=False)
print(learned)
model = learned.filter
filtered = model.filter(series)
smoothed = model.smooth(filtered)


def error(estimates, truth=states):
    """Return the root mean squared distance."""
    return float(np.sqrt(np.mean(np.sum((estimates - truth) ** 2, axis=1))))


errors = {
    "observations": error(series),
    "filtered, mean": error(filtered.mean()),
    "filtered, mode": error(filtered.mode()),
    "smoothed, mean": error(smoothed.mean()),
}
center = np.broadcast_to(training.mean(axis=0), states.shape)
for steps_ahead in (1, 2, 4, 8):
    predicted = model.predict(filtered, steps_ahead).mean()
    errors[f"predicted {steps_ahead} ahead"] = error(predicted[:-steps_ahead], states[steps_ahead:])
errors["the mean of all states"] = error(center)

# There are no observations from step 60 to 65: the filter uses the learned dynamics only.
is_observed = np.ones(len(series), bool)
is_observed[60:66] = False
blind = model.filter(series, observed=is_observed)
errors["filtered, in the gap"] = error(blind.mean()[~is_observed], states[~is_observed])
errors["smoothed, in the gap"] = error(
    model.smooth(blind).mean()[~is_observed], states[~is_observed]
)
for name, value in errors.items():
    print(f"{name:24} {value:.3f}")

# %%
# Figure
# ------

figure, (left, right) = plt.subplots(
    1, 2, figsize=(10.0, 4.2), layout="constrained", width_ratios=(1.0, 1.5)
)
left.plot(*training.T, ".", color="#9A9A9A", markersize=3, label="training states")
left.plot(*states[:30].T, color="#1A1A1A", linewidth=0.8, label="states, 30 steps")
left.plot(*filtered.mode()[:30].T, "o", color="#0072B2", markersize=4, label="filtered, mode")
left.set_aspect("equal")
left.set_xlabel("u")
left.set_ylabel("v")
left.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
steps = np.arange(45, 85)
right.axvspan(59.5, 65.5, color="#EDEDED", label="nothing is seen")
right.plot(steps, states[steps, 0], color="#1A1A1A", linewidth=1.0, label="state u")
right.plot(steps, blind.mean()[steps, 0], color="#0072B2", label="filtered")
right.plot(steps, model.smooth(blind).mean()[steps, 0], color="#D55E00", label="smoothed")
right.plot(
    steps[is_observed[steps]],
    series[steps[is_observed[steps]], 0],
    "x",
    color="#9A9A9A",
    markersize=4,
)
right.set_xlabel("step")
right.legend(frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=4)
figure.savefig(options.out / "filtering.png", dpi=130)
(options.out / "filtering.json").write_text(json.dumps(errors, indent=1) + "\n")
print(f"Written: {options.out / 'filtering.png'} and filtering.json")
