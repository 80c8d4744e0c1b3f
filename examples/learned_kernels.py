"""Compare a learned kernel with the median heuristic and the defaults of scikit-learn.

Three unsupervised tasks, each scored with labels afterwards: KernelPCA separates two rings in three
components, SpectralClustering finds the three cultivars of 178 wines, and OneClassSVM detects
malignant among benign breast tumours. All three use the parameter ``gamma`` of
exp(-gamma |x - y|^2).

Run with ``pip install -e ".[sklearn]"``; writes learned-kernels.png and prints the scores.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
from bke.inference import LearnedKernel, learn_kernel
from matplotlib import pyplot as plt
from scipy.spatial.distance import pdist
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_breast_cancer, load_wine, make_circles
from sklearn.decomposition import PCA, KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM


@dataclasses.dataclass(frozen=True)
class Task:
    """An unsupervised task: data, and an estimator as a function of gamma."""

    name: str
    score_name: str
    X: np.ndarray
    labels: np.ndarray  # labels of the points that ``plot_points`` returns
    score: Callable[[float], float]
    plot_points: Callable[[float], np.ndarray]
    axes: tuple[str, str] = ("first principal component", "second principal component")


def main() -> None:
    """Learn the kernels, score the estimators and draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("learned-kernels"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tasks = [rings(), wines(), tumours()]
    figure, axes = plt.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for task, above, below in zip(tasks, *axes, strict=True):
        # The columns are standardized, so that one lengthscale is sufficient.
        learned = learn_kernel(task.X, objective="map", standardize=None, progress=False)
        gammas = {
            "learned": learned.gamma,
            "median heuristic": 0.5 / np.median(pdist(task.X)) ** 2,
            "default": 1.0 / (task.X.shape[1] * task.X.var()),
        }
        print(f"{task.name}, {len(task.X)} x {task.X.shape[1]}\n{learned}")
        for name, gamma in gammas.items():
            print(f"  {name:<17} gamma {gamma:8.4f}  {task.score_name} {task.score(gamma):.3f}")
        draw_points(above, task, learned.gamma)
        draw_scores(below, task, gammas, learned)
    path = options.out / "learned-kernels.png"
    figure.savefig(path, dpi=130)
    print(path)


def rings() -> Task:
    """KernelPCA: two rings that are separated by a plane in three components."""
    X, labels = make_circles(300, noise=0.08, factor=0.35, random_state=0)

    def components(gamma: float) -> np.ndarray:
        return KernelPCA(3, kernel="rbf", gamma=gamma).fit_transform(X)

    def plot_points(gamma: float) -> np.ndarray:
        return components(gamma)[:, [0, 2]]

    def score(gamma: float) -> float:
        model = LogisticRegression()
        return float(cross_val_score(model, components(gamma), labels, cv=5).mean())

    names = ("first component", "third component")
    return Task("KernelPCA, two rings", "accuracy of a plane", X, labels, score, plot_points, names)


def wines() -> Task:
    """SpectralClustering: three cultivars."""
    data = load_wine()
    X = StandardScaler().fit_transform(data.data)

    def score(gamma: float) -> float:
        model = SpectralClustering(3, gamma=gamma, random_state=0, assign_labels="cluster_qr")
        return float(adjusted_rand_score(data.target, model.fit_predict(X)))

    def plot_points(gamma: float) -> np.ndarray:
        return PCA(2).fit_transform(X)

    return Task(
        "SpectralClustering, wines", "adjusted Rand index", X, data.target, score, plot_points
    )


def tumours() -> Task:
    """OneClassSVM: fitted to half of the benign tumours, scored on the rest and the malignant."""
    data = load_breast_cancer()
    benign = data.data[data.target == 1]
    scaler = StandardScaler().fit(benign[::2])
    known = scaler.transform(benign[::2])
    new = scaler.transform(np.concatenate([benign[1::2], data.data[data.target == 0]]))
    malignant = np.repeat([0, 1], [len(benign[1::2]), int((data.target == 0).sum())])

    def score(gamma: float) -> float:
        model = OneClassSVM(gamma=gamma, nu=0.1).fit(known)
        return float(roc_auc_score(malignant, -model.score_samples(new)))

    def plot_points(gamma: float) -> np.ndarray:
        return PCA(2).fit(known).transform(new)

    return Task(
        "OneClassSVM, breast tumours", "area under ROC", known, malignant, score, plot_points
    )


def draw_points(axes: plt.Axes, task: Task, gamma: float) -> None:
    """Draw the points in two components, colored by the labels, which no method used."""
    plot_points = task.plot_points(gamma)
    axes.scatter(*plot_points.T, c=task.labels, s=8, cmap="viridis")
    axes.set(title=task.name, xlabel=task.axes[0], ylabel=task.axes[1])


def draw_scores(
    axes: plt.Axes, task: Task, gammas: dict[str, float], learned: LearnedKernel
) -> None:
    """Draw the score as a function of gamma, with each choice of gamma."""
    choices = list(gammas.values())
    grid = np.geomspace(min(choices) / 20, max(choices) * 20, 40)
    axes.semilogx(grid, [task.score(gamma) for gamma in grid], color="0.4", lw=1)
    for (name, gamma), color in zip(gammas.items(), ("C3", "C0", "C2"), strict=True):
        axes.plot(gamma, task.score(gamma), "o", color=color, label=name)
    for peak in learned.peaks[1:]:
        axes.axvline(0.5 / float(peak.kernel.lengthscale) ** 2, color="C3", ls=":", lw=1)
    axes.set(xlabel="gamma", ylabel=task.score_name)
    axes.legend(fontsize=8)


if __name__ == "__main__":
    main()
