"""The likelihood view: data as one way to the marginal likelihood needs them, chosen once.

Whoever holds a view asks it for the two terms of BKE (13) of a kernel, and what that costs; which
way it is shows nowhere else.
"""

from __future__ import annotations

import abc
import dataclasses
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree

from ..kernels.base import Covariance, Kernel
from ..measures import Measure, as_measure
from .noise import Noise


class ErrorTerms(NamedTuple):
    """What the error of one value is told from."""

    #: (s,): the value is corrected by the sum of n / s of them, over rows chosen at random.
    influence: np.ndarray
    #: (2,): what the correction stops short of, for the determinant and for mu_hat.
    truncation: np.ndarray
    remainder: float  # trace of what the features leave of R
    rows: int  # n


class LogLikelihoodTerms(NamedTuple):
    """The two terms of BKE (13), each a scalar."""

    gaussian: jax.Array
    jacobian: jax.Array


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


class LikelihoodSolver(abc.ABC):
    """Data as one way to BKE (13) needs them. A subclass is a registered pytree.

    It writes the abstract methods; of the derivative, which :func:`.derivative.closed_form` takes,
    those that no other way gives it.
    """

    description: ClassVar[str]
    """The way in words, at the beginning of a sentence."""

    @property
    @abc.abstractmethod
    def entries(self) -> int:
        """Kernel values, or numbers that take as long, that one evaluation goes through."""

    @property
    @abc.abstractmethod
    def matrix_size(self) -> int:
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
    def value_and_grad(
        self, parameters: Any, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Both terms, and their slopes (p,) in the p numbers of ``parameters``.

        Slopes in a leaf that is not ``moving`` may be anything finite.
        """

    def data_jvp(self, change: Any, parameters: Any) -> LogLikelihoodTerms:
        """The derivative of both terms along a change of the view itself.

        Raises:
            NotImplementedError: where there is none.
        """
        raise NotImplementedError(f"{self.description} has no derivative in the data")

    def unsupported_reason(self, kernel: Kernel) -> str | None:
        """Why the terms of a known ``kernel`` are NaN here; ``None`` where they are not."""
        return None

    def error_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> ErrorTerms | None:
        """What the error of the terms is told from; ``None`` where they are exact to rounding."""
        return None

    @property
    def shardable_entries(self) -> int:
        """Entries of the gradients of a sum over rows that devices may share; 0: there is none."""
        return 0

    @property
    def is_sharded(self) -> bool:
        """Whether devices share the rows."""
        return False

    def sharded(self, devices: Any) -> LikelihoodSolver:
        """The view with its rows shared among ``devices``.

        Raises:
            NotImplementedError: where they cannot be.
        """
        raise NotImplementedError(f"{self.description} is no sum over rows")


@jax.jit
def compiled_log_likelihood(
    view: LikelihoodSolver, kernel: Kernel, noise_variance: Any, measure: Measure
) -> jax.Array:
    """Compute the sum of both terms, a scalar."""
    terms = view.likelihood_terms(kernel, noise_variance, measure)
    return terms.gaussian + terms.jacobian


@jax.custom_jvp
def closed_form(view: LikelihoodSolver, parameters: Any) -> LogLikelihoodTerms:
    """Both terms of a ``view`` at ``parameters``, with the slopes that it writes itself.

    Reverse mode through sums over all pairs would keep every one of them, and cost ten times the
    value: so value and slopes are one forward pass, of whatever order the derivative is asked for.
    """
    return view.value(parameters)


@partial(closed_form.defjvp, symbolic_zeros=True)
def _closed_form_jvp(
    primals: tuple[LikelihoodSolver, Any], tangents: tuple[Any, Any]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    view, parameters = primals
    of_data = LogLikelihoodTerms(jnp.zeros(()), jnp.zeros(()))
    if any(_moving(tangents[0])):
        of_data = view.data_jvp(jax.tree.map(_zero_or_array, tangents[0]), parameters)
    terms, slopes = view.value_and_grad(parameters, _moving(tangents[1]))
    # The leaves alone: a tangent is no parameter, whose checks would refuse a zero.
    direction = ravel_pytree([_zero_or_array(leaf) for leaf in jax.tree.leaves(tangents[1])])[0]
    return terms, LogLikelihoodTerms(
        slopes.gaussian @ direction + of_data.gaussian,
        slopes.jacobian @ direction + of_data.jacobian,
    )


def _moving(tangents: Any) -> tuple[bool, ...]:
    """Which leaves have a tangent that is not known to be zero."""
    leaves = jax.tree.leaves(tangents, is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    return tuple(not isinstance(leaf, SymbolicZero) for leaf in leaves)


def _zero_or_array(tangent: Any) -> jax.Array:
    """A tangent, written out where it is zero symbolically."""
    if isinstance(tangent, SymbolicZero):
        return jnp.zeros(tangent.shape, tangent.dtype)
    return cast(jax.Array, tangent)


@dataclasses.dataclass(frozen=True)
class Likelihood(abc.ABC):
    """Options of a likelihood, checked. A subclass is a frozen dataclass that makes its view."""

    name: ClassVar[str]
    """What stands for it on the command line and in a record."""

    required_option: ClassVar[str | None] = None
    """What it cannot be asked for without, so that its name alone does not do."""

    exact: ClassVar[bool] = False
    """Whether it gives BKE (13) itself, to rounding."""

    approximate: ClassVar[bool] = False
    """Whether it gives BKE (13) with an error, of which its view has the evidence."""

    @abc.abstractmethod
    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LikelihoodSolver:
        """(n, D) ``points`` as it needs them, for kernels like ``kernel``.

        Raises:
            ValueError: where it cannot be used, with the reason.
        """

    @property
    def description(self) -> str:
        """What it is, in a sentence about a run."""
        return f"the {self.name} likelihood"

    @property
    def summary(self) -> str:
        """What it is, among the settings of a run; empty where it has no options to tell."""
        record = self.record()
        options = [f"{name} {value}" for name, value in record.items() if name != "likelihood"]
        return f"{self.name} likelihood, {', '.join(options)}" if options else ""

    @property
    def advice(self) -> str:
        """What to do where its error is large, if it is approximate."""
        return "take another likelihood"

    def record(self) -> dict[str, Any]:
        """Its name and options, as plain data: numbers, words and tuples of these, no arrays."""
        return {"likelihood": self.name, **dataclasses.asdict(self)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Likelihood:
        """The likelihood that :meth:`record` gave, from a record that may have other entries."""
        fields = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: record[name] for name in fields if record.get(name) is not None})
