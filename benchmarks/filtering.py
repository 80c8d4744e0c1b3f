"""Comparison of the kernel Bayes filter with Kalman and particle filters with known dynamics.

The state is (u, v) and the observation (u, v) + noise, with noise N(0, 0.2^2 I) in both:

rotation: theta' = atan2(v, u) + 0.3, (u', v') = (cos theta', sin theta') + noise;
oscillation: theta' = atan2(v, u) + 0.4, (u', v') = (1 + 0.4 sin 8 theta') (cos theta', sin theta')
+ noise.

The two experiments are from the slides by Fukumizu, *Kernel Method for Bayesian Inference*, which
print arctan(v / u), without the quadrant, and curves without numbers. The Kalman filters and the
particle filter are those of Stone Soup (``pip install "bke[benchmarks]"``), with the exact
dynamics, noise and initial state. The kernel Bayes filter learns from a training series of states
and observations only.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import report
from bke.inference import learn_filter

try:
    from stonesoup.models.base import GaussianModel, TimeInvariantModel
    from stonesoup.models.measurement.linear import LinearGaussian
    from stonesoup.models.transition.base import TransitionModel
    from stonesoup.predictor.kalman import ExtendedKalmanPredictor, UnscentedKalmanPredictor
    from stonesoup.predictor.particle import ParticlePredictor
    from stonesoup.resampler.particle import SystematicResampler
    from stonesoup.types.array import CovarianceMatrix, StateVectors
    from stonesoup.types.detection import Detection
    from stonesoup.types.hypothesis import SingleHypothesis
    from stonesoup.types.state import GaussianState, ParticleState
    from stonesoup.updater.kalman import ExtendedKalmanUpdater, UnscentedKalmanUpdater
    from stonesoup.updater.particle import ParticleUpdater
except ImportError:
    raise SystemExit('This needs Stone Soup: pip install "bke[benchmarks]"') from None

NOISE = 0.2
SIZES, RUNS, TEST = (100, 200, 400, 800), 10, 200
PARTICLES = 2000
#: Kernels and methods of kernel Bayes' rule, by the name of the columns.
LEARNED = {
    "bkl": {"kernel_x": "bkl", "kernel_y": "bkl"},
    "median": {"kernel_x": "median", "kernel_y": "median"},
    "importance": {"kernel_x": "bkl", "kernel_y": "bkl", "method": "importance"},
}
DOCS = Path(__file__).parent.parent / "docs"


@dataclasses.dataclass(frozen=True)
class System:
    """Dynamics of an experiment: its name, the rotation per step and the radius at an angle."""

    name: str
    rotation: float
    radius: Callable[[np.ndarray], np.ndarray]

    def __call__(self, states: np.ndarray) -> np.ndarray:
        """Return the next states without noise, for states (2, ...)."""
        angle = np.arctan2(states[1], states[0]) + self.rotation
        return self.radius(angle) * np.stack([np.cos(angle), np.sin(angle)])

    def simulate(self, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Simulate states and observations, (steps, 2) each, from (1, 0)."""
        state, states = np.array([1.0, 0.0]), np.empty((steps, 2))
        for step in range(steps):
            state = self(state) + NOISE * rng.normal(size=2)
            states[step] = state
        return states, states + NOISE * rng.normal(size=(steps, 2))


SYSTEMS = (
    System("rotation", 0.3, lambda angle: np.ones_like(angle)),
    System("oscillation", 0.4, lambda angle: 1.0 + 0.4 * np.sin(8.0 * angle)),
)


def stone_soup_model(system: System):
    """Return a transition model for Stone Soup, which differentiates it numerically."""

    class Dynamics(TransitionModel, GaussianModel, TimeInvariantModel):
        @property
        def ndim_state(self):
            return 2

        def function(self, state, noise=False, **kwargs):
            vectors = np.asarray(state.state_vector, dtype=float)
            moved = system(vectors).view(StateVectors)
            if noise is None or noise is False:
                return moved
            return moved + (self.rvs(vectors.shape[1], **kwargs) if noise is True else noise)

        def covar(self, **kwargs):
            return CovarianceMatrix(NOISE**2 * np.eye(2))

    return Dynamics()


def kalman(predictor, updater, observations: np.ndarray) -> np.ndarray:
    """Return filtered means, (steps, 2), given the state before the first observation."""
    clock = datetime.datetime(2000, 1, 1)
    state = GaussianState([1.0, 0.0], NOISE**2 * np.eye(2), timestamp=clock)
    return run_filter(predictor, updater, observations, state)


def run_filter(predictor, updater, observations, state) -> np.ndarray:
    means = np.empty_like(observations)
    for step, observation in enumerate(observations):
        clock = state.timestamp + datetime.timedelta(seconds=1)
        prediction = predictor.predict(state, timestamp=clock)
        detection = Detection(observation[:, None], timestamp=clock)
        state = updater.update(SingleHypothesis(prediction, detection))
        means[step] = np.asarray(state.mean, dtype=float).ravel()
    return means


