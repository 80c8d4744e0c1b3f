"""The integral of the posterior density over the hyperparameters, where a run knows it."""

from __future__ import annotations

import dataclasses

import xarray as xr

#: Standard error of a log normaliser beyond which repeats of SMC do not agree.
ROUGH = 0.2


@dataclasses.dataclass(frozen=True)
class Integral:
    """The integral of the posterior density over the hyperparameters.

    Attributes:
        log: its logarithm, the log normaliser.
        error: estimated absolute error of ``log``.
        tolerance: what ``error`` is to be at most: what quadrature was asked for, 0.2 for SMC;
            ``None`` for bridge sampling.
    """

    log: float
    error: float
    tolerance: float | None

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.tolerance is None or self.error <= self.tolerance


def integral_of(run: xr.DataTree) -> Integral | None:
    """The integral of a run, from its quadrature, its SMC or its bridge sampling; else ``None``."""
    for group in ("quadrature", "smc", "bridge"):
        if group in run.children:
            attrs = run[group].attrs
            return Integral(
                float(attrs["log_normaliser"]),
                float(attrs["log_normaliser_error"]),
                ROUGH if group == "smc" else attrs.get("tolerance"),
            )
    return None
