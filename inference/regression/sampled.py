"""Draws of slopes and variances of a linear regression on embeddings, by NUTS or quadrature."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..core.machine import computing
from .linear import Average


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
    import bke.models.measures  # noqa: F401  before modules of NumPyro, whose import it completes
    import jax
    from bke.models import distribution_regression_model
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
