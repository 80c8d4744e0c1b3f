"""Two samples with two scales: that of their common shape, and that of their difference."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax.typing import ArrayLike

from ..difference.evidence import log_difference_evidence
from ..kernels.base import as_points
from ..kernels.squared_exponential import SquaredExponential
from ..linalg.precision import require_double
from .model import bke_model
from .priors import Prior, assign, default_prior, template, with_values

#: s^2 between 1e-4, a difference that 10 000 rows hardly show, and 1, where one density is nearly
#: nothing in places; log-uniform.
SMALLEST_SIZE, LARGEST_SIZE = 0.01, 1.0


def two_scale_model(
    P: ArrayLike,
    Q: ArrayLike,
    *,
    difference_prior: Prior | None = None,
    size_prior: dist.Distribution | None = None,
    **shape: Any,
) -> None:
    """p(lengthscale) p(difference lengthscale) p(size) p(rows | lengthscale) p(labels | rows, ...).

    The pooled rows have the BKE likelihood at ``lengthscale``, the scale of the shape that both
    samples share; which sample each row is of has the evidence of
    :func:`~bke.models.log_difference_evidence` at ``difference_lengthscale`` and
    ``difference_size``. The two parts share no site.

    Sites: those of :func:`~bke.models.bke_model`, ``difference_lengthscale``, ``difference_size``
    and the factor ``difference``, also recorded as the deterministic site ``log_difference``.

    Args:
        P: rows (m, D) or (m,), as they are: priors are in their units.
        Q: rows (n, D) or (n,).
        difference_prior: of the difference's lengthscale, one number or, of shape (D,), one per
            column; by default Gamma(1, 1).
        size_prior: of s; by default log-uniform from 0.01 to 1.
        **shape: of :func:`~bke.models.bke_model`.

    Raises:
        RuntimeError: with JAX's 64-bit numbers switched off.
        ValueError: for an argument that makes no sense, naming it.
    """
    require_double("two_scale_model")
    first, second = as_points(P), as_points(Q)
    bke_model(jnp.concatenate([first, second]), **shape)
    family = template(SquaredExponential)
    ((site, prior),) = assign(difference_prior or default_prior(), family).items()
    batch = len(prior.batch_shape)
    value = numpyro.sample(f"difference_{site}", prior.to_event(batch) if batch else prior)
    size = numpyro.sample(
        "difference_size", size_prior or dist.LogUniform(SMALLEST_SIZE, LARGEST_SIZE)
    )
    kernel = with_values(family, {site: value})
    evidence = log_difference_evidence(first, second, kernel, size)
    numpyro.factor("difference", evidence)
    numpyro.deterministic("log_difference", evidence)
