"""The test whose statistic is that of a comparison: evidence at all scales, and places.

``two_sample_test(kernel="fused")`` and :func:`~bke.inference.compare` ask the same of the same
relabellings, so that they never disagree.
"""

from __future__ import annotations

import numpy as np

from ..core.progress import progress_bar
from ..data.units import choose_scale
from ..evidence.ladder import test_scales
from ..evidence.places import cells
from ..evidence.statistic import STATISTICS, Evidences, evidences
from ..learning.kernel_selection import extend_kernel, scaled_kernel
from ..permutation.pair import Pair
from ..permutation.permutation import monte_carlo_error, p_value
from ..permutation.pooling import relabelled, swapped
from .discrepancy import Statistic
from .kernel_choice import KernelChoice
from .null_choice import NullChoice
from .result import Part

#: What the combination is, in words.
FUSED = "how surprising all parts together are"


def fused(
    pair: Pair, choice: KernelChoice, asked: NullChoice, seed: int, *, progress: bool
) -> Statistic:
    """Evaluate the evidence that two samples differ for every labelling.

    Args:
        pair: the samples; columns of one value in both say nothing.
        choice: how columns are scaled: ``"column"`` by how wide each is, as a comparison does, or
            all by one number.
        asked: how many permutations, and whether they swap pairs.
        seed: of the permutations.
        progress: show a bar.
    """
    some, varying = pair.varying()
    # Whether one number divides all columns or none does is the same: scales go by distances.
    unit = None if choice.scale == "column" else choose_scale(some.pooled[some.chosen], "pooled")
    relabel = swapped if asked.estimator == "paired" else relabelled
    rows = relabel(some, asked.draws, some.generator(seed), unit)
    scales = test_scales(rows)
    with progress_bar("scales", len(scales), shown=progress) as advance:
        found = evidences(rows, cells(rows), advance, scales)
    return told(found, rows.unit, varying, asked.alpha)


def told(found: Evidences, unit: np.ndarray, varying: np.ndarray, alpha: float) -> Statistic:
    """Tell the evidence of all kinds as one statistic.

    Args:
        found: of every labelling.
        unit: what varying columns were divided by.
        varying: (D,), which columns are not one value in both samples.
        alpha: at which the evidence at one scale is enough by itself.
    """
    row = found.statistic()
    family, lengthscale = found.scale
    kernel = extend_kernel(scaled_kernel(lengthscale, unit, family.model), varying)
    kinds = found.kinds()
    parts = tuple(
        Part(
            f"evidence {kind.where}",
            kind.statistic,
            kind.pvalue,
            kernel if kind.where == STATISTICS[0] else None,
            kind.surprise,
        )
        for kind in kinds
    )
    error = monte_carlo_error(lambda i: found.of(i).statistic(), p_value(row), len(row))
    loudest, of_scales = kinds[0].where, kinds[0].where in STATISTICS[:2]
    heard = next(kind.pvalue for kind in kinds if kind.where == STATISTICS[0]) <= alpha
    named = "difference most conspicuous at"
    if not of_scales:
        named = f"evidence loudest {loudest}, and of single scales at"
    return Statistic(row, parts, kernel, FUSED, error, named, heard)
