"""Run the examples of kernel Student-t densities."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from bke.models import Polynomial


def test_the_quadratic_kernel_has_the_features_of_figure_1():
    """(x y + 1/2)^2 = x y + x^2 y^2 + 1/4."""
    X = np.random.default_rng(0).normal(size=(7, 1))
    features = np.hstack([X, X**2, np.full_like(X, 0.5)])
    np.testing.assert_allclose(Polynomial(2, 0.5)(X), features @ features.T, rtol=1e-12)


@pytest.mark.slow
def test_figures_are_drawn(run, tmp_path):
    result = run("student_t.py", "--quick", "--out", tmp_path)
    # The kernel's density is that in the plane times the volume element, and integrates to one.
    assert result["results"]["difference of both ways to the log density"] < 1e-9
    line = np.linspace(-20.0, 20.0, 40_001)
    value = result["pulled_back"].log_density(line)
    normalizer = result["log_normalizer"](result["pulled_back"]).value
    assert np.trapezoid(np.exp(value - normalizer), line) == pytest.approx(1.0, abs=1e-4)
    means = result["results"]["mean log density of fresh draws"]
    assert means["kernel Student-t"] < means["the truth"]
    assert len(list(tmp_path.glob("*.png"))) == 3


@pytest.mark.slow
def test_a_new_square_is_detected(run, tmp_path):
    """Gray with noise against the same with a red square of 24 x 24 of 120 x 120 pixels, 4 %.

    5 % are taken, so all of it can be found.
    """
    rng = np.random.default_rng(0)
    background, target = 0.5 + 0.05 * rng.normal(size=(2, 120, 121, 3))
    target[40:64, 60:84] += [0.4, -0.3, -0.3]
    for name, picture in (("background", background), ("target", target)):
        plt.imsave(tmp_path / f"{name}.png", np.clip(picture, 0.0, 1.0))
    files = ("--background", tmp_path / "background.png", "--target", tmp_path / "target.png")
    result = run("relative_novelty.py", *files, "--quick", "--out", tmp_path)

    # The column of pixels left over is cut; red, green and blue of a patch row by row.
    patches, picture = result["patches"], result["target"]
    assert patches(picture).shape == (60, 60, 12)
    np.testing.assert_array_equal(patches(picture)[3, 5], picture[6:8, 10:12].ravel())

    for where in result["novel"].values():
        assert where.sum() == 180
        assert where[20:32, 30:42].mean() > 0.95


def test_a_single_picture_is_refused(run, tmp_path, capsys):
    with pytest.raises(SystemExit):
        run("relative_novelty.py", "--target", tmp_path / "target.png")
    assert "pass both or neither" in capsys.readouterr().err
