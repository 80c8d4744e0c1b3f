"""The commands that ``bke examples`` tells of, as they are typed in its folder."""

from __future__ import annotations

from collections.abc import Iterator

from .. import purposes

#: The style of what is typed.
TYPED = "cyan"
#: By purpose: a question, the commands that answer it, and a package that they need, if any.
TOUR: dict[str, tuple[tuple[str, tuple[str, ...], str], ...]] = {
    purposes.POSTERIOR: (
        (
            "The test, the posterior of the lengthscale and the witness with its bands, together:",
            ("bke run calm.csv windy.csv --columns Ozone --out result",),
            "",
        ),
    ),
    purposes.COMPARE: (
        (
            "Do calm and windy days differ in temperature and humidity, where, and by how much?",
            ("bke test calm.csv windy.csv --columns Temp,Hum --out answer",),
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
    purposes.CHECK: (
        ("Do four chains of a sampler agree?", ("bke chains posterior.nc --out chains",), ""),
        (
            "Which fifty of their draws stand best for all?",
            ("bke thin posterior.nc --to 50 --out few",),
            "",
        ),
    ),
    purposes.LEARN: (
        (
            "The kernel of highest marginal likelihood:",
            ("bke learn calm.csv windy.csv --columns Ozone",),
            "",
        ),
        (
            "Which windy days are unlike the calm ones?",
            ("bke density calm.csv --columns Temp,Hum --at windy.csv --out density",),
            "",
        ),
    ),
    purposes.DEPENDENCE: (
        (
            "Does ozone depend on temperature?",
            ("bke independence ozone.csv --x Temp --y Ozone",),
            "",
        ),
        (
            "Which columns cause which?",
            ("bke graph ozone.csv --columns Ozone,Temp,Hum --kernel median --out graph",),
            "causal-learn",
        ),
    ),
    purposes.INFER: (
        (
            "What ozone is to be expected at which temperature?",
            ("bke condition ozone.csv --given Temp --of Ozone --kernel median --out expected",),
            "",
        ),
        (
            "What is theta where a and b are seen, by simulated pairs and a prior?",
            (
                "bke bayes simulated.csv prior.csv seen.csv --hidden theta --seen a,b "
                "--kernel median --out posterior",
            ),
            "",
        ),
        (
            "Where on a circle is what is seen badly?",
            (
                "bke filter tracked.csv untracked.csv --states u,v --observations a,b "
                "--kernel median --out states",
            ),
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
- `simulated.csv`, `prior.csv`, `seen.csv`: `a` is theta with noise, and `b` its square with noise.
- `tracked.csv`, `untracked.csv`: a point that goes round a circle, `u` and `v`, seen with noise as
  `a` and `b`.
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
