"""The posterior of the hyperparameters of a kernel Student-t density, by NUTS."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models import kernel_student_t, log_sequential_likelihood
from bke.models.kernels.base import Covariance
from bke.models.kernels.covariance import length_parameters
from bke.models.measures import check_parameters, lower_bound
from bke.models.student_t.quadrature import MAX_DIMENSION, Bounds, gauss_legendre
from numpyro.distributions import biject_to
from numpyro.infer.util import potential_energy

from ..core.errors import InputError
from ..core.machine import computing
from ..core.progress import chain_progress
from ..data.checks import as_sample, check_count, check_positive, column_names
from ..data.new_rows import as_evaluation_points
from ..learning.kernel_selection import select_kernel
from ..sampling.algorithms.no_u_turn import NutsProgram, dispersed_start
from ..sampling.chains import CANDIDATES
from ..sampling.record import describe_kernel, restore_kernel
from .learning import choose_box
from .sampling import build_run, check_iterations

#: Default priors. They are wide, and relative: the lengthscale to the one chosen from the data, the
#: noise variance to a kernel with values of about 1.
PRIORS: dict[str, dist.Distribution] = {
    "factor": dist.LogNormal(0.0, 1.0),
    "noise_variance": dist.LogNormal(0.0, 2.0),
    "alpha": dist.LogNormal(0.0, 1.0),
    "beta": dist.LogNormal(-2.0, 1.5),
}


def student_t_posterior(
    X: Any,
    *,
    kernel: str | Covariance = "median",
    priors: Mapping[str, dist.Distribution | float] | None = None,
    bounds: Bounds | None = None,
    nodes: int | None = None,
    scale: str | None = "column",
    num_chains: int = 4,
    num_warmup: int = 300,
    num_samples: int = 300,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Draw lengthscale, noise variance, alpha and beta given the rows, by NUTS.

    The likelihood is that of the generative process of KST section 4, each row from the normalized
    density given those before, :func:`~bke.models.log_sequential_likelihood`. It depends slightly
    on the order of rows, which should be that of observation, or random.

    Args:
        X: shape (n, D) or (n,), D at most 2; each step of NUTS takes n^2 times the nodes.
        kernel: ``"median"``, ``"bkl"`` or a kernel, whose lengthscale times ``factor`` is used.
        priors: for ``factor``, ``noise_variance``, ``alpha`` and ``beta``, a NumPyro distribution
            of one positive number, or a fixed value; wide log-normal distributions by default.
            ``factor`` is 1 for a kernel without a lengthscale.
        bounds: the box of the density, see :func:`~bke.inference.learn_student_t`; finite.
        nodes: quadrature nodes in each column, 200 for one column and 40 for two. At 20 draws they
            are compared with twice as many; a difference above 0.1 nats is in ``notes``.
        scale: unit of the columns for the choice of the kernel.
        num_chains: number of chains, started from dispersed draws of the priors.
        num_warmup: warm-up iterations.
        num_samples: draws of each chain after warm-up.
        seed: seed of the kernel's choice, the starts and the chains.
        progress: whether bars are shown.

    Returns:
        Groups ``posterior``, ``sample_stats``, ``observed_data``; attributes with R-hat, the error
        of the quadrature in nats, ``notes``, and what :func:`student_t_predictive` needs.

    Raises:
        InputError: the data or an argument are invalid.
        SamplingError: no draws of the priors have a finite density.
    """
    points = as_sample(X)
    D = points.shape[1]
    if D > MAX_DIMENSION:
        raise InputError(
            f"the likelihood needs a normalizer, found in up to {MAX_DIMENSION} columns, and "
            f"there are {D}: take learn_student_t"
        )
    check_iterations(num_chains, num_warmup, num_samples)
    n_nodes = (200 if D == 1 else 40) if nodes is None else check_count(nodes, "nodes", 8)
    initial_kernel = select_kernel(points, kernel, scale=scale, seed=seed)
    random, fixed = _split_priors(priors, initial_kernel)
    box = choose_box(points, initial_kernel, bounds)
    if not np.all(np.isfinite(box)):
        raise InputError("the likelihood is by quadrature on a box: give finite bounds")

    def log_likelihood(values: Mapping[str, Any], data: Any) -> jax.Array:
        points, kernel, nodes, log_weights = data
        arguments = {**fixed, **values}
        kernel = _scale_lengths(kernel, arguments.pop("factor"))
        return log_sequential_likelihood(points, kernel, nodes, log_weights, **arguments)

    def model(data: Any) -> None:
        values = {name: numpyro.sample(name, prior) for name, prior in random.items()}
        numpyro.factor("rows", log_likelihood(values, data))

    target: Any = SimpleNamespace(
        shapes=dict.fromkeys(random, ()),
        log_density=lambda z, data: -potential_energy(model, (data,), {}, z),
    )
    with computing():
        data: Any
        data, finer = (
            jax.tree.map(jnp.asarray, (points, initial_kernel, *gauss_legendre(*box, size)))
            for size in (n_nodes, 2 * n_nodes)
        )
        rng = np.random.default_rng(seed)
        pool = {
            name: prior.sample(jax.random.key(rng.integers(2**31)), (CANDIDATES * num_chains,))
            for name, prior in random.items()
        }
        initial = dispersed_start(
            {name: np.asarray(biject_to(random[name].support).inv(pool[name])) for name in random},
            num_chains,
            seed,
            lambda z: np.asarray(jax.lax.map(lambda z: target.log_density(z, data), z)),
        )
        key = jax.random.key(seed)
        with chain_progress(num_chains, num_warmup + num_samples, shown=progress) as bars:
            chains = NutsProgram(target, num_warmup).run(
                data, initial=initial, draws=num_samples, key=key, progress=bars
            )
        draws = {
            name: np.asarray(biject_to(prior.support)(chains.z[name]))[:, num_warmup:]
            for name, prior in random.items()
        }
        index = np.linspace(0, num_chains * num_samples - 1, 20).astype(int)
        compared = {name: jnp.asarray(values.reshape(-1)[index]) for name, values in draws.items()}
        coarse, fine = (
            jax.lax.map(lambda values, rule=rule: log_likelihood(values, rule), compared)
            for rule in (data, finer)
        )
        error = float(jnp.max(jnp.abs(coarse - fine)))
    posterior = dict_to_dataset(draws)
    run, summary = build_run("posterior", posterior, chains.stats, points, box, num_warmup)
    notes = []
    if summary is not None and not summary.mixed:
        notes.append(
            f"the chains have not mixed ({summary.told}, effective sample size "
            f"{min(summary.ess_bulk, summary.ess_tail):.0f}): take more num_warmup and num_samples"
        )
    if not error <= 0.1:
        notes.append(
            f"twice the nodes change the log likelihood by up to {error:.2g} nats: take nodes="
            f"{2 * n_nodes}"
        )
    run.attrs.update(
        notes=json.dumps(notes),
        kernel=json.dumps(describe_kernel(initial_kernel)),
        fixed=json.dumps(fixed),
        nodes=n_nodes,
        columns=json.dumps(column_names(X)),
        quadrature_error=error,
        seed=seed,
    )
    return run


