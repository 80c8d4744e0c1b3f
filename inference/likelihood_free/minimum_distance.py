"""Estimation of simulators by minimum MMD, and the MMD posterior bootstrap.

The estimate of Briol, Barp, Duncan and Girolami (*Statistical inference for generative models with
maximum mean discrepancy*, 2019) minimizes the MMD between the rows of the simulator and those of
the data. Rows far from all others hardly change it. The posterior bootstrap of Dellaporta,
Knoblauch, Damoulas and Briol (*Robust Bayesian inference for simulator-based models via the MMD
posterior bootstrap*, 2022) minimizes the MMD to random weights of the observed rows, a draw from
the posterior of a Dirichlet process for their distribution.

The objective is MMD^2 = E k(X, X') - 2 sum_j w_j E k(X, y_j) + constant. For every parameter the
expectations are over simulations with the same random numbers, so that one minimization has a
deterministic objective, and its minimum the error of these simulations. It is minimized by
SciPy's COBYQA, whose quadratic models bridge small jumps. Gradients by JAX are wrong without notice
for a simulator that draws from discrete distributions or compares random numbers with a parameter,
and are not used.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import scipy.optimize
import xarray as xr
from arviz_base import dict_to_dataset
from bke.models.kernels.base import Covariance
from numpy.typing import ArrayLike

from ..core.errors import InputError, PosteriorWarning
from ..core.machine import computing
from ..core.progress import progress_bar
from ..data.checks import check_count, check_positive
from .distances import MMD, expectations, mean_embedding
from .problem import InverseProblem, Prior
from .results import NOT_IDENTIFIED, MMDEstimate, build_tree, components, failure_attributes
from .simulators import (
    Parameters,
    Simulate,
    Simulations,
    Stream,
    format_parameters,
    parameters_at,
    run_simulations,
    seed_sequence,
)

#: Draws of the prior from which the estimate is searched, as there may be local minima. Not tuned.
NUM_MINIMIZATIONS = 4
#: Most scales of the differences, and the least ratio of one to the last. Not tuned.
MOST_SCALES, LEAST_RATIO = 6, 1.0 / 16.0


def minimum_mmd(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    kernel: str | Covariance = "median",
    simulations_per_point: int = 10,
    num_starts: int = 1000,
    rows: int | None = None,
    workers: int | None = None,
    standardize: str | None = "column",
    seed: int = 0,
) -> MMDEstimate:
    """Estimate the parameters of a simulator by minimum MMD (Briol et al. 2019).

    The estimated parameter is the one of least MMD to the distribution of the rows, which outliers
    are part of. The covariance is H^-1 V H^-1 (1/n + 1/N) for n observed rows and N simulated ones
    of each parameter. V is the covariance over the observed rows y of the derivatives of E k(X, y),
    and H the second derivative of half the squared MMD, which is the information metric of the
    paper where the model is true. The term 1/n does not require that it is true; the term 1/N, of
    the errors of the simulations, does. The kernel counts as fixed, and rows as independent. The
    derivatives are differences over two standard errors, so that simulators need not be
    differentiable.

    Args:
        observed: see :func:`~bke.inference.k2_abc`.
        simulate: see :func:`~bke.inference.k2_abc`. Its result must change little with the
            parameters for equal random numbers. Those of ``rng.poisson`` and
            ``rng.negative_binomial`` do not, as the number of random numbers that they use depends
            on the parameters, and standard errors are then wrong. Quantiles of ``rng.random()`` do.
        prior: see :func:`~bke.inference.k2_abc`; of continuous parameters. It limits their range
            and gives starting points; its density does not change the estimate.
        kernel: see :class:`~bke.inference.MMD`.
        simulations_per_point: data sets simulated for each evaluation of the MMD.
        num_starts: draws of the prior, with one data set each. The search starts at each of the
            four with the least MMD, and the least minimum is the estimate.
        rows: see :func:`~bke.inference.k2_abc`.
        workers: see :func:`~bke.inference.k2_abc`.
        standardize: see :class:`~bke.inference.MMD`.
        seed: see :func:`~bke.inference.k2_abc`.

    Raises:
        InputError: if an argument is not valid, or all simulations from the prior fail.
    """
    shared = (kernel, simulations_per_point, num_starts, rows, workers, standardize, seed)
    with start_minimizer("minimum_mmd", observed, simulate, prior, *shared) as fit:
        z, squared_mmd, root = fit.estimate()
    theta, covariance = fit.problem.prior.constrain(z[None]), None
    if root is not None:
        names = list(components(dict_to_dataset({k: v[None] for k, v in theta.items()})))
        factor = fit.problem.prior.jacobian(z) @ root
        covariance = pd.DataFrame(factor @ factor.T, index=names, columns=names)
    causes = np.concatenate(fit.causes)
    failed = int(np.sum(causes != ""))
    parameters = parameters_at(theta, 0)
    return MMDEstimate(parameters, covariance, squared_mmd, fit.kernel, len(causes), failed)


def mmd_posterior_bootstrap(
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    *,
    concentration: float = 0.0,
    num_pseudo_samples: int = 100,
    kernel: str | Covariance = "median",
    simulations_per_point: int = 10,
    num_starts: int = 1000,
    num_samples: int = 500,
    rows: int | None = None,
    workers: int | None = None,
    standardize: str | None = "column",
    seed: int = 0,
    progress: bool = True,
) -> xr.DataTree:
    """Sample a robust posterior by the MMD posterior bootstrap (Dellaporta et al. 2022).

    Every draw is the parameter of least MMD to the distribution sum_j w_j delta(y_j) with weights
    from Dirichlet(1, ..., 1), and has random numbers of its own. With a positive ``concentration``
    a, T rows z_t of the prior predictive distribution have weights too, which are jointly
    Dirichlet(1, ..., 1, a/T, ..., a/T): the truncated posterior of a Dirichlet process. The kernel
    is the same for all draws, and rows count as independent. The posterior is that of the parameter
    of least MMD, and does not become that of Bayes' rule where the model is true. The minimizations
    start at the estimate of :func:`minimum_mmd`; draws near another minimum are not found.

    Args:
        observed: see :func:`~bke.inference.k2_abc`.
        simulate: see :func:`minimum_mmd`.
        prior: see :func:`~bke.inference.k2_abc`; of continuous parameters. It limits their range
            and gives starting points; its density matters for a positive ``concentration`` only.
        concentration: concentration a of the Dirichlet process, the weight of the prior in rows.
        num_pseudo_samples: number T of rows of the prior predictive distribution for each draw,
            with one simulation each; none for ``concentration=0``.
        kernel: see :class:`~bke.inference.MMD`.
        simulations_per_point: see :func:`minimum_mmd`. With N simulated and n observed rows they
            increase the variance of the draws by a factor of about 1 + n/N.
        num_starts: see :func:`minimum_mmd`.
        num_samples: number of draws.
        rows: see :func:`~bke.inference.k2_abc`.
        workers: see :func:`~bke.inference.k2_abc`.
        standardize: see :class:`~bke.inference.MMD`.
        seed: see :func:`~bke.inference.k2_abc`.
        progress: see :func:`~bke.inference.k2_abc`.

    Returns:
        A tree with ``posterior`` (chain 1, draw), independent draws of equal weight;
        ``sample_stats`` with ``squared_mmd``, the least one of each draw; ``prior`` and
        ``observed_data``.

    Raises:
        InputError: if an argument is not valid, or all simulations from the prior fail.
    """
    check_count(num_samples, "num_samples", 1)
    check_count(num_pseudo_samples, "num_pseudo_samples", 1)
    if concentration != 0.0:
        check_positive(concentration, "concentration")
    shared = (kernel, simulations_per_point, num_starts, rows, workers, standardize, seed)
    draws, stats = [], []
    with (
        start_minimizer("mmd_posterior_bootstrap", observed, simulate, prior, *shared) as fit,
        progress_bar("draws", num_samples, show=progress) as advance,
    ):
        problem = fit.problem
        start, _, root = fit.estimate()
        # The minimum is within two standard errors for most weights.
        scale = np.diag(fit.spread) if root is None else 2.0 * root
        for index in range(1, num_samples + 1):
            rng = np.random.default_rng(seed_sequence(seed, Stream.MOVES, index))
            points, shape = problem.data, np.ones(len(problem.data))
            if concentration:
                pseudo = fit.prior_rows(num_pseudo_samples, index, rng)
                points = np.concatenate([points, pseudo])
                shape = np.append(shape, np.full(len(pseudo), concentration / len(pseudo)))
            z, squared_mmd = fit.minimize(rng.dirichlet(shape), points, start, scale, index)
            draws.append(z)
            stats.append(squared_mmd)
            advance(1)
    settings = problem.settings(
        simulations_per_point=simulations_per_point,
        num_starts=num_starts,
        concentration=float(concentration),
        num_pseudo_samples=num_pseudo_samples if concentration else 0,
    )
    tree = build_tree(
        problem.prior.constrain(np.array(draws)),
        {"squared_mmd": np.array(stats)[None]},
        problem,
        settings,
        prior=fit.starts.theta,
    )
    tree.attrs.update(failure_attributes(np.concatenate(fit.causes), fit.first_failure))
    tree.attrs["ess"] = float(num_samples)
    return tree


@contextlib.contextmanager
def start_minimizer(
    method: str,
    observed: ArrayLike,
    simulate: Any,
    prior: Any,
    kernel: str | Covariance,
    simulations_per_point: int,
    num_starts: int,
    rows: int | None,
    workers: int | None,
    standardize: str | None,
    seed: int,
) -> Iterator[MMDMinimizer]:
    """Check the arguments, simulate at draws of the prior, and yield the minimizer."""
    check_count(simulations_per_point, "simulations_per_point", 1)
    check_count(num_starts, "num_starts", 10)
    checked = Prior(prior)
    checked.check_continuous(method)
    distance = MMD(observed, kernel, "unbiased", standardize=standardize, seed=seed)
    problem = InverseProblem(method, observed, simulate, checked, distance, rows, workers, seed)
    with problem.start_simulator() as simulator:
        theta = checked.draw(seed_sequence(seed, Stream.PRIOR, 0), num_starts)
        starts = run_simulations(theta, simulator, distance, seed_sequence(seed, Stream.DATA, 0))
        starts.check()
        yield MMDMinimizer(problem, distance.kernel, simulator, simulations_per_point, starts)


@dataclasses.dataclass
class MMDMinimizer:
    """Minimizer of the MMD between simulated rows and weighted points.

    Attributes:
        problem: the observed data and the prior.
        kernel: of the MMD.
        simulate: simulates batches.
        simulations_per_point: data sets of each evaluation.
        starts: simulations at draws of the prior.
        causes: causes of failure of the simulations so far.
        first_failure: the first parameters whose simulation failed, formatted.
        best: unconstrained coordinates (k, p) of the tenth of the starts with the least MMD.
        spread: their standard deviations (p,).
    """

    problem: InverseProblem
    kernel: Covariance
    simulate: Simulate
    simulations_per_point: int
    starts: Simulations

    def __post_init__(self) -> None:
        """Select the best starts."""
        starts = self.starts
        self.causes, self.first_failure = [starts.causes], starts.first_failure
        order = np.argsort(np.where(starts.good, starts.squared, np.inf))
        count = max(2, int(starts.good.sum()) // 10)
        self.best = self.problem.prior.unconstrain(starts.theta)[order[:count]]
        self.spread = np.maximum(self.best.std(axis=0), 1e-3)

    def evaluate(self, z: np.ndarray, points: np.ndarray, index: int) -> tuple[float, np.ndarray]:
        """Return E k(X, X') and E k(X, y_j), (n,), at unconstrained coordinates (p,).

        The expectations are over simulations, whose random numbers depend on ``index`` alone. The
        first one is infinite outside of the prior's range, or if all simulations fail.
        """
        prior, count = self.problem.prior, self.simulations_per_point
        nothing = np.inf, np.zeros(len(points))
        if not np.isfinite(prior.log_density(z[None])[0]):
            return nothing
        values, simulations = self._data_sets(prior.constrain(np.tile(z, (count, 1))), 1, index)
        good = simulations.good
        if not good.any():
            return nothing
        with computing():
            within, embedding = expectations(self.kernel, values, good / good.sum(), points)
        return float(within), np.asarray(embedding)

    def _data_sets(self, theta: Parameters, *key: int) -> tuple[np.ndarray, Simulations]:
        """Simulate data sets (B, n, D) with the random numbers of a key, and record failures."""
        values, causes = self.simulate(theta, seed_sequence(self.problem.seed, Stream.DATA, *key))
        simulations = Simulations(dict(theta), np.zeros(len(causes)), causes)
        self.causes.append(causes)
        self.first_failure = self.first_failure or simulations.first_failure
        return values, simulations

    def minimize(
        self,
        weights: np.ndarray,
        points: np.ndarray,
        start: np.ndarray,
        scale: np.ndarray,
        index: int,
    ) -> tuple[np.ndarray, float]:
        """Minimize the MMD to weighted points by SciPy's COBYQA.

        Args:
            weights: (n,), which sum to one.
            points: (n, D).
            start: unconstrained coordinates (p,).
            scale: axes of the first trust region, in the columns of (p, p).
            index: of the random numbers.

        Returns:
            The coordinates (p,) and the squared MMD.
        """

        def objective(u: np.ndarray) -> float:
            within, embedding = self.evaluate(start + scale @ u, points, index)
            return within - 2.0 * float(embedding @ weights)

        options: Any = {"initial_tr_radius": 1.0, "final_tr_radius": 0.01}  # not tuned
        result = scipy.optimize.minimize(
            objective, np.zeros(len(start)), method="COBYQA", options=options
        )
        if not np.isfinite(result.fun):
            theta = self.problem.prior.constrain(start[None])
            raise InputError(
                f"all simulations failed near {format_parameters(parameters_at(theta, 0))}, where "
                "the search starts: increase simulations_per_point, or take a narrower prior"
            )
        with computing():
            constant = mean_embedding(self.kernel, points, weights, points)
        return start + scale @ result.x, float(result.fun + np.asarray(constant) @ weights)

    def covariance_root(self, z: np.ndarray, scale: np.ndarray) -> np.ndarray | None:
        """Return a root (p, p) of the covariance of the estimate, in units of ``scale``.

        Args:
            z: the estimate, (p,).
            scale: steps of the differences, in the columns of (p, p).

        Returns:
            The root, with orthogonal columns, or ``None`` if the squared MMD is less after a step,
            or its second derivative or the covariance is singular up to rounding errors.
        """
        points, steps = self.problem.data, np.eye(len(z))
        n, simulated = len(points), self.simulations_per_point * self.problem.rows

        def value(step: np.ndarray) -> tuple[float, np.ndarray]:
            within, embedding = self.evaluate(z + scale @ step, points, 0)
            return 0.5 * within - float(embedding.mean()), embedding

        centre, _ = value(np.zeros(len(z)))
        (up, down), embeddings = np.zeros((2, len(z))), np.zeros((2, len(z), n))
        for i, step in enumerate(steps):
            up[i], embeddings[0, i] = value(step)
            down[i], embeddings[1, i] = value(-step)
        H = np.diag(up + down - 2.0 * centre)
        for i in range(len(z)):
            for j in range(i):
                both = value(steps[i] + steps[j])[0] + value(-steps[i] - steps[j])[0]
                H[i, j] = H[j, i] = 0.5 * (both - 2.0 * centre - H[i, i] - H[j, j])
        if not np.all(np.isfinite(H)) or min(up.min(), down.min()) < centre:
            return None
        eigenvalues = np.linalg.eigvalsh(H)
        if eigenvalues[0] <= 1e-10 * eigenvalues[-1]:
            return None
        gradients = 0.5 * (embeddings[0] - embeddings[1])
        factor = np.linalg.solve(H, gradients - gradients.mean(axis=1, keepdims=True))
        vectors, values, _ = np.linalg.svd(factor, full_matrices=False)
        if values[-1] <= 1e-5 * values[0]:
            return None
        return np.asarray(vectors * values * np.sqrt((1.0 / n + 1.0 / simulated) / n))

    def estimate(self) -> tuple[np.ndarray, float, np.ndarray | None]:
        """Return the estimate (p,), its squared MMD and a root of its covariance, or ``None``.

        Differences are first over the spread of the best starts, and last over two standard errors.
        """
        points, scale, settled = self.problem.data, np.diag(self.spread), False
        weights = np.full(len(points), 1.0 / len(points))
        starts = self.best[:NUM_MINIMIZATIONS]
        minima = [self.minimize(weights, points, start, scale, 0) for start in starts]
        z, squared_mmd = min(minima, key=lambda minimum: minimum[1])
        for _ in range(MOST_SCALES):
            root = self.covariance_root(z, scale)
            if root is None:
                scale, settled = LEAST_RATIO * scale, False
            elif settled:
                return z, squared_mmd, scale @ root
            else:
                lengths = np.linalg.norm(root, axis=0)
                settled = bool(2.0 * lengths.min() >= LEAST_RATIO)
                scale = scale @ (root / lengths * np.maximum(2.0 * lengths, LEAST_RATIO))
            z, squared_mmd = self.minimize(weights, points, z, scale, 0)
        warnings.warn(NOT_IDENTIFIED, PosteriorWarning, stacklevel=3)
        return z, squared_mmd, None

    def prior_rows(self, count: int, index: int, rng: np.random.Generator) -> np.ndarray:
        """Draw rows (count, D) of the prior predictive distribution, one of each data set.

        Rows of simulations that fail are replaced by copies of others.
        """
        seed = seed_sequence(self.problem.seed, Stream.PRIOR, 1, index)
        values, simulations = self._data_sets(self.problem.prior.draw(seed, count), 2, index)
        simulations.check()
        rows = values[np.arange(count), rng.integers(values.shape[1], size=count)]
        return np.resize(rows[simulations.good], rows.shape)
