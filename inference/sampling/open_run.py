"""Open runs: runs with results computed from them, cached and shared by all functions.

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
from . import densities
from .densities import LogDensity
from .fingerprint import fingerprint
from .foreign import Foreign, ModelArguments, is_run
from .record import is_ours
from .run import target_of, units_of
from .target import Points, Target

if TYPE_CHECKING:
    from numpyro.infer import MCMC

T = TypeVar("T")

#: Number of cached results of all runs together, which are small, and of prepared data per run.
MAX_RESULTS, MAX_POINTS = 64, 1


class Cache:
    """The results used last, by digests of their input."""

    def __init__(self, max_size: int) -> None:
        self._max_size = max_size
        self._results: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._lock = threading.Lock()

    def get(
        self, key: Hashable, compute: Callable[[], T], store: Callable[[T], bool] | None = None
    ) -> T:
        """Return the cached result of ``key``, or compute it and cache it if it is to be stored."""
        with self._lock:
            if key in self._results:
                self._results.move_to_end(key)
                return cast(T, self._results[key])
        result = compute()
        if store is not None and not store(result):
            return result
        with self._lock:
            self._results[key] = result
            while len(self._results) > self._max_size:
                self._results.popitem(last=False)
        return result


_SHARED = Cache(MAX_RESULTS)


class OpenRun:
    """A run with its target, its data prepared, its density, and what else is computed from it.

    Attributes:
        tree: the run of :func:`~bke.inference.fit`.
    """

    def __init__(self, tree: xr.DataTree, target: Target | None = None) -> None:
        """Open a run, whose ``target`` is restored from its record by default."""
        self.tree = tree
        self._target = target
        self._points = Cache(MAX_POINTS)

    def cached(
        self,
        name: str,
        compute: Callable[[], T],
        *,
        groups: Iterable[str],
        store: Callable[[T], bool] | None = None,
    ) -> T:
        """Return a result of some groups and the attributes, computed once for equal runs.

        Args:
            name: the name of the result.
            compute: function that reads nothing else of the run; its result must not be modified.
            groups: names of groups, of which a run may lack some.
            store: whether to cache a result; by default true.
        """
        return _SHARED.get((name, fingerprint(self.tree, groups)), compute, store)

    @property
    def units(self) -> Units:
        """Units of the model, and the dither of the data.

        Raises:
            InputError: the tree is not a run of :func:`~bke.inference.fit`.
        """
        return units_of(self.tree)

    @property
    def target(self) -> Target:
        """The model, in its units.

        Raises:
            InputError: the tree is no such run, or its prior cannot be restored.
        """
        if self._target is not None:
            return self._target
        return self.cached(
            "target",
            lambda: target_of(self.tree)[0],
            groups=["constant_data"],
            # A class of the user may have been redefined under the same name.
            store=lambda target: is_ours(target.kernel),
        )

    @property
    def points(self) -> Points:
        """The data in the model's units, prepared for the likelihood.

        Raises:
            InputError: the run does not contain its rows, which are those of a large file.
        """
        observed = self.tree["observed_data"].to_dataset()
        if "X" not in observed:
            raise InputError(
                "the run does not contain its rows, which are those of a large file, and the "
                "density needs them: fit them by quadrature, which stores the density in the run"
            )

        def prepare() -> Points:
            data = observed["X"].values
            with computing():
                return self.target.prepared(self.units.transform_data(data))

        digest = fingerprint(self.tree, ["observed_data", "constant_data"])
        return self._points.get(digest, prepare)

    @property
    def log_density(self) -> LogDensity:
        """Log posterior density of a batch of unconstrained points, up to a constant."""
        evaluate, points = densities.compile_log_density(self.target), self.points

        def density(z: Mapping[str, Any]) -> np.ndarray:
            with computing():
                return densities.log_densities(evaluate, z, points)

        return density


#: A run, open or not, or draws of another program, whose model is given by further arguments.
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
    digest = foreign.fingerprint
    tree = foreign.as_run() if digest is None else _SHARED.get(digest, foreign.as_run)
    # A copy, because the user may change it.
    return OpenRun(tree.copy(deep=True), foreign.target)
