"""The posterior given rows of a file: quadrature of the landmark model, a pass for many points."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..data.units import Units, unit_of
from ..errors import InputError
from ..runtime.distributed import check_alike, is_first
from ..streams.checkpoint import Checkpoint
from ..streams.passes import survey
from ..streams.source import Rows
from .handling import Handling
from .model import Model
from .run import Unread
from .sampled import sampled_run
from .samplers.base import Task
from .samplers.quadrature import Quadrature
from .samplers.registry import Method, sampler_for
from .streamed_density import RowsDensity


def fit_rows(rows: Rows, model: Model, method: Method, seed: int, options: Handling) -> xr.DataTree:
    """What :func:`~bke.inference.fit` does with rows of a file; see there.

    Args:
        rows: (n, D).
        model: that of landmarks.
        method: quadrature, or a name that means it.
        seed: of every random number.
        options: with a checkpoint, the path of the file from which a killed job goes on; some
            20 000 rows are in it as they are.

    Raises:
        InputError: for another model or method, or options that are for data in memory.
    """
    target = model.checked(model.measure)
    sampler, chosen = sampler_for(method, target)
    if target.likelihood != "landmark" or not isinstance(sampler, Quadrature):
        raise InputError(
            "rows of a file are gone through as a whole for every batch of lengthscales: set "
            "likelihood='landmark' and method='quadrature'"
        )
    of_memory = options["share"] != "pooled" or options["dither"] not in ("auto", None)
    if of_memory or options["columns"] is not None:
        raise InputError("share, dither and columns are for data in memory")
    shown = options["progress"] and is_first()
    job = {"model": target.describe(), **_asked(model), "scale": options["scale"], "seed": seed}
    alike = {"data": [*rows.shape, *rows.columns], "options": {**job, "file": None}}
    check_alike(alike)
    kept = Checkpoint(options["checkpoint"], {"file": rows.fingerprint(), **job})
    found = survey(rows, seed, kept, progress=shown)
    unit = unit_of(found.deviation, options["scale"])
    units = Units(unit, np.zeros_like(unit), 0, rows.columns)
    target = model.target(units, found.sample, seed)
    prior_draws = target.prior_draws(np.random.default_rng(seed).spawn(1)[0], sampler.prior_draws())
    density = RowsDensity(target, rows, units, kept, shown)
    task = Task(target, None, prior_draws, density, seed, progress=False)
    data = Unread(len(rows), found.digest.tobytes().hex())
    settings = {**chosen, "share": "pooled", "source": str(rows.path)}
    run = sampled_run(sampler, task, units, data, settings)
    kept.remove()
    return run


def _asked(model: Model) -> dict[str, Any]:
    """The landmarks of a job, as plain data."""
    landmarks = model.landmarks
    return {"landmarks": landmarks if np.ndim(landmarks) == 0 else np.asarray(landmarks).tolist()}
