"""The options, each declared once and the same in every command that has it."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

if TYPE_CHECKING:
    import numpyro.distributions as dist
    from bke.models.kernels.base import Kernel

    from ..posterior.samplers.base import Sampler

DATA = "The samples"
MODEL = "Model"
SAMPLER = "Sampler"
WITNESS = "Witness"
OUTPUT = "Output"


class KernelName(enum.StrEnum):
    """Kernels of the command line."""

    se = "se"
    matern12 = "matern12"
    matern32 = "matern32"
    matern52 = "matern52"
    laplace = "laplace"
    rq = "rq"


#: Each one's class in bke.models and the parameters it is built with.
KERNELS: dict[KernelName, tuple[str, dict[str, float]]] = {
    KernelName.se: ("SquaredExponential", {}),
    KernelName.matern12: ("Matern", {"nu": 0.5}),
    KernelName.matern32: ("Matern", {"nu": 1.5}),
    KernelName.matern52: ("Matern", {"nu": 2.5}),
    KernelName.laplace: ("Laplace", {}),
    KernelName.rq: ("RationalQuadratic", {}),
}


class MethodName(enum.StrEnum):
    """Ways to the posterior."""

    nuts = "nuts"
    quadrature = "quadrature"
    smc = "smc"


class WeightsName(enum.StrEnum):
    """How modes are weighted against each other."""

    posterior = "posterior"
    chains = "chains"


class MeasureName(enum.StrEnum):
    """Measures of the smoothed kernel."""

    unit = "unit"
    lebesgue = "lebesgue"


class ShareName(enum.StrEnum):
    """What two samples share."""

    pooled = "pooled"
    joint = "joint"


class LikelihoodName(enum.StrEnum):
    """Ways to the likelihood, and another likelihood."""

    auto = "auto"
    dense = "dense"
    spectral = "spectral"
    nystrom = "nystrom"
    fourier = "fourier"
    landmark = "landmark"


class ObjectiveName(enum.StrEnum):
    """What a learned kernel maximises."""

    ml = "ml"
    map = "map"


class ScaleName(enum.StrEnum):
    """What the prior's unit is."""

    column = "column"
    pooled = "pooled"
    none = "none"

    @property
    def argument(self) -> str | None:
        """What the functions take."""
        return None if self is ScaleName.none else self.value


def build_kernel(chosen: KernelName) -> Kernel:
    """The kernel that ``chosen`` names."""
    import bke.models as models

    name, parameters = KERNELS[chosen]
    kernel: Kernel = getattr(models, name)(**parameters)
    return kernel


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The model, as given on the command line."""

    kernel: KernelName
    ard: bool
    prior_shape: float
    prior_rate: float
    noise_variance: str | float
    measure: MeasureName
    share: ShareName
    scale: ScaleName
    dither: str | float | None
    likelihood: LikelihoodName
    rank: int | None

    def check(self) -> None:
        """Refuse numbers that make no sense; ``fit`` checks the others before it computes."""
        from ..data.checks import check_positive

        check_positive(self.prior_shape, "--prior-shape")
        check_positive(self.prior_rate, "--prior-rate")
        if not isinstance(self.noise_variance, str):
            check_positive(self.noise_variance, "--noise-variance")

    def build_kernel(self) -> Kernel:
        """The kernel whose lengthscale becomes random."""
        return build_kernel(self.kernel)

    def build_prior(self, dimension: int) -> dist.Distribution:
        """Gamma(shape, rate); with ARD and several columns one lengthscale for each."""
        import numpyro.distributions as dist

        prior = dist.Gamma(self.prior_shape, self.prior_rate)
        return prior.expand([dimension]) if self.ard and dimension > 1 else prior

    def arguments(self, dimension: int) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit`` and ``learn_kernel``, but landmarks."""
        return {
            "kernel": self.build_kernel(),
            "prior": self.build_prior(dimension),
            "noise_variance": self.noise_variance,
            "measure": self.measure.value,
            "share": self.share.value,
            "scale": self.scale.argument,
            "dither": self.dither,
            "likelihood": self.likelihood.value,
            **({} if self.rank is None else {"rank": self.rank}),
        }