def student_t_predictive(run: xr.DataTree, at: Any, *, num_samples: int = 100) -> np.ndarray:
    """Evaluate the density of the next row for draws of the posterior, (num_samples, m).

    The mean over draws is the predictive density with the hyperparameters integrated out.

    Args:
        run: result of :func:`student_t_posterior`.
        at: points, (m, D) or (m,), columns of data frames matched by name; the density is 0 outside
            the box.
        num_samples: number of draws, evenly spaced in the run; all where there are fewer.

    Raises:
        InputError: for another run, or one with densities too narrow for its nodes.
    """
    try:
        low, high = (np.atleast_1d(run.attrs[name]).astype(float) for name in ("low", "high"))
        initial_kernel = restore_kernel(json.loads(run.attrs["kernel"]))
        fixed = json.loads(run.attrs["fixed"])
        n_nodes = int(run.attrs["nodes"])
        columns = json.loads(run.attrs.get("columns", "null"))
    except (AttributeError, KeyError):
        raise InputError("this is not a run of bke.inference.student_t_posterior") from None
    points = np.asarray(run["observed_data"]["X"])
    posterior = run["posterior"].to_dataset().stack(sample=("chain", "draw"))
    count = min(check_count(num_samples, "num_samples", 1), posterior.sizes["sample"])
    index = np.linspace(0, posterior.sizes["sample"] - 1, count).astype(int)
    draws = {str(name): values.values[index] for name, values in posterior.data_vars.items()}
    where = as_evaluation_points(at, points.shape[1], columns=columns)
    with computing():
        nodes, log_weights = map(jnp.asarray, gauss_legendre(low, high, 2 * n_nodes))

        def density_at(draw: dict[str, jax.Array]) -> jax.Array:
            arguments = {**fixed, **draw}
            kernel = _scale_lengths(initial_kernel, arguments.pop("factor"))
            density = kernel_student_t(points, kernel, **arguments)
            normalizer = jax.nn.logsumexp(density.log_density(nodes) + log_weights)
            return jnp.exp(density.log_density(where) - normalizer)

        values = np.asarray(jax.lax.map(density_at, draws))
    if not np.all(np.isfinite(values)):
        raise InputError(
            "some densities of the run are too narrow for its quadrature (see notes and "
            "quadrature_error among its attributes): run it again with more nodes"
        )
    inside = np.all((where >= low) & (where <= high), axis=1)
    return np.where(inside, values, 0.0)


def _scale_lengths(kernel: Any, factor: Any) -> Covariance:
    """Multiply the lengths of ``kernel``, if it has any, by a factor that may be traced."""
    lengths = {
        name: jnp.asarray(length) * factor for name, length in length_parameters(kernel).items()
    }
    return cast(Covariance, dataclasses.replace(kernel, **lengths))


def _split_priors(
    priors: Mapping[str, Any] | None, kernel: Covariance
) -> tuple[dict[str, dist.Distribution], dict[str, float]]:
    """Split hyperparameters into random ones with their priors and fixed ones with their values."""
    specified: dict[str, Any] = {**PRIORS, **(priors or {})}
    if unknown := set(specified) - set(PRIORS):
        raise InputError(f"priors are of {', '.join(PRIORS)}, not of {', '.join(sorted(unknown))}")
    if not length_parameters(kernel):
        if priors and "factor" in priors:
            raise InputError(f"{type(kernel).__name__} has no lengthscale to be multiplied")
        specified["factor"] = 1.0
    random, fixed = {}, {}
    for name in sorted(specified):  # as JAX sorts a dict
        prior = specified[name]
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
