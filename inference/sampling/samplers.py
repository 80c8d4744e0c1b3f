"""Samplers of the posterior: their options, and what each of them draws."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

from ..core.errors import InputError, nearest
from ..core.progress import chain_progress, progress_bar, temperature_bars
from ..data.checks import check_count, check_positive
from ..data.weighted import systematic

if TYPE_CHECKING:  # options are made before anything waits for JAX
    import xarray as xr

    from .adaptive_quadrature import IntegratedDensity
    from .target import Chains, Program, Target, Task

#: Evaluations after which quadrature stops, by the number of hyperparameters.
MOST_EVALUATIONS = {1: 20_000, 2: 40_000}


#: Draws, and groups of the run by name: ``profile`` or ``paths``, from which modes are found, and
#: groups of the sampler.
Sampled: TypeAlias = "tuple[Chains, dict[str, xr.Dataset]]"


@dataclasses.dataclass(frozen=True)
class Sampler(abc.ABC):
    """A method to sample the posterior. Fields are its options, checked when it is made.

    A new one is a subclass, registered in :data:`SAMPLERS`. The rest of the package learns about it
    from its run: from what :meth:`record` returns, and from the groups it leaves. Chains may start
    from ``task.prior_draws``; ``task.density`` takes a dict of arrays (batch, ...) by site, which
    ``unflatten`` of ``sampling.target`` makes of points (batch, p).

    The groups are ``profile`` or ``paths``, as
    :func:`~bke.inference.sampling.draw_graph.density_groups` makes them, and, of a sampler that
    knows the integral of the density, one more of any name. This has the attributes
    ``log_normalizer`` and ``log_normalizer_error`` (NaN where that is not known), and ``tolerance``
    if the error is to be at most that. From its variables follow the masses of the modes:

    - ``unconstrained`` (node, parameter) and ``weight`` (node,), with sum one: nodes that hold the
      whole posterior, as quadrature leaves them;
    - ``unconstrained`` (repeat, particle, parameter) and ``share`` (repeat,), with sum one:
      independent repeats of particles of equal weight, as SMC leaves them.
    """

    #: The name by which ``fit`` and the command line know it, and a run's ``method``.
    name: ClassVar[str]
    #: True for independent draws, with all modes in proportion to their mass: the verdict is then
    #: on the normalizing constant, of which there is a group; else on chains.
    independent: ClassVar[bool] = False
    #: The draws in words.
    words: ClassVar[str]

    @abc.abstractmethod
    def sample(self, task: Task) -> Sampled:
        """Draw from the posterior; raises ``SamplingError`` where that is impossible."""

    def check(self, target: Target) -> None:  # noqa: B027
        """Raise :class:`InputError` for a target that it cannot sample."""

    def program(self, target: Target) -> Program | None:
        """Return what can be compiled while data are prepared, if anything."""
        return None

    @property
    def num_prior_draws(self) -> int:
        """Number of prior draws of its tasks."""
        from .target import PRIOR_DRAWS

        return PRIOR_DRAWS

    def record(self) -> dict[str, Any]:
        """Return the entries of a run's record that say how it was drawn, but for the name."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            "independent": int(self.independent),
            "method_in_words": self.words,
            **options,
        }


