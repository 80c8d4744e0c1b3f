"""Linear regression on embeddings by NUTS, its variances among the draws."""

from __future__ import annotations

import numpy as np
import xarray as xr

from ..runtime.machine import computing


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
    kept = ("intercept", "slopes", "scale", "noise")
    dims = ("chain", "draw")
    posterior = {
        name: ((*dims, "coordinate") if found[name].ndim > 2 else dims, found[name])
        for name in kept
    }
    places = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(posterior, places),
            "sample_stats": xr.Dataset({"diverging": (dims, diverging)}, places),
        }
    )


def of_draws(
    tree: xr.DataTree, centre: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances (S, G) of groups' y given each draw."""
    posterior = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    slopes = posterior["slopes"].transpose("sample", "coordinate").values
    means = posterior["intercept"].values[:, np.newaxis] + slopes @ centre.T
    return means, posterior["noise"].values[:, np.newaxis] ** 2 + slopes**2 @ variance.T
