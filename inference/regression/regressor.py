"""How well a regression predicts each group from the others, in numbers and words."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import xarray as xr
from scipy.stats import norm

from ..core.errors import InputError, nearest
from ..core.machine import computing
from ..core.notebook import Shown
from ..data.canonical import canonical_order
from ..data.checks import check_count, check_share, counted
from ..data.file_table import default_names
from .groups import Features, Groups, Means, as_groups, as_targets, means_of
from .linear import learned, of_average, of_draws, sampled

if TYPE_CHECKING:
    import pandas as pd

#: The level of intervals that are counted.
LEVEL = 0.9
#: Rows at which groups are told apart by their size.
SMALL = (10, 100)


@dataclasses.dataclass(frozen=True, repr=False)
class RegressionSummary(Shown):
    """Predictions of groups by groups of other folds.

    Slopes, variances and the prior of embeddings are those of the other folds; landmarks and the
    covariance within groups, which no y has touched, those of all groups.

    Attributes:
        y: (G,), what was to be predicted.
        predicted: (G,), by other folds.
        deviation: (G,), of the prediction's error as it is expected.
        counts: (G,), rows of each.
        labels: (G,).
        ridge: (G,), what Bayesian ridge regression on the embeddings as they are predicts.
        parts: the mean variance of y by the sampling of embeddings, by what is not known of slopes,
            and noise.
        coordinates: how many the embeddings have.
        shrinkage: whether embeddings are known up to a posterior.
    """

    y: np.ndarray
    predicted: np.ndarray
    deviation: np.ndarray
    counts: np.ndarray
    labels: tuple[Any, ...]
    ridge: np.ndarray
    parts: tuple[float, float, float]
    coordinates: int
    shrinkage: bool

    @property
    def explained(self) -> float:
        """What share of y's variance is explained by other folds, R^2."""
        return share_explained(self.y, self.predicted)

    @property
    def explained_by_ridge(self) -> float:
        """R^2 of ridge regression."""
        return share_explained(self.y, self.ridge)

    @property
    def covered(self) -> float:
        """How many of the groups their 90 % interval holds, as a share."""
        half = norm.isf(0.5 * (1.0 - LEVEL)) * self.deviation
        return float(np.mean(np.abs(self.y - self.predicted) <= half))

    def to_dataframe(self) -> pd.DataFrame:
        """One row for each group.

        Columns: ``group``, its label; ``rows`` of it; ``y``; ``predicted`` by other folds;
        ``deviation`` of the error as it is expected; and what ``ridge`` regression predicts.
        """
        import pandas as pd

        told = {"group": self.labels, "rows": self.counts, "y": self.y}
        found = {"predicted": self.predicted, "deviation": self.deviation, "ridge": self.ridge}
        return pd.DataFrame({**told, **found})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON; without the groups."""
        return {
            "groups": len(self.y),
            "rows": int(self.counts.sum()),
            "coordinates": self.coordinates,
            "shrinkage": self.shrinkage,
            "explained": self.explained,
            "explained_by_ridge": self.explained_by_ridge,
            "covered": self.covered,
            "variance": dict(zip(("embeddings", "slopes", "noise"), self.parts, strict=True)),
        }

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.counts, [0.0, 0.5, 1.0])
        total = sum(self.parts)
        shares = [100.0 * part / total for part in self.parts]
        lines = [
            f"{counted(len(self.y), 'group')} of {low:.0f} to {high:.0f} rows (median "
            f"{middle:.0f}), embeddings in {counted(self.coordinates, 'coordinate')}.",
            f"Predicted by groups of other folds: {100.0 * self.explained:.1f} % of the variance "
            f"of y is explained ({100.0 * self.explained_by_ridge:.1f} % by ridge regression on "
            f"embeddings as they are); {100.0 * self.covered:.1f} % of the 90 % intervals hold y.",
            f"What is not known of y: {shares[2]:.0f} % noise, {shares[0]:.0f} % for groups have "
            f"few rows, {shares[1]:.0f} % for there are few groups.",
        ]
        return "\n  ".join(lines)

    def __repr__(self) -> str:
        return f"<regression of {len(self.y)} groups: {self.explained:.1%} explained>"


def share_explained(y: np.ndarray, predicted: np.ndarray) -> float:
    """What share of the variance of y (G,) predictions (G,) explain, R^2."""
    return 1.0 - float(np.mean((y - predicted) ** 2) / np.var(y))


try:
    from sklearn.base import BaseEstimator, RegressorMixin
    from sklearn.utils.validation import check_is_fitted
except ImportError:
    raise InputError("scikit-learn is not installed: pip install 'bke[sklearn]'") from None

if TYPE_CHECKING:
    from bke.models.kernels.base import Kernel
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: How slopes and variances are found: in turns, with quadrature for two of the variances, or all
#: by NUTS.
Method: TypeAlias = Literal["empirical", "nuts"]
METHODS: tuple[str, ...] = get_args(Method)
#: Groups that a regression needs, and folds by which it is judged.
LEAST, FOLDS = 8, 5


class DistributionRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predict a number for every group of rows from what the group's rows are like.

    A group is a sample of a distribution, and y is linear in the distribution's mean embedding
    (KME section 3.7.3, DST-10), so that it may be any smooth function of means, spreads, shapes and
    how columns go together. Groups of few rows tell their distribution badly: embeddings have a
    Gaussian process prior around that of all groups, estimated from them, by which those of small
    groups are shrunk, and what is not known of them adds to the variance of y, beside what is not
    known of the slopes (the "BDR" of Law, Sutherland, Sejdinovic and Flaxman 2018). With
    ``shrinkage=False`` embeddings are taken as they are: Bayesian ridge regression.

    A regressor of scikit-learn's (``pip install 'bke[sklearn]'``), of sequences of groups.

    Attributes:
        summary_: how well groups are predicted by those of other folds, a
            :class:`~bke.inference.RegressionSummary`.
        posterior_: draws of ``intercept``, ``slopes``, ``scale`` and ``noise`` for y over its
            deviation, a tree of ArviZ's. Predictions are by them with ``method="nuts"``.
        features_: the kernels and landmarks.
        landmarks_: (L, D), in the units of the rows.
        coordinates_: in which embeddings are independent.
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
        chains: int = 4,
        warmup: int = 500,
        draws: int = 500,
        seed: int = 0,
        progress: bool = False,
    ) -> None:
        """Say how to regress; arguments are checked by :meth:`fit`.

        Args:
            kernel: of rows, in their units; by default squared exponentials of half, once and twice
                the median distance of columns over their deviations, and the columns themselves.
            landmarks: where the kernel is looked at.
            shrinkage: whether embeddings are known up to a posterior, as those of samples are; not
                where y is a number of the very rows that are given, such as their mean of
                something else.
            method: ``"empirical"``: slopes given their scale, the noise and the variance that
                uncertain embeddings add, the first two averaged over by quadrature, the last found
                in turns; ``"nuts"``: all of them drawn.
            chains: of NUTS.
            warmup: iterations of each chain before its draws.
            draws: of each chain.
            seed: of landmarks and chains.
            progress: show NUTS's progress.
        """
        self.kernel = kernel
        self.landmarks = landmarks
        self.shrinkage = shrinkage
        self.method = method
        self.chains = chains
        self.warmup = warmup
        self.draws = draws
        self.seed = seed
        self.progress = progress

    def fit(self, X: Any, y: Any, groups: Any = None) -> DistributionRegressor:
        """Learn from groups.

        Args:
            X: a sequence of groups, each rows (n, D), (n,) or a data frame, or a mapping to them by
                labels; or one array (N, D) or data frame of all rows with ``groups``. Columns of
                data frames go by their names.
            y: a number for each group, in their order, or by label in a mapping or a pandas Series;
                with ``groups`` also one for each row that is the same within a group.
            groups: (N,), labels of the rows' groups, or the name of a column of ``X``.

        Raises:
            InputError: for data or arguments that make no sense, in one sentence.
        """
        self._check()
        taken = as_groups(X, groups)
        targets = as_targets(y, taken)
        if len(targets) < LEAST:
            raise InputError(f"at least {LEAST} groups are needed, and there are {len(targets)}")
        if np.ptp(targets) == 0.0:
            raise InputError("y is the same for all groups, so there is nothing to learn")
        self.n_features_in_, self._names = taken.rows.shape[1], taken.columns
        self.columns_ = taken.columns or tuple(default_names(self.n_features_in_))
        self._centre, self._unit = float(targets.mean()), float(targets.std())
        with computing():
            self.features_ = Features.of(taken, self.kernel, self.landmarks, self.seed)
            self.landmarks_ = self.features_.centre + self.features_.unit * self.features_.landmarks
            means = means_of(taken, self.features_)
            if not means.freedom:
                raise InputError("all groups have one row: nothing tells what sampling does")
            standard = (targets - self._centre) / self._unit
            self._learned = learned(means, standard, self.shrinkage, self.seed)
            self.coordinates_ = self._learned.coordinates
            if not len(self.coordinates_.spread):
                raise InputError("groups differ no more than samples of one distribution do")
            self._drawn = self.method == "nuts"
            self.posterior_ = self._draws(means, standard)
            self.summary_ = self._summary(taken, targets, means, standard)
        return self

    def predict(
        self, X: Any, groups: Any = None, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict y (G,) of groups, and with ``return_std`` its standard deviation (G,).

        Raises:
            InputError: rows have other columns.
            NotFittedError: :meth:`fit` was not called.
        """
        mean, parts = self._predicted(X, groups)
        return (mean, np.sqrt(parts.sum(axis=0))) if return_std else mean

    def predict_interval(self, X: Any, groups: Any = None, *, level: float = 0.9) -> np.ndarray:
        """Predict intervals (G, 2) that hold y of a group with probability ``level``.

        Raises:
            InputError: as of :meth:`predict`.
        """
        tail = 0.5 * (1.0 - check_share(level, "level"))
        check_is_fitted(self)
        if not self._drawn:
            mean, parts = self._predicted(X, groups)
            half = norm.isf(tail) * np.sqrt(parts.sum(axis=0))
            return np.stack([mean - half, mean + half], axis=1)
        means, variances = self._of_draws(self._means(X, groups))
        rng = np.random.default_rng([self.seed, 41])
        drawn = rng.normal(means, np.sqrt(variances))
        return self._centre + self._unit * np.quantile(drawn, [tail, 1.0 - tail], axis=0).T

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Tell what share of y's variance predictions explain, R^2."""
        taken = as_groups(X, groups)
        return share_explained(as_targets(y, taken), np.asarray(self.predict(X, groups)))

    def plot(self, *, ax: Axes | None = None) -> Figure:
        """Draw y of the groups against what other folds predict, with intervals."""
        from ..plots.regression import plot_regression

        check_is_fitted(self)
        return plot_regression(self.summary_, ax=ax)

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that X is no matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def __str__(self) -> str:
        return str(self.summary_) if hasattr(self, "summary_") else repr(self)

    def _check(self) -> None:
        if self.method not in METHODS:
            told = nearest(self.method, METHODS)
            raise InputError(
                f"method must be one of {', '.join(METHODS)}, and is {self.method!r}{told}"
            )
        check_count(self.landmarks, "landmarks", 1, 1000)
        check_count(self.seed, "seed", 0, 2**63 - 1)
        for name, least in (("chains", 1), ("warmup", 20), ("draws", 4)):
            check_count(getattr(self, name), name, least)

    def _draws(self, means: Means, standard: np.ndarray) -> xr.DataTree:
        if not self._drawn:
            return of_average(self._learned.average, self.chains, self.draws, self.seed)
        return sampled(
            *self.coordinates_.embedded(means, self.shrinkage),
            standard,
            chains=self.chains,
            warmup=self.warmup,
            draws=self.draws,
            seed=self.seed,
            progress=self.progress,
        )

    def _means(self, X: Any, groups: Any) -> Means:
        check_is_fitted(self)
        taken = as_groups(X, groups, self._names)
        if taken.rows.shape[1] != self.n_features_in_:
            raise InputError(
                f"rows have {taken.rows.shape[1]} columns, and those of fit {self.n_features_in_}"
            )
        with computing():
            return means_of(taken, self.features_)

    def _predicted(self, X: Any, groups: Any) -> tuple[np.ndarray, np.ndarray]:
        """The mean (G,) of y and its variance in parts (3, G), in the units of y."""
        means = self._means(X, groups)
        if not self._drawn:
            mean, parts = self._learned.predicted(means)
            return self._centre + self._unit * mean, self._unit**2 * parts
        each, variances = self._of_draws(means)
        noise = np.full(each.shape[1], float((self.posterior_["posterior"]["noise"] ** 2).mean()))
        parts = np.stack([variances.mean(axis=0) - noise, each.var(axis=0), noise])
        return self._centre + self._unit * each.mean(axis=0), self._unit**2 * parts

    def _of_draws(self, means: Means) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances (S, G) of y of groups over its deviation, given each draw."""
        found = self._learned
        return of_draws(self.posterior_, *found.coordinates.embedded(means, found.shrinkage))

    def _summary(
        self, taken: Groups, y: np.ndarray, means: Means, standard: np.ndarray
    ) -> RegressionSummary:
        """How well groups are predicted by those of other folds, beside ridge regression."""
        order = np.random.default_rng([self.seed, 43]).permutation(len(y))
        folds = np.empty(len(y), dtype=int)
        folds[canonical_order(means.values)[order]] = np.arange(len(y)) % FOLDS
        mean, variance, ridge = (np.empty(len(y)) for _ in range(3))
        for fold in range(FOLDS):
            at, others = folds == fold, folds != fold
            known = means.of(others), standard[others]
            found = learned(*known, self.shrinkage, self.seed)
            mean[at], parts = found.predicted(means.of(at))
            variance[at] = parts.sum(axis=0)
            ridge[at] = mean[at]
            if self.shrinkage:
                ridge[at], _ = learned(*known, False, self.seed).predicted(means.of(at))
        _, parts = self._learned.predicted(means)
        of_embeddings, of_slopes, noise = (parts.mean(axis=1) * self._unit**2).tolist()
        return RegressionSummary(
            y=y,
            predicted=self._centre + self._unit * mean,
            deviation=self._unit * np.sqrt(variance),
            counts=taken.counts,
            labels=taken.labels,
            ridge=self._centre + self._unit * ridge,
            parts=(of_embeddings, of_slopes, noise),
            coordinates=len(self.coordinates_.spread),
            shrinkage=self.shrinkage,
        )
