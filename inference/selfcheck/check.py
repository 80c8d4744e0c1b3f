"""All self-tests together."""

from __future__ import annotations

import importlib.metadata
import platform

from ..core.machine import cores
from ..core.progress import progress_bar
from .agreement import factors, integrals, means, threads
from .calibration import METHODS, calibration, joint_draws
from .finding import SelfCheck
from .levels import level

#: Data sets of each method's calibration, and of each test's level.
CALIBRATED, TESTED = 100, 200
TESTS = ("two samples", "independence")


def self_check(*, progress: bool = True) -> SelfCheck:
    """Check statistically that this machine gives what it should; takes about a minute.

    Simulation-based calibration of quadrature, NUTS and SMC (Talts et al. 2018); levels of the
    tests; the posterior's integral by quadrature and SMC, and its mean by quadrature and NUTS; the
    likelihood by one thread of the BLAS and by all, and a factorisation by JAX, on its default
    device, and by NumPy. Of use on a new machine, GPU or BLAS. Seeds are fixed: another outcome is
    the machine's. A right one would fail each by chance with a probability of about 0.001, once and
    for all.

    Args:
        progress: whether to show how far it is.

    Returns:
        Every finding, and a verdict: printed as a table.
    """
    total = CALIBRATED * len(METHODS) + TESTED * len(TESTS)
    with progress_bar("checking", total, shown=progress) as advance:
        found = [factors(), threads(), integrals(), means()]
        joint = joint_draws(CALIBRATED)
        found += [calibration(name, joint, advance) for name in METHODS]
        found += [level(name, TESTED, advance) for name in TESTS]
    return SelfCheck(tuple(found), _machine())


def _machine() -> str:
    """Processor, system, versions and BLAS in words."""
    import jax
    from threadpoolctl import threadpool_info

    names = ("bke", "jax", "numpyro", "numpy", "scipy")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    blas = sorted({
        f"{one['internal_api']} {one['version']}"
        for one in threadpool_info()
        if one["user_api"] == "blas"
    })  # fmt: skip
    device = jax.devices()[0]
    return (
        f"{platform.system()} {platform.machine()}, {cores()} cores, JAX on {device.platform}; "
        f"Python {platform.python_version()}, {versions}; {', '.join(blas) or 'BLAS unknown'}."
    )
