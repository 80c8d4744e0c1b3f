"""The cases of the record. This is the only file here that names public names of the package.

When a public name, an attribute or a key changes, its use here changes, and nothing else: the names
of cases and outputs stay, so that outputs of the reference and of today are compared.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import arviz_base
import bke.inference as inference
import bke.models as models
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import samples
from cases import N_RESAMPLES, case

# -- kernels --------------------------------------------------------------------------------------

LENGTHS = np.array([0.7, 1.9, 0.5])
FREQUENCIES = np.array([[0.3, -0.2, 0.5], [0.8, 0.4, 0.1]])
SPREADS = np.array([[0.5, 0.9, 0.6], [1.1, 0.4, 1.2]])
COVARIANCE = np.array([[0.81, 0.45, -0.18], [0.45, 0.74, 0.11], [-0.18, 0.11, 0.49]])


def kernels(columns: int) -> dict[str, Any]:
    """A kernel of every family, for data with this number of columns."""
    lengths = LENGTHS[:columns]
    return {
        "squared_exponential": models.SquaredExponential(lengths),
        "full_squared_exponential": models.FullSquaredExponential(COVARIANCE[:columns, :columns]),
        "gaussian_mixture": models.GaussianMixture([0.5, 2.0], [0.3, 1.1]),
        "laplace": models.Laplace(lengths),
        "matern_1_2": models.Matern(0.5, lengths),
        "matern_3_2": models.Matern(1.5, lengths),
        "matern_5_2": models.Matern(2.5, lengths),
        "rational_quadratic": models.RationalQuadratic(1.4, lengths),
        "spectral_mixture": models.SpectralMixture(
            SPREADS[:, :columns], FREQUENCIES[:, :columns], [0.4, 0.9]
        ),
        "sum": models.SquaredExponential(0.5) + 0.4 * models.Laplace(2.0),
        "product": models.SquaredExponential(1.2) * models.Matern(1.5, 3.0),
    }


def covariances() -> dict[str, Any]:
    """Kernels that are no priors of the model, for two columns."""
    return {
        "distance": models.Distance(1.3, np.array([0.5, -0.2])),
        "polynomial": models.Polynomial(3, 0.7),
    }


@case("kernels")
def matrices() -> Mapping[str, Any]:
    x, y = samples.rows(4, 3), samples.rows(5, 3, stream=1)
    every = {"3_columns_" + name: (kernel, x, y) for name, kernel in kernels(3).items()}
    every |= {name: (kernel, x[:, :2], y[:, :2]) for name, kernel in covariances().items()}
    rotated = models.rotations(x), models.rotations(y)
    every |= {"rotation": (models.Rotation(), *rotated)}
    tied = np.round(x[:, :1]), np.round(y[:, :1])
    every |= {"dirac": (models.Dirac(), *tied)}
    with jax.enable_x64(True):
        outputs = {name: kernel.matrix(a, b) for name, (kernel, a, b) in every.items()}
        outputs |= {
            f"{name}_diagonal": kernel.diagonal(b) for name, (kernel, _, b) in every.items()
        }
    return outputs


@case("kernels")
def derivatives() -> Mapping[str, Any]:
    """Gradients of a weighted sum of kernel values by the first points and by the parameters."""
    x, y = samples.rows(4, 2), samples.rows(5, 2, stream=1)
    weights = np.arange(1.0, 21.0).reshape(4, 5)
    outputs = {}
    with jax.enable_x64(True):
        for name, kernel in kernels(2).items():
            by_points, by_kernel = jax.grad(
                lambda points, kernel: jnp.sum(weights * kernel.matrix(points, y)), argnums=(0, 1)
            )(jnp.asarray(x), jax.tree.map(jnp.asarray, kernel))
            outputs[f"{name}_by_points"] = by_points
            leaves = [np.ravel(leaf) for leaf in jax.tree.leaves(by_kernel)]
            outputs[f"{name}_by_parameters"] = np.concatenate(leaves)
    return outputs


MEASURES = {
    "unit": models.Unit(),
    "lebesgue": models.Lebesgue(),
    "gaussian": models.Gaussian(1.7, 0.3),
}


def smoothed_matrices(columns: int) -> dict[str, Any]:
    """Smoothed kernels of every family and measure, or that there is none."""
    x, y = samples.rows(4, columns), samples.rows(5, columns, stream=1)
    outputs: dict[str, Any] = {}
    with jax.enable_x64(True):
        for name, kernel in kernels(columns).items():
            for measure_name, measure in MEASURES.items():
                try:
                    smoothed = kernel.smoothed(measure, columns)
                except models.SmoothingError:
                    outputs[f"{name}_{measure_name}"] = "refused"
                else:
                    outputs[f"{name}_{measure_name}"] = smoothed.matrix(x, y)
    return outputs


@case("kernels", slow=True)
def smoothed_in_one_column() -> Mapping[str, Any]:
    return smoothed_matrices(1)


@case("kernels")
def smoothed_in_two_columns() -> Mapping[str, Any]:
    return smoothed_matrices(2)


@models.register_dataclass
@dataclasses.dataclass(frozen=True)
class Cauchy(models.Radial):
    """A kernel of a user: 1 / (1 + rho^2)."""

    lengthscale: float = models.parameter(1.0, unit="length")

    def evaluate_distance(self, rho: Any) -> Any:
        return 1.0 / (1.0 + rho**2)


def wavy(x: Any, y: Any, *, width: float = 1.0, frequency: float = 0.3) -> Any:
    """A function of two points, to be made a kernel."""
    delta = x - y
    return jnp.exp(-jnp.sum(jnp.abs(delta / width))) * jnp.cos(frequency * jnp.sum(delta))


@case("kernels", slow=True)
def kernels_of_users() -> Mapping[str, Any]:
    x, y = samples.rows(4, 2), samples.rows(5, 2, stream=1)
    from_function = models.kernel_from_function(
        wavy, units={"width": "length", "frequency": "1/length"}, stationary=True
    )
    line = samples.rows(samples.FIRST, 1)
    outputs = {"function_log_likelihood": models.log_marginal_likelihood(line, from_function)}
    with jax.enable_x64(True):
        outputs |= {
            "class": Cauchy(1.4).matrix(x, y),
            "class_smoothed": Cauchy(1.4).smoothed(models.Unit(), 2).matrix(x, y),
            "function": from_function.matrix(x, y),
            "path": models.kernel_from_path("bke.models:Laplace")(0.8).matrix(x, y),
        }
    return outputs


@case("kernels")
def scikit_learn_kernels() -> Mapping[str, Any]:
    from sklearn.gaussian_process import kernels as scikit_learn

    x, y = samples.rows(4, 2), samples.rows(5, 2, stream=1)
    theirs = {
        "rbf": scikit_learn.RBF([0.7, 1.9]),
        "matern": scikit_learn.Matern(1.2, nu=2.5),
        "rational_quadratic": scikit_learn.RationalQuadratic(1.3, alpha=0.8),
        "sum": 2.0 * scikit_learn.RBF(0.5) + scikit_learn.Matern(2.0, nu=1.5),
    }
    with jax.enable_x64(True):
        outputs = {f"from_{k}": inference.from_sklearn(v).matrix(x, y) for k, v in theirs.items()}
    for name in ("squared_exponential", "matern_3_2"):
        outputs[f"to_{name}"] = inference.to_sklearn(kernels(2)[name])(x, y)
    outputs["gamma"] = inference.rbf_gamma(models.SquaredExponential(0.8))
    return outputs


# -- likelihood -----------------------------------------------------------------------------------


def by_lengthscale(
    function: Callable[[Any], Any], lengthscales: list[Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a function of lengthscales, and its gradients."""
    with jax.enable_x64(True):
        pairs = [
            jax.value_and_grad(function)(jnp.asarray(lengthscale)) for lengthscale in lengthscales
        ]
    values, gradients = zip(*pairs, strict=True)
    return np.array(values), np.array(gradients)


def likelihood_outputs(
    data: np.ndarray,
    lengthscales: list[Any],
    kernel: Any = models.SquaredExponential,
    **options: Any,
) -> dict[str, Any]:
    """Log marginal likelihoods and their gradients at some lengthscales."""
    values, gradients = by_lengthscale(
        lambda lengthscale: models.log_marginal_likelihood(data, kernel(lengthscale), **options),
        lengthscales,
    )
    return {"log_likelihood": values, "gradient": gradients}


