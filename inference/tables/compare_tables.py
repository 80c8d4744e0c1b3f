"""Comparison of two tables, or of the groups of a table, by one permutation test."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from ..comparison.compare import check_sample_names
from ..comparison.regions import Region, find_regions
from ..core.errors import InputError, check_flag
from ..core.machine import side_by_side, single_threaded_blas
from ..core.progress import progress_bar
from ..data.checks import check_count, normalize_text, pluralize
from ..data.row_notes import decimals_note
from ..io.columns import as_column_types, as_values, unused_na_values, unused_notes
from ..io.tables import Table, as_table, column_name
from ..io.types import Column
from ..permutation.null_distribution import (
    check_permutations,
    in_stages,
    monte_carlo_error,
    neg_log_tails,
    p_value,
    step_down,
)
from .associations import AssociationChanges, association_changes
from .derived_features import DerivedFeature, derive_features, is_comparable
from .effects import Effect, column_effect, column_histogram
from .encoding import EncodedColumn, encode_column
from .findings import PairComparison
from .permuted_labels import PermutedLabels, permute_labels
from .pooling import (
    PooledTables,
    ReadOptions,
    Roles,
    group_names,
    in_parentheses,
    pool_tables,
    read_notes,
    same_rows_note,
    split_by,
)
from .result import ColumnComparison, GroupsComparison, TableComparison
from .statistics import (
    Marginal,
    TableStatistics,
    joint_statistics,
    marginal_statistics,
    strongest_feature,
)
from .summary import date_notes

#: Largest number of columns whose pairs are compared: 4950 pairs take a minute and 2 GiB.
MAX_PAIRED_COLUMNS = 100


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
    n_resamples: int = 999,
    sequential: bool = True,
    names: tuple[str, str] = ("before", "after"),
    encoding: str | None = None,
    seed: int = 0,
    progress: bool = True,
) -> TableComparison:
    """Compare two tables of numbers, categories, dates and text, with missing values.

    Rows are permuted between the tables, and every column, every pair of columns (of at most 100
    columns) and the joint distribution are evaluated for each permutation. Their combination gives
    one p-value for the tables, with an exact level. If it is at most ``alpha``, columns and pairs
    are reported whose p-values, adjusted for all columns or pairs by step-down (Westfall and Young
    1993), are at most ``alpha`` too. If the tables have one distribution, the probability of any
    false positive is at most ``alpha``. If some columns have changed, it is at most ``alpha`` for
    the other columns and for pairs of them.

    If the columns of a pair have changed but not their association, the level of the pair is
    asymptotically correct in these cases: numbers were shifted or scaled, the frequencies of levels
    with equal variances changed, or numbers with a normal copula were rounded, clipped or
    transformed. Otherwise such changes can cause a false positive: if the association differs
    between large and small values, if the variance differs between levels, or if the frequencies of
    hours changed (``benchmarks/results/drift-pairs.md``). Associations are computed from the rows
    with both values, and can change if missingness depends on the values.

    Missing values are compared as a category. Numbers are compared at the precision of the narrower
    type of both tables, and rounding among ties is not a difference
    (:mod:`bke.inference.data.equality`). Text is compared in Unicode normal form C.

    Args:
        before: a data frame (pandas, polars, Arrow, ...), a dictionary of columns, or the path of a
            file; see :func:`bke.inference.io.tables.read_table`.
        after: the second table, with the same columns in any order; ``None`` with ``by``.
        by: a column of ``before`` with two values, whose rows are compared; for more values see
            :func:`~bke.inference.compare_groups`.
        exclude: columns that are left out.
        column_types: types of columns, by default inferred from their cells: number, integer,
            boolean, category, datetime, text or identifier.
        na_values: cells that stand for a missing value, such as -999.
        formats: names of formats of numbers or dates in text, such as "decimal commas" or
            "day/month/year", for columns whose cells fit several; error messages list them.
        sentinels: treatment of numbers that look like sentinels of a missing value, such as -999
            or 9999, repeated and far from all others: ``"warn"`` compares them and adds a note,
            ``"missing"`` reads them as missing, ``"keep"`` compares them.
        identifiers: compare identifiers as text. By default they are left out, with a note.
        clusters: a column whose equal values mark rows that depend on each other, such as those of
            a user or a day. If the clusters of one table have far more rows, p-values may be wrong,
            and there is a note. Missing values, and values in another spelling in each table, are
            an error.
        strata: a column within whose values rows are exchangeable.
        freq_weights: a column with the number of equal rows that each row stands for.
        weights: a column with the weight of each row, as in a survey: weighted distributions
            are compared. Rows are permuted with their weights. The level is nearly exact if both
            tables were weighted in the same way, up to the scale. If weights vary far more in one
            table, p-values may be wrong, and there is a note. If large values have larger weights
            in one table and smaller weights in the other, p-values are too small, without a note.
        alpha: level of the test, of all columns together and of all pairs together; intervals have
            confidence 1 - ``alpha``.
        n_resamples: B, the number of permutations; the smallest p-value is 1 / (1 + B).
        sequential: stop early if the decision is clear, as in :func:`~bke.inference.compare`.
        names: names of the tables in reports.
        encoding: encoding of text files, by default UTF-8.
        seed: seed of the permutations.
        progress: show a progress bar.

    Raises:
        InputError: tables or arguments are invalid; the message has the problems of all columns.
    """
    alpha = check_permutations(n_resamples, alpha)
    check_count(seed, "seed", 0, 2**63 - 1)
    tables = [as_table(before, "before", encoding)]
    tables += [] if after is None else [as_table(after, "after", encoding)]
    roles = Roles(*map(column_name, (clusters, strata, freq_weights, weights))).checked()
    types = as_column_types(column_types)
    options = ReadOptions(types, as_values(na_values), as_values(formats), sentinels, identifiers)
    data = pool_tables(
        tables, column_name(by), list(map(column_name, as_values(exclude))), options, roles
    )
    table_names = check_sample_names(data.names or names)
    try:
        with single_threaded_blas():
            evaluation = in_stages(
                lambda count: evaluate(data, count, seed, roles, alpha, progress=progress),
                n_resamples,
                alpha,
                sequential=sequential,
                pvalue=lambda evaluation: p_value(evaluation.statistics.combined()),
            )
    except InputError as error:
        if notes := dict.fromkeys(read_notes(tables)):  # such as the sheet, by which rows are few
            raise InputError(f"{error}. {' '.join(notes)}") from error
        raise
    return _comparison(
        data, evaluation, alpha, table_names, seed, roles.sentences(data.role_columns)
    )


class Evaluation(NamedTuple):
    """Statistics of all columns and pairs, for all permutations.

    Attributes:
        statistics: statistics of the test of the tables. Its associations are by ranks over both
            tables, which are exact under permutation.
        marginals: statistics of the derived features of each column.
        pairs: changes of associations by ranks in each table, which do not depend on changes of the
            columns, for the pairs. They depend on the observed labels.
    """

    statistics: TableStatistics
    marginals: list[list[Marginal]]
    pairs: AssociationChanges


def evaluate(
    data: PooledTables,
    n_resamples: int,
    seed: int,
    roles: Roles,
    alpha: float,
    *,
    progress: bool,
) -> Evaluation:
    """Compute all statistics of two tables.

    Args:
        data: columns of both tables.
        n_resamples: B, the number of permutations.
        seed: seed of the permutations.
        roles: columns with a role.
        alpha: level that the p-value must be able to reach.
        progress: show a progress bar.

    Raises:
        InputError: labels have too few distinct permutations.
    """
    columns, weights, n_first = data.columns, data.weights, data.n_first
    with progress_bar("columns", len(columns) + 3, show=progress) as advance:
        labels = permute_labels(
            columns,
            n_first,
            n_resamples,
            seed,
            clusters=data.role_columns.get(roles.clusters or ""),
            strata=data.role_columns.get(roles.strata or ""),
            row_weights=data.row_weights,
        )
        labels.check_resolution(alpha)
        features = [
            [
                feature
                for feature in derive_features(column, weights)
                if is_comparable(feature, n_first, weights)
            ]
            for column in columns
        ]

        def encode(*, by_table: bool) -> list[EncodedColumn]:
            encoded = (
                encode_column(column.name, derived, weights, n_first, by_table=by_table)
                for column, derived in zip(columns, features, strict=True)
            )
            return [column for column in encoded if column is not None]

        pooled, paired = encode(by_table=False), len(columns) <= MAX_PAIRED_COLUMNS
        # The longest parts come first, so that no core waits for one of them at the end.
        parts: list[Callable[[], Any]] = [
            lambda: joint_statistics(pooled, labels),
            lambda: association_changes(pooled if paired else [], labels).statistics,
            lambda: association_changes(encode(by_table=True) if paired else [], labels),
            *(functools.partial(_marginals, derived, labels) for derived in features),
        ]

        def evaluate_part(index: int) -> Any:
            result = parts[index]()
            advance(1)
            return result

        joint, associations, pairs, *marginals = side_by_side(evaluate_part, len(parts), Event())
    statistics = TableStatistics(
        [[marginal.statistics for marginal in column] for column in marginals], associations, joint
    )
    return Evaluation(statistics, marginals, pairs)


def _marginals(features: list[DerivedFeature], labels: PermutedLabels) -> list[Marginal]:
    """Compute the statistics of the derived features of a column."""
    return [marginal_statistics(feature, labels) for feature in features]


def _comparison(
    data: PooledTables,
    evaluation: Evaluation,
    alpha: float,
    names: tuple[str, str],
    seed: int,
    design: tuple[str, ...],
) -> TableComparison:
    """Compute p-values and effect sizes."""
    statistics = evaluation.statistics
    combined = statistics.columns_combined()
    n_labels = combined.shape[1]
    pvalue = p_value(statistics.combined(combined))
    differ = pvalue <= alpha
    regions = _regions(data.columns, evaluation.marginals, alpha, reject=differ)

    def effect_of(index: int) -> Effect:
        return column_effect(
            data.columns[index],
            evaluation.marginals[index],
            data.n_first,
            alpha,
            data.weights_by_table,
            independent=data.independent,
        )

    effects = side_by_side(effect_of, len(data.columns), Event())
    columns = []
    for column, marginals, p, column_regions, effect in zip(
        data.columns, evaluation.marginals, step_down(combined), regions, effects, strict=True
    ):
        changed = bool(differ and p <= alpha)
        columns.append(
            ColumnComparison(
                name=column.name,
                kind=column.kind,
                pvalue=float(p),
                reject=changed,
                effect=effect,
                regions=column_regions if changed else (),
                marginals=tuple(marginals),
                histogram=column_histogram(column, data.n_first, data.weights),
                names=names,
                strongest_feature=strongest_feature(marginals) if changed else "",
            )
        )
    pair_pvalues = step_down(neg_log_tails(evaluation.pairs.statistics, trim=1))
    pairs = [
        PairComparison(pvalue=float(p), reject=bool(differ and p <= alpha), **pair._asdict())
        for pair, p in zip(evaluation.pairs.pairs, pair_pvalues, strict=True)
    ]
    return TableComparison(
        pvalue=pvalue,
        pvalue_error=monte_carlo_error(
            lambda subset: statistics.select(subset).combined(), pvalue, n_labels
        ),
        alpha=alpha,
        n_resamples=n_labels - 1,
        columns=tuple(columns),
        pairs=tuple(pairs),
        sizes=data.sizes,
        names=names,
        left_out=data.left_out,
        notes=(
            *data.notes,
            *date_notes(data.columns, data.n_first, names),
            *same_rows_note(data.columns, data.n_first, names),
            *_wide_notes(len(data.columns)),
            *_single_row_notes(data.sizes, names),
            *(_decimals_notes(data, names) if differ else ()),
        ),
        seed=seed,
        design=design,
    )


def _wide_notes(n_columns: int) -> list[str]:
    """Write a note if pairs of columns are not compared."""
    if n_columns <= MAX_PAIRED_COLUMNS:
        return []
    return [
        f"Associations are not compared with more than {MAX_PAIRED_COLUMNS} columns, of "
        f"{n_columns}: leave out columns (exclude=, --exclude) to compare pairs of the others."
    ]


def _single_row_notes(sizes: tuple[int, int], names: tuple[str, str]) -> list[str]:
    """Write a note on each table that has a single row."""
    return [
        f"{name} has one row: effect sizes and intervals are not reliable."
        for name, size in zip(names, sizes, strict=True)
        if size == 1
    ]


def _decimals_notes(data: PooledTables, names: tuple[str, str]) -> list[str]:
    """Write notes on numbers with fewer decimals in one table."""
    notes: list[str] = []
    for column in data.columns:
        if column.kind in ("number", "integer"):
            first, second = np.split(column.values, [data.n_first])
            notes += decimals_note(first, second, repr(column.name), names)
    return [f"{note}." for note in notes]


def _regions(
    columns: Sequence[Column], marginals: list[list[Marginal]], alpha: float, *, reject: bool
) -> list[tuple[Region, ...]]:
    """Find the regions in which the densities of numbers differ, adjusted for all columns.

    Values are clipped, and an interval that reaches an end of them is extended to the end of the
    column.
    """
    lines = [
        next((item for item in items if item.local is not None and not item.feature.levels), None)
        for items in marginals
    ]
    largest = [None if line is None or line.local is None else line.local.largest for line in lines]
    regions: list[tuple[Region, ...]] = []
    for index, (column, line) in enumerate(zip(columns, lines, strict=True)):
        if line is None or line.local is None or line.feature.name:
            regions.append(())
            continue
        competing = [row for at, row in enumerate(largest) if row is not None and at != index]
        local = dataclasses.replace(
            line.local, competing=np.max(competing, axis=0) if competing else None
        )
        weights, scale = line.table_weights(), np.array([line.feature.scale])
        significant = find_regions(local, scale, alpha, reject=reject, local_means=weights).regions
        first, last = weights.points.min(), weights.points.max()
        minimum, maximum = float(np.nanmin(column.values)), float(np.nanmax(column.values))
        extended = [
            tuple(
                (minimum if low <= first else low, maximum if high >= last else high)
                for low, high in region.intervals
            )
            for region in significant
        ]
        regions.append(
            tuple(
                dataclasses.replace(region, intervals=intervals)
                for region, intervals in zip(significant, extended, strict=True)
            )
        )
    return regions


def compare_groups(
    table: Any,
    by: str,
    *,
    against: Any = None,
    rest: bool = False,
    alpha: float = 0.05,
    encoding: str | None = None,
    na_values: Sequence[str | float] = (),
    **options: Any,
) -> GroupsComparison:
    """Compare the groups of a table: each with a reference group, or with all other rows.

    Args:
        table: a data frame or the path of a file, as in :func:`~bke.inference.compare_tables`.
        by: the column of the groups, with 2 to 50 values.
        against: value of the reference group; by default the first, with numbers and dates in
            ascending order and text in alphabetical order.
        rest: compare each group with all other groups together instead.
        alpha: level of all comparisons together; each has ``alpha`` divided by their number
            (Bonferroni).
        encoding: encoding of a text file.
        na_values: cells that stand for a missing value.
        **options: options of :func:`~bke.inference.compare_tables`.

    Raises:
        InputError: there are fewer than two groups or too many, or the reference does not exist; or
            as in :func:`~bke.inference.compare_tables`.
    """
    check_flag(rest, "rest")
    by, against = column_name(by), normalize_text(against)
    if against is not None and not isinstance(against, str):
        against = group_names(pa.array([against]), by)[0].as_py()
    source = as_table(table, "the table", encoding)
    na_values = as_values(na_values)
    groups, group_notes = split_by(source, by, na_values)
    max_groups = 50
    if not 2 <= len(groups) <= max_groups:
        raise InputError(
            f"column {by!r} has {pluralize(len(groups), 'value')}{in_parentheses(group_notes)}, "
            f"and 2 to {max_groups} are needed to compare groups"
        )
    if rest and against is not None:
        raise InputError("groups are compared against one of them, or each with the rest")
    notes = [*read_notes([source]), *group_notes, *unused_notes([source], na_values)]
    if not rest:
        pairs, reference_notes = _pairs_with_reference(groups, by, against)
        notes = [*reference_notes, *notes]
    elif len(groups) == 2:
        first, second = groups.values()
        pairs = [(first, second)]
    else:
        pairs = []
        for value, group in groups.items():
            remainder = [other.data for name, other in groups.items() if name != value]
            pairs.append((Table(pa.concat_tables(remainder), f"all other {by}"), group))
    types = as_column_types(options.pop("column_types", None))
    types.pop(by, None)
    comparisons = []
    for first, second in pairs:
        # Values that are unused in two groups but not in the table need no note.
        unused = unused_na_values([first, second], na_values)
        comparisons.append(
            compare_tables(
                first,
                second,
                names=(first.source, second.source),
                na_values=[value for value in na_values if value not in unused],
                alpha=alpha / len(pairs),
                column_types=types,
                **options,
            )
        )
    return GroupsComparison(by, tuple(comparisons), alpha, tuple(notes))


def _pairs_with_reference(
    groups: dict[str, Table], by: str, against: str | None
) -> tuple[list[tuple[Table, Table]], list[str]]:
    """Pair all groups with the reference group, with a note if it has very few rows."""
    value = next(iter(groups)) if against is None else against
    if value not in groups:
        values = ", ".join(map(repr, list(groups)[:12]))
        raise InputError(f"column {by!r} has no value {value!r}: it has {values}")
    reference = groups[value]
    rows, median = (
        reference.data.num_rows,
        np.median([group.data.num_rows for group in groups.values()]),
    )
    notes = []
    if rows < max(10, median / 20):
        notes.append(
            f"All groups are compared with {reference.source}, which has {pluralize(rows, 'row')}: "
            "choose another group (--against, against=)"
        )
    return [(reference, group) for name, group in groups.items() if name != value], notes
