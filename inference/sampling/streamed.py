"""The posterior given rows of a file: quadrature of the landmark model, a pass for many points."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from bke.models import Landmark

from ..core.distributed import check_alike, check_shard, is_first
from ..core.errors import InputError
from ..data.units import Units, unit_of
from ..streams.checkpoint import Checkpoint
from ..streams.passes import Survey, survey
from ..streams.source import Rows
from .given import Given
from .handling import Handling
from .model import Model
from .run import Unread
from .samplers import Quadrature, Sampler, Task
from .streamed_density import RowsDensity
from .target import Target


@dataclasses.dataclass
class Streamed:
    """Rows of a file too large for memory.

    Attributes:
        rows: (n, D).
        options: how they are handled, see :func:`~bke.inference.fit`; with a checkpoint, the path
            of the file from which a killed job goes on, in which some 20 000 rows are as they are.
    """

    rows: Rows
    options: Handling
    _kept: Checkpoint | None = None

    def given(self, model: Model, sampler: Sampler, seed: int) -> Given:
        """The task, after a first pass over the rows; each batch of its points is another."""
        rows, options = self.rows, self.options
        asked = model.checked()
        seen = asked.likelihood
        if not isinstance(seen, Landmark) or not isinstance(sampler, Quadrature):
            raise InputError(
                "rows of a file are gone through as a whole for every batch of lengthscales: set "
                "likelihood='landmark' and method='quadrature'"
            )
        self._check_options()
        if options["dither"] not in ("auto", None):
            raise InputError("landmarks are off the rows, which need no dither")
        found, units, shown = self.surveyed(asked, seed, landmarks=_plain(seen.landmarks))
        target = model.target(units, found.sample, seed)
        rng = np.random.default_rng(seed).spawn(1)[0]
        prior_draws = target.prior_draws(rng, sampler.num_prior_draws)
        assert self._kept is not None
        density = RowsDensity(target, rows, units, self._kept, shown)
        task = Task(target, None, prior_draws, density, seed, progress=False)
        return Given(task, units, self.unread(found), self.settings())

    def surveyed(self, asked: Target, seed: int, **more: Any) -> tuple[Survey, Units, bool]:
        """What a first pass finds, the units that follow, and whether to show progress.

        Args:
            asked: what is to be sampled.
            seed: of the rows that stand for all.
            more: what else tells this job from others.
        """
        rows, options = self.rows, self.options
        job = {
            "file": rows.fingerprint(),
            "model": asked.describe(),
            **more,
            "scale": options["scale"],
            "seed": seed,
        }
        alike = {"data": [*rows.shape, *rows.columns], "options": {**job, "file": None}}
        check_alike(alike)
        self._kept = Checkpoint(options["checkpoint"], job)
        shown = options["progress"] and is_first()
        found = survey(rows, seed, self._kept, progress=shown)
        unit = unit_of(found.deviation, options["scale"])
        return found, Units(unit, np.zeros_like(unit), 0, rows.columns), shown

    def unread(self, found: Survey) -> Unread:
        """What a run keeps of the rows."""
        return Unread(len(self.rows), found.digest.tobytes().hex())

    def settings(self) -> dict[str, Any]:
        """What a run says of where they are from."""
        return {"share": "pooled", "source": str(self.rows.path)}

    def finished(self) -> None:
        """Remove the checkpoint."""
        if self._kept is not None:
            self._kept.remove()

    def _check_options(self) -> None:
        options = self.options
        check_shard(options["shard"])
        if options["share"] != "pooled" or options["columns"] is not None:
            raise InputError("share and columns are for data in memory")


def _plain(landmarks: Any) -> Any:
    """How many, or places, as JSON has them."""
    return landmarks if np.ndim(landmarks) == 0 else np.asarray(landmarks).tolist()