def named(prefix: str, outputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same outputs with a prefix to their names."""
    return {f"{prefix}_{name}": value for name, value in outputs.items()}


@case("likelihood")
def dense() -> Mapping[str, Any]:
    outputs = {}
    for columns in (1, 2, 3):
        lengths = [scale * LENGTHS[:columns] for scale in (0.4, 1.3)]
        data = samples.rows(samples.FIRST, columns)
        result = likelihood_outputs(data, lengths, likelihood="dense")
        outputs |= named(f"{columns}_columns", result)
    line = samples.rows(samples.FIRST, 1)
    for name, measure in MEASURES.items():
        outputs |= named(name, likelihood_outputs(line, [0.8], measure=measure, likelihood="dense"))
    return outputs


@case("likelihood")
def noise() -> Mapping[str, Any]:
    line, plane = samples.rows(samples.FIRST, 1), samples.rows(samples.FIRST, 2)
    noises = {
        "full": models.SamplingNoise(),
        "diagonal": models.SamplingNoise(full=False),
        "small": 1e-3,
    }
    outputs = {}
    for name, variance in noises.items():
        outputs |= named(name, likelihood_outputs(line, [0.6, 1.8], noise_variance=variance))
        outputs |= named(f"{name}_plane", likelihood_outputs(plane, [0.9], noise_variance=variance))
    return outputs


@case("likelihood", slow=True)
def families() -> Mapping[str, Any]:
    """Likelihoods of every family at fixed parameters, in one and in two columns."""
    outputs: dict[str, Any] = {}
    for columns in (1, 2):
        data = samples.rows(samples.FIRST, columns)
        for name, kernel in kernels(columns).items():
            try:
                value = models.log_marginal_likelihood(data, kernel)
            except models.SmoothingError:
                value = "refused"
            outputs[f"{columns}_columns_{name}"] = value
    return outputs


@case("likelihood", slow=True)
def spectral_in_one_column() -> Mapping[str, Any]:
    """Sums over waves, bands of short lengthscales, and a Kalman filter."""
    data = samples.rows(300, 1)
    tied = np.round(data, 1) + 1e-3 * samples.rows(300, 1, stream=2)
    outputs = likelihood_outputs(data, [0.02, 0.3, 1.5], likelihood="spectral")
    outputs |= named("tied", likelihood_outputs(tied, [0.3], likelihood="spectral"))
    for name, kernel in (
        ("matern", lambda lengthscale: models.Matern(1.5, lengthscale)),
        ("laplace", models.Laplace),
        (
            "sum",
            lambda lengthscale: (
                models.SquaredExponential(lengthscale) + 0.5 * models.SquaredExponential(2.0)
            ),
        ),
    ):
        outputs |= named(name, likelihood_outputs(data, [0.5], kernel, likelihood="spectral"))
    outputs["gaussian_measure"] = models.log_marginal_likelihood(
        data, models.SquaredExponential(0.5), measure=models.Gaussian(3.0)
    )
    return outputs


@case("likelihood", slow=True)
def spectral_in_more_columns() -> Mapping[str, Any]:
    outputs = {}
    for columns, length in ((2, 1.5), (3, 3.0)):
        data = samples.rows(1000, columns)
        result = likelihood_outputs(data, [length], likelihood="spectral")
        outputs |= named(f"{columns}_columns", result)
    return outputs


@case("likelihood", slow=True)
def low_rank() -> Mapping[str, Any]:
    outputs = {}
    for columns in (1, 3):
        data = samples.rows(120, columns)
        for name, likelihood in (("nystrom", models.Nystrom(30)), ("fourier", models.Fourier(40))):
            result = likelihood_outputs(data, [1.4], likelihood=likelihood)
            outputs |= named(f"{name}_{columns}_columns", result)
            kernel = models.SquaredExponential(1.4)
            error = models.low_rank_error(data, kernel, likelihood=likelihood)
            outputs[f"{name}_{columns}_columns_standard_error"] = error.standard_error
            outputs[f"{name}_{columns}_columns_truncation"] = error.truncation
            outputs[f"{name}_{columns}_columns_determinant_bound"] = error.determinant_bound
    return outputs


@case("likelihood")
def landmark() -> Mapping[str, Any]:
    outputs = {}
    for columns in (1, 2):
        data = samples.rows(samples.FIRST, columns)
        landmarks = samples.rows(9, columns, stream=3)

        def log_likelihood(lengthscale: Any, data: Any = data, landmarks: Any = landmarks) -> Any:
            kernel = models.SquaredExponential(lengthscale)
            return models.landmark_log_likelihood(data, landmarks, kernel, noise_variance=0.2)

        values, gradients = by_lengthscale(log_likelihood, [0.9, 2.1])
        outputs[f"{columns}_columns_log_likelihood"] = values
        outputs[f"{columns}_columns_gradient"] = gradients
        outputs[f"{columns}_columns_matern"] = models.landmark_log_likelihood(
            data, landmarks, models.Matern(2.5, 1.1), noise_variance=0.2
        )
        outputs[f"{columns}_columns_chosen"] = models.choose_landmarks(data, 6, seed=3)
    return outputs


@case("likelihood")
def log_jacobian() -> Mapping[str, Any]:
    """The log Jacobian factor of every row, with isolated and tied rows."""
    outputs = {}
    for columns in (1, 2):
        data = samples.rows(12, columns)
        data[0] += 40.0
        data[2] = data[1]
        for name, kernel in kernels(columns).items():
            outputs[f"{columns}_columns_{name}"] = models.log_jacobian(data, kernel)
    return outputs


@case("likelihood")
def label_process() -> Mapping[str, Any]:
    """Log Bayes factors of a difference of two samples, by the Gaussian process on labels."""
    outputs = {}
    for columns in (1, 2):
        first, second = samples.pair(columns)
        for size in (0.1, 1.0):
            outputs[f"{columns}_columns_size_{size}"] = models.log_difference_evidence(
                first, second, models.SquaredExponential(LENGTHS[:columns]), size=size
            )
    return outputs


# -- NumPyro models -------------------------------------------------------------------------------


def log_density(model: Any, values: Mapping[str, Any], *arguments: Any, **options: Any) -> Any:
    """The log density of a NumPyro model, and its gradient by every variable."""
    with jax.enable_x64(True):
        points = {name: jnp.asarray(value, dtype=float) for name, value in values.items()}

        def density(at: Any) -> Any:
            return numpyro.infer.util.log_density(model, arguments, options, at)[0]

        value, gradient = jax.value_and_grad(density)(points)
    return {"log_density": value, **{f"gradient_{k}": v for k, v in gradient.items()}}


@case("numpyro_models")
def embedding_model() -> Mapping[str, Any]:
    line = samples.rows(samples.FIRST, 1)
    outputs = log_density(models.bke_model, {"lengthscale": 0.8}, line)
    landmarks = models.Landmark(samples.rows(9, 1, stream=3))
    landmark_model = log_density(models.bke_model, {"lengthscale": 0.8}, line, likelihood=landmarks)
    return outputs | named("landmarks", landmark_model)


@case("numpyro_models", slow=True)
def embedding_model_variants() -> Mapping[str, Any]:
    line, plane = samples.rows(samples.FIRST, 1), samples.rows(samples.FIRST, 2)
    outputs = {}
    per_column = dist.Gamma(jnp.array([1.0, 2.0]), jnp.array([1.0, 0.5])).to_event(1)
    outputs |= named(
        "per_column",
        log_density(
            models.bke_model,
            {"lengthscale": [0.8, 2.0]},
            plane,
            prior=per_column,
            measure="lebesgue",
        ),
    )
    outputs |= named(
        "noise",
        log_density(
            models.bke_model,
            {"lengthscale": 1.1, "noise_variance": 0.3},
            line,
            noise_variance=dist.Uniform(0.05, 1.0),
        ),
    )
    outputs |= named(
        "two_samples", log_density(models.bke_model, {"lengthscale": 0.8}, samples.pair(1))
    )
    outputs |= named(
        "matern",
        log_density(models.bke_model, {"lengthscale": 0.8}, line, kernel=models.Matern(1.5, 1.0)),
    )
    return outputs


def sites(model: Any, *arguments: Any) -> dict[str, Any]:
    """A point of a model's prior, by name of the variable."""
    with jax.enable_x64(True), numpyro.handlers.seed(rng_seed=0):
        trace = numpyro.handlers.trace(model).get_trace(*arguments)
    return {
        name: site["value"]
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }


def density_at_prior_draw(model: Any, *arguments: Any) -> dict[str, Any]:
    """The log density of a model and its gradient at fixed positive values of its variables."""
    drawn = sites(model, *arguments)
    values = {
        name: 0.5 + 0.2 * index + np.zeros(np.shape(value))
        for index, (name, value) in enumerate(drawn.items())
    }
    result = log_density(model, values, *arguments)
    gradients = [np.ravel(result[f"gradient_{name}"]) for name in values]
    return {"log_density": result["log_density"], "gradient": np.concatenate(gradients)}


@case("numpyro_models")
def two_scale_model() -> Mapping[str, Any]:
    return density_at_prior_draw(models.two_scale_model, *samples.pair(1))


@case("numpyro_models")
def distribution_regression() -> Mapping[str, Any]:
    center, variance = samples.rows(20, 2), 0.1 + samples.rows(20, 2, stream=5) ** 2
    target = center[:, 0] + 0.3 * center[:, 1] ** 2
    return density_at_prior_draw(models.distribution_regression_model, center, variance, target)


# -- embeddings -----------------------------------------------------------------------------------


def grid(columns: int = 1, count: int = 6) -> np.ndarray:
    """Points of evaluation, (count, columns)."""
    return np.linspace(-2.0, 3.0, count)[:, None] * np.array([1.0, -0.7, 0.4])[:columns]


@case("embeddings")
def posterior() -> Mapping[str, Any]:
    outputs = {}
    for columns in (1, 2):
        data = samples.rows(samples.FIRST, columns)
        at, kernel = grid(columns), models.SquaredExponential(LENGTHS[:columns])
        outputs[f"{columns}_columns_empirical"] = models.empirical_embedding(data, kernel, at)
        for name, noise_variance in (("clt", "clt"), ("fixed", 0.1)):
            for measure_name, measure in MEASURES.items():
                result = models.embedding_posterior(
                    data, kernel, at, noise=noise_variance, measure=measure
                )
                outputs[f"{columns}_columns_{name}_{measure_name}_mean"] = result.mean
                variances = np.diag(result.covariance)
                outputs[f"{columns}_columns_{name}_{measure_name}_variance"] = variances
        landmarks = samples.rows(9, columns, stream=3)
        result = models.landmark_embedding_posterior(data, landmarks, kernel, at)
        outputs[f"{columns}_columns_landmarks_mean"] = result.mean
        outputs[f"{columns}_columns_landmarks_covariance"] = result.covariance
        shrunk = models.posterior_mean_embedding(data, kernel)
        outputs[f"{columns}_columns_posterior_mean"] = shrunk(at)
    outputs["gaussian_mixture"] = models.gaussian_mixture_embedding(
        [0.3, 0.7], [-1.0, 1.5], [0.5, 1.2], 0.8, grid()
    )
    return outputs


@case("embeddings")
def arithmetic() -> Mapping[str, Any]:
    first, second = samples.pair(2)
    kernel = models.SquaredExponential(LENGTHS[:2])
    weights = 0.5 + np.arange(len(second)) / len(second)
    p, q = models.mean_embedding(first, kernel), models.mean_embedding(second, kernel, weights)
    mixed = 0.3 * p + q
    product = models.function_embedding(
        lambda x, y: x[:, 0] * y[:, 1],
        models.mean_embedding(first[:8], kernel),
        models.mean_embedding(second[:9], kernel),
        kernel=models.SquaredExponential(1.0),
    )
    return {
        "norm": p.norm(),
        "squared_norm": q.squared_norm(),
        "inner_product": p.inner_product(q),
        "distance": p.distance(q),
        "mean": mixed.mean(),
        "values": mixed(grid(2)),
        "expectation": p.expectation(lambda x: x[:, 0] ** 2),
        "function_values": product(grid()),
    }


@case("embeddings")
def shrinkage() -> Mapping[str, Any]:
    data = samples.rows(samples.FIRST, 3)
    kernel = models.SquaredExponential(1.3)
    amounts = models.shrinkage_amount(data, kernel)
    return {
        "plug_in": amounts["plug-in"],
        "positive_part": amounts["positive-part"],
        "leave_one_out": amounts["leave-one-out"],
        "norm": models.shrunk_embedding(data, kernel).norm(),
        "fixed": models.shrunk_embedding(data, kernel, amount=0.3)(grid(3)),
        "spectral": models.spectral_embedding(data, kernel)(grid(3)),
        "spectral_scores": models.leave_one_out_scores(data, kernel, [1e-3, 1e-2, 1e-1]),
    }


@case("embeddings")
def conditional() -> Mapping[str, Any]:
    x, y, _ = samples.dependent()
    kernel_x, kernel_y = models.SquaredExponential(0.8), models.SquaredExponential(0.6)
    conditional = models.conditional_embedding(x, y, kernel_x, kernel_y)
    fixed = models.conditional_embedding(x, y, kernel_x, kernel_y, regularization=0.05)
    at = np.array([[-1.0], [0.4], [1.7]])
    prior = models.mean_embedding(0.5 + 0.4 * samples.rows(30, 1), kernel_x)
    joint = models.product_rule(conditional, prior)
    rule = models.bayes_rule(conditional, prior)
    posterior = rule(0.6)
    return {
        "regularization": conditional.regularization,
        "expectation": conditional.expectation(at),
        "variance": conditional.variance(at),
        "weight_sums": np.sum(conditional.weights(at), axis=-1),
        "fixed_expectation": fixed.expectation(at),
        "sum_rule_mean": models.sum_rule(conditional, prior).mean(),
        "sum_rule_values": models.sum_rule(conditional, prior)(at),
        "joint_expectation": joint.expectation(lambda a, b: a[:, 0] * b[:, 0]),
        "joint_norm": np.sqrt(joint.inner_product(joint)),
        "bayes_rule_mean": posterior.mean(),
        "bayes_rule_values": posterior(at),
        "pre_image": models.pre_image(posterior).point,
        "reduced": models.reduced_embedding(posterior, at)(at),
    }


@case("embeddings")
def bayes_filter() -> Mapping[str, Any]:
    states, observed = samples.circle()
    kernel = models.SquaredExponential(0.8)
    rule = models.kernel_bayes_filter(states[:48], observed[:48], kernel, kernel)
    filtered = rule.filter(observed[48:])
    return {
        "mean": filtered.mean(),
        "mode": filtered.mode(),
        "predicted": rule.predict(filtered, 2).mean(),
        "smoothed": rule.smooth(filtered).mean(),
    }


@case("embeddings")
def learned_conditional() -> Mapping[str, Any]:
    x, y, _ = samples.dependent()
    learned = inference.learn_conditional(x, y, kernel_x="median", kernel_y="bkl")
    return {
        "regularization": learned.regularization,
        "lengthscale_x": learned.kernel_x.lengthscale,
        "lengthscale_y": learned.kernel_y.lengthscale,
        "expectation": learned.expectation([-1.0, 0.4, 1.7]),
    }


@case("embeddings")
def learned_filter() -> Mapping[str, Any]:
    states, observed = samples.circle()
    learned = inference.learn_filter(
        states[:48],
        observed[:48],
        kernel_x="median",
        kernel_y="median",
        factors=(0.5, 1.0),
        regularizations=(0.1, 1.0),
        progress=False,
    )
    return {
        "errors": [trial.error for trial in learned.trials],
        "smoothed_error": learned.smoothed_error,
        "mean": learned.filter.filter(observed[48:]).mean(),
    }


# -- statistics -----------------------------------------------------------------------------------


@case("statistics")
def discrepancies() -> Mapping[str, Any]:
    outputs = {}
    for columns in (1, 2):
        first, second = samples.pair(columns)
        kernel = models.SquaredExponential(LENGTHS[:columns])
        weights = (None, 0.5 + np.arange(len(second)) / len(second))
        part = second[: len(first)]
        result = {
            "mmd": models.squared_mmd(first, second, kernel),
            "mmd_biased": models.squared_mmd(first, second, kernel, estimator="biased"),
            "mmd_weighted": models.squared_mmd(
                first, second, kernel, estimator="biased", weights=weights
            ),
            "mmd_variance": models.squared_mmd_variance(first, part, kernel),
            "mmd_normalized": models.normalized_mmd(first, part, kernel),
            "mmd_terms": models.mmd_terms(first, part, kernel),
            "mmd_block_terms": models.mmd_terms(first, part, kernel, block_size=6),
            "inner_product": models.embedding_inner_product(first, second, kernel),
        }
        outputs |= named(f"{columns}_columns", result)
    outputs["gaussian_inner_product"] = models.gaussian_inner_product(
        (np.array([0.2, -0.5]), np.array([[1.0, 0.3], [0.3, 0.6]])),
        (np.array([1.0, 0.4]), np.array([[0.5, -0.1], [-0.1, 0.9]])),
        models.SquaredExponential(LENGTHS[:2]),
    )
    return outputs


@case("statistics")
def dependence() -> Mapping[str, Any]:
    x, y, _ = samples.dependent()
    kernel_x, kernel_y = models.SquaredExponential(0.8), models.Laplace(0.9)
    at = (np.zeros((2, 1)), np.array([[0.0], [1.2]]))
    result = models.dependence_posterior(x, y, kernel_x, models.SquaredExponential(0.9), at)
    return {
        "hsic": models.hsic(x, y, kernel_x, kernel_y),
        "hsic_biased": models.hsic(x, y, kernel_x, kernel_y, estimator="biased"),
        "hsic_normalized": models.normalized_hsic(x, y, kernel_x, kernel_y, regularization=0.01),
        "alignment": models.alignment(x, y, kernel_x, kernel_y),
        "constrained_covariance": models.constrained_covariance(x, y, kernel_x, kernel_y),
        "witness": models.dependence_witness(x, y, kernel_x, kernel_y, at),
        "posterior_mean": result.mean,
        "posterior_covariance": result.covariance,
    }


@case("statistics")
def stein() -> Mapping[str, Any]:
    data = samples.rows(samples.FIRST, 2)
    score = -data / np.array([1.0, 4.0])
    outputs = {}
    for name, kernel in (
        ("squared_exponential", models.SquaredExponential(1.2)),
        ("rational_quadratic", models.RationalQuadratic(0.5, 1.2)),
    ):
        outputs[name] = models.squared_stein_discrepancy(data, score, kernel)
        outputs[f"{name}_matrix"] = models.stein_matrix(data[:4], score[:4], kernel)
    return outputs


# -- kernel Student-t -----------------------------------------------------------------------------


@case("student_t")
def density() -> Mapping[str, Any]:
    outputs = {}
    for columns in (1, 2):
        data = samples.rows(samples.FIRST, columns)
        result = models.kernel_student_t(
            data, models.SquaredExponential(LENGTHS[:columns]), noise_variance=0.7, alpha=1.5
        )
        outputs[f"{columns}_columns_log_density"] = result.log_density(grid(columns))
        outputs[f"{columns}_columns_hyvarinen"] = models.hyvarinen_scores(result)[:5]
        bounds = (np.full(columns, -15.0), np.full(columns, 25.0))
        normalizer = models.log_normalizer(result, bounds, tolerance=1e-5)
        outputs[f"{columns}_columns_log_normalizer"] = normalizer.value
        left_out = models.leave_one_out_log_densities(result, bounds, rows=[0, 7, 30])
        outputs[f"{columns}_columns_leave_one_out"] = left_out
    line = samples.rows(samples.FIRST, 1)
    nodes = np.linspace(-6.0, 8.0, 80)[:, None]
    outputs["sequential"] = models.log_sequential_likelihood(
        line, models.SquaredExponential(0.7), nodes, np.full(80, np.log(14.0 / 80))
    )
    outputs["volume_element"] = models.log_volume_element(line[:4], models.Polynomial(3, 0.7))
    return outputs


@case("student_t")
def learned() -> Mapping[str, Any]:
    data = samples.rows(samples.FIRST, 1)
    learned = inference.learn_student_t(data, factors=(0.5, 1.0), noise_variance=(1.0, 10.0))
    estimator = inference.KernelStudentTDensity(noise_variance=1.0, factor=0.5)
    estimator.fit(samples.rows(samples.FIRST, 3))
    return {
        "scores": learned.scores.values,
        "criterion": learned.criterion,
        "log_density": learned.log_density([-1.0, 0.4, 6.0]),
        "typicality": learned.typicality([-1.0, 0.4, 6.0]),
        "estimator_scores": estimator.score_samples(grid(3)),
    }


def moments(draws: Any) -> dict[str, Any]:
    """Mean, standard deviation and quartiles over all draws, the first axes."""
    values = np.asarray(draws, dtype=float)
    values = values.reshape(-1, *values.shape[2:])
    return {
        "mean": values.mean(axis=0),
        "sd": values.std(axis=0),
        "quartiles": np.quantile(values, [0.25, 0.5, 0.75], axis=0),
    }


@case("student_t", slow=True)
def draws(seed: int) -> Mapping[str, Any]:
    data = samples.rows(samples.FIRST, 1)
    density = models.kernel_student_t(data, models.SquaredExponential(0.7), noise_variance=0.7)
    drawn = inference.sample_student_t(
        density, num_samples=50, num_chains=4, num_warmup=100, seed=seed, progress=False
    )
    fantasy = inference.fantasy_data(
        models.SquaredExponential(0.7), 12, (-4.0, 5.0), dimension=1, seed=seed, progress=False
    )
    return {
        **moments(drawn["posterior_predictive"]["x"].values),
        "fantasy_mean": np.mean(fantasy),
        "fantasy_sd": np.std(fantasy),
    }


@case("student_t", slow=True)
def hyperparameters(seed: int) -> Mapping[str, Any]:
    run = inference.student_t_posterior(
        samples.rows(samples.FIRST, 1),
        num_chains=2,
        num_warmup=50,
        num_samples=50,
        seed=seed,
        progress=False,
    )
    outputs = {}
    for name in sorted(run.posterior.data_vars):
        outputs |= named(name, moments(np.log(run.posterior[name].values)))
    predictive = inference.student_t_predictive(run, [-1.0, 0.4, 6.0], num_samples=20)
    return {**outputs, "predictive": np.mean(predictive, axis=0)}


# -- sampling -------------------------------------------------------------------------------------

QUIET = {"progress": False}


def run_outputs(run: Any, *groups: str) -> dict[str, Any]:
    """Moments of the log of every hyperparameter, and the log normalizer where there is one."""
    outputs = {}
    for name in sorted(run.posterior.data_vars):
        outputs |= named(name, moments(np.log(run.posterior[name].values)))
    for group in groups:
        outputs["log_normalizer"] = run[group].attrs["log_normalizer"]
    return outputs


def quadrature_run(seed: int = 0, data: Any = None, **options: Any) -> Any:
    """A run by quadrature on one column, or on other data."""
    method = inference.Quadrature(tolerance=1e-3, num_samples=200)
    data = samples.rows(samples.FIRST, 1) if data is None else data
    return inference.fit(data, method=method, seed=seed, **options, **QUIET)


@case("sampling")
def quadrature(seed: int) -> Mapping[str, Any]:
    run = quadrature_run(seed)
    weights = run["quadrature"]["weight"].values
    nodes = run["quadrature"]["unconstrained"].values.reshape(len(weights), -1)
    return {
        **run_outputs(run, "quadrature"),
        "posterior_mean_by_nodes": weights @ nodes / weights.sum(),
        "method": run.attrs["method"],
    }


@case("sampling", slow=True)
def quadrature_variants() -> Mapping[str, Any]:
    """Log normalizers of two samples, of rounded data, and of variants of the model."""
    first, second = samples.pair(1)
    plane = samples.rows(samples.FIRST, 2)
    runs = {
        "joint": quadrature_run(data=(first, second), samples="product"),
        "pooled": quadrature_run(data=(first, second), samples="pooled"),
        "rounded": quadrature_run(data=np.round(4.0 * first)),
        "noise": quadrature_run(noise_variance=dist.Uniform(0.05, 1.0)),
        "clt": quadrature_run(noise_variance="clt"),
        "matern": quadrature_run(kernel=models.Matern(1.5, 1.0)),
        "pooled_scale": quadrature_run(data=plane, standardize="pooled"),
        "no_scale": quadrature_run(data=plane, standardize=None),
        "nystrom": quadrature_run(data=samples.rows(120, 3), likelihood=models.Nystrom(30)),
        "landmark": quadrature_run(data=plane, likelihood=models.Landmark(6)),
    }
    return {name: run["quadrature"].attrs["log_normalizer"] for name, run in runs.items()}


def nuts_run(seed: int, data: Any, **options: Any) -> Any:
    """A short run of NUTS."""
    method = inference.Nuts(num_chains=2, num_warmup=60, num_samples=60)
    return inference.fit(data, method=method, seed=seed, **options, **QUIET)


@case("sampling", slow=True)
def nuts(seed: int) -> Mapping[str, Any]:
    """One lengthscale per column; the acceptance rate shows that steps are adapted."""
    prior = dist.Gamma(2.0 * jnp.ones(2), jnp.ones(2)).to_event(1)
    run = nuts_run(seed, samples.rows(samples.FIRST, 2), prior=prior)
    accepted = run["sample_stats"]["acceptance_rate"].values.mean()
    return {**run_outputs(run), "acceptance": accepted}


@case("sampling", slow=True)
def sequential_monte_carlo(seed: int) -> Mapping[str, Any]:
    prior = dist.Gamma(2.0 * jnp.ones(2), jnp.ones(2)).to_event(1)
    run = inference.fit(
        samples.rows(samples.FIRST, 2),
        prior=prior,
        method=inference.Smc(num_particles=200, num_repeats=2),
        seed=seed,
        **QUIET,
    )
    return run_outputs(run, "smc")


@case("sampling")
def saved_runs() -> Mapping[str, Any]:
    run = quadrature_run()
    with tempfile.TemporaryDirectory() as folder:
        inference.save_run(run, Path(folder) / "run.nc")
        loaded = inference.load_run(Path(folder) / "run.nc")
    opened = inference.open_run(loaded)
    posterior = run.posterior["lengthscale"].values
    return {
        "equal_draws": bool(np.array_equal(loaded.posterior["lengthscale"].values, posterior)),
        "log_density": opened.log_density({"lengthscale": np.array([0.8, 2.0])}),
    }


@case("sampling", slow=True)
def rows_of_files() -> Mapping[str, Any]:
    """Log normalizers from rows of a file and of an iterator, in one column and in two."""
    line, plane = samples.rows(600, 1), samples.rows(600, 2)
    method = inference.Quadrature(tolerance=1e-2)
    outputs = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "line.npy", line)
        np.save(Path(folder) / "plane.npy", plane)
        for name, rows, options in (
            ("file", inference.open_rows(Path(folder) / "line.npy"), {}),
            ("blocks", inference.open_blocks(np.array_split(line, 4)), {}),
            (
                "landmarks",
                inference.open_rows(Path(folder) / "plane.npy"),
                {"likelihood": models.Landmark(6)},
            ),
        ):
            run = inference.fit(rows, method=method, **options, **QUIET)
            outputs[name] = run["quadrature"].attrs["log_normalizer"]
    return outputs


