"""Tests whose null is an approximation: for speed, for large samples or for dependent rows.

Their levels are measured, not exact: ``benchmarks/results/approximations.md``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np
from bke.models import mmd_terms
from scipy.stats import t as t_distribution

from ..core.errors import InputError, input_errors
from ..permutation.permutation import p_value
from . import nulls
from .gram import TELLS_NOTHING, biased_mmd, centred, check_tells_apart, off_diagonal
from .notes import kernel_notes
from .null_choice import NullChoice
from .result import TestResult

#: What is said of the wild bootstrap, and of blocks of more than two rows, whose means are skewed.
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
        """The p-value: the share of the null at or above the statistic."""
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
        """Tell what was found as a test does; ``choice`` names how the kernel was chosen."""
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


def mmd_approximation(
    null: NullChoice, gram: np.ndarray, sizes: tuple[int, int], rng: np.random.Generator
) -> Approximation:
    """Evaluate the squared MMD with the null that was asked for.

    Args:
        null: of name ``"gamma"``, ``"spectrum"`` or ``"wild bootstrap"``.
        gram: (N, N) of P and Q, one below the other; for the wild bootstrap in order of time.
        sizes: of the two samples.
        rng: of the draws.
    """
    check_tells_apart(gram)
    m, n = sizes
    if null.name == "spectrum":
        within = off_diagonal(gram[:m, :m]) + off_diagonal(gram[m:, m:])
        unbiased = within - 2.0 * float(gram[:m, m:].mean())
        found = nulls.mmd_spectrum(gram, sizes, null.draws, rng)
        return Approximation(unbiased, found, None, f"{null.draws} draws of the spectrum's limit")
    biased = biased_mmd(gram, m)
    if null.name == "gamma":
        return Approximation(biased, np.empty(0), nulls.mmd_gamma(gram, sizes), "gamma limit")
    if m != n:
        raise InputError(f"the wild bootstrap needs samples of one size, and has {m}, {n}")
    return _wild_bootstrap(null, biased, nulls.mmd_core(gram), rng)


def _wild_bootstrap(
    null: NullChoice, statistic: float, core: np.ndarray, rng: np.random.Generator
) -> Approximation:
    """Draw the null of a mean of ``core`` (n, n), its rows in order of time (TST-7)."""
    memory = null.steps(len(core))
    found = nulls.wild_bootstrap(core, null.draws, rng, length=memory)
    how = f"{null.draws} wild bootstrap draws with a memory of {memory:g} steps"
    return Approximation(statistic, found, None, how, "series", HIGH)


def hsic_approximation(
    null: NullChoice, K: np.ndarray, L: np.ndarray, rng: np.random.Generator
) -> Approximation:
    """Evaluate the biased HSIC with the null that was asked for.

    Args:
        null: of name ``"gamma"``, ``"spectrum"``, ``"wild bootstrap"`` or ``"shift"``, which has as
            many draws as there are shifts.
        K: Gram matrix (n, n) of x; for the last two in order of time.
        L: Gram matrix (n, n) of y.
        rng: of the draws.
    """
    for matrix in (K, L):
        check_tells_apart(matrix)
    n = len(K)
    product = centred(K) * centred(L)
    statistic = float(product.mean())
    if null.name == "gamma":
        if n < 6:
            raise InputError(f"the gamma approximation needs at least 6 rows, and has {n}")
        return Approximation(statistic, np.empty(0), nulls.hsic_gamma(K, L), "gamma limit")
    if null.name == "spectrum":
        found = nulls.hsic_spectrum(K, L, null.draws, rng)
        return Approximation(statistic, found, None, f"{null.draws} draws of the spectrum's limit")
    if null.name == "wild bootstrap":
        return _wild_bootstrap(null, statistic, product, rng)
    shortest = int(np.ceil(null.steps(n)))
    if (n - 2 * shortest + 2) * null.alpha < 1.0:
        raise InputError(
            f"{n} rows have {n - 2 * shortest + 1} shifts of at least {shortest} steps, too few to "
            f"reject at level {null.alpha:g}"
        )
    found = nulls.shift_null(K, L, shortest)
    how = f"{len(found) - 1} shifts of at least {shortest} steps"
    return Approximation(float(found[0]), found[1:], None, how, "series")


def terms_approximation(
    first: np.ndarray, second: np.ndarray, kernel: Any, block_size: int | None
) -> Approximation:
    """Evaluate the mean of independent terms over its standard error, Student's t (MMD-13, MMD-14).

    Args:
        first: rows of P (n, D), in random order.
        second: rows of Q, as many, in random order.
        kernel: of the squared MMD.
        block_size: rows of each sample in a term.

    Raises:
        InputError: for fewer than two terms, or terms that are all equal.
    """
    with jax.enable_x64(True), input_errors():
        terms = np.asarray(mmd_terms(first, second, kernel, block_size=block_size))
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
