"""Risk of estimators of a mean embedding, E |mu~ - mu|^2 in the Hilbert space of k.

The data come from random mixtures of Gaussians, whose embeddings have closed form, so that the loss
of each estimate is known without a further sample. The mixtures follow Muandet et al., *Kernel Mean
Shrinkage Estimators* (2016), with a new mixture for each data set: four components of weight 0.05,
0.3, 0.4 and 0.25, means uniform on [-10, 10] in each column, covariances from a Wishart
distribution with 7 degrees of freedom and scale 2 I, and noise N(0, 0.2 I) added to each draw.

Estimators are compared under the kernel of the median heuristic and under the kernel that maximizes
the marginal likelihood, both chosen on the data set itself. The time of learning grows with n^2 D,
so fewer data sets are used where n^2 D is large.

The benchmark also reports the squared error of the values at fresh draws from the mixture, the norm
of L2(P). Compared with L2(P), the norm of H gives more weight to errors at high frequencies, by the
inverse of the spectral density of k.

    python benchmarks/shrinkage.py
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
import report
from bke.inference import learn_kernel
from bke.inference.core.machine import computing
from bke.inference.learning.kernel_selection import median_kernel
from bke.models import (
    SquaredExponential,
    gaussian_inner_product,
    mean_embedding,
    posterior_mean_embedding,
    shrunk_embedding,
    spectral_embedding,
)
from bke.models.embeddings.embedding import Embedding

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import NullLocator

PICTURE = Path(__file__).parent.parent / "docs" / "shrinkage.png"
SIZES, DIMENSIONS = (10, 20, 50, 100, 200), (1, 5, 20, 50)
WEIGHTS = np.array([0.05, 0.3, 0.4, 0.25])
DEGREES_OF_FREEDOM, WISHART_SCALE, MEAN_BOUND, NOISE_VARIANCE = 7, 2.0, 10.0, 0.2
#: Optimizations per kernel. A kernel is learned for at least MIN_LEARNED data sets, and for more
#: while their number times n^2 D is at most MAX_LEARNING_COST (about a minute).
STARTS, MAX_LEARNING_COST, MIN_LEARNED = 4, 3_000_000, 20
#: Number of draws per data set at which values are compared.
NUM_POINTS = 256
EMPIRICAL = "empirical"
#: Color and line style of the other estimators.
STYLES = {
    "plug-in": ("#0072B2", "-"),
    "positive-part": ("#56B4E9", "--"),
    "leave-one-out": ("#009E73", ":"),
    "spectral": ("#CC79A7", "-"),
    "BKE clt": ("#D55E00", "-"),
    "BKE 0.1": ("#E69F00", "--"),
    "BKE 0.1/n": ("#882255", "-."),
    "oracle": ("black", ":"),
}


class Mixture(NamedTuple):
    weights: Any  # (C,)
    means: Any  # (C, D)
    covariances: Any  # (C, D, D)


def random_mixture(D: int, rng: np.random.Generator) -> Mixture:
    """Draw a mixture; its covariances include the noise."""
    means = rng.uniform(-MEAN_BOUND, MEAN_BOUND, size=(len(WEIGHTS), D))
    roots = rng.normal(scale=WISHART_SCALE**0.5, size=(len(WEIGHTS), D, DEGREES_OF_FREEDOM))
    return Mixture(WEIGHTS, means, roots @ roots.transpose(0, 2, 1) + NOISE_VARIANCE * np.eye(D))


def draw(mixture: Mixture, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw ``n`` iid rows (n, D)."""
    component = rng.choice(len(mixture.weights), size=n, p=mixture.weights)
    roots = np.linalg.cholesky(mixture.covariances)
    white = rng.normal(size=(n, mixture.means.shape[1]))
    return mixture.means[component] + np.einsum("nij,nj->ni", roots[component], white)


def expected_kernel(points: jax.Array, mixture: Mixture, lengthscale: jax.Array) -> jax.Array:
    """Compute E k(x_i, Y) over the mixture (DST-2), squared exponential, (m,) for points (m, D)."""

    def component_integral(mean: jax.Array, covariance: jax.Array) -> jax.Array:
        scaled = covariance / jnp.outer(lengthscale, lengthscale) + jnp.eye(len(lengthscale))
        root = jnp.linalg.cholesky(scaled)
        whitened = jax.scipy.linalg.solve_triangular(
            root, ((points - mean) / lengthscale).T, lower=True
        )
        log_root = jnp.log(jnp.diagonal(root)).sum()  # half a log determinant
        return jnp.exp(-0.5 * jnp.sum(whitened**2, axis=0) - log_root)

    return jnp.asarray(mixture.weights) @ jax.vmap(component_integral)(
        mixture.means, mixture.covariances
    )