# -- diagnostics ----------------------------------------------------------------------------------


@case("diagnostics")
def diagnosis() -> Mapping[str, Any]:
    run = quadrature_run()
    result, modes = inference.diagnose(run), inference.find_modes(run)
    return {
        "locations": [mode.location["lengthscale"] for mode in modes.modes],
        "log_density_below_highest": [mode.height for mode in modes.modes],
        "barriers": [mode.barrier for mode in modes.modes],
        "masses": [mode.mass for mode in result.modes.modes],
        "log_normalizer": result.integral.log,
        "multimodal": result.multimodal,
        "divergences": result.divergences,
    }


@case("diagnostics", slow=True)
def masses_of_chains(seed: int) -> Mapping[str, Any]:
    """Chains of NUTS on two clusters, whose modes get their masses by quadrature."""
    data = np.concatenate([samples.rows(25, 1), 9.0 + 0.5 * samples.rows(15, 1, stream=4)])
    run = nuts_run(seed, data)
    reweighted = inference.reweight(run, **QUIET)
    modes = inference.diagnose(reweighted).modes.modes
    return {
        "locations": [mode.location["lengthscale"] for mode in modes],
        "masses": [mode.mass for mode in modes],
        "log_normalizer": reweighted["quadrature"].attrs["log_normalizer"],
        "draws_in_a_mode": sum(mode.draws for mode in modes) > 0,
    }


