"""Summary of a witness: extremes within the range of the data, number of lengthscales."""

import types

import numpy as np
import pytest
import xarray as xr
from bke.inference.witness.summary import witness_summary

MODES = types.SimpleNamespace(modes=[None])
AT = np.array([-9.0, -1.0, 0.0, 1.0, 9.0])


EVERYWHERE = np.ones(5, dtype=bool)


def witness(inside=EVERYWHERE, thin=1, lengthscales=40):
    """Forty equal draws: 5 at x = -9, 1, 0, -1 at x = 1, and -5 at x = 9."""
    values = np.tile([5.0, 1.0, 0.0, -1.0, -5.0], (2, 20, 1))
    dataset = xr.Dataset(
        {
            "witness": (("chain", "draw", "point"), values),
            "mode": (("chain", "draw"), np.zeros((2, 20), dtype=int)),
            "weight": (("chain", "draw"), np.full((2, 20), 1 / 40)),
        },
        coords={
            "at": (("point", "column"), AT[:, None]),
            "column": ["x"],
            "in_range": ("point", inside),
        },
        attrs={"noise": "clt", "weights": "posterior", "seed": 0, "sizes": [3, 4], "thin": thin,
               "num_lengthscales": lengthscales},
    )  # fmt: skip
    return xr.DataTree(dataset, name="witness")


@pytest.mark.parametrize(
    ("inside", "largest", "smallest"),
    [
        (np.abs(AT) < 2.0, (1.0, -1.0), (-1.0, 1.0)),
        (np.zeros(5, dtype=bool), (5.0, -9.0), (-5.0, 9.0)),
    ],
)
def test_extremes_are_within_the_range_of_the_data_if_any_point_is(inside, largest, smallest):
    summary = witness_summary(witness(inside), MODES, 0.8)
    for part in (summary["overall"], summary["modes"][0]):
        for name, (mean, at) in (("largest", largest), ("smallest", smallest)):
            assert part[name]["mean"] == pytest.approx(mean)
            assert part[name]["at"] == {"x": at}
    assert summary["points"] == 5


@pytest.mark.parametrize(
    ("thin", "lengthscales", "ending"),
    [
        (1, 40, "at 40 distinct lengthscales."),
        (1, 31, "at 31 distinct lengthscales."),  # a sampler that stayed where it was
        ("auto", 40, "at 40 distinct lengthscales."),
        (8, 5, "at 5 distinct lengthscales, of one in 8 posterior draws."),
        ("auto", 5, "thin=1."),
    ],
)
def test_the_number_of_distinct_lengthscales_is_reported(thin, lengthscales, ending):
    summary = witness_summary(witness(thin=thin, lengthscales=lengthscales), MODES, 0.8)
    assert summary["thinning"].startswith("The 40 draws of the witness are at ")
    assert f" {lengthscales} distinct lengthscales" in summary["thinning"]
    assert summary["thinning"].endswith(ending)
