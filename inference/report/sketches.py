"""Sketches and what comes of comparing them, as plain data."""

from __future__ import annotations

from typing import Any

from ..sketches.comparison import SketchComparison
from ..sketches.sketch import Sketch
from .tests import result_summary


def sketch_summary(sketch: Sketch) -> dict[str, Any]:
    """Its plan in the units of the data, and how many rows are in it."""
    plan = sketch.plan
    return {
        "rows": sketch.rows,
        "columns": list(plan.columns),
        "landmarks": (plan.landmarks * plan.unit).tolist(),
        "lengthscales": plan.lengthscales.tolist(),
        "unit": dict(zip(plan.columns, plan.unit.tolist(), strict=True)),
    }


def comparison_summary(found: SketchComparison) -> dict[str, Any]:
    """The posterior on its grid, and the test if there is one."""
    names = ("lengthscale", "log_likelihood", "log_prior", "mass")
    return {
        "rows": dict(zip("PQ", found.sizes, strict=True)),
        "posterior": {name: found.posterior[name].values.tolist() for name in names},
        **({} if found.test is None else result_summary(found.test)),
    }
