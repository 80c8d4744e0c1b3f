"""Every likelihood that a name stands for: the ways to BKE (13), and the landmark model."""

from __future__ import annotations

from typing import Any

from ..landmarks.model import Landmark
from ..likelihood.routes import ROUTES
from ..likelihood.way import Likelihood, as_likelihood

LIKELIHOODS: tuple[type[Likelihood], ...] = (*ROUTES, Landmark)


def any_likelihood(likelihood: Likelihood | str) -> Likelihood:
    """A likelihood, or what its name stands for.

    Raises:
        ValueError: for anything else, naming what there is.
    """
    found = as_likelihood(likelihood, LIKELIHOODS)
    if type(found) not in LIKELIHOODS:
        raise ValueError(
            f"likelihood={found!r} is none that bke knows, and could not be restored from a run: "
            "models/likelihood/routes.py lists them"
        )
    return found


def restored_likelihood(record: dict[str, Any]) -> Likelihood:
    """The likelihood that :meth:`~bke.models.likelihood.way.Likelihood.record` recorded.

    ``record`` may hold more; of the landmark model the ``landmarks``, which are kept elsewhere.
    """
    kinds = {kind.name: kind for kind in LIKELIHOODS}
    return kinds[record["likelihood"]].restored(record)
