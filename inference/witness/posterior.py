"""Posterior of the witness function mu_P - mu_Q, BKE section 5: where two samples differ."""

from __future__ import annotations

import warnings
from typing import Literal, TypeAlias, Unpack, get_args

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike

from ..core.errors import InputError, PosteriorWarning, SamplingError
from ..core.machine import computing, cores
from ..core.progress import progress_bar
from ..data.checks import WITNESS_MATRICES, check_count, check_memory
from ..diagnostics.modes import (
    draw_weights,
    find_modes,
    unconstrained_draws,
    unconstrained_shapes,
)
from ..diagnostics.reweight import reweight
from ..sampling.foreign import ModelArguments
from ..sampling.open_run import Run, open_run
from ..sampling.run_data import compare_rows, match_columns
from ..sampling.samplers import MOST_EVALUATIONS, is_independent
from ..sampling.target import landmark_points, unflatten
from . import draws
from .bands import Thin, thin_draws

#: Parameter with a posterior: the two embeddings, or their difference.
Of: TypeAlias = Literal["embeddings", "difference"]


def sample_witness(
    run: Run,
    P: ArrayLike,
    Q: ArrayLike,
    at: ArrayLike | None = None,
    *,
    of: Of = "embeddings",
    noise: str | float = "clt",
    weights: str = "posterior",
    landmarks: int | ArrayLike | None = None,
    thin: Thin = "auto",
    seed: int = 0,
    progress: bool = True,
    **model: Unpack[ModelArguments],
) -> xr.DataTree:
    """Draw the witness mu_P - mu_Q jointly at all points, once per posterior draw.

    Given the hyperparameters, mu_P and mu_Q are independent Gaussian processes conditioned on the
    two samples separately (:func:`~bke.models.embedding_posterior`); for one column and a squared
    exponential by Fourier sums, for any number of rows. Other samples that are too large for n x n
    matrices need ``landmarks`` (:func:`~bke.models.landmark_embedding_posterior`).

    Args:
        run: run of :func:`~bke.inference.fit` on the samples, pooled or joint, open or not; or
            draws of another program.
        P: first sample, shape (n, D) or (n,), in the units of the data.
        Q: second sample, shape (m, D) or (m,). The rows of both together are to be those of the
            run, in any order; of draws of another program, those of its ``X``.
        at: points of evaluation, shape (k, D) or (k,). Default: a line or a mesh within the range
            of the data; for more than two columns the landmarks or the rows.
        of: ``"embeddings"``, the difference of two posteriors, each given its sample; or
            ``"difference"``, the posterior of the difference itself with a scale parameter
            (:func:`~bke.inference.witness.draws.witness_from_difference`), given that there is one:
            its bands are far narrower, and it is closer to the truth if the log Bayes factor is
            large, see :func:`~bke.inference.compare`. It takes neither ``noise`` nor
            ``landmarks``.
        noise: ``"clt"``, the sampling covariance of the empirical embedding plus the errors of two
            pseudo-observations, each equally likely to be any of the distinct rows, so that bands
            have their nominal coverage, of rare events too; or a number, the sigma^2 of the paper
            (0.1 there: its bands never exclude 0).
        weights: ``"posterior"`` gives each mode its posterior mass, of
            :func:`~bke.inference.reweight`, which is called if the run has no masses; ``"chains"``
            gives all chains the same weight, as BKE Figure 5 (C) does.
        landmarks: condition on the empirical embeddings at these points, (l, D) in the units of the
            data, or at this number of cluster centers, instead of all rows: the cost is linear in
            n, and bands are as wide as the prior far from all landmarks. By default
            the landmarks of a run of the landmark model, or none.
        thin: condition on the samples for every ``thin``-th posterior draw of each mode and chain
            only, and draw ``thin`` witnesses from each; 1 for all. ``"auto"``: for 200 or more of
            each mode, or 100 in the order of a single hyperparameter, with which the ends of a
            band of at most 95 % have a standard error of about 5 % of its width, see
            :mod:`~bke.inference.witness.bands`. The attribute ``num_lengthscales`` of the result
            is the number of distinct lengthscales that were used.
        seed: random seed.
        progress: show a progress bar.
        **model: for draws of another program, see :func:`~bke.inference.open_run`.

    Returns:
        A group with ``witness`` (chain, draw, point), ``mode`` (chain, draw: index into
        ``diagnose(run).modes.modes``, -1 for a stuck chain), ``weight`` (chain, draw), which
        :func:`credible_band` uses, and the coordinates ``at`` (point, column) and ``in_range``
        (point, true within the range of the rows, as for the default points). Outside of it a
        witness is extrapolated; reports and plots leave such points out. Attributes: the arguments,
        ``sizes`` of the samples, ``num_lengthscales``, the number of distinct lengthscales (or
        values of all hyperparameters, if there are others) of the draws, and a ``note`` if the
        rows of the samples are not exactly those of the run.

    Warns:
        PosteriorWarning: rows of one sample are not in the run, or rows of the run in no sample.

    Raises:
        InputError: for invalid samples, and if neither is part of the data of the run.
        SamplingError: a draw is not finite.
    """
    opened = open_run(run, **model)
    target, units = opened.target, opened.units
    *samples, names = match_columns(opened, P, Q)
    draws.check_noise(noise)
    if of not in get_args(Of):
        raise InputError(f"of must be 'embeddings' or 'difference', got {of!r}")
    if of == "difference" and (noise != "clt" or landmarks is not None):
        raise InputError("of='difference' takes neither noise nor landmarks")
    check_count(seed, "seed", 0, 2**63 - 1)
    sizes = opened.tree["posterior"].sizes
    if thin != "auto":
        check_count(thin, "thin", 1, sizes["draw"])
    centers = target.landmarks
    if landmarks is not None:
        centers = landmark_points(landmarks, units, np.concatenate(samples), seed)
    scaled = None if centers is None else centers * units.scale
    points = draws.evaluation_points(at, samples[0], samples[1], names, scaled)
    if of == "embeddings":
        rows = max(draws.matrix_size(X, target.kernel, target.measure) for X in samples)
        rows = rows if centers is None else len(centers)
        check_memory(
            max(rows, len(points)),
            len(units.columns) + 4 * sizes["chain"] * sizes["draw"],  # four copies of the draws
            matrices=WITNESS_MATRICES * cores(),
            alternative="landmarks (--landmarks)" if rows >= len(points) else "fewer points (--at)",
        )
    note = compare_rows(opened, *samples)
    if note is not None:
        warnings.warn(note, PosteriorWarning, stacklevel=2)
    weighted, modes = opened.tree, find_modes(opened)
    # Quadrature over one or two hyperparameters also finds modes that no chain visited.
    quadrature = unconstrained_draws(weighted).shape[-1] in MOST_EVALUATIONS
    if weights == "posterior" and not modes.has_masses and (len(modes.modes) > 1 or quadrature):
        weighted = reweight(opened, seed=seed, progress=progress)
        modes = find_modes(weighted)
    mode = np.array(modes.of_draws)
    mode[list(modes.stuck)] = -1
    weight = draw_weights(weighted, modes, weights)
    z = unconstrained_draws(weighted)
    chosen, source, turn = thin_draws(thin, mode, z)
    z = z.reshape(-1, z.shape[-1])[chosen]
    hyperparameters = unflatten(z, unconstrained_shapes(weighted))
    with computing(), progress_bar("witness", len(z), show=progress) as advance:
        arguments = (opened, samples, points, hyperparameters, int(turn.max()) + 1, seed, advance)
        if of == "difference":
            values = draws.witness_from_difference(*arguments)
        else:
            values = draws.witness_from_embeddings(*arguments, noise=noise, landmarks=centers)
    values = values[source, turn]
    lost = np.isnan(values).any(axis=2)
    if lost.any():
        raise SamplingError(
            f"{lost.sum()} of {lost.size} draws of the witness are not finite: the noise is too "
            "small compared with the prior covariance for double precision; use noise='clt', or "
            "measure='unit'"
        )
    attrs = {
        "method": weighted.attrs["method"],
        "independent": int(is_independent(weighted.attrs)),
        "noise": str(noise),
        "of": of,
        "weights": weights,
        "landmarks": 0 if centers is None else len(centers),
        "thin": thin,
        "num_lengthscales": len(np.unique(z, axis=0)),
        "seed": seed,
        **({} if note is None else {"note": note}),
    }
    return draws.witness_tree(values, mode, weight, points, units.columns, samples, attrs)
