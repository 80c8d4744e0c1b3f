"""HTML pages with style and scripts included, and JSON."""

from __future__ import annotations

import base64
import functools
import importlib.metadata
import importlib.resources
import json
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .names import printable

if TYPE_CHECKING:
    import jinja2

#: Control characters but tabs and line feeds, and those that change the direction of text, which
#: would show a name as another.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@functools.cache
def _environment() -> jinja2.Environment:
    import jinja2  # not for JSON alone

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_source),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["version"] = importlib.metadata.version("bke")
    environment.globals["included"] = _source
    return environment


def _source(name: str) -> str:
    return (importlib.resources.files(__package__) / name).read_text(encoding="utf-8")


def render(template: str, **values: Any) -> str:
    """Fill in a template of this package, and return the page.

    Args:
        template: name of the file of the template.
        **values: variables of the template; text is escaped, control characters are shown as codes.
    """
    page = _environment().get_template(template).render(**values)
    return CONTROL.sub(lambda character: printable(character[0]), page)


def as_data(content: bytes, kind: str) -> str:
    """Return content as a data URL, such as ``data:image/webp;base64,...``."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def plain(value: Any) -> Any:
    """Convert ``value`` to data of JSON, with ``None`` for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def to_json(summary: Mapping[str, Any]) -> str:
    """Format ``summary`` as JSON."""
    text = json.dumps(plain(summary), indent=2, allow_nan=False, ensure_ascii=False)
    text = CONTROL.sub(lambda character: f"\\u{ord(character[0]):04x}", text)
    # Names of files may contain bytes that cannot be decoded.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
