r"""
Shrinkage estimators of an embedding from ten points
====================================================

The empirical embedding is unbiased, and with few points it has a large variance. A shrinkage
estimator is biased and has a smaller variance. With ten points and a short to moderate
lengthscale it has the lower risk :math:`E |\tilde\mu - \mu|^2` in the norm of the RKHS of the
kernel (Muandet et al., *Kernel Mean Shrinkage Estimators*, 2016). Spectral shrinkage shrinks
directions with little variance more than others. The posterior mean of BKE (7) does this too,
with the smoothed kernel r instead of k. A fixed noise variance shrinks by the same amount for any
variance of the empirical embedding: with a long lengthscale, at which ten points have a small
error, its risk is mainly bias.

P is a mixture of three Gaussians in one column, so its embedding is known. Panel (A) shows the
estimates from one data set. Panel (B) shows their risk over many data sets, for kernels from
short to long lengthscales, relative to the risk of the empirical embedding.

Run it as ``python shrinkage.py --out FOLDER``; it takes less than a minute.
"""

import argparse
import json
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from bke.models import (
    SquaredExponential,
    gaussian_inner_product,
    gaussian_mixture_embedding,
    mean_embedding,
    posterior_mean_embedding,
    shrinkage_amount,
    shrunk_embedding,
    spectral_embedding,
)

matplotlib.use("Agg")
from matplotlib import pyplot as plt

WEIGHTS = np.array([0.2, 0.5, 0.3])
MEANS, DEVIATIONS = np.array([-3.0, 0.0, 3.0]), np.array([0.5, 1.0, 1.5])
SIZE, LENGTHSCALE = 10, 0.7

parser = argparse.ArgumentParser(description="Estimates of an embedding from few points.")
parser.add_argument("--out", type=Path, default=Path("shrinkage-output"), help="output folder")
parser.add_argument("--seed", type=int, default=0, help="seed of the data")
parser.add_argument("--quick", action="store_true", help="fewer data sets")
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)

# %%
# One data set
# ------------

rng = np.random.default_rng(options.seed)


def draw(*shape):
    """Draws from P."""
    component = rng.choice(len(WEIGHTS), size=shape, p=WEIGHTS)
    return rng.normal(MEANS[component], DEVIATIONS[component])


def estimates(X, kernel):
    """Compute all estimators."""
    return {
        "empirical": mean_embedding(X, kernel),
        "shrunk, plug-in": shrunk_embedding(X, kernel),
        "shrunk, leave-one-out": shrunk_embedding(X, kernel, amount="leave-one-out"),
        "spectral, leave-one-out": spectral_embedding(X, kernel),
        "posterior mean, clt": posterior_mean_embedding(X, kernel),
        r"posterior mean, $\sigma^2$ = 0.1": posterior_mean_embedding(X, kernel, noise=0.1),
    }


X, kernel = draw(SIZE), SquaredExponential(LENGTHSCALE)
line = np.linspace(-6.0, 8.0, 281)
truth = gaussian_mixture_embedding(WEIGHTS, MEANS, DEVIATIONS, LENGTHSCALE, line)
embeddings = {name: np.asarray(embedding(line)) for name, embedding in estimates(X, kernel).items()}
amounts = {name: float(a) for name, a in shrinkage_amount(X, kernel).items()}
print(", ".join(f"{name} {a:.3f}" for name, a in amounts.items()))

# %%
# The risk
# --------
# The squared distance in the RKHS of k is computed from the norm of the estimate, that of mu and
# their inner product. The inner product is the weighted mean of E k(x_i, Y), or of E r(x_i, Y) for
# the posterior mean, whose sections r(x_i, .) are squared exponential too, with a lengthscale that
# is longer by the square root of two.

lengthscales = np.geomspace(0.2, 6.0, 5 if options.quick else 12)
samples = draw(40 if options.quick else 400, SIZE)


def squared_norm(lengthscale):
    """Compute the squared norm of mu."""
    parts = list(zip(WEIGHTS, MEANS[:, None], DEVIATIONS[:, None, None] ** 2, strict=True))
    kernel = SquaredExponential(lengthscale)
    return sum(w * v * gaussian_inner_product((m, S), (q, T), kernel)
               for w, m, S in parts for v, q, T in parts)  # fmt: skip


@jax.jit
def losses(lengthscale, norm):
    """Compute the squared distance to mu of each estimate from each sample."""

    def loss(embedding):
        wide = lengthscale * (1.0 if embedding.measure is None else 2.0**0.5)
        values = gaussian_mixture_embedding(WEIGHTS, MEANS, DEVIATIONS, wide, embedding.points)
        return embedding.squared_norm() - 2.0 * embedding.weights @ values + norm

    def of_all(X):
        embeddings = estimates(X, SquaredExponential(lengthscale))
        return jnp.stack([loss(embedding) for embedding in embeddings.values()])

    return jax.lax.map(of_all, samples)


with jax.enable_x64(True):
    over = np.array([losses(scale, squared_norm(scale)) for scale in lengthscales])
# (lengthscales, data sets, estimators)
risks = over.mean(axis=1)
relative = risks / risks[:, :1]
residuals = over - relative[:, None] * over[:, :, :1]
relative_errors = residuals.std(axis=1, ddof=1) / risks[:, :1] / len(samples) ** 0.5
print(f"risk over that of the empirical embedding, {len(samples)} data sets of {SIZE} points:")
for j, name in enumerate(embeddings):
    numbers = " ".join(f"{value:5.2f}" for value in relative[:, j])
    print(f"{name:>34}: {numbers}")

COLORS = ["black", "#0072B2", "#56B4E9", "#CC79A7", "#D55E00", "#E69F00"]
figure, axes = plt.subplots(1, 2, figsize=(12.0, 4.6), layout="constrained")
ax = axes[0]
ax.plot(line, truth, color="gray", linewidth=4, alpha=0.5, label=r"$\mu$")
for (name, values), color in zip(embeddings.items(), COLORS, strict=True):
    ax.plot(line, values, color=color, linewidth=1.2, label=name)
ax.plot(X, np.zeros(SIZE), "|", color="black", markersize=12)
ax.set(title=f"(A) {SIZE} points, lengthscale {LENGTHSCALE}", xlabel="t", ylabel="embedding")
ax.legend(fontsize="small")
ax = axes[1]
for j, (name, color) in enumerate(zip(embeddings, COLORS, strict=True)):
    ax.errorbar(lengthscales, relative[:, j], relative_errors[:, j], color=color, label=name)
ax.axvline(LENGTHSCALE, color="gray", linestyle=":")
ax.set(title="(B) risk over that of the empirical embedding", xlabel="lengthscale")
ax.set(xscale="log", yscale="log")
ax.set_xticks([0.2, 0.5, 1.0, 2.0, 5.0], ["0.2", "0.5", "1", "2", "5"])
ax.set_yticks([0.5, 0.7, 1.0, 2.0, 5.0], ["0.5", "0.7", "1", "2", "5"])
ax.minorticks_off()
figure.savefig(options.out / "shrinkage.png", dpi=130)
record = {
    "amounts": amounts,
    "data_sets": len(samples),
    "points": SIZE,
    "lengthscales": lengthscales.tolist(),
    "empirical_risk": risks[:, 0].tolist(),
    "relative_risk": dict(zip(embeddings, relative.T.tolist(), strict=True)),
    "standard_error": dict(zip(embeddings, relative_errors.T.tolist(), strict=True)),
}
(options.out / "shrinkage.json").write_text(json.dumps(record, indent=2) + "\n")
