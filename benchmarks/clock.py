"""Clocks of JAX's compilation and of the sampler of ``fit``."""

from __future__ import annotations

import functools
import time
from typing import Any

import jax
from bke.inference.sampling import no_u_turn

COMPILE_EVENTS = "/jax/core/compile/"


class CompileClock:
    """Seconds that JAX spends on tracing, lowering and compiling in this process from now on."""

    def __init__(self) -> None:
        self._intervals: list[tuple[float, float]] = []
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith(COMPILE_EVENTS):
            now = time.perf_counter()
            self._intervals.append((now - duration_secs, now))

    def seconds(self, begin: float, end: float) -> float:
        """Return the seconds between two times of ``perf_counter``; overlaps count once."""
        total, reached = 0.0, begin
        for left, right in sorted(self._intervals):
            left, right = max(left, reached), min(right, end)
            if right > left:
                total, reached = total + right - left, right
        return total


class SamplerClock:
    """When ``fit``'s sampler began, recorded its first draws, and ended.

    ``fit`` has no argument for this, so the sampler's ``run`` is wrapped for this process.
    """

    def __init__(self) -> None:
        self.begin = self.first = self.end = float("nan")
        self._compiling = CompileClock()
        original = no_u_turn.NutsProgram.run

        @functools.wraps(original)
        def run(sampler: Any, *args: Any, progress: Any = None, **settings: Any) -> Any:
            self.begin, self.first = time.perf_counter(), float("nan")
            result = original(sampler, *args, progress=_First(self, progress), **settings)
            self.end = time.perf_counter()
            return result

        no_u_turn.NutsProgram.run = run  # type: ignore[method-assign]

    @property
    def compilation(self) -> float:
        """Seconds of compilation since this clock was made."""
        return self._compiling.seconds(0.0, time.perf_counter())

    @property
    def sampling(self) -> float:
        """Seconds of the last run without those of compilation."""
        return self.end - self.begin - self._compiling.seconds(self.begin, self.end)


class _First:
    """Passes progress on and notes when the first comes."""

    def __init__(self, clock: SamplerClock, progress: Any) -> None:
        self._clock, self._progress = clock, progress

    def advance(self, chain: int, iterations: int, divergences: int) -> None:
        if self._clock.first != self._clock.first:
            self._clock.first = time.perf_counter()
        if self._progress is not None:
            self._progress.advance(chain, iterations, divergences)
