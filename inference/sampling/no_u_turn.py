"""NumPyro's No-U-Turn sampler, one chain per thread.

NumPyro's ``chain_method="parallel"`` needs the number of host devices fixed before JAX starts and
``"vectorized"`` makes every chain wait for the deepest tree. Here each chain is a sequence of short
compiled runs of NumPyro's NUTS kernel; compiled code releases the interpreter, so threads keep all
cores busy, and a chain's draws do not depend on the number of others.

``MCMC(NUTS(bke_model))`` also compiles the likelihood twice, for starts and for iterations, and
again for every run without a progress bar; ``benchmarks/numpyro_runs.py`` measures both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
from numpyro import handlers
from numpyro.infer.hmc import hmc

from ..core.compilation import jit
from ..core.distributed import on_devices
from ..core.errors import SamplingError
from ..core.progress import ChainBars
from .densities import cached
from .target import CANDIDATES, Chains, Points, Target, Task

#: Iterations per compiled run: long enough to hide the call, short enough for a live display.
BLOCK = 20
#: An energy far above that of any start.
HIGH = 1e10


class NutsProgram:
    """Compiled NUTS for one target; reused for data of any shape."""

    def __init__(
        self,
        target: Target,
        num_warmup: int,
        target_accept_prob: float = 0.8,
        max_tree_depth: int = 10,
        dense_mass: bool | tuple[tuple[str, ...], ...] = False,
    ) -> None:
        self.target = target
        self.num_warmup = num_warmup

        def potential(X: Points | None, nonfinite: Any) -> Any:
            if X is None:  # see `_first`
                return lambda z: jnp.zeros(())

            def energy(z: dict[str, jax.Array]) -> jax.Array:
                value = -target.log_density(z, X)
                # NumPyro's state has no field for a count, and JAX does not cache programs with
                # callbacks.
                nonfinite[...] += jax.lax.stop_gradient(~jnp.isfinite(value)).astype(int)
                return value

            return energy

        init, step = hmc(potential_fn_gen=potential, algo="NUTS")

        def start(key: jax.Array, z: Any) -> Any:
            return init(
                z,
                num_warmup,
                rng_key=key,
                trajectory_length=None,
                target_accept_prob=target_accept_prob,
                max_tree_depth=max_tree_depth,
                dense_mass=dense_mass if isinstance(dense_mass, bool) else list(dense_mass),
                model_args=(None, None),
            )

        def advance(state: Any, X: Points, iterations: jax.Array) -> Any:
            nonfinite = jax.new_ref(jnp.zeros((), int))

            def body(i: jax.Array, carry: Any) -> Any:
                nonfinite[...] = jnp.zeros((), int)
                state = step(carry[0], model_args=(X, nonfinite))
                record = _record(state, nonfinite[...])
                return state, jax.tree.map(lambda rows, row: rows.at[i].set(row), carry[1], record)

            empty = jax.tree.map(
                lambda leaf: jnp.zeros((BLOCK, *leaf.shape), leaf.dtype),
                _record(state, jnp.zeros((), int)),
            )
            return jax.lax.fori_loop(0, iterations, body, (state, empty))

        self._start = jit(start)
        self._advance = jit(advance)

    def run(
        self,
        X: Points,
        *,
        initial: dict[str, jax.Array],
        num_samples: int,
        key: jax.Array,
        progress: ChainBars | None = None,
    ) -> Chains:
        """Run one chain from every row of ``initial`` (chain, ...) on (n, D) data or a tuple."""
        chains = len(next(iter(initial.values())))
        points = jax.tree.map(jnp.asarray, X)
        keys = jax.random.split(key, chains)
        stop = threading.Event()

        def run_chain(chain: int) -> tuple[Any, Any]:
            with jax.enable_x64(True):  # the setting belongs to the thread
                state = self._first(keys[chain], {k: v[chain] for k, v in initial.items()}, points)
                pieces = []
                total = self.num_warmup + num_samples
                for done in range(0, total, BLOCK):
                    if stop.is_set():
                        break
                    iterations = min(BLOCK, total - done)
                    state, recorded = self._advance(state, points, iterations)
                    pieces.append(jax.tree.map(lambda a, k=iterations: np.asarray(a)[:k], recorded))
                    if progress is not None:
                        divergences = int(pieces[-1][1]["diverging"].sum())
                        progress.advance(chain, iterations, divergences)
                if not pieces:
                    raise SamplingError("stopped before the first draws")
                return jax.tree.map(lambda *parts: np.concatenate(parts), *pieces)

        self.compile(points)
        results = on_devices(run_chain, chains, stop, points)
        z, stats = jax.tree.map(lambda *parts: np.stack(parts), *results)
        return Chains(z, stats, {k: np.asarray(v) for k, v in initial.items()}, self.num_warmup)

    def _first(self, key: jax.Array, z: dict[str, jax.Array], X: Points) -> Any:
        """Return the state at ``z`` with the density's value and gradient.

        They come from the program of the iterations, since a separate program takes as long to
        compile: an iteration without momentum and with steps of length zero evaluates the density
        where it is, and from so high an energy that is accepted.
        """
        state = self._start(key, z)
        still = state.adapt_state._replace(
            step_size=jnp.zeros_like(state.adapt_state.step_size),
            mass_matrix_sqrt=jax.tree.map(jnp.zeros_like, state.adapt_state.mass_matrix_sqrt),
        )
        high = jnp.full_like(state.potential_energy, HIGH)
        evaluated, _ = self._advance(state._replace(potential_energy=high, adapt_state=still), X, 1)
        return state._replace(
            z_grad=evaluated.z_grad,
            potential_energy=evaluated.potential_energy,
            energy=state.energy + evaluated.potential_energy,
        )

    def compile(self, X: Points) -> None:
        """The program for such data, before the chains' threads would each compile it."""
        with jax.enable_x64(True):  # the setting belongs to the thread
            points = jax.tree.map(jnp.asarray, X)
            z = {name: jnp.zeros(shape) for name, shape in self.target.shapes.items()}
            key = jax.random.key(0)

            # NumPyro's kernel keeps what `start` set up for `advance`.
            empty = jax.tree.map(_zeros, jax.eval_shape(self._start, key, z))
            jax.block_until_ready(self._advance(empty, points, 0))


