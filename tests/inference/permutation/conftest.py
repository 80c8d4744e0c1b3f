"""Small numbers of rows that are permuted in bins."""

import pytest
from bke.inference.permutation import bins, pool


@pytest.fixture
def small_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Permute more than 20 different rows in bins."""
    monkeypatch.setattr(pool, "MAX_SINGLE", 20)
    monkeypatch.setattr(bins, "N_BINS", 25)
    monkeypatch.setattr(bins, "MIN_BINS", 5)
