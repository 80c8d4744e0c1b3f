"""The words of likelihoods and measures, which the command line lists without importing them."""

from typing import get_args

import pytest
from bke.inference.cli.options.model import MeasureName
from bke.models import Fourier, Landmark, Nystrom
from bke.models.likelihood.marginal import LIKELIHOODS, any_likelihood, restored_likelihood
from bke.models.likelihood.names import LikelihoodName, LowRank, Route
from bke.models.measures import MEASURES


def test_every_likelihood_has_its_name_and_no_more():
    assert get_args(LikelihoodName) == tuple(kind.name for kind in LIKELIHOODS)
    assert get_args(Route) == tuple(kind.name for kind in LIKELIHOODS if kind.exact)
    assert get_args(LowRank) == tuple(kind.name for kind in LIKELIHOODS if kind.approximate)


def test_every_named_measure():
    assert get_args(MeasureName) == tuple(MEASURES)


@pytest.mark.parametrize("likelihood", ["auto", "dense", "spectral", Nystrom(5), Fourier(7)])
def test_a_recorded_likelihood_is_restored(likelihood):
    asked = any_likelihood(likelihood)
    assert restored_likelihood({"kernel": {}, **asked.record()}) == asked


def test_a_restored_landmark_model_has_the_places_that_are_kept_beside():
    record = Landmark([[1.0], [2.0]]).record()
    assert record == {"likelihood": "landmark"}
    found = restored_likelihood({**record, "landmarks": [[1.0], [2.0]]})
    assert found.points.tolist() == [[1.0], [2.0]]


def test_what_is_no_likelihood():
    with pytest.raises(ValueError, match=r"'spectral', 'landmark', Nystrom.*got 'exact'"):
        any_likelihood("exact")
