"""Bayes factors of a Gaussian process regression on the labels, at many scales.

Let f be the density of the pooled rows, c the fraction of the first sample, p = f (1 + (1 - c) h)
and q = f (1 - c h). A row at z is from P with probability ``c + c (1 - c) h(z)``, so that its
standardized label is ``g(z) = sqrt(c (1 - c)) h(z)`` plus noise of variance 1, approximately. With
``g ~ GP(0, s^2 k)``, centered over the rows, the labels are N(0, I + s^2 Q), and N(0, I) if P = Q:

    log BF(l, s) = 1/2 sum_i (b_i^2 s^2 lambda_i / (1 + s^2 lambda_i) - log(1 + s^2 lambda_i))

with the eigenvalues lambda of the centered kernel matrix Q and the labels b along its
eigenvectors. Only the labels given the rows are modeled: there is no Jacobian factor, and the
number of columns and ties do not matter. As s -> 0 it is the squared MMD of the kernel. With
larger s it whitens, and detects small differences in directions where the rows vary little.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from threading import Event
from typing import ClassVar, Self

import numpy as np

from ..core.machine import side_by_side
from ..permutation.combination import generalized_mean
from ..permutation.null_distribution import standardize
from ..permutation.pooled_sample import FeatureSums, PooledSample, Request, RowSubset
from .base import Columns, Evaluation, Statistic
from .eigendecomposition import (
    Eigendecomposition,
    KernelAtNodes,
    decompose,
    decompose_kernel,
    inverse_root,
)
from .kernels import (
    LARGE_SAMPLE,
    KernelFamily,
    KernelFeatures,
    Scale,
    choose_nodes,
    test_scales,
)

#: Prior variances s^2 of a difference.
VARIANCES = np.geomspace(1e-4, 1e4, 5)
#: Order of the generalized mean of p-values over all scales, with opposite sign.
SCALES_ORDER = 2.0
#: Number of nodes of the kernel for one column, and for more. Not tuned: the time is about
#: proportional to their number, and more of them do not change the power by much.
LINE_NODES, NODES = 128, 192
#: Number of rows that give the products of features of very many rows.
PRODUCT_ROWS = 2**13


def label_log_bayes_factors(decomposition: Eigendecomposition, variances: np.ndarray) -> np.ndarray:
    """Evaluate log BF at one lengthscale for all variances s^2 and labels, (S, 1 + B), nats."""
    determinants = np.log1p(np.outer(variances, decomposition.eigenvalues)).sum(
        axis=1, keepdims=True
    )
    return label_fits(decomposition, variances) - 0.5 * determinants


def label_fits(decomposition: Eigendecomposition, variances: np.ndarray) -> np.ndarray:
    """Evaluate the terms of log BF that depend on the labels, (S, 1 + B)."""
    weights = 0.5 * variances[:, None] / (1.0 + np.outer(variances, decomposition.eigenvalues))
    squares = np.square(decomposition.loadings)
    if decomposition.excess is not None:
        squares[:, 0] -= decomposition.excess
    return np.asarray(weights @ squares)


@dataclasses.dataclass(frozen=True)
class LabelBayesFactors(Statistic):
    """Log Bayes factors of a difference for several kernels and variances.

    Attributes:
        scales: kernels; each is combined with all variances.
    """

    scales: tuple[Scale, ...]
    components: ClassVar = (("at one scale", 1.0), ("at all scales together", 1.0))

    @classmethod
    def choose(cls, sample: PooledSample) -> Self:
        """Choose the scales."""
        return cls(tuple(test_scales(sample)))

    def most_significant(self, values: np.ndarray) -> Scale:
        """Return the kernel with the largest standardized value, for the observed labels."""
        return self.scales[int(np.argmax(standardize(values)[:, 0])) // len(VARIANCES)]

    def summarize(self, values: np.ndarray, columns: Columns) -> list[np.ndarray]:
        """Return the largest standardized value, and the generalized mean of all p-values.

        The largest standardized value favors long lengthscales, whose distribution has the longest
        tail, which helps to detect shifts. p-values favor no lengthscale.
        """
        largest = columns.standardize(values).max(axis=0)
        return [largest, generalized_mean(columns.neg_log_pvalues(values), SCALES_ORDER)]

    def evaluate(
        self, sample: PooledSample, advance: Callable[[int], None] | None = None
    ) -> Evaluation:
        """Evaluate the terms of the Bayes factors that depend on the labels, (K S, 1 + B)."""
        if len(sample.points) > LARGE_SAMPLE and sample.is_independent:
            evaluation = super().evaluate(sample)
            if advance is not None:
                advance(len(self.scales))
            return evaluation
        nodes = self._nodes(sample)

        def fits(index: int) -> np.ndarray:
            family, lengthscale = self.scales[index]
            kernel = KernelAtNodes.of(family.function, nodes[family], lengthscale)
            decomposition = decompose_kernel(sample, kernel)
            if advance is not None:
                advance(1)
            return label_fits(decomposition, VARIANCES)

        return self.collect(side_by_side(fits, len(self.scales), Event()))

    def requests(self, sample: PooledSample) -> list[Request[np.ndarray]]:
        """Request the sums of a few kernels of one family at a time, for independent rows.

        The products of features, which take most of the time, are those of some rows.
        """
        nodes = self._nodes(sample)
        subset = RowSubset.of(sample, PRODUCT_ROWS)
        return [
            _request(sample, family.at(nodes[family], *run), subset) for family, run in self._runs()
        ]

    def _runs(self) -> list[tuple[KernelFamily, tuple[float, ...]]]:
        """Return the lengthscales of each family that are evaluated together."""
        return [
            (family, run)
            for family, scales in itertools.groupby(self.scales, lambda scale: scale.family)
            for run in family.runs(scale.lengthscale for scale in scales)
        ]

    def _nodes(self, sample: PooledSample) -> dict[KernelFamily, np.ndarray]:
        """Choose the nodes of the kernels of each family."""
        max_nodes = LINE_NODES if sample.points.shape[1] == 1 else NODES
        is_large = len(sample.points) > LARGE_SAMPLE
        return {
            family: choose_nodes(
                sample, int(max_nodes * family.node_fraction) if is_large else max_nodes
            )
            for family in dict.fromkeys(scale.family for scale in self.scales)
        }


def _request(
    sample: PooledSample, features: KernelFeatures, subset: RowSubset
) -> Request[np.ndarray]:
    """Request the Bayes factors of several kernels at the same nodes, (L S, 1 + B)."""
    count = len(features.nodes)
    roots = [inverse_root(values) for values in features.iterate(features.nodes)]

    def finish(sums: FeatureSums) -> np.ndarray:
        fits = []
        for index, (root, values) in enumerate(
            zip(roots, features.iterate(subset.points), strict=True)
        ):
            block = slice(index * count, (index + 1) * count)
            total = sums.total[block] @ root
            first = root.T @ sums.first[block]
            moments = subset.moments(sample, first, total, values @ root)
            fits.append(label_fits(decompose(moments), VARIANCES))
        return np.concatenate(fits)

    return Request(features, count * len(roots), finish)
