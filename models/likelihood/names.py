"""The words that name a likelihood or its noise, for checks and for the command line.

This module imports nothing slow, so that ``bke --help`` can list them.
"""

from typing import Literal, TypeAlias

#: Ways to one number, the log marginal likelihood BKE (13).
Route: TypeAlias = Literal["auto", "dense", "spectral"]
#: Approximations of it, of a rank.
LowRank: TypeAlias = Literal["nystrom", "fourier"]
LikelihoodName: TypeAlias = Literal[Route, LowRank, "landmark"]
#: Sampling covariances of the empirical embedding (KME-14): in full, and its diagonal.
SamplingName: TypeAlias = Literal["clt", "heteroscedastic"]
