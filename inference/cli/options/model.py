"""The model: kernel, prior, noise, likelihood, and the units in which they are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from ...core.errors import nearest
from .panels import MODEL

if TYPE_CHECKING:
    from bke.models.kernels.base import Kernel

import dataclasses
from typing import TYPE_CHECKING, Any, Literal

from ...core.errors import InputError, input_errors
from ...data.checks import Samples, Standardize, check_positive
from ..words import find_modules_here, misplaced, parse_dither, parse_noise_variance

if TYPE_CHECKING:
    import numpy as np
    import numpyro.distributions as dist
    from bke.models.likelihood.base import Likelihood

#: Each name's class in bke.models and the parameters it is built with.
KERNELS: dict[str, tuple[str, dict[str, float]]] = {
    "se": ("SquaredExponential", {}),
    "matern12": ("Matern", {"nu": 0.5}),
    "matern32": ("Matern", {"nu": 1.5}),
    "matern52": ("Matern", {"nu": 2.5}),
    "laplace": ("Laplace", {}),
    "rq": ("RationalQuadratic", {}),
}
#: What ``--kernel`` takes.
KERNEL_METAVAR = "NAME|MODULE:CLASS"

KernelOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar=KERNEL_METAVAR,
        rich_help_panel=MODEL,
        help="Kernel: se, the squared exponential; matern12, matern32 and matern52, Matérn of "
        "smoothness 1/2, 3/2 and 5/2; laplace; rq, the rational quadratic (alpha 1); or a class of "
        "your own, by the module that it is in.",
    ),
]


def check_kernel(text: str, option: str) -> str:
    """Return ``text`` if it may name a kernel.

    Raises:
        BadParameter: it is no short name, and no MODULE:CLASS.
    """
    if text not in KERNELS and ":" not in text:
        raise typer.BadParameter(
            f"{text!r} is not one of {', '.join(map(repr, KERNELS))} or MODULE:CLASS"
            f"{nearest(text, KERNELS) or '.'}",
            param_hint=option,
        )
    return text


def build_kernel(text: str) -> Kernel:
    """The kernel that ``--kernel`` names.

    Raises:
        InputError: there is no such module or class, or it is no kernel.
    """
    import bke.models as models

    if text not in KERNELS:
        return own_kernel(find_modules_here(text))
    name, parameters = KERNELS[text]
    kernel: Kernel = getattr(models, name)(**parameters)
    return kernel


def own_kernel(path: str) -> Kernel:
    """A kernel of the user's, from ``module:name``; its parameters have defaults.

    Raises:
        InputError: one sentence that names the module or what is missing there.
    """
    from bke.models import kernel_from_path
    from bke.models.priors import template

    from ...core.errors import InputError

    try:
        return template(kernel_from_path(path))
    except ValueError as error:
        raise InputError(f"--kernel {path}: {error}") from None


LikelihoodName: TypeAlias = Literal["auto", "dense", "spectral", "nystrom", "fourier", "landmark"]
MeasureName: TypeAlias = Literal["unit", "lebesgue"]
StandardizeName: TypeAlias = Literal[Standardize, "none"]

StandardizeOption: TypeAlias = Annotated[
    StandardizeName | None,
    typer.Option(
        "--standardize",
        rich_help_panel=MODEL,
        show_default="column; none for the built-in data",
        help="Unit of the prior: the standard deviation of each column, one for all columns, or "
        "none (the units of the data).",
    ),
]
MeasureOption: TypeAlias = Annotated[
    MeasureName,
    typer.Option("--measure", rich_help_panel=MODEL, help="Measure of the smoothed kernel."),
]


def distance_standardize(panel: str) -> Any:
    """``--standardize`` where it is the unit of distances, not of a prior."""
    return typer.Option(
        "--standardize",
        rich_help_panel=panel,
        help="Divide each column by its standard deviation before distances are taken.",
    )


def standardize_argument(name: StandardizeName | None) -> Standardize | None:
    """What the functions take: none is ``None``, and what is not given the columns' own."""
    return None if name == "none" else name or "column"


