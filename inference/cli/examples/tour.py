"""Data sets of ``bke examples``, one measured and others simulated, and commands to try."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: The style of what is typed.
TYPED = "cyan"
#: By purpose: a question, the commands that answer it, and a package that they need, if any.
TOUR: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    "Posterior of the lengthscale": (
        (
            "The test, the posterior of the lengthscale and the witness with its bands, together:",
            ("bke run calm.csv windy.csv --columns Ozone --out result",),
            "",
        ),
    ),
    "Compare samples, tables and streams": (
        (
            "Do calm and windy days differ in temperature and humidity, where, and by how much?",
            ("bke compare calm.csv windy.csv --columns Temp,Hum --out answer",),
            "",
        ),
        (
            "What has changed between two months of customers?",
            ("bke drift last_month.csv this_month.csv --exclude customer --html drift.html",),
            "",
        ),
        (
            "Has a stream of rows changed, and since when?",
            ("bke monitor new.csv --reference old.csv --out watched",),
            "",
        ),
    ),
    "Check chains and draws": (
        ("Do four chains of a sampler agree?", ("bke chains posterior.nc --out chains",), ""),
        (
            "Which fifty of their draws stand best for all?",
            ("bke thin posterior.nc --to 50 --out few",),
            "",
        ),
    ),
    "Dependence, densities and simulators": (
        (
            "Does ozone depend on temperature?",
            ("bke independence ozone.csv --x Temp --y Ozone",),
            "",
        ),
        (
            "Which windy days are unlike the calm ones?",
            ("bke density calm.csv --columns Temp,Hum --at windy.csv --out density",),
            "",
        ),
        (
            "Which rate and size make a simulator give such counts?",
            ("bke abc model.py counts.csv --simulations 2000 --out rates",),
            "",
        ),
    ),
}

READ_ME = """\
# Examples for bke

Written by `bke examples`. The commands to try are in `commands.txt`; type them in this folder.

## Measured

- `ozone.csv`: 330 days of 1976 in the Los Angeles basin, in order of time. L. Breiman and
  J. H. Friedman, *Estimating optimal transformations for multiple regression and correlation*,
  Journal of the American Statistical Association 80 (1985), 580-598. Ozone (parts per hundred
  million), Temp (°F), InvHt (inversion base height, ft), Pres (pressure gradient, mmHg), Vis
  (miles), Hgt (500 mb height, m), Hum (%), InvTmp (inversion base temperature, °F), Wind (mph).
- `calm.csv`, `windy.csv`: the days with less wind than the median, and the others. Days follow each
  other, so that tests, which take them for independent, see somewhat too much.

## Simulated

- `last_month.csv`, `this_month.csv`: customers with their age, their plan and what they spent,
  which is missing for some. In the second table they are older, and more have the plan `pro`.
- `old.csv`, `new.csv`: rows as they should be, and a stream whose `pressure` spreads from row 401
  on.
- `posterior.nc`: four chains of 500 draws of `mu` and `tau`; the last is about another `mu`.
- `model.py`, `counts.csv`: a simulator of waiting times with its prior, and 100 rows from it with
  rate 0.5 and size 3.
"""


def commands() -> list[str]:
    """Every command, in the order in which they are to be tried."""
    return [command for asked in TOUR.values() for _, typed, _ in asked for command in typed]


def as_script() -> str:
    """All commands as a shell reads them, each under its question."""
    lines: list[str] = []
    for purpose, asked in TOUR.items():
        lines += ["", f"# == {purpose} =="]
        for question, typed, package in asked:
            needs = f" (needs {package})" if package else ""
            lines += [f"# {question}{needs}", *typed]
    return "\n".join(lines).lstrip() + "\n"


def as_text() -> Iterator[tuple[str, str]]:
    """All commands for a screen: lines, each with its style."""
    for purpose, asked in TOUR.items():
        yield f"\n{purpose}", "bold"
        for question, typed, package in asked:
            yield f"  {question}{f' (needs {package})' if package else ''}", ""
            for command in typed:
                yield f"    {command}", TYPED


#: Seed of the simulated data sets.
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
