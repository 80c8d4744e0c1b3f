"""The low-rank likelihoods, Nystrom and Fourier of a rank, and what they are told of the data."""

from __future__ import annotations

import abc
import dataclasses
import operator
from typing import Any, ClassVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from ...kernels.base import Kernel
from ...linalg.pytrees import register_dataclass
from ...measures import Measure, as_measure
from ..derivative import closed_form
from ..evidence import Evidence
from ..noise import Noise, SamplingNoise, check_noise
from ..view import LikelihoodView, LogLikelihoodTerms, Parameters
from ..way import Likelihood
from .approximation import Approximation
from .choice import spread_rows
from .fourier import FourierBasis
from .frequencies import draw, fourier_obstacle
from .likelihood import evidence, terms, terms_and_slopes
from .nystrom import NystromBasis

#: Fewest rows at which the likelihood is also worked out exactly, where there are so many.
FEWEST_EXACT = 256


@register_dataclass
@dataclasses.dataclass(frozen=True)
class LowRankView(Approximation, LikelihoodView):
    """What a low-rank likelihood is told: it takes these for any kernel of the kind it is for."""

    called = "a low-rank likelihood"

    @property
    def entries(self) -> int:
        """Kernel values that one evaluation goes through, about."""
        return len(self.points) * (self.basis.size + len(self.exact))

    @property
    def rows_of_matrices(self) -> int:
        """The number of features or of exact rows, whichever is larger."""
        return max(self.basis.size, len(self.exact))

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i), both approximate."""
        parameters = Parameters.of(kernel, noise_variance, measure, self.points.dtype)
        terms: LogLikelihoodTerms = closed_form(self, parameters)
        return terms

    def value(self, parameters: Parameters) -> LogLikelihoodTerms:
        """Both terms, a block of rows at a time."""
        return terms(self, parameters)

    def value_and_slopes(
        self, parameters: Parameters, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Both terms, and their slopes (p,) in the p numbers of ``parameters``."""
        return terms_and_slopes(self, parameters)

    def evidence(self, kernel: Kernel, noise_variance: Noise, measure: Measure | str) -> Evidence:
        """What the error of the value for one kernel is told from."""
        return evidence(self, Parameters.of(kernel, noise_variance, measure, self.points.dtype))


@dataclasses.dataclass(frozen=True)
class LowRank(Likelihood):
    """An approximation by features. A subclass makes their basis."""

    rank: int

    approximate = True
    needs = "a rank, the number of its features"

    title: ClassVar[str]

    def __post_init__(self) -> None:
        try:
            rank = operator.index(self.rank)
        except TypeError:
            raise ValueError(f"rank must be a whole number, got {self.rank!r}") from None
        if isinstance(self.rank, bool) or rank < 1:
            raise ValueError(f"rank must be at least 1, got {self.rank!r}")
        object.__setattr__(self, "rank", rank)  # as JSON has it

    @property
    def words(self) -> str:
        """Which approximation it is."""
        return f"a {self.title} approximation of rank {self.rank}"

    @property
    def brief(self) -> str:
        """Which approximation it is, by its name."""
        return f"{self.name} approximation of rank {self.rank}"

    @property
    def advice(self) -> str:
        """More features."""
        return "ask for a higher rank"

    @abc.abstractmethod
    def basis(
        self,
        data: np.ndarray,
        kernel: Kernel,
        measure: Measure,
        rng: np.random.Generator,
        seed: int,
    ) -> NystromBasis | FourierBasis:
        """Features for (n, D) ``data`` and kernels like ``kernel``."""

    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LowRankView:
        """The view of points (n, D), whose order does not matter."""
        if isinstance(check_noise(noise_variance), SamplingNoise):
            raise ValueError(f"likelihood={self.name!r} has one noise variance, sigma^2")
        return low_rank_view(points, kernel, measure, self)


@dataclasses.dataclass(frozen=True)
class Nystrom(LowRank):
    """R and mu_hat from their values at ``rank`` landmarks among the rows, for any kernel.

    Args:
        rank: m, from 1 to the number of rows; the cost is that of n m (m + D).
    """

    name = "nystrom"
    title = "Nystrom"

    def basis(
        self,
        data: np.ndarray,
        kernel: Kernel,
        measure: Measure,
        rng: np.random.Generator,
        seed: int,
    ) -> NystromBasis:
        """Centres of clusters of the rows."""
        return NystromBasis(jnp.asarray(spread_rows(data, self.rank, rng)))


@dataclasses.dataclass(frozen=True)
class Fourier(LowRank):
    """R and mu_hat as sums of ``rank`` random waves: less accurate by far than Nystrom.

    Args:
        rank: m, from 1 to the number of rows; the cost is that of n m (m + D).
    """

    name = "fourier"
    title = "Fourier"

    def basis(
        self,
        data: np.ndarray,
        kernel: Kernel,
        measure: Measure,
        rng: np.random.Generator,
        seed: int,
    ) -> FourierBasis:
        """Frequencies from the spectral densities of k and r."""
        dimension = data.shape[1]
        if obstacle := fourier_obstacle(kernel, measure, dimension):
            raise ValueError(f"likelihood='fourier' cannot be used here: {obstacle}")
        of_kernel, of_smoothed = draw(kernel, max(1, self.rank // 2), dimension, seed)
        return cast(FourierBasis, jax.tree.map(jnp.asarray, FourierBasis(of_kernel, of_smoothed)))


def low_rank_view(
    points: Any,
    kernel: Kernel,
    measure: Measure | str,
    likelihood: LowRank,
    *,
    exact: int | None = None,
    seed: int = 0,
) -> LowRankView:
    """Points (n, D), whose order does not matter, with a basis and rows that correct it.

    Args:
        points: the data, with known entries.
        kernel: of the kind that the likelihood is for; its lengthscales do not matter.
        measure: of the smoothed kernel.
        likelihood: which basis, and of what rank.
        exact: how many rows correct the approximation; by default as many as the rank, or 256.
        seed: of the choice of both.

    Raises:
        ValueError: for an argument that makes no sense, naming it.
    """
    if isinstance(points, jax.core.Tracer):
        raise ValueError(
            f"likelihood={likelihood.name!r} cannot be used here: the data are traced, and it "
            "chooses among them: close over them instead"
        )
    data, rank = np.asarray(points), likelihood.rank
    n = len(data)
    if rank > n:
        raise ValueError(f"rank must be from 1 to the number of rows, {n}, got {rank}")
    rng = np.random.default_rng(seed)
    basis = likelihood.basis(data, kernel, as_measure(measure), rng, seed)
    count = min(n, max(rank, FEWEST_EXACT) if exact is None else exact)
    order = np.lexsort(data.T[::-1])
    chosen = np.sort(rng.choice(n, count, replace=False))
    return LowRankView(jnp.asarray(data), jnp.asarray(order[chosen]), basis)
