"""Statistics that compare groups of batches of draws, and their permutation distributions.

Parameters are transformed to normal scores over all draws, so that the statistics do not depend on
scales and are not dominated by heavy tails. Their components are the four moments of a smooth test
(Neyman 1937) for each parameter, correlations of all pairs, and a kernel of all parameters.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..learning.bandwidths import pairwise_distances
from ..permutation.null_distribution import exceedances, generalized_mean, neg_log_tails
from ..permutation.scheme import PermutationScheme
from .batches import Batches, normal_scores

#: Components for one column: Hermite polynomials of its scores, orthonormal for a normal variable.
MOMENTS = ("location", "spread", "skewness", "tails")
#: All components, in the order of statistics.
COMPONENTS = (*MOMENTS, "correlations", "all parameters together")
#: Lengthscales of the kernel, as multiples of the median distance of the scores.
SCALES = (0.25, 0.5, 1.0, 2.0)
#: Largest number of columns of which all pairs are compared.
MAX_PAIRED_COLUMNS = 100
#: Largest number of rows of the kernel matrix, and of entries of a block of it.
MAX_KERNEL_ROWS, BLOCK_ENTRIES = 4000, 2**22
#: Number of batches per half of a chain, from which scores are standardized within halves.
MIN_HALF_BATCHES = 6


class BatchFeatures(NamedTuple):
    """Means of features over the rows of each of q batches.

    Attributes:
        moments: (orders, q, D) Hermite polynomials of each column.
        products: (q, k) products of the scores of two columns, which are standardized within each
            half of each chain, or within each batch if there are few batches. k is 0 for a single
            column or more than 100 columns.
        grams: (scales, q, q) kernel between two batches.
    """

    moments: np.ndarray
    products: np.ndarray
    grams: np.ndarray

    def select(self, batches: np.ndarray) -> BatchFeatures:
        """Return the features of the batches with the given indices."""
        grams = self.grams[:, batches][:, :, batches]
        return BatchFeatures(self.moments[:, batches], self.products[batches], grams)


def batch_features(rows: np.ndarray, batches: Batches) -> BatchFeatures:
    """Compute the means of all features over batches.

    Args:
        rows: (N, D) draws, batch after batch, without constant columns.
        batches: division of the rows.
    """
    scores = normal_scores(rows)
    polynomials = np.stack(
        [
            scores,
            (scores**2 - 1.0) / math.sqrt(2.0),
            (scores**3 - 3.0 * scores) / math.sqrt(6.0),
            (scores**4 - 6.0 * scores**2 + 3.0) / math.sqrt(24.0),
        ]
    )
    shape = (batches.count, batches.length, -1)
    first, second = column_pairs(scores.shape[1])
    products = np.empty((batches.count, len(first)))
    for index, batch in enumerate(_standardize_parts(scores, batches).reshape(shape)):
        products[index] = (batch.T @ batch / batches.length)[first, second]
    moments = polynomials.reshape(len(MOMENTS), *shape).mean(axis=2)
    return BatchFeatures(moments, products, _batch_grams(scores, batches))


def column_pairs(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the second column of each pair that is compared."""
    first, second = np.triu_indices(columns if columns <= MAX_PAIRED_COLUMNS else 0, 1)
    return first, second


def _standardize_parts(scores: np.ndarray, batches: Batches) -> np.ndarray:
    """Standardize scores (N, D) within each part of each chain.

    Means of their products are then correlations, which do not depend on means and standard
    deviations. Parts are halves of chains. With few batches, they are single batches: batches of
    one half share its mean, and this dependence would invalidate permutations of few batches.
    """
    result = np.empty_like(scores).reshape(
        batches.num_chains, batches.per_chain, batches.length, -1
    )
    chains = scores.reshape(result.shape)
    middle = batches.per_chain - batches.per_chain // 2
    edges = tuple(range(batches.per_chain + 1))
    if middle >= MIN_HALF_BATCHES:
        edges = (0, middle, batches.per_chain)
    for chain, values in enumerate(chains):
        for part in map(slice, edges[:-1], edges[1:]):
            rows = values[part].reshape(-1, scores.shape[1])
            deviation = rows.std(axis=0)
            standardized = (rows - rows.mean(axis=0)) / np.where(deviation > 1e-12, deviation, 1.0)
            result[chain, part] = standardized.reshape(values[part].shape)
    return result.reshape(scores.shape)


def _batch_grams(scores: np.ndarray, batches: Batches) -> np.ndarray:
    """Compute mean squared exponentials (scales, q, q) over the rows of two batches."""
    rows, thinned = batches.thin(MAX_KERNEL_ROWS)
    points = scores[rows]
    median = float(np.median(pairwise_distances(points, 0)))
    x, lengthscales = jnp.asarray(points), jnp.asarray(median * np.array(SCALES))
    grams = np.empty((len(SCALES), batches.count, batches.count))
    for block, block_rows in thinned.blocks(BLOCK_ENTRIES):
        grams[:, block] = _gram_block(x[block_rows], x, lengthscales, thinned.length)
    return grams


