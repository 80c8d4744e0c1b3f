"""Conditional embeddings and the rules, against dense formulas, finite spaces and operators."""

from __future__ import annotations

import numpy as np
import pytest
from bke.models import (
    Dirac,
    JointEmbedding,
    Matern,
    Polynomial,
    SquaredExponential,
    bayes_rule,
    conditional_embedding,
    function_embedding,
    kernel_bayes_filter,
    mean_embedding,
    product_rule,
    sum_rule,
)
from bke.models.embeddings.conditional import (
    RidgeSpectrum,
    choose_regularization,
    low_rank_features,
)

K_X, K_Y = SquaredExponential(np.array([0.9, 1.6])), Matern(1.5, 0.7)
LAMBDA = 2e-3


@pytest.fixture(scope="module")
def pairs():
    rng = np.random.default_rng(11)
    X = rng.normal(size=(40, 2))
    return X, np.sin(2 * X[:, :1]) + 0.3 * X[:, 1:] ** 2 + 0.1 * rng.normal(size=(40, 1))


@pytest.fixture(scope="module")
def conditional(pairs):
    return conditional_embedding(*pairs, K_X, K_Y, regularization=LAMBDA)


def dense_weights(X, at):
    K = np.asarray(K_X(X))
    return np.linalg.solve(K + len(X) * LAMBDA * np.eye(len(X)), np.asarray(K_X(X, at)))


@pytest.mark.parametrize("regularization", [1e-2, 1e-4, 1e-6])
def test_weights_at_new_points_are_accurate_at_low_rank(regularization):
    rng = np.random.default_rng(0)
    X, at = rng.normal(size=(300, 1)), rng.normal(size=(200, 1))
    Y = np.sin(3.0 * X) + 0.1 * rng.normal(size=X.shape)
    kernel = SquaredExponential(0.5)
    learned = conditional_embedding(X, Y, kernel, K_Y, regularization=regularization)
    assert learned.features.rank < 50
    # Solved with every row, and refined in long double.
    matrix = np.asarray(kernel(X)) + len(X) * regularization * np.eye(len(X))
    solution = np.linalg.solve(matrix, Y).astype(np.longdouble)
    for _ in range(5):
        left = Y - matrix.astype(np.longdouble) @ solution
        solution += np.linalg.solve(matrix, left.astype(float))
    exact = np.asarray(kernel(at, X), dtype=np.longdouble) @ solution
    result = learned.expectation(at, normalized=False)
    np.testing.assert_allclose(result, exact.astype(float), atol=1e-9)
    prior = mean_embedding(at, kernel)
    mean = sum_rule(learned, prior).weights @ Y
    np.testing.assert_allclose(mean, exact.mean(axis=0).astype(float), atol=1e-9)


def test_finite_features_with_a_tiny_regularization():
    rng = np.random.default_rng(1)
    X, at = rng.normal(size=(200, 1)), rng.normal(size=(50, 1))
    Y = 1.0 + X - 0.5 * X**2
    learned = conditional_embedding(X, Y, Polynomial(2, 1.0), K_Y, regularization=1e-14)
    result = learned.expectation(at, normalized=False)
    np.testing.assert_allclose(result, 1.0 + at - 0.5 * at**2, rtol=1e-9, atol=1e-9)


def test_weights_are_those_of_the_review(pairs, conditional):
    at = np.array([[0.3, -0.2], [1.0, 2.0]])
    np.testing.assert_allclose(conditional.weights(at), dense_weights(pairs[0], at).T, atol=1e-11)
    np.testing.assert_allclose(conditional([0.3, -0.2]).weights, conditional.weights(at)[0])
    np.testing.assert_allclose(
        conditional.expectation(at, lambda y: y[:, 0] ** 2, normalized=False),
        dense_weights(pairs[0], at).T @ pairs[1][:, 0] ** 2,
        rtol=1e-9,
    )
    # Normalized, it moves with the origin of Y.
    moved = conditional.expectation(at, lambda y: y + 273.0)
    np.testing.assert_allclose(moved - 273.0, conditional.expectation(at), atol=1e-9)
    with pytest.raises(ArithmeticError, match="row 2 of x"):
        conditional.expectation([[0.0, 0.0], [1e9, 0.0]])


