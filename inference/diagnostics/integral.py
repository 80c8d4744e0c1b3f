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
        repeats: whether ``error`` is a standard error over repeats, as that of SMC is.
    """

    log: float
    error: float
    tolerance: float | None = None
    repeats: bool = False

    @property
    def reached(self) -> bool:
        """Whether the error is within the tolerance."""
        return self.tolerance is None or self.error <= self.tolerance


def integral_of(run: xr.DataTree) -> Integral | None:
    """The integral of a run, from its quadrature, its SMC or its bridge sampling; else ``None``."""
    name = weighing_group(run)
    if name is None:
        return None
    group = run[name]
    attrs, repeats = group.attrs, "share" in group
    return Integral(
        float(attrs["log_normaliser"]),
        float(attrs["log_normaliser_error"]),
        ROUGH if repeats else attrs.get("tolerance"),
        repeats,
    )


def weighing_group(run: xr.DataTree) -> str | None:
    """The name of the group that knows the integral, and with it the masses of modes, if any.

    What it holds depends on how they are known, see
    :class:`~bke.inference.sampling.samplers.base.Sampler` and :func:`~bke.inference.reweight`.
    """
    known = (name for name, group in run.children.items() if "log_normaliser" in group.attrs)
    return next(known, None)
