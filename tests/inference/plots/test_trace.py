"""Chains are drawn by arviz-plots, each in the color of its mode."""

import arviz_plots
import numpy as np
import pytest
from bke.inference import (
    InputError,
    Quadrature,
    find_modes,
    fit,
    mode_colors,
    plot_rank,
    plot_trace,
)
from bke.inference.plots.style import STUCK, mode_color, shade
from matplotlib import pyplot as plt

COLORS = [shade(mode_color(0), 0, 2), shade(mode_color(0), 1, 2), mode_color(1), STUCK]


def test_shades_of_a_color_are_from_dark_to_light():
    shades = [shade("#0080FF", index, 4) for index in range(4)]
    assert shade("#0080FF", 0, 1) == "#0080FF"
    assert (shades[0], shades[-1]) == ("#004d99", "#80c0ff")
    assert shades == sorted(set(shades), key=lambda color: sum(bytes.fromhex(color[1:])))


def test_every_chain_has_a_shade_of_the_color_of_its_mode(bimodal):
    assert mode_colors(bimodal)["color"] == COLORS
    density, trace = plot_trace(bimodal).axes
    for panel in (density, trace):
        assert [line.get_color() for line in panel.lines] == COLORS
    for line, draws in zip(trace.lines, bimodal["posterior"]["lengthscale"].values, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), draws)
    collection = arviz_plots.plot_forest(bimodal, combined=False, **mode_colors(bimodal))
    figure = collection.viz["figure"].item()
    assert {*COLORS} <= {line.get_color() for ax in figure.axes for line in ax.lines}
    plt.close(figure)


def test_the_legend_names_modes_as_the_report_does(bimodal):
    for plot, more in ((plot_trace, []), (plot_rank, ["99% band of mixed chains"])):
        (legend,) = plot(bimodal).legends
        assert [text.get_text() for text in legend.get_texts()] == [
            "mode 1: lengthscale 0.501, chains 0-1 (dark to light)",
            "mode 2: lengthscale 2.99, chain 2",
            "stuck: chain 3",
            *more,
        ]
    modes = find_modes(bimodal)
    assert [mode.chains for mode in modes.modes] == [(0, 1), (2,)]
    assert modes.stuck == (3,)


def test_divergences_are_in_the_legend(run):
    for number in (0, 1):
        tree = run.copy(deep=True)
        tree["sample_stats"]["diverging"].values[:] = np.arange(20).reshape(2, 10) < number
        (legend,) = plot_trace(tree).legends
        labels = [text.get_text() for text in legend.get_texts()]
        assert labels.count("divergent iterations") == number


def test_axes_are_logarithmic_where_the_draws_span_a_factor_of_ten(bimodal):
    low, high = (float(bimodal["posterior"]["lengthscale"].reduce(f)) for f in (np.min, np.max))
    assert high > 10 * low
    density, trace = plot_trace(bimodal).axes
    assert (density.get_xscale(), trace.get_yscale()) == ("log", "log")
    narrow = bimodal.copy()
    narrow["posterior"] = narrow["posterior"].to_dataset() ** 0.1
    density, trace = plot_trace(narrow).axes
    assert (density.get_xscale(), trace.get_yscale()) == ("linear", "linear")


def test_every_column_has_panels(ard_run):
    axes = plot_trace(ard_run).axes
    names = [ax.get_xlabel().split() for ax in axes[::2]]
    assert names == [["lengthscale", "wind"], ["lengthscale", "height"]]
    assert len(plot_trace(ard_run, "lengthscale").axes) == 4
    assert len(plot_rank(ard_run).axes) == 2


def test_ranks_are_of_all_draws(bimodal):
    """Their distribution functions by the definition; the long mode has the highest ranks."""
    (ax,) = plot_rank(bimodal).axes
    lines = [line for line in ax.lines if line.get_color() in COLORS]
    draws = bimodal["posterior"]["lengthscale"].values
    assert len(lines) == len(draws)
    pooled = np.sort(draws.ravel())
    for line, chain in zip(lines, draws, strict=True):
        # At every draw: the proportions of the chain and of all draws that are not above it.
        expected = [(chain <= draw).mean() - (pooled <= draw).mean() for draw in pooled]
        np.testing.assert_allclose(line.get_ydata()[1:], expected, atol=1e-12)
    assert lines[2].get_ydata().min() < -0.7
    count, length = draws.shape
    band = ax.patches[0].get_extents().transformed(ax.transData.inverted())
    half = np.sqrt(np.log(200 * count) / 2 * (1 - 1 / count) / length)
    np.testing.assert_allclose([band.y0, band.y1], [-half, half], rtol=1e-6)


def test_mixed_chains_stay_in_the_band_of_ranks():
    """Of 300 runs of four chains at most 10 leave it (seed 0; 0.4 % of false failures)."""
    rng = np.random.default_rng(0)
    outside = 0
    for _ in range(300):
        ranks = (1 + rng.permutation(400)).reshape(4, 100) / 400
        x = np.linspace(0.0, 1.0, 401)
        below = [np.searchsorted(np.sort(chain), x, side="right") / 100 - x for chain in ranks]
        half = np.sqrt(0.5 * np.log(2 * 4 / 0.01) * (1 - 1 / 4) / 100)
        outside += np.abs(below).max() > half
    assert outside <= 10


def test_invalid_arguments_are_refused(ard_run, data):
    with pytest.raises(InputError, match=r"sites must be one of \['lengthscale'\]"):
        plot_trace(ard_run, "period")
    independent = fit(data, method=Quadrature(num_samples=8), progress=False)
    for plot in (plot_trace, plot_rank):
        with pytest.raises(InputError, match="for chains, and the draws of method='quadrature'"):
            plot(independent)
