"""The witness of a test, with posterior bands: where the difference lies that it heard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models import EmbeddingPosterior, dependence_posterior
from bke.models.kernels.base import Kernel
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import computing
from ..data.canonical import fingerprint, pairs_fingerprints
from ..data.checks import (
    WITNESS_MATRICES,
    as_sample,
    as_tested_pair,
    check_count,
    check_memory,
    column_names,
)
from ..data.new_rows import as_evaluation_points
from ..testing.result import TestResult
from .draws import (
    by_waves,
    check_noise,
    different_rows,
    equal_draws,
    errors_of_more_rows,
    gaussian_draw,
    posterior_of_sample,
    rows_of_matrices,
)
from .samples import default_points, in_range

DRAWS = 400


def sample_test_witness(
    result: TestResult,
    P: ArrayLike,
    Q: ArrayLike,
    at: ArrayLike | None = None,
    *,
    noise: str | float = "clt",
    draws: int = DRAWS,
    seed: int = 0,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Draws of mu_P - mu_Q at the kernel of a two-sample test, of a combined one the most extreme.

    The bands are those of the embeddings at that one kernel. With the uncertainty of the
    lengthscale: :func:`~bke.inference.fit` and :func:`~bke.inference.sample_witness`.

    Args:
        result: of :func:`~bke.inference.two_sample_test`, or of another test of two samples.
        P: the first sample, shape (m, D) or (m,).
        Q: the second, shape (n, D) or (n,).
        at: points of evaluation (k, D) or (k,); by default a line, a mesh or the data points.
        noise: see :func:`~bke.inference.sample_witness`.
        draws: how many; an even number, or one more.
        seed: of the draws.
        columns: names; by default those of the data.

    Returns:
        A group as that of :func:`~bke.inference.sample_witness`, for
        :func:`~bke.inference.band` and :func:`~bke.inference.plot_witness`.

    Raises:
        InputError: for a test without a kernel, or arguments that make no sense.
    """
    _check_rows(result)
    kernel = _one_kernel(result)
    first, second = as_tested_pair(P, Q)
    _check_tested(result, (fingerprint(first), fingerprint(second)))
    points = default_points(first, second)
    if at is not None:
        points = as_evaluation_points(at, first.shape[1], columns=column_names(P) or columns)
    rows = [rows_of_matrices(Z, kernel, "unit") for Z in (first, second)]
    _check(max(*rows, len(points)), first.shape[1], noise, draws, seed)
    with computing():
        both = [
            _posterior(posterior_of_sample, Z, kernel, points, noise=noise)
            for Z in by_waves((first, second), points, kernel, "unit")
        ]
        mean = both[0].mean - both[1].mean
        covariance = both[0].covariance + both[1].covariance
        if noise == "clt":
            different, where = map(jnp.asarray, (different_rows((first, second)), points))
            for one, Z in zip(both, (first, second), strict=True):
                covariance += errors_of_more_rows(kernel, different, where, one.mean, len(Z))
        values = _draws(EmbeddingPosterior(mean, covariance), draws, seed)
    names = columns or _names(P, first, "c1" if first.shape[1] == 1 else "c")
    sizes = [len(first), len(second)]
    inside = in_range(points, first, second)
    return _group(result, values, points, list(names), inside, sizes, noise, seed)


