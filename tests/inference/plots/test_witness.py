import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bke.inference import (
    InputError,
    credible_band,
    plot_witness,
    sample_witness,
)
from bke.inference.diagnostics.modes import format_values
from bke.inference.plots.style import OVERALL, P_COLOR, Q_COLOR, mode_color
from matplotlib.colors import to_hex
from matplotlib.figure import Figure


def curves(ax):
    """Points, lower and upper edge of the band, mean line of a panel."""
    mean = ax.lines[1]  # the first is the zero line
    points = mean.get_xdata()
    bands = [c for c in ax.collections if c.get_alpha() == 0.25 and len(c.get_paths())]
    vertices = bands[0].get_paths()[0].vertices
    columns = [vertices[np.isclose(vertices[:, 0], x), 1] for x in points]
    return [c.min() for c in columns], [c.max() for c in columns], mean


@pytest.mark.parametrize("level", [0.5, 0.8])
def test_every_mode_has_a_panel_and_all_chains_the_last(line_witness, level):
    figure = plot_witness(line_witness, level)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "mode 1 (chains 0-1)",
        "mode 2 (chain 2)",
        "all modes, weighted by chain count (1 of 4 stuck and left out)",
    ]
    colors = (mode_color(0), mode_color(1), OVERALL)
    for ax, mode, color in zip(figure.axes, (0, 1, None), colors, strict=True):
        expected = credible_band(line_witness, level, mode)
        lower, upper, mean = curves(ax)
        np.testing.assert_allclose(lower, expected.lower)
        np.testing.assert_allclose(upper, expected.upper)
        np.testing.assert_allclose(mean.get_ydata(), expected.mean)
        assert mean.get_color() == color
        assert ax.get_ylabel() == "witness P - Q"
    assert figure.axes[-1].get_xlabel() == "speed"
    excludes_zero = credible_band(line_witness, level, 0)
    assert ((excludes_zero.lower > 0) | (excludes_zero.upper < 0)).any()
    assert len(figure.axes[0].collections) == 1  # the band: no region is shaded or marked
    labels = [text.get_text() for text in figure.axes[-1].get_legend().texts]
    assert labels == [f"pointwise {level:.0%} band"]
    calm = line_witness.isel(chain=slice(0, 2))
    (ax,) = plot_witness(calm, level).axes
    assert ax.get_title(loc="left") == "all chains (one mode)"


@pytest.mark.parametrize("group", ["line_witness", "map_witness", "point_witness"])
def test_axes_do_not_depend_on_the_weights_of_the_modes(group, bimodal, request):
    """Mode 0 is ten times as large as mode 1 and loses all its weight when masses are known."""
    by_chain = request.getfixturevalue(group).copy()
    values = by_chain["witness"].values.copy()
    values[:2] *= 10.0
    by_chain["witness"] = by_chain["witness"].copy(data=values)
    weight = by_chain["weight"].values.copy()
    weight[:2] = 0.0
    by_mass = by_chain.copy()
    by_mass["weight"] = by_chain["weight"].copy(data=weight / weight.sum())
    by_mass.attrs["weights"] = "posterior"
    dimension = by_chain.sizes["column"]

    def limits(witness, run):
        ax = plot_witness(witness, run=run).axes[-1 if dimension == 1 else 0]
        if dimension == 2:
            return ax.collections[0].get_clim()
        return ax.get_ylim() if dimension == 1 else ax.get_xlim()

    assert limits(by_mass, with_masses(bimodal)) == limits(by_chain, bimodal)
    assert limits(by_chain, bimodal)[1] > 5.0


def with_masses(run):
    """Return a run by a quadrature in which only the second mode has mass."""
    nodes = xr.Dataset(
        {
            "unconstrained": (("node", "parameter"), np.log([[0.5], [3.0]])),
            "weight": ("node", [1e-20, 1.0 - 1e-20]),
        },
        attrs={"log_normalizer_error": 0.0, "log_normalizer": 0.0},
    )
    groups = {name: node.to_dataset() for name, node in run.children.items()}
    tree = xr.DataTree.from_dict({f"/{name}": data for name, data in groups.items()})
    tree["quadrature"] = xr.DataTree(nodes)
    tree.attrs.update(run.attrs)
    return tree


