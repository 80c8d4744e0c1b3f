"""What a diagnosis found: as an object, as plain data, and as the printed report."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.notebook import Shown
from ..sampling import likelihoods
from .convergence import Convergence
from .integral import Integral
from .modes import Modes, numbers_of, place
from .verdict import MANY_PEAKS, mass_in_words

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
            where = {"mode": len(rows) + 1, **numbers_of(mode.location)}
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
            "log_normaliser": None if self.integral is None else self.integral.log,
            "log_normaliser_error": None if self.integral is None else self.integral.error,
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
                    self.modes.modes, self.per_mode, self.modes.chain_shares, strict=True
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
    lines = [f"mode {index + 1}: {place(mode)}", f"  {height}{barrier}"]
    if chains:
        stuck = f"; stuck: {_chains(mode.stuck)}" if mode.stuck else ""
        lines.append(f"  {_chains(mode.chains)}{stuck}")
    if mode.mass is not None:
        by_count = f", by chain count {modes.chain_shares[index]:.2f}" if chains else ""
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