def test_the_variance_by_dense_matrices(pairs, conditional):
    X, Y = pairs
    smoother = dense_weights(X, X).T  # row i: the weights at x_i
    fitted = smoother @ Y / smoother.sum(axis=1, keepdims=True)
    squares = (Y - fitted) ** 2 / (1.0 - np.diag(smoother))[:, None]
    at = np.array([[0.3, -0.2], [-1.0, 0.4]])
    weights = dense_weights(X, at).T
    expected = weights @ squares / weights.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(conditional.variance(at), expected, rtol=1e-7)
    # Whatever the origin of Y: E[Y^2 | x] - m(x)^2 would be off by tens.
    moved = conditional_embedding(X, Y + 300.0, K_X, K_Y, regularization=LAMBDA)
    np.testing.assert_allclose(moved.variance(at), expected, rtol=1e-6)


def test_leave_one_out_score_by_refitting(pairs):
    X, Y = pairs
    L, added = np.asarray(K_Y(Y)), 0.07
    errors = []
    for j in range(40):
        rest = np.delete(np.arange(40), j)
        K = np.asarray(K_X(X[rest]))
        b = np.linalg.solve(K + added * np.eye(39), np.asarray(K_X(X[rest], X[j : j + 1])))[:, 0]
        errors.append(L[j, j] - 2 * b @ L[rest, j] + b @ L[np.ix_(rest, rest)] @ b)  # CME-5
    spectrum = RidgeSpectrum(low_rank_features(X, K_X).values, low_rank_features(Y, K_Y).values)
    assert spectrum.leave_one_out(added) == pytest.approx(np.mean(errors), rel=1e-9)


def test_the_marginal_likelihood_is_that_of_gaussian_processes(pairs):
    X, Y = pairs
    # Three outputs, explicit: -q/2 times the score is the profile log likelihood up to a constant.
    outputs = np.stack([Y[:, 0], Y[:, 0] ** 2, np.cos(Y[:, 0])], axis=1)
    spectrum = RidgeSpectrum(low_rank_features(X, K_X).values, outputs)

    def profile(added):
        C = np.asarray(K_X(X)) + added * np.eye(40)
        a = np.trace(outputs.T @ np.linalg.solve(C, outputs)) / (40 * 3)
        _, log_determinant = np.linalg.slogdet(a * C)
        return -0.5 * (3 * log_determinant + 40 * 3 + 3 * 40 * np.log(2 * np.pi))

    scores = [-1.5 * spectrum.negative_log_marginal_likelihood(added) for added in (0.003, 0.4)]
    assert scores[0] - scores[1] == pytest.approx(profile(0.003) - profile(0.4), rel=1e-9)


@pytest.mark.parametrize("choice", ["leave-one-out", "marginal-likelihood"])
def test_the_chosen_regularization_is_the_best_of_a_fine_grid(pairs, choice):
    X, Y = pairs
    Z_x, Z_y = low_rank_features(X, K_X).values, low_rank_features(Y, K_Y).values
    spectrum = RidgeSpectrum(Z_x, Z_y)
    score = {
        "leave-one-out": spectrum.leave_one_out,
        "marginal-likelihood": spectrum.negative_log_marginal_likelihood,
    }[choice]
    regularization, lowest = choose_regularization(Z_x, Z_y, choice)
    assert lowest <= min(score(added) for added in np.geomspace(1e-7, 1e2, 500)) + 1e-12
    assert lowest == pytest.approx(score(40 * regularization), rel=1e-12)
    learned = conditional_embedding(X, Y, K_X, K_Y, regularization=choice)
    assert learned.regularization == pytest.approx(regularization, rel=1e-6)
    # The minimum is inside of the range, n lambda from 1e-12 to 10 times the trace of K.
    assert 1e-11 < regularization * 40 / np.trace(np.asarray(K_X(X))) < 9.0


