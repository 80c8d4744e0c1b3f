"""Kernel tests of conditional independence: KCI, and the normalized conditional covariance.

X is independent of Y given Z if and only if residuals of functions of (X, Z) after regression on Z
are uncorrelated with those of functions of Y (Daudin 1980). The statistics sum the squared
covariances of such residuals over an orthonormal basis of functions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import Bounds, minimize

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.canonical import canonical_order, generator, random_part
from ..data.checks import check_count, check_memory, pluralize
from ..permutation.null_distribution import (
    check_permutations,
    describe_count,
    in_batches,
    in_stages,
    small_sample_note,
    without_rounding,
)
from ..permutation.scheme import PermutationScheme
from .kernels import SINGLE_KERNELS, KernelChoice, center, check_not_degenerate, gram
from .residuals import MIN_RESIDUAL_VARIANCE, NOTHING_LEFT
from .result import TestResult, kernel_notes
from .variables import paired_samples, variable_notes

HYPOTHESES_GIVEN_Z = (
    "no evidence that x and y depend on each other given z",
    "x and y depend on each other given z",
)
#: Methods for the null distribution of each statistic, the default first.
METHODS = {"kci": ("local permutation", "gamma"), "normalized": ("local permutation",)}
#: Largest number of rows from which a regression is learned. Not tuned.
LEARNED_ROWS = 200
#: Bounds of the lengthscales of the regressions, in standard deviations of a column of z, and of
#: epsilon. A column with the longest lengthscale has no influence.
LENGTHSCALES, RATIOS = (1e-2, 1e3), (1e-6, 1e3)
#: Rows with equal z are a cluster if they are at least this many; a part of the other rows is
#: divided if it has twice as many. In 40 data sets of 100 rows in three settings, 3 and 5 rejected
#: equally often within 0.05.
CLUSTER_ROWS = 5
#: The regularization of the normalized statistic is RIDGE n^-0.25, since its consistency requires
#: that it vanishes, and more slowly than n^(-1/3) (Fukumizu et al. 2008). Of 0.001, 0.01 and 0.1
#: the last had the most power in 40 data sets of 100 rows.
RIDGE = 0.1
#: Computes a statistic for one permutation (n,) of the rows of x.
PermutedStatistic: TypeAlias = Callable[[np.ndarray], float]


def kernel_test(
    X: ArrayLike,
    Y: ArrayLike,
    Z: ArrayLike,
    *,
    statistic: str = "kci",
    method: str | None = None,
    kernel: Any = "median",
    n_resamples: int = 999,
    sequential: bool = True,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TestResult:
    """Test that X and Y are independent given Z by KCI or by its normalized variant.

    See :func:`~bke.inference.conditional_independence_test`.
    """
    check_choice(statistic, "statistic", tuple(METHODS))
    method = METHODS[statistic][0] if method is None else method
    check_choice(method, "method", METHODS["kci"])
    if method not in METHODS[statistic]:
        raise InputError(
            f"the null distribution of statistic={statistic!r} is not known: pass "
            "method='local permutation'"
        )
    per_variable = kernel if isinstance(kernel, tuple) else (kernel,) * 3
    if len(per_variable) != 3:
        raise InputError(
            f"kernel must be one for all variables or a tuple of 3, got {len(per_variable)}"
        )
    choices = [KernelChoice.checked(k, SINGLE_KERNELS, standardize) for k in per_variable]
    check_count(seed, "seed", 0, 2**63 - 1)
    alpha = check_permutations(n_resamples, alpha, method=method)
    variables = {"X": X, "Y": Y, "Z": Z}
    samples = paired_samples(variables)
    n = len(samples[0])
    check_memory(n, sum(sample.shape[1] for sample in samples), matrices=16)
    order = canonical_order(np.concatenate(samples, axis=1))
    # Rows are in order of y and z, and of x only among ties: otherwise the subsample of a
    # regression would depend on x, and permutations of x would not be exact.
    order = order[canonical_order(np.concatenate(samples[1:], axis=1)[order])]
    z = samples[2][order]
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    # Columns are sorted by their values, up to rounding: ties between them must not be broken by
    # their order.
    z = z[:, np.lexsort(np.round(z[::-1], 9))]
    with computing(), progress_bar("variables", 3, show=progress) as advance:
        kernels, grams = [], []
        for choice, sample in zip(choices, samples, strict=True):
            (selected,) = choice.kernels(sample)
            kernels.append(selected)
            grams.append(gram(selected, sample[order]))
            check_not_degenerate(grams[-1])
            advance(1)
    attributes: dict[str, Any] = {
        "test": "kernel conditional independence test",
        "hypotheses": HYPOTHESES_GIVEN_Z,
        "kernel": tuple(kernels),
        "alpha": alpha,
        "statistic_label": "KCI" if statistic == "kci" else "normalized conditional covariance",
    }
    gram_x, gram_y, gram_z = grams
    if statistic == "normalized":
        gram_y = gram_y * gram_z
    with computing():
        operator = residual_operator(gram_y, z, "Y given Z", seed)
        if method == "gamma":
            gram_xz = gram_x * gram_z
            operator_x = residual_operator(gram_xz, z, "X given Z", seed)
            value, limit = gamma_limit(
                residual_gram(gram_xz, operator_x), residual_gram(gram_y, operator)
            )
            result = TestResult.from_limit(value, limit, method="gamma limit", **attributes)
        else:
            permuted = permuted_kci if statistic == "kci" else permuted_normalized
            result = local_permutation_test(
                *permuted(gram_x, gram_y, gram_z, operator),
                z,
                partial(generator, seed, *samples),
                n_resamples,
                sequential=sequential,
                progress=progress,
                **attributes,
            )
    notes = variable_notes(variables, samples, independent_rows=True)
    return dataclasses.replace(
        result,
        method=f"{result.method}, {' and '.join(dict.fromkeys(map(str, choices)))}",
        notes=(*kernel_notes(kernels), *result.notes, *notes),
    )


def local_permutation_test(
    statistic: PermutedStatistic,
    magnitude: float,
    z: np.ndarray,
    rng: Callable[[], np.random.Generator],
    n_resamples: int,
    *,
    sequential: bool,
    progress: bool,
    **attributes: Any,
) -> TestResult:
    """Test by permutations of x within clusters of similar z.

    Args:
        statistic: computes the statistic for a permutation (n,) of the rows of x.
        magnitude: size of the terms of the statistic.
        z: standardized conditioning variable, (n, E).
        rng: creates the random number generator.
        n_resamples: largest number of permutations.
        sequential: stop early.
        progress: show a progress bar.
        **attributes: attributes of the result.
    """
    n = len(z)
    clusters = local_clusters(z)
    sizes = np.bincount(clusters)
    scheme = PermutationScheme.independent(np.arange(n), clusters)
    clusters_text = pluralize(len(sizes), "cluster")
    num_permutations = math.prod(
        PermutationScheme("pairings", size).n_distinct for size in sizes.tolist()
    )

    def evaluate(count: int) -> TestResult:
        permutations = np.vstack([np.arange(n), scheme.draw(count, rng()).T])
        with progress_bar("permutations", len(permutations), show=progress) as advance:

            def batch(indices: slice) -> np.ndarray:
                values = np.array([statistic(rows) for rows in permutations[indices]])
                advance(len(values))
                return values

            values = in_batches(batch, len(permutations), 24 * n * n)
        return TestResult.from_permutations(
            without_rounding(values, magnitude),
            method=f"{describe_count(count, n_resamples)} within {clusters_text}",
            exact=len(np.unique(np.column_stack([clusters, z]), axis=0)) == len(sizes),
            notes=small_sample_note(num_permutations, attributes["alpha"]),
            **attributes,
        )

    return in_stages(evaluate, n_resamples, attributes["alpha"], sequential=sequential)


def residual_operator(gram_matrix: np.ndarray, z: np.ndarray, name: str, seed: int) -> np.ndarray:
    """Learn the regression of the features of a kernel on z, and compute R_Z.

    The features share a squared exponential kernel K_Z with one lengthscale per column of z, and a
    ratio epsilon of the noise variance to the amplitude. These maximize the marginal likelihood of
    a Gaussian process of all features (Zhang et al. 2011). R_Z = epsilon (K_Z + epsilon I)^-1 maps
    features to residuals. K_Z is not centered, since K_Z + epsilon I is the covariance matrix of
    that process.

    Args:
        gram_matrix: Gram matrix of the features (n, n), rows in canonical order.
        z: standardized conditioning variable, (n, E).
        name: name of the regression, for messages.
        seed: random seed of the subsample of more than :data:`LEARNED_ROWS` rows.

    Returns:
        R_Z, (n, n).

    Raises:
        InputError: if z determines the features.
    """
    rows = random_part(np.arange(len(z))[:, None], LEARNED_ROWS, seed)[:, 0]
    objective = partial(_objective, center(gram_matrix[np.ix_(rows, rows)]), _squares(z[rows]))
    starts = [
        np.log([*[lengthscale] * z.shape[1], epsilon])
        for lengthscale in np.geomspace(0.1, 10.0, 6)
        for epsilon in (0.05, 0.5)
    ]
    start = min(starts, key=lambda logs: objective(logs)[0])
    bounds = Bounds(*np.log([*[LENGTHSCALES] * z.shape[1], RATIOS]).T)
    learned = minimize(objective, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    epsilon = np.exp(learned[-1])
    covariance = np.exp(-0.5 * np.tensordot(np.exp(-2.0 * learned[:-1]), _squares(z), 1))
    operator = epsilon * scipy.linalg.inv(covariance + epsilon * np.eye(len(z)))
    operator = 0.5 * (operator + operator.T)
    leave_one_out = np.diagonal(residual_gram(gram_matrix, operator)) / np.diagonal(operator) ** 2
    if leave_one_out.mean() < MIN_RESIDUAL_VARIANCE * np.diagonal(center(gram_matrix)).mean():
        raise InputError(f"{name}: {NOTHING_LEFT}")
    return np.asarray(operator)


def _squares(z: np.ndarray) -> np.ndarray:
    """Compute squared differences of rows (n, E), (E, n, n)."""
    return np.asarray((z.T[:, :, None] - z.T[:, None, :]) ** 2)


def _objective(
    scatter: np.ndarray, squares: np.ndarray, logs: np.ndarray
) -> tuple[float, np.ndarray]:
    """Compute minus twice the log marginal likelihood per feature, and its gradient.

    It is n log tr(A^-1 S) + log |A| at the best amplitude, up to a constant, with
    A = K_Z + epsilon I. The number of features has no influence.

    Args:
        scatter: centered Gram matrix S of the features, (n, n).
        squares: squared differences of each column of z, (E, n, n).
        logs: logarithms of the lengthscales and of epsilon, (E + 1,).
    """
    n = len(scatter)
    scales, epsilon = np.exp(-2.0 * logs[:-1]), np.exp(logs[-1])
    covariance = np.exp(-0.5 * np.tensordot(scales, squares, 1))
    lower = scipy.linalg.cholesky(covariance + epsilon * np.eye(n), lower=True)
    inverse = scipy.linalg.cho_solve((lower, True), np.eye(n))
    product = inverse @ scatter
    trace = np.trace(product)
    value = n * np.log(trace) + 2.0 * np.sum(np.log(np.diagonal(lower)))
    weights = inverse - n / trace * product @ inverse
    gradient = scales * np.tensordot(squares, weights * covariance, 2)
    return float(value), np.append(gradient, epsilon * np.trace(weights))


def residual_gram(gram_matrix: np.ndarray, operator: np.ndarray) -> np.ndarray:
    """Compute R H K H R, the inner products of residuals of centered features, (n, n)."""
    return np.asarray(operator @ center(gram_matrix) @ operator)


def gamma_limit(first: np.ndarray, second: np.ndarray) -> tuple[float, Any]:
    """Compute KCI and the gamma approximation of its null distribution (CI-2).

    The statistic is tr(A B) / n, and its limit is a weighted sum of chi-squared variables with mean
    sum_i A_ii B_ii / n and variance 2 sum_ij (A_ij B_ij)^2 / n^2 (Zhang et al. 2011).

    Args:
        first: inner products A of the residuals of (x, z), (n, n).
        second: those of y, B.

    Returns:
        The statistic, and the distribution.
    """
    n = len(first)
    products = first * second
    mean, variance = np.trace(products) / n, 2.0 * np.sum(products**2) / n**2
    return float(products.sum() / n), stats.gamma(mean**2 / variance, scale=variance / mean)


def local_clusters(z: np.ndarray) -> np.ndarray:
    """Divide rows into clusters of similar z, (n,), by z alone.

    Values that at least :data:`CLUSTER_ROWS` rows have are clusters. The other rows are divided at
    the middle of the column with the widest range until a part has fewer than twice as many rows.

    Args:
        z: standardized conditioning variable, (n, E).

    Returns:
        Number of the cluster of each row.
    """
    _, clusters, counts = np.unique(z, axis=0, return_inverse=True, return_counts=True)
    clusters = clusters.ravel()
    rare = np.flatnonzero(counts[clusters] < CLUSTER_ROWS)
    pending = [rare] if len(rare) else []
    number = len(counts)
    while pending:
        rows = pending.pop()
        # Ranges that differ by rounding are tied.
        column = np.argmax(np.round(np.ptp(z[rows], axis=0), 9))
        rows = rows[np.argsort(z[rows, column])]
        # Equal values stay together, so that the clusters depend on nothing but z.
        steps: np.ndarray = np.flatnonzero(np.diff(z[rows, column]) > 0.0) + 1
        if len(rows) < 2 * CLUSTER_ROWS or not len(steps):
            clusters[rows] = number
            number += 1
        else:
            pending += np.split(rows, [steps[np.argmin(np.abs(steps - 0.5 * len(rows)))]])
    return np.unique(clusters, return_inverse=True)[1].ravel()


def permuted_kci(
    gram_x: np.ndarray, gram_y: np.ndarray, gram_z: np.ndarray, operator: np.ndarray
) -> tuple[PermutedStatistic, float]:
    """Return the function that computes tr(R K_XZ R R K_Y R) / n, and the size of its terms.

    K_XZ is the centered product of the Gram matrices of x and z, and K_Y is centered.

    Args:
        gram_x: Gram matrix of x, whose rows and columns are permuted, (n, n).
        gram_y: Gram matrix of y.
        gram_z: Gram matrix of z.
        operator: R_Z, which must not depend on x.
    """
    weights = gram_z * center(operator @ residual_gram(gram_y, operator) @ operator) / len(gram_x)
    magnitude = float(np.abs(gram_x).max() * np.abs(weights).sum())
    return lambda rows: float(np.vdot(gram_x[np.ix_(rows, rows)], weights)), magnitude


def permuted_normalized(
    gram_x: np.ndarray, gram_yz: np.ndarray, gram_z: np.ndarray, operator: np.ndarray
) -> tuple[PermutedStatistic, float]:
    """Return the function that computes the normalized variant (CI-1), and the size of its terms.

    The squared Hilbert-Schmidt norm of the normalized conditional cross-covariance operator of
    (x, z) and (y, z) given z (KME (4.26)) is tr(A R B R), with A = K_XZ (K_XZ + n epsilon I)^-1 for
    the centered Gram matrix K_XZ of (x, z), and B of (y, z) in the same way. R is the learned
    regression in place of one with the same epsilon.

    Args:
        gram_x: Gram matrix of x, whose rows and columns are permuted, (n, n).
        gram_yz: Gram matrix of (y, z).
        gram_z: Gram matrix of z. That of (x, z) is the product with that of x.
        operator: R_Z, which must not depend on x.
    """
    ridge = RIDGE * len(gram_x) ** 0.75 * np.eye(len(gram_x))

    def normalized(gram_matrix: np.ndarray) -> np.ndarray:
        centered = center(gram_matrix)
        return np.asarray(scipy.linalg.solve(centered + ridge, centered, assume_a="pos"))

    weights = operator @ normalized(gram_yz) @ operator

    def statistic(rows: np.ndarray) -> float:
        return float(np.vdot(normalized(gram_x[np.ix_(rows, rows)] * gram_z), weights))

    return statistic, float(np.trace(weights))
