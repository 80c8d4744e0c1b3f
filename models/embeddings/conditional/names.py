"""The words that say how to regularise; this module imports nothing slow."""

from typing import Literal, TypeAlias

Regularisation: TypeAlias = Literal["leave-one-out", "marginal-likelihood"]
