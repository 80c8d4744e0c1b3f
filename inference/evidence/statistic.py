"""The one statistic of a comparison: the tilt, landmarks, location, covariances and places.

Seven statistics see what the others miss, on the same relabellings: the largest of the tilt's
evidences over kernels, lengthscales and sizes (:mod:`.tilt`, :mod:`.families`), and all of them
together, each told by how surprising it is, for differences of short or several scales; those at
landmarks together, which weigh a difference by its sampling covariance (:mod:`.landmarks`); how
far samples are apart in location (:mod:`.location`), and their covariances, and over how many
directions these go (:mod:`.covariances`); and the largest |t| over places (:mod:`.places`). All
that is chosen is chosen from the pooled rows, so their combination's permutation test has an exact
level.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from ..core.machine import side_by_side
from ..permutation.calibration import agreed, combined, surprise
from ..permutation.permutation import p_value, standardised, without_rounding
from ..permutation.relabelled import Relabelled
from .asked import Asked, answered
from .covariances import covariances, covariances_asked
from .decomposition import Spectrum
from .families import Family
from .ladder import VARIANCES, Scale, landmark_lengthscales, test_scales
from .landmarks import (
    LANDMARKS,
    ROWS_EACH,
    evidence_asked,
    evidence_of,
    evidence_rows,
    landmarks,
)
from .location import location, location_asked
from .places import Cells, cells
from .spectrum import VERY_MANY, nodes, spectra_asked, spectrum
from .tilt import exact_fits, fits

#: Where the evidence of each statistic is.
STATISTICS = (
    "at one scale",
    "at all scales together",
    "at landmarks",
    "in location",
    "in the distance of covariances",
    "in the dimensions of covariances",
    "at one place",
)
#: How much each counts: location and those of covariances, which hear little else, half.
WEIGHTS = (1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 1.0)
#: Nodes of the kernel, of one column, of more, and of very many rows.
LINE_NODES, NODES, FEWER_NODES = 400, 512, 192
#: Rows that tell products of features, of very many.
PRODUCTS = 2**13
#: The order of the mean of tail probabilities of all scales, minus.
TOGETHER = 2.0
#: Points up to which, in several columns, all are nodes.
MOST_EXACT = 1200


class Kind(NamedTuple):
    """What one kind of evidence says by itself, not adjusted for the others.

    Attributes:
        where: one of :data:`STATISTICS`.
        statistic: the observed one.
        pvalue: of it alone.
        surprise: minus the log tail probability, nats, by the other labellings.
    """

    where: str
    statistic: float
    pvalue: float
    surprise: float


class Evidences(NamedTuple):
    """What is evaluated of every labelling, before labellings are held against each other.

    Attributes:
        tilt: (K, 1 + B), log Bayes factors by kernels and sizes.
        landmarks: (L, 1 + B), evidences at lengthscales.
        location: (1 + B,), the squared distance of mean scores.
        distance: (1 + B,), of covariances.
        dimensions: (G, 1 + B), differences of those of covariances.
        place: (1 + B,), the largest |t| over places.
        scales: the kernel of each of ``tilt``.
        balanced: whether samples are of one size by every labelling: ``dimensions`` then have the
            mean zero, and a labelling and its opposite say the same.
        roughly: whether surprises are told roughly.
    """

    tilt: np.ndarray
    landmarks: np.ndarray
    location: np.ndarray
    distance: np.ndarray
    dimensions: np.ndarray
    place: np.ndarray
    scales: list[Scale]
    balanced: bool
    roughly: bool = False

    def of(self, labellings: np.ndarray) -> Evidences:
        """Those of some labellings, to be told roughly, as is enough for an error."""
        return self._replace(
            roughly=True,
            tilt=self.tilt[:, labellings],
            landmarks=self.landmarks[:, labellings],
            location=self.location[labellings],
            distance=self.distance[labellings],
            dimensions=self.dimensions[:, labellings],
            place=self.place[labellings],
        )

    @property
    def scale(self) -> Scale:
        """The kernel by which the tilt is most conspicuous."""
        return self.scales[int(np.argmax(standardised(self.tilt)[:, 0]))]

    def each(self, *, alone: int = 0) -> list[np.ndarray]:
        """The statistics of :data:`STATISTICS`, (1 + B,) each, which treat all labellings alike.

        But for those that come one at a time among the others: the first ones, so many as are
        ``alone``, see :func:`~bke.inference.permutation.permutation.with_each`.
        """
        # In deviations long lengthscales, whose evidence has the longest tail, have a head start,
        # which a shift needs; in surprises none has.
        at_one = standardised(self.tilt, alone=alone).max(axis=0)
        together = [
            agreed(surprise(part, alone=alone, roughly=self.roughly), TOGETHER)
            for part in (self.tilt, self.landmarks)
        ]
        differences = standardised(self.dimensions, centred=self.balanced, alone=alone)
        dimensions = np.abs(differences).max(axis=0)
        return [at_one, *together, self.location, self.distance, dimensions, self.place]

    def kinds(self) -> tuple[Kind, ...]:
        """What each of them says, the loudest first."""
        rows = self.each()
        loud = surprise(np.array(rows), without=1)[:, 0]
        found = [
            Kind(where, float(row[0]), p_value(row), float(one))
            for where, row, one in zip(STATISTICS, rows, loud, strict=True)
        ]
        return tuple(sorted(found, key=lambda kind: -kind.surprise))

    def statistic(self, *, alone: int = 0) -> np.ndarray:
        """The statistic (1 + B,), which treats labellings alike; ``alone`` as of :meth:`each`."""
        return combined(self.each(alone=alone), WEIGHTS, alone=alone, roughly=self.roughly)


def evidences(
    rows: Relabelled,
    places: Cells,
    advance: Callable[[int], None],
    scales: list[Scale] | None = None,
) -> Evidences:
    """Evaluate the evidence of every kind for every labelling.

    Args:
        rows: the pooled rows with their relabellings.
        places: where the samples are compared.
        advance: called with the number of lengthscales that are done.
        scales: those of the test where they are known.
    """
    # Of weighted rows so many as those of one weight would have that they are worth.
    most = int(rows.worth.min()) // ROWS_EACH if rows.weighted else LANDMARKS
    seen = landmarks(rows.choosing.points, min(LANDMARKS, most), 0)
    part = PRODUCTS if len(rows.points) > VERY_MANY else None
    at_landmarks = evidence_rows(rows, landmark_lengthscales(rows), seen, part=part)
    scales = test_scales(rows) if scales is None else scales
    tilt = _tilt(rows, scales, part, advance)
    others: list[Any] = [location, covariances]
    of_location, of_covariances = side_by_side(lambda one: others[one](rows), len(others), Event())
    return _together(rows, tilt, at_landmarks, of_location, of_covariances, places, scales)


class Questions(NamedTuple):
    """What is asked of very many rows, all at once, and told by the answers.

    Attributes:
        at_landmarks: one for some lengthscales each.
        tilt: for some scales each.
        location: of these.
        covariances: likewise.
        scales: of ``tilt``.
    """

    at_landmarks: list[Asked[np.ndarray]]
    tilt: list[Asked[list[Spectrum]]]
    location: Asked[np.ndarray]
    covariances: Asked[tuple[np.ndarray, np.ndarray]]
    scales: list[Scale]

    @classmethod
    def of(cls, rows: Relabelled) -> Questions:
        """Choose where to look by :attr:`Relabelled.choosing`, as :func:`evidences` does."""
        seen, scales = landmarks(rows.choosing.points, LANDMARKS, 0), test_scales(rows)
        return cls(
            evidence_asked(rows, landmark_lengthscales(rows), seen, PRODUCTS),
            _tilt_asked(rows, scales, PRODUCTS),
            location_asked(rows),
            covariances_asked(rows),
            scales,
        )

    @property
    def every(self) -> list[Asked[Any]]:
        """All of them, in one order."""
        return [*self.at_landmarks, *self.tilt, self.location, self.covariances]

    def told(self, answers: Sequence[Any], rows: Relabelled, places: Cells) -> Evidences:
        """Tell the evidence of every kind by the answers to :attr:`every`."""
        count = len(self.at_landmarks)
        tilt = np.concatenate([fits(one, VARIANCES) for some in answers[count:-2] for one in some])
        at_landmarks = evidence_of(answers[:count])
        of_location, of_covariances = answers[-2:]
        return _together(rows, tilt, at_landmarks, of_location, of_covariances, places, self.scales)


def _together(
    rows: Relabelled,
    tilt: np.ndarray,
    at_landmarks: np.ndarray,
    of_location: np.ndarray,
    of_covariances: tuple[np.ndarray, np.ndarray],
    places: Cells,
    scales: list[Scale],
) -> Evidences:
    """All kinds of evidence, the tilt's with every kernel."""
    largest = places.largest
    return Evidences(
        tilt,
        at_landmarks,
        of_location,
        *of_covariances,
        # A difference may be a ten-millionth of the sums it is told by, as where one pair differs.
        without_rounding(largest, 1e7 * float(largest.max(initial=0.0))),
        [scale for scale in scales for _ in VARIANCES],
        not rows.weighted and bool((2.0 * rows.shares == 1.0).all()),
    )


