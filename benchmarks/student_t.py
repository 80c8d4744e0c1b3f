"""Joint densities of digits and labels: kernel Student-t, kernel density and mixture estimates.

The protocol is that of Huszar and Lacoste-Julien, *A Kernel Approach to Tractable Bayesian
Nonparametrics* (2011), sections 4.1 and 4.2. A row is an image followed by its label as an
indicator vector. Novelty detection ranks 100 correctly and 100 wrongly labeled images by their
joint density and reports the area under the ROC curve (AUC). Label reconstruction predicts the
label of highest joint density and reports the error rate (confusion). Hyperparameters of each
method are chosen on separate validation images, for each task by its measure.

The images of the paper are USPS, 16 x 16. Here they are scikit-learn's digits, 8 x 8, unless
``--usps`` names a file.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import report
from bke.models import SquaredExponential, kernel_student_t
from scipy.spatial.distance import cdist, pdist
from scipy.special import logsumexp
from scipy.stats import ttest_rel

try:
    import sklearn
    from sklearn.datasets import load_digits, load_svmlight_file
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.metrics import roc_auc_score
    from sklearn.mixture import BayesianGaussianMixture
except ImportError:
    raise SystemExit('This needs scikit-learn: pip install "bke[sklearn]"') from None

TRAINING, SIZES, REPEATS = 1000, (10, 20, 40, 60, 100, 200, 400), 10
VALIDATION, TEST, NUM_NOVELTY = 300, 400, 100
FACTORS = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
NOISE_VARIANCES = (1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0)
BANDWIDTHS = (0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5)
COMPONENTS, PCA_COLUMNS, REGULARIZATIONS = 30, 30, (1e-3, 1e-2, 0.1)
DOCS = Path(__file__).parent.parent / "docs"

#: Function from rows (m, D) to log densities (m,), up to a constant.
LogDensity = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images (n, pixels) and labels (n,), whole numbers from 0."""

    images: np.ndarray
    labels: np.ndarray

    def __getitem__(self, index: np.ndarray | slice) -> Digits:
        return Digits(self.images[index], self.labels[index])

    def __len__(self) -> int:
        return len(self.labels)


def read_digits(path: Path) -> Digits:
    """Read an NPZ file with arrays ``images`` (n, ...) and ``labels`` (n,), or a libsvm text file.

    Labels are numbered from 0 in increasing order; those of libsvm's USPS start at 1.
    """
    if path.suffix == ".npz":
        with np.load(path) as file:
            images, labels = file["images"], file["labels"]
    else:
        images, labels = load_svmlight_file(str(path))
        images = images.toarray()
    images = np.asarray(images, dtype=float).reshape(len(labels), -1)
    return Digits(images, np.unique(labels, return_inverse=True)[1])


# Tasks


def indicators(labels: np.ndarray, classes: int) -> np.ndarray:
    """Return indicator vectors (n, classes) of labels."""
    return np.eye(classes)[labels]


def joint(digits: Digits, classes: int) -> np.ndarray:
    """Return images and indicators of labels, (n, pixels + classes)."""
    return np.hstack([digits.images, indicators(digits.labels, classes)])


def log_density_by_label(density: LogDensity, images: np.ndarray, classes: int) -> np.ndarray:
    """Compute the log density of each image with each label, (n, classes)."""
    labels = np.tile(np.arange(classes), len(images))
    rows = joint(Digits(np.repeat(images, classes, axis=0), labels), classes)
    return density(rows).reshape(len(images), classes)


def corrupted_labels(labels: np.ndarray, classes: int, rng: np.random.Generator) -> np.ndarray:
    """Keep the first half of the labels; draw the second half uniformly among wrong labels."""
    half = len(labels) // 2
    shift = rng.integers(1, classes, len(labels))
    shift[:half] = 0
    return (labels + shift) % classes


def auc(values: np.ndarray, labels: np.ndarray, assigned: np.ndarray) -> float:
    """Compute the AUC (%) of densities for detecting wrongly labeled images."""
    densities = values[np.arange(len(assigned)), assigned]
    return 100.0 * float(roc_auc_score(assigned == labels, densities))


def confusion(values: np.ndarray, labels: np.ndarray) -> float:
    """Compute the error rate (%) of the label of highest density."""
    return 100.0 * float(np.mean(np.argmax(values, axis=1) != labels))


