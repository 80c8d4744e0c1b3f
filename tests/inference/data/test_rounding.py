import numpy as np
import pytest
from bke.inference.data.units import dithered, rounding_unit

INTEGERS = np.random.default_rng(3).integers(-40, 60, size=200)


@pytest.mark.parametrize(
    "unit", [1.0, 0.1, 0.01, 0.25, 0.3048, 1e-3, 5e-7, 5.0, 10.0, 1000.0, 2.0**20]
)
@pytest.mark.parametrize("offset", [0.0, 17.0, -0.37])
def test_decimal_units_are_detected_exactly(unit, offset):
    column = np.array([round(value, 8) for value in (INTEGERS * unit + offset).tolist()])
    assert rounding_unit(column) == unit
    assert rounding_unit(INTEGERS * unit + offset) == pytest.approx(
        unit, rel=1e-12
    )  # rounding errors


@pytest.mark.parametrize("unit", [1 / 3, np.pi, 1 / 3.28084, np.sqrt(2) * 1e-20, np.e * 1e40])
@pytest.mark.parametrize("offset", [0.0, 1 / 7])
def test_other_units_are_detected_closely(unit, offset):
    detected = rounding_unit((INTEGERS + offset) * unit)
    assert detected == pytest.approx(unit, rel=1e-13)


def test_feet_and_meters_have_the_same_lattice():
    feet = np.array([2693.0, 590.0, 1450.0, 1568.0, 2631.0, 554.0])
    assert rounding_unit(feet) == 1.0
    assert rounding_unit(feet * 0.3048) == 0.3048
    scaled = feet / np.std(feet)
    assert rounding_unit(scaled) == pytest.approx(1 / np.std(feet), rel=1e-12)


@pytest.mark.parametrize("size", [3, 10, 300])
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1.0, 1e4, 1e12, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_continuous_data_have_no_lattice(size, scale, offset):
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=size) * scale + offset * scale
        assert rounding_unit(x) is None


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_continuous_single_precision_has_at_most_the_lattice_of_its_type(scale, offset):
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=300) * scale + offset * scale
        x = x.astype(np.float32)
        unit = rounding_unit(x.astype(np.float64))
        assert unit is None or unit <= np.spacing(np.max(np.abs(x)))


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ([1.0, 1.0, 2.0, 3.0, 3.0], 1.0),
        ([1.0, 7.0, 13.0, 31.0], 6.0),  # the largest
        ([0.5, 0.75, 2.0], 0.25),
        (0.1 * INTEGERS.astype(np.float32), pytest.approx(0.1)),
        ([3.0, 3.0, 3.0], None),
        ([], None),
        ([0.0, 1.0, 1e10 + 1], None),  # 1e-10 of the range
        ([0.0, 1.0, 1e8 + 1], 1.0),
        ([1e16, 1e16 + 2, 1e16 + 6], None),  # all floats are even here
        ([1e16, 1e16 + 1e6, 1e16 + 3e6], 1e6),
    ],
)
def test_units_by_hand(column, unit):
    assert rounding_unit(np.array(column, dtype=float)) == unit


def test_unit_ignores_order_and_repetition():
    x = INTEGERS * 0.1
    y = np.concatenate([np.random.default_rng(0).permutation(x), x[:9]])
    assert rounding_unit(x) == rounding_unit(y)


def test_dithered_stays_within_the_unit_and_rounds_back():
    X = np.column_stack([INTEGERS * 1.0, INTEGERS * 0.5, INTEGERS * 1.0, INTEGERS * 1.0])
    before = X.copy()
    Y = dithered(X, [1.0, 0.5, None, 0.0], seed=4)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(Y[:, 2:], X[:, 2:])
    np.testing.assert_array_equal(np.rint(Y[:, 0]), X[:, 0])
    noise = (Y - X)[:, :2] / [1.0, 0.5]
    assert np.all(np.abs(noise) <= 0.5)
    assert len(np.unique(noise)) == noise.size  # every value has its own
    # Uniform(-1/2, 1/2): each bound is at least 4 standard errors wide at n = 200
    assert np.all(np.abs(noise.mean(axis=0)) < 4 / np.sqrt(12 * 200))
    assert np.all(np.abs(noise.var(axis=0) - 1 / 12) < 4 / np.sqrt(180 * 200))
    assert abs(np.corrcoef(noise.T)[0, 1]) < 4 / np.sqrt(200)


def test_dithered_is_reproducible_and_has_no_lattice():
    X = INTEGERS[:, np.newaxis] * 1.0
    np.testing.assert_array_equal(dithered(X, [1.0], 1), dithered(X, [1.0], 1))
    assert np.all(dithered(X, [1.0], 1) != dithered(X, [1.0], 2))
    assert rounding_unit(dithered(X, [1.0], 0)[:, 0]) is None
    with pytest.raises(ValueError, match="2 entries for 1 columns"):
        dithered(X, [1.0, 1.0], 1)
