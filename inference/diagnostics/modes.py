"""What is known of the modes of a posterior: where, how high, which draws, how much mass."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

#: A chain whose smoothed density stays this far below its mode's top is stuck on a shelf.
SHELF = 10.0


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode of the posterior: where it is, how high, who visited it, what mass it holds.

    Attributes:
        location: in the units of the data, by site: one hyperparameter's mean over its draws of
            chains that are not stuck, or where there are none at the mean of the profile;
            several hyperparameters' medians over its draws.
        height: with one hyperparameter the log posterior mass of the basin, summed on the profile's
            grid (right to about a nat: it has narrow dips); with several the median log density
            of its best chain. Relative to the highest mode; nats.
        barrier: depth of the way from this mode to a higher one, or for the highest mode to any
            other, on the smoothed density; nats. ``inf`` where there is no other basin.
        draws: how many draws of chains that are not stuck are in it.
        chains: the chains with most of their draws in it that are not stuck.
        stuck: chains on a shelf of its basin.
        interval: the basin in the unconstrained coordinate (one hyperparameter), else ``None``.
        mass: its posterior mass; ``None`` until it is known, see
            :func:`~bke.inference.reweight`.
        mass_error: estimated error of ``mass``.
    """

    location: dict[str, np.ndarray]
    height: float
    barrier: float
    draws: int
    chains: tuple[int, ...]
    stuck: tuple[int, ...]
    interval: tuple[float, float] | None
    mass: float | None = None
    mass_error: float | None = None

    @property
    def visited(self) -> bool:
        """Whether any draw is in it or on one of its shelves."""
        return bool(self.draws or self.stuck)


@dataclasses.dataclass(frozen=True)
class Modes:
    """All modes, lowest location first, and the mode of every draw.

    Attributes:
        modes: the modes.
        of_draws: index of the mode of each draw, (chain, draw).
        of_chains: index of the mode with most draws of each chain, (chain,).
        peaks: local maxima of the raw density on the profile's grid: mostly cells between zeros,
            not modes. ``None`` with several hyperparameters.
        crossings: how many times a chain moved from one mode to another; ``None`` for draws that
            are in no order. With several hyperparameters every draw counts with the nearest node
            of its chain, see :mod:`~bke.inference.sampling.barriers`, so a very short visit is not
            seen.
    """

    modes: tuple[Mode, ...]
    of_draws: np.ndarray
    of_chains: np.ndarray
    peaks: int | None
    crossings: int | None

    @property
    def highest(self) -> int:
        """Index of the mode with height 0."""
        return int(np.argmax([mode.height for mode in self.modes]))

    @property
    def weighed(self) -> bool:
        """Whether the posterior mass of every mode is known."""
        return all(mode.mass is not None for mode in self.modes)

    @property
    def chain_shares(self) -> tuple[float, ...]:
        """Share of each mode in the draws of the chains that are not stuck, all if all are."""
        moving = np.setdiff1d(np.arange(len(self.of_draws)), self.stuck)
        labels = self.of_draws[moving] if len(moving) else self.of_draws
        return tuple(float((labels == index).mean()) for index in range(len(self.modes)))

    @property
    def stuck(self) -> tuple[int, ...]:
        """Chains that sit on a shelf far below their mode's top."""
        return tuple(sorted(chain for mode in self.modes for chain in mode.stuck))


def place(mode: Mode) -> str:
    """Where a mode is: ``lengthscale 0.52``, with several columns ``lengthscale (0.52, 1.3)``."""
    return ", ".join(f"{name} {as_text(value)}" for name, value in mode.location.items())


def numbers_of(values: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Every number among hyperparameters by name: ``lengthscale``, or ``lengthscale[0]``, ..."""
    found: dict[str, float] = {}
    for name, value in values.items():
        flat = np.ravel(value)
        each = [name] if len(flat) == 1 else [f"{name}[{k}]" for k in range(len(flat))]
        found |= dict(zip(each, flat.tolist(), strict=True))
    return found


def as_text(value: np.ndarray) -> str:
    """A hyperparameter with three digits: ``0.52``, ``(0.52, 1.3)``."""
    flat = [f"{entry:.3g}" for entry in np.ravel(value)]
    return flat[0] if len(flat) == 1 else f"({', '.join(flat)})"
