"""What is printed: progress and errors on standard error, findings on standard output."""

from __future__ import annotations

import contextlib
import math
import os
import re
import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..core.errors import InputError, SamplingError
from ..core.names import printable, printable_lines
from .interrupt import told_as

#: How JAX tells that memory was not enough.
OF_MEMORY = "RESOURCE_EXHAUSTED"
#: Columns to which lines are wrapped at least.
NARROWEST = 40
#: How the library's messages name a word that it takes: ``likelihood='nystrom'``.
KEYWORD = re.compile(r"\b([a-z_]+)='([\w-]+)'")


@contextlib.contextmanager
def exit_codes(debug: bool) -> Iterator[None]:
    """Turn a failure into one sentence on standard error and exit status 1, Ctrl-C into 130.

    SIGTERM, where it is heard, into 143. Warnings become sentences too.
    """
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _told
            yield
    except KeyboardInterrupt as how:
        raise typer.Exit(told_as(how)) from None
    except (InputError, SamplingError, ValueError, ArithmeticError, OSError, MemoryError) as error:
        if debug:
            raise
        typer.echo(f"bke: {_noted(_sentence(error), error)}", err=True)
        raise typer.Exit(1) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except Exception as error:
        if debug:
            raise
        told = (
            f"unexpected failure ({type(error).__name__}: {_sentence(error)}); --debug shows where"
        )
        if str(error).startswith(OF_MEMORY):
            told = _noted(_sentence(MemoryError(str(error))), error)
        typer.echo(f"bke: {told}", err=True)
        raise typer.Exit(1) from None


def _noted(text: str, error: BaseException) -> str:
    """A message with what has been noted on the error since."""
    return "; ".join([text, *map(printable, getattr(error, "__notes__", []))])


def _told(message: Warning | str, *where: Any, **more: Any) -> None:
    """What ``warnings`` calls with a warning."""
    typer.echo(f"bke: warning: {_in_options(printable(str(message)))}", err=True)


def _sentence(error: BaseException) -> str:
    """Our own message, in which a file's name may have line breaks; the first line of another's."""
    if isinstance(error, InputError) and str(error):
        return _in_options(printable(str(error)))
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{printable(str(error.filename))}: "
        return f"{where}{error.strerror}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = _in_options(lines[0]) if lines else type(error).__name__
    return f"there is not enough memory ({told})" if isinstance(error, MemoryError) else told


def _in_options(text: str) -> str:
    """A keyword argument in a message as the option of that name."""
    return KEYWORD.sub(_option, text)


def _option(keyword: re.Match[str]) -> str:
    name, value = keyword.groups()
    return f"--{name.replace('_', '-')} {value}"