@case("diagnostics", slow=True)
def masses_by_bridge_sampling(seed: int) -> Mapping[str, Any]:
    prior = dist.Gamma(2.0 * jnp.ones(3), jnp.ones(3)).to_event(1)
    run = nuts_run(seed, samples.rows(samples.FIRST, 3), prior=prior)
    reweighted = inference.reweight(run, seed=seed, **QUIET)
    return {"log_normalizer": reweighted["bridge"].attrs["log_normalizer"]}


# -- witness functions ----------------------------------------------------------------------------


def witness_outputs(tree: Any) -> dict[str, Any]:
    """Mean and standard deviation over draws at every point, and a band."""
    band = inference.credible_band(tree, 0.8)
    values = np.asarray(tree["witness"].values)
    return {
        "mean": band.mean,
        "sd": values.reshape(-1, values.shape[-1]).std(axis=0),
        "lower": band.lower,
        "upper": band.upper,
    }


@case("witness")
def posterior_witness(seed: int) -> Mapping[str, Any]:
    first, second = samples.pair(1)
    run = quadrature_run(data=(first, second))
    outputs = {}
    for name, options in (
        ("clt", {}),
        ("fixed_noise", {"noise": 0.1}),
        ("difference", {"of": "difference"}),
        ("landmarks", {"landmarks": samples.rows(9, 1, stream=3)}),
    ):
        tree = inference.sample_witness(run, first, second, grid(), seed=seed, **options, **QUIET)
        outputs |= named(name, witness_outputs(tree))
    return outputs


