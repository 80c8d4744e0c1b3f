"""Modes are wide basins, not the narrow peaks between zeros of the density; they are cached."""

import dataclasses
import json
from collections import Counter

import numpy as np
import pytest
import xarray as xr
from bke.inference import (
    Nuts,
    diagnose,
    find_modes,
    fit,
    open_run,
    plot_profile,
    plot_rank,
    plot_trace,
    plot_witness,
    reweight,
    sample_witness,
)
from bke.inference.diagnostics.modes import basins
from bke.inference.diagnostics.summary import run_summary
from bke.inference.sampling import open_run as opening
from bke.inference.sampling.densities import smooth
from bke.inference.sampling.draw_graph import density_graph
from bke.inference.sampling.record import RECORD, read_record
from bke.inference.witness.summary import witness_summary

GRID = np.arange(-3.0, 3.0, 0.01)


def change_record(run, **entries):
    run.attrs[RECORD] = json.dumps({**read_record(run.attrs), **entries})


def two_bumps(left: float, right: float) -> np.ndarray:
    """Log density with tops at -1 and 1, their heights given, and a valley of -40 between."""
    return np.maximum(left - 80 * (GRID + 1) ** 2, right - 80 * (GRID - 1) ** 2)


def test_narrow_zeros_are_not_barriers():
    """The density is multiplied by |u - zero| at 300 points, as the volume factor does."""
    zeros = np.random.default_rng(0).uniform(-3, 3, 300)
    factor = np.log(np.abs(GRID[:, None] - zeros) / 0.5 + 1e-12).clip(-30, 0).sum(1)
    tops, borders = basins(smooth(two_bumps(0.0, -20.0) + factor, 0.01))
    assert len(tops) == 2
    np.testing.assert_allclose(GRID[tops], [-1, 1], atol=0.1)
    assert -0.5 < GRID[borders[0]] < 0.5


def test_a_basin_that_is_no_mode_has_no_part_in_a_barrier(line):
    """A basin of negligible mass at -2.5 is nearer to the highest mode than the other mode.

    The valleys of the density are at -80 * 0.5**2 = -20 and near -80; smoothing takes at most 15.
    """
    left_out = -19.0 - 80 * (GRID + 2.0) ** 2
    run = line(draws_at(-1.0, 1.0), np.maximum(two_bumps(25.0, 0.0), left_out))
    (first, second) = find_modes(run).modes
    assert first.barrier - second.barrier == pytest.approx(25.0, abs=1.5)
    assert second.barrier > 55.0
    nearer = find_modes(line(draws_at(-2.0, -1.0, 1.0), run["profile"]["log_density"].values))
    assert nearer.modes[1].barrier < first.barrier - 20.0
    assert len(repr(diagnose(run))) < 60


def test_only_a_deep_dip_is_a_barrier():
    def depth(nats: float) -> int:
        dip = nats * np.exp(-0.5 * (GRID / 0.4) ** 2)
        return len(basins(smooth(-0.5 * GRID**2 - dip, 0.01))[0])

    assert depth(2.0) == 1
    assert depth(15.0) == 2
    tops, borders = basins(smooth(-10.0 * GRID, 0.01))  # at the edge of the grid
    assert (len(tops), len(borders)) == (1, 0)


@pytest.fixture(scope="module")
def template():
    X = np.random.default_rng(0).normal(size=20)
    return fit(X, method=Nuts(num_chains=2, num_warmup=20, num_samples=4), progress=False)


def with_draws(template, z, lp, **datasets):
    """A run whose draws z (chain, draw, ...) are given; everything else from ``template``."""
    groups = {name: node.to_dataset() for name, node in template.children.items()}
    del groups["profile"]
    dims = ("chain", "draw", "input")[: z.ndim]
    groups["posterior"] = xr.Dataset({"lengthscale": (dims, np.exp(z))})
    groups["unconstrained_posterior"] = xr.Dataset({"lengthscale": (dims, z)})
    groups["sample_stats"] = xr.Dataset(
        {
            "lp": (dims[:2], lp),
            "diverging": (dims[:2], np.zeros(lp.shape, bool)),
            "nonfinite_evaluations": ("chain", np.zeros(len(lp), int)),
        }
    )
    run = xr.DataTree.from_dict({f"/{name}": group for name, group in (groups | datasets).items()})
    run.attrs.update(template.attrs)
    return run


