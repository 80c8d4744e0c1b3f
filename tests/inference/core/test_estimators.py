"""Public names where optional packages are not installed."""

import subprocess
import sys

OPTIONAL = "sklearn causallearn networkx dask distributed ray zarr openpyxl goodpoints polars"
PROGRAM = f"""
import sys
sys.modules.update(dict.fromkeys("{OPTIONAL}".split()))  # so that their import fails
from bke.models import *
from bke.inference import *
for estimator in (DistributionRegressor, KernelStudentTDensity):
    try:
        estimator(kernel=None)
    except InputError as error:
        print(error)
"""


def test_all_names_are_imported_and_estimators_name_their_requirements():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == 2 * "scikit-learn is not installed: pip install 'bke[sklearn]'\n"
