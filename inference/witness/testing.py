"""Witness functions of tests of two samples and of independence, with credible bands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models import EmbeddingPosterior, dependence_posterior
from bke.models.kernels.base import Kernel
from numpy.typing import ArrayLike

from ..core.errors import InputError, input_errors
from ..core.machine import computing
from ..data import checks
from ..data.canonical import fingerprint, pairs_fingerprints
from ..data.checks import column_names
from ..data.new_rows import as_evaluation_points
from ..testing.result import TestResult
from .draws import (
    check_noise,
    evaluation_points,
    gaussian_draws,
    matrix_size,
    prepare_samples,
    witness_posterior,
    witness_tree,
)


def sample_test_witness(
    result: TestResult,
    P: ArrayLike,
    Q: ArrayLike,
    at: ArrayLike | None = None,
    *,
    noise: str | float = "clt",
    draws: int = 400,
    seed: int = 0,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Draw mu_P - mu_Q at the kernel of a two-sample test, the most significant of several.

    The bands are those of the embeddings at this kernel only. For the uncertainty of the
    lengthscale use :func:`~bke.inference.fit` and :func:`~bke.inference.sample_witness`.

    Args:
        result: result of :func:`~bke.inference.two_sample_test`, or of another test of two samples.
        P: first sample, shape (m, D) or (m,).
        Q: second sample, shape (n, D) or (n,).
        at: points of evaluation (k, D) or (k,). Default: a line, a mesh or the rows.
        noise: see :func:`~bke.inference.sample_witness`.
        draws: number of draws; an odd number is rounded up. Not tuned.
        seed: random seed.
        columns: names; by default those of the data.

    Returns:
        A group as that of :func:`~bke.inference.sample_witness`, for
        :func:`~bke.inference.credible_band` and :func:`~bke.inference.plot_witness`.

    Raises:
        InputError: for a test without a kernel, or invalid arguments.
    """
    first, second = samples = checks.as_tested_pair(P, Q)
    (kernel,) = _smooth_kernels(result, 1, (fingerprint(first), fingerprint(second)))
    points = evaluation_points(at, first, second, column_names(P) or columns)
    known = _names(P, first.shape[1], "c1" if first.shape[1] == 1 else "c")
    names = checks.check_column_names(columns, known)
    rows = max(matrix_size(sample, kernel, "unit") for sample in samples)

    def posterior() -> EmbeddingPosterior:
        prepared = prepare_samples(samples, points, kernel)
        return witness_posterior(prepared, kernel, jnp.asarray(points), noise)

    return _draw(result, posterior, rows, samples, points, names, noise, draws, seed)


