r"""
The kernel Student-t density
============================

The kernel Student-t density of Huszar and Lacoste-Julien, *A Kernel Approach to Tractable
Bayesian Nonparametrics* (2011). The features of points are Gaussian, their mean and covariance
are integrated out, and the predictive density is evaluated at the features of points.

1. The paper's figure 1, with the features :math:`(x, x^2)`. (A) Fourteen points of a mixture. (B)
   Their features, the predictive density in the plane and its value on the parabola. (C) That value
   as a function of :math:`x`, and the volume element :math:`\sqrt{1 + 4 x^2}`. (D) Their product,
   which has two modes, although the density in the plane has one.
2. The paper's figure 2: points drawn sequentially, each from the predictive density given those
   before, and the predictive density of the next. The paper states neither :math:`\sigma_0^2`
   nor its box.
3. A sample with two modes of different widths: the density whose hyperparameters maximize the
   leave-one-out density, and a kernel density estimate whose bandwidth is chosen in the same way.

Run it as ``python student_t.py --out FOLDER``; it takes half a minute.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from bke.inference import fantasy_data, learn_student_t
from bke.models import Polynomial, SquaredExponential, kernel_student_t, log_normalizer
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection

BLUE, ORANGE, GRAY = "#0072B2", "#D55E00", "#9A9A9A"

parser = argparse.ArgumentParser(description="Kernel Student-t densities.")
parser.add_argument("--out", type=Path, default=Path("student-t-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data")
parser.add_argument("--quick", action="store_true", help="fewer points")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
results = {}


class Mixture:
    """Two Gaussians with the same weight."""

    def __init__(self, means, deviations):
        self.means, self.deviations = np.array(means), np.array(deviations)

    def draw(self, n, rng):
        component = rng.integers(2, size=n)
        return rng.normal(self.means[component], self.deviations[component])

    def density(self, at):
        return norm.pdf(at[:, None], self.means, self.deviations).mean(axis=1)


# %%
# A parabola in the plane
# -----------------------
# The features of ``Polynomial(2, 0.5)``, (x y + 1/2)^2, are x, x^2 and the constant 1/2. A constant
# only widens the prior of the mean: the density with x and x^2 and 1/beta equals that with all
# three features and 1/beta - (1/2)^2 / sigma_0^2. In the plane this is the density of the linear
# kernel given the features of the points.

NOISE_VARIANCE, ALPHA, BETA = 0.01, 1.0, 0.01


def quadratic(X):
    """The density with the features (x, x^2) of the kernel."""
    beta = 1.0 / (1.0 / BETA - 0.25 / NOISE_VARIANCE)
    return kernel_student_t(
        X, Polynomial(2, 0.5), noise_variance=NOISE_VARIANCE, alpha=ALPHA, beta=beta
    )


def features(x):
    return np.stack([x, x**2], axis=1)


mixture = Mixture([-0.6, 0.5], [0.12, 0.15])
X = mixture.draw(14, np.random.default_rng(options.seed))
line = np.linspace(-1.25, 1.25, 501)
plane = kernel_student_t(
    features(X), Polynomial(1, 0.0), noise_variance=NOISE_VARIANCE, alpha=ALPHA, beta=BETA
)
on_parabola = np.asarray(plane.log_density(features(line)))
pulled_back = quadratic(X)
volume = np.sqrt(1.0 + 4.0 * line**2)
predictive = np.exp(pulled_back.log_density(line) - log_normalizer(pulled_back).value)
difference = np.asarray(pulled_back.log_density(line)) - on_parabola - np.log(volume)
results["difference of both ways to the log density"] = float(np.max(np.abs(difference)))
restricted = np.exp(on_parabola - on_parabola.max())
restricted /= np.trapezoid(restricted, line)

figure, panels = plt.subplots(1, 4, figsize=(15.0, 3.7), layout="constrained")
panels[0].plot(line, mixture.density(line), color="black")
panels[0].plot(X, np.zeros_like(X), "x", color=BLUE, clip_on=False, zorder=3)
panels[0].set(title="(A) fourteen points", xlabel="x", ylabel="density")
ax = panels[1]
first, second = np.meshgrid(np.linspace(-1.25, 1.25, 121), np.linspace(-0.5, 1.4, 121))
values = np.asarray(plane.log_density(np.stack([first.ravel(), second.ravel()], axis=1)))
levels = values.max() + np.log([0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8])
ax.contour(
    first, second, values.reshape(first.shape), levels, colors=GRAY, linewidths=0.8, linestyles="-"
)
curve = features(line)
parts = LineCollection(np.stack([curve[:-1], curve[1:]], axis=1), cmap="viridis_r", linewidths=3)
parts.set_array(restricted[:-1])
ax.add_collection(parts)
ax.plot(*features(X).T, "x", color=BLUE, zorder=3)
ax.set(title="(B) their features", xlabel="$x$", ylabel="$x^2$")
ax.set(xlim=(-1.25, 1.25), ylim=(-0.5, 1.4))
figure.colorbar(parts, ax=ax, label="density")
panels[2].plot(line, restricted, color="black", label="density on the parabola")
panels[2].plot(line, volume, ":", color="black", label=r"$\sqrt{1 + 4 x^2}$")
panels[2].set(title="(C) by x, and the volume element", xlabel="x")
panels[3].plot(line, predictive, color="black", label="predictive")
panels[3].plot(line, mixture.density(line), color=GRAY, linewidth=1.0, label="mixture")
panels[3].plot(X, np.zeros_like(X), "x", color=BLUE, clip_on=False, zorder=3)
panels[3].set(title="(D) the product", xlabel="x")
top = 1.15 * max(predictive.max(), restricted.max(), mixture.density(line).max(), volume.max())
for ax in (panels[0], panels[2], panels[3]):
    ax.set_ylim(0.0, top)
for ax in panels[2:]:
    ax.legend(frameon=False, fontsize="small", loc="upper center", ncols=2)
figure.savefig(options.out / "student_t_figure1.png", dpi=110)

# %%
# Fantasy data
# ------------
# alpha determines how much the prior penalizes regions without data.

SIDE, FANTASY_NOISE = 5.0, 3.0
count = 20 if options.quick else 50
kernel = SquaredExponential(1.0)
axis = np.linspace(-SIDE, SIDE, 161)
grid = np.stack([coordinates.ravel() for coordinates in np.meshgrid(axis, axis)], axis=1)
figure, panels = plt.subplots(1, 3, figsize=(11.0, 3.9), layout="constrained")
for ax, alpha in zip(panels, (0.01, 3.0, 10.0), strict=True):
    prior = {"noise_variance": FANTASY_NOISE, "alpha": alpha, "beta": 0.01}
    draws = fantasy_data(
        kernel,
        count,
        (-SIDE, SIDE),
        **prior,
        first=(0.0, 0.0),
        seed=options.seed,
        progress=False,
    )
    following = kernel_student_t(draws, kernel, **prior).log_density(grid)
    shade = np.exp(np.asarray(following) - np.max(following)).reshape(len(axis), -1)
    ax.imshow(shade, origin="lower", extent=(-SIDE, SIDE) * 2, cmap="Greys", vmax=1.3)
    ax.plot(*draws.T, ".", color=BLUE, markersize=4)
    ax.plot([-4.6, -3.6], [-4.6, -4.6], color="black", linewidth=3)
    ax.set(title=rf"$\alpha$ = {alpha:g}", xticks=[], yticks=[])
    results[f"standard deviations of fantasy data, alpha {alpha:g}"] = draws.std(axis=0).tolist()
figure.suptitle(
    rf"{count} draws and the density of the next one; bar: lengthscale 1, "
    rf"$\beta$ = 0.01, $\sigma_0^2$ = {FANTASY_NOISE:g}"
)
figure.savefig(options.out / "student_t_figure2.png", dpi=110)

# %%
# Two modes of different widths
# -----------------------------
# Both methods are chosen by leave-one-out densities, and compared by the mean log density of new
# draws.

rng = np.random.default_rng(options.seed + 1)
mixture = Mixture([-2.0, 1.5], [0.3, 1.0])
X, fresh = mixture.draw(60 if options.quick else 150, rng), mixture.draw(20_000, rng)
learned = learn_student_t(X, noise_variance=np.geomspace(0.1, 1000.0, 9), progress=False)
print(learned)


def log_kde(at, bandwidth, itself=False):
    """Compute the log Gaussian density estimate, leave-one-out at the rows of X."""
    logs = norm.logpdf(at[:, None], X, bandwidth)
    if itself:
        np.fill_diagonal(logs, -np.inf)
    return logsumexp(logs, axis=1) - np.log(len(X) - itself)


loss = minimize_scalar(
    lambda log: -log_kde(X, np.exp(log), itself=True).mean(), bounds=(-4.0, 1.0), method="bounded"
)
bandwidth = float(np.exp(loss.x))
low, high = learned.normalizer.low[0], learned.normalizer.high[0]
inside = fresh[(fresh > low) & (fresh < high)]
results["mean log density of fresh draws"] = {
    "kernel Student-t": float(learned.log_density(inside).mean()),
    "kernel density estimate": float(log_kde(inside, bandwidth).mean()),
    "the truth": float(np.log(mixture.density(inside)).mean()),
}
line = np.linspace(-4.5, 6.0, 500)
figure, ax = plt.subplots(figsize=(7.0, 3.8), layout="constrained")
ax.plot(line, mixture.density(line), color=GRAY, linewidth=4, alpha=0.5, label="mixture")
ax.plot(line, np.exp(learned.log_density(line)), color=BLUE, label="kernel Student-t")
ax.plot(line, np.exp(log_kde(line, bandwidth)), color=ORANGE, label="kernel density estimate")
ax.plot(X, np.zeros_like(X), "|", color="black", markersize=8)
ax.set(xlabel="x", ylabel="density")
ax.legend(frameon=False)
figure.savefig(options.out / "student_t_modes.png", dpi=110)

print(json.dumps(results, indent=1))
(options.out / "student_t.json").write_text(json.dumps(results, indent=1) + "\n")
print(f"Written: student_t_figure1.png, _figure2.png, _modes.png and student_t.json, {options.out}")
