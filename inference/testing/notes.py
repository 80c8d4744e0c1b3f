"""Notes that a test adds to what it found: what could mislead its reader."""

from __future__ import annotations

from typing import Any

import numpy as np
from bke.models import GaussianMixture
from bke.models.kernels.covariance import length_parameters

from ..data.units import rounding_unit


def kernel_notes(kernels: list[Any]) -> tuple[str, ...]:
    """Warn of kernels that cannot tell all distributions apart (KER-10)."""
    blind = {type(k).__name__ for k in kernels if getattr(k, "characteristic", None) is False}
    unknown = {type(k).__name__ for k in kernels if getattr(k, "characteristic", None) is None}
    notes = []
    if blind:
        notes.append(
            f"{', '.join(sorted(blind))} is not characteristic: some distributions that differ "
            "are one to it, and a large p-value says nothing about those"
        )
    if unknown:
        notes.append(
            f"it is not known whether {', '.join(sorted(unknown))} is characteristic; if not, "
            "some differences cannot be found"
        )
    return tuple(notes)


def constant_note(pooled: np.ndarray) -> tuple[str, ...]:
    """Tell of columns of (N, D) rows that are one value in all of them."""
    constant = np.flatnonzero(np.ptp(pooled, axis=0) == 0.0) + 1
    if not len(constant):
        return ()
    told = ", ".join(map(str, constant))
    return (f"of one value in both samples, so that nothing is said of it: column {told}",)


def rounding_note(first: np.ndarray, second: np.ndarray, kernel: Any) -> tuple[str, ...]:
    """Warn where two samples are rounded differently and the kernel is as short as that.

    Args:
        first: (n, D).
        second: (m, D).
        kernel: that of the most extreme statistic; without one length there is nothing to say.
    """
    known = length_parameters(kernel)
    if len(known) != 1:
        return ()
    lengths = np.asarray(*known.values())
    lengths = lengths.min(axis=0) if isinstance(kernel, GaussianMixture) else lengths
    shortest = np.broadcast_to(lengths, first.shape[1])
    for index, length in enumerate(shortest):
        units = [rounding_unit(sample[:, index]) or 0.0 for sample in (first, second)]
        if max(units) > max(2.0 * min(units), float(length)):
            of = f" in column {index + 1}" if first.shape[1] > 1 else ""
            other = f"to {min(units):.3g}" if min(units) else "not at all"
            return (
                f"one sample is rounded to {max(units):.3g}{of} and the other {other}, and the "
                "statistic is most extreme at a lengthscale below that: rounding alone makes a "
                "difference. Round both alike to leave it out",
            )
    return ()
