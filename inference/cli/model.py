"""The model and the sampler that the options of ``bke run`` and ``bke fit`` describe."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import InputError, input_errors
from ..data.checks import Standardize, check_positive
from ..sampling.samplers import SAMPLERS, Auto, Quadrature, Sampler, Smc
from .options import KERNELS, NOISES, find_modules_here, number_or_word

if TYPE_CHECKING:
    import numpy as np
    from bke.models.kernels.base import Kernel

#: Fields of samplers that an option sets.
FIELDS = {
    "chains": ("num_chains", "num_repeats"),
    "warmup": ("num_warmup",),
    "draws": ("num_samples",),
}
S = TypeVar("S", bound=Sampler)


def build_kernel(name: str) -> Kernel:
    """The kernel that ``--kernel`` names, one of ours or ``MODULE:CLASS``.

    Raises:
        InputError: there is no such module or class, or it is no kernel.
    """
    import bke.models as models
    from bke.models.priors import template

    if name in KERNELS:
        kind, parameters = KERNELS[name]
        kernel: Kernel = getattr(models, kind)(**parameters)
        return kernel
    try:
        return template(models.kernel_from_path(find_modules_here(name)))
    except ValueError as error:
        raise InputError(f"--kernel {name}: {error}") from None


def model_arguments(
    dimension: int,
    *,
    kernel: str,
    ard: bool,
    prior_shape: float,
    prior_rate: float,
    noise_variance: str,
    likelihood: str,
    landmarks: int | np.ndarray | None,
    standardize: str | None,
) -> dict[str, Any]:
    """Keyword arguments of :func:`~bke.inference.fit`.

    A kernel of the user's own keeps its own prior, unless another is asked for.

    Args:
        dimension: number of columns.
        kernel: of :func:`build_kernel`.
        ard: whether every column has a lengthscale of its own.
        prior_shape: of the Gamma prior of a lengthscale.
        prior_rate: of the same.
        noise_variance: a number, or the name of a sampling covariance.
        likelihood: its name.
        landmarks: their number or places (m, D); ``None``: the default of the likelihood.
        standardize: unit of the prior; ``None``: every column's standard deviation.

    Raises:
        InputError: a number makes no sense, or an option is for another likelihood.
    """
    import numpyro.distributions as dist
    from bke.models.likelihood.marginal import LIKELIHOODS

    check_positive(prior_shape, "--prior-shape")
    check_positive(prior_rate, "--prior-rate")
    noise = number_or_word(noise_variance, NOISES)
    if not isinstance(noise, str):
        check_positive(noise, "--noise-variance")
    if landmarks is not None and likelihood != "landmark":
        raise InputError(f"--landmarks is for --likelihood landmark, not for {likelihood}")
    prior: Any = dist.Gamma(prior_shape, prior_rate)
    if ard and dimension > 1:
        prior = prior.expand([dimension])
    if kernel not in KERNELS and not ard and (prior_shape, prior_rate) == (1.0, 1.0):
        prior = None
    with input_errors():
        kind: Any = LIKELIHOODS["landmark"]
        chosen = None if landmarks is None else kind(landmarks=landmarks)
    unit: Standardize | None = None if standardize == "none" else standardize or "column"  # type: ignore[assignment]
    return {
        "kernel": build_kernel(kernel),
        "prior": prior,
        "noise_variance": noise,
        "likelihood": chosen or likelihood,
        "standardize": unit,
    }


def build_sampler(
    method: str | None, default: Sampler | None = None, **numbers: int | None
) -> Sampler | Auto:
    """The sampler with the numbers that were given.

    Args:
        method: its name; ``None``: the default.
        default: with its own numbers; ``None``: ``"auto"``.
        **numbers: keys of :data:`FIELDS`; ``None``: not given.

    Raises:
        InputError: a number is invalid, or is of another method.
    """
    name = method or ("auto" if default is None else default.name)
    given = {option: value for option, value in numbers.items() if value is not None}
    kinds = (Quadrature, Smc) if name == "auto" else (SAMPLERS[name],)
    for option in given:
        if not any(_field(kind, option) for kind in kinds):
            ways = " or ".join(way for way, kind in SAMPLERS.items() if _field(kind, option))
            raise InputError(f"--{option} is for --method {ways}, and the method is {name} here")
    if name == "auto":
        return Auto(_replaced(Quadrature(), given), _replaced(Smc(), given))
    kind = SAMPLERS[name]
    return _replaced(default if isinstance(default, kind) else kind(), given)


def _field(kind: type[Sampler], option: str) -> str | None:
    names = {field.name for field in dataclasses.fields(kind)}
    return next((name for name in FIELDS[option] if name in names), None)


def _replaced(sampler: S, given: dict[str, int]) -> S:
    fields = {name: option for option in given if (name := _field(type(sampler), option))}
    try:
        return dataclasses.replace(sampler, **{name: given[o] for name, o in fields.items()})
    except InputError as error:
        first, _, rest = str(error).partition(" ")
        raise InputError(f"--{fields[first]} {rest}" if first in fields else str(error)) from None
