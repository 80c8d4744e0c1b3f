"""What every sampler hands back: chains of unconstrained draws with their statistics."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

#: Prior draws tried per chain for a start with a finite density.
CANDIDATES = 32


class Chains(NamedTuple):
    """Everything recorded, leading axes (chain, iteration), warmup first.

    Attributes:
        z: unconstrained draws by site.
        stats: numbers of every draw by ArviZ's names. ``lp``, the log density, must be among them;
            ``diverging`` and ``nonfinite_evaluations`` (points on the way whose density had no
            finite value) are taken for none where they are not.
        initial: where chains began, by site, (chain, ...); empty where draws have no beginning.
        warmup: iterations before the draws that count.
    """

    z: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    initial: dict[str, np.ndarray]
    warmup: int

    def all_stats(self) -> dict[str, np.ndarray]:
        """``stats`` with those that every run has."""
        shape = np.shape(self.stats["lp"])
        never = {"diverging": np.zeros(shape, bool), "nonfinite_evaluations": np.zeros(shape, int)}
        return {**never, **self.stats}

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
    return Chains(z, {"lp": lp}, {}, 0)
