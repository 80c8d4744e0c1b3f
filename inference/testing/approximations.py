"""Tests whose null is an approximation: for speed, for large samples or for dependent rows.

Their levels are measured, not exact: ``benchmarks/results/approximations.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, get_args

import jax
import numpy as np
from bke.models import mmd_terms
from scipy.stats import t as t_distribution

from ..errors import InputError
from ..learning.names import SingleKernel
from . import nulls
from .gram import TELLS_NOTHING, biased_mmd, centred, check_tells_apart, off_diagonal
from .names import HsicNull, MmdNull, SeriesNull
from .notes import kernel_notes
from .permutation import p_value
from .result import TestResult

#: Which estimators of the squared MMD go with which null distribution, the default first.
MMD_NULLS: dict[MmdNull, tuple[str, ...]] = {
    "permutation": ("unbiased", "biased", "paired"),
    "gamma": ("biased",),
    "spectrum": ("unbiased",),
    "wild bootstrap": ("biased",),
    "normal": ("linear", "block"),
}
#: The same for HSIC.
HSIC_NULLS: dict[HsicNull, tuple[str, ...]] = {
    "permutation": ("unbiased", "biased"),
    "gamma": ("biased",),
    "spectrum": ("biased",),
    "wild bootstrap": ("biased",),
    "shift": ("biased",),
}
#: Kernels whose statistic is one number, not a combination that permutations calibrate.
SINGLE: tuple[str, ...] = get_args(SingleKernel)
#: Nulls for rows in order of time, and the steps over which a series is taken to forget.
OF_SERIES: tuple[str, ...] = get_args(SeriesNull)
MEMORY = 20.0
#: The wild bootstrap needs a series that long, in units of the multipliers' memory.
MEMORIES = 5
#: Of the wild bootstrap, and of blocks of more than two rows, whose means are skewed.
HIGH = (
    "this null is too narrow for short series: autoregressions of 50 to 200 steps with a "
    "coefficient of 0.8 were rejected 10 to 34 times in 100 at level 0.05"
)
LOW = "this test rejects too seldom: at level 0.05 a true null 1 to 3 times in 100"


class Approximation(NamedTuple):
    """An observed statistic with an approximate null distribution."""

    statistic: float
    draws: np.ndarray  # (B,), or empty where there is a limit
    limit: Any  # a SciPy distribution, or None
    how: str
    rows: str = "independent"
    note: str = ""  # where the measured level is not the stated one

    @property
    def pvalue(self) -> float:
        """The share of the null at or above the statistic."""
        if self.limit is not None:
            return float(self.limit.sf(self.statistic))
        return p_value(np.concatenate([[self.statistic], self.draws]))

    def result(
        self,
        test: str,
        hypotheses: tuple[str, str],
        kernel: Any,
        choice: str,
        alpha: float,
        statistic_of: str,
    ) -> TestResult:
        """What a test returns; ``choice`` names how the kernel was chosen."""
        kernels = list(kernel) if isinstance(kernel, tuple) else [kernel]
        return TestResult(
            test=test,
            hypotheses=hypotheses,
            statistic=self.statistic,
            pvalue=self.pvalue,
            null=self.draws,
            kernel=kernel,
            how=f"{self.how}, {choice}",
            exact=False,
            alpha=alpha,
            statistic_of=statistic_of,
            limit=self.limit,
            rows=self.rows,
            notes=(*kernel_notes(kernels), *filter(None, [self.note])),
        )


def check_null(
    null: Any, estimator: Any, kernels: tuple[Any, ...], table: Mapping[Any, tuple[str, ...]]
) -> str:
    """The estimator that goes with ``null``, or an error that says what does not go together."""
    if null not in table:
        raise InputError(f"null must be one of {tuple(table)}, got {null!r}")
    known = sorted({name for names in table.values() for name in names})
    if estimator is not None and estimator not in known:
        raise InputError(f"estimator must be one of {known}, got {estimator!r}")
    if estimator is not None and estimator not in table[null]:
        fitting = [name for name, estimators in table.items() if estimator in estimators]
        raise InputError(
            f"estimator={estimator!r} goes with null={' or '.join(map(repr, fitting))}, not with "
            f"null={null!r}"
        )
    for kernel in kernels:
        if null != "permutation" and isinstance(kernel, str) and kernel not in SINGLE:
            raise InputError(
                f"the kernel {kernel!r} combines many statistics by their permutations; with the "
                f"null {null!r} choose the kernel {', '.join(SINGLE)} or one of your own"
            )
    return str(estimator or table[null][0])


def series_memory(memory: Any, null: str, n: int) -> float:
    """The memory, :data:`MEMORY` by default.

    Raises:
        InputError: where ``null`` has no use for it, or it is no positive number, or too long for a
            series of n.
    """
    if null not in OF_SERIES:
        if memory is not None:
            raise InputError(f"memory is for the nulls {', '.join(OF_SERIES)}, not for {null!r}")
        return MEMORY
    memory = MEMORY if memory is None else memory
    number = isinstance(memory, (int, float, np.number)) and not isinstance(memory, bool)
    if not number or not np.isfinite(memory) or memory <= 0:
        raise InputError(f"memory must be a positive number of steps, got {memory!r}")
    if memory * MEMORIES > n:
        raise InputError(
            f"a series of {n} rows is too short for a memory of {memory:g} steps, which needs "
            f"{MEMORIES * memory:g}: give a shorter memory, if the series has one"
        )
    return float(memory)


def mmd_approximation(
    null: str,
    gram: np.ndarray,
    sizes: tuple[int, int],
    draws: int,
    rng: np.random.Generator,
    memory: float,
) -> Approximation:
    """The squared MMD with the null that ``null`` names.

    Args:
        null: ``"gamma"``, ``"spectrum"`` or ``"wild bootstrap"``.
        gram: (N, N) of P and Q, one below the other; for the wild bootstrap in order of time.
        sizes: of the two samples.
        draws: of the null.
        rng: of the draws.
        memory: of the multipliers of the wild bootstrap, in steps.
    """
    check_tells_apart(gram)
    m, n = sizes
    if null == "spectrum":
        within = off_diagonal(gram[:m, :m]) + off_diagonal(gram[m:, m:])
        unbiased = within - 2.0 * float(gram[:m, m:].mean())
        found = nulls.mmd_spectrum(gram, sizes, draws, rng)
        return Approximation(unbiased, found, None, f"{draws} draws of the spectrum's limit")
    biased = biased_mmd(gram, m)
    if null == "gamma":
        return Approximation(biased, np.empty(0), nulls.mmd_gamma(gram, sizes), "gamma limit")
    if m != n:
        raise InputError(f"the wild bootstrap needs samples of one size, and has {m}, {n}")
    found = nulls.wild_bootstrap(nulls.mmd_core(gram), draws, rng, length=memory)
    return Approximation(biased, found, None, _wild(draws, memory), "series", HIGH)


def _wild(draws: int, memory: float) -> str:
    return f"{draws} wild bootstrap draws with a memory of {memory:g} steps"


def hsic_approximation(
    null: str,
    K: np.ndarray,
    L: np.ndarray,
    draws: int,
    rng: np.random.Generator,
    memory: float,
    alpha: float,
) -> Approximation:
    """The biased HSIC with the null that ``null`` names.

    Args:
        null: ``"gamma"``, ``"spectrum"``, ``"wild bootstrap"`` or ``"shift"``.
        K: Gram matrix (n, n) of x; for the last two in order of time.
        L: of y.
        draws: of the null; a shift has as many as there are shifts.
        rng: of the draws.
        memory: of the series, in steps.
        alpha: level that the shifts must be able to reach.
    """
    for matrix in (K, L):
        check_tells_apart(matrix)
    n = len(K)
    product = centred(K) * centred(L)
    statistic = float(product.mean())
    if null == "gamma":
        if n < 6:
            raise InputError(f"the gamma approximation needs at least 6 rows, and has {n}")
        return Approximation(statistic, np.empty(0), nulls.hsic_gamma(K, L), "gamma limit")
    if null == "spectrum":
        found = nulls.hsic_spectrum(K, L, draws, rng)
        return Approximation(statistic, found, None, f"{draws} draws of the spectrum's limit")
    if null == "wild bootstrap":
        found = nulls.wild_bootstrap(product, draws, rng, length=memory)
        return Approximation(statistic, found, None, _wild(draws, memory), "series", HIGH)
    shortest = int(np.ceil(memory))
    if (n - 2 * shortest + 2) * alpha < 1.0:
        raise InputError(
            f"{n} rows have {n - 2 * shortest + 1} shifts of at least {shortest} steps, too few to "
            f"reject at level {alpha:g}"
        )
    found = nulls.shift_null(K, L, shortest)
    how = f"{len(found) - 1} shifts of at least {shortest} steps"
    return Approximation(float(found[0]), found[1:], None, how, "series")


def terms_approximation(
    first: np.ndarray, second: np.ndarray, kernel: Any, block_size: int | None
) -> Approximation:
    """The mean of independent terms over its standard error, Student's t (MMD-13, MMD-14).

    Args:
        first: rows of P (n, D), in random order.
        second: of Q, as many.
        kernel: the kernel.
        block_size: rows of each sample in a term.

    Raises:
        InputError: for fewer than two terms, or terms that are all equal.
    """
    with jax.enable_x64(True):
        try:
            terms = np.asarray(mmd_terms(first, second, kernel, block_size=block_size))
        except ValueError as error:
            raise InputError(str(error)) from None
    if len(terms) < 2:
        raise InputError("there is one block only: its spread is not known; take smaller blocks")
    deviation = terms.std(ddof=1) / len(terms) ** 0.5
    if not deviation > 0.0:
        raise InputError(TELLS_NOTHING)
    limit = t_distribution(len(terms) - 1)
    how = f"t limit of {len(terms)} terms"
    note = LOW if block_size != 2 else ""
    statistic = float(terms.mean() / deviation)
    return Approximation(statistic, np.empty(0), limit, how, note=note)
