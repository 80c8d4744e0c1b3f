"""Multiples of a kernel's lengthscale, compared where another than the sample's own may serve."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import jax.numpy as jnp
import numpy as np
from bke.models import GaussianMixture, Laplace, SquaredExponential
from bke.models.kernels.base import Covariance, Kernel, no_kernel
from bke.models.kernels.parameters import lengths_of
from bke.models.kernels.scikit_learn import given_kernel

from ..core.errors import InputError, SamplingError, nearest
from ..core.machine import computing
from ..data.canonical import canonical_order, random_part
from ..data.checks import as_sample, check_positive
from ..data.observed import observe
from ..data.units import Units, choose_scale
from ..diagnostics.profile_modes import basins
from ..sampling import programs
from ..sampling.fit import fit
from ..sampling.model import Model
from ..sampling.preparation import prepare
from ..sampling.profile import smooth
from ..sampling.run import kernel_in_data_units
from ..sampling.samplers.quadrature import Quadrature
from ..sampling.target import unflatten
from . import TwoSampleKernel
from .bandwidths import bandwidth_grid, pairwise_distances
from .maximum_likelihood import PeakSearch

#: Lengthscales that are shown in words.
MOST_SHOWN = 6


def check_factors(
    factors: Sequence[float] | None, default: Sequence[float], kernel: Covariance
) -> tuple[float, ...]:
    """Check the multiples of a kernel's lengths to compare; 1 alone where it has none.

    Raises:
        InputError: there are none, or one is not positive.
    """
    if factors is None:
        return tuple(default) if lengths_of(kernel) else (1.0,)
    if len(factors) == 0:
        raise InputError("factors must hold at least one number")
    for factor in factors:
        check_positive(factor, "a factor")
    return tuple(factors)


def format_kernel(kernel: Covariance) -> str:
    """Name a kernel in words, its lengths to four digits."""
    lengths = lengths_of(kernel)
    if not lengths:
        return repr(kernel)
    told = []
    for name, length in lengths.items():
        values = np.atleast_1d(np.asarray(length, dtype=float))
        scales = ", ".join(f"{value:.4g}" for value in values[:MOST_SHOWN])
        more = f", ... ({len(values)})" if len(values) > MOST_SHOWN else ""
        told.append(f"{name} {scales}{more}")
    return f"{type(kernel).__name__} with {' and '.join(told)}"


def scale_lengthscales(kernel: Covariance, factor: float) -> Covariance:
    """Multiply the lengths of ``kernel`` by ``factor``.

    Raises:
        InputError: it has no lengthscale.
    """
    if factor == 1.0:
        return kernel
    lengths = lengths_of(kernel)
    if not lengths:
        raise InputError(
            f"{type(kernel).__name__} has no lengthscale to be multiplied: the only factor is 1"
        )
    longer = {name: np.asarray(length) * factor for name, length in lengths.items()}
    changed: Any = dataclasses.replace(kernel, **longer)  # type: ignore[type-var]
    return changed  # type: ignore[no-any-return]


KERNEL_NAMES: tuple[str, ...] = get_args(TwoSampleKernel)
#: Those that serve a sample of its own, which has no labels to test.
SAMPLE_KERNEL_NAMES = ("bkl", "median")
#: Rows from which a kernel is learned, at most: a random part of the pooled sample.
LEARNED_ROWS = 500
#: Rows that say which of its modes is the highest: few do not tell those of a mixture apart.
RANKED_ROWS = 2000
#: Optimisations in each basin: fewer than where the learned kernel itself is wanted.
STARTS = 4
#: Draws of the posterior over which a kernel is averaged.
POSTERIOR_DRAWS = 64
#: Grid points of the profile whose modes join the bandwidth grid.
PROFILE_POINTS = 200
#: Columns from which on the profile of pooled rows has nothing but an end of its grid for a mode.
MODES_COLUMNS = 20

#: Dither of rows that have no rounding unit, over the standard deviation of a column.
DITHER = 1e-3

T = TypeVar("T")


def median_kernel(points: np.ndarray, scale: str | None, seed: int) -> SquaredExponential:
    """A squared exponential with the median distance between two rows as its lengthscale (MMD-20).

    Distances between equal rows are left out (E16).

    Args:
        points: (N, D) in canonical order.
        scale: see :func:`~bke.inference.fit`.
        seed: of the rows taken, where there are many.
    """
    unit = choose_scale(points, scale)
    return scaled_kernel(float(np.median(pairwise_distances(points / unit, seed))), unit)


def scaled_kernel(
    lengthscale: float,
    unit: np.ndarray,
    model: type[SquaredExponential] | type[Laplace] = SquaredExponential,
) -> Any:
    """A kernel of ``lengthscale`` times ``unit`` (D,): one number where all columns agree."""
    per_column = lengthscale * unit
    alike = bool(np.all(unit == unit[0]))
    return model(float(per_column[0]) if alike else per_column)


def mode_lengthscales(points: np.ndarray, seed: int) -> np.ndarray:
    """Lengthscales at the modes of the smoothed marginal likelihood of scaled points (N, D)."""
    with computing():
        search, *_ = _prepare_search(points, None, seed, LEARNED_ROWS)
        low, high = np.quantile(search.prior, [0.002, 0.9995])
        grid = np.linspace(low, high, PROFILE_POINTS)
        tops, _, _ = basins(smooth(search.values(grid[:, None]), grid[1] - grid[0]))
    return np.exp(grid[tops])


def maximum_likelihood_kernel(points: np.ndarray, scale: str | None, seed: int) -> Kernel:
    """The lengthscale with the highest marginal likelihood, as ``learn_kernel`` finds it.

    Where there are more rows than its modes are looked for with, these say which is the highest.
    """
    with computing():
        search, units, more = _prepare_search(points, scale, seed, RANKED_ROWS)
        tops = search.by_profile(STARTS)
        heights = np.array([top.value for top in tops])
        if len(more) > LEARNED_ROWS and len(tops) > 1:
            places = np.array([top.z for top in tops])
            # Prepared, for it is on these that `prepare` has compiled the objective meanwhile.
            ranked = search.values(places, search.target.prepared(more))
            ranked[~np.isfinite(ranked)] = -np.inf
            heights = ranked if np.isfinite(ranked).any() else heights
        best = tops[int(np.argmax(heights))]
        values = search.target.constrain(unflatten(jnp.asarray(best.z), search.target.shapes))
        return kernel_in_data_units(search.target, units, values)


def _prepare_search(
    points: np.ndarray, scale: str | None, seed: int, most: int
) -> tuple[PeakSearch, Units, np.ndarray]:
    """Prepare the search for the best lengthscale of (N, D) points in canonical order.

    At most ``most`` of them, in the model's units the last of what is returned, say what the units
    are and whether there is a dither; the search is over some of those.
    """
    part = random_part(points, most, seed)
    observed = observe(part, scale=scale)
    target = Model().target(observed.units, observed.rows, seed)
    evaluate = programs.objectives(target, "ml")
    units, _, prior_draws = _retry_with_dither(
        lambda dither: prepare(target, observed, evaluate, dither=dither, seed=seed), part
    )
    scaled = np.asarray(units.points(observed.rows))
    some_rows = random_part(scaled, LEARNED_ROWS, seed)
    points = target.prepared(some_rows)
    return PeakSearch(target, points, prior_draws, evaluate, "ml", False), units, scaled


def multiscale_kernels(
    points: np.ndarray, scale: str | None, seed: int
) -> list[SquaredExponential]:
    """The bandwidth grid and, in few columns, the modes of the learned profile, short to long."""
    unit = choose_scale(points, scale)
    scaled, learned = points / unit, np.empty(0)
    if points.shape[1] < MODES_COLUMNS:
        # Rounding without a unit: the density is zero.
        with contextlib.suppress(InputError, SamplingError):
            learned = mode_lengthscales(scaled, seed)
    lengths = np.sort(np.concatenate([bandwidth_grid(scaled, seed), learned]))
    return [scaled_kernel(float(length), unit) for length in lengths]


def take_evenly(kernels: list[Any], most: int) -> list[Any]:
    """Thin kernels evenly to at most ``most``, the first and the last among them."""
    if len(kernels) <= most:
        return kernels
    chosen = np.unique(np.linspace(0, len(kernels) - 1, most).round().astype(int))
    return [kernels[index] for index in chosen]


def select_kernel(
    X: Any,
    kernel: str | Covariance,
    *,
    scale: str | None = "column",
    seed: int = 0,
    name: str = "X",
) -> Covariance:
    """Choose the kernel of one sample by name, in the units of the data.

    Args:
        X: the sample, shape (n, D) or (n,).
        kernel: ``"bkl"``, a squared exponential with the lengthscale of highest marginal likelihood
            (:func:`~bke.inference.learn_kernel`, of 500 rows at most, where several modes compete
            ranked by 2000); ``"median"``, the median distance between two rows (MMD-20); or a
            kernel, of this package or of ``sklearn.gaussian_process.kernels``.
        scale: ``"column"``: distances are taken with every column over its standard deviation;
            ``"pooled"`` or ``None``: of the columns as they are.
        seed: of the rows taken, where there are many.
        name: of the sample, for messages.

    Raises:
        InputError: for a choice that there is not, or a sample that has no kernel.
    """
    try:
        kernel = given_kernel(kernel)
    except ValueError as error:
        raise InputError(str(error)) from None
    if isinstance(kernel, Covariance):
        return kernel
    if kernel not in SAMPLE_KERNEL_NAMES:
        raise InputError(
            no_kernel(kernel, f"a kernel or one of {SAMPLE_KERNEL_NAMES}")
            + nearest(kernel, SAMPLE_KERNEL_NAMES)
        )
    points = as_sample(X, name)
    if np.all(points == points[0]):
        raise InputError(f"all rows of {name} are equal: no kernel can be chosen from them")
    with computing():
        return select_kernels(kernel, points, scale, seed)[0]


def select_kernels(
    choice: Any, points: np.ndarray, scale: str | None, seed: int
) -> list[Covariance]:
    """Choose the kernels that a name stands for, in the units of the data.

    Args:
        choice: ``"median"``, ``"bkl"``, ``"posterior"``, ``"multiscale"`` or a kernel.
        points: the sample (N, D), of a test the pooled one, its rows in any order.
        scale: see :func:`~bke.inference.fit`.
        seed: of everything random.

    Raises:
        InputError: for another choice.
    """
    if isinstance(choice, Covariance):
        return [choice]
    varying = np.ptp(points, axis=0) > 0.0
    if not varying.all() and varying.any():
        some_columns = select_kernels(choice, points[:, varying], scale, seed)
        return [extend_kernel(one, varying) for one in some_columns]
    points = points[canonical_order(points)]
    if choice == "median":
        return [median_kernel(points, scale, seed)]
    if choice == "multiscale":
        return list(multiscale_kernels(points, scale, seed))
    if choice == "bkl":
        return [_explain_failure(lambda: maximum_likelihood_kernel(points, scale, seed))]
    if choice == "posterior":
        part = random_part(points, LEARNED_ROWS, seed)
        options: dict[str, Any] = {"scale": scale, "seed": seed, "progress": False}
        options |= {"method": Quadrature(tolerance=1e-2, draws=POSTERIOR_DRAWS, chains=1)}
        run = _explain_failure(
            lambda: _retry_with_dither(lambda dither: fit(part, dither=dither, **options), part)
        )
        draws = run["posterior"].to_dataset()["lengthscale"].values
        return [GaussianMixture(draws.reshape(POSTERIOR_DRAWS, *draws.shape[2:]))]
    raise InputError(
        no_kernel(choice, f"a kernel or one of {KERNEL_NAMES}") + nearest(choice, KERNEL_NAMES)
    )


def extend_kernel(kernel: Any, varying: np.ndarray) -> Any:
    """Take a kernel of the columns (D,) that vary for one of all: in others rows are not apart."""
    lengths = np.asarray(kernel.lengthscale)
    if lengths.ndim == 0 or lengths.shape[-1] != varying.sum():
        return kernel
    whole = np.ones((*lengths.shape[:-1], len(varying)))
    whole[..., varying] = lengths
    return dataclasses.replace(kernel, lengthscale=whole)


def _retry_with_dither(learn: Callable[[Any], T], part: np.ndarray) -> T:
    """Call ``learn`` with a dither: a small one where rows cancel but have no rounding unit.

    So do residuals of rounded columns. A kernel for a test need not be that of their density.
    """
    try:
        return learn("auto")
    except InputError:
        return learn(list(DITHER * part.std(axis=0)))


def _explain_failure(learn: Callable[[], Any]) -> Any:
    try:
        return learn()
    except (InputError, SamplingError) as error:
        raise InputError(
            f"no kernel can be learned from these data ({error}); the kernels 'multiscale', "
            "'evidence' and 'median' do without"
        ) from None
