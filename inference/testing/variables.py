"""Paired variables of independence tests: checks, kernels, features and notes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.linalg
from bke.models.linalg.clustering import kmeans_plusplus
from numpy.typing import ArrayLike

from ..core.errors import InputError, input_errors
from ..data.canonical import canonical_order, random_part
from ..data.checks import (
    as_sample,
    check_common_keys,
    check_same_rows,
    column_names,
    default_names,
)
from ..data.equality import equalize
from ..data.row_notes import serial_note
from ..io.types import describe_sentinel, find_sentinels, identifier_notes
from ..learning.kernel_selection import KERNEL_NAMES, take_evenly
from ..statistics.label_bayes_factor import inverse_root
from .kernels import SELECTION_SEED, KernelChoice, gram

#: Number of nodes of a kernel's features, and of rows from which the nodes are chosen. Not tuned.
N_NODES, CANDIDATE_ROWS = 256, 4096
#: Largest number of combinations of kernels of three and more variables.
MAX_COMBINATIONS = 16


def paired_samples(variables: Mapping[str, ArrayLike]) -> list[np.ndarray]:
    """Convert variables to arrays (n, D) whose rows are paired by position.

    Args:
        variables: the variables by their names in messages, in order.

    Raises:
        InputError: numbers of rows differ, or row labels or keys are in another order.
    """
    check_same_rows(**variables)
    samples = [equalize([as_sample(values, name)])[0] for name, values in variables.items()]
    (first_name, first), *rest = variables.items()
    for (name, values), sample in zip(rest, samples[1:], strict=True):
        if len(sample) != len(samples[0]):
            raise InputError(
                f"{first_name} has {len(samples[0])} rows but {name} has {len(sample)}: "
                "independence needs pairs"
            )
        check_common_keys(first, values, samples[0], sample)
    return samples


def kernel_choices(kernel: Any, n_variables: int, standardize: str | None) -> list[KernelChoice]:
    """Check the choice of a kernel for all variables, or a tuple with one for each.

    Raises:
        InputError: a choice is invalid, or a tuple has another length.
    """
    per_variable = kernel if isinstance(kernel, tuple) else (kernel,) * n_variables
    if len(per_variable) != n_variables:
        raise InputError(
            f"kernel must be one for all variables or a tuple of {n_variables}, got "
            f"{len(per_variable)}"
        )
    return [KernelChoice.checked(choice, KERNEL_NAMES, standardize) for choice in per_variable]


def variable_kernels(sample: np.ndarray, choice: KernelChoice, n_variables: int = 2) -> list[Any]:
    """Select the kernels of a variable (n, D), evenly from a bandwidth grid.

    At most four for a test of two variables, from the shortest to the longest. For more variables
    fewer, without the extremes, so that the combinations of all variables are at most
    :data:`MAX_COMBINATIONS`.
    """
    kernels = choice.kernels(sample)
    if n_variables == 2:
        return take_evenly(kernels, 4)
    most = max(1, math.floor(MAX_COMBINATIONS ** (1.0 / n_variables) + 1e-9))
    if len(kernels) <= most:
        return kernels
    inner = np.linspace(0, len(kernels) - 1, most + 2)[1:-1].round().astype(int)
    return [kernels[index] for index in inner]


def principal_features(
    kernel: Any, sample: np.ndarray, n_features: int, *, center: bool
) -> np.ndarray:
    """Approximate a kernel by the principal features of a variable.

    The features are chosen from the variable alone, in an order of its own, which keeps the level
    of a permutation test exact.

    Args:
        kernel: the kernel.
        sample: the variable, (n, D).
        n_features: largest number of features.
        center: subtract the means of the features before their principal directions are found.

    Returns:
        Features (n, r), whose inner products approximate the kernel, or the centered kernel.
    """
    rng = np.random.default_rng(SELECTION_SEED)
    candidates = random_part(sample[canonical_order(sample)], CANDIDATE_ROWS, SELECTION_SEED)
    nodes = np.unique(candidates[kmeans_plusplus(candidates, N_NODES, rng)], axis=0)
    with input_errors():
        values = np.asarray(kernel(sample, nodes), dtype=float)
    features = values @ inverse_root(gram(kernel, nodes))
    if center:
        features -= features.mean(axis=0)
    _, vectors = scipy.linalg.eigh(features.T @ features, driver="evd")
    return np.asarray(features @ vectors[:, ::-1][:, :n_features])


def variable_notes(
    variables: Mapping[str, ArrayLike], samples: list[np.ndarray], *, independent_rows: bool
) -> list[str]:
    """Write notes on sentinels and identifiers, and on serial dependence.

    Args:
        variables: the variables by their names.
        samples: their values, (n, D) each.
        independent_rows: the test assumes independent rows. Serial dependence within only one of
            the variables is harmless.
    """
    columns = [
        column_names(values) or default_names(sample.shape[1])
        for values, sample in zip(variables.values(), samples, strict=True)
    ]
    notes: list[str] = []
    if independent_rows:
        serial = [
            serial_note([sample], names) for sample, names in zip(samples, columns, strict=True)
        ]
        dependent = [note for note in serial if note]
        notes += dependent[0] if len(dependent) > 1 else ()
    for variable, names, sample in zip(variables, columns, samples, strict=True):
        notes += [
            f"{variable}: {describe_sentinel(name, sentinel, 'some rows')} leave these rows out"
            for name, column in zip(names, sample.T, strict=True)
            for sentinel in find_sentinels(column)
        ]
        if len(names) > 1:  # a single column cannot be left out
            notes += [f"{variable}: {note}" for note in identifier_notes(names, sample)]
    return notes
