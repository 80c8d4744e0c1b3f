"""What a comparison of two samples found: one object, from which every word and picture comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..data.checks import counted
from .findings import Findings
from .words import told

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Comparison(Findings):
    """Whether two samples differ, where, at what scale, by how much, and how sure that is.

    Printed it is the report. Its attributes are those of
    :class:`~bke.inference.difference.findings.Findings`.
    """

    def plot(self) -> Figure:
        """Draw the samples, the witness of their difference, and what is named of it."""
        from ..plots.comparison import plot_comparison

        return plot_comparison(self)

    def to_dict(self) -> dict[str, Any]:
        """Tell everything as plain data, keys named as the attributes."""
        return {
            "differ": self.differ,
            "pvalue": self.pvalue,
            "pvalue_error": self.pvalue_error,
            "alpha": self.alpha,
            "permutations": self.permutations,
            "log_bayes_factor": self.log_bayes_factor,
            "probability": self.probability,
            "lengthscale": self.lengthscale.tolist(),
            "lengthscale_interval": [end.tolist() for end in self.lengthscale_interval],
            "evidence": [kind._asdict() for kind in self.evidence],
            "places": [place.to_dict() for place in self.places],
            "effect": self.effect,
            "effect_interval": list(self.effect_interval),
            "detectable_shift": self.detectable_shift,
            "sizes": list(self.sizes),
            "worth": self.rows.worth.tolist(),
            "columns": list(self.columns),
            "left_out": list(self.left_out),
            "notes": list(self.notes),
            "names": list(self.names),
            "seed": self.seed,
            "sentence": str(self).splitlines()[0],
        }

    def __str__(self) -> str:
        return told(self)

    def __repr__(self) -> str:
        verdict = "differ" if self.differ else "no difference found"
        return (
            f"<Comparison: {verdict}, p = {self.pvalue:.3g}, {counted(len(self.places), 'place')}>"
        )
