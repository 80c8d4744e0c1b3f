"""What words and what groups of three characters texts hold.

A text is told by which of the most frequent ones it holds, so that a million texts are as many rows
of a table of a few hundred columns of yes and no: the features of a kernel of texts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse

#: Different words, or groups of characters, that are told apart.
MOST = 300
#: Texts in which the most frequent ones are looked for, and characters of each that are read.
TEXTS, CHARACTERS = 100_000, 400
#: Characters of a group.
LENGTH = 3
#: Rounding errors of sums of weights.
NEARLY = 1e-9
WORD = re.compile(r"\w+")
BLANKS = re.compile(r"\s+")


def words(text: str) -> set[str]:
    """The different words of a text, in lower case."""
    return set(WORD.findall(text[:CHARACTERS].lower()))


def characters(text: str) -> set[str]:
    """The different groups of three characters of a text, in lower case."""
    flat = BLANKS.sub(" ", text[:CHARACTERS].lower())
    return {flat[start : start + LENGTH] for start in range(len(flat) - LENGTH + 1)}


def looked_into(texts: Sequence[str]) -> np.ndarray:
    """Which of the texts (T,) of bool are looked into: all, or of very many some by their hash."""
    if len(texts) <= TEXTS:
        return np.ones(len(texts), dtype=bool)
    marks = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.array(marks) <= sorted(marks)[TEXTS - 1]


def held(
    texts: Sequence[str], times: np.ndarray, parts: Callable[[str], set[str]]
) -> tuple[tuple[str, ...], scipy.sparse.csr_array]:
    """Tell which texts hold which of the most frequent parts.

    Args:
        texts: different ones.
        times: (T,), how many rows have each; 0 of those that are not looked into.
        parts: of a text.

    Returns:
        the parts, and which text holds them, (K, T) of 0 and 1.
    """
    found = [parts(text) if count else set() for text, count in zip(texts, times, strict=True)]
    frequency: dict[str, float] = {}
    for of_text, count in zip(found, times, strict=True):
        for part in of_text:
            frequency[part] = frequency.get(part, 0.0) + count
    most = times.sum() * (1.0 - NEARLY)
    told = [(-n, part) for part, n in frequency.items() if 1.0 < n < most]
    kept = tuple(part for _, part in sorted(told)[:MOST])
    index = {part: place for place, part in enumerate(kept)}
    places = [
        (index[part], at) for at, of_text in enumerate(found) for part in of_text if part in index
    ]
    rows, columns = np.array(places, dtype=np.int64).reshape(-1, 2).T
    shape = (len(kept), len(texts))
    return kept, scipy.sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape).tocsr()