@pytest.fixture(scope="module")
def line(template):
    """Make a run of one lengthscale, from draws z (chain, draw) and a log density on the grid."""

    def run_of_density(z, log_density):
        profile = xr.Dataset(
            {
                "value": ("grid", np.exp(GRID)),
                "value_in_data_units": ("grid", np.exp(GRID)),
                "log_density": ("grid", log_density),
                "smoothed": ("grid", smooth(log_density, 0.01)),
                "log_prior": ("grid", -np.exp(GRID) + GRID),
            },
            coords={"unconstrained": ("grid", GRID)},
            attrs={"site": "lengthscale", "smoothing": 0.1, "step": 0.01},
        )
        return with_draws(template, z, np.interp(z, GRID, log_density), profile=profile)

    return run_of_density


def draws_at(*centers: float, seed: int = 0, width: float = 0.08) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.array(centers)[:, None] + width * rng.normal(size=(len(centers), 200))


def test_chains_are_assigned_to_their_modes(line):
    run = line(draws_at(1.0, -1.0, 1.0, -1.0, -1.0), two_bumps(0.0, -20.0))
    modes = find_modes(run)
    assert [mode.chains for mode in modes.modes] == [(1, 3, 4), (0, 2)]
    assert modes.modes[0].height == 0
    assert modes.modes[1].height == pytest.approx(-20, abs=0.5)
    np.testing.assert_allclose(modes.modes[0].location["lengthscale"], np.exp(-1), rtol=0.05)
    assert modes.of_draws.shape == (5, 200)
    assert set(modes.of_draws[0]) == {1}
    assert modes.crossings == 0
    report = diagnose(run)
    assert report.multimodal
    assert report.rhat > 1.5
    assert report.per_mode[0].rhat < 1.05
    assert "2 modes" in report.verdict
    assert "no chain crossed" in report.verdict
    assert "chains 1, 3-4" in str(report)
    assert json.loads(json.dumps(report.summary()))["modes"][1]["chains"] == [0, 2]


def test_a_chain_much_below_the_maximum_is_stuck(line):
    run = line(draws_at(-1.0, -1.0, -1.7, width=0.02), two_bumps(0.0, -20.0))
    modes = find_modes(run)
    assert modes.stuck == (2,)
    assert modes.modes[0].chains == (0, 1)
    report = diagnose(run)
    assert "chain 2" in report.verdict
    described = str(report).splitlines()[1]
    assert "chains 0-1: R-hat" in described  # the statistics are not those of the stuck chain
    assert described.endswith("; stuck: chain 2")


def test_an_unvisited_mode_is_reported_if_it_could_have_mass(line):
    draws = draws_at(-1.0, -1.0, -1.0, -1.0)
    near = diagnose(line(draws, two_bumps(0.0, -5.0)))
    assert "No chain visited the mode" in near.verdict
    assert not near.modes.modes[1].visited
    negligible = diagnose(line(draws, two_bumps(0.0, -35.0)))
    assert not negligible.multimodal


NORMAL = -0.5 * (GRID / 0.3) ** 2


def slow_draws():
    return 0.3 * np.cumsum(np.random.default_rng(1).normal(size=(4, 200)), axis=1) / 14


@pytest.mark.parametrize(
    ("z", "mixed", "start"),
    [
        (lambda: 0.3 * draws_at(0, 0, 0, 0, width=1.0), True, "Mixed"),
        (slow_draws, False, "Not mixed"),
        (lambda: 0.3 * draws_at(0, width=1.0), False, "Mixing is unknown: one chain cannot show"),
    ],
)
def test_verdict_on_mixed_short_and_single_chains(z, mixed, start, line):
    report = diagnose(line(z(), NORMAL))
    assert report.convergence.mixed == mixed
    assert report.verdict.startswith(start)
    assert "zeros" not in str(report)  # no reason for a smooth density