@dataclasses.dataclass(frozen=True)
class Nuts(Sampler):
    """Several chains of NumPyro's No-U-Turn sampler, started spread over the prior.

    The posterior often has several modes that chains cannot cross: read
    :func:`~bke.inference.diagnose` before any summary. Options are those of
    :class:`numpyro.infer.MCMC` and :class:`numpyro.infer.NUTS`.

    Attributes:
        num_chains: number of chains, 1 to 1000.
        num_warmup: iterations of each chain before its draws, at least 20.
        num_samples: draws of each chain after warmup, at least 4.
        target_accept_prob: to which warmup adapts the step size.
        max_tree_depth: largest number of doublings of a trajectory.
        dense_mass: adapt a full mass matrix, or blocks of it, as NumPyro's.
        init_strategy: one of NumPyro's (``init_to_median``, ``init_to_value(values=...)``), values
            in the model's units. By default one prior draw per chain, from equal parts of the prior
            in order of size, so that chains start at different scales.
    """

    name: ClassVar[str] = "nuts"
    words: ClassVar[str] = "chains of NUTS"

    num_chains: int = 8
    num_warmup: int = 200
    num_samples: int = 200
    target_accept_prob: float = 0.8
    max_tree_depth: int = 10
    dense_mass: bool | tuple[tuple[str, ...], ...] = False
    init_strategy: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        check_count(self.num_chains, "num_chains", 1, 1000)
        check_count(self.num_warmup, "num_warmup", 20)
        check_count(self.num_samples, "num_samples", 4)
        check_count(self.max_tree_depth, "max_tree_depth", 1, 20)
        if not 0.0 < self.target_accept_prob < 1.0:
            raise InputError(
                f"target_accept_prob must be between 0 and 1, and is {self.target_accept_prob}"
            )
        if not isinstance(self.dense_mass, bool):  # hashable, as compiled programs are kept by it
            object.__setattr__(self, "dense_mass", tuple(map(tuple, self.dense_mass)))

    def record(self) -> dict[str, Any]:
        """Return the numbers, and the other options where they are not the defaults."""
        record = super().record()
        dense_mass, strategy = record.pop("dense_mass"), record.pop("init_strategy")
        if dense_mass:
            record["dense_mass"] = str(dense_mass)
        if strategy is not None:
            record["init_strategy"] = getattr(strategy, "__name__", repr(strategy))
        return record

    @property
    def num_prior_draws(self) -> int:
        """Enough to start every chain from one."""
        from .target import CANDIDATES, PRIOR_DRAWS

        return max(PRIOR_DRAWS, CANDIDATES * self.num_chains)

    def program(self, target: Target) -> Program:
        """Return compiled NUTS with these options."""
        from .no_u_turn import nuts_program

        return nuts_program(
            target, self.num_warmup, self.target_accept_prob, self.max_tree_depth, self.dense_mass
        )

    def sample(self, task: Task) -> Sampled:
        """Return chains, with the profile or the paths from which modes are found.

        Raises:
            SamplingError: where no starting points with a finite density can be found.
        """
        import jax

        from .draw_graph import density_groups
        from .no_u_turn import dispersed_start, strategic_start

        if self.init_strategy is None:
            initial = dispersed_start(task.prior_draws, self.num_chains, task.seed, task.density)
        else:
            initial = strategic_start(self.init_strategy, task, self.num_chains)
        iterations = self.num_warmup + self.num_samples
        with chain_progress(self.num_chains, iterations, show=task.progress) as bars:
            chains = task.program.run(
                task.points,
                initial=initial,
                num_samples=self.num_samples,
                key=jax.random.key(task.seed),
                progress=bars,
            )
        return chains, density_groups(task, *chains.after_warmup())


@dataclasses.dataclass(frozen=True)
class Quadrature(Sampler):
    """The whole posterior of one or two hyperparameters: every mode with its mass.

    Attributes:
        tolerance: for the absolute error of the log of the integral.
        num_samples: independent draws, at least 4; the run has them as one chain, of which ArviZ
            computes no R-hat.
    """

    name: ClassVar[str] = "quadrature"
    independent: ClassVar[bool] = True
    words: ClassVar[str] = "independent draws by quadrature"

    tolerance: float = 1e-3
    num_samples: int = 4000

    def __post_init__(self) -> None:
        check_count(self.num_samples, "num_samples", 4)
        check_positive(self.tolerance, "tolerance")

    def check(self, target: Target) -> None:
        """Refuse more than two hyperparameters."""
        if target.num_hyperparameters not in MOST_EVALUATIONS:
            raise InputError(
                "quadrature is for one or two hyperparameters, and there are "
                f"{target.num_hyperparameters} here: use method='smc'"
            )

    def sample(self, task: Task) -> Sampled:
        """Return draws with the group ``quadrature``, and with the profile or the paths.

        Raises:
            SamplingError: where the density has no integral, or is not a number where it counts.
        """
        from .draw_graph import density_graph, profile_of_nodes
        from .target import Chains, unflatten

        result = integral(task, self.tolerance)
        draws, lp = result.draws(self.num_samples, task.rng())
        chains = Chains(unflatten(draws[None], task.target.shapes), {"lp": lp[None]}, {}, 0)
        groups = {"quadrature": nodes_of(result, self.tolerance)}
        if task.target.is_scalar:
            groups["profile"] = profile_of_nodes(task.target, result)
        else:
            groups["paths"] = density_graph(*chains.after_warmup(), task.density)
        return chains, groups


def integral(
    task: Task,
    tolerance: float,
    points: np.ndarray | None = None,
    max_evaluations: int | None = None,
) -> IntegratedDensity:
    """Integrate a task's density over all hyperparameters.

    It starts from the range of the prior draws, and of ``points`` (k, p), and goes on outwards
    until the density is negligible: a mode beyond a region of negligible density is not found.
    """
    from .adaptive_quadrature import integrate
    from .target import flatten, unflatten

    start = flatten(task.prior_draws)
    start = start if points is None else np.concatenate([start, points])
    with progress_bar("evaluations", None, show=task.progress) as advance:

        def density(points: np.ndarray) -> np.ndarray:
            values = task.density(unflatten(points, task.target.shapes))
            advance(len(values))
            return values

        return integrate(
            density,
            start.min(axis=0),
            start.max(axis=0),
            tolerance=tolerance,
            max_evaluations=max_evaluations or MOST_EVALUATIONS[start.shape[1]],
        )


def nodes_of(result: IntegratedDensity, tolerance: float) -> xr.Dataset:
    """Return the nodes with their weights; the integral and its error as attributes."""
    import xarray as xr

    return xr.Dataset(
        {
            "unconstrained": (("node", "parameter"), result.nodes),
            "log_density": ("node", result.log_density),
            "weight": ("node", result.weight),
        },
        attrs={
            "log_normalizer": result.log_normalizer,
            "log_normalizer_error": result.error,
            "evaluations": result.evaluations,
            "tolerance": tolerance,
        },
    )


