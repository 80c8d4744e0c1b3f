"""Fantasy data: each row drawn from the predictive density of those before it, KST section 4."""

from __future__ import annotations

from typing import Any

import numpy as np
from bke.models import kernel_student_t
from bke.models.kernels.base import Covariance, invalid_kernel_message
from bke.models.linalg.rows import padded
from bke.models.student_t.normaliser import Bounds

from ..core.errors import InputError
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.checks import check_count, check_positive
from .box import box_for
from .sampling import Target, run_nuts, starts

#: Iterations of NUTS for each row, from a start that is a draw already.
ITERATIONS = 60


def fantasy_data(
    kernel: Covariance,
    n: int,
    bounds: Bounds,
    *,
    dimension: int | None = None,
    noise_variance: Any = 1.0,
    alpha: Any = 1.0,
    beta: Any = 0.01,
    first: Any = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> np.ndarray:
    """Draw rows from the generative model, each from the predictive density of those before it.

    With a kernel of x - y the first row would be uniform on the box; it is fixed, as there.

    Args:
        kernel: k.
        n: how many rows, the first included.
        bounds: the box that rows are drawn in, lower and upper corner, each (D,) or a number.
        dimension: D; by default the most numbers that a corner or ``first`` has.
        noise_variance: sigma_0^2, see :func:`~bke.models.kernel_student_t`.
        alpha: likewise.
        beta: likewise.
        first: x_1, (D,) or a number for every column.
        seed: of the draws.
        progress: whether a bar is shown.

    Returns:
        (n, D), each row by NUTS from a start that is drawn by importance.

    Raises:
        InputError: for arguments that make no sense.
    """
    check_count(n, "n", 1)
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InputError(f"bounds must be a lower and an upper corner, got {bounds!r}")
    if not isinstance(kernel, Covariance):
        raise InputError(
            invalid_kernel_message(kernel, "a kernel, such as SquaredExponential(1.0)")
        )
    prior = {
        name: check_positive(value, name)
        for name, value in (("noise_variance", noise_variance), ("alpha", alpha), ("beta", beta))
    }
    sizes = max(np.size(one) for one in (*bounds, first))
    D = sizes if dimension is None else check_count(dimension, "dimension", 1)
    rows = np.empty((n, D))
    try:
        rows[0] = np.broadcast_to(np.asarray(first, dtype=float), (D,))
    except (TypeError, ValueError):
        raise InputError(f"first must be a number or {D} of them, and is {first!r}") from None
    low, high = box_for(rows[:1], kernel, bounds)
    rng = np.random.default_rng(seed)
    with computing(), progress_bar("rows", n, shown=progress) as advance:
        advance(1)
        for count in range(1, n):
            density = kernel_student_t(padded(rows[:count], n), kernel, **prior)
            target = Target(density, low, high)
            start, _ = starts(target, 1, rng)
            path, _ = run_nuts(target, start, 1, ITERATIONS, int(rng.integers(2**31)))
            rows[count] = path[0, -1]
            advance(1)
    return rows