def _tilt(
    rows: Relabelled, scales: list[Scale], part: int | None, advance: Callable[[int], None]
) -> np.ndarray:
    """Log Bayes factors of a difference by kernels and sizes, (K, 1 + B)."""
    asks = [] if part is None or not rows.independent else _tilt_asked(rows, scales, part)
    line = rows.points.shape[1] == 1
    exact = not line and len(rows.points) <= MOST_EXACT and rows.independent
    at = {} if exact or asks else _nodes(rows, scales, LINE_NODES if line else NODES)

    def some(index: int) -> np.ndarray:
        found = [fits(one, VARIANCES) for one in answered(asks[index], rows)]
        advance(len(found))
        return np.concatenate(found)

    def one(index: int) -> np.ndarray:
        family, lengthscale = scales[index]
        if exact:
            gram = family.values(rows.points, rows.points, lengthscale)
            found = exact_fits(rows, gram, VARIANCES)
        else:
            found = fits(spectrum(rows, at[family], lengthscale, family.values), VARIANCES)
        advance(1)
        return found

    work, count = (some, len(asks)) if asks else (one, len(scales))
    return np.concatenate(side_by_side(work, count, Event()))


def _nodes(rows: Relabelled, scales: list[Scale], most: int) -> dict[Family, np.ndarray]:
    """Where kernels of every family are taken at."""
    return {
        family: nodes(rows, int(most * family.nodes))
        for family in dict.fromkeys(scale.family for scale in scales)
    }


def _tilt_asked(rows: Relabelled, scales: list[Scale], part: int) -> list[Asked[list[Spectrum]]]:
    """Ask for spectra of a few kernels of one family at a time."""
    found = []
    at = _nodes(rows, scales, LINE_NODES if rows.points.shape[1] == 1 else FEWER_NODES)
    for family, own in itertools.groupby(scales, lambda scale: scale.family):
        for run in family.runs(scale.lengthscale for scale in own):
            found.append(spectra_asked(rows, family.at(at[family], *run), part))
    return found


def overall_pvalue(rows: Relabelled) -> float:
    """The p-value of "P = Q" alone."""
    return p_value(evidences(rows, cells(rows), lambda count: None).statistic())
