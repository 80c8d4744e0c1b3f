"""The posterior given rows of a file: quadrature of the landmark model, a pass for many points."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..data.units import Units, unit_of
from ..errors import InputError
from ..runtime.distributed import check_alike, is_first, together
from ..runtime.machine import computing
from ..streams.checkpoint import Checkpoint
from ..streams.passes import survey
from ..streams.source import Rows
from .barriers import LogDensity
from .landmarks import places_for
from .nuts import CANDIDATES
from .run import Unread, make_run
from .streamed_density import RowsDensity
from .target import Target
from .ways import Task, by_quadrature


@dataclasses.dataclass(frozen=True)
class RowsTask(Task):
    """A task without points: its density goes through rows."""

    def density(self) -> LogDensity:
        """See :class:`RowsDensity`."""
        return self.log_density  # type: ignore[return-value]


def fit_rows(
    rows: Rows,
    *,
    model: Mapping[str, Any],
    landmarks: Any,
    scale: str | None,
    chains: int,
    particles: int,
    tolerance: float,
    prior_draws: int,
    seed: int,
    progress: bool,
    checkpoint: Any,
) -> xr.DataTree:
    """What :func:`~bke.inference.fit` does with rows of a file; see there.

    Args:
        rows: (n, D).
        model: kernel, prior, noise variance and measure.
        landmarks: how many, places in the units of the data, or ``None``.
        scale: of the unit.
        chains: that the draws are dealt out to.
        particles: draws in all.
        tolerance: of the log normaliser.
        prior_draws: how many there are at least.
        seed: of every random number.
        progress: show a progress bar for each pass.
        checkpoint: path of the file from which a killed job goes on, or ``None``; some 20 000 rows
            are in it as they are.
    """
    shown = progress and is_first()
    with computing(), together():
        try:
            asked = Target.checked(**model, likelihood="landmark").describe()
        except ValueError as error:
            raise InputError(str(error)) from None
        job = {
            "file": rows.fingerprint(),
            "model": asked,
            "landmarks": landmarks if np.ndim(landmarks) == 0 else np.asarray(landmarks).tolist(),
            "scale": scale,
            "seed": seed,
        }
        alike = {"data": [*rows.shape, *rows.columns], "options": {**job, "file": None}}
        check_alike(alike)
        kept = Checkpoint(checkpoint, job)
        found = survey(rows, seed, kept, progress=shown)
        unit = unit_of(found.deviation, scale)
        units = Units(unit, np.zeros_like(unit), 0, rows.columns)
        chosen = places_for(landmarks, units, found.sample, seed)
        model = {**model, "measure": units.measure_to_model(model["measure"])}
        target = Target.checked(**model, likelihood="landmark", landmarks=chosen)
        rng = np.random.default_rng(seed).spawn(1)[0]
        drawn = target.prior_draws(rng, max(prior_draws, CANDIDATES * chains))
        density = RowsDensity(target, rows, units, kept, shown)
        draws = particles // chains
        task = RowsTask(target, None, drawn, density, chains, draws, seed, False)  # type: ignore[arg-type]
        result, groups = by_quadrature(task, tolerance)
        settings = {
            "method": "quadrature",
            "share": "pooled",
            "seed": seed,
            "chains": chains,
            "warmup": 0,
            "draws": draws,
            "particles": particles,
            "tolerance": tolerance,
            "source": str(rows.path),
        }
        data = Unread(len(rows), found.digest.tobytes().hex())
        run = make_run(target, units, data, result, drawn, groups, settings)
        kept.remove()
        return run
