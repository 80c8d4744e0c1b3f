"""The posterior of the hyperparameters of a kernel Student-t density, by NUTS."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models import kernel_student_t, log_sequential_likelihood
from bke.models.bayes.priors import check_parameters, lower_bound
from bke.models.kernels.base import Covariance
from bke.models.kernels.parameters import lengths_of
from bke.models.student_t.normaliser import Bounds
from bke.models.student_t.quadrature import MOST_DIMENSIONS, gauss_legendre
from numpyro.distributions import biject_to

from ..core.errors import InputError
from ..core.machine import computing
from ..core.progress import chain_progress
from ..data.checks import as_sample, check_count, check_positive
from ..diagnostics.convergence import Convergence
from ..learning.kernel_selection import select_kernel
from ..sampling.algorithms.no_u_turn import NutsProgram, dispersed_start
from ..sampling.chains import CANDIDATES
from ..sampling.record import describe_kernel, restore_kernel
from .box import box_for
from .run import Box, agreement, check_iterations, recorded

#: Default priors, wide, and each without a unit: of the lengthscale over the one chosen from the
#: data, of the noise variance over a kernel's value of about 1.
PRIORS: dict[str, dist.Distribution] = {
    "factor": dist.LogNormal(0.0, 1.0),
    "noise_variance": dist.LogNormal(0.0, 2.0),
    "alpha": dist.LogNormal(0.0, 1.0),
    "beta": dist.LogNormal(-2.0, 1.5),
}
#: Nodes of quadrature in each column, by the number of columns.
NODES = {1: 200, 2: 40}
#: Draws at which quadrature is compared with one of twice as many nodes, and nats that may differ.
CHECKED, ALLOWED = 20, 0.1


class Data(NamedTuple):
    """What the compiled posterior gets."""

    points: Any  # (N, D)
    kernel: Covariance
    nodes: Any  # (G, D)
    log_weights: Any  # (G,)

    @classmethod
    def on(cls, points: np.ndarray, kernel: Covariance, box: Box, count: int) -> Data:
        """Rows with ``count`` nodes in each column of a box."""
        nodes, log_weights = gauss_legendre(*box, count)
        data: Data = jax.tree.map(jnp.asarray, cls(points, kernel, nodes, log_weights))
        return data


class Hyperposterior:
    """The log posterior density in unconstrained coordinates, as the sampler needs it."""

    def __init__(self, priors: Mapping[str, Any], fixed: Mapping[str, float]) -> None:
        self.priors = dict(priors)
        self.fixed = dict(fixed)
        self.shapes: dict[str, tuple[int, ...]] = dict.fromkeys(self.priors, ())

    def constrain(self, z: Mapping[str, Any]) -> dict[str, Any]:
        """Transform to the values of the random hyperparameters."""
        return {name: biject_to(p.support)(jnp.asarray(z[name])) for name, p in self.priors.items()}

    def likelihood(self, values: Mapping[str, Any], data: Data) -> jax.Array:
        """Evaluate log p(rows | values), see :func:`~bke.models.log_sequential_likelihood`."""
        given = {**self.fixed, **values}
        kernel = _times(data.kernel, given.pop("factor"))
        return log_sequential_likelihood(data.points, kernel, data.nodes, data.log_weights, **given)

    def log_density(self, z: Mapping[str, Any], data: Data) -> jax.Array:
        """Evaluate the log posterior density at ``z``, up to a constant."""
        values = self.constrain(z)
        total = self.likelihood(values, data)
        for name, prior in self.priors.items():
            stretch = biject_to(prior.support).log_abs_det_jacobian(z[name], values[name])
            total = total + prior.log_prob(values[name]) + stretch
        return total


def student_t_posterior(
    X: Any,
    *,
    kernel: str | Covariance = "median",
    priors: Mapping[str, dist.Distribution | float] | None = None,
    bounds: Bounds | None = None,
    nodes: int | None = None,
    scale: str | None = "column",
    chains: int = 4,
    warmup: int = 300,
    draws: int = 300,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Draw lengthscale, noise variance, alpha and beta given the rows, by NUTS.

    The likelihood is that of the generative process of KST section 4, each row from the normalised
    density given those before, :func:`~bke.models.log_sequential_likelihood`: it hangs a little on
    the order of rows, which should be that of observation, or random.

    Args:
        X: shape (n, D) or (n,), D at most 2; each step of NUTS takes n^2 times the nodes.
        kernel: ``"median"``, ``"bkl"`` or a kernel, whose lengthscale times ``factor`` is used.
        priors: of ``factor``, ``noise_variance``, ``alpha``, ``beta``: a NumPyro distribution of
            one positive number, or a number that it is; by default wide log-normal ones. ``factor``
            is 1 for a kernel without a lengthscale.
        bounds: the box of the density, see :func:`~bke.inference.learn_student_t`; finite.
        nodes: of quadrature in each column, 200 for one column and 40 for two. They are compared
            with twice as many; a difference that matters is in ``notes``.
        scale: of the columns, for the kernel's choice.
        chains: how many, started from dispersed draws of the priors.
        warmup: iterations before.
        draws: per chain.
        seed: of everything.
        progress: whether bars are shown.

    Returns:
        Groups ``posterior``, ``sample_stats``, ``observed_data``; attributes say R-hat, the error
        of the quadrature in nats, ``notes``, and what :func:`student_t_predictive` needs.

    Raises:
        InputError: for data or arguments that make no sense.
        SamplingError: no draws of the priors have a finite density.
    """
    points = as_sample(X)
    D = points.shape[1]
    if D > MOST_DIMENSIONS:
        raise InputError(
            f"the likelihood needs a normaliser, found in up to {MOST_DIMENSIONS} columns, and "
            f"there are {D}: take learn_student_t"
        )
    check_iterations(chains, warmup, draws)
    each = NODES[D] if nodes is None else check_count(nodes, "nodes", 8)
    start = select_kernel(points, kernel, scale=scale, seed=seed)
    problem = Hyperposterior(*_split(priors, start))
    box = box_for(points, start, bounds)
    if not np.all(np.isfinite(box)):
        raise InputError("the likelihood is by quadrature on a box: give finite bounds")
    with computing():
        data, finer = (Data.on(points, start, box, count) for count in (each, 2 * each))
        initial = _dispersed(problem, data, chains, seed)
        sampler = NutsProgram(problem, warmup)  # type: ignore[arg-type]
        with chain_progress(chains, warmup + draws, shown=progress) as bars:
            found = sampler.run(
                data, initial=initial, draws=draws, key=jax.random.key(seed), progress=bars
            )
        values = {
            name: np.asarray(value)[:, warmup:]
            for name, value in problem.constrain(found.z).items()
        }
        error = _quadrature_error(problem, values, data, finer)
    posterior = dict_to_dataset(values)
    agreed = agreement(posterior)
    return recorded(
        "posterior",
        posterior,
        found.stats,
        points,
        warmup=warmup,
        notes=_notes(agreed, error, each),
        agreed=agreed,
        box=box,
        kernel=json.dumps(describe_kernel(start)),  # type: ignore[arg-type]
        fixed=json.dumps(problem.fixed),
        nodes=each,
        quadrature_error=error,
        seed=seed,
    )


