"""NumPyro as it should be where another package has put off its import.

ArviZ from 1.3 on has NumPyro loaded at its first use. Where that is ``import
numpyro.distributions``, Python runs this package twice, and the second copy has no attributes for
its modules, which are loaded already: NumPyro's own ``factor`` then finds none of the name
``distribution``.
"""

from __future__ import annotations

import sys

import numpyro

numpyro.__version__  # noqa: B018 -- loads it now, if it is put off until then


def restore_submodules(package: str) -> None:
    """Makes every loaded module of a package an attribute of the one that it is in."""
    for name, module in list(sys.modules.items()):
        parent, _, child = name.rpartition(".")
        if name.startswith(f"{package}.") and not hasattr(sys.modules[parent], child):
            setattr(sys.modules[parent], child, module)


restore_submodules("numpyro")