def squared_norm(mixture: Mixture, lengthscale: jax.Array) -> jax.Array:
    """Compute the squared norm |mu|^2 = E k(Y, Y')."""
    weights, means, covariances = (jnp.asarray(part) for part in mixture)

    def component_integral(mean: jax.Array, covariance: jax.Array) -> jax.Array:
        return expected_kernel(
            mean[None], Mixture(weights, means, covariances + covariance), lengthscale
        )[0]

    return weights @ jax.vmap(component_integral)(means, covariances)


def estimates(X: jax.Array, kernel: SquaredExponential, norm: jax.Array) -> dict[str, Embedding]:
    """Return all estimates; the oracle uses ``norm``, |mu|^2."""
    n = len(X)
    risk = (1.0 - norm) / n  # of the empirical embedding, k(x, x) = 1
    amounts = ("plug-in", "positive-part", "leave-one-out")
    return {
        EMPIRICAL: mean_embedding(X, kernel),
        **{amount: shrunk_embedding(X, kernel, amount=amount) for amount in amounts},
        "spectral": spectral_embedding(X, kernel),
        "BKE clt": posterior_mean_embedding(X, kernel, noise="clt"),
        "BKE 0.1": posterior_mean_embedding(X, kernel, noise=0.1),
        "BKE 0.1/n": posterior_mean_embedding(X, kernel, noise=0.1 / n),
        "oracle": mean_embedding(X, kernel) * (norm / (risk + norm)),
    }


@jax.jit
def losses(
    X: jax.Array, mixture: Mixture, lengthscale: jax.Array, eval_points: jax.Array
) -> dict[str, jax.Array]:
    """Compute |mu~ - mu|^2 in H and the mean of (mu~ - mu)^2 at points, (2,) for each estimate.

    Args:
        X: (n, D).
        mixture: true distribution of the data.
        lengthscale: (D,).
        places: (m, D).
    """
    norm = squared_norm(mixture, lengthscale)
    truth = expected_kernel(eval_points, mixture, lengthscale)

    def loss(estimate: Embedding) -> jax.Array:
        # A section r(x, .) of measure "unit" is squared exponential, wider by a factor of sqrt 2.
        section_lengthscale = lengthscale * (1.0 if estimate.measure is None else 2.0**0.5)
        cross_term = estimate.weights @ expected_kernel(X, mixture, section_lengthscale)
        squared_error = estimate.squared_norm() - 2.0 * cross_term + norm
        return jnp.stack([squared_error, jnp.mean((estimate(eval_points) - truth) ** 2)])

    embeddings = estimates(X, SquaredExponential(lengthscale), norm)
    return {name: loss(estimate) for name, estimate in embeddings.items()}


def check() -> None:
    """Check the closed forms against those of the package and against a large sample."""
    rng = np.random.default_rng(0)
    mixture, lengthscale = random_mixture(3, rng), np.array([4.0, 6.0, 9.0])
    kernel, points = (
        SquaredExponential(lengthscale),
        rng.uniform(-MEAN_BOUND, MEAN_BOUND, size=(7, 3)),
    )
    components = list(zip(*mixture, strict=True))
    atoms = [(point, np.zeros((3, 3))) for point in points]
    expected = [
        sum(w * gaussian_inner_product(atom, (mean, cov), kernel) for w, mean, cov in components)
        for atom in atoms
    ]
    result = expected_kernel(points, mixture, lengthscale)
    np.testing.assert_allclose(result, expected, rtol=1e-10)
    pairs = [
        w * v * gaussian_inner_product((m, S), (other, T), kernel)
        for w, m, S in components
        for v, other, T in components
    ]
    np.testing.assert_allclose(squared_norm(mixture, lengthscale), sum(pairs), rtol=1e-10)
    sample = draw(mixture, 400_000, rng)
    values = np.asarray(kernel(points, sample))
    error = values.std(axis=1) / len(sample) ** 0.5
    assert np.all(np.abs(values.mean(axis=1) - result) < 5.0 * error)
    terms = np.exp(-0.5 * np.sum(((sample[::2] - sample[1::2]) / lengthscale) ** 2, axis=1))
    error = terms.std() / len(terms) ** 0.5
    assert abs(terms.mean() - sum(pairs)) < 5.0 * error < 0.02 * sum(pairs)
    # Losses of the estimates, with a further large sample in place of mu.
    X, other = draw(mixture, 15, rng), mean_embedding(sample[:20_000], kernel)
    result = losses(X, mixture, lengthscale, other.points[:5])
    norm = squared_norm(mixture, lengthscale)
    for name, estimate in estimates(X, kernel, norm).items():
        inner = np.asarray(estimate(other.points))
        loss = estimate.squared_norm() - 2.0 * inner.mean() + norm
        assert abs(loss - result[name][0]) < 10.0 * inner.std() / len(inner) ** 0.5, name


