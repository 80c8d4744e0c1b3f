"""
Four chains in two modes
========================

Which mode of the lengthscale does each NUTS chain sample, and what is the posterior mass of each
mode? The data are simulated: 300 draws each from mixtures of three normal and of three Laplace
distributions, as in Figures 3 to 5 of Flaxman, Sejdinovic, Cunningham and Filippi, *Bayesian
Learning of Kernel Embeddings* (UAI 2016).
"""

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import (
    Nuts,
    diagnose,
    find_modes,
    fit,
    normal_laplace,
    plot_witness,
    reweight,
    sample_witness,
)
from numpyro.infer import init_to_uniform

P, Q = normal_laplace(seed=0)
method = Nuts(
    num_chains=4,
    num_warmup=200,
    num_samples=200,
    target_accept_prob=0.5,  # longer steps: fewer chains are stuck between zeros of the density
    init_strategy=init_to_uniform,
)
chains = fit(np.concatenate([P, Q]), standardize=None, method=method, seed=0, progress=False)
run = reweight(chains, progress=False)
print(diagnose(run))

figure = plt.figure(figsize=(12.0, 5.4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(4, 5))
ax = left.subplots()
modes, colors = find_modes(run), ("#0072B2", "#D55E00", "#009E73")
for index, mode, color in zip(range(3), modes.modes, colors, strict=False):
    if mode.draws:
        sampled = [chain for chain in range(4) if index in modes.of_draws[chain]]
        ax.plot(run["posterior"]["lengthscale"][sampled].squeeze().T, color=color, linewidth=0.9)
        height = mode.location["lengthscale"] + 0.22
        mass = "practically none" if mode.mass < 1e-6 else f"{mode.mass:.2g}"
        ax.text(0, height, f"mode {index + 1}: posterior mass {mass}", color=color)
ax.set(xlabel="draw", ylabel="lengthscale", ylim=(0, 3.6))
ax.set_title("traces of four chains of NUTS", loc="left")
witness = sample_witness(run, P, Q, progress=False)
panels = right.subplots(3, sharex=True)
plot_witness(witness, 0.8, P, Q, run=run, axes=panels)

# %%
# No chain crosses between the modes, so the number of chains in a mode depends on their initial
# values, while the mode near 3 has practically all of the posterior mass. The witness in the mode
# near 0.5, at the scale of the components, differs from zero, and the witness in the mode near 3,
# which is the posterior witness, is close to zero.
