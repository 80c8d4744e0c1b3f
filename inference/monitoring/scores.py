"""Scores of rows, whose distribution is tested for a change: fixed scores and learned witnesses.

Here a score is a number for each row. Fixed scores are chosen on training rows of the reference.
Witness functions are learned from earlier rows of the stream and the same training rows. Training
rows are never ranked, so that the ranks of all other rows have their exact null distribution.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from bke.models.linalg.clustering import kmeans_plusplus
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist, pdist
from scipy.special import ndtri

from ..data.equality import positive_distances

#: Number of bins of a score. Their indices fit into one byte.
NUM_BINS = 128
#: Number of quantiles by which a column is transformed to normal scores.
NUM_QUANTILES = 256
#: Lengthscales of the kernel at landmarks, as multiples of the median distance between rows.
LANDMARK_SCALES = (0.25, 0.6)
#: Weight of each family of fixed scores in the level of the test, if all families are present.
FAMILY_WEIGHTS = {
    "columns": 0.4,
    "pairs": 0.15,
    "directions": 0.1,
    "distance": 0.05,
    "landmarks": 0.1,
}
#: Weight of all witnesses in the level of the test.
WITNESS_WEIGHT = 1.0 - sum(FAMILY_WEIGHTS.values())
#: Smallest number of rows between two generations of witnesses, and the proportion of all rows by
#: which the number grows.
MIN_SPACING, SPACING_PROPORTION = 500, 0.05
#: Largest number of rows from which witnesses are learned, and number of landmarks of the kernel.
MAX_WINDOW, NUM_LANDMARKS = 1000, 128
#: Number of generations in use, and number of witnesses of each: a kernel witness and a linear one.
NUM_GENERATIONS, PER_GENERATION = 2, 2
NUM_WITNESSES = NUM_GENERATIONS * PER_GENERATION
#: Largest number of columns in the description of a direction or of a landmark.
MAX_LISTED = 3
#: Descriptions of larger and of smaller values of a score, by its family.
CHANGE_TEMPLATES = {
    "levels": ("{} is more frequent", "{} is less frequent"),
    "missing": ("more {}", "fewer {}"),
    "pairs": ("the correlation of {} is larger", "the correlation of {} is smaller"),
    "landmarks": ("more {}", "fewer {}"),
    "witnesses": ("more {}", "fewer {}"),
}


class Columns(NamedTuple):
    """Columns of values (n, C).

    Attributes:
        names: (C,) names.
        levels: (C,), the levels of each categorical column in the reference. The value of a row is
            the index of its level, or the number of levels for any other level. Empty for numbers.
        indicator_levels: (C,), indices of the levels with an indicator.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    indicator_levels: tuple[tuple[int, ...], ...] = ()

    @property
    def is_number(self) -> np.ndarray:
        """Mask (C,) of the columns of numbers."""
        return np.array([not levels for levels in self.levels], dtype=bool)

    @property
    def numbers(self) -> list[str]:
        """Names of the columns of numbers."""
        return [name for name, levels in zip(self.names, self.levels, strict=True) if not levels]

    def with_indicators(self, values: np.ndarray, *, max_levels: int = 6) -> Columns:
        """Add indicators of the most frequent levels of each column.

        Levels are taken from training rows alone. If they were taken from all rows of the
        reference, a new level could occur in the stream only, and never in the ranked rows of the
        reference.

        Args:
            values: (n, C) training rows.
            max_levels: largest number of indicators per column.
        """
        indicator_levels = []
        for column, levels in zip(values.T, self.levels, strict=True):
            codes = column[~np.isnan(column)].astype(int) if levels else np.empty(0, dtype=int)
            counts = np.bincount(codes)
            order = np.argsort(-counts, kind="stable")[:max_levels]
            indicator_levels.append(tuple(int(level) for level in order if counts[level]))
        return self._replace(indicator_levels=tuple(indicator_levels))

    @property
    def indicators(self) -> list[tuple[int, int | None, str]]:
        """Column, level and label of each indicator; ``None`` is any level without an indicator."""
        result: list[tuple[int, int | None, str]] = []
        for column, (name, levels) in enumerate(zip(self.names, self.levels, strict=True)):
            if levels:
                result += [
                    (column, level, f"{name} = {levels[level]}")
                    for level in self.indicator_levels[column]
                ]
                result.append((column, None, f"a rare or new level of {name}"))
        return result

    def indicator_values(self, values: np.ndarray) -> np.ndarray:
        """Compute the indicators of rows (n, C): (n, i) of 0 and 1."""
        result = np.empty((len(values), len(self.indicators)))
        for index, (column, level, _) in enumerate(self.indicators):
            codes = values[:, column]
            if level is None:
                result[:, index] = ~np.isnan(codes) & ~np.isin(codes, self.indicator_levels[column])
            else:
                result[:, index] = codes == level
        return result