@dataclasses.dataclass(frozen=True)
class Smc(Sampler):
    """Particles that go from the prior to the posterior, in independent repeats.

    The repeats, resampled by their estimates of the integral, give the standard errors of masses
    and of the integral's log. The run has the draws as one chain, of which ArviZ computes no R-hat.

    Attributes:
        num_particles: in all, the same for each repeat; at least 4 for each repeat.
        num_repeats: 1 to 1000.
    """

    name: ClassVar[str] = "smc"
    independent: ClassVar[bool] = True
    words: ClassVar[str] = "draws of tempered SMC"

    num_particles: int = 4000
    num_repeats: int = 8

    def __post_init__(self) -> None:
        check_count(self.num_repeats, "num_repeats", 1, 1000)
        check_count(self.num_particles, "num_particles", 4 * self.num_repeats)

    def sample(self, task: Task) -> Sampled:
        """Return draws with the group ``smc``, and with the profile or the paths.

        Raises:
            SamplingError: where all prior draws have density zero.
        """
        import jax

        from .draw_graph import density_groups
        from .target import Chains, flatten, unflatten
        from .tempering import tempered_smc

        target, repeats = task.target, self.num_repeats
        per_repeat = self.num_particles // repeats
        count = repeats * per_repeat
        rng = task.rng()
        start = flatten(target.prior_draws(rng, count)).reshape(repeats, per_repeat, -1)
        with temperature_bars(repeats, show=task.progress) as advance:
            key = jax.random.key(task.seed)
            population = tempered_smc(target).run(task.points, start, key, advance)
        z = population.z.reshape(count, -1)
        log_prior = jax.vmap(target.log_prior)(unflatten(z, target.shapes))
        lp = population.log_likelihood.ravel() + np.asarray(log_prior)
        group = population.group(lp.reshape(repeats, per_repeat))
        # Systematic resampling between repeats, by their estimates of the integral.
        chosen = systematic(np.repeat(group["share"].values / per_repeat, per_repeat), count, rng)
        chains = Chains(unflatten(z[None, chosen], target.shapes), {"lp": lp[None, chosen]}, {}, 0)
        return chains, {"smc": group, **density_groups(task, *chains.after_warmup())}


SAMPLERS: dict[str, type[Sampler]] = {kind.name: kind for kind in (Nuts, Quadrature, Smc)}
MethodName: TypeAlias = Literal["auto", "nuts", "quadrature", "smc"]


@dataclasses.dataclass(frozen=True)
class Auto:
    """Quadrature for one or two hyperparameters, SMC beyond.

    Both give every mode its mass. Chains of NUTS seldom cross from one to another: on 24 pairs of
    real samples they mixed in 2.
    """

    quadrature: Quadrature = dataclasses.field(default_factory=Quadrature)
    smc: Smc = dataclasses.field(default_factory=Smc)


#: ``"auto"``, the name of a sampler with its default options, a sampler, or the choice of one.
Method: TypeAlias = MethodName | Sampler | Auto


def sampler_for(method: Method, target: Target) -> tuple[Sampler, dict[str, str]]:
    """Return the sampler that ``method`` names for ``target``, and the run's record of the choice.

    Raises:
        InputError: for an unknown method, and for one that cannot sample such a target.
    """
    if isinstance(method, str) and method == "auto":
        method = Auto()
    if isinstance(method, Auto):
        count = target.num_hyperparameters
        sampler: Sampler = method.quadrature if count in MOST_EVALUATIONS else method.smc
        plural = "s" * (count > 1)
        sentence = f"{sampler.name}, chosen automatically: {count} hyperparameter{plural}"
        return sampler, {"method": sampler.name, "chosen": sentence}
    if isinstance(method, str) and method in SAMPLERS:
        method = SAMPLERS[method]()
    if not isinstance(method, Sampler):
        classes = ", ".join(f"{kind.__name__}(...)" for kind in SAMPLERS.values())
        names = ("auto", *SAMPLERS)
        raise InputError(
            f"method must be one of {names}, or {classes}; got {method!r}{nearest(method, names)}"
        )
    method.check(target)
    return method, {"method": method.name}


def is_independent(attributes: Mapping[Any, Any]) -> bool:
    """Return whether draws are independent, with all modes in proportion to their mass.

    Args:
        attributes: attributes of a run of :func:`~bke.inference.fit` or of a witness.
    """
    return bool(_settings(attributes).get("independent", False))


def method_in_words(attributes: Mapping[Any, Any]) -> str:
    """Describe the draws of a run, such as "independent draws by quadrature"."""
    return str(_settings(attributes)["method_in_words"])


def _settings(attributes: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return the record of a run, or the attributes of a witness, which has none."""
    from .record import RECORD, read_record

    return read_record(attributes) if RECORD in attributes else attributes
