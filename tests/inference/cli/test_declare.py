"""Options declared as fields of dataclasses reach typer, and come back as these."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import pytest
import typer
from bke.inference.cli.command import fields_of, flattened
from typer.testing import CliRunner


@dataclasses.dataclass(frozen=True, kw_only=True)
class Seeds:
    seed: Annotated[int, typer.Option("--seed", help="Of random numbers.")] = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class Draws:
    draws: Annotated[int, typer.Option("--draws", min=1)]
    colour: Annotated[Literal["red", "blue"], typer.Option("--colour")] = "red"
    seeds: Seeds


@dataclasses.dataclass(frozen=True, kw_only=True)
class OtherSeeds(Seeds):
    seed: Annotated[int, typer.Option("--seed", help="Of random numbers.")] = 8


def invoke(function, *arguments):
    app = typer.Typer()
    app.command()(flattened(function))
    return CliRunner().invoke(app, list(arguments), env={"NO_COLOR": "1"})


def test_groups_within_groups_are_built():
    seen = []

    def draw(path: Path, many: Draws, shown: Annotated[bool, typer.Option("--shown")] = False):
        """Draws balls."""
        seen.append((path, many, shown))

    result = invoke(draw, "urn.csv", "--draws", "2", "--colour", "blue", "--seed", "5", "--shown")
    assert result.exit_code == 0, result.output
    expected = Draws(draws=2, colour="blue", seeds=Seeds(seed=5))
    assert seen == [(Path("urn.csv"), expected, True)]
    assert invoke(draw, "urn.csv", "--draws", "2").exit_code == 0
    assert seen[1] == (Path("urn.csv"), Draws(draws=2, seeds=Seeds()), False)


def test_typer_sees_help_choices_and_limits():
    def draw(many: Draws):
        """Draws balls."""

    text = invoke(draw, "--help").stdout
    for part in ("Draws balls.", "--draws", "--colour", "red|blue", "Of random numbers."):
        assert part in text
    assert invoke(draw, "--draws", "1", "--colour", "green").exit_code == 2
    assert invoke(draw, "--draws", "0").exit_code == 2
    assert invoke(draw).exit_code == 2  # --draws has no default


def test_a_subclass_gives_another_default():
    seen = []

    def draw(seeds: OtherSeeds):
        seen.append(seeds.seed)

    assert invoke(draw).exit_code == 0
    assert seen == [8]


def test_fields_are_those_of_all_groups():
    assert [name for name, _, _ in fields_of(Draws)] == ["draws", "colour", "seed"]


def test_no_option_twice():
    def draw(many: Draws, seeds: OtherSeeds):
        pass

    with pytest.raises(TypeError, match="draw declares seed twice"):
        flattened(draw)
