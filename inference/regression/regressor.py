"""Bayesian distribution regression with scikit-learn's interface."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from scipy.stats import norm

from ..core.errors import InputError, check_choice, check_flag
from ..core.estimators import BaseEstimator, RegressorMixin
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..data.canonical import canonical_order
from ..data.checks import check_count, check_proportion, default_names, pluralize
from .groups import GroupMeans, LandmarkFeatures, as_groups, as_targets, group_means
from .linear import fit_regression, predict_draws, sample_nuts

with contextlib.suppress(ImportError):  # without scikit-learn a BaseEstimator has no instances
    from sklearn.metrics import r2_score
    from sklearn.utils.validation import check_is_fitted

if TYPE_CHECKING:
    import pandas as pd
    from bke.models.kernels.base import Kernel
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How the posterior is computed: by iteration and quadrature, or by NUTS.
Method: TypeAlias = Literal["empirical", "nuts"]
METHODS: tuple[str, ...] = get_args(Method)


@dataclasses.dataclass(frozen=True, repr=False)
class RegressionSummary(ReprMixin):
    """Cross-validated predictions of groups.

    Coefficients, variances and the prior of embeddings are those of the other folds; landmarks and
    the covariance within groups, which do not depend on y, those of all groups.

    Attributes:
        y: (G,), the targets.
        predicted: (G,), predictions from the other folds.
        predicted_std: (G,), the predictions' standard deviation.
        counts: (G,), rows of each group.
        labels: (G,).
        ridge_predicted: (G,), predictions of Bayesian ridge regression on the empirical embeddings.
        variance_components: mean variance of y due to the sampling of embeddings, to the
            uncertainty of coefficients, and to noise.
        n_coordinates: number of coordinates of the embeddings.
        shrinkage: if false, embeddings were taken to be the empirical ones.
    """

    y: np.ndarray
    predicted: np.ndarray
    predicted_std: np.ndarray
    counts: np.ndarray
    labels: tuple[Any, ...]
    ridge_predicted: np.ndarray
    variance_components: tuple[float, float, float]
    n_coordinates: int
    shrinkage: bool

    @property
    def r2(self) -> float:
        """Cross-validated R^2, the proportion of the variance of y that is explained."""
        return float(r2_score(self.y, self.predicted))

    @property
    def ridge_r2(self) -> float:
        """Cross-validated R^2 of ridge regression."""
        return float(r2_score(self.y, self.ridge_predicted))

    @property
    def coverage(self) -> float:
        """Proportion of the groups whose 90 % interval contains y."""
        half = norm.isf(0.05) * self.predicted_std
        return float(np.mean(np.abs(self.y - self.predicted) <= half))

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each group.

        Columns: ``group``, its label; ``rows`` of it; ``y``; ``predicted`` from the other folds;
        ``predicted_std``; and ``ridge_predicted``, by ridge regression.
        """
        import pandas as pd

        names = ("y", "predicted", "predicted_std", "ridge_predicted")
        columns = {name: getattr(self, name) for name in names}
        return pd.DataFrame({"group": self.labels, "rows": self.counts, **columns})

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, for JSON; without the groups."""
        components = ("embeddings", "coefficients", "noise")
        return {
            "groups": len(self.y),
            "rows": int(self.counts.sum()),
            "n_coordinates": self.n_coordinates,
            "shrinkage": self.shrinkage,
            "r2": self.r2,
            "ridge_r2": self.ridge_r2,
            "coverage": self.coverage,
            "variance_components": dict(zip(components, self.variance_components, strict=True)),
        }

    def __str__(self) -> str:
        low, median, high = np.quantile(self.counts, [0.0, 0.5, 1.0])
        total = sum(self.variance_components)
        sampling, coefficients, noise = (part / total for part in self.variance_components)
        return (
            f"Cross-validated R^2 {self.r2:.3f} ({self.ridge_r2:.3f} by ridge regression on "
            f"empirical embeddings); {self.coverage:.1%} of y are in their 90 % intervals.\n"
            f"  {pluralize(len(self.y), 'group')} of {low:.0f} to {high:.0f} rows (median "
            f"{median:.0f}), embeddings in {pluralize(self.n_coordinates, 'coordinate')}.\n"
            f"  Variance of predictions: {noise:.0%} noise, {sampling:.0%} sampling of rows within "
            f"groups, {coefficients:.0%} uncertainty of coefficients."
        )

    def __repr__(self) -> str:
        return f"<regression of {len(self.y)} groups: R^2 {self.r2:.3f}>"


class DistributionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict a number for every group of rows from the distribution of its rows.

    A group is a sample of a distribution, and y is linear in the distribution's mean embedding
    (Muandet et al. 2017, section 3.7.3), so that it is the expectation of a smooth function of a
    row, such as a mean, a second moment, a product of columns or the probability of a region, and
    not, for example, a ratio of these. Groups of few rows determine their distribution poorly:
    embeddings have a Gaussian process prior around that of all groups, estimated from them, by
    which those of small groups are shrunk. The remaining uncertainty of embeddings and
    coefficients adds to the variance of y (the "BDR" of Law, Sutherland, Sejdinovic and Flaxman
    2018). With ``shrinkage=False`` the empirical embeddings are used: Bayesian ridge regression.

    An estimator of scikit-learn (``pip install 'bke[sklearn]'``), of sequences of groups.

    Attributes:
        summary_: cross-validated predictions of the groups, a
            :class:`~bke.inference.RegressionSummary`.
        posterior_: draws of ``intercept``, ``slopes``, ``scale`` and ``noise`` for standardized y,
            a tree for ArviZ. Predictions use them with ``method="nuts"``.
        features_: the kernels and landmarks.
        landmarks_: (L, D), in the units of the rows.
        coordinates_: coordinates in which the embeddings are independent.
        columns_: names of the columns.
        n_features_in_: D.
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        landmarks: int = 40,
        shrinkage: bool = True,
        method: Method = "empirical",
        num_chains: int = 4,
        num_warmup: int = 500,
        num_samples: int = 500,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        """Set parameters; :meth:`fit` checks them.

        Args:
            kernel: of rows, in their units; by default squared exponentials of half, once and twice
                the median distance of standardized columns, and the columns themselves.
            landmarks: number of points at which the kernel is evaluated.
            shrinkage: shrink embeddings of small groups; not where y is a function of the very rows
                of the group, such as their mean of another column.
            method: ``"empirical"``: coefficients given their prior variance, the noise variance and
                the variance that uncertain embeddings add, the first two integrated out by
                quadrature, the last found by iteration; ``"nuts"``: all of them sampled.
            num_chains: chains of NUTS.
            num_warmup: iterations of each chain before its draws.
            num_samples: draws of each chain.
            seed: seed of landmarks and chains.
            progress: show NUTS's progress.
        """
        self.kernel = kernel
        self.landmarks = landmarks
        self.shrinkage = shrinkage
        self.method = method
        self.num_chains = num_chains
        self.num_warmup = num_warmup
        self.num_samples = num_samples
        self.seed = seed
        self.progress = progress

    def fit(self, X: Any, y: Any, groups: Any = None) -> DistributionRegressor:
        """Fit to groups; at least eight are needed.

        Args:
            X: a sequence of groups, each rows (n, D), (n,) or a data frame, or a mapping to them by
                labels; or one array (N, D) or data frame of all rows with ``groups``. Columns of
                data frames are matched by name.
            y: a number for each group, in their order, or by label in a mapping or a pandas Series;
                with ``groups`` also one for each row, constant within a group.
            groups: (N,), labels of the rows' groups, or the name of a column of ``X``.

        Raises:
            InputError: for invalid data or arguments; the message names them.
        """
        check_choice(self.method, "method", METHODS)
        check_flag(self.shrinkage, "shrinkage")
        check_count(self.landmarks, "landmarks", 1, 1000)
        check_count(self.seed, "seed", 0, 2**63 - 1)
        minima = {"num_chains": 1, "num_warmup": 20, "num_samples": 4}
        options: dict[str, Any] = {
            name: check_count(getattr(self, name), name, least) for name, least in minima.items()
        }
        grouped = as_groups(X, groups)
        targets = as_targets(y, grouped)
        if len(targets) < 8:
            raise InputError(f"at least 8 groups are needed, and there are {len(targets)}")
        if np.ptp(targets) == 0.0:
            raise InputError("y is the same for all groups, so there is nothing to learn")
        self.n_features_in_, self._names = grouped.rows.shape[1], grouped.columns
        self.columns_ = grouped.columns or tuple(default_names(self.n_features_in_))
        self._center, self._scale = float(targets.mean()), float(targets.std())
        standardized = (targets - self._center) / self._scale
        with computing():
            self.features_ = LandmarkFeatures.choose(
                grouped, self.kernel, self.landmarks, self.seed
            )
            self.landmarks_ = (
                self.features_.center + self.features_.scale * self.features_.landmarks
            )
            means = group_means(grouped, self.features_)
            if not means.degrees_of_freedom:
                raise InputError(
                    "all groups have one row: the covariance within groups needs more in some"
                )
            self.coordinates_, self._average = fit_regression(
                means, standardized, self.shrinkage, self.seed
            )
            if not len(self.coordinates_.variances):
                raise InputError("groups differ no more than samples of one distribution do")
            embeddings = self.coordinates_.embed(means)
            self._uses_draws = self.method == "nuts"
            if self._uses_draws:
                options |= {"seed": self.seed, "progress_bar": self.progress}
                self.posterior_ = sample_nuts(*embeddings, standardized, **options)
            else:
                self.posterior_ = self._average.draw(self.num_chains, self.num_samples, self.seed)
            predicted, std, ridge = self._cross_validate(means, standardized)
        _, parts = self._average.predict(*embeddings)
        sampling, coefficients, noise = (parts.mean(axis=1) * self._scale**2).tolist()
        self.summary_ = RegressionSummary(
            y=targets,
            predicted=self._center + self._scale * predicted,
            predicted_std=self._scale * std,
            counts=grouped.counts,
            labels=grouped.labels,
            ridge_predicted=self._center + self._scale * ridge,
            variance_components=(sampling, coefficients, noise),
            n_coordinates=len(self.coordinates_.variances),
            shrinkage=self.shrinkage,
        )
        return self

    def predict(
        self, X: Any, groups: Any = None, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict y (G,) of groups, and with ``return_std`` its standard deviation (G,).

        Raises:
            InputError: rows have other columns than those of :meth:`fit`.
            NotFittedError: :meth:`fit` was not called.
        """
        mean, variance = self._embed(X, groups)
        if self._uses_draws:
            means, variances = predict_draws(self.posterior_, mean, variance)
            predicted, total = means.mean(axis=0), means.var(axis=0) + variances.mean(axis=0)
        else:
            predicted, parts = self._average.predict(mean, variance)
            total = parts.sum(axis=0)
        predicted = self._center + self._scale * predicted
        return (predicted, self._scale * np.sqrt(total)) if return_std else predicted

    def predict_interval(self, X: Any, groups: Any = None, *, level: float = 0.9) -> np.ndarray:
        """Predict intervals (G, 2) that contain y of a group with probability ``level``.

        Raises:
            InputError: as :meth:`predict`.
        """
        tail = 0.5 * (1.0 - check_proportion(level, "level"))
        check_is_fitted(self)
        if not self._uses_draws:
            mean, std = self.predict(X, groups, return_std=True)
            return np.stack([mean - norm.isf(tail) * std, mean + norm.isf(tail) * std], axis=1)
        means, variances = predict_draws(self.posterior_, *self._embed(X, groups))
        draws = np.random.default_rng([self.seed, 41]).normal(means, np.sqrt(variances))
        return self._center + self._scale * np.quantile(draws, [tail, 1.0 - tail], axis=0).T

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return R^2, the proportion of the variance of y that predictions explain."""
        return float(r2_score(as_targets(y, as_groups(X, groups)), self.predict(X, groups)))

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw y of the groups against cross-validated predictions, with intervals."""
        from ..plots.regression import plot_regression

        check_is_fitted(self)
        return plot_regression(self.summary_, ax=ax)

    def __sklearn_tags__(self) -> Any:
        """Declare that X is no matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def __str__(self) -> str:
        return str(self.summary_) if hasattr(self, "summary_") else repr(self)

    def _embed(self, X: Any, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return means (G, q) and variances (G, q) of the embeddings of new groups."""
        check_is_fitted(self)
        grouped = as_groups(X, groups, self._names)
        if grouped.rows.shape[1] != self.n_features_in_:
            raise InputError(
                f"rows have {grouped.rows.shape[1]} columns, and those of fit {self.n_features_in_}"
            )
        with computing():
            return self.coordinates_.embed(group_means(grouped, self.features_))

    def _cross_validate(
        self, means: GroupMeans, y: np.ndarray, folds: int = 5
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predict groups from other folds: mean, standard deviation, and mean by ridge (G,)."""
        order = np.random.default_rng([self.seed, 43]).permutation(len(y))
        fold_of_group = np.empty(len(y), dtype=int)
        fold_of_group[canonical_order(means.values)[order]] = np.arange(len(y)) % folds
        predicted, variance, ridge = (np.empty(len(y)) for _ in range(3))
        for fold in range(folds):
            test, train = fold_of_group == fold, fold_of_group != fold
            for shrinkage in {self.shrinkage, False}:
                coordinates, average = fit_regression(
                    means.take(train), y[train], shrinkage, self.seed
                )
                mean, parts = average.predict(*coordinates.embed(means.take(test)))
                if shrinkage == self.shrinkage:
                    predicted[test], variance[test] = mean, parts.sum(axis=0)
                if not shrinkage:
                    ridge[test] = mean
        return predicted, np.sqrt(variance), ridge
