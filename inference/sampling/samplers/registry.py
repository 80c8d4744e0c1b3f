"""Samplers by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from ...core.errors import InputError, nearest
from .auto import Auto
from .base import Sampler
from .nuts import Nuts
from .quadrature import Quadrature
from .smc import Smc

if TYPE_CHECKING:
    from ..target import Target

SAMPLERS: dict[str, type[Sampler]] = {one.name: one for one in (Nuts, Quadrature, Smc)}
MethodName: TypeAlias = Literal["auto", "nuts", "quadrature", "smc"]
#: ``"auto"``, the name of a sampler with its default options, a sampler, or the choice of one.
Method: TypeAlias = MethodName | Sampler | Auto


def sampler_for(method: Method, target: Target) -> tuple[Sampler, dict[str, str]]:
    """The sampler that ``method`` means for ``target``, and what the run records of the choice.

    Raises:
        InputError: for what means no sampler, and for one that is not for such a target.
    """
    if isinstance(method, str) and method == "auto":
        method = Auto()
    if isinstance(method, Auto):
        sampler, sentence = method.chosen_for(target)
        return sampler, {"method": sampler.name, "chosen": sentence}
    if isinstance(method, str) and method in SAMPLERS:
        method = SAMPLERS[method]()
    if not isinstance(method, Sampler):
        classes = ", ".join(f"{one.__name__}(...)" for one in SAMPLERS.values())
        names = ("auto", *SAMPLERS)
        raise InputError(
            f"method must be one of {names}, or {classes}; got {method!r}{nearest(method, names)}"
        )
    method.check(target)
    return method, {"method": method.name}
