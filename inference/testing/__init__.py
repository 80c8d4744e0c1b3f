"""Hypothesis tests whose kernels are learned from the data that they test.

The names of null distributions are defined here because command-line options read them: this
module imports nothing slow.
"""

from typing import Literal, TypeAlias

#: Null distributions of both the squared MMD and HSIC.
SharedNull: TypeAlias = Literal["permutation", "gamma", "spectrum", "wild bootstrap"]
#: Null distributions of the squared MMD.
MmdNull: TypeAlias = Literal[SharedNull, "normal"]
#: Null distributions of HSIC.
HsicNull: TypeAlias = Literal[SharedNull, "shift"]
#: Estimators of the squared MMD with linear cost and a normal null distribution.
LinearEstimator: TypeAlias = Literal["linear", "block"]
#: Null distributions for rows in order of time.
SeriesNull: TypeAlias = Literal["wild bootstrap", "shift"]
#: Transformations of time series to approximately independent rows.
Whitening: TypeAlias = Literal["none", "residuals", "innovations"]
