"""The report of a run as one page: the answer, the diagnosis, the posterior, pictures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..core.render import as_data, render

#: What each picture shows, by the name of its file.
CAPTIONS = {
    "comparison": "Where the two samples differ: the posterior of the difference and its regions",
    "samples": "The two samples",
    "witness": "The witness of the pooled sample's posterior, with its pointwise band",
    "trace": "The draws of every chain, one after the other",
    "rank": "Ranks of the draws of every chain: even where chains have mixed",
    "profile": "The log posterior density along the hyperparameter, with its modes",
}
#: The order of pictures, under the headings of the page.
SECTIONS = {
    "answer": ("comparison", "samples"),
    "diagnosis": ("profile", "trace", "rank"),
    "witness": ("witness",),
}
#: What is told of each hyperparameter.
STATISTICS = ("mean", "sd", "q10", "q50", "q90")


class Figure(NamedTuple):
    """A picture of the page.

    Attributes:
        source: its content as an address.
        caption: what it shows.
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
        summary: of :func:`~bke.inference.diagnostics.summary.run_summary`, and of a witness if
            any.
        diagnosis: in words.
        pictures: files of PNG by what they show.
        title: of the page.
        answer: whether and where two samples differ, in words; ``None`` without samples.
        notes: what a reader should not miss.
    """
    drawn = {
        name: [_figure(one, pictures[one]) for one in order if one in pictures]
        for name, order in SECTIONS.items()
    }
    first, *others = (answer or summary["diagnosis"]["verdict"]).splitlines()
    return render(
        "run.html",
        title=title,
        answer=first,
        details=[line.strip() for line in others],
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
    """A picture as WebP without loss, which is smaller than PNG."""
    from PIL import Image

    packed = io.BytesIO()
    with Image.open(path) as picture:
        picture.convert("RGB").save(packed, "WEBP", lossless=True, quality=80)
    return Figure(as_data(packed.getvalue(), "image/webp"), CAPTIONS[name])


def _posterior(posterior: Mapping[str, Any]) -> list[list[str]]:
    """Rows of a table: mode, hyperparameter, statistics."""
    rows = []
    for mode in posterior["modes"]:
        for name, found in mode["hyperparameters"].items():
            rows.append([str(mode["mode"]), name, *_numbers(found)])
    if posterior["overall"] is not None and len(posterior["modes"]) > 1:
        rows += [["all, by mass", name, *_numbers(f)] for name, f in posterior["overall"].items()]
    return rows


def _numbers(found: Mapping[str, float]) -> list[str]:
    return [f"{found[name]:.4g}" for name in STATISTICS]
