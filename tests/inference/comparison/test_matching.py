"""Kernel mean matching: against a solver of another kind, and known ratios of densities."""

import numpy as np
import pandas as pd
import pytest
from bke.inference import InputError, match_weights
from bke.inference.comparison.matching import MatchingProblem
from matplotlib.text import Text
from scipy.optimize import minimize

RNG = np.random.default_rng(0)
SOURCE = RNG.normal(size=(600, 2))
TARGET = RNG.normal(size=(200, 2)) * [1.0, 0.8] + [0.5, -0.2]


def test_the_dual_solves_the_problem():
    """Compare with SLSQP, which solves the primal: ten rows, two features, a moment, a limit."""
    rng = np.random.default_rng(1)
    F, A = rng.normal(size=(10, 2)), rng.normal(size=(10, 1))
    goals, penalty = np.array([0.6, -0.5, 0.1]), 0.02
    problem = MatchingProblem(F, A, goals, 2.5)
    weights, _ = problem.solve(penalty, np.zeros(3))

    def cost(w):
        return 0.5 * penalty * np.mean((w - 1.0) ** 2) + 0.5 * np.sum((w @ F / 10 - goals[:2]) ** 2)

    slow = minimize(
        cost,
        np.ones(10),
        method="SLSQP",
        bounds=[(0.0, 2.5)] * 10,
        constraints={"type": "eq", "fun": lambda w: w @ A / 10 - goals[2:]},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(weights, slow.x, atol=1e-4)
    assert weights.min() < 1e-9  # limits are reached
    assert weights.max() > 2.5 - 1e-9
    assert cost(weights) <= cost(slow.x) + 1e-10


@pytest.mark.parametrize("moments", [1, 2])
def test_moments_are_reproduced(moments):
    result = match_weights(SOURCE, TARGET, moments=moments)
    w = result.values
    assert w.min() >= 0.0
    assert w.mean() == pytest.approx(1.0, abs=1e-6)
    mean = np.average(SOURCE, axis=0, weights=w)
    np.testing.assert_allclose(mean, TARGET.mean(axis=0), atol=1e-5)
    variance = np.average((SOURCE - mean) ** 2, axis=0, weights=w)
    close = np.allclose(variance, TARGET.var(axis=0), atol=1e-4)
    assert close == (moments == 2)
    assert result.effective_size == pytest.approx(w.sum() ** 2 / np.sum(w**2))
    before = {moment.name: moment.before for moment in result.moments}
    assert before["x0"] == pytest.approx(
        (SOURCE - TARGET.mean(axis=0)).mean(axis=0)[0] / TARGET.std(axis=0)[0]
    )


def test_differences_of_variances_are_about_the_mean_of_the_same_rows_and_weights():
    result = match_weights(SOURCE, TARGET, moments=0)
    mean = np.average(SOURCE, axis=0, weights=result.values)
    after = np.average((SOURCE - mean) ** 2, axis=0, weights=result.values)
    for moment, *variances in zip(result.moments[2:], SOURCE.var(axis=0), after, strict=True):
        target = TARGET[:, result.columns.index(moment.name.removeprefix("variance of "))].var()
        before_after = (np.array(variances) / target - 1.0) / np.sqrt(2.0)
        assert (moment.before, moment.after) == pytest.approx(tuple(before_after), abs=1e-9)


def test_a_constant_column_is_not_listed_as_unbalanced():
    result = match_weights(np.c_[SOURCE[:, 0], np.ones(600)], np.c_[TARGET[:, 0], np.ones(200)])
    assert "variance of x1: +0, 0\n" in str(result) + "\n"


def test_weights_are_near_the_ratio_of_densities():
    """exp(a'x) for a shift by a: their correlation, and the effective sample size (seed 2)."""
    rng = np.random.default_rng(2)
    source, target = rng.normal(size=(3000, 2)), rng.normal([0.5, -0.3], size=(3000, 2))
    ratio = np.exp(source @ [0.5, -0.3])
    result = match_weights(source, target)
    assert np.corrcoef(result.values, ratio)[0, 1] > 0.95
    assert result.effective_size == pytest.approx(ratio.sum() ** 2 / np.sum(ratio**2), rel=0.1)


def test_samples_of_equal_distributions_need_no_weights():
    rng = np.random.default_rng(3)
    result = match_weights(rng.normal(size=(500, 2)), rng.normal(size=(500, 2)), moments=0)
    assert result.effective_size > 450


def test_discrepancies_are_those_of_the_kernel():
    """With all rows as landmarks the features are exact."""
    x, y = SOURCE[:60], TARGET[:50]
    result = match_weights(x, y)
    k, w = result.kernel, result.values / len(x)
    expected = w @ np.asarray(k(x)) @ w - 2.0 * np.mean(w @ np.asarray(k(x, y))) + np.mean(k(y))
    assert result.discrepancies[1] == pytest.approx(float(expected), rel=1e-4)
    assert result.discrepancies[1] <= 0.25 * result.expected


@pytest.mark.slow
def test_the_expected_discrepancy_is_the_mean_for_equal_distributions():
    """120 pairs of 60 and 30 rows, equal weights: four standard errors of the mean (seeds 0 on)."""
    ratios = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        result = match_weights(rng.normal(size=(60, 2)), rng.normal(size=(30, 2)), moments=0)
        equal = result.expected * (1.0 / 60 + 1.0 / 30) / (1.0 / result.effective_size + 1.0 / 30)
        ratios.append(result.discrepancies[0] / equal)
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert np.mean(ratios) == pytest.approx(1.0, abs=4.0 * error + 1.0 / 30)  # n against n - 1
    assert error < 0.06


@pytest.mark.slow
def test_the_remaining_difference_is_compared():
    """The third column was not matched, and still differs."""
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(500, 2)), columns=["age", "sex"])
    other = pd.DataFrame(rng.normal([0.6, 0.0], size=(300, 2)), columns=["age", "sex"])
    result = match_weights(frame, other)
    assert result.columns == ("age", "sex")
    assert not result.compare(n_resamples=199, progress=False).reject
    text = str(result)
    assert "age: -0." in text
    assert text.startswith("500 rows weighted to match 300: effective sample size ")
    assert [moment["name"] for moment in result.to_dict()["moments"]][:2] == ["age", "sex"]
    assert len(result.plot().axes) == 1


