"""Weighted simulations: weights, effective sample sizes, runs as ArviZ trees, and tables of them.

Weights, effective sample sizes and resampling are computed by NumPy. BlackJAX has the same
functions for JAX; for 1000 weights they take ten times as long and more, and a second for the first
call (``benchmarks/libraries.py``), and its ``ess_solver`` needs an upper limit of 1 / epsilon,
which is not known before.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import dict_to_dataset, xarray_var_iter
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import logsumexp

from ..core.errors import InputError, PosteriorWarning
from ..data.checks import check_count, check_proportion, default_names
from ..data.weighted import systematic, weighted_quantiles
from ..sampling.record import read_record, record_attributes
from ..sampling.run import digest_of
from .problem import InverseProblem
from .simulators import count_failures

#: Message where the estimate of minimum MMD has no covariance.
NOT_IDENTIFIED = (
    "the squared MMD has no isolated minimum within the range of the prior, or fewer observed rows "
    "differ than there are parameters, so that the error of the estimate is unknown: take a wider "
    "prior, leave out parameters on which the rows hardly depend, or increase simulations_per_point"
)
#: Effective sample size below which a posterior rests on a few simulations; a convention.
MIN_ESS = 10


def check_epsilon(epsilon: Any) -> np.ndarray | None:
    """Check bandwidths (E,) and sort them, largest first; ``None`` stays.

    Raises:
        InputError: if there are none, or they are not positive, finite and different.
    """
    if epsilon is None:
        return None
    try:
        values = np.atleast_1d(np.asarray(epsilon, dtype=float))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not len(values):
        raise InputError(f"epsilon must be a number or several, got {epsilon!r}")
    if not np.all((values > 0.0) & np.isfinite(values)):
        raise InputError(f"epsilon must be positive and finite, got {epsilon!r}")
    if len(np.unique(values)) < len(values):
        raise InputError(f"epsilon has a number twice: {epsilon!r}")
    return np.sort(values)[::-1]


def default_ess_fractions(
    num_simulations: int,
    num_parameters: int,
    fractions: Sequence[float] = (0.2, 0.05, 0.01),
    reference: int = 10_000,
) -> np.ndarray:
    """Return the default effective sample sizes, as fractions of the number M of simulations.

    A constant fraction leaves the posterior equally wide for every M. For q parameters, which take
    at least as many statistics, M^(-q / (q + 4)) minimizes the error of a mean: its bias is of
    order delta^2 and the fraction is of order delta^q (Barber, Voss and Webster 2015).

    Args:
        num_simulations: M.
        num_parameters: q.
        fractions: for at most ``reference`` simulations; not tuned.
        reference: number of simulations beyond which fractions decrease; not tuned.
    """
    ratio = max(num_simulations / reference, 1.0)
    return np.asarray(np.array(fractions) * ratio ** (-num_parameters / (num_parameters + 4.0)))


def default_epsilon(squared: np.ndarray, acceptance: str, num_parameters: int) -> np.ndarray:
    """Choose bandwidths from the squared distances (M,) of all simulations, largest first.

    For ``"exponential"`` the effective sample sizes are those of :func:`default_ess_fractions`. A
    constant added to all squared distances, such as the expectation of the biased MMD of two
    samples of one distribution, then changes no bandwidth, as it changes no weight. For
    ``"indicator"`` the bandwidths are the quantiles of the distances at these fractions, which are
    then accepted.

    Raises:
        InputError: if all distances are equal.
    """
    fractions = default_ess_fractions(len(squared), num_parameters)
    epsilon = np.zeros(0)
    if acceptance == "indicator":
        epsilon = np.quantile(distances(squared), fractions)
    elif distances_differ(squared):
        epsilon = np.array([1.0 / inverse_epsilon(squared, f * len(squared)) for f in fractions])
    epsilon = np.unique(epsilon[epsilon > 0.0])[::-1]
    if not len(epsilon):
        raise InputError(
            "the distances of nearly all simulations are equal, so that there is no bandwidth to "
            "choose: pass epsilon, or a distance that depends on the parameters"
        )
    return epsilon


def distances_differ(squared: np.ndarray, rtol: float = 1e-12) -> bool:
    """Return whether squared distances (M,) differ by more than rounding, of order ``rtol``."""
    return bool(np.ptp(squared) > rtol * np.max(np.abs(squared)))


def inverse_epsilon(squared: np.ndarray, ess: float, negligible: float = 100.0) -> float:
    """Find 1 / epsilon at which the weights exp(-d^2 / epsilon) have effective sample size ``ess``.

    The effective sample size decreases with 1 / epsilon. If ties of the smallest distance keep it
    above ``ess``, 1 / epsilon is so large that only these have weight.

    Args:
        squared: (M,), finite numbers that differ.
        ess: less than M.
        negligible: minus the logarithm of a weight that is negligible.
    """

    def excess(inverse: float) -> float:
        return effective_sample_size(-squared * inverse) - ess

    above = squared - squared.min()
    second = float(np.min(above[above > 0.0]))
    high = 1.0 / float(np.max(above))
    while excess(high) >= 0.0:
        high *= 2.0
        if high * second > negligible:
            return high
    precision = np.finfo(float).eps
    return float(brentq(excess, 0.0, high, xtol=precision * high, rtol=4.0 * precision))


def distances(squared: np.ndarray) -> np.ndarray:
    """Return the roots of squared distances; a negative unbiased estimate counts as zero."""
    return np.sqrt(np.maximum(squared, 0.0))


def log_weights(squared: np.ndarray, epsilon: float, acceptance: str) -> np.ndarray:
    """Return unnormalized log-weights (M,): -d^2 / epsilon, or 0 where d <= epsilon."""
    if acceptance == "exponential":
        return -squared / epsilon
    return np.where(distances(squared) <= epsilon, 0.0, -np.inf)


def normalize(log_weight: np.ndarray) -> np.ndarray:
    """Return weights (M,) that sum to one, or zeros if all of them are zero."""
    total = logsumexp(log_weight)
    return np.zeros(len(log_weight)) if total == -np.inf else np.exp(log_weight - total)


def effective_sample_size(log_weight: np.ndarray) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2, 0 if all weights are zero."""
    weight = normalize(log_weight)
    return float(1.0 / np.sum(weight**2)) if weight.any() else 0.0


