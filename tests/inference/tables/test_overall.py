"""How surprising tables are, and how much that hangs on the draw of the relabellings."""

import dataclasses

import numpy as np
from bke.inference.io.tables import as_table
from bke.inference.permutation.permutation import p_value
from bke.inference.tables import compare_tables as module
from bke.inference.tables.pooled import ReadOptions, Roles, pooled


def tables(rng, rows):
    x = rng.normal(size=rows)
    return {
        "x": x,
        "y": np.round(2.0 * x + rng.normal(size=rows)),
        "c": rng.choice(list("abd"), rows),
    }


def test_what_is_left_out_is_left_out_of_everything(monkeypatch):
    """Statistics of some relabellings are those of tables dealt out by these alone."""
    rng = np.random.default_rng(0)
    pair = [as_table(tables(rng, rows), name) for rows, name in ((60, "p"), (45, "q"))]
    data = pooled(pair, None, (), ReadOptions({}), Roles())
    whole = module._evaluated(data, 99, 0, Roles(), 0.05, progress=False).statistics()
    some = np.array([0, *range(7, 60, 2)])
    dealt = module.labelling

    def of_some(*args, **options):
        every = dealt(*args, **options)
        return dataclasses.replace(every, labels=every.labels[:, some])

    monkeypatch.setattr(module, "labelling", of_some)
    alone = module._evaluated(data, 99, 0, Roles(), 0.05, progress=False).statistics()
    np.testing.assert_allclose(whole.of(some).evidence(), alone.evidence(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(whole.of(some).overall(), alone.overall(), rtol=1e-7, atol=1e-9)
    assert p_value(whole.overall()) != p_value(alone.overall())
