"""The posterior witness with its bands, per mode and over all chains (BKE Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_flag
from ..data.checks import as_sample, column_names
from ..data.new_rows import column_order, known_names
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..witness.bands import within_range
from .style import panels
from .views import Samples, mode_bands, views
from .witness_line import draw_lines
from .witness_map import draw_maps
from .witness_points import draw_points


def plot_witness(
    witness: xr.DataTree,
    level: float = 0.8,
    P: ArrayLike | None = None,
    Q: ArrayLike | None = None,
    *,
    run: Run | None = None,
    names: tuple[str, str] = ("P", "Q"),
    as_figure5: bool = False,
    axes: Axes | Sequence[Axes] | None = None,
    **model: Unpack[ModelArguments],
) -> Figure:
    """The witness: mean and band in one panel per mode, and over all modes in the last one.

    The last panel weights modes as the witness does, by posterior mass or by how many chains are in
    them (BKE Figure 5 C); its title says which. Stuck chains are left out. One column: lines. Two:
    maps of the mean. More: the points, sorted by mean, with their intervals. Bands are pointwise:
    somewhere they exclude zero by chance, so nothing is marked there; where samples differ is for
    :func:`~bke.inference.compare` to say. Points beyond the range of the data are left out, where
    there are others. Axes are shared, and chosen from where the data are and from the bands of all
    modes, so that they do not depend on weights.

    Args:
        witness: from :func:`~bke.inference.sample_witness`, or that of a test.
        level: posterior probability of the band at each point.
        P: first sample, for a rug or a scatter plot over the witness; of a dependence witness the
            pairs, alone.
        Q: second sample.
        run: from :func:`~bke.inference.fit`, open or not, or draws of another program; names the
            modes by their location.
        names: what the samples are called.
        as_figure5: title the panels as those of BKE Figure 5, ``A: short mode``, ``B: long mode``,
            ``C: as published (by chain)``, which is added, and ``C: by posterior mass``.
        axes: one per panel; by default a new figure.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: for a wrong level, samples of other columns, or a wrong number of ``axes``.
    """
    check_flag(as_figure5, "as_figure5")
    a_witness = isinstance(witness, xr.DataTree) and "witness" in witness.data_vars
    if not a_witness or "at" not in witness.coords:
        raise InputError("witness must be what sample_witness or sample_test_witness returned")
    witness = within_range(witness)
    group = witness.to_dataset()
    columns = [str(name) for name in group["column"].values]
    at = group["at"].values
    samples = Samples(_sample(P, "P", columns), _sample(Q, "Q", columns), names)
    sizes, given = list(witness.attrs.get("sizes", ())), [len(one) for one in samples.given]
    if len(given) == 2 and given != sizes and given[::-1] == sizes:
        raise InputError("P and Q have changed places since the witness was drawn")
    opened = None if run is None else open_run(run, **model)
    shown = views(witness, level, opened, names, as_figure5=as_figure5)
    count, dimension = len(shown), len(columns)
    rows, across = (count, 1) if dimension == 1 else (1, count)
    size = {1: (7.5, 0.6 + 2.1 * count), 2: (1.0 + 3.7 * count, 4.0)}
    width, height = size.get(dimension, (1.0 + 3.4 * count, 4.6))
    figure, places = panels(
        rows, across, axes, width=width, height=height, sharex=True, sharey=dimension < 3
    )
    draw = {1: draw_lines, 2: draw_maps}.get(dimension, draw_points)
    draw(places, shown, at, samples, columns, mode_bands(witness, level))
    return figure


def _sample(values: ArrayLike | None, name: str, columns: Sequence[str]) -> np.ndarray | None:
    if values is None:
        return None
    sample = as_sample(values, name)
    known = known_names(columns) if len(columns) > 1 else None
    order = column_order(column_names(values), known, name)
    sample = sample if order is None else sample[:, order]
    if sample.shape[1] != len(columns):
        raise InputError(f"{name} has {sample.shape[1]} columns, but the witness {len(columns)}")
    return sample
