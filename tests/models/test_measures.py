"""NumPyro works where something imported before has put off its import, as ArviZ 1.3 does."""

import subprocess
import sys

import pytest

PUT_OFF = """
import importlib.util, sys

spec = importlib.util.find_spec("numpyro")
module = importlib.util.module_from_spec(spec)
sys.modules["numpyro"] = module
importlib.util.LazyLoader(spec.loader).exec_module(module)
"""
USE = """
import jax
from bke.models import bke_model
from numpyro.infer.util import log_density

jax.config.update("jax_enable_x64", True)
print(log_density(bke_model, ([0.0, 1.0],), {}, {"lengthscale": 1.0})[0])
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "first",
    ["", "import numpyro.distributions", "from numpyro.infer import MCMC", "import numpyro"],
)
def test_import_that_is_put_off(first):
    """Sites that are factors need a module that the second copy of a package lacks."""
    command = [sys.executable, "-c", "\n".join([PUT_OFF, first, USE])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.0
