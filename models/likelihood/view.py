"""The likelihood view: data as one way to the marginal likelihood needs them, chosen once.

Whoever holds a view asks it for the two terms of BKE (13) of a kernel, and what that costs; which
way it is shows nowhere else.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp

from ..kernels.base import Covariance, Kernel
from ..measures import Measure, as_measure
from .evidence import Evidence
from .noise import Noise


class LogLikelihoodTerms(NamedTuple):
    """The two terms of BKE (13), each a scalar."""

    gaussian: jax.Array
    volume: jax.Array


class Parameters(NamedTuple):
    """What a likelihood is differentiated in."""

    kernel: Kernel
    noise_variance: Noise
    measure: Measure

    @classmethod
    def of(
        cls, kernel: Kernel, noise_variance: Noise, measure: Measure | str, dtype: Any
    ) -> Parameters:
        """Parameters with every number an array of the type of the data's."""
        given = cls(kernel, noise_variance, as_measure(measure))
        return cast(Parameters, jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), given))

    def smoothed(self, dimension: int) -> Covariance:
        """The smoothed kernel r on R^``dimension``."""
        return self.kernel.smoothed(self.measure, dimension)


class LikelihoodView(abc.ABC):
    """Data as one way to BKE (13) needs them. A subclass is a registered pytree.

    It writes the abstract methods; of the derivative, which :func:`.derivative.closed_form` takes,
    those that no other way gives it.
    """

    called: ClassVar[str]
    """The way in words, at the beginning of a sentence."""

    @property
    @abc.abstractmethod
    def entries(self) -> int:
        """Kernel values, or numbers that take as long, that one evaluation goes through."""

    @property
    @abc.abstractmethod
    def rows_of_matrices(self) -> int:
        """The size n of the n x n matrices that one evaluation may need; 0 where it needs none."""

    @abc.abstractmethod
    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i). Traceable."""

    @abc.abstractmethod
    def value(self, parameters: Any) -> LogLikelihoodTerms:
        """Both terms at parameters, a pytree of the way's own."""

    @abc.abstractmethod
    def value_and_slopes(
        self, parameters: Any, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Both terms, and their slopes (p,) in the p numbers of ``parameters``.

        Slopes in a leaf that is not ``moving`` may be anything finite.
        """

    def along_data(self, change: Any, parameters: Any) -> LogLikelihoodTerms:
        """The derivative of both terms along a change of the view itself.

        Raises:
            NotImplementedError: where there is none.
        """
        raise NotImplementedError(f"{self.called} has no derivative in the data")

    def obstacle(self, kernel: Kernel) -> str | None:
        """Why the terms of a known ``kernel`` are NaN here; ``None`` where they are not."""
        return None

    def evidence(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> Evidence | None:
        """What the error of the terms is told from; ``None`` where they are exact to rounding."""
        return None

    @property
    def shared_entries(self) -> int:
        """Entries of the gradients of a sum over rows that devices may share; 0: there is none."""
        return 0

    @property
    def shares_rows(self) -> bool:
        """Whether devices share the rows."""
        return False

    def sharded(self, devices: Any) -> LikelihoodView:
        """The view with its rows shared among ``devices``.

        Raises:
            NotImplementedError: where they cannot be.
        """
        raise NotImplementedError(f"{self.called} is no sum over rows")


@jax.jit
def compiled_log_likelihood(
    view: LikelihoodView, kernel: Kernel, noise_variance: Any, measure: Measure
) -> jax.Array:
    """Compute the sum of both terms, a scalar."""
    terms = view.likelihood_terms(kernel, noise_variance, measure)
    return terms.gaussian + terms.volume
