import numpy as np
import pytest
from bke.inference import InputError, diagnose, find_modes, plot_rank, plot_trace
from bke.inference.plots.style import STUCK, mode_colour
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def test_trace_has_every_iteration_of_every_chain_in_the_colour_of_its_mode(bimodal):
    figure = plot_trace(bimodal)
    (ax,) = figure.axes
    assert [line.get_color() for line in ax.lines] == [
        mode_colour(0),
        mode_colour(0),
        mode_colour(1),
        STUCK,
    ]
    for chain, line in enumerate(ax.lines):
        before, after = (
            bimodal[group]["lengthscale"].values[chain]
            for group in ("warmup_posterior", "posterior")
        )
        np.testing.assert_array_equal(line.get_ydata(), np.concatenate([before, after]))
        np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 81))


def test_trace_names_modes_as_the_report_does(bimodal):
    (ax,) = plot_trace(bimodal).axes
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == [
        "mode 1: lengthscale 0.501, chains 0-1",
        "mode 2: lengthscale 2.99, chain 2",
        "stuck: chain 3",
    ]
    modes = find_modes(bimodal)
    assert [mode.chains for mode in modes.modes] == [(0, 1), (2,)]
    assert modes.stuck == (3,)


def test_trace_axis_is_logarithmic_where_the_draws_span_a_factor_of_ten(bimodal):
    low, high = (float(bimodal["posterior"]["lengthscale"].reduce(f)) for f in (np.min, np.max))
    assert high > 10 * low
    assert plot_trace(bimodal).axes[0].get_yscale() == "log"
    narrow = bimodal.copy()
    for group in ("posterior", "warmup_posterior"):
        narrow[group] = narrow[group].to_dataset() ** 0.1
    assert plot_trace(narrow).axes[0].get_yscale() == "linear"


def test_trace_of_a_chain_that_crosses_changes_colour(bimodal):
    moved = bimodal.copy()
    z = moved["unconstrained_posterior"]["lengthscale"].values.copy()
    z[2, 40:] = np.log(0.5)
    moved["unconstrained_posterior"] = (
        moved["unconstrained_posterior"].to_dataset().assign(lengthscale=(("chain", "draw"), z))
    )
    (ax,) = plot_trace(moved).axes
    assert len(ax.lines) == 5
    assert ax.lines[2].get_color() == mode_colour(1)
    assert ax.lines[3].get_color() == mode_colour(0)


def test_trace_has_a_panel_per_column(ard_run):
    figure = plot_trace(ard_run)
    assert [ax.get_ylabel() for ax in figure.axes] == [
        "lengthscale of wind",
        "lengthscale of height",
    ]
    assert figure.axes[-1].get_xlabel() == "iteration"


def test_trace_draws_on_given_axes(ard_run, run):
    own = Figure()
    axes = own.subplots(2, 1)
    assert plot_trace(ard_run, axes=axes) is own
    assert all(ax.lines for ax in axes)
    single = Figure().subplots()
    assert isinstance(single, Axes)
    assert plot_trace(run, axes=single) is single.figure
    assert single.get_ylabel() == "lengthscale of speed"


def test_trace_refuses_an_unknown_site_and_too_few_axes(ard_run):
    with pytest.raises(InputError, match=r"site must be one of \['lengthscale'\], got 'period'"):
        plot_trace(ard_run, site="period")
    with pytest.raises(InputError, match="needs 2 matplotlib Axes, and 1 were given"):
        plot_trace(ard_run, axes=Figure().subplots())


def test_pictures_show_themselves_in_notebooks(run):
    assert plot_trace(run)._repr_html_().startswith('<img src="data:image/png;base64,iVBOR')


def test_rank_has_all_chains_and_the_modes_with_several(bimodal):
    figure = plot_rank(bimodal)
    assert [ax.get_title() for ax in figure.axes] == ["all chains", "within mode 1"]
    overall, within = figure.axes
    assert [label.get_text() for label in overall.get_yticklabels()] == ["0", "1", "2", "3"]
    assert [label.get_text() for label in within.get_yticklabels()] == ["0", "1"]


def test_rank_bars_are_shares_of_draws(bimodal):
    overall, within = plot_rank(bimodal).axes
    heights = np.array([bar.get_height() for bar in overall.patches]).reshape(4, -1)
    np.testing.assert_allclose(heights.sum(axis=1), heights[0].sum())  # every chain: all its draws
    # The stuck chain is the lowest, the long mode the highest quarter of all draws.
    middle = (np.arange(heights.shape[1]) + 0.5) / heights.shape[1]
    assert (heights[3] @ middle) / heights[3].sum() < 0.25
    assert (heights[2] @ middle) / heights[2].sum() > 0.75
    assert within.patches[0].get_facecolor()[:3] == overall.patches[0].get_facecolor()[:3]


def test_rank_of_one_mode_is_one_panel(run):
    panels = plot_rank(run).axes
    modes = find_modes(run)
    several = len(modes.modes) > 1 or modes.stuck
    assert len(panels) == 1 + (sum(len(m.chains) > 1 for m in modes.modes) if several else 0)
    assert diagnose(run).convergence.chains == (0, 1)
