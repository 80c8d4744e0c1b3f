"""Tree structures of dataclasses distinguish classes, and otherwise are those of JAX."""

import dataclasses
import importlib
import inspect
import pkgutil
from typing import Any

import bke.models
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from bke.models import Laplace, Matern, SquaredExponential, register_dataclass
from bke.models.linalg.pytrees import has_ambiguous_structure


def make_class(name, register):
    fields = [
        ("a", Any),
        ("kind", str, dataclasses.field(default="x", metadata={"static": True})),
        ("b", Any, 2.0),
    ]
    return register(dataclasses.make_dataclass(name, fields, frozen=True))


def test_leaves_keys_and_static_fields_are_those_of_jax():
    ours = make_class("Ours", register_dataclass)
    theirs = make_class("Theirs", jax.tree_util.register_dataclass)
    leaves, structure = jax.tree_util.tree_flatten_with_path(ours(1.0, "y", 3.0))
    assert leaves == jax.tree_util.tree_flatten_with_path(theirs(1.0, "y", 3.0))[0]
    assert jax.tree_util.tree_unflatten(structure, [5.0, 6.0]) == ours(5.0, "y", 6.0)
    assert structure == jax.tree_util.tree_structure(ours(0.0, "y", 0.0))
    assert structure != jax.tree_util.tree_structure(ours(1.0, "z", 3.0))
    slope = jax.jit(jax.grad(lambda x: x.a**2 * x.b))(ours(1.0, "y", 3.0))
    assert slope == ours(6.0, "y", 1.0)
    with pytest.raises(TypeError, match="dataclass"):
        register_dataclass(int)


def test_structures_of_different_classes_differ():
    kernels = SquaredExponential(0.3), Laplace(0.3), Matern(1.5, 0.3)
    structures = [jax.tree_util.tree_structure(tree) for tree in kernels]
    first, second = (make_class(name, register_dataclass)(1.0) for name in ("First", "Second"))
    structures += [jax.tree_util.tree_structure(tree) for tree in (first, second)]
    assert len({*map(hash, structures)}) == len(structures)
    for index, structure in enumerate(structures):
        assert [structure == other for other in structures].count(True) == 1, index


@pytest.mark.slow
def test_classes_have_separate_compiled_programs():
    """400 classes of one layout in one cache: of JAX's own registration some are mistaken."""

    @jax.jit
    def number_of(instance):
        return jnp.asarray(instance.number())

    def numbered(number):
        cls = dataclasses.make_dataclass(
            f"Numbered{number}", [("a", Any)], frozen=True,
            namespace={"number": lambda self, number=number: number},
        )  # fmt: skip
        return register_dataclass(cls)

    leaves = [int(number_of(numbered(number)(1.0))) for number in range(400)]
    np.testing.assert_array_equal(leaves, np.arange(400))


def test_no_class_is_registered_as_jax_does():
    for module in pkgutil.walk_packages(bke.models.__path__, "bke.models."):
        source = inspect.getsource(importlib.import_module(module.name))
        assert "@jax.tree_util.register_dataclass" not in source, module.name


def test_warning_for_classes_registered_by_jax():
    """No class is mistaken if this release of JAX distinguishes classes."""
    theirs = make_class("Theirs", jax.tree_util.register_dataclass)
    another = make_class("Another", jax.tree_util.register_dataclass)
    structures_differ = jax.tree_util.tree_structure(theirs(1.0)) != jax.tree_util.tree_structure(
        another(1.0)
    )
    assert has_ambiguous_structure(theirs(1.0)) is not structures_differ
    assert not has_ambiguous_structure(make_class("Ours", register_dataclass)(1.0))
    assert not has_ambiguous_structure(Matern(1.5, 0.3) + SquaredExponential(0.3))
