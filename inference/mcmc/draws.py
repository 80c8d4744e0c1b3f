"""Draws of Markov chains: checks of arrays and trees, and readers of files.

Files are NetCDF files and Zarr stores in the format of ArviZ, and CSV files of CmdStan.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import arviz_base
import numpy as np
import xarray as xr

from ..core.errors import InputError
from ..core.netcdf import read_tree
from ..data.checks import (
    MAX_ABS_VALUE,
    as_sample,
    check_column_names,
    check_file,
    column_names,
    default_names,
    plain_array,
    pluralize,
)
from ..data.new_rows import ordered_rows
from ..sampling.foreign import is_mcmc
from ..streams.rows import check_store, import_optional

if TYPE_CHECKING:
    from numpyro.infer import MCMC


class Chains(NamedTuple):
    """Draws of one or more chains.

    Attributes:
        values: (C, n, D).
        columns: names of the parameters.
        labels: labels of the chains: coordinates of a tree, otherwise 0, 1, ...
        ordered: ``True`` if draws are in order of time, so that they may be autocorrelated.
    """

    values: np.ndarray
    columns: tuple[str, ...]
    labels: tuple[int | str, ...]
    ordered: bool

    @property
    def rows(self) -> np.ndarray:
        """Draws of all chains, (C n, D)."""
        return self.values.reshape(-1, self.values.shape[-1])


def as_chains(draws: Any, columns: Sequence[str] | None = None) -> Chains:
    """Convert draws to chains, or independent rows to one chain that is not ordered.

    Args:
        draws: independent rows (n,) or (n, D); chains (C, n, D) in order of time; or a tree or
            dataset in the format of ArviZ, with the dimensions ``chain`` and ``draw``.
        columns: names of the parameters; by default those of the draws.

    Raises:
        InputError: if the draws have another form, are fewer than ten per chain, or are missing,
            infinite or too large.
    """
    labels: Sequence[int | str] | None = None
    known: Sequence[str]
    ordered = True
    if isinstance(draws, xr.DataArray) and {"chain", "draw"} <= set(draws.dims):
        draws = draws.to_dataset(name=str(draws.name or "x"))
    if isinstance(draws, (xr.DataTree, xr.Dataset)):
        posterior = posterior_dataset(draws)
        labels = posterior["chain"].values.tolist() if "chain" in posterior.coords else None
        values, known = _stack_parameters(posterior)
    else:
        values, known, ordered = _array_of_chains(draws)
    names = check_column_names(columns, known)
    values = np.array(values, dtype=float)
    num_chains, num_draws, dimension = values.shape
    if not num_chains or num_draws < 10:
        raise InputError(
            f"draws needs at least one chain of 10 draws, got {num_chains} of {num_draws}: an "
            "array is (chains, draws, parameters), or (draws, parameters) of one chain"
        )
    if not dimension:
        raise InputError("draws has no parameters")
    labels = tuple(labels or range(num_chains))
    invalid = ~(np.abs(values) <= MAX_ABS_VALUE)
    if invalid.any():
        chain, draw, column = np.argwhere(invalid)[0]
        raise InputError(
            f"draws has a value that is not finite, or beyond {MAX_ABS_VALUE:g}, in chain "
            f"{labels[chain]}, draw {draw} of {names[column]} (counted from 0): drop that "
            "parameter or chain"
        )
    return Chains(values, tuple(names), labels, ordered)


def _array_of_chains(draws: Any) -> tuple[np.ndarray, Sequence[str], bool]:
    """Convert an array or a list of chains to chains (C, n, D), or rows to one chain.

    Returns:
        The chains, the names of the parameters, and whether draws are in order of time.

    Raises:
        InputError: if the draws are not an array of numbers.
    """
    if isinstance(draws, (str, os.PathLike)):
        path = os.fspath(draws)
        raise InputError(
            f"draws is the string {path!r}, where draws are needed: for a file of ArviZ pass "
            f"xarray.open_datatree({path!r})"
        )
    if isinstance(draws, dict):
        raise InputError(
            "draws is a dictionary: pass arviz_base.from_dict({'posterior': ...}), or an array "
            "(chains, draws, parameters)"
        )
    lengths = []
    if isinstance(draws, (list, tuple)):
        lengths = [len(chain) for chain in draws if hasattr(chain, "__len__")]
    if len(set(lengths)) > 1:
        first = ", ".join(map(str, lengths[:6])) + ", ..." * (len(lengths) > 6)
        raise InputError(f"draws has chains or rows of different lengths: {first}")
    frame_names = column_names(draws[0]) if lengths else None
    if frame_names is not None:
        draws = [
            ordered_rows(chain, frame_names, f"draws[{index}]") for index, chain in enumerate(draws)
        ]
    values = plain_array(draws, "draws")
    if values.ndim == 3:
        if values.dtype.kind not in "fiub":
            raise InputError(f"draws must be real numbers, got {values.dtype}")
        return values, frame_names or default_names(values.shape[2]), True
    rows = as_sample(draws, "draws", may_be_constant=True)
    return rows[None], column_names(draws) or default_names(rows.shape[1]), False


def posterior_dataset(draws: xr.DataTree | xr.Dataset, name: str = "draws") -> xr.Dataset:
    """Return the posterior of a tree, or the dataset itself.

    Raises:
        InputError: if there is no posterior, or no dimension ``chain`` or ``draw``.
    """
    if isinstance(draws, xr.DataTree):
        if "posterior" not in draws.children:
            raise InputError(f"{name} has no group named posterior, where ArviZ keeps draws")
        draws = draws["posterior"].to_dataset()
    if not {"chain", "draw"} <= set(draws.sizes):
        raise InputError(f"{name} has no dimensions named chain and draw, as in ArviZ")
    return draws


def _stack_parameters(posterior: xr.Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """Stack the parameters of a posterior to (C, n, D), and name them as ArviZ does.

    Raises:
        InputError: if there are no draws, or draws that are not numbers.
    """
    drawn = [
        name
        for name, variable in posterior.data_vars.items()
        if {"chain", "draw"} <= set(variable.dims)
    ]
    for name in drawn:
        if posterior[name].dtype.kind not in "fiub":
            raise InputError(
                f"draws of {name!r} are {posterior[name].dtype}, where numbers are needed: convert "
                f"them, or drop them with .drop_vars({name!r})"
            )
    if not drawn:
        raise InputError("the posterior has no numbers with dimensions chain and draw")
    stacked = "bke_parameter"  # ArviZ's default name may be a dimension of the user's
    try:
        array = arviz_base.dataset_to_dataarray(
            posterior[drawn].drop_vars(set(posterior.coords) - set(posterior.dims)),
            sample_dims=["chain", "draw"],
            new_dim=stacked,
        )
    except ValueError as error:
        raise InputError(f"ArviZ cannot stack the parameters: {error}") from None
    values = np.asarray(array.transpose("chain", "draw", stacked).values, dtype=float)
    return values, tuple(map(str, array[stacked].values))


def equally_spaced(n: int, count: int) -> np.ndarray:
    """Return ``count`` equally spaced indices (count,) from 0 to ``n - 1``."""
    return np.linspace(0, n - 1, count).round().astype(int)


def load_chains(draws: Any) -> Any:
    """Read draws from files or an MCMC, and add the dimension of a single parameter to an array.

    Args:
        draws: one or more paths, an MCMC of NumPyro, a tree or dataset, or an array (C, n, D) or
            (C, n).

    Returns:
        Draws for :func:`as_chains`, which checks them.

    Raises:
        InputError: if a file cannot be read, or the dimensions of an array are ambiguous.
    """
    paths = [draws] if isinstance(draws, (str, os.PathLike)) else draws
    is_list = isinstance(paths, (list, tuple)) and len(paths) > 0
    if is_list and all(isinstance(path, (str, os.PathLike)) for path in paths):
        return read_draws(paths)
    if is_mcmc(draws):
        return _mcmc_posterior(draws)
    if isinstance(draws, (xr.DataTree, xr.Dataset, dict)):
        return draws
    try:
        shape = np.shape(draws)
    except ValueError:  # chains of different lengths, which as_chains refuses
        return draws
    if len(shape) not in (1, 2):
        return draws
    if len(shape) == 2 and shape[0] < shape[1] and column_names(draws) is None:
        return plain_array(draws, "draws")[:, :, None]
    hint = f"np.asarray(draws)[None] is one chain of {pluralize(math.prod(shape[1:]), 'parameter')}"
    if len(shape) == 2:
        hint += f", np.asarray(draws).T is {pluralize(shape[1], 'chain')} of one parameter"
    raise InputError(
        "draws must be chains (chains, draws, parameters), or (chains, draws) of one parameter "
        f"with fewer chains than draws, got the shape {shape}: {hint}"
    )


def _mcmc_posterior(mcmc: MCMC) -> xr.Dataset:
    """Return the draws of all sites of an MCMC of NumPyro.

    Raises:
        InputError: if it has not been run, or its draws have no names.
    """
    if mcmc.last_state is None or mcmc.last_state is mcmc.post_warmup_state:
        raise InputError("this MCMC has no draws after its warmup: call its run() first")
    samples = mcmc.get_samples(group_by_chain=True)
    if not isinstance(samples, dict):
        raise InputError(
            "the draws of this MCMC have no names: pass get_samples(group_by_chain=True) as an "
            "array (chains, draws, parameters)"
        )
    values = {name: np.asarray(value) for name, value in samples.items()}
    return arviz_base.from_dict({"posterior": values})["posterior"].to_dataset()


def read_draws(paths: Sequence[str | os.PathLike[str]]) -> xr.DataTree | xr.Dataset:
    """Read draws from a file of ArviZ, or from CSV files of CmdStan.

    Args:
        paths: one NetCDF file or ``.zarr`` store of a tree with the group ``posterior``, or CSV
            files of CmdStan, one per chain.

    Returns:
        A tree or its posterior, with dimensions ``chain`` and ``draw``. Chains of CmdStan are
        labeled with the names of their files. Elements of arrays are counted from 1, as in Stan.

    Raises:
        InputError: if a file is missing, damaged, incomplete or of another format.
    """
    files = [Path(path) for path in paths]
    if all(path.suffix.lower() == ".csv" for path in files):
        return _read_stan(files)
    if len(files) > 1:
        raise InputError(
            "several files must be the CSV files of CmdStan, one for each chain; for NetCDF or "
            "Zarr pass one file with all chains"
        )
    (path,) = files
    if path.suffix.lower() in (".npy", ".npz"):
        raise InputError(f"{path} holds arrays: in Python pass compare_chains(np.load(...))")
    if path.suffix.lower() == ".zarr":
        return _read_zarr(path)
    if path.is_dir():
        raise InputError(
            f"{path} is a folder: pass a NetCDF file, a store whose name ends in .zarr, or the CSV "
            "files of CmdStan"
        )
    return read_tree(path, "draws")


def _read_zarr(path: Path, max_ratio: int = 1100) -> xr.Dataset:
    """Read the posterior of a tree.

    Args:
        path: folder of the store.
        max_ratio: maximum number of bytes of arrays per byte of the store, as for NetCDF.
    """
    if not path.exists():
        raise InputError(f"{path}: no such file")
    stored = check_store(path)
    zarr = import_optional("zarr", "zarr", f"reading {path} needs")
    pickle_codec = import_optional("numcodecs", "zarr", f"reading {path} needs").Pickle
    try:
        root = zarr.open_group(path, mode="r", use_consolidated=False)
        if "posterior" not in root:
            raise InputError(f"{path} has no group named posterior, where ArviZ keeps draws")
        arrays = [array for _, array in root["posterior"].arrays()]
        codecs = itertools.chain.from_iterable(
            (*array.filters, *array.compressors) for array in arrays
        )
        # Unpickling would run code from the file.
        if any(isinstance(codec, pickle_codec) for codec in codecs):
            raise InputError(f"{path} holds pickled objects, which are not read")
        size = sum(array.nbytes for array in arrays)
        if size > max_ratio * sum(file.stat().st_size for file in stored):
            raise InputError(f"{path} is damaged: it claims to hold {size / 2**30:.1f} GiB")
        with xr.open_dataset(path, engine="zarr", group="posterior", consolidated=False) as opened:
            # Sorted names do not depend on the order of files in the folder.
            return opened[sorted(opened.data_vars, key=str)].load()
    except InputError:
        raise
    except Exception as error:  # a damaged store fails in many ways
        raise InputError(f"{path} is not a tree of draws saved as Zarr, or is damaged") from error


def _read_stan(paths: list[Path]) -> xr.Dataset:
    """Read CSV files of CmdStan, which must have the same parameters and numbers of draws."""
    for number, path in enumerate(paths):
        if any(path.resolve() == other.resolve() for other in paths[:number]):
            raise InputError(f"{path} is given twice: pass one file for each chain")
    chains = [_read_stan_chain(path) for path in paths]
    columns = list(chains[0])
    count = len(chains[0][columns[0]])
    for path, chain in zip(paths, chains, strict=True):
        if different := sorted(chain.keys() ^ chains[0].keys()):
            has, lacks = (path, paths[0]) if different[0] in chain else (paths[0], path)
            raise InputError(
                f"{has} has the parameter {different[0]}, but {lacks} does not: pass chains of one "
                "model"
            )
        if (length := len(chain[columns[0]])) != count:
            raise InputError(
                f"{path} has {length} draws, but {paths[0]} has {count}: pass chains of equal "
                "length"
            )
    labels = [path.name for path in paths]
    if len(set(labels)) < len(labels):
        labels = [str(path) for path in paths]
    posterior = xr.Dataset(coords={"chain": labels, "draw": range(count)})
    for name, elements in _stan_arrays(columns):
        if name in posterior.sizes:  # chain or draw
            raise InputError(
                f"{paths[0]} has a parameter {name!r}, the name of a dimension of ArviZ: rename it"
            )
        shape = np.max(list(elements), axis=0).tolist()
        values = np.empty((len(chains), count, *shape))
        for index, column in elements.items():
            position: tuple[slice | int, ...] = (slice(None), slice(None), *(i - 1 for i in index))
            values[position] = [draws[column] for draws in chains]
        axes = {f"{name}_dim_{axis}": np.arange(1, size + 1) for axis, size in enumerate(shape)}
        posterior[name] = xr.DataArray(values, axes, ("chain", "draw", *axes))
    return posterior


def _stan_arrays(columns: Sequence[str]) -> Iterator[tuple[str, dict[tuple[int, ...], str]]]:
    """Yield each parameter with its columns by index; the index of a scalar is empty.

    Elements of an array have names such as ``theta.2.1``.
    """
    arrays: dict[str, dict[tuple[int, ...], str]] = {}
    for column in columns:
        element = re.fullmatch(r"(.+?)((?:\.\d+)+)", column)
        name = element[1] if element else column
        index = tuple(map(int, element[2][1:].split("."))) if element else ()
        arrays.setdefault(name, {})[index] = column
    for name, by_index in arrays.items():
        axes = {len(index) for index in by_index}
        if len(axes) == 1 and len(by_index) == math.prod(np.max(list(by_index), axis=0).tolist()):
            yield name, by_index
        else:  # elements of a tuple with different shapes
            scalar: tuple[int, ...] = ()
            yield from ((column, {scalar: column}) for column in by_index.values())


def _read_stan_chain(path: Path) -> dict[str, np.ndarray]:
    """Read the draws (n,) of each parameter of one file, without those of the warmup."""
    check_file(path)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = dict(enumerate(file, 1))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
    comments = {number: line for number, line in lines.items() if line.startswith("#")}
    rows = {number: line for number, line in lines.items() if line[0] != "#" and line.strip()}
    header_number = next(iter(rows), len(lines) + 1)
    header = rows.pop(header_number, "").strip().split(",")
    # Options of the call, such as "#     num_samples = 1000 (Default)"; the first of a name counts.
    options = (
        re.match(r"#\s*(\w+) = (\S+)", line)
        for number, line in reversed(comments.items())
        if number < header_number
    )
    settings = {option[1]: option[2] for option in options if option}
    method = settings.get("method")
    if method is None:
        raise InputError(
            f"{path} has no comments of CmdStan, such as '# method = sample': for draws of another "
            "program pass an array (chains, draws, parameters) to compare_chains"
        )
    if method != "sample":
        raise InputError(
            f"{path} was written by CmdStan's method {method!r}: only the output of 'sample' is a "
            "Markov chain"
        )
    for number, line in rows.items():
        count = line.count(",") + 1
        if count != len(header) or not line.endswith("\n"):
            raise InputError(
                f"{path}, line {number} is incomplete, or has {count} numbers, not "
                f"{len(header)}: wait until the sampler has finished, or leave out this chain"
            )
    # This comment follows the draws of the warmup, if they are saved.
    ends = [n for n, line in comments.items() if line.startswith("# Adaptation terminated")]
    adapted = sum(row < ends[-1] for row in rows) if ends else None
    warmup = _num_warmup(path, settings, len(rows), adapted)
    # Names that end in two underscores are diagnostics of the sampler.
    indices = [index for index, name in enumerate(header) if not name.endswith("__")]
    if not indices or len(set(header)) < len(header):
        raise InputError(f"{path} has no parameters, or duplicate names, in its header")
    drawn = list(rows.values())[warmup:]
    try:
        values = np.loadtxt(drawn, delimiter=",", comments=None, usecols=indices, ndmin=2)
    except ValueError:
        raise _invalid_cell(path, header, dict(list(rows.items())[warmup:])) from None
    return {header[index]: column for index, column in zip(indices, values.T, strict=True)}


def _num_warmup(path: Path, settings: dict[str, str], rows: int, adapted: int | None) -> int:
    """Return the number of rows of the warmup, and check it against the comments.

    Args:
        path: the file, for messages.
        settings: options of the call.
        rows: number of rows of the file.
        adapted: number of rows before the end of the adaptation, or ``None`` if no comment says it.

    Raises:
        InputError: if the file is incomplete.
    """
    try:
        thin, samples, warmup = (int(settings[k]) for k in ("thin", "num_samples", "num_warmup"))
        expected = -(-samples // thin)
    except (KeyError, ValueError, ZeroDivisionError):
        raise InputError(
            f"{path} has no whole numbers for thin, num_samples and num_warmup among its comments: "
            "pass the file as CmdStan wrote it"
        ) from None
    saved = settings.get("save_warmup") in ("1", "true")
    # Sampling with fixed parameters has no warmup.
    skipped = -(-warmup // thin) if saved and settings.get("algorithm") != "fixed_param" else 0
    if not expected or rows != skipped + expected or adapted not in (None, skipped):
        before = "" if adapted is None else f", {adapted} of them before the end of the adaptation"
        raise InputError(
            f"{path} has {rows} rows{before}, but its comments say {skipped} of the warmup and "
            f"{expected} draws: wait until the sampler has finished, or leave out this chain"
        )
    return skipped


def _invalid_cell(path: Path, header: list[str], lines: dict[int, str]) -> InputError:
    """Return an error that shows the first cell that is not a number."""
    for number, line in lines.items():
        for name, cell in zip(header, line.strip().split(","), strict=True):
            try:
                float(cell)
            except ValueError:
                return InputError(
                    f"{path}, line {number}, column {name}: {cell!r} is not a number: pass the "
                    "file as CmdStan wrote it"
                )
    return InputError(f"{path} has rows that are not numbers: pass the file as CmdStan wrote it")
