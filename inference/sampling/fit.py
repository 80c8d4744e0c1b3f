"""The posterior of the kernel's hyperparameters: data in, one ``xarray.DataTree`` out."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Never

import jax
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from bke.models import SamplingNoise, SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.marginal import LIKELIHOODS
from bke.models.measures import Measure
from bke.models.priors import Prior
from numpy.typing import ArrayLike

from ..core.distributed import (
    check_same_inputs,
    check_shard,
    has_sharded_rows,
    is_first,
    shard_points,
    together,
)
from ..core.errors import InputError
from ..core.machine import computing
from ..data.checks import check_count
from ..data.units import Observed, Units, may_be_dithered, observe, with_dither
from ..io.samples import warn_of_sentinels
from ..streams.rows import Rows
from . import densities, out_of_core
from .densities import BatchLogDensity, log_densities
from .run import Unread, make_run
from .samplers import SAMPLERS, Method, sampler_for
from .target import PRIOR_DRAWS, Points, Program, Target, Task


def fit(
    X: ArrayLike | tuple[ArrayLike, ...] | Rows,
    *,
    kernel: Kernel | type[Kernel] = SquaredExponential,
    prior: Prior | None = None,
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1,
    measure: Measure | str = "unit",
    likelihood: Likelihood | str = "auto",
    method: Method = "auto",
    seed: int = 0,
    standardize: str | None = "column",
    dither: str | float | Sequence[float] | None = "auto",
    samples: str = "pooled",
    columns: Sequence[str] | None = None,
    shard: str = "auto",
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
    **misplaced: Never,
) -> xr.DataTree:
    """Sample the posterior of the kernel's hyperparameters given data (BKE section 4).

    Quadrature returns the posterior of one or two hyperparameters to a tolerance, with the mass of
    every mode and independent draws. SMC does so for any number of hyperparameters, with standard
    errors from independent repeats. NUTS returns chains that start from prior draws spread over the
    prior; they often cannot cross between modes of the posterior, so read
    :func:`~bke.inference.diagnose` before any summary.

    Args:
        X: data, shape (n, D) or (n,); or a tuple of samples, see ``samples``; or
            :func:`~bke.inference.open_rows` of a file too large for memory, or
            :func:`~bke.inference.open_blocks` of an iterator of blocks. For these, one column with
            a squared exponential and one or two hyperparameters is read in a few passes: the log
            density is accurate to about 1e-6 nats where it is not negligible (attribute
            ``density_error`` of the run). Several columns need ``likelihood="landmark"`` and
            quadrature. At most 131072 rows are read into memory, for any model.
        kernel: a kernel class, or an instance whose lengthscales become random.
        prior: NumPyro distribution of the lengthscale (of the data as standardized), one of shape
            (D,) for one lengthscale per column, or a dict by site name. Default Gamma(1, 1).
        noise_variance: sigma^2 of BKE (5), or a prior bounded away from zero; or the sampling
            covariance of the empirical embedding (KME-14), ``"clt"`` in full, ``"heteroscedastic"``
            its diagonal, see :class:`~bke.models.SamplingNoise`.
        measure: measure of the smoothed kernel: ``"unit"``, ``"lebesgue"`` (over the scaled data)
            or :class:`~bke.models.Gaussian` with scale and center in the units of the data; a
            distribution as its scale is a prior, like that of the lengthscale of the data as
            standardized.
        likelihood: ``"auto"``, ``"dense"`` or ``"spectral"``, see
            :func:`~bke.models.log_marginal_likelihood`; ``"auto"`` is spectral where it is
            supported, from 250 rows, in two or three columns from 1000.
            :class:`~bke.models.Nystrom` and :class:`~bke.models.Fourier` of a rank are
            approximations at a cost linear in n in any number of columns, whose error over the
            posterior :func:`~bke.inference.diagnose` reports. ``"landmark"`` or
            :class:`~bke.models.Landmark` is another model of the same kernel, with the kernel's
            values at m landmarks as data, at a cost linear in n in any number of columns; its
            ``noise_variance`` is that of one k(x, z), see
            :func:`~bke.models.landmark_log_likelihood`.
        method: ``"auto"``, quadrature for one or two hyperparameters and SMC beyond, recorded in
            the attributes ``method`` and ``chosen`` of the run. Or ``"nuts"``, ``"quadrature"``,
            ``"smc"``; or one of these with options: :class:`~bke.inference.Nuts`,
            :class:`~bke.inference.Quadrature`, :class:`~bke.inference.Smc`.
        seed: seed of every random number.
        standardize: ``"column"`` divides each column by its standard deviation before the prior
            applies, ``"pooled"`` all columns by one number, ``None`` leaves them as they are.
        dither: ``"auto"`` adds uniform noise within the rounding unit where rounded data make the
            density exactly zero; a number (or one per column) sets the unit; ``None`` raises an
            error. The unit of a large file is found from 20 000 rows.
        samples: for a tuple of samples. ``"pooled"``, as in BKE section 5, uses their union as one
            sample: permuting the labels changes nothing, which keeps the level of a permutation
            test. ``"product"`` gives each its own likelihood with the same hyperparameters,
            p(P | l) p(Q | l), as follows from the model of the witness, where the embeddings are
            independent given l; for samples known to differ, and no basis of a permutation test.
        columns: names of the columns; by default those of a data frame.
        shard: for several devices, or several processes joined by ``jax.distributed``, each of
            which must make this call. ``"rows"``: devices share the rows of the landmark model.
            ``"chains"``: each device has its own chains, repeats or points. ``"auto"``: rows where
            one sum takes some tenths of a second or more.
        checkpoint: for rows of a file: file for results so far, written twice a minute and when
            interrupted, from which the same call continues; it contains about 20 000 of the rows,
            and is removed at the end. In one column it has the results of the first pass.
        progress: show progress bars.
        **misplaced: nothing; an option of a sampler or likelihood is refused with its place.

    Returns:
        A run with the groups ``posterior`` (lengthscales in the units of the data),
        ``sample_stats``, ``warmup_posterior``, ``warmup_sample_stats``,
        ``unconstrained_posterior``, ``prior``, ``observed_data``, ``profile`` or ``paths`` (read by
        :func:`~bke.inference.diagnose`), and with attributes from which it can be repeated.
        Quadrature adds ``quadrature`` (nodes with weights), and SMC ``smc`` (the particles of every
        repeat), both with the log normalizing constant and its error as attributes and without
        warmup.

    Raises:
        InputError: the data or an argument are invalid.
        TypeError: an argument is unknown.
        SamplingError: no starting point is found, or the density has no integral.
    """
    for name in misplaced:
        raise TypeError(f"fit() got an unexpected keyword argument {name!r}{_suggest(name)}")
    check_count(seed, "seed", 0, 2**63 - 1)
    with computing(), together():
        model = Target.checked(kernel, prior, noise_variance, measure, likelihood)
        sampler, choice = sampler_for(method, model)
        settings: dict[str, Any] = {**choice, "samples": samples}
        stored = None
        data: np.ndarray | Unread
        if isinstance(X, Rows):
            settings["source"] = str(X.path)
        elif checkpoint is not None:
            raise InputError("a checkpoint is for rows of a file, see open_rows")
        if isinstance(X, Rows) and out_of_core.is_needed(X, model):
            task, units, data, more, stored = out_of_core.prepare_rows(
                X,
                model,
                sampler,
                seed,
                standardize=standardize,
                dither=dither,
                samples=samples,
                columns=columns,
                shard=shard,
                checkpoint=checkpoint,
                progress=progress and is_first(),
            )
            settings |= more
        else:
            if isinstance(X, Rows):
                columns = X.columns if columns is None else columns
                X = X.block(0, len(X))
            observed = observe(X, samples=samples, standardize=standardize, columns=columns)
            data = rows = observed.rows
            warn_of_sentinels("X", observed.units.columns, rows)
            check_shard(shard)
            job = [repr(sampler), repr(model.likelihood), samples, shard]
            check_same_inputs({"data": rows, "seeds": seed, "options": job})
            target = model.in_model_units(observed.units, rows, seed)
            evaluate, program = densities.compile_log_density(target), sampler.program(target)
            units, points, prior_draws = prepare(
                target,
                observed,
                evaluate,
                dither=dither,
                seed=seed,
                shard=shard,
                num_prior_draws=sampler.num_prior_draws,
                program=program,
            )
            density = functools.partial(log_densities, evaluate, X=points)
            show_progress = progress and is_first()
            task = Task(target, points, prior_draws, density, seed, show_progress, program)
        chains, groups = sampler.sample(task)
        run = make_run(
            task, units, data, chains, groups, {**settings, "seed": seed, **sampler.record()}
        )
        if stored is not None:
            stored.remove()
    return run


def _suggest(name: str) -> str:
    """Return how a name is given to the samplers and likelihoods with that option."""
    calls = [
        f"{argument}={kind.__name__}({name}=...)"
        for argument, registry in (("method", SAMPLERS), ("likelihood", LIKELIHOODS))
        for kind in registry.values()
        if name in {field.name for field in dataclasses.fields(kind)}
    ]
    return f": give {' or '.join(calls)}" if calls else ""


def prepare(
    target: Target,
    observed: Observed,
    evaluate: BatchLogDensity,
    *,
    dither: Any,
    seed: int,
    shard: str = "chains",
    num_prior_draws: int = PRIOR_DRAWS,
    program: Program | None = None,
) -> tuple[Units, Points, dict[str, np.ndarray]]:
    """Choose the dither, prepare the data, draw from the prior, and compile at the same time.

    Args:
        target: the model.
        observed: the data.
        evaluate: log density, to be compiled for these data.
        dither: as for :func:`~bke.inference.fit`.
        seed: seed of the dither and of the prior draws.
        shard: as for :func:`~bke.inference.fit`.
        num_prior_draws: number of prior draws.
        program: program of the sampler, to be compiled too.

    Returns:
        Units with the dither, the data as the likelihood needs them, and unconstrained prior draws
        by site.

    Raises:
        InputError: the data or an argument are invalid.
    """
    units, rows = observed.units, observed.rows
    # The samplers of some priors take as long to compile as the density.
    compilers = ThreadPoolExecutor(2)

    def compile_density(points: Points) -> None:  # an error occurs again where it is evaluated
        with jax.enable_x64(True):  # the setting belongs to the thread
            log_densities(
                evaluate, {k: np.zeros((1, *s)) for k, s in target.shapes.items()}, points
            )

    def prepare_points(units: Units) -> Points:
        points = shard_points(target.prepared(units.transform_data(rows)), shard)
        compilers.submit(compile_density, points)
        return points

    try:
        # Rounded rows may need matrices that the dithered rows do not need.
        points = None if may_be_dithered(rows, dither) else prepare_points(units)
        rng = np.random.default_rng(seed).spawn(1)[0]  # the dither's numbers are the parent's
        draws = target.prior_draws(rng, num_prior_draws)
        target.check_smoothed(rows.shape[1])
        # Landmarks are not on the data, so no density is zero.
        cancelled = None if target.landmarks is not None else densities.cancelled_rows(target)
        units = with_dither(units, rows, dither, seed, draws, cancelled)
        points = prepare_points(units) if points is None else points
        # Where devices share the rows, two programs would wait for each other.
        if program is not None and not has_sharded_rows(points):
            compilers.submit(program.compile, points)
        compilers.shutdown()
    finally:
        # After an interrupt or an error nobody waits for the compiler.
        compilers.shutdown(wait=False, cancel_futures=True)
    return units, points, draws
