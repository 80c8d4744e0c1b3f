"""The verdict on a run in sentences: whether its draws stand for the posterior, and why not."""

from __future__ import annotations

import numpy as np

from .convergence import ESS_PER_CHAIN, RHAT_LIMIT, ChainFigures, Convergence
from .integral import ROUGH, Integral
from .masses import COVERED, covered
from .modes import Mode, Modes, place

#: More peaks of the raw density than this come from zeros of the volume factor.
MANY_PEAKS = 5
#: Zeros of the density excuse a per-mode R-hat up to here.
EXCUSED_RHAT = 1.1
#: Difference in log mass beyond which the lower mode does not matter, whatever the grid's error.
DECISIVE = 7.0


def of_integral(how: str, modes: Modes, integral: Integral) -> list[str]:
    """Sentences on draws from the posterior itself: how well it was integrated.

    ``how``: what the draws are, in words.
    """
    error = "a standard error over repeats" if integral.repeats else "an error"
    if np.isnan(integral.error):
        error = "no standard error, since there is one repeat, for"
    else:
        error = f"{error} of {integral.error:.2g} in"
    sentences = [f"Every mode by its posterior mass, {how}, with {error} the log normaliser."]
    if integral.tolerance is not None and not (integral.repeats or integral.reached):
        sentences.append(
            f"NOT ACCURATE: the tolerance was {integral.tolerance:g}, and the evaluations ran out "
            "first: ask for a larger one, or take SMC."
        )
    if integral.repeats and integral.error > ROUGH:  # NaN of a single repeat says nothing
        sentences.append(
            "NOT ACCURATE: the repeats do not agree on the normaliser; give more particles."
        )
    if integral.repeats:
        sentences.append(
            "A mode far narrower than the prior may be missed by all repeats alike, which no "
            "standard error shows; quadrature (one or two hyperparameters) would see it."
        )
    if len(modes.modes) > 1:
        sentences.append(f"Multimodal: {len(modes.modes)} modes. {_masses(modes, chains=False)}.")
    return sentences


def of_chains(modes: Modes, chains: ChainFigures, *, one_column: bool) -> list[str]:
    """Sentences on draws of chains: whether they mixed, and what stands in the way.

    The density of data of ``one_column`` has genuine narrow zeros.
    """
    has_zeros = one_column and modes.peaks is not None and modes.peaks > MANY_PEAKS
    sentences = _several(modes) if len(modes.modes) > 1 else _one(chains.overall)
    sentences += _uncovered(modes) + _stuck(modes) + _within_modes(modes, chains, has_zeros)
    if len(modes.stuck) == len(chains.overall.chains):
        sentences.append("Every chain is stuck, so there is nothing to summarise.")
    if modes.peaks is None and not modes.weighed:
        sentences.append(
            "R-hat cannot see a mode that no chain visited, and with several hyperparameters nor "
            "can anything else in this run: run more chains from the prior, or check with "
            "quadrature (two hyperparameters) or SMC."
        )
    return sentences + _failures(chains, has_zeros)


def _several(modes: Modes) -> list[str]:
    """That there are several modes, which of them were visited, and what each is worth."""
    visited = sum(mode.visited for mode in modes.modes)
    crossed = (
        f"chains crossed between them {modes.crossings} times"
        if modes.crossings
        else "no chain crossed between them"
    )
    sentences = [
        f"Multimodal: {len(modes.modes)} modes, {visited} of them visited, and {crossed}. "
        "An average over chains weights a mode by how many chains started near it, not by its "
        "posterior mass"
        + (
            ": summaries here are weighted by mass."
            if modes.weighed and covered(modes) >= COVERED
            else ": read every mode by itself, compare their heights, and do not pool."
        ),
        _weights(modes),
    ]
    unvisited = [mode for mode in modes.modes if not mode.visited]
    if unvisited:
        places = ", ".join(place(mode) for mode in unvisited)
        sentences.append(
            f"No chain visited the mode at {places}, seen on the profile of the density: run "
            "more chains."
        )
    return sentences


