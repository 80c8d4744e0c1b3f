"""Diagnosing a run: convergence figures, modes, and a verdict in words."""

from __future__ import annotations

from typing import Unpack

import numpy as np
import xarray as xr

from ..sampling import low_rank
from ..sampling.foreign import ModelArguments
from ..sampling.method import is_independent, method_in_words
from ..sampling.open_run import Run, open_run
from . import resolution, verdict
from .convergence import ChainFigures, convergence
from .find_modes import find_modes
from .integral import integral_of
from .modes import Modes
from .result import Diagnosis


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
    method, columns = str(tree.attrs["method"]), units.columns
    independent = is_independent(tree.attrs)
    sentences = (
        verdict.of_integral(method_in_words(tree.attrs), modes, integral)
        if independent and integral is not None
        else verdict.of_chains(modes, chains, one_column=len(columns) == 1)
    )
    unresolved = resolution.notes_on_run(opened, modes)
    sentences += low_rank.in_words(tree) + unresolved
    return Diagnosis(
        chains.overall,
        modes,
        chains.per_mode,
        chains.divergences,
        chains.nonfinite,
        " ".join(sentences),
        method,
        chains.iterations,
        columns,
        integral,
        low_rank.error_of_run(tree),
        not unresolved if tree.attrs["likelihood"] == "landmark" else None,
        tree.attrs.get("chosen"),
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

    def nonfinite(group: str) -> int:
        return int(run[group]["nonfinite_evaluations"].sum()) if group in run.children else 0

    return ChainFigures(
        convergence(posterior, range(posterior.sizes["chain"])),
        tuple(convergence(posterior, inside) if inside else None for inside in members),
        int(run["sample_stats"]["diverging"].sum()),
        (nonfinite("warmup_sample_stats"), nonfinite("sample_stats")),
        posterior.sizes["chain"] * posterior.sizes["draw"],
    )
