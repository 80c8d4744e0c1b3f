"""The mean-embedding test: P and Q compared at a few places, where the witness is largest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.stats import f as f_distribution

from ..data.canonical import canonical_order, fingerprint, generator
from ..data.checks import as_sample, as_tested_pair, check_count, check_memory, check_positive
from ..data.units import choose_scale
from ..diagnosis.modes import as_text
from ..errors import InputError
from ..learning.choice import kernels_for
from ..runtime.machine import computing
from .gram import gram
from .notes import kernel_notes
from .permutation import in_batches, p_value, relabellings
from .result import Part, TestResult, check_kernel, check_permutations, name_of
from .two_sample import HYPOTHESES

CHOICES = ("bkl", "posterior", "median")
NULLS = ("permutation", "f")
MATRICES = 10
#: Of the F null, as measured in benchmarks/results/approximations.md.
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
    scale: str | None = "column",
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
        scale: as for :func:`~bke.inference.two_sample_test`.
        seed: of the halves and the permutations; neither depends on the order of the rows.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
    """
    kernel = check_kernel(kernel, CHOICES)
    check_count(locations, "locations", 1)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_positive(regularisation, "regularisation")
    if null not in NULLS:
        raise InputError(f"null must be one of {NULLS}, got {null!r}")
    check_permutations(permutations, alpha)
    samples = as_tested_pair(P, Q)
    if min(map(len, samples)) < 8:
        raise InputError("a test at learned locations needs at least 8 rows in each sample")
    # By the data too: halves of sorted rows that were the same for all data would be halves of
    # fixed ranks, which labels could not change places with.
    rng = generator(seed, *samples, stream=3)
    first, second = [], []
    for sample in samples:
        shuffled = rng.permutation(sample[canonical_order(sample)])
        first.append(shuffled[: len(sample) // 2])
        second.append(shuffled[len(sample) // 2 :])
    train, test = np.concatenate(first), np.concatenate(second)
    as_sample(train, "the half that gives the locations")  # a column may vary in the other only
    check_memory(max(len(train), len(test)), train.shape[1], matrices=MATRICES)
    sizes = len(second[0]), len(second[1])
    with computing():
        (chosen,) = kernels_for(kernel, train[canonical_order(train)], scale, seed)
        matrix = gram(chosen, train)
        witness = matrix[:, : len(first[0])].mean(axis=1) - matrix[:, len(first[0]) :].mean(axis=1)
        places = extrema(train, np.abs(witness), locations, choose_scale(train, scale))
        features = np.asarray(chosen(test, places), dtype=float)
        labels = relabellings(sizes, permutations, generator(seed, test))
        row = hotelling_row(features, labels, regularisation)
        each = [
            hotelling_row(features[:, index : index + 1], labels, regularisation)
            for index in range(len(places))
        ]
    exact = null == "permutation"
    degrees, left = len(places), sum(sizes) - len(places) - 1
    if not exact and left < 1:
        raise InputError(f"{degrees} locations are too many for {sum(sizes)} held-out rows")
    limit = None if exact else hotelling_null(degrees, sum(sizes))
    return TestResult(
        test="mean-embedding test",
        hypotheses=HYPOTHESES,
        statistic=float(row[0]),
        pvalue=p_value(row) if limit is None else float(limit.sf(row[0])),
        null=row[1:] if exact else np.empty(0),
        kernel=chosen,
        how=(f"{permutations} permutations" if exact else f"F with {degrees} and {left} degrees")
        + f", {name_of(kernel)}, {degrees} locations",
        exact=exact,
        alpha=alpha,
        statistic_of="T squared",
        limit=limit,
        parts=tuple(
            Part(f"at {as_text(place)}", float(one[0]), p_value(one), chosen, float(one[0]))
            for place, one in zip(places, each, strict=True)
        ),
        fingerprints=tuple(map(fingerprint, samples)),
        notes=(*kernel_notes([chosen]), *([] if exact else [LOW])),
    )


def extrema(points: np.ndarray, height: np.ndarray, count: int, unit: np.ndarray) -> np.ndarray:
    """The highest of ``points`` (N, D), no two nearer than :data:`APART` over ``unit``, (J, D)."""
    left = np.argsort(-height, kind="stable")
    chosen: list[int] = []
    while len(left) and len(chosen) < count:
        chosen.append(int(left[0]))
        distance = cdist(points[left] / unit, points[left[:1]] / unit)[:, 0]
        left = left[distance > APART]
    return np.asarray(points[chosen])


def hotelling_null(degrees: int, rows: int) -> Any:
    """Distribution of T squared for normal features: J (N - 2) / (N - J - 1) F(J, N - J - 1)."""
    left = rows - degrees - 1
    return f_distribution(degrees, left, scale=degrees * (rows - 2) / left)


def hotelling_row(features: np.ndarray, labels: np.ndarray, regularisation: float) -> np.ndarray:
    """The statistic for every column of ``labels`` (N, 1 + B), of features (N, J).

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
