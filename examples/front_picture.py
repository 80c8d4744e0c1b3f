"""Draw the figure of the README, docs/posterior.png, as in the gallery's entry on chains and modes.

Run it as ``python front_picture.py`` in this folder or elsewhere.
"""

import runpy
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

HERE = Path(__file__).parent
entry = HERE / "gallery" / "posterior_of_the_lengthscale" / "plot_chains_and_modes.py"
runpy.run_path(str(entry))["figure"].savefig(HERE.parent / "docs" / "posterior.png", dpi=100)
