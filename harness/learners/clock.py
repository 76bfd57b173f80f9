"""The seconds that each phase of training takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

PHASES = ("rollout", "policy", "curriculum", "evaluation")


class Clock:
    """Adds up the seconds of each phase of training; phases must not be nested."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the time spent inside to a phase."""
        started = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += perf_counter() - started
