"""Bayesian two-sample test: one kernel Student-t density for both samples, or two densities.

This is the test that section 5 of KST names as future work: a ratio of marginal likelihoods, in
which the volume elements cancel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from bke.models import KernelStudentT
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logsumexp

from ..comparison.summary import format_odds
from ..core.errors import input_errors
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.checks import check_count, check_memory, column_names, default_names, index_notes
from ..data.weighted import systematic
from ..permutation.null_distribution import (
    check_permutations,
    in_batches,
    small_sample_note,
)
from ..permutation.samples import TwoSamples
from ..testing.kernels import gram
from ..testing.result import TestResult, constant_note, kernel_notes
from .learning import NOISE_VARIANCES, learn_student_t

#: Sequential Monte Carlo over assignments of rows to samples: independent runs, from which the
#: error is computed, assignments in each run, and moves of each assignment at every temperature.
#: Not tuned.
NUM_RUNS, NUM_ASSIGNMENTS, NUM_MOVES = 4, 125, 10
#: Standard error of the log Bayes factor, in nats, above which the result has a note. Not tuned.
LARGE_ERROR = 0.5

#: Computes the log ratio (S,) of assignments (S, N), permutations of the pooled rows.
LogRatio: TypeAlias = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True, repr=False, kw_only=True)
class TwoDensityResult(TestResult):
    """A log Bayes factor of two densities against one, with its permutation distribution.

    Attributes:
        log_bayes_factor_error: Monte Carlo standard error of the log Bayes factor, in nats. The
            p-value does not depend on it.
        noise_variance: sigma_0^2 of the density learned from the pooled sample.
    """

    log_bayes_factor_error: float
    noise_variance: float

    @property
    def log_bayes_factor(self) -> float:
        """Log Bayes factor of two densities against one, in nats; the test statistic."""
        return self.statistic

    @property
    def odds(self) -> float:
        """Posterior odds of two densities if both hypotheses are equally probable before."""
        return float(np.exp(min(self.log_bayes_factor, np.log(np.finfo(float).max))))

    @property
    def posterior_probability_of_difference(self) -> float:
        """Posterior probability of two densities, with prior probability 1/2."""
        return float(expit(self.log_bayes_factor))

    def __str__(self) -> str:
        decision, statistic, *others = super().__str__().split("\n")
        odds = (
            f"  posterior odds: {format_odds(self.log_bayes_factor)} (log Bayes factor "
            f"{self.log_bayes_factor:.3g} ± {self.log_bayes_factor_error:.1g}, prior odds 1 : 1)"
        )
        statistic += f", noise variance {self.noise_variance:.3g}"
        return "\n".join([decision, odds, statistic, *others])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with quantiles in place of the null distribution."""
        return {
            **super().to_dict(),
            "log_bayes_factor": self.log_bayes_factor,
            "log_bayes_factor_error": self.log_bayes_factor_error,
            "odds": self.odds,
            "posterior_probability_of_difference": self.posterior_probability_of_difference,
            "noise_variance": self.noise_variance,
        }


