"""The kernel Student-t density as a density estimator of scikit-learn."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Self

import numpy as np
from bke.models import hyvarinen_scores
from bke.models.kernels.base import Covariance
from bke.models.student_t.quadrature import Bounds

from ..core.estimators import BaseEstimator, DensityMixin
from ..data.checks import as_sample, check_count, plain_array
from ..data.new_rows import as_evaluation_points
from .learning import NOISE_VARIANCES, learn_student_t
from .sampling import draw_rows

with contextlib.suppress(ImportError):  # without scikit-learn a BaseEstimator has no instances
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import check_is_fitted, validate_data


class KernelStudentTDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A kernel Student-t density with the methods of ``sklearn.neighbors.KernelDensity``.

    In one or two columns the density is normalized on a box; in more it is known up to a constant,
    which allows comparing points, as in novelty detection, but not estimators.

    Args:
        kernel: ``"median"``, ``"bkl"`` or a kernel of :mod:`bke.models`.
        factor: factor of its lengthscale; ``None`` chooses one, as for ``noise_variance``, by
            :func:`~bke.inference.learn_student_t`.
        noise_variance: sigma_0^2 of the prior, relative to k(x, x).
        alpha: degrees of freedom of the prior.
        beta: weight of the prior mean, in rows.
        bounds: lower and upper corner of the box, each (D,) or a number; by default the range of
            the rows, extended by half of it at each side.
        random_state: seed of the kernel's choice and of draws.

    Attributes:
        learned_: the result of :func:`~bke.inference.learn_student_t`.
        n_features_in_: D.
    """

    def __init__(
        self,
        kernel: str | Covariance = "median",
        *,
        factor: float | None = None,
        noise_variance: float | None = None,
        alpha: float = 1.0,
        beta: float = 0.01,
        bounds: Bounds | None = None,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.factor = factor
        self.noise_variance = noise_variance
        self.alpha = alpha
        self.beta = beta
        self.bounds = bounds
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Condition on the rows of ``X``, (n, D), and choose parameters that are ``None``."""
        points = as_sample(self._validated(X, ensure_min_samples=2))
        self.learned_ = learn_student_t(
            points,
            kernel=self.kernel,
            factors=None if self.factor is None else (self.factor,),
            noise_variance=NOISE_VARIANCES if self.noise_variance is None else self.noise_variance,
            alpha=self.alpha,
            beta=self.beta,
            bounds=self.bounds,
            seed=self.random_state,
            progress=False,
        )
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """Evaluate the log density of rows of ``X``, (n,), up to a constant beyond two columns."""
        check_is_fitted(self)
        return self.learned_.log_density(self._rows(X))

    def score(self, X: Any, y: Any = None) -> float:
        """Compute the total log density of ``X``, beyond two columns a score-matching score.

        Larger is better. Beyond two columns no normalizer is known, so that log densities of
        different hyperparameters cannot be compared; minus the sum of
        :func:`~bke.models.hyvarinen_scores` can.
        """
        check_is_fitted(self)
        if self.learned_.normalizer is not None:
            return float(np.sum(self.score_samples(X)))
        return -float(np.sum(hyvarinen_scores(self.learned_.density, self._rows(X))))

    def _validated(self, X: Any, **options: Any) -> np.ndarray:
        """Check ``X`` by scikit-learn, with masked cells as NaN, which it would unmask."""
        X = plain_array(X, "X") if isinstance(X, np.ma.MaskedArray) else X
        return np.asarray(validate_data(self, X, ensure_all_finite=False, **options))

    def _rows(self, X: Any) -> np.ndarray:
        """Check new rows (n, D), finite; scikit-learn checks names and order of columns."""
        return as_evaluation_points(self._validated(X, reset=False), self.n_features_in_, "X")

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> np.ndarray:
        """Draw rows by NUTS, (n_samples, D), see :func:`~bke.inference.sample_student_t`.

        They are not independent. Notes of the run are raised as ``ConvergenceWarning``.
        """
        check_is_fitted(self)
        rows, notes = draw_rows(
            self.learned_,
            n_samples,
            bounds=self.bounds,
            num_chains=min(check_count(n_samples, "n_samples", 1), 32),
            min_samples=32,
            seed=self.random_state if random_state is None else random_state,
            progress=False,
        )
        for note in notes:
            warnings.warn(note, ConvergenceWarning, stacklevel=2)
        return rows
