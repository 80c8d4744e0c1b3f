"""Draw from kernel Student-t densities and from the posterior of their hyperparameters by NUTS."""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models import kernel_student_t, log_sequential_likelihood
from bke.models.kernels.base import Covariance, invalid_kernel_message
from bke.models.kernels.covariance import length_parameters
from bke.models.linalg.rows import padded
from bke.models.measures import check_parameters, lower_bound
from bke.models.student_t.density import KernelStudentT
from bke.models.student_t.quadrature import MAX_DIMENSION, Bounds, gauss_legendre
from numpyro.distributions import biject_to
from numpyro.infer.util import potential_energy
from scipy.spatial.distance import cdist
from scipy.special import logit, logsumexp

from ..core.errors import InputError, PosteriorWarning, SamplingError
from ..core.machine import computing
from ..core.progress import ChainBars, chain_progress, progress_bar
from ..data.checks import as_sample, check_count, check_positive, column_names
from ..data.new_rows import as_evaluation_points
from ..data.weighted import systematic
from ..diagnostics.diagnosis import Convergence, convergence
from ..learning.kernel_selection import scale_lengthscales, select_kernel
from ..sampling.no_u_turn import NutsProgram, dispersed_start
from ..sampling.record import describe_kernel, read_record, record_attributes, restore_kernel
from ..sampling.run import digest_of
from ..sampling.target import CANDIDATES
from .learning import LearnedStudentT, choose_box


class BoxedDensity(NamedTuple):
    """A density restricted to a box, as a function of unconstrained coordinates u."""

    density: KernelStudentT
    low: Any  # (D,)
    high: Any  # (D,), infinite where the column is unbounded

    def constrain(self, u: jax.Array) -> jax.Array:
        """Map points (..., D) to low + (high - low) / (1 + exp(-u)), or to u without a box."""
        bounded = jnp.isfinite(self.low)
        width = jnp.where(bounded, self.high - self.low, 1.0)
        inside = jnp.where(bounded, self.low, 0.0) + width * jax.nn.sigmoid(u)
        return jnp.where(bounded, inside, u)

    def log_density(self, u: jax.Array) -> jax.Array:
        """Evaluate the log density of u, (D,), up to a constant."""
        log_jacobian = jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)
        value = self.density.log_density(self.constrain(u)[None])[0]
        return value + jnp.sum(jnp.where(jnp.isfinite(self.low), log_jacobian, 0.0))


@functools.lru_cache(maxsize=16)
def _nuts_program(dimension: int, num_warmup: int) -> NutsProgram:
    """Return NUTS for boxed densities, which is compiled for each kernel and number of rows."""
    target: Any = SimpleNamespace(
        shapes={"x": (dimension,)}, log_density=lambda z, boxed: boxed.log_density(z["x"])
    )
    return NutsProgram(target, num_warmup)


