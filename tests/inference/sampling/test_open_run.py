"""An open run: its density is the one that was sampled, and what it keeps is never out of date."""

import numpy as np
import pytest
import xarray as xr
from bke.inference import InputError, OpenRun, open_run
from bke.inference.diagnostics.modes import unconstrained_draws
from bke.inference.sampling.open_run import Cache
from bke.inference.sampling.record import RECORD
from bke.inference.sampling.run import target_of


@pytest.mark.slow
def test_the_density_is_that_of_the_draws(nuts_run):
    opened = open_run(nuts_run)
    z = unconstrained_draws(nuts_run)
    values = opened.log_density({"lengthscale": z.ravel()})
    np.testing.assert_allclose(values.reshape(2, 10), nuts_run["sample_stats"]["lp"], rtol=1e-9)


def test_it_is_opened_once(nuts_run):
    opened = open_run(nuts_run)
    assert open_run(opened) is opened
    assert isinstance(opened, OpenRun)
    target, units = target_of(nuts_run)
    assert opened.target.describe() == target.describe()
    np.testing.assert_array_equal(opened.units.scale, units.scale)
    assert opened.target is open_run(nuts_run.copy(deep=True)).target
    assert opened.points is opened.points


def test_data_that_were_modified_are_prepared_again(nuts_run):
    changed = nuts_run.copy(deep=True)
    opened = open_run(changed)
    before = opened.points
    changed["observed_data"]["X"].values[0] += 1.0
    after = opened.points
    assert after is not before
    assert not np.array_equal(before.rows.points, after.rows.points)


def test_another_prior_is_another_target(nuts_run):
    changed = nuts_run.copy(deep=True)
    changed.attrs[RECORD] = nuts_run.attrs[RECORD].replace('"rate": 1.0', '"rate": 2.0')
    assert open_run(changed).target.describe() != open_run(nuts_run).target.describe()


@pytest.mark.parametrize("tree", [xr.DataTree(), None])
def test_other_trees_are_refused(tree):
    with pytest.raises(InputError, match=r"not a run of bke\.inference\.fit"):
        open_run(tree)


def test_a_cache_keeps_the_latest_results_that_are_to_be_stored():
    cache = Cache(2)
    calls = []

    def compute(value):
        calls.append(value)
        return value

    for key in "aabacab":  # b is forgotten when c comes
        assert cache.get(key, lambda key=key: compute(key)) == key
    assert "".join(calls) == "abcb"
    for _ in range(2):
        cache.get("d", lambda: compute("d"), lambda value: False)
    assert "".join(calls) == "abcbdd"