def bin_edges(scores: np.ndarray) -> np.ndarray:
    """Choose the edges of bins from scores (n, J) in single precision.

    Values below the minimum and above the maximum have separate bins. The other bins hold about
    equal proportions of the rows, but smaller proportions in both tails. If a score has fewer
    distinct values than bins, each value has a bin.

    Returns:
        (J, NUM_BINS - 1), ascending; infinite after the last edge.
    """
    tail = np.array([0.0005, 0.001, 0.002, 0.003, 0.004, 0.006])
    between = np.linspace(0.008, 1.0 - 0.008, NUM_BINS - 3 - 2 * len(tail))
    probabilities = np.concatenate([tail, between, 1.0 - tail[::-1]])
    result = np.full((scores.shape[1], NUM_BINS - 1), np.inf, dtype=np.float32)
    for row, column in zip(result, scores.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        ends = [values[0], np.nextafter(values[-1], np.float32(np.inf))]
        if len(values) > NUM_BINS - 2:
            values = values[np.searchsorted(np.cumsum(counts), probabilities * counts.sum())]
        edges = np.unique(np.append(values, ends))
        row[: len(edges)] = edges
    return result


def bin_indices(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the bins (n, J) of scores (n, J), which have the precision of the edges."""
    result = np.empty(scores.shape, dtype=np.int8)
    for column, column_edges in enumerate(edges):
        result[:, column] = np.searchsorted(column_edges, scores[:, column], side="right")
    return result


def bin_counts(bins: np.ndarray) -> np.ndarray:
    """Count the rows with bins (n, J) in each bin: (J, NUM_BINS)."""
    return np.stack([np.bincount(column, minlength=NUM_BINS) for column in bins.T])


class Scores(NamedTuple):
    """Fixed scores.

    Attributes:
        columns: columns of the values.
        quantiles: (C, NUM_QUANTILES) of the columns of numbers, ascending.
        normal_quantiles: (C, NUM_QUANTILES), normal scores of the quantiles.
        pairs: (P, 2), columns of numbers whose products are scores.
        directions: (C, d), principal directions with projections of variance 1.
        precision: (C, C), inverse covariance for the Mahalanobis distance.
        landmarks: (L, C), centers of kernels.
        scale: median distance between rows.
    """

    columns: Columns
    quantiles: np.ndarray
    normal_quantiles: np.ndarray
    pairs: np.ndarray
    directions: np.ndarray
    precision: np.ndarray
    landmarks: np.ndarray
    scale: float

    @classmethod
    def choose(cls, columns: Columns, values: np.ndarray, seed: int) -> Scores:
        """Choose the scores on training rows.

        Args:
            columns: columns of the values.
            values: (n, C) training rows.
            seed: seed of the choice of landmarks.
        """
        numbers = values[:, columns.is_number]
        count = numbers.shape[1]
        probabilities = (np.arange(NUM_QUANTILES) + 0.5) / NUM_QUANTILES
        quantiles = np.zeros((count, NUM_QUANTILES))
        normal_quantiles = np.empty((count, NUM_QUANTILES))
        for index, column in enumerate(numbers.T):
            if len(known := column[~np.isnan(column)]):
                quantiles[index] = np.quantile(known, probabilities)
                quantiles[index, [0, -1]] = known.min(), known.max()
            # Equal quantiles have the mean of their normal scores.
            _, ties, counts = np.unique(quantiles[index], return_inverse=True, return_counts=True)
            sums = np.bincount(ties, weights=ndtri(probabilities))
            normal_quantiles[index] = (sums / counts)[ties]
        no_pairs, no_rows = np.empty((0, 2), dtype=int), np.empty((0, count))
        scores = cls(
            columns, quantiles, normal_quantiles, no_pairs, no_rows.T, np.eye(count), no_rows, 1.0
        )
        return scores._with_joint_scores(scores.normal_scores(values), seed) if count else scores

    def _with_joint_scores(self, normal: np.ndarray, seed: int) -> Scores:
        """Choose the scores of several columns by normal scores (n, C) of training rows."""
        count = normal.shape[1]
        covariance = np.cov(normal.T).reshape(count, count) + 1e-3 * np.eye(count)
        pairs, max_pairs = np.stack(np.triu_indices(count, k=1), axis=1), 21
        if len(pairs) > max_pairs:
            strength = np.abs(covariance[pairs[:, 0], pairs[:, 1]])
            pairs = pairs[np.sort(np.argsort(-strength, kind="stable")[:max_pairs])]
        values, vectors = np.linalg.eigh(covariance)
        # The two directions of least variance, and the two of most.
        ends = sorted({*range(count)[:2], *range(count)[-2:]})
        directions = vectors[:, ends] / np.sqrt(values[ends])
        distances = positive_distances(pdist(normal[:500]), normal)
        return self._replace(
            pairs=pairs,
            directions=directions if count > 1 else directions[:, :0],
            precision=np.linalg.inv(covariance),
            landmarks=normal[kmeans_plusplus(normal, 8, np.random.default_rng(seed))],
            scale=float(np.median(distances)) if len(distances) else 1.0,
        )

    def normal_scores(self, values: np.ndarray) -> np.ndarray:
        """Transform the numbers of rows (n, C') to normal scores (n, C), 0 for missing values."""
        numbers = values[:, self.columns.is_number]
        result = np.empty(numbers.shape)
        bound = 3.5  # beyond the normal scores of the training rows
        for index, knots in enumerate(zip(self.quantiles, self.normal_quantiles, strict=True)):
            result[:, index] = np.interp(numbers[:, index], *knots, -bound, bound)
        return np.nan_to_num(result, copy=False)

    def compute(self, values: np.ndarray) -> np.ndarray:
        """Compute the scores (n, J) of rows (n, C), in single precision to create ties."""
        normal = self.normal_scores(values)
        num_missing = np.isnan(values).sum(axis=1, keepdims=True)
        result = [normal, self.columns.indicator_values(values), num_missing]
        result.append(normal[:, self.pairs[:, 0]] * normal[:, self.pairs[:, 1]])
        if self.directions.shape[1]:
            result += [row_sums(normal * weights)[:, np.newaxis] for weights in self.directions.T]
            squares = np.zeros(len(normal))
            for column, precision in zip(normal.T, self.precision, strict=True):
                squares += column * row_sums(normal * precision)
            result.append(squares[:, np.newaxis])
        if len(self.landmarks):
            distances = cdist(normal, self.landmarks, "sqeuclidean")
            result += [
                np.exp(-0.5 * distances / (scale * self.scale) ** 2) for scale in LANDMARK_SCALES
            ]
        return np.concatenate(result, axis=1, dtype=np.float32)

    def features(self, values: np.ndarray) -> np.ndarray:
        """Compute features (n, d) of rows (n, C): normal scores and indicators."""
        return np.concatenate(
            [self.normal_scores(values), self.columns.indicator_values(values)], axis=1
        )

    @property
    def weights(self) -> np.ndarray:
        """Weight of each score (J,) in the level of the test; the sum is 1 - WITNESS_WEIGHT."""
        has_directions = self.directions.shape[1] > 0
        counts = {
            "columns": len(self.columns.numbers) + len(self.columns.indicators) + 1,
            "pairs": len(self.pairs),
            "directions": self.directions.shape[1],
            "distance": int(has_directions),
            "landmarks": len(LANDMARK_SCALES) * len(self.landmarks),
        }
        weights = np.concatenate(
            [
                np.full(count, FAMILY_WEIGHTS[family] / max(count, 1))
                for family, count in counts.items()
            ]
        )
        return weights * (1.0 - WITNESS_WEIGHT) / weights.sum()

    @property
    def descriptions(self) -> list[ScoreDescription]:
        """Description of each score (J,)."""
        columns, numbers = self.columns, self.columns.numbers
        result = [ScoreDescription("numbers", name, (name,)) for name in numbers]
        result += [
            ScoreDescription("levels", label, (columns.names[column],))
            for column, _, label in columns.indicators
        ]
        result.append(ScoreDescription("missing", "missing values", columns.names))
        for i, j in self.pairs:
            pair = (numbers[i], numbers[j])
            result.append(ScoreDescription("pairs", " and ".join(pair), pair))
        result += [describe_direction(weights, numbers) for weights in self.directions.T]
        if self.directions.shape[1]:
            result.append(
                ScoreDescription("distance", "the distance from the center", tuple(numbers))
            )
        landmarks = []
        for landmark in self.landmarks:
            coordinates = [
                f"{name} = {np.interp(score, normal_quantiles, quantiles):.3g}"
                for name, score, normal_quantiles, quantiles in zip(
                    numbers, landmark, self.normal_quantiles, self.quantiles, strict=True
                )
            ]
            label = f"rows near {', '.join(coordinates[:MAX_LISTED])}"
            label += ", ..." if len(numbers) > MAX_LISTED else ""
            landmarks.append(ScoreDescription("landmarks", label, tuple(numbers)))
        return result + landmarks * len(LANDMARK_SCALES)


class ScoreDescription(NamedTuple):
    """Description of a score.

    Attributes:
        family: a key of :data:`CHANGE_TEMPLATES`, or another family of scores.
        label: text for the score.
        columns: names of its columns.
        sign: -1 if larger values of the score are smaller values of the labeled quantity.
    """

    family: str
    label: str
    columns: tuple[str, ...]
    sign: float = 1.0

    def describe_change(self, reference: np.ndarray, after: np.ndarray) -> str:
        """Describe the difference of the score between the reference (r,) and later rows (n,)."""
        reference, after = self.sign * reference, self.sign * after
        if self.family in CHANGE_TEMPLATES:
            larger, smaller = CHANGE_TEMPLATES[self.family]
            return (larger if after.mean() > reference.mean() else smaller).format(self.label)
        ordered = np.sort(reference)
        ranks = [np.searchsorted(ordered, after, side=side) for side in ("left", "right")]
        normal = ndtri((0.5 * (ranks[0] + ranks[1]) + 0.5) / (len(ordered) + 1.0))
        expected_std = ndtri((np.arange(len(ordered)) + 1.0) / (len(ordered) + 1.0)).std()
        mean = float(normal.mean())
        log_ratio = float(np.log(max(float(normal.std()), 1e-9) / expected_std))
        if max(abs(mean), abs(log_ratio)) < 0.05:
            return f"the distribution of {self.label} changed"
        # A large shift is described as one: constant rows have the smallest possible dispersion
        # wherever they are.
        if abs(mean) >= min(abs(log_ratio), 1.0):
            return f"{self.label} is {'smaller' if mean < 0.0 else 'larger'}"
        return f"the dispersion of {self.label} is {'smaller' if log_ratio < 0.0 else 'larger'}"


def describe_direction(weights: np.ndarray, names: list[str]) -> ScoreDescription:
    """Describe a linear combination with weights (C,) by its largest weights."""
    order = np.argsort(-np.abs(weights), kind="stable")[:MAX_LISTED]
    largest = [index for index in order if abs(weights[index]) > 0.25 * np.abs(weights).max()]
    if len(largest) == 1:
        name, weight = names[largest[0]], weights[largest[0]]
        return ScoreDescription("numbers", name, (name,), float(np.sign(weight)))
    terms = [f"{'-' if weights[index] < 0 else '+'} {names[index]}" for index in largest]
    label = f"the combination {' '.join(terms).removeprefix('+ ')}"
    return ScoreDescription("directions", label, tuple(names[index] for index in largest))


def row_sums(terms: np.ndarray) -> np.ndarray:
    """Compute the sum (n,) of every row of ``terms`` (n, C), independently of the other rows.

    The rounding of a product by BLAS depends on the number of rows. If the exact sum is the same in
    all rows, as for a column and its complement, ranks would depend on the size of an update.
    """
    return np.asarray(np.ascontiguousarray(terms).sum(axis=1))


class Witnesses(NamedTuple):
    """Witness functions of the difference between recent rows and the reference.

    A witness is learned before the rows on which it is tested, at a row that is fixed in advance.
    The witnesses of a generation are adjacent. The newest generation replaces the oldest.

    Attributes:
        landmarks: (NUM_GENERATIONS, NUM_LANDMARKS, d) features.
        kernel_weights: (NUM_GENERATIONS, NUM_LANDMARKS).
        linear_weights: (NUM_GENERATIONS, d).
        edges: (NUM_WITNESSES, NUM_BINS - 1) of bins.
        weights: (NUM_WITNESSES,), weights in the level of the test; 0 before a witness is learned.
        lengthscale: lengthscale of the kernel.
        generation: number of generations so far.
        next_row: row after which the next generation is learned.
    """

    landmarks: np.ndarray
    kernel_weights: np.ndarray
    linear_weights: np.ndarray
    edges: np.ndarray
    weights: np.ndarray
    lengthscale: float
    generation: int = 0
    next_row: int = MIN_SPACING

    @classmethod
    def initialize(cls, dimension: int, scale: float) -> Witnesses:
        """Start without witnesses, for features (n, dimension) with median distance ``scale``."""
        return cls(
            np.zeros((NUM_GENERATIONS, NUM_LANDMARKS, dimension)),
            np.zeros((NUM_GENERATIONS, NUM_LANDMARKS)),
            np.zeros((NUM_GENERATIONS, dimension)),
            np.full((NUM_WITNESSES, NUM_BINS - 1), np.inf, dtype=np.float32),
            np.zeros(NUM_WITNESSES),
            0.5 * scale,
        )

    def compute(self, features: np.ndarray) -> np.ndarray:
        """Compute the witnesses (n, NUM_WITNESSES) at features (n, d), in single precision."""
        result = np.zeros((len(features), NUM_WITNESSES), dtype=np.float32)
        for index in range(min(self.generation, NUM_GENERATIONS)):
            kernel = _kernel(features, self.landmarks[index], self.lengthscale)
            first = PER_GENERATION * index
            result[:, first] = row_sums(kernel * self.kernel_weights[index])
            result[:, first + 1] = row_sums(features * self.linear_weights[index])
        return result

    @property
    def window(self) -> int:
        """Number of recent rows from which the next generation is learned."""
        return min(MAX_WINDOW, self.next_row - _learning_row(self.generation))

    @property
    def newest(self) -> slice:
        """Indices of the witnesses of the newest generation."""
        first = (self.generation - 1) % NUM_GENERATIONS * PER_GENERATION
        return slice(first, first + PER_GENERATION)

    def describe(self, columns: tuple[str, ...]) -> list[ScoreDescription]:
        """Describe each witness by the rows from which it was learned; ``columns`` are all names.

        Witnesses of weight 0 have an unspecified description.
        """
        result = []
        for index in range(NUM_WITNESSES):
            age = (self.generation - 1 - index // PER_GENERATION) % NUM_GENERATIONS
            before, last = (_learning_row(self.generation - age - step) for step in (1, 0))
            first = max(before, last - MAX_WINDOW) + 1
            label = f"rows similar to rows {first} to {last} of the stream"
            result.append(ScoreDescription("witnesses", label, columns))
        return result

    def learn(
        self,
        recent: np.ndarray,
        training: np.ndarray,
        calibration: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[Witnesses, np.ndarray]:
        """Learn the next generation in place of the oldest.

        Args:
            recent: features (m, d) of the last rows of the stream.
            training: features (n, d) of the training rows of the reference.
            calibration: features (r, d) of ranked rows of the reference.
            rng: generator for the choice of landmarks.

        Returns:
            The witnesses, and counts (PER_GENERATION, NUM_BINS) of the calibration rows in the bins
            of the new ones.
        """
        index, generation = self.generation % NUM_GENERATIONS, self.generation + 1
        landmarks, kernel_weights = _fit_kernel_witness(recent, training, self.lengthscale, rng)
        linear_weights = recent.mean(axis=0) - training.mean(axis=0)
        new = self._replace(
            landmarks=_replaced(self.landmarks, index, landmarks),
            kernel_weights=_replaced(self.kernel_weights, index, kernel_weights),
            linear_weights=_replaced(self.linear_weights, index, linear_weights),
            generation=generation,
            next_row=_learning_row(generation + 1),
        )
        edges = bin_edges(new.compute(training)[:, new.newest])
        # The weights of all generations have the sum WITNESS_WEIGHT.
        weight = WITNESS_WEIGHT / PER_GENERATION * 6.0 / (math.pi * generation) ** 2
        counts = bin_counts(bin_indices(new.compute(calibration)[:, new.newest], edges))
        return new._replace(
            edges=_replaced(self.edges, new.newest, edges),
            weights=_replaced(self.weights, new.newest, weight),
        ), counts


def _learning_row(generation: int) -> int:
    """Return the row after which a generation of witnesses is learned; 0 for generation 0."""
    row = 0
    for _ in range(generation):
        row += max(MIN_SPACING, int(SPACING_PROPORTION * row))
    return row


def _replaced(array: np.ndarray, index: int | slice, values: np.ndarray | float) -> np.ndarray:
    result = array.copy()
    result[index] = values
    return result


def _kernel(features: np.ndarray, landmarks: np.ndarray, lengthscale: float) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * cdist(features, landmarks, "sqeuclidean") / lengthscale**2))


def _fit_kernel_witness(
    recent: np.ndarray, training: np.ndarray, lengthscale: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Fit a Gaussian process with landmarks to the sample labels of rows.

    The result is the posterior mean with a fixed lengthscale and a fixed noise.

    Returns:
        Landmarks (NUM_LANDMARKS, d) and weights (NUM_LANDMARKS,) of the kernel.
    """
    landmarks = np.concatenate(
        [rows[rng.permutation(len(rows))[: NUM_LANDMARKS // 2]] for rows in (recent, training)]
    )
    labels = np.repeat([1.0, -1.0], [len(recent), len(training)])
    kernel = _kernel(np.concatenate([recent, training]), landmarks, lengthscale)
    kernel -= kernel.mean(axis=0)
    noise_variance = 3.0
    normal = kernel.T @ kernel + noise_variance * _kernel(landmarks, landmarks, lengthscale)
    normal += 1e-8 * np.trace(normal) / len(normal) * np.eye(len(normal))
    weights = cho_solve(cho_factor(normal), kernel.T @ (labels - labels.mean()))
    padding = NUM_LANDMARKS - len(landmarks)
    return np.pad(landmarks, ((0, padding), (0, 0))), np.pad(weights, (0, padding))
