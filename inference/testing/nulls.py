"""Approximate null distributions of the squared MMD and of HSIC, and their options.

The levels are measured, not exact: ``benchmarks/results/approximations.md``.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from bke.models import mmd_terms
from scipy import stats
from scipy.linalg import eigvalsh

from ..core.errors import InputError, check_choice, input_errors
from ..data.checks import check_positive
from ..permutation.null_distribution import check_permutations, in_batches
from .kernels import (
    DEGENERATE_KERNEL,
    SINGLE_KERNELS,
    biased_mmd,
    center,
    check_not_degenerate,
    off_diagonal_mean,
)
from .result import TestResult

#: Estimators of the squared MMD for each method, the default first.
MMD_ESTIMATORS: dict[str, tuple[str, ...]] = {
    "permutation": ("unbiased", "biased", "paired"),
    "gamma": ("biased",),
    "spectrum": ("unbiased",),
    "wild bootstrap": ("biased",),
    "normal": ("linear", "block"),
}
#: Estimators of HSIC for each method, the default first.
HSIC_ESTIMATORS: dict[str, tuple[str, ...]] = {
    "permutation": ("unbiased", "biased"),
    "gamma": ("biased",),
    "spectrum": ("biased",),
    "wild bootstrap": ("biased",),
    "shift": ("biased",),
}
#: Methods for rows in order of time.
SERIES_METHODS = ("wild bootstrap", "shift")
#: Default dependence length of a series in steps, and smallest number of rows per step of it.
DEFAULT_DEPENDENCE_LENGTH, MIN_ROWS_PER_STEP = 20.0, 5
#: Smallest eigenvalue of the spectrum null, relative to the largest.
MIN_RELATIVE_EIGENVALUE = 1e-9
SPECTRUM = "draws of the spectral limit"
LIBERAL_NOTE = (
    "this null distribution is too narrow for short series: at level 0.05 true null hypotheses of "
    "autoregressions with 50 to 200 steps and coefficient 0.8 were rejected in 10 to 34 % of cases"
)
CONSERVATIVE_NOTE = (
    "this test is conservative: at level 0.05 true null hypotheses are rejected in 1 to 3 % of "
    "cases"
)


@dataclasses.dataclass(frozen=True)
class NullChoice:
    """The options of a null distribution.

    Attributes:
        method: name of the method, such as ``"permutation"``.
        estimator: estimator of the statistic.
        n_resamples: number of permutations, or of draws from another null distribution.
        alpha: level of the test.
        dependence_length: number of steps beyond which series are independent.
    """

    method: str
    estimator: str
    n_resamples: int
    alpha: float
    dependence_length: float

    @classmethod
    def checked(
        cls,
        method: str,
        estimator: str | None,
        estimators: Mapping[str, tuple[str, ...]],
        n_resamples: int,
        alpha: float,
        dependence_length: float | None,
    ) -> NullChoice:
        """Check that the options are compatible.

        Args:
            method: name of the method.
            estimator: name of the estimator, or ``None`` for the default of the method.
            estimators: estimators of each method, the default first.
            n_resamples: number of permutations or draws.
            alpha: level of the test.
            dependence_length: dependence length, for methods for series, or ``None`` for the
                default.

        Raises:
            InputError: if an option is unknown or options exclude each other.
        """
        check_choice(method, "method", tuple(estimators))
        if estimator is None:
            estimator = estimators[method][0]
        check_choice(estimator, "estimator", sorted(set(itertools.chain(*estimators.values()))))
        if estimator not in estimators[method]:
            matching = [name for name, names in estimators.items() if estimator in names]
            raise InputError(
                f"estimator={estimator!r} requires method={' or '.join(map(repr, matching))}, got "
                f"method={method!r}"
            )
        alpha = check_permutations(n_resamples, alpha, method=method)
        if dependence_length is not None and method not in SERIES_METHODS:
            raise InputError(
                f"dependence_length is for method={' or '.join(map(repr, SERIES_METHODS))}, not "
                f"for {method!r}"
            )
        length = DEFAULT_DEPENDENCE_LENGTH if dependence_length is None else dependence_length
        length = check_positive(length, "dependence_length")
        return cls(method, estimator, n_resamples, alpha, length)

    def check_kernel(self, kernel: Any) -> None:
        """Check that the method is defined for a kernel or a selection rule.

        Raises:
            InputError: if the method requires a single kernel, and the rule selects several.
        """
        is_single = not isinstance(kernel, str) or kernel in SINGLE_KERNELS
        if not self.is_permutation and not is_single:
            raise InputError(
                f"kernel={kernel!r} combines many statistics, which requires "
                f"method='permutation': with method={self.method!r} pass a kernel or one of "
                f"{', '.join(map(repr, SINGLE_KERNELS))}"
            )

    @property
    def is_permutation(self) -> bool:
        """True for permutations, whose null distribution is exact."""
        return self.method == "permutation"

    @property
    def is_paired(self) -> bool:
        """True if permutations swap the two rows of a pair."""
        return self.estimator == "paired"

    def check_rows(self, n: int) -> None:
        """Check that a series of ``n`` rows is long enough.

        Raises:
            InputError: if the method is for series, and ``n`` is less than five times the
                dependence length.
        """
        needed = MIN_ROWS_PER_STEP * self.dependence_length
        if self.method in SERIES_METHODS and n < needed:
            raise InputError(
                f"a dependence_length of {self.dependence_length:g} steps requires {needed:g} "
                f"rows, got {n}: pass a shorter one, if the series are independent beyond it"
            )


def mmd_approximation(
    null: NullChoice,
    gram: np.ndarray,
    sizes: tuple[int, int],
    rng: np.random.Generator,
    **attributes: Any,
) -> TestResult:
    """Test the squared MMD with an approximate null distribution.

    Args:
        null: options with the method ``"gamma"``, ``"spectrum"`` or ``"wild bootstrap"``.
        gram: Gram matrix (N, N) of P followed by Q; for the wild bootstrap in order of time.
        sizes: sizes of the samples.
        rng: random number generator of the draws.
        **attributes: attributes of the result.
    """
    check_not_degenerate(gram)
    m, n = sizes
    if null.method == "spectrum":
        within = off_diagonal_mean(gram[:m, :m]) + off_diagonal_mean(gram[m:, m:])
        unbiased = within - 2.0 * float(gram[:m, m:].mean())
        draws = mmd_spectrum(gram, sizes, null.n_resamples, rng)
        return _from_draws(unbiased, draws, f"{len(draws)} {SPECTRUM}", **attributes)
    biased = biased_mmd(gram, m)
    if null.method == "gamma":
        limit = mmd_gamma(gram, sizes)
        return TestResult.from_limit(biased, limit, method="gamma limit", **attributes)
    if m != n:
        raise InputError(
            f"the wild bootstrap needs samples of one size, and P has {m} rows, Q {n}: drop rows "
            "of one"
        )
    return _wild_bootstrap_test(null, biased, mmd_core(gram), rng, **attributes)


def hsic_approximation(
    null: NullChoice, K: np.ndarray, L: np.ndarray, rng: np.random.Generator, **attributes: Any
) -> TestResult:
    """Test the biased HSIC with an approximate null distribution.

    Args:
        null: options with the method ``"gamma"``, ``"spectrum"``, ``"wild bootstrap"`` or
            ``"shift"``. The number of shifts determines that of the draws.
        K: Gram matrix (n, n) of x; for the last two in order of time.
        L: Gram matrix (n, n) of y.
        rng: random number generator of the draws.
        **attributes: attributes of the result.
    """
    for matrix in (K, L):
        check_not_degenerate(matrix)
    product = center(K) * center(L)
    statistic = float(product.mean())
    if null.method == "gamma":
        limit = hsic_gamma(K, L)
        return TestResult.from_limit(statistic, limit, method="gamma limit", **attributes)
    if null.method == "spectrum":
        draws = hsic_spectrum(K, L, null.n_resamples, rng)
        return _from_draws(statistic, draws, f"{len(draws)} {SPECTRUM}", **attributes)
    if null.method == "wild bootstrap":
        return _wild_bootstrap_test(null, statistic, product, rng, **attributes)
    shortest = math.ceil(null.dependence_length)
    num_shifts = len(K) - 2 * shortest + 1
    if (num_shifts + 1) * null.alpha < 1.0:
        raise InputError(
            f"{len(K)} rows have {num_shifts} shifts of at least {shortest} steps, too few to "
            f"reject at level {null.alpha:g}"
        )
    values = shift_null(K, L, shortest)
    method = f"{num_shifts} shifts of at least {shortest} steps"
    return _from_draws(float(values[0]), values[1:], method, rows="series", **attributes)


def _wild_bootstrap_test(
    null: NullChoice,
    statistic: float,
    core: np.ndarray,
    rng: np.random.Generator,
    **attributes: Any,
) -> TestResult:
    """Test the mean of ``core`` (n, n), rows in order of time, by the wild bootstrap (TST-7)."""
    length = null.dependence_length
    draws = wild_bootstrap(core, null.n_resamples, rng, length=length)
    method = f"{len(draws)} wild bootstrap draws with a dependence length of {length:g} steps"
    return _from_draws(statistic, draws, method, rows="series", notes=(LIBERAL_NOTE,), **attributes)


def _from_draws(statistic: float, draws: np.ndarray, method: str, **attributes: Any) -> TestResult:
    """Create the result of a test with draws (B,) from an approximate null distribution."""
    values = np.concatenate([[statistic], draws])
    return TestResult.from_permutations(
        values, method=method, exact=False, pvalue_error=0.0, **attributes
    )


def linear_time_approximation(
    first: np.ndarray, second: np.ndarray, block_size: int | None, **attributes: Any
) -> TestResult:
    """Test by the t statistic of independent terms of the squared MMD (MMD-13, MMD-14).

    Args:
        first: rows of P (n, D), in random order.
        second: rows of Q (n, D), in random order.
        block_size: rows of each sample in a term.
        **attributes: attributes of the result, with the kernel.

    Raises:
        InputError: for fewer than two terms, or terms that are all equal.
    """
    with jax.enable_x64(True), input_errors():
        terms = np.asarray(mmd_terms(first, second, attributes["kernel"], block_size=block_size))
    if len(terms) < 2:
        raise InputError(
            "there is only one block, which has no standard error: pass a smaller block_size"
        )
    standard_error = terms.std(ddof=1) / len(terms) ** 0.5
    if not standard_error > 0.0:
        raise InputError(DEGENERATE_KERNEL)
    return TestResult.from_limit(
        float(terms.mean() / standard_error),
        stats.t(len(terms) - 1),
        method=f"t limit of {len(terms)} terms",
        # Means of blocks of more than two rows are skewed.
        notes=() if block_size == 2 else (CONSERVATIVE_NOTE,),
        **attributes,
    )


def mmd_gamma(gram: np.ndarray, sizes: tuple[int, int]) -> Any:
    """Fit a gamma distribution to the biased squared MMD under P = Q, by two moments (TST-2).

    The mean is c (E k(z, z) - E k(z, z')) and the variance 2 c^2 E k_c(z, z')^2, with
    c = 1/m + 1/n and the centered kernel k_c. All are estimated from the pooled sample, so that
    sizes may differ.

    Args:
        gram: Gram matrix (N, N) of the pooled sample.
        sizes: sizes m and n of the samples.
    """
    rate = 1.0 / sizes[0] + 1.0 / sizes[1]
    mean = rate * (np.mean(np.diagonal(gram)) - off_diagonal_mean(gram))
    variance = 2.0 * rate**2 * off_diagonal_mean(center(gram) ** 2)
    return stats.gamma(mean**2 / variance, scale=variance / mean)


def hsic_gamma(K: np.ndarray, L: np.ndarray) -> Any:
    """Fit a gamma distribution to the biased HSIC under independence, by two moments (TST-5).

    The mean is (E k(x, x) - E k(x, x')) (E l(y, y) - E l(y, y')) / n, the formula without the
    assumption k(x, x) = 1.

    Args:
        K: Gram matrix (n, n) of x, n >= 6.
        L: Gram matrix (n, n) of y.

    Raises:
        InputError: for fewer than 6 rows.
    """
    n = len(K)
    if n < 6:
        raise InputError(f"the gamma approximation needs at least 6 rows, got {n}")
    differences = [np.mean(np.diagonal(gram)) - off_diagonal_mean(gram) for gram in (K, L)]
    mean = differences[0] * differences[1] / n
    factor = 2.0 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3))
    variance = factor * off_diagonal_mean((center(K) * center(L)) ** 2)
    return stats.gamma(mean**2 / variance, scale=variance / mean)


def mmd_spectrum(
    gram: np.ndarray, sizes: tuple[int, int], draws: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw from the limit of the unbiased squared MMD under P = Q (TST-3), (draws,).

    The limit is (1/m + 1/n) sum_l lambda_l (z_l^2 - 1), with standard normal z and the eigenvalues
    lambda of the centered Gram matrix over N.
    """
    values = _spectrum(gram)
    squares = rng.chisquare(1.0, size=(draws, len(values)))
    return np.asarray((1.0 / sizes[0] + 1.0 / sizes[1]) * ((squares - 1.0) @ values))


def hsic_spectrum(K: np.ndarray, L: np.ndarray, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draw from the limit of the biased HSIC under independence (TST-6), (draws,).

    The limit is (1/n) sum_ij lambda_i eta_j z_ij^2, with the eigenvalues of both centered Gram
    matrices over n.
    """
    products = np.outer(_spectrum(K), _spectrum(L)).ravel()
    products = products[products > MIN_RELATIVE_EIGENVALUE * products.max()]
    step = max(1, 2**22 // len(products))
    batches = []
    for start in range(0, draws, step):
        size = min(step, draws - start)
        batches.append(rng.chisquare(1.0, size=(size, len(products))) @ products / len(K))
    return np.concatenate(batches)


def _spectrum(gram: np.ndarray) -> np.ndarray:
    """Compute the eigenvalues of the centered Gram matrix (n, n) over n, the largest first."""
    values = eigvalsh(center(gram))[::-1] / len(gram)
    return np.asarray(values[values > MIN_RELATIVE_EIGENVALUE * values[0]])


def wild_bootstrap(
    core: np.ndarray, draws: int, rng: np.random.Generator, *, length: float
) -> np.ndarray:
    """Draw from the null distribution of a degenerate V-statistic of a series (TST-7), (draws,).

    The draws are (1/n^2) sum_ij W_i W_j h_ij. The multipliers are
    W_t = exp(-1/l) W_{t-1} + sqrt(1 - exp(-2/l)) e_t, less their mean (Chwialkowski et al., 2014).

    Args:
        core: h (n, n), in order of time: k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) for
            MMD, the product of the two centered Gram matrices for HSIC.
        draws: number of draws.
        rng: random number generator.
        length: correlation length l of the multipliers in steps, above that of the data.
    """
    n = len(core)
    decay = np.exp(-1.0 / length)
    W = rng.normal(size=(n, draws))
    for t in range(1, n):
        W[t] = decay * W[t - 1] + np.sqrt(1.0 - decay**2) * W[t]
    W -= W.mean(axis=0)

    def batch(columns: slice) -> np.ndarray:
        part = W[:, columns]
        return np.asarray(np.einsum("ij,ij->j", part, core @ part) / n**2)

    return in_batches(batch, draws, 16 * n)


def mmd_core(gram: np.ndarray) -> np.ndarray:
    """Compute the core h (m, m) of a pooled Gram matrix (2m, 2m) of samples of equal size."""
    m = len(gram) // 2
    across = gram[:m, m:]
    return np.asarray(gram[:m, :m] + gram[m:, m:] - across - across.T)


def shift_null(K: np.ndarray, L: np.ndarray, shortest: int) -> np.ndarray:
    """Compute the biased HSIC (1 + B,) for circular shifts of y, the observed value first.

    Shifts by fewer than ``shortest`` steps in either direction are left out. The series must be
    independent beyond ``shortest`` steps (Chwialkowski and Gretton, 2014).
    """
    n = len(K)
    shifts = np.array([0, *range(shortest, n - shortest + 1)])
    centered = center(K)

    def batch(columns: slice) -> np.ndarray:
        values = []
        for shift in shifts[columns]:
            rows = np.roll(np.arange(n), shift)
            values.append(np.sum(centered * L[rows][:, rows]) / n**2)
        return np.array(values)

    return in_batches(batch, len(shifts), 24 * n * n)
