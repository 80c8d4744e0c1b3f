"""Whether Markov chains agree: kernel and moment tests between chains, and within each."""

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
from ..data.checks import check_count, column_names, plain_array, pluralize
from ..permutation.calibration import surprise
from ..permutation.enough import check_permutations
from ..permutation.permutation import p_value
from ..permutation.step_down import step_down
from ..sampling.foreign import is_mcmc
from .agreement import ChainsCheck, Named
from .batches import FEWEST_EACH, Batches, batches
from .cluster_masses import cluster_masses
from .dealt import KINDS, Dealt, dealt_out, distances, halved
from .draws import Chains, as_chains, of_mcmc, posterior_of
from .features import MOST_PAIRED, Features, features_of, pairs_of
from .files import read_draws
from .score import Score

if TYPE_CHECKING:
    from numpyro.infer import MCMC

Path: TypeAlias = "str | os.PathLike[str]"
#: Chains that are compared two by two; batches in all; pairs of columns that are kept.
MOST_CHAINS, MOST_BATCHES, MOST_PAIRS = 64, 400, 20
SHORT = (
    "the chains are short: batches are {times:.2g} autocorrelation times long, not ten, so "
    "{mistaken}"
)
FEW_WAYS = (
    "{count} batches of each chain can be dealt to its halves in {ways} ways only: that chains "
    "drift has too large a p-value for this level, however much they do"
)
SLOW = (
    "chain {chains} mixes clearly more slowly than the others: batches of chains of different "
    "speed are not alike, so it may be told apart for that alone"
)

#: R-hat from which a note doubts autocorrelation times that are estimated within chains.
RHAT_OF_RARE_MOVES = 1.1
RARE_MOVES = (
    "R-hat is {rhat:.3g}, and draws within a chain have an autocorrelation time of {time:.3g}: "
    "either the chains are at different places, or all move between places, but too rarely for "
    "that time, and then the p-value may be too small: draw longer chains"
)


class Found(NamedTuple):
    """What chains say of each other, and each of itself.

    Attributes:
        between: chains against chains; ``None`` of one chain.
        within: first halves against second ones.
    """

    between: Dealt | None
    within: Dealt

    def pvalues(self) -> tuple[float, float]:
        """The p-values of chains against chains, NaN of one, and of halves."""
        between = np.nan if self.between is None else p_value(self.between.overall())
        return float(between), float(p_value(self.within.overall()))


def check_chains(
    draws: ArrayLike | xr.DataTree | xr.Dataset | MCMC | Path | Sequence[Path],
    *,
    alpha: float = 0.05,
    permutations: int = 999,
    columns: Sequence[str] | None = None,
    score: Score | None = None,
    seed: int = 0,
) -> ChainsCheck:
    """Check whether chains are draws of one distribution, from their first draw to their last.

    Of any sampler and model. What R-hat looks at, means of ranks and of their spread, one
    parameter at a time, is a part of what is compared: location, spread, skewness and tails of
    every parameter's normal scores (the components of a smooth test, Neyman 1937), correlations of
    every two, and squared exponential kernels of all parameters at four scales (KME section 3.5).
    Chains are cut into batches of ten autocorrelation times, which are nearly independent; batches
    are dealt out to chains, and within each chain to its halves. A disagreement is told by the
    chains that can be told apart, and by the parameters in which, each adjusted for all
    (:func:`~bke.inference.permutation.step_down.step_down`).

    That all agree does not say that they are right: a mode that no chain has visited nobody sees,
    and a bias that all chains share is for :func:`~bke.inference.stein_test` to find.

    Args:
        draws: a tree or dataset of ArviZ's, whose posterior has dimensions ``chain`` and ``draw``;
            a finished ``numpyro.infer.MCMC``; an array (C, n, D), or (C, n) of one parameter; the
            path of a NetCDF file or ``.zarr`` store of a tree; or the paths of CSV files of
            CmdStan, one for each chain, whose warmup is left out. One chain is compared with itself
            alone. For some parameters of a tree give ``tree["posterior"][["mu", "tau"]]``.
        alpha: level of the verdict.
        permutations: deals of the batches; the smallest p-value is 2 / (1 + B).
        columns: names of the parameters, in place of those that are known.
        score: of the NumPyro model that was sampled, by :func:`~bke.inference.score_of`, of a
            tree's draws: its sites alone are compared, and the answer has the posterior mass of
            what each cluster of chains has gone through, by bridge sampling (Meng and Wong 1996),
            where draws alone cannot tell it. It is as good as chains have mixed within their
            cluster.
        seed: of the deals, and of bridges.

    Raises:
        InputError: for draws or arguments that make no sense, in one sentence.
        SamplingError: bridge sampling gives no number.
    """
    check_count(seed, "seed", 0, 2**63 - 1)
    if score is not None and not isinstance(score, Score):
        raise InputError("score must be what score_of makes of the NumPyro model that was sampled")
    draws = _in_chains(draws)
    chains, left_out = _moving(_checked(_sites(draws, score), columns))
    alpha = check_permutations(permutations, alpha, tests=min(2, len(chains.labels)))
    cut = batches(chains.values, in_order=True, most=MOST_BATCHES)
    rng = np.random.default_rng([seed, 13])
    with computing():
        features = features_of(cut.kept(chains.values), cut)
        found = _compared(features, cut, permutations, rng)
    check = _told(chains, left_out, cut, found, alpha, permutations)
    return check if score is None else _weighed(check, draws, score, seed)


