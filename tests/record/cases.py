"""The registry of cases: small functions that call the public API and return plain values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

#: Permutations, or draws of a null distribution, in every test of a case.
N_RESAMPLES = 199


class Case(NamedTuple):
    """A function that returns outputs by name, and how it is run.

    Attributes:
        name: ``area.function``; the area selects cases on the command line and in pytest (``-k``).
        function: takes a seed, or nothing where nothing in it is random.
        slow: left out of the default run of the tests.
    """

    name: str
    function: Callable[..., Mapping[str, Any]]
    slow: bool

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]

    @property
    def seeded(self) -> bool:
        return "seed" in inspect.signature(self.function).parameters

    def run(self, seed: int = 0) -> dict[str, Any]:
        """Return the outputs as arrays of numbers, or strings or lists of strings."""
        outputs = self.function(seed) if self.seeded else self.function()
        return {name: _plain(value, f"{self.name}: {name}") for name, value in outputs.items()}


CASES: dict[str, Case] = {}


def case(area: str, *, slow: bool = False) -> Callable[[Any], Any]:
    """Register a function as a case of an area."""

    def register(function: Callable[..., Mapping[str, Any]]) -> Callable[..., Mapping[str, Any]]:
        name = f"{area}.{function.__name__}"
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = Case(name, function, slow)
        return function

    return register


def _plain(value: Any, name: str) -> Any:
    """A float array, of booleans 0 and 1, or a string or a list of strings."""
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        return array.astype(float)
    if array.dtype.kind == "U":
        return array.tolist()
    raise TypeError(f"{name} is neither numbers, booleans nor strings: {value!r}")
