"""Level of the comparison of chains on autoregressions, and its power compared with R-hat and R*.

There are eight chains, of which one differs, or four that do not differ; columns are otherwise
standard normal. R-hat is ArviZ's, rank-normalized, and counts as a rejection above 1.01. R*
(Lambert and Vehtari 2022) uses gradient-boosted trees of scikit-learn that predict the chain of
held-out draws, three in ten. The draws are thinned to one per autocorrelation time, so that a
binomial test of the accuracy has a level. ``named`` is the proportion of data sets in which the
chain that differs is a cluster by itself. The table is written after every row; ``--resume`` adds
the missing rows.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import repeats
import report
from bke.inference import compare_chains
from scipy.signal import lfilter
from scipy.stats import binom, binomtest
from sklearn.ensemble import HistGradientBoostingClassifier
from stein import autoregression

ALPHA, RHAT_LIMIT = 0.05, 1.01
#: The chain that differs, of eight of a thousand draws in five columns of autocorrelation 0.5.
ODD, CHAINS, DRAWS, COLUMNS, PHI = 5, 8, 1000, 5, 0.5
#: The autocorrelation of a chain that mixes more slowly.
SLOW = 0.9


def elsewhere(draws: np.ndarray) -> None:
    """Shift the second half of the chain in one column."""
    draws[ODD, DRAWS // 2 :, 0] += 1.0


def shifted(draws: np.ndarray) -> None:
    """Shift the mean of one column."""
    draws[ODD, :, 0] += 0.25


def wider(draws: np.ndarray) -> None:
    """Increase the scale of one column."""
    draws[ODD, :, 0] *= 1.2


def correlated(draws: np.ndarray) -> None:
    """Correlate two columns."""
    draws[ODD, :, 1] = 0.25 * draws[ODD, :, 0] + np.sqrt(1.0 - 0.25**2) * draws[ODD, :, 1]


def tails(draws: np.ndarray) -> None:
    """Give one column heavier tails of equal variance: a normal scaled by a random factor."""
    column = draws[ODD, :, 0]
    factor = np.where(np.random.default_rng(DRAWS).random(DRAWS) < 0.1, 2.0, 1.0)
    draws[ODD, :, 0] = column * factor / np.sqrt(np.mean(factor**2))


def signs(draws: np.ndarray) -> None:
    """Make the product of three columns' signs mostly positive; no two columns are associated."""
    first = draws[ODD, :, :3]
    odd = np.prod(np.sign(first), axis=1) < 0.0
    flipped = odd & (np.random.default_rng(DRAWS).random(DRAWS) < 0.4)
    draws[ODD, flipped, 2] *= -1.0


def slower(draws: np.ndarray) -> None:
    """Increase the autocorrelation to 0.9 without a change of the distribution."""
    chain = draws[ODD]
    noise = np.concatenate([chain[:1], (chain[1:] - PHI * chain[:-1]) / np.sqrt(1.0 - PHI**2)])
    noise[1:] *= np.sqrt(1.0 - SLOW**2)
    draws[ODD] = lfilter([1.0], [1.0, -SLOW], noise, axis=0)


CHANGES: dict[str, Callable[[np.ndarray], None]] = {
    "half elsewhere": elsewhere,
    "mean": shifted,
    "scale": wider,
    "correlation": correlated,
    "tails": tails,
    "three signs": signs,
    "slower": slower,
}


def rstar(draws: np.ndarray, time: float, seed: int) -> float:
    """Return the p-value of R*: the accuracy of trees is compared with chance, 1 in C."""
    thinned = draws[:, :: max(1, int(np.ceil(time)))]
    labels = np.repeat(np.arange(len(thinned)), thinned.shape[1])
    rows = thinned.reshape(len(labels), -1)
    order = np.random.default_rng(seed).permutation(len(rows))
    num_held_out = len(rows) * 3 // 10
    model = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    model.fit(rows[order[num_held_out:]], labels[order[num_held_out:]])
    right = int(np.sum(model.predict(rows[order[:num_held_out]]) == labels[order[:num_held_out]]))
    return float(binomtest(right, num_held_out, 1.0 / len(thinned), alternative="greater").pvalue)


def measurements(
    setting: str, chains: int, columns: int, phi: float, permutations: int, seeds: range
) -> list[list[float]]:
    """For each seed: rejections by bke, R-hat and R*, and whether the odd chain is a cluster."""
    results = []
    for seed in seeds:
        rng = np.random.default_rng([seed, columns, int(100 * phi)])
        length = 10_000 if phi > 0.95 else DRAWS
        draws = autoregression(chains, length, columns, phi, rng)
        if setting in CHANGES:
            CHANGES[setting](draws)
        ours = compare_chains(draws, n_resamples=permutations, seed=seed)
        decisions = [float(ours.rhat > RHAT_LIMIT), float("nan")]
        if setting in CHANGES:
            decisions[1] = float(rstar(draws, ours.autocorrelation_time, seed) <= ALPHA)
        results.append([float(not ours.agree), *decisions, float((ODD,) in ours.clusters)])
    return results


def summary(values: np.ndarray) -> repeats.Row:
    """Return the proportions of data sets."""
    names = ("bke", "R-hat", "R*", "named")
    proportions = values.mean(axis=0)
    return {
        name: None if np.isnan(proportion) else float(proportion)
        for name, proportion in zip(names, proportions, strict=True)
    }


def main() -> None:
    """Run the settings and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    repeats.add_options(parser, repeats=200, permutations=499)
    options = parser.parse_args()
    keys: list[dict[str, Any]] = [
        {"setting": name, "chains": CHAINS, "D": COLUMNS, "phi": PHI} for name in CHANGES
    ]
    keys += [
        {"setting": "none", "chains": 4, "D": columns, "phi": phi}
        for phi, columns in itertools.product((0.0, 0.5, 0.9, 0.99), (1, 5, 20))
    ]
    if options.quick:
        options.repeats, keys = 3, [keys[0], keys[len(CHANGES)]]
    band = binom.interval(0.999, options.repeats, ALPHA)

    def text(rows: list[repeats.Row]) -> str:
        low, high = (edge / options.repeats for edge in band)
        return (
            f"{options.repeats} sets of chains each, level {ALPHA}, {options.permutations} "
            "permutations. "
            f"Where nothing differs (none) the 99.9 % band of a rate of {ALPHA} is {low:.3f} to "
            f"{high:.3f}.\n\n{report.table(rows)}"
        )

    repeats.fill("chains", "Checks of chains", keys, measurements, summary, text, options)


if __name__ == "__main__":
    main()