@case("witness", slow=True)
def witness_of_two_columns(seed: int) -> Mapping[str, Any]:
    first, second = samples.pair(2)
    run = quadrature_run(data=(first, second))
    tree = inference.sample_witness(run, first, second, grid(2), seed=seed, thin=20, **QUIET)
    return witness_outputs(tree)


@case("witness")
def witness_of_tests(seed: int) -> Mapping[str, Any]:
    first, second = samples.pair(1)
    test = two_samples(first, second, seed=0, kernel="median")
    tree = inference.sample_test_witness(test, first, second, grid(), seed=seed)
    x, y, _ = samples.dependent()
    test = inference.independence_test(
        x, y, kernel="median", n_resamples=N_RESAMPLES, sequential=False, **QUIET
    )
    at = (np.zeros((2, 1)), np.array([[0.0], [1.2]]))
    dependence_tree = inference.sample_dependence_witness(test, x, y, at, seed=seed)
    return {
        **witness_outputs(tree),
        **named("dependence", witness_outputs(dependence_tree)),
    }


# -- learning -------------------------------------------------------------------------------------


@case("learning")
def kernel_choices() -> Mapping[str, Any]:
    first, second = samples.pair(2)
    pooled = np.concatenate([first, second])
    return {
        "median": inference.select_kernel(pooled, "median").lengthscale,
        "median_unscaled": inference.select_kernel(pooled, "median", standardize=None).lengthscale,
        "marginal_likelihood": inference.select_kernel(pooled, "bkl").lengthscale,
    }


@case("learning")
def learned_kernel() -> Mapping[str, Any]:
    data = samples.rows(samples.FIRST, 1)
    outputs = {}
    for objective in ("ml", "map"):
        learned = inference.learn_kernel(data, objective=objective, starts=6, **QUIET)
        outputs[f"{objective}_lengthscale"] = learned.kernel.lengthscale
        outputs[f"{objective}_log_likelihood"] = learned.log_marginal_likelihood
        outputs[f"{objective}_peaks"] = [peak.log_marginal_likelihood for peak in learned.peaks]
        outputs[f"{objective}_curvature"] = learned.peaks[0].curvature
    outputs["gamma"] = learned.gamma
    return outputs


@case("learning", slow=True)
def compared_kernels(seed: int) -> Mapping[str, Any]:
    families = {"squared_exponential": models.SquaredExponential, "laplace": models.Laplace}
    result = inference.compare_kernels(
        samples.rows(samples.FIRST, 1), families, folds=2, particles=200, seed=seed, **QUIET
    )
    outputs = {}
    for name, score in result.scores.items():
        outputs[f"{name}_score"] = score.score
        outputs[f"{name}_held_out"] = score.relative_mse
    return outputs


# -- two-sample tests -----------------------------------------------------------------------------


def two_samples(first: Any, second: Any, seed: int, **options: Any) -> Any:
    """A two-sample test with few permutations."""
    options = {"n_resamples": N_RESAMPLES, "sequential": False, "seed": seed, **options}
    return inference.two_sample_test(first, second, **options, **QUIET)


def test_outputs(result: Any) -> dict[str, Any]:
    """Statistic, p-value and decision of any test."""
    outputs = {
        "statistic": result.statistic,
        "pvalue": result.pvalue,
        "reject": bool(result.reject),
        "exact": bool(result.exact),
    }
    if result.interval is not None:
        outputs["interval"] = result.interval
    if result.e_value is not None:
        outputs["e_value"] = result.e_value
    return outputs


def by_statistic(seed: int, first: Any, second: Any, statistics: list[Any]) -> Any:
    """Tests with each of the statistics, those of MMD by their kernels."""
    outputs = {}
    for statistic in statistics:
        name = statistic if isinstance(statistic, str) else type(statistic).__name__.lower()
        argument = "statistic" if name in ("combined", "bayes_factor") else "kernel"
        result = two_samples(first, second, seed, **{argument: statistic})
        outputs |= named(name, test_outputs(result))
    return outputs


@case("two_sample")
def statistics(seed: int) -> Mapping[str, Any]:
    every = ["combined", "multiscale", "bayes_factor", "bkl", "median", models.Laplace(1.2)]
    return by_statistic(seed, *samples.pair(1, shift=1.3), every)


@case("two_sample", slow=True)
def statistics_in_two_columns(seed: int) -> Mapping[str, Any]:
    every = ["combined", "multiscale", "bayes_factor", "bkl", "posterior", models.Distance()]
    return by_statistic(seed, *samples.pair(2, shift=2.5), every)


@case("two_sample")
def no_difference(seed: int) -> Mapping[str, Any]:
    rows = samples.rows(samples.FIRST + samples.SECOND, 1, stream=6)
    first, second = rows[: samples.FIRST], rows[samples.FIRST :]
    outputs = by_statistic(seed, first, second, ["combined", "median"])
    return {name: value for name, value in outputs.items() if not name.endswith("interval")}


@case("two_sample")
def null_distributions(seed: int) -> Mapping[str, Any]:
    first, second = samples.pair(1, shift=2.5)
    second = second[: len(first)]
    outputs = {}
    for name, options in (
        ("gamma", {}),
        ("spectrum", {}),
        ("normal", {}),
        ("normal_block", {"estimator": "block", "block_size": 8}),
    ):
        result = two_samples(
            first, second, seed, kernel="median", method=name.partition("_")[0], **options
        )
        outputs |= named(name, test_outputs(result))
    for name, options in {"biased": {"estimator": "biased"}, "paired": {"paired": True}}.items():
        result = two_samples(first, second, seed, kernel="median", **options)
        outputs |= named(name, test_outputs(result))
    first, second = samples.series(), samples.series(shift=1.5, stream=1)
    result = two_samples(
        first, second, seed, kernel="median", method="wild bootstrap", dependence_length=10
    )
    return outputs | named("wild_bootstrap", test_outputs(result))


@case("two_sample")
def locations(seed: int) -> Mapping[str, Any]:
    """Differences of mean embeddings at few locations, by permutations and by an F distribution."""
    first, second = samples.pair(1, shift=1.3)
    outputs = {}
    for method in ("permutation", "f"):
        result = inference.mean_embedding_test(
            first, second, method=method, n_resamples=N_RESAMPLES, seed=seed, locations=3
        )
        outputs |= named(method, test_outputs(result))
    return outputs


@case("two_sample")
def models_as_samples(seed: int) -> Mapping[str, Any]:
    """Goodness of fit of a sampler, and which of two samples is nearer to a third."""
    data = samples.rows(samples.FIRST, 1)
    first, second = samples.pair(1, shift=1.3)
    fit = inference.goodness_of_fit_test(
        data,
        lambda rng, count: 3.0 * rng.normal(size=(count, 1)),
        seed=seed,
        kernel="median",
        n_resamples=N_RESAMPLES,
        sequential=False,
        **QUIET,
    )
    nearer = inference.relative_similarity_test(data, first, second)
    return named("goodness", test_outputs(fit)) | named("relative", test_outputs(nearer))


@case("two_sample", slow=True)
def many_rows() -> Mapping[str, Any]:
    """Rows in bins: more than 131 072 in all, in memory and in partitions of Dask."""
    import dask.array

    rng = np.random.default_rng(81)
    first, second = rng.normal(size=(70_000, 2)), rng.normal(size=(66_000, 2))
    second[:, 1] += 0.7 * second[:, 0] ** 2 - 0.7
    result = two_samples(first, second, seed=0)
    parts = [dask.array.from_array(sample, chunks=(20_000, 2)) for sample in (first, second)]
    partitioned = two_samples(*parts, seed=0)
    return {
        "reject": bool(result.reject),
        "partitions_agree": result.pvalue == partitioned.pvalue,
    }


@case("two_sample")
def partitions(seed: int) -> Mapping[str, Any]:
    import dask.array

    first, second = samples.pair(2, shift=2.5)
    parts = [dask.array.from_array(sample, chunks=(13, 2)) for sample in (first, second)]
    return test_outputs(two_samples(*parts, seed, kernel="median"))


# -- comparisons of two samples -------------------------------------------------------------------


def compared(first: Any, second: Any, seed: int, **options: Any) -> Any:
    """A comparison with few permutations."""
    options = {"n_resamples": N_RESAMPLES, "sequential": False, "seed": seed, **options}
    return inference.compare(first, second, **options, **QUIET)


def comparison_outputs(result: Any) -> dict[str, Any]:
    """The test, the posterior of the difference, and how large it is."""
    outputs = {
        "pvalue": result.pvalue,
        "reject": bool(result.reject),
        "log_bayes_factor": result.log_bayes_factor,
        "posterior_probability": result.posterior_probability_of_difference,
        "lengthscale": result.lengthscale,
        "lengthscale_interval": np.stack(result.lengthscale_interval),
        "auc": result.auc,
        "auc_interval": result.auc_interval,
        "sizes": result.sizes,
    }
    # In the order of the names that were recorded.
    recorded_names = {"in one region": "at one place"}
    components = sorted(
        result.components, key=lambda component: recorded_names.get(component.name, component.name)
    )
    outputs["component_statistics"] = [component.statistic for component in components]
    outputs["pvalue_components"] = [component.pvalue for component in components]
    if result.minimum_detectable_shift is not None:
        outputs["minimum_detectable_shift"] = result.minimum_detectable_shift
    return outputs