def test_features_give_back_the_gram_matrix_at_any_rank(pairs):
    X, _ = pairs
    exact = low_rank_features(X, K_X)
    np.testing.assert_allclose(exact.values @ exact.values.T, np.asarray(K_X(X)), atol=1e-13)
    np.testing.assert_allclose(exact(X), exact.values, atol=1e-7)
    for tolerance in (1e-2, 1e-5):
        low_rank = low_rank_features(X, K_X, tolerance=tolerance)
        left = np.asarray(K_X(X)) - low_rank.values @ low_rank.values.T
        assert low_rank.rank < 40
        assert np.linalg.eigvalsh(left).min() > -1e-13
        assert left.diagonal().max() <= tolerance
    rows = low_rank_features(X, K_X, rank=4)  # computed row by row, not by LAPACK
    np.testing.assert_allclose(rows.values, low_rank.values[:, :4], atol=1e-12)


def test_the_sum_and_product_rules(pairs, conditional):
    X, _ = pairs
    rng = np.random.default_rng(1)
    support, a = rng.normal(size=(6, 2)), np.array([0.5, 0.3, -0.1, 0.2, 0.05, 0.05])
    prior = mean_embedding(support, K_X, a)
    weights = dense_weights(X, support)
    np.testing.assert_allclose(sum_rule(conditional, prior).weights, weights @ a, atol=1e-10)
    joint = product_rule(conditional, prior)
    np.testing.assert_allclose(joint.coefficients, (weights * a).T, atol=1e-10)
    # The marginal of the rule is the sum rule, and expectations of products are traces.
    np.testing.assert_allclose(joint.marginal_y().weights, weights @ a, atol=1e-10)
    result = joint.expectation(lambda x, y: x[:, 0] * y[:, 0])
    assert result == pytest.approx(support[:, 0] * a @ (weights.T @ conditional.Y[:, 0]), rel=1e-9)
    at_x, at_y = np.array([[0.1, 0.2], [1.0, 1.0]]), np.array([0.3, -0.4])
    by_hand = np.diag(
        np.asarray(K_X(at_x, support)) @ joint.coefficients @ np.asarray(K_Y(conditional.Y, at_y))
    )
    np.testing.assert_allclose(joint(at_x, at_y), by_hand, rtol=1e-9)
    gram = np.kron(np.asarray(K_X(support)), np.asarray(K_Y(conditional.Y)))
    flat = joint.coefficients.ravel()
    assert joint.inner_product(joint) == pytest.approx(flat @ gram @ flat, rel=1e-9)
    assert isinstance(joint, JointEmbedding)


def test_bayes_rule_is_both_forms_of_the_literature(pairs, conditional):
    X, Y = pairs
    rng = np.random.default_rng(4)
    support, a = rng.normal(0.4, 0.6, size=(15, 2)), rng.normal(1 / 15, 0.05, 15)
    prior, delta, y = mean_embedding(support, K_X, a), 3e-3, np.array([0.2])
    G, k_y = np.asarray(K_Y(Y)), np.asarray(K_Y(Y, y))
    Omega = dense_weights(X, support) * a
    Lambda = np.diag(Omega.sum(axis=1))
    L = Lambda @ G
    slides = L @ np.linalg.solve(L @ L + delta * np.eye(40), Lambda @ k_y)[:, 0]
    result = bayes_rule(conditional, prior, regularization=delta)
    np.testing.assert_allclose(result.weights(y)[0], slides, atol=1e-9)
    KD = G @ Lambda
    review = Omega.T @ np.linalg.solve(KD @ KD + delta * np.eye(40), KD @ k_y)[:, 0]
    on_prior = bayes_rule(conditional, prior, regularization=delta, support="prior")
    np.testing.assert_allclose(on_prior.weights(y)[0], review, atol=1e-9)
    assert np.abs(slides).max() > 0.01
    # Evidence that is one point is that point.
    np.testing.assert_allclose(
        result.condition_on(mean_embedding(y, K_Y)).weights, slides, atol=1e-7
    )


