"""The model of a run, its log density in unconstrained coordinates, and the task of a sampler."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from bke.models import Landmark, SamplingNoise, SquaredExponential, bke_model, choose_landmarks
from bke.models.kernels.base import Kernel, SmoothingError
from bke.models.likelihood.base import Likelihood
from bke.models.likelihood.landmark import subsample_rows
from bke.models.likelihood.marginal import as_likelihood, likelihood_solver, restore_likelihood
from bke.models.measures import MEASURE_SCALE, Measure, as_measure
from bke.models.priors import Prior, assign, check_noise_prior, template, with_values
from numpyro.distributions import biject_to
from numpyro.infer.util import potential_energy

from ..core.errors import InputError, input_errors
from ..data.checks import check_memory, check_noise_variance
from ..data.new_rows import as_evaluation_points, known_names
from ..data.units import Units
from .record import describe, describe_kernel, restore, restore_kernel

#: Prior draws tried per chain for a start with a finite density (not tuned).
CANDIDATES = 32
#: Prior draws that bound where a posterior can be, at least (not tuned).
PRIOR_DRAWS = 2000


Values = Mapping[str, Any]
#: Data in the model's units, (n, D) or prepared from that, see :meth:`Target.prepared`; or several
#: samples that share the hyperparameters.
Points: TypeAlias = Any

#: NumPyro keeps the handlers of a model in one list for all threads.
_TRACING = threading.RLock()


@dataclasses.dataclass(frozen=True)
class Target:
    """Arguments of :func:`~bke.models.bke_model` in the model's units, checked."""

    kernel: Kernel
    priors: Mapping[str, dist.Distribution]
    noise_variance: float | SamplingNoise | dist.Distribution
    measure: Measure
    likelihood: Likelihood

    @classmethod
    def checked(
        cls,
        kernel: Kernel | type[Kernel] = SquaredExponential,
        prior: Prior | None = None,
        noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1,
        measure: Measure | str = "unit",
        likelihood: Likelihood | str = "auto",
    ) -> Target:
        """Check the arguments of :func:`~bke.inference.fit` that describe the model.

        Raises:
            InputError: an argument is invalid.
        """
        with input_errors():
            family = template(kernel)
            if isinstance(noise_variance, dist.Distribution):
                check_noise_prior(noise_variance)
                noise: float | SamplingNoise | dist.Distribution = noise_variance
            else:
                noise = check_noise_variance(noise_variance)
            return cls(
                family,
                assign(prior, family),
                noise,
                as_measure(measure),
                as_likelihood(likelihood),
            )

    def in_model_units(self, units: Units, rows: np.ndarray, seed: int) -> Target:
        """Return the model with a measure and landmarks in its units.

        Args:
            units: units of the data.
            rows: (n, D), in their own units, or a part of them, from which landmarks are chosen.
            seed: seed of the choice of landmarks.

        Raises:
            InputError: landmarks or the measure are invalid.
        """
        likelihood = self.likelihood
        with input_errors():
            if isinstance(likelihood, Landmark):
                likelihood = Landmark(landmark_points(likelihood.landmarks, units, rows, seed))
            measure = units.measure_to_model(self.measure)
        return dataclasses.replace(self, measure=measure, likelihood=likelihood)

    @property
    def landmarks(self) -> np.ndarray | None:
        """(m, D), of the landmark model; compiled functions get them with the data."""
        return self.likelihood.points if isinstance(self.likelihood, Landmark) else None

    @property
    def sites(self) -> dict[str, dist.Distribution]:
        """Every random quantity with its prior, as one event; in JAX's order, that of the names."""
        sites = dict(self.priors)
        if isinstance(self.noise_variance, dist.Distribution):
            sites["noise_variance"] = self.noise_variance
        if self.measure.prior is not None:
            sites[MEASURE_SCALE] = self.measure.prior
        # jax.tree.map sorts a dict: in any other order flat vectors would mix up two sites.
        return {name: sites[name].to_event(len(sites[name].batch_shape)) for name in sorted(sites)}

    def prepared(self, points: Points) -> Points:
        """Prepare ``points`` (n, D), or a tuple of samples, for the likelihood.

        Raises:
            InputError: the likelihood does not support these points, or there is no memory for the
                matrices of the dense one.
        """
        if isinstance(points, tuple):
            return tuple(map(self.prepared, points))
        with input_errors():
            solver = likelihood_solver(
                points,
                self.placeholder_kernel,
                self.placeholder_noise,
                self.measure,
                self.likelihood,
            )
        if solver.matrix_size:
            check_memory(
                solver.matrix_size,
                points.shape[1],
                matrices=5,  # n x n, at once, with those of XLA
                alternative=(
                    "a random part of them, likelihood=Nystrom(500), likelihood='landmark' "
                    "(--likelihood landmark), or of rounded rows their unit as dither"
                ),
            )
        return solver

    def check_smoothed(self, dimension: int) -> None:
        """Raise InputError for a kernel without a smoothed kernel r."""

        def smoothed(z: dict[str, jax.Array]) -> None:
            # The template, not a draw, so that the check does not depend on the seed.
            self.kernel.smoothed(self.measure_at(self.constrain(z)), dimension)

        try:
            jax.eval_shape(smoothed, {name: jnp.zeros(s) for name, s in self.shapes.items()})
        except SmoothingError as error:
            raise InputError(str(error)) from None

    @property
    def placeholder_kernel(self) -> Kernel:
        """Stands for the kernel where only its kind matters, and the shape of its lengthscale."""
        if type(self.kernel) is not SquaredExponential:
            return self.kernel
        return self.kernel_at({name: np.ones(prior.shape()) for name, prior in self.priors.items()})

    @property
    def placeholder_noise(self) -> float | SamplingNoise:
        """Stands for the noise where only its kind matters."""
        random = isinstance(self.noise_variance, dist.Distribution)
        return 1.0 if random else cast(float | SamplingNoise, self.noise_variance)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of every site in the unconstrained coordinates."""
        return {
            name: biject_to(prior.support).inverse_shape(prior.shape())
            for name, prior in self.sites.items()
        }

    @property
    def num_hyperparameters(self) -> int:
        """Number of random scalars."""
        return sum(math.prod(shape) for shape in self.shapes.values())

    @property
    def is_scalar(self) -> bool:
        """True for a single scalar hyperparameter."""
        return list(self.shapes.values()) == [()]

    def log_density(self, z: Values, X: Points) -> jax.Array:
        """Log posterior density of the unconstrained ``z``, up to the normalizer. Traceable."""
        arguments = {
            "kernel": self.kernel,
            "prior": dict(self.priors),
            "noise_variance": self.noise_variance,
            "measure": self.measure,
            "likelihood": self.likelihood,
        }
        with _TRACING:
            return -cast(jax.Array, potential_energy(bke_model, (X,), arguments, dict(z)))

    def log_prior(self, z: Values) -> jax.Array:
        """Log prior density of the unconstrained ``z``. Traceable."""
        total = jnp.zeros(())
        for name, prior in self.sites.items():
            transform = biject_to(prior.support)
            value = transform(z[name])
            jacobian = transform.log_abs_det_jacobian(z[name], value)
            total = total + prior.log_prob(value) + jnp.sum(jacobian)
        return total

    def log_prior_density(self, values: Values) -> jax.Array:
        """Log prior density of the hyperparameters themselves, on their own scale. Traceable."""
        return jnp.sum(
            jnp.stack([prior.log_prob(values[name]) for name, prior in self.sites.items()])
        )

    def constrain(self, z: Values) -> dict[str, jax.Array]:
        """Values of the sites at unconstrained ``z``; leading axes are kept."""
        return {name: biject_to(prior.support)(z[name]) for name, prior in self.sites.items()}

    def unconstrain(self, values: Values) -> dict[str, jax.Array]:
        """Inverse of :meth:`constrain`."""
        return {
            name: biject_to(prior.support).inv(values[name]) for name, prior in self.sites.items()
        }

    def prior_draws(self, rng: np.random.Generator, draws: int) -> dict[str, np.ndarray]:
        """Return draws from the prior, unconstrained, leading axis ``draws``.

        Raises :class:`InputError` for a prior that cannot be drawn from.
        """
        values = {}
        for name, prior in self.sites.items():
            try:
                values[name] = jnp.asarray(_draws(prior, rng, draws))
            except NotImplementedError:
                raise InputError(
                    f"the prior of {name!r} cannot be drawn from, as an improper one cannot: "
                    f"{type(prior).__name__}"
                ) from None
        return {name: np.asarray(value) for name, value in self.unconstrain(values).items()}

    def kernel_at(self, values: Mapping[str, Any]) -> Kernel:
        """The kernel with its random parameters at ``values`` (model units)."""
        return with_values(
            self.kernel, {name: value for name, value in values.items() if name in self.priors}
        )

    def measure_at(self, values: Mapping[str, Any]) -> Measure:
        """The measure of the smoothed kernel, its scale from ``values`` if that is random."""
        if self.measure.prior is None:
            return self.measure
        return self.measure.with_scale(values[MEASURE_SCALE])

    def describe(self) -> dict[str, Any]:
        """Describe it as plain data, from which :meth:`restore` rebuilds all but landmarks."""
        return {
            "kernel": describe_kernel(self.kernel),
            "prior": describe(dict(self.priors)),
            "noise_variance": describe(self.noise_variance),
            "measure": describe(self.measure),
            **self.likelihood.record(),
        }

    @classmethod
    def restore(cls, record: Mapping[str, Any], landmarks: np.ndarray | None = None) -> Target:
        """From :meth:`describe`; raises :class:`InputError` where a part cannot be rebuilt."""
        return cls(
            restore_kernel(record["kernel"]),
            {name: restore(prior) for name, prior in record["prior"].items()},
            restore(record["noise_variance"]),
            as_measure(restore(record["measure"])),
            restore_likelihood({**record, "landmarks": landmarks}),
        )


def _draws(prior: dist.Distribution, rng: np.random.Generator, draws: int) -> Any:
    base = prior.base_dist if isinstance(prior, dist.Independent) else prior
    if type(base) is dist.Gamma:
        # JAX's sampler takes as long to compile as the posterior density.
        shape = (draws, *prior.shape())
        return rng.gamma(np.asarray(base.concentration), size=shape) / np.asarray(base.rate)
    return prior.sample(jax.random.key(rng.integers(2**63)), (draws,))


def unflatten(flat: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    r"""Inverse of :func:`flatten`: (..., p) to one array (..., \*shape) per site."""
    pieces, start = {}, 0
    for name, shape in shapes.items():
        size = math.prod(shape)
        pieces[name] = flat[..., start : start + size].reshape(*flat.shape[:-1], *shape)
        start += size
    return pieces


def flatten(z: Mapping[str, Any], leading: int = 1) -> np.ndarray:
    """All sites side by side: arrays with ``leading`` leading axes to one more of size p."""
    arrays = [np.asarray(z[name]) for name in z]
    return np.concatenate([a.reshape(*a.shape[:leading], -1) for a in arrays], axis=-1)


def landmark_points(
    landmarks: Any,
    units: Units,
    data: np.ndarray,
    seed: int,
    *,
    default_count: int = 64,
    rows_per_landmark: int = 4,
) -> np.ndarray:
    """Return landmarks (m, D) in the model's units.

    Args:
        landmarks: their number, coordinates (m, D) in the units of the data, or ``None``.
        units: units of the data.
        data: (n, D), in their own units.
        seed: seed of the choice.
        default_count: number of landmarks for ``None``, but not more than distinct rows, and not
            fewer than columns; not tuned.
        rows_per_landmark: with fewer rows for each there are fewer landmarks; not tuned.

    Raises:
        InputError: for invalid landmarks.
    """
    n, dimension = data.shape
    points = units.to_model(data)
    if landmarks is None:
        distinct = np.unique(subsample_rows(points, np.random.default_rng(seed)), axis=0)
        landmarks = max(dimension, min(default_count, n // rows_per_landmark, len(distinct)))
    if np.ndim(landmarks):
        names = known_names(units.columns)
        return units.to_model(as_evaluation_points(landmarks, dimension, "landmarks", names))
    try:
        return choose_landmarks(points, landmarks, seed=seed)
    except ValueError as error:
        raise InputError(f"the number of landmarks {str(error).removeprefix('count ')}") from None


class Chains(NamedTuple):
    """All iterations of a sampler, leading axes (chain, iteration), warmup first.

    Attributes:
        z: unconstrained draws by site.
        stats: numbers of every draw by ArviZ's names. ``lp``, the log density, must be among them.
        initial: where chains began, by site, (chain, ...); empty for independent draws.
        num_warmup: iterations before the draws that count.
    """

    z: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]
    initial: dict[str, np.ndarray]
    num_warmup: int

    def after_warmup(self) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return the draws (chain, draw, ...) by site, and their log density (chain, draw)."""
        z = {name: np.asarray(values)[:, self.num_warmup :] for name, values in self.z.items()}
        return z, np.asarray(self.stats["lp"])[:, self.num_warmup :]


class Program(Protocol):
    """Program of a sampler, compiled once per shape of the data."""

    def compile(self, X: Points) -> None:
        """Compile for such data."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A target with data in the model's units.

    Attributes:
        target: the target.
        points: (n, D) or a tuple of such, model units, as the likelihood needs them; ``None`` for
            rows of a file.
        prior_draws: unconstrained, by site.
        density: log density of a batch of unconstrained points.
        seed: seed of every random number.
        progress: show progress bars.
        program: result of :meth:`Sampler.program` made, compiled for ``points``.
    """

    target: Target
    points: Points
    prior_draws: Mapping[str, np.ndarray]
    density: Callable[[dict[str, Any]], np.ndarray]
    seed: int
    progress: bool
    program: Any = None

    def rng(self) -> np.random.Generator:
        """Return random numbers that are neither those of the dither nor of the prior draws."""
        return np.random.default_rng(self.seed).spawn(2)[1]
