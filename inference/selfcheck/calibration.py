"""Simulation-based calibration: lengthscales among posterior draws given data that they made.

A lengthscale and three rows are drawn from their joint density, prior times likelihood; then the
rank of the lengthscale among draws from the posterior of these rows is uniform, if these are what
they should be (Talts et al. 2018, theorem 1). The likelihood does not change when all rows are
moved, so that one is at zero; and rows that are x times as far apart at an x times as long
lengthscale have the density x^-3 of before. So the rows are the lengthscale times rows at
lengthscale one, and the lengthscale, over the two rows that are not fixed, has the density of its
prior over itself: Gamma(2, 3) under the prior Gamma(3, 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpyro.distributions import Gamma
from scipy.stats import kstest

from ..core.machine import computing
from ..sampling.fit import fit
from ..sampling.samplers.nuts import Nuts
from ..sampling.samplers.quadrature import Quadrature
from ..sampling.samplers.registry import Method
from ..sampling.samplers.smc import Smc
from .finding import Finding

#: Rows of a Student-t distribution that those of the model are chosen from, by importance: how
#: many, of how many degrees, and how wide, in lengthscales.
PROPOSED, FREEDOM, WIDTH = 40_000, 3.0, 1.2
#: Shape and rate of the prior; with the shape 1 of the default the joint density has no integral.
PRIOR = (3.0, 3.0)
#: Draws that lengthscales are ranked among; of chains and particles one in SPARSE is taken.
KEPT, SPARSE = 48, 8
METHODS: dict[str, Method] = {
    "quadrature": Quadrature(draws=KEPT, chains=2),
    "NUTS": Nuts(chains=4, warmup=200, draws=KEPT * SPARSE // 4),
    "SMC": Smc(particles=KEPT * SPARSE // 2, repeats=2),
}
#: Of a right machine less than one in a thousand p-values of a test is as small.
LEAST = 1e-3


class Joint(NamedTuple):
    """Draws from the joint density of a lengthscale and of rows given it.

    Attributes:
        lengthscales: (k,).
        rows: (k, 3, 1).
        worth: how many independent draws all proposals are worth.
    """

    lengthscales: np.ndarray
    rows: np.ndarray
    worth: float


def joint_draws(count: int, seed: int = 0) -> Joint:
    """Draw ``count`` lengthscales, each with three rows, from the model's joint density.

    Rows at lengthscale one by resampling proposals in proportion to what these are short of.
    """
    import jax
    import jax.numpy as jnp
    from bke.models import SquaredExponential, log_marginal_likelihood

    rng = np.random.default_rng(seed)
    steps = rng.standard_t(FREEDOM, size=(PROPOSED, 2))
    rows = np.concatenate([np.zeros((PROPOSED, 1)), WIDTH * steps], axis=1)[..., None]

    def log_likelihood(X: jax.Array) -> jax.Array:
        return log_marginal_likelihood(X, SquaredExponential(1.0), noise_variance=0.1)

    with computing():
        logs = np.asarray(jax.jit(jax.vmap(log_likelihood))(jnp.array(rows)))
    logs = logs + 0.5 * (FREEDOM + 1.0) * np.log1p(steps**2 / FREEDOM).sum(axis=1)
    weight = np.where(np.isfinite(logs), np.exp(logs - np.nanmax(logs)), 0.0)
    weight /= weight.sum()
    chosen = rows[rng.choice(PROPOSED, size=count, p=weight)]
    shape, rate = PRIOR
    lengthscales = rng.gamma(shape - 1.0, 1.0 / rate, size=count)
    return Joint(lengthscales, lengthscales[:, None, None] * chosen, float(1.0 / np.sum(weight**2)))


def ranks(
    method: Method, joint: Joint, advance: Callable[[int], None] = lambda done: None
) -> np.ndarray:
    """Rank every lengthscale among ``KEPT`` posterior draws given its rows: (k,), 0 to ``KEPT``."""
    prior = Gamma(*PRIOR)
    found = []
    for index, (own, X) in enumerate(zip(joint.lengthscales, joint.rows, strict=True)):
        run = fit(
            X, prior=prior, method=method, scale=None, dither=None, seed=index, progress=False
        )
        draws = np.ravel(run["posterior"].to_dataset()["lengthscale"].values)
        found.append(np.sum(draws[:: draws.size // KEPT] < own))
        advance(1)
    return np.array(found)


def uniformity(found: np.ndarray, seed: int = 0) -> float:
    """P-value of Kolmogorov and Smirnov's test that ranks are uniform, within each by chance."""
    within = np.random.default_rng(seed).uniform(size=len(found))
    return float(kstest((found + within) / (KEPT + 1), "uniform").pvalue)


def calibration(
    name: str, joint: Joint, advance: Callable[[int], None] = lambda done: None
) -> Finding:
    """Calibrate one of :data:`METHODS`."""
    p = uniformity(ranks(METHODS[name], joint, advance))
    return Finding(
        f"calibration of {name}",
        f"ranks uniform: p = {p:.2g} ({len(joint.lengthscales)} data sets)",
        f"p > {LEAST:g}",
        p > LEAST,
    )
