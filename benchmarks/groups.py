"""Accuracy of classes of groups, and detection of anomalous groups, compared with their moments.

Groups of n rows in two columns have equal means and covariances: normal rows, or points on a circle
with noise. The support measure machine (`SupportMeasureClassifier`) is compared with scikit-learn's
support vector machine on the means of the groups, and on their means and covariances. Anomalies are
groups of circles among groups of normal rows; the area under the ROC curve is that of the scores of
`GroupAnomalyDetector`, and of scikit-learn's one-class machine on means and covariances.
"""

from __future__ import annotations

import argparse

import numpy as np
import repeats
import report
from bke.inference import GroupAnomalyDetector, SupportMeasureClassifier
from bke.models import SquaredExponential
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, OneClassSVM

#: Groups that are fitted, and groups that are classified.
GROUPS = 60
NAMES = (
    "accuracy",
    "accuracy, half the lengthscale",
    "accuracy by means",
    "accuracy by moments",
    "AUC of anomalies",
    "AUC by moments",
)


def draw(n: int, on_circle: bool, rng: np.random.Generator) -> np.ndarray:
    """Draw n rows with mean 0 and covariance I."""
    if not on_circle:
        return rng.normal(size=(n, 2))
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    circle = np.sqrt(2.0) * np.column_stack([np.cos(angle), np.sin(angle)])
    return np.sqrt(0.9) * circle + np.sqrt(0.1) * rng.normal(size=(n, 2))


def moments(groups: list[np.ndarray]) -> np.ndarray:
    """Return means and covariances of groups."""
    return np.array([[*g.mean(axis=0), *np.cov(g.T)[np.triu_indices(2)]] for g in groups])


def scores(n: int, _: int, seeds: range) -> list[list[float]]:
    """Return the entries of ``NAMES`` for each seed."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([seed, n])
        classes = np.arange(2 * GROUPS) % 2
        groups = [draw(n, bool(label), rng) for label in classes]
        (train, test), (y, expected) = np.split(np.arange(2 * GROUPS), 2), np.split(classes, 2)
        fitted, new = [groups[i] for i in train], [groups[i] for i in test]
        row = [
            machine.fit(fitted, y).score(new, expected)
            for machine in (
                SupportMeasureClassifier(C=10.0),
                SupportMeasureClassifier(SquaredExponential(0.8), C=10.0),
            )
        ]
        for features in (lambda g: moments(g)[:, :2], moments):
            machine = make_pipeline(StandardScaler(), SVC(C=10.0))
            row.append(machine.fit(features(fitted), y).score(features(new), expected))
        normal = [draw(n, False, rng) for _ in range(GROUPS)]
        mixed = [draw(n, i % 4 == 0, rng) for i in range(GROUPS)]
        anomalous = np.arange(GROUPS) % 4 == 0
        detector = GroupAnomalyDetector().fit(normal)
        row.append(roc_auc_score(anomalous, -detector.score_samples(mixed)))
        one_class = make_pipeline(StandardScaler(), OneClassSVM(nu=0.1)).fit(moments(normal))
        row.append(roc_auc_score(anomalous, -one_class.score_samples(moments(mixed))))
        results.append([float(value) for value in row])
    return results


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    repeats.add_options(parser, repeats=100, permutations=0)
    options = parser.parse_args()
    sizes = (10, 30, 100)
    if options.quick:
        sizes, options.repeats = sizes[:1], 2
    repeats.fill(
        "groups",
        "Classes and anomalies of groups",
        [{"n": n} for n in sizes],
        scores,
        lambda values: dict(zip(NAMES, values.mean(axis=0).tolist(), strict=True)),
        lambda rows: f"Means over data sets.\n\n{report.table(rows)}",
        options,
    )


if __name__ == "__main__":
    main()
