"""Settings of the referee: pairs of samples in four families, half of them held out.

A setting that is *open* resembles one on which the statistic of `bke` was chosen; those *held out*
were written down afterwards, and their strengths set by the power of other tools alone. Data set i
of a setting hangs on the setting's name and i.
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
    """How two samples are drawn.

    Attributes:
        name: of the setting.
        family: one of :data:`FAMILIES`.
        held_out: whether it had no say in how the statistic was chosen.
        n: rows of each sample.
        first: draws P, (n, D), from n and a generator.
        second: draws Q; with ``first`` in its place P = Q.
    """

    name: str
    family: str
    held_out: bool
    n: int
    first: Callable[[int, Rng], np.ndarray]
    second: Callable[[int, Rng], np.ndarray]

    def drawn(self, index: int, *, null: bool = False) -> Samples:
        """Data set ``index``: both samples of P where ``null``."""
        rng = np.random.default_rng([zlib.crc32(self.name.encode()), index, null])
        second = self.first if null else self.second
        return self.first(self.n, rng), second(self.n, rng)


def normal(
    columns: int, shift: float = 0.0, scale: float = 1.0
) -> Callable[[int, Rng], np.ndarray]:
    """Independent normal columns."""
    return lambda n, rng: shift + scale * rng.normal(size=(n, columns))


def some_columns(
    columns: int, changed: int, shift: float = 0.0, scale: float = 1.0
) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal columns, of which the first few are another."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = rng.normal(size=(n, columns))
        found[:, :changed] = shift + scale * found[:, :changed]
        return found

    return draw


def bump(columns: int, share: float, width: float) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal rows, a few of which are near (1, 0, ...)."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = rng.normal(size=(n, columns))
        moved = rng.uniform(size=n) < share
        found[moved] = np.eye(columns)[0] + width * rng.normal(size=(moved.sum(), columns))
        return found

    return draw


def equicorrelated(columns: int, correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Normal columns, every two of the same correlation."""
    return lambda n, rng: (
        correlation**0.5 * rng.normal(size=(n, 1))
        + (1.0 - correlation) ** 0.5 * rng.normal(size=(n, columns))
    )


