"""Other two-sample tests for the referee: packages with their defaults, and published formulas.

Tests from formulas compare one or several statistics with 499 permutations. If a paper combines
several kernels by adjusted levels (MMDAgg), the p-value is that of the minimum p-value over the
kernels, by the same permutations: it rejects as the paper's test does, up to the paper's bisection.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable

import numpy as np
from scipy import stats
from scipy.linalg import eigh, eigvalsh
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.spatial.distance import cdist, pdist, squareform

Rng = np.random.Generator
Test = Callable[[np.ndarray, np.ndarray, Rng], float]
PERMUTATIONS = 499


def labels(m: int, n: int, rng: Rng) -> np.ndarray:
    """Return weights (m + n, 1 + B) of differences of means: the observed one and permuted ones."""
    weights = np.concatenate([np.full(m, 1.0 / m), np.full(n, -1.0 / n)])
    drawn = [rng.permutation(weights) for _ in range(PERMUTATIONS)]
    return np.column_stack([weights, *drawn])


def permutation_pvalue(statistics: np.ndarray) -> float:
    """Return the p-value of a statistic (1 + B,), observed and permuted."""
    return float(np.mean(statistics >= statistics[0] - 1e-12 * statistics.std()))


def smallest_pvalue(rows: np.ndarray) -> float:
    """Return the p-value of the minimum p-value of K statistics (K, 1 + B)."""
    ranks = np.array([stats.rankdata(-row, method="max") for row in rows])
    return permutation_pvalue(-ranks.min(axis=0))


def unbiased(gram: np.ndarray, weights: np.ndarray, m: int, n: int) -> np.ndarray:
    """Return unbiased squared MMDs (1 + B,) from a kernel matrix whose diagonal is 1, m = n."""
    assert m == n
    off = gram - np.eye(len(gram))
    same = np.einsum("ij,ij->j", weights, off @ weights)
    # Means within a sample are over m (m - 1) pairs instead of m^2.
    signs = np.sign(weights)
    total = off.sum()
    across = np.einsum("ij,ij->j", signs, off @ signs)
    within = 0.5 * (total + across)
    return np.asarray(same + within * (1.0 / (m * (m - 1)) - 1.0 / m**2))


def quantile_kernels(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return matrices of ten Gaussian and ten Laplace kernels at 5 to 95 % distance quantiles."""
    grams = []
    rows = np.concatenate([x, y])
    for metric, kernel in (
        ("euclidean", lambda d, s: np.exp(-0.5 * (d / s) ** 2)),
        ("cityblock", lambda d, s: np.exp(-d / s)),
    ):
        distances = squareform(pdist(rows, metric))
        positive = distances[distances > 0.0]
        grams += [kernel(distances, s) for s in np.quantile(positive, np.linspace(0.05, 0.95, 10))]
    return grams


