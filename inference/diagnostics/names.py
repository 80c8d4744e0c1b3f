"""The words that say how modes are weighted against each other; nothing slow is imported."""

from typing import Literal, TypeAlias

Weighting: TypeAlias = Literal["posterior", "chains"]
