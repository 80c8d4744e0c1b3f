"""The posterior of the kernel's hyperparameters: data in, one ``xarray.DataTree`` out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models import SamplingNoise, SquaredExponential
from bke.models.arrays.padding import PaddedRows
from bke.models.bayes.priors import Prior
from bke.models.kernels.base import Kernel, SmoothingError
from bke.models.landmarks import LandmarkView
from bke.models.likelihood.low_rank import LowRankView
from bke.models.likelihood.spectral import MOST_DENSE, SpectralIndex
from bke.models.measures.measure import Measure
from numpy.typing import ArrayLike

from ..data.checks import (
    as_samples,
    check_chains,
    check_count,
    check_memory,
    check_positive,
    column_names,
)
from ..data.units import Units, choose_units, with_dither
from ..errors import InputError
from ..runtime.distributed import check_alike, check_shard, is_first, placed, shares_rows, together
from ..runtime.machine import computing
from ..streams.source import Rows
from . import profile, programs
from .landmarks import landmarks_for
from .low_rank import recorded_error
from .nuts import CANDIDATES, NutsSampler
from .profile import BatchLogDensity
from .run import make_run
from .streamed_fit import fit_rows
from .target import Points, Target
from .ways import Task, by_nuts, by_quadrature, by_smc

METHODS = ("nuts", "quadrature", "smc")
PRIOR_DRAWS = 2000
#: n x n matrices alive at once on the dense route, and what XLA needs beside them.
MATRICES = 8
WITHOUT_MATRICES = (
    "a random part of them, likelihood='nystrom' (--likelihood nystrom --rank 500), or "
    "likelihood='landmark' (--likelihood landmark)"
)


def fit(
    X: ArrayLike | tuple[ArrayLike, ...] | Rows,
    *,
    kernel: Kernel | type[Kernel] = SquaredExponential,
    method: str = "nuts",
    prior: Prior | None = None,
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1,
    measure: Measure = "unit",
    likelihood: str = "auto",
    landmarks: int | ArrayLike | None = None,
    rank: int | None = None,
    share: str = "pooled",
    scale: str | None = "column",
    dither: str | float | Sequence[float] | None = "auto",
    chains: int = 8,
    warmup: int = 200,
    draws: int = 200,
    particles: int = 4000,
    tolerance: float = 1e-3,
    seed: int = 0,
    shard: str = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    columns: Sequence[str] | None = None,
) -> xr.DataTree:
    """Posterior draws of the kernel's hyperparameters given data, BKE section 4.

    NUTS: chains start from prior draws spread over the prior. The posterior often has several modes
    that chains cannot cross: read :func:`~bke.inference.diagnose` before any summary. Quadrature:
    the whole posterior of one or two hyperparameters, to ``tolerance``, with the mass of every mode
    and independent draws. SMC: the same for any number of hyperparameters, in ``chains``
    independent repeats that give the standard errors.

    Args:
        X: data, shape (n, D) or (n,); or a tuple of samples, see ``share``; or
            :func:`~bke.inference.open_rows` of a file too large for memory, for
            ``likelihood="landmark"`` and ``method="quadrature"``.
        kernel: a kernel class, or an instance whose lengthscales become random.
        method: ``"nuts"``, ``"quadrature"`` or ``"smc"``.
        prior: NumPyro distribution of the lengthscale (over ``scale``), one of shape (D,) for one
            lengthscale per column, or a dict by site name. Default Gamma(1, 1).
        noise_variance: sigma^2 of BKE (5), or a prior bounded away from zero; or the sampling
            covariance of the empirical embedding (KME-14), ``"clt"`` in full, ``"heteroscedastic"``
            its diagonal, see :class:`~bke.models.SamplingNoise`.
        measure: of the smoothed kernel: ``"unit"``, ``"lebesgue"`` (over the scaled data) or
            :class:`~bke.models.Gaussian` with scale and centre in the units of the data; a
            distribution as its scale is a prior, over ``scale`` as that of the lengthscale is.
        likelihood: ``"auto"``, ``"dense"`` or ``"spectral"``, see
            :func:`~bke.models.log_marginal_likelihood`; ``"auto"`` is spectral where it can be,
            from 250 rows on, in two or three columns from 1000. ``"nystrom"``, ``"fourier"``:
            approximations of a ``rank``, at a cost linear in n in any number of columns; the run
            records their error over the posterior's draws, and :func:`~bke.inference.diagnose`
            says it. ``"landmark"``: another model of
            the same kernel, in which the data are seen through m landmarks, at a cost linear in n
            in any number of columns; its ``noise_variance`` is that of one k(x, z), see
            :func:`~bke.models.landmark_log_likelihood`.
        landmarks: of that model: how many, by default 64 or a quarter of the rows, at the centres
            of clusters; or places, shape (m, D), in the units of the data and off them.
        rank: of ``"nystrom"`` (how many landmarks of its own) and of ``"fourier"`` (how many
            waves), from 1 to the number of rows of each sample.
        share: of a tuple of samples. ``"pooled"``, as in BKE section 5, takes their union for one
            sample: permuting the labels changes nothing, which keeps the level of a permutation
            test, and nothing is assumed but that they might be one. ``"joint"`` gives each
            its own likelihood and all the same hyperparameters, p(P | l) p(Q | l): what follows
            from the witness's own model, where the embeddings are independent given l; right
            when the samples are known to differ, and no basis for a permutation test.
        scale: ``"column"`` divides each column by its standard deviation before the prior applies,
            ``"pooled"`` all columns by one number, ``None`` nothing.
        dither: ``"auto"`` adds uniform noise within the rounding unit where rounded data make the
            density exactly zero; a number (or one per column) sets the unit; ``None`` refuses.
        chains: number of chains, 1 to 1000; the repeats of SMC; the draws of quadrature are dealt
            out to as many.
        warmup: warmup iterations per chain, at least 20 (NUTS).
        draws: draws per chain after warmup, at least 4 (NUTS).
        particles: draws in all, dealt out evenly (quadrature and SMC); at least as many for each of
            the ``chains`` as there are chains.
        tolerance: for the absolute error of the log normaliser (quadrature).
        seed: of every random number.
        shard: of several devices, or several processes joined by ``jax.distributed``, each of which
            must make this call. ``"rows"``: of the landmark model, all devices sum over rows of
            their own. ``"chains"``: each device has chains, repeats or points of its own.
            ``"auto"``: rows where one sum takes some tenths of a second or more.
        checkpoint: for rows of a file: what was found so far is written here twice a minute and
            when interrupted, and the same call goes on from it; some 20 000 rows are in it as they
            are; it is removed in the end.
        progress: show progress bars.
        columns: names of the columns; by default those of a data frame.

    Returns:
        Groups ``posterior`` (lengthscales in the units of the data), ``sample_stats``,
        ``warmup_posterior``, ``warmup_sample_stats``, ``unconstrained_posterior``, ``prior``,
        ``observed_data``, ``profile`` or ``paths`` (what :func:`~bke.inference.diagnose` reads),
        for quadrature ``quadrature`` (nodes with weights) and for SMC ``smc`` (the particles of
        every repeat), both with the log normaliser and its error as attributes and without warmup,
        and attributes that let anyone repeat the run.

    Raises:
        InputError: for data or arguments that make no sense, in one sentence.
        SamplingError: where no starting point can be found, or the density has no integral.
    """
    if method not in METHODS:
        raise InputError(f"method must be one of {METHODS}, got {method!r}")
    check_chains(chains)
    check_count(warmup, "warmup", 20)
    check_count(draws, "draws", 4)
    if method != "nuts":
        # ArviZ takes fewer draws than chains for a mistake.
        check_count(particles, "particles", max(4, chains) * chains)
    if method == "quadrature":
        check_positive(tolerance, "tolerance")
    check_shard(shard)
    if isinstance(X, Rows):
        if likelihood != "landmark" or method != "quadrature":
            raise InputError(
                "rows of a file are gone through as a whole for every batch of lengthscales: set "
                "likelihood='landmark' and method='quadrature'"
            )
        if share != "pooled" or dither not in ("auto", None) or columns is not None:
            raise InputError("share, dither and columns are for data in memory")
        if rank is not None:
            raise InputError("rank is for likelihood='nystrom' or 'fourier', not for 'landmark'")
        model = {"kernel": kernel, "prior": prior, "noise_variance": noise_variance}
        return fit_rows(
            X,
            model={**model, "measure": measure},
            landmarks=landmarks,
            scale=scale,
            chains=chains,
            particles=particles,
            tolerance=tolerance,
            prior_draws=PRIOR_DRAWS,
            seed=check_count(seed, "seed", 0, 2**63 - 1),
            progress=progress,
            checkpoint=checkpoint,
        )
    if checkpoint is not None:
        raise InputError("a checkpoint is for rows of a file, see open_rows")
    with computing(), together():
        if jax.process_count() > 1:
            asked = [method, likelihood, chains, warmup, draws, particles, tolerance, share, shard]
            samples = as_samples(X, share)
            check_alike({"data": np.concatenate(samples), "seeds": seed, "options": asked})
        target, units, data, prior_draws, evaluate, points, sampler = prepare(
            X,
            kernel=kernel,
            prior=prior,
            noise_variance=noise_variance,
            measure=measure,
            likelihood=likelihood,
            landmarks=landmarks,
            rank=rank,
            share=share,
            scale=scale,
            dither=dither,
            columns=columns,
            seed=seed,
            chains=chains,
            evaluator=programs.log_densities,
            warmup=warmup if method == "nuts" else None,
            shard=shard,
        )
        task = Task(
            target,
            points,
            prior_draws,
            evaluate,
            chains,
            draws if method == "nuts" else particles // chains,
            seed,
            progress and is_first(),
        )
        if sampler is not None:
            result, groups = by_nuts(task, sampler)
        elif method == "smc":
            result, groups = by_smc(task, programs.tempered_smc(target))
        else:
            result, groups = by_quadrature(task, tolerance)
        settings = {
            "method": method,
            "share": share,
            "seed": seed,
            "chains": chains,
            "warmup": result.warmup,
            "draws": task.draws,
            **({} if method == "nuts" else {"particles": particles}),
            **({"tolerance": tolerance} if method == "quadrature" else {}),
        }
        later = {name: np.asarray(values)[:, result.warmup :] for name, values in result.z.items()}
        lp = np.asarray(result.stats["lp"])[:, result.warmup :]
        settings |= recorded_error(target, points, later, lp)
        return make_run(target, units, data, result, prior_draws, groups, settings)


class Prepared(NamedTuple):
    """A target with its data, checked."""

    target: Target
    units: Units
    data: np.ndarray  # (n, D), in its own units, all samples
    prior_draws: dict[str, np.ndarray]  # unconstrained, by site
    evaluate: BatchLogDensity  # compiled for data of this shape
    points: Points  # the data as the route to the likelihood needs them
    sampler: NutsSampler | None  # compiled for them, if there is to be one


def prepare(
    X: ArrayLike | tuple[ArrayLike, ...],
    *,
    kernel: Kernel | type[Kernel],
    prior: Prior | None,
    noise_variance: float | str | SamplingNoise | dist.Distribution,
    measure: Measure,
    likelihood: str,
    landmarks: int | ArrayLike | None = None,
    rank: int | None = None,
    share: str,
    scale: str | None,
    dither: str | float | Sequence[float] | None,
    columns: Sequence[str] | None,
    seed: int,
    chains: int,
    evaluator: Callable[[Target], BatchLogDensity],
    warmup: int | None = None,
    shard: str = "chains",
) -> Prepared:
    """Check data and arguments of :func:`fit`, find units and dither, draw from the prior.

    What ``evaluator`` makes is compiled meanwhile, and NUTS where there is to be a ``warmup``.
    """
    samples = as_samples(X, share)
    data = np.concatenate(samples)
    check_count(seed, "seed", 0, 2**63 - 1)
    sizes = tuple(map(len, samples)) if share == "joint" else ()
    units = choose_units(data, scale, column_names(X) if columns is None else columns, sizes)
    places = landmarks_for(likelihood, landmarks, units, data, seed)
    try:
        target = Target.checked(
            kernel, prior, noise_variance, units.measure_to_model(measure), likelihood, places, rank
        )
    except ValueError as error:
        raise InputError(str(error)) from None
    points = placed(target.prepared(units.split(units.to_model(data))), shard)
    _check_matrices(points, data.shape[1])
    evaluate = evaluator(target)
    size = max(PRIOR_DRAWS, CANDIDATES * chains)
    # The samplers of some priors take as long to compile as the density.
    beside = ThreadPoolExecutor(2)
    try:
        beside.submit(_compile, target, evaluate, points)
        rng = np.random.default_rng(seed).spawn(1)[0]  # the dither's numbers are the parent's
        prior_draws = target.prior_draws(rng, size)
        _check_smoothed(target, data.shape[1])
        # Landmarks are off the data, where nothing balances.
        cancelled = None if places is not None else programs.cancelled(target)
        units = with_dither(units, data, dither, seed, prior_draws, cancelled)
        if units.dither.any():
            points = placed(target.prepared(units.points(data)), shard)
        sampler = None if warmup is None else programs.nuts_sampler(target, warmup)
        # Where devices share the rows, two programs would wait for each other.
        if sampler is not None and not shares_rows(points):
            beside.submit(sampler.compile, points)
        beside.shutdown()
    finally:
        # Whoever interrupts, or asked for what makes no sense, need not wait for a compiler.
        beside.shutdown(wait=False, cancel_futures=True)
    return Prepared(target, units, data, prior_draws, evaluate, points, sampler)


def _check_matrices(points: Points, dimension: int) -> None:
    """That there is memory for those of the largest sample that may need any."""
    each = points if isinstance(points, tuple) else (points,)
    sizes = [_rows_of_matrices(one) for one in each]
    if max(sizes):
        check_memory(max(sizes), dimension, matrices=MATRICES, instead=WITHOUT_MATRICES)


def _rows_of_matrices(points: Points) -> int:
    if isinstance(points, LandmarkView):
        return len(points.landmarks)
    if isinstance(points, LowRankView):
        return max(points.basis.size, len(points.exact))
    if isinstance(points, SpectralIndex):
        points = points.rows if len(points.rows) <= MOST_DENSE else ()
    return int(points.number) if isinstance(points, PaddedRows) else len(points)


def _compile(target: Target, evaluate: BatchLogDensity, points: Points) -> None:
    """Evaluate at one place; an error there will come up again where it is waited for."""
    with jax.enable_x64(True):  # the setting belongs to the thread
        one = {name: np.zeros((1, *shape)) for name, shape in target.shapes.items()}
        profile.log_densities(evaluate, one, points)


def _check_smoothed(target: Target, dimension: int) -> None:
    """Refuse a kernel without an implemented r, which compiled code could not name."""

    def smoothed(z: dict[str, jax.Array]) -> None:
        # The template, not a draw: whether a kernel is refused must not depend on the seed.
        target.kernel.smoothed(target.measure_at(target.constrain(z)), dimension)

    try:
        jax.eval_shape(smoothed, {name: jnp.zeros(shape) for name, shape in target.shapes.items()})
    except SmoothingError as error:
        raise InputError(str(error)) from None
