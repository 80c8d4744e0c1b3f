"""The kernel Student-t density as a density estimator of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from bke.models import hyvarinen_scores
from bke.models.kernels.base import Covariance
from bke.models.student_t.quadrature import Bounds

from ..core.errors import InputError
from ..data.arrays import plain_array
from ..data.checks import as_sample, check_count
from ..data.new_rows import as_evaluation_points
from .learning import NOISE_VARIANCES, learn_student_t
from .sampling import notes_of, pooled, sample_student_t

try:
    from sklearn.base import BaseEstimator, DensityMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise InputError("scikit-learn is not installed: pip install 'bke[sklearn]'") from None

#: Of each chain, from which those asked for are taken.
LEAST_DRAWS = 32


class KernelStudentTDensity(DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A density estimator in the manner of ``sklearn.neighbors.KernelDensity``.

    In one or two columns the density is normalised on a box; in more it is known up to a constant,
    which serves to compare points, as novelty detection does, and not to compare estimators.

    Args:
        kernel: ``"median"``, ``"bkl"`` or a kernel of :mod:`bke.models`.
        factor: what its lengthscale is multiplied by; ``None`` chooses one, as ``noise_variance``,
            by :func:`~bke.inference.learn_student_t`.
        noise_variance: sigma_0^2 of the prior, beside k(x, x).
        alpha: degrees of freedom of the prior.
        beta: rows that the prior mean is worth.
        bounds: lower and upper corner of the box, each (D,) or a number; by default the range of
            the rows and half of it more at each side.
        random_state: seed of the kernel's choice and of draws.

    Attributes:
        learned_: the :class:`~bke.inference.LearnedStudentT`.
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
        """Condition on the rows of ``X``, (n, D), and choose what is ``None``."""
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
        """Score ``X`` by its total log density, beyond two columns by score matching; high is good.

        There no normalizer is known, and log densities of different hyperparameters have nothing to
        do with each other; minus the sum of :func:`~bke.models.hyvarinen_scores` compares them.
        """
        check_is_fitted(self)
        if self.learned_.normalizer is not None:
            return float(np.sum(self.score_samples(X)))
        return -float(np.sum(hyvarinen_scores(self.learned_.density, self._rows(X))))

    def _validated(self, X: Any, **options: Any) -> np.ndarray:
        """``X`` as scikit-learn checks it, with masked cells as NaN, which it would unmask."""
        X = plain_array(X, "X") if isinstance(X, np.ma.MaskedArray) else X
        return np.asarray(validate_data(self, X, ensure_all_finite=False, **options))

    def _rows(self, X: Any) -> np.ndarray:
        """New rows (n, D), whose names and their order scikit-learn checks; finite."""
        return as_evaluation_points(self._validated(X, reset=False), self.n_features_in_, "X")

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> np.ndarray:
        """Draw rows by NUTS, (n_samples, D), see :func:`~bke.inference.sample_student_t`.

        They are not independent; what its chains say of themselves is a ``ConvergenceWarning``.
        """
        check_is_fitted(self)
        chains = min(check_count(n_samples, "n_samples", 1), 32)
        run = sample_student_t(
            self.learned_,
            bounds=self.bounds,
            draws=max(LEAST_DRAWS, -(-n_samples // chains)),
            chains=chains,
            seed=self.random_state if random_state is None else random_state,
            progress=False,
        )
        for note in notes_of(run):
            warnings.warn(note, ConvergenceWarning, stacklevel=2)
        return pooled(run, n_samples)
