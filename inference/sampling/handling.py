"""How data are handled and the work is done: the arguments of ``fit`` that are no part of a model.

They have defaults of their own, and a misspelt one is refused as Python refuses it.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, cast

from bke.models.likelihood.marginal import LIKELIHOODS

from .samplers import SAMPLERS


class Handling(TypedDict, total=False):
    """Further keyword arguments of :func:`~bke.inference.fit`, each with its default there."""

    scale: str | None
    dither: str | float | Sequence[float] | None
    share: str
    columns: Sequence[str] | None
    shard: str
    checkpoint: str | os.PathLike[str] | None
    progress: bool


DEFAULTS: Handling = {
    "scale": "column",
    "dither": "auto",
    "share": "pooled",
    "columns": None,
    "shard": "auto",
    "checkpoint": None,
    "progress": True,
}


def with_defaults(given: Mapping[str, Any]) -> Handling:
    """What was given, and the defaults of the rest.

    Raises:
        TypeError: for a name that is none of them; says so where it is an option of a sampler or
            of a likelihood.
    """
    for name in given:
        if name not in DEFAULTS:
            raise TypeError(f"fit() got an unexpected keyword argument {name!r}{_as_option(name)}")
    return cast(Handling, {**DEFAULTS, **given})


def _as_option(name: str) -> str:
    """Where a name is an option of samplers or likelihoods: which, and how it is given."""
    calls = [
        f"{argument}={kind.__name__}({name}=...)"
        for argument, kinds in (("method", SAMPLERS.values()), ("likelihood", LIKELIHOODS))
        for kind in kinds
        if name in {field.name for field in dataclasses.fields(kind)}
    ]
    return f": give {' or '.join(calls)}" if calls else ""
