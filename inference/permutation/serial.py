"""Check whether rows depend on their predecessors, where a test assumes independent rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

#: Probability of a note on independent rows, over all columns, and the smallest correlation that is
#: noted: below it the variance of a mean is larger by less than a quarter. Neither is tuned.
FALSE_NOTES, LEAST_CORRELATION = 0.01, 0.1
#: Rows that a sample needs, and rows of which at most this number, the first, are used.
MIN_ROWS, MAX_ROWS = 20, 20_000


def serial_note(samples: Sequence[np.ndarray], columns: Sequence[str]) -> tuple[str, ...]:
    """Return a note if rows, in the order given, seem to depend on their predecessors.

    The statistic of a column is the lag-1 correlation of its ranks within each sample, over all
    samples; under exchangeable rows its mean and standard error follow from the number of rows. A
    column that is sorted in a sample says nothing there.

    Args:
        samples: (n, D) each, in order; NaN where a value is missing.
        columns: names of the D columns.

    Returns:
        The note, of the column with the largest correlation, or nothing.
    """
    sums, counts, cubes = np.zeros((3, len(columns)))
    for sample, rows in enumerate(samples):
        if any(np.array_equal(rows, other, equal_nan=True) for other in samples[:sample]):
            continue
        for column, values in enumerate(rows[:MAX_ROWS].T):
            known = values[~np.isnan(values)]
            steps = np.diff(known)
            if len(known) < MIN_ROWS or (steps >= 0.0).all() or (steps <= 0.0).all():
                continue
            _, index, ties = np.unique(known, return_inverse=True, return_counts=True)
            ranks = (np.cumsum(ties) - 0.5 * ties)[index]
            scores = (ranks - ranks.mean()) / ranks.std()
            # One is the mean of the sum under exchangeability, with the sign reversed.
            sums[column] += scores[1:] @ scores[:-1] + 1.0
            counts[column] += len(known)
            cubes[column] += len(known) * np.mean(scores**3) ** 2
    counts = np.maximum(counts, 1.0)
    quantile = -ndtri(FALSE_NOTES / len(columns))
    # Cornish and Fisher's correction for the skewness of the sum, which rare values have.
    quantiles = quantile + (quantile**2 - 1.0) / 6.0 * cubes / counts**1.5
    correlations = sums / counts
    noted = correlations >= np.maximum(quantiles / np.sqrt(counts), LEAST_CORRELATION)
    if not noted.any():
        return ()
    column = int(np.argmax(np.where(noted, correlations, 0.0)))
    return (
        f"rows seem to depend on their predecessors (lag-1 correlation {correlations[column]:.2f} "
        f"of {columns[column]!r}): p-values assume independent rows, and are too small otherwise",
    )