def references(system: System, observations: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    """Return estimates of the filters with known dynamics."""
    dynamics = stone_soup_model(system)
    measurement_model = LinearGaussian(
        ndim_state=2, mapping=(0, 1), noise_covar=NOISE**2 * np.eye(2)
    )
    np.random.seed(seed)  # Stone Soup's resampler uses NumPy's global generator  # noqa: NPY002
    initial = ParticleState(
        (
            np.array([[1.0], [0.0]])
            + NOISE * np.random.default_rng(seed).normal(size=(2, PARTICLES))
        ).view(StateVectors),
        weight=np.full(PARTICLES, 1.0 / PARTICLES),
        timestamp=datetime.datetime(2000, 1, 1),
    )
    return {
        "EKF": kalman(
            ExtendedKalmanPredictor(dynamics),
            ExtendedKalmanUpdater(measurement_model),
            observations,
        ),
        "UKF": kalman(
            UnscentedKalmanPredictor(dynamics),
            UnscentedKalmanUpdater(measurement_model),
            observations,
        ),
        "particles": run_filter(
            ParticlePredictor(dynamics),
            ParticleUpdater(measurement_model, resampler=SystematicResampler()),
            observations,
            initial,
        ),
    }


def mean_squared_error(estimates: np.ndarray, states: np.ndarray) -> float:
    """Compute the mean squared error, summed over both columns."""
    return float(np.mean(np.sum((estimates - states) ** 2, axis=1)))


def run(system: System, seed: int, sizes: tuple[int, ...]) -> list[dict]:
    """Compute errors of each method at each training size, on one test series."""
    rng = np.random.default_rng([seed, len(system.name)])
    training = system.simulate(max(sizes), rng)
    states, observations = system.simulate(TEST, rng)
    sides = {"observation": observations, **references(system, observations, seed)}
    baseline_errors = {
        name: mean_squared_error(estimates, states) for name, estimates in sides.items()
    }
    rows = []
    for size in sizes:
        X, Y = (part[:size] for part in training)
        row = {"system": system.name, "run": seed, "training": size, **baseline_errors}
        for kernel, choices in LEARNED.items():
            begin = time.process_time()
            learned = learn_filter(X, Y, **choices, progress=False)
            middle = time.process_time()
            filtered = learned.filter.filter(observations)
            row |= {
                f"{kernel} mean": mean_squared_error(filtered.mean(), states),
                f"{kernel} MAP": mean_squared_error(filtered.mode(), states),
                f"{kernel} smoothed": mean_squared_error(
                    learned.filter.smooth(filtered).mean(), states
                ),
                f"{kernel} CPU s to learn": middle - begin,
                f"{kernel} factor": learned.trials[0].factor,
                f"{kernel} regularization": learned.trials[0].regularization,
            }
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


ESTIMATES = ("mean", "MAP", "smoothed")
ERRORS = (
    *("observation", "EKF", "UKF", "particles"),
    *(f"{name} {estimate}" for name in LEARNED for estimate in ESTIMATES),
)


def summary(rows: list[dict]) -> list[dict]:
    """Return means with standard errors over the runs, a row for each system and size."""
    table = []
    for key in dict.fromkeys((row["system"], row["training"]) for row in rows):
        subset = [row for row in rows if (row["system"], row["training"]) == key]
        line = {"system": key[0], "training": key[1]}
        for name in ERRORS:
            values = np.array([row[name] for row in subset])
            standard_error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
            line[name] = f"{values.mean():.4f} ({standard_error:.4f})"
        for kernel in LEARNED:
            seconds = [row[f"{kernel} CPU s to learn"] for row in subset]
            line[f"{kernel} CPU s"] = float(np.mean(seconds))
        table.append(line)
    return table


def plot(rows: list[dict], path: Path) -> None:
    """Plot error against training size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    styles = {
        "EKF": ("#9A9A9A", "--", "extended Kalman, dynamics known"),
        "UKF": ("#5A4A78", "--", "unscented Kalman, dynamics known"),
        "particles": ("#1A1A1A", ":", "particle filter, dynamics known"),
        "bkl MAP": ("#0072B2", "-", "kernel Bayes, learned kernel, MAP"),
        "median MAP": ("#D55E00", "-", "kernel Bayes, median heuristic, MAP"),
        "importance MAP": ("#009E73", "-", "importance weighted, learned kernel, MAP"),
        "bkl smoothed": ("#56B4E9", "-.", "kernel Bayes, learned, smoothed"),
    }
    figure, panels = plt.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
    for panel, system in zip(panels, SYSTEMS, strict=True):
        subset = [row for row in rows if row["system"] == system.name]
        sizes = sorted({row["training"] for row in subset})
        for name, (color, style, label) in styles.items():
            values = np.array(
                [[row[name] for row in subset if row["training"] == size] for size in sizes]
            )
            mean = values.mean(axis=1)
            standard_error = values.std(axis=1, ddof=1) / values.shape[1] ** 0.5
            panel.errorbar(sizes, mean, standard_error, color=color, linestyle=style, label=label)
        panel.set_xscale("log")
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.set_title(f"noisy {system.name}")
        panel.set_xlabel("training steps")
        panel.set_ylim(bottom=0.0)
    panels[0].set_ylabel("mean squared error of the state")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(path, dpi=130)
    print(f"Written: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    sizes, runs = ((60, 120), 2) if options.quick else (SIZES, options.runs)
    rows = [row for system in SYSTEMS for seed in range(runs) for row in run(system, seed, sizes)]
    name = "filtering-quick" if options.quick else "filtering"
    settings = {"runs": runs, "test steps": TEST, "particles": PARTICLES}
    title = "Filtering: mean squared error of the state, standard error over the runs in brackets"
    chosen = ", ".join(f"{key} {value}" for key, value in settings.items())
    text = f"Settings: {chosen}.\n\n{report.table(summary(rows))}"
    info = {**report.machine(), "load_average": None}  # measures errors, not times
    report.save(report.RESULTS, name, title, info, text, {"settings": settings, "rows": rows})
    if not options.quick:
        plot(rows, DOCS / "filtering.png")


if __name__ == "__main__":
    main()