def test_only_failed_criteria_are_listed_and_rounding_never_hides_a_failure(line):
    good = diagnose(line(0.3 * draws_at(0, 0, 0, 0, width=1.0), NORMAL))
    chains = dataclasses.replace(good.convergence, rhat=1.0101, ess_bulk=199.9, ess_tail=900.0)

    def verdict(**changes):
        convergence = dataclasses.replace(chains, **changes)
        return dataclasses.replace(good, convergence=convergence).verdict

    assert chains.rhat_text == "R-hat 1.011"
    assert "R-hat 1.011 (should be at most 1.010) and the smallest effective" in verdict()
    assert "size is 199 (should be at least 200)" in verdict()
    assert "R-hat" not in verdict(rhat=1.01)
    assert dataclasses.replace(chains, rhat=1.01).rhat_text == "R-hat 1.010"
    limits = dataclasses.replace(chains, rhat=1.0101, ess_bulk=199.9, ess_tail=np.nan)
    assert limits.text == "R-hat 1.011, bulk ESS 199, tail ESS nan"
    assert "effective" not in verdict(ess_bulk=500.0)
    assert verdict().endswith("run longer warmup and more draws.")
    with_zeros = dataclasses.replace(good, modes=dataclasses.replace(good.modes, peaks=30))
    for rhat, reason in ((1.05, "R-hat up to 1.1 is expected"), (1.2, "run longer warmup")):
        convergence = dataclasses.replace(chains, rhat=rhat)
        assert reason in dataclasses.replace(with_zeros, convergence=convergence).verdict


@pytest.mark.parametrize(
    ("third", "stuck"),
    [((), ()), ((0.0,), (2,))],  # next to the border a stuck chain seems to cross it
)
def test_crossings_are_counted_without_those_of_stuck_chains(third, stuck, line):
    z = draws_at(-1.0, 1.0, *third)
    z[0, 100:] += 2.0
    modes = find_modes(line(z, two_bumps(0.0, 0.0)))
    assert modes.crossings == 1
    assert modes.stuck == stuck
    for crossing in (0, *stuck):
        assert set(modes.of_draws[crossing]) == {0, 1}


def test_the_heaviest_mode_has_the_largest_mass(line):
    modes = find_modes(line(draws_at(-1.0, 1.0), two_bumps(0.0, -2.0)))
    assert modes.heaviest == modes.highest == 0
    parts = zip(modes.modes, (0.3, 0.7), strict=True)
    weighted = tuple(dataclasses.replace(mode, mass=mass) for mode, mass in parts)
    assert dataclasses.replace(modes, modes=weighted).heaviest == 1


def test_a_mode_that_chains_only_pass_through_is_visited(line):
    """Every chain has a quarter of its draws there, and none most of them."""
    z = draws_at(-1.0, -1.0, -1.0, -1.0)
    z[:, 150:] += 2.0
    report = diagnose(line(z, two_bumps(0.0, 0.0)))
    assert all(mode.visited for mode in report.modes.modes)
    assert "No chain visited" not in report.verdict
    assert "crossed between them 4 times" in report.verdict
    # No chain stayed in either mode, so mixing within a mode cannot be assessed.
    assert report.per_mode == (None, None)


def test_heights_compare_mass_not_smoothed_tops(line):
    """Averaging the log lowers a sharp top by 25 nats here, and the other by 0.25."""
    sharp = -2500.0 * (GRID + 1) ** 2
    broad = -15.0 - 25.0 * (GRID - 1) ** 2
    run = line(draws_at(-1.0, 1.0, width=0.02), np.maximum(sharp, broad))
    first, second = find_modes(run).modes
    assert first.height == 0
    # The log of the ratio of masses: -15 + log sqrt(2500 / 25).
    assert second.height == pytest.approx(-15 + np.log(10), abs=0.1)


