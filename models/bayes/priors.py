"""Which parameters of a kernel are random, under which names, with which priors."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import numpyro.distributions as dist

from ..kernels.base import Kernel
from ..kernels.gaussian import GaussianMixture, mixture_size
from ..kernels.spectral_mixture import SpectralMixture
from ..measures.distributions import check_parameters, lower_bound

Prior: TypeAlias = dist.Distribution | Mapping[str, dist.Distribution]
Path: TypeAlias = tuple[str, ...]


def default_prior() -> dist.Distribution:
    """Gamma(1, 1), the prior of BKE section 5 on the lengthscale."""
    return dist.Gamma(1.0, 1.0)


def template(kernel: Kernel | type[Kernel]) -> Kernel:
    """An instance of ``kernel``, which may be a class whose parameters all have defaults."""
    if isinstance(kernel, Kernel):
        return kernel
    if inspect.isclass(kernel) and issubclass(kernel, Kernel):
        try:
            return kernel()
        except TypeError as error:
            raise ValueError(
                f"kernel {kernel.__name__} needs parameters: give an instance ({error})"
            ) from None
    raise ValueError(f"kernel must be a kernel or a kernel class, got {kernel!r}")


def _parameters(kernel: Kernel, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every parameter that could be random, as (path of its kernel, field name)."""
    for field in dataclasses.fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            yield from _parameters(value, (*path, field.name))
        elif not field.metadata.get("static"):
            yield path, field.name


def sites(kernel: Kernel) -> dict[str, tuple[Path, str]]:
    """Site name of every parameter: the field's name, numbered where it occurs more than once."""
    parameters = list(_parameters(kernel))
    names = [name for _, name in parameters]
    numbered: dict[str, tuple[Path, str]] = {}
    for path, name in parameters:
        earlier = sum(site.rsplit("_", 1)[0] == name for site in numbered)
        numbered[f"{name}_{earlier}" if names.count(name) > 1 else name] = (path, name)
    return numbered


def has_components(kernel: Kernel, site: str) -> bool:
    """Whether the first axis of the parameter at ``site`` runs over components of a mixture."""
    path, _ = sites(kernel)[site]
    for name in path:
        kernel = getattr(kernel, name)
    return isinstance(kernel, (GaussianMixture, SpectralMixture))


def components_of(kernel: Kernel) -> int:
    """How many components a mixture kernel has."""
    parameters = ("weights", "lengthscale", "frequency")
    return mixture_size(*(getattr(kernel, name, None) for name in parameters))


def assign(prior: Prior | None, kernel: Kernel) -> dict[str, dist.Distribution]:
    """The prior of every random site.

    Args:
        prior: one distribution, for every lengthscale; or one per site name, the rest staying at
            the kernel's values; ``None`` is :func:`default_prior`. A prior of a number is repeated
            independently where the template's parameter is a vector.
        kernel: the template.

    Raises:
        ValueError: naming the site, where there is no such one or its prior is not positive.
    """
    available = sites(kernel)
    if prior is None or isinstance(prior, dist.Distribution):
        lengthscales = [site for site in available if available[site][1] == "lengthscale"]
        if not lengthscales:
            raise ValueError(
                f"{type(kernel).__name__} has no lengthscale: give prior={{site: distribution}} "
                f"with a site of {sorted(available)}"
            )
        shared = default_prior() if prior is None else prior
        chosen = dict.fromkeys(lengthscales, shared)
    elif isinstance(prior, Mapping):
        chosen = dict(prior)
    else:
        raise ValueError(f"prior must be a NumPyro distribution or a dict of them, got {prior!r}")
    chosen = {
        site: distribution.expand(shape)
        if (shape := _template_shape(kernel, available.get(site)))
        and isinstance(distribution, dist.Distribution)
        and distribution.shape() == ()
        else distribution
        for site, distribution in chosen.items()
    }
    if not chosen:
        raise ValueError("prior is empty: name at least one site of " + ", ".join(available))
    for site, distribution in chosen.items():
        if site not in available:
            raise ValueError(f"prior names {site!r}, but the kernel has {sorted(available)}")
        if not isinstance(distribution, dist.Distribution):
            raise ValueError(f"prior of {site!r} must be a NumPyro distribution")
        check_parameters(distribution, f"prior of {site!r}")
        if available[site][1] == "lengthscale" and len(distribution.shape()) > 1:
            raise ValueError(
                f"prior of {site!r} must be over a number or a vector, got "
                f"{type(distribution).__name__} of shape {distribution.shape()}"
            )
        bound = lower_bound(distribution)
        if available[site][1] == "lengthscale" and (bound is None or bound < 0.0):
            raise ValueError(
                f"prior of {site!r} must have positive support, got {type(distribution).__name__}"
            )
    return chosen


def _template_shape(kernel: Kernel, where: tuple[Path, str] | None) -> tuple[int, ...]:
    """Shape of a parameter of the template: a vector there keeps its entries apart."""
    if where is None:
        return ()
    path, name = where
    for step in path:
        kernel = getattr(kernel, step)
    value = getattr(kernel, name)
    return () if value is None else np.shape(value)


def check_noise_prior(distribution: dist.Distribution) -> None:
    """Refuse a prior on sigma^2 that reaches zero, where BKE (13) grows without bound."""
    check_parameters(distribution, "prior of 'noise_variance'")
    if distribution.shape() != ():
        raise ValueError(
            f"prior of 'noise_variance' must be over one number, got shape {distribution.shape()}"
        )
    bound = lower_bound(distribution)
    if bound is None or not bound > 0.0:
        raise ValueError(
            "a prior on noise_variance must be bounded away from zero, such as "
            "Uniform(0.01, 1): mu_hat is smooth, so the marginal likelihood grows without bound "
            f"as noise_variance goes to 0 at every lengthscale; got {type(distribution).__name__}"
        )


def with_values(kernel: Kernel, values: Mapping[str, Any]) -> Kernel:
    """``kernel`` with the parameters of the named sites replaced."""
    available = sites(kernel)
    for site, value in values.items():
        path, name = available[site]
        kernel = _replace(kernel, path, name, value)
    return kernel


def _replace(kernel: Kernel, path: Path, name: str, value: Any) -> Kernel:
    if path:
        name, value = path[0], _replace(getattr(kernel, path[0]), path[1:], name, value)
    return dataclasses.replace(kernel, **{name: value})  # type: ignore[type-var]
