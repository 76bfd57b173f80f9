"""Times the updates of several curricula within one process, interleaved so that drift cancels.

A *pass* replays every instance once with one curriculum. Passes are dealt into rounds, each round
in a random order, and the whole sequence is then run backwards (ABBA): whatever grows linearly
through the process costs every curriculum the same. Quick curricula get a pass in every round, slow
ones in few. The state is restored before every update, outside the timed region. The time of an
instance is the median over the passes of one half, averaged over the two halves.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from time import perf_counter_ns, process_time_ns
from typing import Any

import numpy as np

from pacebench import curricula
from pacebench.harness.overhead.cells import CLOCKS, BlockTimes, Floats, Instance

MAXIMUM_PASSES = 100
# Quicker updates are over before caches are warm, and every pass of them begins with some that are
# not timed: what ran before has filled the caches with its own, and a quick update would be charged
# for that, so that its time would depend on the company it is measured in.
QUICK, WARM = 0.01, 3


class Replay:
    """One curriculum, by its registered name, ready to make each instance's update again and again.

    In either half of a block it makes as many passes as fit into `share` seconds if an update takes
    `seconds`, at least one. Every update is stretched to `slowdown` times its time by busy waiting;
    1.05 serves to see whether 5 % would be found.
    """

    def __init__(
        self,
        name: str,
        instances: Sequence[Instance],
        seconds: float = QUICK,
        share: float = 0.0,
        slowdown: float = 1.0,
    ) -> None:
        wanted = round(share / (seconds * len(instances)))
        self.passes = min(max(wanted, 1), MAXIMUM_PASSES)
        self._warm, self._slowdown = WARM if seconds < QUICK else 0, slowdown
        self._cases = []
        for instance in instances:
            curriculum, contexts, values = instance.make(name), instance.contexts, instance.values
            given: tuple[Any, ...] = contexts, values
            if not curriculum.reads <= {"contexts", "values"}:
                # What else is read is made up from the values.
                given = (curricula.Episodes.standing_in(contexts, values, curriculum.reads),)
            self._cases.append((curriculum, curriculum.state_dict(), given))

    def solve(self, index: int) -> tuple[Any, curricula.UpdateRecord]:
        """Makes one untimed update; returns the distribution it led to, and its record."""
        curriculum, state, given = self._cases[index]
        curriculum.load_state_dict(state)
        record = curriculum.update(*given)
        return curriculum.distribution, record

    def time(self, index: int) -> tuple[float, float, float]:
        """Makes one update; returns its seconds of wall and CPU time, and those of its own step."""
        curriculum, state, given = self._cases[index]
        curriculum.load_state_dict(state)
        # The wall clock is read innermost: reading the CPU clock is a system call.
        cpu = process_time_ns()
        started = perf_counter_ns()
        record = curriculum.update(*given)
        elapsed = perf_counter_ns() - started
        if self._slowdown > 1.0:
            end = started + int(elapsed * self._slowdown)
            while perf_counter_ns() < end:
                pass
            elapsed = perf_counter_ns() - started
        # What the record says may be nothing at all, and a logarithm is taken of it.
        step = max(record.seconds, 1e-9)
        return elapsed * 1e-9, (process_time_ns() - cpu) * 1e-9, step

    def run(self) -> Floats:
        """Makes one pass; returns the seconds by all clocks, (instances, 3)."""
        count = len(self._cases)
        return np.array([self.time(i % count) for i in range(-self._warm, count)])[self._warm :]


def schedule(passes: Mapping[str, int], rng: np.random.Generator) -> list[list[str]]:
    """Returns the labels by round: each its number of passes, spread evenly, then all backwards."""
    rounds = max(passes.values())
    due: list[list[str]] = [[] for _ in range(rounds)]
    for label, count in passes.items():
        for n in range(count):
            # In the middle of its part, so that the only pass of a slow curriculum falls there.
            due[(2 * n + 1) * rounds // (2 * count)].append(label)
    half = [rng.permutation(labels).tolist() for labels in due]
    return [*half, *(labels[::-1] for labels in half[::-1])]


def time_block(replays: Mapping[str, Replay], rng: np.random.Generator) -> dict[str, BlockTimes]:
    """Times every contestant of one block, warmed up already, in an order that `rng` decides."""
    taken: dict[str, list[Floats]] = {label: [] for label in replays}
    # Garbage is collected between rounds: a collection of *other* objects would hit whichever
    # curriculum is running. What libraries made while they were imported is set aside.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for labels in schedule({label: r.passes for label, r in replays.items()}, rng):
            for label in labels:
                taken[label].append(replays[label].run())
            gc.collect()
    finally:
        gc.unfreeze()
        gc.enable()
    times = {}
    for label, runs in taken.items():
        halves = np.array(runs).reshape(2, replays[label].passes, -1, 3)
        middle = np.median(halves, axis=1).mean(axis=0).T
        digits = [tuple(float(f"{seconds:.5g}") for seconds in clock) for clock in middle]
        times[label] = dict(zip(CLOCKS, digits, strict=True))
    return times
