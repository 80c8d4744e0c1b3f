"""Templates filled in: words are escaped, style and script come with the page."""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import importlib.resources
from typing import Any

import jinja2


@functools.cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    found.globals["version"] = importlib.metadata.version("bke")
    found.globals["included"] = _source
    return found


def _source(name: str) -> str:
    return (importlib.resources.files(__package__) / name).read_text(encoding="utf-8")


def render(template: str, **values: Any) -> str:
    """Fill in a template of this room: a whole page, in UTF-8.

    Args:
        template: its file.
        **values: what it names; text is escaped.
    """
    return _environment().get_template(template).render(**values)


def as_data(content: bytes, kind: str) -> str:
    """Content as an address that holds it, such as ``data:image/webp;base64,...``."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"
