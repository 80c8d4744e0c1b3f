"""Evidence against rows being like a reference, row by row, from values of rows."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from .bins import BINS, binned, counts_of, edges_of
from .capital import Capital
from .columns import Columns
from .history import History
from .learned import SLOTS, Witnesses
from .naming import PLAINLY, Named, learned_name, names_of
from .scores import Scores
from .since import Since, since

#: Rows of the reference by which scores are chosen, at most half of all; rows of the others that
#: are kept beside their counts; rows of the stream that are kept.
APART, RANKED, RECENT = 1000, 2000, 4096
#: Scores that are told with an alarm, those with this share of the evidence that an alarm needs;
#: by what factor less evidence one about a single column may have and be told first.
TOLD, SOME, PLAINER = 4, 0.1, 10.0


class Alarm(NamedTuple):
    """What was known at the row of an alarm.

    Attributes:
        row: counted from 1.
        since: when the change came.
        what: what has changed, with the columns and the evidence of each: what is about a single
            column first, the strongest of it.
        times: of ``since``: its row, and both ends.
    """

    row: int
    since: Since
    what: tuple[tuple[str, tuple[str, ...], float], ...]
    times: tuple[str, str, str] | None = None


@dataclasses.dataclass
class Watch:
    """All that is known of a stream, in bounded memory.

    Attributes:
        alpha: alarm at the evidence 1 / alpha.
        seed: of what breaks ties, by the number of the row, and of landmarks.
        apart: values (a, C) of rows of the reference by which scores are chosen.
        ranked: (r, C), of some of those that are ranked.
        scores: made of every row.
        edges: (J, BINS - 1), of their bins.
        capital: of all scores and witnesses.
        witnesses: learned from the stream.
        recent: (m, C), of the last rows.
        rows: of the stream so far.
        evidence: the largest so far.
        alarm: the first one.
        history: of the evidence, thinned.
    """

    alpha: float
    seed: int
    apart: np.ndarray
    ranked: np.ndarray
    scores: Scores
    edges: np.ndarray
    capital: Capital
    witnesses: Witnesses
    recent: np.ndarray
    history: History
    rows: int = 0
    evidence: float = 1.0
    alarm: Alarm | None = None

    @classmethod
    def of(cls, columns: Columns, values: np.ndarray, alpha: float, seed: int) -> Watch:
        """Begin with a reference (n, C)."""
        order = np.random.default_rng(seed).permutation(len(values))
        count = min(APART, len(values) // 2)
        apart, ranked = values[order[:count]], values[order[count:]]
        scores = Scores.of(columns.showing(apart), apart, seed)
        edges = edges_of(scores.at(apart))
        dimension = scores.positions(apart[:1]).shape[1]
        counts = np.zeros((len(edges) + SLOTS, BINS), dtype=np.int64)
        watch = cls(
            alpha,
            seed,
            apart,
            ranked[:RANKED],
            scores,
            edges,
            Capital.of(counts),
            Witnesses.of(dimension, scores.scale, BINS),
            values[:0],
            History.empty(),
        )
        watch.count(ranked)
        return watch

    def count(self, values: np.ndarray) -> None:
        """Add rows (n, C) to the reference."""
        for start in range(0, len(values), RECENT):
            bins = self._bins(values[start : start + RECENT])
            self.capital = self.capital.counted(counts_of(bins))

    def see(self, values: np.ndarray) -> None:
        """Bet on rows (n, C), one after the other."""
        start = 0
        while start < len(values):
            taken = min(len(values) - start, self.witnesses.next_at - self.rows, RECENT)
            self._block(values[start : start + taken])
            start += taken

    def _block(self, values: np.ndarray) -> None:
        self.capital, won = self.capital.bet(self._bins(values), self._uniform(len(values)))
        evidence = won * self.shares
        largest = evidence.max(axis=1)
        self.history = self.history.after(self.rows, largest)
        self.evidence = max(self.evidence, float(largest.max()))
        recent = np.concatenate([self.recent, values])
        if self.alarm is None and self.evidence >= 1.0 / self.alpha:
            at = int(np.argmax(largest >= 1.0 / self.alpha))
            seen = recent[: len(recent) - len(values) + at + 1][-RECENT:]
            self.alarm = self._alarm(self.rows + at + 1, evidence[at], seen)
        self.recent = recent[-RECENT:]
        self.rows += len(values)
        if self.rows == self.witnesses.next_at:
            self._learn()

    def _bins(self, values: np.ndarray) -> np.ndarray:
        """The bins (n, J) of all scores and witnesses."""
        learned = self.witnesses.at(self.scores.positions(values))
        edges = np.concatenate([self.edges, self.witnesses.edges])
        return binned(np.concatenate([self.scores.at(values), learned], axis=1), edges)

    def _uniform(self, rows: int) -> np.ndarray:
        """Numbers (n, J) that break ties, whatever rows they came in with."""
        scores = len(self.shares)
        per_row = -(-scores // 4)  # the generator makes four at a time
        philox = np.random.Philox(key=self.seed, counter=self.rows * per_row)
        return np.random.Generator(philox).random((rows, 4 * per_row))[:, :scores]

    @property
    def shares(self) -> np.ndarray:
        """What each score and witness (J,) has of the level."""
        return np.concatenate([self.scores.shares, self.witnesses.shares])

    @property
    def names(self) -> list[Named]:
        """What each score and witness (J,) is."""
        of_learned = []
        for slot, share in enumerate(self.witnesses.shares):
            last, window = self.witnesses.learned_from(slot) if share else (0, 0)
            of_learned.append(learned_name(last, window, self.scores.columns.names))
        return names_of(self.scores) + of_learned

    def _learn(self) -> None:
        """Replace the oldest witnesses, which start with a capital of 1."""
        recent = self.recent[-self.witnesses.window :]
        at = self.scores.positions
        rng = np.random.default_rng([self.seed, self.witnesses.generation])
        self.witnesses, counts = self.witnesses.renewed(
            at(recent), at(self.apart), at(self.ranked), rng
        )
        slots = self.witnesses.youngest
        slots = slice(len(self.edges) + slots.start, len(self.edges) + slots.stop)
        self.capital = self.capital.renewed(slots, counts)

    def _alarm(self, row: int, evidence: np.ndarray, seen: np.ndarray) -> Alarm:
        """Find since when and what by the evidence (J,) at a row and the last rows seen (m, C)."""
        parts = []
        for values in (self.ranked, seen):
            learned = self.witnesses.at(self.scores.positions(values))
            parts.append(np.concatenate([self.scores.at(values), learned], axis=1))
        reference, stream = parts
        edges = np.concatenate([self.edges, self.witnesses.edges])
        order = np.argsort(-evidence, kind="stable")
        best, first = order[0], row - len(seen) + 1
        when = since(reference[:, best], stream[:, best], edges[best], first)
        after, names = stream[when.row - first :], self.names
        # What is about one column comes first, if its evidence is not far less.
        told = [one for one in order if one == best or evidence[one] >= SOME / self.alpha]
        told.sort(key=lambda one: -evidence[one] * PLAINER ** (names[one].family in PLAINLY))
        what: dict[str, tuple[str, tuple[str, ...], float]] = {}
        for one in told:
            words = names[one].changed(reference[:, one], after[:, one])
            # Two scales of one place, and the like, say the same: the louder one does.
            what.setdefault(words, (words, names[one].columns, float(evidence[one])))
        return Alarm(row, when, tuple(what.values())[:TOLD])
