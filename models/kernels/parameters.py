"""What the fields of a kernel are: in which unit, with which prior, and what their axes run over.

Whatever asks for lengths asks here, so that a kernel of the user's, whose length is called
``width``, gets the default prior and results in the units of the data as ours do.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    import numpyro.distributions as dist

FieldUnit: TypeAlias = Literal["none", "length", "1/length", "length^2"]
UNITS: tuple[FieldUnit, ...] = get_args(FieldUnit)


def parameter(
    default: Any = dataclasses.MISSING,
    *,
    unit: FieldUnit = "none",
    prior: dist.Distribution | None = None,
    per_component: bool = False,
    static: bool = False,
) -> Any:
    """A field of a kernel's dataclass.

    Args:
        default: value where none is given.
        unit: ``"length"`` for what is divided into distances: random by default, and a number or
            one per column; ``"1/length"`` for frequencies; ``"length^2"`` for a covariance (D, D);
            else ``"none"``.
        prior: of the parameter in the model's units, where it is to be random by default with
            another than the default prior.
        per_component: whether its first axis runs over the components of a mixture.
        static: fixed when the program is compiled, and never random.

    Raises:
        ValueError: for a unit that there is not.
    """
    _check_unit(unit)
    metadata: dict[str, Any] = {"unit": unit, "per_component": per_component}
    if prior is not None:
        metadata["prior"] = prior
    if static:
        metadata["static"] = True
    return dataclasses.field(default=default, metadata=metadata)


def unit_of(field: dataclasses.Field[Any]) -> FieldUnit:
    """The unit of a field; one without metadata is a length where it is named ``lengthscale``.

    Raises:
        ValueError: for a unit that there is not.
    """
    unit: FieldUnit = field.metadata.get(
        "unit", "length" if field.name == "lengthscale" else "none"
    )
    return _check_unit(unit)


def is_static(field: dataclasses.Field[Any]) -> bool:
    """Whether a field is fixed when the program is compiled."""
    return bool(field.metadata.get("static"))


def is_per_component(field: dataclasses.Field[Any]) -> bool:
    """Whether the first axis of a field runs over the components of a mixture."""
    return bool(field.metadata.get("per_component"))


def field_prior(field: dataclasses.Field[Any]) -> dist.Distribution | None:
    """The default prior that a field carries."""
    return field.metadata.get("prior")


def length_parameters(kernel: Any) -> dict[str, Any]:
    """The kernel's own fields that are lengths, by name; not those of kernels within it."""
    if not dataclasses.is_dataclass(kernel):
        return {}
    fields = dataclasses.fields(kernel)
    return {
        field.name: getattr(kernel, field.name)
        for field in fields
        if not is_static(field) and unit_of(field) == "length"
    }


def _check_unit(unit: FieldUnit) -> FieldUnit:
    if unit not in UNITS:
        raise ValueError(f"a field's unit must be one of {', '.join(UNITS)}, got {unit!r}")
    return unit
