"""The measures that have a name; this module imports nothing, so that ``--help`` can list them."""

from typing import Literal, TypeAlias

MeasureName: TypeAlias = Literal["unit", "lebesgue"]