def _weighed(check: ChainsCheck, draws: Any, score: Score, seed: int) -> ChainsCheck:
    """The check with the mass of every cluster of chains."""
    clusters = [[check.labels.index(one) for one in some] for some in check.clusters]
    masses, of_all = cluster_masses(
        score.unconstrained(draws), score.log_density, clusters, check.labels, seed
    )
    notes = check.notes
    if check.drifting:
        notes += ("masses are by chains that drift, and may be far off",)
    return dataclasses.replace(check, masses=masses, log_integral=of_all, notes=notes)


def _sites(draws: Any, score: Score | None) -> Any:
    """The draws of a model's own sites, without what is made of them, where the model is known."""
    if score is None:
        return draws
    if not isinstance(draws, (xr.DataTree, xr.Dataset)):
        raise InputError("score needs a tree of the model's draws, and these are an array")
    posterior = posterior_of(draws)
    own = [name for name in posterior.data_vars if name in score.shapes]
    return posterior[own] if own else posterior


def _in_chains(draws: Any) -> Any:
    """Read draws of files and of an MCMC, and give those of one parameter a third dimension.

    Raises:
        InputError: a file cannot be read, or an array may be something else than chains.
    """
    paths = [draws] if isinstance(draws, (str, os.PathLike)) else draws
    listed = isinstance(paths, (list, tuple)) and len(paths) > 0
    if listed and all(isinstance(path, (str, os.PathLike)) for path in paths):
        return read_draws(paths)
    if is_mcmc(draws):
        return of_mcmc(draws)
    if isinstance(draws, (xr.DataTree, xr.Dataset, dict)):
        return draws
    try:
        shape = np.shape(draws)
    except ValueError:  # of several lengths, which as_chains refuses
        return draws
    if len(shape) not in (1, 2):
        return draws
    if len(shape) == 2 and shape[0] < shape[1] and column_names(draws) is None:
        return plain_array(draws, "draws")[:, :, None]
    ways = f"np.asarray(draws)[None] is one chain of {pluralize(math.prod(shape[1:]), 'parameter')}"
    if len(shape) == 2:
        ways += f", np.asarray(draws).T is {pluralize(shape[1], 'chain')} of one"
    raise InputError(
        "draws must be chains (chains, draws, parameters), or (chains, draws) of one parameter, "
        f"fewer chains than draws, and have the shape {shape}: {ways}"
    )


def _checked(draws: Any, columns: Sequence[str] | None) -> Chains:
    chains = as_chains(draws, columns=columns)
    count, each, _ = chains.values.shape
    if count > MOST_CHAINS:
        raise InputError(
            f"at most {MOST_CHAINS} chains are compared two by two, and there are {count}"
        )
    if each < 2 * FEWEST_EACH:
        raise InputError(f"each chain needs {2 * FEWEST_EACH} draws, and has {each}")
    return chains


def _moving(chains: Chains) -> tuple[Chains, tuple[str, ...]]:
    """The parameters that move, and the names of the others."""
    moves = np.ptp(chains.rows, axis=0) > 0.0
    if not moves.any():
        raise InputError("no parameter moves in any chain")
    named = [(name, bool(one)) for name, one in zip(chains.columns, moves, strict=True)]
    kept = tuple(name for name, one in named if one)
    left_out = tuple(name for name, one in named if not one)
    return chains._replace(values=chains.values[:, :, moves], columns=kept), left_out


def _compared(
    features: Features, cut: Batches, permutations: int, rng: np.random.Generator
) -> Found:
    between = None
    if cut.chains > 1:
        groups = dealt_out(cut.chains, cut.each, permutations, rng)
        between = distances(features, groups, list(itertools.combinations(range(cut.chains), 2)))
    even = cut.each - cut.each % 2
    kept = np.arange(cut.count).reshape(cut.chains, cut.each)[:, cut.each - even :].reshape(-1)
    halves = halved(cut.chains, even, permutations, rng)
    of_halves = Features(
        features.columns[:, kept], features.pairs[kept], features.grams[:, kept][:, :, kept]
    )
    own = [(2 * chain, 2 * chain + 1) for chain in range(cut.chains)]
    return Found(between, distances(of_halves, halves, own))


