"""Errors of arguments that are one of several choices."""

import numpy as np
import pandas as pd
import pytest
from bke.inference.core.errors import InputError, check_choice

CHOICES = ("column", "pooled", None, 0.5, np.inf)


@pytest.mark.parametrize("value", [*CHOICES, np.str_("pooled"), np.float64(0.5)])
def test_choices_pass(value):
    check_choice(value, "scale", CHOICES)


@pytest.mark.parametrize(
    "value",
    [
        "colum",
        1,
        2.5,
        np.array(["column", "x"]),
        np.array([]),
        pd.Series(["column"]),
        {},
        ["column"],
    ],
    ids=repr,
)
def test_other_values_are_input_errors(value):
    with pytest.raises(InputError, match="scale must be one of"):
        check_choice(value, "scale", CHOICES)


def test_the_nearest_choice_is_named():
    with pytest.raises(InputError, match="did you mean 'column'"):
        check_choice("colum", "scale", CHOICES)
