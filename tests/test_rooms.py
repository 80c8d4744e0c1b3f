"""The architecture: which room may import which, and how large things may be.

``python tests/test_rooms.py`` prints the house in figures: rooms, floors, arrows, longest function
and longest module, and how many parameters the largest public functions take.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
#: Each room imports only rooms before it.
ROOMS = {
    "models": (
        "arrays",
        "measures",
        "kernels",
        "likelihood",
        "landmarks",
        "difference",
        "bayes",
        "embeddings",
        "statistics",
        "student_t",
    ),
    "inference": (
        "errors",
        "pages",
        "runtime",
        "data",
        "streams",
        "posterior",
        "diagnosis",
        "learning",
        "relabelling",
        "evidence",
        "testing",
        "difference",
        "tables",
        "witness",
        "chains",
        "monitoring",
        "regression",
        "likelihood_free",
        "embeddings",
        "student_t",
        "sketches",
        "plots",
        "report",
        "selfcheck",
        "cli",
    ),
}
#: Drawn only when a result is asked for its picture.
PICTURES = "plot"
LONGEST_FUNCTION, LONGEST_MODULE = 60, 400
#: First words of a docstring that leans on the one before it.
LEANING = ("Of ", "As ", "Likewise", "likewise", "The same", "Also ", "See ")


class Arrow(NamedTuple):
    """One module imports another."""

    source: str
    target: str
    within: str  # the function that does it, or nothing


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    found = {}
    for top in ROOMS:
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join(("bke", *parts))] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _targets(node: ast.AST, module: str, path: Path) -> list[str]:
    """Modules of the package that an import statement names."""
    if isinstance(node, ast.Import):
        return [name.name for name in node.names if name.name in modules()]
    if not isinstance(node, ast.ImportFrom):
        return []
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    base = package[: len(package) - node.level + 1] if node.level else []
    base += node.module.split(".") if node.module else []
    start = ".".join(base)
    named = [f"{start}.{name.name}" for name in node.names]
    return [one if one in modules() else start for one in named if {one, start} & {*modules()}]


@cache
def arrows() -> tuple[Arrow, ...]:
    """Every import of one module by another, also lazy ones and those for types only."""
    found = set()
    for module, path in modules().items():
        within = {}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                within |= {id(inner): node.name for inner in ast.walk(node)}
        for node in ast.walk(tree(path)):
            for target in _targets(node, module, path):
                if target != module and not module.startswith(f"{target}."):
                    found.add(Arrow(module, target, within.get(id(node), "")))
    return tuple(sorted(found))


def room(module: str) -> tuple[str, str]:
    """The subpackage and the room of a module; the face of a subpackage has none."""
    parts = module.split(".")
    return parts[1], parts[2] if len(parts) > 2 else ""


def _upward(arrow: Arrow) -> bool:
    (top, source), (other, target) = room(arrow.source), room(arrow.target)
    if not source or not target:
        return False
    if top != other:
        return top == "models"
    if target == "plots" and arrow.within == PICTURES:
        return False
    return ROOMS[top].index(target) > ROOMS[top].index(source)


def test_every_room_is_in_the_plan():
    for top, rooms in ROOMS.items():
        found = {path.name for path in (ROOT / top).iterdir() if path.is_dir()} - {"__pycache__"}
        files = {path.stem for path in (ROOT / top).glob("*.py")} - {"__init__"}
        assert found | files == set(rooms)
        assert files <= {"errors"}


def test_no_arrow_points_up():
    assert not [arrow for arrow in arrows() if _upward(arrow)]


def test_no_two_modules_import_each_other():
    pairs = {(arrow.source, arrow.target) for arrow in arrows()}
    assert not sorted(pair for pair in pairs if pair[::-1] in pairs and pair[0] < pair[1])


def test_the_reader_of_imports_sees_all_kinds():
    """Relative and absolute imports, of names and of modules, lazy ones as well."""
    seen = {(arrow.source, arrow.target) for arrow in arrows()}
    assert ("bke.models.linalg.blocks", "bke.models.kernels.base") not in seen
    assert ("bke.models.kernels.matern", "bke.models.kernels.base") in seen
    assert ("bke.inference.cli", "bke.inference.cli.program") in seen
    assert any(arrow.within for arrow in arrows())
    assert any(arrow.source.startswith("bke.inference") for arrow in arrows())


def functions() -> list[tuple[int, str]]:
    """Lines of every function without its docstring, and where it is."""
    found = []
    for module, path in modules().items():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                doc = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
                found.append((node.end_lineno - node.lineno + 1 - doc, f"{module}.{node.name}"))
    return sorted(found, reverse=True)


def lines() -> list[tuple[int, str]]:
    """Lines of every module."""
    counts = [(path.read_text().count("\n"), name) for name, path in modules().items()]
    return sorted(counts, reverse=True)


def test_no_function_and_no_module_is_too_long():
    assert not [one for one in functions() if one[0] > LONGEST_FUNCTION]
    assert not [one for one in lines() if one[0] > LONGEST_MODULE]


@pytest.mark.parametrize("top", ROOMS)
def test_first_sentences_stand_alone(top):
    leaning = []
    for module, path in modules().items():
        if room(module)[0] != top:
            continue
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module):
                continue
            name = getattr(node, "name", "")
            first = (ast.get_docstring(node) or "").split("\n")[0]
            if first.startswith(LEANING) and not name.startswith("_"):
                leaning.append(f"{module}.{name}: {first}")
    assert not leaning


def floors() -> dict[str, int]:
    """On which floor each room is: one above the highest room that it imports."""
    below = defaultdict(set)
    for arrow in arrows():
        source, target = room(arrow.source), room(arrow.target)
        if all((*source, *target)) and source != target and not arrow.within:
            below["/".join(source)].add("/".join(target))
    names = [f"{top}/{name}" for top, rooms in ROOMS.items() for name in rooms]
    level: dict[str, int] = {}
    for name in names:
        level[name] = 1 + max((level.get(other, 0) for other in below[name]), default=0)
    return level


def parameters() -> list[tuple[int, str]]:
    """How many parameters each public function takes, the most first."""
    public = set()
    for top in ROOMS:
        for node in ast.walk(ast.parse((ROOT / top / "__init__.pyi").read_text())):
            if isinstance(node, ast.ImportFrom):
                public |= {f"bke.{top}.{node.module}.{name.name}" for name in node.names}
    found = []
    for module, path in modules().items():
        for node in tree(path).body:
            if isinstance(node, ast.FunctionDef) and f"{module}.{node.name}" in public:
                given = node.args
                every = (*given.posonlyargs, *given.args, *given.kwonlyargs)
                found.append((len(every) + (given.kwarg is not None), node.name))
    return sorted(found, reverse=True)


def main() -> None:
    level = floors()
    between = {
        (room(arrow.source), room(arrow.target))
        for arrow in arrows()
        if room(arrow.source) != room(arrow.target) and room(arrow.source)[1]
    }
    print(f"{len(level)} rooms on {max(level.values())} floors, {len(between)} arrows between them")
    print(f"{len(modules())} modules, {len(arrows())} imports of one by another")
    print("longest function: {} lines, {}".format(*functions()[0]))
    print("longest module: {} lines, {}".format(*lines()[0]))
    most = ", ".join(f"{name} {count}" for count, name in parameters()[:5])
    print(f"parameters of the largest public functions: {most}")


if __name__ == "__main__":
    main()
