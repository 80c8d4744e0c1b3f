"""The modes of a run, found once: where they are, which draws are in them, what mass they hold."""

from __future__ import annotations

import dataclasses
from typing import Unpack

import xarray as xr

from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..sampling.run import units_of
from ..sampling.samplers import is_independent
from .integral import weighing_group
from .masses import Masses, mode_masses
from .modes import Modes
from .path_modes import modes_of_paths
from .profile_modes import modes_of_profile

#: What modes are told apart by.
LABELLING = ("profile", "paths", "posterior", "unconstrained_posterior", "sample_stats")


def find_modes(run: Run, **model: Unpack[ModelArguments]) -> Modes:
    """The modes of a run of :func:`~bke.inference.fit`, with their masses where it knows these.

    They are found once, for all who ask of this run or of a copy that has the same numbers; the
    run with masses that :func:`~bke.inference.reweight` returns keeps the modes of its draws.

    Args:
        run: from :func:`~bke.inference.fit`, open or not; or draws of another program.
        **model: of draws of another program, see :func:`~bke.inference.open_run`.

    Raises:
        InputError: if ``run`` is no run, or draws that do not fit the model.
    """
    opened = open_run(run, **model)
    tree = opened.tree
    units_of(tree)  # refuses other trees
    modes = opened.kept("modes", lambda: _unweighed(tree), groups=LABELLING)

    def masses() -> Masses | None:
        return mode_masses(tree, [mode.interval for mode in modes.modes], modes.of_draws)

    weighing = weighing_group(tree)
    reads = LABELLING if weighing is None else (*LABELLING, weighing)
    found = opened.kept("masses", masses, groups=reads)
    if found is None:
        return modes
    known = (
        dataclasses.replace(mode, mass=float(mass), mass_error=float(error))
        for mode, mass, error in zip(modes.modes, *found, strict=True)
    )
    return dataclasses.replace(modes, modes=tuple(known))


def _unweighed(run: xr.DataTree) -> Modes:
    modes = modes_of_profile(run) if "profile" in run.children else modes_of_paths(run)
    if is_independent(run.attrs):
        modes = dataclasses.replace(modes, crossings=None)
    # They are shared: who would write into them must copy.
    for shared in (modes.of_draws, modes.of_chains):
        shared.flags.writeable = False
    return modes
