"""How much variance is added in all directions, by the marginal likelihood, and the regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data.canonical import canonical_order
from .coordinates import Coordinates
from .features import Means
from .linear import Average, averaged, regression

#: What may be added to the covariance within groups, as shares of its largest variance.
SHARES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
#: Groups by which it is chosen.
MOST_GROUPS = 1000


class Learned(NamedTuple):
    """A regression in its coordinates.

    Attributes:
        share: what was added to the covariance within groups, of its largest variance.
        coordinates: in which it is.
        average: slopes and variances.
        shrinkage: whether embeddings are known up to a posterior.
    """

    share: float
    coordinates: Coordinates
    average: Average
    shrinkage: bool

    def predicted(self, means: Means) -> tuple[np.ndarray, np.ndarray]:
        """The mean (G,) of y of groups, and its variance in parts (3, G)."""
        return self.average.predicted(*self.coordinates.embedded(means, self.shrinkage))


def learned(means: Means, y: np.ndarray, shrinkage: bool, seed: int) -> Learned:
    """Learn coordinates and slopes.

    Args:
        means: of the groups.
        y: (G,), with mean 0 and deviation 1 or so.
        shrinkage: whether embeddings are known up to a posterior.
        seed: which groups choose, where there are many.
    """
    order = canonical_order(means.values)
    some = np.random.default_rng([seed, 47]).permutation(len(y))[:MOST_GROUPS]
    part, targets = means.of(order[some]), y[order[some]]
    found = [_with(part, targets, shrinkage, share) for share in SHARES]
    # Nothing to regress on may be the likeliest, and is no regression.
    found = [one for one in found if len(one.coordinates.spread)] or found
    best = found[int(np.argmax([one.average.evidence for one in found]))]
    return best if len(part.counts) == len(y) else _with(means, y, shrinkage, best.share)


def _with(means: Means, y: np.ndarray, shrinkage: bool, share: float) -> Learned:
    coordinates = Coordinates.of(means, share)
    centre, variance = coordinates.embedded(means, shrinkage)
    average = averaged(regression(centre, variance, y), variance, y)
    return Learned(share, coordinates, average, shrinkage)
