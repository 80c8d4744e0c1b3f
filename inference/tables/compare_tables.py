"""Compare two tables: one answer for both as wholes, and for every column and pair of columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..comparison.compare import sample_names
from ..comparison.named import Named, Place, named
from ..core.machine import one_thread
from ..core.progress import progress_bar
from ..data.checks import check_count, normalize_text
from ..io.columns import as_values
from ..io.tables import as_table
from ..io.types import Column
from ..permutation.calibration import surprise
from ..permutation.enough import check_permutations
from ..permutation.permutation import monte_carlo_error, p_value
from ..permutation.stages import in_stages
from ..permutation.step_down import step_down
from .aspects import aspects, in_both
from .changes import change
from .dealing import check_ways, labelling
from .dependence import Dependence, dependence
from .features import Features, features
from .findings import PairComparison
from .fitted import Told
from .histograms import histogram
from .joint import joint
from .marginal import Marginal, marginal
from .overall import Statistics
from .pooled import Pooled, ReadOptions, Roles, pooled
from .result import ColumnComparison, TableComparison
from .words import dates_told


def compare_tables(
    before: Any,
    after: Any = None,
    *,
    by: str | None = None,
    exclude: Sequence[str] = (),
    column_types: Mapping[str, str] | None = None,
    na_values: Sequence[str | float] = (),
    formats: Sequence[str] = (),
    sentinels: Literal["warn", "missing", "keep"] = "warn",
    identifiers: bool = False,
    clusters: str | None = None,
    strata: str | None = None,
    freq_weights: str | None = None,
    weights: str | None = None,
    alpha: float = 0.05,
    permutations: int = 999,
    sequential: bool = True,
    names: tuple[str, str] = ("before", "after"),
    encoding: str | None = None,
    seed: int = 0,
    progress: bool = True,
) -> TableComparison:
    """Compare two tables whose columns are numbers, categories, dates and text, with holes.

    One set of relabellings of whole rows is evaluated for every column, every pair of columns and
    rows as wholes. Their combination gives one p-value for the tables, at an exact level; if it is
    at most ``alpha``, columns and pairs are named whose p-values, adjusted for all columns or pairs
    by stepping down (Westfall and Young 1993), are at most ``alpha`` too. Where the tables have one
    distribution the chance of naming anything is at most ``alpha``. Where some columns have changed
    the others are named so rarely too, and other pairs.

    A pair whose columns have changed, but not how they go together, is named as rarely, to the
    accuracy of large samples: if numbers were shifted or scaled, or levels became more or less
    frequent that are as spread; and, of numbers that go together as normal ones do, if they were
    rounded, clipped or stretched. Where large values go together otherwise than small ones, levels
    differ in spread, or hours became more or less frequent, such a change can name the pair
    (``benchmarks/results/drift-pairs.md``). Of columns with holes it is said of rows that have
    both, whose dependence is another if what is missing hangs on values.

    A hole is a state: that values are missing more often is a difference. Numbers are compared at
    the precision of the narrower of both tables' types, and rounding among ties is no difference
    (:mod:`bke.inference.data.equality`). Text is compared in Unicode normal form C.

    Args:
        before: a data frame (pandas, polars, Arrow, ...), a dictionary of columns, or the path of a
            file; see :func:`bke.inference.io.tables.read_table`.
        after: likewise, with the same columns in any order; none with ``by``.
        by: a column of ``before`` with two values, whose rows are compared; see
            :func:`~bke.inference.compare_groups` for more.
        exclude: columns that are left out.
        column_types: types of columns, in place of those that are inferred from their cells:
            number, integer, boolean, category, datetime, text or identifier.
        na_values: cells that stand for a missing value, such as -999.
        formats: names of formats of numbers or dates in text, such as "decimal commas" or
            "day/month/year", where all cells of a column fit several; messages list them.
        sentinels: what to do with numbers that look like sentinels of a missing value, such as -999
            or 9999, repeated and far from all others: ``"warn"`` compares them and adds a note,
            ``"missing"`` reads them as missing, ``"keep"`` compares them.
        identifiers: compare identifiers too, as text. Otherwise they are left out, with a note.
        clusters: a column whose equal values are rows that depend on each other, such as those of a
            user or a day. Where the clusters of one table have far more rows each than the other's
            p-values may be wrong, and a note says so.
        strata: a column within whose values alone rows are exchangeable.
        freq_weights: a column with the number of equal rows that each row stands for.
        weights: a column with the weight of each row, as in a survey: weighted distributions
            are compared. Rows are relabelled with their weights, at a level that is nearly exact
            where weights came about alike in both tables, up to their scale. Where they vary far
            more in one table p-values may be wrong, and a note says so; where large values weigh
            more in the one and less in the other they are too small, which no note tells.
        alpha: level of the test, of the columns together and of the pairs together, and of
            intervals.
        permutations: B; the smallest p-value is 1 / (1 + B).
        sequential: whether to stop before, as :func:`~bke.inference.compare` does.
        names: what the tables are called in words.
        encoding: of text files, by default UTF-8.
        seed: of the permutations.
        progress: show a progress bar.

    Raises:
        InputError: for tables or arguments that make no sense; every column's problem is told.
    """
    alpha = check_permutations(permutations, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    tables = [as_table(before, "before", encoding)]
    tables += [] if after is None else [as_table(after, "after", encoding)]
    roles = Roles(*map(normalize_text, (clusters, strata, freq_weights, weights))).checked()
    types = {normalize_text(name): type_ for name, type_ in dict(column_types or {}).items()}
    options = ReadOptions(types, as_values(na_values), as_values(formats), sentinels, identifiers)
    data = pooled(
        tables, normalize_text(by), list(map(normalize_text, as_values(exclude))), options, roles
    )
    called = sample_names(data.names or names)
    with one_thread():
        seen = in_stages(
            lambda count: _evaluated(data, count, seed, roles, alpha, progress=progress),
            permutations,
            alpha,
            sequential=sequential,
            pvalue=lambda seen: p_value(seen.statistics().overall()),
        )
    return _found(data, seen, alpha, called, seed, roles.sentences())


class Evaluated(NamedTuple):
    """Statistics of everything, for every relabelling.

    Attributes:
        marginals: of every column's aspects.
        together: how pairs of columns go together, by ranks in both tables: exactly what a
            relabelling would make of it.
        pairs: the same by ranks in each table, which hang on the labels as they are, and not on
            what became of each column alone.
        wholes: of rows as wholes; ``None`` where fewer than two columns vary.
    """

    marginals: list[list[Marginal]]
    together: Dependence
    pairs: Dependence
    wholes: Told | None

    def statistics(self) -> Statistics:
        """All of it, to be held against each other."""
        columns = [[one.statistics for one in each] for each in self.marginals]
        return Statistics(columns, self.together.statistics, self.wholes)


def _evaluated(
    data: Pooled,
    permutations: int,
    seed: int,
    roles: Roles,
    alpha: float,
    *,
    progress: bool,
) -> Evaluated:
    columns, weights = data.columns, data.weights
    with progress_bar("columns", len(columns) + 2, shown=progress) as advance:
        dealt = labelling(
            columns,
            data.rows,
            permutations,
            seed,
            clusters=data.role_columns.get(roles.clusters or ""),
            strata=data.role_columns.get(roles.strata or ""),
            counted=data.counted,
        )
        check_ways(dealt, alpha)
        parts, marginals = [], []
        for column in columns:
            every = aspects(column, weights)
            part = [one for one in every if in_both(one, data.rows, weights)]
            parts.append(part)
            marginals.append([marginal(aspect, dealt) for aspect in part])
            advance(1)

        def seen(*, apart: bool) -> list[Features | None]:
            return [
                features(column.name, part, weights, data.rows, apart=apart)
                for column, part in zip(columns, parts, strict=True)
            ]

        both = seen(apart=False)
        together = dependence(both, dealt)
        pairs = dependence(seen(apart=True), dealt)
        advance(1)
        wholes = joint(both, dealt)
        advance(1)
    return Evaluated(marginals, together, pairs, wholes)


def _found(
    data: Pooled,
    seen: Evaluated,
    alpha: float,
    names: tuple[str, str],
    seed: int,
    design: tuple[str, ...],
) -> TableComparison:
    """Hold relabellings against each other."""
    labellings = seen.pairs.statistics.shape[1]
    statistics = seen.statistics()
    evidence = statistics.evidence()
    pvalue = p_value(statistics.overall(evidence))
    differ = pvalue <= alpha
    named_places = _places(seen.marginals, alpha, differ=differ)
    found, weights, each = [], data.weights, data.weights_by_table
    for column, own, p, where in zip(
        data.columns, seen.marginals, step_down(evidence), named_places, strict=True
    ):
        changed = bool(differ and p <= alpha)
        found.append(
            ColumnComparison(
                name=column.name,
                kind=column.kind,
                pvalue=float(p),
                differ=changed,
                effect=change(column, own, data.rows, alpha, each, independent=data.independent),
                places=_to_the_ends(where, own, column) if where and changed else (),
                marginals=tuple(own),
                histogram=histogram(column, data.rows, weights),
                names=names,
            )
        )
    return TableComparison(
        pvalue=pvalue,
        pvalue_error=monte_carlo_error(
            lambda some: statistics.of(some).overall(), pvalue, labellings
        ),
        alpha=alpha,
        permutations=labellings - 1,
        columns=tuple(found),
        pairs=_pairs(data, seen.pairs, alpha, differ=differ),
        sizes=data.sizes,
        names=names,
        left_out=data.left_out,
        notes=(*data.notes, *dates_told(data.columns, data.rows, names)),
        seed=seed,
        design=design,
    )


def _pairs(
    data: Pooled, found: Dependence, alpha: float, *, differ: bool
) -> tuple[PairComparison, ...]:
    """How every two columns go together."""
    pvalues = step_down(surprise(found.statistics, without=1))
    return tuple(
        PairComparison(
            columns=(data.columns[link.columns[0]].name, data.columns[link.columns[1]].name),
            pvalue=float(p),
            differ=bool(differ and p <= alpha),
            features=link.features,
            measure=link.measure,
            strengths=link.strengths,
        )
        for link, p in zip(found.links, pvalues, strict=True)
    )


def _places(marginals: list[list[Marginal]], alpha: float, *, differ: bool) -> list[Named | None]:
    """What is named on every column's line, all columns' places competing with each other."""
    lines = [
        next((one for one in own if one.cells is not None and not one.aspect.levels), None)
        for own in marginals
    ]
    largest = [None if one is None or one.cells is None else one.cells.largest for one in lines]
    found: list[Named | None] = []
    for index, one in enumerate(lines):
        others = [row for at, row in enumerate(largest) if row is not None and at != index]
        if one is None or one.cells is None or one.aspect.what:
            found.append(None)
            continue
        rivals = np.max(others, axis=0) if others else None
        unit = np.array([one.aspect.unit])
        found.append(
            named(
                dataclasses.replace(one.cells, others=rivals),
                unit,
                alpha,
                differ=differ,
                weighing=one.weighing(),
            )
        )
    return found


def _to_the_ends(found: Named, own: list[Marginal], column: Column) -> tuple[Place, ...]:
    """Extend intervals that reach an end of a column's line to the end of the column."""
    line = next(one for one in own if one.cells is not None)
    points, ends = line.weighing().points, (np.nanmin(column.values), np.nanmax(column.values))
    places = []
    for place in found.places:
        intervals = tuple(
            (
                float(ends[0]) if start <= points.min() else start,
                float(ends[1]) if end >= points.max() else end,
            )
            for start, end in place.intervals
        )
        places.append(dataclasses.replace(place, intervals=intervals))
    return tuple(places)
