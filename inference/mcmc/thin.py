"""A few draws that stand for many: kernel thinning, herding, Stein thinning."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import xarray as xr
from bke.models.statistics.stein import stein_matrix
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_choice
from ..core.machine import computing
from ..data.checks import check_count
from ..testing.kernels import SINGLE_KERNELS, KernelChoice
from .draws import as_chains, evenly
from .greedy import herded, on_simplex, stein_thinned
from .score import Score
from .stein_sums import within
from .stein_test import LEARNED, kernels_of, with_scores
from .thinned import Thinned

Way: TypeAlias = Literal["auto", "kernel", "herding", "stein"]
WAYS: tuple[str, ...] = get_args(Way)
#: Rows that a Gram matrix is made of at most; more are compressed first, or looked at evenly.
MOST_ROWS = 4096
#: Draws that choices are judged by, where there are more.
JUDGES = 4 * MOST_ROWS
#: Random draws that a choice is held against.
AT_RANDOM = 20
WORDS = {"kernel": "kernel thinning", "herding": "kernel herding", "stein": "Stein thinning"}
NOT_HERE = (
    "kernel thinning needs the package goodpoints (`pip install goodpoints`); method='herding' "
    "does without"
)


class Candidates(NamedTuple):
    """Draws that are chosen from, in units.

    Attributes:
        points: (n, D).
        kernel: of two arrays of them.
    """

    points: np.ndarray
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]


def thin(
    draws: ArrayLike | xr.DataTree | xr.Dataset,
    count: int,
    *,
    score: Score | Callable[[np.ndarray], ArrayLike] | ArrayLike | None = None,
    method: Way = "auto",
    weighted: bool = False,
    kernel: Any = "median",
    standardize: str | None = "column",
    columns: Sequence[str] | None = None,
    seed: int = 0,
) -> Thinned:
    """Choose ``count`` draws that stand for all of them better than as many at random do.

    Without a score the chosen draws' mean embedding is near that of all draws: by kernel thinning
    (Dwivedi and Mackey 2021; goodpoints' implementation, of many draws after its Compress++,
    Shetty, Dwivedi and Mackey 2022) or by herding. With one it is near that of the density itself,
    by Stein thinning, so that draws of a warmup or a bias are left out (Riabiz et al. 2022).

    Args:
        draws: rows (n, D) or (n,), chains (C, n, D), or a tree of ArviZ's.
        count: how many, fewer than there are.
        score: d log p / dx, as of :func:`~bke.inference.stein_test`.
        method: ``"kernel"`` (needs goodpoints), ``"herding"``, or with a score ``"stein"``;
            ``"auto"``: Stein's with a score, else herding, which is as good, but for more than
            16 384 draws, of which herding looks at so many, kernel thinning where goodpoints is
            installed.
        weighted: give the chosen draws the weights on the simplex that bring them nearest, in place
            of equal ones.
        kernel: ``"median"``, ``"bkl"`` or ``"posterior"``, chosen or learned from the draws; or a
            kernel in their units. With a score an inverse multiquadric at the median distance
            stands for ``"median"``.
        standardize: of the columns, as for :func:`~bke.inference.fit`.
        columns: names of the parameters.
        seed: of what is random in kernel thinning, and of the draws at random that the choice is
            held against.

    Raises:
        InputError: for draws or arguments that make no sense, in one sentence.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    if score is None:
        chains, slopes = as_chains(draws, columns=columns), None
    else:
        chains, slopes = with_scores(draws, score, columns)
        slopes = slopes.reshape(chains.rows.shape)
    n = len(chains.rows)
    if (chains.rows == chains.rows[0]).all():
        raise InputError("all draws are the same: any of them stands for all")
    way = _way(method, n, with_score=score is not None)
    check_count(count, "count", 1, n - 1)
    # Evenly, so that they stand for all: greedy choices look at every two of them.
    looked_at = evenly(n, min(n, _most(way)))
    if len(looked_at) <= count:
        raise InputError(f"{way} looks at {len(looked_at)} draws: count must be less, is {count}")
    with computing():
        chosen_kernel, every = _candidates(chains.rows, slopes, kernel, standardize)
        some = every._replace(points=every.points[looked_at])
        indices = looked_at[_chosen(way, some, count, seed)]
        found = _judged(every, indices, seed, weighted=weighted, centred=slopes is None)
    notes = []
    if len(looked_at) < n:
        notes.append(f"chosen from {len(looked_at)} of {n} draws, evenly from all")
    if n > JUDGES:
        notes.append(f"discrepancies are to {JUDGES} of {n} draws, evenly from all, between those")
    return Thinned(
        indices=indices,
        weights=found.weights,
        discrepancy=found.own,
        at_random=found.at_random,
        every=found.every,
        kernel=chosen_kernel,
        how=WORDS[way] + (", weighted" if weighted else ""),
        columns=chains.columns,
        points=chains.rows[indices],
        notes=tuple(notes),
    )