def build_tree(
    theta: Mapping[str, np.ndarray],
    stats: Mapping[str, np.ndarray],
    problem: InverseProblem,
    settings: Mapping[str, Any],
    *,
    prior: Mapping[str, np.ndarray] | None = None,
    num_chains: int = 1,
) -> xr.DataTree:
    """Build an ArviZ tree, with attributes from which its run can be repeated.

    Args:
        theta: draws (M, ...), ordered by chain.
        stats: statistics of the draws, (chain, draw).
        problem: the problem, with the observed data.
        settings: plain data for the attributes.
        prior: draws of the prior.
        num_chains: number of chains.
    """
    posterior = {name: np.reshape(v, (num_chains, -1, *v.shape[1:])) for name, v in theta.items()}
    columns = list(default_names(problem.data.shape[1]))
    groups = {
        "posterior": dict_to_dataset(posterior),
        "sample_stats": dict_to_dataset(stats),
        "observed_data": xr.Dataset(
            {"X": (("row", "column"), problem.data)}, coords={"column": columns}
        ),
    }
    if prior is not None:
        groups["prior"] = dict_to_dataset({name: values[None] for name, values in prior.items()})
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(record_attributes(settings, digest_of(problem.data)))
    return tree


def failure_attributes(causes: np.ndarray, first_failure: str) -> dict[str, Any]:
    """Return the attributes of a tree about failures of its simulations."""
    return {
        "simulations": len(causes),
        "failed": int(np.sum(causes != "")),
        "failures": json.dumps(count_failures(causes)),
        "first_failure": first_failure,
    }