def cell(n: int, D: int, data_sets: int, learned: int) -> list[dict[str, Any]]:
    """Return a row of risks for each kernel, learned on the first ``learned`` data sets."""
    names = {"median": data_sets, "learned": learned}
    losses_by_kernel: dict[str, list[dict[str, np.ndarray]]] = {name: [] for name in names}
    scales: list[tuple[float, float]] = []
    at_bound = 0
    for seed in range(data_sets):
        mixture = random_mixture(D, np.random.default_rng([seed, D]))  # shared by all n
        X = draw(mixture, n, np.random.default_rng([seed, D, n]))
        eval_points = jnp.asarray(draw(mixture, NUM_POINTS, np.random.default_rng([seed, D, n, 1])))
        lengthscales = {"median": median_kernel(X, None, 0).lengthscale}
        if seed < learned:
            best = learn_kernel(X, starts=STARTS, progress=False)
            at_bound += best.peaks[0].at_bound
            lengthscales["learned"] = best.kernel.lengthscale
            scales.append(tuple(float(np.mean(values)) for values in lengthscales.values()))
        for name, lengthscale in lengthscales.items():
            lengthscale_vector = np.broadcast_to(np.asarray(lengthscale, dtype=float), (D,))
            loss = losses(jnp.asarray(X), mixture, jnp.asarray(lengthscale_vector), eval_points)
            losses_by_kernel[name].append({key: np.asarray(value) for key, value in loss.items()})
    over_median = float(
        np.median([learned_scale / median_scale for median_scale, learned_scale in scales])
    )
    return [
        {
            "kernel": name,
            "D": D,
            "n": n,
            "data sets": names[name],
            "lengthscale": 1.0 if name == "median" else over_median,
            "at bound": 0 if name == "median" else at_bound,
            "norm": relative_risks(
                [
                    {key: value[0] for key, value in values.items()}
                    for values in losses_by_kernel[name]
                ]
            ),
            "values": relative_risks(
                [
                    {key: value[1] for key, value in values.items()}
                    for values in losses_by_kernel[name]
                ]
            ),
        }
        for name in names
    ]