#: Compiled NUTS, kept for the next target like this one.
nuts_program = cached(NutsProgram)


def _zeros(leaf: jax.ShapeDtypeStruct) -> jax.Array:
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), leaf.shape)
    return jnp.zeros(leaf.shape, leaf.dtype)


def _record(state: Any, nonfinite: jax.Array) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """Position and statistics of one iteration, under ArviZ's names."""
    stats = {
        "lp": -state.potential_energy,
        "energy": state.energy,
        "acceptance_rate": state.accept_prob,
        "step_size": state.adapt_state.step_size,
        "n_steps": state.num_steps,
        "tree_depth": jnp.floor(jnp.log2(jnp.maximum(state.num_steps, 1))).astype(int) + 1,
        "diverging": state.diverging,
        # Points on the way whose density had no finite value.
        "nonfinite_evaluations": nonfinite,
    }
    return state.z, stats


def dispersed_start(
    pool: Mapping[str, np.ndarray],
    chains: int,
    seed: int,
    log_density: Callable[[dict[str, np.ndarray]], np.ndarray],
) -> dict[str, jax.Array]:
    """Return one prior draw per chain, spread over the prior, each with a finite density.

    The pool is ordered by its mean unconstrained coordinate and one draw is taken from each of
    ``chains`` equal parts, so that the chains start from different scales.

    Args:
        pool: unconstrained prior draws by site, at least :data:`CANDIDATES` per chain.
        chains: number of chains.
        seed: seed of the choice.
        log_density: log density of a batch of unconstrained points.

    Raises:
        SamplingError: when prior draws with a finite density cannot be found.
    """
    used = {name: values[: CANDIDATES * chains] for name, values in pool.items()}
    order = np.argsort(
        sum(values.reshape(len(values), -1).mean(axis=1) for values in used.values())
    )
    candidates = np.random.default_rng(seed).permuted(order.reshape(chains, -1), axis=1)
    chosen = np.full(chains, -1)
    for choice in candidates.T:
        waiting = np.flatnonzero(chosen < 0)
        rows = choice[waiting]
        finite = np.isfinite(log_density({name: values[rows] for name, values in used.items()}))
        chosen[waiting[finite]] = rows[finite]
        if (chosen >= 0).all():
            return {name: jnp.asarray(values[chosen]) for name, values in used.items()}
    raise SamplingError(
        f"{CANDIDATES} prior draws in a row have density zero or no finite density: the prior is "
        "far from the data (check the units and the scale), or the data are rounded (see dither)"
    )


def strategic_start(
    init_strategy: Callable[..., Any], task: Task, chains: int
) -> dict[str, jax.Array]:
    """Return one start per chain with a finite density, by one of NumPyro's strategies.

    Raises:
        SamplingError: where :data:`CANDIDATES` of a chain have density zero or none that is finite.
    """

    def sites() -> None:
        for name, prior in task.target.sites.items():
            numpyro.sample(name, prior)

    key, starts = jax.random.key(task.seed), []
    for _ in range(chains):
        for _ in range(CANDIDATES):
            key, chain_key = jax.random.split(key)
            seeded = handlers.seed(sites, chain_key)
            started = handlers.substitute(seeded, substitute_fn=init_strategy)
            trace = handlers.trace(started).get_trace()
            z = task.target.unconstrain({name: site["value"] for name, site in trace.items()})
            if np.isfinite(task.density({name: np.asarray(v)[None] for name, v in z.items()})[0]):
                break
        else:
            raise SamplingError(
                f"{CANDIDATES} starts of init_strategy in a row have density zero or no finite "
                "density: its values are in the model's units, those of the data over their scale"
            )
        starts.append(z)
    return {name: jnp.stack([jnp.asarray(z[name]) for z in starts]) for name in starts[0]}
