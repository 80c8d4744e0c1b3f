"""The words that say what devices and processes have of their own; nothing slow is imported."""

from typing import Literal, TypeAlias

Shard: TypeAlias = Literal["auto", "rows", "chains"]
