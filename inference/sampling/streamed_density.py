"""The posterior density of the landmark model, given rows of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.likelihood.base import Parameters
from bke.models.likelihood.landmark import LandmarkSums, landmark_gaussian
from jax.experimental import multihost_utils

from ..core.jit import jit
from ..data.units import Units
from ..streams.checkpoint import Checkpoint
from ..streams.passes import sums_over_rows
from ..streams.source import Rows
from .target import Target, flatten

#: Points whose kernels are summed in one pass.
PER_PASS = 128


class RowsDensity:
    """Log density of unconstrained points; each is gone through the rows for once."""

    def __init__(
        self, target: Target, rows: Rows, units: Units, checkpoint: Checkpoint, progress: bool
    ) -> None:
        self._target, self._rows, self._units = target, rows, units
        self._checkpoint, self._progress = checkpoint, progress
        self._finish = jit(self._from_sums)
        self._known: dict[bytes, float] = {}
        state = checkpoint.state
        done = _least(len(state.get("values", ())))
        for key in ("points", "values"):
            state[key] = state.get(key, np.empty((0, 0)))[:done]
        for point, value in zip(state["points"], state["values"], strict=True):
            self._known[point.tobytes()] = float(value)

    def __call__(self, z: Mapping[str, np.ndarray]) -> np.ndarray:
        """Of points with leading axis k by site, (k,)."""
        names = list(self._target.shapes)
        flat = np.ascontiguousarray(flatten({name: np.asarray(z[name]) for name in names}))
        rows = {point.tobytes(): index for index, point in enumerate(flat)}
        new = [index for key, index in rows.items() if key not in self._known]
        for start in range(0, len(new), PER_PASS):
            some = new[start : start + PER_PASS]
            self._learn(flat[some], {name: jnp.asarray(z[name])[jnp.array(some)] for name in names})
        return np.array([self._known[point.tobytes()] for point in flat])

    def _learn(self, points: np.ndarray, z: dict[str, jax.Array]) -> None:
        target, state = self._target, self._checkpoint.state
        if not np.array_equal(state.get("pass", np.empty(0)), points):  # of another pass
            for name in [name for name in state if name == "chunk" or name.startswith("sums ")]:
                del state[name]
        state["pass"] = points
        each = [
            jax.tree.map(jnp.asarray, target.kernel_at(target.constrain(_at(z, index))))
            for index in range(len(points))
        ]
        sums = sums_over_rows(
            self._rows,
            self._units.scale,
            _landmarks(target),
            each,
            checkpoint=self._checkpoint,
            progress=self._progress,
        )
        values = [
            float(self._finish(jax.tree.map(lambda leaf, i=index: leaf[i], sums), _at(z, index)))
            for index in range(len(points))
        ]
        self._known.update((p.tobytes(), v) for p, v in zip(points, values, strict=True))
        state["points"] = np.concatenate([state["points"].reshape(-1, points.shape[1]), points])
        state["values"] = np.concatenate([state["values"].ravel(), values])
        self._checkpoint.write(now=True)

    def _from_sums(self, sums: LandmarkSums, z: dict[str, jax.Array]) -> jax.Array:
        target = self._target
        values = target.constrain(z)
        landmarks = jnp.asarray(_landmarks(target))
        noise: Any = values.get("noise_variance", target.noise_variance)
        parameters = Parameters(target.kernel_at(values), noise, target.measure_at(values))
        gaussian = landmark_gaussian(sums, landmarks, parameters)
        return gaussian + sums.log_jacobian + target.log_prior(z)


def _landmarks(target: Target) -> np.ndarray:
    assert target.landmarks is not None
    return target.landmarks


def _at(z: dict[str, jax.Array], index: int) -> dict[str, jax.Array]:
    return {name: values[index] for name, values in z.items()}


def _least(count: int) -> int:
    """What all processes know: one may have been killed before it wrote."""
    if jax.process_count() == 1:
        return count
    return int(np.min(multihost_utils.process_allgather(np.asarray(count))))