def _dispersed(problem: Hyperposterior, data: Data, chains: int, seed: int) -> Any:
    """Starts for the chains, from draws of the priors."""
    rng = np.random.default_rng(seed)
    pool = {
        name: np.asarray(
            biject_to(prior.support).inv(
                prior.sample(jax.random.key(rng.integers(2**31)), (CANDIDATES * chains,))
            )
        )
        for name, prior in problem.priors.items()
    }
    evaluate = jax.jit(lambda z: jax.lax.map(lambda one: problem.log_density(one, data), z))
    return dispersed_start(
        pool, chains, seed, lambda z: np.asarray(evaluate(jax.tree.map(jnp.asarray, z)))
    )


def _quadrature_error(
    problem: Hyperposterior, values: Mapping[str, np.ndarray], data: Data, finer: Data
) -> float:
    """By how many nats twice the nodes change the likelihood, at most, of some of the draws."""
    total = next(iter(values.values())).size
    some = np.linspace(0, total - 1, CHECKED).astype(int)
    flat = {name: jnp.asarray(value.reshape(-1)[some]) for name, value in values.items()}
    coarse, fine = (
        np.asarray(jax.lax.map(lambda one, of=of: problem.likelihood(one, of), flat))
        for of in (data, finer)
    )
    return float(np.max(np.abs(coarse - fine)))


