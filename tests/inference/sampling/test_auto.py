"""What ``method="auto"`` takes, with which options."""

from types import SimpleNamespace

import pytest
from bke.inference import Nuts, Quadrature, Smc
from bke.inference.sampling.samplers import Auto, sampler_for

CHOICE = Auto(Quadrature(tolerance=0.1, num_samples=64), Smc(num_particles=100, num_repeats=5))


@pytest.mark.parametrize(
    ("hyperparameters", "name"), [(1, "quadrature"), (2, "quadrature"), (3, "smc"), (10, "smc")]
)
def test_the_choice_goes_by_the_number_of_hyperparameters(hyperparameters, name):
    target = SimpleNamespace(num_hyperparameters=hyperparameters)
    sampler, told = sampler_for(CHOICE, target)
    assert sampler == getattr(CHOICE, name)
    assert told["method"] == name
    assert told["chosen"].startswith(f"{name}, chosen automatically: {hyperparameters} ")
    assert sampler_for("auto", target)[0] == {"quadrature": Quadrature(), "smc": Smc()}[name]


def test_what_is_asked_for_is_not_said_to_be_chosen():
    target = SimpleNamespace(num_hyperparameters=1)
    assert sampler_for(Nuts(), target) == (Nuts(), {"method": "nuts"})
