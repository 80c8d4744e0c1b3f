"""Bayesian linear regression on mean embeddings that are known up to their posterior.

With S the covariance of features within groups and R that of embeddings between groups, one basis V
has V'SV = I and V'RV = diag(variances). The posterior of an embedding given its rows, a Gaussian
process that is conditioned on noisy values (Flaxman et al. 2016; Law et al. 2018, section 4.2), is
then independent in each coordinate.

Given the variance of every group's target the posterior of the coefficients is normal. This
variance depends on the coefficients, so both are updated in turn. The noise variance and the prior
variance of the coefficients are integrated out, since few groups determine them poorly.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from arviz_base import from_dict, from_numpyro
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from ..core.machine import computing
from ..data.canonical import canonical_order
from .groups import GroupMeans

#: Standard deviation of the prior of both log variances; wide, not tuned.
PRIOR_STD = 3.0
#: Search range of the log noise variance and the log prior variance, for standardized targets.
BOUNDS = ((-14.0, 3.0), (-25.0, 25.0))


class Coordinates(NamedTuple):
    """The basis, and the prior of a group's embedding in it.

    Attributes:
        basis: V (m, q).
        center: (q,), the mean of the embeddings.
        variances: (q,), variances of the embeddings between groups, descending; the sampling
            variance within a group is 1 over its number of rows.
        shrinkage: if false, embeddings are taken to be the empirical ones.
    """

    basis: np.ndarray
    center: np.ndarray
    variances: np.ndarray
    shrinkage: bool = True

    @classmethod
    def estimate(
        cls,
        means: GroupMeans,
        regularization: float = 0.0,
        *,
        shrinkage: bool = True,
        constant: float = 1e-6,
        negligible: float = 1e-12,
        max_coordinates: int = 100,
    ) -> Coordinates:
        """Estimate the basis and the prior by moments.

        R is the weighted covariance of the groups' means less their sampling covariance; directions
        without positive variance are left out.

        Args:
            means: mean embeddings of the groups.
            regularization: this fraction of the largest variance within groups is added in all
                directions, as noise of rows. Without it, directions in which features vary little
                have coordinates as large as all others, and outlying groups unbounded ones.
            shrinkage: see :class:`Coordinates`.
            constant: the largest variance within groups is at least this fraction of the variance
                of their means; not tuned.
            negligible: directions with a smaller fraction of the largest variance are left out.
            max_coordinates: those of the largest variance are kept; not tuned.
        """
        largest = max(means.variances[-1], constant * float(means.values.var(axis=0).sum()))
        variances = np.maximum(means.variances, 0.0) + regularization * largest
        varying = variances > negligible * largest
        if not varying.any():
            return cls(np.zeros((len(variances), 0)), np.zeros(0), np.zeros(0), shrinkage)
        whitening = means.directions[:, varying] / np.sqrt(variances[varying])
        values = means.values @ whitening
        # Between equal weights, best where groups differ much, and weights by rows, best otherwise.
        weights = means.counts / (means.counts + np.median(means.counts))
        weights = weights / weights.sum()
        center = weights @ values
        sampling = np.sum(weights * (1.0 - weights) / means.counts)
        squares, axes = _principal_axes(np.sqrt(weights)[:, np.newaxis] * (values - center))
        between = (squares - sampling) / (1.0 - np.sum(weights**2))
        order = np.argsort(-between, kind="stable")[:max_coordinates]
        order = order[between[order] > 0.0]
        axes = axes[:, order]
        return cls(whitening @ axes, center @ axes, between[order], shrinkage)

    def empirical(self, means: np.ndarray) -> np.ndarray:
        """Return the centered coordinates (G, q) of mean features (G, m)."""
        return means @ self.basis - self.center

    def posterior(self, means: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means (G, q) and variances (G, q) of the embeddings given their rows."""
        factor = self.variances / (self.variances + 1.0 / counts[:, np.newaxis])
        return factor * self.empirical(means), self.variances * (1.0 - factor)

    def embed(self, means: GroupMeans) -> tuple[np.ndarray, np.ndarray]:
        """Return means (G, q) and variances (G, q) of embeddings, zero without shrinkage."""
        if self.shrinkage:
            return self.posterior(means.values, means.counts)
        mean = self.empirical(means.values)
        return mean, np.zeros_like(mean)


