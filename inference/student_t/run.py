"""Runs of NUTS for kernel Student-t densities: their trees, and whether chains agree."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from arviz_base import dict_to_dataset

from ..data.checks import check_chain_count, check_count
from ..diagnostics.convergence import Convergence, convergence

Box = tuple[np.ndarray, np.ndarray]


def check_iterations(chains: int, warmup: int, draws: int) -> None:
    """Refuse numbers of chains, warm-up iterations and draws that make no sense."""
    check_chain_count(chains)
    for count, name, least in ((warmup, "warmup", 1), (draws, "draws", 4)):
        check_count(count, name, least)


def agreement(drawn: xr.Dataset) -> Convergence | None:
    """How well chains agree; of one chain alone there is no R-hat."""
    chains = drawn.sizes["chain"]
    return convergence(drawn, range(chains)) if chains > 1 else None


def recorded(
    group: str,
    drawn: xr.Dataset,
    stats: Mapping[str, np.ndarray],
    rows: np.ndarray,
    *,
    warmup: int,
    notes: Sequence[str],
    agreed: Convergence | None,
    box: Box,
    **attributes: Any,
) -> xr.DataTree:
    """Put what a run has drawn in a tree, beside what it was drawn from.

    Args:
        group: of the draws, such as ``"posterior"``.
        drawn: (chain, draw, ...), without the warm-up.
        stats: of every iteration, (chain, warmup + draw).
        rows: of the density, (N, D).
        warmup: iterations before the draws.
        notes: what could mislead the reader.
        agreed: see :func:`agreement`.
        box: that the density is restricted to.
        **attributes: of this kind of run, plain data.
    """
    kept = {name: values[:, warmup:] for name, values in stats.items()}
    run = xr.DataTree.from_dict(
        {
            f"/{group}": drawn,
            "/sample_stats": dict_to_dataset(kept),
            "/observed_data": xr.Dataset({"X": (("row", "column"), rows)}),
        }
    )
    low, high = box
    run.attrs.update(
        creation_library="bke",
        low=low.tolist(),
        high=high.tolist(),
        warmup=warmup,
        notes=json.dumps(list(notes)),
        **attributes,
    )
    if agreed is not None:
        run.attrs.update(rhat=agreed.rhat, ess_bulk=agreed.ess_bulk, ess_tail=agreed.ess_tail)
    return run


def notes_of(run: xr.DataTree) -> list[str]:
    """What could mislead the reader of a run."""
    notes: list[str] = json.loads(run.attrs["notes"])
    return notes