def test_the_importance_weighted_rule_is_a_weighted_ridge_regression(pairs, conditional):
    """By the n x n formula of Xu et al. (2022), and by the regression that it minimizes."""
    X, Y = pairs
    rng = np.random.default_rng(4)
    # Its mean is at an edge of the sample, so that some density ratios are negative.
    prior = mean_embedding(rng.normal([1.2, -0.8], 0.3, size=(15, 2)), K_X)
    ratio = 40 * dense_weights(X, prior.points) @ prior.weights
    assert ratio.min() < -0.01
    ratio = np.maximum(ratio, 0.0)
    delta, y = 3e-3, np.array([0.2])
    G, k_y, root = np.asarray(K_Y(Y)), np.asarray(K_Y(Y, y))[:, 0], np.sqrt(ratio)
    inner = root[:, None] * G * root + 40 * delta * np.eye(40)
    expected = root * np.linalg.solve(inner, root * k_y)
    rule = bayes_rule(conditional, prior, method="importance", regularization=delta)
    np.testing.assert_allclose(rule.weights(y)[0], expected, atol=1e-9)
    posterior = rule(y)
    # E x minimizes sum r_i (x_i - g(y_i))^2 + n delta |g|^2, g a function of the space of K_Y.
    target = X[:, 0]
    coefficients = np.linalg.solve(ratio[:, None] * G + 40 * delta * np.eye(40), ratio * target)
    value = posterior.expectation(lambda points: points[:, 0])
    assert float(value) == pytest.approx(coefficients @ k_y, abs=1e-9)
    np.testing.assert_allclose(
        rule.condition_on(mean_embedding(y, K_Y)).weights, expected, atol=1e-7
    )
    default = bayes_rule(conditional, prior, method="importance")
    assert default.regularization == conditional.regularization
    with pytest.raises(ValueError, match="support='sample'"):
        bayes_rule(conditional, prior, method="importance", support="prior")
    with pytest.raises(ValueError, match="method must be"):
        bayes_rule(conditional, prior, method="weighted")


def test_the_importance_weighted_rule_of_normal_variables():
    """Posterior means N(0, 1) | y = x + noise 0.5, from pairs with x of N(0, 4); 20 seeds.

    The root mean squared error is below 0.06, and 0.02 of it is the sampling of 500 pairs.
    """
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = 2.0 * rng.normal(size=500)
        y = x + 0.5 * rng.normal(size=500)
        pairs = conditional_embedding(
            x, y, SquaredExponential(1.0), SquaredExponential(1.0), regularization=1e-3
        )
        prior = mean_embedding(rng.normal(size=500), pairs.kernel_x)
        rule = bayes_rule(pairs, prior, method="importance")
        errors += [float(rule(at).mean()[0]) - 0.8 * at for at in (-1.0, 0.5, 1.0)]
    assert np.sqrt(np.mean(np.square(errors))) < 0.06


#: Counts of (x, y), 3 by 4, all different; and another prior of x.
COUNTS = np.array([[5, 1, 2, 4], [1, 7, 3, 2], [6, 2, 1, 3]])
PRIOR = np.array([0.2, 0.5, 0.3])


@pytest.fixture(scope="module")
def table():
    x, y = np.repeat(np.indices((3, 4)).reshape(2, -1), COUNTS.ravel(), axis=1)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(x))
    return conditional_embedding(x[order], y[order], Dirac(), Dirac(), regularization=0)


