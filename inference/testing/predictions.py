"""Observed data beside the posterior predictive draws of a model, as ArviZ keeps them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..data.checks import as_sample
from .scores import MORE_ROWS

GROUPS = ("posterior_predictive", "observed_data")


@dataclasses.dataclass(frozen=True)
class Dealt:
    """Predictive draws dealt out to be compared with, and to be compared.

    Attributes:
        replicates: indices of the draws that are compared as the data are, (B,).
        sets: the data and those draws, (1 + B, k, D), the same k rows of each.
        far: rows of all other draws in random order, (R, D).
        reference: the first of those, from which distances are taken.
    """

    replicates: np.ndarray
    sets: np.ndarray
    far: np.ndarray
    reference: np.ndarray


@dataclasses.dataclass(frozen=True)
class Predictions:
    """One variable of a model, observed and predicted.

    Attributes:
        variable: its name.
        observed: the data, (n, D).
        draws: predictions of all of them, (draws, n, D).
    """

    variable: str
    observed: np.ndarray
    draws: np.ndarray

    @classmethod
    def of(cls, tree: Any, variable: str | None) -> Predictions:
        """Read a variable, which may be left unnamed where the groups share one.

        Raises:
            InputError: for a tree without the groups or the variable, or values that do not fit.
        """
        if not isinstance(tree, xr.DataTree) or not set(GROUPS) <= set(tree.children):
            raise InputError(f"a DataTree with the groups {GROUPS[0]} and {GROUPS[1]} is needed")
        predictive, observed = (tree[group].to_dataset() for group in GROUPS)
        name = _named(predictive, observed, variable)
        values = observed[name].values
        if values.ndim == 0:
            raise InputError(f"{name!r} is one number: there is no sample to check")
        draws = predictive[name].transpose("chain", "draw", ...).values
        if draws.shape[2:] != values.shape:
            raise InputError(
                f"{name!r} was observed in shape {values.shape} and predicted in {draws.shape[2:]}"
            )
        numbers = values.reshape(len(values), -1)
        data = as_sample(numbers * 1.0, name, may_be_constant=True)
        made = draws.reshape(-1, *data.shape).astype(float)
        if not np.isfinite(made).all():
            raise InputError(f"{(~np.isfinite(made)).sum()} predicted values are not finite")
        return cls(name, data, made)

    def dealt(self, replicates: int, rows: int, seed: int) -> Dealt:
        """Deal the draws out at random: ``replicates`` to compare, the others as the reference.

        Args:
            replicates: see above.
            rows: of each data set at most, the same in all; twice as many of the reference.
            seed: of the choice.

        Raises:
            InputError: for too few draws, or predictions of which nothing can be learned.
        """
        total, n = self.draws.shape[:2]
        if total < replicates + 2:
            raise InputError(
                f"there are {total} predictive draws, where {replicates + 2} are needed, "
                f"replicates={replicates} and at least 2 for reference: make more, or lower "
                "replicates"
            )
        rng = np.random.default_rng((seed, 4))
        order = rng.permutation(total)
        kept = np.sort(rng.choice(n, min(n, rows), replace=False))
        compared = order[:replicates]
        sets = np.concatenate([self.observed[None, kept], self.draws[compared][:, kept]])
        others = self.draws[order[replicates:]].reshape(-1, self.observed.shape[1])
        as_sample(others, f"the predictions of {self.variable}")
        far = others[rng.permutation(len(others))[: max(2 * rows, MORE_ROWS)]]
        return Dealt(compared, sets, far, far[: 2 * rows])


def _named(predictive: xr.Dataset, observed: xr.Dataset, variable: str | None) -> str:
    """The variable that is meant, which both groups must have."""
    shared = [str(name) for name in observed.data_vars if name in predictive.data_vars]
    if variable is None:
        if len(shared) != 1:
            raise InputError(
                f"the two groups share {len(shared)} variables ({', '.join(shared)}): name one"
            )
        return shared[0]
    if variable not in shared:
        raise InputError(f"there is no {variable!r} in both groups, only {', '.join(shared)}")
    return variable
