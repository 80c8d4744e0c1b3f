"""KCI and its normalized variant: independent programs, local permutations, levels, bad input."""

import numpy as np
import pytest
from bke.inference import InputError, causal_graph, conditional_independence_test
from bke.inference.testing import kernel_conditional_independence
from bke.inference.testing.kernel_conditional_independence import (
    CLUSTER_ROWS,
    RIDGE,
    _objective,
    gamma_limit,
    local_clusters,
    permuted_kci,
    permuted_normalized,
    residual_gram,
    residual_operator,
)
from bke.models import SquaredExponential
from scipy.optimize import check_grad
from scipy.spatial.distance import cdist
from scipy.stats import gamma

RNG = np.random.default_rng(0)
N = 60
Z = RNG.normal(size=(N, 2))
X = np.sin(2 * Z[:, 0]) + 0.5 * RNG.normal(size=N)
Y = Z[:, 0] ** 2 + 0.5 * RNG.normal(size=N)
STANDARDIZED = (Z - Z.mean(axis=0)) / Z.std(axis=0)
KERNELS = (SquaredExponential(0.7), SquaredExponential(0.5), SquaredExponential(1.1))
QUIET = {"progress": False}
LOCAL = {"method": "local permutation", "n_resamples": 99, **QUIET}
GAMMA = {"method": "gamma", **QUIET}


def gram_of(values, lengthscale):
    values = np.reshape(values, (len(values), -1))
    return np.exp(-0.5 * cdist(values, values, "sqeuclidean") / lengthscale**2)


GRAMS = [gram_of(values, length) for values, length in ((X, 0.7), (Y, 0.5), (Z, 1.1))]


def operator_of(lengthscale, epsilon):
    return epsilon * np.linalg.inv(gram_of(Z, lengthscale) + epsilon * np.eye(N))


def kci_by_definition(K, L, operator_x, operator_y):
    """Compute the statistic and the gamma p-value by eigenvectors and their products."""
    H = np.eye(N) - 1.0 / N
    residuals = []
    for matrix, operator in ((K, operator_x), (L, operator_y)):
        values, vectors = np.linalg.eigh(operator @ H @ matrix @ H @ operator)
        residuals.append(vectors * np.sqrt(np.maximum(values, 0.0)))
    psi, phi = residuals
    statistic = sum((psi[:, i] @ phi[:, j]) ** 2 for i, j in np.ndindex(N, N)) / N
    products = np.array([np.outer(psi[t], phi[t]).ravel() for t in range(N)])
    eigenvalues = np.linalg.svd(products, compute_uv=False) ** 2
    mean, variance = eigenvalues.sum() / N, 2.0 * np.sum(eigenvalues**2) / N**2
    return statistic, gamma.sf(statistic, mean**2 / variance, scale=variance / mean)


def test_kci_equals_its_definition_and_causal_learn():
    of_xz, of_y = GRAMS[0] * GRAMS[2], GRAMS[1]
    operators = operator_of(0.8, 0.3), operator_of(1.7, 0.05)
    statistic, limit = gamma_limit(
        residual_gram(of_xz, operators[0]), residual_gram(of_y, operators[1])
    )
    expected, pvalue = kci_by_definition(of_xz, of_y, *operators)
    assert statistic == pytest.approx(expected, rel=1e-9)
    assert limit.sf(statistic) == pytest.approx(pvalue, rel=1e-6)
    module = pytest.importorskip("causallearn.utils.KCI.KCI")
    program = module.KCI_CInd(use_gp=True)
    program.epsilon_x, program.epsilon_y = 0.3, 0.05
    H = np.eye(N) - 1.0 / N
    value, *residuals = program.KCI_V_statistic(
        H @ of_xz @ H, H @ of_y @ H, gram_of(Z, 0.8), gram_of(Z, 1.7)
    )
    shape, scale = program.get_kappa(program.get_uuprod(*residuals)[0])
    assert statistic == pytest.approx(value / N, rel=1e-9)
    # It leaves out eigenvalues below 1e-5 of the largest.
    assert limit.sf(statistic) == pytest.approx(gamma.sf(value, shape, scale=scale), rel=1e-3)


