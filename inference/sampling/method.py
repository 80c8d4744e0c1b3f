"""The method of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .record import RECORD, read_record


def is_independent(attributes: Mapping[Any, Any]) -> bool:
    """Return whether draws are independent, with all modes in proportion to their mass.

    Args:
        attributes: those of a run of :func:`~bke.inference.fit` or of a witness.
    """
    settings = read_record(attributes) if RECORD in attributes else attributes
    return bool(settings.get("independent", False))


def method_in_words(attributes: Mapping[Any, Any]) -> str:
    """Describe the draws of a run, such as "independent draws by quadrature"."""
    return str(read_record(attributes)["method_in_words"])
