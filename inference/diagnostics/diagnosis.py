"""Diagnosis of a run: convergence of its chains, modes, and a verdict.

R-hat and effective sample sizes are those of ArviZ; the modes and the verdict are not in ArviZ.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import arviz_stats
import numpy as np
import xarray as xr

from ..core.notebook import ReprMixin
from ..data.checks import pluralize
from ..sampling import approximation_error
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..sampling.record import read_record
from ..sampling.samplers import is_independent, method_in_words
from .integral import Integral, integral_of
from .landmark_resolution import landmark_notes
from .modes import (
    Mode,
    Modes,
    find_modes,
    format_chains,
    format_location,
    format_probability,
    scalar_values,
)

if TYPE_CHECKING:
    import pandas as pd

#: Largest R-hat within a mode that narrow zeros of the density explain; not tuned.
TOLERATED_RHAT = 1.1


@dataclasses.dataclass(frozen=True)
class Convergence:
    """Convergence statistics of chains, the worst over the hyperparameters.

    Attributes:
        chains: indices of the chains.
        rhat: largest rank-normalized split R-hat; NaN for a single chain.
        ess_bulk: smallest bulk effective sample size.
        ess_tail: smallest tail effective sample size.
    """

    chains: tuple[int, ...]
    rhat: float
    ess_bulk: float
    ess_tail: float

    #: Limits that ArviZ recommends for rank-normalized statistics.
    max_rhat: ClassVar[float] = 1.01
    min_ess_per_chain: ClassVar[int] = 50

    @property
    def ess(self) -> float:
        """Smaller one of the bulk and tail effective sample sizes."""
        return min(self.ess_bulk, self.ess_tail)

    @property
    def min_ess(self) -> int:
        """Smallest sufficient effective sample size, 50 per chain."""
        return self.min_ess_per_chain * len(self.chains)

    @property
    def mixed(self) -> bool:
        """True if R-hat is at most 1.01 and effective sample sizes are at least 50 per chain."""
        return bool(self.rhat <= self.max_rhat and self.ess >= self.min_ess)

    @property
    def rhat_text(self) -> str:
        """R-hat, rounded up: a value above the limit is never printed as the limit."""
        if math.isnan(self.rhat):
            if len(self.chains) < 2:
                return "R-hat needs two chains"
            return "R-hat unknown (few or constant draws)"
        return f"R-hat {np.ceil(1000.0 * self.rhat - 1e-6) / 1000.0:.3f}"

    @property
    def text(self) -> str:
        """R-hat, rounded up, and both effective sample sizes, rounded down."""
        bulk, tail = np.floor([self.ess_bulk, self.ess_tail])
        return f"{self.rhat_text}, bulk ESS {bulk:.0f}, tail ESS {tail:.0f}"


def convergence(posterior: xr.Dataset, chains: Sequence[int]) -> Convergence:
    """Compute the convergence statistics of some of the chains of a posterior."""
    selected = posterior.isel(chain=list(chains))
    table = arviz_stats.summary(selected, kind="diagnostics", round_to="none")
    rhat = float(table["r_hat"].max(skipna=False))
    ess_bulk, ess_tail = (float(table[name].min(skipna=False)) for name in ("ess_bulk", "ess_tail"))
    return Convergence(tuple(chains), rhat, ess_bulk, ess_tail)


def _statistics(inside: Convergence | None) -> dict[str, float | None]:
    return {name: getattr(inside, name, None) for name in ("rhat", "ess_bulk", "ess_tail")}


@dataclasses.dataclass(frozen=True)
class Diagnosis(ReprMixin):
    """The diagnosis of a run; prints as a report.

    Attributes:
        convergence: statistics of all chains; ``None`` for independent draws.
        modes: modes and the draws in them, see :class:`~bke.inference.Modes`.
        per_mode: statistics within each mode, of the chains that stayed in it and are not stuck;
            ``None`` without such chains.
        divergences: number of divergent iterations after warmup.
        nonfinite: evaluations of the density without a finite value, in warmup and after.
        method: sampling method, ``"nuts"``, ``"quadrature"``, ``"smc"``, or ``"external"`` for
            draws of another program.
        num_draws: number of draws after warmup.
        fitted_columns: names of the columns of the data.
        integral: normalizing constant of the posterior, if it is known.
        method_in_words: description of the draws, such as "independent draws by quadrature".
        notes: sentences on the accuracy of the likelihood, for the verdict.
        low_rank_error: estimated error of differences of a low-rank log likelihood over the draws;
            ``None`` for an exact likelihood.
        resolved: whether the landmarks resolve the lengthscales; ``None`` without landmarks.
        chosen: a sentence why ``method="auto"`` chose the method; ``None`` if the user chose it.
        independent: true for independent draws of the posterior, false for chains.
    """

    convergence: Convergence | None
    modes: Modes
    per_mode: tuple[Convergence | None, ...]
    divergences: int
    nonfinite: tuple[int, int]
    method: str
    num_draws: int
    fitted_columns: tuple[str, ...]
    integral: Integral | None
    method_in_words: str
    notes: tuple[str, ...] = ()
    low_rank_error: float | None = None
    resolved: bool | None = None
    chosen: str | None = None
    independent: bool = False

    @functools.cached_property
    def sentences(self) -> tuple[tuple[str, str], ...]:
        """The sentences of the verdict, each after its topic.

        Topics are ``"modes"``, ``"weighting"`` of modes, ``"mass"`` of the heaviest mode,
        ``"stuck"`` chains, ``"zeros"`` of the density, and ``"advice"`` for all others.
        """
        verdict = _independent_verdict if self.convergence is None else _chain_verdict
        return (*verdict(self), *(("advice", note) for note in self.notes))

    @property
    def verdict(self) -> str:
        """A few sentences, one per line."""
        return "\n".join(sentence for _, sentence in self.sentences)

    @property
    def multimodal(self) -> bool:
        """True if the posterior has more than one mode."""
        return len(self.modes.modes) > 1

    @property
    def heaviest_mixed(self) -> bool:
        """True if chains mixed, by the strict limits, within the mode of the largest mass.

        Where masses are not known, that of height 0.
        """
        inside = self.per_mode[self.modes.heaviest]
        return inside is not None and inside.mixed

    @property
    def rhat(self) -> float:
        """Largest R-hat over all chains; NaN for independent draws."""
        return math.nan if self.convergence is None else self.convergence.rhat

    @property
    def ess_bulk(self) -> float:
        """Smallest bulk effective sample size over all chains; NaN for independent draws.

        The smaller one of bulk and tail is ``convergence.ess``.
        """
        return math.nan if self.convergence is None else self.convergence.ess_bulk

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each mode, in the order of ``modes``.

        Columns: ``mode``, counted from 1; its location, in the units of the data (``lengthscale``,
        or ``lengthscale[0]``, ...); ``height`` and ``barrier``; ``mass`` and ``mass_error``, NaN if
        unknown; ``draws``; and within the mode ``rhat``, ``ess_bulk`` and ``ess_tail``, NaN if no
        chain stayed in it.
        """
        import pandas as pd

        rows = [
            {"mode": number, **scalar_values(row.pop("location")), **row}
            for number, row in enumerate(self._mode_rows(), start=1)
        ]
        with_nan = ("mass", "mass_error", *_statistics(None))
        return pd.DataFrame(rows).astype(dict.fromkeys(with_nan, float))

    def _mode_rows(self) -> list[dict[str, Any]]:
        names = ("location", "height", "barrier", "mass", "mass_error", "draws")
        return [
            {name: getattr(mode, name) for name in names} | _statistics(inside)
            for mode, inside in zip(self.modes.modes, self.per_mode, strict=True)
        ]

    def _answer(self) -> str:
        return self.verdict.partition("\n")[0]

    def __repr__(self) -> str:
        count = pluralize(len(self.modes.modes), "mode")
        return f"<diagnosis of {self.num_draws} draws: {count}>"

    def __str__(self) -> str:
        lines = [_draws_line(self)]
        lines += [_mode_line(self, index) for index in range(len(self.modes.modes))]
        if self.integral is not None:
            lines.append(f"log normalizing constant {self.integral.log:.3f}")
            if not np.isnan(self.integral.error):
                lines[-1] += f" +- {self.integral.error:.1g}"
        return "\n".join([*lines, "", self.verdict])

    def summary(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        integral, error, overall = self.integral, self.low_rank_error, self.convergence
        names = ("verdict", "method", "chosen", "independent", "multimodal", "heaviest_mixed")
        rows = self._mode_rows()
        for row, mode, draws in zip(
            rows, self.modes.modes, self.modes.draw_proportions, strict=True
        ):
            row["location"] = {name: np.asarray(v).tolist() for name, v in mode.location.items()}
            row |= {"draw_proportion": draws, "chains": mode.chains, "stuck_chains": mode.stuck}
        return {
            **{name: getattr(self, name) for name in names},
            "log_normalizer": integral and integral.log,
            "log_normalizer_error": integral and integral.error,
            "integral_within_tolerance": integral and integral.within_tolerance,
            "low_rank_error_nats": error,
            "low_rank_error_small": None if error is None else approximation_error.is_small(error),
            "resolved": self.resolved,
            "mixed": overall and overall.mixed,
            **_statistics(overall),
            "divergences": self.divergences,
            "nonfinite_evaluations": dict(zip(("warmup", "sampling"), self.nonfinite, strict=True)),
            "crossings": self.modes.crossings,
            "peaks": self.modes.peaks,
            "stuck_chains": self.modes.stuck,
            "modes": rows,
        }


def diagnose(run: Run, **model: Unpack[ModelArguments]) -> Diagnosis:
    """Diagnose a run: R-hat, effective sample sizes, divergences, modes, and a verdict.

    R-hat cannot detect a mode that no chain visited. With one hyperparameter the profile of the
    density over the range of the prior can; with several nothing here can, and the verdict says so.
    Independent draws have no R-hat and no effective sample size.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        **model: for draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: ``run`` is no run, or its draws do not fit the model.
    """
    opened = open_run(run, **model)
    tree, columns = opened.tree, opened.units.columns
    attrs, modes = tree.attrs, find_modes(opened)
    record = read_record(attrs)
    independent = is_independent(attrs)
    posterior = tree["posterior"].to_dataset()
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    per_mode = []
    for index, mode in enumerate(modes.modes):
        # A chain that moved between modes counts for none of them.
        stayed = [chain for chain in mode.chains if (modes.of_draws[chain] == index).all()]
        per_mode.append(convergence(posterior, stayed) if stayed and not independent else None)
    unresolved = landmark_notes(opened, modes)

    def total(group: str, name: str) -> int:
        known = group in tree.children and name in tree.children[group]
        return int(tree[group][name].sum()) if known else 0

    return Diagnosis(
        convergence=None if independent else convergence(posterior, range(chains)),
        modes=modes,
        per_mode=tuple(per_mode),
        divergences=total("sample_stats", "diverging"),
        nonfinite=(
            total("warmup_sample_stats", "nonfinite_evaluations"),
            total("sample_stats", "nonfinite_evaluations"),
        ),
        method=str(record["method"]),
        num_draws=chains * draws,
        fitted_columns=columns,
        integral=integral_of(tree),
        method_in_words=method_in_words(attrs),
        notes=(*approximation_error.error_sentences(tree), *unresolved),
        low_rank_error=approximation_error.recorded_error(tree),
        resolved=not unresolved if record["model"]["likelihood"] == "landmark" else None,
        chosen=record.get("chosen"),
        independent=independent,
    )


def _draws_line(diagnosis: Diagnosis) -> str:
    """Describe the draws and the convergence of all chains."""
    overall, count = diagnosis.convergence, diagnosis.num_draws
    if overall is None:
        return f"{count} draws of the posterior by {diagnosis.chosen or diagnosis.method}"
    chains = pluralize(len(overall.chains), "chain")
    draws = f"{chains} x {count // len(overall.chains)} draws ({diagnosis.method_in_words})"
    return f"{draws}: {overall.text}, {pluralize(diagnosis.divergences, 'divergence')}"


def _mode_line(diagnosis: Diagnosis, index: int) -> str:
    """Describe a mode: its location, mass and chains, and their convergence."""
    mode, inside = diagnosis.modes.modes[index], diagnosis.per_mode[index]
    line = f"mode {index + 1}: {format_location(mode)}"
    if mode.mass is not None:
        line += f", posterior mass {format_mass(mode)}"
    elif mode.height < 0:
        quantity = "log density" if mode.interval is None else "log mass"
        line += f", {quantity} lower by {-mode.height:.0f}"
    if diagnosis.multimodal:
        line += f", barrier {mode.barrier:.0f}"
    if diagnosis.independent:
        return line
    line += f"; {format_chains(mode.chains)}"
    if inside is not None and diagnosis.multimodal:
        line += f": {inside.text}"
    return f"{line}; stuck: {format_chains(mode.stuck)}" if mode.stuck else line


def format_mass(mode: Mode) -> str:
    """Format the mass of a mode with its error: ``0.93 +- 0.01``, ``about 1e-60``."""
    mass, error = mode.mass or 0.0, mode.mass_error or 0.0
    if mass < 1e-3 or not error > 0.0:
        return format_probability(mass)
    decimals = int(np.clip(np.ceil(-np.log10(max(error, 1e-12))), 3, 6))
    return f"{mass:.{decimals}f} +- {error:.1g}"


def _independent_verdict(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Describe independent draws and the accuracy of the normalizing constant."""
    integral = diagnosis.integral
    method = f"All modes are represented by posterior mass: {diagnosis.method_in_words}."
    sentences = [("advice", method)]
    if diagnosis.multimodal:
        sentences.append(("modes", f"Multimodal: {len(diagnosis.modes.modes)} modes."))
    if diagnosis.multimodal and diagnosis.modes.has_masses:
        sentences.append(("mass", _heaviest(diagnosis)))
    advice = []
    if integral is not None and integral.repeats:
        if np.isnan(integral.error):
            advice.append("No standard error is known, since there is one repeat.")
        elif not integral.within_tolerance:
            advice.append("NOT ACCURATE: the repeats disagree; use more particles.")
        advice.append(
            "All repeats may miss a mode much narrower than the prior; quadrature (one or two "
            "hyperparameters) would detect it."
        )
    elif integral is not None and not integral.within_tolerance:
        tolerance = f"the tolerance of {integral.tolerance:g} was not reached"
        advice.append(f"NOT ACCURATE: {tolerance}; use a larger tolerance, or SMC.")
    return sentences + [("advice", sentence) for sentence in advice]


def _chain_verdict(diagnosis: Diagnosis, max_peaks: int = 5) -> list[tuple[str, str]]:
    """Describe whether chains mixed, and the reasons if they did not.

    Args:
        diagnosis: with chains.
        max_peaks: more local maxima of the density of one column are due to its narrow zeros.
            Not tuned.
    """
    modes, overall = diagnosis.modes, diagnosis.convergence
    assert overall is not None
    has_zeros = len(diagnosis.fitted_columns) == 1 and (modes.peaks or 0) > max_peaks
    mixing = [("advice", _mixing(overall, has_zeros))]
    sentences = _multimodality(diagnosis) if diagnosis.multimodal else mixing

    def add(sentence: str, topic: str = "advice") -> None:
        sentences.append((topic, sentence))

    if modes.has_masses and not modes.covered:
        mass = f"the visited modes hold {modes.visited_mass:.2g} of its mass"
        add(f"NOT THE POSTERIOR: {mass}; run more chains, quadrature or SMC.")
    if modes.stuck:
        stuck = format_chains(modes.stuck)
        add(f"Stuck far below the density of their mode, and left out: {stuck}.", "stuck")
    if len(modes.stuck) == len(overall.chains):
        add("Every chain is stuck, so there is nothing to summarize.")
    if diagnosis.multimodal:
        sentences += _mixing_within_modes(diagnosis, has_zeros)
    if modes.peaks is None and not modes.has_masses:
        add(
            "R-hat cannot detect a mode that no chain visited: run more chains, or compare with "
            "quadrature (two hyperparameters) or SMC."
        )
    if diagnosis.divergences > 0.01 * diagnosis.num_draws:
        diverged = f"{diagnosis.divergences} of {diagnosis.num_draws} iterations diverged"
        reason = "as expected at zeros of the density" if has_zeros else "check for narrow regions"
        add(f"{diverged}: {reason}.")
    if diagnosis.nonfinite[1]:
        count = f"{diagnosis.nonfinite[1]} log densities after warmup were not finite"
        add(f"{count}: check the scale of the data and the prior.")
    return sentences


def _mixing_within_modes(diagnosis: Diagnosis, has_zeros: bool) -> list[tuple[str, str]]:
    """Describe the modes within which chains have not mixed.

    Args:
        diagnosis: with chains and several modes.
        has_zeros: True if the density of one column has narrow zeros.
    """
    within = {k: c for k, c in enumerate(diagnosis.per_mode, start=1) if c is not None}
    sentences = []
    if has_zeros and any(c.max_rhat < c.rhat <= TOLERATED_RHAT for c in within.values()):
        reason = "narrow zeros of the density divide it"
        sentences += [
            ("zeros", f"R-hat up to {TOLERATED_RHAT} within a mode is expected: {reason}.")
        ]
    limit = TOLERATED_RHAT if has_zeros else Convergence.max_rhat
    approximate = "summaries are approximate; use quadrature or SMC"
    return sentences + [
        ("advice", f"Mode {k} has not mixed ({c.text}): {approximate}.")
        for k, c in within.items()
        if c.rhat > limit
    ]


def _mixing(overall: Convergence, has_zeros: bool) -> str:
    """Describe whether chains mixed within the only mode.

    Args:
        overall: R-hat and effective sample sizes of all chains.
        has_zeros: True if the density of one column has narrow zeros.
    """
    if len(overall.chains) == 1:
        return "Mixing is unknown: one chain cannot show whether it has mixed; run several."
    if overall.mixed:
        return "Mixed: one mode, R-hat and effective sample sizes are good."
    failures = []
    if not overall.rhat <= overall.max_rhat:
        failures.append(f"{overall.rhat_text} (should be at most {overall.max_rhat:.3f})")
    if not overall.ess >= overall.min_ess:
        size = f"the smallest effective sample size is {np.floor(overall.ess):.0f}"
        failures.append(f"{size} (should be at least {overall.min_ess})")
    advice = "run longer warmup and more draws"
    if has_zeros and overall.max_rhat < overall.rhat <= TOLERATED_RHAT:
        advice = (
            f"narrow zeros of the density divide the mode, so that R-hat up to {TOLERATED_RHAT} is "
            "expected; run more draws, or use quadrature"
        )
    return f"Not mixed: one mode, but {' and '.join(failures)}: {advice}."


def _multimodality(diagnosis: Diagnosis, decisive: float = 7.0) -> list[tuple[str, str]]:
    """Describe several modes, the visits of chains, and the masses.

    Args:
        diagnosis: with several modes.
        decisive: difference of log masses beyond which the lower mode is negligible, whatever the
            error of the profile's grid.
    """
    modes, highest = diagnosis.modes, diagnosis.modes.highest
    difference = min(-mode.height for k, mode in enumerate(modes.modes) if k != highest)
    visited = sum(mode.visited for mode in modes.modes)
    crossed = f"chains crossed between them {pluralize(modes.crossings or 0, 'time')}"
    if not modes.crossings:
        crossed = "no chain crossed between them"
    count = f"{len(modes.modes)} modes, {visited} of them visited"
    weighting = "Averages over chains do not weight modes by posterior mass: do not pool."
    if modes.covered:
        weighting = "Summaries weight modes by posterior mass, averages over chains do not."
    mass = ("advice", f"The log masses of the two heaviest modes differ by {difference:.1f}.")
    if modes.has_masses:
        mass = ("mass", _heaviest(diagnosis))
    elif modes.peaks is None:
        mass = ("advice", "The posterior masses of the modes are unknown.")
    elif difference > decisive:
        gap = f"the log mass of the next is lower by {difference:.0f}"
        mass = ("advice", f"Mode {highest + 1} has practically all of the posterior mass: {gap}.")
    sentences = [("modes", f"Multimodal: {count}, and {crossed}."), ("weighting", weighting), mass]
    unvisited = ", ".join(format_location(mode) for mode in modes.modes if not mode.visited)
    if unvisited:
        sentences.append(("advice", f"No chain visited the mode at {unvisited}: run more chains."))
    return sentences


def _heaviest(diagnosis: Diagnosis) -> str:
    """Describe the mode with the largest mass, and its proportion of the draws of chains."""
    modes, index = diagnosis.modes, diagnosis.modes.heaviest
    text = f"Mode {index + 1} has posterior mass {format_mass(modes.modes[index])}"
    if diagnosis.independent:
        return f"{text}."
    return f"{text} and {100 * modes.draw_proportions[index]:.0f} % of the draws of chains."
