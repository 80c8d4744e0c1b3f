"""What a user says of the model, until data tell its units."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpyro.distributions as dist
from bke.models import SamplingNoise, SquaredExponential
from bke.models.kernels.base import Kernel
from bke.models.likelihood.base import Likelihood
from bke.models.measures import Measure
from bke.models.priors import Prior

from ..core.errors import input_errors
from ..data.units import Units
from .likelihoods import with_landmarks
from .target import Target


@dataclasses.dataclass(frozen=True)
class Model:
    """The arguments of :func:`~bke.inference.fit` that say what is believed; not checked yet."""

    kernel: Kernel | type[Kernel] = SquaredExponential
    prior: Prior | None = None
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1
    measure: Measure | str = "unit"
    likelihood: Likelihood | str = "auto"

    def target(self, units: Units, rows: np.ndarray, seed: int) -> Target:
        """What is to be sampled given data.

        Args:
            units: of the data.
            rows: (n, D), in their own units, or some of them; landmarks are chosen among them.
            seed: of that choice.

        Raises:
            InputError: for arguments that make no sense.
        """
        likelihood = with_landmarks(self.checked().likelihood, units, rows, seed)
        measure = units.measure_to_model(self.measure)
        return dataclasses.replace(self, measure=measure, likelihood=likelihood).checked()

    def checked(self) -> Target:
        """The target if what was said is in the model's units.

        Raises:
            InputError: for arguments that make no sense.
        """
        given = self.kernel, self.prior, self.noise_variance, self.measure, self.likelihood
        with input_errors():
            return Target.checked(*given)
