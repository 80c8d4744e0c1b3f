"""What a comparison of two samples found: one object, from which every word and picture comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.notebook import Shown
from ..data.checks import pluralize
from ..permutation.null_distribution import describe_p
from .findings import Findings
from .words import told

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Comparison(Findings, Shown):
    """Whether two samples differ, where, at what scale, by how much, and how sure that is.

    Printed it is the report. Its attributes are those of
    :class:`~bke.inference.comparison.findings.Findings`.
    """

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Draw the samples, the witness of their difference, and what is named of it.

        Args:
            axes: one for each panel; by default a new figure.
        """
        from ..plots.comparison import plot_comparison

        return plot_comparison(self, axes=axes)

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each place, the most significant first.

        Columns: ``more``, the sample that has more there; ``ratio`` of weights, of the first sample
        over the second, with ``low`` and ``high`` of its interval; ``pvalue``, adjusted for all
        places; its ``intervals``, of data of one column; and for each column of
        the data its ``.at`` and ``.scale``, infinite where the place does not hang on it.
        """
        import pandas as pd

        header = ["more", "ratio", "low", "high", "pvalue"]
        header += ["intervals"] if len(self.columns) == 1 else []
        header += [f"{name}.{what}" for name in self.columns for what in ("at", "scale")]
        rows = []
        for place in self.places:
            where = np.column_stack([place.at, place.scale]).ravel().tolist()
            more = self.names[0] if place.sign > 0 else self.names[1]
            row = [more, place.ratio, *place.interval, place.pvalue]
            row += [place.intervals] if len(self.columns) == 1 else []
            rows.append([*row, *where])
        return pd.DataFrame(rows, columns=header)

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
            "components": [component._asdict() for component in self.components],
            "places": [place.to_dict() for place in self.places],
            "effect": self.effect,
            "effect_interval": list(self.effect_interval),
            "detectable_shift": self.detectable_shift,
            "mean_difference": self.mean_difference.tolist(),
            "mean_difference_interval": [end.tolist() for end in self.mean_difference_interval],
            "median_difference": None
            if self.median_difference is None
            else self.median_difference.tolist(),
            "median_difference_interval": self.median_difference_interval
            and [end.tolist() for end in self.median_difference_interval],
            "sizes": list(self.sizes),
            "worth": self.rows.effective_sizes.tolist(),
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
        p = describe_p(self.pvalue, self.permutations)
        return f"<Comparison: {verdict}, {p}, {pluralize(len(self.places), 'place')}>"
