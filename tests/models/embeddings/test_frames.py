"""Conditional embeddings, their rules and filters of data frames: columns are matched by name."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.models import (
    SquaredExponential,
    bayes_rule,
    conditional_embedding,
    kernel_bayes_filter,
    mean_embedding,
    product_rule,
    reduced_embedding,
    sum_rule,
)

RNG = np.random.default_rng(0)
KERNEL = SquaredExponential(1.5)
#: Columns that no method can confuse: other means and scales.
X = pd.DataFrame({"height": RNG.normal(size=40), "dose": RNG.normal(5.0, 2.0, 40)})
Y = pd.DataFrame({"pulse": X["height"] + 1.0, "level": X["dose"] ** 2 / 10.0})
NEW = {"x": X.iloc[3:6] + 0.1, "y": Y.iloc[3:6] + 0.1}
PRIOR = mean_embedding(X, KERNEL)


def learned(X, Y):
    return conditional_embedding(X, Y, KERNEL, KERNEL, regularization=1e-3)


CONDITIONAL = learned(X, Y)
RULE = bayes_rule(CONDITIONAL, PRIOR)
FILTER = kernel_bayes_filter(X, Y, KERNEL, KERNEL, regularization=1e-3)
ESTIMATES = FILTER.filter(Y)
#: Functions of new rows of X, or of Y.
FUNCTIONS = {
    "expectation": (CONDITIONAL.expectation, "x"),
    "variance": (CONDITIONAL.variance, "x"),
    "weights": (CONDITIONAL.weights, "x"),
    "features": (CONDITIONAL.features, "x"),
    "embedding": (PRIOR, "x"),
    "sum of embeddings": (PRIOR + mean_embedding(X.iloc[:5], KERNEL), "x"),
    "reduced": (lambda x: reduced_embedding(PRIOR, x).weights, "x"),
    "reduced, its values": (reduced_embedding(PRIOR, X.iloc[:8]), "x"),
    "conditional embedding": (CONDITIONAL(X.iloc[0]), "y"),
    "sum rule": (sum_rule(CONDITIONAL, PRIOR), "y"),
    "marginal of X": (product_rule(CONDITIONAL, PRIOR).marginal_x(), "x"),
    "marginal of Y": (product_rule(CONDITIONAL, PRIOR).marginal_y(), "y"),
    "joint, X": (lambda x: product_rule(CONDITIONAL, PRIOR)(x, NEW["y"]), "x"),
    "joint, Y": (lambda y: product_rule(CONDITIONAL, PRIOR)(NEW["x"], y), "y"),
    "Bayes' rule": (RULE.weights, "y"),
    "posterior": (RULE(Y.iloc[0]), "x"),
    "posterior of an embedding": (RULE.condition_on(mean_embedding(Y, KERNEL)), "x"),
    "filter": (lambda y: FILTER.filter(y).mean(), "y"),
    "filtered": (ESTIMATES[0], "x"),
    "predicted": (FILTER.predict(ESTIMATES)[0], "x"),
    "smoothed": (FILTER.smooth(ESTIMATES)[0], "x"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_new_rows_are_matched_by_name(name):
    function, of = FUNCTIONS[name]
    new = NEW[of]
    expected = np.asarray(function(new.to_numpy()))
    swapped = new[new.columns[::-1]]
    for rows in (
        new,
        swapped,
        swapped.convert_dtypes(),
        pa.Table.from_pandas(swapped),
        pd.DataFrame(new.to_numpy()),  # its labels 0, 1 are not names
    ):
        np.testing.assert_array_equal(np.asarray(function(rows)), expected)
    with pytest.raises(ValueError, match=f"has the columns {', '.join(new)}, and .* give both"):
        function(new.rename(columns={new.columns[0]: "pay"}))
    for missing in (new.where(np.eye(3, 2) == 0), np.ma.array(new.to_numpy(), mask=np.eye(3, 2))):
        with pytest.raises(ValueError, match="row 1"):
            function(missing)


def test_a_single_row_of_pandas_is_matched_by_its_labels():
    row = X.iloc[0]
    expected = CONDITIONAL.weights(row.to_numpy())
    np.testing.assert_array_equal(CONDITIONAL.weights(row), expected)
    np.testing.assert_array_equal(CONDITIONAL.weights(row.iloc[::-1]), expected)
    with pytest.raises(ValueError, match="give both the same names"):
        CONDITIONAL.weights(row.rename({"dose": "pay"}))
    np.testing.assert_array_equal(RULE.weights(Y.iloc[0].iloc[::-1]), RULE.weights(Y.iloc[0]))


@pytest.mark.parametrize("other", [X[["dose", "height"]], X.rename(columns={"dose": "pay"})])
def test_embeddings_of_other_columns_do_not_combine(other):
    prior = mean_embedding(other, KERNEL)
    same = "give both the same (order|names)"
    for combine in (
        lambda: sum_rule(CONDITIONAL, prior),
        lambda: product_rule(CONDITIONAL, prior),
        lambda: bayes_rule(CONDITIONAL, prior),
        lambda: FILTER.filter(Y, prior=prior),
        lambda: PRIOR - prior,
        lambda: PRIOR.inner_product(prior),
    ):
        with pytest.raises(ValueError, match=same):
            combine()
    # Columns without names are matched by position.
    np.testing.assert_array_equal(
        sum_rule(CONDITIONAL, mean_embedding(X.to_numpy(), KERNEL)).weights,
        sum_rule(CONDITIONAL, PRIOR).weights,
    )


def test_rows_in_another_order_are_refused():
    labels = "same row labels in another order"
    with pytest.raises(ValueError, match=labels):
        learned(X, Y.iloc[::-1])
    with pytest.raises(ValueError, match=labels):
        kernel_bayes_filter(X, Y.iloc[::-1], KERNEL, KERNEL)
    with pytest.raises(ValueError, match=labels):
        mean_embedding(X, KERNEL, pd.Series(np.full(40, 0.025)).iloc[::-1])
    with pytest.raises(ValueError, match=labels):
        product_rule(CONDITIONAL, PRIOR)(NEW["x"], NEW["y"].iloc[::-1])
    with pytest.raises(ValueError, match=labels):
        FILTER.filter(Y, observed=pd.Series(np.ones(40, bool)).iloc[::-1])
    hidden = np.ma.array(np.ones(40, bool), mask=np.arange(40) == 2)
    with pytest.raises(ValueError, match="observed must hold 40 of True or False"):
        FILTER.filter(Y, observed=hidden)


def test_points_distant_from_the_sample_are_refused_with_their_distance():
    # The weights are tiny there, not zero: their quotient would be the value of the nearest row.
    distant = X.iloc[:3] + np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 0.0]])
    assert 0.0 < CONDITIONAL.weights(distant)[1].sum() < 1e-6
    nearest = np.linalg.norm(distant.to_numpy()[1] - X.to_numpy(), axis=1).min()
    message = (
        f"row 2 of x is too far from the sample.* at a distance of {nearest:.3g}; leave it out"
    )
    for function in (CONDITIONAL.expectation, CONDITIONAL.variance):
        with pytest.raises(ArithmeticError, match=message):
            function(distant)
    assert np.isfinite(CONDITIONAL.expectation(distant, normalized=False)).all()
    with pytest.raises(ArithmeticError, match="x is too far from the sample"):
        CONDITIONAL(distant.iloc[1])
    with pytest.raises(ArithmeticError, match="y is too far from the sample"):
        RULE(Y.iloc[0] + 30.0)
    elsewhere = mean_embedding(X + 30.0, KERNEL)
    for rule in (sum_rule, bayes_rule):
        with pytest.raises(ArithmeticError, match="the prior is too far from the sample"):
            rule(CONDITIONAL, elsewhere)
    # A difference of distributions may vanish.
    assert abs(sum_rule(CONDITIONAL, PRIOR - PRIOR * (1.0 - 1e-9)).weights).max() < 1e-6


def test_the_sum_of_the_weights_counts_relative_to_that_at_the_sample():
    strong = conditional_embedding(X, Y, KERNEL, KERNEL, regularization=1e9)
    assert strong.weights(X).sum(axis=1).max() < 1e-6
    assert np.isfinite(strong.expectation(X)).all()
