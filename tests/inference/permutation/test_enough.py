"""Permutations, and rows, that are too few for the level."""

import pytest
from bke.inference.core.errors import InputError
from bke.inference.permutation.null_distribution import DRAWN, check_permutations, few_rows_note


@pytest.mark.parametrize("null", DRAWN)
def test_the_least_that_can_reach_the_level(null):
    check_permutations(19, 0.05, null=null)
    check_permutations(9, 0.1, null=null)  # 1 / 0.1 is 10, whatever rounding makes of it
    check_permutations(33, 0.03, null=null)
    for permutations, alpha, needed in ((18, 0.05, 19), (8, 0.1, 9), (32, 0.03, 33)):
        told = f"{permutations} draws cannot reject at level .*1/{permutations + 1}.*{needed}$"
        with pytest.raises(InputError, match=told):
            check_permutations(permutations, alpha, "draws", null)


def test_of_a_null_in_closed_form_their_number_does_not_matter():
    check_permutations(1, 0.05, null="gamma")


def test_what_is_no_number_or_no_level():
    with pytest.raises(InputError, match="permutations must be at least 1, got 0"):
        check_permutations(0, 0.05)
    for alpha in (0.0, 1.0, -0.1, float("nan"), "small"):
        with pytest.raises(InputError, match=r"alpha must be a number between 0 and 0.5"):
            check_permutations(99, alpha, null="gamma")


def test_rows_that_can_be_permuted_in_few_ways():
    (note,) = few_rows_note(19, 0.05)
    assert "permuted in 19 ways" in note
    assert "below about 1/19" in note
    assert few_rows_note(20, 0.05) == ()
    assert few_rows_note(10**9, 0.05) == ()
