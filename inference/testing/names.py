"""The words that name null distributions; nothing slow is imported."""

from typing import Literal, TypeAlias

#: Nulls that the squared MMD and HSIC have alike.
SharedNull: TypeAlias = Literal["permutation", "gamma", "spectrum", "wild bootstrap"]
#: Null distributions of the squared MMD.
MmdNull: TypeAlias = Literal[SharedNull, "normal"]
#: Null distributions of HSIC.
HsicNull: TypeAlias = Literal[SharedNull, "shift"]
#: Estimators of the squared MMD whose cost is linear in the rows, and whose null is normal.
LinearEstimator: TypeAlias = Literal["linear", "block"]
#: Nulls for rows in order of time.
SeriesNull: TypeAlias = Literal["wild bootstrap", "shift"]
#: What is done about rows in order of time before they are tested as independent ones.
Whitening: TypeAlias = Literal["none", "residuals", "innovations"]
