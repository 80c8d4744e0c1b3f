"""Log density of a NumPyro model and its gradient, the score, for unconstrained parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.new_rows import ordered_rows
from .draws import posterior_dataset

#: Suffix of the name of a site whose unconstrained value differs from its value.
UNCONSTRAINED = ", unconstrained"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Score:
    """Score function of a NumPyro model, see :func:`score_of`.

    Call it with unconstrained points (n, D) to compute the gradients (n, D) of the log density.

    Attributes:
        columns: names of the D unconstrained numbers, as in ArviZ; those that differ from the
            parameter itself end in ", unconstrained".
        shapes: shape of the unconstrained value of each sampled site.
    """

    columns: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    _gradient: Callable[[Any], Any]
    _log_density: Callable[[Any], Any]
    _unconstrain: Callable[[Any], Any]

    def unconstrained_notes(self) -> list[str]:
        """Return a note on the parameters that must be unconstrained in an array of draws."""
        transformed = [name for name in self.columns if UNCONSTRAINED in name]
        if not transformed:
            return []
        names = ", ".join(name.replace(UNCONSTRAINED, "") for name in transformed)
        return [
            f"the array is assumed to hold unconstrained values of {names}, such as logarithms of "
            "positive parameters; pass constrained draws as an ArviZ DataTree"
        ]

    def __call__(self, points: Any) -> np.ndarray:
        """Compute the gradients d log p / dx (n, D) at unconstrained points (n, D)."""
        return np.asarray(self._gradient(self._rows(points)), dtype=float)

    def log_density(self, points: Any) -> np.ndarray:
        """Compute the log joint density (n,) of parameters and data at unconstrained points."""
        return np.asarray(self._log_density(self._rows(points)), dtype=float)

    def _rows(self, points: Any) -> np.ndarray:
        rows = ordered_rows(points, self.columns, "points")
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise InputError(
                f"the model has {len(self.columns)} unconstrained numbers, but the draws have the "
                f"shape {rows.shape}: pass a tree of its draws"
            )
        return rows

    def __repr__(self) -> str:
        return f"<score of {', '.join(self.shapes)}: {len(self.columns)} unconstrained numbers>"

    def unconstrained(self, draws: xr.DataTree | xr.Dataset) -> np.ndarray:
        """Transform the draws of a posterior to unconstrained values (C, n, D).

        Raises:
            InputError: if draws of a site are missing, have another shape, or are outside of its
                support.
        """
        posterior = posterior_dataset(draws)
        sites = {}
        for name in self.shapes:
            if name not in posterior:
                raise InputError(f"the posterior has no draws of {name!r}, a site of the model")
            site = posterior[name].transpose("chain", "draw", ...)
            if site.dtype.kind not in "fiub":
                raise InputError(f"the draws of {name!r} are not numbers: {site.dtype}")
            sites[name] = np.asarray(site.values, dtype=float)
        try:
            values = np.asarray(self._unconstrain(sites), dtype=float)
        except (ValueError, TypeError) as error:
            raise InputError(f"the draws do not fit the model: {error}") from None
        invalid = np.argwhere(np.isnan(values))
        if len(invalid) and all(np.isfinite(site).all() for site in sites.values()):
            chain, draw, column = invalid[0]
            name = self.columns[column].replace(UNCONSTRAINED, "")
            raise InputError(
                f"{name} is outside of its support in chain {chain}, draw {draw} (counted from 0), "
                "such as a negative scale"
            )
        return values


def score_of(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Score:
    """Return the score function of a NumPyro model for its unconstrained parameters.

    The density includes the Jacobian of the transformation, as in NUTS. The precision is that of
    JAX when the score is called. It is not changed to 64 bits, because a model may depend on
    32-bit arrays.

    Args:
        model: a function of NumPyro whose unobserved sites are all continuous.
        *args: positional arguments of the model, such as the data.
        **kwargs: keyword arguments of the model.

    Raises:
        InputError: if the model cannot be evaluated, has discrete sites, or samples nothing.
    """
    import bke.models.measures  # noqa: F401  must be imported before NumPyro's modules
    import jax
    from jax.flatten_util import ravel_pytree
    from numpyro.infer.util import potential_energy, unconstrain_fn

    try:
        constrained, unconstrained = jax.jit(lambda: _draw_sites(model, args, kwargs))()
    except InputError:
        raise
    except Exception as error:  # the user's model may raise anything
        raise InputError(f"the model cannot be evaluated: {error}") from error
    _, unravel = ravel_pytree(unconstrained)
    shapes = {name: np.shape(value) for name, value in unconstrained.items()}

    def unconstrain(sites: Any) -> Any:
        def unconstrain_draw(values: Any) -> Any:
            result = unconstrain_fn(model, args, kwargs, values)
            return ravel_pytree({name: result[name] for name in shapes})[0]

        return jax.vmap(jax.vmap(unconstrain_draw))(sites)

    def log_density(point: Any) -> Any:
        return -potential_energy(model, args, kwargs, unravel(point))

    columns: list[str] = []
    for name in sorted(shapes):  # the order in which JAX ravels a dictionary
        value, free = np.asarray(constrained[name]), np.asarray(unconstrained[name])
        label = name if np.array_equal(free, value) else f"{name}{UNCONSTRAINED}"
        for index in np.ndindex(shapes[name]):
            columns.append(f"{label}[{', '.join(map(str, index))}]" if index else label)
    gradient, log_densities = (jax.jit(jax.vmap(f)) for f in (jax.grad(log_density), log_density))
    return Score(tuple(columns), shapes, gradient, log_densities, jax.jit(unconstrain))


def _draw_sites(model: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Draw each unobserved site, and return constrained and unconstrained values."""
    from numpyro.distributions import biject_to
    from numpyro.handlers import seed, trace

    sites = {
        name: site
        for name, site in trace(seed(model, 0)).get_trace(*args, **kwargs).items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    if discrete := [name for name, site in sites.items() if site["fn"].support.is_discrete]:
        raise InputError(
            f"the model has discrete sites, which have no score: {', '.join(discrete)}"
        )
    if not sites:
        raise InputError("the model has no unobserved sites")
    values = {name: site["value"] for name, site in sites.items()}
    unconstrained = {
        name: biject_to(site["fn"].support).inv(values[name]) for name, site in sites.items()
    }
    return values, unconstrained