def _one(overall: Convergence) -> list[str]:
    """Whether the chains mixed within the only mode."""
    if len(overall.chains) == 1:
        return ["Not known: one chain cannot show whether it has mixed; run several."]
    if overall.mixed:
        return ["Mixed: one mode, R-hat and effective sample sizes are good."]
    smallest = min(overall.ess_bulk, overall.ess_tail)
    wanted, failures = ESS_PER_CHAIN * len(overall.chains), []
    if not overall.rhat <= RHAT_LIMIT:
        failures.append(f"{overall.told} (should be at most {RHAT_LIMIT:.3f})")
    if not smallest >= wanted:
        failures.append(
            f"the smallest effective sample size is {np.floor(smallest):.0f} (should be at least "
            f"{wanted})"
        )
    return [f"Not mixed: one mode, but {' and '.join(failures)}: run longer warmup and more draws."]


def _uncovered(modes: Modes) -> list[str]:
    if not modes.weighed or covered(modes) >= COVERED:
        return []
    return [
        f"NOT THE POSTERIOR: the modes that chains visited hold {covered(modes):.2g} of its "
        "mass: run more chains, or fit with method='quadrature' or 'smc'."
    ]


def _stuck(modes: Modes) -> list[str]:
    if not modes.stuck:
        return []
    several = len(modes.stuck) > 1
    where = "shelves far below their" if several else "a shelf far below its"
    return [
        f"Stuck on {where} mode's top, and left out of per-mode summaries: "
        f"chain{'s' if several else ''} {', '.join(map(str, modes.stuck))}."
    ]


def _within_modes(modes: Modes, chains: ChainFigures, has_zeros: bool) -> list[str]:
    """Which of several modes are not mixed within themselves."""
    if len(modes.modes) == 1:
        return []
    sentences = []
    within = [inside.rhat for inside in chains.per_mode if inside is not None]
    if has_zeros and any(RHAT_LIMIT < rhat <= EXCUSED_RHAT for rhat in within):
        sentences.append(
            f"Per-mode R-hat up to about {EXCUSED_RHAT} is to be expected here: genuine narrow "
            "zeros of the one-dimensional density cut a mode into cells."
        )
    limit = EXCUSED_RHAT if has_zeros else RHAT_LIMIT
    for number, inside in enumerate(chains.per_mode, start=1):
        if inside is not None and inside.rhat > limit:
            smallest = min(inside.ess_bulk, inside.ess_tail)
            sentences.append(
                f"Mode {number} is not mixed within itself ({inside.told}, effective "
                f"sample size {smallest:.0f}): its summaries are rough; quadrature (one or two "
                "hyperparameters) or SMC does without chains."
            )
    return sentences


def _failures(chains: ChainFigures, has_zeros: bool) -> list[str]:
    """Divergences, and values of the density that are not finite."""
    sentences = []
    if chains.divergences > 0.01 * chains.iterations:
        sentences.append(
            f"{chains.divergences} of {chains.iterations} iterations diverged"
            + (
                ", as they do where a trajectory meets a zero of the density."
                if has_zeros
                else ": the draws may miss a narrow region."
            )
        )
    if chains.nonfinite[1]:
        sentences.append(
            f"{chains.nonfinite[1]} evaluations of the density after warmup were not finite: check "
            "the data's scale and the prior."
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
        f"mode {number} {mass_in_words(mode)}"
        + (f" ({100 * share:.0f} % of the chains)" if chains else "")
        for number, (mode, share) in enumerate(
            zip(modes.modes, modes.chain_shares, strict=True), start=1
        )
    )
    return f"Posterior mass: {found}"


def mass_in_words(mode: Mode) -> str:
    """The mass with its error: ``0.93 +- 0.01``, ``1e-60``."""
    mass, error = mode.mass or 0.0, mode.mass_error or 0.0
    if mass < 1e-3 or np.isnan(error):
        return f"{mass:.1g}"
    if error == 0.0:
        return f"{mass:.3f}"
    decimals = int(np.clip(np.ceil(-np.log10(max(error, 1e-12))), 3, 6))
    return f"{mass:.{decimals}f} +- {error:.1g}"
