"""Read draws from files: NetCDF, Zarr, and the CSV files of CmdStan."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..core.netcdf import read_tree
from ..streams.rows import import_optional

#: A comment of CmdStan that says how it was called: ``#     num_samples = 1000 (Default)``.
SETTING = re.compile(r"#\s*(\w+) = (\S+)")
#: A column of CmdStan that is an element of an array: ``theta.2.1``.
ELEMENT = re.compile(r"(.+?)((?:\.\d+)+)")
#: The comment of CmdStan between the draws of the warmup, where they are saved, and the others.
ADAPTED = "# Adaptation terminated"


def read_draws(paths: Sequence[str | os.PathLike[str]]) -> xr.DataTree | xr.Dataset:
    """Read the draws of a file of ArviZ's, or of the CSV files of CmdStan.

    Args:
        paths: one NetCDF file or ``.zarr`` store of a tree with the group ``posterior``, or CSV
            files of CmdStan, one for each chain.

    Returns:
        A tree or its posterior, with dimensions ``chain`` and ``draw``. Chains of CmdStan have the
        names of their files, and elements of arrays are counted from 1 as in Stan.

    Raises:
        InputError: a file is missing, damaged, incomplete or of another kind.
    """
    files = [Path(path) for path in paths]
    if all(path.suffix.lower() == ".csv" for path in files):
        return _read_stan(files)
    if len(files) > 1:
        raise InputError(
            "several files must be the CSV files of CmdStan, one for each chain; of NetCDF or Zarr "
            "give one file with all chains"
        )
    (path,) = files
    if path.suffix.lower() == ".zarr":
        return _read_zarr(path)
    if path.is_dir():
        raise InputError(
            f"{path} is a folder: give a NetCDF file, a store whose name ends in .zarr, or the CSV "
            "files of CmdStan"
        )
    return read_tree(path, "draws")[0]


def _read_zarr(path: Path, max_ratio: int = 1100) -> xr.Dataset:
    """Read the posterior of a tree.

    Args:
        path: folder of the store.
        max_ratio: bytes of arrays for each byte of the store, at most, as for NetCDF.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    zarr = import_optional("zarr", "zarr", f"reading {path} needs")
    pickled = import_optional("numcodecs", "zarr", f"reading {path} needs").Pickle
    try:
        root = zarr.open_group(path, mode="r", use_consolidated=False)
        if "posterior" not in root:
            raise InputError(f"{path} has no group named posterior, where ArviZ keeps draws")
        arrays = [array for _, array in root["posterior"].arrays()]
        codecs = itertools.chain.from_iterable(
            (*array.filters, *array.compressors) for array in arrays
        )
        if any(isinstance(codec, pickled) for codec in codecs):  # which would run code of the file
            raise InputError(f"{path} holds pickled objects, which are not read")
        stored = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        size = sum(array.nbytes for array in arrays)
        if size > max_ratio * stored:
            raise InputError(f"{path} is damaged: it claims to hold {size / 2**30:.1f} GiB")
        with xr.open_dataset(path, engine="zarr", group="posterior", consolidated=False) as opened:
            # In an order that does not depend on that of the folder's files.
            return opened[sorted(opened.data_vars, key=str)].load()
    except InputError:
        raise
    except Exception as error:  # a damaged store fails in many ways
        raise InputError(f"{path} is not a tree of draws saved as Zarr, or is damaged") from error


def _read_stan(paths: list[Path]) -> xr.Dataset:
    """Read CSV files of CmdStan."""
    for number, path in enumerate(paths):
        if any(path.resolve() == other.resolve() for other in paths[:number]):
            raise InputError(f"{path} is given twice: give one file for each chain")
    chains = [_read_stan_chain(path) for path in paths]
    _check_alike(paths, chains)
    columns = list(chains[0])
    count = len(chains[0][columns[0]])
    labels = [path.name for path in paths]
    if len(set(labels)) < len(labels):
        labels = [str(path) for path in paths]
    posterior = xr.Dataset(coords={"chain": labels, "draw": range(count)})
    for name, elements in _arrays(columns):
        if name in posterior.sizes:  # chain and draw
            raise InputError(f"{paths[0]} has a parameter {name!r}, a name of ArviZ's: rename it")
        shape = np.max(list(elements), axis=0).tolist()
        values = np.empty((len(chains), count, *shape))
        for index, column in elements.items():
            place = tuple(one - 1 for one in index)
            for chain, draws in enumerate(chains):
                values[chain][:, *place] = draws[column]
        dims = [f"{name}_dim_{axis}" for axis in range(len(shape))]
        coords = {dim: np.arange(1, size + 1) for dim, size in zip(dims, shape, strict=True)}
        posterior = posterior.assign_coords(coords)
        posterior[name] = (("chain", "draw", *dims), values)
    return posterior


def _check_alike(paths: list[Path], chains: list[dict[str, np.ndarray]]) -> None:
    """Refuse chains of other parameters, or of another length, than the first."""
    first = chains[0]
    for path, chain in zip(paths, chains, strict=True):
        if different := sorted(chain.keys() ^ first.keys()):
            has, lacks = (path, paths[0]) if different[0] in chain else (paths[0], path)
            raise InputError(
                f"{has} has the parameter {different[0]}, and {lacks} has not: give chains of one "
                "model"
            )
        count, expected = (len(next(iter(one.values()))) for one in (chain, first))
        if count != expected:
            raise InputError(
                f"{path} has {count} draws, and {paths[0]} has {expected}: give chains of one "
                "length"
            )


