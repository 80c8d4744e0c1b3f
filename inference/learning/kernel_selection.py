"""Kernel selection from a sample: median heuristic, bandwidth grid, type-II maximum likelihood.

For a two-sample test the sample is that of both labels pooled. Random steps and steps that depend
on the order of rows (a subsample, a dither, landmarks) must not depend on the order in which the
rows came, which reveals the labels: rows are sorted first.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, get_args

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import GaussianMixture, Laplace, SquaredExponential
from bke.models.kernels.base import Covariance, Kernel, invalid_kernel_message
from bke.models.kernels.covariance import length_parameters
from bke.models.kernels.scikit_learn import as_kernel

from ..core.errors import InputError, SamplingError, input_errors, nearest
from ..core.machine import computing
from ..data.canonical import canonical_order, random_part
from ..data.checks import as_sample, check_positive_numbers
from ..data.units import Units, choose_scale, observe
from ..diagnostics.modes import basins
from ..sampling import densities
from ..sampling.densities import smooth
from ..sampling.fit import fit, prepare
from ..sampling.run import kernel_in_data_units
from ..sampling.samplers import Quadrature
from ..sampling.target import Target, flatten, unflatten
from . import SampleKernel, TestKernel
from .bandwidths import bandwidth_grid, pairwise_distances
from .maximum_likelihood import PeakSearch

KERNEL_NAMES: tuple[str, ...] = get_args(TestKernel)
#: Rows from which a kernel is learned, at most: a random subsample. Not tuned.
LEARNED_ROWS = 500

T = TypeVar("T")


def select_kernel(
    X: Any,
    kernel: str | Covariance,
    *,
    standardize: str | None = "column",
    seed: int = 0,
    name: str = "X",
) -> Covariance:
    """Select the kernel of one sample by name, in the units of the data.

    Args:
        X: the sample, shape (n, D) or (n,).
        kernel: ``"bkl"``, a squared exponential with the lengthscale of highest marginal likelihood
            (:func:`~bke.inference.learn_kernel`, of 500 rows at most, where several modes compete
            ranked by 2000); ``"median"``, the median distance between two rows; or a
            kernel, of this package or of ``sklearn.gaussian_process.kernels``.
        standardize: ``"column"``: distances are taken with every column over its standard
            deviation; ``"pooled"`` or ``None``: with the unscaled columns.
        seed: seed of the subsample of many rows.
        name: name of the sample, for messages.

    Raises:
        InputError: for an unknown name, or a sample of equal rows.
    """
    kernel = check_kernel(kernel, get_args(SampleKernel))
    if isinstance(kernel, Covariance):
        return kernel
    points = as_sample(X, name)
    if np.all(points == points[0]):
        raise InputError(
            f"all rows of {name} are equal: no kernel can be selected from them; pass a kernel"
        )
    with computing():
        return select_kernels(kernel, points, standardize, seed)[0]


def select_kernels(
    kernel: Any, points: np.ndarray, standardize: str | None, seed: int
) -> list[Covariance]:
    """Return the kernels that a name stands for, in the units of the data.

    Args:
        kernel: ``"median"``, ``"bkl"``, ``"posterior"``, ``"multiscale"`` or a kernel.
        points: the sample (N, D), of a test the pooled one, its rows in any order.
        standardize: see :func:`~bke.inference.fit`.
        seed: seed of everything random.

    Raises:
        InputError: where no kernel can be learned from the points.
    """
    if isinstance(kernel, Covariance):
        return [kernel]
    varying = np.ptp(points, axis=0) > 0.0
    if not varying.all() and varying.any():
        kernels = select_kernels(kernel, points[:, varying], standardize, seed)
        return [extend_kernel(kernel, varying) for kernel in kernels]
    points = points[canonical_order(points)]
    if kernel == "median":
        return [median_kernel(points, standardize, seed)]
    if kernel == "multiscale":
        return list(multiscale_kernels(points, standardize, seed))
    learners: dict[str, Any] = {"bkl": maximum_likelihood_kernel, "posterior": posterior_kernel}
    try:
        return [learners[kernel](points, standardize, seed)]
    except (InputError, SamplingError) as error:
        raise InputError(
            f"no kernel can be learned from these data ({error}): use kernel='multiscale' or "
            "'median'"
        ) from None


def check_kernel(kernel: Any, names: tuple[str, ...]) -> Any:
    """Return a kernel, one of scikit-learn converted, or one of ``names``.

    Raises:
        InputError: it is something else.
    """
    with input_errors():
        kernel = as_kernel(kernel)
    if isinstance(kernel, Covariance) or (isinstance(kernel, str) and kernel in names):
        return kernel
    raise InputError(
        invalid_kernel_message(kernel, f"a kernel or one of {names}") + nearest(kernel, names)
    )


def median_kernel(points: np.ndarray, standardize: str | None, seed: int) -> SquaredExponential:
    """Return a squared exponential kernel by the median heuristic.

    The lengthscale is the median distance between two rows (Muandet et al. 2017, section 3.5.1);
    distances between equal rows are left out, which are counted there.

    Args:
        points: (N, D) in canonical order.
        standardize: see :func:`~bke.inference.fit`.
        seed: seed of the subsample of many rows.
    """
    unit = choose_scale(points, standardize)
    return scaled_kernel(float(np.median(pairwise_distances(points / unit, seed))), unit)


def multiscale_kernels(
    points: np.ndarray,
    standardize: str | None,
    seed: int,
    max_columns: int = 20,
    grid_points: int = 200,
) -> list[SquaredExponential]:
    """Return kernels on the bandwidth grid and at the modes of the smoothed marginal likelihood.

    Args:
        points: (N, D) in canonical order.
        standardize: see :func:`~bke.inference.fit`.
        seed: seed of subsamples and of the profile.
        max_columns: modes are added below this D: from here on the profile of pooled rows has its
            only mode at an end of its grid.
        grid_points: size of the profile's grid; not tuned.

    Returns:
        Kernels by lengthscale, ascending.
    """
    unit = choose_scale(points, standardize)
    scaled = points / unit
    lengthscales = bandwidth_grid(scaled, seed)
    if points.shape[1] < max_columns:
        # The density of rounded data without a rounding unit is zero.
        with contextlib.suppress(InputError, SamplingError), computing():
            search, *_ = _prepare_search(scaled, None, seed, LEARNED_ROWS)
            low, high = np.quantile(search.prior_draws, [0.002, 0.9995])
            grid = np.linspace(low, high, grid_points)
            tops, _ = basins(smooth(search.objective(grid[:, None]), grid[1] - grid[0]))
            lengthscales = np.sort(np.concatenate([lengthscales, np.exp(grid[tops])]))
    return [scaled_kernel(float(lengthscale), unit) for lengthscale in lengthscales]


def maximum_likelihood_kernel(
    points: np.ndarray,
    standardize: str | None,
    seed: int,
    *,
    max_ranked_rows: int = 2000,
    starts: int = 4,
) -> Kernel:
    """Return the kernel of highest marginal likelihood, as ``learn_kernel`` finds it.

    Args:
        points: (N, D) in canonical order.
        standardize: see :func:`~bke.inference.fit`.
        seed: seed of subsamples and prior draws.
        max_ranked_rows: modes are found with at most ``LEARNED_ROWS`` rows and ranked by this many,
            since few rows do not identify the highest mode of a mixture; not tuned.
        starts: starts of the optimizer in each basin, fewer than ``learn_kernel`` has by default.
    """
    with computing():
        search, units, ranking = _prepare_search(points, standardize, seed, max_ranked_rows)
        maxima = search.search_profile(starts)
        values = np.array([maximum.value for maximum in maxima])
        if len(ranking) > LEARNED_ROWS and len(maxima) > 1:
            z = np.array([maximum.z for maximum in maxima])
            # `prepare` has compiled the objective for rows that are prepared like these.
            ranked = search.objective(z, search.target.prepared(ranking))
            ranked[~np.isfinite(ranked)] = -np.inf
            values = ranked if np.isfinite(ranked).any() else values
        z_best = jnp.asarray(maxima[int(np.argmax(values))].z)
        best = search.target.constrain(unflatten(z_best, search.target.shapes))
        return kernel_in_data_units(search.target, units, best)


def posterior_kernel(
    points: np.ndarray, standardize: str | None, seed: int, *, draws: int = 64
) -> GaussianMixture:
    """Return the average of squared exponentials over ``draws`` of the posterior (not tuned)."""
    part = random_part(points, LEARNED_ROWS, seed)
    method = Quadrature(tolerance=1e-2, num_samples=draws)
    options: dict[str, Any] = {
        "standardize": standardize,
        "seed": seed,
        "progress": False,
        "method": method,
    }
    run = _retry_with_dither(lambda dither: fit(part, dither=dither, **options), part)
    lengthscales = run["posterior"].to_dataset()["lengthscale"].values
    return GaussianMixture(lengthscales.reshape(draws, *lengthscales.shape[2:]))


def _prepare_search(
    points: np.ndarray, standardize: str | None, seed: int, max_rows: int
) -> tuple[PeakSearch, Units, np.ndarray]:
    """Prepare the search for the best lengthscale of points (N, D) in canonical order.

    At most ``max_rows`` of them determine the units and whether a dither is needed; they are the
    last of the returned values, in the model's units. At most ``LEARNED_ROWS`` of those are
    searched.
    """
    part = random_part(points, max_rows, seed)
    observed = observe(part, standardize=standardize)
    target = Target.checked().in_model_units(observed.units, observed.rows, seed)
    evaluate = densities.objectives(target, "ml")
    units, _, prior_draws = _retry_with_dither(
        lambda dither: prepare(target, observed, evaluate, dither=dither, seed=seed), part
    )
    scaled = np.asarray(units.transform_data(observed.rows))
    learned = target.prepared(random_part(scaled, LEARNED_ROWS, seed))
    return PeakSearch(target, learned, flatten(prior_draws), "ml", False), units, scaled


def _retry_with_dither(
    learn: Callable[[Any], T], points: np.ndarray, relative_dither: float = 1e-3
) -> T:
    """Call ``learn`` with ``dither="auto"``, or a small dither where rows have no rounding unit.

    Residuals of rounded columns cancel without one. A kernel for a test need not be that of their
    density, so ``relative_dither``, of the standard deviation of a column, is not tuned.
    """
    try:
        return learn("auto")
    except InputError:
        return learn(list(relative_dither * points.std(axis=0)))


def scaled_kernel(
    lengthscale: float,
    unit: np.ndarray,
    model: type[SquaredExponential] | type[Laplace] = SquaredExponential,
) -> Any:
    """Return a kernel of ``lengthscale`` times ``unit`` (D,), a number where all columns agree."""
    per_column = lengthscale * unit
    return model(float(per_column[0]) if np.all(unit == unit[0]) else per_column)


def extend_kernel(kernel: Any, varying: np.ndarray) -> Any:
    """Extend a kernel of the columns that vary to all columns (D,); constant ones add nothing."""
    lengthscale = np.asarray(kernel.lengthscale)
    if lengthscale.ndim == 0 or lengthscale.shape[-1] != varying.sum():
        return kernel
    extended = np.ones((*lengthscale.shape[:-1], len(varying)))
    extended[..., varying] = lengthscale
    return dataclasses.replace(kernel, lengthscale=extended)


def take_evenly(kernels: list[Any], most: int) -> list[Any]:
    """Thin kernels evenly to at most ``most``, the first and the last among them."""
    if len(kernels) <= most:
        return kernels
    indices = np.unique(np.linspace(0, len(kernels) - 1, most).round().astype(int))
    return [kernels[index] for index in indices]


def check_factors(
    factors: Sequence[float] | None, default: Sequence[float], kernel: Covariance
) -> tuple[float, ...]:
    """Check the multiples of a kernel's lengthscales to compare; 1 only, where it has none.

    Raises:
        InputError: there are none, or one is not positive.
    """
    if factors is None:
        return tuple(default) if length_parameters(kernel) else (1.0,)
    return check_positive_numbers(factors, "factors")


def scale_lengthscales(kernel: Covariance, factor: Any) -> Covariance:
    """Multiply the lengthscales of ``kernel`` by ``factor``; both may be traced by JAX.

    Raises:
        InputError: it has no lengthscale.
    """
    if isinstance(factor, (int, float)) and factor == 1.0:
        return kernel
    lengthscales = length_parameters(kernel)
    if not lengthscales:
        raise InputError(
            f"{type(kernel).__name__} has no lengthscale to be multiplied: the only factor is 1"
        )
    scaled = {
        name: (value if isinstance(value, jax.Array) else np.asarray(value)) * factor
        for name, value in lengthscales.items()
    }
    replaced: Any = dataclasses.replace(kernel, **scaled)  # type: ignore[type-var]
    return replaced  # type: ignore[no-any-return]


def format_kernel(kernel: Any, max_lengthscales: int = 8) -> str:
    """Format a kernel, or a tuple of them, as its class and its lengthscales to four digits.

    If there are more than ``max_lengthscales``, it has the smallest and the largest.
    """
    if isinstance(kernel, tuple):
        return " and ".join(map(format_kernel, kernel))
    parameters = []
    for name, lengthscale in length_parameters(kernel).items():
        values = np.ravel(lengthscale)
        separator = ", "
        if len(values) > max_lengthscales:
            values, separator = np.array([values.min(), values.max()]), " to "
        parameters.append(f"{name} {separator.join(f'{value:.4g}' for value in values)}")
    described = " and ".join(parameters)
    return f"{type(kernel).__name__} with {described}" if parameters else repr(kernel)
