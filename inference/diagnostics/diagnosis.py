"""Convergence of chains: R-hat and effective sample sizes over all or some of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import arviz_stats
import numpy as np
import xarray as xr

from ..core.notebook import Shown
from ..sampling import likelihoods
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..sampling.record import read_record
from ..sampling.samplers import is_independent, method_in_words
from .integral import Integral, integral_of
from .landmark_resolution import notes_on_run
from .modes import Mode, Modes, find_modes, format_location, scalar_values

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
    if (
        integral.repeats and integral.error > integral.tolerance
    ):  # NaN of a single repeat says nothing
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
    if modes.peaks is None and not modes.has_masses:
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
            if modes.has_masses and modes.covered
            else ": read every mode by itself, compare their heights, and do not pool."
        ),
        _weights(modes),
    ]
    unvisited = [mode for mode in modes.modes if not mode.visited]
    if unvisited:
        places = ", ".join(format_location(mode) for mode in unvisited)
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
    if not modes.has_masses or modes.covered:
        return []
    return [
        f"NOT THE POSTERIOR: the modes that chains visited hold {modes.visited_mass:.2g} of its "
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
    if modes.has_masses:
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
            zip(modes.modes, modes.draw_proportions, strict=True), start=1
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


if TYPE_CHECKING:
    import pandas as pd

#: What a data frame tells of each mode, and of the chains within it.
OF_MODE = ("height", "barrier", "mass", "mass_error", "draws")
WITHIN = ("rhat", "ess_bulk", "ess_tail")


@dataclasses.dataclass(frozen=True)
class Diagnosis(Shown):
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
        independent: whether draws are from the posterior itself, in no order, and not of chains.
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
    independent: bool = False

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

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each mode, in the order of ``modes``.

        Columns: ``mode``, counted from 1; where it is, in the units of the data (``lengthscale``,
        or of several ``lengthscale[0]``, ...); ``height`` and ``barrier`` in nats; ``mass`` and
        ``mass_error``, NaN where they are not known; ``draws``; and within the mode ``rhat``,
        ``ess_bulk`` and ``ess_tail``, NaN where no chain stayed in it.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for mode, inside in zip(self.modes.modes, self.per_mode, strict=True):
            where = {"mode": len(rows) + 1, **scalar_values(mode.location)}
            of_mode = {name: getattr(mode, name) for name in OF_MODE}
            rows.append(
                {**where, **of_mode, **{name: getattr(inside, name, None) for name in WITHIN}}
            )
        found = pd.DataFrame(rows)
        return found.astype(dict.fromkeys(("mass", "mass_error", *WITHIN), float))

    def _answer(self) -> str:
        return self.verdict

    def __str__(self) -> str:
        return report(self)

    def summary(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "verdict": self.verdict,
            "method": self.method,
            "chosen": self.chosen,
            "independent": self.independent,
            "multimodal": self.multimodal,
            "heaviest_mixed": self.heaviest_mixed,
            "log_normalizer": None if self.integral is None else self.integral.log,
            "log_normalizer_error": None if self.integral is None else self.integral.error,
            "mixed": self.convergence.mixed,
            "low_rank_error_nats": self.low_rank_error,
            "low_rank_error_small": None
            if self.low_rank_error is None
            else likelihoods.is_small(self.low_rank_error),
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
                    self.modes.modes, self.per_mode, self.modes.draw_proportions, strict=True
                )
            ],
        }


def report(diagnosis: Diagnosis) -> str:
    """The printed report of a diagnosis."""
    lines = [*_head(diagnosis), ""]
    for index in range(len(diagnosis.modes.modes)):
        lines += _of_mode(diagnosis, index)
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
    return "\n".join([*lines, "", diagnosis.verdict])


def _head(diagnosis: Diagnosis) -> list[str]:
    overall = diagnosis.convergence
    if diagnosis.independent:
        way = diagnosis.chosen or diagnosis.method
        return [f"{diagnosis.iterations} draws of the posterior by {way}"]
    return [
        f"{len(overall.chains)} chains, {diagnosis.iterations} draws after warmup",
        f"  {overall.told}   ESS bulk {overall.ess_bulk:.0f}, "
        f"tail {overall.ess_tail:.0f}   divergences after warmup {diagnosis.divergences}   "
        f"non-finite evaluations {diagnosis.nonfinite[0]} in warmup, "
        f"{diagnosis.nonfinite[1]} after",
    ]


def _of_mode(diagnosis: Diagnosis, index: int) -> list[str]:
    """Where a mode is, how high, who is in it, and whether chains mixed there."""
    modes, chains = diagnosis.modes, not diagnosis.independent
    mode, inside = modes.modes[index], diagnosis.per_mode[index]
    alone = np.isinf(mode.barrier) or len(modes.modes) == 1
    barrier = "" if alone else f", behind a valley {mode.barrier:.0f} nats deep"
    height = "highest" if mode.height == 0 else f"{-mode.height:.0f} nats below the highest"
    lines = [f"mode {index + 1}: {format_location(mode)}", f"  {height}{barrier}"]
    if chains:
        stuck = f"; stuck: {_chains(mode.stuck)}" if mode.stuck else ""
        lines.append(f"  {_chains(mode.chains)}{stuck}")
    if mode.mass is not None:
        by_count = f", by chain count {modes.draw_proportions[index]:.2f}" if chains else ""
        lines.append(f"  posterior mass {mass_in_words(mode)}{by_count}")
    if chains and inside is not None:
        lines.append(
            f"  within the mode: {inside.told}, ESS bulk {inside.ess_bulk:.0f}, "
            f"tail {inside.ess_tail:.0f}"
        )
    return lines


def _chains(chains: Sequence[int]) -> str:
    if not chains:
        return "no chain"
    return f"chain{'s' if len(chains) > 1 else ''} {', '.join(map(str, chains))}"


def diagnose(run: Run, **model: Unpack[ModelArguments]) -> Diagnosis:
    """Diagnose a run: R-hat, effective sample sizes, divergences, modes, and a verdict.

    R-hat cannot see a mode that no chain visited. With one hyperparameter the profile of the
    density, computed over the prior range, can; with several, nothing here can, and the verdict
    says so.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if ``run`` is no run, or draws that do not fit the model.
    """
    opened = open_run(run, **model)
    tree, units = opened.tree, opened.units
    modes, integral = find_modes(opened), integral_of(tree)
    chains = _chain_figures(tree, modes)
    record, columns = read_record(tree.attrs), units.columns
    independent = is_independent(tree.attrs)
    sentences = (
        of_integral(method_in_words(tree.attrs), modes, integral)
        if independent and integral is not None
        else of_chains(modes, chains, one_column=len(columns) == 1)
    )
    unresolved = notes_on_run(opened, modes)
    sentences += likelihoods.error_sentences(tree) + unresolved
    return Diagnosis(
        chains.overall,
        modes,
        chains.per_mode,
        chains.divergences,
        chains.nonfinite,
        " ".join(sentences),
        str(record["method"]),
        chains.iterations,
        columns,
        integral,
        likelihoods.recorded_error(tree),
        not unresolved if record["model"]["likelihood"] == "landmark" else None,
        record.get("chosen"),
        independent,
    )


def _chain_figures(run: xr.DataTree, modes: Modes) -> ChainFigures:
    posterior = run["posterior"].to_dataset()
    # A chain that moved between modes belongs to none of them as a whole.
    wholly = [np.all(modes.of_draws == k, axis=1) for k in range(len(modes.modes))]
    members = (
        [chain for chain in mode.chains if whole[chain]]
        for mode, whole in zip(modes.modes, wholly, strict=True)
    )

    def total(group: str, name: str) -> int:
        return int(run[group][name].sum()) if group in run.children and name in run[group] else 0

    return ChainFigures(
        convergence(posterior, range(posterior.sizes["chain"])),
        tuple(convergence(posterior, inside) if inside else None for inside in members),
        total("sample_stats", "diverging"),
        (
            total("warmup_sample_stats", "nonfinite_evaluations"),
            total("sample_stats", "nonfinite_evaluations"),
        ),
        posterior.sizes["chain"] * posterior.sizes["draw"],
    )
