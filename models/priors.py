"""Priors of the parameters of a kernel: names of the random sites, and checks."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np
import numpyro.distributions as dist

from .kernels.base import Kernel, invalid_kernel_message
from .kernels.covariance import FieldUnit, is_static, unit_of
from .kernels.scikit_learn import as_differentiable_kernel
from .kernels.squared_exponential import mixture_size
from .linalg.pytrees import has_ambiguous_structure
from .measures import check_parameters, check_positive_prior, lower_bound

Prior: TypeAlias = dist.Distribution | Mapping[str, dist.Distribution]
Path: TypeAlias = tuple[str, ...]


def default_prior() -> dist.Distribution:
    """Return Gamma(1, 1), the prior of BKE section 5 on the lengthscale."""
    return dist.Gamma(1.0, 1.0)


def template(kernel: Kernel | type[Kernel]) -> Kernel:
    """Return an instance of ``kernel``, or of a class whose parameters all have defaults.

    Raises:
        ValueError: for a class with other parameters, an unregistered dataclass, or anything else
            than a kernel.
    """
    kernel = as_differentiable_kernel(kernel)
    if inspect.isclass(kernel) and issubclass(kernel, Kernel):
        cls = kernel
        try:
            kernel = cls()
        except TypeError as error:
            raise ValueError(
                f"kernel {cls.__name__} needs parameters: give an instance ({error})"
            ) from None
    if not isinstance(kernel, Kernel):
        raise ValueError(
            invalid_kernel_message(kernel, "a kernel (bke.models.Kernel) or its class")
        )
    name = type(kernel).__name__
    if not dataclasses.is_dataclass(kernel) or jax.tree_util.all_leaves([kernel]):
        raise ValueError(
            f"the class {name} must be decorated with @register_dataclass above "
            "@dataclasses.dataclass(frozen=True)"
        )
    if has_ambiguous_structure(kernel):
        warnings.warn(
            f"the class {name} is registered by jax.tree_util.register_dataclass, with which this "
            "release of JAX may run the program of another class with like fields: register it by "
            "bke.models.register_dataclass",
            stacklevel=3,
        )
    return kernel


@dataclasses.dataclass(frozen=True)
class Site:
    """A parameter of a kernel that could be random.

    Args:
        path: names of the fields that lead from the kernel to the component with the parameter.
        field: the parameter's field.
    """

    path: Path
    field: dataclasses.Field[Any]

    @property
    def name(self) -> str:
        """Name of the field."""
        return self.field.name

    @property
    def unit(self) -> FieldUnit:
        """Unit of the parameter."""
        return unit_of(self.field)

    @property
    def per_component(self) -> bool:
        """True if the first axis runs over the components of a mixture."""
        return bool(self.field.metadata.get("per_component"))

    def part(self, kernel: Kernel) -> Kernel:
        """Return the component of ``kernel`` with the parameter."""
        component: Kernel = functools.reduce(getattr, self.path, kernel)
        return component

    def value(self, kernel: Kernel) -> Any:
        """Return the value in ``kernel``."""
        return getattr(self.part(kernel), self.name)


def _parameters(kernel: Kernel, path: Path = ()) -> Iterator[Site]:
    """Iterate over the parameters that could be random."""
    for field in dataclasses.fields(kernel):  # type: ignore[arg-type]
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            yield from _parameters(value, (*path, field.name))
        elif not is_static(field):
            yield Site(path, field)


def sites(kernel: Kernel) -> dict[str, Site]:
    """Return the parameters by site: the field's name, numbered where it occurs more than once."""
    parameters = list(_parameters(kernel))
    names = [parameter.name for parameter in parameters]
    return {
        f"{name}_{names[:i].count(name)}" if names.count(name) > 1 else name: parameters[i]
        for i, name in enumerate(names)
    }


def num_components(kernel: Kernel) -> int:
    """Return the number of components of a mixture kernel."""
    fields = (site for site in _parameters(kernel) if not site.path and site.per_component)
    return mixture_size(*(site.value(kernel) for site in fields))


def assign(prior: Prior | None, kernel: Kernel) -> dict[str, dist.Distribution]:
    """Return the prior of every random site.

    Args:
        prior: one distribution, for every length; or one per site name, the rest staying at the
            kernel's values; ``None`` is :func:`default_prior` for every length. Unless priors are
            given by name, a field with a prior in its definition (see
            :func:`~bke.models.parameter`) is random with that, except a length with ``prior`` a
            distribution. A prior of a number is repeated independently where the template's
            parameter is a vector.
        kernel: the template.

    Raises:
        ValueError: naming the site, where it does not exist or its prior is not positive.
    """
    available = sites(kernel)
    if prior is None or isinstance(prior, dist.Distribution):
        chosen = _by_default(prior, available, kernel)
    elif isinstance(prior, Mapping):
        chosen = dict(prior)
    else:
        raise ValueError(f"prior must be a NumPyro distribution or a dict of them, got {prior!r}")
    if not chosen:
        raise ValueError("prior is empty: name at least one site of " + ", ".join(available))
    for site, distribution in chosen.items():
        if site not in available:
            raise ValueError(f"prior names {site!r}, but the kernel has {sorted(available)}")
        if not isinstance(distribution, dist.Distribution):
            raise ValueError(f"prior of {site!r} must be a NumPyro distribution")
        shape = np.shape(value) if (value := available[site].value(kernel)) is not None else ()
        if shape and distribution.shape() == ():  # one prior for each entry of a vector
            chosen[site] = distribution.expand(shape)
        check_parameters(chosen[site], f"prior of {site!r}")
        if available[site].unit == "length":
            check_positive_prior(chosen[site], site)
    return chosen


def _by_default(
    prior: dist.Distribution | None, available: Mapping[str, Site], kernel: Kernel
) -> dict[str, dist.Distribution]:
    """Return ``prior`` for every length, and the priors in the definitions of fields."""
    defined = {
        name: distribution
        for name, site in available.items()
        if (distribution := site.field.metadata.get("prior"))
    }
    lengths = [name for name, site in available.items() if site.unit == "length"]
    if not lengths and (not defined or prior is not None):
        raise ValueError(
            f"{type(kernel).__name__} has no lengthscale: say which of {sorted(available)} is a "
            "length (units of kernel_from_function, or of a field by parameter), or give a prior "
            "by name, prior={site: distribution}"
        )
    if prior is None:
        return dict.fromkeys(lengths, default_prior()) | defined
    return defined | dict.fromkeys(lengths, prior)


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
    """Return ``kernel`` with the parameters of the named sites replaced."""
    available = sites(kernel)
    for site, value in values.items():
        kernel = _replace(kernel, available[site].path, available[site].name, value)
    return kernel


def _replace(kernel: Kernel, path: Path, name: str, value: Any) -> Kernel:
    if path:
        name, value = path[0], _replace(getattr(kernel, path[0]), path[1:], name, value)
    return dataclasses.replace(kernel, **{name: value})  # type: ignore[type-var]
