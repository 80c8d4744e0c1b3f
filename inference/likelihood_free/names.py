"""The words that name estimators of a distance; nothing slow is imported."""

from typing import Literal, TypeAlias

Estimator: TypeAlias = Literal["biased", "unbiased", "linear", "features"]
