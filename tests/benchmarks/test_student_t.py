"""Tests of ``benchmarks/student_t.py``."""

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file


@pytest.fixture(scope="module")
def benchmark(load):
    return load("student_t")


def digits_of(benchmark, n=40, classes=4, seed=0):
    """Return images (n, 6) around one center per label."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    centers = 5.0 * rng.normal(size=(classes, 6))
    return benchmark.Digits(centers[labels] + 0.3 * rng.normal(size=(n, 6)), labels)


def test_joint_appends_label_indicators(benchmark):
    digits = benchmark.Digits(np.array([[7.0, 8.0], [5.0, 6.0]]), np.array([2, 0]))
    np.testing.assert_array_equal(
        benchmark.joint(digits, 3), [[7.0, 8.0, 0.0, 0.0, 1.0], [5.0, 6.0, 1.0, 0.0, 0.0]]
    )


def test_log_density_by_label_pairs_all_images_with_all_labels(benchmark):
    images = np.array([[10.0], [20.0]])

    def density(rows):
        return rows @ np.array([1.0, 0.1, 0.2, 0.3])

    np.testing.assert_allclose(
        benchmark.log_density_by_label(density, images, 3), [[10.1, 10.2, 10.3], [20.1, 20.2, 20.3]]
    )


def test_corrupted_labels_are_wrong_in_the_second_half(benchmark):
    labels = np.repeat(np.arange(10), 200)
    labels = np.random.default_rng(0).permutation(labels)
    assigned = benchmark.corrupted_labels(labels, 10, np.random.default_rng(1))
    np.testing.assert_array_equal(assigned[:1000], labels[:1000])
    assert np.all(assigned[1000:] != labels[1000:])
    assert set((assigned - labels)[1000:] % 10) == set(range(1, 10))


def test_auc_is_high_for_wrong_labels_of_low_density(benchmark):
    labels, assigned = np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])
    right = np.array([[3.0, 0.0], [1.0, 4.0], [9.0, 1.0], [2.0, 9.0]])
    assert benchmark.auc(right, labels, assigned) == 100.0
    assert benchmark.auc(-right, labels, assigned) == 0.0
    # One of the four pairs is in the wrong order.
    right[0, 0] = 1.5
    assert benchmark.auc(right, labels, assigned) == 75.0


def test_confusion_counts_wrong_labels(benchmark):
    values = np.array([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0], [5.0, 6.0]])
    assert benchmark.confusion(values, np.array([1, 0, 0, 1])) == 25.0


def test_kernel_density_by_hand(benchmark):
    """Compare with sum exp(-1/2 |(x - x_i) / deviations|^2), including underflowing values."""
    rows, deviations = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([0.5, 2.0])
    estimate = benchmark.GaussianKDE(rows, deviations)
    result = estimate(np.array([[1.0, 0.0], [100.0, 2.0]]))
    assert result[0] == pytest.approx(np.log(np.exp(-2.0) + np.exp(-0.5)))
    assert result[1] == pytest.approx(-0.5 * 198.0**2)


def test_projection_leaves_labels_unchanged(benchmark):
    rng = np.random.default_rng(0)
    rows = np.hstack([rng.normal(size=(30, 5)), np.eye(3)[rng.integers(3, size=30)]])
    scales = benchmark.lengthscales(rows, 3, 2.0)
    np.testing.assert_array_equal(scales, [2.0] * 5 + [1.0] * 3)
    result = benchmark.Projection(rows, scales, 5, 2)(rows)
    assert result.shape == (30, 5)
    np.testing.assert_array_equal(result[:, 2:], rows[:, 5:])
    np.testing.assert_array_equal(benchmark.Projection(rows, scales, 5, None)(rows), rows / scales)


@pytest.mark.parametrize("name", ["digits.npz", "digits.txt"])
def test_read_digits(benchmark, tmp_path, name):
    rng = np.random.default_rng(0)
    images, labels = rng.random((12, 4, 4)), np.tile([3, 1, 2], 4)
    path = tmp_path / name
    if path.suffix == ".npz":
        np.savez(path, images=images, labels=labels)
    else:
        dump_svmlight_file(images.reshape(12, 16), labels, str(path), zero_based=False)
    digits = benchmark.read_digits(path)
    np.testing.assert_allclose(digits.images, images.reshape(12, 16), rtol=1e-12)
    np.testing.assert_array_equal(digits.labels, np.tile([2, 0, 1], 4))


@pytest.mark.slow
def test_all_methods_on_well_separated_digits(benchmark, monkeypatch):
    """Check small errors of each method, with one or two settings."""
    for grid in ("NOISE_VARIANCES", "BANDWIDTHS"):
        monkeypatch.setattr(benchmark, grid, (0.1,))
    monkeypatch.setattr(benchmark, "FACTORS", (0.5, 1.0))
    monkeypatch.setattr(benchmark, "REGULARIZATIONS", (0.01,))
    monkeypatch.setattr(benchmark, "PCA_COLUMNS", 3)
    for count in ("VALIDATION", "TEST"):
        monkeypatch.setattr(benchmark, count, 40)
    monkeypatch.setattr(benchmark, "NUM_NOVELTY", 20)
    record = benchmark.run(digits_of(benchmark, n=140), 60, 0, tuple(benchmark.SIDES))
    for side in benchmark.SIDES:
        assert record[f"{side} novelty"] > 95.0
        assert record[f"{side} labels"] < 5.0
    assert record["KST, factor 1 novelty setting"]["factor"] == 1.0


def test_an_insufficient_number_of_images_raises(benchmark, monkeypatch, tmp_path):
    digits = digits_of(benchmark, n=800)
    np.savez(tmp_path / "digits.npz", images=digits.images, labels=digits.labels)
    monkeypatch.setattr("sys.argv", ["student_t.py", "--usps", str(tmp_path / "digits.npz")])
    with pytest.raises(SystemExit, match="800 images, and 1700 are needed"):
        benchmark.main()
