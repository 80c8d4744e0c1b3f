"""Draws of other programs as runs: any ArviZ tree with its model, or a finished NumPyro MCMC."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict

import jax
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from arviz_base import convert_to_datatree, dict_to_dataset, from_numpyro
from bke.models import Landmark, SamplingNoise, bke_model
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Likelihood
from bke.models.measures import Measure
from bke.models.priors import Prior
from numpy.typing import ArrayLike

from ..core.errors import InputError, PosteriorWarning, nearest
from ..core.machine import computing
from ..data.units import Observed, observe
from . import densities
from .densities import LogDensity
from .draw_graph import density_groups
from .fingerprint import fingerprint
from .run import make_run
from .target import PRIOR_DRAWS, Chains, Target, Task

if TYPE_CHECKING:
    from numpyro.infer import MCMC

#: Statistics of other samplers that diagnosis and plots read, by ArviZ's names.
STATISTICS = ("lp", "diverging", "energy", "acceptance_rate", "step_size", "n_steps", "tree_depth")
#: Number of draws at which a recorded log density is compared with that of the model, and largest
#: range of the differences, in nats.
COMPARED, TOLERANCE = 16, 1e-3


class ModelArguments(TypedDict, total=False):
    """Model of the draws of another program: the arguments of ``bke_model`` and its names.

    Attributes:
        X: the data that the draws were made of, (n, D) or (n,), as the model got them; or a tuple
            of samples that share the hyperparameters.
        kernel, prior, noise_variance, measure, likelihood: as for :func:`~bke.models.bke_model`,
            with its defaults.
        var_names: the site of :func:`~bke.models.bke_model` that a variable of the tree holds, by
            the variable's name: ``{"rho": "lengthscale"}``. By default names are the sites' own.
    """

    X: ArrayLike | tuple[ArrayLike, ...]
    kernel: Kernel | type[Kernel]
    prior: Prior
    noise_variance: float | str | SamplingNoise | dist.Distribution
    measure: Measure | str
    likelihood: Likelihood | str
    var_names: Mapping[str, str]


def is_run(tree: Any) -> bool:
    """Return whether ``tree`` was made by this package."""
    return isinstance(tree, xr.DataTree) and tree.attrs.get("creation_library") == "bke"


@dataclasses.dataclass(frozen=True)
class Foreign:
    """Draws of another program with the model that they are of, checked against each other.

    Attributes:
        tree: as ArviZ reads it.
        observed: the data as the model got them, neither standardized nor dithered.
        target: the model.
        values: the draws of every site, (chain, draw, ...).
    """

    tree: xr.DataTree
    observed: Observed
    target: Target
    values: Mapping[str, np.ndarray]

    @classmethod
    def read(cls, draws: Any, arguments: ModelArguments) -> Foreign:
        """Read and check draws; see :func:`~bke.inference.open_run`."""
        options: dict[str, Any] = dict(arguments)
        if unknown := sorted(options.keys() - ModelArguments.__annotations__.keys()):
            names = tuple(ModelArguments.__annotations__)
            raise InputError(
                f"{unknown[0]!r} is no argument of the model: {', '.join(names)}"
                f"{nearest(unknown[0], names)}"
            )
        if is_mcmc(draws):
            if not hasattr(draws, "_args"):
                raise InputError("this MCMC has not run yet: call its run() first")
            options = {**_model_arguments(draws), **options}
        var_names = options.pop("var_names", None) or {}
        if "X" not in options:
            raise InputError(
                "these draws are not a run of bke.inference.fit: give the data and the model that "
                "they are of, X=..., and kernel=, prior=, noise_variance=, measure= where these "
                "are not the defaults of bke_model"
            )
        X = options.pop("X")
        with computing():  # ArviZ traces the model of an MCMC
            tree = _as_tree(draws)
        samples = "product" if isinstance(X, tuple) else "pooled"
        observed = observe(X, samples=samples, standardize=None)
        with computing():
            model = Target.checked(**options)
        likelihood = model.likelihood
        if isinstance(likelihood, Landmark) and np.ndim(likelihood.landmarks) == 0:
            raise InputError("give the landmarks of these draws, likelihood=Landmark(points)")
        with computing():
            target = model.in_model_units(observed.units, observed.rows, 0)
            values = _values(tree["posterior"].to_dataset(), target, var_names)
        return cls(tree, observed, target, values)

    @property
    def fingerprint(self) -> str | None:
        """Digest of all that the run is computed from; ``None`` if a prior has no description."""
        description = json.dumps(self.target.describe())
        if "unrecorded" in description:
            return None
        datasets = {
            "values": dict_to_dataset(self.values),
            "statistics": dict_to_dataset(_statistics(self.tree, self._shape)),
            "data": xr.Dataset({"X": (("row", "column"), self.observed.rows)}),
        }
        if (terms := self._terms()) is not None:  # which are checked when the run is computed
            datasets["terms"] = xr.Dataset({"terms": ("flat", terms)})
        if self.target.landmarks is not None:
            landmarks = (("landmark", "column"), self.target.landmarks)
            datasets["landmarks"] = xr.Dataset({"landmarks": landmarks})
        # ArviZ's attributes have the time.
        tree = xr.DataTree.from_dict({f"/{name}": d.drop_attrs() for name, d in datasets.items()})
        units = self.observed.units
        tree.attrs = {"columns": units.columns, "sizes": units.sizes, "model": description}
        tree.attrs["library"] = self._library
        return fingerprint(tree, datasets)

    @property
    def _library(self) -> str:
        return str(self.tree["posterior"].attrs.get("inference_library", "another program"))

    @property
    def _shape(self) -> tuple[int, int]:
        chains, draws = next(iter(self.values.values())).shape[:2]
        return chains, draws

    def _terms(self) -> np.ndarray | None:
        """Return the log likelihood of every draw that ``bke_model`` recorded, if it did."""
        posterior = self.tree["posterior"].to_dataset()
        if not {"log_gaussian", "log_jacobian"} <= set(posterior.data_vars):
            return None
        terms: np.ndarray = (posterior["log_gaussian"] + posterior["log_jacobian"]).values.ravel()
        return terms if terms.size == np.prod(self._shape) else None

    def _check_terms(self, z: Mapping[str, np.ndarray], density: LogDensity) -> None:
        """Compare the terms of the log likelihood that ``bke_model`` recorded with the model's.

        Raises:
            InputError: they are of other data, or of another model.
        """
        recorded = self._terms()
        if recorded is None:
            return
        indices = _spaced_indices(recorded.size)
        at = {name: free.reshape(-1, *free.shape[2:])[indices] for name, free in z.items()}
        prior = np.asarray(jax.vmap(self.target.log_prior)(at))
        with np.errstate(invalid="ignore"):
            difference = np.abs(density(at) - prior - recorded[indices])
        tolerance = TOLERANCE + _rounding(recorded)
        if not (difference <= tolerance).all():
            raise InputError(
                "the log likelihood that bke_model recorded at these draws is not that of the "
                "given X, kernel, noise_variance, measure and likelihood: they are of other data "
                "or of another model"
            )

    def as_run(self) -> xr.DataTree:
        """Return the run, with the density at every draw and around them."""
        target, observed = self.target, self.observed
        with computing():
            z = {name: np.asarray(free) for name, free in target.unconstrain(self.values).items()}
            target.check_smoothed(observed.rows.shape[1])
            points = target.prepared(observed.units.transform_data(observed.rows))
            density = functools.partial(
                densities.log_densities, densities.compile_log_density(target), X=points
            )
            statistics = _statistics(self.tree, self._shape)
            self._check_terms(z, density)
            lp = statistics["lp"] = _log_density(target, z, density, statistics.get("lp"))
            prior_draws = target.prior_draws(np.random.default_rng(0), PRIOR_DRAWS)
            task = Task(target, points, prior_draws, density, 0, False)
            settings = {
                "method": "external",
                "independent": 0,
                "method_in_words": f"draws of {self._library}",
                "num_chains": lp.shape[0],
                "num_samples": lp.shape[1],
                "samples": "product" if observed.units.sizes else "pooled",
                "seed": 0,
            }
            return make_run(
                task,
                observed.units,
                observed.rows,
                Chains(z, statistics, {}, 0),
                density_groups(task, z, lp),
                settings,
            )


def is_mcmc(draws: Any) -> bool:
    """Return whether ``draws`` are an MCMC of NumPyro, without importing it."""
    kind = type(draws)
    return kind.__name__ == "MCMC" and kind.__module__.partition(".")[0] == "numpyro"


def _as_tree(draws: Any) -> xr.DataTree:
    try:
        tree = from_numpyro(draws) if is_mcmc(draws) else convert_to_datatree(draws)
    except Exception as error:  # readers of many formats fail in many ways
        raise InputError(
            f"ArviZ cannot read these draws, which need the dimensions chain and draw: {error}"
        ) from None
    if "posterior" not in tree.children:
        raise InputError("the tree has no group posterior")
    return tree


def _model_arguments(mcmc: MCMC) -> dict[str, Any]:
    """The arguments that an MCMC was run with, where its model is ``bke_model``."""
    model = mcmc.sampler.model
    arguments, keywords = mcmc._args, dict(mcmc._kwargs)
    while isinstance(model, functools.partial):
        arguments = (*model.args, *arguments)
        keywords = {**model.keywords, **keywords}
        model = model.func
    if model is not bke_model:
        return {}
    return inspect.signature(bke_model).bind_partial(*arguments, **keywords).arguments


def _values(
    posterior: xr.Dataset, target: Target, var_names: Mapping[str, str]
) -> dict[str, np.ndarray]:
    """The draws of every site, (chain, draw, ...), checked against its shape and support."""
    if unknown := sorted(set(var_names.values()) - set(target.sites)):
        raise InputError(
            f"var_names maps to {unknown[0]!r}, but the sites of the model are "
            f"{', '.join(target.sites)}"
        )
    if missing := sorted(set(var_names) - set(map(str, posterior.data_vars))):
        raise InputError(f"var_names has {missing[0]!r}, which the group posterior has not")
    variables = {site: name for name, site in var_names.items()}
    if len(variables) < len(var_names):
        raise InputError("var_names maps two variables to one site")
    values = {}
    for site, prior in target.sites.items():
        name = variables.get(site, site)
        if name not in posterior.data_vars:
            raise InputError(
                f"the draws have no {name!r}, only {', '.join(map(str, posterior.data_vars))}: "
                f"var_names={{'...': {site!r}}} says which variable it is"
            )
        variable = posterior[name]
        if not {"chain", "draw"} <= set(variable.dims):
            raise InputError(f"{name!r} has the dimensions {variable.dims}, not chain and draw")
        array = np.asarray(variable.transpose("chain", "draw", ...).values, dtype=float)
        shape = (*array.shape[:2], *prior.shape())
        if array.size != np.prod(shape) or array.size == 0:
            raise InputError(
                f"{name!r} has the shape {array.shape[2:]} for each draw, but the model's {site} "
                f"has {prior.shape()}"
            )
        array = array.reshape(shape)
        outside = ~np.asarray(prior.support(array))
        if not np.isfinite(array).all() or outside.any():
            raise InputError(f"{name!r} has draws that are not finite or outside of its prior")
        values[site] = array
    return values


def _spaced_indices(count: int) -> np.ndarray:
    """Return evenly spaced indices of at most :data:`COMPARED` of ``count`` draws."""
    return np.unique(np.linspace(0, count - 1, COMPARED).astype(int))


def _rounding(recorded: np.ndarray) -> float:
    """Return the rounding error of recorded log densities, which may be of single precision."""
    return 4.0 * float(np.finfo(recorded.dtype).eps * np.abs(recorded).max(initial=0.0))


def _log_density(
    target: Target,
    z: Mapping[str, np.ndarray],
    density: LogDensity,
    recorded: np.ndarray | None,
) -> np.ndarray:
    """The log density of every draw, (chain, draw), in the unconstrained coordinates.

    What the other program recorded is taken where it is the density up to a constant; NumPyro's is
    the potential energy, of the other sign, and emcee's the density of the hyperparameters
    themselves. Warns where it is none of these.
    """
    shape = next(iter(z.values())).shape[:2]
    flat = {name: free.reshape(-1, *free.shape[2:]) for name, free in z.items()}
    if recorded is not None and np.isfinite(recorded).all():
        indices = _spaced_indices(recorded.size)
        computed = _finite(density({name: free[indices] for name, free in flat.items()}))
        derivative = jax.vmap(lambda at: target.log_prior(at) - _log_prior_density(target, at))
        jacobian = np.asarray(derivative(flat)).reshape(shape)
        tolerance = TOLERANCE + _rounding(recorded)
        for signed in (recorded, -recorded, recorded + jacobian):
            constant = computed - signed.ravel()[indices]
            if np.ptp(constant) <= tolerance:
                return np.asarray(signed + np.median(constant))
        warnings.warn(
            "the log density that the draws were recorded with is not that of the given model up "
            "to a constant: they are of other data, of another model, or of one with further parts",
            PosteriorWarning,
            stacklevel=2,
        )
    return _finite(density(flat)).reshape(shape)


def _log_prior_density(target: Target, z: Mapping[str, Any]) -> jax.Array:
    return target.log_prior_density(target.constrain(z))


def _finite(lp: np.ndarray) -> np.ndarray:
    zero = ~np.isfinite(lp)
    if zero.any():
        raise InputError(
            f"the density is zero or not finite at {zero.sum()} of {zero.size} draws: they are of "
            "other data or of another model than X, kernel, prior, noise_variance and measure say"
        )
    return lp


def _statistics(tree: xr.DataTree, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """Statistics of the sampler, one number for each draw."""
    if "sample_stats" not in tree.children:
        return {}
    group = tree["sample_stats"].to_dataset()
    return {
        name: group[name].values
        for name in STATISTICS
        if name in group and group[name].dims == ("chain", "draw") and group[name].shape == shape
    }
