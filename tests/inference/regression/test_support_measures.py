"""Support measure machines against their kernel written as sums, and scikit-learn's checks."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import GroupAnomalyDetector, InputError, SupportMeasureClassifier
from bke.models import SquaredExponential
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC, OneClassSVM
from sklearn.utils.estimator_checks import check_estimator

KERNEL = SquaredExponential(1.3)


def draw_groups(seed, count=30):
    """Groups of means 0 and variances 1: normal rows, or signs with the same two moments."""
    rng = np.random.default_rng(seed)
    classes = np.arange(count) % 2
    groups = [
        np.sign(rng.normal(size=(size, 2))) if label else rng.normal(size=(size, 2))
        for label, size in zip(classes, rng.integers(5, 30, count), strict=True)
    ]
    return groups, np.where(classes == 1, "signs", "normal")


def mean_kernel(first, second):
    """Mean of k(x, y) over all pairs, by loops."""
    return np.mean([[np.exp(-np.sum((x - y) ** 2) / (2 * 1.3**2)) for y in second] for x in first])


def kernel_matrix(first, second, lengthscale):
    """The kernel of equation (3.42), by the definition of the squared MMD."""
    squared = [
        [mean_kernel(p, p) + mean_kernel(q, q) - 2 * mean_kernel(p, q) for q in second]
        for p in first
    ]
    return np.exp(-np.array(squared) / (2 * lengthscale**2))


def test_machines_are_those_of_the_kernel_of_the_paper():
    groups, classes = draw_groups(0, 16)
    new = draw_groups(1, 6)[0]
    train, test = kernel_matrix(groups, groups, 0.4), kernel_matrix(new, groups, 0.4)
    classifier = SupportMeasureClassifier(KERNEL, lengthscale=0.4, C=2.0).fit(groups, classes)
    expected = SVC(kernel="precomputed", C=2.0).fit(train, classes).decision_function(test)
    np.testing.assert_allclose(classifier.decision_function(new), expected, atol=1e-6)
    detector = GroupAnomalyDetector(KERNEL, lengthscale=0.4, nu=0.2).fit(groups)
    expected = OneClassSVM(kernel="precomputed", nu=0.2).fit(train).decision_function(test)
    np.testing.assert_allclose(detector.decision_function(new), expected, atol=1e-6)
    assert set(detector.predict(new)) <= {-1, 1}


def test_defaults_are_the_median_distances():
    groups, classes = draw_groups(2, 8)
    classifier = SupportMeasureClassifier().fit(groups, classes)
    rows = np.concatenate(groups)
    scaled = rows / rows.std(axis=0)
    upper = np.triu_indices(len(rows), 1)
    distances = np.linalg.norm(scaled[:, None] - scaled, axis=2)[upper]
    median = np.median(distances[distances > 1e-12])
    assert float(classifier.kernel_.lengthscale) == pytest.approx(median)
    parts = np.split(scaled, np.cumsum([len(group) for group in groups])[:-1])
    gram = np.exp(-(np.linalg.norm(scaled[:, None] - scaled, axis=2) ** 2) / (2 * median**2))
    labels = np.repeat(np.arange(8), [len(part) for part in parts])
    means = np.array([(labels == g) / np.sum(labels == g) for g in range(8)])
    products = means @ gram @ means.T
    squared = products.diagonal()[:, None] + products.diagonal() - 2 * products
    expected = np.sqrt(np.median(squared[np.triu_indices(8, 1)]))
    assert classifier.lengthscale_ == pytest.approx(expected)


def test_shapes_of_groups_are_classified():
    """Groups of equal means and covariances: at least 35 of 40 right, seeds 3 and 4."""
    groups, classes = draw_groups(3, 60)
    new, expected = draw_groups(4, 40)
    classifier = SupportMeasureClassifier(SquaredExponential(0.5), C=10.0).fit(groups, classes)
    assert classifier.score(new, expected) >= 35 / 40
    # Their means alone say nothing.
    means = np.array([group.mean(axis=0) for group in groups])
    at_means = SVC().fit(means, classes).score([group.mean(axis=0) for group in new], expected)
    assert at_means < 0.75


def test_an_anomalous_group_of_ordinary_rows_is_detected():
    """All rows of the last group are values of other groups, in another mixture; seed 5."""
    rng = np.random.default_rng(5)
    groups = [
        rng.choice([-2.0, 2.0], size=30)[:, None] + rng.normal(size=(30, 1)) for _ in range(40)
    ]
    anomaly = 2.0 + rng.normal(size=(30, 1))
    detector = GroupAnomalyDetector(nu=0.05).fit(groups)
    assert detector.predict([anomaly])[0] == -1
    scores = detector.score_samples([*groups, anomaly])
    assert np.argmin(scores) == 40
    assert np.mean(detector.predict(groups) == 1) >= 0.8


def test_forms_of_groups_are_equal():
    groups, classes = draw_groups(6, 12)
    expected = SupportMeasureClassifier(KERNEL).fit(groups, classes).decision_function(groups)
    frame = pd.DataFrame(np.concatenate(groups), columns=["a", "b"])
    frame["group"] = np.repeat([f"g{i}" for i in range(12)], [len(group) for group in groups])
    frame["class"] = np.repeat(classes, [len(group) for group in groups])
    by_row = SupportMeasureClassifier(KERNEL).fit(
        frame[["a", "b", "group"]], frame["class"], groups="group"
    )
    values = by_row.decision_function(frame[["b", "group", "a"]], groups="group")
    np.testing.assert_allclose(values, expected)
    labels = dict(zip(frame["group"].unique(), classes, strict=True))
    by_label = clone(by_row).fit({f"g{i}": group for i, group in enumerate(groups)}, labels)
    np.testing.assert_allclose(by_label.decision_function(groups), expected)


def test_scikit_learn_selects_parameters():
    groups, classes = draw_groups(7, 24)
    ragged = np.empty(24, dtype=object)
    ragged[:] = groups
    assert cross_val_score(SupportMeasureClassifier(), ragged, classes, cv=3).mean() > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [SupportMeasureClassifier(), GroupAnomalyDetector()])
def test_scikit_learn_accepts_the_estimators(estimator):
    check_estimator(estimator, on_skip=None)


def test_invalid_input_raises_an_error():
    groups, classes = draw_groups(8, 6)
    classifier = SupportMeasureClassifier()
    with pytest.raises(InputError, match="there are 6 groups"):
        classifier.fit(groups, classes[:5])
    with pytest.raises(InputError, match="different lengths"):
        classifier.fit([[1.0, 2.0], [3.0]], [0, 1])
    with pytest.raises(InputError, match="differs between rows of group 'u'"):
        classifier.fit(np.ones((3, 1)), ["a", "b", "a"], groups=["u", "u", "v"])
    with pytest.raises(InputError, match="1 columns, and those of fit 2"):
        classifier.fit(groups, classes).predict([np.ones((3, 1))])
    with pytest.raises(InputError, match="requires y"):
        classifier.fit(groups, None)