def _way(method: str, n: int, *, with_score: bool) -> str:
    check_choice(method, "method", WAYS)
    if with_score != (method == "stein") and method != "auto":
        raise InputError("method='stein' needs a score, and a score is for no other method")
    if with_score:
        return "stein"
    if method == "herding" or (method == "auto" and n <= _most("herding")):
        return "herding"
    if importlib.util.find_spec("goodpoints") is None:
        if method == "kernel":
            raise InputError(NOT_HERE)
        return "herding"
    return "kernel"


def _most(way: str) -> int:
    """Draws that are looked at: a power of four, from which Compress++ goes on by halves."""
    return 4**10 if way == "kernel" else 4 * MOST_ROWS


def _candidates(
    rows: np.ndarray, slopes: np.ndarray | None, named: Any, standardize: str | None
) -> tuple[Any, Candidates]:
    """The kernel in the units of the draws, and what is chosen from: points, maybe with scores."""
    choice = KernelChoice.checked(named, SINGLE_KERNELS if slopes is None else LEARNED, standardize)
    if slopes is None:
        kernel = choice.kernels(rows)[0]
        return kernel, Candidates(rows, lambda a, b: np.asarray(kernel(a, b)))
    kernel = kernels_of(rows, choice, single=True)[0]
    unit, dimension = choice.scales(rows), rows.shape[1]
    inside = within(kernel, unit)
    both = np.concatenate([rows / unit, slopes * unit], axis=1)

    def of_stein(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        parts = (a[:, :dimension], a[:, dimension:], inside, b[:, :dimension], b[:, dimension:])
        return np.asarray(stein_matrix(*parts))

    return kernel, Candidates(both, of_stein)


def _chosen(way: str, candidates: Candidates, count: int, seed: int) -> np.ndarray:
    points = candidates.points
    if way == "kernel":
        from .kernel_thinning import kernel_thinned

        return kernel_thinned(candidates.kernel, points, count, MOST_ROWS, seed)

    def column(index: int) -> np.ndarray:
        return candidates.kernel(points, points[index : index + 1])[:, 0]

    if way == "herding":
        return herded(column, mean_of(candidates, points), count)
    parts = np.array_split(points, -(-len(points) // 256))
    diagonal = np.concatenate([np.diagonal(candidates.kernel(one, one)) for one in parts])
    return stein_thinned(column, diagonal, count)


def mean_of(candidates: Candidates, at: np.ndarray) -> np.ndarray:
    """The mean embedding of all candidates at points (m, .), in blocks: (m,)."""
    total = np.zeros(len(at))
    blocks = max(1, len(candidates.points) * len(at) // 2**23)
    for part in np.array_split(candidates.points, blocks):
        total += candidates.kernel(at, part).sum(axis=1)
    return total / len(candidates.points)


def _between(count: int, some: int) -> np.ndarray:
    """Draws evenly from all, half a step from those that :func:`thin` looks at if it is so many."""
    return ((np.arange(some) + 0.5) * count / some).astype(int)


class Judged(NamedTuple):
    """Discrepancies of a choice, and of others."""

    weights: np.ndarray
    own: float
    at_random: float
    every: float


def _judged(
    candidates: Candidates, chosen: np.ndarray, seed: int, *, weighted: bool, centred: bool
) -> Judged:
    """Hold a choice against others; without a score by what all candidates are."""
    count, n = len(chosen), len(candidates.points)
    rng = np.random.default_rng([seed, 17])
    others = [rng.choice(n, size=count, replace=False) for _ in range(AT_RANDOM)]
    reference = candidates
    if n > JUDGES:
        reference = candidates._replace(points=candidates.points[_between(n, JUDGES)])
    own = float(np.mean(mean_of(reference, reference.points))) if centred else 0.0

    def judged(rows: np.ndarray, *, weighted: bool = False) -> tuple[float, np.ndarray]:
        points = candidates.points[rows]
        gram = candidates.kernel(points, points)
        means = mean_of(reference, points) if centred else np.zeros(len(rows))
        w = on_simplex(gram, means) if weighted else np.full(len(rows), 1.0 / len(rows))
        squared = float(w @ gram @ w - 2.0 * w @ means) + own
        return max(squared, 0.0) ** 0.5, w

    found, weights = judged(chosen, weighted=weighted)
    random = float(np.mean([judged(one)[0] for one in others]))
    return Judged(weights, found, random, judged(evenly(n, count))[0])
