"""The words that say how a kernel is chosen from data; nothing slow is imported."""

from typing import Literal, TypeAlias

#: What a learned kernel maximises: the marginal likelihood, or the posterior density.
Objective: TypeAlias = Literal["ml", "map"]
#: The kernel of one variable: learned, or of the median distance.
SampleKernel: TypeAlias = Literal["bkl", "median"]
#: A kernel that is one, though it may be an average.
SingleKernel: TypeAlias = Literal["bkl", "posterior", "median"]
#: The kernels of a variable whose dependence is tested.
PairKernel: TypeAlias = Literal["multiscale", SingleKernel]
#: The kernels of a two-sample test.
TwoSampleKernel: TypeAlias = Literal["fused", "multiscale", "evidence", SingleKernel]
