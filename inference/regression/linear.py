"""Coordinates in which groups' embeddings and their sampling errors are independent.

With S the covariance of features within groups and R that of embeddings between them, one basis V
has V'SV = I and V'RV = diag(spread): the posterior of an embedding given its rows, a Gaussian
process that is conditioned on noisy values (Flaxman et al. 2016; Law et al. 2018, section 4.2), is
then one number in each coordinate.

To S a share of its largest variance is added in all directions, as if rows had so much noise of
their own. Otherwise directions in which features hardly vary, of which the data tell next to
nothing, would have values as large as all others, and those of groups apart from the rest would go
beyond all bounds. How much is added is learned with the regression.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from ..core.machine import computing
from ..data.canonical import canonical_order
from .groups import Means

#: Directions that are left out where features vary less in them, as a share of most variance.
NEGLIGIBLE = 1e-12
#: Variance within groups that is taken for none, as a share of all variance of their means.
CONSTANT = 1e-6
#: Coordinates that are kept, those of the largest spread.
MOST = 100


class Coordinates(NamedTuple):
    """The basis, and the prior of a group's embedding in it.

    Attributes:
        basis: V (m, q).
        centre: (q,), the mean of the embeddings.
        spread: (q,), their variances between groups, descending; within a group they are 1 over the
            number of rows.
    """

    basis: np.ndarray
    centre: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, means: Means, share: float = 0.0) -> Coordinates:
        """Estimate the basis and the prior by moments.

        R is the weighted covariance of the groups' means less what sampling adds to it; directions
        in which nothing is left are left out.

        Args:
            means: of the groups.
            share: of the largest variance within groups, which is added to all.
        """
        most = max(means.variances[-1], CONSTANT * float(means.values.var(axis=0).sum()))
        variances = np.maximum(means.variances, 0.0) + share * most
        kept = variances > NEGLIGIBLE * most
        if not kept.any():
            return cls(np.zeros((len(variances), 0)), np.zeros(0), np.zeros(0))
        white = means.directions[:, kept] / np.sqrt(variances[kept])
        values = means.values @ white
        # Between equal weights, best where groups differ most, and rows, where they hardly do.
        weights = means.counts / (means.counts + np.median(means.counts))
        weights = weights / weights.sum()
        centre = weights @ values
        sampling = np.sum(weights * (1.0 - weights) / means.counts)
        squares, turned = _directions(np.sqrt(weights)[:, np.newaxis] * (values - centre))
        spread = (squares - sampling) / (1.0 - np.sum(weights**2))
        order = np.argsort(-spread, kind="stable")[:MOST]
        order = order[spread[order] > 0.0]
        return cls(white @ turned[:, order], centre @ turned[:, order], spread[order])

    def empirical(self, means: np.ndarray) -> np.ndarray:
        """Where mean features (G, m) are, (G, q), from the centre."""
        return means @ self.basis - self.centre

    def posterior(self, means: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (G, q) and variances (G, q) of the embeddings given their rows."""
        share = self.spread / (self.spread + 1.0 / counts[:, np.newaxis])
        return share * self.empirical(means), self.spread * (1.0 - share)

    def embedded(self, means: Means, shrinkage: bool) -> tuple[np.ndarray, np.ndarray]:
        """Where embeddings are (G, q) and their variances (G, q), none without shrinkage."""
        if shrinkage:
            return self.posterior(means.values, means.counts)
        centre = self.empirical(means.values)
        return centre, np.zeros_like(centre)