def test_weights_do_not_exceed_their_limit():
    free, limited = (match_weights(SOURCE, TARGET, most=most) for most in (None, 2.5))
    assert free.values.max() > 2.5 >= limited.values.max() - 1e-9
    assert np.average(SOURCE, axis=0, weights=limited.values) == pytest.approx(
        TARGET.mean(axis=0), abs=1e-5
    )


def test_units_and_order_do_not_matter():
    result = match_weights(SOURCE, TARGET)
    order = np.random.default_rng(5).permutation(len(SOURCE))
    unit = np.array([1e-5, 1e6])
    other = match_weights((SOURCE * unit)[order], TARGET * unit)
    np.testing.assert_allclose(other.values, result.values[order], atol=0.2)
    assert other.effective_size == pytest.approx(result.effective_size, rel=0.02)


def test_a_constant_column_does_not_matter():
    ones = np.ones((len(SOURCE), 1))
    result = match_weights(np.hstack([SOURCE, ones]), np.hstack([TARGET, ones[: len(TARGET)]]))
    assert np.average(SOURCE, axis=0, weights=result.values) == pytest.approx(
        TARGET.mean(axis=0), abs=1e-5
    )


def test_rows_outside_of_the_targets_group_have_zero_weight():
    """A group has nine in ten rows of the source, and all of the target: others have weight 0."""
    rng = np.random.default_rng(6)
    source = np.column_stack([rng.normal(size=500), rng.random(500) < 0.1])
    for group in (0.0, 1.0):
        target = np.column_stack([source[:200, 0] + 0.2, np.full(200, group)])
        result = match_weights(source, target)
        assert np.all(result.values[source[:, 1] != group] == 0.0)
        assert result.values.mean() == pytest.approx(1.0, abs=1e-6)
        mean = np.average(source[:, 0], weights=result.values)
        assert mean == pytest.approx(target[:, 0].mean(), abs=1e-5)


def test_the_origin_does_not_matter():
    result, shifted = match_weights(SOURCE, TARGET), match_weights(SOURCE + 1e7, TARGET + 1e7)
    np.testing.assert_allclose(shifted.values, result.values, atol=0.02)


def test_weights_are_as_even_as_can_be():
    """A fifth more of the penalty would leave too much: the ratio is near a quarter (seed 0)."""
    result = match_weights(SOURCE, TARGET)
    assert 0.2 < result.discrepancies[1] / result.expected <= 0.25


def test_the_legend_does_not_overlap_the_title():
    figure = match_weights(SOURCE, TARGET).plot()
    figure.draw_without_rendering()
    (ax,) = figure.axes
    title = ax.get_title(loc="left")
    (text,) = (child for child in ax.findobj(Text) if child.get_text() == title)
    legend = ax.get_legend()
    assert title.startswith("effective sample size")
    assert not text.get_window_extent().overlaps(legend.get_window_extent())


def test_notes():
    result = match_weights(SOURCE[:40], TARGET[:100] * 0.2 + [1.2, 0.0])
    assert "the effective sample size is" in result.notes[-1]


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        (SOURCE, TARGET[:, :1], {}, "source has 2 columns but target has 1"),
        (
            SOURCE,
            TARGET + np.array([9.0, 0.0]),
            {},
            "no weights reproduce the target's mean of x0: .*; leave the column out, or use fewer",
        ),
        (np.ones((50, 2)), np.ones((60, 2)), {}, "all rows of both are the same"),
        (SOURCE, TARGET, {"most": 1.05}, "no weights up to 1.05 .*raise most"),
        (SOURCE, TARGET, {"most": 0.5}, "most must be more than 1"),
        (SOURCE, TARGET, {"moments": 3}, "moments must be from 0 to 2"),
        (SOURCE, TARGET, {"columns": ["a"]}, "columns has 1 name,"),
        (SOURCE, TARGET, {"kernel": "loud"}, "the kernel does not fit"),
        (np.ones(50), RNG.normal(size=60), {}, "no weights reproduce the target's mean of x"),
        (SOURCE.sum(axis=1) ** 2, -np.ones(9) + RNG.normal(size=9) / 9, {}, "too few rows"),
    ],
)
def test_invalid_arguments_are_refused(source, target, options, message):
    with pytest.raises(InputError, match=message):
        match_weights(source, target, **options)
