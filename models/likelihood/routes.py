"""The ways to BKE (13) itself: by matrices, by sums where there are any, or whichever pays."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..kernels.base import Kernel
from ..linalg.rows import PaddedRows, dense_size, padded
from ..measures import Measure, as_measure
from .dense import DenseView
from .landmark import Landmark
from .low_rank.view import Fourier, Nystrom
from .noise import Noise, SamplingNoise, check_noise
from .spectral import SpectralIndex, is_single, spectral_index, unsupported_reason
from .view import LikelihoodView
from .way import Likelihood, as_likelihood

#: Rows from which on a single value by the spectral route takes less time than by matrices, with
#: what it takes to prepare; and in several columns, and for sums, where there is more to compile.
SMALLEST_PREPARED_ONCE, SMALLEST_BOX_ONCE = 2000, 5001


@dataclasses.dataclass(frozen=True)
class Dense(Likelihood):
    """The n x n matrices."""

    name = "dense"
    exact = True

    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> DenseView:
        """(n, D) ``points``, padded where that is known to pay."""
        return _by_matrices(points, noise_variance, low_rank=False)


@dataclasses.dataclass(frozen=True)
class Spectral(Likelihood):
    """Sums over one to three columns of data, or a Kalman filter over one."""

    name = "spectral"
    exact = True

    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> SpectralIndex:
        """(n, D) ``points``, sorted, with what every lengthscale needs."""
        found = _by_sums(points, kernel, noise_variance, measure)
        if isinstance(found, str):
            raise ValueError(f"likelihood='spectral' cannot be used here: {found}")
        return found


@dataclasses.dataclass(frozen=True)
class Auto(Likelihood):
    """Sums where they can be had, else a factor of R where that is exact to 1e-11, else matrices.

    Args:
        once: whether a single value is wanted, for which little is worth preparing.
    """

    once: bool = False

    name = "auto"
    exact = True

    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LikelihoodView:
        """(n, D) ``points`` as the way needs them that is taken."""
        if len(points) >= self._smallest(points, kernel):
            found = _by_sums(points, kernel, noise_variance, measure)
            if not isinstance(found, str):
                return found
        return _by_matrices(points, noise_variance, low_rank=True)

    def record(self) -> dict[str, Any]:
        """Its name: how often a value is wanted is no part of the model."""
        return {"likelihood": self.name}

    def _smallest(self, points: Any, kernel: Kernel) -> int:
        if not self.once:
            return 0
        one = points.shape[1] == 1 and is_single(kernel)
        return SMALLEST_PREPARED_ONCE if one else SMALLEST_BOX_ONCE


#: What a name may stand for; those of the exact ones do alone.
ROUTES: tuple[type[Likelihood], ...] = (Auto, Dense, Spectral, Nystrom, Fourier)


def prepared(
    points: Any,
    kernel: Kernel,
    noise_variance: Noise,
    measure: Measure | str,
    likelihood: Likelihood | str,
) -> LikelihoodView:
    """(n, D) ``points`` as ``likelihood`` needs them, unless they are prepared already.

    Raises:
        ValueError: where what was asked for cannot be used, with the reason.
    """
    if isinstance(points, LikelihoodView):
        return points
    way = as_likelihood(likelihood, ROUTES)
    return way.view(points, kernel, noise_variance, as_measure(measure))


def _by_matrices(points: Any, noise_variance: Noise, *, low_rank: bool) -> DenseView:
    size = dense_size(len(points))
    traced = isinstance(points, jax.core.Tracer)
    sampling = isinstance(check_noise(noise_variance), SamplingNoise)
    if traced or sampling or size == len(points):
        return DenseView(PaddedRows(points), low_rank)
    return DenseView(jax.tree.map(jnp.asarray, padded(points, size)), low_rank)


def _by_sums(
    points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
) -> SpectralIndex | str:
    """The points prepared for sums, or why that cannot be."""
    if isinstance(points, jax.core.Tracer):
        return "the data are traced, and it sorts them: close over them instead"
    noise = check_noise(noise_variance)
    if reason := unsupported_reason(points.shape[1], kernel, measure, noise):
        return reason
    try:
        index = spectral_index(np.asarray(points), kernel)
    except ValueError as error:
        return str(error)
    return cast(SpectralIndex, jax.tree.map(jnp.asarray, index))


#: All likelihoods: those of BKE (13), and the landmark model.
LIKELIHOODS: tuple[type[Likelihood], ...] = (*ROUTES, Landmark)


def any_likelihood(likelihood: Likelihood | str) -> Likelihood:
    """Return a likelihood, or the one of that name.

    Raises:
        ValueError: for anything else, naming what there is.
    """
    result = as_likelihood(likelihood, LIKELIHOODS)
    if type(result) not in LIKELIHOODS:
        raise ValueError(
            f"likelihood={result!r} is not one of bke, and could not be restored from a run: "
            "models/likelihood/routes.py lists them"
        )
    return result


def restored_likelihood(record: dict[str, Any]) -> Likelihood:
    """Restore a likelihood from its :meth:`~bke.models.likelihood.way.Likelihood.record`.

    ``record`` may have other entries, such as the ``landmarks``, which are stored elsewhere.
    """
    classes = {likelihood.name: likelihood for likelihood in LIKELIHOODS}
    return classes[record["likelihood"]].restored(record)
