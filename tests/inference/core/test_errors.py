"""Errors of arguments that are one of several choices."""

import numpy as np
import pandas as pd
import pytest
from bke.inference.core.errors import InputError, check_choice

COLUM = "colum"
CHOICES = ("column", "pooled", None, 0.5, np.inf)


@pytest.mark.parametrize("value", [*CHOICES, np.str_("pooled"), np.float64(0.5)])
def test_choices_pass(value):
    check_choice(value, "scale", CHOICES)


@pytest.mark.parametrize(
    "value", [COLUM, 1, 2.5, np.array(["column", "x"]), np.array([]), pd.Series(["a"]), {}, [""]]
)
def test_other_values_are_input_errors(value):
    with pytest.raises(InputError, match="scale must be one of") as refused:
        check_choice(value, "scale", CHOICES)
    assert ("did you mean 'column'" in str(refused.value)) == (value is COLUM)
