"""Adaptive quadrature of one or two hyperparameters: the whole posterior, to a stated error."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.errors import InputError
from ...core.progress import progress_bar
from ...data.checks import check_chain_count, check_count, check_positive
from ..chains import independent_draws
from .base import Found, Sampler, Task

if TYPE_CHECKING:
    import xarray as xr

    from ..algorithms.integral import IntegratedDensity
    from ..target import Target

#: Evaluations after which quadrature stops, by the number of hyperparameters.
MOST_EVALUATIONS = {1: 20_000, 2: 40_000}


@dataclasses.dataclass(frozen=True)
class Quadrature(Sampler):
    """The whole posterior of one or two hyperparameters: every mode with its mass.

    Attributes:
        tolerance: for the absolute error of the log normaliser.
        draws: independent draws in all, dealt out evenly, at least 4 and at least ``chains`` for
            each chain.
        chains: that the draws are dealt out to, 1 to 1000.
    """

    name: ClassVar[str] = "quadrature"
    independent: ClassVar[bool] = True
    words: ClassVar[str] = "independent draws by quadrature"

    tolerance: float = 1e-3
    draws: int = 4000
    chains: int = 8

    def __post_init__(self) -> None:
        check_chain_count(self.chains)
        # ArviZ takes fewer draws than chains for a mistake.
        check_count(self.draws, "draws", max(4, self.chains) * self.chains)
        check_positive(self.tolerance, "tolerance")

    def settings(self) -> dict[str, Any]:
        """The draws in all go by the name of ``particles``, as those of SMC do."""
        counts = {"chains": self.chains, "warmup": 0, "draws": self.draws // self.chains}
        return {**counts, "particles": self.draws, "tolerance": self.tolerance}

    def check(self, target: Target) -> None:
        """Refuse more than two hyperparameters."""
        if target.hyperparameters not in MOST_EVALUATIONS:
            raise InputError(
                "quadrature is for one or two hyperparameters, and there are "
                f"{target.hyperparameters} here: use method='smc'"
            )

    def sample(self, task: Task) -> Found:
        """Draws with the group ``quadrature``, and with the profile or the paths.

        Raises:
            SamplingError: where the density has no integral, or is not a number where it counts.
        """
        from ..draw_graph import density_graph, profile_of_nodes
        from ..target import unflatten

        found = integral(task, self.tolerance)
        draws, lp = found.draws(self.chains * (self.draws // self.chains), task.rng())
        z = unflatten(draws.reshape(self.chains, -1, draws.shape[1]), task.target.shapes)
        chains = independent_draws(z, lp.reshape(self.chains, -1))
        groups = {"quadrature": nodes_of(found, self.tolerance)}
        if task.target.is_scalar:
            groups["profile"] = profile_of_nodes(task.target, found)
        else:
            groups["paths"] = density_graph(*chains.after_warmup(), task.density)
        return chains, groups


def integral(task: Task, tolerance: float, seen: np.ndarray | None = None) -> IntegratedDensity:
    """The integral of a task's density over all hyperparameters.

    It starts from the range of the prior draws, and of ``seen`` (k, p), and goes on outwards until
    the density is negligible: a mode beyond an empty stretch outside of these is not seen.
    """
    from ..algorithms.integral import integrate
    from ..target import flatten, unflatten

    flat = flatten(task.prior_draws)
    places = flat if seen is None else np.concatenate([flat, seen])
    with progress_bar("evaluations", None, shown=task.progress) as advance:
        return integrate(
            lambda points: _tallied(task.density(unflatten(points, task.target.shapes)), advance),
            places.min(axis=0),
            places.max(axis=0),
            tolerance=tolerance,
            most=MOST_EVALUATIONS[flat.shape[1]],
        )


def _tallied(values: np.ndarray, advance: Callable[[int], None]) -> np.ndarray:
    advance(len(values))
    return values


def nodes_of(found: IntegratedDensity, tolerance: float) -> xr.Dataset:
    """The nodes with their weights; the integral and its error as attributes."""
    import xarray as xr

    return xr.Dataset(
        {
            "unconstrained": (("node", "parameter"), found.nodes),
            "log_density": ("node", found.log_density),
            "weight": ("node", found.weight),
        },
        attrs={
            "log_normalizer": found.log_normalizer,
            "log_normalizer_error": found.error,
            "evaluations": found.evaluations,
            "tolerance": tolerance,
        },
    )
