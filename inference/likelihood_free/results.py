"""Weights of simulations by their distances, by logarithms: none of them underflows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_base import dict_to_dataset
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from ..core.errors import InputError
from ..data.checks import check_count
from ..data.file_table import default_names
from ..data.weighted import systematic, weighted_quantiles
from ..sampling.run import digest_of, package_versions
from .simulators import as_words, commonest, parameters_at

ACCEPTANCES = ("exponential", "indicator")
#: Default bandwidths: effective sample sizes over the number of simulations, of up to so many.
SHARES, SIMULATIONS = (0.2, 0.05, 0.01), 10_000
#: Distances that differ by less, relative to them, are equal.
EQUAL = 1e-12
#: Minus the logarithm of a weight that is none.
NOTHING = 100.0


def check_epsilon(epsilon: Any) -> np.ndarray | None:
    """Check bandwidths (E,) and sort them, largest first; ``None`` stays.

    Raises:
        InputError: there are none, one is not positive and finite, or two are equal.
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


def default_shares(simulations: int, parameters: int) -> np.ndarray:
    """Choose effective sample sizes over the number M of simulations: 20, 5 and 1 % of 10 000.

    A share that stays leaves the posterior as wide as it is however many simulations there are. Of
    q parameters, which take at least as many statistics to tell, M^(-q / (q + 4)) makes the error
    of a mean least: its bias is of order delta^2 and the share delta^q (Barber, Voss and Webster
    2015).
    """
    more = max(simulations / SIMULATIONS, 1.0)
    return np.asarray(np.array(SHARES) * more ** (-parameters / (parameters + 4.0)))


def default_epsilon(squared: np.ndarray, acceptance: str, parameters: int) -> np.ndarray:
    """Choose bandwidths from the squared distances (M,) of all simulations, largest first.

    For ``"exponential"`` those at which the effective sample size is a share of the simulations,
    see :func:`default_shares`. A constant that is added to all squared distances, such as the part
    of MMD-4 that is there between samples of one distribution, then changes no bandwidth, as it
    changes no weight. For ``"indicator"`` the same quantiles of the distances: that share is
    accepted.

    Raises:
        InputError: all distances are equal.
    """
    shares = default_shares(len(squared), parameters)
    if acceptance == "indicator":
        found = np.quantile(distances(squared), shares)
        found = np.unique(found[found > 0.0])[::-1]
    elif not tell_apart(squared):
        found = np.zeros(0)
    else:
        inverses = [inverse_for(squared, share * len(squared)) for share in shares]
        found = np.unique(1.0 / np.array(inverses))[::-1]
    if not len(found):
        raise InputError(
            "the distances of nearly all simulations are equal, so that there is no bandwidth to "
            "choose: give epsilon, or a distance that tells parameters apart"
        )
    return found


def tell_apart(squared: np.ndarray) -> bool:
    """Whether squared distances (M,) differ by more than rounding."""
    return bool(np.ptp(squared) > EQUAL * np.max(np.abs(squared)))


def inverse_for(squared: np.ndarray, size: float) -> float:
    """Find 1 / epsilon at which the effective sample size of exp(-d^2 / epsilon) is ``size``.

    By bisection, for it falls with 1 / epsilon. Where so many have the smallest of all distances
    that it never does, 1 / epsilon is so large that only these are left.

    Args:
        squared: (M,), finite numbers that differ.
        size: at most M.
    """

    def enough(inverse: float) -> bool:
        return effective_sample_size(-squared * inverse) >= size

    farther = squared - squared.min()
    nearest = float(np.min(farther[farther > 0.0]))
    high = 1.0 / float(np.max(farther))
    while enough(high):
        high *= 2.0
        if high * nearest > NOTHING:
            return high
    low = 0.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(middle) else (low, middle)
    return high


def distances(squared: np.ndarray) -> np.ndarray:
    """Take the root of squared distances; an unbiased estimate below zero is none."""
    return np.sqrt(np.maximum(squared, 0.0))


