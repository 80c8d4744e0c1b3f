"""Results of hypothesis tests: the result object, combined statistics and notes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from bke.models import GaussianMixture
from bke.models.kernels.covariance import length_parameters
from scipy.special import logsumexp

from ..core.notebook import ReprMixin
from ..data.units import rounding_unit
from ..learning.kernel_selection import format_kernel
from ..permutation.null_distribution import (
    combine_statistics,
    describe_p,
    describe_p_with_error,
    format_p,
    monte_carlo_error,
    p_value,
    proportion_error,
    standardize,
)
from ..sampling.record import describe_kernel

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Levels of the quantiles of the null distribution in plain data.
QUANTILES = (0.5, 0.9, 0.95, 0.99)
#: Label of a statistic that combines standardized components.
COMBINED = "log-sum-exp of standardized components"


@dataclasses.dataclass(frozen=True)
class TestComponent:
    """A component statistic of a test that combines several.

    Attributes:
        name: name, such as ``"multiscale"``, or the lengthscale of a kernel in the units of the
            data.
        statistic: observed value.
        pvalue: p-value of this component, not adjusted for the other components.
        kernel: kernel of the component; ``None`` for components without a single kernel.
        deviation: distance of the observed value from its null distribution: the standardized
            value, or minus the log tail probability (nats).
    """

    name: str
    statistic: float
    pvalue: float
    kernel: Any
    deviation: float = 0.0


@dataclasses.dataclass(frozen=True, repr=False)
class TestResult(ReprMixin):
    """A test statistic with its null distribution.

    Attributes:
        test: name of the test, such as ``"two-sample test"``.
        hypotheses: conclusions if the null hypothesis is retained and if it is rejected.
        statistic: observed value of the statistic, of a combined test that of the combination.
        statistic_label: name of the statistic, such as ``"squared MMD"``.
        pvalue: p-value.
        pvalue_error: Monte Carlo standard error of the p-value; 0 without permutations.
        null_distribution: draws of the statistic under the null hypothesis, (B,); empty for a null
            distribution in closed form.
        kernel: kernel of the statistic; in a combined test that of the most extreme MMD or HSIC;
            for independence a tuple of the kernels of x and y.
        kernel_label: text before the kernel in the summary.
        method: null distribution, and statistic or kernel, such as ``"999 permutations, bkl"``.
        exact: true if the level is exact by construction.
        alpha: level of the test.
        components: components of a combined test.
        interval: confidence interval at level 1 - alpha of the quantity in ``interval_label``, by
            default the squared MMD at ``kernel`` (MMD-8). The normal approximation holds where the
            null hypothesis does not.
        interval_label: name of the quantity that ``interval`` and ``estimate`` refer to.
        estimate: point estimate of the same quantity.
        limit: null distribution in closed form, a SciPy distribution, if there are no draws.
        tail: tail of the null distribution that rejects, ``"upper"``, ``"lower"`` or ``"both"``.
        e_value: observed Bayes factor over the mean of the observed and the permuted ones. Its mean
            under the null hypothesis is 1, over the permutations; it is at most 1 + B.
        rows: assumption about the rows: ``"independent"``, ``"pairs"``, ``"series"`` in order of
            time, or ``"residuals"`` of a regression.
        fingerprints: hashes of the samples, which a witness compares with those of its samples.
        notes: warnings.
    """

    __test__ = False  # prevents collection by pytest

    test: str
    hypotheses: tuple[str, str]
    statistic: float
    pvalue: float
    null_distribution: np.ndarray
    kernel: Any
    method: str
    exact: bool
    alpha: float
    components: tuple[TestComponent, ...] = ()
    kernel_label: str = "kernel"
    interval: tuple[float, float] | None = None
    interval_label: str = "squared MMD at that kernel"
    estimate: float | None = None
    statistic_label: str = "statistic"
    limit: Any = None
    tail: str = "upper"
    e_value: float | None = None
    rows: str = "independent"
    fingerprints: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    pvalue_error: float = 0.0

    @classmethod
    def from_permutations(cls, values: np.ndarray, **attributes: Any) -> Self:
        """Create the result of a permutation test.

        Args:
            values: statistic of all permutations, (1 + B,), the observed value first. The p-value
                is the proportion of values at or above the first.
            **attributes: remaining attributes.
        """
        pvalue = p_value(values)
        attributes.setdefault("pvalue_error", proportion_error(pvalue, len(values) - 1))
        return cls(
            statistic=float(values[0]), pvalue=pvalue, null_distribution=values[1:], **attributes
        )

    @classmethod
    def from_limit(cls, statistic: float, limit: Any, **attributes: Any) -> Self:
        """Create the result of an upper-tailed test with a null distribution in closed form.

        Args:
            statistic: observed value.
            limit: distribution of SciPy.
            **attributes: remaining attributes.
        """
        return cls(
            statistic=statistic,
            pvalue=float(limit.sf(statistic)),
            null_distribution=np.empty(0),
            limit=limit,
            exact=False,
            **attributes,
        )

    @property
    def pvalue_text(self) -> str:
        """Formatted p-value: ``p = 0.031``, or ``p ≤ 0.001`` for the smallest possible one."""
        return describe_p(self.pvalue, len(self.null_distribution))

    @property
    def reject(self) -> bool:
        """True if the null hypothesis is rejected at level ``alpha``."""
        return self.pvalue <= self.alpha

    @property
    def critical(self) -> tuple[float, ...]:
        """Critical values of the statistic; empty without a null distribution."""
        levels = {
            "upper": [1.0 - self.alpha],
            "lower": [self.alpha],
            "both": [0.5 * self.alpha, 1.0 - 0.5 * self.alpha],
        }[self.tail]
        if len(self.null_distribution):
            return tuple(np.quantile(self.null_distribution, levels).tolist())
        return () if self.limit is None else tuple(self.limit.ppf(levels).tolist())

    def renamed(self, test: str, hypotheses: tuple[str, str]) -> TestResult:
        """Return a copy with another name of the test and other conclusions."""
        return dataclasses.replace(self, test=test, hypotheses=hypotheses)

    def with_sample_names(self, names: tuple[str, str]) -> TestResult:
        """Return a copy whose conclusions name the samples in place of P and Q."""
        null, other = (text.replace("P and Q", " and ".join(names)) for text in self.hypotheses)
        return self.renamed(self.test, (null, other))

    def __str__(self) -> str:
        conclusion = self.hypotheses[int(self.reject)]
        pvalue = describe_p_with_error(self.pvalue, self.pvalue_error, len(self.null_distribution))
        lines = [
            f"{self.test[0].upper()}{self.test[1:]}: {conclusion} at level {self.alpha:g} "
            f"({pvalue}, {self.method}).",
            f"  {self.statistic_label}: {self.statistic:.4g}",
        ]
        if self.kernel is not None:
            lines[-1] += f", {self.kernel_label} {format_kernel(self.kernel)}"
        if self.interval is not None:
            low, high = self.interval
            lines.append(
                f"  {self.interval_label}: {self.estimate:.3g} (approximate "
                f"{100 * (1 - self.alpha):g} % CI {low:.3g} to {high:.3g}, normal limit)"
            )
        if self.e_value is not None:
            lines.append(
                f"  e-value: {self.e_value:.3g} (mean 1 under the null hypothesis, at most "
                f"{len(self.null_distribution) + 1}); the Bayes factor is interpretable only "
                "relative to those of the permutations"
            )
        printed = sorted(self.components, key=lambda part: (part.pvalue, -part.deviation))[:6]
        # The component of the reported kernel is always printed.
        of_kernel = [part for part in self.components if part.kernel is self.kernel]
        largest = max(of_kernel, key=lambda part: (part.deviation, -part.pvalue), default=None)
        if largest is not None and largest not in printed:
            printed.append(largest)
        if printed:
            lines.append(
                f"  {len(printed)} of {len(self.components)} components, most significant first, "
                "with unadjusted p-values:"
            )
        lines += [
            f"    {part.name}: {format_p(part.pvalue, len(self.null_distribution))}"
            for part in printed
        ]
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<{self.test}: {self.pvalue_text}, {self.statistic_label} {self.statistic:.4g}>"

    def to_dataframe(self) -> pd.DataFrame:
        """Return the components as rows, or one row for a test without components.

        Columns: ``name``, ``statistic``, ``pvalue`` (unadjusted) and ``deviation``, see
        :class:`TestComponent`.
        """
        import pandas as pd

        parts = self.components or (
            TestComponent(self.statistic_label, self.statistic, self.pvalue, None),
        )
        rows = [(part.name, part.statistic, part.pvalue, part.deviation) for part in parts]
        return pd.DataFrame(rows, columns=["name", "statistic", "pvalue", "deviation"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, with quantiles in place of the null distribution."""
        quantiles = None
        if len(self.null_distribution):
            values = np.quantile(self.null_distribution, QUANTILES).tolist()
            quantiles = {
                f"{level:g}": value for level, value in zip(QUANTILES, values, strict=True)
            }
        return {
            "test": self.test,
            "statistic": self.statistic,
            "pvalue": self.pvalue,
            "pvalue_error": self.pvalue_error,
            "reject": self.reject,
            "alpha": self.alpha,
            "method": self.method,
            "exact": self.exact,
            "kernel": _describe_kernels(self.kernel),
            "squared_mmd": self.estimate,
            "interval_of_squared_mmd": self.interval,
            "e_value": self.e_value,
            "components": [
                {"name": part.name, "statistic": part.statistic, "pvalue": part.pvalue}
                for part in self.components
            ],
            "quantiles_of_null_distribution": quantiles,
        }

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Plot the null distribution with the observed value.

        Args:
            axes: axes to draw on; by default a new figure.
        """
        from ..plots.testing import plot_test

        return plot_test(self, axes=axes)


def _describe_kernels(kernel: Any) -> Any:
    if isinstance(kernel, tuple):
        return [describe_kernel(component) for component in kernel]
    return None if kernel is None else describe_kernel(kernel)


class CombinedComponents(NamedTuple):
    """A statistic for all permutations with its components.

    Attributes:
        values: combined statistic, (1 + B,), the observed value first.
        components: empty if there is only one.
        most_extreme: index of the component that deviates most from its permutations.
        statistics: component statistics, (k, 1 + B).
        num_other: number of components at the end that are of another type.
    """

    values: np.ndarray
    components: tuple[TestComponent, ...]
    most_extreme: int
    statistics: np.ndarray
    num_other: int = 0

    def pvalue_error(self) -> float:
        """Compute the Monte Carlo standard error of the p-value."""
        count, pvalue = self.statistics.shape[1], p_value(self.values)
        if not self.components:
            return proportion_error(pvalue, count - 1)
        return monte_carlo_error(
            lambda indices: _combined_values(self.statistics[:, indices], self.num_other),
            pvalue,
            count,
        )


def combine(
    statistics: np.ndarray, labels: Sequence[tuple[str, Any]], num_other: int = 0
) -> CombinedComponents:
    """Combine statistics by the log-sum-exp of their values, standardized by permutations.

    Standardization treats the observed value as one of the permutations, so that the combined test
    is as exact as its components. The log-sum-exp lies between the maximum, which has power
    against a single deviating component, and the sum. Statistics of another type join by their
    p-values, so that many components of one type do not outweigh them.

    Args:
        statistics: component statistics, (k, 1 + B), the observed values first.
        labels: name and kernel of each component.
        num_other: number of components at the end that are of another type. They are never the
            most extreme component.
    """
    if len(statistics) == 1:
        return CombinedComponents(statistics[0], (), 0, statistics)
    deviations = standardize(statistics)
    parts = tuple(
        TestComponent(name, float(values[0]), p_value(values), kernel, float(deviation[0]))
        for (name, kernel), values, deviation in zip(labels, statistics, deviations, strict=True)
    )
    most_extreme = int(np.argmax(deviations[: len(statistics) - num_other, 0]))
    values = _combined_values(statistics, num_other)
    return CombinedComponents(values, parts, most_extreme, statistics, num_other)


def _combined_values(statistics: np.ndarray, num_other: int) -> np.ndarray:
    """Combine statistics (k, 1 + B) to (1 + B,)."""
    same_type, other_type = np.split(statistics, [len(statistics) - num_other])
    values = np.asarray(logsumexp(standardize(same_type), axis=0))
    # A component of another type has half the weight of all components of the first type.
    if not num_other:
        return values
    return combine_statistics([values, *other_type], [1.0, *[0.5] * num_other])


def kernel_notes(kernels: list[Any]) -> tuple[str, ...]:
    """Warn of kernels that are not known to be characteristic (KER-10)."""

    def names(characteristic: bool | None) -> str:
        matching = (k for k in kernels if getattr(k, "characteristic", None) is characteristic)
        return ", ".join(sorted({type(kernel).__name__ for kernel in matching}))

    notes = []
    if names(False):
        notes.append(
            f"{names(False)} is not characteristic: the test has no power against some "
            "differences, and a large p-value does not exclude them"
        )
    if names(None):
        notes.append(
            f"it is not known whether {names(None)} is characteristic; if it is not, the test has "
            "no power against some differences"
        )
    return tuple(notes)


def constant_note(pooled: np.ndarray) -> tuple[str, ...]:
    """Name the constant columns of a pooled sample (N, D)."""
    constant = np.flatnonzero(np.ptp(pooled, axis=0) == 0.0) + 1
    if not len(constant):
        return ()
    columns = ", ".join(map(str, constant))
    return (f"constant in both samples and therefore without influence: column {columns}",)


def rounding_note(first: np.ndarray, second: np.ndarray, kernel: Any) -> tuple[str, ...]:
    """Warn if the samples are rounded differently and the lengthscale is below the rounding unit.

    Args:
        first: first sample, (n, D).
        second: second sample, (m, D).
        kernel: kernel of the most extreme statistic. Kernels without a lengthscale have no note.
    """
    parameters = length_parameters(kernel)
    if len(parameters) != 1:
        return ()
    lengths = np.asarray(*parameters.values())
    lengths = lengths.min(axis=0) if isinstance(kernel, GaussianMixture) else lengths
    for index, length in enumerate(np.broadcast_to(lengths, first.shape[1])):
        units = [rounding_unit(sample[:, index]) or 0.0 for sample in (first, second)]
        if max(units) > max(2.0 * min(units), float(length)):
            column = f" in column {index + 1}" if first.shape[1] > 1 else ""
            other = f"to {min(units):.3g}" if min(units) else "not at all"
            return (
                f"one sample is rounded to {max(units):.3g}{column} and the other {other}, and the "
                "statistic is most extreme at a lengthscale below the coarser rounding unit. The "
                "difference in rounding alone may explain the rejection; round both samples to the "
                "same unit to exclude this",
            )
    return ()
