"""What a likelihood is asked for by: a way to BKE (13), or another model, with its options."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

from ..kernels.base import Kernel
from ..measures import Measure
from .noise import Noise
from .view import LikelihoodView


@dataclasses.dataclass(frozen=True)
class Likelihood(abc.ABC):
    """Options of a likelihood, checked. A subclass is a frozen dataclass that makes its view."""

    name: ClassVar[str]
    """What stands for it on the command line and in a record."""

    needs: ClassVar[str | None] = None
    """What it cannot be asked for without, so that its name alone does not do."""

    exact: ClassVar[bool] = False
    """Whether it gives BKE (13) itself, to rounding."""

    approximate: ClassVar[bool] = False
    """Whether it gives BKE (13) with an error, of which its view has the evidence."""

    @abc.abstractmethod
    def view(
        self, points: Any, kernel: Kernel, noise_variance: Noise, measure: Measure
    ) -> LikelihoodView:
        """(n, D) ``points`` as it needs them, for kernels like ``kernel``.

        Raises:
            ValueError: where it cannot be used, with the reason.
        """

    @property
    def words(self) -> str:
        """What it is, in a sentence about a run."""
        return f"the {self.name} likelihood"

    @property
    def brief(self) -> str:
        """What it is, among the settings of a run; empty where it has no options to tell."""
        record = self.record()
        options = [f"{name} {value}" for name, value in record.items() if name != "likelihood"]
        return f"{self.name} likelihood, {', '.join(options)}" if options else ""

    @property
    def advice(self) -> str:
        """What to do where its error is large, if it is approximate."""
        return "take another likelihood"

    def record(self) -> dict[str, Any]:
        """Its name and options, as plain data: numbers, words and tuples of these, no arrays."""
        return {"likelihood": self.name, **dataclasses.asdict(self)}

    @classmethod
    def restored(cls, record: dict[str, Any]) -> Likelihood:
        """The likelihood that :meth:`record` gave, from a record that may have other entries."""
        fields = [field.name for field in dataclasses.fields(cls)]
        return cls(**{name: record[name] for name in fields if record.get(name) is not None})


def as_likelihood(likelihood: Any, kinds: tuple[type[Likelihood], ...]) -> Likelihood:
    """A likelihood, or what a name among those of ``kinds`` stands for.

    Raises:
        ValueError: for anything else, naming what there is.
    """
    if isinstance(likelihood, Likelihood):
        return likelihood
    for kind in kinds:
        if isinstance(likelihood, str) and likelihood == kind.name:
            if kind.needs is None:
                return kind()
            raise ValueError(
                f"likelihood={likelihood!r} needs {kind.needs}: give {kind.__name__}(...) with it"
            )
    alone = [repr(kind.name) for kind in kinds if kind.needs is None]
    others = [f"{kind.__name__}(...)" for kind in kinds if kind.needs is not None]
    raise ValueError(f"likelihood must be one of {', '.join(alone + others)}, got {likelihood!r}")