def sample_dependence_witness(
    result: TestResult,
    X: ArrayLike,
    Y: ArrayLike,
    at: tuple[ArrayLike, ArrayLike] | None = None,
    *,
    noise: str | float = "clt",
    draws: int = 400,
    seed: int = 0,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Draw the joint embedding minus the product of the marginal ones, at the kernels of a test.

    Positive where pairs are more frequent than if x and y were independent; see
    :func:`~bke.models.dependence_posterior`.

    Args:
        result: result of :func:`~bke.inference.independence_test`.
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), paired with the rows of X.
        at: points of x (k, D) and of y (k, E). Default: a mesh of the plane if D = E = 1, else the
            pairs themselves.
        noise: see :func:`~bke.inference.sample_witness`.
        draws: number of draws; an odd number is rounded up. Not tuned.
        seed: random seed.
        columns: names; by default those of the data.

    Returns:
        A group as that of :func:`~bke.inference.sample_witness`, its points the pairs (x, y).

    Raises:
        InputError: for a test without two kernels, or invalid arguments.
    """
    first, second = checks.as_sample(X, "X"), checks.as_sample(Y, "Y")
    if len(first) != len(second):
        raise InputError(f"X has {len(first)} rows but Y has {len(second)}: pairs are needed")
    kernels = _smooth_kernels(result, 2, pairs_fingerprints(first, second))
    split, pairs = first.shape[1], np.concatenate([first, second], axis=1)
    if at is None:
        points = evaluation_points(None, pairs, pairs[:0])
    else:
        checks.check_same_rows(x=at[0], y=at[1])
        x = as_evaluation_points(at[0], split, "at[0]", column_names(X))
        y = as_evaluation_points(at[1], second.shape[1], "at[1]", column_names(Y))
        if len(x) != len(y):
            raise InputError(f"at must hold as many points of x as of y: {len(x)} and {len(y)}")
        points = np.concatenate([x, y], axis=1)
    known = [*_names(X, split, "x"), *_names(Y, second.shape[1], "y")]
    names = checks.check_column_names(columns, known)

    def posterior() -> EmbeddingPosterior:
        at: Any = tuple(np.split(points, [split], axis=1))
        return dependence_posterior(first, second, kernels[0], kernels[1], at, noise=noise)

    tree = _draw(result, posterior, len(pairs), (pairs, pairs), points, names, noise, draws, seed)
    tree.attrs["label"] = "joint minus product of embeddings"
    return tree


def _draw(
    result: TestResult,
    posterior: Callable[[], EmbeddingPosterior],
    matrix_rows: int,
    samples: tuple[np.ndarray, np.ndarray],
    points: np.ndarray,
    columns: Sequence[str],
    noise: Any,
    draws: int,
    seed: int,
) -> xr.DataTree:
    """Draw from a posterior, in pairs symmetric about its mean, so that their mean is exact."""
    check_noise(noise)
    checks.check_count(draws, "draws", 2)
    checks.check_count(seed, "seed", 0, 2**63 - 1)
    checks.check_memory(
        max(matrix_rows, len(points)), points.shape[1], matrices=checks.WITNESS_MATRICES
    )
    with computing(), input_errors():
        mean, covariance = posterior()
        keys = jax.random.split(jax.random.key(seed), -(-draws // 2))
        errors = np.asarray(jax.jit(gaussian_draws)(keys, covariance))
    values = np.asarray(mean) + np.concatenate([errors, -errors])
    mode, weight = np.zeros((1, len(values)), dtype=int), np.full((1, len(values)), 1 / len(values))
    title = f"at the kernel of the test, whose {result.pvalue_text}"
    attrs = {"method": "test", "noise": str(noise), "seed": seed, "title": title}
    return witness_tree(values[None], mode, weight, points, columns, samples, attrs)


def _names(values: ArrayLike, count: int, letter: str) -> Sequence[str]:
    if count == 1 and isinstance(name := getattr(values, "name", None), str):  # a pandas Series
        return [name]
    default = [letter] if count == 1 else [f"{letter}{index + 1}" for index in range(count)]
    return column_names(values) or default


def _smooth_kernels(
    result: TestResult, count: int, fingerprints: tuple[int, ...]
) -> tuple[Kernel, ...]:
    """Return the kernels of a test of these samples with independent rows and smooth kernels."""
    if not isinstance(result, TestResult):
        raise InputError(f"the result of a test is needed, got {type(result).__name__}")
    if result.rows != "independent":
        raise InputError(
            f"the bands of a witness are for independent rows, and this test was of {result.rows}"
        )
    kernels = result.kernel if isinstance(result.kernel, tuple) else (result.kernel,)
    if len(kernels) != count or not all(isinstance(kernel, Kernel) for kernel in kernels):
        raise InputError(
            "a witness with bands needs a two-sample test with a smooth kernel: pass "
            "statistic='combined', kernel='bkl' or kernel=SquaredExponential(0.5)"
            if count == 1
            else "a test of independence with two smooth kernels is needed"
        )
    if not result.fingerprints:
        raise InputError(f"there is no witness of a {result.test}")
    if result.fingerprints[:2] != fingerprints[:2]:
        raise InputError("the test was of other samples: give those that were tested")
    if result.fingerprints != fingerprints:
        raise InputError("the test was of other pairs: give the rows in the order they had")
    return kernels
