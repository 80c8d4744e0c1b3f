"""
Lengthscale of the brightness of a photograph
=============================================

At what lengthscale are the 273 280 pixels of a photograph distributed, if they are read in
blocks? The data are the photograph of a dahlia that comes with scikit-learn (*flower.jpg*, by
dany13, CC BY).
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from bke.inference import diagnose, fit, open_rows
from sklearn.datasets import load_sample_image

brightness = load_sample_image("flower.jpg").mean(axis=2).reshape(-1, 1)
with tempfile.TemporaryDirectory() as folder:
    np.save(Path(folder) / "brightness.npy", brightness)
    run = fit(open_rows(Path(folder) / "brightness.npy"), progress=False)
print(diagnose(run))

lengthscale = run["posterior"]["lengthscale"].values.ravel()
print(f"lengthscale {lengthscale.mean():.2f} with standard deviation {lengthscale.std():.3f}")
_, ax = plt.subplots(figsize=(7.0, 4.0), layout="constrained")
ax.hist(brightness[:, 0], bins=85, density=True, color="0.75")
ax.plot([100.0, 100.0 + lengthscale.mean()], [0.012, 0.012], color="C1", linewidth=3)
ax.text(100.0, 0.0125, "one lengthscale", color="C1")
ax.set(xlabel="brightness", ylabel="density")

# %%
# The length of the bar is the lengthscale of all pixels, over the histogram of their brightness.
# It is 15.1 of 256 shades, with a posterior standard deviation of 0.002.
