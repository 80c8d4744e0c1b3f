"""Mean-embedding test: a test of P = Q at a few locations where the witness is largest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import f as f_distribution

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.canonical import generator
from ..data.checks import check_count, check_memory, check_positive
from ..diagnostics.modes import format_values
from ..permutation.null_distribution import check_permutations, in_batches, p_value
from ..permutation.samples import TwoSamples
from .kernels import SINGLE_KERNELS, KernelChoice, gram
from .result import TestComponent, TestResult, kernel_notes
from .two_sample import HYPOTHESES

#: Note on the F null distribution, measured in benchmarks/results/approximations.md.
CONSERVATIVE_NOTE = (
    "with this null distribution the test may be conservative: at level 0.05 true null hypotheses "
    "are rejected in 0.5 to 5 % of cases"
)
#: Smallest distance between two locations, in pooled standard deviations per column.
MIN_DISTANCE = 0.1


def mean_embedding_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    kernel: Any = "bkl",
    locations: int = 5,
    method: str = "permutation",
    n_resamples: int = 999,
    regularization: float = 1e-5,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
) -> TestResult:
    """Test P = Q where the empirical witness is largest (MMD-16, Chwialkowski et al., 2015).

    A random half of each sample determines the kernel and the locations. The statistic of the other
    half is d' (S (1/m + 1/n) + g I)^-1 d, with the difference d of the embeddings at the locations
    and their pooled covariance S. If the locations were learned from the tested rows, the level
    would be exceeded several times over. Permutations of the held-out half make it exact.

    Args:
        P: sample of P, shape (m, D) or (m,).
        Q: sample of Q, shape (n, D) or (n,).
        kernel: ``"bkl"``, ``"posterior"``, ``"median"``, selected from the first halves, or a
            kernel.
        locations: number J of locations; fewer if the first half has no more distinct locations.
        method: method for the null distribution, ``"permutation"`` or ``"f"``, that of Hotelling's
            T squared, which is an approximation because features are not normal. (The chi-square
            limit rejects far too often in small samples.)
        n_resamples: number of permutations.
        regularization: ridge g, relative to the mean variance of the features over all rows.
        alpha: level of the test.
        standardize: as for :func:`~bke.inference.two_sample_test`.
        seed: random seed of the halves and of the permutations. The order of rows has no influence.

    Raises:
        InputError: for invalid data or arguments.
    """
    choice = KernelChoice.checked(kernel, SINGLE_KERNELS, standardize)
    check_count(locations, "locations", 1)
    check_positive(regularization, "regularization")
    check_choice(method, "method", ("permutation", "f"))
    alpha = check_permutations(n_resamples, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    pair = TwoSamples.checked(P, Q)
    train, test = _split(pair, seed)
    with computing():
        (selected,) = choice.kernels(train.pooled)
        matrix, m = gram(selected, train.pooled), len(train.first)
        witness = matrix[:, :m].mean(axis=1) - matrix[:, m:].mean(axis=1)
        scales = choice.scales(train.pooled)
        points = highest_points(train.pooled, np.abs(witness), locations, scales)
        sample = test.permute_labels(n_resamples, test.generator(seed))
        labels = sample.labels
        features = np.asarray(selected(sample.points, points), dtype=float)
        values = permuted_t_squared(features, labels, regularization)
        parts = []
        for point, feature in zip(points, features.T, strict=True):
            at_point = permuted_t_squared(feature[:, None], labels, regularization)
            observed = float(at_point[0])
            name = f"at {format_values(point)}"
            parts.append(TestComponent(name, observed, p_value(at_point), selected, observed))
    attributes: dict[str, Any] = {
        "test": "mean-embedding test",
        "hypotheses": HYPOTHESES,
        "kernel": selected,
        "alpha": alpha,
        "statistic_label": "T squared",
        "components": tuple(parts),
        "fingerprints": pair.fingerprints,
    }
    num_locations, notes = len(points), kernel_notes([selected])
    options = f"{choice}, {num_locations} locations"
    if method == "permutation":
        return TestResult.from_permutations(
            values,
            method=f"{n_resamples} permutations, {options}",
            exact=True,
            notes=notes,
            **attributes,
        )
    rows = sum(test.sizes)
    error_degrees = rows - num_locations - 1
    if error_degrees < 1:
        raise InputError(f"{num_locations} locations are too many for {rows} held-out rows")
    return TestResult.from_limit(
        float(values[0]),
        hotelling_null(num_locations, rows),
        method=f"F with {num_locations} and {error_degrees} degrees of freedom, {options}",
        notes=(*notes, CONSERVATIVE_NOTE),
        **attributes,
    )


def _split(pair: TwoSamples, seed: int) -> tuple[TwoSamples, TwoSamples]:
    """Split each sample into random halves, for learning and for testing.

    Raises:
        InputError: for few rows, or a column that is constant in the first halves.
    """
    if min(pair.sizes) < 8:
        raise InputError("a test at learned locations needs at least 8 rows in each sample")
    # The split must depend on the data: a fixed split of the sorted rows would consist of fixed
    # ranks, which are not exchangeable with the labels.
    shuffled = pair.shuffled(generator(seed, pair.pooled, stream=3))
    train = TwoSamples(*(sample[: len(sample) // 2] for sample in shuffled))
    test = TwoSamples(*(sample[len(sample) // 2 :] for sample in shuffled))
    if (constant := np.flatnonzero(np.ptp(train.pooled, axis=0) == 0.0)).size:
        raise InputError(
            f"column {constant[0] + 1} has one value in the random half that gives the locations: "
            "drop it, or take another seed"
        )
    check_memory(max(sum(train.sizes), sum(test.sizes)), train.pooled.shape[1], matrices=1)
    return train, test


def highest_points(
    points: np.ndarray, heights: np.ndarray, count: int, scales: np.ndarray
) -> np.ndarray:
    """Choose the highest points of a function, at a minimum distance from each other.

    Args:
        points: points, (N, D).
        heights: values of the function, (N,).
        count: largest number of points to choose.
        scales: units of the distances per column, (D,).
    """
    candidates = np.argsort(-heights, kind="stable")
    chosen: list[int] = []
    while len(candidates) and len(chosen) < count:
        chosen.append(int(candidates[0]))
        distances = cdist(points[candidates] / scales, points[candidates[:1]] / scales)[:, 0]
        candidates = candidates[distances > MIN_DISTANCE]
    return np.asarray(points[chosen])


def hotelling_null(locations: int, rows: int) -> Any:
    """Return the null distribution of T squared for normal features.

    With J locations and N rows it is that of J (N - 2) / (N - J - 1) F(J, N - J - 1).
    """
    error_degrees = rows - locations - 1
    return f_distribution(locations, error_degrees, scale=locations * (rows - 2) / error_degrees)


def permuted_t_squared(
    features: np.ndarray, labels: np.ndarray, regularization: float
) -> np.ndarray:
    """Compute the T squared statistic of features for every column of labels.

    The covariance is pooled from both samples about their own means, so that it does not grow with
    the difference. It changes with the labels.

    Args:
        features: features, (N, J).
        labels: 1 for rows of the first sample, (N, 1 + B).
        regularization: ridge, relative to the mean variance of the features over all rows.

    Returns:
        Statistics, (1 + B,).
    """
    m = int(labels[:, 0].sum())
    n = len(labels) - m
    centered = features - features.mean(axis=0)
    scatter = centered.T @ centered
    rate = 1.0 / m + 1.0 / n
    # From the total scatter: equal for all columns, and positive if any feature varies.
    ridge = regularization * float(np.trace(scatter)) / (m + n - 2) * rate / len(scatter)
    if ridge == 0.0:
        return np.zeros(labels.shape[1])

    def batch(columns: slice) -> np.ndarray:
        z = labels[:, columns]
        sums = centered.T @ z  # first sample; the second sample has the negatives
        difference = sums * rate
        # The within-sample scatter is the total less that between, sums sums' (1/m + 1/n).
        between = rate * np.einsum("jb,kb->bjk", sums, sums)
        covariance = (scatter - between) / (m + n - 2) * rate
        covariance += ridge * np.eye(len(scatter))
        solved = np.linalg.solve(covariance, difference.T[:, :, None])[:, :, 0]
        return np.asarray(np.sum(difference.T * solved, axis=1))

    return in_batches(batch, labels.shape[1], 8 * (len(labels) + 4 * len(scatter) ** 2))
