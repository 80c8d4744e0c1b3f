"""Type-II maximum likelihood of kernels, kernel selection by name, and scores of kernel families.

The names of kernels stand here because a command-line option reads them: nothing slow is imported.
"""

from typing import Literal, TypeAlias

#: The objective of a learned kernel: marginal likelihood, or posterior density.
Objective: TypeAlias = Literal["ml", "map"]
#: The kernel of one sample: learned, or of the median distance.
SampleKernel: TypeAlias = Literal["bkl", "median"]
#: A single kernel, which may be an average over the posterior.
SingleKernel: TypeAlias = Literal["bkl", "posterior", "median"]
#: The kernels of a test by MMD, and of each variable of a test by HSIC.
TestKernel: TypeAlias = Literal["multiscale", SingleKernel]
