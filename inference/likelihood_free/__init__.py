"""Bayesian inference for models that can be simulated, but whose likelihood cannot be computed."""

from typing import Literal, TypeAlias

#: Estimators of the squared MMD. Defined here because the command line imports it at its start.
Estimator: TypeAlias = Literal["biased", "unbiased", "linear", "features"]