@dataclasses.dataclass(frozen=True, kw_only=True)
class GammaOptions:
    """The prior of a lengthscale."""

    prior_shape: Annotated[
        float,
        typer.Option(
            "--prior-shape",
            rich_help_panel=MODEL,
            help="Shape of the Gamma prior of a lengthscale.",
        ),
    ] = 1.0
    prior_rate: Annotated[
        float,
        typer.Option(
            "--prior-rate", rich_help_panel=MODEL, help="Rate of the Gamma prior of a lengthscale."
        ),
    ] = 1.0

    def build(self) -> dist.Gamma:
        """Gamma(shape, rate).

        Raises:
            InputError: a number that makes no sense.
        """
        self.check()
        import numpyro.distributions as dist

        return dist.Gamma(self.prior_shape, self.prior_rate)

    def check(self) -> None:
        """Raise ``InputError`` for numbers that make no sense, before anything is read."""
        check_positive(self.prior_shape, "--prior-shape")
        check_positive(self.prior_rate, "--prior-rate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class PriorOptions:
    """What is believed of the lengthscales, the noise and the measure."""

    ard: Annotated[
        bool, typer.Option("--ard", rich_help_panel=MODEL, help="One lengthscale per column.")
    ] = False
    gamma: GammaOptions
    noise_variance: Annotated[
        str,
        typer.Option(
            "--noise-variance",
            metavar="VARIANCE|clt|heteroscedastic",
            rich_help_panel=MODEL,
            help="Noise variance sigma^2 of the embedding while the lengthscale is learned, or its "
            "sampling covariance: in full, or the diagonal.",
        ),
    ] = "0.1"
    measure: MeasureOption = "unit"

    def __post_init__(self) -> None:
        parse_noise_variance(self.noise_variance, "--noise-variance")

    @property
    def noise(self) -> str | float:
        """A variance, or the name of a sampling covariance."""
        return parse_noise_variance(self.noise_variance, "--noise-variance")

    @property
    def asked(self) -> bool:
        """Whether a prior other than the default was asked for."""
        return self.ard or self.gamma != GammaOptions()

    def check(self) -> None:
        """Raise ``InputError`` for numbers that make no sense."""
        self.gamma.check()
        if not isinstance(self.noise, str):
            check_positive(self.noise, "--noise-variance")

    def arguments(self, dimension: int) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit``."""
        prior = self.gamma.build()
        each = self.ard and dimension > 1
        return {
            "prior": prior.expand([dimension]) if each else prior,
            "noise_variance": self.noise,
            "measure": self.measure,
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class LikelihoodOptions:
    """The likelihood, and what it does with several samples."""

    likelihood: Annotated[
        LikelihoodName,
        typer.Option(
            "--likelihood",
            rich_help_panel=MODEL,
            help="auto takes the fastest exact way to the likelihood, dense the n x n matrices, "
            "spectral sums over one to three columns at a cost linear in the rows. nystrom and "
            "fourier approximate dense by a rank that --rank gives, linear in the rows for any "
            "number of columns, and the diagnosis says how far off they are; nystrom is the more "
            "accurate. landmark is another model of the same kernel, linear in the rows for any "
            "number of columns, whose lengthscale depends on the landmarks; --noise-variance is "
            "then that of one k(x, z).",
        ),
    ] = "auto"
    rank: Annotated[
        int | None,
        typer.Option(
            "--rank",
            metavar="M",
            rich_help_panel=MODEL,
            help="For --likelihood nystrom: how many landmarks; for fourier: how many waves.",
        ),
    ] = None
    landmarks: Annotated[
        str | None,
        typer.Option(
            "--landmarks",
            metavar="COUNT|FILE",
            rich_help_panel=MODEL,
            help="For --likelihood landmark: how many, at centres of clusters, or a file of "
            "places, like the samples. Default: 64, or a quarter of the rows.",
        ),
    ] = None
    samples: Annotated[
        Samples,
        typer.Option(
            "--samples",
            rich_help_panel=MODEL,
            help="Learn the lengthscale from the pooled samples, or from the product of their "
            "likelihoods.",
        ),
    ] = "pooled"

    def arguments(self, places: int | np.ndarray | None) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit``; ``places``: what --landmarks gave."""
        return {"likelihood": self._chosen(places), "samples": self.samples}

    def _chosen(self, places: int | np.ndarray | None) -> Likelihood | str:
        """The likelihood with its options, which are its fields of the same names."""
        from bke.models.likelihood.marginal import LIKELIHOODS

        fields = {
            kind.name: [one.name for one in dataclasses.fields(kind)]
            for kind in LIKELIHOODS.values()
        }
        options = {"rank": self.rank, "landmarks": places}
        given = {option: value for option, value in options.items() if value is not None}
        name = self.likelihood
        for option in given:
            if option not in fields[name]:
                ways = (way for way, known in fields.items() if option in known)
                raise InputError(misplaced(option, "likelihood", ways, name))
        kind = LIKELIHOODS[name]
        if kind.required_option is not None and not given:
            raise InputError(
                f"--likelihood {name} needs --{fields[name][0]}: {kind.required_option}"
            )
        with input_errors():
            return kind(**given) if given else name


@dataclasses.dataclass(frozen=True, kw_only=True)
class UnitOptions:
    """The unit of the prior, and what is done about rounded data."""

    standardize: StandardizeOption = None
    dither: Annotated[
        str,
        typer.Option(
            "--dither",
            metavar="auto|none|UNIT",
            rich_help_panel=MODEL,
            help="Rounded data: add noise within the rounding unit where it is needed, refuse such "
            "data, or give the unit.",
        ),
    ] = "auto"

    def __post_init__(self) -> None:
        parse_dither(self.dither, "--dither")

    def arguments(self, default: StandardizeName = "column") -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit``; ``default``: the unit if none is given."""
        return {
            "standardize": standardize_argument(self.standardize or default),
            "dither": parse_dither(self.dither, "--dither"),
        }


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """All of the model."""

    kernel: KernelOption = "se"
    prior: PriorOptions
    likelihood: LikelihoodOptions
    units: UnitOptions

    def __post_init__(self) -> None:
        check_kernel(self.kernel, "--kernel")

    @property
    def samples(self) -> Samples:
        """Whether several samples are pooled or have a likelihood each."""
        return self.likelihood.samples

    @property
    def landmarks(self) -> str | None:
        """Their number, or a file of places."""
        return self.likelihood.landmarks

    def check(self) -> None:
        """Refuse numbers that make no sense; ``fit`` checks the others before it computes."""
        self.prior.check()

    def arguments(
        self,
        dimension: int,
        places: int | np.ndarray | None,
        default_standardize: StandardizeName = "column",
    ) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit`` and ``learn_kernel``.

        A kernel of the user's own keeps its own prior, unless another is asked for.
        """
        prior = self.prior.arguments(dimension)
        if self.kernel not in KERNELS and not self.prior.asked:
            prior["prior"] = None
        return {
            "kernel": build_kernel(self.kernel),
            **prior,
            **self.likelihood.arguments(places),
            **self.units.arguments(default_standardize),
        }
