"""Modes of several hyperparameters: draws with no barrier of the density between them."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.spatial import cKDTree

from ..sampling.barriers import groups, standard_deviations
from ..sampling.samplers import is_independent
from .masses import unconstrained_draws
from .modes import SHELF, Mode, Modes


def modes_of_paths(run: xr.DataTree) -> Modes:
    """The groups of draws that paths join as modes, but for their masses."""
    paths = run["paths"].to_dataset()
    node_draw, node_height = paths["draw"].values, paths["height"].values
    found = groups(node_height.ravel(), paths["edge"].values, paths["low"].values)
    z = unconstrained_draws(run)
    z = z / standard_deviations(z)
    label = found.label.reshape(node_draw.shape)
    if is_independent(run.attrs):
        nodes = np.take_along_axis(z, node_draw[:, :, None], axis=1).reshape(-1, z.shape[-1])
        of_draws = found.label[cKDTree(nodes).query(z)[1]]
    else:
        of_draws = _nearest_label(z, node_draw, label)
    count = len(found.saddle)
    of_chains = np.array([np.bincount(row, minlength=count).argmax() for row in of_draws])
    lp = run["sample_stats"].to_dataset()["lp"].values
    mostly = of_draws == of_chains[:, None]
    of_chain = np.array([np.median(row[inside]) for row, inside in zip(lp, mostly, strict=True)])
    # A mode where no chain spends most of its time is as high as the draws that pass through.
    tops = np.array(
        [
            of_chain[of_chains == k].max()
            if (of_chains == k).any()
            else np.median(lp[of_draws == k])
            for k in range(count)
        ]
    )
    stuck = of_chain <= tops[of_chains] - SHELF
    posterior = run["posterior"].to_dataset()
    modes = []
    for k in range(count):
        inside = (of_draws == k) & ~stuck[:, None]
        # Stuck chains say where a mode is only where nobody else is in it.
        shown = inside if inside.any() else of_draws == k
        location = posterior.where(xr.DataArray(shown, dims=("chain", "draw"))).median(
            ("chain", "draw")
        )
        modes.append(
            Mode(
                location={str(name): location[name].values for name in location.data_vars},
                height=float(tops[k] - tops.max()),
                barrier=float(tops[k] - np.delete(found.saddle[k], k).max(initial=-np.inf)),
                draws=int(inside.sum()),
                chains=tuple(np.flatnonzero((of_chains == k) & ~stuck).tolist()),
                stuck=tuple(np.flatnonzero((of_chains == k) & stuck).tolist()),
                interval=None,
            )
        )
    order = np.argsort([float(np.mean([np.mean(v) for v in m.location.values()])) for m in modes])
    rank = np.argsort(order)
    return Modes(
        tuple(modes[k] for k in order),
        rank[of_draws],
        rank[of_chains],
        None,
        int((np.diff(of_draws, axis=1) != 0).sum()),
    )


def _nearest_label(z: np.ndarray, node_draw: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Label (chain, draw) of the nearest node of the same chain, so that only it can cross."""
    return np.stack(
        [
            labels[cKDTree(chain[picks]).query(chain)[1]]
            for chain, picks, labels in zip(z, node_draw, label, strict=True)
        ]
    )
