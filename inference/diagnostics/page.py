"""HTML report of a run: decision, diagnosis, posterior and plots."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.render import as_data, render

#: Captions of plots by the names of their files.
CAPTIONS = {
    "comparison": "Where the two samples differ: the posterior of the difference and its regions",
    "samples": "The two samples",
    "witness": "The witness of the pooled sample's posterior, with its pointwise band",
    "trace": "Trace of the draws of every chain",
    "rank": "Ranks of the draws of every chain: uniform if chains have mixed",
    "profile": "The log posterior density along the hyperparameter, with its modes",
}
#: Order of plots under the headings of the page.
SECTIONS = {
    "answer": ("comparison", "samples"),
    "diagnosis": ("profile", "trace", "rank"),
    "witness": ("witness",),
}
#: Statistics of each hyperparameter in the table.
STATISTICS = ("mean", "sd", "q10", "q50", "q90")


class Figure(NamedTuple):
    """A plot of the page.

    Attributes:
        source: data URL of the image.
        caption: caption of the plot.
    """

    source: str
    caption: str


def run_page(
    summary: Mapping[str, Any],
    diagnosis: str,
    pictures: Mapping[str, Path],
    *,
    title: str,
    answer: str | None = None,
    notes: Sequence[str] = (),
) -> str:
    """Write the page of a run.

    Args:
        summary: result of :func:`~bke.inference.diagnostics.summary.run_summary`, with the summary
            of a witness if any.
        diagnosis: text of the diagnosis.
        pictures: PNG files by their keys in ``CAPTIONS``.
        title: title of the page.
        answer: report of the comparison of two samples; ``None`` without samples.
        notes: notes and warnings.
    """
    drawn = {
        section: [_figure(name, pictures[name]) for name in names if name in pictures]
        for section, names in SECTIONS.items()
    }
    first, *details = (answer or summary["diagnosis"]["verdict"]).splitlines()
    return render(
        "run.html",
        title=title,
        answer=first,
        details=[line.strip() for line in details],
        compared=answer is not None,
        diagnosis=diagnosis,
        posterior=_posterior(summary["posterior"]),
        settings=summary["settings"],
        witness=summary.get("witness"),
        pictures=drawn,
        notes=list(notes),
        versions=summary["versions"],
    )


def _figure(name: str, path: Path) -> Figure:
    """Convert a plot to lossless WebP, which is smaller than PNG."""
    from PIL import Image

    packed = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").save(packed, "WEBP", lossless=True, quality=80)
    return Figure(as_data(packed.getvalue(), "image/webp"), CAPTIONS[name])


def _posterior(posterior: Mapping[str, Any]) -> list[list[str]]:
    """Return rows of a table with mode, hyperparameter and statistics."""
    rows = []
    for mode in posterior["modes"]:
        for name, statistics in mode["hyperparameters"].items():
            rows.append([str(mode["mode"]), name, *_format_statistics(statistics)])
    if posterior["overall"] is not None and len(posterior["modes"]) > 1:
        rows += [
            ["all, by mass", name, *_format_statistics(f)]
            for name, f in posterior["overall"].items()
        ]
    return rows


def _format_statistics(statistics: Mapping[str, float]) -> list[str]:
    return [f"{statistics[name]:.4g}" for name in STATISTICS]
