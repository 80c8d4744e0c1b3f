"""Places that are named: significant cells, merged where they are neighbours of one sign."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .places import Cells
from .witness import MeanWitness


@dataclasses.dataclass(frozen=True)
class Place:
    """Where one sample has more weight than the other: rows around ``at``, at ``scale``.

    A row z weighs ``exp(-1/2 sum_d ((z_d - at_d) / scale_d)^2)``.

    Attributes:
        at: (D,), in the units of the data.
        scale: (D,), likewise; infinite in a column that the place does not hang on.
        sign: 1 where P has more, -1 where Q has.
        ratio: the mean weight of P's rows over that of Q's.
        interval: of ``ratio``, simultaneous over all places and scales; its end may be infinite.
        pvalue: step-down, adjusted for all places and scales.
    """

    at: np.ndarray
    scale: np.ndarray
    sign: int
    ratio: float
    interval: tuple[float, float]
    pvalue: float

    @property
    def columns(self) -> np.ndarray:
        """The indices of the columns that the place hangs on."""
        return np.flatnonzero(np.isfinite(self.scale))

    def to_dict(self) -> dict[str, Any]:
        """The attributes by name, as JSON has them."""
        return {
            "at": self.at.tolist(),
            "scale": [float(one) if np.isfinite(one) else None for one in self.scale],
            "sign": self.sign,
            "ratio": self.ratio,
            "interval": [one if np.isfinite(one) else None for one in self.interval],
            "pvalue": self.pvalue,
        }


@dataclasses.dataclass(frozen=True)
class Named:
    """Every named cell, the most significant first, and the places that they make.

    Attributes:
        at: (k, D), in the units of the data.
        scale: (k, D), likewise.
        signs: (k,).
        widest_first: (k,), their indices, the least significant first where they are as wide.
        places: neighbours of one sign are one place, told at its most significant cell around which
            :meth:`sign` is its own.
        witness: the mean witness of all columns; ``None`` where cells hang on some of them.
    """

    at: np.ndarray
    scale: np.ndarray
    signs: np.ndarray
    widest_first: np.ndarray
    places: tuple[Place, ...]
    witness: MeanWitness | None = None

    def sign(self, points: np.ndarray) -> np.ndarray:
        """The sign (m,) of the narrowest named cell within whose scale a point is, or 0.

        Of equally narrow ones, that of the most significant. So a narrow place within a wide one of
        the other sign keeps its own; and 0 within a place is where the witness has another sign
        than it, or where no rows are.
        """
        signs = np.zeros(len(points), dtype=int)
        for cell in self.widest_first:
            apart = (points - self.at[cell]) / self.scale[cell]
            signs[np.sum(apart**2, axis=1) <= 1.0] = self.signs[cell]
        if self.witness is not None:
            signs *= self.witness.surrounds(points)
            told = np.flatnonzero(signs)
            signs[told] *= self.witness.at(points[told]) * signs[told] > 0.0
        return signs


def named(
    found: Cells,
    unit: np.ndarray,
    alpha: float,
    *,
    differ: bool,
    witness: MeanWitness | None = None,
) -> Named:
    """Name the cells whose step-down p-value is at most ``alpha``, none unless samples ``differ``.

    Args:
        found: places and scales with their t.
        unit: (D,), the columns' standard deviations.
        alpha: level.
        differ: whether the overall test rejects.
        witness: of :class:`Named`.
    """
    pvalues = found.pvalues()
    chosen = np.flatnonzero(pvalues <= alpha) if differ else np.empty(0, dtype=int)
    size = np.abs(found.t[chosen, 0]) if len(chosen) else np.empty(0)
    # Of cells that say the same, as those of a column with two values do, the narrowest.
    order = chosen[np.argsort(-np.round(size, 9), kind="stable")]
    signs = np.sign(found.t[order, 0]).astype(int)
    lower, upper = intervals(found, alpha)
    # On the side of 1 on which the test puts the place.
    lower = np.where(found.t[:, 0] > 0.0, np.maximum(lower, 1.0), lower)
    upper = np.where(found.t[:, 0] < 0.0, np.minimum(upper, 1.0), upper)
    of_p, of_q = found.means.T
    with np.errstate(over="ignore"):  # of hardly any weight of Q it is infinite
        ratios = np.divide(of_p, of_q, out=np.full(len(of_p), np.inf), where=of_q > 0.0)
    width = np.round(found.scale[order].min(axis=1, initial=np.inf), 9)
    widest_first = np.lexsort((-np.arange(len(order)), -width))
    at, scale = found.at[order] * unit, found.scale[order] * unit
    shown = Named(at, scale, signs, widest_first, (), witness)
    agree = shown.sign(shown.at) == signs
    places = tuple(
        Place(
            found.at[cell] * unit,
            found.scale[cell] * unit,
            int(np.sign(found.t[cell, 0])),
            float(ratios[cell]),
            (float(lower[cell]), float(upper[cell])),
            float(pvalues[cell]),
        )
        for cell in _heads(found, order, signs, agree)
    )
    return dataclasses.replace(shown, places=places)


def _heads(found: Cells, order: np.ndarray, signs: np.ndarray, agree: np.ndarray) -> list[int]:
    """The most significant cell that has its own sign of every group of neighbours of one sign.

    A group without any is the middle of another one at another scale, and no place of its own.
    """
    group = np.full(len(order), -1)
    count = 0
    for i, cell in enumerate(order):
        # In the columns that both hang on; windows of different columns are different places.
        scale = np.maximum(found.scale[order[:i]], found.scale[cell])
        near = np.sum(((found.at[order[:i]] - found.at[cell]) / scale) ** 2, axis=1) <= 1.0
        near &= signs[:i] == signs[i]
        near &= np.isfinite(found.scale[order[:i]]) @ np.isfinite(found.scale[cell])
        if near.any():
            group[i] = group[np.flatnonzero(near)[0]]
        else:
            group[i], count = count, count + 1
    own = (np.flatnonzero((group == one) & agree) for one in range(count))
    return [int(order[mine[0]]) for mine in own if len(mine)]


def intervals(found: Cells, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends (J,) of the simultaneous intervals of every cell's ratio.

    Those values rho at which mean_P - rho mean_Q is within the critical value of |t| of its
    standard errors of 0 (Fieller 1954). The upper end may be infinite.
    """
    critical = found.critical(alpha)
    (p, q), (error_p, error_q) = found.means.T, found.errors.T
    a, c = q**2 - (critical * error_q) ** 2, p**2 - (critical * error_p) ** 2
    b = p * q - critical**2 * found.covariance
    root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
    bounded = a > 0.0
    safe = np.where(bounded, a, 1.0)
    lower = np.where(bounded, (b - root) / safe, c / np.maximum(b + root, np.finfo(float).tiny))
    upper = np.where(bounded, (b + root) / safe, np.inf)
    return np.maximum(lower, 0.0), upper
