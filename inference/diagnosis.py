"""What a run is worth: convergence figures, modes, and a verdict in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import arviz_stats
import numpy as np
import xarray as xr

from .modes import Modes, find_modes, place
from .run import units_of

RHAT_LIMIT = 1.01
#: Per chain, as ArviZ recommends for rank-normalised R-hat and the effective sample size.
ESS_PER_CHAIN = 50
#: More peaks of the raw density than this come from zeros of the volume factor.
MANY_PEAKS = 5
#: Zeros of the density excuse a per-mode R-hat up to here.
EXCUSED_RHAT = 1.1
#: Difference in log mass beyond which the lower mode does not matter, whatever the grid's error.
DECISIVE = 7.0


@dataclasses.dataclass(frozen=True)
class Convergence:
    """Worst figures over the hyperparameters for a set of chains."""

    chains: tuple[int, ...]
    rhat: float  # rank-normalised split R-hat, largest; NaN for a single chain
    ess_bulk: float  # smallest
    ess_tail: float  # smallest

    @property
    def mixed(self) -> bool:
        """R-hat at most 1.01 and an effective sample size of 50 per chain."""
        enough = min(self.ess_bulk, self.ess_tail) >= ESS_PER_CHAIN * len(self.chains)
        return bool(self.rhat <= RHAT_LIMIT and enough)


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
        multimodal: whether there is more than one mode.
    """

    convergence: Convergence
    modes: Modes
    per_mode: tuple[Convergence | None, ...]
    divergences: int
    nonfinite: tuple[int, int]
    verdict: str
    iterations: int
    fitted_columns: tuple[str, ...]

    @property
    def multimodal(self) -> bool:
        """Whether the posterior has more than one mode."""
        return len(self.modes.modes) > 1

    @property
    def rhat(self) -> float:
        """Largest R-hat over all chains."""
        return self.convergence.rhat

    @property
    def ess(self) -> float:
        """Smallest bulk effective sample size over all chains."""
        return self.convergence.ess_bulk

    def __str__(self) -> str:
        return report(self)

    def summary(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "verdict": self.verdict,
            "multimodal": self.multimodal,
            "mixed": self.convergence.mixed,
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
                    "chains": list(mode.chains),
                    "stuck_chains": list(mode.stuck),
                    "rhat": None if inside is None else inside.rhat,
                    "ess_bulk": None if inside is None else inside.ess_bulk,
                    "ess_tail": None if inside is None else inside.ess_tail,
                }
                for mode, inside in zip(self.modes.modes, self.per_mode, strict=True)
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
        int(run["warmup_sample_stats"]["nonfinite_evaluations"].sum()),
        int(run["sample_stats"]["nonfinite_evaluations"].sum()),
    )
    iterations = posterior.sizes["chain"] * posterior.sizes["draw"]
    has_zeros = len(units.columns) == 1 and modes.peaks is not None and modes.peaks > MANY_PEAKS
    sentences = _verdict(modes, overall, per_mode, divergences, nonfinite, iterations, has_zeros)
    return Diagnosis(
        overall,
        modes,
        per_mode,
        divergences,
        nonfinite,
        " ".join(sentences),
        iterations,
        units.columns,
    )


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


