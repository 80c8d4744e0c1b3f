"""Support measure machines: classes and anomalies of groups of rows, by their distributions.

A group is a sample of a distribution P. The kernel between groups is Gaussian in the distance of
their mean embeddings (DST-3; Muandet et al. 2017, equation 3.42),

    K(P, Q) = exp(-|mu_P - mu_Q|^2 / (2 s^2)),

with the empirical embeddings. A support vector machine with this kernel is a support measure
machine (DST-6; Muandet, Fukumizu, Dinuzzo and Schölkopf 2012), and with one class it finds groups
that are unlike the others (DST-8; Muandet and Schölkopf 2013). Scikit-learn solves both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from bke.models import SquaredExponential
from bke.models.kernels.base import Covariance
from bke.models.linalg.clustering import column_scale

from ..core.errors import InputError
from ..core.estimators import BaseEstimator, ClassifierMixin, OutlierMixin
from ..core.machine import computing
from ..data.canonical import canonical_order
from ..data.checks import check_positive, plain_array
from ..learning.bandwidths import pairwise_distances
from .groups import GroupedRows, as_classes, as_groups, pad_rows

with contextlib.suppress(ImportError):  # without scikit-learn a BaseEstimator has no instances
    from sklearn.metrics import accuracy_score
    from sklearn.svm import SVC, OneClassSVM
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

#: Number of kernel values of rows that are in memory at a time. Not tuned.
MAX_VALUES = 2**24


class _GroupKernelMachine(BaseEstimator):  # type: ignore[misc]
    """A support vector machine on the kernel between groups.

    Attributes:
        kernel_: kernel of rows, whose columns are divided by ``scale_``.
        scale_: (D,); ones for a kernel of the user.
        lengthscale_: s, lengthscale of the kernel of groups.
        machine_: the fitted estimator of scikit-learn.
        n_features_in_: D.
    """

    kernel: Covariance | None
    lengthscale: float | None

    def _grouped(self, X: Any, groups: Any, *, reset: bool) -> GroupedRows:
        """Return the groups of ``X``; rows of one array without labels are groups of one row."""
        names = None if reset else self._names
        if groups is None and _is_array(X):
            X = plain_array(X, "X") if isinstance(X, np.ma.MaskedArray) else X
            rows = validate_data(self, X, reset=reset, dtype=float, ensure_min_samples=1)
            return as_groups(rows, np.arange(len(rows)))
        grouped = as_groups(X, groups, names)
        if reset:
            self.n_features_in_ = grouped.rows.shape[1]
        elif grouped.rows.shape[1] != self.n_features_in_:
            raise InputError(
                f"rows have {grouped.rows.shape[1]} columns, and those of fit {self.n_features_in_}"
            )
        return grouped

    def _fit_kernel(self, grouped: GroupedRows) -> np.ndarray:
        """Choose kernels and return the kernel matrix of the groups (G, G)."""
        self._names, self._groups = grouped.columns, grouped
        rows = grouped.rows[canonical_order(grouped.rows)]
        kernel, self.scale_ = self.kernel, np.ones(rows.shape[1])
        if kernel is None:
            self.scale_ = column_scale(rows)
            distances = pairwise_distances(rows / self.scale_, 0)
            kernel = SquaredExponential(float(np.median(distances)) if len(distances) else 1.0)
        self.kernel_: Covariance = kernel
        products = self._inner_products(grouped)
        self._squared_norms = products.diagonal().copy()
        squared = self._squared_norms[:, None] + self._squared_norms - 2.0 * products
        if self.lengthscale is None:
            positive = squared[np.triu_indices(len(squared), 1)]
            positive = positive[positive > 1e-12]
            self.lengthscale_ = float(np.sqrt(np.median(positive))) if len(positive) else 1.0
        else:
            self.lengthscale_ = check_positive(self.lengthscale, "lengthscale")
        return np.exp(-np.maximum(squared, 0.0) / (2.0 * self.lengthscale_**2))

    def _kernel_matrix(self, X: Any, groups: Any) -> np.ndarray:
        """Return the kernel matrix of new groups and those of the fit, (G, G_fit)."""
        check_is_fitted(self)
        grouped = self._grouped(X, groups, reset=False)
        products = self._inner_products(grouped)
        norms = np.array([self._squared_norm(part) for part in _split(grouped)])
        squared = norms[:, None] + self._squared_norms - 2.0 * products
        return np.exp(-np.maximum(squared, 0.0) / (2.0 * self.lengthscale_**2))

    def _inner_products(self, grouped: GroupedRows) -> np.ndarray:
        """Return the inner products of the embeddings of groups with those of the fit."""
        fitted = self._groups
        columns = fitted.rows / self.scale_
        products = np.empty((len(grouped.counts), len(fitted.counts)))
        block = max(1, MAX_VALUES // len(columns))
        with computing():
            for index, rows in enumerate(_split(grouped)):
                total = np.zeros(len(columns))
                for start in range(0, len(rows), block):
                    part = rows[start : start + block] / self.scale_
                    values = np.asarray(self.kernel_(pad_rows(part), columns))
                    total += values[: len(part)].sum(axis=0)
                means = np.add.reduceat(total, fitted.starts) / fitted.counts
                products[index] = means / len(rows)
        return products

    def _squared_norm(self, rows: np.ndarray) -> float:
        """Return the squared norm of the embedding of rows (n, D)."""
        scaled, total = rows / self.scale_, 0.0
        block = max(1, MAX_VALUES // len(rows))
        with computing():
            for start in range(0, len(rows), block):
                part = scaled[start : start + block]
                values = np.asarray(self.kernel_(pad_rows(part), pad_rows(scaled)))
                total += float(values[: len(part), : len(scaled)].sum())
        return total / len(rows) ** 2


def _is_array(X: Any) -> bool:
    """Return whether ``X`` is one array of rows, as in scikit-learn, and no sequence of groups.

    Raises:
        InputError: for lists of numbers of different lengths, which could be groups of one column.
    """
    if not isinstance(X, (list, tuple)):
        n_axes, kind = getattr(X, "ndim", 2), getattr(getattr(X, "dtype", None), "kind", "f")
        is_sequence = isinstance(X, Mapping) or (n_axes == 1 and kind == "O")
        return not is_sequence and n_axes <= 2
    if not X or not all(isinstance(row, (list, tuple)) and row for row in X):
        return False
    if any(np.ndim(row[0]) for row in X):
        return False
    if len({len(row) for row in X}) > 1:
        raise InputError(
            "X is a list of lists of numbers, which are rows of one array, and they have "
            "different lengths: pass groups of one column as arrays"
        )
    return True


def _split(grouped: GroupedRows) -> list[np.ndarray]:
    """Return the rows of each group."""
    return np.split(grouped.rows, grouped.starts[1:])


class SupportMeasureClassifier(ClassifierMixin, _GroupKernelMachine):  # type: ignore[misc]
    """Classify groups of rows by the distributions of their rows (a support measure machine).

    A classifier of scikit-learn (``pip install 'bke[sklearn]'``) whose samples are groups, see
    :meth:`fit`. It takes time proportional to the square of the number of all rows.

    Args:
        kernel: kernel of rows, in their units; by default squared exponential with the median
            distance of standardized columns.
        lengthscale: s in ``exp(-MMD^2 / (2 s^2))``; by default the median MMD of two groups.
        C: penalty of the support vector machine, see ``sklearn.svm.SVC``.
        class_weight: as for ``SVC``, such as ``"balanced"``.

    Attributes:
        classes_: labels of the classes.
        machine_: the fitted ``SVC``.
        kernel_: kernel of rows, whose columns are divided by ``scale_``.
        lengthscale_: s.
        n_features_in_: D, number of columns.
    """

    def __init__(
        self,
        kernel: Covariance | None = None,
        *,
        lengthscale: float | None = None,
        C: float = 1.0,
        class_weight: Any = None,
    ) -> None:
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.C = C
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Fit to groups and their classes.

        Args:
            X: a sequence of groups, each rows (n, D), (n,) or a data frame, or a mapping to them by
                labels; or one array (N, D) or data frame of all rows with ``groups``, without which
                each row is a group.
            y: the class of each group, in their order, or by label in a mapping or a pandas Series;
                with ``groups`` also one for each row, constant within a group.
            groups: (N,), labels of the rows' groups, or the name of a column of ``X``.

        Raises:
            InputError: for invalid groups; the message names them.
        """
        if y is None:
            raise InputError(
                "SupportMeasureClassifier requires y to be passed, but the target y is None"
            )
        grouped = self._grouped(X, groups, reset=True)
        classes = column_or_1d(as_classes(y, grouped), warn=True)
        check_classification_targets(classes)
        machine = SVC(C=self.C, kernel="precomputed", class_weight=self.class_weight)
        self.machine_ = machine.fit(self._fit_kernel(grouped), classes)
        self.classes_ = self.machine_.classes_
        return self

    def decision_function(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return the distances of groups from the boundary, (G,) or (G, number of classes)."""
        kernel = self._kernel_matrix(X, groups)
        return np.asarray(self.machine_.decision_function(kernel))

    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Predict the classes of groups, (G,)."""
        kernel = self._kernel_matrix(X, groups)
        return np.asarray(self.machine_.predict(kernel))

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the proportion of groups whose class is predicted."""
        predicted = self.predict(X, groups)
        classes = as_classes(y, self._grouped(X, groups, reset=False))
        return float(accuracy_score(classes, predicted))


class GroupAnomalyDetector(OutlierMixin, _GroupKernelMachine):  # type: ignore[misc]
    """Find groups whose rows are distributed unlike those of others (one-class support measures).

    An outlier detector of scikit-learn (``pip install 'bke[sklearn]'``) whose samples are groups.
    Each row of an anomalous group may be an ordinary one. It takes time proportional to the square
    of the number of all rows.

    Args:
        kernel: kernel of rows, in their units; by default squared exponential with the median
            distance of standardized columns.
        lengthscale: s in ``exp(-MMD^2 / (2 s^2))``; by default the median MMD of two groups.
        nu: upper bound of the proportion of groups of the fit that are anomalies, see
            ``sklearn.svm.OneClassSVM``.

    Attributes:
        machine_: the fitted ``OneClassSVM``.
        offset_: score of the boundary.
        kernel_: kernel of rows, whose columns are divided by ``scale_``.
        lengthscale_: s.
        n_features_in_: D, number of columns.
    """

    def __init__(
        self,
        kernel: Covariance | None = None,
        *,
        lengthscale: float | None = None,
        nu: float = 0.1,
    ) -> None:
        self.kernel = kernel
        self.lengthscale = lengthscale
        self.nu = nu

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Fit to groups, which are as for :meth:`SupportMeasureClassifier.fit`; ``y`` is not used.

        Raises:
            InputError: for invalid groups; the message names them.
        """
        grouped = self._grouped(X, groups, reset=True)
        machine = OneClassSVM(nu=self.nu, kernel="precomputed")
        self.machine_ = machine.fit(self._fit_kernel(grouped))
        self.offset_ = float(self.machine_.offset_[0])
        return self

    def score_samples(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return the similarity of groups to those of the fit, (G,); small for an anomaly."""
        kernel = self._kernel_matrix(X, groups)
        return np.asarray(self.machine_.score_samples(kernel))

    def decision_function(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return the similarity less that of the boundary, (G,); negative for an anomaly."""
        return np.asarray(self.score_samples(X, groups) - self.offset_)

    def predict(self, X: Any, groups: Any = None) -> np.ndarray:
        """Return -1 for anomalies and 1 for other groups, (G,)."""
        return np.where(self.decision_function(X, groups) < 0.0, -1, 1)
