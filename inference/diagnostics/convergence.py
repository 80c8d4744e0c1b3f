"""Convergence of chains: R-hat and effective sample sizes over all or some of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import arviz_stats
import numpy as np
import xarray as xr

RHAT_LIMIT = 1.01
#: Per chain, as ArviZ recommends for rank-normalised R-hat and the effective sample size.
ESS_PER_CHAIN = 50


@dataclasses.dataclass(frozen=True)
class Convergence:
    """Worst figures over the hyperparameters for a set of chains."""

    chains: tuple[int, ...]
    rhat: float  # rank-normalised split R-hat, largest; NaN for a single chain
    ess_bulk: float  # smallest
    ess_tail: float  # smallest

    @property
    def told(self) -> str:
        """R-hat in words, rounded up: one above its limit never looks like the limit."""
        if math.isnan(self.rhat):
            return "R-hat needs two chains"
        return f"R-hat {np.ceil(1000.0 * self.rhat - 1e-6) / 1000.0:.3f}"

    @property
    def mixed(self) -> bool:
        """R-hat at most 1.01 and an effective sample size of 50 per chain."""
        enough = min(self.ess_bulk, self.ess_tail) >= ESS_PER_CHAIN * len(self.chains)
        return bool(self.rhat <= RHAT_LIMIT and enough)


@dataclasses.dataclass(frozen=True)
class ChainFigures:
    """Figures of a run's chains: how far they agree, all of them and in each mode.

    Attributes:
        overall: over all chains.
        per_mode: over the chains that stayed in each mode and are not stuck; ``None`` of none.
        divergences: divergent iterations after warmup.
        nonfinite: evaluations of the density without a finite value, in warmup and after.
        iterations: of all chains, after warmup.
    """

    overall: Convergence
    per_mode: tuple[Convergence | None, ...]
    divergences: int
    nonfinite: tuple[int, int]
    iterations: int


def convergence(posterior: xr.Dataset, chains: Sequence[int]) -> Convergence:
    """The worst figures over all hyperparameters, for some of the chains."""
    some = posterior.isel(chain=list(chains))

    def worst(dataset: xr.Dataset, choose: Any) -> float:
        return float(
            choose([choose(np.asarray(v, dtype=float)) for v in dataset.data_vars.values()])
        )

    return Convergence(
        tuple(chains),
        worst(arviz_stats.rhat(some), np.max),
        worst(arviz_stats.ess(some, method="bulk"), np.min),
        worst(arviz_stats.ess(some, method="tail"), np.min),
    )
