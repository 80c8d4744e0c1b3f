"""Options as fields of dataclasses: declared once, taken by every command that names the class.

A command is written as a function of groups of options, and typer reads it as one of all their
fields::

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class SeedOptions:
        seed: Annotated[int, typer.Option("--seed", help="Seed of every random number.")] = 0

    def draw(path: Path, seeds: SeedOptions) -> None: ...

    typer.Typer().command()(flattened(draw))

A field may be a group itself, and a subclass gives an option another default. Typer has no such
way of its own (its issues 153 and 154).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints


def flattened(function: Callable[..., None]) -> Callable[..., None]:
    """The function with every group of options among its parameters replaced by its options.

    Args:
        function: its parameters are annotated, each by a dataclass or as typer wants it; what is
            no dataclass is handed on as it is.

    Raises:
        TypeError: two options have one name.
    """
    hints = get_type_hints(function, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        parameters += _options(name, hints[name], parameter.default)
    names = [parameter.name for parameter in parameters]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise TypeError(f"{function.__name__} declares {', '.join(twice)} twice")

    def called(**values: Any) -> None:
        function(
            **{
                name: _built(hints[name], values) if _is_group(hints[name]) else values[name]
                for name in inspect.signature(function).parameters
            }
        )

    called.__name__, called.__doc__ = function.__name__, function.__doc__
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def fields_of(group: type) -> Iterator[tuple[str, Any, Any]]:
    """Name, annotation and default of every field, of groups within it too."""
    hints = get_type_hints(group, include_extras=True)
    for field in dataclasses.fields(group):
        if _is_group(hints[field.name]):
            yield from fields_of(hints[field.name])
        else:
            missing = field.default is dataclasses.MISSING
            default = inspect.Parameter.empty if missing else field.default
            yield field.name, hints[field.name], default


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def _options(name: str, annotation: Any, default: Any) -> list[inspect.Parameter]:
    """What typer sees of one parameter."""
    fields = fields_of(annotation) if _is_group(annotation) else [(name, annotation, default)]
    return [
        inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY, default=by_default, annotation=of)
        for one, of, by_default in fields
    ]


def _built(group: type, values: Mapping[str, Any]) -> Any:
    """The group with its options taken from all that were given."""
    hints = get_type_hints(group, include_extras=True)
    return group(
        **{
            field.name: _built(hints[field.name], values)
            if _is_group(hints[field.name])
            else values[field.name]
            for field in dataclasses.fields(group)
        }
    )
