"""What a comparison of two samples found, in numbers."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import one_thread
from ..data.checks import check_count, check_positive, check_proportion
from ..data.new_rows import as_evaluation_points
from ..permutation.pooled_sample import PooledSample
from ..statistics.combined import ComponentSummary
from .belief import Belief
from .discrepancy import discrepancies
from .location import LocationDifference, mean_difference, median_difference
from .named import Named, Place
from .planning import RowsNeeded, rows_needed
from .witness import (
    LARGEST,
    Bands,
    bands_of,
    log_ratio_draws,
    sampling_draws,
    witness_draws,
)

#: Draws from which probabilities are told, to within 0.02.
DRAWS = 2000
#: Log Bayes factors from which posterior bands hold what they say.
STRONG = 3.0
BandsOf: TypeAlias = Literal["auto", "posterior", "sampling"]


def strong(believed: Belief) -> bool:
    """Whether the evidence is such that posterior bands hold what they say."""
    return believed.log_bayes_factor > STRONG


@dataclasses.dataclass(frozen=True, repr=False)
class Findings:
    """Whether two samples differ, where, at what scale, by how much, and how sure that is.

    Attributes:
        pvalue: of "P = Q", by permutations, at an exact level.
        pvalue_error: the standard error that the draw of the permutations leaves in it.
        alpha: level of the test, and of the places together.
        permutations: how many there were.
        named: the places, with everything that is named.
        belief: the posterior of the difference.
        effect: the chance that of one row of each sample the one of P is told, 1/2 where nothing
            tells them apart, and by chance below: see :mod:`bke.inference.comparison.effect`.
        effect_interval: of ``effect``, with confidence 1 - alpha.
        detectable_shift: where they do not differ, the shift of a column, in its standard
            deviations, that the test would have found with probability 0.9 (of one that is not
            normal, of its normal scores: see :mod:`bke.inference.comparison.detectable`); ``None``
            where they do, and where no such shift was found.
        rows: the pooled rows, in standard deviations of the columns.
        components: components of the combined statistic, the most significant first.
        columns: their names, of those that vary.
        names: what the samples are called.
        seed: of the permutations.
        left_out: columns that are one value in both samples.
        own_names: names that these columns have in the samples, by which those of new rows are
            matched, or that the user gave; ``None`` without.
        notes: warnings, such as that rows are too few to reject anything.
    """

    pvalue: float
    pvalue_error: float
    alpha: float
    permutations: int
    named: Named
    belief: Belief
    effect: float
    effect_interval: tuple[float, float]
    detectable_shift: float | None
    rows: PooledSample
    components: tuple[ComponentSummary, ...]
    columns: tuple[str, ...]
    names: tuple[str, str]
    seed: int
    left_out: tuple[str, ...] = ()
    own_names: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether the test rejects P = Q at level ``alpha``."""
        return self.pvalue <= self.alpha

    @property
    def places(self) -> tuple[Place, ...]:
        """Where they differ, the most significant place first; none unless they ``differ``."""
        return self.named.places

    @property
    def sizes(self) -> tuple[int, int]:
        """How many rows P and Q have."""
        return self.rows.sizes

    @property
    def log_bayes_factor(self) -> float:
        """The evidence for a difference against none, nats."""
        return self.belief.log_bayes_factor

    @property
    def probability(self) -> float:
        """The posterior probability of a difference, with prior probability 1/2."""
        return self.belief.probability

    @property
    def lengthscale(self) -> np.ndarray:
        """The posterior median (D,) of the difference's lengthscale, in the units of the data."""
        return self._lengthscales(0.5)[0]

    @property
    def lengthscale_interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Posterior quantiles of the lengthscale, with probability 1 - alpha between them."""
        low, high = self._lengthscales(0.5 * self.alpha, 1.0 - 0.5 * self.alpha)
        return low, high

    def _lengthscales(self, *probabilities: float) -> np.ndarray:
        return self.belief.lengthscale(*probabilities)[:, None] * self.rows.scale

    @property
    def mean_difference(self) -> np.ndarray:
        """The mean of the second sample less that of the first, (D,), in the units of the data."""
        return self._means.estimate

    @property
    def mean_difference_interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends (D,) of the interval of each mean difference, with confidence 1 - alpha each."""
        return self._means.interval

    @property
    def median_difference(self) -> np.ndarray | None:
        """The Hodges–Lehmann estimate (D,) of the shift from the first sample to the second.

        ``None`` for weighted rows.
        """
        return None if self._medians is None else self._medians.estimate

    @property
    def median_difference_interval(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Ends (D,) of the interval of each shift, with confidence 1 - alpha each."""
        return None if self._medians is None else self._medians.interval

    @functools.cached_property
    def _means(self) -> LocationDifference:
        return mean_difference(self.rows, self.alpha)

    @functools.cached_property
    def _medians(self) -> LocationDifference | None:
        return median_difference(self.rows, self.alpha)

    def _checked_points(self, points: ArrayLike) -> np.ndarray:
        """Points (m, D) with the columns that vary; those left out may be there in data frames."""
        return as_evaluation_points(
            points, len(self.columns), "points", self.own_names, optional=self.left_out
        )

    def _scale(self, scale: ArrayLike | None) -> np.ndarray:
        """The lengthscale (D,) that is asked for, or that of the difference.

        Raises:
            InputError: it is not one positive number, or one for each column.
        """
        if scale is None:
            return self.lengthscale
        given = np.asarray(scale, dtype=float)
        right = given.shape in ((), (1,), (len(self.columns),))
        if not right or not (np.isfinite(given) & (given > 0.0)).all():
            raise InputError(
                f"scale must be a positive number or {len(self.columns)} of them, got {scale!r}"
            )
        return np.broadcast_to(given, (len(self.columns),))

    def sign(self, points: ArrayLike) -> np.ndarray:
        """Tell where a difference is named: 1 where P has more, -1 where Q has, 0 elsewhere.

        Within the scale of a place, or of a named cell that belongs to it (``intervals`` says how
        far that goes in one column); of one and two columns only where, by that scale, the samples
        differ as in its middle, and rows are near.

        Args:
            points: (m, D) or (m,), in the units of the data; columns of a data frame are matched
                by name.

        Returns:
            (m,) of int.
        """
        return self.named.told(self._checked_points(points))

    def matters(self, delta: float) -> float:
        """Tell the posterior probability that the squared MMD exceeds ``delta``.

        That of the squared exponential with the difference's ``lengthscale``, between 0 and 2. Of
        a normal column shifted by d standard deviations it is near ``a d^2 / (a^2 + 2)^1.5`` at a
        lengthscale of a deviations: 0.002 for a tenth and 0.05 for a half at a = 1.
        """
        least = check_positive(delta, "delta")
        scale = float(self.belief.lengthscale(0.5)[0])
        drawn = self.belief.drawn(DRAWS, np.random.default_rng(0))
        found = discrepancies(drawn, self.rows, scale)
        return float(np.mean(found > least)) * self.probability

    def witness(
        self,
        points: ArrayLike,
        *,
        scale: ArrayLike | None = None,
        level: float = 0.8,
        of: BandsOf = "auto",
        seed: int = 0,
    ) -> Bands:
        """Summarise the witness mu_P - mu_Q by its posterior where the evidence is strong.

        Where it is weak the posterior leans to no difference and its bands are too narrow
        (``benchmarks/results/difference-300.md``), so they are those of sampling errors.

        Args:
            points: (m, D) or (m,), in the units of the data; columns of a data frame are matched
                by name.
            scale: of the squared exponential whose witness it is, (D,) or a number, in the units of
                the data; by default the difference's ``lengthscale``.
            level: of the pointwise band; the simultaneous one has 1 - alpha.
            of: ``"posterior"``, given that there is a difference; ``"sampling"``, the empirical
                witness with its sampling errors; or ``"auto"``, by whether the log Bayes factor is
                above 3.
            seed: of the draws.
        """
        if of not in get_args(BandsOf):
            raise InputError(f"of must be 'auto', 'posterior' or 'sampling', got {of!r}")
        check_proportion(level, "level")
        check_count(seed, "seed", 0, 2**63 - 1)
        at = self._checked_points(points) / self.rows.scale
        length = self._scale(scale) / self.rows.scale
        rng = np.random.default_rng(seed)
        posterior = of == "posterior" or (of == "auto" and strong(self.belief))
        if posterior:
            found = witness_draws(self.belief.drawn(DRAWS, rng), self.rows, at, length)
        else:
            found = sampling_draws(self.rows, at, length, DRAWS, rng)
        return bands_of(found, level, 1.0 - self.alpha, posterior=posterior)

    def density_ratio(self, points: ArrayLike, *, level: float = 0.8, seed: int = 0) -> Bands:
        """Summarise the posterior of the ratio p/q of densities, given that there is a difference.

        At a point, where the ratio of a :class:`Place` is of mean weights around one.
        ``mean`` is the geometric mean. Ratios are told from 0.001 to 1000; with Gaussian labels a
        density may come out negative, and the ratio is then at such an end.

        Args:
            points: (m, D) or (m,), in the units of the data; columns of a data frame are matched
                by name.
            level: of the pointwise band; the simultaneous one has 1 - alpha.
            seed: of the draws.
        """
        check_proportion(level, "level")
        check_count(seed, "seed", 0, 2**63 - 1)
        at = self._checked_points(points) / self.rows.scale
        drawn = self.belief.drawn(DRAWS, np.random.default_rng(seed))
        logs = bands_of(log_ratio_draws(drawn, at), level, 1.0 - self.alpha)
        ends = ("mean", "lower", "upper", "wide_lower", "wide_upper")
        cut = math.log(LARGEST)
        told = {end: np.exp(np.clip(getattr(logs, end), -cut, cut)) for end in ends}
        return dataclasses.replace(logs, **told)

    def rows_needed(self, power: float = 0.8, *, seed: int = 0) -> RowsNeeded:
        """Tell with how many rows the test would find this difference, by simulation.

        The median of its posterior and an interval, in about a minute; see
        :mod:`bke.inference.comparison.planning`.

        Args:
            power: the probability with which the test is to reject, between ``alpha`` and 1.
            seed: of the simulation.

        Raises:
            InputError: for a power that makes no sense, and for rows that belong together or
                have weights.
        """
        if not self.alpha < power < 1.0:
            raise InputError(f"power must be between alpha = {self.alpha:g} and 1, got {power!r}")
        check_count(seed, "seed", 0, 2**63 - 1)
        if not self.rows.is_independent:
            why = "have weights" if self.rows.permutation_type == "signs" else "belong together"
            raise InputError(f"rows_needed is for independent rows of one weight, and these {why}")
        with one_thread():
            return rows_needed(self.belief, self.rows, self.alpha, power, seed)
