"""What every command has: options in groups, where it prints, its exit codes, how it joins.

Options are fields of dataclasses, declared once and taken by every command that names the class. A
command is written as a function of groups of options, and typer reads it as one of all their
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
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from ..core.errors import nearest
from .options.output import ScreenOptions
from .terminal import Terminal, exit_codes

#: How typer refuses what is none of several words.
OF_CHOICE = re.compile(r"^(?:Value error, )?'(?P<given>.*?)' is not one of (?P<choices>.*)\.$")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command that :data:`~bke.inference.cli.commands.COMMANDS` can list.

    Attributes:
        name: on the command line.
        example: the last line of its help.
        function: of groups of options and of options, as typer is to see them.
    """

    name: str
    example: str
    function: Callable[..., None]

    def join(self, app: typer.Typer, panel: str) -> None:
        """Make it a command of ``app``, listed under the heading ``panel``."""
        added = app.command(
            name=self.name, cls=_Suggesting, epilog=self.example, rich_help_panel=panel
        )
        added(flattened(self.function))


class _Suggesting(TyperCommand):
    """A command that tells which choice was meant, as typer does for options and commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = OF_CHOICE.sub(_meant, error.message)
            raise


def _meant(message: re.Match[str]) -> str:
    choices = re.findall("'(.*?)'", message["choices"])
    told = nearest(message["given"], choices)
    return f"{message['given']!r} is not one of {message['choices']}{told or '.'}"


def command(example: str, *, name: str | None = None) -> Callable[[Callable[..., None]], Command]:
    """Make a command of a function whose first parameter is the terminal it prints on.

    The function imports what is slow when it runs, reads its files by ``inputs``, tells its steps
    and findings to the terminal, and ends with ``steps.finish``, or ``terminal.finish`` where no
    file is written: the summary that ``--json`` prints. The options of the terminal come last in
    its help. What it raises becomes one sentence on standard error and an exit status.
    """

    def decorated(function: Callable[..., None]) -> Command:
        return Command(name or function.__name__, example, _on_a_terminal(function))

    return decorated


def _on_a_terminal(function: Callable[..., None]) -> Callable[..., None]:
    """The function with options where its first parameter was a terminal."""

    def called(*, screen: ScreenOptions, **options: Any) -> None:
        with exit_codes(screen.debug):
            terminal = Terminal(json=screen.json, quiet=screen.quiet, debug=screen.debug)
            with terminal.ending():
                function(terminal, **options)

    hints = get_type_hints(function, include_extras=True)
    _, *given = inspect.signature(function).parameters.values()
    screen = inspect.Parameter("screen", inspect.Parameter.KEYWORD_ONLY, annotation=ScreenOptions)
    keyword = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in given]
    called.__name__, called.__doc__ = function.__name__, function.__doc__
    called.__annotations__ = {one.name: hints[one.name] for one in given} | {
        "screen": ScreenOptions
    }
    called.__signature__ = inspect.Signature([*keyword, screen])  # type: ignore[attr-defined]
    return called


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