def test_points_beyond_the_range_of_the_data_are_left_out(run, data):
    P, Q = data[:15], data[15:]
    low, high = float(data.min()), float(data.max())
    at = np.linspace(low - 5.0, high + 5.0, 80)
    witness = sample_witness(run, P, Q, at)
    (ax,) = plot_witness(witness, P=P, Q=Q).axes
    points = at[(at >= low) & (at <= high)]
    np.testing.assert_array_equal(ax.lines[1].get_xdata(), points)
    assert ax.get_xlim() == (points[0], points[-1])
    beyond = sample_witness(run, P, Q, at[:5])
    assert len(plot_witness(beyond).axes[0].lines[1].get_xdata()) == 5


@pytest.mark.parametrize("weights", ["posterior", "chains"])
def test_panels_of_figure_5(line_witness, bimodal, weights):
    """By chains, modes have weights of 2 to 1; by mass the first has weight 0."""
    witness = line_witness.copy()
    equal = witness["weight"].values
    masses = np.where(witness["mode"].values == 1, equal, 0.0)
    by_mass = weights == "posterior"
    witness["weight"] = witness["weight"].copy(data=masses / masses.sum() if by_mass else equal)
    witness.attrs["weights"] = weights
    axes = plot_witness(witness, run=with_masses(bimodal), as_figure5=True).axes
    assert [ax.get_title(loc="left") for ax in axes] == [
        "A: short mode (mode 1), lengthscale 0.501, mass about 1e-20 (chains 0-1)",
        "B: long mode (mode 2), lengthscale 2.99, mass 1 (chain 2)",
        "C: as published (by chain): 2 chains in A, 1 chain in B (1 of 4 stuck and left out)",
        "C: by posterior mass: A about 1e-20, B 1",
    ][: 3 + by_mass]
    by_chain = credible_band(line_witness, 0.8)
    lower, upper, mean = curves(axes[2])
    np.testing.assert_allclose(mean.get_ydata(), by_chain.mean)
    np.testing.assert_allclose([lower, upper], [by_chain.lower, by_chain.upper])
    if by_mass:
        long_mode = credible_band(line_witness, 0.8, 1)
        np.testing.assert_allclose(curves(axes[3])[2].get_ydata(), long_mode.mean)
    titles = [ax.get_title(loc="left") for ax in plot_witness(line_witness, run=bimodal).axes]
    assert titles[:2] == [
        "mode 1: lengthscale 0.501, log mass lower by 50 (chains 0-1)",
        "mode 2: lengthscale 2.99 (chain 2)",
    ]


def test_rugs_of_both_samples(line_witness):
    P, Q = np.array([-1.0, 0.0, 1.0]), np.array([-0.5, 0.5])
    for ax in plot_witness(line_witness, P=P, Q=Q).axes:
        below, above = ax.collections[-2:]
        assert to_hex(below.get_color()[0]).upper() == P_COLOR
        assert to_hex(above.get_color()[0]).upper() == Q_COLOR
        np.testing.assert_array_equal([s[0, 0] for s in below.get_segments()], P)
        np.testing.assert_array_equal([s[0, 0] for s in above.get_segments()], Q)
        assert max(s[:, 1].max() for s in below.get_segments()) < 0.1
        assert min(s[:, 1].min() for s in above.get_segments()) > 0.9


def test_axes_are_shared_and_not_stretched_by_bands_away_from_the_data(line_witness):
    wild = line_witness.copy()
    values = wild["witness"].values.copy()
    values[..., :3] *= 1e4  # a band that blows up beyond the data
    wild["witness"] = wild["witness"].copy(data=values)
    P, Q = np.linspace(-1.5, 1.5, 20), np.linspace(-1.4, 1.4, 20)
    limits = {ax.get_ylim() for ax in plot_witness(wild, P=P, Q=Q).axes}
    assert len(limits) == 1
    ((low, high),) = limits
    assert high == -low
    assert 1.0 < high < 3.0


