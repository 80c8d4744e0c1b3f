"""The posterior witness with its bands, per mode and over all chains (BKE Figure 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from ..data.checks import as_sample
from ..diagnosis.masses import INDEPENDENT
from ..diagnosis.modes import Mode, find_modes
from ..errors import InputError
from ..witness.posterior import Band, band
from .names import chain_names, short_place
from .style import OVERALL, mode_colour, panels
from .witness_line import draw_lines
from .witness_map import draw_maps
from .witness_points import draw_points


class View(NamedTuple):
    """What one panel shows."""

    title: str
    detail: str  # which chains, if there are any
    colour: str
    band: Band
    quantity: str = "witness P - Q"

    def heading(self, between: str) -> str:
        """Title and detail, ``between`` them what separates the two."""
        return f"{self.title}{between}({self.detail})" if self.detail else self.title


class Samples(NamedTuple):
    """The two samples, where they are given: each (n, D)."""

    P: np.ndarray | None
    Q: np.ndarray | None

    @property
    def given(self) -> list[np.ndarray]:
        """Those that are."""
        return [sample for sample in self if sample is not None]


def plot_witness(
    witness: xr.DataTree,
    level: float = 0.8,
    P: ArrayLike | None = None,
    Q: ArrayLike | None = None,
    *,
    run: xr.DataTree | None = None,
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """The witness: mean and band in one panel per mode, and over all modes in the last one.

    The last panel weights modes as the witness does, by posterior mass or by how many chains are in
    them (BKE Figure 5 C); its title says which. Stuck chains are left out. One column: lines,
    shaded in the background where the band excludes zero. Two: maps of the mean, pale where the
    band holds zero. More: the points, sorted by mean, with their intervals. Axes are shared and
    chosen from where the data are.

    Args:
        witness: from :func:`~bke.inference.sample_witness`, or that of a test.
        level: posterior probability of the band at each point.
        P: first sample, for a rug or a scatter plot over the witness; of a dependence witness the
            pairs, alone.
        Q: second sample.
        run: names the modes by their location.
        axes: one per panel; by default a new figure.

    Raises:
        InputError: for a wrong level, samples of other columns, or a wrong number of ``axes``.
    """
    a_witness = isinstance(witness, xr.DataTree) and "witness" in witness.data_vars
    if not a_witness or "at" not in witness.coords:
        raise InputError("witness must be what sample_witness or sample_test_witness returned")
    group = witness.to_dataset()
    columns = [str(name) for name in group["column"].values]
    at = group["at"].values
    samples = Samples(_sample(P, "P", columns), _sample(Q, "Q", columns))
    sizes, given = list(witness.attrs.get("sizes", ())), [len(one) for one in samples.given]
    if len(given) == 2 and given != sizes and given[::-1] == sizes:
        raise InputError("P and Q have changed places since the witness was drawn")
    shown = views(witness, level, run)
    count, dimension = len(shown), len(columns)
    rows, across = (count, 1) if dimension == 1 else (1, count)
    size = {1: (7.5, 0.6 + 2.1 * count), 2: (1.0 + 3.7 * count, 4.0)}
    width, height = size.get(dimension, (1.0 + 3.4 * count, 4.6))
    figure, places = panels(
        rows, across, axes, width=width, height=height, sharex=True, sharey=dimension < 3
    )
    draw = {1: draw_lines, 2: draw_maps}.get(dimension, draw_points)
    draw(places, shown, at, samples, columns)
    return figure


def views(witness: xr.DataTree, level: float, run: xr.DataTree | None = None) -> list[View]:
    """The panels: every mode that has draws, then all unless there is only one; of a test one."""
    labels = witness.to_dataset()["mode"].values
    modes = [int(index) for index in np.unique(labels) if index >= 0]
    chains = np.arange(len(labels))
    stuck = chains[(labels < 0).all(axis=1)]
    every = band(witness, level)
    quantity = str(witness.attrs.get("label", View._field_defaults["quantity"]))
    if "title" in witness.attrs:  # of a test, which has no chains
        return [View(str(witness.attrs["title"]), "", mode_colour(0), every, quantity)]
    left_out = f"{len(stuck)} of {len(chains)} stuck and left out"
    has_chains = witness.attrs.get("method", "nuts") not in INDEPENDENT
    if len(modes) == 1:
        detail = f"one mode, {left_out}" if len(stuck) else "one mode"
        whose = "all chains" if has_chains else "all draws"
        return [View(whose, detail, mode_colour(modes[0]), every)]
    locations = find_modes(run).modes if run is not None else ()
    shown = []
    for index in modes:
        where = short_place(locations[index]) if index < len(locations) else ""
        members = chain_names(chains[(labels == index).any(axis=1)]) if has_chains else ""
        title = f"mode {index + 1}{f': {where}' if where else ''}"
        if index < len(locations):
            title += _standing(locations[index])
        shown.append(View(title, members, mode_colour(index), band(witness, level, index)))
    detail = left_out if 0 < len(stuck) < len(chains) else f"{len(chains)} chains"
    by_mass = witness.attrs.get("weights") == "posterior"
    title = f"all modes, weighted by {'posterior mass' if by_mass else 'chain count'}"
    return [*shown, View(title, detail if has_chains else "", OVERALL, every)]


def _standing(mode: Mode) -> str:
    """What to say of a mode's mass: itself where it is known, else its height."""
    if mode.mass is not None:
        return f", mass {mode.mass:.2g}"
    return f", {-mode.height:.0f} nats lower" if mode.height < 0 else ""


def _sample(values: ArrayLike | None, name: str, columns: Sequence[str]) -> np.ndarray | None:
    if values is None:
        return None
    sample = as_sample(values, name)
    if sample.shape[1] != len(columns):
        raise InputError(f"{name} has {sample.shape[1]} columns, but the witness {len(columns)}")
    return sample