def sample_dependence_witness(
    result: TestResult,
    X: ArrayLike,
    Y: ArrayLike,
    at: tuple[ArrayLike, ArrayLike] | None = None,
    *,
    noise: str | float = "clt",
    draws: int = DRAWS,
    seed: int = 0,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Draws of the joint embedding less the product of the marginals' at the kernels of a test.

    Positive where pairs are more frequent than they would be if x and y were independent; see
    :func:`~bke.models.dependence_posterior`.

    Args:
        result: of :func:`~bke.inference.independence_test`.
        X: shape (n, D) or (n,).
        Y: shape (n, E) or (n,), row by row with X.
        at: places of x (k, D) and of y (k, E); by default a mesh of the plane, where D = E = 1,
            else the pairs themselves.
        noise: see :func:`~bke.inference.sample_witness`.
        draws: how many; an even number, or one more.
        seed: of the draws.
        columns: names; by default those of the data.

    Returns:
        A group as that of :func:`~bke.inference.sample_witness`, its points the pairs (x, y).

    Raises:
        InputError: for a test without two kernels, or arguments that make no sense.
    """
    _check_rows(result)
    kernels = result.kernel
    if not isinstance(kernels, tuple) or not all(isinstance(one, Kernel) for one in kernels):
        raise InputError("a test of independence with two smooth kernels is needed")
    first, second = as_sample(X, "X"), as_sample(Y, "Y")
    if len(first) != len(second):
        raise InputError(f"X has {len(first)} rows but Y has {len(second)}: pairs are needed")
    _check_tested(result, pairs_fingerprints(first, second))
    split, pairs = first.shape[1], np.concatenate([first, second], axis=1)
    if at is None:
        points = default_points(pairs, pairs) if pairs.shape[1] == 2 else pairs
    else:
        halves = [
            as_evaluation_points(one, Z.shape[1], name, column_names(given))
            for one, Z, given, name in zip(
                at, (first, second), (X, Y), ("at[0]", "at[1]"), strict=True
            )
        ]
        if len(halves[0]) != len(halves[1]):
            raise InputError("at must hold as many places of x as of y")
        points = np.concatenate(halves, axis=1)
    _check(max(len(first), len(points)), pairs.shape[1], noise, draws, seed)
    places = points[:, :split], points[:, split:]
    with computing():
        found = _posterior(dependence_posterior, first, second, *kernels, places, noise=noise)
        values = _draws(found, draws, seed)
    names = list(columns or [*_names(X, first, "x"), *_names(Y, second, "y")])
    label = "joint less product"
    inside, sizes = in_range(points, pairs, pairs), [len(first), len(second)]
    return _group(result, values, points, names, inside, sizes, noise, seed, label)


def _names(values: ArrayLike, sample: np.ndarray, letter: str) -> Sequence[str]:
    count = sample.shape[1]
    plain = [letter] if count == 1 else [f"{letter}{index + 1}" for index in range(count)]
    if count == 1 and isinstance(name := getattr(values, "name", None), str):  # a pandas Series
        return [name]
    return column_names(values) or plain


def _check_tested(result: TestResult, given: tuple[int, ...]) -> None:
    if not result.fingerprints:
        raise InputError(f"there is no witness of a {result.test}")
    if result.fingerprints[:2] != given[:2]:
        raise InputError("the test was of other samples: give those that were tested")
    if result.fingerprints != given:
        raise InputError("the test was of other pairs: give the rows in the order they had")


def _check_rows(result: TestResult) -> None:
    if not isinstance(result, TestResult):
        raise InputError(f"the result of a test is needed, got {type(result).__name__}")
    if result.rows != "independent":
        raise InputError(
            f"the bands of a witness are for independent rows, and this test was of {result.rows}"
        )


def _one_kernel(result: TestResult) -> Kernel:
    if not isinstance(result.kernel, Kernel):
        raise InputError(
            "a witness with bands needs a test of two samples with one smooth kernel, such as "
            "'fused', 'bkl' or SquaredExponential(0.5)"
        )
    return result.kernel


def _check(rows: int, columns: int, noise: Any, draws: int, seed: int) -> None:
    check_noise(noise)
    check_count(draws, "draws", 2)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_memory(rows, columns, matrices=WITNESS_MATRICES)


def _posterior(function: Any, *arguments: Any, noise: Any) -> EmbeddingPosterior:
    try:
        return function(*arguments, noise=noise)
    except (ValueError, ArithmeticError) as error:
        raise InputError(str(error)) from None


_gaussian_draws = jax.jit(jax.vmap(gaussian_draw, in_axes=(0, None)))


def _draws(posterior: EmbeddingPosterior, count: int, seed: int) -> np.ndarray:
    """(count, m), in pairs above and below the mean, so that their mean is the posterior's."""
    keys = jax.random.split(jax.random.key(seed), -(-count // 2))
    half = np.asarray(_gaussian_draws(keys, posterior.covariance))
    return np.asarray(posterior.mean) + np.concatenate([half, -half])


def _group(
    result: TestResult,
    values: np.ndarray,
    points: np.ndarray,
    columns: list[str],
    inside: np.ndarray,
    sizes: list[int],
    noise: Any,
    seed: int,
    label: str | None = None,
) -> xr.DataTree:
    if len(columns) != points.shape[1]:
        raise InputError(f"columns must be {points.shape[1]} names, got {columns}")
    attrs = {
        "method": "test",
        "noise": str(noise),
        "seed": seed,
        "sizes": sizes,
        "title": f"at the kernel of the test, whose {result.pvalue_in_words}",
    }
    if label is not None:  # what is told of no two samples
        attrs["label"] = label
    return equal_draws(values, points, columns, inside, attrs)