def _directions(apart: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squares (r,) of the singular values of ``apart`` (G, q), and their directions (q, r).

    r = min(G, q), by the smaller of two products: there may be many more features than groups.
    """
    groups, count = apart.shape
    if count <= groups:
        squares, turned = np.linalg.eigh(apart.T @ apart)
        return squares, turned
    squares, left = np.linalg.eigh(apart @ apart.T)
    lengths = np.sqrt(np.maximum(squares, np.finfo(float).tiny))
    return squares, apart.T @ left / lengths


#: Turns, and the change of the slopes, as a share of the largest, at which they end.
TURNS, UNCHANGED = 50, 1e-4
#: Deviation of the prior of both log variances: they are hardly told by few groups.
WIDE = 3.0
#: Where log variances are looked for, of y over its deviation.
BOUNDS = ((-14.0, 3.0), (-25.0, 25.0))
#: Variance of the intercept's prior, in variances of y.
INTERCEPT = 1e4
#: Places of log variances in deviations of their posterior, and weights: Gauss and Hermite's rule.
NODES, WEIGHTS = (-(3.0**0.5), 0.0, 3.0**0.5), (1.0 / 6.0, 2.0 / 3.0, 1.0 / 6.0)
#: Steps of log variances by which the density's curvature is found.
STEP = 0.3


class Fit(NamedTuple):
    """The posterior of a linear regression, for y over its deviation.

    Attributes:
        slopes: (1 + q,), means, of the intercept first.
        covariance: (1 + q, 1 + q).
        noise: the variance of y given its embedding.
        scale: the variance of the slopes' prior.
        design: (G, 1 + q).
        variances: (G,), of every group's y given the slopes: noise, and what its embedding adds.
    """

    slopes: np.ndarray
    covariance: np.ndarray
    noise: float
    scale: float
    design: np.ndarray
    variances: np.ndarray

    def added(self, variance: np.ndarray) -> np.ndarray:
        """What embeddings of these variances (G, q) add to the variance of y, (G,)."""
        return np.asarray(variance @ (self.slopes[1:] ** 2 + np.diag(self.covariance)[1:]))

    def predicted(self, centre: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The mean (G,) of y of groups, and its variance in parts (3, G).

        The parts are of the embeddings' sampling, of the slopes, and the noise.
        """
        design = _design(centre)
        of_slopes = np.sum((design @ self.covariance) * design, axis=1)
        parts = np.stack([self.added(variance), of_slopes, np.full(len(design), self.noise)])
        return design @ self.slopes, parts


class Average(NamedTuple):
    """Fits at several values of noise and scale, and the posterior of these.

    Attributes:
        fits: the first is that of the most probable values.
        weights: (F,), with sum 1.
        evidence: the log marginal likelihood, up to a constant.
    """

    fits: tuple[Fit, ...]
    weights: np.ndarray
    evidence: float

    def predicted(self, centre: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predict as each fit and average; how fits differ is among what slopes leave open."""
        each = [fit.predicted(centre, variance) for fit in self.fits]
        means = np.stack([mean for mean, _ in each])
        mean = self.weights @ means
        parts = np.einsum("f,fpg->pg", self.weights, np.stack([parts for _, parts in each]))
        parts[1] += self.weights @ (means - mean) ** 2
        return mean, parts


def averaged(best: Fit, variance: np.ndarray, y: np.ndarray) -> Average:
    """Average over noise and scale around the most probable ones.

    Nodes of a Gauss-Hermite rule along the axes of the log posterior's curvature, weighed by the
    posterior itself.

    Args:
        best: the fit to the same data.
        variance: (G, q), of the embeddings.
        y: (G,).
    """
    added, typical = best.added(variance), _typical(best.design)
    middle = np.log([best.noise, best.scale])

    def log(at: np.ndarray) -> float:
        return _log_density(at, best.design, y, added, typical)

    step = STEP * np.eye(2)
    sides = [log(middle + one) + log(middle - one) for one in step]
    across = log(middle + step.sum(axis=0)) + log(middle - step.sum(axis=0))
    across -= log(middle + step[0] - step[1]) + log(middle - step[0] + step[1])
    curvature = np.diag(sides) - 2.0 * log(middle) * np.eye(2) + 0.25 * across * (1.0 - np.eye(2))
    values, axes = np.linalg.eigh(-curvature / STEP**2)
    spread = 1.0 / np.sqrt(np.maximum(values, WIDE**-2))
    fits, logs = [best], []
    nodes = sorted(np.ndindex(3, 3), key=lambda node: node != (1, 1))  # the best one first
    for node in nodes:
        place = np.array([NODES[at] for at in node])
        theta = np.clip(middle + axes @ (spread * place), *np.transpose(BOUNDS))
        rule = float(np.log([WEIGHTS[at] for at in node]).sum() + 0.5 * place @ place)
        logs.append(_log_density(theta, best.design, y, added, typical) + rule)
        if node != (1, 1):
            _, slopes, covariance = _posterior(best.design, y, added, theta)
            noise, scale = np.exp(theta).tolist()
            fits.append(Fit(slopes, covariance, noise, scale, best.design, noise + added))
    weights = np.exp(np.array(logs) - max(logs))
    evidence = max(logs) + float(np.log(weights.sum()) + np.log(spread).sum())
    return Average(tuple(fits), weights / weights.sum(), evidence)


def regression(centre: np.ndarray, variance: np.ndarray, y: np.ndarray) -> Fit:
    """Fit slopes, with the noise and the slopes' scale that are most probable.

    Both variances have the largest marginal likelihood under wide log-normal priors.

    Args:
        centre: (G, q), means of the embeddings.
        variance: (G, q), their variances.
        y: (G,), with mean 0 and deviation 1.
    """
    design = _design(centre)
    typical = _typical(design)
    theta, added = typical - np.log([2.0, 1.0]), np.zeros(len(y))
    slopes = np.zeros(design.shape[1])

    def lost(at: np.ndarray) -> float:
        return -_log_density(at, design, y, added, typical)

    for _ in range(TURNS):
        theta = minimize(lost, theta, method="L-BFGS-B", bounds=BOUNDS).x
        _, new, covariance = _posterior(design, y, added, theta)
        still = np.abs(new - slopes).max() <= UNCHANGED * np.abs(new).max()
        slopes, noise = new, float(np.exp(theta[0]))
        variances = noise + added
        if still or not variance.any():
            break
        added = variance @ (slopes[1:] ** 2 + np.diag(covariance)[1:])
    return Fit(slopes, covariance, noise, float(np.exp(theta[1])), design, variances)


def _design(centre: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(centre), 1)), centre], axis=1)


def _typical(design: np.ndarray) -> np.ndarray:
    """Log variances around which the prior is: all of y noise, or all of it told by slopes."""
    usual = float(np.sum(np.mean(design[:, 1:] ** 2, axis=0))) or 1.0
    return np.array([0.0, -np.log(usual)])


def _log_density(
    theta: np.ndarray, design: np.ndarray, y: np.ndarray, added: np.ndarray, typical: np.ndarray
) -> float:
    """Log posterior density of log variances, up to a constant."""
    prior = -float(np.sum((theta - typical) ** 2)) / (2.0 * WIDE**2)
    return prior + _posterior(design, y, added, theta)[0]


def _posterior(
    design: np.ndarray, y: np.ndarray, added: np.ndarray, theta: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log marginal likelihood, and mean and covariance of the slopes, given log variances."""
    noise, scale = np.exp(theta)
    weights = 1.0 / (noise + added)
    prior = np.full(design.shape[1], scale)
    prior[0] = INTERCEPT
    factor = cho_factor(
        design.T @ (weights[:, np.newaxis] * design) + np.diag(1.0 / prior), lower=True
    )
    right = design.T @ (weights * y)
    half = solve_triangular(factor[0], right, lower=True)
    log = 0.5 * (np.log(weights).sum() - weights @ y**2 + half @ half - np.log(prior).sum())
    log -= np.log(np.diag(factor[0])).sum()
    return float(log), cho_solve(factor, right), cho_solve(factor, np.eye(len(prior)))


def sampled(
    centre: np.ndarray,
    variance: np.ndarray,
    y: np.ndarray,
    *,
    chains: int,
    warmup: int,
    draws: int,
    seed: int,
    progress: bool,
) -> xr.DataTree:
    """Draw from :func:`~bke.models.distribution_regression_model` given y (G,).

    Returns:
        A tree with ``posterior`` (``intercept``, ``slopes``, ``scale``, ``noise``) and
        ``sample_stats``.
    """
    import jax
    from bke.models import distribution_regression_model
    from bke.models.measures import lazy_numpyro  # noqa: F401  before NumPyro's own modules
    from numpyro.infer import MCMC, NUTS

    usual = float(np.sum(np.mean(centre**2, axis=0))) or 1.0
    with computing():
        sampler = MCMC(
            NUTS(distribution_regression_model, target_accept_prob=0.9),
            num_warmup=warmup,
            num_samples=draws,
            num_chains=chains,
            chain_method="sequential",
            progress_bar=progress,
        )
        sampler.run(
            jax.random.key(seed), centre, variance, y, usual**-0.5, extra_fields=("diverging",)
        )
        found = {
            name: np.asarray(v) for name, v in sampler.get_samples(group_by_chain=True).items()
        }
        diverging = np.asarray(sampler.get_extra_fields(group_by_chain=True)["diverging"])
    return _tree(found, {"diverging": diverging})


def of_average(average: Average, chains: int, draws: int, seed: int) -> xr.DataTree:
    """Draw from fits by their weights, independently; a tree as of :func:`sampled`."""
    rng = np.random.default_rng([seed, 53])
    which = rng.choice(len(average.fits), (chains, draws), p=average.weights)
    slopes = np.empty((chains, draws, len(average.fits[0].slopes)))
    for at, fit in enumerate(average.fits):
        root = np.linalg.cholesky(fit.covariance)
        normal = rng.normal(size=(int(np.sum(which == at)), len(root)))
        slopes[which == at] = fit.slopes + normal @ root.T
    scale, noise = (
        np.sqrt([getattr(fit, name) for fit in average.fits])[which] for name in ("scale", "noise")
    )
    drawn = {"intercept": slopes[..., 0], "slopes": slopes[..., 1:], "scale": scale, "noise": noise}
    return _tree(drawn, {})


def _tree(drawn: dict[str, np.ndarray], stats: dict[str, np.ndarray]) -> xr.DataTree:
    """Arrays (chains, draws, ...) as a tree of ArviZ's."""
    dims = ("chain", "draw")
    chains, draws = drawn["noise"].shape
    posterior = {
        name: ((*dims, "coordinate") if drawn[name].ndim > 2 else dims, drawn[name])
        for name in ("intercept", "slopes", "scale", "noise")
    }
    places = {"chain": np.arange(chains), "draw": np.arange(draws)}
    of_sampler = xr.Dataset({name: (dims, values) for name, values in stats.items()}, places)
    return xr.DataTree.from_dict(
        {"posterior": xr.Dataset(posterior, places), "sample_stats": of_sampler}
    )


def of_draws(
    tree: xr.DataTree, centre: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, G) of groups' y given each draw."""
    posterior = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    slopes = posterior["slopes"].transpose("sample", "coordinate").values
    means = posterior["intercept"].values[:, np.newaxis] + slopes @ centre.T
    return means, posterior["noise"].values[:, np.newaxis] ** 2 + slopes**2 @ variance.T


#: What may be added to the covariance within groups, as shares of its largest variance.
SHARES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
#: Groups by which it is chosen.
MOST_GROUPS = 1000


class Learned(NamedTuple):
    """A regression in its coordinates.

    Attributes:
        share: what was added to the covariance within groups, of its largest variance.
        coordinates: in which it is.
        average: slopes and variances.
        shrinkage: whether embeddings are known up to a posterior.
    """

    share: float
    coordinates: Coordinates
    average: Average
    shrinkage: bool

    def predicted(self, means: Means) -> tuple[np.ndarray, np.ndarray]:
        """The mean (G,) of y of groups, and its variance in parts (3, G)."""
        return self.average.predicted(*self.coordinates.embedded(means, self.shrinkage))


def learned(means: Means, y: np.ndarray, shrinkage: bool, seed: int) -> Learned:
    """Learn coordinates and slopes.

    Args:
        means: of the groups.
        y: (G,), with mean 0 and deviation 1 or so.
        shrinkage: whether embeddings are known up to a posterior.
        seed: which groups choose, where there are many.
    """
    order = canonical_order(means.values)
    some = np.random.default_rng([seed, 47]).permutation(len(y))[:MOST_GROUPS]
    part, targets = means.of(order[some]), y[order[some]]
    found = [_with(part, targets, shrinkage, share) for share in SHARES]
    # Nothing to regress on may be the likeliest, and is no regression.
    found = [one for one in found if len(one.coordinates.spread)] or found
    best = found[int(np.argmax([one.average.evidence for one in found]))]
    return best if len(part.counts) == len(y) else _with(means, y, shrinkage, best.share)


def _with(means: Means, y: np.ndarray, shrinkage: bool, share: float) -> Learned:
    coordinates = Coordinates.of(means, share)
    centre, variance = coordinates.embedded(means, shrinkage)
    average = averaged(regression(centre, variance, y), variance, y)
    return Learned(share, coordinates, average, shrinkage)
