"""How the draws of a run were made, as its attributes say; those of earlier versions name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Methods of the versions that recorded no more than the name: independent ones, and the words.
_NAMED = {
    "quadrature": "independent draws by quadrature",
    "smc": "draws of tempered SMC",
}


def is_independent(attributes: Mapping[Any, Any]) -> bool:
    """Whether draws are from the posterior itself, all modes in proportion and in no order.

    Args:
        attributes: of a run of :func:`~bke.inference.fit`, or of a witness.
    """
    if "independent" in attributes:
        return bool(attributes["independent"])
    return attributes.get("method") in _NAMED


def method_in_words(attributes: Mapping[Any, Any]) -> str:
    """What the draws are, such as "independent draws by quadrature"."""
    if "method_in_words" in attributes:
        return str(attributes["method_in_words"])
    method = attributes.get("method")
    return _NAMED.get(str(method), f"draws by {method}")