def set_weights(run: xr.DataTree, epsilon: ArrayLike, weight: ArrayLike, ess: ArrayLike) -> None:
    """Set the weights (E, M) of the draws and the effective sample sizes (E,) for every epsilon."""
    stats = run["sample_stats"].to_dataset().drop_dims("epsilon", errors="ignore")
    weight = np.transpose(weight)[None]
    run["sample_stats"] = xr.DataTree(
        stats.assign_coords(epsilon=epsilon).assign(
            weight=(("chain", "draw", "epsilon"), weight), ess=("epsilon", ess)
        )
    )


def reweight(run: xr.DataTree, epsilon: np.ndarray | None) -> xr.DataTree:
    """Return a copy of a run with the weights for every epsilon, by default the default ones."""
    result = run.copy()
    result.attrs["epsilon_choice"] = "effective sample sizes" if epsilon is None else "given"
    squared = run["sample_stats"].to_dataset()["squared_distance"].values[0]
    acceptance = run.attrs["acceptance"]
    if epsilon is None:
        num_parameters = sum(values[0, 0].size for values in run["posterior"].data_vars.values())
        epsilon = default_epsilon(squared, acceptance, num_parameters)
    logs = [log_weights(squared, value, acceptance) for value in epsilon]
    set_weights(result, epsilon, list(map(normalize, logs)), list(map(effective_sample_size, logs)))
    return result


def check_run(run: Any) -> xr.DataTree:
    """Return a run with weighted draws, or raise ``InputError``."""
    attrs = run.attrs if isinstance(run, xr.DataTree) else {}
    if attrs.get("creation_library") != "bke" or "epsilon" not in run["sample_stats"].coords:
        raise InputError("this is not a run of k2_abc, abc or their sequential variants")
    return run  # type: ignore[no-any-return]


def with_epsilon(run: xr.DataTree, epsilon: float | ArrayLike) -> xr.DataTree:
    """Weight the simulations of a run for other bandwidths.

    Args:
        run: from :func:`~bke.inference.k2_abc` or :func:`~bke.inference.abc`.
        epsilon: one or several bandwidths.

    Raises:
        InputError: if the run is another one, such as a sequential run, whose draws are for one
            epsilon; or if an epsilon is not valid.
    """
    check_run(run)
    if "acceptance" not in run.attrs:
        raise InputError(
            "the particles of a sequential run are those of its last epsilon: run it again for "
            "another"
        )
    return reweight(run, check_epsilon(epsilon))


