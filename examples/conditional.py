"""
Conditional embeddings of ozone given the weather
=================================================

The conditional embedding, the sum rule and Bayes' rule for 330 days in Los Angeles (Breiman and
Friedman, 1985). They estimate ozone given the temperature, ozone under another distribution of
the temperature, and the temperature given ozone. A last section computes the distribution of a
function of two independent variables without sampling.

Run it as ``python conditional.py --out FOLDER``; it takes a minute.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from bke.inference import learn_conditional, read_sample
from bke.models import (
    SquaredExponential,
    bayes_rule,
    function_embedding,
    mean_embedding,
    pre_image,
    reduced_embedding,
    shrunk_embedding,
    sum_rule,
)

matplotlib.use("Agg")
from matplotlib import pyplot as plt

parser = argparse.ArgumentParser(description="Conditional embeddings of the ozone data.")
parser.add_argument("--out", type=Path, default=Path("conditional-output"), help="output folder")
parser.add_argument("--quick", action="store_true", help="the median heuristic's kernels")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

data = Path(__file__).parent / "data" / "ozone.csv"
temperature, ozone = read_sample(data, columns=["Temp", "Ozone"]).values.T
kernels = {"kernel_x": "median", "kernel_y": "median"} if options.quick else {}

# %%
# Ozone given the temperature
# ---------------------------
#
# The embedding represents the conditional distribution: it gives the expectation of any function of
# ozone.

conditional = learn_conditional(temperature, ozone, **kernels)
at = np.linspace(temperature.min(), temperature.max(), 200)
mean, high = conditional.expectation(at, lambda y: np.hstack([y, (y > 15.0).astype(float)])).T
# Weights may be negative, and the estimated variance is then negative where there are few days. No
# band is drawn there.
variance = conditional.variance(at)[:, 0]
deviation = np.sqrt(np.where(variance > 0.0, variance, np.nan))
added = len(ozone) * conditional.regularization
print(
    f"lengthscale of the temperature: {conditional.kernel_x.lengthscale:.1f}, n lambda {added:.3g}"
)

# %%
# Ten degrees warmer
# ------------------
#
# The sum rule estimates the distribution of ozone if all temperatures are ten degrees higher, from
# days with such temperatures. It extrapolates poorly, so only days that stay within the range of
# the data are used.

warmer = temperature[temperature + 10.0 <= temperature.max()]
today = sum_rule(conditional, mean_embedding(warmer, conditional.kernel_x))
later = sum_rule(conditional, mean_embedding(warmer + 10.0, conditional.kernel_x))

# %%
# The temperature of a day with little, and with much ozone
# ----------------------------------------------------------
#
# Bayes' rule with two priors: all days, and the colder half of them.

colder = np.sort(temperature)[: len(temperature) // 2]
posterior = {}
for name, days in (("all days", temperature), ("the colder half", colder)):
    rule = bayes_rule(conditional, mean_embedding(days, conditional.kernel_x), regularization=1e-3)
    for value in (4.0, 18.0):
        posterior_embedding = rule(value).normalized()
        posterior[f"{name}, ozone {value:g}"] = {
            "mean": float(posterior_embedding.mean()[0]),
            "mode": float(pre_image(posterior_embedding).point[0]),
        }

# %%
# A function of independent variables
# -----------------------------------
#
# The ratio of two independent measurements, from all pairs of their values, and from 25 points that
# represent each.

rng = np.random.default_rng(0)
kernel = SquaredExponential(0.3)
top, bottom = rng.normal(2.0, 0.5, 80), rng.gamma(9.0, 1.0 / 9.0, 80)
ratio = function_embedding(
    lambda x, y: x / y,
    shrunk_embedding(top, kernel),
    shrunk_embedding(bottom, kernel),
    kernel=kernel,
)
support = np.linspace(0.0, 6.0, 25)
reduced = reduced_embedding(ratio, support)
draws = rng.normal(2.0, 0.5, 20_000) / rng.gamma(9.0, 1.0 / 9.0, 20_000)
line = np.linspace(0.0, 6.0, 300)
truth = mean_embedding(draws, kernel)

results = {
    "expected ozone, the same days": float(today.mean()[0]),
    "expected ozone, ten degrees warmer": float(later.mean()[0]),
    "temperature": posterior,
    "distance of the ratio's embedding to that of 20 000 draws": float(ratio.distance(truth)),
    "and of 80 ratios of pairs": float(mean_embedding(top / bottom, kernel).distance(truth)),
    "error of 25 points": float(ratio.distance(reduced)),
}
print(json.dumps(results, indent=1))

# %%
# Figure
# ------

figure, panels = plt.subplots(1, 3, figsize=(12.5, 3.8), layout="constrained")
panels[0].plot(temperature, ozone, ".", color="#9A9A9A", markersize=3, label="days")
panels[0].plot(at, mean, color="#0072B2", label="mean")
panels[0].fill_between(
    at, mean - deviation, mean + deviation, color="#0072B2", alpha=0.25, linewidth=0, label="± sd"
)
panels[0].set_xlabel("Temp (°F)")
panels[0].set_ylabel("Ozone (pphm)")
panels[0].legend(frameon=False)
panels[1].plot(at, np.clip(high, 0.0, 1.0), color="#D55E00")
panels[1].set_xlabel("Temp (°F)")
panels[1].set_ylabel("probability of more than 15 pphm")
panels[2].plot(line, truth(line), color="#9A9A9A", linewidth=4, alpha=0.6, label="20 000 draws")
panels[2].plot(line, ratio(line), color="#0072B2", label="all 6400 pairs")
panels[2].plot(line, reduced(line), "--", color="#D55E00", label="25 points")
panels[2].set_xlabel("x / y")
panels[2].set_ylabel("embedding")
panels[2].legend(frameon=False)
figure.savefig(options.out / "conditional.png", dpi=130)
(options.out / "conditional.json").write_text(json.dumps(results, indent=1) + "\n")
print(f"Written: {options.out / 'conditional.png'} and conditional.json")
