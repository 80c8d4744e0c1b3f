"""The panels of a witness: one for every mode, one for all of them, and the samples behind."""

from __future__ import annotations

import string
from typing import NamedTuple

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.checks import pluralize
from ..diagnostics.modes import Mode, find_modes, format_chains, format_probability
from ..sampling.open_run import Run
from ..sampling.samplers import is_independent
from ..witness.bands import CredibleBand, credible_band, weighted_by_chain
from .names import figure5_names, short_place
from .style import OVERALL, mode_colour


class View(NamedTuple):
    """What one panel shows."""

    title: str
    detail: str  # which chains, if there are any
    colour: str
    band: CredibleBand
    quantity: str

    def heading(self, between: str) -> str:
        """Title and detail, ``between`` them what separates the two."""
        return f"{self.title}{between}({self.detail})" if self.detail else self.title


class Samples(NamedTuple):
    """The two samples, where they are given: each (n, D)."""

    P: np.ndarray | None
    Q: np.ndarray | None
    names: tuple[str, str]

    @property
    def given(self) -> list[np.ndarray]:
        """The samples that are given."""
        return [sample for sample in (self.P, self.Q) if sample is not None]


def views(
    witness: xr.DataTree,
    level: float,
    run: Run | None = None,
    names: tuple[str, str] = ("P", "Q"),
    *,
    as_figure5: bool = False,
) -> list[View]:
    """Return the panels: modes with draws, then all modes unless there is one; of a test one.

    ``as_figure5``: with titles as in BKE Figure 5, and a panel of chains with equal weights.
    """
    labels = witness.to_dataset()["mode"].values
    modes = [int(index) for index in np.unique(labels) if index >= 0]
    chains = np.arange(len(labels))
    stuck = chains[(labels < 0).all(axis=1)]
    every = credible_band(witness, level)
    quantity = str(witness.attrs.get("label", f"witness {names[0]} - {names[1]}"))
    if "title" in witness.attrs:  # of a test, which has no chains
        return [View(str(witness.attrs["title"]), "", mode_colour(0), every, quantity)]
    left_out = f"{len(stuck)} of {len(chains)} stuck and left out"
    has_chains = not is_independent(witness.attrs)
    if len(modes) == 1:
        detail = f"one mode, {left_out}" if len(stuck) else "one mode"
        whose = "all chains" if has_chains else "all draws"
        return [View(whose, detail, mode_colour(modes[0]), every, quantity)]
    found_modes = None if run is None else find_modes(run)
    if found_modes is not None and found_modes.of_draws.shape != labels.shape:
        raise InputError(
            f"the witness is of {len(labels)} chains x {labels.shape[1]} draws, and run has "
            f"{' x '.join(map(str, found_modes.of_draws.shape))}: give the run that it was drawn of"
        )
    locations = () if found_modes is None else found_modes.modes
    shown, letters = [], figure5_names(modes)
    for index in modes:
        where = short_place(locations[index]) if index < len(locations) else ""
        members = format_chains(chains[(labels == index).any(axis=1)]) if has_chains else ""
        title = f"mode {index + 1}{f': {where}' if where else ''}"
        if as_figure5:
            title = f"{letters[index]}{f', {where}' if where else ''}"
        colour, found = mode_colour(index), credible_band(witness, level, index)
        if index < len(locations):
            title += _standing(locations[index])
        shown.append(View(title, members, colour, found, quantity))
    detail = left_out if 0 < len(stuck) < len(chains) else f"{len(chains)} chains"
    by_mass = witness.attrs.get("weights") == "posterior"
    title = f"all modes, weighted by {'posterior mass' if by_mass else 'chain count'}"
    if as_figure5:
        letter = string.ascii_uppercase[len(modes)]
        moving = labels[~(labels < 0).all(axis=1)]
        counts = [int((moving == index).any(axis=1).sum()) for index in modes]
        parts = [
            f"{pluralize(n, 'chain')} in {letters[k][0]}"
            for n, k in zip(counts, modes, strict=True)
        ]
        published = View(
            f"{letter}: as published (by chain): {', '.join(parts)}",
            left_out if len(stuck) else "",
            OVERALL,
            credible_band(weighted_by_chain(witness), level),
            quantity,
        )
        if not by_mass:
            return [*shown, published]
        shown += [published] * has_chains
        title, detail = f"{letter}: by posterior mass", ""
        masses = [mode.mass for mode in locations]
        if modes[-1] < len(masses) and None not in masses:
            parts = [f"{letters[k][0]} {format_probability(masses[k] or 0.0)}" for k in modes]
            title += f": {', '.join(parts)}"
    return [*shown, View(title, detail if has_chains else "", OVERALL, every, quantity)]


def mode_bands(witness: xr.DataTree, level: float) -> list[CredibleBand]:
    """Return the band of each mode, from which axes are chosen, or of all draws if in no mode.

    A band over all modes is within these at every point, however modes are weighted.
    """
    labels = np.unique(witness.to_dataset()["mode"].values)
    return [credible_band(witness, level, int(mode)) for mode in labels if mode >= 0] or [
        credible_band(witness, level)
    ]


def _standing(mode: Mode) -> str:
    """Describe a mode's mass if it is known, else its height."""
    if mode.mass is not None:
        return f", mass {format_probability(mode.mass)}"
    quantity = "log density" if mode.interval is None else "log mass"
    return f", {quantity} lower by {-mode.height:.0f}" if mode.height < 0 else ""