@pytest.mark.filterwarnings("ignore:The optimal value found for dimension")
def test_regression_equals_scikit_learn():
    """Its Gaussian process of all features with non-zero eigenvalues."""
    process = pytest.importorskip("sklearn.gaussian_process")
    kernels = process.kernels
    H = np.eye(N) - 1.0 / N
    values, vectors = np.linalg.eigh(H @ GRAMS[1] @ H)
    features = vectors[:, values > 1e-8] * np.sqrt(values[values > 1e-8])
    smooth = kernels.ConstantKernel(0.1) * kernels.RBF([1.0, 1.0], (1e-2, 1e3))
    kernel = smooth + kernels.WhiteKernel(0.1)
    regressor = process.GaussianProcessRegressor(kernel).fit(STANDARDIZED, features)
    expected = features - regressor.predict(STANDARDIZED)
    operator = residual_operator(GRAMS[1], STANDARDIZED, "Y given Z", 0)
    difference = operator @ features - expected
    assert np.linalg.norm(difference) < 1e-3 * np.linalg.norm(expected)
    assert np.linalg.norm(expected) < 0.9 * np.linalg.norm(features)


def test_gradient_of_the_likelihood():
    arguments = GRAMS[1], (Z.T[:, :, None] - Z.T[:, None]) ** 2
    point = np.log([0.7, 2.0, 0.3])
    error = check_grad(
        lambda logs: _objective(*arguments, logs)[0],
        lambda logs: _objective(*arguments, logs)[1],
        point,
    )
    assert error < 1e-4 * np.linalg.norm(_objective(*arguments, point)[1])


def test_the_statistic_uses_the_learned_regressions():
    result = conditional_independence_test(
        X, Y, Z, statistic="kci", method="gamma", kernel=KERNELS, standardize=None, **QUIET
    )
    of_xz = GRAMS[0] * GRAMS[2]
    operators = [residual_operator(K, STANDARDIZED, "", 0) for K in (of_xz, GRAMS[1])]
    statistic, pvalue = kci_by_definition(of_xz, GRAMS[1], *operators)
    assert result.statistic == pytest.approx(statistic, rel=1e-4)
    assert result.pvalue == pytest.approx(pvalue, rel=1e-3)
    assert result.kernel == KERNELS
    assert not result.exact
    assert "gamma limit" in str(result)


def test_permuted_statistic_equals_that_of_permuted_data():
    rows = RNG.permutation(N)
    operator = operator_of(0.8, 0.3)
    statistic, _ = permuted_kci(*GRAMS, operator)
    for order in (np.arange(N), rows):
        of_xz = gram_of(X[order], 0.7) * GRAMS[2]
        expected, _ = kci_by_definition(of_xz, GRAMS[1], operator, operator)
        assert statistic(order) == pytest.approx(expected, rel=1e-9)
    identity, _ = permuted_kci(*GRAMS, np.eye(N))
    H = np.eye(N) - 1.0 / N
    hsic = np.trace(H @ (GRAMS[0] * GRAMS[2]) @ H @ GRAMS[1]) / N**2
    assert identity(np.arange(N)) == pytest.approx(N * hsic, rel=1e-9)


def test_normalized_statistic_of_linear_kernels_equals_that_of_covariance_matrices():
    """The operators of (4.26) are matrices: x of two columns, y of three, z of two."""
    first, second = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 3))
    first += Z
    second[:, :2] += Z @ [[1.0, 0.5], [0.0, 2.0]] + 0.3 * first
    epsilon, ridge = 0.2, RIDGE * N**-0.25
    K, L, M = (values @ values.T for values in (first, second, Z - Z.mean(axis=0)))
    operator = np.eye(N) - M @ np.linalg.inv(M + N * epsilon * np.eye(N))
    statistic, magnitude = permuted_normalized(K, L, np.ones((N, N)), operator)

    def inverse_root(C):
        values, vectors = np.linalg.eigh(C + ridge * np.eye(len(C)))
        return vectors / np.sqrt(values) @ vectors.T

    rows = RNG.permutation(N)
    for order in (np.arange(N), rows):
        x, y, z = (values - values.mean(axis=0) for values in (first[order], second, Z))
        inverse = np.linalg.inv(z.T @ z / N + epsilon * np.eye(2))
        conditional = (y.T @ x - y.T @ z @ inverse @ (z.T @ x) / N) / N
        V = inverse_root(y.T @ y / N) @ conditional @ inverse_root(x.T @ x / N)
        assert statistic(order) == pytest.approx(np.sum(V**2), rel=1e-8)
        assert statistic(order) < magnitude


