"""The way to the posterior, and its seed."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeAlias, TypeVar

import typer

from ...core.errors import InputError
from ...sampling.samplers import SAMPLERS, Auto, MethodName, Nuts, Quadrature, Sampler, Smc
from ..words import misplaced
from .panels import SAMPLER

SeedOption: TypeAlias = Annotated[
    int,
    typer.Option(
        "--seed",
        rich_help_panel=SAMPLER,
        help="Seed of every random number (the built-in data stay the same).",
    ),
]
PARTICLES: Any = typer.Option(
    "--particles",
    rich_help_panel=SAMPLER,
    show_default=str(Smc.num_particles),
    help="Particles of SMC in all, at least 4 for each of --chains.",
)
ParticlesOption: TypeAlias = Annotated[int, PARTICLES]

S = TypeVar("S", bound=Sampler)
#: The fields of samplers that an option sets, where they have other names.
FIELDS = {
    "chains": ("num_chains", "num_repeats"),
    "warmup": ("num_warmup",),
    "draws": ("num_samples",),
    "particles": ("num_particles",),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed alone."""

    seed: SeedOption = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplerOptions:
    """Which way to the posterior, and how far: what is not given has the sampler's own default."""

    method: Annotated[
        MethodName | None,
        typer.Option(
            "--method",
            rich_help_panel=SAMPLER,
            show_default="auto; nuts for the built-in data",
            help="NUTS, several chains; or every mode by its posterior mass: quadrature of one or "
            "two hyperparameters, tempered SMC of any number. auto takes quadrature where it can, "
            "SMC beyond.",
        ),
    ] = None
    chains: Annotated[
        int | None,
        typer.Option(
            "--chains",
            rich_help_panel=SAMPLER,
            show_default=str(Nuts.num_chains),
            help="Number of chains (NUTS) or of repeats (SMC), 1 to 1000.",
        ),
    ] = None
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup",
            rich_help_panel=SAMPLER,
            show_default=str(Nuts.num_warmup),
            help="Warmup iterations of a chain, at least 20 (NUTS).",
        ),
    ] = None
    draws: Annotated[
        int | None,
        typer.Option(
            "--draws",
            rich_help_panel=SAMPLER,
            show_default=str(Nuts.num_samples),
            help="Draws: of each chain after warmup (NUTS), or in all (quadrature, by default "
            f"{Quadrature.num_samples}); at least 4.",
        ),
    ] = None
    particles: Annotated[int | None, PARTICLES] = None
    tolerance: Annotated[
        float | None,
        typer.Option(
            "--tolerance",
            rich_help_panel=SAMPLER,
            show_default=str(Quadrature.tolerance),
            help="Largest error of the log normalizing constant (quadrature).",
        ),
    ] = None
    seed: SeedOption = 0

    def sampler(self, default: Sampler | None = None) -> Sampler | Auto:
        """Return the sampler with the given options.

        Args:
            default: the sampler if no method is given, with its options where none are given;
                ``None``: ``"auto"``.

        Raises:
            InputError: an option has an invalid value, or is of another method.
        """
        name = self.method or ("auto" if default is None else default.name)
        self._check_used(name)
        if name == "auto":
            return Auto(self._made(Quadrature()), self._made(Smc()))
        kind = SAMPLERS[name]
        return self._made(default if isinstance(default, kind) else kind())

    def _made(self, default: S) -> S:
        fields = _fields(type(default))
        given = {fields[name]: x for name, x in self._given().items() if name in fields}
        try:
            return dataclasses.replace(default, **given)
        except InputError as error:
            first, _, rest = str(error).partition(" ")
            said = {field: f"--{option}" for option, field in fields.items()}
            raise InputError(f"{said.get(first, first)} {rest}") from None

    def _check_used(self, name: str) -> None:
        """Refuse numbers for another way than the one of that name."""
        kinds = (Quadrature, Smc) if name == "auto" else (SAMPLERS[name],)
        for option in self._given():
            if not any(option in _fields(kind) for kind in kinds):
                ways = (other for other, kind in SAMPLERS.items() if option in _fields(kind))
                raise InputError(misplaced(option, "method", ways, name))

    def _given(self) -> dict[str, Any]:
        """The numbers that were given, by option."""
        values = {option: getattr(self, option) for option in sorted(OPTIONS)}
        return {option: value for option, value in values.items() if value is not None}

    def arguments(self, default: Sampler | None = None) -> dict[str, Any]:
        """Return keyword arguments of ``bke.inference.fit``; ``default`` as of ``sampler``."""
        return {"method": self.sampler(default), "seed": self.seed}


OPTIONS = frozenset(SamplerOptions.__dataclass_fields__) - {"method", "seed"}


def _fields(kind: type[Sampler]) -> dict[str, str]:
    """The options that a sampler has, each with the name of its field."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {o: name for o in OPTIONS for name in FIELDS.get(o, (o,)) if name in names}
