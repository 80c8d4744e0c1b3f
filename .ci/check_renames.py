"""Prove that a commit only moves, merges or renames: syntax trees are equal up to names.

    python .ci/check_renames.py OLD NEW [PATH ...]

Every top-level statement of the Python files that differ between two commits is reduced to its
syntax tree without docstrings, in which each identifier is replaced by the rank of its first
appearance. Both commits must have the same statements, each as often. Numbers and strings are
compared as they are, so a changed literal is found, in tests too; imports are left out, and so are
dotted names of the package's modules in strings. The mapping of names is printed: a name with
several new names has to be looked at by hand.
"""

from __future__ import annotations

import ast
import collections
import re
import subprocess
import sys

MODULE = re.compile(r"\b(?:bke|models|inference)(?:[./]\w+)+")
IDENTIFIERS = {"id", "attr", "arg", "name", "asname", "rest", "kwd_attrs", "names"}


def git(*arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


class Reduced(ast.NodeTransformer):
    """Remove docstrings, imports and names of modules in strings."""

    def visit(self, node: ast.AST) -> ast.AST:
        """Reduce a node and what is below it."""
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            value = body[0].value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                body[0] = ast.Pass()
        if isinstance(node, ast.Import | ast.ImportFrom):
            return ast.Pass()
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return ast.Constant(MODULE.sub("bke", node.value))
        return self.generic_visit(node)


def fingerprint(statement: ast.stmt) -> tuple[str, tuple[str, ...]]:
    """The tree with identifiers numbered, and the identifiers by number."""
    numbers: dict[str, int] = {}

    def dump(node: object, field: str = "") -> str:
        if isinstance(node, ast.AST):
            inner = ",".join(dump(getattr(node, name, None), name) for name in node._fields)
            return f"{type(node).__name__}({inner})"
        if isinstance(node, list):
            return "[" + ",".join(dump(item, field) for item in node) + "]"
        if isinstance(node, str) and field in IDENTIFIERS:
            return f"#{numbers.setdefault(node, len(numbers))}"
        return repr(node)

    return dump(statement), tuple(numbers)


def statements(commit: str, paths: list[str]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """Return locations and identifiers of every fingerprint in a commit."""
    places = collections.defaultdict(list)
    for path in paths:
        tree = Reduced().visit(ast.parse(git("show", f"{commit}:{path}")))
        for statement in tree.body:
            if not isinstance(statement, ast.Pass):
                text, names = fingerprint(statement)
                places[text].append((f"{path}:{statement.lineno}", names))
    return places


def main() -> int:
    """Compare two commits."""
    old, new, *only = sys.argv[1:]
    changed = git("diff", "--no-renames", "--name-status", old, new, "--", *only).splitlines()
    rows = [row.split("\t") for row in changed if row.endswith(".py")]
    before = statements(old, [path for status, path in rows if status != "A"])
    after = statements(new, [path for status, path in rows if status != "D"])
    mapping: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    different = []
    for text in {*before, *after}:
        olds, news = before.get(text, []), after.get(text, [])
        different += [f"- {place}" for place, _ in olds[len(news) :]]
        different += [f"+ {place}" for place, _ in news[len(olds) :]]
        # Equal statements are matched by the most names in common.
        left = list(news)
        for _, names in olds[: len(news)]:
            _, best = max(left, key=lambda item: len({*item[1]} & {*names}))
            left.remove(next(item for item in left if item[1] == best))
            for name, renamed in zip(names, best, strict=True):
                mapping[name][renamed] += 1
    for name, renamed in sorted(mapping.items()):
        if set(renamed) != {name}:
            print(name, "->", ", ".join(f"{key} ({count})" for key, count in renamed.most_common()))
    print(
        f"{sum(map(len, before.values()))} statements before, {sum(map(len, after.values()))} after"
    )
    print("\n".join(sorted(different)) or "equal up to names")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
