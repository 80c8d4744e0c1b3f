"""``import bke``: the names of both packages, without slow imports."""

import subprocess
import sys

import bke
import bke.inference
import bke.models
import pytest


def test_names_are_those_of_both_packages():
    names = [*bke.inference.__all__, *bke.models.__all__]
    assert sorted(set(names)) == sorted(names)  # none is in both
    for package in (bke.inference, bke.models):
        for name in package.__all__:
            assert getattr(bke, name) is getattr(package, name)
    assert dir(bke) == sorted([*names, "__version__"])
    assert bke.__version__ == bke.inference.__version__
    with pytest.raises(AttributeError, match="module 'bke' has no attribute 'comparision'"):
        bke.comparision  # noqa: B018


def test_no_slow_module_is_imported():
    program = "import bke, sys; assert not {'jax', 'numpy', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
