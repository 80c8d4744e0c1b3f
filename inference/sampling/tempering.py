"""Adaptive tempered sequential Monte Carlo on BlackJAX, several repeats side by side in threads.

Particles go from the prior to the posterior through likelihood^t, t from 0 to 1, so modes get their
masses on the way, while chains can still cross. Between temperatures each particle moves by steps
that are differences of two other particles (ter Braak, *A Markov chain Monte Carlo version of the
genetic algorithm differential evolution*, 2006): these have the scale of a mode within it and the
distance of two modes between them. Independent repeats give the standard error.

Gradient-informed moves were tried and do not pay: with 5 and 10 lengthscales MALA gets a particle
about a tenth further per second than these, and HMC no further (``benchmarks/tempering.py``). A
gradient costs several values, and a difference of particles knows their shape already.

In many dimensions a mode much narrower than another gets its mass only as
the temperature reaches 1, when no particle may be left near it. All repeats then miss it alike.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import Event
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from blackjax.smc import resampling, solver, tempered
from jax.custom_batching import sequential_vmap
from scipy.special import logsumexp

from ..core.compilation import jit
from ..core.distributed import on_devices
from ..core.errors import SamplingError
from .densities import cached
from .target import Points, Target, unflatten

#: Effective fraction of the particles after each rise of the temperature.
TARGET_ESS = 0.5
#: Moves of each particle per temperature, for p hyperparameters.
MOVES = {1: 3, 2: 4}
MOVES_PER_PARAMETER = 2
#: Fraction of steps as long as the difference itself, which lead from mode to mode.
LONG_STEPS = 0.2
#: Noise of a step over the particles' spread: makes all points reachable.
JITTER = 1e-3
#: Log likelihood where the density is zero: infinity times a temperature of 0 is not a number.
NONE = -1e10
MOST_TEMPERATURES = 1000
SMALLEST_RISE = 1e-12


class Particle(NamedTuple):
    """A particle with its likelihood."""

    z: jax.Array  # (p,), unconstrained
    log_likelihood: jax.Array  # ()


class _Moved(NamedTuple):
    position: Particle


class Population(NamedTuple):
    """Particles of all repeats, leading axes (repeat, particle), with equal weights in a repeat."""

    z: np.ndarray  # (r, k, p)
    log_likelihood: np.ndarray  # (r, k)
    log_normalizer: np.ndarray  # (r,), -inf where all prior draws had density zero
    temperatures: np.ndarray  # (r,), number of temperatures

    def group(self, lp: np.ndarray) -> xr.Dataset:
        """Return the repeats with the log of the integral and its standard error.

        Args:
            lp: log density (r, k).
        """
        logs = self.log_normalizer
        log = float(logsumexp(logs) - np.log(len(logs)))
        ratio = np.exp(logs - log)
        error = np.std(ratio, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
        return xr.Dataset(
            {
                "unconstrained": (("repeat", "particle", "parameter"), self.z),
                "log_density": (("repeat", "particle"), lp),
                "log_normalizer": ("repeat", logs),
                "share": ("repeat", ratio / ratio.sum()),
                "temperatures": ("repeat", self.temperatures),
            },
            attrs={"log_normalizer": log, "log_normalizer_error": float(error)},
        )


class TemperedSmc:
    """Compiled SMC for one target; reused for data of any shape."""

    def __init__(self, target: Target) -> None:
        count = target.num_hyperparameters
        moves = MOVES.get(count, MOVES_PER_PARAMETER * count)

        def log_prior(flat: jax.Array) -> jax.Array:
            return target.log_prior(unflatten(flat, target.shapes))

        @sequential_vmap  # sequentially: n x n matrices of all particles would not fit
        def log_likelihood(flat: jax.Array, X: Points) -> jax.Array:
            value = target.log_density(unflatten(flat, target.shapes), X) - log_prior(flat)
            return jnp.where(value > NONE, value, NONE)  # NaN as well

        def step(
            key: jax.Array, particles: Particle, weights: jax.Array, now: Any, then: Any, X: Any
        ) -> tuple[Particle, jax.Array, jax.Array]:
            def move(
                key: jax.Array, state: _Moved, log_density: Callable[..., Any], ensemble: jax.Array
            ) -> tuple[_Moved, jax.Array]:
                pair, size, noise, accept = jax.random.split(key, 4)
                a, b = ensemble[jax.random.randint(pair, (2,), 0, len(ensemble))]
                short = 2.38 / np.sqrt(2 * count)
                factor = jnp.where(jax.random.uniform(size) < LONG_STEPS, 1.0, short)
                jitter = JITTER * ensemble.std(axis=0) * jax.random.normal(noise, (count,))
                z = state.position.z + factor * (a - b) + jitter
                new = Particle(z, log_likelihood(z, X))
                ratio = log_density(new) - log_density(state.position)
                accepted = jnp.log(jax.random.uniform(accept)) < ratio
                position = jax.tree.map(lambda x, y: jnp.where(accepted, x, y), new, state.position)
                return _Moved(position), accepted

            kernel = tempered.build_kernel(
                lambda particle: log_prior(particle.z),
                lambda particle: particle.log_likelihood,
                move,
                lambda position, _: _Moved(position),
                resampling.systematic,
            )
            key, other_key = jax.random.split(key)
            ensemble = particles.z[resampling.systematic(other_key, weights, len(weights))]
            state = tempered.TemperedSMCState(particles, weights, now)
            state, info = kernel(key, state, moves, then, {"ensemble": ensemble[None]})
            return state.particles, state.weights, info.log_likelihood_increment

        def rise(log_likelihood: jax.Array, weights: jax.Array, now: jax.Array) -> jax.Array:
            """The step in temperature at which the effective share falls to the target."""
            log_weights = jnp.log(weights)

            def excess(delta: jax.Array) -> jax.Array:
                first = jax.nn.logsumexp(log_weights + delta * log_likelihood)
                second = jax.nn.logsumexp(log_weights + 2.0 * delta * log_likelihood)
                return 2.0 * first - second - jnp.log(TARGET_ESS)

            return solver.dichotomy(excess, 0.0, 1.0 - now)

        self._log_likelihood = jit(jax.vmap(log_likelihood, in_axes=(0, None)))
        self._step = jit(step)
        self._rise = jit(rise)

    def run(
        self,
        X: Points,
        z: np.ndarray,
        key: jax.Array,
        advance: Callable[[int, float], None] = lambda repeat, temperature: None,
    ) -> Population:
        """Take prior draws to the posterior.

        Args:
            X: (n, D) or a tuple of such, model units.
            z: draws from the prior, (repeat, particle, p), unconstrained.
            key: key of every random number.
            advance: called with the index and the temperature of a repeat as it rises to 1.

        Raises:
            SamplingError: where all particles of all repeats have density zero, or the temperature
                does not rise.
        """
        points = jax.tree.map(jnp.asarray, X)
        keys = jax.random.split(key, len(z))
        stop = Event()

        def run_repeat(repeat: int) -> tuple[Any, ...]:
            with jax.enable_x64(True):  # the setting belongs to the thread
                report = functools.partial(advance, repeat)
                return self._repeat(keys[repeat], jnp.asarray(z[repeat]), points, stop, report)

        results = on_devices(run_repeat, len(z), stop, points)
        population = Population(*map(np.stack, zip(*results, strict=True)))
        if np.max(population.log_normalizer) == -np.inf:
            raise SamplingError(
                f"all {z.shape[0] * z.shape[1]} prior draws have density zero or no finite one: "
                "the prior is far from the data (check the units and the scale), or the data are "
                "rounded (see dither)"
            )
        return population

    def _repeat(
        self, key: jax.Array, z: jax.Array, X: Points, stop: Event, advance: Callable[[float], None]
    ) -> tuple[Any, ...]:
        """Return the fields of :class:`Population` for one repeat."""
        particles = Particle(z, self._log_likelihood(z, X))
        if not np.any(np.asarray(particles.log_likelihood) > NONE):
            return *map(np.asarray, particles), -np.inf, 0  # weight zero among the repeats
        # The same dtype as later weights: a weakly typed array would compile the step twice.
        weights = jnp.full(len(z), 1.0 / len(z), z.dtype)
        now, log_normalizer = 0.0, 0.0
        for count in range(MOST_TEMPERATURES):
            if stop.is_set():
                raise SamplingError("stopped before the posterior was reached")
            # The last round moves the particles at the posterior itself and weights them alike.
            rise = float(self._rise(particles.log_likelihood, weights, now)) if now < 1.0 else 0.0
            then = min(1.0, now + rise)
            key, step_key = jax.random.split(key)
            particles, weights, increment = self._step(step_key, particles, weights, now, then, X)
            log_normalizer += float(increment)
            if now >= 1.0:
                return *map(np.asarray, particles), log_normalizer, count
            if then - now < SMALLEST_RISE:
                raise SamplingError(
                    f"the temperature does not rise beyond {now:.3g}: the likelihood is too narrow "
                    "for the prior draws; give more particles"
                )
            now = 1.0 if then > 1.0 - SMALLEST_RISE else then
            advance(now)
        raise SamplingError(f"the posterior was not reached in {MOST_TEMPERATURES} temperatures")


#: Compiled SMC for any number of particles, kept for the next target like this one.
tempered_smc = cached(TemperedSmc)
