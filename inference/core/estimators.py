"""Base classes of scikit-learn's estimators, or stand-ins where scikit-learn is not installed."""

from __future__ import annotations

from typing import Any, Self

from .errors import InputError

try:
    from sklearn.base import (
        BaseEstimator as BaseEstimator,
        ClassifierMixin as ClassifierMixin,
        DensityMixin as DensityMixin,
        OutlierMixin as OutlierMixin,
        RegressorMixin as RegressorMixin,
    )
except ImportError:
    # Classes can be imported, as by ``from bke.inference import *``, but not instantiated.
    class BaseEstimator:  # type: ignore[no-redef]
        """Stand-in for ``sklearn.base.BaseEstimator``."""

        def __new__(cls, *args: Any, **kwargs: Any) -> Self:
            """Raise ``InputError``: an estimator needs scikit-learn."""
            raise InputError("scikit-learn is not installed: pip install 'bke[sklearn]'")

    class ClassifierMixin:  # type: ignore[no-redef]
        """Stand-in for ``sklearn.base.ClassifierMixin``."""

    class OutlierMixin:  # type: ignore[no-redef]
        """Stand-in for ``sklearn.base.OutlierMixin``."""

    class DensityMixin:  # type: ignore[no-redef]
        """Stand-in for ``sklearn.base.DensityMixin``."""

    class RegressorMixin:  # type: ignore[no-redef]
        """Stand-in for ``sklearn.base.RegressorMixin``."""
