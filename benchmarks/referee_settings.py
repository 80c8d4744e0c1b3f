"""Settings of the referee: pairs of samples in four families, half of them held out.

*Open* settings resemble those on which the statistic of `bke` was chosen. *Held-out* settings were
defined afterwards, and their effect sizes were set by the power of other tools only. Data set i of
a setting depends on the setting's name and i.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable

import numpy as np
import power
from scipy.stats import norm

Rng = np.random.Generator
Samples = tuple[np.ndarray, np.ndarray]
FAMILIES = ("shape", "dependence", "high dimension", "discrete and tied")


@dataclasses.dataclass(frozen=True)
class Setting:
    """Size and distributions of two samples.

    Attributes:
        name: name of the setting; it determines the random numbers.
        family: one of :data:`FAMILIES`.
        held_out: True if the setting did not influence the choice of the statistic.
        n: rows of each sample.
        first: function that draws P, (n, D), from n and a generator.
        second: function that draws Q, (n, D).
    """

    name: str
    family: str
    held_out: bool
    n: int
    first: Callable[[int, Rng], np.ndarray]
    second: Callable[[int, Rng], np.ndarray]

    def draw(self, index: int, *, null: bool = False) -> Samples:
        """Draw data set ``index``; both samples from P if ``null``."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), index, null])
        second = self.first if null else self.second
        return self.first(self.n, rng), second(self.n, rng)


def normal(
    columns: int, shift: float = 0.0, scale: float = 1.0
) -> Callable[[int, Rng], np.ndarray]:
    """Independent normal columns."""
    return lambda n, rng: shift + scale * rng.normal(size=(n, columns))


def first_columns_changed(
    columns: int, changed: int, shift: float = 0.0, scale: float = 1.0
) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal columns, the first of which are shifted and scaled."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        rows[:, :changed] = shift + scale * rows[:, :changed]
        return rows

    return draw


def bump(columns: int, proportion: float, width: float) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal rows, a proportion of which are near (1, 0, ...)."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        moved = rng.uniform(size=n) < proportion
        rows[moved] = np.eye(columns)[0] + width * rng.normal(size=(moved.sum(), columns))
        return rows

    return draw


