import numpy as np
import pytest
from bke.inference import InputError, plot_profile
from bke.inference.plots.profile import FINER
from bke.inference.plots.style import STUCK, mode_color
from matplotlib.figure import Figure


def test_profile_shows_density_modes_chains_and_prior(bimodal):
    ax, below = plot_profile(bimodal).axes
    profile = bimodal["profile"]
    raw, smoothed = ax.lines[:2]
    np.testing.assert_allclose(
        smoothed.get_ydata()[::FINER], profile["smoothed"] - profile["smoothed"].max(), atol=1e-9
    )
    assert raw.get_linewidth() < smoothed.get_linewidth()
    assert np.isnan(raw.get_ydata()[::37]).all()
    assert np.isfinite(raw.get_ydata()[1:37]).all()
    np.testing.assert_allclose(smoothed.get_xdata()[::FINER], profile["value_in_data_units"])
    assert ax.get_xscale() == below.get_xscale() == "log"
    assert below.get_xlabel() == "lengthscale of speed"
    assert [text.get_text() for text in ax.texts] == ["mode 1\n0.501", "mode 2\n2.99"]
    assert [text.get_color() for text in ax.texts] == [mode_color(0), mode_color(1)]


def test_profile_marks_chains_and_its_range_contains_modes_and_barrier(bimodal):
    ax, _ = plot_profile(bimodal).axes
    ticks = [line for line in ax.lines if np.array_equal(line.get_ydata(), [0.0, 0.1])]
    assert [line.get_color() for line in ticks] == [
        mode_color(0),
        mode_color(0),
        mode_color(1),
        STUCK,
    ]
    medians = np.median(bimodal["posterior"]["lengthscale"], axis=1)
    np.testing.assert_allclose([line.get_xdata()[0] for line in ticks], medians, rtol=1e-3)
    low, high = ax.get_ylim()
    smoothed = bimodal["profile"]["smoothed"].values
    grid = bimodal["profile"]["unconstrained"].values
    between = smoothed[(grid > np.log(0.5)) & (grid < np.log(3.0))]
    assert low < between.min() < high
    assert low > smoothed.min()  # not the whole fall of the density
    assert high > 0
    left, right = ax.get_xlim()
    assert left < bimodal["posterior"]["lengthscale"].min()
    assert right > bimodal["posterior"]["lengthscale"].max()


@pytest.mark.slow
def test_profile_of_several_hyperparameters_is_refused(ard_run):
    with pytest.raises(InputError, match="needs a run of one hyperparameter, and this one has 2"):
        plot_profile(ard_run)


def test_profile_of_a_real_run_on_axes_of_the_user(run):
    user_figure = Figure()
    assert plot_profile(run, axes=user_figure.subplots(2, 1)) is user_figure
    user_figure.savefig("/dev/null", format="png")