def log_weights(squared: np.ndarray, epsilon: float, acceptance: str) -> np.ndarray:
    """Log weights (M,) that are not normalised: -d^2 / epsilon (MMD-31), or 0 if d <= epsilon."""
    if acceptance == "exponential":
        return -squared / epsilon
    return np.where(distances(squared) <= epsilon, 0.0, -np.inf)


def normalised(log_weight: np.ndarray) -> np.ndarray:
    """Normalise weights (M,) to sum to one; zeros where all of them are zero."""
    total = logsumexp(log_weight)
    return np.zeros(len(log_weight)) if total == -np.inf else np.exp(log_weight - total)


def effective_sample_size(log_weight: np.ndarray) -> float:
    """The effective sample size (sum w)^2 / sum w^2; 0 where all weights are zero."""
    total = logsumexp(log_weight)
    return 0.0 if total == -np.inf else float(np.exp(2.0 * total - logsumexp(2.0 * log_weight)))


#: Below, what is told of a posterior is told of a few simulations.
LEAST_ESS = 10


class PosteriorWarning(UserWarning):
    """Warns where a posterior says less than it seems to."""


def make_run(
    theta: Mapping[str, np.ndarray],
    squared: np.ndarray,
    causes: np.ndarray,
    observed: np.ndarray,
    epsilon: np.ndarray | None,
    acceptance: str,
    settings: Mapping[str, Any],
) -> xr.DataTree:
    """Make the tree of a run of weighted simulations.

    Args:
        theta: parameters (M, ...) of all simulations.
        squared: their squared distances (M,).
        causes: why they failed, (M,), "" where they did not.
        observed: (m, D).
        epsilon: bandwidths (E,), or ``None`` for the default ones.
        acceptance: see :func:`~bke.inference.abc`.
        settings: plain data for the attributes.
    """
    good = causes == ""
    kept = {name: values[good] for name, values in theta.items()}
    stats = xr.Dataset(
        {
            "squared_distance": (("chain", "draw"), squared[good][None]),
            "simulation": (("chain", "draw"), np.flatnonzero(good)[None]),
        },
        coords={"chain": [0], "draw": np.arange(int(good.sum()))},
    )
    run = tree_of(kept, stats, observed)
    failures = commonest(causes)
    first = parameters_at(theta, int(np.argmin(good))) if failures else {}
    run.attrs.update(
        {
            **attributes(settings, observed),
            "acceptance": acceptance,
            "simulations": len(causes),
            "failed": int(np.sum(~good)),
            "failures": json.dumps(failures),
            "first_failure": as_words(first),
            "epsilon_choice": "effective sample sizes" if epsilon is None else "given",
        }
    )
    return _weighted(run, epsilon)


def tree_of(
    theta: Mapping[str, np.ndarray], stats: xr.Dataset, observed: np.ndarray, chains: int = 1
) -> xr.DataTree:
    """Put draws under ArviZ's names; ``theta`` has shapes (M, ...), chain after chain."""
    posterior = dict_to_dataset(
        {name: np.reshape(v, (chains, -1, *v.shape[1:])) for name, v in theta.items()}
    )
    data = xr.Dataset(
        {"X": (("row", "column"), observed)},
        coords={"column": list(default_names(observed.shape[1]))},
    )
    groups = {"/posterior": posterior, "/sample_stats": stats, "/observed_data": data}
    return xr.DataTree.from_dict(groups)


def attributes(settings: Mapping[str, Any], observed: np.ndarray) -> dict[str, Any]:
    """Describe a run by plain attributes, from which it can be repeated."""
    return {
        "creation_library": "bke",
        **{k: json.dumps(v) if isinstance(v, dict) else v for k, v in settings.items()},
        "data_sha256": digest_of(observed),
        "versions": json.dumps(package_versions()),
    }


