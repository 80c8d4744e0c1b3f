"""Tempered SMC for one lengthscale per column, compared with a long tempered run and other moves.

The first table compares ``fit(method="smc")`` with a run that keeps the relative effective sample
size at 0.9 instead of 0.5, with twice the moves at each of its many more temperatures and half the
particles from other prior draws. Both results must agree within their standard errors. The second
table compares the squared distance per second that one particle moves at the posterior: by
differences of particles, as in SMC, and by two gradient-informed moves, MALA and HMC with five
leapfrog steps. Both are preconditioned with the particles' covariance, with the best step size.
Data and prior are those of ``ard.py``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import report
import xarray as xr
from ard import ard_sample
from bke.inference import Smc, find_modes, fit
from bke.inference.core.machine import computing
from bke.inference.diagnostics.modes import mode_masses, nearest_mode, unconstrained_draws
from bke.inference.sampling import tempering
from bke.inference.sampling.run import target_of
from bke.inference.sampling.target import flatten, unflatten

#: Relative effective sample size, and multiple of the default number of moves, of the long run.
LONG_ESS, LONG_MOVES = 0.9, 2
STEPS = (0.1, 0.2, 0.4, 0.7, 1.0, 1.4)
PARTICLES, LEAPFROGS = 200, 5


def main() -> None:
    """Run the comparisons and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dimensions", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--n", type=int, default=80)
    parser.add_argument("--particles", type=int, default=4000)
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    if options.quick:
        options.dimensions, options.n, options.particles = [3], 30, 200
    info, folder = report.start(options.results)
    comparisons, moves = [], []
    for dimension in options.dimensions:
        X = ard_sample(options.n, dimension, 0)
        begin = time.perf_counter()
        run = fit(
            X,
            prior=dist.Gamma(1.0, 1.0).expand((dimension,)),
            method=Smc(num_particles=options.particles),
            standardize=None,
            progress=False,
        )
        seconds = time.perf_counter() - begin
        comparisons.append({"D": dimension, "seconds": seconds, **compare(run, X, options)})
        print(report.table(comparisons[-1:]), flush=True)
        moves += [{"D": dimension, **row} for row in speeds(run, X)]
    text = "\n\n".join(
        [
            f"n = {options.n}, {options.particles} particles in 8 repeats. Differences are between "
            "the two runs, `in se` in their standard errors; for means (of the log lengthscales) "
            "and masses the largest difference.",
            report.table(comparisons),
            f"One particle, {PARTICLES} of them, one core: squared distance in units of the "
            "posterior's variance, over D, per second.",
            report.table(moves),
        ]
    )
    name = "tempering-quick" if options.quick else "tempering"
    data = {"comparisons": comparisons, "moves": moves}
    report.save(folder, name, "Tempered SMC with many lengthscales", info, text, data)