def autoregressive(columns: int, correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Normal columns, neighbours correlated: an autoregression along the row."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = rng.normal(size=(n, columns))
        for column in range(1, columns):
            found[:, column] *= (1.0 - correlation**2) ** 0.5
            found[:, column] += correlation * found[:, column - 1]
        return found

    return draw


def one_correlation(columns: int, correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal columns, of which two are correlated."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = rng.normal(size=(n, columns))
        found[:, 1] = correlation * found[:, 0] + (1.0 - correlation**2) ** 0.5 * found[:, 1]
        return found

    return draw


def blobs(correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Nine normal blobs on a grid, each with that correlation (Gretton et al. 2012)."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        centre = 5.0 * rng.integers(3, size=(n, 2))
        return np.asarray(centre + one_correlation(2, correlation)(n, rng))

    return draw


def sphere(columns: int, deviation: float) -> Callable[[int, Rng], np.ndarray]:
    """Rows about the unit sphere, whose distance from the origin varies."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        rows = rng.normal(size=(n, columns))
        radius = 1.0 + deviation * rng.normal(size=(n, 1))
        return np.asarray(radius * rows / np.linalg.norm(rows, axis=1, keepdims=True))

    return draw


def spiked(columns: int, spikes: int, variance: float) -> Callable[[int, Rng], np.ndarray]:
    """Standard normal columns; the last few are one and the same, of another variance."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = rng.normal(size=(n, columns))
        found[:, -spikes:] = variance**0.5 * found[:, -1:]
        return found

    return draw


def shell(columns: int, radius: float, deviation: float) -> Callable[[int, Rng], np.ndarray]:
    """Rows on a sphere about the origin, and normal noise in every column."""
    return lambda n, rng: (
        radius * sphere(columns, 0.0)(n, rng) + deviation * rng.normal(size=(n, columns))
    )


def copula(name: str) -> Callable[[int, Rng], np.ndarray]:
    """Uniform margins, Kendall's tau 0.4: the copula of Clayton or the normal one."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        if name == "normal":
            return np.asarray(norm.cdf(one_correlation(2, np.sin(0.2 * np.pi))(n, rng)))
        theta = 2.0 * 0.4 / 0.6
        common = rng.gamma(1.0 / theta, size=(n, 1))
        return np.asarray((1.0 + rng.exponential(size=(n, 2)) / common) ** (-1.0 / theta))

    return draw


def three_signs(strength: float) -> Callable[[int, Rng], np.ndarray]:
    """Three normal columns, every two independent; the sign of their product leans."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = rng.normal(size=(n, 3))
        turned = (found.prod(axis=1) < 0.0) & (rng.uniform(size=n) < strength)
        found[turned, 0] *= -1.0
        return found

    return draw


def uneven_spread(strength: float) -> Callable[[int, Rng], np.ndarray]:
    """Two uncorrelated columns, of which the spread of one grows with the other."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        x, noise = rng.normal(size=(2, n))
        return np.column_stack([x, noise * np.exp(strength * x - strength**2)])

    return draw


def parabola(strength: float) -> Callable[[int, Rng], np.ndarray]:
    """Two uncorrelated columns of variance 1, of which one leans on the other's square."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        x, noise = rng.normal(size=(2, n))
        y = strength * (x**2 - 1.0) + noise
        return np.column_stack([x, y / (1.0 + 2.0 * strength**2) ** 0.5])

    return draw


def sine(amplitude: float, waves: int) -> Callable[[int, Rng], np.ndarray]:
    """A uniform density with waves, by rejection."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = np.empty(0)
        while len(found) < n:
            x = rng.uniform(size=3 * n)
            density = 1.0 + amplitude * np.sin(2.0 * np.pi * waves * x)
            kept = rng.uniform(size=3 * n) * (1.0 + amplitude) < density
            found = np.concatenate([found, x[kept]])
        return found[:n, None]

    return draw


def counts(mean: float, shape: float | None = None) -> Callable[[int, Rng], np.ndarray]:
    """Poisson counts; with a shape negative binomial ones of the same mean."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        means = mean if shape is None else rng.gamma(shape, mean / shape, size=(n, 1))
        return rng.poisson(means, size=(n, 1)).astype(float)

    return draw


def zeros_added(mean: float, share: float) -> Callable[[int, Rng], np.ndarray]:
    """Poisson counts, of which a share is set to zero."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        return np.asarray(counts(mean)(n, rng) * (rng.uniform(size=(n, 1)) >= share))

    return draw


def binary(columns: int, shared: float) -> Callable[[int, Rng], np.ndarray]:
    """Fair coins, which follow a common one with that chance."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        own, common = rng.integers(2, size=(n, columns)), rng.integers(2, size=(n, 1))
        return np.where(rng.uniform(size=(n, columns)) < shared, common, own).astype(float)

    return draw


def ordinal(columns: int, polarised: float) -> Callable[[int, Rng], np.ndarray]:
    """Answers from 1 to 5; polarised ones go to both ends, about the same mean."""
    even = np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    ends = np.array([0.5, 0.0, 0.0, 0.0, 0.5])
    chances = (1.0 - polarised) * even + polarised * ends
    return lambda n, rng: rng.choice(np.arange(1.0, 6.0), size=(n, columns), p=chances)


def heaped(share: float) -> Callable[[int, Rng], np.ndarray]:
    """Whole numbers about 50, of which a share is rounded to fives."""

    def draw(n: int, rng: Rng) -> np.ndarray:
        found = 50.0 + 10.0 * rng.normal(size=(n, 1))
        told = rng.uniform(size=(n, 1)) < share
        return np.where(told, 5.0 * np.rint(found / 5.0), np.rint(found))

    return draw


def categories(chances: list[float]) -> Callable[[int, Rng], np.ndarray]:
    """One category, as columns of 0 and 1."""
    weights = np.array(chances) / np.sum(chances)
    return lambda n, rng: np.eye(len(chances))[rng.choice(len(chances), size=n, p=weights)]


def rounded(correlation: float) -> Callable[[int, Rng], np.ndarray]:
    """Two normal columns as whole numbers."""
    return lambda n, rng: np.rint(one_correlation(2, correlation)(n, rng))


def of_power(name: str, value: float, side: int) -> Callable[[int, Rng], np.ndarray]:
    """A sample of a setting of ``power.py``."""
    return lambda n, rng: getattr(power, name)(value, n, rng)[side]


def gamma(shape: float) -> Callable[[int, Rng], np.ndarray]:
    """A gamma distribution of mean 0 and variance 1."""
    return lambda n, rng: (rng.gamma(shape, size=(n, 1)) - shape) / shape**0.5


def t(columns: int, degrees: float) -> Callable[[int, Rng], np.ndarray]:
    """Columns of Student's t, of variance 1."""
    unit = ((degrees - 2.0) / degrees) ** 0.5
    return lambda n, rng: unit * rng.standard_t(degrees, size=(n, columns))


def laplace(columns: int) -> Callable[[int, Rng], np.ndarray]:
    """Columns of Laplace's distribution, of variance 1."""
    return lambda n, rng: rng.laplace(scale=0.5**0.5, size=(n, columns))


def _settings() -> list[Setting]:
    shape, dependence, high, discrete = FAMILIES
    given = [
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
            of_power("perturbed", 0.0, 0),
            of_power("perturbed", 0.3, 0),
        ),
        (
            "four normal blobs, one wider",
            shape,
            False,
            500,
            of_power("mixture", 1.0, 1),
            of_power("mixture", 1.6, 1),
        ),
        ("scale 1.5, n = 60", shape, False, 60, normal(1), normal(1, scale=1.5)),
        ("nine blobs", dependence, False, 300, blobs(0.0), blobs(0.5)),
        ("one correlation of ten", dependence, False, 100, normal(10), one_correlation(10, 0.65)),
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
        ("three of 100 shifted", high, True, 100, normal(100), some_columns(100, 3, shift=0.45)),
        ("five of 200 wider", high, True, 100, normal(200), some_columns(200, 5, scale=2.0)),
        ("all of 200 shifted", high, True, 100, normal(200), normal(200, shift=0.06)),
        ("heavy tails, D = 50", high, True, 100, normal(50), t(50, 5.0)),
        ("zeros added", discrete, True, 300, counts(2.0), zeros_added(2.2, 0.12)),
        ("coins that agree, D = 8", discrete, True, 150, binary(8, 0.0), binary(8, 0.36)),
        ("polarised answers, D = 4", discrete, True, 150, ordinal(4, 0.0), ordinal(4, 0.08)),
        ("heaped at fives", discrete, True, 300, heaped(0.0), heaped(0.2)),
    ]
    return [Setting(*one) for one in given]


SETTINGS = {setting.name: setting for setting in _settings()}