def test_rules_are_exact_in_finite_spaces(table):
    conditional_x = COUNTS / COUNTS.sum(axis=1, keepdims=True)
    for x in range(3):
        np.testing.assert_allclose(table(x)([0, 1, 2, 3]), conditional_x[x], atol=1e-13)
    prior = mean_embedding([0, 1, 2], Dirac(), PRIOR)
    np.testing.assert_allclose(
        sum_rule(table, prior)([0, 1, 2, 3]), PRIOR @ conditional_x, atol=1e-13
    )
    joint = PRIOR[:, None] * conditional_x
    x, y = np.indices((3, 4)).reshape(2, -1)
    np.testing.assert_allclose(product_rule(table, prior)(x, y), joint.ravel(), atol=1e-13)
    for options in ({}, {"support": "prior"}, {"method": "importance"}):
        rule = bayes_rule(table, prior, regularization=0.0, **options)
        for observed in range(4):
            posterior = joint[:, observed] / joint[:, observed].sum()
            np.testing.assert_allclose(rule(observed)([0, 1, 2]), posterior, atol=1e-12)


def test_rules_match_explicit_operators_in_finite_features(pairs):
    X, Y = pairs[0], np.concatenate([pairs[1], pairs[0][:, :1] ** 3], axis=1)
    k, ell = Polynomial(2, 1.0), Polynomial(1, 0.5)

    def phi(X):
        a, b = X.T
        r = np.sqrt(2.0)
        return np.stack([a**2, b**2, r * a * b, r * a, r * b, np.ones_like(a)], axis=1)

    def psi(Y):
        return np.column_stack([Y, np.full(len(Y), np.sqrt(0.5))])

    n, lam, delta = 40, 0.01, 0.02
    C_xx, C_yx = phi(X).T @ phi(X) / n, psi(Y).T @ phi(X) / n
    operator = C_yx @ np.linalg.inv(C_xx + lam * np.eye(6))
    at, test = np.array([[0.4, -1.0]]), np.array([[0.3, 2.0], [-1.0, 0.5]])
    conditional = conditional_embedding(X, Y, k, ell, regularization=lam)
    np.testing.assert_allclose(conditional(at)(test), psi(test) @ operator @ phi(at)[0], rtol=1e-9)
    prior = mean_embedding([[0.2, 0.1], [1.0, -0.5]], k, [0.8, 0.3])
    mean = phi(prior.points).T @ prior.weights
    np.testing.assert_allclose(sum_rule(conditional, prior)(test), psi(test) @ operator @ mean)
    # KBR: the operators of Q by the sum rule on products of features, then (C_yy^2 + d)^-1 C_yy.
    weights = phi(X) @ np.linalg.solve(C_xx + lam * np.eye(6), mean) / n
    Q_yy = psi(Y).T @ (weights[:, None] * psi(Y))
    Q_xy = phi(X).T @ (weights[:, None] * psi(Y))
    observed = np.array([[0.1, 0.7]])
    expected = Q_xy @ np.linalg.solve(Q_yy @ Q_yy + delta * np.eye(3), Q_yy @ psi(observed)[0])
    rule = bayes_rule(conditional, prior, regularization=delta)
    np.testing.assert_allclose(rule(observed)(at), phi(at) @ expected, rtol=1e-8)