# Methods: each yields its settings and the log density of rows with these settings. ``distance`` is
# the median distance between images, the scale of lengthscales of their columns.


def kst(rows: np.ndarray, classes: int, distance: float) -> Iterator[tuple[dict, LogDensity]]:
    """Yield kernel Student-t densities. alpha changes no rank, so it is not tuned."""
    for factor, noise_variance in itertools.product(FACTORS, NOISE_VARIANCES):
        kernel = SquaredExponential(lengthscales(rows, classes, factor * distance))
        density = kernel_student_t(rows, kernel, noise_variance=noise_variance)
        yield {"factor": factor, "noise_variance": noise_variance}, density.log_density


def kde(rows: np.ndarray, classes: int, distance: float) -> Iterator[tuple[dict, LogDensity]]:
    """Yield Gaussian kernel density estimates, with bandwidths proportional to those of ``kst``."""
    for factor, bandwidth in itertools.product(FACTORS, BANDWIDTHS):
        deviations = bandwidth * lengthscales(rows, classes, factor * distance)
        yield {"factor": factor, "bandwidth": bandwidth}, GaussianKDE(rows, deviations)


@dataclasses.dataclass(frozen=True)
class GaussianKDE:
    """Gaussian kernel density estimate by all pairs, up to a constant.

    ``sklearn.neighbors.KernelDensity`` subtracts bounds of the sum of kernels from each other.
    This cancels all digits of values far below the largest, which are common in many columns.
    """

    rows: np.ndarray
    deviations: np.ndarray

    def __call__(self, points: np.ndarray) -> np.ndarray:
        squares = cdist(points / self.deviations, self.rows / self.deviations, "sqeuclidean")
        return logsumexp(-0.5 * squares, axis=1)


def dpm(rows: np.ndarray, classes: int, distance: float) -> Iterator[tuple[dict, LogDensity]]:
    """Yield truncated Dirichlet-process mixtures of Gaussians, fitted by variational inference."""
    scaled = lengthscales(rows, classes, distance)
    pixels = rows.shape[1] - classes
    for columns in (None, PCA_COLUMNS):
        project = Projection(rows, scaled, pixels, columns)
        for covariance, regularization in itertools.product(("diag", "full"), REGULARIZATIONS):
            mixture = BayesianGaussianMixture(
                n_components=min(COMPONENTS, len(rows)),
                covariance_type=covariance,
                reg_covar=regularization,
                weight_concentration_prior_type="dirichlet_process",
                random_state=0,
            )
            with warnings.catch_warnings():
                # A hundred iterations suffice.
                warnings.simplefilter("ignore", ConvergenceWarning)
                mixture.fit(project(rows))
            setting = {"covariance": covariance, "added": regularization, "PCA": columns}
            yield (
                setting,
                lambda points, mixture=mixture, project=project: mixture.score_samples(
                    project(points)
                ),
            )


class Projection:
    """Scale rows, and project images on ``columns`` principal components unless it is None."""

    def __init__(
        self, rows: np.ndarray, scales: np.ndarray, pixels: int, columns: int | None
    ) -> None:
        self.scales, self.pixels = scales, pixels
        num_components = None if columns is None else min(columns, len(rows), pixels)
        self.components = num_components and PCA(num_components, random_state=0).fit(
            (rows / scales)[:, :pixels]
        )

    def __call__(self, points: np.ndarray) -> np.ndarray:
        scaled = points / self.scales
        if self.components is None:
            return scaled
        images = self.components.transform(scaled[:, : self.pixels])
        return np.hstack([images, scaled[:, self.pixels :]])


def lengthscales(rows: np.ndarray, classes: int, image_lengthscale: float) -> np.ndarray:
    """Return lengthscales: ``image_lengthscale`` for pixels and 1 for labels."""
    return np.append(np.full(rows.shape[1] - classes, image_lengthscale), np.ones(classes))


SIDES = {"KST": kst, "KDE": kde, "DPM": dpm}
#: Methods with a factor of the lengthscale, whose value in the paper is one.
FACTOR_METHODS = ("KST", "KDE")
TASKS = ("novelty", "labels")


# One repeat


