"""Posterior of the witness function mu_P - mu_Q, BKE section 5: where two samples differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import jax.numpy as jnp
import numpy as np
import xarray as xr
from bke.models.embeddings.fourier_posterior import FourierSample
from bke.models.likelihood.landmark import partition_rows
from bke.models.likelihood.spectral import MAX_DENSE
from numpy.typing import ArrayLike

from ..core.errors import InputError, SamplingError
from ..core.machine import computing, cores
from ..core.progress import progress_bar
from ..data.checks import (
    WITNESS_MATRICES,
    as_pair,
    check_count,
    check_memory,
    check_same_columns,
    column_names,
)
from ..data.new_rows import as_evaluation_points, column_order, known_names
from ..data.units import Units
from ..diagnostics.find_modes import find_modes
from ..diagnostics.masses import draw_weights, unconstrained_draws, unconstrained_shapes
from ..diagnostics.modes import Modes
from ..diagnostics.reweight import reweight
from ..sampling.landmarks import places_for
from ..sampling.method import is_independent
from ..sampling.open_run import OpenRun, Run, open_run
from ..sampling.samplers.quadrature import MOST_EVALUATIONS
from ..sampling.target import Target, unflatten
from .conditioning import Sample, by_waves, different_rows, rows_of_matrices
from .draws import More, check_noise, draws_at
from .of_difference import difference_draws
from .places import default_points
from .thinning import Thin, check_thin, thinning

#: Arrays of the draws that are alive at once.
COPIES = 4
#: Whose posterior a witness has: two embeddings', or their difference's.
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
) -> xr.DataTree:
    """One joint draw of the witness mu_P - mu_Q per posterior draw of the hyperparameters.

    Given the hyperparameters, mu_P and mu_Q are independent Gaussian processes conditioned on the
    two samples separately (:func:`~bke.models.embedding_posterior`), one column and a squared
    exponential by sums of waves, whatever n. Other samples too large for n x n matrices are seen
    through ``landmarks`` (:func:`~bke.models.landmark_embedding_posterior`).

    Args:
        run: from :func:`~bke.inference.fit` on the samples, pooled or joint; open or not.
        P: first sample, shape (n, D) or (n,), in the units of the data.
        Q: second sample, shape (m, D) or (m,).
        at: points of evaluation, shape (k, D) or (k,); by default a line, a mesh or, in more than
            two columns, the landmarks or the data points.
        of: ``"embeddings"``, the difference of two posteriors, each given its sample; or
            ``"difference"``, the posterior of the difference itself with a scale of its own
            (:mod:`~bke.inference.witness.of_difference`), given that there is one: narrower by far,
            and nearer to the truth where the evidence for a difference is strong, see
            :func:`~bke.inference.compare`. It takes neither ``noise`` nor ``landmarks``.
        noise: ``"clt"``, the sampling covariance of the empirical embedding and the errors of two
            more rows that could have been any of the different ones, so that bands mean what they
            say, of rare events too; or a number, the sigma^2 of the paper (0.1 there: its bands
            never exclude 0).
        weights: ``"posterior"`` gives each mode its posterior mass, see
            :func:`~bke.inference.reweight`, which is called where the run has none; ``"chains"``
            gives all chains the same, as BKE Figure 5 (C) does.
        landmarks: condition on the empirical embeddings at these places, (m, D) in the units of the
            data, or at so many centres of clusters, instead of at all observations: the cost is
            linear in n, and bands are as wide as the prior where no landmark is near. By default
            those of a run of the landmark model, else none.
        thin: condition on the samples for every ``thin``-th posterior draw of each mode and chain
            only, and draw so many witnesses from each. ``"auto"``: for 200 or more of each mode,
            or 100 in the order of a single hyperparameter, with which the ends of a band of at most
            95 % have a standard error of about 5 % of its width, see
            :mod:`~bke.inference.witness.thinning`.
        seed: of the draws.
        progress: show a progress bar.

    Returns:
        A group with ``witness`` (chain, draw, point), ``mode`` (chain, draw: index into
        ``diagnose(run).modes.modes``, -1 for a stuck chain), ``weight`` (chain, draw), which
        :func:`band` uses, and the coordinates ``at`` (point, column).

    Raises:
        InputError: for samples that make no sense or do not fit the run.
        SamplingError: where a draw is not finite.
    """
    opened = open_run(run)
    target, units = opened.target, opened.units
    first, second, names = _pair(P, Q, units)
    _check_posterior(of, noise, landmarks)
    check_count(seed, "seed", 0, 2**63 - 1)
    check_thin(thin, opened.tree["posterior"].sizes["draw"])
    both = np.concatenate([first, second])
    places = target.landmarks if landmarks is None else places_for(landmarks, units, both, seed)
    points = _points(at, first, second, None if places is None else places * units.scale, names)
    if of == "embeddings":
        draws = opened.tree["posterior"].sizes
        count = draws["chain"] * draws["draw"]
        _check_memory(target, (first, second), places, points, count)
    weighed, modes = _weighed(opened, weights, seed, progress)
    z = unconstrained_draws(weighed)
    thinned = thinning(thin, _labels(modes), z)
    of_weights = draw_weights(weighed, modes, weights)
    kept = unflatten(z.reshape(-1, z.shape[-1])[thinned.kept], unconstrained_shapes(weighed))
    with computing(), progress_bar("witness", len(thinned.kept), shown=progress) as advance:
        asked = (points, kept, thinned.each, seed, advance)
        if of == "difference":
            found = difference_draws(target, units, (first, second), *asked)
        else:
            found = _embedding_draws(target, units, (first, second), places, noise, *asked)
    witness = _finite(found[thinned.source, thinned.turn])
    dataset = xr.Dataset(
        {
            "witness": (("chain", "draw", "point"), witness),
            "mode": (("chain", "draw"), _labels(modes)),
            "weight": (("chain", "draw"), of_weights),
        },
        coords={"at": (("point", "column"), points), "column": list(units.columns)},
        attrs={
            "method": weighed.attrs["method"],
            "independent": int(is_independent(weighed.attrs)),
            "noise": str(noise),
            "of": of,
            "weights": weights,
            "landmarks": 0 if places is None else len(places),
            "thin": thin,
            "conditioned": len(thinned.kept),
            "seed": seed,
            "sizes": [len(first), len(second)],
        },
    )
    return xr.DataTree(dataset, name="witness")


def _embedding_draws(
    target: Target,
    units: Units,
    samples: tuple[np.ndarray, np.ndarray],
    places: np.ndarray | None,
    noise: str | float,
    at: np.ndarray,
    z: dict[str, np.ndarray],
    each: int,
    seed: int,
    advance: Callable[[int], None],
) -> np.ndarray:
    """Draws given each sample, ``each`` for every one of k hyperparameter draws, (k, each, m)."""
    where, (first, second) = units.to_model(at), (units.to_model(one) for one in samples)
    seen = _seen((first, second), where, places, target.kernel, target.measure)
    _check_lengthscales(seen, target, z, units)
    more = More(
        jnp.asarray(different_rows((first, second))), (float(len(first)), float(len(second)))
    )
    return draws_at(target, seen, more, jnp.asarray(where), z, each, noise, seed, advance)


def _check_posterior(of: Of, noise: str | float, landmarks: int | ArrayLike | None) -> None:
    """Refuse what is no posterior, and what that of the difference has no use for."""
    check_noise(noise)
    if of not in get_args(Of):
        raise InputError(f"of must be 'embeddings' or 'difference', got {of!r}")
    if of == "difference" and (noise != "clt" or landmarks is not None):
        raise InputError("of='difference' takes neither noise nor landmarks")


def _pair(
    P: ArrayLike, Q: ArrayLike, units: Units
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...] | None]:
    """Both samples, (n, D) and (m, D), with the columns of the run, and names of these."""
    first, second = as_pair(P, Q)
    check_same_columns(column_names(P), column_names(Q))
    dimension = len(units.columns)
    of_first = column_names(P)
    of_second = column_names(Q) if of_first is None else column_names(Q) and of_first
    if first.shape[1] != dimension:
        raise InputError(f"P and Q have {first.shape[1]} columns, but the run has {dimension}")
    known = known_names(units.columns) if dimension > 1 else None  # one column is that column
    for_first, for_second = (
        column_order(names, known, name) for names, name in ((of_first, "P"), (of_second, "Q"))
    )
    first = first if for_first is None else first[:, for_first]
    second = second if for_second is None else second[:, for_second]
    return first, second, known_names(units.columns) or of_first or of_second


def _check_memory(
    target: Target,
    samples: tuple[np.ndarray, ...],
    places: np.ndarray | None,
    points: np.ndarray,
    draws: int,
) -> None:
    """Refuse matrices of rows or of points, and draws at these, for which there is no memory."""
    each = (rows_of_matrices(sample, target.kernel, target.measure) for sample in samples)
    rows = max(each) if places is None else len(places)
    check_memory(
        max(rows, len(points)),
        points.shape[1] + COPIES * draws,
        matrices=WITNESS_MATRICES * cores(),
        instead="landmarks (--landmarks)" if rows >= len(points) else "fewer points (--at)",
    )


def _weighed(opened: OpenRun, weights: str, seed: int, progress: bool) -> tuple[xr.DataTree, Modes]:
    """The run and its modes, with their masses where ``weights`` needs these."""
    modes = find_modes(opened)
    # With one or two hyperparameters quadrature also sees what no chain visited.
    seen_by_quadrature = unconstrained_draws(opened.tree).shape[-1] in MOST_EVALUATIONS
    several = len(modes.modes) > 1
    if weights != "posterior" or modes.weighed or not (several or seen_by_quadrature):
        return opened.tree, modes
    weighed = reweight(opened, seed=seed, progress=progress)
    return weighed, find_modes(weighed)


def _labels(modes: Modes) -> np.ndarray:
    """Mode of every draw, (chain, draw), -1 of stuck chains."""
    labels = np.array(modes.of_draws)
    labels[list(modes.stuck)] = -1
    return labels


def _points(
    at: ArrayLike | None,
    first: np.ndarray,
    second: np.ndarray,
    places: np.ndarray | None,
    columns: Sequence[str] | None,
) -> np.ndarray:
    """Points of evaluation (k, D) in the units of the data, as are the landmarks' ``places``."""
    dimension = first.shape[1]
    if at is not None:
        return as_evaluation_points(at, dimension, columns=columns)
    return default_points(first, second) if places is None or dimension <= 2 else places


