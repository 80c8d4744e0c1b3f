"""Rows as wholes, beside the kernel matrix of all rows."""

import numpy as np
import pytest
from bke.inference.io.types import Column
from bke.inference.tables import joint as module
from bke.inference.tables.aspects import aspects
from bke.inference.tables.dealing import labelling
from bke.inference.tables.features import features
from scipy.spatial.distance import cdist, pdist
from scipy.special import logsumexp


def columns(rng, rows):
    x = rng.normal(size=rows)
    y = np.round(2.0 * x + rng.normal(size=rows))
    y[rng.random(rows) < 0.15] = np.nan
    return [
        Column("x", "number", x),
        Column("y", "integer", y),
        Column("c", "category", rng.integers(3, size=rows).astype(float), ("a", "b", "d")),
    ]


@pytest.mark.parametrize("shifted", [0.0, 0.8])
def test_it_is_the_tilt_with_the_kernel_of_all_rows(shifted):
    """With all rows as nodes the evidence is that of the dense kernel matrix, by eigenvalues."""
    rng = np.random.default_rng(0)
    rows, first = 110, 45
    found = columns(rng, rows)
    found[0].values[first:] += shifted
    dealt = labelling(found, first, 49, 0)
    parts = [features(one.name, aspects(one, np.ones(rows)), np.ones(rows), first) for one in found]
    points = np.concatenate([part.positions(np.arange(rows)) for part in parts], axis=1)
    assert points.var(axis=0).sum() == pytest.approx(3.0, rel=0.1)  # each column counts as one
    labels = dealt.labels[dealt.unit[np.argsort(dealt.row)]]
    share, median = first / rows, np.median(pdist(points)[pdist(points) > 0.0])
    y = (labels - share) / np.sqrt(share * (1.0 - share))
    centre = np.eye(rows) - 1.0 / rows
    logs = []
    for index in range(module.LENGTHSCALES):
        lengthscale = module.LONGEST * median / 2.0**index
        gram = np.exp(-cdist(points, points, "sqeuclidean") / (2.0 * lengthscale**2))
        gram = centre @ gram @ centre
        for size in module.SIZES:
            covariance = np.eye(rows) + size * gram
            fit = y * (y - np.linalg.solve(covariance, y))
            logs.append(0.5 * fit.sum(axis=0))
    logs = np.array(logs)
    z = (logs - logs.mean(axis=1, keepdims=True)) / logs.std(axis=1, keepdims=True)
    found = module.joint(parts, dealt)
    assert found is not None
    most, every = found.each()
    np.testing.assert_allclose(most, z.max(axis=0), atol=1e-4)
    np.testing.assert_allclose(every, logsumexp(z, axis=0), atol=1e-4)