def _verdict(
    modes: Modes,
    overall: Convergence,
    per_mode: Sequence[Convergence | None],
    divergences: int,
    nonfinite: tuple[int, int],
    iterations: int,
    has_zeros: bool,
) -> list[str]:
    sentences = []
    count = len(modes.modes)
    if count > 1:
        visited = sum(mode.visited for mode in modes.modes)
        crossed = (
            f"chains crossed between them {modes.crossings} times"
            if modes.crossings
            else "no chain crossed between them"
        )
        sentences.append(
            f"Multimodal: {count} modes, {visited} of them visited, and {crossed}. "
            "An average over chains weights a mode by how many chains started near it, not by its "
            "posterior mass: read every mode by itself, compare their heights, and do not pool."
        )
        sentences.append(_weights(modes))
        unvisited = [mode for mode in modes.modes if not mode.visited]
        if unvisited:
            places = ", ".join(place(mode) for mode in unvisited)
            sentences.append(
                f"No chain visited the mode at {places}, seen on the profile of the density: run "
                "more chains."
            )
    elif len(overall.chains) == 1:
        sentences.append("Not known: one chain cannot show whether it has mixed; run several.")
    elif overall.mixed:
        sentences.append("Mixed: one mode, R-hat and effective sample sizes are good.")
    else:
        smallest = min(overall.ess_bulk, overall.ess_tail)
        sentences.append(
            f"Not mixed: one mode, but R-hat is {overall.rhat:.3g} (should be at most "
            f"{RHAT_LIMIT}) and the smallest effective sample size {smallest:.0f} "
            f"(should be at least {ESS_PER_CHAIN * len(overall.chains)}): run longer warmup and "
            "more draws."
        )
    if modes.stuck:
        which = ", ".join(map(str, modes.stuck))
        sentences.append(
            f"Stuck on a shelf far below its mode's top, and left out of per-mode summaries: "
            f"chain {which}."
            if len(modes.stuck) == 1
            else "Stuck on shelves far below their mode's top, and left out of per-mode summaries: "
            f"chains {which}."
        )
    within = [inside.rhat for inside in per_mode if inside is not None]
    if count > 1 and has_zeros and any(RHAT_LIMIT < rhat <= EXCUSED_RHAT for rhat in within):
        sentences.append(
            f"Per-mode R-hat up to about {EXCUSED_RHAT} is to be expected here: genuine narrow "
            "zeros of the one-dimensional density cut a mode into cells."
        )
    limit = EXCUSED_RHAT if has_zeros else RHAT_LIMIT
    for number, inside in enumerate(per_mode, start=1):
        if count > 1 and inside is not None and inside.rhat > limit:
            smallest = min(inside.ess_bulk, inside.ess_tail)
            sentences.append(
                f"Mode {number} is not mixed within itself (R-hat {inside.rhat:.3g}, effective "
                f"sample size {smallest:.0f}): its summaries are rough."
            )
    if len(modes.stuck) == len(overall.chains):
        sentences.append("Every chain is stuck, so there is nothing to summarise.")
    if modes.peaks is None:
        sentences.append(
            "R-hat cannot see a mode that no chain visited, and with several hyperparameters nor "
            "can anything else here: more chains from the prior are the only check."
        )
    if divergences > 0.01 * iterations:
        sentences.append(
            f"{divergences} of {iterations} iterations diverged"
            + (
                ", as they do where a trajectory meets a zero of the density."
                if has_zeros
                else ": the draws may miss a narrow region."
            )
        )
    if nonfinite[1]:
        sentences.append(
            f"{nonfinite[1]} evaluations of the density after warmup were not finite: check the "
            "data's scale and the prior."
        )
    return sentences


def _weights(modes: Modes) -> str:
    """Which mode holds the mass, as far as is known."""
    if modes.peaks is None:
        return "How much posterior mass each holds is not known here."
    highest = modes.highest
    others = [-mode.height for k, mode in enumerate(modes.modes) if k != highest]
    nearest = min(others)
    if nearest > DECISIVE:
        return (
            f"By the density itself mode {highest + 1} holds practically all posterior mass: the "
            f"next is {nearest:.0f} nats lower."
        )
    return f"By the density itself the two heaviest modes are {nearest:.1f} nats of mass apart."


def report(diagnosis: Diagnosis) -> str:
    """The diagnosis as text."""
    overall = diagnosis.convergence
    lines = [
        f"{len(overall.chains)} chains, {diagnosis.iterations} draws after warmup",
        f"  R-hat {overall.rhat:.3f}   ESS bulk {overall.ess_bulk:.0f}, tail {overall.ess_tail:.0f}"
        f"   divergences after warmup {diagnosis.divergences}"
        f"   non-finite evaluations {diagnosis.nonfinite[0]} in warmup, "
        f"{diagnosis.nonfinite[1]} after",
        "",
    ]
    for number, (mode, inside) in enumerate(
        zip(diagnosis.modes.modes, diagnosis.per_mode, strict=True), start=1
    ):
        barrier = (
            "" if np.isinf(mode.barrier) else f", behind a valley {mode.barrier:.0f} nats deep"
        )
        lines.append(f"mode {number}: {place(mode)}")
        lines.append(
            "  highest" + barrier
            if mode.height == 0
            else f"  {-mode.height:.0f} nats below the highest{barrier}"
        )
        stuck = f"; stuck: {_chains(mode.stuck)}" if mode.stuck else ""
        lines.append(f"  {_chains(mode.chains)}{stuck}")
        if inside is not None:
            rhat = "R-hat needs two chains" if np.isnan(inside.rhat) else f"R-hat {inside.rhat:.3f}"
            lines.append(
                f"  within the mode: {rhat}, ESS bulk {inside.ess_bulk:.0f}, "
                f"tail {inside.ess_tail:.0f}"
            )
    if len(diagnosis.fitted_columns) == 1 and (diagnosis.modes.peaks or 0) > MANY_PEAKS:
        lines.append(
            f"({diagnosis.modes.peaks} peaks of the raw density on the profile's grid: cells "
            "between its zeros, not modes)"
        )
    lines += ["", diagnosis.verdict]
    return "\n".join(lines)


def _chains(chains: Sequence[int]) -> str:
    if not chains:
        return "no chain"
    return f"chain{'s' if len(chains) > 1 else ''} {', '.join(map(str, chains))}"