def _finite(witness: np.ndarray) -> np.ndarray:
    """Draws (chain, draw, point) as they are, refused where one is not a number."""
    lost = np.isnan(witness).any(axis=2)
    if lost.any():
        raise SamplingError(
            f"{lost.sum()} of {lost.size} draws of the witness are not finite: the noise is too "
            "small beside the prior covariance for double precision; use noise='clt', or "
            "measure='unit'"
        )
    return witness


def _seen(
    samples: tuple[np.ndarray, ...], at: np.ndarray, landmarks: np.ndarray | None, *family: Any
) -> tuple[Sample, Sample]:
    """Both samples as they are conditioned on: all rows, or from landmarks (model units)."""
    if landmarks is None:
        P, Q = by_waves(samples, at, *family)
        return P, Q
    P, Q = (partition_rows(sample, landmarks) for sample in samples)
    return P, Q


def _check_lengthscales(
    samples: Iterable[Sample], target: Target, z: Mapping[str, np.ndarray], units: Units
) -> None:
    lines = [sample for sample in samples if isinstance(sample, FourierSample)]
    least = max((line.min_lengthscale for line in lines), default=0.0)
    if not least:
        return
    lengthscales = np.asarray(target.constrain(z)["lengthscale"])  # type: ignore[arg-type]
    if short := int(np.sum(lengthscales < least)):
        raise InputError(
            f"{short} of {lengthscales.size} draws have a lengthscale below "
            f"{least * float(units.scale[0]):.3g}, too short for all of {MAX_DENSE + 1} rows or "
            "more: give landmarks (--landmarks)"
        )