def strongest_region(result: Any) -> dict[str, Any]:
    """The region with the smallest p-value."""
    region = result.regions[0]
    return {
        "center": region.center,
        "bandwidth": region.bandwidth,
        "sign": region.sign,
        "ratio": region.ratio,
        "ratio_interval": region.ratio_interval,
        "pvalue": region.pvalue,
    }


@case("comparison")
def regions(seed: int) -> Mapping[str, Any]:
    result = compared(*samples.bimodal_pair(), seed)
    at = grid()
    outputs = comparison_outputs(result) | named("region", strongest_region(result))
    witness, ratio = result.witness(at), result.density_ratio(at)
    return {
        **outputs,
        "region_interval": result.regions[0].intervals[0],
        "region_sign_at_points": result.region_sign(np.array([[-5.0], [2.0]])),
        "witness_mean": witness.mean,
        "witness_lower": witness.lower,
        "witness_simultaneous_upper": witness.wide_upper,
        "ratio_mean": ratio.mean,
        "ratio_lower": ratio.lower,
        "probability_mmd_exceeds": result.prob_mmd2_exceeds(0.01),
    }


@case("comparison")
def paired(seed: int) -> Mapping[str, Any]:
    first = samples.rows(samples.FIRST, 1)
    second = first + 0.4 + 0.2 * samples.rows(samples.FIRST, 1, stream=7)
    return comparison_outputs(compared(first, second, seed, paired=True))


@case("comparison")
def weighted(seed: int) -> Mapping[str, Any]:
    first, second = samples.pair(1, shift=1.3)
    weights = np.exp(-0.2 * first[:, 0])
    return comparison_outputs(compared(first, second, seed, weights=(weights, None)))


@case("comparison")
def three_columns(seed: int) -> Mapping[str, Any]:
    result = compared(*samples.pair(3, shift=2.5), seed)
    return comparison_outputs(result)


@case("comparison")
def similar_samples(seed: int) -> Mapping[str, Any]:
    """No difference is found: the smallest shift that would be is returned."""
    rows = samples.rows(samples.FIRST + samples.SECOND, 1, stream=6)
    result = compared(rows[: samples.FIRST], rows[samples.FIRST :], seed)
    return comparison_outputs(result) | {"regions": len(result.regions)}


@case("comparison")
def binary_labels(seed: int) -> Mapping[str, Any]:
    first, second = samples.pair(1, shift=1.3)
    result = compared(first, second, seed, labels="logit")
    chosen = compared(first, second, seed, kernel=models.Matern(2.5, 1.0))
    return {
        "log_bayes_factor": result.log_bayes_factor,
        "ratio": result.density_ratio(grid()).mean,
        "matern_log_bayes_factor": chosen.log_bayes_factor,
        "matern_lengthscale": chosen.lengthscale,
    }


@case("comparison")
def matched_weights() -> Mapping[str, Any]:
    first, second = samples.pair(2, shift=0.4)
    outputs = {}
    for moments_matched in (1, 2):
        result = inference.match_weights(first, second, moments=moments_matched)
        outputs |= named(
            f"{moments_matched}_moments",
            {
                "weights": result.values,
                "effective_sample_size": result.effective_size,
                "mmd": result.discrepancies,
                "expected_mmd": result.expected,
                "differences_before": [moment.before for moment in result.moments],
                "differences_after": [moment.after for moment in result.moments],
            },
        )
    return outputs


# -- dependence -----------------------------------------------------------------------------------


def independence(x: Any, y: Any, seed: int, **options: Any) -> dict[str, Any]:
    """An independence test with few permutations."""
    options = {"n_resamples": N_RESAMPLES, "sequential": False, "seed": seed, **options}
    return test_outputs(inference.independence_test(x, y, **options, **QUIET))


@case("dependence")
def independence_tests(seed: int) -> Mapping[str, Any]:
    x, y, _ = samples.dependent()
    outputs = {}
    for kernel in ("multiscale", "bkl", "median"):
        outputs |= named(kernel, independence(x, y, seed, kernel=kernel))
    for method in ("gamma", "spectrum"):
        outputs |= named(method, independence(x, y, seed, kernel="median", method=method))
    for method in ("wild bootstrap", "shift"):
        first = samples.series()
        second = first + samples.series(stream=1)
        result = independence(
            first, second, seed, kernel="median", method=method, dependence_length=10
        )
        outputs |= named(method.replace(" ", "_"), result)
    return outputs


@case("dependence")
def conditional_independence(seed: int) -> Mapping[str, Any]:
    x, y, z = samples.dependent()
    outputs = {}
    for name, arguments in (("given_z", (x, y, z)), ("given_y", (x, z, y))):
        result = inference.conditional_independence_test(
            *arguments,
            seed=seed,
            kernel="median",
            n_resamples=N_RESAMPLES,
            sequential=False,
            **QUIET,
        )
        outputs |= named(name, test_outputs(result))
    return outputs


@case("dependence")
def residuals() -> Mapping[str, Any]:
    x, y, z = samples.dependent()
    return {
        "smooth": inference.regress_out(x, z),
        "fixed_smoothness": inference.regress_out(y, z, smoothness=2.5),
    }


@case("dependence")
def causes(seed: int) -> Mapping[str, Any]:
    x, y, z = samples.dependent()
    graph = inference.causal_graph(
        np.hstack([x, y, z]),
        columns=("x", "y", "z"),
        kernel="median",
        n_resamples=N_RESAMPLES,
        seed=seed,
        **QUIET,
    )
    return {
        "edges": sorted(f"{edge.first} {edge.second}" for edge in graph.edges),
        "separated": len(graph.separations("x", "y")) > 0,
    }


# -- tables ---------------------------------------------------------------------------------------


def compared_tables(before: Any, after: Any, seed: int, **options: Any) -> Any:
    """A comparison of tables with few permutations."""
    options = {"n_resamples": N_RESAMPLES, "sequential": False, "seed": seed, **options}
    return inference.compare_tables(before, after, **options, **QUIET)


def table_outputs(result: Any) -> dict[str, Any]:
    """Overall and per column: types, p-values, decisions and sizes of changes."""
    outputs = {"pvalue": result.pvalue, "reject": bool(result.reject)}
    for column in result.columns:
        change = column.to_dict()["effect"]
        outputs[f"{column.name}_type"] = column.kind
        outputs[f"{column.name}_reject"] = bool(column.reject)
        outputs[f"pvalue_{column.name}"] = column.pvalue
        for key, name in (
            ("missing", "missing_fractions"),
            ("medians", "medians"),
            ("deviations", "standard_deviations"),
            ("auc", "auc"),
            ("auc_interval", "auc_interval"),
        ):
            if change.get(key) is not None and np.asarray(change[key]).dtype.kind in "iuf":
                outputs[f"{column.name}_{name}"] = change[key]
        levels = change.get("shares") or []
        outputs[f"{column.name}_levels"] = len(levels)
    pairs = sorted(result.pairs, key=lambda pair: pair.columns)
    outputs["pvalue_pairs"] = [pair.pvalue for pair in pairs]
    outputs["pair_associations"] = [pair.strengths for pair in pairs]
    return outputs


COLUMNS = ["age", "plan", "spent", "day"]


@case("tables")
def plain_tables(seed: int) -> Mapping[str, Any]:
    before, after = samples.tables()
    return table_outputs(compared_tables(before[COLUMNS], after[COLUMNS], seed))


@case("tables")
def designs(seed: int) -> Mapping[str, Any]:
    """Rows in clusters, in strata, with frequencies and with weights."""
    before, after = samples.tables()
    after = after.assign(user=after["user"] + 100)
    outputs = {}
    for name, column, option in (
        ("clusters", "user", "clusters"),
        ("strata", "site", "strata"),
        ("frequencies", "copies", "freq_weights"),
        ("weights", "weight", "weights"),
    ):
        columns = ["age", "plan", column]
        result = compared_tables(before[columns], after[columns], seed, **{option: column})
        outputs |= named(name, {"reject": bool(result.reject)})
        outputs[f"pvalue_{name}"] = result.pvalue
        outputs[f"pvalue_{name}_columns"] = [
            result_column.pvalue for result_column in result.columns
        ]
        age = next(
            result_column for result_column in result.columns if result_column.name == "age"
        ).to_dict()["effect"]
        outputs[f"{name}_auc"] = age["auc"]
        outputs[f"{name}_medians"] = age["medians"]
    return outputs


@case("tables")
def groups_of_one_table(seed: int) -> Mapping[str, Any]:
    before, after = samples.tables()
    table = pd.concat([before, after])[["age", "plan", "site"]]
    table = table.assign(age=table["age"] + 8.0 * (table["site"] == "west"))
    outputs = {}
    for name, rest in (("against_first", False), ("against_rest", True)):
        result = inference.compare_groups(
            table,
            "site",
            rest=rest,
            n_resamples=N_RESAMPLES,
            sequential=False,
            seed=seed,
            **QUIET,
        )
        outputs[f"{name}_reject"] = [bool(comparison.reject) for comparison in result.comparisons]
        outputs[f"pvalue_{name}"] = [comparison.pvalue for comparison in result.comparisons]
    return outputs