@functools.partial(jax.jit, static_argnames="length")
def _gram_block(x: Any, y: Any, lengthscales: Any, length: int) -> jax.Array:
    squares = jnp.sum(x**2, axis=1)[:, None] + jnp.sum(y**2, axis=1) - 2.0 * x @ y.T
    squares = jnp.maximum(squares, 0.0)

    def batch_means(lengthscale: jax.Array) -> jax.Array:
        matrix = jnp.exp(-0.5 * squares / lengthscale**2)
        rows, columns = matrix.shape
        return matrix.reshape(rows // length, length, columns // length, length).mean((1, 3))

    block: jax.Array = jax.lax.map(batch_means, lengthscales)
    return block


class GroupStatistics(NamedTuple):
    """Squared distances between groups of batches, for the observed and B permuted labels.

    The last axis of each array is over labels, the observed ones first.

    Attributes:
        pairs: (p, 2) indices of the two groups of each pair.
        components: (components, p, 1 + B) distances of each pair, see :data:`COMPONENTS`.
        columns: (orders, D, 1 + B) distances of each column, summed over the pairs.
        products: (k, 1 + B) distances of each product of two columns, summed over the pairs.
    """

    pairs: np.ndarray
    components: np.ndarray
    columns: np.ndarray
    products: np.ndarray

    def combined(self) -> np.ndarray:
        """Combine all components, summed over pairs, (1 + B,)."""
        return generalized_mean(neg_log_tails(self.components.sum(axis=1)))

    def strongest_component(self) -> str:
        """Return the first of the components with the smallest p-value.

        A chain at another location also has heavy tails, and its statistic of tails is further
        beyond the permuted ones. Location comes first, so that it wins the tie of p-values.
        """
        rows = neg_log_tails(self.components.sum(axis=1))
        return COMPONENTS[int(np.argmin([exceedances(row)[0] for row in rows]))]

    def by_pair(self) -> np.ndarray:
        """Combine all components for each pair of groups, (p, 1 + B)."""
        return generalized_mean(neg_log_tails(self.components))

    def by_column(self) -> np.ndarray:
        """Combine all moments for each column, (D, 1 + B)."""
        return generalized_mean(neg_log_tails(self.columns))


def group_statistics(
    features: BatchFeatures, labels: np.ndarray, pairs: list[tuple[int, int]]
) -> GroupStatistics:
    """Compute squared distances between groups of batches for all labels.

    Args:
        features: features of q batches.
        labels: (q, 1 + B) group of each batch; the sizes of groups are the same in all columns.
        pairs: indices of the groups that are compared.
    """
    members = [(labels == group).astype(float) for group in range(int(labels.max()) + 1)]
    weights = [member / float(member[:, 0].sum()) for member in members]
    *moments, products = (
        _squared_differences(feature, weights, pairs)
        for feature in (*features.moments, features.products)
    )
    # Inner products of the mean embeddings of two groups, (scales, 1 + B).
    embeddings = [np.stack([gram @ weight for gram in features.grams]) for weight in weights]
    inner = {
        (a, b): np.einsum("qd,sqd->sd", weights[a], embeddings[b])
        for a, b in itertools.combinations_with_replacement(range(len(weights)), 2)
    }
    kernels = np.zeros((len(pairs), labels.shape[1]))
    for index, (a, b) in enumerate(pairs):
        squares = inner[a, a] + inner[b, b] - 2.0 * inner[a, b]
        # Distances at short lengthscales are much smaller, so each is divided by its deviation.
        deviation = squares.std(axis=1, keepdims=True)
        kernels[index] = np.sum(squares / np.where(deviation > 0.0, deviation, 1.0), axis=0)
    return GroupStatistics(
        np.array(pairs),
        np.stack([*(by_pair for by_pair, _ in moments), products[0], kernels]),
        np.stack([by_feature for _, by_feature in moments]),
        products[1],
    )


def _squared_differences(
    features: np.ndarray,
    weights: list[np.ndarray],
    pairs: list[tuple[int, int]],
    entries: int = 2**23,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute squared differences of the means of two groups.

    Args:
        features: (q, k).
        weights: (q, 1 + B) for each group.
        pairs: indices of the groups.
        entries: maximum number of means in memory at once.

    Returns:
        The sums (p, 1 + B) over features, and the sums (k, 1 + B) over pairs.
    """
    resamples, count = weights[0].shape[1], features.shape[1]
    by_pair, by_feature = np.zeros((len(pairs), resamples)), np.zeros((count, resamples))
    step = max(1, entries // (len(weights) * resamples))
    for start in range(0, count, step):
        part = slice(start, start + step)
        means = [features[:, part].T @ weight for weight in weights]
        for index, (a, b) in enumerate(pairs):
            squares = (means[a] - means[b]) ** 2
            by_pair[index] += squares.sum(axis=0)
            by_feature[part] += squares
    return by_pair, by_feature


def permute_labels(labels: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Permute labels within strata.

    Args:
        labels: (S, m) observed labels of m batches in each of S strata.
        count: number of permutations B.
        rng: random number generator.

    Returns:
        (S m, 1 + B) labels, the observed ones first.
    """
    observed = labels.ravel()
    scheme = PermutationScheme.independent(observed, np.indices(labels.shape)[0].ravel())
    return np.column_stack([observed, scheme.draw(count, rng)])
