"""What a run is worth: convergence figures, modes, and a verdict in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from ..posterior import low_rank
from ..posterior.run import units_of
from . import resolution, verdict
from .convergence import Convergence, convergence
from .masses import INDEPENDENT
from .modes import Modes, find_modes


@dataclasses.dataclass(frozen=True)
class Integral:
    """The integral of the posterior density over the hyperparameters.

    Attributes:
        log: its logarithm, the log normaliser.
        error: estimated absolute error of ``log``.
        tolerance: what ``error`` is to be at most: what quadrature was asked for, 0.2 for SMC;
            ``None`` for bridge sampling.
    """

    log: float
    error: float
    tolerance: float | None

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.tolerance is None or self.error <= self.tolerance


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` found; prints as a report.

    Attributes:
        convergence: over all chains.
        modes: the modes and the draws in them, see :class:`~bke.inference.Modes`.
        per_mode: convergence within each mode, of the chains that stayed in it and are not stuck;
            ``None`` without such chains.
        divergences: divergent iterations after warmup.
        nonfinite: evaluations of the density without a finite value, warmup and after.
        verdict: in a sentence or a few.
        method: how the draws were made, ``"nuts"``, ``"quadrature"`` or ``"smc"``.
        iterations: how many draws there are.
        fitted_columns: names of the columns of the data.
        integral: of the density, where it is known.
        low_rank_error: of differences of a low-rank log likelihood over the draws, in nats, as
            estimated; ``None`` where the likelihood is no approximation.
        resolved: whether lengthscales suit the distances of the landmarks; ``None`` where there are
            none.
        chosen: in a sentence, that ``method="auto"`` chose the method, and why; ``None`` where it
            was asked for.
    """

    convergence: Convergence
    modes: Modes
    per_mode: tuple[Convergence | None, ...]
    divergences: int
    nonfinite: tuple[int, int]
    verdict: str
    method: str
    iterations: int
    fitted_columns: tuple[str, ...]
    integral: Integral | None
    low_rank_error: float | None = None
    resolved: bool | None = None
    chosen: str | None = None

    @property
    def multimodal(self) -> bool:
        """Whether the posterior has more than one mode."""
        return len(self.modes.modes) > 1

    @property
    def heaviest_mixed(self) -> bool:
        """Whether chains mixed, by the strict limits, within the mode of the most mass."""
        inside = self.per_mode[self.modes.highest]
        return inside is not None and inside.mixed

    @property
    def rhat(self) -> float:
        """Largest R-hat over all chains."""
        return self.convergence.rhat

    @property
    def ess(self) -> float:
        """Smallest bulk effective sample size over all chains."""
        return self.convergence.ess_bulk

    def __str__(self) -> str:
        return verdict.report(self)

    def summary(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "verdict": self.verdict,
            "method": self.method,
            "chosen": self.chosen,
            "multimodal": self.multimodal,
            "heaviest_mixed": self.heaviest_mixed,
            "log_normaliser": None if self.integral is None else self.integral.log,
            "log_normaliser_error": None if self.integral is None else self.integral.error,
            "mixed": self.convergence.mixed,
            "low_rank_error_nats": self.low_rank_error,
            "low_rank_error_small": None
            if self.low_rank_error is None
            else low_rank.is_small(self.low_rank_error),
            "resolved": self.resolved,
            "integral_within_tolerance": None if self.integral is None else self.integral.reached,
            "rhat": self.convergence.rhat,
            "ess_bulk": self.convergence.ess_bulk,
            "ess_tail": self.convergence.ess_tail,
            "divergences": self.divergences,
            "nonfinite_evaluations": {"warmup": self.nonfinite[0], "sampling": self.nonfinite[1]},
            "crossings": self.modes.crossings,
            "stuck_chains": list(self.modes.stuck),
            "modes": [
                {
                    "location": {name: np.asarray(v).tolist() for name, v in mode.location.items()},
                    "relative_height_nats": mode.height,
                    "barrier_nats": mode.barrier,
                    "posterior_mass": mode.mass,
                    "posterior_mass_error": mode.mass_error,
                    "chain_share": share,
                    "chains": list(mode.chains),
                    "stuck_chains": list(mode.stuck),
                    "rhat": None if inside is None else inside.rhat,
                    "ess_bulk": None if inside is None else inside.ess_bulk,
                    "ess_tail": None if inside is None else inside.ess_tail,
                }
                for mode, inside, share in zip(
                    self.modes.modes, self.per_mode, self.modes.chain_shares, strict=True
                )
            ],
        }


def diagnose(run: xr.DataTree) -> Diagnosis:
    """Diagnose a run: R-hat, effective sample sizes, divergences, modes, and a verdict.

    R-hat cannot see a mode that no chain visited. With one hyperparameter the profile of the
    density, computed over the prior range, can; with several, nothing here can, and the verdict
    says so.

    Raises:
        InputError: if ``run`` is not a run of :func:`~bke.inference.fit`.
    """
    units = units_of(run)
    posterior = run["posterior"].to_dataset()
    every = range(posterior.sizes["chain"])
    modes = find_modes(run)
    overall = convergence(posterior, every)
    # A chain that moved between modes belongs to none of them as a whole.
    wholly = [np.all(modes.of_draws == k, axis=1) for k in range(len(modes.modes))]
    per_mode = tuple(
        convergence(posterior, inside) if inside else None
        for inside in (
            [chain for chain in mode.chains if whole[chain]]
            for mode, whole in zip(modes.modes, wholly, strict=True)
        )
    )
    divergences = int(run["sample_stats"]["diverging"].sum())
    nonfinite = (
        int(run["warmup_sample_stats"]["nonfinite_evaluations"].sum())
        if "warmup_sample_stats" in run.children
        else 0,
        int(run["sample_stats"]["nonfinite_evaluations"].sum()),
    )
    iterations = posterior.sizes["chain"] * posterior.sizes["draw"]
    has_zeros = (
        len(units.columns) == 1 and modes.peaks is not None and modes.peaks > verdict.MANY_PEAKS
    )
    method, integral = str(run.attrs["method"]), integral_of(run)
    sentences = (
        verdict.of_integral(method, modes, integral)
        if method in INDEPENDENT and integral is not None
        else verdict.of_chains(
            modes, overall, per_mode, divergences, nonfinite, iterations, has_zeros
        )
    )
    unresolved = resolution.of_run(run, modes)
    sentences += low_rank.in_words(run) + unresolved
    return Diagnosis(
        overall,
        modes,
        per_mode,
        divergences,
        nonfinite,
        " ".join(sentences),
        method,
        iterations,
        units.columns,
        integral,
        low_rank.error_of_run(run),
        not unresolved if run.attrs["likelihood"] == "landmark" else None,
        run.attrs.get("chosen"),
    )


def integral_of(run: xr.DataTree) -> Integral | None:
    """The integral, where the run has it."""
    for group in ("quadrature", "smc", "bridge"):
        if group in run.children:
            attrs = run[group].attrs
            return Integral(
                float(attrs["log_normaliser"]),
                float(attrs["log_normaliser_error"]),
                verdict.ROUGH if group == "smc" else attrs.get("tolerance"),
            )
    return None