def sample_student_t(
    density: KernelStudentT | LearnedStudentT,
    *,
    bounds: Bounds | None = None,
    num_samples: int = 250,
    num_chains: int = 16,
    num_warmup: int = 200,
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Draw from the predictive density by NUTS.

    Chains start at an importance sample of the density, proposed from a mixture of a kernel density
    estimate of the rows and the uniform distribution on the box. The proportions of starts in the
    modes are then about the masses of the modes, even where no chain crosses from one mode to
    another. In that case R-hat is above 1.01; the run has a note and a
    ``PosteriorWarning`` is issued.

    Args:
        density: the density, or the result of :func:`~bke.inference.learn_student_t`.
        bounds: lower and upper corner of the box it is restricted to, each (D,) or a number. By
            default the box of the learned density, if it has one; else the range of the rows,
            extended by half of it at each side, or all of R^D for kernels that are not of x - y.
        num_samples: draws of each chain after warm-up.
        num_chains: number of chains; where modes are far apart, more chains give more accurate
            masses.
        num_warmup: warm-up iterations.
        seed: seed of the starts and of the chains.
        progress: show progress bars.

    Returns:
        ``posterior_predictive`` with ``x`` (chain, draw, column), ``sample_stats`` as from ``fit``;
        attributes with R-hat, effective sample sizes, that of the importance sample of starts
        (``effective_starts``) and ``notes``.

    Raises:
        InputError: an argument is invalid.
        SamplingError: the density is zero at all points proposed as starts.
    """
    check_iterations(num_chains, num_warmup, num_samples)
    if isinstance(density, LearnedStudentT):
        if bounds is None and density.normalizer is not None:
            bounds = (density.normalizer.low, density.normalizer.high)
        density = density.density
    if not isinstance(density, KernelStudentT):
        raise InputError(f"density must be a kernel Student-t density, got {density!r}")
    box = choose_box(np.asarray(density.rows.data), density.kernel, bounds)
    with computing():
        target = BoxedDensity(density, *box)
        starts, effective = _choose_starts(target, num_chains, np.random.default_rng(seed))
        with chain_progress(num_chains, num_warmup + num_samples, show=progress) as bars:
            points, stats = _run_nuts(target, starts, num_samples, num_warmup, seed, bars)
    dims: dict[Any, Any] = {"x": ["column"]}
    draws = dict_to_dataset({"x": points[:, num_warmup:]}, dims=dims)
    run, summary = build_run(
        "posterior_predictive", draws, stats, density.rows.data, box, num_warmup
    )
    notes = []
    if summary is not None and not summary.rhat <= summary.max_rhat:
        notes.append(
            f"the chains do not agree ({summary.rhat_text}): {num_samples} draws each are too few, "
            "or chains do not cross between modes, whose masses are then estimated by "
            f"{num_chains} starts"
        )
    if effective < 50:  # not tuned
        notes.append(
            "the importance sample of starts has an effective sample size of only "
            f"{effective:.1f}: modes may be missing"
        )
    for note in notes:
        warnings.warn(note, PosteriorWarning, stacklevel=2)
    run.attrs.update(
        notes=json.dumps(notes), density=repr(density), seed=seed, effective_starts=effective
    )
    return run


def draw_rows(
    density: KernelStudentT | LearnedStudentT,
    count: int,
    *,
    num_chains: int = 16,
    min_samples: int = 250,
    **options: Any,
) -> tuple[np.ndarray, list[str]]:
    """Draw rows (count, D), evenly spaced in all chains, and return the notes of the run.

    Args:
        density: see :func:`sample_student_t`.
        count: number of rows.
        num_chains: see :func:`sample_student_t`.
        min_samples: draws of each chain, at least; convergence cannot be assessed with few.
        **options: further arguments of :func:`sample_student_t`.
    """
    num_samples = max(min_samples, -(-count // num_chains))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PosteriorWarning)  # returned as notes
        run = sample_student_t(density, num_samples=num_samples, num_chains=num_chains, **options)
    draws = np.asarray(run["posterior_predictive"]["x"])  # (chain, draw, D)
    index = np.linspace(0, num_samples - 1, -(-count // num_chains)).astype(int)
    rows = np.swapaxes(draws[:, index], 0, 1).reshape(-1, draws.shape[2])
    return rows[:count], json.loads(run.attrs["notes"])


def fantasy_data(
    kernel: Covariance,
    n: int,
    bounds: Bounds,
    *,
    dimension: int | None = None,
    noise_variance: Any = 1.0,
    alpha: Any = 1.0,
    beta: Any = 0.01,
    first: Any = 0.0,
    seed: int = 0,
    progress: bool = True,
) -> np.ndarray:
    """Draw rows from the generative model of KST section 4.

    Each row is drawn from the predictive density given the rows before it. With a kernel of x - y
    the first row would be uniform on the box; it is fixed, as in the paper.

    Args:
        kernel: k.
        n: number of rows, with the first.
        bounds: the box that rows are drawn in, lower and upper corner, each (D,) or a number.
        dimension: D; by default the largest size of a corner or of ``first``.
        noise_variance: sigma_0^2, see :func:`~bke.models.kernel_student_t`.
        alpha: see :func:`~bke.models.kernel_student_t`.
        beta: see :func:`~bke.models.kernel_student_t`.
        first: x_1, (D,) or a number for every column.
        seed: seed of the draws.
        progress: show a progress bar.

    Returns:
        Shape (n, D). Each row is the last of 60 iterations of NUTS (not tuned), from a start that
        is drawn by importance sampling.

    Raises:
        InputError: an argument is invalid.
    """
    check_count(n, "n", 1)
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        raise InputError(f"bounds must be a lower and an upper corner, got {bounds!r}")
    if not isinstance(kernel, Covariance):
        raise InputError(
            invalid_kernel_message(kernel, "a kernel, such as SquaredExponential(1.0)")
        )
    prior = {
        name: check_positive(value, name)
        for name, value in (("noise_variance", noise_variance), ("alpha", alpha), ("beta", beta))
    }
    size = max(np.size(value) for value in (*bounds, first))
    D = size if dimension is None else check_count(dimension, "dimension", 1)
    rows = np.empty((n, D))
    try:
        rows[0] = np.broadcast_to(np.asarray(first, dtype=float), (D,))
    except (TypeError, ValueError):
        raise InputError(f"first must be a number or {D} of them, and is {first!r}") from None
    box = choose_box(rows[:1], kernel, bounds)
    rng = np.random.default_rng(seed)
    with computing(), progress_bar("rows", n, show=progress) as advance:
        advance(1)
        for count in range(1, n):
            density = kernel_student_t(padded(rows[:count], n), kernel, **prior)
            target = BoxedDensity(density, *box)
            start, _ = _choose_starts(target, 1, rng)
            points, _ = _run_nuts(target, start, 1, 60, int(rng.integers(2**31)))
            rows[count] = points[0, -1]
            advance(1)
    return rows


def check_iterations(num_chains: int, num_warmup: int, num_samples: int) -> None:
    """Check the numbers of chains, warm-up iterations and draws."""
    check_count(num_chains, "num_chains", 1, 1000)
    check_count(num_warmup, "num_warmup", 1)
    check_count(num_samples, "num_samples", 4)


def build_run(
    group: str,
    draws: xr.Dataset,
    stats: Mapping[str, np.ndarray],
    rows: np.ndarray,
    box: tuple[np.ndarray, np.ndarray],
    num_warmup: int,
) -> tuple[xr.DataTree, Convergence | None]:
    """Build the tree of a run, and compute the convergence of its chains.

    Args:
        group: name of the group of draws, such as ``"posterior"``.
        draws: (chain, draw, ...), without the warm-up.
        stats: sample statistics of every iteration, (chain, num_warmup + draw).
        rows: the rows of the density, (N, D).
        box: the corners of the box that the density is restricted to.
        num_warmup: iterations before the draws.

    Returns:
        The tree, without notes, and the convergence, ``None`` for one chain.
    """
    low, high = box
    run = xr.DataTree.from_dict(
        {
            f"/{group}": draws,
            "/sample_stats": dict_to_dataset({k: v[:, num_warmup:] for k, v in stats.items()}),
            "/observed_data": xr.Dataset({"X": (("row", "column"), rows)}),
        }
    )
    run.attrs.update(
        creation_library="bke", low=low.tolist(), high=high.tolist(), warmup=num_warmup
    )
    num_chains = draws.sizes["chain"]
    if num_chains == 1:
        return run, None
    summary = convergence(draws, range(num_chains))
    run.attrs.update(rhat=summary.rhat, ess_bulk=summary.ess_bulk, ess_tail=summary.ess_tail)
    return run, summary


def _run_nuts(
    target: BoxedDensity,
    starts: np.ndarray,
    num_samples: int,
    num_warmup: int,
    seed: int,
    progress: ChainBars | None = None,
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Run chains from starts (chain, D): points (chain, iteration, D), and sample statistics."""
    with np.errstate(invalid="ignore"):  # infinite bounds
        fraction = (starts - target.low) / (target.high - target.low)
    u = np.where(np.isfinite(target.low), logit(fraction), starts)
    run = _nuts_program(starts.shape[1], num_warmup).run(
        target,  # type: ignore[arg-type]
        initial={"x": jnp.asarray(u)},
        num_samples=num_samples,
        key=jax.random.key(seed),
        progress=progress,
    )
    return np.asarray(target.constrain(jnp.asarray(run.z["x"]))), run.stats


def _choose_starts(
    target: BoxedDensity, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Choose starts (count, D) by importance sampling, and return its effective sample size.

    Raises:
        SamplingError: the density is zero at all points proposed.
    """
    points, log_proposal = _propose(target, rng)
    log_weights = np.asarray(target.density.log_density(points)) - log_proposal
    if not np.any(np.isfinite(log_weights)):
        raise SamplingError("the density is zero at all points proposed as starts")
    weights = np.exp(log_weights - logsumexp(log_weights))
    # Systematic resampling in the order of the first column keeps the masses of modes.
    order = np.argsort(points[:, 0], kind="stable")
    chosen = order[systematic(weights[order], count, rng)]
    return points[chosen], float(1.0 / np.sum(weights**2))


def _propose(
    target: BoxedDensity, rng: np.random.Generator, count: int = 4096
) -> tuple[np.ndarray, np.ndarray]:
    """Propose points in the open box, (m, D), and return the log density of the proposal, (m,).

    Of ``count`` points (not tuned) half are uniform on the box, if there is one, and the others are
    drawn from a Gaussian kernel density estimate of the rows with the bandwidths of Scott's rule,
    which differ between columns: ``scipy.stats.gaussian_kde`` takes the covariance of the rows
    instead, and fails where it is singular. Points outside of the box are dropped.
    """
    data = np.asarray(target.density.rows.data)
    n, D = data.shape
    sd = data.std(axis=0)
    width = np.where(np.isfinite(target.low), target.high - target.low, 1.0)
    bandwidth = np.where(sd > 0, sd, 0.1 * width) * n ** (-1.0 / (D + 4))
    points = data[rng.integers(n, size=count)] + bandwidth * rng.normal(size=(count, D))
    bounded = bool(np.all(np.isfinite(target.low)))
    if bounded:
        uniform = rng.random(count) < 0.5
        points = np.where(uniform[:, None], target.low + width * rng.random((count, D)), points)
        points = points[np.all((points > target.low) & (points < target.high), axis=1)]
    squares = cdist(points / bandwidth, data / bandwidth, "sqeuclidean")
    log_kde = logsumexp(-0.5 * squares, axis=1) - np.log(n)
    log_kde -= np.sum(np.log(np.sqrt(2.0 * np.pi) * bandwidth))
    if not bounded:
        return points, log_kde
    return points, np.logaddexp(log_kde, -np.sum(np.log(width))) + np.log(0.5)


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
    standardize: str | None = "column",
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
        standardize: unit of the columns for the choice of the kernel.
        num_chains: number of chains, started from dispersed draws of the priors.
        num_warmup: warm-up iterations.
        num_samples: draws of each chain after warm-up.
        seed: seed of the kernel's choice, the starts and the chains.
        progress: show progress bars.

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
    initial_kernel = select_kernel(points, kernel, standardize=standardize, seed=seed)
    random, fixed = _split_priors(priors, initial_kernel)
    box = choose_box(points, initial_kernel, bounds)
    if not np.all(np.isfinite(box)):
        raise InputError("the likelihood is by quadrature on a box: give finite bounds")

    def log_likelihood(values: Mapping[str, Any], data: Any) -> jax.Array:
        points, kernel, nodes, log_weights = data
        arguments = {**fixed, **values}
        kernel = scale_lengthscales(kernel, arguments.pop("factor"))
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
        with chain_progress(num_chains, num_warmup + num_samples, show=progress) as bars:
            chains = NutsProgram(target, num_warmup).run(
                data, initial=initial, num_samples=num_samples, key=key, progress=bars
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
            f"the chains have not mixed ({summary.rhat_text}, effective sample size "
            f"{min(summary.ess_bulk, summary.ess_tail):.0f}): take more num_warmup and num_samples"
        )
    if not error <= 0.1:
        notes.append(
            f"twice the nodes change the log likelihood by up to {error:.2g} nats: take nodes="
            f"{2 * n_nodes}"
        )
    for note in notes:
        warnings.warn(note, PosteriorWarning, stacklevel=2)
    settings = {"method": "student_t_posterior", "nodes": n_nodes, "seed": seed}
    parts = {"kernel": describe_kernel(initial_kernel), "fixed": fixed, "columns": column_names(X)}
    run.attrs.update(
        record_attributes(settings, digest_of(points), **parts),
        notes=json.dumps(notes),
        quadrature_error=error,
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
        record = read_record(run.attrs)
        initial_kernel = restore_kernel(record["kernel"])
        fixed, n_nodes, columns = record["fixed"], record["nodes"], record["columns"]
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
            kernel = scale_lengthscales(initial_kernel, arguments.pop("factor"))
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
