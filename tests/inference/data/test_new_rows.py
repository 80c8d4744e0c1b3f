"""New rows for learned models: columns are matched by name, missing entries are refused."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from bke.inference import (
    DistributionRegressor,
    InputError,
    KernelStudentTDensity,
    Monitor,
    Quadrature,
    compare,
    fit,
    learn_conditional,
    learn_filter,
    learn_student_t,
    sample_test_witness,
    sample_witness,
    student_t_posterior,
    student_t_predictive,
    two_sample_test,
)
from bke.inference.data.new_rows import as_evaluation_points, as_weights, ordered_rows

QUIET = {"progress": False}
RNG = np.random.default_rng(0)
#: Columns that no method can confuse: other means and scales.
TRAINING = pd.DataFrame({"height": RNG.normal(0, 1, 40), "dose": RNG.normal(5, 0.5, 40)})
OTHER = TRAINING + RNG.normal([1.0, 0.1], 0.1, (40, 2))
NEW = pd.DataFrame({"height": [0.3, -1.0, 0.8], "dose": [5.2, 4.7, 5.5]})
OUTPUTS = TRAINING["height"].to_numpy() + 0.1 * TRAINING["dose"].to_numpy()


def _comparison(P, Q):
    return compare(P, Q, n_resamples=99, **QUIET)


def _student_t(X, _):
    return learn_student_t(X, factors=(1.0,), noise_variance=1.0, kernel="median", **QUIET)


def _conditional(X, _):
    return learn_conditional(X, OUTPUTS, kernel_x="median", kernel_y="median", factors=(1.0,))


def _filter(Y, _):
    how = {"kernel_x": "median", "kernel_y": "median", "regularizations": (1.0,)}
    return learn_filter(OUTPUTS, Y, factors=(1.0,), **how, **QUIET).filter


def _posterior(X, _):
    return student_t_posterior(
        X, nodes=8, num_chains=1, num_warmup=4, num_samples=4, kernel="median", **QUIET
    )


def _regression(X, _):
    groups = [X[start : start + 5] for start in range(0, 40, 5)]
    return DistributionRegressor(landmarks=4, progress=False).fit(groups, np.arange(8.0))


#: Methods that take new rows: functions that learn a model, and that evaluate rows.
METHODS = {
    "density_ratio": (_comparison, lambda model, rows: model.density_ratio(rows).mean),
    "witness": (_comparison, lambda model, rows: model.witness(rows).mean),
    "region_sign": (_comparison, lambda model, rows: model.region_sign(rows)),
    "log_density": (_student_t, lambda model, rows: model.log_density(rows)),
    "typicality": (_student_t, lambda model, rows: model.typicality(rows)),
    "predictive": (_posterior, lambda run, rows: student_t_predictive(run, rows, num_samples=2)),
    "expectation": (_conditional, lambda model, rows: model.expectation(rows)),
    "variance": (_conditional, lambda model, rows: model.variance(rows)),
    "weights": (_conditional, lambda model, rows: model.weights(rows)),
    "filter": (_filter, lambda model, rows: model.filter(rows).mean()),
    "predict": (_regression, lambda model, rows: model.predict([rows])),
}


@functools.cache
def learned(learn, named=True):
    """Learn a model once, from frames or from arrays."""
    return learn(*(TRAINING, OTHER) if named else (TRAINING.to_numpy(), OTHER.to_numpy()))


def evaluate(method, named=True):
    learn, function = METHODS[method]
    return functools.partial(function, learned(learn, named))


@pytest.mark.parametrize("method", METHODS)
def test_columns_are_matched_by_name(method):
    function = evaluate(method)
    expected = np.asarray(function(NEW.to_numpy()))
    swapped = NEW[["dose", "height"]]
    for rows in (NEW, swapped, pa.Table.from_pandas(swapped), swapped.convert_dtypes()):
        np.testing.assert_array_equal(np.asarray(function(rows)), expected)
    # Labels 0, 1 are no names: pandas gives them to arrays.
    np.testing.assert_array_equal(np.asarray(function(pd.DataFrame(NEW.to_numpy()))), expected)


@pytest.mark.parametrize("method", METHODS)
def test_missing_and_unknown_columns_are_named(method):
    function = evaluate(method)
    with pytest.raises(InputError, match="'pay'"):
        function(NEW.assign(pay=1.0))
    with pytest.raises(InputError, match="'dose' missing; column 'pay' unknown"):
        function(NEW.rename(columns={"dose": "pay"}))
    with pytest.raises(InputError, match="'dose' missing"):
        function(NEW[["height"]])
    with pytest.raises(InputError, match="'dose' repeated"):
        function(NEW[["dose", "height", "dose"]])


@pytest.mark.parametrize("method", METHODS)
def test_a_model_of_arrays_takes_columns_by_position(method):
    function = evaluate(method, named=False)
    expected = np.asarray(function(NEW.to_numpy()))
    np.testing.assert_array_equal(np.asarray(function(NEW)), expected)
    renamed = NEW.rename(columns={"height": "a", "dose": "b"})
    np.testing.assert_array_equal(np.asarray(function(renamed)), expected)
    with pytest.raises(ValueError, match=r"column|shape"):
        function(NEW.to_numpy()[:, :1])


@pytest.mark.parametrize("method", METHODS)
def test_masked_and_missing_entries_are_refused_by_row(method):
    function = evaluate(method)
    hidden = np.ma.array(NEW.to_numpy(), mask=[[0, 0], [0, 1], [0, 0]])
    missing = NEW.where([[True, True], [True, False], [True, True]])
    for rows in (hidden, list(hidden), missing, missing.convert_dtypes(), missing.to_numpy()):
        with pytest.raises(ValueError, match="row 2"):
            function(rows)
    unmasked = np.ma.array(NEW.to_numpy(), mask=False)
    np.testing.assert_array_equal(
        np.asarray(function(unmasked)), np.asarray(function(NEW.to_numpy()))
    )


def test_a_single_row_of_a_frame_is_matched_by_its_labels():
    model = learned(_conditional)
    row = NEW[["dose", "height"]].iloc[0]
    np.testing.assert_array_equal(model.expectation(row), model.expectation(NEW.iloc[:1]))


def test_columns_that_a_comparison_dropped_may_be_present():
    P, Q = (
        sample.assign(constant=3.0)[["constant", "dose", "height"]] for sample in (TRAINING, OTHER)
    )
    result = _comparison(P, Q)
    assert result.left_out == ("constant",)
    expected = result.density_ratio(NEW[["dose", "height"]].to_numpy()).mean
    for rows in (NEW, NEW.assign(constant=3.0)):
        np.testing.assert_array_equal(result.density_ratio(rows).mean, expected)


def test_columns_that_a_comparison_renames_keep_their_names_for_new_rows():
    result = compare(TRAINING, OTHER, columns=["H", "D"], n_resamples=99, **QUIET)
    assert result.columns == ("H", "D")
    expected = result.density_ratio(NEW.to_numpy()).mean
    np.testing.assert_array_equal(result.density_ratio(NEW[["dose", "height"]]).mean, expected)
    arrays = TRAINING.to_numpy(), OTHER.to_numpy()
    result = compare(*arrays, columns=["height", "dose"], n_resamples=99, **QUIET)
    np.testing.assert_array_equal(result.density_ratio(NEW[["dose", "height"]]).mean, expected)


def test_the_estimator_refuses_another_order_as_scikit_learn_does():
    model = KernelStudentTDensity(factor=1.0, noise_variance=1.0).fit(TRAINING)
    model.score_samples(NEW)
    with pytest.raises(ValueError, match="same order"):
        model.score_samples(NEW[["dose", "height"]])
    hidden = np.ma.array(TRAINING.to_numpy(), mask=np.arange(80).reshape(40, 2) == 3)
    model = KernelStudentTDensity(factor=1.0, noise_variance=1.0).fit(TRAINING.to_numpy())
    for function in (model.fit, model.score_samples, model.score):
        with pytest.raises(InputError, match="row 2"):
            function(hidden)


def test_a_monitor_of_an_array_with_names_takes_rows_by_name():
    states = []
    for rows in (OTHER, OTHER[["dose", "height"]].assign(more=1.0)):
        monitor = Monitor(TRAINING.to_numpy(), columns=["height", "dose"])
        states.append(monitor.update(rows).max_wealth)
    assert states[0] == states[1]
    with pytest.raises(InputError, match="'dose' missing"):
        monitor.update(OTHER[["height"]])
    with pytest.raises(InputError, match="'dose' repeated"):
        monitor.update(OTHER[["height", "dose", "dose"]])


def test_numbers_as_names_are_names_where_the_model_has_them():
    X = pd.DataFrame(np.arange(6.0).reshape(3, 2))
    expected = X.to_numpy()[:, ::-1]
    np.testing.assert_array_equal(ordered_rows(X, ("1", "0"), "at"), expected)
    with pytest.raises(InputError, match="'2' missing"):
        ordered_rows(X, ("0", "2"), "at")


def test_points_of_a_single_column():
    column = pd.Series([1.0, 2.0], name="other")  # a Series is one column, whatever its name
    np.testing.assert_array_equal(as_evaluation_points(column, 1, columns=("x",)), [[1.0], [2.0]])
    with pytest.raises(InputError, match="'x' missing"):
        as_evaluation_points(column.to_frame(), 1, columns=("x",))


WEIGHTS = pd.Series([1.0, 2.0, 4.0], index=TRAINING.index[:3], name="w")


@pytest.mark.parametrize(
    "weights",
    [WEIGHTS, WEIGHTS.to_frame(), WEIGHTS.astype("Float64"), WEIGHTS.tolist(),
     np.ma.array(WEIGHTS, mask=False), WEIGHTS.astype(object)],
)  # fmt: skip
def test_weights_of_every_kind(weights):
    normalized = as_weights(weights, 3, sample=TRAINING[:3])
    np.testing.assert_array_equal(normalized, [0.25, 0.5, 1.0])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ma.array([1.0, 2.0, 4.0], mask=[0, 1, 0]), "row 2"),
        (WEIGHTS.astype("Float64").where(WEIGHTS != 2.0), "row 2"),
        (WEIGHTS[::-1], "different row labels: 2 and 0 in row 1.*to_numpy"),
        (WEIGHTS.to_frame()[::-1], "different row labels"),
        (WEIGHTS.set_axis([1, 2, 3]), "different row labels: 1 and 0 in row 1"),
        (pd.DataFrame({"w": WEIGHTS, "v": WEIGHTS}), "3 numbers, one for each row"),
    ],
)
def test_weights_that_are_refused(weights, message):
    with pytest.raises(InputError, match=message):
        as_weights(weights, 3, sample=TRAINING[:3])


def test_compare_checks_masks_and_labels_of_weights():
    weights = pd.Series(np.linspace(1.0, 2.0, 40))
    hidden = np.ma.array(weights, mask=np.arange(40) == 6)
    with pytest.raises(InputError, match=r"weights of P must.*row 7"):
        compare(TRAINING, OTHER, weights=(hidden, None), n_resamples=99, **QUIET)
    with pytest.raises(InputError, match="weights of Q and the rows have different row labels"):
        compare(TRAINING, OTHER, weights=(None, weights[::-1]), n_resamples=99, **QUIET)
    results = [
        compare(TRAINING, OTHER, weights=(accepted, None), n_resamples=99, **QUIET).to_dict()
        for accepted in (weights, weights.to_numpy(), weights.to_frame())
    ]
    assert results[0] == results[1] == results[2]


def test_points_of_a_witness_are_matched_by_name():
    run = fit((TRAINING, OTHER), method=Quadrature(num_samples=64), **QUIET)
    swapped = NEW[["dose", "height"]]
    how = {"thin": 8, **QUIET}
    samples = TRAINING, OTHER
    expected = sample_witness(run, *samples, at=NEW.to_numpy(), **how).witness.values
    for at in (NEW, swapped):
        by_name = sample_witness(run, *samples, at=at, **how).witness.values
        np.testing.assert_array_equal(by_name, expected)
    for landmarks in (NEW, swapped):
        by_name = sample_witness(run, *samples, at=swapped, landmarks=landmarks, **how)
        array = sample_witness(run, *samples, at=NEW, landmarks=NEW.to_numpy(), **how)
        np.testing.assert_array_equal(by_name.witness.values, array.witness.values)
    with pytest.raises(InputError, match="at: column 'dose' missing"):
        sample_witness(run, *samples, at=NEW[["height"]], **how)
    with pytest.raises(InputError, match=r"missing value.*row 2"):
        sample_witness(run, *samples, at=NEW.where(NEW > -0.5), **how)
    renamed = [sample.rename(columns={"dose": "pay"}) for sample in samples]
    with pytest.raises(InputError, match="P: column 'dose' missing; column 'pay' unknown"):
        sample_witness(run, *renamed, **how)


def test_points_of_a_test_witness_are_matched_by_name():
    result = two_sample_test(TRAINING, OTHER, kernel="median", n_resamples=99, **QUIET)
    witnesses = [
        sample_test_witness(result, TRAINING, OTHER, at, draws=10).witness.values
        for at in (NEW.to_numpy(), NEW[["dose", "height"]])
    ]
    np.testing.assert_array_equal(witnesses[0], witnesses[1])