def _notes(agreed: Convergence | None, error: float, nodes: int) -> list[str]:
    """What could mislead the reader of a run."""
    notes = []
    if agreed is not None and not agreed.mixed:
        notes.append(
            f"the chains have not mixed ({agreed.told}, effective sample size "
            f"{min(agreed.ess_bulk, agreed.ess_tail):.0f}): take more warmup and draws"
        )
    if not error <= ALLOWED:
        notes.append(
            f"twice the nodes change the log likelihood by up to {error:.2g} nats: take nodes="
            f"{2 * nodes}"
        )
    return notes


def student_t_predictive(run: xr.DataTree, at: Any, *, draws: int = 100) -> np.ndarray:
    """Evaluate the density of the next row for draws of the posterior, (draws, m), on the box.

    Their mean is the predictive density with the hyperparameters integrated out.

    Args:
        run: of :func:`student_t_posterior`.
        at: points, (m, D) or (m,); the density is 0 outside the box.
        draws: how many of the run's, evenly spaced; all where there are fewer.

    Raises:
        InputError: for another run, or one with densities too narrow for its nodes.
    """
    try:
        low, high = (np.atleast_1d(run.attrs[name]).astype(float) for name in ("low", "high"))
        start = restore_kernel(json.loads(run.attrs["kernel"]))
        fixed = json.loads(run.attrs["fixed"])
        each = int(run.attrs["nodes"])
    except (AttributeError, KeyError):
        raise InputError("this is not a run of bke.inference.student_t_posterior") from None
    points = np.asarray(run["observed_data"]["X"])
    posterior = run["posterior"].to_dataset().stack(sample=("chain", "draw"))
    count = min(check_count(draws, "draws", 1), posterior.sizes["sample"])
    chosen = np.linspace(0, posterior.sizes["sample"] - 1, count).astype(int)
    values = {str(name): one.values[chosen] for name, one in posterior.data_vars.items()}
    where = np.asarray(at, dtype=float).reshape(-1, points.shape[1])
    with computing():
        nodes, log_weights = map(jnp.asarray, gauss_legendre(low, high, 2 * each))

        @jax.jit
        def densities(values: dict[str, jax.Array], at: jax.Array) -> jax.Array:
            def one(drawn: dict[str, jax.Array]) -> jax.Array:
                given = {**fixed, **drawn}
                density = kernel_student_t(points, _times(start, given.pop("factor")), **given)
                normaliser = jax.nn.logsumexp(density.log_density(nodes) + log_weights)
                return jnp.exp(density.log_density(at) - normaliser)

            return jax.lax.map(one, values)

        found = np.asarray(densities(jax.tree.map(jnp.asarray, values), jnp.asarray(where)))
    if not np.all(np.isfinite(found)):
        raise InputError(
            "the run goes to densities that its quadrature does not resolve (see notes and "
            "quadrature_error among its attributes): run it again with more nodes"
        )
    inside = np.all((where >= low) & (where <= high), axis=1)
    return np.where(inside, found, 0.0)


def _times(kernel: Any, factor: Any) -> Covariance:
    """``kernel`` with its lengths, if it has any, times a factor that may be traced."""
    lengths = {name: jnp.asarray(length) * factor for name, length in lengths_of(kernel).items()}
    return cast(Covariance, dataclasses.replace(kernel, **lengths))


def _split(
    priors: Mapping[str, Any] | None, kernel: Covariance
) -> tuple[dict[str, dist.Distribution], dict[str, float]]:
    """Split hyperparameters into random ones with their priors and fixed ones with their values."""
    given: dict[str, Any] = {**PRIORS, **(priors or {})}
    if unknown := set(given) - set(PRIORS):
        raise InputError(f"priors are of {', '.join(PRIORS)}, not of {', '.join(sorted(unknown))}")
    if not lengths_of(kernel):
        if priors and "factor" in priors:
            raise InputError(f"{type(kernel).__name__} has no lengthscale to be multiplied")
        given["factor"] = 1.0
    random, fixed = {}, {}
    for name in sorted(given):  # as JAX sorts a dict
        prior = given[name]
        if not isinstance(prior, dist.Distribution):
            fixed[name] = check_positive(prior, name)
            continue
        check_parameters(prior, f"prior of {name!r}")
        bound = lower_bound(prior)
        if prior.shape() != () or bound is None or bound < 0.0:
            raise InputError(f"the prior of {name} must be of one positive number, got {prior}")
        random[name] = prior
    if not random:
        raise InputError("all hyperparameters are fixed: there is no posterior")
    return random, fixed
