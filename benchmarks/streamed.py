"""Time the posterior by quadrature of ten million rows of one column that stay on disk.

The rows are a mixture of two normal distributions, as P in ``million.py``. They are read from a
NumPy file, from a Parquet file, or from an iterator of blocks. With ``--whole`` they are also in
memory, which gives the same draws. Each source is measured in a separate process with its peak
memory.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow
import pyarrow.parquet
import report
from bke.inference import fit, open_blocks, open_rows
from numpy.lib.format import open_memmap

BLOCK = 10**6


def blocks(n: int) -> Iterator[np.ndarray]:
    """Yield the rows of P in blocks (k,)."""
    for start in range(0, n, BLOCK):
        rng, k = np.random.default_rng(start), min(BLOCK, n - start)
        normal = rng.normal(size=k)
        yield np.where(rng.random(size=k) < 0.3, 4.0 + 0.5 * normal, normal)


def write(n: int, folder: Path) -> None:
    """Write both files block by block."""
    mapped = open_memmap(folder / "rows.npy", "w+", np.float64, (n,))
    with pyarrow.parquet.ParquetWriter(
        folder / "rows.parquet", pyarrow.schema([("x", pyarrow.float64())])
    ) as file:
        for index, block in enumerate(blocks(n)):
            mapped[index * BLOCK : index * BLOCK + len(block)] = block
            file.write_table(pyarrow.table({"x": block}))
    mapped.flush()


SOURCES = {
    "NPY file": lambda n, folder: open_rows(folder / "rows.npy"),
    "Parquet file": lambda n, folder: open_rows(folder / "rows.parquet"),
    "iterator of blocks": lambda n, folder: open_blocks(blocks(n), columns=["x"]),
    "in memory": lambda n, folder: np.load(folder / "rows.npy"),
}


def step(name: str, n: int, folder: Path) -> dict[str, object]:
    """Fit the rows of one source; return seconds, peak memory in GiB and the posterior."""
    start = time.perf_counter()
    run = fit(SOURCES[name](n, folder), method="quadrature", progress=False)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    value = run["posterior"]["lengthscale"].values
    return {
        "rows": name,
        "seconds": seconds,
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30,
        "points": run.attrs.get("points", n),
        "error in nats": f"{run.attrs.get('density_error', 0.0):.1g}",
        "lengthscale": f"{value.mean():.10g} +- {value.std():.6g}",
    }


def main() -> None:
    """Measure all sources and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10**7)
    parser.add_argument("--whole", action="store_true", help="in memory too, which takes minutes")
    parser.add_argument("--results", type=Path, help="folder of the results")
    parser.add_argument("--quick", action="store_true", help="a check that it runs, not a result")
    options = parser.parse_args()
    n = 200_000 if options.quick else options.rows
    info, folder = report.start(options.results)
    rows = []
    with TemporaryDirectory() as scratch:
        write(n, Path(scratch))
        for name in SOURCES:
            if name == "in memory" and not options.whole:
                continue
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                rows.append(pool.submit(step, name, n, Path(scratch)).result())
            print(rows[-1], flush=True)
    body = (
        f"{n} rows in one column. `points` represent the rows; the error is that of the log "
        "density where the density is not negligible. With imports and compilation."
        f"\n\n{report.table(rows)}"
    )
    name = "streamed-quick" if options.quick else "streamed"
    report.save(folder, name, "The posterior of rows that stay on disk", info, body, {"rows": rows})


if __name__ == "__main__":
    main()
