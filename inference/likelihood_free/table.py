"""What a run says of every parameter, in numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from ..core.errors import InputError
from ..data.weighted import weighted_quantiles
from .run import components

QUANTILES = (0.05, 0.5, 0.95)


def posterior_table(run: xr.DataTree) -> pd.DataFrame:
    """Tabulate mean, standard deviation and quantiles of every parameter, for every epsilon.

    Args:
        run: from any function of likelihood-free inference.

    Returns:
        Columns ``parameter``, ``epsilon`` (none for the synthetic likelihood), ``ess``, ``mean``,
        ``sd``, ``q05``, ``q50``, ``q95``; NaN where no simulation has any weight.

    Raises:
        InputError: for another run.
    """
    if run.attrs.get("creation_library") != "bke" or "simulator" not in run.attrs:
        raise InputError("this is not a run of likelihood-free inference")
    stats = run["sample_stats"].to_dataset()
    lines = []
    for name, values in components(run["posterior"].to_dataset()).items():
        if "epsilon" not in stats.coords:
            weight = np.full(values.size, 1.0 / values.size)
            known = {"parameter": name, "ess": run.attrs["ess"]}
            lines.append({**known, **weighted_summary(values.ravel(), weight)})
            continue
        for at, epsilon in enumerate(stats["epsilon"].values):
            known = {"parameter": name, "epsilon": epsilon, "ess": float(stats["ess"].values[at])}
            weight = stats["weight"].values[0, :, at]
            lines.append({**known, **weighted_summary(values.ravel(), weight)})
    return pd.DataFrame(lines)


def weighted_summary(values: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Summarise values (M,) with weights (M,) that sum to one, or to zero.

    A quantile is the smallest value up to which there is that much weight.
    """
    names = [f"q{100 * share:02.0f}" for share in QUANTILES]
    if not weight.any():
        return dict.fromkeys(["mean", "sd", *names], float("nan"))
    mean = float(weight @ values)
    quantiles = weighted_quantiles(values, weight, QUANTILES, method="inverted_cdf")
    return {
        "mean": mean,
        "sd": float(np.sqrt(weight @ (values - mean) ** 2)),
        **dict(zip(names, quantiles.tolist(), strict=True)),
    }
