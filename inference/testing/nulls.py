"""Null distributions beside permutation: approximations, for speed or for dependent data."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import eigvalsh

from ..permutation.permutation import in_batches
from .gram import centred, off_diagonal

#: Eigenvalues below this share of the largest add nothing to the spectrum null.
NEGLIGIBLE = 1e-9


def mmd_gamma(gram: np.ndarray, sizes: tuple[int, int]) -> Any:
    """Fit a gamma distribution to the biased squared MMD under P = Q, by two moments (TST-2).

    Mean c (E k(z, z) - E k(z, z')) and variance 2 c^2 E k_c(z, z')^2 with c = 1/m + 1/n and k_c the
    centred kernel, all estimated from the pooled sample, so that sizes may differ.

    Args:
        gram: (N, N) of the pooled sample.
        sizes: m and n.
    """
    rate = 1.0 / sizes[0] + 1.0 / sizes[1]
    mean = rate * (np.mean(np.diagonal(gram)) - off_diagonal(gram))
    variance = 2.0 * rate**2 * off_diagonal(centred(gram) ** 2)
    return stats.gamma(mean**2 / variance, scale=variance / mean)


def hsic_gamma(K: np.ndarray, L: np.ndarray) -> Any:
    """Fit a gamma distribution to the biased HSIC under independence, by two moments (TST-5).

    Mean (E k(x, x) - E k(x, x')) (E l(y, y) - E l(y, y')) / n, the formula without the assumption
    k(x, x) = 1.

    Args:
        K: Gram matrix (n, n) of x, n >= 6.
        L: of y.
    """
    n = len(K)
    if n < 6:
        raise ValueError(f"the gamma approximation needs at least 6 rows, got {n}")
    parts = [np.mean(np.diagonal(gram)) - off_diagonal(gram) for gram in (K, L)]
    mean = parts[0] * parts[1] / n
    factor = 2.0 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3))
    variance = factor * off_diagonal((centred(K) * centred(L)) ** 2)
    return stats.gamma(mean**2 / variance, scale=variance / mean)


def mmd_spectrum(
    gram: np.ndarray, sizes: tuple[int, int], draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw the unbiased squared MMD in the limit under P = Q (TST-3), (draws,).

    (1/m + 1/n) sum_l lambda_l (z_l^2 - 1), lambda the eigenvalues of the centred Gram matrix over
    N, z standard normal.
    """
    values = _spectrum(gram)
    squares = rng.chisquare(1.0, size=(draws, len(values)))
    return np.asarray((1.0 / sizes[0] + 1.0 / sizes[1]) * ((squares - 1.0) @ values))


def hsic_spectrum(K: np.ndarray, L: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the biased HSIC in the limit under independence (TST-6), (draws,).

    (1/n) sum_ij lambda_i eta_j z_ij^2, with the eigenvalues of both centred Gram matrices over n.
    """
    products = np.outer(_spectrum(K), _spectrum(L)).ravel()
    products = products[products > NEGLIGIBLE * products.max()]

    def one(columns: slice) -> np.ndarray:
        squares = rng.chisquare(1.0, size=(columns.stop - columns.start, len(products)))
        return np.asarray(squares @ products / len(K))

    step = max(1, 2**22 // len(products))
    pieces = [one(slice(a, min(a + step, draws))) for a in range(0, draws, step)]
    return np.concatenate(pieces)


def _spectrum(gram: np.ndarray) -> np.ndarray:
    values = eigvalsh(centred(gram))[::-1] / len(gram)
    return np.asarray(values[values > NEGLIGIBLE * values[0]])


def wild_bootstrap(
    core: np.ndarray, draws: int, rng: np.random.Generator, *, length: float
) -> np.ndarray:
    """Draw a degenerate V-statistic of a stationary series under the null (TST-7), (draws,).

    (1/n^2) sum_ij W_i W_j h_ij with W_t = exp(-1/l) W_{t-1} + sqrt(1 - exp(-2/l)) e_t, less its
    mean, as in Chwialkowski et al. (2014).

    Args:
        core: h (n, n), in order of time: k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) for
            MMD, the product of the two centred Gram matrices for HSIC.
        draws: how many.
        rng: of the numbers.
        length: l, the steps over which the multipliers forget, longer than the data's memory.
    """
    n = len(core)
    keep = np.exp(-1.0 / length)
    W = rng.normal(size=(n, draws))
    for t in range(1, n):
        W[t] = keep * W[t - 1] + np.sqrt(1.0 - keep**2) * W[t]
    W -= W.mean(axis=0)

    def one(columns: slice) -> np.ndarray:
        part = W[:, columns]
        return np.asarray(np.einsum("ij,ij->j", part, core @ part) / n**2)

    return in_batches(one, draws, 16 * n)


def mmd_core(gram: np.ndarray) -> np.ndarray:
    """The core H (m, m) of a pooled Gram matrix (2m, 2m) of two samples of one size."""
    m = len(gram) // 2
    across = gram[:m, m:]
    return np.asarray(gram[:m, :m] + gram[m:, m:] - across - across.T)


def shift_null(K: np.ndarray, L: np.ndarray, shortest: int) -> np.ndarray:
    """Evaluate the biased HSIC (1 + B,) with y shifted in a circle, by nothing at first.

    For series that forget within ``shortest`` steps (Chwialkowski and Gretton, 2014); a shift less
    than that, in either direction, is left out.
    """
    n = len(K)
    shifts = np.array([0, *range(shortest, n - shortest + 1)])
    inner = centred(K)

    def one(columns: slice) -> np.ndarray:
        values = []
        for shift in shifts[columns]:
            rows = np.roll(np.arange(n), shift)
            values.append(np.sum(inner * L[rows][:, rows]) / n**2)
        return np.array(values)

    return in_batches(one, len(shifts), 24 * n * n)
