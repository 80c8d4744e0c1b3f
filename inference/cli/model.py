"""The model and the sampler that the options of ``bke run`` and ``bke fit`` describe."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

import typer

from ..core.errors import InputError, input_errors, nearest
from ..data.checks import Standardize, check_positive
from ..sampling.samplers import SAMPLERS, Auto, MethodName, Nuts, Quadrature, Sampler, Smc
from .inputs import read_landmarks
from .options import KERNELS, Depends, find_local_modules, number_or_word, option

if TYPE_CHECKING:
    from bke.models.kernels.base import Kernel

#: Names of sampling covariances.
NOISES = ("clt", "heteroscedastic")
#: Fields of samplers that an option sets.
FIELDS = {
    "chains": ("num_chains", "num_repeats"),
    "warmup": ("num_warmup",),
    "draws": ("num_samples",),
}
S = TypeVar("S", bound=Sampler)


def _check_kernel(name: str) -> str:
    if name not in KERNELS and ":" not in name:
        raise typer.BadParameter(
            f"{name!r} is not one of {', '.join(map(repr, KERNELS))} or MODULE:CLASS"
            f"{nearest(name, KERNELS) or '.'}"
        )
    return name


@dataclasses.dataclass
class ModelOptions:
    """Options of the model and of its sampler.

    Raises:
        InputError: a number is not positive, or an option is for another likelihood.
        BadParameter: the noise is neither a number nor a name.
    """

    kernel: Annotated[
        str,
        option(
            "NAME",
            "se, matern12, matern32, matern52, laplace, rq, or MODULE:CLASS of your own.",
            callback=_check_kernel,
        ),
    ] = "se"
    ard: Annotated[bool, typer.Option("--ard", help="One lengthscale per column.")] = False
    prior_shape: Annotated[float, typer.Option(help="Shape of the Gamma prior.")] = 1.0
    prior_rate: Annotated[float, typer.Option(help="Rate of the Gamma prior.")] = 1.0
    noise_variance: Annotated[str, option("NUMBER|clt", "Noise of the embedding, or clt.")] = "0.1"
    likelihood: Annotated[
        Literal["auto", "dense", "spectral", "landmark"],
        option("NAME", "auto, dense, spectral or landmark."),
    ] = "auto"
    landmarks: Annotated[
        str | None, option("COUNT|FILE", "Of landmark. Default: 64, or a quarter of the rows.")
    ] = None
    standardize: Annotated[
        Literal[Standardize, "none"] | None,
        option("NAME", "Unit of the prior: column, pooled or none."),
    ] = None
    method: Annotated[MethodName | None, option("NAME", "auto, nuts, quadrature or smc.")] = None
    chains: Annotated[
        int | None,
        typer.Option(help=f"Chains of nuts, or repeats of smc. Default: {Nuts.num_chains}."),
    ] = None
    warmup: Annotated[
        int | None, typer.Option(help=f"Warmup of a chain. Default: {Nuts.num_warmup}.")
    ] = None
    draws: Annotated[
        int | None, typer.Option(help=f"Draws of a chain. Default: {Nuts.num_samples}.")
    ] = None

    def __post_init__(self) -> None:
        check_positive(self.prior_shape, "--prior-shape")
        check_positive(self.prior_rate, "--prior-rate")
        self.noise = number_or_word(self.noise_variance, "--noise-variance", NOISES)
        if self.landmarks is not None and self.likelihood != "landmark":
            raise InputError(f"--landmarks is for --likelihood landmark, not for {self.likelihood}")

    def fit_arguments(
        self,
        names: Sequence[str],
        columns: Sequence[str] | None = None,
        *,
        sampler: Sampler | None = None,
        standardize: Literal[Standardize, "none"] = "column",
    ) -> dict[str, Any]:
        """Return the keyword arguments of :func:`~bke.inference.fit`.

        A kernel of the user's own keeps its own prior, unless another is given.

        Args:
            names: columns of the samples.
            columns: columns to read from a file of landmarks; ``None``: all.
            sampler: the default, with its own numbers; ``None``: ``"auto"``.
            standardize: the default.

        Raises:
            InputError: the kernel, the landmarks or a number of the sampler is invalid.
        """
        import numpyro.distributions as dist
        from bke.models.likelihood.marginal import LIKELIHOODS

        landmarks = read_landmarks(self.landmarks, columns, names)
        likelihood: Any = self.likelihood
        if landmarks is not None:
            with input_errors():
                likelihood = LIKELIHOODS["landmark"](landmarks=landmarks)  # type: ignore[call-arg]
        prior: Any = dist.Gamma(self.prior_shape, self.prior_rate)
        if self.ard and len(names) > 1:
            prior = prior.expand([len(names)])
        is_default_prior = not self.ard and self.prior_shape == self.prior_rate == 1.0
        if self.kernel not in KERNELS and is_default_prior:
            prior = None
        unit = self.standardize or standardize
        return {
            "kernel": self.build_kernel(),
            "prior": prior,
            "noise_variance": self.noise,
            "likelihood": likelihood,
            "standardize": None if unit == "none" else unit,
            "method": self.build_sampler(sampler),
        }

    def build_kernel(self) -> Kernel:
        """Build the kernel that ``--kernel`` names, one of bke or ``MODULE:CLASS``.

        Raises:
            InputError: there is no such module or class, or it is no kernel.
        """
        import bke.models as models
        from bke.models.priors import template

        if self.kernel in KERNELS:
            class_name, parameters = KERNELS[self.kernel]
            kernel: Kernel = getattr(models, class_name)(**parameters)
            return kernel
        try:
            return template(models.kernel_from_path(find_local_modules(self.kernel)))
        except ValueError as error:
            raise InputError(f"--kernel {self.kernel}: {error}") from None

    def build_sampler(self, default: Sampler | None = None) -> Sampler | Auto:
        """Build the sampler with the numbers of the options.

        Args:
            default: with its own numbers; ``None``: ``"auto"``.

        Raises:
            InputError: a number is invalid, or is of another method.
        """
        name = self.method or ("auto" if default is None else default.name)
        numbers = {key: value for key in FIELDS if (value := getattr(self, key)) is not None}
        for key in numbers:
            methods = [method for method, cls in SAMPLERS.items() if _field(cls, key)]
            if not {*methods} & ({"quadrature", "smc"} if name == "auto" else {name}):
                raise InputError(
                    f"--{key} is for --method {' or '.join(methods)}, and the method is {name} here"
                )
        if name == "auto":
            return Auto(_replace(Quadrature(), numbers), _replace(Smc(), numbers))
        sampler_class = SAMPLERS[name]
        sampler = default if isinstance(default, sampler_class) else sampler_class()
        return _replace(sampler, numbers)


Model: TypeAlias = Annotated[ModelOptions, Depends(ModelOptions)]


def _field(sampler_class: type[Sampler], key: str) -> str | None:
    return next((name for name in FIELDS[key] if hasattr(sampler_class, name)), None)


def _replace(sampler: S, numbers: dict[str, int]) -> S:
    options = {name: key for key in numbers if (name := _field(type(sampler), key))}
    try:
        return dataclasses.replace(sampler, **{name: numbers[key] for name, key in options.items()})
    except InputError as error:
        name, _, rest = str(error).partition(" ")
        raise InputError(f"--{options[name]} {rest}" if name in options else str(error)) from None