def _weighted(run: xr.DataTree, epsilon: np.ndarray | None) -> xr.DataTree:
    """Weigh the simulations of ``run`` for every epsilon, in place of the weights that it has."""
    stats = run["sample_stats"].to_dataset()
    squared = stats["squared_distance"].values[0]
    acceptance = run.attrs["acceptance"]
    parameters = sum(one[0, 0].size for one in run["posterior"].data_vars.values())
    values = default_epsilon(squared, acceptance, parameters) if epsilon is None else epsilon
    logs = [log_weights(squared, value, acceptance) for value in values]
    stats = stats.drop_vars(["weight", "ess", "epsilon"], errors="ignore").assign_coords(
        epsilon=values
    )
    stats["weight"] = (
        ("chain", "draw", "epsilon"),
        np.stack([normalised(one) for one in logs], axis=-1)[None],
    )
    stats["ess"] = (("epsilon",), np.array([effective_sample_size(one) for one in logs]))
    changed = run.copy()
    changed["sample_stats"] = xr.DataTree(stats)
    return changed


def check_run(run: Any) -> xr.DataTree:
    """Refuse what is no run with weighted draws."""
    attrs = run.attrs if isinstance(run, xr.DataTree) else {}
    if attrs.get("creation_library") != "bke" or "epsilon" not in run["sample_stats"].coords:
        raise InputError("this is not a run of k2_abc, abc or their sequential variants")
    return run  # type: ignore[no-any-return]


def with_epsilon(run: xr.DataTree, epsilon: float | ArrayLike) -> xr.DataTree:
    """Weigh the simulations of a run anew, for other bandwidths.

    Args:
        run: from :func:`~bke.inference.k2_abc` or :func:`~bke.inference.abc`.
        epsilon: one or several.

    Raises:
        InputError: for another run, as that of a sequential method, whose draws are those of one
            epsilon; or for epsilons that make no sense.
    """
    check_run(run)
    if "acceptance" not in run.attrs:
        raise InputError(
            "the particles of a sequential run are those of its last epsilon: run it again for "
            "another"
        )
    changed = _weighted(run, check_epsilon(epsilon))
    changed.attrs["epsilon_choice"] = "given"
    return changed


def index_of(run: xr.DataTree, epsilon: float | None) -> int:
    """Find the place of ``epsilon`` among the run's bandwidths; ``None`` is the smallest.

    Raises:
        InputError: there is none such.
    """
    known = check_run(run)["sample_stats"].to_dataset()["epsilon"].values
    if epsilon is None:
        return int(np.argmin(known))
    found = np.flatnonzero(np.isclose(known, epsilon, rtol=1e-6, atol=0.0))
    if not len(found):
        shown = ", ".join(f"{value:.6g}" for value in known)
        raise InputError(
            f"the run has no epsilon {epsilon!r}, but {shown}: with_epsilon gives it another"
        )
    return int(found[0])


def resample(
    run: xr.DataTree, epsilon: float | None = None, draws: int = 1000, seed: int = 0
) -> xr.DataTree:
    """Resample a run to draws of equal weight, for all that ArviZ does with draws.

    They hold no more than the weighted ones do: the same simulation comes up as often as its weight
    says (systematic resampling), and ``ess`` tells how many there are in effect.

    Args:
        run: from :func:`~bke.inference.k2_abc` or the like.
        epsilon: one of the run's; by default the smallest.
        draws: how many.
        seed: of the resampling and of the draws' order.

    Returns:
        A tree with ``posterior`` (chain 1, draw), ``sample_stats`` and ``observed_data``.

    Raises:
        InputError: the run has no such epsilon, or no simulation has any weight there.
    """
    at = index_of(run, epsilon)
    check_count(draws, "draws", 1)
    check_count(seed, "seed", 0)
    stats = run["sample_stats"].to_dataset()
    weight = stats["weight"].values[0, :, at]
    value = float(stats["epsilon"].values[at])
    if not weight.any():
        raise InputError(f"no simulation is accepted at epsilon = {value:.6g}: take a larger one")
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(systematic(weight, draws, rng))
    renumbered = {"draw": np.arange(draws)}
    posterior = run["posterior"].to_dataset().isel(draw=chosen).assign_coords(renumbered)
    kept = stats.drop_vars(["weight", "ess"]).drop_dims("epsilon", errors="ignore")
    groups = {
        "/posterior": posterior,
        "/sample_stats": kept.isel(draw=chosen).assign_coords(renumbered),
        "/observed_data": run["observed_data"].to_dataset(),
    }
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update({**run.attrs, "epsilon": value, "ess": float(stats["ess"].values[at])})
    return tree