def _arrays(columns: Sequence[str]) -> Iterator[tuple[str, dict[tuple[int, ...], str]]]:
    """Yield every parameter, and its columns by their indices; of a scalar by none."""
    arrays: dict[str, dict[tuple[int, ...], str]] = {}
    for column in columns:
        element = ELEMENT.fullmatch(column)
        name = element[1] if element else column
        index = tuple(map(int, element[2][1:].split("."))) if element else ()
        arrays.setdefault(name, {})[index] = column
    for name, by_index in arrays.items():
        axes = {len(index) for index in by_index}
        if len(axes) == 1 and len(by_index) == math.prod(np.max(list(by_index), axis=0).tolist()):
            yield name, by_index
        else:  # elements of a tuple, of several shapes
            scalar: tuple[int, ...] = ()
            yield from ((column, {scalar: column}) for column in by_index.values())


def _read_stan_chain(path: Path) -> dict[str, np.ndarray]:
    """Read the draws (n,) of every parameter of one file, without those of the warmup."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            header, lines, skipped = _scan(path, file)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    # Names with two underscores at their end are of the sampler.
    kept = [index for index, name in enumerate(header) if not name.endswith("__")]
    names = [header[index] for index in kept]
    if not names or len(set(header)) < len(header):
        raise InputError(f"{path} has no parameters, or two of one name, in its header")
    numbers, rows = list(lines)[skipped:], list(lines.values())[skipped:]
    try:
        values = np.loadtxt(rows, delimiter=",", comments=None, usecols=kept, ndmin=2)
    except ValueError:
        raise _no_number(path, header, dict(zip(numbers, rows, strict=True))) from None
    return dict(zip(names, values.T, strict=True))


def _scan(path: Path, file: Iterable[str]) -> tuple[list[str], dict[int, str], int]:
    """Return the header, the rows by the numbers of their lines, and how many are of the warmup."""
    settings: dict[str, str] = {}
    header: list[str] = []
    lines: dict[int, str] = {}
    adapted = None
    for number, line in enumerate(file, 1):
        if line.startswith("#"):
            setting = SETTING.match(line)
            if setting and not header:
                settings.setdefault(*setting.groups())
            if line.startswith(ADAPTED):
                adapted = len(lines)
        elif not header:
            _check_method(path, settings)
            header = line.strip().split(",")
        elif line.strip():
            lines[number] = line
            count = line.count(",") + 1
            if count != len(header) or not line.endswith("\n"):
                raise InputError(
                    f"{path}, line {number} is cut off, or has other than {len(header)} numbers "
                    f"({count}): wait until the sampler has finished, or leave out this chain"
                )
    _check_method(path, settings)
    return header, lines, _warmup(path, settings, len(lines), adapted)


def _check_method(path: Path, settings: dict[str, str]) -> None:
    """Refuse a file that is not of CmdStan's sampler."""
    method = settings.get("method")
    if method is None:
        raise InputError(
            f"{path} has no comments of CmdStan, such as '# method = sample': of draws of another "
            "program give check_chains an array (chains, draws, parameters)"
        )
    if method != "sample":
        raise InputError(
            f"{path} is of CmdStan's method {method!r}: only those of 'sample' are Markov chains"
        )


def _warmup(path: Path, settings: dict[str, str], rows: int, adapted: int | None) -> int:
    """Return the number of rows of the warmup, checked against the comments.

    Raises:
        InputError: the file is not complete.
    """
    try:
        thin, samples, warmup = (int(settings[k]) for k in ("thin", "num_samples", "num_warmup"))
        expected = -(-samples // thin)
    except (KeyError, ValueError, ZeroDivisionError):
        raise InputError(
            f"{path} has no whole numbers for thin, num_samples and num_warmup among its comments: "
            "give the file as CmdStan wrote it"
        ) from None
    saved = settings.get("save_warmup") in ("1", "true")
    # Sampling with fixed parameters has no warmup.
    skipped = -(-warmup // thin) if saved and settings.get("algorithm") != "fixed_param" else 0
    if not expected or rows != skipped + expected or adapted not in (None, skipped):
        before = "" if adapted is None else f", {adapted} of them before the end of the adaptation"
        raise InputError(
            f"{path} has {rows} rows{before}, and its comments say {skipped} of the warmup and "
            f"{expected} draws: wait until the sampler has finished, or leave out this chain"
        )
    return skipped


def _no_number(path: Path, header: list[str], lines: dict[int, str]) -> InputError:
    """Return the error that names the first cell that is no number."""
    for number, line in lines.items():
        for name, cell in zip(header, line.strip().split(","), strict=True):
            try:
                float(cell)
            except ValueError:
                return InputError(
                    f"{path}, line {number}, column {name}: {cell!r} is not a number: give the "
                    "file as CmdStan wrote it"
                )
    return InputError(f"{path} has rows that are no numbers: give the file as CmdStan wrote it")