def test_clusters_depend_on_z_alone_and_are_small():
    clusters = local_clusters(STANDARDIZED)
    sizes = np.bincount(clusters)
    assert sizes.min() >= CLUSTER_ROWS - 1
    assert sizes.max() < 2 * CLUSTER_ROWS
    order = RNG.permutation(N)
    shuffled = local_clusters(STANDARDIZED[order])
    assert np.all((shuffled[:, None] == shuffled) == (clusters[order][:, None] == clusters[order]))
    within = [np.ptp(Z[clusters == number], axis=0).max() for number in range(len(sizes))]
    assert np.median(within) < 0.5 * np.ptp(Z, axis=0).max()


def test_equal_rows_are_clusters_and_rare_ones_join_others():
    z = np.array([[0.0, 1.0]] * 20 + [[0.0, 2.0]] * 7 + [[1.0, 1.0]] * 30 + [[5.0, 5.0]])
    clusters = local_clusters(z)
    assert sorted(np.bincount(clusters)) == [1, 7, 20, 30]
    assert all(len(np.unique(z[clusters == number], axis=0)) == 1 for number in range(4))
    few = local_clusters(np.arange(9.0)[:, None])
    assert len(set(few)) == 1
    assert sorted(np.bincount(local_clusters(np.arange(10.0)[:, None]))) == [5, 5]


@pytest.mark.parametrize("statistic", ["kci", "normalized"])
def test_local_permutations(statistic):
    """Seed of the module: an effect of 1.5 x, and none."""
    null = conditional_independence_test(X, Y, Z, statistic=statistic, **LOCAL)
    assert null.pvalue > 0.05
    assert not null.exact
    assert "within" in null.method
    other = conditional_independence_test(X, Y + 1.5 * X, Z, statistic=statistic, **LOCAL)
    assert other.pvalue <= 0.05
    strata = RNG.integers(3, size=N)
    assert conditional_independence_test(X, Y, strata, statistic=statistic, **LOCAL).exact


@pytest.mark.parametrize("method", ["gamma", "local permutation"])
def test_the_order_of_rows_and_units_do_not_matter(method):
    options = {"statistic": "kci", **LOCAL, "method": method}
    expected = conditional_independence_test(X, Y, Z, **options).pvalue
    order = RNG.permutation(N)
    again = conditional_independence_test(
        3.0 * X[order], Y[order] - 5.0, Z[order] * [1.0, 100.0], **options
    ).pvalue
    assert again == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("statistic", ["kci", "normalized"])
def test_order_and_units_of_columns_do_not_matter(statistic):
    """Both columns of z have the same range, so that clusters are divided at ties."""
    z = np.array(list(np.ndindex(7, 7)), dtype=float)
    options = {"statistic": statistic, **LOCAL}
    expected = conditional_independence_test(X[:49], Y[:49], z, **options)
    again = conditional_independence_test(X[:49], Y[:49], z[:, ::-1] * [0.1, 3.0], **options)
    assert again.null_distribution == pytest.approx(expected.null_distribution, rel=1e-4)


def test_regression_is_the_same_for_permutations_of_x(monkeypatch):
    """It is learned from a subsample of the rows, and permutations of x are exact."""
    operators = []

    def record(*arguments):
        operators.append(residual_operator(*arguments))
        return operators[-1]

    monkeypatch.setattr(kernel_conditional_independence, "LEARNED_ROWS", 20)
    monkeypatch.setattr(kernel_conditional_independence, "residual_operator", record)
    rng = np.random.default_rng(0)
    z, first = np.digitize(Z[:, 0], [-0.5, 0.5]), rng.normal(size=(N, 30))
    permuted = first.copy()
    for value in range(3):
        permuted[z == value] = rng.permutation(first[z == value])
    for x in (first, permuted):
        assert conditional_independence_test(x, Y, z, statistic="kci", **LOCAL).exact
    assert np.array_equal(*operators)


def test_few_rows_have_a_p_value():
    few = conditional_independence_test(X[:5], Y[:5], Z[:5, 0], statistic="kci", **LOCAL)
    assert "1 cluster" in few.method
    assert not few.exact
    fewer = conditional_independence_test(X[:3], Y[:3], Z[:3, 0], statistic="kci", **LOCAL)
    assert "in 6 ways only" in fewer.notes[0]


