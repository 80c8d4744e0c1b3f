"""The figures of the paper: results of their scripts, and the page that describes them."""

import re
from pathlib import Path

import numpy as np
import numpyro.distributions as dist
import pytest
from bke.inference import find_modes, learn_kernel, normal_laplace, reweight, two_sample_test
from bke.inference.data.canonical import canonical_order
from bke.inference.learning.kernel_selection import median_kernel
from bke.models import embedding_posterior

ROOT = Path(__file__).parents[2]


def test_every_named_script_has_the_named_options():
    """Scripts and options in code spans of the pages are those of the parsers."""
    for page in ("figures.md", "not_said.md"):
        text = (ROOT / "docs" / "explanation" / page).read_text(encoding="utf-8")
        scripts = set(re.findall(r"examples/(\w+\.py)", text))
        assert scripts
        code = "".join((ROOT / "examples" / name).read_text(encoding="utf-8") for name in scripts)
        for option in set(re.findall(r"`(?:[^`\n]* )?(--[a-z-]+)", text)):
            assert f'"{option}"' in code, option


@pytest.mark.slow
def test_figure_1_is_drawn_with_bands_as_described(run, tmp_path):
    names = run("figure1.py", "--out", tmp_path)
    assert len(list(tmp_path.glob("*.png"))) == 4
    X, kernel, at = names["X"], names["kernel"], names["at"]
    default = embedding_posterior(X, kernel, at, noise="clt")
    paper = embedding_posterior(X, kernel, at, noise=0.1)
    inside = (at > X.min()) & (at < X.max())
    width = [
        np.sqrt(np.diag(posterior.covariance))[inside].mean() for posterior in (default, paper)
    ]
    assert width[1] > 2.0 * width[0]
    truth = names["truth"](at)
    error = np.abs(np.asarray(default.mean) - truth)
    assert np.mean(error[inside] < 1.2816 * np.sqrt(np.diag(default.covariance))[inside]) > 0.8
    assert np.any(np.asarray(default.mean) < 1.2816 * np.sqrt(np.diag(default.covariance)))


@pytest.mark.slow
def test_figure_2_finds_ratios_up_to_3_and_fails_from_5_on(run, monkeypatch, tmp_path):
    """One data set of the script at each ratio, 900 + 900 rows."""
    names = run("figure2.py", "--quick", "--out", tmp_path)
    assert (tmp_path / "figure2.png").stat().st_size > 5000
    grids = names["grids"]
    monkeypatch.setattr(names["options"], "per_component", 100)
    for ratio, expected in ((3.0, True), (5.0, False)):
        P, Q = grids(ratio, np.random.default_rng([0, int(10 * ratio), 0]))
        test = two_sample_test(P, Q, kernel="bkl", n_resamples=199, seed=0, progress=False)
        assert test.reject == expected
    P, Q = grids(2.0, np.random.default_rng([0, 1000]))
    pooled = np.concatenate([P, Q])
    learned = learn_kernel(pooled, prior=dist.Gamma(1.0, 0.1), standardize=None, progress=False)
    assert float(learned.kernel.lengthscale) == pytest.approx(1.4, abs=0.15)
    median = float(median_kernel(pooled[canonical_order(pooled)], None, 0).lengthscale)
    assert median == pytest.approx(20.0, abs=1.5)
    (other,) = (peak for peak in learned.peaks if float(peak.kernel.lengthscale) > 5.0)
    assert float(other.kernel.lengthscale) == pytest.approx(median, rel=0.25)


@pytest.mark.slow
def test_figure_4_has_its_mass_in_the_long_mode():
    """Draws near the modes of the paper, 0.49 and 2.9 there; masses by quadrature."""
    draws = np.stack([np.linspace(0.50, 0.54, 8), np.linspace(2.9, 3.2, 8)])
    X = np.concatenate(normal_laplace(seed=0))
    run = reweight({"lengthscale": draws}, X=X, progress=False)
    short, long = (mode for mode in find_modes(run).modes if mode.draws)
    assert short.location["lengthscale"] == pytest.approx(0.5, abs=0.06)
    assert long.location["lengthscale"] == pytest.approx(3.0, abs=0.2)
    assert long.mass == pytest.approx(1.0, abs=1e-6)
    assert short.mass < 1e-20


@pytest.mark.slow
def test_figure_6_quick_agrees_with_its_docstring(run, tmp_path, capsys):
    pytest.importorskip("causallearn")
    names = run("figure6.py", "--quick", "--out", tmp_path)
    assert "leave an edge between Temp and Ozone" in " ".join(names["__doc__"].split())
    assert names["rows"]
    assert all(row["Temp and Ozone"] != "no edge" for row in names["rows"])
    assert {row["whitening"] for row in names["rows"]} == {"residuals"}
    assert "not those of all data" in capsys.readouterr().out
