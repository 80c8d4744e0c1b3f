"""An order of rows, and random numbers, that depend only on the values of the rows."""

import numpy as np
import pytest
from bke.inference.data.canonical import canonical_order, checksum, generator


def rows(seed):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(size=70), rng.integers(3, size=70), rng.exponential(size=70)]
    )


def test_equal_rows_are_neighbors_in_any_order_of_rows_and_columns():
    X = np.repeat(rows(0)[:20], 3, axis=0)
    order = np.random.default_rng(1).permutation(60)
    columns = [2, 0, 1]
    sorted_rows, other = X[canonical_order(X)], X[order][:, columns]
    other = other[canonical_order(other)]
    np.testing.assert_array_equal(sorted_rows[:, columns], other)
    assert (sorted_rows[::3] == sorted_rows[2::3]).all()


@pytest.mark.parametrize(
    "changed",
    [
        lambda X: X[::-1],
        lambda X: X[:, [1, 2, 0]],
        lambda X: X * [1000.0, 2.54, 1e-6],
        lambda X: X + np.array([32.0, -1.0, 1e3]),
    ],
)
def test_checksums_do_not_depend_on_order_and_units(changed):
    X = rows(2)
    assert checksum(changed(X)) == checksum(X)
    np.testing.assert_array_equal(generator(3, X).random(4), generator(3, changed(X)).random(4))


def test_other_rows_have_other_checksums():
    X = rows(2)
    near = X.copy()
    near[5, 0] += 1e-3
    assert len({checksum(X), checksum(rows(3)), checksum(near), checksum(X[1:])}) == 4
    # Columns that are put together anew are other rows.
    assert checksum(np.column_stack([X[::-1, 0], X[:, 1:]])) != checksum(X)


def test_the_order_of_samples_does_not_matter_but_the_seed_and_the_stream_do():
    X, Y = rows(4), rows(5)
    drawn = generator(0, X, Y).random(4)
    np.testing.assert_array_equal(drawn, generator(0, Y, X).random(4))
    assert (drawn != generator(1, X, Y).random(4)).all()
    assert (drawn != generator(0, X, Y, stream=2).random(4)).all()


def test_values_of_any_size_have_steps():
    X = np.array([[1.7e308, 5.0], [-1.7e308, 5.0], [0.0, 5.0]])
    assert checksum(X) == checksum(X[::-1]) == checksum(X / 1e300)