@pytest.fixture(scope="module")
def plane(template):
    """Make a run of two lengthscales, from draws (chain, draw, 2) of an equal mixture of Gaussians.

    The components, at (-3, 0) and (3, 0), have standard deviation 1/4.
    """

    def density(values: dict[str, np.ndarray]) -> np.ndarray:
        squares = [np.sum((values["lengthscale"] - (c, 0.0)) ** 2, axis=-1) for c in (-3.0, 3.0)]
        return np.logaddexp(*(-8.0 * square for square in squares))

    def run_of_draws(z):
        values = {"lengthscale": z}
        lp = density(values)
        return with_draws(template, z, lp, paths=density_graph(values, lp, density))

    return run_of_draws


def plane_draws(*centers: float, seed: int = 0) -> np.ndarray:
    z = 0.25 * np.random.default_rng(seed).normal(size=(len(centers), 200, 2))
    z[..., 0] += np.array(centers)[:, None]
    return z


def test_with_several_hyperparameters_a_crossing_chain_is_counted_and_does_not_join_modes(plane):
    z = plane_draws(-3.0, -3.0, 3.0)
    z[1, 130:170, 0] += 6.0
    modes = find_modes(plane(z))
    assert [mode.chains for mode in modes.modes] == [(0, 1), (2,)]
    assert modes.crossings == 2
    assert set(modes.of_draws[1, 130:170]) == {1}
    assert (modes.of_draws[1] == 1).sum() == 40
    assert [mode.draws for mode in modes.modes] == [360, 240]
    np.testing.assert_allclose(np.log(modes.modes[1].location["lengthscale"]), [3, 0], atol=0.1)
    # 72 nats from top to saddle, a nat less from the median draw.
    assert modes.modes[0].barrier == pytest.approx(72, abs=5)
    assert "crossed between them 2 times" in diagnose(plane(z)).verdict


def test_with_several_hyperparameters_a_chain_at_low_density_is_stuck(plane):
    z = plane_draws(-3.0, -3.0, -3.0)
    z[2] = [-3.0, 2.0] + 0.02 * (z[2] - [-3.0, 0.0])
    modes = find_modes(plane(z))
    assert modes.stuck == (2,)
    assert modes.modes[0].chains == (0, 1)
    np.testing.assert_allclose(np.log(modes.modes[0].location["lengthscale"]), [-3, 0], atol=0.1)


def test_independent_draws_have_no_convergence_statistics(line):
    """Three in four draws are in the first mode; no chain is named, and none is stuck.

    The barrier is 80 less what smoothing takes: at most 80 * 0.1**2 at the maximum, and about 12 at
    the kink between the modes.
    """
    z = draws_at(-1.0, -1.0, -1.0, 1.0).reshape(1, -1)
    run = line(z, two_bumps(0.0, -1.0))
    change_record(run, method="smc", independent=1, method_in_words="draws of tempered SMC")
    report = diagnose(run)
    assert [mode.draws for mode in report.modes.modes] == [600, 200]
    assert report.modes.stuck == ()
    assert report.modes.crossings is None
    assert str(report) == (
        "800 draws of the posterior by smc\n"
        "mode 1: lengthscale 0.368, barrier 68\n"
        f"mode 2: lengthscale 2.72, log mass lower by 1, barrier 67\n\n{report.verdict}"
    )
    assert report.verdict == (
        "All modes are represented by posterior mass: draws of tempered SMC.\nMultimodal: 2 modes."
    )
    assert report.to_dataframe()["rhat"].isna().all()


def test_draws_of_another_program_are_named_by_it(line):
    run = line(draws_at(-1.0, -1.0, 1.0), two_bumps(0.0, -20.0))
    change_record(run, method="external", method_in_words="draws of numpyro")
    first, second, third, *verdict = str(diagnose(run)).splitlines()
    assert first.startswith("3 chains x 200 draws (draws of numpyro): R-hat ")
    assert first.endswith(", 0 divergences")
    assert second.startswith("mode 1: lengthscale 0.36")
    assert "; chains 0-1: R-hat 1.0" in second
    assert third.startswith("mode 2: lengthscale 2.7")
    assert ", log mass lower by 20, barrier " in third
    assert "; chain 2: R-hat needs two chains, bulk ESS " in third
    assert verdict == [
        "",
        "Multimodal: 2 modes, 2 of them visited, and no chain crossed between them.",
        "Averages over chains do not weight modes by posterior mass: do not pool.",
        "Mode 1 has practically all of the posterior mass: "
        "the log mass of the next is lower by 20.",
    ]