def run(digits: Digits, training: int, repeat: int, sides: tuple[str, ...]) -> dict:
    """Compute both measures of each method on one random split."""
    rng = np.random.default_rng([repeat, training])
    classes = int(digits.labels.max()) + 1
    order = rng.permutation(len(digits))
    train, validation, test, _ = (
        digits[part] for part in np.split(order, np.cumsum([training, VALIDATION, TEST]))
    )
    rows = joint(train, classes)
    distance = float(np.median(pdist(train.images)))
    assigned = corrupted_labels(validation.labels, classes, rng)
    novel = test[: 2 * NUM_NOVELTY]
    assigned_test = corrupted_labels(novel.labels, classes, rng)
    record: dict = {"training": training, "repeat": repeat}
    for side in sides:
        best: dict[tuple[str, str], tuple[float, dict, LogDensity]] = {}
        for setting, density in SIDES[side](rows, classes, distance):
            values = log_density_by_label(density, validation.images, classes)
            losses = {
                "novelty": -auc(values, validation.labels, assigned),
                "labels": confusion(values, validation.labels),
            }
            names = [side]
            if side in FACTOR_METHODS and setting["factor"] == 1.0:
                names.append(f"{side}, factor 1")
            for name, task in itertools.product(names, TASKS):
                if (name, task) not in best or losses[task] < best[name, task][0]:
                    best[name, task] = losses[task], setting, density
        for (name, task), (_, setting, density) in best.items():
            if task == "novelty":
                values = log_density_by_label(density, novel.images, classes)
                measure = auc(values, novel.labels, assigned_test)
            else:
                measure = confusion(
                    log_density_by_label(density, test.images, classes), test.labels
                )
            record[f"{name} {task}"] = measure
            record[f"{name} {task} setting"] = setting
    printed = {key: value for key, value in record.items() if not key.endswith("setting")}
    print(json.dumps(printed), flush=True)
    return record


# Tables and figure

PUBLISHED = {
    "KST": ("96.82 ± 0.8", "2.15 ± 1.0"),
    "KDE": ("94.56 ± 0.6", "9.24 ± 1.9"),
    "DPM": ("73.56 ± 4.3", "23.85 ± 8.2"),
}


def mean_and_sd(values: np.ndarray) -> str:
    """Format mean and standard deviation."""
    return f"{values.mean():.2f} ± {values.std(ddof=1):.2f}"


def pvalue_against_kst(records: list[dict], name: str, task: str) -> str:
    """Format the p-value of a paired t-test against KST, or a dash for equal values."""
    base, other = (
        np.array([record[f"{side} {task}"] for record in records]) for side in ("KST", name)
    )
    if np.array_equal(base, other):
        return "-"
    return f"{ttest_rel(base, other).pvalue:.2g}"


def comparison_table(records: list[dict]) -> list[dict]:
    """Return a row for each method."""
    names = [key.removesuffix(" novelty") for key in records[0] if key.endswith(" novelty")]
    table = []
    for name in names:
        novelty, labels = PUBLISHED.get(name, ("-", "-"))
        table.append(
            {
                "side": name,
                "AUC %": mean_and_sd(np.array([record[f"{name} novelty"] for record in records])),
                "p (AUC)": pvalue_against_kst(records, name, "novelty"),
                "confusion %": mean_and_sd(
                    np.array([record[f"{name} labels"] for record in records])
                ),
                "p (confusion)": pvalue_against_kst(records, name, "labels"),
                "AUC %, paper, USPS": novelty,
                "confusion %, paper, USPS": labels,
            }
        )
    return table


def size_table(records: list[dict]) -> list[dict]:
    """Return a row for each number of training images, with KST and KDE."""
    table = []
    for size in sorted({record["training"] for record in records}):
        subset = [record for record in records if record["training"] == size]
        line: dict = {"training": size}
        for task, measure in zip(TASKS, ("AUC %", "confusion %"), strict=True):
            for side in ("KST", "KDE"):
                line[f"{side}, {measure}"] = mean_and_sd(
                    np.array([record[f"{side} {task}"] for record in subset])
                )
            line[f"p ({measure.split()[0]})"] = pvalue_against_kst(subset, "KDE", task)
        table.append(line)
    return table


