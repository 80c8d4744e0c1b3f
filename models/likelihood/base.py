"""Base classes of likelihoods and of their solvers, and the rule that differentiates them."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.flatten_util import ravel_pytree

from ..kernels.base import Covariance, Kernel
from ..linalg.derivatives import sequential_vmap
from ..measures import Measure, as_measure
from .noise import Noise, check_noise


class LogLikelihoodTerms(NamedTuple):
    """The two terms of BKE (13), each a scalar."""

    gaussian: jax.Array
    jacobian: jax.Array


class Parameters(NamedTuple):
    """Parameters in which a likelihood is differentiated."""

    kernel: Kernel
    noise_variance: Noise
    measure: Measure

    @classmethod
    def of(cls, kernel: Kernel, noise_variance: Noise, measure: Measure | str) -> Parameters:
        """Return parameters with every number a floating-point array."""
        parameters = cls(kernel, check_noise(noise_variance), as_measure(measure))
        return cast(Parameters, jax.tree.map(lambda leaf: jnp.asarray(leaf, float), parameters))

    def smoothed(self, dimension: int) -> Covariance:
        """Return the smoothed kernel r on R^``dimension``."""
        return self.kernel.smoothed(self.measure, dimension)


class ErrorTerms(NamedTuple):
    """Estimates from which the error of one approximate value is computed.

    Args:
        influence: shape (s,); the value is corrected by the sum of n / s of them, over rows chosen
            at random.
        truncation: shape (2,); first omitted terms of the corrections of the determinant and of
            mu_hat.
        remainder: trace of the remainder of R.
        rows: n.
    """

    influence: np.ndarray
    truncation: np.ndarray
    remainder: float
    rows: int


class LikelihoodSolver(abc.ABC):
    """Data prepared for one method of computing a likelihood. A subclass is a registered pytree."""

    description: ClassVar[str]
    """The method, at the beginning of a sentence."""

    @property
    @abc.abstractmethod
    def entries(self) -> int:
        """Number of kernel values, or numbers that take as long, of one evaluation."""

    @property
    @abc.abstractmethod
    def matrix_size(self) -> int:
        """Size n of the n x n matrices that one evaluation may need; 0 without any."""

    @property
    def sequential(self) -> bool:
        """True if entries of a batch are evaluated one after another instead of by ``vmap``.

        ``vmap`` would evaluate every branch for every entry, and store all their matrices.
        """
        return False

    def likelihood_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> LogLikelihoodTerms:
        """Compute log N(mu_hat; 0, R + sigma^2 I) and sum_i log gamma(x_i). Traceable."""
        parameters = Parameters.of(kernel, noise_variance, measure)
        return closed_form(self, parameters)

    @abc.abstractmethod
    def value(self, parameters: Any) -> LogLikelihoodTerms:
        """Compute both terms at parameters, a pytree that depends on the solver."""

    @abc.abstractmethod
    def value_and_grad(
        self, parameters: Any, moving: tuple[bool, ...]
    ) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
        """Compute both terms and their gradients (p,) in the p numbers of ``parameters``.

        Gradients in a leaf that is not ``moving`` may be any finite numbers.
        """

    def data_jvp(self, change: Any, parameters: Any) -> LogLikelihoodTerms:
        """Compute the derivative of both terms along a change of the data, of the solver's type.

        Raises:
            NotImplementedError: for a solver without that derivative.
        """
        raise NotImplementedError(f"{self.description} has no derivative in the data")

    def unsupported_reason(self, kernel: Kernel) -> str | None:
        """Return why the terms of a known ``kernel`` are NaN, or ``None`` if they are not."""
        return None

    def error_terms(
        self, kernel: Kernel, noise_variance: Noise, measure: Measure | str
    ) -> ErrorTerms | None:
        """Compute estimates of the error; ``None`` if the terms are exact to rounding."""
        return None

    @property
    def shardable_entries(self) -> int:
        """Entries of the gradients of a sum over rows that devices may share; 0 without one."""
        return 0

    @property
    def is_sharded(self) -> bool:
        """True where devices share the rows."""
        return False

    def sharded(self, devices: Any) -> LikelihoodSolver:
        """Distribute the rows over ``devices``.

        Raises:
            NotImplementedError: for a likelihood that is not a sum over rows.
        """
        raise NotImplementedError(f"{self.description} is no sum over rows")


@jax.jit
def compiled_terms(
    solver: LikelihoodSolver, kernel: Kernel, noise_variance: Any, measure: Measure
) -> LogLikelihoodTerms:
    """Compute both terms by one compiled program for all kernels of a kind and data of a shape.

    Models call it too: a program that contains it is traced once, and values outside of one, as of
    initial parameters, do not compile every operation.
    """
    return solver.likelihood_terms(kernel, noise_variance, measure)


@jax.custom_jvp
def closed_form(solver: LikelihoodSolver, parameters: Any) -> LogLikelihoodTerms:
    """Compute both terms at ``parameters``, differentiated by :meth:`~.value_and_grad`.

    Reverse mode through sums over all pairs would store every one of them, and cost ten times the
    value: value and gradient are one forward pass, in either mode.
    """
    return _evaluate(solver, parameters, lambda solver, parameters: solver.value(parameters))


@partial(closed_form.defjvp, symbolic_zeros=True)
def _closed_form_jvp(
    primals: tuple[LikelihoodSolver, Any], tangents: tuple[Any, Any]
) -> tuple[LogLikelihoodTerms, LogLikelihoodTerms]:
    solver, parameters = primals
    moving = _is_moving(tangents[1])
    terms, gradients = _evaluate(
        solver, parameters, lambda solver, parameters: solver.value_and_grad(parameters, moving)
    )
    # Leaves only: a tangent is not a valid parameter, whose checks would refuse a zero.
    direction = ravel_pytree([_instantiate(leaf) for leaf in jax.tree.leaves(tangents[1])])[0]
    derivative = LogLikelihoodTerms(*(gradient @ direction for gradient in gradients))
    if any(_is_moving(tangents[0])):
        in_data = solver.data_jvp(jax.tree.map(_instantiate, tangents[0]), parameters)
        derivative = jax.tree.map(jnp.add, derivative, in_data)
    return terms, derivative


def _evaluate(
    solver: LikelihoodSolver, parameters: Any, function: Callable[[Any, Any], Any]
) -> Any:
    """Apply a function of solver and parameters; to the entries of a batch one after another."""
    if not solver.sequential:
        return function(solver, parameters)
    leaves, tree = jax.tree.flatten((solver, parameters))

    # Arguments are leaves: tracers of a batch are not valid parameters, and second derivatives of a
    # batched function fail in JAX if an argument contains None.
    @sequential_vmap
    def evaluate(*leaves: jax.Array) -> Any:
        return function(*jax.tree.unflatten(tree, leaves))

    return evaluate(*leaves)


def _is_moving(tangents: Any) -> tuple[bool, ...]:
    """Return for every leaf whether its tangent is not known to be zero."""
    leaves = jax.tree.leaves(tangents, is_leaf=lambda leaf: isinstance(leaf, SymbolicZero))
    return tuple(not isinstance(leaf, SymbolicZero) for leaf in leaves)


def _instantiate(tangent: Any) -> jax.Array:
    """Return a tangent as an array, also where it is a symbolic zero."""
    if isinstance(tangent, SymbolicZero):
        return jnp.zeros(tangent.shape, tangent.dtype)
    return cast(jax.Array, tangent)


@dataclasses.dataclass(frozen=True)
class Likelihood(abc.ABC):
    """A likelihood with its options. A subclass is a frozen dataclass that makes its solver."""

    name: ClassVar[str]
    """Name on the command line and in a record."""

    required_option: ClassVar[str | None] = None
    """Description of an option without default: the name alone then does not specify it."""

    exact: ClassVar[bool] = False
    """Whether the value is that of BKE (13), to rounding."""

    approximate: ClassVar[bool] = False
    """Whether the value is that of BKE (13) with an error, which its solver estimates."""

    advice: ClassVar[str] = "take another likelihood"
    """Advice where the error of an approximation is large."""

    @abc.abstractmethod
    def solver(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LikelihoodSolver:
        """Prepare (n, D) ``points`` for kernels like ``kernel``.

        Raises:
            ValueError: for arguments that the likelihood does not support, with the reason.
        """

    @property
    def description(self) -> str:
        """Description in a sentence about a run."""
        return f"the {self.name} likelihood"

    @property
    def summary(self) -> str:
        """Name and options among the settings of a run; empty without options."""
        record = self.record().items()
        options = [f"{name} {value}" for name, value in record if name != "likelihood"]
        return f"{self.name} likelihood, {', '.join(options)}" if options else ""

    def record(self) -> dict[str, Any]:
        """Return name and options as numbers, strings and tuples of these, without arrays."""
        return {"likelihood": self.name, **dataclasses.asdict(self)}
