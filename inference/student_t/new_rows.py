"""New rows drawn from a kernel Student-t density, as many as are asked for."""

from __future__ import annotations

import numpy as np

from .learning import LearnedStudentT
from .run import notes_of
from .sampling import pooled, sample_student_t

#: Chains of :func:`~bke.inference.sample_student_t`, and the fewest draws that each makes: fewer
#: would not tell whether they agree.
CHAINS, LEAST = 16, 250


def new_rows(
    learned: LearnedStudentT, count: int, *, seed: int = 0, progress: bool = True
) -> tuple[np.ndarray, list[str]]:
    """``count`` rows (count, D) of all chains alike, and what could mislead their reader."""
    draws = max(LEAST, -(-count // CHAINS))
    sampled = sample_student_t(learned, draws=draws, chains=CHAINS, seed=seed, progress=progress)
    return pooled(sampled, count), notes_of(sampled)
