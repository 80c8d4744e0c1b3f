"""An open run: a run with what follows from it, computed once and shared by all who ask.

A run is a ``DataTree``, which its user may copy, extend and write into. So what was computed is not
kept with the tree but under a fingerprint of the numbers it was computed from: a copy finds it, and
a run that has changed since does not.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Unpack, cast

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..core.machine import computing
from ..data.units import Units
from . import profile, programs
from .fingerprint import fingerprint
from .foreign import Foreign, ModelArguments, is_run
from .profile import LogDensity
from .record import is_ours
from .run import target_of, units_of
from .target import Points, Target

if TYPE_CHECKING:
    from numpyro.infer import MCMC

T = TypeVar("T")

#: Results that are kept of all runs together, small ones; of each open run, prepared points.
KEPT, KEPT_POINTS = 64, 1


class Memory:
    """The results asked for last, by what they were computed from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(
        self, key: Hashable, compute: Callable[[], T], lasts: Callable[[T], bool] | None = None
    ) -> T:
        """What ``compute`` returns, or returned earlier for the same ``key``, if it ``lasts``."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return cast(T, self._found[key])
        result = compute()
        if lasts is not None and not lasts(result):
            return result
        with self._lock:
            self._found[key] = result
            while len(self._found) > self._most:
                self._found.popitem(last=False)
        return result


_SHARED = Memory(KEPT)


class OpenRun:
    """A run with its target, its data prepared, its density, and what else is computed from it.

    Attributes:
        tree: the run of :func:`~bke.inference.fit`.
    """

    def __init__(self, tree: xr.DataTree) -> None:
        self.tree = tree
        self._points = Memory(KEPT_POINTS)

    def kept(
        self,
        what: str,
        compute: Callable[[], T],
        *,
        groups: Iterable[str],
        lasts: Callable[[T], bool] | None = None,
    ) -> T:
        """What ``compute`` makes of some groups and attributes, once for runs that agree there.

        Args:
            what: the name of the result.
            compute: reads nothing of the run but these; what it returns must not be changed.
            groups: their names; those that the run lacks count as such.
            lasts: whether to keep a result; by default yes.
        """
        return _SHARED.get((what, fingerprint(self.tree, groups)), compute, lasts)

    @property
    def units(self) -> Units:
        """How the data were brought to the model's units.

        Raises:
            InputError: where the tree is not a run of :func:`~bke.inference.fit`.
        """
        return units_of(self.tree)

    @property
    def target(self) -> Target:
        """The kernel, priors, noise and measure that the run inferred, in the model's units.

        Raises:
            InputError: where the tree is no such run, or its prior cannot be rebuilt.
        """
        units_of(self.tree)  # refuses other trees
        return self.kept(
            "target",
            lambda: target_of(self.tree)[0],
            groups=["constant_data"],
            # A user's own class may be another one by now, under the same name.
            lasts=lambda target: is_ours(target.kernel),
        )

    @property
    def points(self) -> Points:
        """The data in the model's units, prepared for the likelihood.

        Raises:
            InputError: where the run does not hold its rows, as those of a large file are not held.
        """
        observed = self.tree["observed_data"].to_dataset()
        if "X" not in observed:
            raise InputError(
                "the run does not hold its rows, which are those of a large file, and the density "
                "needs them: fit them by quadrature, of which the run keeps the density"
            )

        def prepared() -> Points:
            data = observed["X"].values
            with computing():
                return self.target.prepared(self.units.points(data))

        reads = fingerprint(self.tree, ["observed_data", "constant_data"])
        return self._points.get(reads, prepared)

    @property
    def log_density(self) -> LogDensity:
        """Log posterior density of a batch of unconstrained points, up to the normaliser."""
        evaluate, points = programs.log_densities(self.target), self.points

        def density(z: Mapping[str, Any]) -> np.ndarray:
            with computing():
                return profile.log_densities(evaluate, z, points)

        return density


#: What functions of a run take: a run, open or not, or draws of another program with their model.
Run: TypeAlias = "xr.DataTree | OpenRun | MCMC"


def open_run(run: Run, **model: Unpack[ModelArguments]) -> OpenRun:
    """Open a run of :func:`~bke.inference.fit`, or draws of the same model by another program.

    Functions that take a run take an open one as well, and all that this function takes, with the
    same arguments. They share what they compute; an open run also keeps its data prepared for the
    density as long as it lives.

    Args:
        run: of :func:`~bke.inference.fit`, or open, both without further arguments; a finished
            ``numpyro.infer.MCMC``; or any tree that ArviZ reads (of NumPyro, PyMC, Stan, emcee)
            with a group ``posterior``. For draws of other programs the log density is computed at
            the draws and around them. Nothing in them says which data and model they are of: names,
            shapes and supports are checked, no more can be.
        **model: for draws of another program ``X``, the data as the model got them, and where they
            are not the defaults of :func:`~bke.models.bke_model` ``kernel``, ``prior``,
            ``noise_variance``, ``measure``, ``likelihood``; and ``var_names``, the site that a
            variable of the tree holds where names differ, ``{"rho": "lengthscale"}``. An MCMC whose
            model is ``bke_model`` itself knows all of this.

    Raises:
        InputError: for draws that do not fit the model, see above.
    """
    if isinstance(run, OpenRun) or is_run(run):
        if model:
            raise InputError(
                f"this is a run of bke.inference, which knows its model: it takes no "
                f"{', '.join(model)}"
            )
        return run if isinstance(run, OpenRun) else OpenRun(run)
    foreign = Foreign.read(run, model)
    return OpenRun(_SHARED.get(foreign.fingerprint, foreign.as_run))