class Terminal:
    """Where one command prints: its findings, or with ``json`` only the summary."""

    def __init__(self, *, json: bool, quiet: bool, debug: bool = False) -> None:
        if json and sys.stdout is None:
            raise InputError("standard output is closed, and --json would be printed there")
        self.json = json
        #: Whether reports of runs are printed in full.
        self.verbose = True
        self.debug = debug
        self.progress = not quiet
        self.started = time.perf_counter()
        self.timings: dict[str, float] = {}
        self._last: list[Callable[[], None]] = []
        # Looked up at every print, so that redirected streams are respected.
        # With NO_COLOR rich would leave out colours, but not bold and italics.
        styled: Any = {"color_system": None if os.environ.get("NO_COLOR") else "auto"}
        self._errors = Console(stderr=True, highlight=False, **styled)
        self._findings = Console(stderr=json, highlight=False, quiet=json and quiet, **styled)

    @property
    def width(self) -> int:
        """Columns of the screen."""
        return self._findings.width

    @contextlib.contextmanager
    def step(self, name: str, doing: str, *, spinner: bool = True) -> Iterator[None]:
        """Time a step as ``name``; show what is being done while it lasts."""
        before = time.perf_counter()
        shown = self.progress and spinner and self._errors.is_terminal
        with self._spinning(doing) if shown else contextlib.nullcontext():
            yield
        self.timings[name] = round(time.perf_counter() - before, 3)

    @contextlib.contextmanager
    def _spinning(self, doing: str) -> Iterator[None]:
        with Progress(
            SpinnerColumn(finished_text=" "),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=self._errors,
            transient=True,
        ) as shown:
            shown.add_task(doing, total=None)
            yield

    @contextlib.contextmanager
    def ending(self) -> Iterator[None]:
        """Print what a command ends with, once its files are in place; nothing where it failed."""
        try:
            yield
        except typer.Exit:  # an answer, which a status tells as well
            self._end()
            raise
        self._end()

    def _end(self) -> None:
        for say in self._last:
            say()

    def finish(self, summary: Mapping[str, Any]) -> None:
        """End with the summary as JSON if that was asked for."""
        if self.json:
            from ..core.render import to_json

            told = to_json(summary)
            self._last.append(lambda: typer.echo(told))

    def all_timings(self) -> dict[str, float]:
        """Seconds of every step and in total."""
        return {**self.timings, "total": round(time.perf_counter() - self.started, 3)}

    def say(
        self,
        text: str = "",
        style: str = "",
        *,
        whole: bool = False,
        console: Console | None = None,
    ) -> None:
        """Lines, wrapped between words on a screen, and left as they are for a file or a program.

        With ``whole`` they are never wrapped, so that they can be copied.
        """
        if self._findings.is_terminal and not whole:
            text = "\n".join(_wrapped(line, self.width) for line in text.split("\n"))
        (console or self._findings).print(Text(printable_lines(text), style), soft_wrap=True)

    def lines(self, lines: Sequence[str], *, warning: bool = False) -> None:
        """Print a part of a short report after a blank line; a warning even if quiet."""
        self.say("\n".join(["", *lines]), console=self._errors if self.json and warning else None)

    def notes(self, notes: Sequence[str]) -> None:
        """Remarks that a reader should not miss."""
        for note in notes:
            self.say(note, "yellow")

    def settings(self, settings: Mapping[str, Any]) -> None:
        """The model and what was done to the data."""
        from ..sampling.record import FUNCTION

        columns = settings["columns"]
        priors = ", ".join(_prior(name, prior) for name, prior in settings["prior"].items())
        kernel = settings["kernel"]
        seen = f"seen from {settings['landmarks']} landmarks; " if "landmarks" in settings else ""
        if "likelihood_options" in settings:
            seen += f"{_likelihood(settings)}; "
        product = "samples with a likelihood each; " if settings.get("samples") == "product" else ""
        of_function = kernel["type"] == FUNCTION
        named = kernel["function"]["type"] if of_function else kernel["type"]
        parameters = kernel["parameters"] if of_function else kernel
        fixed = "".join(f", {name} {value}" for name, value in parameters.items() if name != "type")
        self.say(
            f"{settings['rows']} rows, {_columns(columns)}; kernel {named}{fixed}; "
            f"{priors}; noise variance of the fit {_plain(settings['noise_variance'])}; "
            f"measure {_plain(settings['measure'])}; {seen}{product}seed {settings['seed']}"
        )
        scale = {name: value for name, value in settings["scale"].items() if value != 1.0}
        if scale:
            units = ", ".join(f"{number(value)} for {name}" for name, value in scale.items())
            self.say(f"The prior is on the lengthscale over a unit of {units}.")

    def diagnosis(self, text: str, summary: Mapping[str, Any]) -> None:
        """The printed diagnosis; its verdict in a frame, and a loud one for several modes."""
        verdict = summary["verdict"]
        self.say()
        self.say(text.removesuffix(verdict).rstrip())
        self.say()
        if summary["multimodal"]:
            known = summary["log_normalizer"] is not None
            advice = "WEIGHTED BY POSTERIOR MASS" if known else "DO NOT AVERAGE OVER THEM"
            if known and not summary["independent"] and not summary["heaviest_mixed"]:
                advice += ", BUT NOT MIXED WITHIN"
            if summary["resolved"] is False:
                advice += ", NOT RESOLVED"
            title = f"MULTIMODAL: {len(summary['modes'])} MODES - {advice}"
            # A warning that --quiet does not silence.
            console = self._errors if self.json else self._findings
            console.print(Panel(Text(verdict), title=Text(title), border_style="bold red"))
        else:
            if summary["independent"]:
                good, words = summary["integral_within_tolerance"], ("accurate", "ROUGH")
            else:
                good, words = summary["mixed"], ("mixed", "NOT MIXED")
            style = "green" if good else "bold yellow"
            title = f"one mode, {words[0] if good else words[1]}"
            if summary["low_rank_error_small"] is False:
                known = not math.isnan(summary["low_rank_error_nats"])
                said = "NOT ACCURATE" if known else "OF UNKNOWN ACCURACY"
                style, title = "bold yellow", f"{title}, LIKELIHOOD {said}"
            if summary["resolved"] is False:
                style, title = "bold yellow", f"{title}, NOT RESOLVED"
            self._findings.print(Panel(Text(verdict), title=Text(title), border_style=style))

    def posterior(self, posterior: Mapping[str, Any], *, by_mass: bool) -> None:
        """The hyperparameters in each mode, and over several modes of known mass.

        ``by_mass``: also over a single one, which chains may have gone through unevenly.
        """
        table = Table(
            title="Posterior in each mode, in the units of the data", title_justify="left"
        )
        # Folded where it is narrow: a number cut short is another number.
        table.add_column("mode", justify="right", overflow="fold")
        table.add_column("hyperparameter", overflow="fold")
        for name in ("mean", "sd", "10 %", "50 %", "90 %", "draws"):
            table.add_column(name, justify="right", overflow="fold")
        for mode in posterior["modes"]:
            for name, found in mode["hyperparameters"].items():
                table.add_row(str(mode["mode"]), Text(name), *_row(found), str(mode["draws"]))
            if not mode["draws"]:
                table.add_row(str(mode["mode"]), "no draws", *[""] * 5, "0")
        several = len(posterior["modes"]) > 1
        if (several or by_mass) and posterior["overall"] is not None:
            for name, found in posterior["overall"].items():
                table.add_row("by mass", Text(name), *_row(found), "")
        self._findings.print(table)

    def witness(self, witness: Mapping[str, Any], names: tuple[str, str]) -> None:
        """The extremes of the witness in each mode."""
        noise = witness["noise"]
        noise = "the sampling covariance" if noise == "clt" else f"variance {noise}"
        self.say(
            f"Witness {' - '.join(names)} with these kernels, noise {noise}: largest and smallest "
            f"mean (pointwise {100 * witness['level']:g} % band)"
        )
        for mode in witness["modes"]:
            if mode["draws"]:
                self.say(f"  mode {mode['mode']}: {extremes(mode)}")
            else:
                self.say(f"  mode {mode['mode']}: no draws")
        if len(witness["modes"]) > 1:
            overall = witness["overall"]
            self.say(f"  overall, {overall['weighting']}: {extremes(overall)}")
        self.notes([witness["thinning"]])

    def files(self, files: Mapping[str, str], timings: Mapping[str, float]) -> None:
        """End with what was written and how long it took."""
        if not self.verbose:
            folders: dict[Path, list[str]] = {}
            for path in map(Path, files.values()):
                folders.setdefault(path.parent, []).append(path.name)
            sentences = [
                f"Files in {folder}: {', '.join(names)}." for folder, names in folders.items()
            ]
            sentences.append(f"Time: {timings['total']:.0f} s. More numbers: --verbose.")
            self._last.append(lambda: self.say(" ".join(sentences)))
            return
        steps = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in timings.items())
        told = "\n".join(["", *(f"  {path}" for path in files.values())])
        self._last.append(lambda: self.say(told, whole=True))
        self._last.append(lambda: self.say(f"Time: {steps}"))


