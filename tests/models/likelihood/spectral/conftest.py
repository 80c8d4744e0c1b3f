"""Double precision in all tests of this folder."""

import pytest


@pytest.fixture(autouse=True)
def double_precision(x64: None) -> None:
    """Turn on what the fixture of the tests of models does."""
