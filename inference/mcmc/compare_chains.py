"""Test whether Markov chains agree with each other, and whether each of them is stationary."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import arviz_stats
import numpy as np
import xarray as xr
from numpy.typing import ArrayLike
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..core.errors import InputError
from ..core.machine import computing
from ..core.names import join_names
from ..core.notebook import ReprMixin
from ..data.checks import check_count, pluralize
from ..diagnostics.integral import Integral
from ..permutation.null_distribution import (
    check_permutations,
    describe_p,
    neg_log_tails,
    p_value,
    step_down,
)
from .batches import Batches, make_batches
from .chain_clusters import ClusterMass, cluster_masses, label_switching_notes
from .chain_statistics import (
    MAX_PAIRED_COLUMNS,
    GroupStatistics,
    batch_features,
    column_pairs,
    group_statistics,
    permute_labels,
)
from .draws import Chains, as_chains, load_chains, posterior_dataset
from .score import Score

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpyro.infer import MCMC

Path: TypeAlias = "str | os.PathLike[str]"
#: Number of parameters and of pairs of parameters in a report.
MAX_LISTED = 6
#: Larger values of R-hat are reported as above this value. They occur if chains do not move.
MAX_RHAT = 100.0
#: Smallest posterior mass that is reported as a number.
MIN_MASS = 1e-4


class ChainDifference(NamedTuple):
    """Test of whether chains differ in one parameter, or in the correlation of two.

    Attributes:
        name: name of the parameter, or the names of a pair joined by " and ".
        pvalue: adjusted for all parameters, or all pairs, and for the number of tests.
        differs: ``True`` if ``pvalue`` is at most the level and the test of all parameters rejects.
    """

    name: str
    pvalue: float
    differs: bool


@dataclasses.dataclass(frozen=True, repr=False)
class ChainComparison(ReprMixin):
    """Result of :func:`~bke.inference.compare_chains`.

    Attributes:
        pvalue: p-value of the null hypothesis that all chains are draws from one distribution, from
            the first draw to the last: twice the smaller of ``pvalue_between`` and
            ``pvalue_within``; ``pvalue_within`` for a single chain.
        alpha: level.
        pvalue_between: p-value of the comparison of chains with each other; NaN for a single chain.
        pvalue_within: p-value of the comparison of the first half of each chain with the second.
        strongest_component: component of the test with the smallest p-value: location, spread,
            skewness, tails, correlations, or all parameters together.
        clusters: labels of chains without significant differences, largest cluster first. If
            chains agree, there is one cluster.
        drifting: labels of chains whose halves differ.
        groups: groups that ``strongest_component``, ``columns`` and ``pairs`` compare: ``"chains"``
            with each other, or ``"halves"`` of chains. It is ``"halves"`` for a single chain, and
            if only halves differ.
        columns: one :class:`ChainDifference` per parameter.
        pairs: up to 20 pairs of parameters with the smallest p-values of their correlations.
        names: names of the parameters.
        labels: labels of the chains: coordinates of a tree, otherwise 0, 1, ...
        constant_parameters: names of dropped parameters, which are constant.
        rhat: largest rank-normalized R-hat of all parameters; NaN for a single chain.
        autocorrelation_time: longest autocorrelation time of a parameter, in draws: a mean over
            chains, or that of the slowest chain if it is clearly slower, which a note says.
        num_batches: number of batches of all chains.
        n_resamples: number of permutations of the batches.
        draws: (C, n, D) draws of the parameters in ``names``.
        masses: posterior mass of each cluster, in the order of ``clusters``; empty without a score.
        log_integral: log integral of the density over all clusters, with its standard error;
            ``None`` without a score.
        notes: warnings.
    """

    pvalue: float
    alpha: float
    pvalue_between: float
    pvalue_within: float
    strongest_component: str
    clusters: tuple[tuple[int | str, ...], ...]
    drifting: tuple[int | str, ...]
    groups: str
    columns: tuple[ChainDifference, ...]
    pairs: tuple[ChainDifference, ...]
    names: tuple[str, ...]
    labels: tuple[int | str, ...]
    constant_parameters: tuple[str, ...]
    rhat: float
    autocorrelation_time: float
    num_batches: int
    n_resamples: int
    draws: np.ndarray
    masses: tuple[ClusterMass, ...] = ()
    log_integral: Integral | None = None
    notes: tuple[str, ...] = ()

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of chains, and number of draws per chain."""
        return self.draws.shape[0], self.draws.shape[1]

    @property
    def agree(self) -> bool:
        """True if no difference is significant at level ``alpha``."""
        return self.pvalue > self.alpha

    @property
    def verdict(self) -> str:
        """The result of the test in a few words."""
        if self.sizes[0] == 1:
            return "no drift was found" if self.agree else "the chain drifts"
        if self.agree:
            return "no disagreement was found"
        if self.groups == "halves":
            return "the first and second halves of the chains differ"
        return "the chains disagree"

    def format_pvalue(self, pvalue: float) -> str:
        """Format one of the p-values: ``p = 0.031``, or ``p ≤ 0.002`` if it is the smallest."""
        return describe_p(pvalue, self.n_resamples, n_tests=min(2, self.sizes[0]))

    def __str__(self) -> str:
        chains, draws = self.sizes
        verdict = self.verdict if self.agree else self.verdict.upper()
        size = f"{pluralize(chains, 'chain')} of {draws} draws"
        parameters = pluralize(len(self.names), "parameter")
        lines = [f"{size}, {parameters}: {verdict} ({self.format_pvalue(self.pvalue)})."]
        lines += [] if self.agree else self._describe_differences()
        if self.log_integral is not None:
            total = f"log integral {self.log_integral.log:.4g} ± {self.log_integral.error:.2g}"
            masses = "; ".join(
                f"{', '.join(map(str, cluster.chains))}: "
                f"{_format_mass(cluster.mass, cluster.error)}"
                for cluster in self.masses
            )
            lines.append(
                f"Bridge sampling over the region of the chains: {total}."
                if len(self.masses) == 1
                else "Posterior mass by bridge sampling, in the region of each cluster: "
                f"{masses} ({total})."
            )
        rhat = f"above {MAX_RHAT:g}" if self.rhat > MAX_RHAT else f"{self.rhat:.3f}"
        rhat = "" if np.isnan(self.rhat) else f"; R-hat {rhat}"
        tests = " for each of two tests, between and within chains" * (self.sizes[0] > 1)
        lines.append(
            f"{self.num_batches} batches, {self.n_resamples} permutations{tests}, "
            f"level {self.alpha:g}; longest autocorrelation time of a parameter "
            f"{self.autocorrelation_time:.3g} draws (mean over chains of similar speed){rhat}."
        )
        return "\n  ".join([*lines, *(f"Note: {note}" for note in self.notes)])

    def _describe_differences(self) -> list[str]:
        """Return lines on the components, chains and parameters that differ."""
        lines = [f"Strongest component of the test: {self.strongest_component}."]
        if self.sizes[0] > 1 and self.groups == "halves":
            p = self.format_pvalue(min(1.0, 2.0 * self.pvalue_between))
            lines.append(f"No difference of the chains from each other was found ({p}).")
        if len(self.clusters) > 1:
            clusters = " | ".join(", ".join(map(str, cluster)) for cluster in self.clusters)
            lines.append(f"Clusters of chains without significant differences: {clusters}.")
        elif self.sizes[0] > 1 and 2.0 * self.pvalue_between <= self.alpha:
            lines.append("No single pair of chains differs significantly.")
        if self.drifting:
            chains = ", ".join(map(str, self.drifting))
            lines.append(f"First and second half differ: chain {chains}.")
        elif self.groups == "halves" and self.sizes[0] > 1:
            lines.append("The halves differ in all chains together, and in no single one.")
        for heading, differences in (
            ("Parameters that differ", self.columns),
            ("Correlations that differ", self.pairs),
        ):
            significant = [difference for difference in differences if difference.differs]
            significant.sort(key=lambda difference: difference.pvalue)
            if significant:
                listed = [
                    f"{item.name} ({self.format_pvalue(item.pvalue)})" for item in significant
                ]
                lines.append(f"{heading}: {join_names(listed, MAX_LISTED)}.")
        return lines

    def __repr__(self) -> str:
        return f"<comparison of {self.sizes[0]} chains: {self.format_pvalue(self.pvalue)}>"

    def to_dataframe(self) -> pd.DataFrame:
        """Return a data frame with one row per parameter, and per pair of :attr:`pairs`.

        Columns: ``name``, ``category`` (``"parameter"`` or ``"pair"``), ``pvalue``, adjusted for
        all parameters or all pairs, and ``differs``.
        """
        import pandas as pd

        rows = [
            (difference.name, category, difference.pvalue, difference.differs)
            for category, differences in (("parameter", self.columns), ("pair", self.pairs))
            for difference in differences
        ]
        return pd.DataFrame(rows, columns=["name", "category", "pvalue", "differs"])

    def to_dict(self) -> dict[str, Any]:
        """Return all results except the draws in types of JSON; NaN becomes ``None``."""
        integral = self.log_integral
        return {
            "agree": self.agree,
            "pvalue": self.pvalue,
            "alpha": self.alpha,
            "pvalue_between": None if np.isnan(self.pvalue_between) else self.pvalue_between,
            "pvalue_within": self.pvalue_within,
            "strongest_component": self.strongest_component,
            "clusters": self.clusters,
            "drifting": self.drifting,
            "groups": self.groups,
            "columns": [difference._asdict() for difference in self.columns],
            "pairs": [difference._asdict() for difference in self.pairs],
            "names": self.names,
            "labels": self.labels,
            "constant_parameters": self.constant_parameters,
            "rhat": None if np.isnan(self.rhat) else self.rhat,
            "autocorrelation_time": self.autocorrelation_time,
            "num_batches": self.num_batches,
            "sizes": self.sizes,
            "n_resamples": self.n_resamples,
            "masses": [cluster._asdict() for cluster in self.masses],
            "log_integral": integral and {"log": integral.log, "error": integral.error},
            "notes": self.notes,
        }

    def plot(self, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
        """Plot intervals of each chain for the parameters that differ most.

        Args:
            axes: one per panel; by default those of a new figure.
        """
        from ..plots.chains import plot_chains

        return plot_chains(self, axes=axes)


def _format_mass(mass: float, error: float) -> str:
    if error < MIN_MASS and min(mass, 1.0 - mass) < MIN_MASS:
        return f"below {MIN_MASS:g}" if mass < 0.5 else f"above {1.0 - MIN_MASS:g}"
    return f"{mass:.3g} ± {error:.2g}"


def compare_chains(
    draws: ArrayLike | xr.DataTree | xr.Dataset | MCMC | Path | Sequence[Path],
    *,
    alpha: float = 0.05,
    n_resamples: int = 999,
    columns: Sequence[str] | None = None,
    score: Score | None = None,
    seed: int = 0,
) -> ChainComparison:
    """Test whether all chains are draws from one distribution, from the first draw to the last.

    The test applies to any sampler and model. R-hat compares the location and scale of the ranks of
    one parameter at a time. This test compares location, spread, skewness and tails of the normal
    scores of each parameter (the components of a smooth test, Neyman 1937), correlations of all
    pairs, and squared exponential kernels of all parameters at four lengthscales (KME section 3.5).
    Chains are divided into batches of ten autocorrelation times, which are nearly independent. The
    batches are permuted between chains, and between the halves of each chain. If chains differ, the
    result names the chains and the parameters that differ, with p-values that are adjusted for
    multiple testing (:func:`~bke.inference.permutation.null_distribution.step_down`).

    Chains that agree need not be correct. The test cannot detect a mode that no chain has visited.
    Use :func:`~bke.inference.stein_test` for a bias that all chains share.

    Args:
        draws: a tree or dataset in the format of ArviZ, whose posterior has dimensions ``chain``
            and ``draw``; a finished ``numpyro.infer.MCMC``; an array (C, n, D), or (C, n) of one
            parameter; the path of a NetCDF file or ``.zarr`` store of a tree; or the paths of CSV
            files of CmdStan, one per chain, whose warmup is dropped. For a single chain, only its
            halves are compared. To compare some parameters of a tree, pass
            ``tree["posterior"].dataset[["mu", "tau"]]``.
        alpha: level of the test.
        n_resamples: number of permutations B; the smallest p-value is 2 / (1 + B).
        columns: names of the parameters; by default those of the draws.
        score: result of :func:`~bke.inference.score_of` for the NumPyro model that was sampled, if
            ``draws`` is a tree of its draws. Only sites of the model are compared. The result has
            the posterior mass of the region of each cluster of chains, by bridge sampling (Meng and
            Wong 1996), which draws alone do not determine. It assumes that chains have mixed within
            their region.
        seed: seed of the permutations and of bridge sampling.

    Raises:
        InputError: if draws or arguments are invalid.
        SamplingError: if the estimate of bridge sampling is not finite.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    if score is not None and not isinstance(score, Score):
        raise InputError("score must be the result of score_of for the model that was sampled")
    draws = load_chains(draws)
    chains, constant_parameters = _varying_parameters(draws, columns, score)
    num_chains = len(chains.labels)
    tests = min(2, num_chains)
    alpha = check_permutations(n_resamples, alpha, n_tests=tests)
    batches = make_batches(chains.values, ordered=True, max_batches=400)
    between, within = _test_statistics(chains, batches, n_resamples, seed)
    pvalue_between = float("nan") if between is None else p_value(between.combined())
    pvalue_within = p_value(within.combined())
    chains_differ, chains_drift = tests * pvalue_between <= alpha, tests * pvalue_within <= alpha
    # The result describes halves of chains if only these differ.
    statistics = within if between is None or (chains_drift and not chains_differ) else between
    differences, pair_differences = _parameter_differences(
        chains.columns, statistics, alpha, tests, rejected=chains_differ or chains_drift
    )
    clusters: tuple[tuple[int, ...], ...] = (tuple(range(num_chains)),)
    if chains_differ and between is not None:
        clusters = _clusters(between, num_chains, alpha / tests)
    drifting = chains_drift & (step_down(within.by_pair()) <= alpha / tests)
    rhat = float("nan")
    if num_chains > 1:
        rhats = arviz_stats.rhat(chains.values, method="rank", chain_axis=0, draw_axis=1)
        rhat = float(np.nanmax(rhats))
    notes = _notes(chains, constant_parameters, batches, alpha, rhat)
    notes += label_switching_notes(chains.values, clusters, chains.columns, chains.labels)
    masses: tuple[ClusterMass, ...] = ()
    integral = None
    if score is not None:
        unconstrained = score.unconstrained(draws)
        masses, integral = cluster_masses(
            unconstrained, score.log_density, clusters, chains.labels, seed
        )
        if drifting.any():
            notes.append("the masses are estimated from drifting chains and may be inaccurate")
    return ChainComparison(
        pvalue=min(1.0, tests * float(np.nanmin([pvalue_between, pvalue_within]))),
        alpha=alpha,
        pvalue_between=pvalue_between,
        pvalue_within=pvalue_within,
        strongest_component=statistics.strongest_component(),
        clusters=tuple(tuple(chains.labels[chain] for chain in cluster) for cluster in clusters),
        drifting=tuple(chains.labels[chain] for chain in np.flatnonzero(drifting)),
        groups="halves" if statistics is within else "chains",
        columns=differences,
        pairs=pair_differences,
        names=chains.columns,
        labels=chains.labels,
        constant_parameters=constant_parameters,
        rhat=rhat,
        autocorrelation_time=batches.autocorrelation_time,
        num_batches=batches.count,
        n_resamples=n_resamples,
        draws=chains.values,
        masses=masses,
        log_integral=integral,
        notes=tuple(notes),
    )


def _varying_parameters(
    draws: Any, columns: Sequence[str] | None, score: Score | None, max_chains: int = 64
) -> tuple[Chains, tuple[str, ...]]:
    """Check draws, and separate constant parameters.

    Args:
        draws: draws for :func:`~.draws.as_chains`.
        columns: names of the parameters.
        score: if it is given, variables that are not sites of its model are dropped.
        max_chains: maximum number of chains, of which all pairs are compared.

    Returns:
        The draws of the parameters that vary, and the names of the constant ones.
    """
    if score is not None:
        if not isinstance(draws, (xr.DataTree, xr.Dataset)):
            raise InputError("score needs a tree of the model's draws, got an array")
        draws = posterior_dataset(draws)
        sites = [name for name in draws.data_vars if name in score.shapes]
        draws = draws[sites] if sites else draws
    chains = as_chains(draws, columns=columns)
    if len(chains.values) > max_chains:
        raise InputError(f"draws must have at most {max_chains} chains, got {len(chains.values)}")
    varies = np.ptp(chains.rows, axis=0) > 0.0
    if not varies.any():
        raise InputError("all parameters are constant in all chains")
    constant = tuple(itertools.compress(chains.columns, ~varies))
    names = tuple(itertools.compress(chains.columns, varies))
    return chains._replace(values=chains.values[:, :, varies], columns=names), constant


def _test_statistics(
    chains: Chains, batches: Batches, n_resamples: int, seed: int
) -> tuple[GroupStatistics | None, GroupStatistics]:
    """Compute the statistics between chains, ``None`` for one chain, and between their halves."""
    num_chains, per_chain = batches.num_chains, batches.per_chain
    rng = np.random.default_rng([seed, 13])
    with computing():
        features = batch_features(batches.rows(chains.values), batches)
        between = None
        if num_chains > 1:
            observed = np.repeat(np.arange(num_chains), per_chain)
            labels = permute_labels(observed[np.newaxis], n_resamples, rng)
            pairs = list(itertools.combinations(range(num_chains), 2))
            between = group_statistics(features, labels, pairs)
        # Halves need an even number of batches: the first one is dropped otherwise.
        even = per_chain - per_chain % 2
        selected = np.arange(batches.count).reshape(num_chains, per_chain)[:, per_chain - even :]
        observed = 2 * np.arange(num_chains)[:, np.newaxis] + np.repeat([0, 1], even // 2)
        labels = permute_labels(observed, n_resamples, rng)
        pairs = [(2 * chain, 2 * chain + 1) for chain in range(num_chains)]
        within = group_statistics(features.select(selected.reshape(-1)), labels, pairs)
    return between, within


def _parameter_differences(
    names: tuple[str, ...],
    statistics: GroupStatistics,
    alpha: float,
    tests: int,
    *,
    rejected: bool,
    max_pairs: int = 20,
) -> tuple[tuple[ChainDifference, ...], tuple[ChainDifference, ...]]:
    """Compute adjusted p-values of all parameters, and of pairs with the smallest p-values.

    Args:
        names: names of the parameters.
        statistics: statistics between chains or halves.
        alpha: level.
        tests: number of tests that share the level.
        rejected: ``True`` if the test of all parameters rejects.
        max_pairs: maximum number of pairs that are returned.
    """

    def difference(name: str, pvalue: float) -> ChainDifference:
        adjusted = min(1.0, tests * float(pvalue))
        return ChainDifference(name, adjusted, bool(rejected and adjusted <= alpha))

    columns = tuple(map(difference, names, step_down(statistics.by_column())))
    if not len(statistics.products):
        return columns, ()
    pvalues = step_down(neg_log_tails(statistics.products, trim=1))
    pairs = [f"{names[a]} and {names[b]}" for a, b in zip(*column_pairs(len(names)), strict=True)]
    order = np.argsort(pvalues, kind="stable")[:max_pairs]
    return columns, tuple(difference(pairs[index], pvalues[index]) for index in order)


def _clusters(
    statistics: GroupStatistics, num_chains: int, level: float
) -> tuple[tuple[int, ...], ...]:
    """Find the connected components of chains, linked if they do not differ; largest first."""
    links = statistics.pairs[step_down(statistics.by_pair()) > level]
    graph = coo_array((np.ones(len(links)), links.T), shape=(num_chains, num_chains))
    count, cluster = connected_components(graph, directed=False)
    clusters = [tuple(np.flatnonzero(cluster == index).tolist()) for index in range(count)]
    return tuple(sorted(clusters, key=lambda members: (-len(members), members)))


def _notes_on_copies(chains: Chains) -> list[str]:
    """Return a note for each set of chains with equal draws."""
    copies: list[tuple[np.ndarray, list[str]]] = []
    for label, values in zip(chains.labels, chains.values, strict=True):
        equal = [labels for first, labels in copies if np.array_equal(first, values)]
        if equal:
            equal[0].append(str(label))
        else:
            copies.append((values, [str(label)]))
    return [
        f"chains {', '.join(labels)} have identical draws, as if from one seed: p-values assume "
        "independent chains, and are wrong here; drop the copies"
        for _, labels in copies
        if len(labels) > 1
    ]


def _notes(
    chains: Chains,
    constant_parameters: tuple[str, ...],
    batches: Batches,
    alpha: float,
    rhat: float,
) -> list[str]:
    """Return warnings on the length and speed of chains, and on parameters."""
    notes = _notes_on_copies(chains)
    # From this R-hat on, autocorrelation times within chains are not trusted.
    if rhat > 1.1 and batches.short:
        times = chains.values.shape[1] / batches.autocorrelation_time
        notes.append(
            f"R-hat is {rhat:.3g}, and the chains are only {times:.2g} autocorrelation times long: "
            "they have not mixed, and no p-value of the test is reliable; draw longer chains"
        )
    elif rhat > 1.1:
        notes.append(
            f"R-hat is {rhat:.3g}, but the autocorrelation time within chains is only "
            f"{batches.autocorrelation_time:.3g} draws: either chains are in different modes, or "
            "all chains move between modes too rarely for this estimate, and then the p-value may "
            "be too small; draw longer chains, or compare the masses of the clusters (score=)"
        )
    if batches.short:
        error = "chains that agree may be reported to disagree"
        if batches.num_chains == 1:
            error = "a chain without drift may be reported to drift"
        notes.append(
            f"the chains are short: batches have {batches.times:.2g} autocorrelation times instead "
            f"of ten, so {error}"
        )
    even = batches.per_chain - batches.per_chain % 2
    # Statistics do not change if the halves of a chain are swapped.
    distinct = (math.comb(even, even // 2) // 2) ** batches.num_chains
    if min(2, batches.num_chains) > alpha * distinct:
        notes.append(
            f"{even} batches per chain have only {distinct} distinct permutations between halves: "
            "no drift can be significant at this level"
        )
    if batches.slow_chains:
        slow = ", ".join(str(chains.labels[chain]) for chain in batches.slow_chains)
        notes.append(
            f"chain {slow} mixes clearly more slowly than the others: it may differ for this "
            "reason alone, because the test assumes that all chains mix equally fast"
        )
    if constant_parameters:
        notes.append(f"dropped constant parameters: {', '.join(constant_parameters)}")
    if len(chains.columns) > MAX_PAIRED_COLUMNS:
        notes.append(f"correlations of more than {MAX_PAIRED_COLUMNS} parameters are not compared")
    moves = np.ptp(chains.values, axis=1).any(axis=1)
    if not moves.all():
        stuck = ", ".join(str(chains.labels[chain]) for chain in np.flatnonzero(~moves))
        notes.append(f"stuck at one point: chain {stuck}")
    return notes