def equicorrelated(columns: int, correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Normal columns, all pairs with the same correlation."""
    return lambda n, rng: (
        correlation**0.5 * rng.normal(size=(n, 1))
        + (1.0 - correlation) ** 0.5 * rng.normal(size=(n, columns))
    )


def autoregressive(columns: int, correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Normal columns that are an autoregression along the row."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        for column in range(1, columns):
            rows[:, column] *= (1.0 - correlation**2) ** 0.5
            rows[:, column] += correlation * rows[:, column - 1]
        return rows

    return draw


def correlated_pair(columns: int, correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal columns, two of which are correlated."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        rows[:, 1] = correlation * rows[:, 0] + (1.0 - correlation**2) ** 0.5 * rows[:, 1]
        return rows

    return draw


def blobs(correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Mixture of nine correlated normal distributions on a grid (Gretton et al. 2012)."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        center = 5.0 * rng.integers(3, size=(n, 2))
        return np.asarray(center + correlated_pair(2, correlation)(n, rng))

    return draw


def sphere(columns: int, deviation: float) -> Callable[[int, Rng], np.ndarray]:
    """Rows near the unit sphere with normal distances from the origin."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        radius = 1.0 + deviation * rng.normal(size=(n, 1))
        return np.asarray(radius * rows / np.linalg.norm(rows, axis=1, keepdims=True))

    return draw


def spiked(columns: int, spikes: int, variance: float) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal columns; the last ones are identical and have a different variance."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        rows[:, -spikes:] = variance**0.5 * rows[:, -1:]
        return rows

    return draw


def shell(columns: int, radius: float, deviation: float) -> Callable[[int, Rng], np.ndarray]:
    """Rows on a sphere around the origin plus normal noise in every column."""
    return lambda n, rng: (
        radius * sphere(columns, 0.0)(n, rng) + deviation * rng.normal(size=(n, columns))
    )


def copula(name: str) -> Callable[[int, Rng], np.ndarray]:
    """Clayton's or the normal copula, with Kendall's tau 0.4."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        if name == "normal":
            return np.asarray(norm.cdf(correlated_pair(2, np.sin(0.2 * np.pi))(n, rng)))
        theta = 2.0 * 0.4 / 0.6
        common = rng.gamma(1.0 / theta, size=(n, 1))
        return np.asarray((1.0 + rng.exponential(size=(n, 2)) / common) ** (-1.0 / theta))

    return draw


def three_signs(strength: float) -> Callable[[int, Rng], np.ndarray]:
    """Three pairwise independent normal columns whose product is mostly positive."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, 3))
        flipped = (rows.prod(axis=1) < 0.0) & (rng.uniform(size=n) < strength)
        rows[flipped, 0] *= -1.0
        return rows

    return draw


def uneven_spread(strength: float) -> Callable[[int, Rng], np.ndarray]:
    """Two uncorrelated columns; the standard deviation of one increases with the other."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        x, noise = rng.normal(size=(2, n))
        return np.column_stack([x, noise * np.exp(strength * x - strength**2)])

    return draw


def parabola(strength: float) -> Callable[[int, Rng], np.ndarray]:
    """Two uncorrelated columns of variance 1; one depends on the square of the other."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        x, noise = rng.normal(size=(2, n))
        y = strength * (x**2 - 1.0) + noise
        return np.column_stack([x, y / (1.0 + 2.0 * strength**2) ** 0.5])

    return draw


def sine(amplitude: float, waves: int) -> Callable[[int, Rng], np.ndarray]:
    """Uniform density times 1 plus a sine, by rejection sampling."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        values = np.empty(0)
        while len(values) < n:
            x = rng.uniform(size=3 * n)
            density = 1.0 + amplitude * np.sin(2.0 * np.pi * waves * x)
            accepted = rng.uniform(size=3 * n) * (1.0 + amplitude) < density
            values = np.concatenate([values, x[accepted]])
        return values[:n, None]

    return draw


def counts(mean: float, shape: float | None = None) -> Callable[[int, Rng], np.ndarray]:
    """Poisson counts, or with a shape negative binomial counts of the same mean."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        means = mean if shape is None else rng.gamma(shape, mean / shape, size=(n, 1))
        return rng.poisson(means, size=(n, 1)).astype(float)

    return draw


def zeros_added(mean: float, proportion: float) -> Callable[[int, Rng], np.ndarray]:
    """Poisson counts, a proportion of which is set to zero."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        return np.asarray(counts(mean)(n, rng) * (rng.uniform(size=(n, 1)) >= proportion))

    return draw


def binary(columns: int, shared: float) -> Callable[[int, Rng], np.ndarray]:
    """Fair coins, each of which is replaced by a common coin with probability ``shared``."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        independent, common = rng.integers(2, size=(n, columns)), rng.integers(2, size=(n, 1))
        return np.where(rng.uniform(size=(n, columns)) < shared, common, independent).astype(float)

    return draw


def ordinal(columns: int, polarised: float) -> Callable[[int, Rng], np.ndarray]:
    """Ordinal answers from 1 to 5, mixed with answers 1 and 5 only; the mean is the same."""
    even = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    ends = np.array([0.5, 0.0, 0.0, 0.0, 0.5])
    probabilities = (1.0 - polarised) * even + polarised * ends
    return lambda n, rng: rng.choice(np.arange(1.0, 6.0), size=(n, columns), p=probabilities)


def heaped(proportion: float) -> Callable[[int, Rng], np.ndarray]:
    """Integers around 50, a proportion of which is rounded to multiples of five."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        values = 50.0 + 10.0 * rng.normal(size=(n, 1))
        is_heaped = rng.uniform(size=(n, 1)) < proportion
        return np.where(is_heaped, 5.0 * np.rint(values / 5.0), np.rint(values))

    return draw


def categories(probabilities: list[float]) -> Callable[[int, Rng], np.ndarray]:
    """One category as indicator columns."""
    weights = np.array(probabilities) / np.sum(probabilities)
    return lambda n, rng: np.eye(len(probabilities))[
        rng.choice(len(probabilities), size=n, p=weights)
    ]


def rounded(correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Two correlated normal columns, rounded to integers."""
    return lambda n, rng: np.rint(correlated_pair(2, correlation)(n, rng))


def power_setting(name: str, value: float, side: int) -> Callable[[int, Rng], np.ndarray]:
    """One of the two samples of a setting of ``power.py``."""
    return lambda n, rng: getattr(power, name)(value, n, rng)[side]


def gamma(shape: float) -> Callable[[int, Rng], np.ndarray]:
    """Gamma distribution, standardized to mean 0 and variance 1."""
    return lambda n, rng: (rng.gamma(shape, size=(n, 1)) - shape) / shape**0.5


def t(columns: int, degrees: float) -> Callable[[int, Rng], np.ndarray]:
    """Columns with Student t distributions of variance 1."""
    unit = ((degrees - 2.0) / degrees) ** 0.5
    return lambda n, rng: unit * rng.standard_t(degrees, size=(n, columns))


def laplace(columns: int) -> Callable[[int, Rng], np.ndarray]:
    """Columns with Laplace distributions of variance 1."""
    return lambda n, rng: rng.laplace(scale=0.5**0.5, size=(n, columns))


def _settings() -> list[Setting]:
    shape, dependence, high, discrete = FAMILIES
    settings = [
        # Open.
        ("4 % bump, D = 3", shape, False, 300, normal(3), bump(3, 0.04, 0.1)),
        (
            "lognormal times 1.25",
            shape,
            False,
            300,
            lambda n, r: r.lognormal(size=(n, 1)),
            lambda n, r: 1.25 * r.lognormal(size=(n, 1)),
        ),
        (
            "perturbed uniform",
            shape,
            False,
            500,
            power_setting("perturbed", 0.0, 0),
            power_setting("perturbed", 0.3, 0),
        ),
        (
            "four normal blobs, one wider",
            shape,
            False,
            500,
            power_setting("mixture", 1.0, 1),
            power_setting("mixture", 1.6, 1),
        ),
        ("scale 1.5, n = 60", shape, False, 60, normal(1), normal(1, scale=1.5)),
        ("nine blobs", dependence, False, 300, blobs(0.0), blobs(0.5)),
        ("one correlation of ten", dependence, False, 100, normal(10), correlated_pair(10, 0.65)),
        (
            "equicorrelation 0.5, 0.55, D = 500",
            dependence,
            False,
            100,
            equicorrelated(500, 0.5),
            equicorrelated(500, 0.55),
        ),
        ("shift, D = 10", high, False, 100, normal(10), normal(10, shift=0.15)),
        ("scale 1.05, D = 50", high, False, 100, normal(50), normal(50, scale=1.05)),
        ("spheres, D = 250", high, False, 100, sphere(250, 0.0), sphere(250, 0.05)),
        (
            "decreasing correlation 0.5, 0.6, D = 500",
            dependence,
            False,
            100,
            autoregressive(500, 0.5),
            autoregressive(500, 0.6),
        ),
        ("spiked covariance, D = 1500", high, False, 100, normal(1500), spiked(1500, 5, 3.0)),
        (
            "concentric spheres, D = 250",
            high,
            False,
            100,
            shell(250, 1.0, 0.02),
            shell(250, 1.015, 0.02),
        ),
        ("Poisson, negative binomial", discrete, False, 200, counts(4.0), counts(4.0, 6.0)),
        ("rounded, correlation 0.6", discrete, False, 100, rounded(0.0), rounded(0.6)),
        (
            "six categories",
            discrete,
            False,
            150,
            categories([6, 5, 4, 3, 2, 1]),
            categories([5, 4, 4, 4, 3, 1]),
        ),
        # Held out.
        ("skewed, equal moments", shape, True, 150, normal(1), gamma(4.0)),
        ("Laplace, equal variance, D = 2", shape, True, 250, normal(2), laplace(2)),
        ("six waves", shape, True, 400, sine(0.0, 6), sine(0.35, 6)),
        ("ring, wider", shape, True, 200, sphere(2, 0.1), sphere(2, 0.15)),
        ("copula of Clayton", dependence, True, 400, copula("normal"), copula("Clayton")),
        ("three signs", dependence, True, 200, normal(3), three_signs(0.7)),
        ("uneven spread", dependence, True, 150, normal(2), uneven_spread(0.45)),
        ("parabola", dependence, True, 150, normal(2), parabola(0.45)),
        ("neighbours, D = 30", dependence, True, 150, normal(30), autoregressive(30, 0.3)),
        (
            "three of 100 shifted",
            high,
            True,
            100,
            normal(100),
            first_columns_changed(100, 3, shift=0.45),
        ),
        (
            "five of 200 wider",
            high,
            True,
            100,
            normal(200),
            first_columns_changed(200, 5, scale=2.0),
        ),
        ("all of 200 shifted", high, True, 100, normal(200), normal(200, shift=0.06)),
        ("heavy tails, D = 50", high, True, 100, normal(50), t(50, 5.0)),
        ("zeros added", discrete, True, 300, counts(2.0), zeros_added(2.2, 0.12)),
        ("coins that agree, D = 8", discrete, True, 150, binary(8, 0.0), binary(8, 0.36)),
        ("polarised answers, D = 4", discrete, True, 150, ordinal(4, 0.0), ordinal(4, 0.08)),
        ("heaped at fives", discrete, True, 300, heaped(0.0), heaped(0.2)),
    ]
    return [Setting(*arguments) for arguments in settings]


SETTINGS = {setting.name: setting for setting in _settings()}
