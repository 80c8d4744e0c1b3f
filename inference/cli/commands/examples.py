"""``bke examples``: small data sets, and commands to try on them."""

from __future__ import annotations

import importlib.resources
import io
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ...core.errors import InputError
from ...core.staging import listed
from .. import examples as data
from ..outputs import Output, output_folder
from ..terminal import Terminal

READ_ME, SCRIPT, MODEL = "README.md", "commands.txt", "model.py"
FILES = (
    READ_ME,
    SCRIPT,
    *("ozone.csv", "calm.csv", "windy.csv", "last_month.csv", "this_month.csv", "old.csv"),
    *("new.csv", "posterior.nc", MODEL, "counts.csv"),
)
#: Seed of the simulated data sets.
SEED = 20
#: Rows of a table of customers, of the reference of a stream, of its new rows, and of these before
#: the change.
CUSTOMERS, OLD_ROWS, NEW_ROWS, CHANGE = 400, 500, 800, 400


def examples(
    terminal: Terminal,
    *,
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the files; created if need be.")
    ] = Path("bke-examples"),
) -> None:
    """Write small data sets, and show commands to try.

    One data set was measured, the ozone of Los Angeles; the others are simulated, and README.md in
    the folder says how. The commands are in commands.txt too, and run as they stand in the folder.
    """
    replaceable = [path for path, command in listed(folder).items() if command == "examples"]
    for name in FILES:
        if (path := folder / name).exists() and path not in replaceable:
            raise InputError(
                f"{path} exists and was not written by bke examples: choose another folder"
            )
    script = _read(SCRIPT)
    with output_folder(terminal, folder, FILES, command="examples", read=()) as output:
        for name, source in ((READ_ME, READ_ME), (SCRIPT, SCRIPT), (MODEL, "model.txt")):
            output.add(name, name).write_text(_read(source), encoding="utf-8")
        _simulate(output)
    terminal.say(f"{len(FILES)} files are in {folder}, where {READ_ME} says what they hold. Try:")
    terminal.say(f"\n    cd {folder}", wrap=False)
    commands = []
    for line in filter(None, script.splitlines()):
        text = line.strip("# =")
        if line.startswith("# =="):
            terminal.say(f"\n{text}", "bold")
        elif line.startswith("#"):
            terminal.say(f"  {text}")
        else:
            terminal.say(f"    {text}", "cyan", wrap=False)
            commands.append(text)
    files = [str(folder / name) for name in FILES]
    terminal.queue_json(
        {"command": "examples", "folder": str(folder), "files": files, "commands": commands}
    )


def _read(name: str) -> str:
    return importlib.resources.files(data).joinpath(name).read_text(encoding="utf-8")


def _simulate(output: Output) -> None:
    """Write the simulated data sets, and the measured one with its two halves."""
    import pandas as pd
    import xarray as xr

    from ...core.netcdf import write_tree

    ozone = pd.read_csv(io.StringIO(_read("ozone.csv")), dtype=str)
    wind = ozone["Wind"].astype(float)
    calm = wind < wind.median()
    tables = {"ozone": ozone, "calm": ozone[calm], "windy": ozone[~calm]}
    rng = np.random.default_rng(SEED)
    for name, first, older, pro in (("last_month", 1, 0.0, 0.15), ("this_month", 401, 4.0, 0.3)):
        plan = rng.choice(["free", "basic", "pro"], CUSTOMERS, p=[0.7 - pro, 0.3, pro])
        age = np.round(rng.normal(40.0 + older, 9.0, CUSTOMERS)).astype(int)
        mean = np.select([plan == "pro", plan == "basic"], [60.0, 20.0], 5.0)
        spent = pd.Series(mean * rng.gamma(4.0, 0.25, CUSTOMERS)).map("{:.2f}".format)
        spent[rng.random(CUSTOMERS) <= 0.05] = ""
        customer = np.arange(first, first + CUSTOMERS)
        columns = {"customer": customer, "age": age, "plan": plan, "spent": spent}
        tables[name] = pd.DataFrame(columns)
    for name, rows in (("old", OLD_ROWS), ("new", NEW_ROWS)):
        numbers = rng.normal(size=(rows, 2)) * [2.0, 0.3] + [20.0, 1.0]
        if name == "new":
            numbers[CHANGE:, 1] += 0.9 * rng.normal(size=rows - CHANGE)
        tables[name] = pd.DataFrame(numbers, columns=["temperature", "pressure"])
    tables["counts"] = pd.DataFrame({"wait": rng.gamma(3.0, 1.0 / 0.5, size=100)})
    for name, table in tables.items():
        path = output.add(name, f"{name}.csv")
        table.to_csv(path, index=False, float_format="%.4f", lineterminator="\n")
    draws = rng.normal(size=(4, 500, 2))
    draws[3, :, 0] += 1.0
    values = {"mu": draws[..., 0], "tau": np.exp(0.3 * draws[..., 1])}
    posterior = xr.Dataset({name: (("chain", "draw"), array) for name, array in values.items()})
    write_tree(
        xr.DataTree.from_dict({"posterior": posterior}), output.add("posterior", "posterior.nc")
    )
