"""A target with its data: points as the likelihood needs them, dither, draws from the prior."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from bke.models.kernels.base import SmoothingError

from ..core.distributed import placed, shares_rows
from ..core.errors import InputError
from ..data.checks import check_memory
from ..data.observed import Observed
from ..data.units import Units, may_be_dithered, with_dither
from . import profile, programs
from .profile import BatchLogDensity
from .samplers import PRIOR_DRAWS, Program
from .target import Points, Target

#: n x n matrices alive at once on the dense route, and what XLA needs beside them.
MATRICES = 5
WITHOUT_MATRICES = (
    "a random part of them, likelihood=Nystrom(500) (--likelihood nystrom --rank 500), "
    "likelihood='landmark' (--likelihood landmark), or of rounded rows their unit as dither "
    "(--dither)"
)


class Prepared(NamedTuple):
    """A target's data in its units, and what its range is."""

    units: Units
    points: Points  # the data as the route to the likelihood needs them
    prior_draws: dict[str, np.ndarray]  # unconstrained, by site


def prepare(
    target: Target,
    observed: Observed,
    evaluate: BatchLogDensity,
    *,
    dither: Any,
    seed: int,
    shard: str = "chains",
    prior_draws: int = PRIOR_DRAWS,
    program: Program | None = None,
) -> Prepared:
    """Find dither and points, draw from the prior, and compile meanwhile.

    Args:
        target: of the data's units.
        observed: the data.
        evaluate: what is compiled for them.
        dither: as for :func:`~bke.inference.fit`.
        seed: of the dither and of the prior draws.
        shard: as for :func:`~bke.inference.fit`.
        prior_draws: how many.
        program: what else is compiled, if anything.

    Raises:
        InputError: for data or arguments that make no sense.
    """
    units, rows = observed.units, observed.rows
    # The samplers of some priors take as long to compile as the density.
    beside = ThreadPoolExecutor(2)

    def begun(units: Units) -> Points:
        points = _points(target, units, rows, shard)
        _check_matrices(points, rows.shape[1])
        beside.submit(_compile, target, evaluate, points)
        return points

    try:
        # Rounded rows may need matrices, and the same rows none once they are dithered.
        points = None if may_be_dithered(rows, dither) else begun(units)
        rng = np.random.default_rng(seed).spawn(1)[0]  # the dither's numbers are the parent's
        draws = target.prior_draws(rng, prior_draws)
        check_smoothed(target, rows.shape[1])
        # Landmarks are off the data, where nothing balances.
        cancelled = None if target.landmarks is not None else programs.cancelled(target)
        units = with_dither(units, rows, dither, seed, draws, cancelled)
        points = begun(units) if points is None else points
        # Where devices share the rows, two programs would wait for each other.
        if program is not None and not shares_rows(points):
            beside.submit(program.compile, points)
        beside.shutdown()
    finally:
        # Whoever interrupts, or asked for what makes no sense, need not wait for a compiler.
        beside.shutdown(wait=False, cancel_futures=True)
    return Prepared(units, points, draws)


def _points(target: Target, units: Units, rows: np.ndarray, shard: str) -> Points:
    """The rows in the model's units, where and as the likelihood needs them."""
    return placed(target.prepared(units.points(rows)), shard)


def _check_matrices(points: Points, dimension: int) -> None:
    """That there is memory for those of the largest sample that may need any."""
    each = points if isinstance(points, tuple) else (points,)
    sizes = [one.matrix_size for one in each]
    if max(sizes):
        check_memory(max(sizes), dimension, matrices=MATRICES, instead=WITHOUT_MATRICES)


def _compile(target: Target, evaluate: BatchLogDensity, points: Points) -> None:
    """Evaluate at one place; an error there will come up again where it is waited for."""
    with jax.enable_x64(True):  # the setting belongs to the thread
        one = {name: np.zeros((1, *shape)) for name, shape in target.shapes.items()}
        profile.log_densities(evaluate, one, points)


def check_smoothed(target: Target, dimension: int) -> None:
    """Refuse a kernel without an implemented r, which compiled code could not name."""

    def smoothed(z: dict[str, jax.Array]) -> None:
        # The template, not a draw: whether a kernel is refused must not depend on the seed.
        target.kernel.smoothed(target.measure_at(target.constrain(z)), dimension)

    try:
        jax.eval_shape(smoothed, {name: jnp.zeros(shape) for name, shape in target.shapes.items()})
    except SmoothingError as error:
        raise InputError(str(error)) from None
