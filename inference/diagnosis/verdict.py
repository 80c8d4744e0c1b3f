"""What a diagnosis says in words: the verdict and the printed report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .convergence import ESS_PER_CHAIN, RHAT_LIMIT, Convergence
from .masses import COVERED, covered
from .modes import Mode, Modes, place

if TYPE_CHECKING:
    from .diagnose import Diagnosis, Integral

#: More peaks of the raw density than this come from zeros of the volume factor.
MANY_PEAKS = 5
#: Zeros of the density excuse a per-mode R-hat up to here.
EXCUSED_RHAT = 1.1
#: Difference in log mass beyond which the lower mode does not matter, whatever the grid's error.
DECISIVE = 7.0
#: Standard error of a log normaliser beyond which repeats of SMC do not agree.
ROUGH = 0.2


def of_integral(method: str, modes: Modes, integral: Integral) -> list[str]:
    """For draws from the posterior itself: how well it was integrated."""
    if method == "smc":
        how = "draws of tempered SMC"
        error = "a standard error over repeats"
    else:
        how, error = "independent draws by quadrature", "an error"
    if np.isnan(integral.error):
        error = "no standard error, since there is one repeat, for"
    else:
        error = f"{error} of {integral.error:.2g} in"
    sentences = [f"Every mode by its posterior mass, {how}, with {error} the log normaliser."]
    if method == "quadrature" and not integral.reached:
        sentences.append(
            f"NOT ACCURATE: the tolerance was {integral.tolerance:g}, and the evaluations ran out "
            "first: ask for a larger one, or take SMC."
        )
    if method == "smc" and integral.error > ROUGH:  # NaN of a single repeat says nothing
        sentences.append(
            "NOT ACCURATE: the repeats do not agree on the normaliser; give more particles."
        )
    if method == "smc":
        sentences.append(
            "A mode far narrower than the prior may be missed by all repeats alike, which no "
            "standard error shows; quadrature (one or two hyperparameters) would see it."
        )
    if len(modes.modes) > 1:
        sentences.append(f"Multimodal: {len(modes.modes)} modes. {_masses(modes, chains=False)}.")
    return sentences


def of_chains(
    modes: Modes,
    overall: Convergence,
    per_mode: Sequence[Convergence | None],
    divergences: int,
    nonfinite: tuple[int, int],
    iterations: int,
    has_zeros: bool,
) -> list[str]:
    """For draws of chains: whether they mixed, and what stands in the way."""
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
            "posterior mass"
            + (
                ": summaries here are weighted by mass."
                if modes.weighed and covered(modes) >= COVERED
                else ": read every mode by itself, compare their heights, and do not pool."
            )
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
    if modes.weighed and covered(modes) < COVERED:
        sentences.append(
            f"NOT THE POSTERIOR: the modes that chains visited hold {covered(modes):.2g} of its "
            "mass: run more chains, or fit with method='quadrature' or 'smc'."
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
                f"sample size {smallest:.0f}): its summaries are rough; quadrature (one or two "
                "hyperparameters) or SMC does without chains."
            )
    if len(modes.stuck) == len(overall.chains):
        sentences.append("Every chain is stuck, so there is nothing to summarise.")
    if modes.peaks is None and not modes.weighed:
        sentences.append(
            "R-hat cannot see a mode that no chain visited, and with several hyperparameters nor "
            "can anything else in this run: run more chains from the prior, or check with "
            "quadrature (two hyperparameters) or SMC."
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
    if modes.weighed:
        return f"{_masses(modes, chains=True)}."
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


def _masses(modes: Modes, *, chains: bool) -> str:
    """Every mode's mass, beside its share of the chains' draws."""
    found = ", ".join(
        f"mode {number} {_mass(mode)}" + (f" ({100 * share:.0f} % of the chains)" if chains else "")
        for number, (mode, share) in enumerate(
            zip(modes.modes, modes.chain_shares, strict=True), start=1
        )
    )
    return f"Posterior mass: {found}"


def _mass(mode: Mode) -> str:
    """The mass with its error: ``0.93 +- 0.01``, ``1e-60``."""
    mass, error = mode.mass or 0.0, mode.mass_error or 0.0
    if mass < 1e-3 or np.isnan(error):
        return f"{mass:.1g}"
    if error == 0.0:
        return f"{mass:.3f}"
    decimals = int(np.clip(np.ceil(-np.log10(max(error, 1e-12))), 3, 6))
    return f"{mass:.{decimals}f} +- {error:.1g}"


def report(diagnosis: Diagnosis) -> str:
    """The diagnosis as text."""
    overall, chains = diagnosis.convergence, diagnosis.method == "nuts"
    way = diagnosis.chosen or diagnosis.method
    lines = [f"{diagnosis.iterations} draws of the posterior by {way}"]
    if chains:
        lines = [
            f"{len(overall.chains)} chains, {diagnosis.iterations} draws after warmup",
            f"  R-hat {overall.rhat:.3f}   ESS bulk {overall.ess_bulk:.0f}, "
            f"tail {overall.ess_tail:.0f}   divergences after warmup {diagnosis.divergences}   "
            f"non-finite evaluations {diagnosis.nonfinite[0]} in warmup, "
            f"{diagnosis.nonfinite[1]} after",
        ]
    lines.append("")
    for number, (mode, inside) in enumerate(
        zip(diagnosis.modes.modes, diagnosis.per_mode, strict=True), start=1
    ):
        barrier = (
            ""
            if np.isinf(mode.barrier) or len(diagnosis.modes.modes) == 1
            else f", behind a valley {mode.barrier:.0f} nats deep"
        )
        lines.append(f"mode {number}: {place(mode)}")
        lines.append(
            "  highest" + barrier
            if mode.height == 0
            else f"  {-mode.height:.0f} nats below the highest{barrier}"
        )
        if chains:
            stuck = f"; stuck: {_chains(mode.stuck)}" if mode.stuck else ""
            lines.append(f"  {_chains(mode.chains)}{stuck}")
        if mode.mass is not None:
            share = diagnosis.modes.chain_shares[number - 1]
            by_count = f", by chain count {share:.2f}" if chains else ""
            lines.append(f"  posterior mass {_mass(mode)}{by_count}")
        if chains and inside is not None:
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
    if diagnosis.integral is not None:
        lines.append(
            f"log normaliser {diagnosis.integral.log:.3f}"
            + ("" if np.isnan(diagnosis.integral.error) else f" +- {diagnosis.integral.error:.1g}")
        )
    lines += ["", diagnosis.verdict]
    return "\n".join(lines)


def _chains(chains: Sequence[int]) -> str:
    if not chains:
        return "no chain"
    return f"chain{'s' if len(chains) > 1 else ''} {', '.join(map(str, chains))}"
