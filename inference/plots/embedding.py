"""Plots of mean embeddings (BKE Figure 1): prior draws, the empirical embedding, the posterior."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from bke.models import embedding_posterior, empirical_embedding
from bke.models.kernels.base import Kernel
from bke.models.measures import Measure
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.special import ndtri

from ..core.errors import InputError
from ..core.machine import computing
from ..data.checks import as_sample, check_count
from ..witness.draws import gaussian_draws
from .style import BAND_ALPHA, MODES, P_COLOR, SMALL, TRUTH, central, panels, plain, rug

WIDTH, HEIGHT = 6.0, 3.4


def plot_prior_draws(
    kernel: Kernel,
    at: ArrayLike,
    draws: int = 3,
    seed: int = 0,
    *,
    measure: Measure | str = "unit",
    ax: Axes | None = None,
) -> Figure:
    """Plot draws of the embedding from its prior GP(0, r), BKE (3) and Figure 1 (A).

    Args:
        kernel: the kernel k; r is its smoothed kernel.
        at: points of a line, shape (m,) or (m, 1).
        draws: number of draws.
        seed: seed of the draws.
        measure: ``"unit"``, ``"lebesgue"`` or :class:`~bke.models.Gaussian`.
        ax: axes of the plot; by default those of a new figure.

    Raises:
        InputError: if ``at`` is not a line of finite points.
    """
    points = _line(at)
    check_count(draws, "draws", 1)
    check_count(seed, "seed", 0)
    figure, (panel,) = panels(1, 1, ax, width=WIDTH, height=HEIGHT)
    with computing():
        line = jnp.asarray(points)[:, None]
        covariance = jnp.asarray(kernel.smoothed(measure, 1)(line))
        keys = jax.random.split(jax.random.key(seed), draws)
        sampled = np.asarray(jax.jit(gaussian_draws)(keys, covariance))
    for index, values in enumerate(sampled):
        panel.plot(points, values, color=MODES[index % len(MODES)], linewidth=1.2)
    panel.axhline(0.0, color="0.6", linewidth=0.6, zorder=0)
    _label(panel, points, "x", "embedding")
    return figure


def plot_empirical_embedding(
    X: ArrayLike,
    kernel: Kernel,
    at: ArrayLike | None = None,
    *,
    column: str = "x",
    ax: Axes | None = None,
) -> Figure:
    """Plot the empirical embedding, BKE (2), over a rug of the data: Figure 1 (B).

    Args:
        X: data of one column, shape (n,) or (n, 1).
        kernel: the kernel.
        at: points of a line; by default over the data.
        column: name of the axis.
        ax: axes of the plot; by default those of a new figure.
    """
    data, points = _data_and_line(X, at)
    figure, (panel,) = panels(1, 1, ax, width=WIDTH, height=HEIGHT)
    panel.plot(points, empirical_embedding(data, kernel, points), color=P_COLOR)
    panel.set_ylim(bottom=0.0)
    panel.margins(y=0.1)
    rug(panel, data[:, 0], P_COLOR)
    _label(panel, points, column, "empirical embedding")
    return figure


def plot_embedding_posterior(
    X: ArrayLike,
    kernel: Kernel,
    at: ArrayLike | None = None,
    truth: ArrayLike | Callable[[np.ndarray], ArrayLike] | None = None,
    noise: str | float = "clt",
    level: float = 0.8,
    *,
    measure: Measure | str = "unit",
    column: str = "x",
    ax: Axes | None = None,
) -> Figure:
    """Plot the posterior of the embedding with a pointwise band, BKE (7), (8), Figure 1 (C).

    Args:
        X: data of one column, shape (n,) or (n, 1).
        kernel: the kernel.
        at: points of a line; by default over the data.
        truth: the true embedding, at those points or as a function of points (m, 1).
        noise: see :func:`~bke.models.embedding_posterior`.
        level: posterior probability of the band at each point.
        measure: see :func:`~bke.models.embedding_posterior`.
        column: name of the axis.
        ax: axes of the plot; by default those of a new figure.

    Raises:
        InputError: if the data or the points are not one column, or ``truth`` has another length.
    """
    data, points = _data_and_line(X, at)
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be between 0 and 1, got {level}")
    exact = None
    if truth is not None:
        exact = np.asarray(truth(points[:, None]) if callable(truth) else truth, float).ravel()
        if exact.shape != points.shape:
            raise InputError(f"truth has {len(exact)} values for {len(points)} points")
        if at is not None and not callable(truth):
            exact = exact[np.argsort(np.ravel(at), kind="stable")]
    figure, (panel,) = panels(1, 1, ax, width=WIDTH, height=HEIGHT)
    with computing():
        posterior = embedding_posterior(data, kernel, points, noise=noise, measure=measure)
    mean = np.asarray(posterior.mean)
    variance = np.maximum(np.diagonal(posterior.covariance), 0.0)  # rounding may leave it below 0
    half = float(ndtri((1 + level) / 2)) * np.sqrt(variance)
    panel.fill_between(
        points,
        mean - half,
        mean + half,
        color=P_COLOR,
        alpha=BAND_ALPHA,
        linewidth=0,
        label=f"{level:.0%} band",
    )
    panel.plot(points, mean, color=P_COLOR, label="posterior mean")
    if exact is not None:
        panel.plot(points, exact, color=TRUTH, linestyle="--", label="true embedding")
    panel.axhline(0.0, color="0.6", linewidth=0.6, zorder=0)
    inside = central(points, [data])
    low, high = (mean - half)[inside].min(), (mean + half)[inside].max()
    panel.set_ylim(low - 0.25 * (high - low), high + 0.4 * (high - low))
    rug(panel, data[:, 0], P_COLOR)
    panel.legend(fontsize=SMALL, frameon=False)
    _label(panel, points, column, "embedding")
    return figure


def _line(at: ArrayLike) -> np.ndarray:
    points = np.asarray(at, dtype=float)
    if points.ndim == 2 and points.shape[1] == 1:
        points = points[:, 0]
    if points.ndim != 1 or not len(points) or not np.isfinite(points).all():
        raise InputError(f"at must be finite points of a line, got shape {np.shape(at)}")
    return np.sort(points)


def _data_and_line(X: ArrayLike, at: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
    data = as_sample(X, "X")
    if data.shape[1] != 1:
        raise InputError(f"the plot is of one column, and X has {data.shape[1]}")
    if at is not None:
        return data, _line(at)
    low, high = data.min(), data.max()
    margin = 0.1 * (high - low)
    return data, np.linspace(low - margin, high + margin, 200)


def _label(ax: Axes, points: np.ndarray, horizontal: str, vertical: str) -> None:
    ax.set_xlim(points[0], points[-1])
    ax.set_xlabel(horizontal)
    ax.set_ylabel(vertical)
    plain(ax)
