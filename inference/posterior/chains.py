"""What every sampler hands back: chains of unconstrained draws with their statistics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Prior draws tried per chain for a start with a finite density.
CANDIDATES = 32


class Chains(NamedTuple):
    """Everything recorded, leading axes (chain, iteration), warmup first."""

    z: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    initial: dict[str, np.ndarray]  # (chain, ...)
    warmup: int

    def after_warmup(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The draws (chain, draw, ...) by site, and their log density (chain, draw)."""
        z = {name: np.asarray(values)[:, self.warmup :] for name, values in self.z.items()}
        return z, np.asarray(self.stats["lp"])[:, self.warmup :]


def independent_draws(z: dict[str, np.ndarray], lp: np.ndarray) -> Chains:
    """Chains of draws that did not move to where they are: no warmup, nothing diverged.

    Args:
        z: unconstrained draws by site, (chain, draw, ...).
        lp: their log density, (chain, draw).
    """
    never = np.zeros(lp.shape)
    stats = {
        "lp": lp,
        "diverging": never.astype(bool),
        "nonfinite_evaluations": never.astype(int),
    }
    return Chains(z, stats, {}, 0)
