"""Selection of a few representative draws: kernel herding, kernel thinning and Stein thinning."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from bke.models.statistics.stein import stein_matrix
from numpy.typing import ArrayLike

from ..core.errors import InputError, check_choice, check_flag
from ..core.machine import computing
from ..core.notebook import ReprMixin
from ..data.checks import check_count
from ..testing.kernels import SINGLE_KERNELS, KernelChoice
from .draws import as_chains, equally_spaced
from .score import Score
from .stein_test import RADIAL_CHOICES, evaluate_score, scaled_kernel, stein_kernels

if TYPE_CHECKING:
    import pandas as pd

#: Methods, and their labels in reports.
METHOD_LABELS = {
    "kernel": "kernel thinning",
    "herding": "kernel herding",
    "stein": "Stein thinning",
}
#: Largest number of rows of a Gram matrix of kernel thinning; more rows are compressed first.
MAX_GRAM_ROWS = 4096
#: Largest number of candidates of greedy methods, and of reference draws of a discrepancy.
MAX_CANDIDATES = MAX_REFERENCE_ROWS = 4 * MAX_GRAM_ROWS
#: Failure probability of the guarantee of kernel thinning.
FAILURE_PROBABILITY = 0.5


@dataclasses.dataclass(frozen=True, repr=False)
class Thinned(ReprMixin):
    """Result of :func:`~bke.inference.thin`.

    Attributes:
        indices: (m,) indices of the selected draws, chain after chain. Stein thinning may select a
            draw more than once.
        weights: (m,) weights of the selected draws, which sum to one.
        discrepancy: MMD to all draws; with a score, the Stein discrepancy to the density.
        random_discrepancy: mean discrepancy of 20 random subsets of the same size.
        systematic_discrepancy: discrepancy of equally spaced draws of the same number.
        kernel: the kernel in the units of the draws.
        method: method of the selection, such as ``"kernel herding, weighted"``.
        columns: names of the parameters.
        points: (m, D) selected draws.
        notes: warnings.
    """

    indices: np.ndarray
    weights: np.ndarray
    discrepancy: float
    random_discrepancy: float
    systematic_discrepancy: float
    kernel: Any
    method: str
    columns: tuple[str, ...]
    points: np.ndarray
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{len(self.indices)} draws by {self.method}: discrepancy {self.discrepancy:.3g} "
            f"(random draws: {self.random_discrepancy:.3g}, equally spaced draws: "
            f"{self.systematic_discrepancy:.3g})."
        ]
        return "\n  ".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"<{len(self.indices)} draws by {self.method}>"

    def to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with one row per selected draw.

        Columns: ``index``, ``weight``, and each parameter.
        """
        import pandas as pd

        selected = pd.DataFrame({"index": self.indices, "weight": self.weights})
        return pd.concat([selected, pd.DataFrame(self.points, columns=list(self.columns))], axis=1)

    def to_dict(self) -> dict[str, Any]:
        """Return all results except the kernel and the draws in types of JSON."""
        return {
            "indices": self.indices.tolist(),
            "weights": self.weights.tolist(),
            "discrepancy": self.discrepancy,
            "at_random": self.random_discrepancy,
            "every": self.systematic_discrepancy,
            "how": self.method,
            "columns": list(self.columns),
            "notes": list(self.notes),
        }


