"""
Relative novelty detection in a photograph
==========================================

Relative novelty detection, as in section 4.3 of Huszar and Lacoste-Julien, *A Kernel Approach to
Tractable Bayesian Nonparametrics* (2011), finds the parts of a target image that are unlike a
background image. A point is a patch of 2 x 2 pixels with three colors each, 12 numbers. :math:`p`
is the density of patches of the target and :math:`q` that of the background, each estimated from
3 % of the patches. The 5 % of the patches of the target with the largest :math:`p / q` are novel.
Kernel Student-t densities in 12 columns are known up to a constant, and so is their ratio, of
which only the ranks are used.

Lengthscales are those of the median heuristic. Noise variances are chosen by score matching,
which needs no normalizing constant, and the bandwidths of the kernel density estimates by
leave-one-out cross-validation. The paper does not state its choices. Its images are from
satellites. Here both images are parts of scikit-learn's sample photograph of a temple: lake and
trees, and lake and trees with a part of the temple. ``--background FILE --target FILE`` uses
other images.

Run it as ``python relative_novelty.py --out FOLDER``; it takes a minute.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
from bke.inference import learn_student_t
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SIDE, PROPORTION, NOVEL = 2, 0.03, 0.05

parser = argparse.ArgumentParser(description="Novel patches of an image, by a ratio of densities.")
parser.add_argument("--out", type=Path, default=Path("novelty-output"), help="output folder")
parser.add_argument("--background", type=Path, help="image, with --target")
parser.add_argument("--target", type=Path, help="image, with --background")
parser.add_argument("--seed", type=int, default=0, help="seed of the patches")
parser.add_argument("--quick", action="store_true", help="fewer hyperparameters")
options = parser.parse_args()
if (options.background is None) != (options.target is None):
    parser.error("--background and --target need each other: pass both or neither")
options.out.mkdir(parents=True, exist_ok=True)


# %%
# Patches
# -------


def patches(picture):
    """Divide into squares, (rows, columns, 12) in [0, 1], without an incomplete row or column."""
    rows, columns = (size // SIDE for size in picture.shape[:2])
    cut = picture[: rows * SIDE, : columns * SIDE].reshape(rows, SIDE, columns, SIDE, -1)
    return cut.swapaxes(1, 2).reshape(rows, columns, -1)


def read(path):
    """Read red, green and blue in [0, 1]."""
    picture = plt.imread(path)
    picture = picture / 255.0 if picture.dtype == np.uint8 else picture
    if picture.ndim == 2:
        picture = np.repeat(picture[..., None], 3, axis=2)
    return np.asarray(picture[..., :3], dtype=float)


if options.target is None:
    try:
        from sklearn.datasets import load_sample_image
    except ImportError:
        raise SystemExit(
            'The sample picture is scikit-learn\'s: pip install "bke[sklearn]", or hand over '
            "--background and --target"
        ) from None
    photograph = load_sample_image("china.jpg") / 255.0
    background, target = photograph[200:400, 430:630], photograph[200:400, 230:430]
else:
    background, target = read(options.background), read(options.target)

rng = np.random.default_rng(options.seed)


def random_patches(picture):
    """Draw a random subset of the patches, (n, 12)."""
    rows = patches(picture).reshape(-1, 3 * SIDE**2)
    return rows[rng.permutation(len(rows))[: max(2, round(PROPORTION * len(rows)))]]


samples = {"target": random_patches(target), "background": random_patches(background)}
every = patches(target)
points = every.reshape(-1, every.shape[2])

# %%
# Densities and their ratio
# -------------------------
# The mean Hyvarinen score is dominated by few rows here, because the patches of the lake are nearly
# equal. If the lengthscale were chosen by the score too, it would be at a bound of the grid.

noise_variances = (0.1, 1.0) if options.quick else (1e-3, 1e-2, 0.1, 1.0, 10.0)
results = {"patches": {name: len(rows) for name, rows in samples.items()}}
STUDENT_T, KDE = "kernel Student-t", "kernel density estimate"
logs = {STUDENT_T: {}, KDE: {}}
tried = {"factors": (1.0,), "noise_variance": noise_variances}
for name, rows in samples.items():
    learned = learn_student_t(rows, **tried, progress=False)
    print(f"{name}: {learned}")
    logs[STUDENT_T][name] = learned.log_density(points)
    results[f"{STUDENT_T}, {name}"] = {"noise variance": learned.density.noise_variance}


def log_kde(at, rows, bandwidth, itself=False):
    """Compute the log Gaussian density estimate up to a constant, leave-one-out at the rows."""
    exponents = -0.5 * cdist(at, rows, "sqeuclidean") / bandwidth**2
    if itself:
        np.fill_diagonal(exponents, -np.inf)
    return logsumexp(exponents, axis=1) - rows.shape[1] * np.log(bandwidth)


for name, rows in samples.items():

    def loss(log, rows=rows):
        return -np.mean(log_kde(rows, rows, np.exp(log), itself=True))

    bandwidth = float(np.exp(minimize_scalar(loss, bounds=(-7.0, 1.0), method="bounded").x))
    logs[KDE][name] = log_kde(points, rows, bandwidth)
    results[f"{KDE}, {name}"] = {"bandwidth": bandwidth}

novel = {}
for method, of in logs.items():
    ratio = of["target"] - of["background"]
    rank = np.argsort(np.argsort(-ratio, kind="stable"))
    novel[method] = (rank < round(NOVEL * len(ratio))).reshape(every.shape[:2])
shared = (novel[STUDENT_T] & novel[KDE]).sum() / novel[KDE].sum()
results["proportion of novel patches that both methods find"] = float(shared)
print(json.dumps(results, indent=1))

# %%
# Figure
# ------


def marked(where):
    """Return the target in gray, with novel patches in red."""
    image = np.repeat(target.mean(axis=2, keepdims=True), 3, axis=2) * 0.6 + 0.4
    pixels = np.repeat(np.repeat(where, SIDE, axis=0), SIDE, axis=1)
    image[: pixels.shape[0], : pixels.shape[1]][pixels] = (0.85, 0.0, 0.0)
    return image


figure, panels = plt.subplots(1, 4, figsize=(12.5, 3.5), layout="constrained")
images = {"(A) background": background, "(B) target": target}
images |= {
    f"({letter}) {name}": marked(where)
    for letter, (name, where) in zip("CD", novel.items(), strict=True)
}
for ax, (title, picture) in zip(panels, images.items(), strict=True):
    ax.imshow(picture, interpolation="nearest")
    ax.set_title(title, fontsize="medium")
    ax.set_axis_off()
figure.savefig(options.out / "relative_novelty.png", dpi=110)
(options.out / "relative_novelty.json").write_text(json.dumps(results, indent=1) + "\n")
print(f"Written: {options.out / 'relative_novelty.png'} and relative_novelty.json")