def plot(records: list[dict], data: str, path: Path) -> None:
    """Plot figure 3 of the paper."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    sizes = sorted({record["training"] for record in records})
    figure, panels = plt.subplots(1, 2, figsize=(9.6, 4.0), layout="constrained")
    titles = {"novelty": "novelty detection: AUC (%)", "labels": "labels: confusion (%)"}
    for panel, task in zip(panels, TASKS, strict=True):
        styles = {
            "KST": ("#0072B2", "-", "kernel Student-t"),
            "KST, factor 1": ("#56B4E9", "--", "kernel Student-t, median lengthscale"),
            "KDE": ("#D55E00", "-", "kernel density estimate"),
        }
        for shift, (name, (color, style, label)) in enumerate(styles.items()):
            values = np.array(
                [[r[f"{name} {task}"] for r in records if r["training"] == n] for n in sizes]
            )
            positions = np.array(sizes) * 1.03 ** (shift - 1)
            panel.errorbar(
                positions,
                values.mean(axis=1),
                values.std(axis=1, ddof=1),
                color=color,
                linestyle=style,
                label=label,
                capsize=2,
            )
        panel.set_xscale("log")
        panel.set_xticks(sizes, [str(size) for size in sizes])
        panel.minorticks_off()
        panel.set_xlabel(f"training images of {data}")
        panel.set_title(titles[task])
    panels[1].set_ylim(bottom=0.0)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110)
    print(f"Written: {path}")


def write(
    name: str,
    data: str,
    settings: dict,
    records: list[dict],
    curve: list[dict],
    picture: Path,
    machine: dict,
) -> None:
    """Write both tables and the figure."""
    text = "\n\n".join(
        [
            "Settings: " + ", ".join(f"{key} {value}" for key, value in settings.items()) + ".",
            f"Means ± standard deviations over {len(records)} random splits of {data}; p of paired "
            "t-tests against KST. The splits share images, so that p is too small. `factor 1`: the "
            "median distance as lengthscale, as in the paper. The paper used other data, USPS "
            "with 2000 training images.",
            report.table(comparison_table(records)),
            "By the number of training images:",
            report.table(size_table(curve)),
        ]
    )
    title = f"Kernel Student-t densities of {data}: novelty detection and label reconstruction"
    info = {**machine, "load_average": None}
    content = {"data": data, "settings": settings, "table": records, "by size": curve}
    report.save(report.RESULTS, name, title, info, text, content)
    plot(curve, data, picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--usps", type=Path, help="file of images and labels: NPZ or libsvm text")
    parser.add_argument(
        "--training", type=int, default=TRAINING, help="number of training images in the table"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument(
        "--summary", action="store_true", help="rewrite tables and figure from the recorded results"
    )
    options = parser.parse_args()
    name = "student_t" if options.usps is None else "student_t-usps"
    name += "-quick" * options.quick
    picture = (report.RESULTS if options.quick or options.usps else DOCS) / f"{name}.png"
    if options.summary:
        recorded = json.loads((report.RESULTS / f"{name}.json").read_text())
        write(
            name,
            recorded["data"],
            recorded["settings"],
            recorded["table"],
            recorded["by size"],
            picture,
            recorded["machine"],
        )
        return
    if options.usps is None:
        bunch = load_digits()
        digits, data = Digits(bunch.data, bunch.target), "scikit-learn's digits"
    else:
        digits, data = read_digits(options.usps), options.usps.name
    training, repeats, sizes = options.training, options.repeats, SIZES
    if options.quick:
        training, repeats, sizes = 100, 2, SIZES[:2]
    needed = max(training, *sizes) + VALIDATION + TEST
    if needed > len(digits):
        raise SystemExit(
            f"{data} has {len(digits)} images, and {needed} are needed; pass a larger file "
            "or a smaller --training"
        )
    curve = [run(digits, size, i, FACTOR_METHODS) for size in sizes for i in range(repeats)]
    records = [run(digits, training, i, tuple(SIDES)) for i in range(repeats)]
    settings = {"training": training, "validation": VALIDATION, "test": TEST, "repeats": repeats}
    settings["scikit-learn"] = sklearn.__version__
    write(name, data, settings, records, curve, picture, report.machine())


if __name__ == "__main__":
    main()