@pytest.mark.slow
def test_a_variance_that_changes_with_z():
    """20 sets of 100 rows, seed 1: at level 0.05 residuals reject most, KCI at most 5.

    KCI exceeds 5 once in 3000 at level 0.05.
    """
    pytest.importorskip("sklearn")
    rng, rejected = np.random.default_rng(1), np.zeros(2, dtype=int)
    for seed in range(20):
        z = rng.normal(size=100)
        x, y = np.exp(z) * rng.normal(size=(2, 100))
        rejected += [
            conditional_independence_test(
                x, y, z, statistic=s, kernel="median", seed=seed, **o
            ).reject
            for s, o in (("residuals", {"n_resamples": 99, **QUIET}), ("kci", GAMMA))
        ]
    assert rejected[0] >= 10
    assert rejected[1] <= 5


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["kci", "normalized"])
def test_the_exact_level_of_strata(statistic):
    """100 sets of 30 rows, seed 2, level 0.1: at most 23 rejected but 1 in 17 000."""
    rng, pvalues = np.random.default_rng(2), []
    for seed in range(100):
        z = np.repeat([0.0, 1.0, 3.0], 10)
        x, y = z + (1.0 + z) * rng.exponential(size=(2, 30))
        options = {**LOCAL, "n_resamples": 19, "seed": seed}
        pvalues.append(conditional_independence_test(x, y, z, statistic=statistic, **options))
    assert all(result.exact for result in pvalues)
    assert sum(result.pvalue <= 0.1 for result in pvalues) <= 23
    assert np.mean([result.pvalue for result in pvalues]) > 0.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"statistic": "hsic"}, "statistic must be one of"),
        ({"statistic": "normalized", "method": "gamma"}, "pass method='local permutation'"),
        ({"method": "permutation"}, "method must be one of"),
        ({"method": "local permutation", "statistic": "residuals"}, "requires statistic='kci'"),
        ({"kernel": "multiscale"}, "kernel must be a kernel or one of"),
        ({"kernel": ("median", "median")}, "one for all variables or a tuple of 3, got 2"),
        ({"n_resamples": 10}, "cannot reject at level"),
        ({"Y": Y[:10]}, "X has 60 rows but Y has 10"),
        ({"Z": np.ones(N)}, "all are equal"),
        ({"Y": np.where(np.arange(N) == 3, np.nan, Y)}, "Y"),
        (
            {"Y": np.linspace(0.0, 1.0, N) ** 2, "Z": np.linspace(0.0, 1.0, N)},
            "Y given Z: .* nothing is left",
        ),
        ({"Z": np.column_stack([Z, np.ones(N)])}, "Z has the same value .* drop that column"),
        ({"Z": np.empty((N, 0))}, "Z has no columns"),
    ],
)
def test_bad_input(arguments, message):
    variables = [arguments.pop(name, values) for name, values in (("X", X), ("Y", Y), ("Z", Z))]
    with pytest.raises(InputError, match=message):
        conditional_independence_test(*variables, **{"statistic": "kci", **QUIET, **arguments})


def test_unknown_options_are_refused():
    with pytest.raises(TypeError, match="unexpected keyword argument 'kernels'"):
        conditional_independence_test(X, Y, Z, statistic="kci", kernels="median")


def test_a_causal_graph_by_kci():
    pytest.importorskip("causallearn")
    data = np.column_stack([X, Y, Z[:, 0]])
    options = {"kernel": "median", "n_resamples": 99, **QUIET}
    graph = causal_graph(data, columns=("x", "y", "z"), test="kci", **options)
    test = graph.source.test("y", "x", ("z",))
    expected = conditional_independence_test(X, Y, Z[:, 0], statistic="kci", **LOCAL)
    assert test.pvalue == pytest.approx(expected.pvalue, rel=1e-9)
    assert graph.again(progress=False) == graph
    with pytest.raises(InputError, match="kernel must be"):
        graph.again(kernel="multiscale")
    data[:, 1] = np.linspace(0.0, 1.0, N) ** 2
    data[:, 2] = np.linspace(0.0, 1.0, N)
    source = causal_graph(data, columns=("x", "y", "z"), test="kci", most_given=0, **options).source
    with pytest.raises(InputError, match=r"x \(X\) and y \(Y\) given z \(Z\): Y given Z"):
        source.test("x", "y", ("z",))
    with pytest.raises(InputError, match="test must be one of"):
        causal_graph(data, test="partial correlation", **options)
