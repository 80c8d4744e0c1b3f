"""The empirical mean embedding beside its shrunk relatives."""

from __future__ import annotations

import numpy as np
from bke.models import mean_embedding, shrunk_embedding, spectral_embedding
from bke.models.embeddings.embedding import Embedding
from bke.models.embeddings.shrinkage import AMOUNTS
from bke.models.kernels.base import Covariance


def shrinkage_estimates(X: np.ndarray, kernel: Covariance) -> dict[str, Embedding]:
    """Every estimate of the mean embedding of rows (n, D) by its name, the empirical one first."""
    return {
        "empirical": mean_embedding(X, kernel),
        **{amount: shrunk_embedding(X, kernel, amount=amount) for amount in AMOUNTS},
        "spectral": spectral_embedding(X, kernel),
    }