def _told(
    chains: Chains,
    left_out: tuple[str, ...],
    cut: Batches,
    found: Found,
    alpha: float,
    permutations: int,
) -> ChainsCheck:
    between, within = found.pvalues()
    tests = min(2, cut.chains)
    pvalue = min(1.0, tests * float(np.nanmin([between, within])))
    apart, drifts = tests * between <= alpha, tests * within <= alpha
    # What chains say of each other, but where only their halves differ.
    told = found.within if found.between is None or (drifts and not apart) else found.between
    columns, pairs = _named(chains.columns, told, alpha, tests, differ=apart or drifts)
    clusters: tuple[tuple[int, ...], ...] = (tuple(range(cut.chains)),)
    if apart and found.between is not None:
        clusters = _clusters(found.between, cut.chains, alpha / tests)
    drifting = np.flatnonzero(drifts & (step_down(found.within.each_pair()) <= alpha / tests))
    rhat = _rhat(chains.values)
    return ChainsCheck(
        pvalue=pvalue,
        alpha=alpha,
        between=between,
        within=within,
        kind=KINDS[told.told_by()],
        clusters=tuple(tuple(chains.labels[one] for one in some) for some in clusters),
        drifting=tuple(chains.labels[one] for one in drifting),
        columns=columns,
        pairs=pairs,
        of="halves" if told is found.within else "chains",
        names=chains.columns,
        labels=chains.labels,
        left_out=left_out,
        rhat=rhat,
        autocorrelation_time=cut.time,
        batches=cut.count,
        sizes=chains.values.shape[:2],
        permutations=permutations,
        draws=chains.values,
        notes=_notes(chains, left_out, cut, alpha, rhat),
    )


def _named(
    names: tuple[str, ...], dealt: Dealt, alpha: float, tests: int, *, differ: bool
) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
    """Columns, and the pairs of columns that speak most; adjusted for the tests too."""

    def named(name: str, p: float) -> Named:
        adjusted = min(1.0, tests * float(p))
        return Named(name, adjusted, bool(differ and adjusted <= alpha))

    columns = tuple(
        named(name, p) for name, p in zip(names, step_down(dealt.each_column()), strict=True)
    )
    if not len(dealt.products):
        return columns, ()
    first, second = pairs_of(len(names))
    pvalues = step_down(surprise(dealt.products, without=1))
    order = np.argsort(pvalues, kind="stable")[:MOST_PAIRS]
    return columns, tuple(
        named(f"{names[first[one]]} and {names[second[one]]}", pvalues[one]) for one in order
    )


def _clusters(dealt: Dealt, chains: int, level: float) -> tuple[tuple[int, ...], ...]:
    """Chains that are linked by pairs that cannot be told apart, the largest cluster first."""
    alike = dealt.pairs[step_down(dealt.each_pair()) > level]
    links = coo_array((np.ones(len(alike)), (alike[:, 0], alike[:, 1])), shape=(chains, chains))
    count, cluster = connected_components(links, directed=False)
    found = [tuple(int(one) for one in np.flatnonzero(cluster == index)) for index in range(count)]
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def _rhat(values: np.ndarray) -> float:
    """The largest rank-normalised R-hat over all parameters."""
    if len(values) < 2:
        return float("nan")
    each = [
        float(arviz_stats.rhat(values[:, :, one], method="rank", chain_axis=0, draw_axis=1))
        for one in range(values.shape[2])
    ]
    return float(np.nanmax(each))


def _notes(
    chains: Chains, left_out: tuple[str, ...], cut: Batches, alpha: float, rhat: float
) -> tuple[str, ...]:
    notes = []
    if rhat > RHAT_OF_RARE_MOVES:
        notes.append(RARE_MOVES.format(rhat=rhat, time=cut.time))
    if cut.short:
        alone = len(chains.labels) == 1
        mistaken = "a chain that does not drift" if alone else "chains that agree"
        mistaken += f" may be said to {'drift' if alone else 'disagree'}"
        notes.append(SHORT.format(times=(cut.length + cut.gap) / cut.time, mistaken=mistaken))
    # Halves of a chain may change places: so many different deals there are.
    ways = (math.comb(cut.each - cut.each % 2, cut.each // 2) // 2) ** cut.chains
    if min(2, cut.chains) > alpha * ways:
        notes.append(FEW_WAYS.format(count=cut.each - cut.each % 2, ways=ways))
    if cut.slow:
        notes.append(SLOW.format(chains=", ".join(str(chains.labels[one]) for one in cut.slow)))
    if left_out:
        notes.append(f"never moving, and left out: {', '.join(left_out)}")
    if len(chains.columns) > MOST_PAIRED:
        notes.append(
            f"of more than {MOST_PAIRED} parameters, correlations are not looked at by pairs"
        )
    stuck = [
        label
        for label, one in zip(chains.labels, chains.values, strict=True)
        if not np.ptp(one, axis=0).any()
    ]
    if stuck:
        notes.append(f"stuck at one point: chain {', '.join(map(str, stuck))}")
    for one, other in itertools.combinations(range(len(chains.labels)), 2):
        if np.array_equal(chains.values[one], chains.values[other]):
            same = f"{chains.labels[one]} and {chains.labels[other]}"
            notes.append(f"chains {same} have the very same draws, as of one seed")
    return tuple(notes)