def _principal_axes(centered: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared singular values (r,) of ``centered`` (G, q), and right vectors (q, r).

    r = min(G, q). The smaller Gram matrix is decomposed: there may be many more features than
    groups, for which a singular value decomposition is slower.
    """
    if centered.shape[1] <= centered.shape[0]:
        squares, axes = np.linalg.eigh(centered.T @ centered)
        return squares, axes
    squares, left = np.linalg.eigh(centered @ centered.T)
    return squares, centered.T @ left / np.sqrt(np.maximum(squares, np.finfo(float).tiny))


class LinearFit(NamedTuple):
    """The posterior of a linear regression of standardized targets, given two variances.

    Attributes:
        coefficients: (1 + q,), posterior means, of the intercept first.
        covariance: (1 + q, 1 + q).
        noise_variance: the variance of y given its embedding.
        prior_variance: the prior variance of the coefficients except the intercept.
        design: (G, 1 + q).
        variances: (G,), of every group's y given the coefficients: noise and embedding.
    """

    coefficients: np.ndarray
    covariance: np.ndarray
    noise_variance: float
    prior_variance: float
    design: np.ndarray
    variances: np.ndarray

    def embedding_variance(self, variance: np.ndarray) -> np.ndarray:
        """Return the variance (G,) of y due to embeddings of these variances (G, q)."""
        return variance @ (self.coefficients**2 + np.diag(self.covariance))[1:]

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict from embeddings of these means and variances (G, q).

        Returns:
            The mean of y (G,), and its variance components (3, G): the embeddings' sampling, the
            coefficients, and noise.
        """
        design = np.insert(mean, 0, 1.0, axis=1)
        of_coefficients = np.sum((design @ self.covariance) * design, axis=1)
        noise = np.full(len(design), self.noise_variance)
        parts = np.stack([self.embedding_variance(variance), of_coefficients, noise])
        return design @ self.coefficients, parts


class FitAverage(NamedTuple):
    """Fits at several noise and prior variances, with their posterior weights.

    Attributes:
        fits: the first is that of the most probable variances.
        weights: (F,), with sum 1.
        log_marginal_likelihood: up to a constant.
    """

    fits: tuple[LinearFit, ...]
    weights: np.ndarray
    log_marginal_likelihood: float

    def predict(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict as :meth:`LinearFit.predict`; fits that differ add to the second component."""
        means, parts = zip(*(fit.predict(mean, variance) for fit in self.fits), strict=True)
        average = self.weights @ np.stack(means)
        components = np.einsum("f,fpg->pg", self.weights, np.stack(parts))
        components[1] += self.weights @ (np.stack(means) - average) ** 2
        return average, components

    def draw(self, num_chains: int, num_samples: int, seed: int) -> xr.DataTree:
        """Draw independently from the fits by their weights; a tree as :func:`sample_nuts`."""
        rng = np.random.default_rng([seed, 53])
        index = rng.choice(len(self.fits), (num_chains, num_samples), p=self.weights)
        coefficients = np.empty((*index.shape, len(self.fits[0].coefficients)))
        for number, fit in enumerate(self.fits):
            root = np.linalg.cholesky(fit.covariance)
            normal = rng.normal(size=(int(np.sum(index == number)), len(root)))
            coefficients[index == number] = fit.coefficients + normal @ root.T
        noise = np.sqrt([fit.noise_variance for fit in self.fits])[index]
        scale = np.sqrt([fit.prior_variance for fit in self.fits])[index]
        sites = {"intercept": coefficients[..., 0], "slopes": coefficients[..., 1:]}
        sites |= {"scale": scale, "noise": noise}
        return from_dict({"posterior": sites}, dims={"slopes": ["coordinate"]})


class LinearModel(NamedTuple):
    """Standardized targets, linear in embeddings whose uncertainty adds to their variance.

    The parameters ``theta`` are the log noise variance and the log prior variance.

    Attributes:
        design: (G, 1 + q), ones and the means of the embeddings.
        y: (G,), with mean 0 and standard deviation 1.
        added: (G,), the variance of y due to the embeddings.
    """

    design: np.ndarray
    y: np.ndarray
    added: np.ndarray

    def prior_mean(self) -> np.ndarray:
        """Return the prior mean of theta: noise alone, or slopes alone, explain Var y."""
        total = float(np.sum(np.mean(self.design[:, 1:] ** 2, axis=0))) or 1.0
        return np.array([0.0, -np.log(total)])

    def log_posterior(self, theta: np.ndarray) -> float:
        """Return the log posterior density of theta, up to a constant."""
        weights, prior, cholesky, right = self._normal_equations(theta)
        half = solve_triangular(cholesky, right, lower=True)
        log_prior = -np.sum((theta - self.prior_mean()) ** 2) / (2.0 * PRIOR_STD**2)
        log = 0.5 * (
            np.log(weights).sum() - weights @ self.y**2 + half @ half - np.log(prior).sum()
        )
        log -= np.log(np.diag(cholesky)).sum()
        return float(log_prior + log)

    def fit(self, theta: np.ndarray) -> LinearFit:
        """Return the posterior of the coefficients given theta."""
        _, prior, cholesky, right = self._normal_equations(theta)
        coefficients = cho_solve((cholesky, True), right)
        covariance = cho_solve((cholesky, True), np.eye(len(prior)))
        noise, scale = np.exp(theta).tolist()
        return LinearFit(coefficients, covariance, noise, scale, self.design, noise + self.added)

    def _normal_equations(self, theta: np.ndarray, intercept: float = 1e4) -> list[np.ndarray]:
        """Return precisions of y, prior variances, and the normal equations' factor and right side.

        The prior variance of the ``intercept``, in variances of y, is wide.
        """
        noise, scale = np.exp(theta)
        weights = 1.0 / (noise + self.added)
        prior = np.full(self.design.shape[1], scale)
        prior[0] = intercept
        precision = self.design.T @ (weights[:, np.newaxis] * self.design) + np.diag(1.0 / prior)
        right = self.design.T @ (weights * self.y)
        return [weights, prior, cho_factor(precision, lower=True)[0], right]


def fit_linear(
    mean: np.ndarray,
    variance: np.ndarray,
    y: np.ndarray,
    *,
    max_iterations: int = 50,
    tolerance: float = 1e-4,
) -> LinearFit:
    """Fit coefficients at the most probable noise variance and prior variance.

    Both have the largest marginal likelihood under wide log-normal priors.

    Args:
        mean: (G, q), means of the embeddings.
        variance: (G, q), their variances.
        y: (G,), with mean 0 and standard deviation 1.
        max_iterations: updates of coefficients and of the variance of y at most; not tuned.
        tolerance: they end where the coefficients change by less than this fraction of the largest.
    """
    model = LinearModel(np.insert(mean, 0, 1.0, axis=1), y, np.zeros(len(y)))
    theta = model.prior_mean() - np.log([2.0, 1.0])
    coefficients = np.zeros(model.design.shape[1])
    for _ in range(max_iterations):
        negative = partial(lambda model, theta: -model.log_posterior(theta), model)
        theta = minimize(negative, theta, method="L-BFGS-B", bounds=BOUNDS).x
        fit = model.fit(theta)
        change = np.abs(fit.coefficients - coefficients).max()
        if change <= tolerance * np.abs(fit.coefficients).max() or not variance.any():
            break
        coefficients = fit.coefficients
        model = model._replace(added=fit.embedding_variance(variance))
    return fit


def average_fits(
    best: LinearFit, variance: np.ndarray, y: np.ndarray, *, step: float = 0.3
) -> FitAverage:
    """Integrate over the noise variance and the prior variance around the most probable ones.

    Nodes of a 3 x 3 Gauss-Hermite rule along the axes of the log posterior's curvature, weighted by
    the posterior itself.

    Args:
        best: the fit to the same data.
        variance: (G, q), variances of the embeddings.
        y: (G,).
        step: step of log variances for finite differences; not tuned.
    """
    model = LinearModel(best.design, y, best.embedding_variance(variance))
    center = np.log([best.noise_variance, best.prior_variance])
    offsets = step * np.array(list(np.ndindex(3, 3))).reshape(3, 3, 2) - step
    grid = np.apply_along_axis(lambda offset: model.log_posterior(center + offset), 2, offsets)
    sides = [grid[2, 1] + grid[0, 1], grid[1, 2] + grid[1, 0]]
    mixed = grid[2, 2] + grid[0, 0] - (grid[2, 0] + grid[0, 2])
    hessian = np.diag(sides) - 2.0 * grid[1, 1] * np.eye(2) + 0.25 * mixed * (1.0 - np.eye(2))
    values, axes = np.linalg.eigh(-hessian / step**2)
    deviations = 1.0 / np.sqrt(np.maximum(values, PRIOR_STD**-2))
    nodes, node_weights = np.polynomial.hermite_e.hermegauss(3)
    fits: list[LinearFit] = []
    logs = []
    for index in sorted(np.ndindex(3, 3), key=lambda index: index != (1, 1)):  # the best first
        node = nodes[list(index)]
        theta = np.clip(center + axes @ (deviations * node), *np.transpose(BOUNDS))
        rule = float(np.log(node_weights[list(index)]).sum() + 0.5 * node @ node)
        logs.append(model.log_posterior(theta) + rule)
        fits.append(best if not fits else model.fit(theta))
    weights = np.exp(np.array(logs) - max(logs))
    log_marginal = max(logs) + float(np.log(weights.sum()) + np.log(deviations).sum())
    return FitAverage(tuple(fits), weights / weights.sum(), log_marginal)


def fit_regression(
    means: GroupMeans,
    y: np.ndarray,
    shrinkage: bool,
    seed: int,
    *,
    regularizations: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
    max_groups: int = 1000,
) -> tuple[Coordinates, FitAverage]:
    """Fit coordinates and coefficients, with regularization of highest marginal likelihood.

    Args:
        means: mean embeddings of the groups.
        y: (G,), with mean 0 and standard deviation 1.
        shrinkage: see :class:`Coordinates`.
        seed: seed of the subsample of groups.
        regularizations: see :meth:`Coordinates.estimate`; not tuned.
        max_groups: size of the subsample by which regularization is chosen; not tuned.
    """

    def fit(
        means: GroupMeans, y: np.ndarray, regularization: float
    ) -> tuple[Coordinates, FitAverage]:
        coordinates = Coordinates.estimate(means, regularization, shrinkage=shrinkage)
        mean, variance = coordinates.embed(means)
        return coordinates, average_fits(fit_linear(mean, variance, y), variance, y)

    order = canonical_order(means.values)
    subsample = order[np.random.default_rng([seed, 47]).permutation(len(y))[:max_groups]]
    fits = {value: fit(means.take(subsample), y[subsample], value) for value in regularizations}
    # A fit without coordinates may be the most probable, but is no regression.
    usable = {value: fit for value, fit in fits.items() if len(fit[0].variances)} or fits
    best = max(usable, key=lambda value: usable[value][1].log_marginal_likelihood)
    return fits[best] if len(subsample) == len(y) else fit(means, y, best)


def sample_nuts(
    mean: np.ndarray,
    variance: np.ndarray,
    y: np.ndarray,
    *,
    seed: int,
    **options: Any,
) -> xr.DataTree:
    """Draw from :func:`~bke.models.distribution_regression_model` given y (G,).

    Args:
        mean: (G, q), means of the embeddings.
        variance: (G, q), their variances.
        y: (G,), with mean 0 and standard deviation 1.
        seed: seed of the chains.
        **options: numbers of chains, warm-up iterations and draws, for NumPyro's ``MCMC``.

    Returns:
        ArviZ's tree of the sampler, with ``slopes`` along ``coordinate``.
    """
    import bke.models.measures  # noqa: F401  before modules of NumPyro, whose import it completes
    import jax
    from bke.models import distribution_regression_model
    from numpyro.infer import MCMC, NUTS

    total = float(np.sum(np.mean(mean**2, axis=0))) or 1.0
    with computing():
        nuts = NUTS(distribution_regression_model, target_accept_prob=0.9)
        sampler = MCMC(nuts, chain_method="sequential", **options)
        sampler.run(jax.random.key(seed), mean, variance, y, total**-0.5)
        return from_numpyro(sampler, dims={"slopes": ["coordinate"]}, log_likelihood=False)


def predict_draws(
    tree: xr.DataTree, mean: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return means and variances (S, G) of the groups' y given each draw."""
    posterior = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    coefficients = posterior["slopes"].transpose("sample", "coordinate").values
    means = posterior["intercept"].values[:, np.newaxis] + coefficients @ mean.T
    return means, posterior["noise"].values[:, np.newaxis] ** 2 + coefficients**2 @ variance.T