@case("tables")
def files_of_tables(seed: int) -> Mapping[str, Any]:
    """Cells as text: decimal commas, European dates, codes of missing values."""
    before, after = samples.tables()
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, frame in (("before", before), ("after", after)):
            text = frame[COLUMNS].assign(
                spent=[
                    "-999" if np.isnan(amount) else f"{amount:.2f}".replace(".", ",")
                    for amount in frame["spent"]
                ],
                day=frame["day"].dt.strftime("%d/%m/%Y"),
            )
            paths.append(Path(folder) / f"{name}.csv")
            text.to_csv(paths[-1], index=False, sep=";")
        result = compared_tables(
            *paths, seed, formats=["decimal commas", "day/month/year"], na_values=[-999]
        )
    return table_outputs(result)


# -- monitoring -----------------------------------------------------------------------------------


def monitor_outputs(state: Any) -> dict[str, Any]:
    """The state of a monitor."""
    outputs = {
        "rows": state.rows,
        "log_evidence": np.log(state.max_wealth),
        "log_e_value": np.log(state.e_value),
        "alarm": bool(state.alarm),
    }
    if state.alarm:
        outputs["alarm_row"] = state.alarm_row
        outputs["change_point"] = list(state.change_point[:3])
    return outputs


@case("monitoring")
def monitor_of_arrays(seed: int) -> Mapping[str, Any]:
    monitor = inference.Monitor(samples.rows(100, 2), seed=seed)
    quiet = monitor.update(samples.rows(150, 2, stream=8))
    outputs = named("before", monitor_outputs(quiet))
    with tempfile.TemporaryDirectory() as folder:
        monitor.to_file(Path(folder) / "state.json")
        monitor = inference.Monitor.from_file(Path(folder) / "state.json")
    changed = monitor.update(samples.rows(150, 2, stream=9) + np.array([1.5, 0.0]))
    return outputs | named("after", monitor_outputs(changed))


@case("monitoring")
def monitor_of_tables() -> Mapping[str, Any]:
    before, after = samples.tables()
    monitor = inference.Monitor(before[COLUMNS], seed=0)
    return monitor_outputs(monitor.update(after[COLUMNS]))


@case("monitoring")
def monitors(seed: int) -> Mapping[str, Any]:
    rng = np.random.default_rng(91)
    reference = pd.DataFrame({"site": np.repeat(["a", "b", "c"], 60), "x": rng.gamma(2, 1, 180)})
    new = reference.assign(x=rng.gamma(2, 1, 180) + 2.0 * (reference["site"] == "b"))
    result = inference.Monitors(reference, by="site", seed=seed)
    states = result.update(new)
    return {
        "log_e_values": [np.log(states[name].e_value) for name in ("a", "b", "c")],
        "changed": list(result.changed),
        "benjamini_hochberg": inference.e_bh([40.0, 0.5, 90.0, 1.0, 61.0], alpha=0.05),
    }


# -- chains ---------------------------------------------------------------------------------------


def chain_outputs(result: Any) -> dict[str, Any]:
    """Agreement of chains."""
    return {
        "pvalue": result.pvalue,
        "pvalue_between": result.pvalue_between,
        "agree": bool(result.agree),
        "rhat": result.rhat,
        "autocorrelation_time": result.autocorrelation_time,
        "pvalue_columns": [column.pvalue for column in result.columns],
        "pvalue_pairs": [pair.pvalue for pair in result.pairs],
    }


@case("chains")
def agreement(seed: int) -> Mapping[str, Any]:
    outputs = {}
    for name, shift in (("alike", 0.0), ("shifted", 1.0)):
        result = inference.compare_chains(
            samples.chains(shift), n_resamples=N_RESAMPLES, columns=("mu", "tau"), seed=seed
        )
        outputs |= named(name, chain_outputs(result))
    outputs["clusters"] = ["".join(map(str, cluster)) for cluster in result.clusters]
    return outputs


