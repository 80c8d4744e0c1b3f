"""The mean-embedding test: P and Q compared at a few places, where the witness is largest."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import f as f_distribution

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.canonical import generator
from ..data.checks import as_sample, check_count, check_memory, check_positive
from ..diagnostics.modes import format_values
from ..learning import SingleKernel
from ..permutation.enough import check_permutations
from ..permutation.pair import Pair
from ..permutation.permutation import in_batches, p_value
from .gram import gram
from .kernel_choice import SINGLE, KernelChoice
from .notes import kernel_notes
from .result import Part, TestResult
from .two_sample import HYPOTHESES

CHOICES: tuple[str, ...] = get_args(SingleKernel)
NULLS = ("permutation", "f")
MATRICES = 1
#: What is said of the F null, as measured in benchmarks/results/approximations.md.
LOW = "by this null the test may reject too seldom: at level 0.05 a true null 0.5 to 5 times in 100"
#: Two locations are no nearer than this, in units of the pooled standard deviation per column.
APART = 0.1


def mean_embedding_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    kernel: Any = "bkl",
    locations: int = 5,
    null: str = "permutation",
    permutations: int = 999,
    regularisation: float = 1e-5,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
) -> TestResult:
    """Test P = Q at the extrema of the empirical witness (MMD-16, Chwialkowski et al., 2015).

    A random half of each sample gives the kernel and the locations, the other half the statistic
    d' (S (1/m + 1/n) + g I)^-1 d, with d the difference of the embeddings at the locations and S
    their pooled covariance. Chosen from the rows they are tested on, locations would make the
    level several times too high. The held-out half is permuted, so the level is exact.

    Args:
        P: sample of P, shape (m, D) or (m,).
        Q: sample of Q, shape (n, D) or (n,).
        kernel: ``"bkl"``, ``"posterior"``, ``"median"``, of the first halves, or a kernel.
        locations: J, how many; fewer where the first half has no more places apart.
        null: ``"permutation"``, or ``"f"``, that of Hotelling's T squared, an approximation, for
            features are not normal. (The chi-square limit rejects far too often in small samples.)
        permutations: how many.
        regularisation: g, over the mean diagonal of the covariance.
        alpha: level of the verdict.
        standardize: as for :func:`~bke.inference.two_sample_test`.
        seed: of the halves and the permutations; neither depends on the order of the rows.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    choice = KernelChoice.checked(kernel, SINGLE, standardize)
    check_count(locations, "locations", 1)
    check_positive(regularisation, "regularisation")
    check_choice(null, "null", NULLS)
    alpha = check_permutations(permutations, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    pair = Pair.checked(P, Q)
    train, test = _halves(pair, seed)
    with computing():
        chosen, places = _locations(train, choice, locations)
        labelled = test.relabelled(permutations, test.generator(seed))
        features, labels = np.asarray(chosen(labelled.rows, places), dtype=float), labelled.labels
        row = hotelling_row(features, labels, regularisation)
        parts = [
            _part(place, chosen, hotelling_row(feature[:, None], labels, regularisation))
            for place, feature in zip(places, features.T, strict=True)
        ]
    told = f"{choice}, {len(places)} locations"
    result = TestResult.permuted(
        row,
        test="mean-embedding test",
        hypotheses=HYPOTHESES,
        kernel=chosen,
        how=f"{permutations} permutations, {told}",
        exact=True,
        alpha=alpha,
        statistic_of="T squared",
        parts=tuple(parts),
        fingerprints=pair.fingerprints,
        notes=kernel_notes([chosen]),
    )
    return result if null == "permutation" else _by_f(result, len(places), sum(test.sizes), told)


def _halves(pair: Pair, seed: int) -> tuple[Pair, Pair]:
    """A random half of each sample to learn from, and the others to test.

    Raises:
        InputError: for few rows, or a column that varies in the tested half alone.
    """
    if min(pair.sizes) < 8:
        raise InputError("a test at learned locations needs at least 8 rows in each sample")
    # By the data too: halves of sorted rows that were the same for all data would be halves of
    # fixed ranks, which labels could not change places with.
    rng = generator(seed, pair.pooled, stream=3)
    shuffled = pair.shuffled(rng)
    train = Pair(*(sample[: len(sample) // 2] for sample in shuffled))
    test = Pair(*(sample[len(sample) // 2 :] for sample in shuffled))
    as_sample(train.pooled, "the half that gives the locations")
    check_memory(max(sum(train.sizes), sum(test.sizes)), train.pooled.shape[1], matrices=MATRICES)
    return train, test


def _locations(train: Pair, choice: KernelChoice, count: int) -> tuple[Any, np.ndarray]:
    """The kernel of the half that is learned from, and where its witness is largest, (J, D)."""
    (kernel,) = choice.kernels(train.pooled)
    matrix, m = gram(kernel, train.pooled), len(train.first)
    witness = matrix[:, :m].mean(axis=1) - matrix[:, m:].mean(axis=1)
    unit = choice.unit(train.pooled)
    return kernel, extrema(train.pooled, np.abs(witness), count, unit)


def _part(place: np.ndarray, kernel: Any, row: np.ndarray) -> Part:
    """The statistic at one location, for all permutations (1 + B,)."""
    return Part(f"at {format_values(place)}", float(row[0]), p_value(row), kernel, float(row[0]))


def _by_f(result: TestResult, degrees: int, rows: int, told: str) -> TestResult:
    """The same statistic with the null of Hotelling's T squared, an approximation."""
    left = rows - degrees - 1
    if left < 1:
        raise InputError(f"{degrees} locations are too many for {rows} held-out rows")
    limit = hotelling_null(degrees, rows)
    return dataclasses.replace(
        result,
        pvalue=float(limit.sf(result.statistic)),
        null=np.empty(0),
        how=f"F with {degrees} and {left} degrees, {told}",
        exact=False,
        limit=limit,
        notes=(*result.notes, LOW),
    )


def extrema(points: np.ndarray, height: np.ndarray, count: int, unit: np.ndarray) -> np.ndarray:
    """Choose the highest of ``points`` (N, D), :data:`APART` from each other over ``unit``."""
    left = np.argsort(-height, kind="stable")
    chosen: list[int] = []
    while len(left) and len(chosen) < count:
        chosen.append(int(left[0]))
        distance = cdist(points[left] / unit, points[left[:1]] / unit)[:, 0]
        left = left[distance > APART]
    return np.asarray(points[chosen])


def hotelling_null(degrees: int, rows: int) -> Any:
    """The null of T squared for normal features: J (N - 2) / (N - J - 1) F(J, N - J - 1)."""
    left = rows - degrees - 1
    return f_distribution(degrees, left, scale=degrees * (rows - 2) / left)


def hotelling_row(features: np.ndarray, labels: np.ndarray, regularisation: float) -> np.ndarray:
    """Evaluate the statistic of features (N, J) for every column of ``labels`` (N, 1 + B).

    The covariance is that of each sample about its own mean, pooled, so that it does not grow with
    the difference; it changes with the labels.
    """
    m = int(labels[:, 0].sum())
    n = len(labels) - m
    centred = features - features.mean(axis=0)
    total = centred.T @ centred
    rate = 1.0 / m + 1.0 / n
    # Of the total, so that it is the same for all columns, and never zero where anything varies.
    ridge = regularisation * float(np.trace(total)) / (m + n - 2) * rate / len(total)
    if ridge == 0.0:
        return np.zeros(labels.shape[1])

    def one(columns: slice) -> np.ndarray:
        z = labels[:, columns]
        sums = centred.T @ z  # of the first sample; the second's is minus that
        difference = sums * rate
        # The scatter within is the total less that between, sums sums' (1/m + 1/n).
        between = rate * np.einsum("jb,kb->bjk", sums, sums)
        covariance = (total - between) / (m + n - 2) * rate
        covariance += ridge * np.eye(len(total))
        solved = np.linalg.solve(covariance, difference.T[:, :, None])[:, :, 0]
        return np.asarray(np.sum(difference.T * solved, axis=1))

    return in_batches(one, labels.shape[1], 8 * (len(labels) + 4 * len(total) ** 2))
