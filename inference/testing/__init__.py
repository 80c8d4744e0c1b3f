"""Hypothesis tests whose kernels are learned from the data that they test."""

from typing import Literal, TypeAlias

#: Statistics of a two-sample test.
TwoSampleStatistic: TypeAlias = Literal["combined", "mmd", "bayes_factor"]
#: Methods for the null distributions of both the squared MMD and HSIC.
SharedMethod: TypeAlias = Literal["permutation", "gamma", "spectrum", "wild bootstrap"]
#: Methods for the null distribution of the squared MMD.
MmdMethod: TypeAlias = Literal[SharedMethod, "normal"]
#: Methods for the null distribution of HSIC.
HsicMethod: TypeAlias = Literal[SharedMethod, "shift"]
#: Methods for rows in order of time.
SeriesMethod: TypeAlias = Literal["wild bootstrap", "shift"]
#: Transformations of time series to approximately independent rows.
Whitening: TypeAlias = Literal["none", "residuals", "innovations"]