def components(posterior: xr.Dataset) -> dict[str, np.ndarray]:
    """Name every number among the parameters, (chain, draw), such as ``a`` or ``a[0]``."""
    found = {}
    for name, values in posterior.data_vars.items():
        if values.ndim == 2:
            found[str(name)] = values.values
            continue
        for index in np.ndindex(values.shape[2:]):
            place = ", ".join(map(str, index))
            found[f"{name}[{place}]"] = values.values[(..., *index)]
    return found


def remarks(run: xr.DataTree) -> list[str]:
    """Tell in sentences what a reader of the run should not miss."""
    found = []
    failed, all_of_them = int(run.attrs["failed"]), int(run.attrs["simulations"])
    if failed:
        causes = json.loads(run.attrs["failures"])
        shown = "; ".join(f"{times} with {cause}" for cause, times in list(causes.items())[:3])
        found.append(
            f"{failed} of {all_of_them} simulations failed and are left out ({shown}); the first "
            f"was for {run.attrs['first_failure']}. The posterior is that of parameters whose "
            "simulations do not fail."
        )
    stats = run["sample_stats"].to_dataset()
    few = [
        f"{ess:.1f} at epsilon = {epsilon:.4g}"
        for epsilon, ess in zip(stats["epsilon"].values, stats["ess"].values, strict=True)
        if round(ess, 1) < LEAST_ESS  # as it is told
    ]
    if few and "stages" in run.children:
        found.append(
            f"The particles are in effect only {', '.join(few)}: take more of them, or more moves."
        )
    elif few:
        found.append(
            f"The effective sample size is only {', '.join(few)}: what is told there is told of a "
            "few simulations. Take a larger epsilon, more simulations, or a sequential method."
        )
    return found


QUANTILES = (0.05, 0.5, 0.95)


def posterior_table(run: xr.DataTree) -> pd.DataFrame:
    """Tabulate mean, standard deviation and quantiles of every parameter, for every epsilon.

    Args:
        run: from any function of likelihood-free inference.

    Returns:
        Columns ``parameter``, ``epsilon`` (none for the synthetic likelihood), ``ess``, ``mean``,
        ``sd``, ``q05``, ``q50``, ``q95``; NaN where no simulation has any weight.

    Raises:
        InputError: for another run.
    """
    if run.attrs.get("creation_library") != "bke" or "simulator" not in run.attrs:
        raise InputError("this is not a run of likelihood-free inference")
    stats = run["sample_stats"].to_dataset()
    lines = []
    for name, values in components(run["posterior"].to_dataset()).items():
        if "epsilon" not in stats.coords:
            weight = np.full(values.size, 1.0 / values.size)
            known = {"parameter": name, "ess": run.attrs["ess"]}
            lines.append({**known, **weighted_summary(values.ravel(), weight)})
            continue
        for at, epsilon in enumerate(stats["epsilon"].values):
            known = {"parameter": name, "epsilon": epsilon, "ess": float(stats["ess"].values[at])}
            weight = stats["weight"].values[0, :, at]
            lines.append({**known, **weighted_summary(values.ravel(), weight)})
    return pd.DataFrame(lines)


def weighted_summary(values: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Summarise values (M,) with weights (M,) that sum to one, or to zero.

    A quantile is the smallest value up to which there is that much weight.
    """
    names = [f"q{100 * share:02.0f}" for share in QUANTILES]
    if not weight.any():
        return dict.fromkeys(["mean", "sd", *names], float("nan"))
    mean = float(weight @ values)
    quantiles = weighted_quantiles(values, weight, QUANTILES, method="inverted_cdf")
    return {
        "mean": mean,
        "sd": float(np.sqrt(weight @ (values - mean) ** 2)),
        **dict(zip(names, quantiles.tolist(), strict=True)),
    }