class Candidates(NamedTuple):
    """Draws from which a method selects.

    Attributes:
        points: (n, D) scaled draws; for Stein's kernel (n, 2 D) scaled draws and scores.
        kernel: function of two arrays of points that returns a Gram matrix.
    """

    points: np.ndarray
    kernel: Callable[[np.ndarray, np.ndarray], np.ndarray]

    def column(self, index: int) -> np.ndarray:
        """Compute the kernel (n,) of all points with one of them."""
        return self.kernel(self.points, self.points[index : index + 1])[:, 0]

    def diagonal(self, block: int = 256) -> np.ndarray:
        """Compute the kernel (n,) of each point with itself, in blocks."""
        parts = np.array_split(self.points, -(-len(self.points) // block))
        return np.concatenate([np.diagonal(self.kernel(part, part)) for part in parts])

    def mean_embedding(self, points: np.ndarray, entries: int = 2**23) -> np.ndarray:
        """Compute the mean embedding (m,) of all candidates at points (m, .), in blocks."""
        total = np.zeros(len(points))
        blocks = max(1, len(self.points) * len(points) // entries)
        for part in np.array_split(self.points, blocks):
            total += self.kernel(points, part).sum(axis=1)
        return total / len(self.points)


def thin(
    draws: ArrayLike | xr.DataTree | xr.Dataset,
    count: int,
    *,
    score: Score | Callable[[np.ndarray], ArrayLike] | ArrayLike | None = None,
    method: str = "auto",
    weighted: bool = False,
    kernel: Any = "median",
    standardize: str | None = "column",
    columns: Sequence[str] | None = None,
    seed: int = 0,
) -> Thinned:
    """Select ``count`` draws that represent all draws better than random draws do.

    Without a score, the mean embedding of the selected draws is close to that of all draws, by
    herding or by kernel thinning (Dwivedi and Mackey 2021; the implementation of goodpoints, after
    Compress++ for many draws, Shetty, Dwivedi and Mackey 2022). With a score, it is close to that
    of the density, by Stein thinning, so that draws of a warmup or a bias are left out (Riabiz et
    al. 2022).

    Args:
        draws: rows (n, D) or (n,), chains (C, n, D), or a tree in the format of ArviZ.
        count: number of selected draws, less than the number of all draws.
        score: d log p / dx, as for :func:`~bke.inference.stein_test`.
        method: ``"kernel"`` (needs goodpoints), ``"herding"``, or ``"stein"``, which needs a score.
            ``"auto"`` is ``"stein"`` with a score. Without a score it is ``"herding"``, which is as
            good as ``"kernel"``. Herding uses at most 16384 equally spaced draws; for more draws
            ``"auto"`` is ``"kernel"`` if goodpoints is installed.
        weighted: use the weights on the simplex with the smallest discrepancy, instead
            of equal weights.
        kernel: ``"median"``, ``"bkl"`` or ``"posterior"``, chosen or learned from the draws; or a
            kernel in their units. With a score ``"median"`` is an inverse multiquadric at the
            median distance.
        standardize: scale of the columns, as for :func:`~bke.inference.fit`.
        columns: names of the parameters; by default those of the draws.
        seed: seed of kernel thinning, and of the random draws for comparison.

    Raises:
        InputError: if draws or arguments are invalid.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    check_flag(weighted, "weighted")
    if score is None:
        chains, scores = as_chains(draws, columns=columns), None
    else:
        chains, scores = evaluate_score(draws, score, columns)
        scores = scores.reshape(chains.rows.shape)
    n = len(chains.rows)
    if (chains.rows == chains.rows[0]).all():
        raise InputError("all draws are equal: any of them represents all")
    selected_method = _select_method(method, n, with_score=score is not None)
    check_count(count, "count", 1, n - 1)
    max_candidates = available = min(n, MAX_CANDIDATES)
    if selected_method == "kernel":
        max_candidates, available = n, min(n, MAX_GRAM_ROWS)
        if n > MAX_GRAM_ROWS:  # Compress++ halves a power of four repeatedly
            max_candidates = min(4**10, 4 ** ((n.bit_length() - 1) // 2))
    candidate_rows = equally_spaced(n, max_candidates)
    if available <= count:
        raise InputError(
            f"method={selected_method!r} selects from {available} draws: count must be less, got "
            f"{count}"
        )
    with computing():
        chosen_kernel, every = _candidates(chains.rows, scores, kernel, standardize)
        candidates = every._replace(points=every.points[candidate_rows])
        if selected_method == "kernel":
            selected = kernel_thinning(candidates, count, seed)
        elif selected_method == "herding":
            means = candidates.mean_embedding(candidates.points)
            selected = kernel_herding(candidates.column, means, count)
        else:
            selected = stein_thinning(candidates.column, candidates.diagonal(), count)
        indices = candidate_rows[selected]
        discrepancies, weights = _discrepancies(
            every, indices, seed, weighted=weighted, centered=scores is None
        )
    notes = []
    if len(candidate_rows) < n:
        notes.append(f"selected from {len(candidate_rows)} equally spaced draws of {n}")
    if n > MAX_REFERENCE_ROWS:
        notes.append(f"discrepancies are to {MAX_REFERENCE_ROWS} equally spaced draws of {n}")
    return Thinned(
        indices,
        weights,
        *discrepancies,
        kernel=chosen_kernel,
        method=METHOD_LABELS[selected_method] + (", weighted" if weighted else ""),
        columns=chains.columns,
        points=chains.rows[indices],
        notes=tuple(notes),
    )


def _select_method(method: str, n: int, *, with_score: bool) -> str:
    """Check ``method``, and replace ``"auto"`` by a method for ``n`` draws."""
    check_choice(method, "method", ("auto", *METHOD_LABELS))
    if with_score != (method == "stein") and method != "auto":
        raise InputError("method='stein' needs a score, and a score is for no other method")
    if with_score:
        return "stein"
    if method == "herding" or (method == "auto" and n <= MAX_CANDIDATES):
        return "herding"
    if importlib.util.find_spec("goodpoints") is None:
        if method == "kernel":
            raise InputError(
                "kernel thinning needs the package goodpoints: pip install goodpoints, or pass "
                "method='herding'"
            )
        return "herding"
    return "kernel"


def _candidates(
    rows: np.ndarray, scores: np.ndarray | None, kernel: Any, standardize: str | None
) -> tuple[Any, Candidates]:
    """Choose a kernel in the units of the draws, and return it with all draws as candidates."""
    choices = SINGLE_KERNELS if scores is None else RADIAL_CHOICES
    choice = KernelChoice.checked(kernel, choices, standardize)
    if scores is None:
        chosen = choice.kernels(rows)[0]
        return chosen, Candidates(rows, lambda a, b: np.asarray(chosen(a, b)))
    chosen = stein_kernels(rows, choice, single=True)[0]
    scale, dimension = choice.scales(rows), rows.shape[1]
    scaled = scaled_kernel(chosen, scale)

    def stein_kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        x, s = a[:, :dimension], a[:, dimension:]
        return np.asarray(stein_matrix(x, s, scaled, b[:, :dimension], b[:, dimension:]))

    points = np.concatenate([rows / scale, scores * scale], axis=1)
    return chosen, Candidates(points, stein_kernel)


def _discrepancies(
    candidates: Candidates, selected: np.ndarray, seed: int, *, weighted: bool, centered: bool
) -> tuple[tuple[float, float, float], np.ndarray]:
    """Compute the discrepancies of the selected, random and equally spaced draws.

    Args:
        candidates: all draws.
        selected: (m,) indices of the selected draws.
        seed: seed of the random draws.
        weighted: optimize the weights of the selected draws.
        centered: subtract the mean embedding of all draws; for Stein's kernel that of
            the density is zero.

    Returns:
        The three discrepancies, and the weights (m,) of the selected draws.
    """
    count, n = len(selected), len(candidates.points)
    rng = np.random.default_rng([seed, 17])
    random = [rng.choice(n, size=count, replace=False) for _ in range(20)]
    reference = candidates
    if n > MAX_REFERENCE_ROWS:
        # Midpoints between equally spaced draws, which are mostly not candidates of the selection.
        midpoints = (np.arange(MAX_REFERENCE_ROWS) + 0.5) * n / MAX_REFERENCE_ROWS
        reference = candidates._replace(points=candidates.points[midpoints.astype(int)])
    squared_norm = float(np.mean(reference.mean_embedding(reference.points))) if centered else 0.0

    def discrepancy(rows: np.ndarray, *, weighted: bool = False) -> tuple[float, np.ndarray]:
        points = candidates.points[rows]
        gram = candidates.kernel(points, points)
        means = reference.mean_embedding(points) if centered else np.zeros(count)
        w = simplex_weights(gram, means) if weighted else np.full(count, 1.0 / count)
        squared = float(w @ gram @ w - 2.0 * w @ means) + squared_norm
        return max(squared, 0.0) ** 0.5, w

    value, weights = discrepancy(selected, weighted=weighted)
    random_mean = float(np.mean([discrepancy(rows)[0] for rows in random]))
    return (value, random_mean, discrepancy(equally_spaced(n, count))[0]), weights


def kernel_herding(
    column: Callable[[int], np.ndarray], means: np.ndarray, count: int
) -> np.ndarray:
    """Select draws by kernel herding (Chen, Welling and Smola 2010), without replacement.

    Each step selects the draw at which the mean embedding of all draws exceeds that of the selected
    draws by the most.

    Args:
        column: function that returns the kernel (n,) of all draws with one of them.
        means: (n,) mean embedding of all draws at each of them.
        count: number of selected draws.
    """
    selected, sums = np.empty(count, dtype=int), np.zeros(len(means))
    free = np.ones(len(means), dtype=bool)
    for index in range(count):
        criterion = np.where(free, means - sums / (index + 1.0), -np.inf)
        selected[index] = best = int(np.argmax(criterion))
        free[best] = False
        sums += column(best)
    return selected


def stein_thinning(
    column: Callable[[int], np.ndarray], diagonal: np.ndarray, count: int
) -> np.ndarray:
    """Select draws by Stein thinning (Riabiz et al. 2022), with replacement.

    Each step selects the draw for which the Stein discrepancy is the smallest.

    Args:
        column: function that returns Stein's kernel (n,) of all draws with one of them.
        diagonal: (n,) Stein's kernel of each draw with itself.
        count: number of selected draws.
    """
    selected, criterion = np.empty(count, dtype=int), 0.5 * diagonal
    for index in range(count):
        selected[index] = best = int(np.argmin(criterion))
        criterion = criterion + column(best)
    return selected


def simplex_weights(
    gram: np.ndarray, means: np.ndarray, max_steps: int = 2000, tolerance: float = 1e-6
) -> np.ndarray:
    """Minimize w'Kw - 2 w'means over weights w >= 0 that sum to one.

    The pairwise conditional gradient method moves mass from the draw with the largest gradient to
    the one with the smallest. It stops at a duality gap, which bounds the possible improvement
    (Lacoste-Julien and Jaggi 2015).

    Args:
        gram: (m, m) Gram matrix K.
        means: (m,) mean embedding of the target at each draw.
        max_steps: maximum number of steps.
        tolerance: duality gap at which the method stops, relative to the first one.
    """
    w = np.full(len(means), 1.0 / len(means))
    product, first_gap = gram @ w, 0.0
    for _ in range(max_steps):
        gradient = product - means
        best = int(np.argmin(gradient))
        worst = int(np.argmax(np.where(w > 0.0, gradient, -np.inf)))
        gap = gradient[worst] - gradient[best]
        first_gap = first_gap or gap
        if gap <= tolerance * first_gap:
            break
        curvature = gram[best, best] + gram[worst, worst] - 2.0 * gram[best, worst]
        step = w[worst] if curvature <= 0.0 else min(w[worst], gap / curvature)
        w[best] += step
        w[worst] = max(w[worst] - step, 0.0)
        product += step * (gram[:, best] - gram[:, worst])
    return w / w.sum()


def kernel_thinning(candidates: Candidates, count: int, seed: int) -> np.ndarray:
    """Select draws by kernel thinning of goodpoints, after Compress++ for many draws.

    Args:
        candidates: n candidates.
        count: number of selected draws.
        seed: seed of the random halvings.

    Returns:
        (count,) indices, without repetitions.
    """
    from goodpoints import kt

    rows = np.arange(len(candidates.points))
    if len(rows) > MAX_GRAM_ROWS:
        rows = _compress(candidates, seed)
    rounds = int(math.log2(len(rows) / count))
    if rounds:
        rows = rows[equally_spaced(len(rows), count * 2**rounds)]
    points = candidates.points[rows]
    gram = candidates.kernel(points, points)
    if rounds:
        selected = kt.thin_K(gram, gram, rounds, delta=FAILURE_PROBABILITY, seed=seed, unique=True)
    else:
        selected = kt.refine_K(gram, equally_spaced(len(rows), count), unique=True)
    return np.asarray(rows[selected])


def _compress(candidates: Candidates, seed: int) -> np.ndarray:
    """Select rows by Compress++, as many as a Gram matrix of kernel thinning may have."""
    from goodpoints import compress, kt

    size = compress.largest_power_of_four(len(candidates.points))
    rows = equally_spaced(len(candidates.points), size)
    oversampling = int(math.log2(max(MAX_GRAM_ROWS / math.isqrt(size), 1.0)))
    rng = np.random.default_rng([seed, 19])

    def halve(points: np.ndarray) -> np.ndarray:
        gram = candidates.kernel(points, points)
        seed = int(rng.integers(2**31))
        return np.asarray(kt.halve_K(gram, delta=FAILURE_PROBABILITY, seed=seed)[0])

    symmetric = compress.symmetrize(halve, seed=int(rng.integers(2**31)))
    points = candidates.points[rows]
    return np.asarray(rows[compress.compress(points, symmetric, oversampling)])
