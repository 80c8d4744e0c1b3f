"""Properties of readers, units, kernels' records and files, over what hypothesis thinks of.

Examples are the same in every run (``derandomize``).
"""

import json
import random

import jax
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from bke.inference import InputError, read_sample
from bke.inference.core.netcdf import read_tree, write_tree
from bke.inference.data.units import Units
from bke.inference.io.tables import read_table
from bke.inference.sampling.record import (
    describe,
    describe_kernel,
    restore,
    restore_kernel,
)
from bke.models import Laplace, Matern, RationalQuadratic, SquaredExponential
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from numpyro import distributions as dist

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
COMMON_SETTINGS = settings(
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
NUMBERS = st.floats(-1e12, 1e12, allow_nan=False, allow_subnormal=False)
SIZES = st.tuples(st.integers(2, 12), st.integers(1, 4))
TABLES = SIZES.flatmap(lambda shape: arrays.arrays(float, shape, elements=NUMBERS))
POSITIVE = st.floats(1e-3, 1e3)


@given(values=TABLES, separator=st.sampled_from([",", ";", "\t", " "]), header=st.booleans())
@COMMON_SETTINGS
def test_numbers_of_a_text_file_are_read_to_the_last_digit(values, separator, header, tmp_path):
    names = [f"column_{index}" for index in range(values.shape[1])]
    lines = [separator.join(map(repr, map(float, row))) for row in values]
    path = tmp_path / "rows.txt"
    path.write_text("\n".join([separator.join(names)] * header + lines) + "\n")
    sample = read_sample(path)
    np.testing.assert_array_equal(sample.values, values)
    if header:
        assert list(sample.columns) == names


@given(values=TABLES, suffix=st.sampled_from([".npy", ".parquet"]))
@COMMON_SETTINGS
def test_numbers_of_binary_files_are_read_unchanged(values, suffix, tmp_path):
    path = tmp_path / f"rows{suffix}"
    if suffix == ".npy":
        np.save(path, values)
    else:
        pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])]).to_parquet(path)
    np.testing.assert_array_equal(read_sample(path).values, values)


def fuzzed(text, rng):
    """A text with some bytes changed, dropped, doubled or put in."""
    content = bytearray(text)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(content))
        kind = rng.randrange(4)
        if kind == 0:
            content[at] = rng.randrange(256)
        elif kind == 1:
            del content[at : at + rng.randrange(1, 20)]
        elif kind == 2:
            content[at:at] = content[at : at + rng.randrange(1, 20)]
        else:
            content[at:at] = rng.choice(
                [b'"', b"\n", b"\r", b"\0", b",", b"nan", b"1e999", b"\xff"]
            )
        content = content or bytearray(b"0")
    return bytes(content)


@pytest.mark.parametrize("read", [read_sample, read_table])
def test_fuzzed_texts_are_read_or_refused_in_a_single_sentence(read, tmp_path):
    """300 of them, seed 0; of those that are read all numbers are finite."""
    rng = random.Random(0)
    rows = np.random.default_rng(0).normal(size=(30, 3)).round(3)
    complete = pd.DataFrame(rows, columns=["height", "weight", "age"]).to_csv(index=False).encode()
    path, refused = tmp_path / "rows.csv", 0
    for _ in range(300):
        path.write_bytes(fuzzed(complete, rng))
        try:
            sample = read(path)
        except InputError as error:
            refused += "\n" not in str(error) and str(path) in str(error)
        else:
            refused -= 1000 * (read is read_sample and not np.isfinite(sample.values).all())
    assert 10 < refused < 300


@given(
    values=TABLES,
    scale=st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4),
    unit=st.sampled_from(["none", "length", "1/length", "length^2"]),
)
@COMMON_SETTINGS
def test_units_and_their_inverse(values, scale, unit):
    width = values.shape[1]
    units = Units(np.array(scale[:width]), np.zeros(width), 0, tuple("abcd"[:width]))
    model = units.to_model(values)
    if unit == "none":
        np.testing.assert_array_equal(units.to_data(unit, model, 1), model)
    elif unit == "length":
        np.testing.assert_allclose(units.to_data(unit, model, 1), values, rtol=1e-12)
    elif unit == "1/length":
        back = units.to_data(unit, values * units.scale, 1)
        np.testing.assert_allclose(back, values, rtol=1e-12)
    else:
        squares = np.einsum("ni,nj->nij", model, model)
        expected = np.einsum("ni,nj->nij", values, values)
        np.testing.assert_allclose(
            units.to_data(unit, squares, 1), expected, rtol=1e-9, atol=1e-300
        )


