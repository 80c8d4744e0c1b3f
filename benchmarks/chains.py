"""Checks of chains: their level on autoregressions, and their power beside R-hat and R*.

Eight chains, or four of which none differs; columns are standard normal but for what one chain of
eight has otherwise. R-hat is ArviZ's, rank-normalised, and told to disagree above 1.01. R* (Lambert
and Vehtari 2022) is by gradient-boosted trees of scikit-learn that guess the chain of held-out
draws, three in ten, one for each autocorrelation time so that a binomial test of the share that is
right has a level. ``named``: how often the chain that differs stands alone among the clusters. The
table is written after every row; ``--resume`` goes on.
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
    """The second half of the chain elsewhere in one column."""
    draws[ODD, DRAWS // 2 :, 0] += 1.0


def shifted(draws: np.ndarray) -> None:
    """Another mean of one column."""
    draws[ODD, :, 0] += 0.25


def wider(draws: np.ndarray) -> None:
    """Another scale of one column."""
    draws[ODD, :, 0] *= 1.2


def correlated(draws: np.ndarray) -> None:
    """Another correlation of two columns."""
    draws[ODD, :, 1] = 0.25 * draws[ODD, :, 0] + np.sqrt(1.0 - 0.25**2) * draws[ODD, :, 1]


def tails(draws: np.ndarray) -> None:
    """Heavier tails of one column with the variance it had: a normal scaled by a random factor."""
    own = draws[ODD, :, 0]
    factor = np.where(np.random.default_rng(DRAWS).random(DRAWS) < 0.1, 2.0, 1.0)
    draws[ODD, :, 0] = own * factor / np.sqrt(np.mean(factor**2))


def signs(draws: np.ndarray) -> None:
    """The product of three columns' signs is positive more often: no two go together."""
    first = draws[ODD, :, :3]
    odd = np.prod(np.sign(first), axis=1) < 0.0
    flipped = odd & (np.random.default_rng(DRAWS).random(DRAWS) < 0.4)
    draws[ODD, flipped, 2] *= -1.0


def slower(draws: np.ndarray) -> None:
    """The same distribution at an autocorrelation of 0.9."""
    own = draws[ODD]
    noise = np.concatenate([own[:1], (own[1:] - PHI * own[:-1]) / np.sqrt(1.0 - PHI**2)])
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
    """The p-value of R*: whether trees guess the chain better than one in C."""
    kept = draws[:, :: max(1, int(np.ceil(time)))]
    labels = np.repeat(np.arange(len(kept)), kept.shape[1])
    rows = kept.reshape(len(labels), -1)
    order = np.random.default_rng(seed).permutation(len(rows))
    held = len(rows) * 3 // 10
    model = HistGradientBoostingClassifier(max_iter=50, random_state=seed)
    model.fit(rows[order[held:]], labels[order[held:]])
    right = int(np.sum(model.predict(rows[order[:held]]) == labels[order[:held]]))
    return float(binomtest(right, held, 1.0 / len(kept), alternative="greater").pvalue)


def rejected(
    setting: str, chains: int, columns: int, phi: float, permutations: int, seeds: range
) -> list[list[float]]:
    """Whether ours, R-hat and R* say that chains disagree, and whether the odd one stands alone."""
    found = []
    for seed in seeds:
        rng = np.random.default_rng([seed, columns, int(100 * phi)])
        length = 10_000 if phi > 0.95 else DRAWS
        draws = autoregression(chains, length, columns, phi, rng)
        if setting in CHANGES:
            CHANGES[setting](draws)
        ours = compare_chains(draws, n_resamples=permutations, seed=seed)
        others = [float(ours.rhat > RHAT_LIMIT), float("nan")]
        if setting in CHANGES:
            others[1] = float(rstar(draws, ours.autocorrelation_time, seed) <= ALPHA)
        found.append([float(not ours.agree), *others, float((ODD,) in ours.clusters)])
    return found


def summary(values: np.ndarray) -> repeats.Row:
    """The share of data sets."""
    names = ("bke", "R-hat", "R*", "named")
    shares = values.mean(axis=0)
    return {
        name: None if np.isnan(share) else float(share)
        for name, share in zip(names, shares, strict=True)
    }


def main() -> None:
    """Count and write."""
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

    repeats.fill("chains", "Checks of chains", keys, rejected, summary, text, options)


if __name__ == "__main__":
    main()