def mmds(x: np.ndarray, y: np.ndarray, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Return squared MMDs (20, 1 + B) by kernel, and each kernel's root mean square."""
    m, n = len(x), len(y)
    weights = labels(m, n, rng)
    rows, norms = [], []
    for gram in quantile_kernels(x, y):
        rows.append(unbiased(gram, weights, m, n))
        off = gram - np.eye(m + n)
        norms.append(np.sqrt(np.sum(off**2) / ((m + n) * (m + n - 1))))
    return np.array(rows), np.array(norms)


def fuse(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """MMD-FUSE (Biggs, Schrab and Gretton 2023, eq. 6): a soft maximum of normalized MMDs."""
    rows, norms = mmds(x, y, rng)
    scale = np.sqrt(len(x) * (len(x) - 1.0))
    scaled = scale * rows / norms[:, None]
    top = scaled.max(axis=0)
    return permutation_pvalue(top + np.log(np.mean(np.exp(scaled - top), axis=0)))


def aggregated(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """MMDAgg (Schrab et al. 2023) over the same kernels with equal weights."""
    return smallest_pvalue(mmds(x, y, rng)[0])


def median(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """MMD with a Gaussian kernel at the median distance (Gretton et al. 2012)."""
    rows = np.concatenate([x, y])
    distances = pdist(rows)
    gram = np.exp(-0.5 * (squareform(distances) / np.median(distances[distances > 0])) ** 2)
    return permutation_pvalue(unbiased(gram, labels(len(x), len(y), rng), len(x), len(y)))


def split(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """MMD with a bandwidth selected on half of the rows, by MMD over its sd (Liu et al. 2020)."""
    half = len(x) // 2
    orders = rng.permutation(len(x)), rng.permutation(len(y))
    (a, c), (b, d) = ((z[o[:half]], z[o[half:]]) for z, o in zip((x, y), orders, strict=True))
    scale = np.median(pdist(np.concatenate([a, b])))

    def ratio(length: float) -> float:
        K, L, M = (
            np.exp(-0.5 * cdist(u, v, "sqeuclidean") / length**2)
            for u, v in ((a, a), (b, b), (a, b))
        )
        h = K + L - M - M.T
        np.fill_diagonal(h, 0.0)
        mean = h.sum() / (half * (half - 1.0))
        variance = 4.0 * np.var(h.mean(axis=1))
        return float(mean / np.sqrt(variance + 1e-8))

    length = max(scale * np.geomspace(1.0 / 32.0, 4.0, 15), key=ratio)
    rest = np.concatenate([c, d])
    gram = np.exp(-0.5 * cdist(rest, rest, "sqeuclidean") / length**2)
    return permutation_pvalue(unbiased(gram, labels(len(c), len(d), rng), len(c), len(d)))


def spectral(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """MMD regularized by the spectrum of the pooled covariance (Hagrass et al. 2024), aggregated.

    Tikhonov regularization and Gaussian kernels at three bandwidths; kernel Fisher discriminants
    (Harchaoui, Bach and Moulines 2007).
    """
    rows, weights = np.concatenate([x, y]), labels(len(x), len(y), rng)
    distances = pdist(rows)
    squares = squareform(distances) ** 2
    statistics = []
    for length in np.median(distances[distances > 0]) * np.array([0.25, 0.5, 1.0]):
        gram = np.exp(-0.5 * squares / length**2)
        centered = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
        values, vectors = eigh(centered / len(rows))
        squares_along = (vectors.T @ weights) ** 2 * len(rows) * np.maximum(values, 0.0)[:, None]
        statistics += [
            (squares_along / (np.maximum(values, 0.0) + ridge)[:, None]).sum(axis=0)
            for ridge in 10.0 ** np.arange(-5.0, 1.0)
        ]
    return smallest_pvalue(np.array(statistics))


#: KLR-0 in the tables of its authors: multiples of the median, ridges, and the weight of the other
#: sample in the moments that whiten.
WIDTHS, RIDGES, MIXING_WEIGHT = (0.05, 0.1, 1.0, 5.0, 10.0), 10.0 ** np.arange(-7.0, 1.0), 0.01


def whitened(features: np.ndarray, first: np.ndarray, ridges: np.ndarray) -> np.ndarray:
    """Return squared norms of the whitened difference of two samples' second moments, by ridge.

    Args:
        features: features of all rows, (N, r).
        first: mask of the rows of the first sample, (N,), bool.
        ridges: values that are added to the diagonal of the moments that whiten.
    """
    moments_x, moments_y = (z.T @ z / len(z) for z in (features[first], features[~first]))
    difference, mixture = (
        (1.0 - MIXING_WEIGHT) * (moments_x - moments_y),
        (1.0 - MIXING_WEIGHT) * moments_x + MIXING_WEIGHT * moments_y,
    )
    statistics = []
    for ridge in ridges:
        values = eigvalsh(difference, mixture + ridge * np.eye(len(mixture)), check_finite=False)
        statistics.append(np.sum(np.maximum(values, -1.0) ** 2))
    return np.array(statistics)


def kernel_features(rows: np.ndarray, metric: str, width: float) -> np.ndarray:
    """Return the columns of a kernel matrix in the basis of its eigenvectors, (N, r).

    Eigenvectors are dropped if the mean square of all columns along them is below a millionth of
    the smallest ridge.
    """
    distances = pdist(rows, metric)
    scale = 2.0 * width * np.median(distances[distances > 0.0])
    values, vectors = eigh(np.exp(-squareform(distances) / scale))
    used = values**2 > 1e-6 * RIDGES[0] * len(rows)
    return np.asarray(vectors[:, used] * values[used])


def permutations_exceeded(
    x: np.ndarray,
    y: np.ndarray,
    rng: Rng,
    metric: str = "sqeuclidean",
    max_permutations: int = PERMUTATIONS,
) -> int:
    """Count the consecutive permutations, from the first on, that a statistic of KLR-0 exceeds.

    Santoro and Panaretos 2025 (arXiv 2508.07982). The samples are represented by Gaussian measures
    of mean zero in the space of the kernel; S and T are the second moments of the columns of the
    kernel matrix of the samples. With A = 0.99 S + 0.01 T the statistic is the squared
    Hilbert-Schmidt norm of (A + ridge)^(-1/2) (A - T) (A + ridge)^(-1/2), the leading term of the
    likelihood ratio; eigenvalues below -1 count as -1. A is computed from the permuted sample: each
    permutation has a different whitening. This follows the scripts of the authors' tables, except
    for their bound of the condition number, a ridge of at most 1e-10 of the largest eigenvalue.
    There are 40 statistics, of five bandwidths and eight ridges; a statistic that a permutation has
    reached is not computed for later permutations.

    Args:
        x: first sample, (m, D).
        y: second sample, (n, D).
        rng: generator of the permutations.
        metric: ``sqeuclidean`` for a Gaussian kernel, ``euclidean`` for an exponential one.
        max_permutations: at most 499.

    Returns:
        The largest count over the statistics; ``max_permutations`` if one exceeds all of them.
    """
    first = labels(len(x), len(y), rng)[:, : 1 + max_permutations] > 0.0
    longest = 0
    for width in WIDTHS:
        features = kernel_features(np.concatenate([x, y]), metric, width)
        observed = whitened(features, first[:, 0], RIDGES)
        remaining = np.arange(len(RIDGES))
        for index in range(max_permutations):
            remaining = remaining[
                whitened(features, first[:, 1 + index], RIDGES[remaining]) < observed[remaining]
            ]
            if not len(remaining):
                longest = max(longest, index)
                break
        else:
            return max_permutations
    return longest


def likelihood_ratio(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """KLR-0 with a Gaussian kernel: 0 if a statistic exceeds all permutations, else 1.

    This is the authors' rule. They use 200 permutations of their 40 statistics and publish
    rejection rates of 0.06 to 0.1 for P = Q; with 499 permutations the rate is lower. There is no
    p-value, because most statistics are not computed for all permutations.
    """
    return float(permutations_exceeded(x, y, rng) < PERMUTATIONS)


def neighbors(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Proportion of five nearest neighbors in the same sample (Schilling 1986; Henze 1988)."""
    rows, signs = np.concatenate([x, y]), np.sign(labels(len(x), len(y), rng))
    distances = cdist(rows, rows) + 1e-12 * rng.uniform(size=(len(rows), len(rows)))
    np.fill_diagonal(distances, np.inf)
    near = np.argpartition(distances, 5, axis=1)[:, :5]
    return permutation_pvalue(sum((signs * signs[near[:, k]]).sum(axis=0) for k in range(5)))


def spanning_tree(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Edges between samples in the minimum spanning tree (Friedman and Rafsky 1979)."""
    rows, signs = np.concatenate([x, y]), np.sign(labels(len(x), len(y), rng))
    distances = cdist(rows, rows) + 1e-9 * (1.0 + rng.uniform(size=(len(rows), len(rows))))
    first, second = minimum_spanning_tree(distances).nonzero()
    return permutation_pvalue((signs[first] * signs[second]).sum(axis=0))


def hotelling(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Hotelling's T^2 in closed form; in many columns the permuted norm of the mean difference.

    The latter is the statistic of Bai and Saranadasa (1996), used if there are more columns than
    half of the rows.
    """
    m, n, columns = len(x), len(y), x.shape[1]
    if columns > (m + n) // 2:
        differences = labels(m, n, rng).T @ np.concatenate([x, y])
        return permutation_pvalue(np.sum(differences**2, axis=1))
    difference = x.mean(axis=0) - y.mean(axis=0)
    pooled = ((m - 1) * np.cov(x.T) + (n - 1) * np.cov(y.T)) / (m + n - 2.0)
    pooled = np.atleast_2d(pooled)
    squared = m * n / (m + n) * difference @ np.linalg.pinv(pooled) @ difference
    rank = np.linalg.matrix_rank(pooled)
    return float(
        stats.f.sf(squared * (m + n - rank - 1) / ((m + n - 2) * rank), rank, m + n - rank - 1)
    )


def kolmogorov(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Kolmogorov-Smirnov test of every column (scipy) with Bonferroni's correction."""
    pvalues = [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in zip(x.T, y.T, strict=True)]
    return float(min(1.0, len(pvalues) * min(pvalues)))


def cramer(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Cramer-von Mises test of every column (scipy) with Bonferroni's correction."""
    pairs = zip(x.T, y.T, strict=True)
    pvalues = [stats.cramervonmises_2samp(a, b, method="asymptotic").pvalue for a, b in pairs]
    return float(min(1.0, len(pvalues) * min(pvalues)))


def forest(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Random forest (scikit-learn) trained on half of the rows; rank test of its scores."""
    from sklearn.ensemble import RandomForestClassifier

    rows, of_first = np.concatenate([x, y]), np.arange(len(x) + len(y)) < len(x)
    order = rng.permutation(len(rows))
    train, test = order[::2], order[1::2]
    classifier = RandomForestClassifier(
        200, min_samples_leaf=3, random_state=int(rng.integers(2**31))
    )
    scores = classifier.fit(rows[train], of_first[train]).predict_proba(rows[test])[:, 1]
    first, second = scores[of_first[test]], scores[~of_first[test]]
    return float(stats.mannwhitneyu(first, second, alternative="greater").pvalue)


def energy(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Energy distance (Szekely and Rizzo 2004): an MMD whose kernel is minus the distance."""
    rows, weights = np.concatenate([x, y]), labels(len(x), len(y), rng)
    return permutation_pvalue(-np.einsum("ij,ij->j", weights, cdist(rows, rows) @ weights))


def hyppo_hsic(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """The k-sample test by HSIC of hyppo with its default, the chi-square limit."""
    from hyppo.ksample import KSample

    return float(KSample("Hsic").test(x, y, auto=True)[1])


def compress_then_test(x: np.ndarray, y: np.ndarray, rng: Rng) -> float:
    """Aggregated Compress Then Test (goodpoints) at ten bandwidths: 0 if it rejects, else 1.

    The package returns no p-value. Rows beyond the largest power of four are dropped.
    """
    from goodpoints.ctt import actt

    size = 4 ** int(np.log(len(x)) / np.log(4.0))
    distances = pdist(np.concatenate([x, y]))
    scale = np.median(distances[distances > 0.0])
    with contextlib.redirect_stdout(None):  # the function prints its progress
        result = actt(
            np.ascontiguousarray(x[:size]),
            np.ascontiguousarray(y[:size]),
            g=4,
            lam=scale * np.geomspace(0.1, 4.0, 10),
            weights=np.full(10, 0.1),
            null_seed=int(rng.integers(2**31)),
            statistic_seed=int(rng.integers(2**31)),
        )
    return 1.0 - float(result.rejects)


#: By name of a tool: the test, and the module that it needs.
PEERS: dict[str, tuple[Test, str]] = {
    "energy distance": (energy, "scipy"),
    "HSIC (hyppo)": (hyppo_hsic, "hyppo"),
    "ACTT (goodpoints)": (compress_then_test, "goodpoints"),
    "random forest (scikit-learn)": (forest, "sklearn"),
    "Kolmogorov-Smirnov (scipy)": (kolmogorov, "scipy"),
    "Cramer-von Mises (scipy)": (cramer, "scipy"),
    "Hotelling": (hotelling, "scipy"),
    "MMD-FUSE": (fuse, "scipy"),
    "MMDAgg": (aggregated, "scipy"),
    "MMD, median": (median, "scipy"),
    "MMD, split": (split, "scipy"),
    "spectral MMD": (spectral, "scipy"),
    "KLR": (likelihood_ratio, "scipy"),
    "nearest neighbours": (neighbors, "scipy"),
    "spanning tree": (spanning_tree, "scipy"),
}


def here() -> list[str]:
    """Return the names of the tools whose packages are installed."""
    return [name for name, (_, module) in PEERS.items() if importlib.util.find_spec(module)]