def two_density_test(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    kernel: str | Covariance = "median",
    factors: Sequence[float] | None = None,
    noise_variance: float | Sequence[float] = NOISE_VARIANCES,
    n_resamples: int = 999,
    alpha: float = 0.05,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> TwoDensityResult:
    """Compute the Bayes factor of two kernel Student-t densities against one for both samples.

    The rows of a sample with features Phi have the marginal likelihood (KST 1, 2, integrated)::

        log p(X) = -(alpha + n)/2 log |I + Phi' (I - 11'/(n + beta)) Phi / sigma_0^2| + c(n)

    and the log ratio is log p(P) + log p(Q) - log p(P and Q). Volume elements cancel, for every row
    is in both hypotheses once. The constants c depend on the sizes only, and are not known for
    infinitely many features or for rows that are restricted to the manifold of the features. They
    are determined here by conditioning on the pooled rows, as in the odds of
    :func:`~bke.inference.compare`: with one density all assignments of the rows to samples of these
    sizes have the same probability, so that the Bayes factor is the ratio over its mean over all
    assignments. It is the Bayes factor of the assignment given the rows, for any kernel and number
    of columns, and does not use what the pooled rows alone say about the hypotheses.

    The mean over assignments is estimated by sequential Monte Carlo with exchanges of rows, from
    assignments of equal probability to those in proportion to the ratio; its standard error is part
    of the result. The p-value does not depend on the mean: the ratio is compared with those of
    permuted labels. The hyperparameters are learned from the pooled sample by leave-one-out
    prediction, which permutations do not change, so that the level is exact.

    The cost is that of some ten thousand Cholesky factors of each sample's size: minutes for two
    samples of 300 rows. For many rows use :func:`~bke.inference.two_sample_test`.

    Args:
        P: sample of P, shape (n, D) or (n,).
        Q: sample of Q, shape (m, D) or (m,), of the same columns.
        kernel: ``"median"``, ``"bkl"`` or a kernel, see :func:`~bke.inference.learn_student_t`.
        factors: multiples of its lengthscale to try; (1,) keeps it.
        noise_variance: sigma_0^2, relative to k(x, x), one value or several to try. alpha is 1 and
            beta 0.01, the values of :func:`~bke.inference.learn_student_t`.
        n_resamples: number B of permutations. The smallest p-value is 1 / (1 + B).
        alpha: level of the test, not the parameter of the prior.
        standardize: unit of the columns for the choice of the kernel.
        seed: random seed. The order of rows and of samples has no influence.
        progress: show progress bars.

    Raises:
        InputError: the data or an argument are invalid, or no density could be learned.

    References:
        Huszar and Lacoste-Julien, *A Kernel Approach to Tractable Bayesian Nonparametrics* (2011),
        section 5; Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, *Journal of
        the Royal Statistical Society B* 68.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    alpha = check_permutations(n_resamples, alpha)
    pair = TwoSamples.checked(P, Q)
    check_memory(len(pair.pooled), pair.pooled.shape[1], matrices=4)
    with input_errors():  # a density that is singular to rounding
        learned = learn_student_t(
            pair.sorted_rows,
            kernel=kernel,
            factors=factors,
            noise_variance=noise_variance,
            standardize=standardize,
            seed=seed,
            progress=progress,
        )
    density = learned.density
    rng = pair.generator(seed)
    # The random numbers must not depend on which sample is first.
    n_first, n_second = pair.sizes[::-1] if pair.second_first else pair.sizes
    with computing(), progress_bar("assignments", 1 + NUM_RUNS, show=progress) as advance:
        sample = pair.permute_labels(n_resamples, rng)
        log_ratio = permuted_log_ratio(density, gram(density.kernel, sample.points), n_first)
        of_first = sample.labels ^ np.int8(pair.second_first)
        log_ratios = log_ratio(np.argsort(-of_first, axis=0, kind="stable").T)
        advance(1)
        log_mean, error = log_mean_ratio(log_ratio, n_first, n_second, rng, advance)
    notes = (
        *kernel_notes([density.kernel]),
        *constant_note(pair.pooled),
        *small_sample_note(pair.n_permutations(paired=False), alpha),
        *pair.notes(("P", "Q"), column_names(P) or default_names(pair.first.shape[1])),
        *index_notes((P, Q), "PQ"),
    )
    if error > LARGE_ERROR:
        notes += (
            f"the log Bayes factor has a standard error of {error:.2g}: use the p-value, or a "
            "larger noise_variance",
        )
    return TwoDensityResult.from_permutations(
        log_ratios - log_mean,
        test="test of two densities against one",
        hypotheses=("no evidence that P and Q differ", "P and Q differ"),
        kernel=density.kernel,
        method=f"{n_resamples} permutations",
        exact=True,
        alpha=alpha,
        statistic_label="log Bayes factor of two densities",
        fingerprints=pair.fingerprints,
        notes=notes,
        log_bayes_factor_error=error,
        noise_variance=float(density.noise_variance),
    )


def permuted_log_ratio(density: KernelStudentT, values: np.ndarray, n_first: int) -> LogRatio:
    """Return the function that computes log ratios of marginal likelihoods of assignments.

    With C = I - 11'/(n + beta) the determinant of the marginal likelihood is that of
    A = K + sigma_0^2 (I + 11'/beta) over sigma_0^(2n) (1 + n / beta), since C^-1 = I + 11'/beta.

    Args:
        density: density of the pooled sample with its hyperparameters.
        values: kernel values (N, N) of the pooled rows.
        n_first: rows of the first sample: the first of each permutation.
    """
    noise_variance = float(density.noise_variance)
    alpha, beta = float(density.alpha), float(density.beta)
    matrix = values + noise_variance * (np.eye(len(values)) + 1.0 / beta)

    def log_likelihoods(rows: np.ndarray) -> np.ndarray:
        n = rows.shape[1]
        factors = np.linalg.cholesky(matrix[rows[:, :, None], rows[:, None, :]])
        logs = 2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        logs -= n * np.log(noise_variance) + np.log1p(n / beta)
        return -0.5 * (alpha + n) * np.asarray(logs)

    together = log_likelihoods(np.arange(len(matrix))[None])[0]

    def log_ratio(assignments: np.ndarray) -> np.ndarray:
        def batch(columns: slice) -> np.ndarray:
            first, second = np.split(assignments[columns], [n_first], axis=1)
            return log_likelihoods(first) + log_likelihoods(second) - together

        return in_batches(batch, len(assignments), 24 * max(n_first, len(matrix) - n_first) ** 2)

    return log_ratio


def log_mean_ratio(
    log_ratio: LogRatio,
    n: int,
    m: int,
    rng: np.random.Generator,
    advance: Callable[[int], None] = lambda count: None,
) -> tuple[float, float]:
    """Estimate the log of the mean ratio over all assignments, and its standard error.

    Each run of sequential Monte Carlo starts with random assignments and raises the ratio to powers
    from 0 to 1, chosen so that the effective sample size is at least half of the assignments.

    Args:
        log_ratio: log ratio of assignments.
        n: rows of the first sample.
        m: rows of the second.
        rng: random numbers.
        advance: progress callback, called with the number of completed runs.

    Returns:
        The log of the mean over runs, and its standard error by the delta method.
    """
    logs = np.empty(NUM_RUNS)
    for run in range(NUM_RUNS):
        logs[run] = _tempered_log_mean(log_ratio, n, m, rng)
        advance(1)
    estimate = float(logsumexp(logs) - np.log(NUM_RUNS))
    relative = np.exp(logs - estimate)
    return estimate, float(relative.std(ddof=1) / np.sqrt(NUM_RUNS))


def _tempered_log_mean(log_ratio: LogRatio, n: int, m: int, rng: np.random.Generator) -> float:
    """Estimate the log of the mean ratio by one run of sequential Monte Carlo."""
    assignments = np.tile(np.arange(n + m), (NUM_ASSIGNMENTS, 1))
    rng.permuted(assignments, axis=1, out=assignments)
    values = log_ratio(assignments)
    power, total = 0.0, 0.0

    def excess_size(step: float) -> float:
        logs = step * values
        return float(np.exp(2.0 * logsumexp(logs) - logsumexp(2.0 * logs)) / len(values) - 0.5)

    while True:
        step = 1.0 - power
        if excess_size(step) < 0.0:
            step = brentq(excess_size, 0.0, step)
        logs = step * values
        total += float(logsumexp(logs) - np.log(len(values)))
        power += step
        if power >= 1.0:
            return total
        chosen = systematic(np.exp(logs - logs.max()), len(values), rng)
        assignments, values = assignments[chosen], values[chosen]
        for _ in range(NUM_MOVES):
            proposed = _exchange_rows(assignments, n, rng)
            new = log_ratio(proposed)
            accepted = np.log(rng.random(len(new))) < power * (new - values)
            assignments[accepted], values[accepted] = proposed[accepted], new[accepted]


def _exchange_rows(assignments: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Exchange rows of both samples in every assignment, 1, 2, 4, ... pairs in random order."""
    proposed, each = assignments.copy(), np.arange(len(assignments))
    total = assignments.shape[1]
    largest = int(np.log2(min(n, total - n)))
    for _ in range(2 ** rng.integers(largest + 1)):
        first, second = rng.integers(n, size=len(each)), rng.integers(n, total, size=len(each))
        proposed[each, first], proposed[each, second] = (
            proposed[each, second],
            proposed[each, first],
        )
    return proposed
