"""Statistics of joint rows, compared with the kernel matrix of all rows."""

import dataclasses

import numpy as np
import pytest
from bke.inference.io.tables import as_table
from bke.inference.io.types import Column
from bke.inference.permutation import null_distribution
from bke.inference.permutation.null_distribution import p_value
from bke.inference.tables import compare_tables as comparison_module, statistics as module
from bke.inference.tables.derived_features import derive_features
from bke.inference.tables.encoding import encode_column
from bke.inference.tables.permuted_labels import permute_labels
from bke.inference.tables.pooling import ReadOptions, Roles, pool_tables
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
def test_bayes_factors_of_rows_are_those_of_the_dense_kernel_matrix(shifted):
    """With all rows as nodes, against linear systems of all rows."""
    rng = np.random.default_rng(0)
    rows, first = 110, 45
    data = columns(rng, rows)
    data[0].values[first:] += shifted
    permuted = permute_labels(data, first, 49, 0)
    parts = [
        encode_column(column.name, derive_features(column, np.ones(rows)), np.ones(rows), first)
        for column in data
    ]
    points = np.concatenate([part.positions(np.arange(rows)) for part in parts], axis=1)
    assert points.var(axis=0).sum() == pytest.approx(3.0, rel=0.1)  # each column counts as one
    labels = permuted.labels[permuted.unit[np.argsort(permuted.row)]]
    fraction, median = first / rows, np.median(pdist(points)[pdist(points) > 0.0])
    y = (labels - fraction) / np.sqrt(fraction * (1.0 - fraction))
    center = np.eye(rows) - 1.0 / rows
    logs = []
    for index in range(module.N_LENGTHSCALES):
        lengthscale = module.MAX_LENGTHSCALE * median / 2.0**index
        gram = np.exp(-cdist(points, points, "sqeuclidean") / (2.0 * lengthscale**2))
        gram = center @ gram @ center
        for size in module.JOINT_VARIANCES:
            covariance = np.eye(rows) + size * gram
            fit = y * (y - np.linalg.solve(covariance, y))
            logs.append(0.5 * fit.sum(axis=0))
    logs = np.array(logs)
    z = (logs - logs.mean(axis=1, keepdims=True)) / logs.std(axis=1, keepdims=True)
    statistics = module.joint_statistics(parts, permuted)
    assert statistics is not None
    most, every = statistics.components()
    np.testing.assert_allclose(most, z.max(axis=0), atol=1e-4)
    np.testing.assert_allclose(every, logsumexp(z, axis=0), atol=1e-4)


def tables(rng, rows):
    x = rng.normal(size=rows)
    return {
        "x": x,
        "y": np.round(2.0 * x + rng.normal(size=rows)),
        "c": rng.choice(list("abd"), rows),
    }


def test_statistics_of_selected_permutations_are_those_of_a_smaller_set(monkeypatch):
    """Some permutations, against tables with these labels only, by exact tail probabilities."""
    monkeypatch.setattr(
        null_distribution, "_approximate_log_tails", null_distribution._neg_log_gamma_tails
    )
    rng = np.random.default_rng(0)
    pair = [as_table(tables(rng, rows), name) for rows, name in ((60, "p"), (45, "q"))]
    data = pool_tables(pair, None, (), ReadOptions({}), Roles())
    all_statistics = comparison_module.evaluate(
        data, 99, 0, Roles(), 0.05, progress=False
    ).statistics
    selected = np.array([0, *range(7, 60, 2)])
    permuted = comparison_module.permute_labels

    def permute_selected(*args, **options):
        every = permuted(*args, **options)
        return dataclasses.replace(every, labels=every.labels[:, selected])

    monkeypatch.setattr(comparison_module, "permute_labels", permute_selected)
    selected_statistics = comparison_module.evaluate(
        data, 99, 0, Roles(), 0.05, progress=False
    ).statistics
    np.testing.assert_allclose(
        all_statistics.select(selected).columns_combined(),
        selected_statistics.columns_combined(),
        rtol=1e-7,
        atol=1e-9,
    )
    np.testing.assert_allclose(
        all_statistics.select(selected).combined(),
        selected_statistics.combined(),
        rtol=1e-7,
        atol=1e-9,
    )
    assert p_value(all_statistics.combined()) != p_value(selected_statistics.combined())
