"""The data sets of ``bke examples``: one that was measured, the others simulated."""

from __future__ import annotations

import csv
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: What the simulated ones are drawn with.
SEED = 20
MEASURED = "ozone.csv"
POSTERIOR = "posterior.nc"
MODEL = '''\
"""Waiting times of a given rate and size, and what is believed of both beforehand."""

import numpyro.distributions as dist

prior = {"rate": dist.LogNormal(0.0, 1.0), "size": dist.Gamma(2.0, 1.0)}


def simulate(rng, theta):
    return rng.gamma(theta["size"], 1.0 / theta["rate"], size=100)
'''
#: Rows of a table of customers, of the reference of a stream, and of its new rows.
CUSTOMERS, OLD, NEW, CHANGE = 400, 500, 800, 400


def write_tables(folder: Path) -> None:
    """Write them all to a folder that exists."""
    measured = files(__package__).joinpath(MEASURED).read_text(encoding="utf-8")
    (folder / MEASURED).write_text(measured, encoding="utf-8")
    header, *days = csv.reader(measured.splitlines())
    wind = np.array([float(day[-1]) for day in days])
    calm = wind < np.median(wind)
    for name, chosen in (("calm", calm), ("windy", ~calm)):
        _write(folder, name, header, [day for day, kept in zip(days, chosen, strict=True) if kept])
    rng = np.random.default_rng(SEED)
    _customers(folder, rng)
    _stream(folder, rng)
    _pairs(folder, rng)
    _circle(folder, rng)
    counts = rng.gamma(3.0, 1.0 / 0.5, size=(100, 1))
    _write_numbers(folder, "counts", ["wait"], counts)
    (folder / "model.py").write_text(MODEL, encoding="utf-8")
    _chains(folder, rng)


def _customers(folder: Path, rng: np.random.Generator) -> None:
    for name, first, older, pro in (("last_month", 1, 0.0, 0.15), ("this_month", 401, 4.0, 0.3)):
        plan = rng.choice(["free", "basic", "pro"], CUSTOMERS, p=[0.7 - pro, 0.3, pro])
        age = np.round(rng.normal(40.0 + older, 9.0, CUSTOMERS))
        usual = np.select([plan == "pro", plan == "basic"], [60.0, 20.0], 5.0)
        spent = [f"{one:.2f}" for one in usual * rng.gamma(4.0, 0.25, CUSTOMERS)]
        held = rng.random(CUSTOMERS) > 0.05
        rows = [
            [first + k, f"{age[k]:g}", plan[k], spent[k] if held[k] else ""]
            for k in range(CUSTOMERS)
        ]
        _write(folder, name, ["customer", "age", "plan", "spent"], rows)


def _stream(folder: Path, rng: np.random.Generator) -> None:
    for name, count in (("old", OLD), ("new", NEW)):
        numbers = rng.normal(size=(count, 2)) * [2.0, 0.3] + [20.0, 1.0]
        if name == "new":
            numbers[CHANGE:, 1] += 0.9 * rng.normal(size=count - CHANGE)
        _write_numbers(folder, name, ["temperature", "pressure"], numbers)


def _pairs(folder: Path, rng: np.random.Generator) -> None:
    theta = rng.normal(0.0, 1.5, 300)
    pairs = np.column_stack([theta, theta, theta**2])
    pairs[:, 1:] += 0.4 * rng.normal(size=(300, 2))
    _write_numbers(folder, "simulated", ["theta", "a", "b"], pairs)
    _write_numbers(folder, "prior", ["theta"], rng.normal(0.5, 0.8, (200, 1)))
    _write_numbers(folder, "seen", ["a", "b"], np.array([[0.1, 0.2], [1.2, 1.1], [-1.0, 1.3]]))


def _circle(folder: Path, rng: np.random.Generator) -> None:
    angle = np.cumsum(0.3 + 0.1 * rng.normal(size=180))
    states = np.column_stack([np.cos(angle), np.sin(angle)])
    series = np.hstack([states, states + 0.3 * rng.normal(size=states.shape)])
    _write_numbers(folder, "tracked", ["u", "v", "a", "b"], series[:120])
    _write_numbers(folder, "untracked", ["a", "b"], series[120:, 2:])


def _chains(folder: Path, rng: np.random.Generator) -> None:
    import xarray as xr

    from ...core.netcdf import write_tree

    draws = rng.normal(size=(4, 500, 2))
    draws[3, :, 0] += 1.0
    values = {"mu": draws[..., 0], "tau": np.exp(0.3 * draws[..., 1])}
    posterior = xr.Dataset({name: (("chain", "draw"), each) for name, each in values.items()})
    write_tree(xr.DataTree.from_dict({"posterior": posterior}), folder / POSTERIOR)


def _write_numbers(folder: Path, name: str, header: list[str], values: NDArray[np.float64]) -> None:
    _write(folder, name, header, [[f"{one:.4f}" for one in row] for row in values])


def _write(folder: Path, name: str, header: list[str], rows: list[list[str]]) -> None:
    with open(folder / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
