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
from .in_memory import Data, Handling, InMemory, Model, sampled_run, with_defaults
from .out_of_core import OutOfCore
from .samplers import Method, sampler_for


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
    **handling: Unpack[Handling],
) -> xr.DataTree:
    """Posterior draws of the kernel's hyperparameters given data, BKE section 4.

    Quadrature: the whole posterior of one or two hyperparameters, to a tolerance, with the mass of
    every mode and independent draws. SMC: the same for any number of hyperparameters, in
    independent repeats that give the standard errors. NUTS: chains, which start from prior draws
    spread over the prior; the posterior often has several modes that they cannot cross, so read
    :func:`~bke.inference.diagnose` before any summary.

    Args:
        X: data, shape (n, D) or (n,); or a tuple of samples, see ``share``; or
            :func:`~bke.inference.open_rows` of a file too large for memory, or
            :func:`~bke.inference.open_blocks` of an iterator of blocks. In one column, with a
            squared exponential and one or two hyperparameters, some passes over them keep few of
            the rows: the log density is right to some 1e-6 nats where it is not negligible, which
            the run has as its attribute ``density_error``, and to less than it is below its top
            elsewhere. In several columns ``likelihood="landmark"`` and quadrature. At most 131072
            rows are read into memory, for any model.
        kernel: a kernel class, or an instance whose lengthscales become random.
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
            from 250 rows on, in two or three columns from 1000. :class:`~bke.models.Nystrom` and
            :class:`~bke.models.Fourier` of a rank: approximations, at a cost linear in n in any
            number of columns; the run records their error over the posterior's draws, and
            :func:`~bke.inference.diagnose` says it. ``"landmark"`` or
            :class:`~bke.models.Landmark`: another model of the same kernel, in which the data are
            seen through m landmarks, at a cost linear in n in any number of columns; its
            ``noise_variance`` is that of one k(x, z), see
            :func:`~bke.models.landmark_log_likelihood`.
        method: ``"auto"``, quadrature for one or two hyperparameters and SMC beyond; the run says
            which in its attributes ``method`` and ``chosen``. Or ``"nuts"``, ``"quadrature"``,
            ``"smc"``; or one of these with options: :class:`~bke.inference.Nuts`,
            :class:`~bke.inference.Quadrature`, :class:`~bke.inference.Smc`.
        seed: of every random number.
        scale: ``"column"`` divides each column by its standard deviation before the prior applies,
            ``"pooled"`` all columns by one number, ``None`` nothing.
        dither: ``"auto"`` adds uniform noise within the rounding unit where rounded data make the
            density exactly zero; a number (or one per column) sets the unit; ``None`` refuses.
            Of a large file 20 000 rows tell whether it is rounded, and to what.
        share: of a tuple of samples. ``"pooled"``, as in BKE section 5, takes their union for one
            sample: permuting the labels changes nothing, which keeps the level of a permutation
            test, and nothing is assumed but that they might be one. ``"joint"`` gives each
            its own likelihood and all the same hyperparameters, p(P | l) p(Q | l): what follows
            from the witness's own model, where the embeddings are independent given l; right
            when the samples are known to differ, and no basis for a permutation test.
        columns: names of the columns; by default those of a data frame.
        shard: of several devices, or several processes joined by ``jax.distributed``, each of which
            must make this call. ``"rows"``: of the landmark model, all devices sum over rows of
            their own. ``"chains"``: each device has chains, repeats or points of its own.
            ``"auto"``: rows where one sum takes some tenths of a second or more.
        checkpoint: for rows of a file: what was found so far is written here twice a minute and
            when interrupted, and the same call goes on from it; some 20 000 rows are in it as they
            are; it is removed in the end. In one column it is what the first pass finds.
        progress: show progress bars.

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
    options = with_defaults(handling)
    model = Model(kernel, prior, noise_variance, measure, likelihood)
    check_count(seed, "seed", 0, 2**63 - 1)
    with computing(), together():
        sampler, chosen = sampler_for(method, model.checked())
        data = _checked(X, options)
        run = sampled_run(sampler, data.given(model, sampler, seed), chosen)
        data.finished()
    return run


def _checked(X: ArrayLike | tuple[ArrayLike, ...] | Rows, options: Handling) -> Data:
    """Data in memory, checked here and nowhere else; or a file, whose rows a first pass checks."""
    if isinstance(X, Rows):
        return OutOfCore(X, options)
    share, scale, columns = options["share"], options["scale"], options["columns"]
    return InMemory(observe(X, share=share, scale=scale, columns=columns), options)
