"""Padded rows do not change results, and data of similar size use the same programs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import Gaussian, Laplace, Matern, SquaredExponential
from bke.models.likelihood.dense import DenseSolver, dense_terms, low_rank_factor
from bke.models.likelihood.marginal import likelihood_solver
from bke.models.likelihood.spectral import spectral_index
from bke.models.linalg.rows import PaddedRows, dense_size, padded, shared_size
from bke.models.numpyro_models import bke_model
from numpyro.infer.util import log_density

pytestmark = pytest.mark.usefixtures("x64")


RNG = np.random.default_rng(0)
#: The last row is one of the data, has an equal, and is not in the middle of them.
X = np.concatenate([RNG.gamma(2.0, size=(80, 3)), np.full((2, 3), 9.0)])
KERNELS = [
    SquaredExponential(1.3),
    SquaredExponential(np.array([0.4, 1.3, 20.0])),
    Laplace(0.7),
    SquaredExponential(0.5) + SquaredExponential(2.0) * 0.3,
]


def with_rows(size):
    """The data in that many rows, the others far from a copy of the last."""
    rows = padded(X, size)
    points = rows.points.copy()
    points[len(X) :] += RNG.normal(size=(size - len(X), 3))
    return jax.tree.map(jnp.asarray, PaddedRows(points, rows.count))


def gradients(rows, kernel, noise_variance, **options):
    def terms(kernel, noise_variance):
        return jnp.stack(dense_terms(rows, kernel, noise_variance, **options))

    leaves = jax.jacfwd(terms, argnums=(0, 1))(kernel, noise_variance)
    return terms(kernel, noise_variance), *jax.tree.leaves(leaves)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "measure", "low_rank"),
    [
        *((kernel, measure, False) for kernel in KERNELS for measure in ("unit", "lebesgue")),
        (SquaredExponential(1.3), Gaussian(5.0), False),
        (SquaredExponential(40.0), "unit", True),
    ],
)
def test_padding_does_not_change_terms_and_gradients(kernel, measure, low_rank, monkeypatch):
    monkeypatch.setattr(DenseSolver, "min_low_rank_size", 50)
    kernel, rows = jax.tree.map(jnp.asarray, kernel), with_rows(97)
    if low_rank:
        assert low_rank_factor(rows, kernel.smoothed("unit", 3), 0.2)[1]
    unpadded = gradients(jnp.asarray(X), kernel, 0.2, measure=measure, low_rank=False)
    padded_rows = gradients(rows, kernel, 0.2, measure=measure, low_rank=low_rank)
    assert len(unpadded) > 2
    for result, expected in zip(padded_rows, unpadded, strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9 if low_rank else 1e-11)


def test_no_derivative_in_padded_data():
    rows = with_rows(97)

    def moved(points):
        terms = dense_terms(PaddedRows(points, rows.count), KERNELS[0], 0.2, "unit", low_rank=False)
        return terms.gaussian

    with pytest.raises(NotImplementedError, match="in the data"):
        jax.eval_shape(jax.grad(moved), rows.points)  # refused before anything is computed


@pytest.mark.slow
@pytest.mark.parametrize(
    "kernel",
    [
        SquaredExponential(0.4),
        SquaredExponential(0.02),
        Matern(2.5, 0.4),
        SquaredExponential(0.4) + SquaredExponential(3.0),
    ],
)
def test_samples_of_a_single_column_use_the_same_program(kernel):
    """Among 513 to 544 rows there is one program, and as many rows as data change no value."""
    compiled = jax.jit(lambda index, *at: index.likelihood_terms(*at, "unit"))
    x = np.random.default_rng(1).normal(size=(544, 1))
    for n in (513, 530, 544):
        index = jax.tree.map(jnp.asarray, spectral_index(x[:n], kernel))
        assert len(index.rows) == 544
        result = compiled(index, kernel, 0.1)
        expected = dense_terms(jnp.asarray(x[:n]), kernel, 0.1, "unit", low_rank=False)
        np.testing.assert_allclose(result, expected, rtol=1e-9)
    assert compiled._cache_size() == 1


def test_sizes():
    assert [dense_size(n) for n in (1, 16, 17, 511, 512, 513)] == [16, 16, 32, 512, 512, 513]
    assert [shared_size(n) for n in (1, 17, 33, 600, 1_000_000)] == [1, 17, 34, 608, 1_015_808]
    n = np.arange(1, 5000)
    sizes = np.array([shared_size(k) for k in n])
    assert np.all(sizes >= n)
    assert np.all(sizes - n < np.maximum(1, n / 16))


def test_which_data_are_padded():
    x, kernel = X[:70], SquaredExponential(1.0)
    known = likelihood_solver(x, kernel, 0.1, "unit", "auto")
    assert isinstance(known, DenseSolver)
    assert len(known.rows) == 80
    assert (known.entries, known.matrix_size) == (80**2, 70)
    np.testing.assert_array_equal(known.rows.data, x)
    # With a sampling covariance, or where the data are traced, rows are what they are.
    assert len(likelihood_solver(x, kernel, "clt", "unit", "dense").rows) == 70

    @jax.jit
    def traced(x):
        assert len(likelihood_solver(x, kernel, 0.1, "unit", "dense").rows) == 70

    traced(x)


@pytest.mark.slow
def test_model_accepts_prepared_padded_rows():
    values = {"lengthscale": jnp.asarray(0.7)}
    rows = DenseSolver(jax.tree.map(jnp.asarray, padded(X, 97)), False)
    result, expected = (log_density(bke_model, (x,), {}, values)[0] for x in (rows, X))
    np.testing.assert_allclose(result, expected, rtol=1e-12)
