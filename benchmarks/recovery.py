"""Densities and points recovered from an embedding, compared with those of a sample.

The distribution is a mixture of three normals, so that its embedding and its density are known. The
embedding of n rows gives a mixture of three and of ten components (`mixture_pre_image`), whose
integrated squared error is compared with that of SciPy's kernel density estimate and of
scikit-learn's maximum likelihood mixture of three components. The exact embedding, on a grid, gives
herded points (`herd`), whose means of functions are compared with those of random points.
"""

from __future__ import annotations

import argparse

import numpy as np
import repeats
import report
from bke.models import SquaredExponential, herd, mean_embedding, mixture_pre_image
from scipy import stats
from sklearn.mixture import GaussianMixture

WEIGHTS, MEANS, DEVIATIONS = (
    np.array([0.3, 0.5, 0.2]),
    np.array([-2.0, 0.5, 3.0]),
    np.array([0.5, 1.0, 0.3]),
)
GRID = np.linspace(-7.0, 8.0, 1501)
#: Functions whose means are known for normal mixtures.
FUNCTIONS = {
    "x": (lambda x: x, WEIGHTS @ MEANS),
    "x^2": (lambda x: x**2, WEIGHTS @ (MEANS**2 + DEVIATIONS**2)),
    "cos x": (np.cos, WEIGHTS @ (np.cos(MEANS) * np.exp(-0.5 * DEVIATIONS**2))),
}


def density(x: np.ndarray) -> np.ndarray:
    """Evaluate the density of the distribution."""
    return np.asarray(stats.norm(MEANS, DEVIATIONS).pdf(x[:, None]) @ WEIGHTS)


def draw(count: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points of the distribution."""
    component = rng.choice(3, size=count, p=WEIGHTS)
    return rng.normal(MEANS[component], DEVIATIONS[component])


def density_errors(n: int, lengthscale: float, _: int, seeds: range) -> list[list[float]]:
    """Return the integrated squared errors of the density estimates."""
    results = []
    for seed in seeds:
        X = draw(n, np.random.default_rng([seed, n]))
        embedding = mean_embedding(X, SquaredExponential(lengthscale))
        fitted = GaussianMixture(3, random_state=0, n_init=4).fit(X[:, None])
        estimates = [
            *(np.asarray(mixture_pre_image(embedding, count).density(GRID)) for count in (3, 10)),
            stats.gaussian_kde(X)(GRID),
            np.exp(fitted.score_samples(GRID[:, None])),
        ]
        step = GRID[1] - GRID[0]
        results.append([float(np.sum((e - density(GRID)) ** 2) * step) for e in estimates])
    return results


def herding_errors(count: int) -> repeats.Row:
    """Return errors of means of functions by herded points, and typical ones by random points."""
    values = density(GRID)
    embedding = mean_embedding(GRID, SquaredExponential(1.0), values / values.sum())
    points = herd(embedding, count)[:, 0]
    rng = np.random.default_rng(count)
    row: repeats.Row = {"points": count}
    for name, (function, truth) in FUNCTIONS.items():
        row[f"herded: {name}"] = abs(float(function(points).mean() - truth))
        errors = [function(draw(count, rng)).mean() - truth for _ in range(1000)]
        row[f"random: {name}"] = float(np.sqrt(np.mean(np.square(errors))))
    return row


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    repeats.add_options(parser, repeats=100, permutations=0)
    options = parser.parse_args()
    sizes, lengthscales, counts = (100, 1000), (0.3, 1.0), (10, 30, 100)
    if options.quick:
        sizes, lengthscales, counts, options.repeats = sizes[:1], lengthscales[:1], (5,), 2
    herding = [herding_errors(count) for count in counts]
    names = ("3 components", "10 components", "KDE", "maximum likelihood")
    repeats.fill(
        "recovery",
        "Densities and points from an embedding",
        [{"n": n, "lengthscale": value} for n in sizes for value in lengthscales],
        density_errors,
        lambda values: dict(zip(names, values.mean(axis=0).tolist(), strict=True)),
        lambda rows: (
            f"Mean integrated squared error of the density:\n\n{report.table(rows)}\n\nAbsolute "
            "error of means over herded points, and root mean squared error over random ones:\n\n"
            f"{report.table(herding)}"
        ),
        options,
        {"herding": herding},
    )


if __name__ == "__main__":
    main()
