"""The posterior of the kernel's hyperparameters: data in, one ``xarray.DataTree`` out."""

from __future__ import annotations

from typing import Unpack

import numpyro.distributions as dist
import xarray as xr
from bke.models import SamplingNoise, SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Likelihood
from bke.models.measures import Measure
from bke.models.priors import Prior
from numpy.typing import ArrayLike

from ..core.distributed import together
from ..core.machine import computing
from ..data.checks import check_count
from ..data.observed import observe
from ..streams.rows import Rows
from .in_memory import Data, FitOptions, InMemory, fit_options, sample_run
from .out_of_core import OutOfCore
from .samplers import Method, sampler_for
from .target import Target


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
    **options: Unpack[FitOptions],
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

    Returns:
        A run with the groups ``posterior`` (lengthscales in the units of the data),
        ``sample_stats``, ``warmup_posterior``, ``warmup_sample_stats``,
        ``unconstrained_posterior``, ``prior``, ``observed_data``, ``profile`` or ``paths`` (read by
        :func:`~bke.inference.diagnose`), with quadrature ``quadrature`` (nodes with weights) and
        with SMC ``smc`` (the particles of every repeat), both with the log normalizing constant and
        its error as attributes and without warmup; and attributes from which it can be repeated.

    Raises:
        InputError: the data or an argument are invalid.
        SamplingError: no starting point is found, or the density has no integral.
    """
    complete = fit_options(options)
    model = Target.checked(kernel, prior, noise_variance, measure, likelihood)
    check_count(seed, "seed", 0, 2**63 - 1)
    with computing(), together():
        sampler, choice = sampler_for(method, model)
        data: Data
        if isinstance(X, Rows):
            data = OutOfCore(X, complete)
        else:
            observed = observe(
                X,
                samples=complete["samples"],
                standardize=complete["standardize"],
                columns=complete["columns"],
            )
            data = InMemory(observed, complete)
        run = sample_run(sampler, data.prepare(model, sampler, seed), choice)
        data.remove_checkpoint()
    return run