@dataclasses.dataclass(frozen=True)
class FitOptions(ModelOptions):
    """What ``fit`` is told: the model, and the way to its posterior."""

    method: MethodName
    chains: int
    warmup: int
    draws: int
    particles: int
    tolerance: float
    seed: int

    def arguments(self, dimension: int) -> dict[str, Any]:
        """Keyword arguments of ``bke.inference.fit``."""
        return {
            **super().arguments(dimension),
            "method": self.sampler(),
            "seed": self.seed,
        }

    def sampler(self) -> Sampler:
        """The way that was asked for, with its options."""
        from bke.inference import Nuts, Quadrature, Smc

        if self.method is MethodName.nuts:
            return Nuts(self.chains, self.warmup, self.draws)
        if self.method is MethodName.smc:
            return Smc(self.particles, self.chains)
        return Quadrature(self.tolerance, self.particles, self.chains)


ColumnsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="A,B,...",
        rich_help_panel=DATA,
        help="Columns to use, by name (in double quotes where it has a comma) or by number counted "
        "from 0. Default: all.",
    ),
]
KernelOption: TypeAlias = Annotated[
    KernelName,
    typer.Option(
        "--kernel",
        rich_help_panel=MODEL,
        help="Kernel: squared exponential, Matérn of smoothness 1/2, 3/2 or 5/2, Laplace, "
        "rational quadratic (alpha 1).",
    ),
]
ArdOption: TypeAlias = Annotated[
    bool,
    typer.Option("--ard", rich_help_panel=MODEL, help="One lengthscale per column."),
]
PriorShapeOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--prior-shape", rich_help_panel=MODEL, help="Shape of the Gamma prior of a lengthscale."
    ),
]
PriorRateOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--prior-rate", rich_help_panel=MODEL, help="Rate of the Gamma prior of a lengthscale."
    ),
]
NoiseVarianceOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--noise-variance",
        metavar="VARIANCE|clt|heteroscedastic",
        rich_help_panel=MODEL,
        help="Noise variance sigma^2 of the embedding while the lengthscale is learned, or its "
        "sampling covariance: in full, or the diagonal.",
    ),
]
ShareOption: TypeAlias = Annotated[
    ShareName,
    typer.Option(
        "--share",
        rich_help_panel=MODEL,
        help="Learn the lengthscale from the pooled samples, or from the product of their "
        "likelihoods.",
    ),
]
MeasureOption: TypeAlias = Annotated[
    MeasureName,
    typer.Option("--measure", rich_help_panel=MODEL, help="Measure of the smoothed kernel."),
]
ScaleOption: TypeAlias = Annotated[
    ScaleName | None,
    typer.Option(
        "--scale",
        rich_help_panel=MODEL,
        show_default="column; none for the built-in data",
        help="Unit of the prior: the standard deviation of each column, one for all columns, or "
        "none (the units of the data).",
    ),
]
DitherOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--dither",
        metavar="auto|none|UNIT",
        rich_help_panel=MODEL,
        help="Rounded data: add noise within the rounding unit where it is needed, refuse such "
        "data, or give the unit.",
    ),
]
LikelihoodOption: TypeAlias = Annotated[
    LikelihoodName,
    typer.Option(
        "--likelihood",
        rich_help_panel=MODEL,
        help="auto takes the fastest exact way to the likelihood, dense the n x n matrices, "
        "spectral sums over one to three columns at a cost linear in the rows. nystrom and fourier "
        "approximate dense by a rank that --rank gives, linear in the rows for any number of "
        "columns, and the diagnosis says how far off they are; nystrom is the more accurate. "
        "landmark is another model of the same kernel, linear in the rows for any number of "
        "columns, whose lengthscale depends on the landmarks; --noise-variance is then that of one "
        "k(x, z).",
    ),
]
RankOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--rank",
        metavar="M",
        rich_help_panel=MODEL,
        help="For --likelihood nystrom: how many landmarks; for fourier: how many waves.",
    ),
]
LandmarksOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--landmarks",
        metavar="COUNT|FILE",
        rich_help_panel=MODEL,
        help="For --likelihood landmark: how many, at centres of clusters, or a file of places, "
        "like the samples. Default: 64, or a quarter of the rows.",
    ),
]
WitnessLandmarksOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--landmarks",
        metavar="COUNT|FILE",
        rich_help_panel=WITNESS,
        help="Condition on the embeddings at so many centres of clusters, or at the places in a "
        "file, instead of at all rows: for samples too large for n x n matrices. Default: those of "
        "the run, or none.",
    ),
]
ThinOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--thin",
        rich_help_panel=WITNESS,
        help="Condition on the samples for every so many-th posterior draw only, and draw so many "
        "witnesses from each: for large samples.",
    ),
]
MethodOption: TypeAlias = Annotated[
    MethodName,
    typer.Option(
        "--method",
        rich_help_panel=SAMPLER,
        help="NUTS, several chains; or every mode by its posterior mass: quadrature of one or two "
        "hyperparameters, tempered SMC of any number.",
    ),
]
ParticlesOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--particles",
        rich_help_panel=SAMPLER,
        help="Draws in all (quadrature, SMC), at least the square of --chains.",
    ),
]
ToleranceOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--tolerance",
        rich_help_panel=SAMPLER,
        help="Largest error of the log normaliser (quadrature).",
    ),
]
WeightsOption: TypeAlias = Annotated[
    WeightsName,
    typer.Option(
        "--weights",
        rich_help_panel=WITNESS,
        help="Weight of each mode in the overall band: its posterior mass, or how many chains are "
        "in it, as in the paper.",
    ),
]
ChainsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--chains",
        rich_help_panel=SAMPLER,
        help="Number of chains, 1 to 1000; of repeats with SMC.",
    ),
]
WarmupOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--warmup", rich_help_panel=SAMPLER, help="Warmup iterations of a chain, at least 20."
    ),
]
DrawsOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--draws", rich_help_panel=SAMPLER, help="Draws of a chain after warmup, at least 4."
    ),
]
SeedOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--seed",
        rich_help_panel=SAMPLER,
        help="Seed of every random number (the built-in data stay the same).",
    ),
]
NoiseOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--noise",
        metavar="clt|VARIANCE",
        rich_help_panel=WITNESS,
        help="Noise of the embedding: its sampling covariance by the central limit theorem, or a "
        "variance (the paper's is 0.1; its bands never exclude zero).",
    ),
]
LevelOption: TypeAlias = Annotated[
    float,
    typer.Option(
        "--level",
        rich_help_panel=WITNESS,
        help="Posterior probability inside the band at each point, between 0 and 1.",
    ),
]
AtOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--at",
        metavar="FILE",
        rich_help_panel=WITNESS,
        help="Points of evaluation, a file like the samples. Default: a line (one column), a mesh "
        "(two), the data (more).",
    ),
]
OutFolderOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        rich_help_panel=OUTPUT,
        help="Folder of the files; created if need be, files of an earlier run are replaced.",
    ),
]
OutFileOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="The NetCDF file; its folder is created if need be.",
    ),
]
JsonOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--json",
        rich_help_panel=OUTPUT,
        help="Print the summary as JSON on standard output, everything else on standard error.",
    ),
]
QuietOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--quiet",
        rich_help_panel=OUTPUT,
        help="Show no progress (with --json: print nothing but JSON and a warning of several "
        "modes).",
    ),
]
DebugOption: TypeAlias = Annotated[
    bool,
    typer.Option("--debug", rich_help_panel=OUTPUT, help="Show the Python traceback of an error."),
]