def normal_model(y: Any) -> None:
    """A NumPyro model of two parameters."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfNormal(5.0))
    numpyro.sample("y", dist.Normal(mu, tau), obs=y)


def normal_draws() -> tuple[Any, np.ndarray]:
    """Chains near the posterior of the model, made without a sampler; and its data."""
    y = 1.0 + samples.rows(samples.FIRST, 1)[:, 0]
    rng = np.random.default_rng(95)
    mu = y.mean() + y.std() / np.sqrt(len(y)) * rng.normal(size=(2, 150))
    tau = y.std() * np.exp(rng.normal(size=(2, 150)) / np.sqrt(2 * len(y)))
    return arviz_base.from_dict({"posterior": {"mu": mu, "tau": tau}}), y


@case("chains")
def stein_tests(seed: int) -> Mapping[str, Any]:
    draws, y = normal_draws()
    by_model = inference.stein_test(
        draws, inference.score_of(normal_model, y), bootstraps=N_RESAMPLES, seed=seed, **QUIET
    )
    rows = samples.rows(samples.FIRST, 2)
    by_function = inference.stein_test(
        rows,
        lambda x: -x / np.array([1.0, 4.0]),
        kernel="median",
        bootstraps=N_RESAMPLES,
        seed=seed,
        **QUIET,
    )
    return {
        **named("model", {"statistic": by_model.statistic, "pvalue": by_model.pvalue}),
        **named("function", test_outputs(by_function)),
        "contributions": [column.part for column in by_function.columns],
    }


@case("chains")
def thinning(seed: int) -> Mapping[str, Any]:
    draws = samples.chains()
    outputs = {}
    for name, options in (
        ("herding", {}),
        ("herding_weighted", {"weighted": True}),
        ("stein", {"score": lambda x: -x}),
    ):
        result = inference.thin(draws, 12, seed=seed, **options)
        outputs[f"{name}_indices"] = result.indices
        outputs[f"{name}_weights"] = result.weights
        outputs[f"{name}_discrepancy"] = result.discrepancy
    return outputs


@case("chains")
def predictive_check(seed: int) -> Mapping[str, Any]:
    rng = np.random.default_rng(96)
    observed = rng.gamma(2.0, 1.0, 40)
    tree = arviz_base.from_dict(
        {
            "posterior": {"mu": rng.normal(size=(2, 60))},
            "posterior_predictive": {"y": 4.0 + rng.normal(size=(2, 60, 40))},
            "observed_data": {"y": observed},
        }
    )
    result = inference.posterior_predictive_check(tree, replicates=99, seed=seed, **QUIET)
    return {"pvalue": result.pvalue, "reject": bool(result.result.reject)}


# -- likelihood-free inference --------------------------------------------------------------------

PRIOR = {"rate": dist.LogNormal(0.0, 1.0), "size": dist.Gamma(2.0, 1.0)}


def waiting_times(rng: np.random.Generator, theta: Mapping[str, Any]) -> Any:
    """A simulator of one data set."""
    return rng.gamma(theta["size"], 1.0 / theta["rate"], size=30)


@inference.vectorize
def vectorized_waiting_times(rng: np.random.Generator, theta: Mapping[str, Any]) -> Any:
    """A simulator of one data set for each parameter."""
    return rng.gamma(theta["size"], 1.0 / theta["rate"], size=(30, len(theta["rate"]))).T


@inference.jax_simulator
def jax_waiting_times(key: Any, theta: Mapping[str, Any]) -> Any:
    """A simulator in JAX."""
    return jax.random.gamma(key, theta["size"], (30, 1)) / theta["rate"]


OBSERVED = np.random.default_rng(97).gamma(3.0, 2.0, size=(30, 1))


def table_of(run: Any) -> dict[str, Any]:
    """Posterior means of every parameter, for the largest bandwidth."""
    table = inference.posterior_table(run).groupby("parameter").first()
    return {f"{name}_mean": table.loc[name, "mean"] for name in ("rate", "size")}


def rows_mean_and_sd(rows: np.ndarray) -> np.ndarray:
    """Summary statistics."""
    return np.array([rows.mean(), rows.std()])


@case("likelihood_free")
def rejection(seed: int) -> Mapping[str, Any]:
    options = {"num_simulations": 400, "batch_size": 200, "seed": seed, **QUIET}
    outputs = {}
    for name, simulate in (
        ("plain", waiting_times),
        ("vectorized", vectorized_waiting_times),
        ("jax", jax_waiting_times),
    ):
        run = inference.k2_abc(OBSERVED, simulate, PRIOR, **options)
        outputs |= named(name, table_of(run))
    larger = inference.with_epsilon(run, 0.5)
    outputs |= named("epsilon", table_of(larger))
    drawn = inference.resample(run, num_samples=200, seed=seed)
    outputs["resampled_rate"] = drawn.posterior["rate"].values.mean()
    for name, distance in (
        ("summaries", inference.Summaries(OBSERVED, rows_mean_and_sd)),
        ("mmd", inference.MMD(OBSERVED, "median", seed=0)),
    ):
        run = inference.abc(OBSERVED, vectorized_waiting_times, PRIOR, distance=distance, **options)
        outputs |= named(name, table_of(run))
    first, second = samples.pair(1)
    outputs["squared_mmd"] = inference.MMD(first, models.SquaredExponential(0.8)).squared(
        second[None]
    )
    return outputs


@case("likelihood_free", slow=True)
def sequential(seed: int) -> Mapping[str, Any]:
    options = {"num_particles": 100, "num_simulations": 1500, "seed": seed, **QUIET}
    kernel = inference.sequential_k2_abc(OBSERVED, vectorized_waiting_times, PRIOR, **options)
    distance = inference.Summaries(OBSERVED, rows_mean_and_sd)
    summaries = inference.sequential_abc(
        OBSERVED, vectorized_waiting_times, PRIOR, distance=distance, **options
    )
    return named("kernel", table_of(kernel)) | named("summaries", table_of(summaries))


@case("likelihood_free", slow=True)
def synthetic(seed: int) -> Mapping[str, Any]:
    run = inference.synthetic_likelihood(
        OBSERVED,
        vectorized_waiting_times,
        PRIOR,
        summaries=rows_mean_and_sd,
        simulations_per_point=30,
        num_chains=2,
        num_warmup=100,
        num_samples=150,
        seed=seed,
        **QUIET,
    )
    return {f"{name}_mean": np.log(run.posterior[name].values).mean() for name in PRIOR}


# -- regression -----------------------------------------------------------------------------------


@case("regression")
def distribution_regressor() -> Mapping[str, Any]:
    groups, target = samples.groups()
    outputs = {}
    for name, options in (("shrinkage", {}), ("plain", {"shrinkage": False})):
        regressor = inference.DistributionRegressor(landmarks=10, **options).fit(groups, target)
        interval = np.stack(regressor.predict_interval(groups[:4], level=0.9))
        result = {
            "prediction": regressor.predict(groups[:4]),
            "interval": interval,
            "explained": regressor.summary_.r2,
            "explained_by_ridge": regressor.summary_.ridge_r2,
            "held_out_sd": regressor.summary_.predicted_std[:5],
        }
        outputs |= named(name, result)
    return outputs


@case("regression", slow=True)
def regressor_by_nuts(seed: int) -> Mapping[str, Any]:
    groups, target = samples.groups()
    regressor = inference.DistributionRegressor(
        models.SquaredExponential(1.0),
        landmarks=6,
        method="nuts",
        num_chains=2,
        num_warmup=50,
        num_samples=50,
        seed=seed,
    ).fit(groups, target)
    return {"prediction": regressor.predict(groups[:4])}


# -- command line ---------------------------------------------------------------------------------


def command(*arguments: Any) -> dict[str, Any]:
    """Run a command in this process, and return the JSON that it prints and its exit status."""
    from bke.inference.cli import app
    from typer.testing import CliRunner

    result = CliRunner().invoke(app, [*map(str, arguments), "--json", "--quiet"])
    if result.exit_code not in (0, 3):
        raise RuntimeError(f"{arguments}: status {result.exit_code}: {result.stderr}")
    return {**json.loads(result.stdout), "exit_status": result.exit_code}


def chosen(answer: Mapping[str, Any], **keys: str) -> dict[str, Any]:
    """Outputs by name, from keys that are joined by dots where they are nested."""
    outputs = {"exit_status": answer["exit_status"]}
    for name, key in keys.items():
        value: Any = answer
        for part in key.split("."):
            value = value[int(part)] if isinstance(value, list) else value[part]
        outputs[name] = value
    return outputs


def write_samples(folder: str, columns: int = 1, shift: float = 1.3) -> tuple[str, str]:
    """Two files of samples, with columns a, b, ..."""
    first, second = samples.pair(columns, shift)
    header = ",".join("abc"[:columns])
    return (
        samples.write_csv(Path(folder) / "first.csv", first, header),
        samples.write_csv(Path(folder) / "second.csv", second, header),
    )


TEST_KEYS = {"statistic": "statistic", "pvalue": "pvalue", "reject": "reject"}
COMPARISON_KEYS = {
    "pvalue": "answer.pvalue",
    "reject": "answer.reject",
    "log_bayes_factor": "answer.log_bayes_factor",
    "auc": "answer.auc",
    "lengthscale": "answer.lengthscale",
    "region_center": "answer.regions.0.center",
    "region_ratio": "answer.regions.0.ratio",
}


@case("command_line")
def test_command(seed: int) -> Mapping[str, Any]:
    options = ("--permutations", N_RESAMPLES, "--seed", seed)
    with tempfile.TemporaryDirectory() as folder:
        files = write_samples(folder)
        answer = command("compare", *files, *options)
    return chosen(answer, **COMPARISON_KEYS)


@case("command_line")
def drift_command(seed: int) -> Mapping[str, Any]:
    before, after = samples.tables()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / "before.csv", Path(folder) / "after.csv"]
        before[COLUMNS].to_csv(paths[0], index=False)
        after[COLUMNS].to_csv(paths[1], index=False)
        answer = command("drift", *paths, "--permutations", N_RESAMPLES, "--seed", seed, "--fail")
    columns = {column["name"]: column for column in answer["columns"]}
    return {
        **chosen(answer, pvalue="pvalue", reject="reject", sizes="sizes"),
        "types": [columns[name]["kind"] for name in COLUMNS],
        "pvalue_columns": [columns[name]["pvalue"] for name in COLUMNS],
        "age_medians": columns["age"]["effect"]["medians"],
        "age_auc": columns["age"]["effect"]["auc"],
        "missing_fractions": columns["spent"]["effect"]["missing"],
    }


@case("command_line")
def monitor_command(seed: int) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        old = samples.write_csv(Path(folder) / "old.csv", samples.rows(100, 2), "a,b")
        rows = np.concatenate(
            [samples.rows(80, 2, 8), samples.rows(80, 2, 9) + np.array([1.5, 0.0])]
        )
        new = samples.write_csv(Path(folder) / "new.csv", rows, "a,b")
        answer = command("monitor", new, "--reference", old, "--seed", seed)
    return {
        **chosen(
            answer,
            rows="rows",
            alarm="alarm",
            alarm_row="alarm_row",
            change_point="change_point.row",
        ),
        "log_evidence": np.log(answer["max_wealth"]),
    }


QUICK = ("--method", "quadrature")


@case("command_line", slow=True)
def run_commands(seed: int) -> Mapping[str, Any]:
    """``run``, ``fit``, ``diagnose`` and ``witness``, on files that one leaves for the next."""
    with tempfile.TemporaryDirectory() as folder:
        files = write_samples(folder)
        run = command("run", *files, *QUICK, "--out", Path(folder) / "run", "--seed", seed)
        fitted = command("fit", *files, *QUICK, "--out", Path(folder) / "run.nc", "--seed", seed)
        diagnosed = command("diagnose", Path(folder) / "run.nc")
        command(
            "witness", Path(folder) / "run.nc", *files, "--out", Path(folder) / "w", "--seed", seed
        )
        files_of_witness = sorted(path.name for path in (Path(folder) / "w").iterdir())
    diagnosis_keys = {
        "log_normalizer": "diagnosis.log_normalizer",
        "mass": "diagnosis.modes.0.mass",
        "location": "diagnosis.modes.0.location.lengthscale",
    }
    return {
        **chosen(run, **COMPARISON_KEYS, **diagnosis_keys),
        **named("fit", chosen(fitted, **diagnosis_keys)),
        **named("diagnose", chosen(diagnosed, **diagnosis_keys)),
        "witness_is_written": "witness.nc" in files_of_witness,
    }


@case("command_line")
def chains_and_thin_commands(seed: int) -> Mapping[str, Any]:
    draws = samples.chains(1.0)
    tree = arviz_base.from_dict({"posterior": {"mu": draws[..., 0], "tau": draws[..., 1]}})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.nc"
        tree.to_netcdf(path, engine="h5netcdf")
        agreement_answer = command(
            "chains", path, "--permutations", N_RESAMPLES, "--seed", seed, "--fail"
        )
        thinned = command("thin", path, "--to", 12, "--seed", seed, "--out", Path(folder) / "few")
    return {
        **chosen(agreement_answer, pvalue="pvalue", agree="agree", rhat="rhat"),
        **named("thin", chosen(thinned, indices="indices", discrepancy="discrepancy")),
    }


@case("command_line", slow=True)
def density_command() -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        first, second = write_samples(folder)
        answer = command("density", first, "--at", second, "--out", Path(folder) / "density")
    return chosen(answer, log_density="log_density")


@case("command_line")
def dependence_commands(seed: int) -> Mapping[str, Any]:
    options = ("--permutations", N_RESAMPLES, "--seed", seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        samples.write_csv(path, np.hstack(samples.dependent()), "x,y,z")
        tested = command("independence", path, "--x", "x", "--y", "y", *options)
        conditional_on_y = command(
            "independence", path, "--x", "x", "--y", "z", "--given", "y", *options
        )
    return {
        **chosen(tested, **TEST_KEYS),
        **named("given", chosen(conditional_on_y, **TEST_KEYS)),
    }


MODEL = """
import numpyro.distributions as dist

prior = {"rate": dist.LogNormal(0.0, 1.0), "size": dist.Gamma(2.0, 1.0)}


def simulate(rng, theta):
    return rng.gamma(theta["size"], 1.0 / theta["rate"], size=30)
"""


@case("command_line")
def abc_command(seed: int) -> Mapping[str, Any]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.py").write_text(MODEL, encoding="utf-8")
        observed = samples.write_csv(folder / "observed.csv", OBSERVED, "wait")
        answer = command(
            "abc", folder / "model.py", observed, "--simulations", 300, "--seed", seed,
            "--out", folder / "run",
        )  # fmt: skip
    largest = {row["parameter"]: row for row in reversed(answer["posterior"])}
    return {
        f"{name}_{key}": row[key] for name, row in largest.items() for key in ("mean", "sd", "q50")
    }


@case("command_line")
def examples_command() -> Mapping[str, Any]:
    """Example data sets: numbers of rows, and the mean of every column."""
    outputs: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        command("examples", folder)
        for path in sorted(Path(folder).glob("*.csv")):
            table = pd.read_csv(path)
            outputs[f"{path.stem}_rows"] = len(table)
            outputs[f"{path.stem}_means"] = table.select_dtypes("number").mean().to_numpy()
    return outputs