# -- results are cached

WORK = {
    "modes": "bke.inference.diagnostics.modes._modes_of_profile",
    "masses": "bke.inference.diagnostics.modes.mode_masses",
    "target": "bke.inference.sampling.open_run.target_of",
    "quadrature": "bke.inference.diagnostics.reweight.integral",
}


P, Q = np.random.default_rng(0).normal([[0.0], [1.0]], size=(2, 12))[..., None]


@pytest.fixture(scope="module")
def fitted():
    return fit((P, Q), method=Nuts(2, 20, 10), progress=False)


@pytest.fixture
def run(fitted, monkeypatch):
    """A run of which no results are cached."""
    monkeypatch.setattr(opening, "_SHARED", opening.Cache(opening.MAX_RESULTS))
    return fitted.copy(deep=True)


@pytest.fixture
def work(run, monkeypatch):
    """Count the calls of each computation after the fit."""
    done = Counter()

    def counted(name, function):
        def counting(*arguments):
            done[name] += 1
            return function(*arguments)

        return counting

    for name, path in WORK.items():
        module, function = path.rsplit(".", 1)
        imported = __import__(module, fromlist=[function])
        monkeypatch.setattr(path, counted(name, getattr(imported, function)))
    return done


def everything(run):
    """Do all that ``bke run`` does after the fit."""
    reweighted = reweight(run, progress=False)
    diagnosis = diagnose(reweighted)
    run_summary(reweighted, diagnosis)
    witness = sample_witness(reweighted, P, Q, [0.0, 1.0], progress=False)
    witness_summary(witness, diagnosis.modes, 0.8)
    for plot in (plot_trace, plot_rank, plot_profile):
        plot(reweighted)
    plot_witness(witness, run=reweighted)
    return reweighted


@pytest.mark.slow
def test_everything_is_computed_once(run, work):
    everything(run)
    assert work == {"modes": 1, "masses": 1, "target": 1, "quadrature": 1}
    everything(run)
    sample_witness(run, P, Q, [0.0, 1.0], progress=False)
    diagnose(open_run(run))
    # The run without masses asks for its own once, and finds none.
    assert work == {"modes": 1, "masses": 2, "target": 1, "quadrature": 1}


def test_an_equal_copy_is_cached_and_a_changed_copy_is_not(run, work):
    modes = find_modes(run)
    copy = run.copy(deep=True)
    assert find_modes(copy).of_draws is modes.of_draws
    assert work["modes"] == 1
    z = copy["unconstrained_posterior"]["lengthscale"].values
    z[...] = z + 0.1
    find_modes(copy)
    assert work["modes"] == 2
    assert find_modes(copy).modes[0].location != modes.modes[0].location
    assert find_modes(run).modes[0].location == modes.modes[0].location
    assert work["modes"] == 2


def test_an_open_run_reflects_changes_of_its_tree(run, work):
    opened = open_run(run)
    assert find_modes(opened).crossings is not None
    change_record(run, independent=1)
    assert find_modes(opened).crossings is None
    assert work["modes"] == 2


def test_masses_are_recomputed_and_modes_are_cached(run, work):
    before = find_modes(run)
    after = find_modes(reweight(run, progress=False))
    assert before.modes[0].mass is None
    assert after.modes[0].mass is not None
    assert after.of_draws is before.of_draws
    assert work["modes"] == 1


def test_cached_arrays_are_read_only(run, work):
    with pytest.raises(ValueError, match="read-only"):
        find_modes(run).of_draws[0, 0] = 7
    first = reweight(run, progress=False)
    weight = first["quadrature"]["weight"].values.copy()
    first["quadrature"]["weight"].values[...] = 0.0
    second = reweight(run, progress=False)
    np.testing.assert_array_equal(second["quadrature"]["weight"], weight)
    assert work["quadrature"] == 1
    reweight(run, tolerance=1e-2, progress=False)
    assert work["quadrature"] == 2