def _wrapped(line: str, width: int) -> str:
    """A line in lines of at most ``width`` columns, indented as it is and by two more."""
    if len(line) <= width:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(
        line,
        max(width, NARROWEST),
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _row(found: Mapping[str, float]) -> list[str]:
    sd = found["sd"]
    return [
        number(found[key], None if key == "sd" else sd)
        for key in ("mean", "sd", "q10", "q50", "q90")
    ]


def number(value: float, sd: float | None = None) -> str:
    """Four significant digits; more where fewer than two of ``sd`` would be among them."""
    digits = 4
    if value and sd and math.isfinite(value) and math.isfinite(sd):
        apart = math.floor(math.log10(abs(value))) - math.floor(math.log10(sd))
        digits = min(max(digits, apart + 2), 15)  # what a double holds
    return f"{value:.{digits}g}"


def extremes(found: Mapping[str, Any]) -> str:
    """In words, the largest and the smallest mean of a witness."""
    return "; ".join(_extreme(found[name]) for name in ("largest", "smallest"))


def _extreme(found: Mapping[str, Any]) -> str:
    place = ", ".join(f"{name} {number(value)}" for name, value in found["at"].items())
    return f"{found['mean']:.3g} at {place} ({found['lower']:.3g} to {found['upper']:.3g})"


def _likelihood(settings: Mapping[str, Any]) -> str:
    """Which likelihood, with its options."""
    from bke.models.likelihood.marginal import restore_likelihood

    likelihood = {"likelihood": settings["likelihood"], **settings["likelihood_options"]}
    return restore_likelihood(likelihood).summary


def _columns(columns: list[str]) -> str:
    return f"column {columns[0]}" if len(columns) == 1 else f"columns {', '.join(columns)}"


def _prior(name: str, prior: Mapping[str, Any]) -> str:
    if prior["distribution"] == "ExpandedDistribution":
        return f"{_prior(name, prior['base_dist'])} for each column"
    if prior["distribution"] == "Gamma":
        return f"{name} ~ Gamma({prior['concentration']:g}, {prior['rate']:g})"
    return f"{name} ~ {prior['distribution']}"


def _plain(value: Any) -> str:
    if isinstance(value, Mapping) and "sampling" in value:
        form = "in full" if value["sampling"] == "full" else "its diagonal"
        return f"the sampling covariance, {form}, and {value['nugget']:g}"
    return (
        value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else "prior"
    )
