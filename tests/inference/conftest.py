"""Permuted labels, files of rows, and damaged files."""

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from bke.inference.permutation.pooled_sample import PooledSample
from bke.inference.permutation.scheme import PermutationScheme


@pytest.fixture(scope="session")
def permute_labels() -> Callable[[tuple[int, int], int, np.random.Generator], np.ndarray]:
    """Permute the labels of two samples, (N, 1 + B) of bool; the first column is observed."""

    def permute(sizes: tuple[int, int], n_resamples: int, rng: np.random.Generator) -> np.ndarray:
        observed = np.arange(sum(sizes)) < sizes[0]
        permuted = PermutationScheme.independent(observed).draw(n_resamples, rng)
        return np.column_stack([observed, permuted.astype(bool)])

    return permute


@pytest.fixture(scope="session")
def swap_labels() -> Callable[[int, int, np.random.Generator], np.ndarray]:
    """Swap the labels of pairs of rows i and m + i, (2 m, 1 + B) of bool."""

    def swap(n_pairs: int, n_resamples: int, rng: np.random.Generator) -> np.ndarray:
        swapped = PermutationScheme("samples", n_pairs).draw(n_resamples, rng).astype(bool)
        first = np.column_stack([np.ones(n_pairs, dtype=bool), swapped])
        return np.concatenate([first, ~first])

    return swap


@pytest.fixture(scope="session")
def single_rows() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Return all rows (n, D) of points with counts, and which are of the first sample."""

    def rows(sample: PooledSample, column: int = 0) -> tuple[np.ndarray, np.ndarray]:
        first = sample.labels[:, column].astype(int)
        points = np.concatenate(
            [
                np.repeat(sample.points, first, axis=0),
                np.repeat(sample.points, sample.counts - first, axis=0),
            ]
        )
        return points, np.arange(len(points)) < first.sum()

    return rows


@pytest.fixture(scope="session")
def damaged() -> Callable[[bytes, random.Random], bytes]:
    """A flipped bit, eight of them, a cut, or a page of zeros or of noise."""

    def damage(content: bytes, rng: random.Random) -> bytes:
        changed = bytearray(content)
        kind = rng.randrange(5)
        if kind < 2:
            for _ in range((1, 8)[kind]):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del changed[rng.randrange(len(changed)) :]
        else:
            at = rng.randrange(len(changed))
            page = len(changed[at : at + 4096])
            changed[at : at + page] = bytes(page) if kind == 3 else rng.randbytes(page)
        return bytes(changed)

    return damage


@pytest.fixture(scope="session")
def write() -> Callable[[Path, np.ndarray, str], Path]:
    """Write rows (n, 2) with the columns b and a to a file of one kind in a folder."""
    import pyarrow.parquet  # not by the other tests of this folder
    import zarr

    def write_rows(folder: Path, X: np.ndarray, kind: str) -> Path:
        path = folder / f"rows.{kind}"
        if kind == "npy":
            np.save(path, X)
        elif kind == "parquet":
            columns = {name: X[:, at] for at, name in enumerate(("b", "a"))}
            pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=177)
        elif kind == "csv":
            np.savetxt(path, X, delimiter=",", header="b,a", comments="")
        else:
            zarr.create_array(path, shape=X.shape, chunks=(131, 2), dtype=X.dtype)[:] = X
        return path

    return write_rows