def relative_risks(losses: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Return the risk of the empirical embedding, and ratios to it with delta-method errors."""
    empirical = np.array([loss[EMPIRICAL] for loss in losses])
    root = len(losses) ** 0.5
    row: dict[str, Any] = {EMPIRICAL: float(empirical.mean())}
    for name in STYLES:
        values = np.array([loss[name] for loss in losses])
        ratio = values.mean() / empirical.mean()
        error = (values - ratio * empirical).std(ddof=1) / root / empirical.mean()
        row[name] = [float(ratio), float(error)]
    return row


def text(rows: Sequence[dict[str, Any]]) -> str:
    """Format two tables for each kernel."""
    parts = [
        "Risk over that of the empirical embedding, whose column is the risk itself; standard "
        "errors in brackets. `lengthscale` is the median ratio of the learned lengthscale (mean "
        "over columns) to that of the median heuristic; `at bound` counts data sets whose marginal "
        "likelihood still rises at the end of the search range."
    ]
    titles = {"norm": "in the Hilbert space of the kernel", "values": "of the values, in L2(P)"}
    for kernel, name in (("median", "Median heuristic"), ("learned", "Learned kernel")):
        for norm, title in titles.items():
            selected = [row for row in rows if row["kernel"] == kernel]
            keys = ["D", "n", "data sets"]
            keys += ["lengthscale", "at bound"] * (kernel == "learned")
            lines = [
                {**{key: row[key] for key in keys}, **_format_risks(row[norm])} for row in selected
            ]
            parts.append(f"**{name}, risk {title}**\n\n{report.table(lines)}")
    return "\n\n".join(parts)


def _format_risks(risks: dict[str, Any]) -> dict[str, Any]:
    return {
        name: f"{report.cell(value[0])} ({float(f'{value[1]:.1g}'):g})"
        if isinstance(value, list)
        else value
        for name, value in risks.items()
    }


#: Range of relative risks in the figure.
YLIM = (0.7, 1.4)


def picture(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Plot relative risks against n, with a panel for each D and kernel."""
    dimensions = sorted({row["D"] for row in rows})
    figure, axes = plt.subplots(
        2,
        len(dimensions),
        figsize=(3.1 * len(dimensions), 6.2),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for line, kernel in zip(axes, ("median", "learned"), strict=True):
        for ax, D in zip(line, dimensions, strict=True):
            selected = [row for row in rows if row["D"] == D and row["kernel"] == kernel]
            sizes = [row["n"] for row in selected]
            ax.set_xscale("log")  # before plotting; otherwise the limits begin at 1
            ax.axhline(1.0, color="gray", linewidth=0.8)
            for name, (color, dashes) in STYLES.items():
                values, errors = np.array([row["norm"][name] for row in selected]).T
                ax.errorbar(
                    sizes, values, errors, color=color, linestyle=dashes, marker=".", label=name
                )
            # Posterior means far above the panel are printed as text instead of plotted.
            above = [row["norm"][name][0] for row in selected for name in STYLES]
            above = [value for value in above if value > YLIM[1]]
            if above:
                ends = " to ".join(f"{float(f'{end:.2g}'):g}" for end in (min(above), max(above)))
                ax.text(0.5, 0.94, f"BKE above: {ends}", ha="center", transform=ax.transAxes)
            ax.set(ylim=YLIM, title=f"{kernel} kernel, D = {D}")
            ax.set_xlim(min(sizes) / 1.2, max(sizes) * 1.2)
            ax.set_xticks(sizes, [str(n) for n in sizes])
            ax.xaxis.set_minor_locator(NullLocator())
    for line in axes:
        line[0].set_ylabel("risk over that of the empirical")
    for ax in axes[-1]:
        ax.set_xlabel("n")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(STYLES))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure the risks and write the tables and the plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(DIMENSIONS))
    parser.add_argument("--repeats", type=int, default=300, help="data sets in a cell")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    parser.add_argument(
        "--summary", action="store_true", help="rewrite tables and figure from the recorded results"
    )
    options = parser.parse_args()
    min_learned, max_cost = MIN_LEARNED, MAX_LEARNING_COST
    if options.quick:
        options.repeats, options.sizes, options.dimensions = 6, [10, 20], [1, 5]
        min_learned, max_cost = 3, 0
    name = "shrinkage-quick" if options.quick else "shrinkage"
    settings = {"repeats": options.repeats, "starts": STARTS, "sizes": options.sizes}
    rows: list[dict[str, Any]] = []
    if options.summary:
        folder = options.results or report.RESULTS
        recorded = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        info, settings, rows = (recorded[key] for key in ("machine", "settings", "rows"))
    else:
        info, folder = report.start(options.results)
        info = {**info, "load_average": None}  # measures risks, not times
        rows = measure(options, min_learned, max_cost)
    report.save(
        folder,
        name,
        "Risk of estimators of a mean embedding",
        info,
        text(rows),
        {"settings": settings, "rows": rows},
    )
    picture(rows, folder / f"{name}.png" if options.quick or options.results else PICTURE)


def measure(options: argparse.Namespace, min_learned: int, max_cost: int) -> list[dict[str, Any]]:
    """Return the rows of all dimensions and sizes."""
    rows: list[dict[str, Any]] = []
    with computing():
        check()
        for D in options.dimensions:
            for n in options.sizes:
                begin = time.perf_counter()
                learned = min(options.repeats, max(min_learned, max_cost // (n**2 * D)))
                rows += cell(n, D, options.repeats, learned)
                print(f"D = {D}, n = {n}: {time.perf_counter() - begin:.0f} s", flush=True)
    return rows


if __name__ == "__main__":
    main()