def test_bands_between_clusters_of_rows_do_not_set_the_axis(line_witness):
    """Two in five points are in a gap between the rows, and bands are 100 times as wide there."""
    wild = line_witness.copy()
    gap = np.abs(wild["at"].values[:, 0]) < 0.4 * np.abs(wild["at"].values).max()
    assert 0.2 < gap.mean() < 0.6
    wild["witness"] = wild["witness"].copy(data=wild["witness"].values * np.where(gap, 100.0, 1.0))
    P, Q = wild["at"].values[~gap, 0], wild["at"].values[~gap, 0][::2]
    tame = plot_witness(line_witness, P=P, Q=Q).axes[0].get_ylim()
    assert plot_witness(wild, P=P, Q=Q).axes[0].get_ylim() == pytest.approx(tame)
    assert plot_witness(wild).axes[0].get_ylim()[1] > 10 * tame[1]


def test_map_has_the_mean_on_the_mesh(map_witness):
    P, Q = np.array([[0.5, 100.0], [0.6, 300.0]]), np.array([[-0.5, 100.0], [-0.6, 300.0]])
    figure = plot_witness(map_witness, P=P, Q=Q)
    *panels, bar = figure.axes
    assert len(panels) == 3
    for ax, mode in zip(panels, (0, 1, None), strict=True):
        mesh = ax.collections[0]
        mean = credible_band(map_witness, 0.8, mode).mean.reshape(6, 5)
        np.testing.assert_allclose(mesh.get_array().reshape(5, 6), mean.T)
        assert mesh.norm(0.0) == 0.5
        assert ax.get_xlabel() == "wind"
    assert panels[0].get_ylabel() == "height"
    assert "half the pointwise 80% band: " in bar.get_ylabel()
    np.testing.assert_allclose(panels[0].collections[-2].get_offsets(), P)
    np.testing.assert_allclose(panels[0].collections[-1].get_offsets(), Q)
    named = pd.DataFrame(P, columns=["wind", "height"])[["height", "wind"]]
    figure = plot_witness(map_witness, P=named)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_xydata(), P)


def test_map_of_scattered_points(map_witness):
    selected = map_witness.isel(point=[0, 3, 7, 11, 20])
    first = plot_witness(selected).axes[0].collections[0]
    np.testing.assert_allclose(first.get_array(), credible_band(selected, 0.8, 0).mean)
    np.testing.assert_allclose(first.get_offsets(), selected["at"].values)


def test_points_are_sorted_with_their_intervals(point_witness):
    figure = plot_witness(point_witness)
    ax = figure.axes[0]
    expected = credible_band(point_witness, 0.8, 0)
    order = np.argsort(expected.mean)
    names = [format_values(point) for point in point_witness["at"].values]
    assert [label.get_text() for label in ax.get_yticklabels()] == [names[row] for row in order]
    assert all(str(name) in ax.get_ylabel() for name in point_witness["column"].values)
    np.testing.assert_allclose(ax.lines[0].get_xdata(), expected.mean[order])
    assert "pointwise 80% intervals" in ax.get_title()
    second = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert second == [names[row] for row in np.argsort(credible_band(point_witness, 0.8, 1).mean)]


def test_real_witness_end_to_end(run, data, ard_run, plane):
    witness = sample_witness(run, data[:15], data[15:], at=np.linspace(-2, 2, 12))
    figure = plot_witness(witness, P=data[:15], Q=data[15:], run=run)
    figure.savefig("/dev/null", format="png")
    mean = credible_band(witness, 0.8).mean
    assert any(np.array_equal(line.get_ydata(), mean) for line in figure.axes[-1].lines)
    # Twenty draws are too few to stand for the posterior.
    witness = sample_witness(ard_run, plane[:15], plane[15:], at=plane[:9], weights="chains")
    figure = plot_witness(witness, P=plane[:15], Q=plane[15:], run=ard_run)
    figure.savefig("/dev/null", format="png")
    assert [ax.get_xlabel() for ax in figure.axes] == ["wind", ""]  # the second is the colors'


def test_bad_input_is_named(line_witness, plane, run):
    with pytest.raises(InputError, match="P has 2 columns, but the witness 1"):
        plot_witness(line_witness, P=plane)
    with pytest.raises(InputError, match="level"):
        plot_witness(line_witness, 1.0)
    with pytest.raises(InputError, match="what sample_witness or"):
        plot_witness(run)
    with pytest.raises(InputError, match="needs 3 matplotlib Axes, and 2 were given"):
        plot_witness(line_witness, axes=Figure().subplots(2, 1))