def resample(
    run: xr.DataTree, epsilon: float | None = None, num_samples: int = 1000, seed: int = 0
) -> xr.DataTree:
    """Resample a run to draws of equal weight, for use with ArviZ.

    Systematic resampling repeats each simulation in proportion to its weight. The draws have no
    more information than the weighted ones: ``ess`` is their effective number.

    Args:
        run: from :func:`~bke.inference.k2_abc` or a related function.
        epsilon: one of the run's; by default the smallest.
        num_samples: number of draws.
        seed: random seed of the resampling and the order of draws.

    Returns:
        A tree with ``posterior`` (chain 1, draw), ``sample_stats`` and ``observed_data``.

    Raises:
        InputError: if the run does not have this epsilon, or all weights are zero there.
    """
    stats = check_run(run)["sample_stats"].to_dataset()
    available = stats["epsilon"].values
    matches = np.isclose(available, available.min() if epsilon is None else epsilon, 1e-6, 0.0)
    if not matches.any():
        values = ", ".join(f"{value:.6g}" for value in available)
        raise InputError(
            f"the run has no epsilon {epsilon!r}, but {values}: with_epsilon adds another"
        )
    check_count(num_samples, "num_samples", 1)
    check_count(seed, "seed", 0)
    stats = stats.isel(epsilon=int(np.argmax(matches)))
    value, weight = float(stats["epsilon"]), stats["weight"].values[0]
    if not weight.any():
        raise InputError(f"no simulation is accepted at epsilon = {value:.6g}: take a larger one")
    rng = np.random.default_rng(seed)
    indices = rng.permutation(systematic(weight, num_samples, rng))
    draws = {"draw": np.arange(num_samples)}
    unweighted = stats.drop_vars(["weight", "ess", "epsilon"])
    groups = {
        "/posterior": run["posterior"].to_dataset().isel(draw=indices).assign_coords(draws),
        "/sample_stats": unweighted.isel(draw=indices).assign_coords(draws),
        "/observed_data": run["observed_data"].to_dataset(),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update({**run.attrs, "epsilon": value, "ess": float(stats["ess"])})
    return tree


def parameter_draws(run: Any) -> dict[str, np.ndarray]:
    """Return the draws (chain, draw) of every component of the parameters, or ``InputError``."""
    if not isinstance(run, xr.DataTree) or "simulator" not in run.attrs:
        raise InputError("this is not a run of likelihood-free inference")
    return components(run["posterior"].to_dataset())


def components(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """Return the values (chain, draw) of every component, by names such as ``a`` or ``a[0]``."""
    return {
        f"{name}[{', '.join(map(str, index.values()))}]" if index else str(name): np.asarray(values)
        for name, _, index, values in xarray_var_iter(posterior, skip_dims={"chain", "draw"})
    }


def run_notes(run: xr.DataTree) -> list[str]:
    """List what limits the conclusions from a run, in sentences."""
    notes = []
    failed, count = int(run.attrs["failed"]), int(run.attrs["simulations"])
    if failed:
        causes = json.loads(run.attrs["failures"])
        listed = "; ".join(f"{times} with {cause}" for cause, times in list(causes.items())[:3])
        notes.append(
            f"{failed} of {count} simulations failed and are left out ({listed}); the first was "
            f"for {run.attrs['first_failure']}. The posterior is that of parameters whose "
            "simulations do not fail."
        )
    stats = run["sample_stats"].to_dataset()
    small = [
        f"{ess:.1f} at epsilon = {epsilon:.4g}"
        for epsilon, ess in zip(stats["epsilon"].values, stats["ess"].values, strict=True)
        if round(ess, 1) < MIN_ESS  # the printed value
    ]
    if small:
        remedies = ("a larger epsilon, more simulations, or a sequential method", "more particles")
        notes.append(
            f"The effective sample size is only {', '.join(small)}, so that the posterior rests on "
            f"a few simulations: use {remedies['stages' in run.children]}."
        )
    return notes


def warn_about(run: xr.DataTree) -> None:
    """Issue the notes of a run as warnings at the call of the public function."""
    for note in run_notes(run):
        warnings.warn(note, PosteriorWarning, stacklevel=4)


def posterior_table(run: xr.DataTree) -> pd.DataFrame:
    """Tabulate mean, standard deviation and quantiles of every parameter, for every epsilon.

    Args:
        run: from any function of likelihood-free inference.

    Returns:
        Columns ``parameter``, ``epsilon`` (absent for the synthetic likelihood), ``ess``, ``mean``,
        ``sd``, ``q05``, ``q50``, ``q95``; NaN where all weights are zero.

    Raises:
        InputError: if ``run`` is another run.
    """
    parameters, stats = parameter_draws(run), run["sample_stats"].to_dataset()
    if "epsilon" in stats.coords:
        weights = list(stats["weight"].values[0].T)
        pairs = zip(stats["epsilon"].values, stats["ess"].values, strict=True)
        figures = [{"epsilon": epsilon, "ess": ess} for epsilon, ess in pairs]
    else:
        size = next(iter(parameters.values())).size
        weights, figures = [np.full(size, 1.0 / size)], [{"ess": run.attrs["ess"]}]
    return pd.DataFrame(
        [
            {"parameter": name, **figures[i], **weighted_summary(draws.ravel(), weight)}
            for name, draws in parameters.items()
            for i, weight in enumerate(weights)
        ]
    )


def weighted_summary(
    values: np.ndarray, weight: np.ndarray, quantiles: Sequence[float] = (0.05, 0.5, 0.95)
) -> dict[str, float]:
    """Summarize values (M,) with weights (M,) that sum to one, or to zero.

    A quantile is the smallest value at which the cumulative weight reaches its level.
    """
    names = [f"q{100 * level:02.0f}" for level in quantiles]
    if not weight.any():
        return dict.fromkeys(["mean", "sd", *names], float("nan"))
    mean = float(weight @ values)
    levels = weighted_quantiles(values, weight, quantiles, method="inverted_cdf")
    return {
        "mean": mean,
        "sd": float(np.sqrt(weight @ (values - mean) ** 2)),
        **dict(zip(names, levels.tolist(), strict=True)),
    }


def abc_text(run: xr.DataTree) -> str:
    """Format the simulations in a sentence, and the posterior as a table."""
    summary = abc_summary(run)
    stopped = f"; stopped because {summary['stopped']}" if "stopped" in summary else ""
    table = posterior_table(run).to_string(index=False, float_format=lambda value: f"{value:.4g}")
    return (
        f"{summary['simulations']} simulations, {summary['failed']} of them failed; kernel "
        f"{summary['kernel']}, estimator {summary['estimator']}{stopped}\n{table}"
    )


def abc_summary(run: xr.DataTree) -> dict[str, Any]:
    """Method, distance, simulations and the posterior at every epsilon."""
    attrs = run.attrs
    distance = read_record(attrs)["distance"]
    lines = [
        {str(k): None if isinstance(v, float) and np.isnan(v) else v for k, v in line.items()}
        for line in posterior_table(run).to_dict("records")
    ]
    return {
        "method": attrs["method"],
        "kernel": distance["kernel_in_words"],
        "estimator": distance["estimator"],
        "simulations": int(attrs["simulations"]),
        "failed": int(attrs["failed"]),
        "failures": json.loads(attrs["failures"]),
        "seed": int(attrs["seed"]),
        **({"stopped": attrs["stopped"]} if "stopped" in attrs else {}),
        "posterior": lines,
    }


def weighted_draws(run: xr.DataTree) -> tuple[list[str], np.ndarray]:
    """All draws with their distances, and their weights at every epsilon: names and columns."""
    draws = parameter_draws(run)
    stats = run["sample_stats"].to_dataset()
    header = [
        *draws,
        "squared_distance",
        *(f"weight at {value:.6g}" for value in stats["epsilon"].values),
    ]
    parts = [
        *(values.ravel() for values in draws.values()),
        stats["squared_distance"].values[0],
        *stats["weight"].values[0].T,
    ]
    return header, np.column_stack(parts)


@dataclasses.dataclass(frozen=True)
class MMDEstimate:
    """Parameters at which the MMD between simulated and observed rows is least.

    Attributes:
        parameters: the estimate, a number or an array (k,) for every parameter.
        covariance: sampling covariance of all components, by names such as ``a`` or ``a[0]``;
            ``None`` where it is not known.
        squared_mmd: squared MMD between simulated rows, without bias from their number, and the
            observed ones as a discrete distribution. It may be negative.
        kernel: in the units of the data.
        simulations: number of simulated data sets.
        failed: number of these that failed, and were left out.
    """

    parameters: dict[str, Any]
    covariance: pd.DataFrame | None
    squared_mmd: float
    kernel: Covariance
    simulations: int
    failed: int

    def to_dataframe(self, level: float = 0.9) -> pd.DataFrame:
        """Tabulate the estimates with confidence intervals from their normal limit.

        Args:
            level: coverage of the intervals.

        Returns:
            Columns ``parameter``, ``estimate``, ``standard_error``, ``lower`` and ``upper``.

        Raises:
            InputError: if there is no covariance.
        """
        if self.covariance is None:
            raise InputError(NOT_IDENTIFIED)
        z = NormalDist().inv_cdf(0.5 + 0.5 * check_proportion(level, "level"))
        estimate = np.concatenate([np.ravel(value) for value in self.parameters.values()])
        error = np.sqrt(np.diagonal(self.covariance))
        columns = {
            "parameter": list(self.covariance.columns),
            "estimate": estimate,
            "standard_error": error,
            "lower": estimate - z * error,
            "upper": estimate + z * error,
        }
        return pd.DataFrame(columns)