LENGTHS = st.one_of(POSITIVE, arrays.arrays(float, 2, elements=POSITIVE))
PARTS = st.one_of(
    st.builds(SquaredExponential, LENGTHS),
    st.builds(Laplace, LENGTHS),
    st.builds(Matern, st.sampled_from([0.5, 1.5, 2.5]), LENGTHS),
    st.builds(RationalQuadratic, POSITIVE, POSITIVE),
)
KERNELS = st.recursive(
    PARTS,
    lambda inner: st.one_of(
        st.builds(lambda first, other: first + other, inner, inner),
        st.builds(lambda first, other: first * other, inner, inner),
        st.builds(lambda first, number: number * first, inner, POSITIVE),
    ),
    max_leaves=4,
)


@given(kernel=KERNELS)
@COMMON_SETTINGS
def test_a_kernel_is_restored_from_its_record(kernel):
    restored = restore_kernel(json.loads(json.dumps(describe_kernel(kernel))))
    assert jax.tree.structure(restored) == jax.tree.structure(kernel)
    for actual, expected in zip(jax.tree.leaves(restored), jax.tree.leaves(kernel), strict=True):
        np.testing.assert_array_equal(actual, expected)


PRIORS = st.one_of(
    st.builds(dist.Gamma, POSITIVE, POSITIVE),
    st.builds(dist.LogNormal, NUMBERS, POSITIVE),
    st.builds(dist.InverseGamma, POSITIVE, POSITIVE),
    st.builds(dist.HalfNormal, POSITIVE),
    st.builds(lambda low, more: dist.Uniform(low, low + more), POSITIVE, POSITIVE),
)


@given(prior=PRIORS, shape=st.sampled_from([(), (2,), (3, 2)]))
@COMMON_SETTINGS
@pytest.mark.slow
def test_a_prior_is_restored_from_its_record(prior, shape):
    expanded = prior.expand(shape) if shape else prior
    restored = restore(json.loads(json.dumps(describe(expanded))))
    assert restored.batch_shape == expanded.batch_shape
    values = np.full(shape, 0.7)
    np.testing.assert_allclose(restored.log_prob(values), expanded.log_prob(values), rtol=1e-6)


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
ATTRIBUTES = st.dictionaries(
    st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True),
    st.one_of(TEXTS, NUMBERS, st.integers(-(2**40), 2**40), st.lists(NUMBERS, min_size=1)),
    max_size=4,
)


@given(values=TABLES, words=st.lists(TEXTS, min_size=1, max_size=4), attributes=ATTRIBUTES)
@settings(COMMON_SETTINGS, max_examples=10)
def test_a_tree_is_read_unchanged(values, words, attributes, tmp_path):
    dataset = xr.Dataset(
        {"x": (("row", "column"), values), "word": ("place", words)}, attrs=attributes
    )
    groups = {"/": xr.Dataset(attrs=attributes), "/group/inner": dataset}
    tree = xr.DataTree.from_dict(
        {**groups, "/other": dataset.assign_coords(place=words).assign(b=True)}
    )
    write_tree(tree, tmp_path / "tree.nc")
    back = read_tree(tmp_path / "tree.nc", "a tree")
    assert set(back.attrs) == set(attributes)
    np.testing.assert_array_equal(back["group/inner"]["x"], values)
    assert [str(word) for word in back["group/inner"]["word"].values] == words
    for name, value in attributes.items():
        np.testing.assert_array_equal(back.attrs[name], value)
    write_tree(back, tmp_path / "again.nc")
    assert read_tree(tmp_path / "again.nc", "a tree").identical(back)