def compare(run: xr.DataTree, X: np.ndarray, options: argparse.Namespace) -> dict[str, Any]:
    """Compare a run with a long one and return the row."""
    begin = time.perf_counter()
    long = long_population(run, X, options.particles // 2)
    seconds = time.perf_counter() - begin
    modes = find_modes(run)
    masses = mode_masses(run, [None] * len(modes.modes), modes.of_draws)
    assert masses is not None
    positions = long["unconstrained"].values
    label = nearest_mode(run, modes.of_draws, positions.reshape(-1, X.shape[1]))
    inside = label.reshape(positions.shape[:2])[..., None] == np.arange(len(modes.modes))
    weights = long["share"].values
    long_mass, long_error = over_repeats(inside.mean(axis=1), weights)
    error = np.hypot(masses[1], np.maximum(long_error, 2 / options.particles))
    group = run["smc"].to_dataset()
    mean, mean_error = over_repeats(group["unconstrained"].values.mean(axis=1), group["share"])
    other, other_error = over_repeats(positions.mean(axis=1), weights)
    logs = [group.attrs, long.attrs]
    log_error = np.hypot(*(attrs["log_normalizer_error"] for attrs in logs))
    difference = logs[0]["log_normalizer"] - logs[1]["log_normalizer"]
    return {
        "temperatures": float(group["temperatures"].mean()),
        "long, seconds": seconds,
        "long, temperatures": float(long["temperatures"].mean()),
        "log Z": logs[0]["log_normalizer"],
        "difference": difference,
        "in se": difference / log_error,
        "largest of means": float(np.abs(mean - other).max()),
        "in se ": float(np.max(np.abs(mean - other) / np.hypot(mean_error, other_error))),
        "modes": len(modes.modes),
        "largest of masses": float(np.abs(masses[0] - long_mass).max()),
        "in se  ": float(np.max(np.abs(masses[0] - long_mass) / error)),
    }


def over_repeats(values: np.ndarray, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean over repeats of (repeat, k), and its standard error as a ratio."""
    weights = np.asarray(weights)
    count, mean = len(weights), weights @ values
    deviation = count * weights[:, None] * (values - mean)
    return mean, np.sqrt((deviation**2).sum(axis=0) / (count * (count - 1)))


def long_population(run: xr.DataTree, X: np.ndarray, particles: int) -> xr.Dataset:
    """Run eight repeats with many temperatures and many moves."""
    target, _ = target_of(run)
    defaults = tempering.TARGET_ESS, tempering.MOVES_PER_PARAMETER
    tempering.TARGET_ESS, tempering.MOVES_PER_PARAMETER = LONG_ESS, LONG_MOVES * defaults[1]
    try:
        with computing():
            draws = target.prior_draws(np.random.default_rng(1), particles)
            start = flatten(draws).reshape(8, particles // 8, -1)
            population = tempering.TemperedSmc(target).run(X, start, jax.random.key(1))
    finally:
        tempering.TARGET_ESS, tempering.MOVES_PER_PARAMETER = defaults
    return population.group(population.log_likelihood)


def speeds(run: xr.DataTree, X: np.ndarray) -> list[dict[str, Any]]:
    """Measure the squared distance per second of each move from draws of the posterior."""
    target, _ = target_of(run)
    z = unconstrained_draws(run).reshape(-1, X.shape[1])
    shapes = {"lengthscale": (X.shape[1],)}
    rows = []
    with computing():
        points, all_draws = jnp.asarray(X), jnp.asarray(z)
        root = jnp.linalg.cholesky(jnp.cov(all_draws.T))

        def density(flat: jax.Array) -> jax.Array:
            return target.log_density(unflatten(flat, shapes), points)

        start = all_draws[:: max(1, len(z) // PARTICLES)][:PARTICLES]
        moves = {"differences": differences, "MALA": langevin, f"HMC, {LEAPFROGS}": hamiltonian}
        for name, move in moves.items():
            tried = [move_speed(move, density, root, all_draws, start, step) for step in STEPS]
            rows.append({"move": name, **max(tried, key=lambda row: row["distance per second"])})
    return rows


def move_speed(
    move: Callable[..., Any],
    density: Callable[[jax.Array], jax.Array],
    root: jax.Array,
    draws: jax.Array,
    start: jax.Array,
    step: float,
) -> dict[str, Any]:
    """Measure one step of every particle, one after the other."""

    @jax.jit
    def all_moves(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def move_particle(args: Any) -> tuple[jax.Array, jax.Array]:
            return move(*args, density, root, draws, step)

        return jax.lax.map(move_particle, (jax.random.split(key, len(start)), start))

    jax.block_until_ready(all_moves(jax.random.key(0)))
    begin = time.perf_counter()
    ends, accepted = jax.block_until_ready(all_moves(jax.random.key(1)))
    seconds = time.perf_counter() - begin
    white = jax.scipy.linalg.solve_triangular(root, (ends - start).T, lower=True)
    distance = float((white**2).sum() / start.size)
    return {
        "step": step,
        "acceptance": float(accepted.mean()),
        "ms per move": 1e3 * seconds / len(start),
        "distance per move": distance,
        "distance per second": distance * len(start) / seconds,
    }


def differences(key: Any, z: Any, density: Any, root: Any, draws: Any, step: float) -> Any:
    """Metropolis with the difference of two draws, times ``step`` 2.38 / sqrt(2 p)."""
    pair, accept = jax.random.split(key)
    a, b = draws[jax.random.randint(pair, (2,), 0, len(draws))]
    new = z + step * 2.38 / np.sqrt(2 * len(z)) * (a - b)
    accepted = jnp.log(jax.random.uniform(accept)) < density(new) - density(z)
    return jnp.where(accepted, new, z), accepted


def hamiltonian(
    key: Any, z: Any, density: Any, root: Any, draws: Any, step: float, leapfrogs: int = LEAPFROGS
) -> Any:
    """HMC in the coordinates in which the posterior has unit covariance."""
    kick, accept = jax.random.split(key)

    def white(u: jax.Array) -> jax.Array:
        return density(z + root @ u)

    value_and_gradient = jax.value_and_grad(white)
    u, momentum = jnp.zeros_like(z), jax.random.normal(kick, z.shape)
    value, gradient = value_and_gradient(u)
    before = value - 0.5 * momentum @ momentum
    for _ in range(leapfrogs):
        momentum = momentum + 0.5 * step * gradient
        u = u + step * momentum
        value, gradient = value_and_gradient(u)
        momentum = momentum + 0.5 * step * gradient
    after = value - 0.5 * momentum @ momentum
    accepted = jnp.log(jax.random.uniform(accept)) < after - before
    return jnp.where(accepted, z + root @ u, z), accepted


def langevin(key: Any, z: Any, density: Any, root: Any, draws: Any, step: float) -> Any:
    """MALA, which is HMC with one leapfrog step."""
    return hamiltonian(key, z, density, root, draws, step, leapfrogs=1)


if __name__ == "__main__":
    main()
