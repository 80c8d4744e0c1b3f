"""Result of a comparison of two samples, with its report."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from ..core.errors import InputError
from ..core.machine import single_threaded_blas
from ..core.names import printable_lines
from ..core.notebook import ReprMixin
from ..data.checks import check_count, check_positive, check_proportion, pluralize
from ..data.new_rows import as_evaluation_points
from ..permutation.null_distribution import describe_p, describe_p_with_error
from ..permutation.pooled_sample import PooledSample
from ..statistics.combined import ComponentSummary
from .difference_posterior import STRONG_LOG_BAYES_FACTOR, DifferencePosterior
from .effect_sizes import LocationDifference, mean_difference, median_difference
from .power import POWER, RequiredSampleSize, required_sample_size
from .regions import Region, SignificantWindows
from .summary import format_number, format_odds, format_region
from .witness import (
    MAX_RATIO,
    Bands,
    log_ratio_draws,
    sampling_draws,
    squared_mmd_draws,
    witness_draws,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

#: Number of draws of a posterior; the standard error of a probability is at most 0.011.
DRAWS = 2000

#: Odds from which a Bayes factor is called positive evidence (Kass and Raftery 1995).
POSITIVE_ODDS = 3.0
#: Largest AUC, with an interval that contains 1/2, at which single rows are called uninformative.
UNINFORMATIVE_AUC = 0.6
#: Largest numbers of regions, and of columns with differences in location, in the report.
MAX_REGIONS, MAX_LOCATIONS = 8, 3
#: Attributes with the same value in JSON.
JSON_ATTRIBUTES = (
    *("reject", "pvalue", "pvalue_error", "alpha", "n_resamples", "log_bayes_factor"),
    *("posterior_probability_of_difference", "lengthscale", "lengthscale_interval"),
    *("auc", "auc_interval", "minimum_detectable_shift"),
    *("mean_difference", "mean_difference_interval"),
    *("median_difference", "median_difference_interval"),
    *("sizes", "effective_sizes", "columns", "left_out", "notes", "names", "seed"),
)
BandsOf: TypeAlias = Literal["auto", "posterior", "sampling"]


@dataclasses.dataclass(frozen=True, repr=False)
class Comparison(ReprMixin):
    """Result of :func:`~bke.inference.compare`: test, regions, posterior and effect sizes.

    ``print`` writes the report.

    Attributes:
        pvalue: permutation p-value of the hypothesis P = Q, exact for independent rows and, for
            pairs, of the hypothesis that both rows of a pair are exchangeable; approximate for
            weighted rows.
        pvalue_error: its Monte Carlo standard error.
        alpha: level of the test and of all regions together; intervals have confidence 1 - alpha.
        n_resamples: number of permutations.
        windows: significant windows, with the regions that they form.
        posterior: posterior of the difference.
        auc: probability that a random row of P scores higher than a random row of Q, by
            cross-validation; 1/2 for equal distributions, and below by chance only (see
            :mod:`bke.inference.comparison.effect_sizes`).
        auc_interval: confidence interval of ``auc``.
        minimum_detectable_shift: shift of a column, in its standard deviations within a sample,
            that the test finds with power 0.9, with a simulation error of a tenth (for other than
            normal columns, of the normal scores: see :mod:`bke.inference.comparison.power`);
            ``None`` if the test rejects, and if no shift has this power.
        pooled: pooled rows, in standard deviations of the columns.
        samples: rows of P (m, D) and of Q (n, D), in the units of the data.
        weights: weights of the rows of both samples; ``None`` for equal weights.
        components: components of the combined statistic, the most significant first.
        columns: names of the columns that vary.
        names: names of the samples.
        seed: seed of the permutations.
        left_out: columns that are constant in both samples.
        input_columns: names of ``columns`` in the input, by which the columns of new rows are
            matched, or those passed by the user; ``None`` without names.
        notes: warnings, such as that there are too few rows to reject.
    """

    pvalue: float
    pvalue_error: float
    alpha: float
    n_resamples: int
    windows: SignificantWindows
    posterior: DifferencePosterior
    auc: float
    auc_interval: tuple[float, float]
    minimum_detectable_shift: float | None
    pooled: PooledSample
    samples: tuple[np.ndarray, np.ndarray]
    weights: tuple[np.ndarray, np.ndarray] | None
    components: tuple[ComponentSummary, ...]
    columns: tuple[str, ...]
    names: tuple[str, str]
    seed: int
    left_out: tuple[str, ...] = ()
    input_columns: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def reject(self) -> bool:
        """Whether the test rejects P = Q at level ``alpha``."""
        return self.pvalue <= self.alpha

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions in which the densities differ, the most significant first; empty unless rejected.

        The probability of any false region is at most ``alpha``.
        """
        return self.windows.regions

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of rows of P and of Q."""
        return self.pooled.sizes

    @property
    def effective_sizes(self) -> np.ndarray:
        """Effective number of rows of P and of Q, (2,): 1 / sum w^2 for weighted rows."""
        return self.pooled.effective_sizes

    @property
    def log_bayes_factor(self) -> float:
        """Log Bayes factor of a difference against none, in nats."""
        return self.posterior.log_bayes_factor

    @property
    def posterior_probability_of_difference(self) -> float:
        """Posterior probability of a difference, with prior probability 1/2."""
        return self.posterior.probability

    @property
    def lengthscale(self) -> np.ndarray:
        """Posterior median (D,) of the lengthscale of the difference, in the units of the data."""
        return self._lengthscales(0.5)[0]

    @property
    def lengthscale_interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends (D,) of the equal-tailed posterior interval of the lengthscale."""
        low, high = self._lengthscales(0.5 * self.alpha, 1.0 - 0.5 * self.alpha)
        return low, high

    def _lengthscales(self, *probabilities: float) -> np.ndarray:
        return self.posterior.lengthscale_quantiles(*probabilities)[:, None] * self.pooled.scale

    @property
    def mean_difference(self) -> np.ndarray:
        """Mean of the second sample minus that of the first, (D,), in the units of the data."""
        return self._means.estimate

    @property
    def mean_difference_interval(self) -> tuple[np.ndarray, np.ndarray]:
        """Ends (D,) of the confidence interval of each mean difference."""
        return self._means.interval

    @property
    def median_difference(self) -> np.ndarray | None:
        """Hodges-Lehmann estimate (D,) of the shift from the first sample to the second.

        ``None`` for weighted rows, and for so few rows that no interval has the confidence.
        """
        return None if self._medians is None else self._medians.estimate

    @property
    def median_difference_interval(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Ends (D,) of the confidence interval of each shift."""
        return None if self._medians is None else self._medians.interval

    @property
    def _paired(self) -> bool:
        return self.pooled.permutation_type == "samples"

    # The points of ``pooled`` are clipped, and the means of cells if there are many rows.
    @functools.cached_property
    def _means(self) -> LocationDifference:
        return mean_difference(*self.samples, self.alpha, paired=self._paired, weights=self.weights)

    @functools.cached_property
    def _medians(self) -> LocationDifference | None:
        if self.weights is not None:
            return None
        return median_difference(*self.samples, self.alpha, paired=self._paired)

    def region_sign(self, points: ArrayLike) -> np.ndarray:
        """Return the sign of the significant difference at points.

        It is 1 if the density of P is larger, -1 if that of Q is, and 0 outside of all regions. A
        region extends as far as the bandwidths of its windows; for one column it is its
        ``intervals``. For one and two columns it is limited to points near rows, around which the
        samples differ at that bandwidth with the same sign.

        Args:
            points: (m, D) or (m,), in the units of the data; columns of a data frame are matched
                by name.

        Returns:
            Signs (m,).
        """
        return self.windows.region_sign(self._as_points(points))

    def prob_mmd2_exceeds(self, delta: float) -> float:
        """Compute the posterior probability that the squared MMD exceeds ``delta``.

        The kernel is the squared exponential with the ``lengthscale`` of the difference, for which
        the squared MMD is between 0 and 2. For a normal column shifted by d standard deviations it
        is close to ``a d^2 / (a^2 + 2)^1.5`` at a lengthscale of a standard deviations: at a = 1,
        0.002 for a shift of 0.1 and 0.05 for a shift of 0.5.
        """
        threshold = check_positive(delta, "delta")
        lengthscale = float(self.posterior.lengthscale_quantiles(0.5)[0])
        difference = self.posterior.draw(DRAWS, np.random.default_rng(0))
        squared_mmd = squared_mmd_draws(difference, self.pooled, lengthscale)
        return float(np.mean(squared_mmd > threshold)) * self.posterior.probability

    def witness(
        self,
        points: ArrayLike,
        *,
        scale: ArrayLike | None = None,
        level: float = 0.8,
        of: BandsOf = "auto",
        seed: int = 0,
    ) -> Bands:
        """Compute the witness function mu_P - mu_Q with bands.

        The bands are those of the posterior if the Bayes factor is strong evidence of a difference.
        Otherwise the posterior is shrunk to 0 and its bands are too narrow
        (``benchmarks/results/difference-300.md``), and the bands are those of the sampling errors.

        Args:
            points: (m, D) or (m,), in the units of the data; columns of a data frame are matched
                by name.
            scale: lengthscale of the squared exponential, (D,) or a number, in the units of the
                data; by default the ``lengthscale`` of the difference.
            level: probability of the pointwise band; the simultaneous band has 1 - alpha.
            of: ``"posterior"``, given a difference; ``"sampling"``, the empirical witness with its
                sampling errors; ``"auto"``, the posterior if the log Bayes factor is above 3.
            seed: seed of the draws.
        """
        if of not in get_args(BandsOf):
            raise InputError(f"of must be 'auto', 'posterior' or 'sampling', got {of!r}")
        check_proportion(level, "level")
        check_count(seed, "seed", 0, 2**63 - 1)
        scaled_points = self._as_points(points) / self.pooled.scale
        lengthscale = self._as_lengthscale(scale) / self.pooled.scale
        rng = np.random.default_rng(seed)
        strong = self.log_bayes_factor > STRONG_LOG_BAYES_FACTOR
        posterior = of == "posterior" or (of == "auto" and strong)
        if posterior:
            difference = self.posterior.draw(DRAWS, rng)
            draws = witness_draws(difference, self.pooled, scaled_points, lengthscale)
        else:
            draws = sampling_draws(self.pooled, scaled_points, lengthscale, DRAWS, rng)
        return Bands.from_draws(draws, level, 1.0 - self.alpha, posterior=posterior)

    def density_ratio(self, points: ArrayLike, *, level: float = 0.8, seed: int = 0) -> Bands:
        """Compute the posterior of the density ratio p/q, given a difference.

        It is the ratio at a point; that of a :class:`Region` is of mean weights around its center.
        ``mean`` is the geometric mean. Ratios are clipped to 0.001 and 1000; with Gaussian labels a
        density may be negative, and the ratio is then at such a limit.

        Args:
            points: (m, D) or (m,), in the units of the data; columns of a data frame are matched
                by name.
            level: probability of the pointwise band; the simultaneous band has 1 - alpha.
            seed: seed of the draws.
        """
        check_proportion(level, "level")
        check_count(seed, "seed", 0, 2**63 - 1)
        scaled_points = self._as_points(points) / self.pooled.scale
        difference = self.posterior.draw(DRAWS, np.random.default_rng(seed))
        logs = Bands.from_draws(log_ratio_draws(difference, scaled_points), level, 1.0 - self.alpha)
        limit = math.log(MAX_RATIO)
        fields = ("mean", "lower", "upper", "wide_lower", "wide_upper")
        ratios = {field: np.exp(np.clip(getattr(logs, field), -limit, limit)) for field in fields}
        return dataclasses.replace(logs, **ratios)

    def required_sample_size(self, power: float = 0.8, *, seed: int = 0) -> RequiredSampleSize:
        """Simulate the sample size with which the test finds this difference.

        Returns the posterior median with an 80 % interval, in about a minute; see
        :mod:`bke.inference.comparison.power`. It is approximate: in four settings of 2000 + 2000
        rows the median was 1.09 to 1.20 times the true number, and the interval contained that in
        0.50 to 0.80 of 20 data sets (``benchmarks/rows_needed.py``).

        Args:
            power: probability of a rejection, between ``alpha`` and 1.
            seed: seed of the simulation.

        Raises:
            InputError: for an invalid power, and for pairs or weighted rows.
        """
        if not self.alpha < power < 1.0:
            raise InputError(f"power must be between alpha = {self.alpha:g} and 1, got {power!r}")
        check_count(seed, "seed", 0, 2**63 - 1)
        if not self.pooled.is_independent:
            raise InputError(
                "required_sample_size is for independent rows of equal weight, and these "
                f"{'are paired' if self._paired else 'have weights'}: compare them without "
                f"{'paired' if self._paired else 'weights'} for a rough number"
            )
        with single_threaded_blas():
            return required_sample_size(self.posterior, self.pooled, self.alpha, power, seed)

    def _as_points(self, points: ArrayLike) -> np.ndarray:
        """Check points, and return the columns that vary, (m, D)."""
        return as_evaluation_points(
            points, len(self.columns), "points", self.input_columns, optional=self.left_out
        )

    def _as_lengthscale(self, scale: ArrayLike | None) -> np.ndarray:
        """Return the lengthscale (D,), by default that of the difference.

        Raises:
            InputError: if it is neither one positive number nor one for each column.
        """
        if scale is None:
            return self.lengthscale
        values, dimension = np.asarray(scale, dtype=float), len(self.columns)
        valid = values.shape in ((), (1,), (dimension,)) and (values > 0.0).all()
        if not valid or not np.isfinite(values).all():
            raise InputError(
                f"scale must be a positive number or {dimension} of them, got {scale!r}"
            )
        return np.broadcast_to(values, (dimension,))

    def plot(self, **options: Any) -> Figure:
        """Plot the samples, the regions and the witness function.

        Args:
            **options: ``ax``, ``figsize``, ``title``, ``xlabel``, ``units`` and ``legend`` of
                :func:`~bke.inference.plot_comparison`.
        """
        from ..plots.comparison import plot_comparison

        return plot_comparison(self, **options)

    def to_dataframe(self) -> pd.DataFrame:
        """Return the regions, the most significant first, and the other effect sizes as rows.

        Columns: ``quantity`` (density ratio, mean difference, Hodges-Lehmann shift, AUC);
        ``column``, that of a difference in location; ``estimate`` with its interval ``low`` to
        ``high``; ``pvalue`` of a region, adjusted for all regions. Only regions have also
        ``higher_in``, the sample with the higher density; ``intervals``, for one column; and for
        each column of the data its ``.center`` and ``.bandwidth``, which is infinite if the column
        is not used. Density ratios are of the first sample over the second, and differences of
        the second sample minus the first. ``attrs`` has ``pvalue``, ``pvalue_error``, ``alpha``,
        ``n_resamples``, ``names`` and ``sizes`` of the comparison.
        """
        import pandas as pd

        rows: list[dict[Any, Any]] = []
        for region in self.regions:
            low, high = region.ratio_interval
            row = {
                "quantity": "density ratio",
                "estimate": region.ratio,
                "low": low,
                "high": high,
                "pvalue": region.pvalue,
                "higher_in": self.names[0] if region.sign > 0 else self.names[1],
                "intervals": region.intervals,
            }
            row |= {
                f"{name}.{end}": value
                for end, values in (("center", region.center), ("bandwidth", region.bandwidth))
                for name, value in zip(self.columns, values.tolist(), strict=True)
            }
            rows.append(row)
        for quantity, difference in (
            ("mean difference", self._means),
            ("Hodges-Lehmann shift", self._medians),
        ):
            if difference is not None:
                frame = pd.DataFrame({"column": self.columns, "estimate": difference.estimate})
                frame["low"], frame["high"] = difference.interval
                rows += frame.assign(quantity=quantity).to_dict("records")
        low, high = self.auc_interval
        rows.append({"quantity": "AUC", "estimate": self.auc, "low": low, "high": high})
        header = ["quantity", "column", "estimate", "low", "high", "pvalue", "higher_in"]
        header += ["intervals"] if len(self.columns) == 1 else []
        header += [f"{name}.{end}" for name in self.columns for end in ("center", "bandwidth")]
        frame = pd.DataFrame(rows, columns=header)
        attributes = ("pvalue", "pvalue_error", "alpha", "n_resamples", "names", "sizes")
        frame.attrs = {name: getattr(self, name) for name in attributes}
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Return the attributes as plain data for JSON, and the first sentence of the report."""
        return {name: _plain(getattr(self, name)) for name in JSON_ATTRIBUTES} | {
            "components": [component._asdict() for component in self.components],
            "regions": [region.to_dict() for region in self.regions],
            "sentence": self._verdict(),
        }

    @property
    def headline(self) -> str:
        """The decision of the test with p-value and odds, without a full stop."""
        p = describe_p_with_error(self.pvalue, self.pvalue_error, self.n_resamples)
        odds = format_odds(self.log_bayes_factor)
        test = "permutation test" if self.weights is None else "sign-flip test"
        numbers = f"({test}: {p}; posterior odds: {odds})"
        first, second = self.names
        if self.reject:
            return f"{first} and {second} differ {numbers}"
        return f"No difference between {first} and {second} was found {numbers}"

    def __str__(self) -> str:
        lines = self._region_lines() if self.reject else [self._shift_line()]
        if self.reject:
            strongest = self.components[0]
            p = describe_p(strongest.pvalue, self.n_resamples)
            name = strongest.name
            if len(self.columns) == 1 and name.endswith("of covariances"):
                name = "in variance"
            lines.append(f"Strongest component of the test: difference {name} ({p}).")
            lines.append(self._lengthscale_line())
        lines += [*self._location_lines(), self._auc_line()]
        if self.left_out:
            lines.append(f"Dropped constant columns: {', '.join(self.left_out)}.")
        lines += [self._method_line(), *(f"Note: {note}" for note in self.notes)]
        return printable_lines("\n  ".join([self._verdict(), *lines]))

    def __repr__(self) -> str:
        verdict = "differ" if self.reject else "no difference found"
        p = describe_p(self.pvalue, self.n_resamples)
        return f"<Comparison: {verdict}, {p}, {pluralize(len(self.regions), 'region')}>"

    def _verdict(self) -> str:
        """Return the decision of the test, with a remark if the odds point the other way."""
        log_odds, positive = self.log_bayes_factor, math.log(POSITIVE_ODDS)
        remark = ""
        if self.reject and log_odds <= -positive:
            remark = (
                "; the test decides: the odds average over differences of all scales and sizes, "
                "of which this one is not typical"
            )
        elif self.reject and log_odds < positive:
            remark = "; the test decides: the odds are close to even"
        elif not self.reject and log_odds >= positive:
            remark = "; the test decides, although the odds favor a difference"
        return f"{self.headline}{remark}."

    @property
    def _confidence(self) -> str:
        return f"{100 * (1 - self.alpha):g} %"

    def _region_lines(self) -> list[str]:
        if not self.regions:
            return ["No single region is significant."]
        lines = [
            format_region(
                region,
                self.names,
                self.columns,
                self.pooled.scale,
                n_resamples=self.n_resamples,
                confidence=self._confidence,
            )
            for region in self.regions[:MAX_REGIONS]
        ]
        if (more := len(self.regions) - MAX_REGIONS) > 0:
            lines.append(f"And {pluralize(more, 'more region')}.")
        return lines

    def _shift_line(self) -> str:
        shift = self.minimum_detectable_shift
        if shift is None:
            return f"At this sample size no single-column shift reaches a power of {POWER:g}."
        column, size = "one column", f"{f'{shift:#.2g}'.rstrip('.')} standard deviations"
        if len(self.columns) == 1:
            column = self.columns[0]
            size = f"{shift * self.pooled.scale[0]:.2g} ({size})"
        return f"Minimum detectable shift of {column} with a power of {POWER:g}: about {size}."

    def _lengthscale_line(self) -> str:
        """Describe the lengthscale, of several columns in standard deviations."""
        scale = np.ones(1) if len(self.columns) == 1 else self.pooled.scale
        median, low, high = (
            format_number(float(value[0] / scale[0]), 2)
            for value in (self.lengthscale, *self.lengthscale_interval)
        )
        unit = f"in {self.columns[0]}"
        unit = unit if len(self.columns) == 1 else "standard deviations of each column"
        return (
            f"Lengthscale of the difference: {median} {unit} "
            f"({self._confidence} posterior interval {low} to {high})."
        )

    def _location_lines(self) -> list[str]:
        """Describe the differences in location of at most :data:`MAX_LOCATIONS` columns."""
        if len(self.columns) > MAX_LOCATIONS:
            return []
        first, second = self.names
        lines = []
        for index, column in enumerate(self.columns):
            parts = []
            for difference in (self._means, self._medians):
                if difference is not None:
                    estimate, low, high = (
                        format_number(float(value[index]), 3)
                        for value in (difference.estimate, *difference.interval)
                    )
                    parts.append(f"{estimate} (unadjusted {self._confidence} CI {low} to {high})")
            values = "; Hodges-Lehmann shift ".join(parts)
            lines.append(f"Mean difference of {column}, {second} - {first}: {values}.")
        lower, upper = (float(end[0]) for end in self.mean_difference_interval)
        if len(self.columns) == 1 and not self.reject and (lower > 0.0 or upper < 0.0):
            test = "paired t-test" if self._paired else "t-test"
            lines.append(
                f"The interval of the mean difference excludes 0: a {test} of the mean alone "
                "rejects, which counts if it was planned before the data were seen."
            )
        return lines

    def _auc_line(self) -> str:
        low, high = self.auc_interval
        name = (
            f"Cross-validated AUC, the probability that a row of {self.names[0]} scores higher "
            f"than a row of {self.names[1]}:"
        )
        if self._paired:
            name = (
                "Cross-validated proportion of pairs in which a classifier recognizes the row of "
                f"{self.names[0]}:"
            )
        remark = "0.5 = indistinguishable"
        if self.reject and low <= 0.5 <= high and self.auc <= UNINFORMATIVE_AUC:
            remark += ": the samples differ, but a single row is not informative"
        # Either condition alone is met too often, the second one if there are few permutations.
        if high < 0.5 and self.pvalue > 1.0 - self.alpha:
            remark += ": the samples are more similar than samples of one distribution"
        return f"{name} {self.auc:.3f} ({self._confidence} CI {low:.3f} to {high:.3f}; {remark})."

    def _method_line(self) -> str:
        m, n = self.sizes
        rows, resamples = f"{m} pairs" if self._paired else f"{m} and {n} rows", "permutations"
        if self.weights is not None:
            sizes = " and ".join(format_number(float(size), 3) for size in self.effective_sizes)
            rows, resamples = f"{rows} (effective sample sizes {sizes})", "sign flips"
        return f"{rows}, {self.n_resamples} {resamples}, level {self.alpha:g}, seed {self.seed}."


def _plain(value: Any) -> Any:
    """Convert arrays and tuples to lists, and ends (D,) of intervals to D pairs."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return np.stack(value, axis=1).tolist()
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value