def test_functions_of_independent_variables():
    x = mean_embedding([1.0, 2.0], SquaredExponential(1.0), [0.25, 0.5])
    y = mean_embedding([[0.0, 1.0], [3.0, 0.0], [1.0, 1.0]], K_X, [0.2, 0.5, 0.3])
    kernel = Matern(2.5, 1.0)
    result = function_embedding(lambda x, y: x[:, 0] * y[:, 0] - y[:, 1], x, y, kernel=kernel)
    values = [-1.0, 3.0, 0.0, -1.0, 6.0, 1.0]
    weights = np.outer([1 / 3, 2 / 3], [0.2, 0.5, 0.3]).ravel()
    np.testing.assert_allclose(result.points[:, 0], values)
    np.testing.assert_allclose(result.weights, weights, rtol=1e-13)
    # The sum of two Gaussian samples has the embedding of their sum, to sampling error (seed 0;
    # 300 + 300 rows; the threshold is several times what 20 other seeds gave at most).
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 1.0, 300), rng.normal(-2.0, 0.5, 300)
    k = SquaredExponential(1.0)
    added = function_embedding(
        lambda a, b: a + b, mean_embedding(a, k), mean_embedding(b, k), kernel=k
    )
    at = np.linspace(-4.0, 2.0, 13)
    exact = np.exp(-0.5 * (at + 1.0) ** 2 / 2.25) / 1.5  # N(-1, 1.25) and a lengthscale of 1
    np.testing.assert_allclose(added(at), exact, atol=0.08)
    assert len(added.weights) == 300**2


def embed(weights=None, kernel=K_X):
    return mean_embedding(np.zeros((2, 2)), kernel, weights)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda X, Y, c: conditional_embedding(X, Y[:5], K_X, K_Y), "40 rows but Y has 5"),
        (
            lambda X, Y, c: conditional_embedding(X, Y, K_X, K_Y, regularization=-1.0),
            "at least 0",
        ),
        (lambda X, Y, c: conditional_embedding(X, Y, K_X, K_Y, regularization="cv"), "one of"),
        (lambda X, Y, c: c(X[:2]), "x must be one point"),
        (lambda X, Y, c: c.weights([[1.0, 2.0, 3.0]]), "3 columns"),
        (lambda X, Y, c: sum_rule(c, embed([0.0, 0.0])), "no weights that are not zero"),
        (lambda X, Y, c: sum_rule(c, embed(kernel=SquaredExponential(3.0))), "is needed"),
        (lambda X, Y, c: bayes_rule(c, embed(), support="both"), "support"),
        (lambda X, Y, c: bayes_rule(c, embed()).weights([[1.0, 2.0]]), "2 columns"),
        (lambda X, Y, c: low_rank_features(X, K_X, rank=0), "rank"),
        (lambda X, Y, c: low_rank_features(X, K_X, tolerance=2.0), "tolerance"),
        (lambda X, Y, c: function_embedding(np.sin, kernel=K_Y), "at least 1 variable"),
        (
            lambda X, Y, c: function_embedding(
                lambda a, b: a, *[mean_embedding(np.zeros((4000, 1)), K_Y)] * 2, kernel=K_Y
            ),
            "reduced_embedding",
        ),
    ],
)
def test_invalid_arguments(pairs, conditional, act, message):
    with pytest.raises(ValueError, match=message):
        act(*pairs, conditional)


def test_singular_operators():
    x = np.linspace(0.0, 1.0, 60)
    smooth = conditional_embedding(x, x, SquaredExponential(2.0), K_Y, regularization=0.0)
    with pytest.raises(ArithmeticError, match="raise regularization"):
        smooth.weights(0.3)
    no_first = mean_embedding([0, 1], Dirac(), [0.0, 1.0])
    never = conditional_embedding([0, 0, 1, 1], [0, 0, 1, 1], Dirac(), Dirac(), regularization=0.0)
    with pytest.raises(ArithmeticError, match="raise regularization"):
        bayes_rule(never, no_first, regularization=0.0).weights([0])


def test_masked_values_that_are_not_observed_are_skipped():
    rng = np.random.default_rng(0)
    X, kernel, observed = rng.normal(size=(20, 2)), SquaredExponential(1.0), [True, False, True]
    hidden = np.ma.array(X[:3], mask=[[0, 0], [1, 0], [0, 0]])
    filtering = kernel_bayes_filter(X[:, 0], X, kernel, kernel, regularization=0.1)
    skipped, expected = (filtering.filter(rows, observed=observed) for rows in (hidden, X[:3]))
    np.testing.assert_array_equal(skipped.mean(), expected.mean())
