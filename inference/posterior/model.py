"""What a user says of the model, until data tell its units."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpyro.distributions as dist
from bke.models import SamplingNoise, SquaredExponential
from bke.models.bayes.priors import Prior
from bke.models.kernels.base import Kernel
from bke.models.measures.measure import Measure

from ..data.units import Units
from ..errors import InputError
from .landmarks import landmarks_for
from .target import Target


@dataclasses.dataclass(frozen=True)
class Model:
    """The arguments of :func:`~bke.inference.fit` that say what is believed; not checked yet."""

    kernel: Kernel | type[Kernel] = SquaredExponential
    prior: Prior | None = None
    noise_variance: float | str | SamplingNoise | dist.Distribution = 0.1
    measure: Measure = "unit"
    likelihood: Any = "auto"
    landmarks: Any = None
    rank: int | None = None

    def target(self, units: Units, rows: np.ndarray, seed: int) -> Target:
        """What is to be sampled given data.

        Args:
            units: of the data.
            rows: (n, D), in their own units, or some of them; landmarks are chosen among them.
            seed: of that choice.

        Raises:
            InputError: for arguments that make no sense.
        """
        places = landmarks_for(self.likelihood, self.landmarks, units, rows, seed)
        return self.checked(units.measure_to_model(self.measure), places)

    def checked(self, measure: Measure, places: np.ndarray | None = None) -> Target:
        """The target for a measure and places (m, D) in the model's units."""
        prior, noise_variance = self.prior, self.noise_variance
        try:
            return Target.checked(
                self.kernel, prior, noise_variance, measure, self.likelihood, places, self.rank
            )
        except ValueError as error:
            raise InputError(str(error)) from None
