"""The log density of a NumPyro model and its slope, the score, where nothing is constrained."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.new_rows import ordered_rows
from .draws import posterior_of

#: After the name of a number that is not the parameter itself.
UNCONSTRAINED = ", unconstrained"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Score:
    """What :func:`score_of` returns: call it with points (n, D) for the slopes (n, D) there.

    Attributes:
        columns: names of the D numbers, as ArviZ writes them; those that are not the parameter
            itself say so.
        shapes: of every site that is drawn, where nothing is constrained.
    """

    columns: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    _slope: Callable[[Any], Any]
    _log_density: Callable[[Any], Any]
    _unconstrain: Callable[[Any], Any]

    def taken_as_unconstrained(self) -> list[str]:
        """A note of parameters that an array of draws must have where nothing is constrained."""
        moved = [name for name in self.columns if UNCONSTRAINED in name]
        if not moved:
            return []
        names = ", ".join(name.replace(UNCONSTRAINED, "") for name in moved)
        return [
            f"the array is taken for unconstrained draws, of {names} too (logarithms of what is "
            "positive): draws as they are belong into a tree of ArviZ's"
        ]

    def __call__(self, points: Any) -> np.ndarray:
        """The slopes d log p / dx (n, D) at unconstrained points (n, D)."""
        return np.asarray(self._slope(self._rows(points)), dtype=float)

    def log_density(self, points: Any) -> np.ndarray:
        """The log density (n,) at unconstrained points (n, D), up to no constant."""
        return np.asarray(self._log_density(self._rows(points)), dtype=float)

    def _rows(self, points: Any) -> np.ndarray:
        rows = ordered_rows(points, self.columns, "points")
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise InputError(
                f"the model has {len(self.columns)} unconstrained numbers, and the draws have "
                f"shape {rows.shape}: give a tree of its draws"
            )
        return rows

    def __repr__(self) -> str:
        return f"<score of {', '.join(self.shapes)}: {len(self.columns)} unconstrained numbers>"

    def unconstrained(self, draws: xr.DataTree | xr.Dataset) -> np.ndarray:
        """The draws of a posterior where nothing is constrained, (C, n, D).

        Raises:
            InputError: a site of the model has no draws there, or draws of another shape.
        """
        posterior = posterior_of(draws)
        sites = {}
        for name in self.shapes:
            if name not in posterior:
                raise InputError(f"the posterior has no draws of {name!r}, a site of the model")
            site = posterior[name].transpose("chain", "draw", ...)
            if site.dtype.kind not in "fiub":
                raise InputError(f"the draws of {name!r} are no numbers: {site.dtype}")
            sites[name] = np.asarray(site.values, dtype=float)
        try:
            found = np.asarray(self._unconstrain(sites), dtype=float)
        except (ValueError, TypeError) as error:
            raise InputError(f"the draws do not fit the model: {error}") from None
        outside = np.argwhere(np.isnan(found))
        if len(outside) and all(np.isfinite(values).all() for values in sites.values()):
            chain, draw, column = outside[0]
            name = self.columns[column].replace(UNCONSTRAINED, "")
            raise InputError(
                f"{name} is where the model cannot be in chain {chain}, draw {draw} (counted from "
                "0), such as a scale below zero"
            )
        return found


def score_of(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Score:
    """The score of a NumPyro model given its arguments, where nothing is constrained.

    The density is that of the unconstrained numbers that samplers go through, with the volume that
    the transformations add; the same whose slope NUTS follows, and as precise as JAX is set to: a
    model may close over arrays that JAX has seen in 32 bits and would not take in 64.

    Args:
        model: a function of NumPyro's, all of whose unobserved sites are continuous.
        *args: of the model, such as the data.
        **kwargs: likewise.

    Raises:
        InputError: the model cannot be evaluated, or has discrete sites.
    """
    import bke.models.measures  # noqa: F401  before modules of NumPyro, whose import it completes
    import jax
    from jax.flatten_util import ravel_pytree
    from numpyro.infer.util import potential_energy, unconstrain_fn

    try:
        drawn, free = jax.jit(lambda: _drawn(model, args, kwargs))()
    except InputError:
        raise
    except Exception as error:  # whatever the user's model raises
        raise InputError(f"the model cannot be evaluated: {error}") from error
    _, back = ravel_pytree(free)
    shapes = {name: np.shape(value) for name, value in free.items()}

    def unconstrain(sites: Any) -> Any:
        def one(values: Any) -> Any:
            found = unconstrain_fn(model, args, kwargs, values)
            return ravel_pytree({name: found[name] for name in shapes})[0]

        return jax.vmap(jax.vmap(one))(sites)

    def log_density(point: Any) -> Any:
        return -potential_energy(model, args, kwargs, back(point))

    moved = [name for name in shapes if not _alike(free[name], drawn[name])]
    slope, log_density = (jax.jit(jax.vmap(one)) for one in (jax.grad(log_density), log_density))
    return Score(_columns(shapes, moved), shapes, slope, log_density, jax.jit(unconstrain))


def _drawn(model: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any]:
    """A draw of every unobserved site, as it is and where nothing is constrained."""
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
        raise InputError("the model draws nothing")
    drawn = {name: site["value"] for name, site in sites.items()}
    free = {name: biject_to(site["fn"].support).inv(drawn[name]) for name, site in sites.items()}
    return drawn, free


def _alike(free: Any, drawn: Any) -> bool:
    return np.shape(free) == np.shape(drawn) and bool(np.all(np.asarray(free) == np.asarray(drawn)))


def _columns(shapes: Mapping[str, tuple[int, ...]], moved: Sequence[str]) -> tuple[str, ...]:
    """Names of all numbers, in the order in which JAX ravels a dictionary: by its keys."""
    found: list[str] = []
    for name in sorted(shapes):
        told = f"{name}{UNCONSTRAINED}" if name in moved else name
        for index in np.ndindex(shapes[name]):
            found.append(f"{told}[{', '.join(map(str, index))}]" if index else told)
    return tuple(found)
