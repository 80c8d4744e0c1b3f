"""What a check of chains found: whether they agree, and if not, which, in what, and where."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.notebook import Shown
from ..data.checks import pluralize
from ..diagnostics.integral import Integral
from ..permutation.permutation import p_in_words
from .cluster_masses import ClusterMass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: An R-hat beyond this is told as such.
LARGEST_RHAT = 100.0
#: Columns and pairs of columns that are told.
MOST_TOLD = 6
#: Shares of a posterior below this are told as such.
LEAST_MASS = 1e-4


class Named(NamedTuple):
    """A column, or a pair of them, in which chains may disagree.

    Attributes:
        name: of the column; of a pair both, joined by " and ".
        pvalue: adjusted for all columns, or all pairs, and for there being two tests.
        differs: whether that is at most the level, and the chains disagree at all.
    """

    name: str
    pvalue: float
    differs: bool


@dataclasses.dataclass(frozen=True, repr=False)
class ChainsCheck(Shown):
    """Whether chains agree with each other, and each with itself.

    Attributes:
        pvalue: of all chains being draws of one distribution from their first draw to their last:
            twice the smaller of ``between`` and ``within``, or of one chain ``within``.
        alpha: level.
        between: p-value of chains against each other; NaN of one chain.
        within: p-value of first halves against second ones.
        kind: the loudest kind of evidence: location, spread, skewness, tails, correlations, or
            all parameters together.
        clusters: chains that cannot be told apart, largest cluster first; one of all where they
            agree.
        drifting: chains whose halves differ.
        of: what ``kind``, ``columns`` and ``pairs`` are of: ``"chains"`` against each other, or
            ``"halves"`` of one chain, or of all where only their halves differ.
        columns: one :class:`Named` for each parameter.
        pairs: pairs of parameters that go together differently, by their p-values; few of them.
        names: of the parameters.
        labels: what the chains are called: the coordinates of a tree, else 0, 1, ...
        left_out: parameters that never move.
        rhat: the largest rank-normalised R-hat of all parameters; NaN of one chain.
        autocorrelation_time: the longest, in draws.
        batches: so many were dealt out.
        sizes: chains, and draws of each.
        permutations: deals of the batches.
        draws: the draws themselves, (C, n, D), of the parameters in ``names``.
        masses: the posterior mass of each cluster, in the order of ``clusters``, where the density
            is known; else none.
        log_integral: of the density over all clusters, with its standard error, likewise.
        notes: what could mislead a reader.
    """

    pvalue: float
    alpha: float
    between: float
    within: float
    kind: str
    clusters: tuple[tuple[int | str, ...], ...]
    drifting: tuple[int | str, ...]
    of: str
    columns: tuple[Named, ...]
    pairs: tuple[Named, ...]
    names: tuple[str, ...]
    labels: tuple[int | str, ...]
    left_out: tuple[str, ...]
    rhat: float
    autocorrelation_time: float
    batches: int
    sizes: tuple[int, int]
    permutations: int
    draws: np.ndarray
    masses: tuple[ClusterMass, ...] = ()
    log_integral: Integral | None = None
    notes: tuple[str, ...] = ()

    @property
    def agree(self) -> bool:
        """Whether nothing was found at level ``alpha``."""
        return self.pvalue > self.alpha

    @property
    def verdict(self) -> str:
        """What was found, in a few words."""
        if self.sizes[0] == 1:
            return "no drift was found" if self.agree else "the chain drifts"
        return "no disagreement was found" if self.agree else "the chains disagree"

    def in_words(self, pvalue: float) -> str:
        """Tell one of the p-values: ``p = 0.031``, or ``p ≤ 0.002`` where it is the least."""
        # Of several chains each is twice the smaller of two, between them and within each.
        return p_in_words(pvalue, self.permutations, tests=min(2, self.sizes[0]))

    def __str__(self) -> str:
        chains, draws = self.sizes
        verdict = self.verdict if self.agree else self.verdict.upper()
        parameters = pluralize(len(self.names), "parameter")
        what = f"{pluralize(chains, 'chain')} of {draws} draws, {parameters}"
        lines = [f"{what}: {verdict} ({self.in_words(self.pvalue)})."]
        lines += [] if self.agree else self._findings()
        lines += self._weighed()
        rhat = "" if np.isnan(self.rhat) else f"; R-hat {self.rhat:.3f}"
        if self.rhat > LARGEST_RHAT:  # of chains that do not move
            rhat = f"; R-hat above {LARGEST_RHAT:g}"
        lines.append(
            f"{self.batches} batches, {self.permutations} deals, level {self.alpha:g}; longest "
            f"autocorrelation time {self.autocorrelation_time:.3g} draws{rhat}."
        )
        return "\n  ".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def _findings(self) -> list[str]:
        found = [f"The evidence is in {self.kind}."]
        if len(self.clusters) > 1:
            each = " | ".join(", ".join(map(str, one)) for one in self.clusters)
            found.append(f"Chains that cannot be told apart: {each}.")
        elif self.sizes[0] > 1 and 2.0 * self.between <= self.alpha:
            found.append("No two chains by themselves can be told apart.")
        if self.drifting:
            found.append(
                f"First and second half differ: chain {', '.join(map(str, self.drifting))}."
            )
        for what, named in (
            ("They differ in", self.columns),
            ("They go together differently:", self.pairs),
        ):
            told = sorted((one for one in named if one.differs), key=lambda one: one.pvalue)
            if told:
                shown = ", ".join(
                    f"{one.name} ({self.in_words(one.pvalue)})" for one in told[:MOST_TOLD]
                )
                more = f" and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else ""
                found.append(f"{what} {shown}{more}.")
        return found

    def _weighed(self) -> list[str]:
        if self.log_integral is None:
            return []
        total = f"log integral {self.log_integral.log:.4g} ± {self.log_integral.error:.2g}"
        if len(self.masses) == 1:
            return [f"Of the density over what the chains went through: {total}."]
        each = "; ".join(
            f"{', '.join(map(str, one.chains))}: {_mass(one.mass, one.error)}"
            for one in self.masses
        )
        return [
            f"Posterior mass by bridge sampling, of what chains went through: {each} ({total})."
        ]

    def __repr__(self) -> str:
        return f"<check of {self.sizes[0]} chains: {self.in_words(self.pvalue)}>"

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each parameter, and for each pair that goes together differently.

        Columns: ``name``, ``what`` (``"parameter"`` or ``"pair"``), ``pvalue``, adjusted for all of
        its sort, and ``differs``.
        """
        import pandas as pd

        each = (("parameter", self.columns), ("pair", self.pairs))
        rows = [(one.name, what, one.pvalue, one.differs) for what, named in each for one in named]
        return pd.DataFrame(rows, columns=["name", "what", "pvalue", "differs"])

    def to_dict(self) -> dict[str, Any]:
        """What was found, as JSON has it; without the draws."""
        told = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        del told["draws"]
        told["columns"], told["pairs"] = (
            [one._asdict() for one in named] for named in (self.columns, self.pairs)
        )
        told["masses"] = [one._asdict() for one in self.masses]
        integral = self.log_integral
        told["log_integral"] = integral and {"log": integral.log, "error": integral.error}
        for name in ("between", "rhat"):
            told[name] = None if np.isnan(told[name]) else told[name]
        return {"agree": self.agree, **told}

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Draw every chain along the parameters that differ most.

        Args:
            axes: one for each panel; by default a new figure.
        """
        from ..plots.chains import plot_chains

        return plot_chains(self, axes=axes)


def _mass(mass: float, error: float) -> str:
    """A share of the posterior, as far as it can be told from none and all."""
    if error < LEAST_MASS and min(mass, 1.0 - mass) < LEAST_MASS:
        return f"below {LEAST_MASS:g}" if mass < 0.5 else f"above {1.0 - LEAST_MASS:g}"
    return f"{mass:.3g} ± {error:.2g}"
