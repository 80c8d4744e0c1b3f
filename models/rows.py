"""Work on an n x n array a few rows at a time, so that it stays in the processor's cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

#: Entries of one block: a handful of such arrays fit in a core's second-level cache.
BLOCK_ENTRIES = 2**15


def map_rows(function: Callable[[Any], Any], rows: Any, columns: int) -> Any:
    """Stack ``function`` of every row of the arrays in ``rows``, several rows at a time.

    ``columns`` is the width of what ``function`` builds for one row; it sets the block size.
    """
    n = jax.tree.leaves(rows)[0].shape[0]
    block = max(1, min(n, BLOCK_ENTRIES // max(1, columns)))
    return jax.lax.map(function, rows, batch_size=block)
