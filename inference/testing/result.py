"""What a hypothesis test found: one object for all of them, which prints as a sentence."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..core.notebook import Shown
from ..learning.kernel_selection import format_kernel
from ..permutation.permutation import p_alone, p_in_words, p_value, p_with_error, share_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Parts that are printed.
MOST_PRINTED = 6


@dataclasses.dataclass(frozen=True)
class Part:
    """One of the statistics that a test combines.

    Attributes:
        name: such as ``"multiscale"``, or a kernel's lengthscale in the units of the data.
        statistic: the observed value.
        pvalue: of this statistic alone, not corrected for the others.
        kernel: whose statistic it is; ``None`` of one that has none, or several.
        deviation: of the statistic from the mean of its permutations, in their standard deviations,
            or how surprising it is among them, nats.
    """

    name: str
    statistic: float
    pvalue: float
    kernel: Any
    deviation: float = 0.0


@dataclasses.dataclass(frozen=True, repr=False)
class TestResult(Shown):
    """A statistic with its null distribution.

    Attributes:
        test: what was tested, such as ``"two-sample test"``.
        hypotheses: what is said where the null is retained, and where it is rejected.
        statistic: the observed value; of a combined test, the combination's.
        statistic_of: what it is, such as ``"squared MMD"``.
        pvalue: the p-value.
        pvalue_error: the standard error that the draw of the permutations leaves in it; 0 of others
            than permutation tests.
        null: draws of the statistic under the null hypothesis, (B,); empty for a distribution in
            closed form.
        kernel: the kernel of the statistic; of a combined test, that of the MMD or HSIC that
            is most extreme among its permutations; for independence that of x and that of y.
        kernel_of: whose kernel it is, in the sentence.
        how: where the null comes from, such as ``"999 permutations"``.
        exact: whether the level is exact by construction, not by approximation.
        alpha: level at which the sentence speaks.
        parts: of a combined test.
        interval: with confidence 1 - alpha, for the squared MMD at ``kernel`` (MMD-8) or what
            ``interval_of`` says; by a normal limit that holds where the null does not.
        interval_of: see there.
        estimate: of the same.
        limit: the null in closed form, a SciPy distribution, where there are no draws.
        tail: of the null that rejects, ``"upper"``, ``"lower"`` or ``"both"``.
        e_value: observed Bayes factor over the mean of the permuted and the observed: an e-value,
            whose mean under the null, over the draw of the permutations, is 1; at most 1 + B.
        rows: what was taken for granted of the rows: ``"independent"``, ``"pairs"`` that belong
            together, ``"series"`` in order of time, or ``"residuals"`` of a regression.
        fingerprints: of the samples, by which a witness knows them.
        notes: warnings.
    """

    __test__ = False  # for pytest, not one of its classes

    test: str
    hypotheses: tuple[str, str]
    statistic: float
    pvalue: float
    null: np.ndarray
    kernel: Any
    how: str
    exact: bool
    alpha: float
    parts: tuple[Part, ...] = ()
    kernel_of: str = "kernel"
    interval: tuple[float, float] | None = None
    interval_of: str = "squared MMD at that kernel"
    estimate: float | None = None
    statistic_of: str = "statistic"
    limit: Any = None
    tail: str = "upper"
    e_value: float | None = None
    rows: str = "independent"
    fingerprints: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    pvalue_error: float = 0.0

    @classmethod
    def permuted(cls, row: np.ndarray, **said: Any) -> Self:
        """Make a result of a statistic for all permutations (1 + B,), the observed value first.

        Args:
            row: see above; the p-value is the share of its values that are as large as the first.
            **said: the other attributes.
        """
        pvalue = p_value(row)
        said.setdefault("pvalue_error", share_error(pvalue, len(row) - 1))
        return cls(statistic=float(row[0]), pvalue=pvalue, null=row[1:], **said)

    @property
    def pvalue_in_words(self) -> str:
        """The p-value as in every text: ``p = 0.031``, or ``p ≤ 0.001`` where it is the least."""
        return p_in_words(self.pvalue, len(self.null))

    @property
    def rejected(self) -> bool:
        """Whether the null hypothesis is rejected at level ``alpha``."""
        return self.pvalue <= self.alpha

    @property
    def critical(self) -> tuple[float, ...]:
        """The values of the statistic beyond which the null is rejected; none without a null."""
        levels = {
            "upper": (1.0 - self.alpha,),
            "lower": (self.alpha,),
            "both": (0.5 * self.alpha, 1.0 - 0.5 * self.alpha),
        }[self.tail]
        if len(self.null):
            return tuple(float(np.quantile(self.null, level)) for level in levels)
        if self.limit is None:
            return ()
        return tuple(float(self.limit.ppf(level)) for level in levels)

    def renamed(self, test: str, hypotheses: tuple[str, str]) -> TestResult:
        """Tell the numbers as those of another test, in its words."""
        return dataclasses.replace(self, test=test, hypotheses=hypotheses)

    def of_samples(self, names: tuple[str, str]) -> TestResult:
        """Tell it in the names of the samples, in place of P and Q."""
        null, other = (text.replace("P and Q", " and ".join(names)) for text in self.hypotheses)
        return self.renamed(self.test, (null, other))

    def __str__(self) -> str:
        verdict = self.hypotheses[int(self.rejected)]
        kernel = "" if self.kernel is None else f", {self.kernel_of} {format_kernel(self.kernel)}"
        lines = [
            f"{self.test[0].upper()}{self.test[1:]}: {verdict} at level {self.alpha:g} "
            f"({p_with_error(self.pvalue, self.pvalue_error, len(self.null))}, {self.how}).",
            f"  {self.statistic_of}: {self.statistic:.4g}{kernel}",
        ]
        if self.interval is not None:
            low, high = self.interval
            level = f"{100 * (1 - self.alpha):g} %"
            lines.append(
                f"  {self.interval_of}: {self.estimate:.3g}, rough {level} interval {low:.3g} to "
                f"{high:.3g}, by a normal limit"
            )
        if self.e_value is not None:
            lines.append(
                f"  e-value {self.e_value:.3g} (at most {len(self.null) + 1}): a bet of 1 on a "
                "difference has become this; its mean is 1 if there is none. The Bayes factor "
                "means something beside those of permutations only"
            )
        ordered = sorted(self.parts, key=lambda part: (-part.deviation, part.pvalue))
        shown = ordered[:MOST_PRINTED]
        shown += [part for part in self.parts if part is self._spoken_of() and part not in shown]
        if shown:
            lines.append(
                f"  {len(shown)} of {len(self.parts)} parts, the most extreme first, p-values one "
                "by one and not adjusted:"
            )
        lines += [f"    {part.name}: {p_alone(part.pvalue, len(self.null))}" for part in shown]
        return "\n".join([*lines, *(f"  Note: {note}" for note in self.notes)])

    def _spoken_of(self) -> Part | None:
        """The part whose kernel is ``kernel``."""
        mine = [part for part in self.parts if part.kernel is self.kernel]
        return max(mine, key=lambda part: (part.deviation, -part.pvalue), default=None)

    def __repr__(self) -> str:
        return f"<{self.test}: {self.pvalue_in_words}, {self.statistic_of} {self.statistic:.4g}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each part, or for the one statistic of a test that has none.

        Columns: ``name``, ``statistic``, ``pvalue``, of this part alone, and ``deviation``, see
        :class:`Part`.
        """
        import pandas as pd

        parts = self.parts or (Part(self.statistic_of, self.statistic, self.pvalue, self.kernel),)
        rows = [(one.name, one.statistic, one.pvalue, one.deviation) for one in parts]
        return pd.DataFrame(rows, columns=["name", "statistic", "pvalue", "deviation"])

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Draw the null distribution with the observed value.

        Args:
            axes: where to draw; by default a new figure.
        """
        from ..plots.testing import plot_test

        return plot_test(self, axes=axes)
